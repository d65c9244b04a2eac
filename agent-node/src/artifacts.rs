//! Content-addressed artifacts in an agent's store, and files beside it: content that is no text and larger than
//! [`blob::MIN_BYTES`].

mod files;
mod quota;
mod shown;

pub use engine::artifacts::{StoredArtifact, UploadedContent, blob_of, is_kept, read};
pub use files::{
    adopt, check_named, file, hand_over, keep_file, named_by, part_with_content, put_file, sweep_files,
};
pub use quota::ArtifactQuota;
pub use shown::ShownFiles;

use bytes::Bytes;
use engine::artifacts;
use protocol::{
    artifact::blob,
    ids::{AgentId, Digest},
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
    time::WallTime,
};
use store::{
    Error, Lane, Store,
    blobs::{BlobWriter, WrittenBlob},
};

/// Attempts to commit an artifact that others write concurrently, before [`Error::Full`].
const MAX_ATTEMPTS: usize = 64;

/// Stores `content` with `by` as a reader: what is large and no text as a file. Equal content is one artifact; `by` is added to its
/// readers.
pub async fn put(
    store: &dyn Store,
    me: &AgentId,
    by: &Principal,
    now: WallTime,
    media_type: Option<String>,
    content: Bytes,
) -> Result<Digest, Error> {
    if content.len() > blob::MIN_BYTES && std::str::from_utf8(&content).is_err() {
        return put_as_file(store, me, by, now, media_type, content).await;
    }
    put_row(store, me, by, now, media_type, &UploadedContent::Here(content)).await
}

/// Keeps `content` as a file, with `by` as a reader.
pub async fn put_as_file(
    store: &dyn Store,
    me: &AgentId,
    by: &Principal,
    now: WallTime,
    media_type: Option<String>,
    content: Bytes,
) -> Result<Digest, Error> {
    let written = written(store, content).await?;
    Ok(put_file(store, me, by, now, media_type.as_deref(), written).await?.digest)
}

/// Writes content where it blocks nobody.
async fn written(store: &dyn Store, content: Bytes) -> Result<WrittenBlob, Error> {
    let blobs = store.blobs();
    let write = move || {
        let mut writer = BlobWriter::begin(blobs.as_ref())?;
        writer.write(&content)?;
        Ok(writer.finish())
    };
    tokio::task::spawn_blocking(write).await.unwrap_or_else(|error| Err(Error::Unknown(error.to_string())))
}

/// Writes the row of content, and the content if it is in the store.
async fn put_row(
    store: &dyn Store,
    me: &AgentId,
    by: &Principal,
    now: WallTime,
    media_type: Option<String>,
    content: &UploadedContent,
) -> Result<Digest, Error> {
    for _ in 0..MAX_ATTEMPTS {
        let (digest, batch) = artifacts::put(store, me, by, now, media_type.clone(), content.clone())?;
        match store.commit(Lane::Admission, batch).await {
            // A concurrent writer has added a reader; the retry keeps it.
            Err(Error::Conflict { .. }) => {}
            outcome => return outcome.map(|_| digest),
        }
    }
    Err(Error::Full)
}

/// The bytes of an artifact that `by` may read, and its media type.
pub async fn bytes(
    store: &dyn Store,
    me: &AgentId,
    digest: &Digest,
    by: &Principal,
    proof: SenderProof,
) -> Result<(Bytes, Option<String>), Problem> {
    let StoredArtifact { content, media_type } = read(store, me, digest, by, proof)?;
    let content = match content {
        UploadedContent::Here(content) => content,
        UploadedContent::Blob(blob) => file(store, me, blob.digest).await?,
    };
    Ok((content, media_type))
}

/// Removes `by` from an artifact's readers; the next sweep deletes an artifact without readers.
pub(crate) async fn release(
    store: &dyn Store,
    me: &AgentId,
    digest: &Digest,
    by: &Principal,
) -> Result<(), Error> {
    match artifacts::release(store, me, digest, by)? {
        Some(batch) => store.commit(Lane::Progress, batch).await.map(drop),
        None => Ok(()),
    }
}

fn missing(digest: Digest) -> Problem {
    Problem::new(Reason::ArtifactNotFound, format!("no artifact {digest} of yours"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{embedded, memory};

    #[tokio::test]
    async fn every_concurrent_writer_of_an_artifact_may_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let on_disk = embedded::open(directory.path(), embedded::StoreOptions::default()).unwrap();
        for store in [memory::new(), on_disk] {
            let me = AgentId::parse("a").unwrap();
            let who: Vec<_> =
                (0..16).map(|at| Principal::Agent(AgentId::parse(&format!("peer-{at}")).unwrap())).collect();
            for content in [Bytes::from_static(b"the same for all"), vec![255; blob::MIN_BYTES + 1].into()] {
                let puts =
                    who.iter().map(|by| put(store.as_ref(), &me, by, WallTime(1), None, content.clone()));
                let put = futures_util::future::join_all(puts).await;
                for (by, digest) in who.iter().zip(put) {
                    let digest = digest.unwrap();
                    let read = bytes(store.as_ref(), &me, &digest, by, SenderProof::Credential).await;
                    assert_eq!(read.map(|(content, _)| content).ok().as_ref(), Some(&content), "{by}");
                }
            }
        }
    }
}
