//! A task at a foreign A2A agent: the request, its events and its outcome. Events may arrive twice, as snapshots or as
//! increments; [`RemoteTaskTracker`] merges them into one sequence.

mod limits;

pub use limits::RemoteTaskLimits;

use super::{
    event::StreamResponse,
    interaction::InteractionMode,
    limits::MAX_FOREIGN_ARTIFACTS,
    message::Message,
    task::{A2aTask, TaskState, TaskStatus},
};
use crate::artifact::{Artifact, joined, merge};
use serde::{Deserialize, Serialize};
use serde_json::Map;
use std::collections::BTreeMap;

/// The request, and the limits on following it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteTask {
    /// The message; with a task id, the answer to that task's question.
    pub message: Message,
    /// Media types that can be used; empty means any.
    #[serde(default)]
    pub accepted_modes: Vec<String>,
    /// How it is followed.
    pub mode: InteractionMode,
    /// Whether its message is answered by a stream ([`InteractionMode::is_streamed`]).
    #[serde(default)]
    pub is_streamed: bool,
    pub bounds: RemoteTaskLimits,
    /// Whether another bidder would do it if the agent can't be reached: then it is handed back soon.
    #[serde(default)]
    pub has_runner_up: bool,
}

/// An event of a remote task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "news")]
pub enum RemoteTaskEvent {
    /// The remote agent created a task.
    #[serde(rename_all = "camelCase")]
    Began { task_id: String, context_id: String },
    /// The task was polled.
    Polled,
    Status {
        state: TaskState,
        /// A message of the agent.
        #[serde(default)]
        text: Option<String>,
    },
    /// An artifact or a chunk of one arrived.
    #[serde(rename_all = "camelCase")]
    Artifact {
        artifact: Artifact,
        /// Whether it is appended to the artifact.
        #[serde(default)]
        append: bool,
        /// Whether no piece follows.
        #[serde(default)]
        last_chunk: bool,
    },
}

/// The end of a remote task: its outcome, or why it is no longer followed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteTaskEnd {
    /// The id of the remote task, if there is one.
    #[serde(default)]
    pub task_id: Option<String>,
    #[serde(default)]
    pub context_id: Option<String>,
    pub how: RemoteTaskOutcome,
    /// The agent's message, or our error message.
    #[serde(default)]
    pub text: Option<String>,
}

/// The outcomes of a remote task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemoteTaskOutcome {
    Completed,
    /// It can't be done.
    Failed,
    /// The agent would not.
    Rejected,
    Canceled,
    /// It waits for an answer.
    InputRequired,
    /// It waits for a credential.
    AuthRequired,
    /// It was not done within its bounds.
    Timeout,
    /// The agent did not answer, or the call is not allowed.
    Unreachable,
    /// Our credentials were not taken.
    Unauthenticated,
    /// The message was not taken.
    Refused,
    /// It brought more than is taken.
    TooLarge,
    /// What was answered is no A2A.
    Malformed,
}

impl RemoteTaskOutcome {
    /// One word, as A2A and the delegation's report have it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::Canceled => "canceled",
            Self::InputRequired => "input-required",
            Self::AuthRequired => "auth-required",
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::Unauthenticated => "auth_failed",
            Self::Refused => "refused",
            Self::TooLarge => "too_large",
            Self::Malformed => "malformed",
        }
    }
}

/// The state of a remote task, merged from its events.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RemoteTaskTracker {
    task_id: Option<String>,
    context_id: Option<String>,
    artifacts: Vec<Artifact>,
    stands: Option<(TaskState, Option<String>)>,
    answered: bool,
    most: Option<usize>,
    /// The bytes of each artifact.
    sizes: BTreeMap<String, usize>,
}

/// Why an event is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventRefusal {
    /// It is about something else.
    Elsewhere(String),
    /// With it, the artifacts hold more than is taken.
    TooLarge(String),
}

