//! Blobs: content that is too large for a record, by its digest. They are kept beside the store, before the record that names them is
//! written, and deleted when no record does any more.

mod folder;
mod memory;

pub use folder::BlobFolder;
pub use memory::BlobMemory;

use super::{Error, StoreFuture};
use bytes::Bytes;
use protocol::ids::{Digest, DigestOfPieces};
use std::{ops::Range, sync::Arc, time::Duration};

/// Shared blobs.
pub type SharedBlobs = Arc<dyn Blobs>;

/// Promises, for every place:
/// 1. When `keep` or `share` resolves, the blob is durable (memory excepted), and [`Blobs::get`] returns what was written.
/// 2. Blobs of one owner are no other's: an owner gets, lists and deletes its own.
/// 3. What is not kept is gone after a restart.
pub trait Blobs: Send + Sync {
    /// Begins content whose digest is not known yet.
    fn draft(&self) -> Result<Box<dyn BlobDraft>, Error>;

    /// The bytes in `range`, or as many of them as there are; `None` if the owner has no such blob.
    fn get(&self, owner: &str, digest: Digest, range: Range<u64>) -> StoreFuture<Option<Bytes>>;

    /// Gives a blob of one owner to another, too. Whether the first has it.
    fn share(&self, from: &str, to: &str, digest: Digest) -> StoreFuture<bool>;

    /// Deletes a blob that was not kept or shared again for `idle`. Whether it is gone.
    fn delete(&self, owner: &str, digest: Digest, idle: Duration) -> StoreFuture<bool>;

    /// All blobs of an owner.
    fn list(&self, owner: &str) -> StoreFuture<Vec<Digest>>;
}

/// Content that is being written. What is dropped before it is kept is deleted.
pub trait BlobDraft: Send {
    /// Adds bytes at the end.
    fn write(&mut self, content: &[u8]) -> Result<(), Error>;

    /// Nothing follows.
    fn end(&mut self) {}

    /// Keeps the content, which has this digest, for an owner.
    fn keep(self: Box<Self>, owner: &str, digest: Digest) -> StoreFuture<()>;
}

/// Writes content and learns its digest.
pub struct BlobWriter {
    draft: Box<dyn BlobDraft>,
    digest: DigestOfPieces,
    bytes: u64,
}

/// Content that is written and not kept yet.
pub struct WrittenBlob {
    draft: Box<dyn BlobDraft>,
    pub digest: Digest,
    pub bytes: u64,
}

impl BlobWriter {
    /// Begins content.
    pub fn begin(blobs: &dyn Blobs) -> Result<Self, Error> {
        Ok(Self { draft: blobs.draft()?, digest: DigestOfPieces::default(), bytes: 0 })
    }

    /// Adds bytes at the end.
    pub fn write(&mut self, content: &[u8]) -> Result<(), Error> {
        self.draft.write(content)?;
        self.digest.add(content);
        self.bytes += content.len() as u64;
        Ok(())
    }

    /// The bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The end of the content.
    pub fn finish(mut self) -> WrittenBlob {
        self.draft.end();
        WrittenBlob { draft: self.draft, digest: self.digest.finish(), bytes: self.bytes }
    }
}

impl WrittenBlob {
    /// Keeps it for an owner.
    pub fn keep(self, owner: &str) -> StoreFuture<()> {
        self.draft.keep(owner, self.digest)
    }
}

