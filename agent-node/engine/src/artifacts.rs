//! Content by digest: uploaded artifacts, which their uploaders and the participants of tasks that use them may read, and
//! results of tasks of which the board was told. Of a blob the store has the row only; who keeps the blob puts it before.

use crate::{
    chunks, content,
    records::{TaskRow, keys},
};
use bytes::Bytes;
use patterns::session::is_shown_to;
use protocol::{
    artifact::{self, Artifact, BlobRef, Part, PartContent},
    ids::{AgentId, Digest},
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
    signal,
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use serde_json::Map;
use std::collections::BTreeSet;
use store_types::{Batch, Error, Expectation, Filter, Key, Record, Revision, Snapshot, Write};

/// The value of a [`keys::reader`] row of a task's result of which the board was told.
pub(crate) const SHARED: &[u8] = b"{\"shared\":true}";

/// The row of an uploaded artifact.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArtifactRow {
    media_type: Option<String>,
    bytes: usize,
    readers: BTreeSet<Principal>,
    /// Whether it is kept as a blob, for good.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    blob: bool,
    /// The time of the last upload.
    #[serde(default)]
    put_at: WallTime,
}

/// An uploaded artifact.
pub struct StoredArtifact {
    pub content: UploadedContent,
    /// Its media type, if the uploader named one.
    pub media_type: Option<String>,
}

/// Where uploaded content is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadedContent {
    /// In the store.
    Here(Bytes),
    /// Beside it.
    Blob(BlobRef),
}

impl UploadedContent {
    /// Its digest.
    pub fn digest(&self) -> Digest {
        match self {
            Self::Here(content) => Digest::of(content),
            Self::Blob(blob) => blob.digest,
        }
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Here(content) => content.len(),
            Self::Blob(blob) => usize::try_from(blob.bytes).unwrap_or(usize::MAX),
        }
    }
}

/// The content record of a blob that is no text in the store, too. The sweep deletes it when nothing refers to the digest.
const BLOB: &[u8] = b"\0";

