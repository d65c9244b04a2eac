//! Content-addressed artifacts in an agent's store.

mod quota;

pub use engine::artifacts::{StoredArtifact, is_kept, read};
pub use quota::ArtifactQuota;

use blackboard::store::{Error, Lane, Store};
use bytes::Bytes;
use engine::artifacts;
use protocol::{
    ids::{AgentId, Digest},
    principal::Principal,
    time::WallTime,
};

/// Attempts to commit an artifact that others write concurrently, before [`Error::Full`].
const MAX_ATTEMPTS: usize = 64;

/// Stores `content` with `by` as a reader. Equal content is one artifact; `by` is added to its readers.
pub async fn put(
    store: &dyn Store,
    me: &AgentId,
    by: &Principal,
    now: WallTime,
    media_type: Option<String>,
    content: Bytes,
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

#[cfg(test)]
mod tests {
    use super::*;
    use blackboard::store::{embedded, memory};

    #[tokio::test]
    async fn every_concurrent_writer_of_an_artifact_may_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let on_disk = embedded::open(directory.path(), embedded::StoreOptions::default()).unwrap();
        for store in [memory::new(), on_disk] {
            let me = AgentId::parse("a").unwrap();
            let who: Vec<_> =
                (0..16).map(|at| Principal::Agent(AgentId::parse(&format!("peer-{at}")).unwrap())).collect();
            let content = Bytes::from_static(b"the same for all");
            let puts = who.iter().map(|by| put(store.as_ref(), &me, by, WallTime(1), None, content.clone()));
            let put = futures_util::future::join_all(puts).await;
            for (by, digest) in who.iter().zip(put) {
                let read = read(
                    store.as_ref(),
                    &me,
                    &digest.unwrap(),
                    by,
                    protocol::principal::SenderProof::Credential,
                );
                assert_eq!(read.map(|stored| stored.content).ok().as_ref(), Some(&content), "{by}");
            }
        }
    }
}