/// The whole of a blob. Fails if it is not what was written.
pub async fn read(blobs: &dyn Blobs, owner: &str, digest: Digest) -> Result<Option<Bytes>, Error> {
    let content = blobs.get(owner, digest, 0..u64::MAX).await?;
    match content {
        Some(content) if Digest::of(&content) != digest => {
            Err(Error::Corrupt { revision: 0, key: format!("the blob {digest} of {owner}") })
        }
        content => Ok(content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn put(blobs: &dyn Blobs, owner: &str, pieces: &[&[u8]]) -> Digest {
        let mut writer = BlobWriter::begin(blobs).unwrap();
        pieces.iter().for_each(|piece| writer.write(piece).unwrap());
        let written = writer.finish();
        let digest = written.digest;
        assert_eq!(written.bytes, pieces.iter().map(|piece| piece.len() as u64).sum::<u64>());
        written.keep(owner).await.unwrap();
        digest
    }

    async fn keeps_its_promises(blobs: &dyn Blobs) {
        let digest = put(blobs, "a", &[b"hel", b"lo"]).await;
        assert_eq!(digest, Digest::of(b"hello"));
        assert_eq!(put(blobs, "a", &[b"hello"]).await, digest, "the same again");
        assert_eq!(read(blobs, "a", digest).await.unwrap().as_deref(), Some(&b"hello"[..]));
        for (range, part) in [(1..3, &b"el"[..]), (3..9, b"lo"), (9..12, b"")] {
            assert_eq!(blobs.get("a", digest, range).await.unwrap().as_deref(), Some(part));
        }
        assert_eq!(read(blobs, "b", digest).await.unwrap(), None, "another owner has none");
        assert!(!blobs.share("b", "c", digest).await.unwrap());
        assert!(blobs.share("a", "b", digest).await.unwrap());
        assert!(blobs.share("a", "b", digest).await.unwrap(), "again");
        let other = put(blobs, "a", &[b"x"]).await;
        let mut listed = blobs.list("a").await.unwrap();
        listed.sort();
        let mut all = vec![digest, other];
        all.sort();
        assert_eq!(listed, all);
        assert_eq!(blobs.list("nobody").await.unwrap(), vec![]);
        assert!(!blobs.delete("a", digest, Duration::from_secs(60)).await.unwrap(), "it is new");
        assert!(blobs.delete("a", digest, Duration::ZERO).await.unwrap());
        assert!(blobs.delete("a", digest, Duration::ZERO).await.unwrap(), "it is gone already");
        assert_eq!(read(blobs, "a", digest).await.unwrap(), None);
        assert!(read(blobs, "b", digest).await.unwrap().is_some(), "the other owner's stays");
        drop(BlobWriter::begin(blobs).unwrap().finish());
        assert_eq!(blobs.list("a").await.unwrap(), vec![other]);
    }

    #[tokio::test]
    async fn every_place_keeps_its_promises() {
        keeps_its_promises(&BlobMemory::default()).await;
        let directory = tempfile::tempdir().unwrap();
        keeps_its_promises(&BlobFolder::open(directory.path()).unwrap()).await;
    }

    #[tokio::test]
    async fn a_folder_opened_again_has_what_was_kept_and_no_drafts() {
        let directory = tempfile::tempdir().unwrap();
        let blobs = BlobFolder::open(directory.path()).unwrap();
        let digest = put(&blobs, "a/b %41", &[b"kept"]).await;
        let mut left = BlobWriter::begin(&blobs).unwrap();
        left.write(b"a crash leaves it").unwrap();
        std::mem::forget(left);
        let drafts = || std::fs::read_dir(directory.path().join("drafts")).unwrap().count();
        assert_eq!(drafts(), 1);
        let blobs = BlobFolder::open(directory.path()).unwrap();
        assert_eq!(drafts(), 0);
        assert_eq!(read(&blobs, "a/b %41", digest).await.unwrap().as_deref(), Some(&b"kept"[..]));
    }

    #[tokio::test]
    async fn a_blob_that_has_changed_on_the_disk_is_no_content() {
        let directory = tempfile::tempdir().unwrap();
        let blobs = BlobFolder::open(directory.path()).unwrap();
        let digest = put(&blobs, "a", &[b"right"]).await;
        let hex = digest.to_string();
        std::fs::write(directory.path().join("a").join(&hex[..2]).join(&hex), "wrong").unwrap();
        assert!(matches!(read(&blobs, "a", digest).await, Err(Error::Corrupt { .. })));
    }
}
