//! The files of messages and results: kept beside the store as they come, and on the way out with a URL, or as they were sent.

use super::call::A2aCall;
use crate::{
    artifacts::{keep_file, part_with_content, put_file},
    http::edge::SpooledFile,
};
use blackboard::store::SharedStore;
use protocol::{
    a2a::{
        error::A2aError,
        event::{SendMessageResponse, StreamResponse},
        json::InvalidField,
        limits::MAX_RAW_RESULT,
        message::Message,
        task::A2aTask,
    },
    artifact::{Artifact, BlobRef, Part, PartContent, blob},
    ids::AgentId,
    problem::{Problem, Reason},
    routes,
};
use std::sync::{MutexGuard, PoisonError};

/// Keeps the files of a message: long `raw` parts, each of which its client may read again. Refuses a name of a file, which clients
/// don't have, and a file that is too large.
pub(super) async fn keep(call: &A2aCall, message: &mut Message) -> Result<(), A2aError> {
    let (store, me) = (call.local.store.as_ref(), &call.local.id);
    let (by, now, max) = (&call.by, call.wall(), call.limits().max_artifact_bytes);
    for (at, part) in message.parts.iter_mut().enumerate() {
        let spooled = match &part.content {
            PartContent::Raw(raw) => take(&mut call.files(), raw),
            PartContent::Url(url) if url.starts_with(blob::SCHEME) => {
                let why = "names a file inside of the mesh; send the file, as `raw`, or a URL";
                return Err(InvalidField::new(format!("message.parts[{at}].url"), why).into());
            }
            PartContent::Text(_) | PartContent::Data(_) | PartContent::Url(_) => continue,
        };
        let bytes = match &spooled {
            Some(file) => usize::try_from(file.content.bytes).unwrap_or(usize::MAX),
            None => part_bytes(part),
        };
        if bytes > max {
            let message =
                format!("message.parts[{at}].raw: a file may have {max} bytes at most (maxArtifactBytes)");
            return Err(Problem::new(Reason::PayloadTooLarge, message).with("limit", max).into());
        }
        if bytes <= blob::MIN_BYTES {
            continue;
        }
        call.check_file_quota(bytes)?;
        match spooled {
            Some(SpooledFile { content, .. }) => {
                let media_type = part.media_type.as_deref();
                let readers = std::slice::from_ref(by);
                let kept = put_file(store, me, readers, now, media_type, content).await;
                part.content = kept.map_err(Problem::from)?.content();
            }
            None => drop(keep_file(store, me, by, now, part).await.map_err(Problem::from)?),
        }
    }
    check_left(call)
}

/// Fails if the request has brought a file that is in no part of a message.
pub(super) fn check_left(call: &A2aCall) -> Result<(), A2aError> {
    if call.files().is_empty() {
        return Ok(());
    }
    let limit = call.limits().max_body_bytes;
    let message = format!("beside the `raw` of a message's parts a request may have {limit} bytes");
    Err(Problem::new(Reason::PayloadTooLarge, message).with("limit", limit).into())
}

fn part_bytes(part: &Part) -> usize {
    match &part.content {
        PartContent::Raw(raw) => raw.len() / 4 * 3,
        PartContent::Text(_) | PartContent::Data(_) | PartContent::Url(_) => 0,
    }
}

fn take(files: &mut MutexGuard<'_, Vec<SpooledFile>>, mark: &str) -> Option<SpooledFile> {
    let at = files.iter().position(|file| file.mark == mark)?;
    Some(files.swap_remove(at))
}

/// Where the files of an agent are when a client is told of them.
#[derive(Clone)]
pub struct ShownFiles {
    pub store: SharedStore,
    pub agent: AgentId,
    /// The agent's endpoint.
    pub endpoint: String,
}

impl ShownFiles {
    /// Gives files URLs.
    pub(crate) fn link<'a>(&self, parts: impl IntoIterator<Item = &'a mut Part>) {
        for part in parts {
            if let Some(BlobRef { digest, .. }) = BlobRef::of(part) {
                part.content = PartContent::Url(format!("{}{}/{digest}", self.endpoint, routes::ARTIFACTS));
            }
        }
    }

    /// The same for a task, whose results have their files whole as long as these have no more than [`MAX_RAW_RESULT`] in all.
    pub(super) async fn show_task(&self, task: &mut A2aTask) {
        self.fill(&mut task.artifacts).await;
        self.link_task(task);
    }

    /// Gives all files of a task URLs.
    pub(crate) fn link_task(&self, task: &mut A2aTask) {
        self.link(task.artifacts.iter_mut().flat_map(|artifact| &mut artifact.parts));
        self.link(task.history.iter_mut().flat_map(|message| &mut message.parts));
        self.link(task.status.message.iter_mut().flat_map(|message| &mut message.parts));
    }

    /// Gives all files of an event URLs.
    pub(crate) fn link_event(&self, event: &mut StreamResponse) {
        match event {
            StreamResponse::Task(task) => self.link_task(task),
            StreamResponse::Message(message) => self.link(&mut message.parts),
            StreamResponse::StatusUpdate(update) => {
                self.link(update.status.message.iter_mut().flat_map(|message| &mut message.parts));
            }
            StreamResponse::ArtifactUpdate(update) => self.link(&mut update.artifact.parts),
        }
    }

    pub(super) async fn show_answer(&self, answer: &mut SendMessageResponse) {
        match answer {
            SendMessageResponse::Task(task) => self.show_task(task).await,
            SendMessageResponse::Message(message) => self.link(&mut message.parts),
        }
    }

    pub(super) async fn show_event(&self, event: &mut StreamResponse) {
        match event {
            StreamResponse::Task(task) => self.fill(&mut task.artifacts).await,
            StreamResponse::ArtifactUpdate(update) => {
                self.fill(std::slice::from_mut(&mut update.artifact)).await
            }
            StreamResponse::Message(_) | StreamResponse::StatusUpdate(_) => {}
        }
        self.link_event(event);
    }

    /// Puts the content of files in the place of their names. What can't be read keeps its name.
    async fn fill(&self, artifacts: &mut [Artifact]) {
        let mut left = MAX_RAW_RESULT as u64;
        for part in artifacts.iter_mut().flat_map(|artifact| &mut artifact.parts) {
            match part_with_content(self.store.as_ref(), &self.agent, part, left).await {
                Ok(bytes) => left -= bytes,
                Err(problem) => {
                    tracing::warn!(agent = %self.agent, %problem, "a file of a result can't be read")
                }
            }
        }
    }
}

impl A2aCall {
    /// Where the files of its agent are.
    pub(super) fn shown_files(&self) -> ShownFiles {
        self.local.shown_files()
    }

    fn check_file_quota(&self, bytes: usize) -> Result<(), Problem> {
        let (node, local) = (self.node(), &self.local);
        let max = node.limits.max_artifact_bytes_per_principal;
        node.artifact_quota.add(local.store.as_ref(), &local.id, &self.by, bytes, max)
    }

    fn files(&self) -> MutexGuard<'_, Vec<SpooledFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
