//! What a running turn reaches of the mesh, with the rights of its agent: the blackboard, and content in the agent's store.

use crate::{
    artifacts::{self, StoredArtifact, UploadedContent},
    clock::NodeClock,
};
use blackboard::{board::SignalPage, client::Blackboard};
use bytes::Bytes;
use protocol::{
    artifact::{BlobRef, Part, PartContent, blob},
    deputy::{Deputy, MeshOperation},
    ids::{AgentId, Digest},
    principal::{Principal, SenderProof, TaskRoot},
    problem::Problem,
    routes,
    signal::{Cursor, Selector, SignalRecord, sees_all},
    time::WallTime,
};
use std::{collections::BTreeSet, fmt, time::Duration};
use store::SharedStore;

/// The signals that are read at once to find those that the root of a turn may see.
const PAGE: usize = 500;

/// The mesh as one agent's turns reach it.
#[derive(Clone)]
pub struct AgentAccess {
    pub agent: AgentId,
    /// The principal at the root of the turn's work.
    pub root: TaskRoot,
    pub board: Blackboard,
    pub store: SharedStore,
    pub clock: NodeClock,
    /// How long content is kept that no task refers to.
    pub keep: Duration,
    /// The most bytes of a signal on the board.
    pub max_signal_bytes: usize,
}

impl AgentAccess {
    fn principal(&self) -> Principal {
        Principal::Agent(self.agent.clone())
    }

    /// Up to `limit` signals after `after` that the agent and the root may see, oldest first; without `after` from the oldest that is
    /// kept.
    pub async fn signals(
        &self,
        selector: &Selector,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<SignalPage, Problem> {
        let deputy = Deputy { agent: self.agent.clone(), root: self.root.clone() };
        if sees_all(&self.root.principal) {
            return self.board.read(&self.principal(), selector, after, limit).await;
        }
        let (mut signals, mut after) = (Vec::<SignalRecord>::new(), after);
        loop {
            let SignalPage { signals: page, next } =
                self.board.read(&self.principal(), selector, after, PAGE).await?;
            let is_last = page.is_empty();
            let is_visible =
                |record: &SignalRecord| deputy.may(MeshOperation::ReadSignal(&record.signal)).is_ok();
            signals.extend(page.into_iter().filter(is_visible).take(limit - signals.len()));
            match signals.last() {
                Some(last) if signals.len() == limit => {
                    let next = Cursor { revision: last.revision, ..next };
                    return Ok(SignalPage { signals, next });
                }
                _ if is_last => return Ok(SignalPage { signals, next }),
                _ => after = Some(next),
            }
        }
    }

    /// Stores content that the brain may read by its digest. Content that is stored already, and kept for a while, is not written
    /// again.
    pub async fn keep_content(&self, media_type: &str, content: Bytes) -> Result<Digest, Problem> {
        let (store, by, now) = (self.store.as_ref(), self.principal(), self.clock.wall());
        let digest = Digest::of(&content);
        let half = i64::try_from((self.keep / 2).as_millis()).unwrap_or(i64::MAX);
        let since = WallTime(now.0.saturating_sub(half));
        if !artifacts::is_kept(store, &self.agent, &digest, &by, since).map_err(Problem::from)? {
            let media_type = Some(media_type.to_owned());
            artifacts::put(store, &self.agent, &by, now, media_type, content).await.map_err(Problem::from)?;
        }
        Ok(digest)
    }

    /// Lets the brain read a file of its agent. Whether there is one.
    pub(super) async fn adopt_file(&self, digest: Digest) -> Result<bool, Problem> {
        // Not the agent, which may hand on what it has put.
        let (by, now) = (Principal::Brain(self.agent.clone()), self.clock.wall());
        Ok(artifacts::adopt(self.store.as_ref(), &self.agent, &by, now, digest).await?)
    }

    /// Whether the agent has a file with this digest.
    pub(super) fn has_file(&self, digest: &Digest) -> bool {
        artifacts::blob_of(self.store.as_ref(), &self.agent, digest).is_ok_and(|blob| blob.is_some())
    }

    /// Keeps the content of a large part as a file. A part names only files that the turn was given (`given`). Another process names them by
    /// their URLs here, and those that it has put, too.
    pub(super) async fn keep_file(
        &self,
        part: &mut Part,
        given: &BTreeSet<Digest>,
        is_of_process: bool,
    ) -> Result<(), Problem> {
        // The results of an agent are none of what its process has put.
        let brain = Principal::Brain(self.agent.clone());
        let (store, now) = (self.store.as_ref(), self.clock.wall());
        if artifacts::keep_file(store, &self.agent, &brain, now, part).await? > 0 {
            return Ok(());
        }
        let PartContent::Url(url) = &part.content else { return Ok(()) };
        let is_name = url.starts_with(blob::SCHEME);
        let of_url =
            url.rsplit_once('/').filter(|(base, _)| is_of_process && base.ends_with(routes::ARTIFACTS));
        let of_url = of_url.and_then(|(_, digest)| Digest::parse(digest).ok());
        let digest = BlobRef::parse(url).map(|blob| blob.digest).or(of_url);
        let by = self.principal();
        let is_put = |digest| artifacts::is_kept(store, &self.agent, digest, &by, WallTime(i64::MIN));
        let is_own = match &digest {
            Some(digest) => given.contains(digest) || is_of_process && is_put(digest)?,
            None => false,
        };
        let own = digest.filter(|_| is_own);
        let own = own.map(|digest| artifacts::blob_of(store, &self.agent, &digest)).transpose()?.flatten();
        match own {
            Some(blob) => part.content = blob.content(),
            None if is_name => {
                tracing::warn!(agent = %self.agent, url, "a brain names a file that it was not given");
                part.content = PartContent::Text("[a file that is not here]".to_owned());
            }
            None => {}
        }
        Ok(())
    }

    /// Puts the content of a file in the place of its name.
    pub(super) async fn fill_part(&self, part: &mut Part) -> Result<(), Problem> {
        artifacts::part_with_content(self.store.as_ref(), &self.agent, part, u64::MAX).await.map(drop)
    }

    /// The bytes with this digest, of a file of the agent or of content that it may read.
    pub(super) async fn bytes(&self, digest: &Digest) -> Option<Bytes> {
        match artifacts::file(self.store.as_ref(), &self.agent, *digest).await {
            Ok(content) => Some(content),
            Err(_) => match self.content(digest)?.content {
                UploadedContent::Here(content) => Some(content),
                UploadedContent::Blob(_) => None,
            },
        }
    }

    /// The content with this digest, if the agent may read it.
    pub fn content(&self, digest: &Digest) -> Option<StoredArtifact> {
        let by = self.principal();
        artifacts::read(self.store.as_ref(), &self.agent, digest, &by, SenderProof::Credential).ok()
    }
}

impl fmt::Debug for AgentAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentAccess").field("agent", &self.agent).finish_non_exhaustive()
    }
}