impl RemoteTaskTracker {
    /// A task that is not known yet or, after a restart, one that is. `answered`: it has just been given the
    /// answer it waited for, so that a first snapshot may still show it waiting.
    pub fn new(task_id: Option<String>, answered: bool) -> Self {
        Self { task_id, answered, ..Self::default() }
    }

    /// The same, its artifacts bounded: `most` bytes in all.
    #[must_use]
    pub fn within(self, most: usize) -> Self {
        Self { most: Some(most), ..self }
    }

    /// Counts `artifact` in, before it is kept.
    fn weigh(&mut self, artifact: &Artifact, append: bool) -> Result<(), EventRefusal> {
        let Some(most) = self.most else { return Ok(()) };
        let size = self.sizes.entry(artifact.artifact_id.clone()).or_default();
        let so_far = if append { *size } else { 0 };
        *size = so_far + artifact.size();
        if self.sizes.len() > MAX_FOREIGN_ARTIFACTS {
            return Err(EventRefusal::TooLarge(format!(
                "it has more than {MAX_FOREIGN_ARTIFACTS} artifacts"
            )));
        }
        if self.sizes.values().sum::<usize>() <= most {
            return Ok(());
        }
        Err(EventRefusal::TooLarge(format!("its artifacts hold more than {most} bytes")))
    }

    /// The task's name over there.
    pub fn task_id(&self) -> Option<&str> {
        self.task_id.as_deref()
    }

    /// What is new in `event`, and the end if it is one; or why it does not belong to this task.
    pub fn apply(
        &mut self,
        event: StreamResponse,
    ) -> Result<(Vec<RemoteTaskEvent>, Option<RemoteTaskEnd>), EventRefusal> {
        match event {
            StreamResponse::Task(task) => self.snapshot(*task),
            StreamResponse::Message(message) => self.answer(*message),
            StreamResponse::StatusUpdate(update) => {
                let mut news = self.is_about(&update.task_id, &update.context_id)?;
                let (status, end) = self.status(&update.status);
                news.extend(status);
                Ok((news, end))
            }
            StreamResponse::ArtifactUpdate(update) => {
                let mut news = self.is_about(&update.task_id, &update.context_id)?;
                self.answered = false;
                self.weigh(&update.artifact, update.append)?;
                merge(&mut self.artifacts, update.artifact.clone(), update.append);
                let (artifact, append, last_chunk) = (update.artifact, update.append, update.last_chunk);
                news.push(RemoteTaskEvent::Artifact { artifact, append, last_chunk });
                Ok((news, None))
            }
        }
    }

    fn snapshot(
        &mut self,
        task: A2aTask,
    ) -> Result<(Vec<RemoteTaskEvent>, Option<RemoteTaskEnd>), EventRefusal> {
        let mut news = self.is_about(&task.id, &task.context_id)?;
        for artifact in task.artifacts {
            // A snapshot may have as one text what was streamed in pieces.
            let is_known = |known: &Artifact| {
                known.artifact_id == artifact.artifact_id && joined(known) == joined(&artifact)
            };
            if self.artifacts.iter().any(is_known) {
                continue;
            }
            self.weigh(&artifact, false)?;
            merge(&mut self.artifacts, artifact.clone(), false);
            news.push(RemoteTaskEvent::Artifact { artifact, append: false, last_chunk: true });
        }
        let is_waiting = matches!(task.status.state, TaskState::InputRequired | TaskState::AuthRequired);
        if std::mem::take(&mut self.answered) && is_waiting {
            return Ok((news, None));
        }
        let (status, end) = self.status(&task.status);
        news.extend(status);
        Ok((news, end))
    }

