//! Files: content that is kept as a blob beside the store. Parts of messages and artifacts name them ([`BlobRef`]).

use super::{missing, put_row, written};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use engine::artifacts::{self, UploadedContent};
use protocol::{
    artifact::{BlobRef, Part, PartContent, blob},
    ids::{AgentId, Digest},
    principal::Principal,
    problem::{Problem, Reason},
    time::WallTime,
};
use serde_json::Value;
use std::time::Duration;
use store::{
    Error, Store,
    blobs::{self, WrittenBlob},
};

/// How long a blob is kept at most without a row: it is put before the row.
const MAX_UNNAMED: Duration = Duration::from_secs(3_600);

/// Keeps a file that was written, with `by` as a reader.
pub async fn put_file(
    store: &dyn Store,
    me: &AgentId,
    by: &Principal,
    now: WallTime,
    media_type: Option<&str>,
    written: WrittenBlob,
) -> Result<BlobRef, Error> {
    let blob = BlobRef { digest: written.digest, bytes: written.bytes };
    written.keep(me.as_str()).await?;
    put_row(store, me, by, now, media_type.map(str::to_owned), &UploadedContent::Blob(blob)).await?;
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
    let bytes = content.len();
    let written = written(store, content.into()).await?;
    let media_type = part.media_type.as_deref();
    let blob = put_file(store, me, by, now, media_type, written).await?;
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
    let Some(BlobRef { digest, .. }) = BlobRef::of(part) else { return Ok(0) };
    // What the name says of the size is the word of whoever has written it.
    let known = artifacts::blob_of(store, me, &digest)?.ok_or_else(|| missing(digest))?;
    if known.bytes > max {
        return Ok(0);
    }
    let content = file(store, me, digest).await?;
    part.content = PartContent::Raw(STANDARD.encode(&content));
    Ok(content.len() as u64)
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
        tokio::task::yield_now().await;
        if !artifacts::is_known(store, me, &digest)? && blobs.delete(me.as_str(), digest, keep).await? {
            deleted += 1;
        }
    }
    Ok(deleted)
}

/// Fails if the parts of a message name a file that `by` has not put here.
pub fn check_named(store: &dyn Store, me: &AgentId, by: &Principal, message: &Value) -> Result<(), Problem> {
    let mut urls = Vec::new();
    blob::urls_of_parts(message, &mut |url| urls.push(url.to_owned()));
    for url in urls {
        let Some(named) = BlobRef::parse(&url) else {
            return Err(Problem::new(Reason::InvalidField, format!("{url:?} is the name of no file")));
        };
        let BlobRef { digest, .. } = named;
        let is_put = artifacts::is_kept(store, me, &digest, by, WallTime(i64::MIN))?;
        if !is_put || artifacts::blob_of(store, me, &digest)? != Some(named) {
            return Err(Problem::new(Reason::ArtifactNotFound, format!("no file {digest} of yours is here"))
                .with("sha256", digest));
        }
    }
    Ok(())
}

/// The digests of the files that the parts of a message name.
pub fn named_by(message: &Value) -> Vec<Digest> {
    let mut files = Vec::new();
    blob::urls_of_parts(message, &mut |url| files.extend(BlobRef::parse(url).map(|blob| blob.digest)));
    files.sort_unstable();
    files.dedup();
    files
}