impl StoredArtifact {
    /// The artifact of a task, with the content as its only part.
    pub fn into_artifact(self, name: String, media_type: Option<String>) -> Artifact {
        use base64::Engine as _;
        let content = match self.content {
            UploadedContent::Blob(blob) => blob.content(),
            UploadedContent::Here(content) => match String::from_utf8(content.to_vec()) {
                Ok(text) => PartContent::Text(text),
                Err(error) => {
                    PartContent::Raw(base64::engine::general_purpose::STANDARD.encode(error.as_bytes()))
                }
            },
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

/// The batch that stores `content` for `by`. The same content again adds a reader. The batch conflicts with a concurrent
/// upload.
pub fn put(
    store: &dyn Snapshot,
    me: &AgentId,
    by: &Principal,
    now: WallTime,
    media_type: Option<String>,
    content: UploadedContent,
) -> Result<(Digest, Batch), Error> {
    let (digest, bytes) = (content.digest(), content.bytes());
    let (key, content_key) = (keys::artifact(me, &digest), keys::content(me, &digest));
    let (mut known, expectation) = match artifact_row(store, me, &digest)? {
        Some((revision, known)) => (known, Expectation::At(key.clone(), revision)),
        None => {
            let readers = BTreeSet::new();
            let known = ArtifactRow { media_type, bytes, readers, blob: false, put_at: now };
            (known, Expectation::Absent(key.clone()))
        }
    };
    known.readers.insert(by.clone());
    known.put_at = now;
    known.blob |= matches!(content, UploadedContent::Blob(_));
    let (content, of_content) = match content {
        UploadedContent::Here(content) => (content, None),
        // Records may refer to a text of the same digest, which stays as it is.
        UploadedContent::Blob(_) => match store.latest(&content_key)? {
            Some(record) => (record.value, Some(Expectation::At(content_key.clone(), record.revision))),
            None => (Bytes::from_static(BLOB), Some(Expectation::Absent(content_key.clone()))),
        },
    };
    let writes = vec![Write::Put(content_key, content), Write::Put(key, row(&known)?)];
    Ok((
        digest,
        Batch { writes, expectations: [Some(expectation), of_content].into_iter().flatten().collect() },
    ))
}

/// The blob with this digest, if the agent has it.
pub fn blob_of(store: &dyn Snapshot, me: &AgentId, digest: &Digest) -> Result<Option<BlobRef>, Error> {
    let known = artifact_row(store, me, digest)?.map(|(_, known)| known).filter(|known| known.blob);
    Ok(known.map(|known| BlobRef { digest: *digest, bytes: known.bytes as u64 }))
}

/// Whether a record names content of the agent with this digest, or did so at its last sweep.
pub fn is_known(store: &dyn Snapshot, me: &AgentId, digest: &Digest) -> Result<bool, Error> {
    Ok(store.latest(&keys::content(me, digest))?.is_some())
}

/// The batch that removes `by` from the readers. An artifact without readers is deleted by the next sweep. `None` if there
/// is no such artifact.
pub fn release(
    store: &dyn Snapshot,
    me: &AgentId,
    digest: &Digest,
    by: &Principal,
) -> Result<Option<Batch>, Error> {
    let Some((revision, mut known)) = artifact_row(store, me, digest)? else { return Ok(None) };
    known.readers.remove(by);
    if known.readers.is_empty() {
        known.put_at = WallTime::default();
    }
    let key = keys::artifact(me, digest);
    let expectations = vec![Expectation::At(key.clone(), revision)];
    Ok(Some(Batch { writes: vec![Write::Put(key, row(&known)?)], expectations }))
}

/// Whether the content with this digest was uploaded at or after `since`, and `by` may read it.
pub fn is_kept(
    store: &dyn Snapshot,
    me: &AgentId,
    digest: &Digest,
    by: &Principal,
    since: WallTime,
) -> Result<bool, Error> {
    let known = artifact_row(store, me, digest)?;
    Ok(known.is_some_and(|(_, known)| known.put_at >= since && known.readers.contains(by)))
}

/// How many bytes are kept for `by`: of artifacts that it has uploaded, and, for a user, of its large requests whose tasks are
/// kept.
pub fn kept_bytes(store: &dyn Snapshot, me: &AgentId, by: &Principal) -> Result<u64, Error> {
    // A row that can't be read is that of nobody.
    let uploaded = |record: &Record| {
        let known = serde_json::from_slice::<ArtifactRow>(&record.value).ok();
        known.filter(|known| known.readers.contains(by)).map_or(0, |known| known.bytes as u64)
    };
    let owner = by.to_string();
    let is_user = matches!(by, Principal::User(_));
    let requested = |record: &Record| {
        let is_own = is_user && record.key.tokens().last().is_some_and(|of| *of == owner);
        let row = is_own.then(|| content::outline::<RequestSize>(&record.value).ok()).flatten();
        row.map_or(0, |row| row.request_bytes)
    };
    Ok(sum(store, &keys::all(me, "artifact"), uploaded)? + sum(store, &keys::all(me, "task"), requested)?)
}

/// The member of a task's row that says how large its request was.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestSize {
    #[serde(default)]
    request_bytes: u64,
}

fn sum(store: &dyn Snapshot, filter: &Filter, bytes_of: impl Fn(&Record) -> u64) -> Result<u64, Error> {
    let (mut bytes, mut after) = (0, 0);
    loop {
        let page = store.read(filter, after, PAGE)?;
        let Some(last) = page.last() else { return Ok(bytes) };
        after = last.revision;
        bytes += page.iter().map(&bytes_of).sum::<u64>();
    }
}

/// Rows read at once.
const PAGE: usize = 256;

fn row(known: &ArtifactRow) -> Result<Bytes, Error> {
    serde_json::to_vec(known).map(Bytes::from).map_err(|error| Error::Refused(error.to_string()))
}

/// The content with this digest, if `by` may read it: an uploaded artifact as an uploader, or as owner or participant of a
/// task that uses it; the result of a task, of which a signal tells, as anyone who may see the signal.
pub fn read(
    store: &dyn Snapshot,
    me: &AgentId,
    digest: &Digest,
    by: &Principal,
    proof: SenderProof,
) -> Result<StoredArtifact, Problem> {
    let missing = || Problem::new(Reason::ArtifactNotFound, format!("no artifact {digest} of yours"));
    let uploaded = artifact_row(store, me, digest)?;
    let is_uploader = uploaded.as_ref().is_some_and(|(_, known)| known.readers.contains(by));
    let upload = |(_, known): (Revision, ArtifactRow)| {
        let content = match known.blob {
            true => UploadedContent::Blob(BlobRef { digest: *digest, bytes: known.bytes as u64 }),
            false => {
                let record = store.latest(&keys::content(me, digest))?.ok_or_else(missing)?;
                UploadedContent::Here(record.value)
            }
        };
        Ok(StoredArtifact { content, media_type: known.media_type })
    };
    if let Some(uploaded) = uploaded.clone().filter(|_| is_uploader) {
        return upload(uploaded);
    }
    let uses = Filter::Below(Key::new(&[me.as_str(), "reader", &digest.to_string()]));
    for record in store.read(&uses, 0, MOST_TASKS)? {
        let tokens = record.key.tokens();
        let [_, _, _, task, owner] = tokens.as_slice() else { continue };
        let Some(row) = store.latest(&Key::new(&[me.as_str(), "task", task, owner]))? else { continue };
        let row: TaskRow = content::decode(me, store, &row.value)?;
        let is_visible = row.task.is_visible_to(by) && is_shown_to(&row.task, by, proof);
        let is_shared = record.value == SHARED && signal::sees_all(by);
        if let Some(uploaded) = uploaded.clone().filter(|_| is_visible || is_shared) {
            return upload(uploaded);
        }
        if record.value != SHARED || !(is_visible || is_shared) {
            continue;
        }
        let results = chunks::artifacts_of(store, me, &row, Revision::MAX)?;
        let mut results = results.iter().map(artifact::content);
        if let Some((content, media_type)) = results.find(|(content, _)| Digest::of(content) == *digest) {
            let content = UploadedContent::Here(content.into());
            return Ok(StoredArtifact { content, media_type: Some(media_type) });
        }
    }
    Err(missing())
}

/// The most tasks with an artifact as input or result that are checked.
const MOST_TASKS: usize = 256;

/// The revision of an artifact's row and the time of its last upload; `None` if there is no such artifact.
pub(crate) fn last_put(
    store: &dyn Snapshot,
    me: &AgentId,
    digest: &Digest,
) -> Result<Option<(Revision, WallTime)>, Error> {
    Ok(artifact_row(store, me, digest)?.map(|(revision, known)| (revision, known.put_at)))
}

fn artifact_row(
    store: &dyn Snapshot,
    me: &AgentId,
    digest: &Digest,
) -> Result<Option<(Revision, ArtifactRow)>, Error> {
    let Some(record) = store.latest(&keys::artifact(me, digest))? else { return Ok(None) };
    let known = serde_json::from_slice(&record.value)
        .map_err(|error| Error::Refused(format!("{} can't be read: {error}", record.key)))?;
    Ok(Some((record.revision, known)))
}