    fn answer(
        &mut self,
        message: Message,
    ) -> Result<(Vec<RemoteTaskEvent>, Option<RemoteTaskEnd>), EventRefusal> {
        let text = Some(message.as_text()).filter(|text| !text.is_empty());
        self.context_id = message.context_id.clone().or_else(|| self.context_id.take());
        let artifact = Artifact {
            artifact_id: message.message_id,
            name: Some("answer".to_owned()),
            description: None,
            parts: message.parts,
            metadata: Map::new(),
            extensions: Vec::new(),
        };
        self.weigh(&artifact, false)?;
        Ok((
            vec![RemoteTaskEvent::Artifact { artifact, append: false, last_chunk: true }],
            Some(self.end(RemoteTaskOutcome::Completed, text)),
        ))
    }

    fn is_about(&mut self, task: &str, context: &str) -> Result<Vec<RemoteTaskEvent>, EventRefusal> {
        if !context.is_empty() {
            self.context_id = Some(context.to_owned());
        }
        match &self.task_id {
            Some(known) if known == task => Ok(Vec::new()),
            Some(known) => {
                Err(EventRefusal::Elsewhere(format!("it speaks of task {task:?}, and {known:?} is meant")))
            }
            None => {
                self.task_id = Some(task.to_owned());
                Ok(vec![RemoteTaskEvent::Began { task_id: task.to_owned(), context_id: context.to_owned() }])
            }
        }
    }

    fn status(&mut self, status: &TaskStatus) -> (Option<RemoteTaskEvent>, Option<RemoteTaskEnd>) {
        self.answered = false;
        let text = status.message.as_ref().map(Message::as_text).filter(|text| !text.is_empty());
        let stands = Some((status.state, text.clone()));
        let is_new = self.stands != stands;
        self.stands = stands;
        let news = is_new.then(|| RemoteTaskEvent::Status { state: status.state, text: text.clone() });
        let how = match status.state {
            TaskState::Submitted | TaskState::Working => return (news, None),
            TaskState::InputRequired => RemoteTaskOutcome::InputRequired,
            TaskState::AuthRequired => RemoteTaskOutcome::AuthRequired,
            TaskState::Completed => RemoteTaskOutcome::Completed,
            TaskState::Failed => RemoteTaskOutcome::Failed,
            TaskState::Canceled => RemoteTaskOutcome::Canceled,
            TaskState::Rejected => RemoteTaskOutcome::Rejected,
        };
        (news, Some(self.end(how, text)))
    }

