//! Content by digest: put once, read by whoever put it and whoever works with it.

use crate::conversation::record::keys;
use blackboard::store::{Batch, Error, Lane, Store, Write};
use bytes::Bytes;
use protocol::{
    artifact::{Artifact, Content, Part},
    ids::{AgentId, Digest},
    principal::Principal,
    problem::{Problem, Reason},
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

/// Keeps `content`; the same content again is the same artifact, with one reader more.
pub async fn put(
    store: &dyn Store,
    me: &AgentId,
    by: &Principal,
    media_type: Option<String>,
    content: Bytes,
) -> Result<Digest, Error> {
    let digest = Digest::of(&content);
    let mut known = known(store, me, &digest)?.unwrap_or(Known {
        media_type,
        bytes: content.len(),
        readers: BTreeSet::new(),
    });
    known.readers.insert(by.clone());
    let bytes = serde_json::to_vec(&known).map_err(|error| Error::Refused(error.to_string()))?;
    let writes = vec![
        Write::Put(keys::content(me, &digest), content),
        Write::Put(keys::artifact(me, &digest), bytes.into()),
    ];
    store.commit(Lane::Admission, Batch { writes, expectations: Vec::new() }).await?;
    Ok(digest)
}

/// The artifact of that digest, if `by` may read it: whoever put it, and every agent of the mesh.
pub fn read(store: &dyn Store, me: &AgentId, digest: &Digest, by: &Principal) -> Result<Stored, Problem> {
    let missing = || Problem::new(Reason::ArtifactNotFound, format!("no artifact {digest} of yours"));
    let failed = |error: Error| crate::agent::store_problem(&error);
    let known = known(store, me, digest).map_err(failed)?.ok_or_else(missing)?;
    if by.agent().is_none() && !known.readers.contains(by) {
        return Err(missing());
    }
    let record = store.latest(&keys::content(me, digest)).map_err(failed)?.ok_or_else(missing)?;
    Ok(Stored { content: record.value, media_type: known.media_type })
}

fn known(store: &dyn Store, me: &AgentId, digest: &Digest) -> Result<Option<Known>, Error> {
    let record = store.latest(&keys::artifact(me, digest))?;
    Ok(record.and_then(|record| serde_json::from_slice(&record.value).ok()))
}
