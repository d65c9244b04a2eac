//! Content by digest: put once, read by whoever put it and whoever works with it.

use crate::conversation::{
    record::{TaskRow, keys},
    spill,
};
use blackboard::store::{Batch, Error, Expectation, Filter, Key, Lane, Revision, Store, Write};
use bytes::Bytes;
use protocol::{
    artifact::{Artifact, Content, Part},
    ids::{AgentId, Digest},
    principal::Principal,
    problem::{Problem, Reason},
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use serde_json::Map;
use std::collections::BTreeSet;

/// What is known of a put artifact beside its content.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Known {
    media_type: Option<String>,
    bytes: usize,
    readers: BTreeSet<Principal>,
    /// When it was put last.
    #[serde(default)]
    put_at: WallTime,
}

/// An artifact that was put.
pub struct Stored {
    /// Its content.
    pub content: Bytes,
    /// Its type, if whoever put it said.
    pub media_type: Option<String>,
}

impl Stored {
    /// As one part of a task's artifact.
    pub fn into_artifact(self, name: String, media_type: Option<String>) -> Artifact {
        use base64::Engine as _;
        let content = match String::from_utf8(self.content.to_vec()) {
            Ok(text) => Content::Text(text),
            Err(error) => Content::Raw(base64::engine::general_purpose::STANDARD.encode(error.as_bytes())),
        };
        let part = Part { media_type: media_type.or(self.media_type), ..Part::new(content) };
        Artifact {
            artifact_id: name.clone(),
            name: Some(name),
            description: None,
            parts: vec![part],
            metadata: Map::new(),
            extensions: Vec::new(),
        }
    }
}

/// How often two who put the same artifact may come in each other's way before one is told to come back.
const MOST_TRIES: usize = 64;

/// Keeps `content`; the same content again is the same artifact, with one reader more.
pub async fn put(
    store: &dyn Store,
    me: &AgentId,
    by: &Principal,
    now: WallTime,
    media_type: Option<String>,
    content: Bytes,
) -> Result<Digest, Error> {
    let digest = Digest::of(&content);
    let key = keys::artifact(me, &digest);
    let mut tries = 0;
    loop {
        let (mut known, expectation) = match known(store, me, &digest)? {
            Some((revision, known)) => (known, Expectation::At(key.clone(), revision)),
            None => {
                let readers = BTreeSet::new();
                let known =
                    Known { media_type: media_type.clone(), bytes: content.len(), readers, put_at: now };
                (known, Expectation::Absent(key.clone()))
            }
        };
        known.readers.insert(by.clone());
        known.put_at = now;
        let bytes = serde_json::to_vec(&known).map_err(|error| Error::Refused(error.to_string()))?;
        let writes = vec![
            Write::Put(keys::content(me, &digest), content.clone()),
            Write::Put(key.clone(), bytes.into()),
        ];
        let batch = Batch { writes, expectations: vec![expectation] };
        tries += 1;
        match store.commit(Lane::Admission, batch).await {
            // Somebody else has put it meanwhile, and must stay a reader.
            Err(Error::Conflict { .. }) if tries < MOST_TRIES => {}
            Err(Error::Conflict { .. }) => return Err(Error::Full),
            outcome => return outcome.map(|_| digest),
        }
    }
}

/// The artifact of that digest, if `by` may read it: whoever put it, and the owner and participants of every task that
/// began with it.
pub fn read(store: &dyn Store, me: &AgentId, digest: &Digest, by: &Principal) -> Result<Stored, Problem> {
    let missing = || Problem::new(Reason::ArtifactNotFound, format!("no artifact {digest} of yours"));
    let failed = |error: Error| crate::agent::store_problem(&error);
    let (_, known) = known(store, me, digest).map_err(failed)?.ok_or_else(missing)?;
    if !known.readers.contains(by) && !works_with(store, me, digest, by).map_err(failed)? {
        return Err(missing());
    }
    let record = store.latest(&keys::content(me, digest)).map_err(failed)?.ok_or_else(missing)?;
    Ok(Stored { content: record.value, media_type: known.media_type })
}

/// Nobody reads it for `by` any more; what nobody else has put goes with the next sweep.
pub(crate) async fn let_go(
    store: &dyn Store,
    me: &AgentId,
    digest: &Digest,
    by: &Principal,
) -> Result<(), Error> {
    let Some((revision, mut known)) = known(store, me, digest)? else { return Ok(()) };
    known.readers.remove(by);
    if known.readers.is_empty() {
        known.put_at = WallTime::default();
    }
    let key = keys::artifact(me, digest);
    let bytes = serde_json::to_vec(&known).map_err(|error| Error::Refused(error.to_string()))?;
    let expectations = vec![Expectation::At(key.clone(), revision)];
    let batch = Batch { writes: vec![Write::Put(key, bytes.into())], expectations };
    store.commit(Lane::Progress, batch).await.map(drop)
}

/// The most tasks looked at that began with one artifact.
const MOST_TASKS: usize = 256;

fn works_with(store: &dyn Store, me: &AgentId, digest: &Digest, by: &Principal) -> Result<bool, Error> {
    let began = Filter::Below(Key::new(&[me.as_str(), "reader", &digest.to_string()]));
    for record in store.read(&began, 0, MOST_TASKS)? {
        let tokens = record.key.tokens();
        let [_, _, _, task, owner] = tokens.as_slice() else { continue };
        let Some(row) = store.latest(&Key::new(&[me.as_str(), "task", task, owner]))? else { continue };
        let row: TaskRow = spill::decode(me, store, &row.value)?;
        if row.task.is_visible_to(by) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Where the record of that artifact stands, and when it was put last; `None` if nobody has put it.
pub(crate) fn put_last(
    store: &dyn Store,
    me: &AgentId,
    digest: &Digest,
) -> Result<Option<(Revision, WallTime)>, Error> {
    Ok(known(store, me, digest)?.map(|(revision, known)| (revision, known.put_at)))
}

fn known(store: &dyn Store, me: &AgentId, digest: &Digest) -> Result<Option<(Revision, Known)>, Error> {
    let Some(record) = store.latest(&keys::artifact(me, digest))? else { return Ok(None) };
    let known = serde_json::from_slice(&record.value)
        .map_err(|error| Error::Refused(format!("{} can't be read: {error}", record.key)))?;
    Ok(Some((record.revision, known)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use blackboard::store::{embedded, memory};

    #[tokio::test]
    async fn all_who_put_the_same_artifact_at_once_may_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let on_disk = embedded::open(directory.path(), embedded::Options::default()).unwrap();
        for store in [memory::new(), on_disk] {
            let me = AgentId::parse("a").unwrap();
            let who: Vec<_> =
                (0..16).map(|at| Principal::Agent(AgentId::parse(&format!("peer-{at}")).unwrap())).collect();
            let content = Bytes::from_static(b"the same for all");
            let puts = who.iter().map(|by| put(store.as_ref(), &me, by, WallTime(1), None, content.clone()));
            let put = futures_util::future::join_all(puts).await;
            for (by, digest) in who.iter().zip(put) {
                let read = read(store.as_ref(), &me, &digest.unwrap(), by);
                assert_eq!(read.map(|stored| stored.content).ok().as_ref(), Some(&content), "{by}");
            }
        }
    }
}