    /// The end of it, for what is known.
    pub fn end(&self, how: RemoteTaskOutcome, text: Option<String>) -> RemoteTaskEnd {
        RemoteTaskEnd { task_id: self.task_id.clone(), context_id: self.context_id.clone(), how, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::json::FromProtoJson;
    use serde_json::{Value, json};

    fn event(value: Value) -> StreamResponse {
        StreamResponse::from_proto(value).unwrap()
    }

    fn artifact(id: &str, text: &str) -> Value {
        json!({ "artifactId": id, "parts": [{ "text": text }] })
    }

    fn task(state: &str, artifacts: Value) -> StreamResponse {
        event(
            json!({ "task": { "id": "t", "contextId": "c", "status": { "state": state }, "artifacts": artifacts } }),
        )
    }

    #[test]
    fn a_stream_that_breaks_and_is_joined_again_tells_nothing_twice() {
        let mut following = RemoteTaskTracker::default();
        let (news, end) = following.apply(task("TASK_STATE_WORKING", json!([]))).unwrap();
        assert!(
            matches!(news[..], [RemoteTaskEvent::Began { .. }, RemoteTaskEvent::Status { .. }])
                && end.is_none()
        );
        let piece = |text, append| {
            event(
                json!({ "artifactUpdate": { "taskId": "t", "contextId": "c", "artifact": artifact("a", text), "append": append } }),
            )
        };
        assert_eq!(following.apply(piece("one", false)).unwrap().0.len(), 1);
        assert_eq!(following.apply(piece("two", true)).unwrap().0.len(), 1);
        // The snapshot after the break holds both pieces.
        let whole = json!([{ "artifactId": "a", "parts": [{ "text": "one" }, { "text": "two" }] }]);
        let (news, end) = following.apply(task("TASK_STATE_WORKING", whole.clone())).unwrap();
        assert_eq!((news, end), (vec![], None));
        let joined = json!([artifact("a", "onetwo")]);
        let (news, end) = following.apply(task("TASK_STATE_WORKING", joined)).unwrap();
        assert_eq!((news, end), (vec![], None));
        // After a lost chunk the whole artifact is reported.
        let (news, end) =
            following.apply(task("TASK_STATE_COMPLETED", json!([whole[0], artifact("b", "x")]))).unwrap();
        assert!(
            matches!(&news[..], [RemoteTaskEvent::Artifact { artifact, append: false, .. }, RemoteTaskEvent::Status { .. }] if artifact.artifact_id == "b")
        );
        assert_eq!(end.unwrap().how, RemoteTaskOutcome::Completed);
    }

    #[test]
    fn an_answer_that_was_just_given_is_not_asked_for_again() {
        let waiting = || task("TASK_STATE_INPUT_REQUIRED", json!([]));
        assert_eq!(
            RemoteTaskTracker::default().apply(waiting()).unwrap().1.unwrap().how,
            RemoteTaskOutcome::InputRequired
        );
        let mut answered = RemoteTaskTracker::new(Some("t".into()), true);
        assert_eq!(answered.apply(waiting()).unwrap().1, None);
        assert_eq!(answered.apply(waiting()).unwrap().1.unwrap().how, RemoteTaskOutcome::InputRequired);
    }

    #[test]
    fn what_it_brings_is_bounded_in_all() {
        let mut following = RemoteTaskTracker::default().within(100);
        let mut hear = |id: &str, text: &str, append: bool| {
            following.apply(event(
                json!({ "artifactUpdate": { "taskId": "t", "contextId": "c", "artifact": artifact(id, text), "append": append } }),
            ))
        };
        let piece = "x".repeat(25);
        assert!(hear("a", &piece, false).is_ok());
        assert!(hear("a", &piece, false).is_ok(), "it was replaced");
        assert!(
            matches!(hear("a", &"x".repeat(99), true), Err(EventRefusal::TooLarge(why)) if why.contains("100 bytes"))
        );
        assert!(matches!(hear("b", &"x".repeat(99), false), Err(EventRefusal::TooLarge(_))));
    }

    #[test]
    fn so_is_how_many_artifacts_it_brings() {
        let many = |count: usize| {
            let artifacts: Vec<_> = (0..count).map(|at| artifact(&format!("a{at}"), "x")).collect();
            RemoteTaskTracker::default().within(1 << 20).apply(task("TASK_STATE_COMPLETED", json!(artifacts)))
        };
        assert!(many(MAX_FOREIGN_ARTIFACTS).is_ok());
        let told = MAX_FOREIGN_ARTIFACTS.to_string();
        assert!(
            matches!(many(MAX_FOREIGN_ARTIFACTS + 1), Err(EventRefusal::TooLarge(why)) if why.contains(&told))
        );
    }

    #[test]
    fn a_message_is_an_answer_and_another_task_is_none() {
        let message = event(
            json!({ "message": { "messageId": "m", "contextId": "c", "role": "ROLE_AGENT", "parts": [{ "text": "hi" }] } }),
        );
        let (news, end) = RemoteTaskTracker::default().apply(message).unwrap();
        assert!(
            matches!(&news[..], [RemoteTaskEvent::Artifact { artifact, .. }] if artifact.as_text() == "hi")
        );
        assert_eq!(end.unwrap().text.as_deref(), Some("hi"));
        let mut other = RemoteTaskTracker::new(Some("u".into()), false);
        assert!(
            matches!(other.apply(task("TASK_STATE_WORKING", json!([]))), Err(EventRefusal::Elsewhere(why)) if why.contains("\"t\""))
        );
    }
}
