//! Blobs in memory, beside a store in memory.

use super::{BlobDraft, Blobs};
use crate::{Error, StoreFuture};
use bytes::Bytes;
use protocol::ids::Digest;
use std::{
    collections::BTreeMap,
    future::ready,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Blobs that are gone with the process.
#[derive(Clone, Default)]
pub struct BlobMemory(Arc<Mutex<KeptBlobs>>);

type KeptBlobs = BTreeMap<(String, Digest), (Bytes, Instant)>;

impl BlobMemory {
    fn kept(&self) -> MutexGuard<'_, KeptBlobs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Blobs for BlobMemory {
    fn draft(&self) -> Result<Box<dyn BlobDraft>, Error> {
        Ok(Box::new(MemoryDraft { blobs: self.clone(), content: Vec::new() }))
    }

    fn get(&self, owner: &str, digest: Digest, range: Range<u64>) -> StoreFuture<Option<Bytes>> {
        let kept = self.kept();
        let content = kept.get(&(owner.to_owned(), digest)).map(|(content, _)| {
            let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
            content.slice(at(range.start)..at(range.end))
        });
        Box::pin(ready(Ok(content)))
    }

    fn share(&self, from: &str, to: &str, digest: Digest) -> StoreFuture<bool> {
        let mut kept = self.kept();
        let content = kept.get(&(from.to_owned(), digest)).map(|(content, _)| content.clone());
        let is_there = content.is_some();
        kept.extend(content.map(|content| ((to.to_owned(), digest), (content, Instant::now()))));
        Box::pin(ready(Ok(is_there)))
    }

    fn delete(&self, owner: &str, digest: Digest, idle: Duration) -> StoreFuture<bool> {
        let (key, mut kept) = ((owner.to_owned(), digest), self.kept());
        let is_gone = kept.get(&key).is_none_or(|(_, since)| since.elapsed() >= idle);
        if is_gone {
            kept.remove(&key);
        }
        Box::pin(ready(Ok(is_gone)))
    }

    fn list(&self, owner: &str) -> StoreFuture<Vec<Digest>> {
        let kept = self.kept();
        let own = kept.keys().filter(|(of, _)| of == owner).map(|(_, digest)| *digest);
        Box::pin(ready(Ok(own.collect())))
    }
}

struct MemoryDraft {
    blobs: BlobMemory,
    content: Vec<u8>,
}

impl BlobDraft for MemoryDraft {
    fn write(&mut self, content: &[u8]) -> Result<(), Error> {
        self.content.extend_from_slice(content);
        Ok(())
    }

    fn keep(self: Box<Self>, owner: &str, digest: Digest) -> StoreFuture<()> {
        let Self { blobs, content } = *self;
        blobs.kept().insert((owner.to_owned(), digest), (content.into(), Instant::now()));
        Box::pin(ready(Ok(())))
    }
}
