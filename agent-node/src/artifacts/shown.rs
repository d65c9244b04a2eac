//! The files of tasks as clients are told of them: by a URL of the agent, or whole.

use super::part_with_content;
use protocol::{
    a2a::{
        event::{SendMessageResponse, StreamResponse},
        limits::MAX_RAW_RESULT,
        task::A2aTask,
    },
    artifact::{Artifact, BlobRef, Part, PartContent},
    ids::AgentId,
    routes,
};
use store::SharedStore;

/// Where the files of an agent are when a client is told of them.
#[derive(Clone)]
pub struct ShownFiles {
    pub store: SharedStore,
    pub agent: AgentId,
    /// The base of the URLs that its clients are told.
    pub base: String,
}

impl ShownFiles {
    /// Those of `agent`, whose clients are told URLs that begin with `base`.
    pub fn new(store: &SharedStore, agent: &AgentId, base: &str) -> Self {
        Self { store: store.clone(), agent: agent.clone(), base: base.to_owned() }
    }

    /// Gives files URLs.
    pub fn link<'a>(&self, parts: impl IntoIterator<Item = &'a mut Part>) {
        for part in parts {
            if let Some(BlobRef { digest, .. }) = BlobRef::of(part) {
                part.content = PartContent::Url(format!("{}{}/{digest}", self.base, routes::ARTIFACTS));
            }
        }
    }

    /// The same for a task, whose results have their files whole as long as these have no more than [`MAX_RAW_RESULT`] in all.
    pub async fn show_task(&self, task: &mut A2aTask) {
        self.fill(&mut task.artifacts).await;
        self.link_task(task);
    }

    /// Shows the files of results: whole as long as these have no more than [`MAX_RAW_RESULT`] in all, the others as URLs.
    pub async fn show_artifacts(&self, artifacts: &mut [Artifact]) {
        self.fill(artifacts).await;
        self.link(artifacts.iter_mut().flat_map(|artifact| &mut artifact.parts));
    }

    /// Gives all files of a task URLs.
    pub fn link_task(&self, task: &mut A2aTask) {
        self.link(task.artifacts.iter_mut().flat_map(|artifact| &mut artifact.parts));
        self.link(task.history.iter_mut().flat_map(|message| &mut message.parts));
        self.link(task.status.message.iter_mut().flat_map(|message| &mut message.parts));
    }

    /// Gives all files of an event URLs.
    pub fn link_event(&self, event: &mut StreamResponse) {
        match event {
            StreamResponse::Task(task) => self.link_task(task),
            StreamResponse::Message(message) => self.link(&mut message.parts),
            StreamResponse::StatusUpdate(update) => {
                self.link(update.status.message.iter_mut().flat_map(|message| &mut message.parts));
            }
            StreamResponse::ArtifactUpdate(update) => self.link(&mut update.artifact.parts),
        }
    }

    /// Shows the files of an answer to a message.
    pub async fn show_answer(&self, answer: &mut SendMessageResponse) {
        match answer {
            SendMessageResponse::Task(task) => self.show_task(task).await,
            SendMessageResponse::Message(message) => self.link(&mut message.parts),
        }
    }

    /// Shows the files of an event.
    pub async fn show_event(&self, event: &mut StreamResponse) {
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
