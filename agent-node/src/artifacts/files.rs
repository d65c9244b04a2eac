//! Files: content that is kept as a blob beside the store. Parts of messages and artifacts name them ([`BlobRef`]).

use super::{missing, put_row};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use blackboard::store::{
    Error, Store,
    blobs::{self, BlobWriter, WrittenBlob},
};
use bytes::Bytes;
use engine::artifacts::{self, UploadedContent};
use protocol::{
    artifact::{BlobRef, Part, PartContent, blob},
    ids::{AgentId, Digest},
    principal::Principal,
    problem::{Problem, Reason},
    time::WallTime,
};
use std::time::Duration;

/// How long a blob is kept at most without a row: it is put before the row.
const MAX_UNNAMED: Duration = Duration::from_secs(3_600);

/// Keeps a file that was written, with `readers`.
pub async fn put_file(
    store: &dyn Store,
    me: &AgentId,
    readers: &[Principal],
    now: WallTime,
    media_type: Option<&str>,
    written: WrittenBlob,
) -> Result<BlobRef, Error> {
    let blob = BlobRef { digest: written.digest, bytes: written.bytes };
    written.keep(me.as_str()).await?;
    for by in readers {
        let content = UploadedContent::Blob(blob);
        put_row(store, me, by, now, media_type.map(str::to_owned), &content).await?;
    }
    Ok(blob)
}

/// Keeps the content of a part with more than [`blob::MIN_BYTES`] of base64 as a file, which `by` may read, and names it instead.
/// Other parts, and what is no base64, stay as they are. Returns the bytes of the file.
pub async fn keep_file(
    store: &dyn Store,
    me: &AgentId,
    by: &Principal,
    now: WallTime,
    part: &mut Part,
) -> Result<usize, Error> {
    let PartContent::Raw(raw) = &part.content else { return Ok(0) };
    if raw.len() <= blob::MIN_BYTES {
        return Ok(0);
    }
    let Ok(content) = STANDARD.decode(raw) else { return Ok(0) };
    let mut writer = BlobWriter::begin(store.blobs().as_ref())?;
    writer.write(&content)?;
    let bytes = content.len();
    drop(content);
    let media_type = part.media_type.as_deref();
    let blob = put_file(store, me, std::slice::from_ref(by), now, media_type, writer.finish()).await?;
    part.content = blob.content();
    Ok(bytes)
}

/// Lets `by` read a file of the agent. Whether there is one.
pub async fn adopt(
    store: &dyn Store,
    me: &AgentId,
    by: &Principal,
    now: WallTime,
    digest: Digest,
) -> Result<bool, Error> {
    let Some(blob) = artifacts::blob_of(store, me, &digest)? else { return Ok(false) };
    put_row(store, me, by, now, None, &UploadedContent::Blob(blob)).await?;
    Ok(true)
}

/// Gives a file of one agent of this process to another one, for whose store it is the sender's.
pub async fn hand_over(
    store: (&dyn Store, &dyn Store),
    (from, to): (&AgentId, &AgentId),
    now: WallTime,
    digest: Digest,
) -> Result<(), Problem> {
    let (own, theirs) = store;
    let Some(blob) = artifacts::blob_of(own, from, &digest)? else { return Err(missing(digest)) };
    if !theirs.blobs().share(from.as_str(), to.as_str(), digest).await? {
        return Err(missing(digest));
    }
    let sender = Principal::Agent(from.clone());
    put_row(theirs, to, &sender, now, None, &UploadedContent::Blob(blob)).await?;
    Ok(())
}

/// The bytes of a file of the agent, whoever asks.
pub async fn file(store: &dyn Store, me: &AgentId, digest: Digest) -> Result<Bytes, Problem> {
    let content = blobs::read(store.blobs().as_ref(), me.as_str(), digest).await?;
    content.ok_or_else(|| missing(digest))
}

/// The part with its content instead of the file's name, if that has at most `max` bytes.
pub async fn part_with_content(
    store: &dyn Store,
    me: &AgentId,
    part: &mut Part,
    max: u64,
) -> Result<u64, Problem> {
    let Some(blob) = BlobRef::of(part).filter(|blob| blob.bytes <= max) else { return Ok(0) };
    let content = file(store, me, blob.digest).await?;
    part.content = PartContent::Raw(STANDARD.encode(&content));
    Ok(blob.bytes)
}

/// Deletes the files of an agent that no row names any more. They are kept for `keep`, at most an hour. The next sweep tries again
/// what fails.
pub async fn sweep_files(store: &dyn Store, me: &AgentId, keep: Duration) {
    match delete_unnamed(store, me, keep.min(MAX_UNNAMED)).await {
        Ok(0) => {}
        Ok(files) => tracing::debug!(agent = %me, files, "files that no record names are deleted"),
        Err(problem) => tracing::warn!(agent = %me, %problem, "files can't be swept"),
    }
}

async fn delete_unnamed(store: &dyn Store, me: &AgentId, keep: Duration) -> Result<usize, Problem> {
    let (blobs, mut deleted) = (store.blobs(), 0);
    for digest in blobs.list(me.as_str()).await? {
        if !artifacts::is_known(store, me, &digest)? && blobs.delete(me.as_str(), digest, keep).await? {
            deleted += 1;
        }
    }
    Ok(deleted)
}

/// Fails if JSON names a file that `by` has not put here.
pub fn check_named(store: &dyn Store, me: &AgentId, by: &Principal, json: &[u8]) -> Result<(), Problem> {
    let mut named = Vec::new();
    blob::named_in(json, |digest| named.push(digest));
    for digest in named {
        if !artifacts::is_kept(store, me, &digest, by, WallTime(i64::MIN))? {
            return Err(Problem::new(Reason::ArtifactNotFound, format!("no file {digest} of yours is here"))
                .with("sha256", digest));
        }
    }
    Ok(())
}
