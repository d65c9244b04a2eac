//! Runs one errand to its end: sends the message, follows the task as its mode says, joins a broken stream again, and
//! after a restart takes up where it was. Every loop has a bound.

use super::{CallError, Events, Remote, hooks::Hooks};
use crate::outbox::pause;
use blackboard::store::{Batch, Key, Lane, Shared, Write};
use futures_util::StreamExt;
use protocol::{
    a2a::{
        errand::{End, Ending, Errand, Following, News},
        event::{SendMessageResponse, StreamResponse},
        interaction::Mode,
        push::PushConfig,
        request::{Configuration, SendMessage},
    },
    ids::{AgentId, Digest},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::sync::mpsc;

/// Where an agent remembers which foreign task an errand became, so that a restart does not begin it twice.
#[derive(Clone)]
pub struct Notes {
    agent: AgentId,
    store: Shared,
}

#[derive(Serialize, Deserialize)]
struct Note {
    task_id: String,
}

impl Notes {
    /// Notes in `agent`'s own store.
    pub fn new(agent: AgentId, store: Shared) -> Self {
        Self { agent, store }
    }

    fn key(&self, errand: &str) -> Key {
        let name = Digest::of(errand.as_bytes()).to_string();
        Key::new(&[self.agent.as_str(), "errand", &name])
    }

    fn known(&self, errand: &str) -> Option<String> {
        let record = self.store.latest(&self.key(errand)).ok()??;
        serde_json::from_slice::<Note>(&record.value).ok().map(|note| note.task_id)
    }

    async fn write(&self, write: Write) {
        let batch = Batch { writes: vec![write], expectations: Vec::new() };
        if let Err(error) = self.store.commit(Lane::Progress, batch).await {
            tracing::warn!(agent = %self.agent, %error, "a note about a foreign task was not kept");
        }
    }

    async fn keep(&self, errand: &str, task_id: &str) {
        match serde_json::to_vec(&Note { task_id: task_id.to_owned() }) {
            Ok(bytes) => self.write(Write::Put(self.key(errand), bytes.into())).await,
            // An empty note would say that nothing was begun.
            Err(error) => {
                tracing::warn!(agent = %self.agent, %error, "a note about a foreign task was not kept")
            }
        }
    }

    /// Lets go of what was noted: it is over.
    pub async fn forget(&self, errand: &str) {
        if self.known(errand).is_some() {
            self.write(Write::Delete(self.key(errand))).await;
        }
    }
}

/// Runs `errand` under `key`, which names it for good. News go to `report`, in order, before this returns. Dropping the
/// future ends the task over there.
pub async fn run(
    remote: Remote,
    key: String,
    errand: Errand,
    notes: Option<Notes>,
    hooks: Option<Hooks>,
    report: mpsc::Sender<News>,
) -> End {
    let known = notes.as_ref().and_then(|notes| notes.known(&key));
    let is_answer = errand.message.task_id.is_some();
    let following = Following::new(known.clone().or_else(|| errand.message.task_id.clone()), is_answer);
    let mut run = Run {
        hold: Hold { remote: Some(remote.clone()), task: known.clone() },
        remote,
        key,
        errand,
        notes,
        hooks,
        report,
        following,
    };
    let outcome = match known {
        Some(_) => run.follow().await,
        None => run.begin().await,
    };
    let end = match outcome {
        Ok(end) => end,
        Err(error) => run.following.end(ending(&error), Some(error.to_string())),
    };
    run.hold.remote = None;
    if let Some(notes) = &run.notes {
        notes.forget(&run.key).await;
    }
    // Nobody looks at it any more, so nobody should work at it.
    if let (Ending::Timeout, Some(task)) = (end.how, &end.task_id) {
        give_up(run.remote.clone(), task.clone());
    }
    end
}

fn ending(error: &CallError) -> Ending {
    match error {
        CallError::Away(_) | CallError::Forbidden(_) => Ending::Unreachable,
        CallError::Unauthenticated(_) => Ending::Unauthenticated,
        CallError::Refused(_) => Ending::Refused,
        CallError::Malformed(_) => Ending::Malformed,
    }
}

/// Ends the task over there when the errand is dropped before its end.
struct Hold {
    remote: Option<Remote>,
    task: Option<String>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let (Some(remote), Some(task)) = (self.remote.take(), self.task.take()) {
            give_up(remote, task);
        }
    }
}

fn give_up(remote: Remote, task: String) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    drop(runtime.spawn(async move {
        for attempt in 0..5 {
            match remote.cancel(&task).await {
                Err(error) if error.is_worth_another_try() => tokio::time::sleep(pause(attempt + 1)).await,
                Err(error) => return tracing::debug!(task, %error, "a foreign task was not cancelled"),
                Ok(_) => return,
            }
        }
    }));
}

struct Run {
    hold: Hold,
    remote: Remote,
    key: String,
    errand: Errand,
    notes: Option<Notes>,
    hooks: Option<Hooks>,
    report: mpsc::Sender<News>,
    following: Following,
}

impl Run {
    async fn begin(&mut self) -> Result<End, CallError> {
        match self.errand.mode {
            Mode::Streaming => match self.open().await? {
                Some(events) => self.listen(events).await,
                None => self.follow().await,
            },
            Mode::Sync | Mode::Polling => match self.send(None).await? {
                Some(end) => Ok(end),
                None => self.follow().await,
            },
            Mode::Webhook => self.be_called().await,
        }
    }

    /// Takes up a task that is known.
    async fn follow(&mut self) -> Result<End, CallError> {
        match self.errand.mode {
            Mode::Streaming => self.join_again(None).await,
            Mode::Sync | Mode::Polling | Mode::Webhook => self.poll().await,
        }
    }

    fn request(&self, push: Option<PushConfig>) -> SendMessage {
        SendMessage {
            tenant: None,
            message: self.errand.message.clone(),
            configuration: Some(Configuration {
                accepted_output_modes: self.errand.accepted_modes.clone(),
                task_push_notification_config: push,
                history_length: Some(0),
                return_immediately: matches!(self.errand.mode, Mode::Polling | Mode::Webhook),
            }),
            metadata: Default::default(),
        }
    }

    /// The same message again, under the same id, while nobody answers.
    async fn send(&mut self, push: Option<PushConfig>) -> Result<Option<End>, CallError> {
        let request = self.request(push);
        let within = Duration::from_millis(self.errand.bounds.answer_ms);
        let mut attempt = 0;
        let answer = loop {
            match self.remote.send(&request, within).await {
                Err(error) if error.is_worth_another_try() && attempt + 1 < self.errand.bounds.attempts => {
                    attempt += 1;
                    tokio::time::sleep(pause(attempt)).await;
                }
                answer => break answer?,
            }
        };
        self.hear(match answer {
            SendMessageResponse::Task(task) => StreamResponse::Task(task),
            SendMessageResponse::Message(message) => StreamResponse::Message(message),
        })
        .await
    }

    async fn open(&mut self) -> Result<Option<Events>, CallError> {
        let request = self.request(None);
        let mut attempt = 0;
        loop {
            match self.remote.send_streaming(&request).await {
                Err(error) if error.is_worth_another_try() && attempt + 1 < self.errand.bounds.attempts => {
                    attempt += 1;
                    tokio::time::sleep(pause(attempt)).await;
                }
                events => return events.map(Some),
            }
        }
    }

    async fn listen(&mut self, events: Events) -> Result<End, CallError> {
        match self.read(events).await? {
            Some(end) => Ok(end),
            None if self.following.task_id().is_none() => {
                Err(CallError::Malformed("the stream ended before it said which task it is about".to_owned()))
            }
            None => self.join_again(None).await,
        }
    }

    /// Reads until the end, or until the stream breaks; a malformed event is the end of it.
    async fn read(&mut self, mut events: Events) -> Result<Option<End>, CallError> {
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    if let Some(end) = self.hear(event).await? {
                        return Ok(Some(end));
                    }
                }
                Err(CallError::Away(why)) => {
                    tracing::debug!(why, "a foreign stream broke");
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Subscribes to the task, as often as its bounds allow without anything new; where it can't, looks.
    async fn join_again(&mut self, mut last: Option<CallError>) -> Result<End, CallError> {
        let Some(task) = self.following.task_id().map(str::to_owned) else {
            return Err(CallError::Malformed("no task to follow".to_owned()));
        };
        for attempt in 0..self.errand.bounds.attempts {
            tokio::time::sleep(pause(attempt)).await;
            match self.remote.subscribe(&task).await {
                Ok(events) => {
                    if let Some(end) = self.read(events).await? {
                        return Ok(end);
                    }
                }
                Err(error) if error.is_worth_another_try() => last = Some(error),
                // It has ended meanwhile, or there is no such thing over there.
                Err(CallError::Refused(_)) => return self.poll().await,
                Err(error) => return Err(error),
            }
        }
        match last {
            Some(error) => Err(error),
            None => self.poll().await,
        }
    }

    async fn poll(&mut self) -> Result<End, CallError> {
        let Some(task) = self.following.task_id().map(str::to_owned) else {
            return Err(CallError::Malformed("no task to look at".to_owned()));
        };
        let bounds = self.errand.bounds;
        let mut misses = 0;
        for _ in 0..bounds.polls {
            let seen = self.remote.get(&task).await;
            drop(self.report.send(News::Polled).await);
            match seen {
                Ok(seen) => {
                    misses = 0;
                    if let Some(end) = self.hear(StreamResponse::Task(Box::new(seen))).await? {
                        return Ok(end);
                    }
                }
                Err(error) if error.is_worth_another_try() && misses + 1 < bounds.attempts => misses += 1,
                Err(error) => return Err(error),
            }
            tokio::time::sleep(Duration::from_millis(bounds.poll_ms)).await;
        }
        let why =
            format!("not done after it was looked at {} times, every {} ms", bounds.polls, bounds.poll_ms);
        Ok(self.following.end(Ending::Timeout, Some(why)))
    }

    /// Waits to be called back; looks now and then, for a call that was lost.
    async fn be_called(&mut self) -> Result<End, CallError> {
        let Some(hooks) = self.hooks.clone().filter(Hooks::can_be_called) else {
            return Err(CallError::Forbidden("nobody can call this node back".to_owned()));
        };
        let mut hook = hooks.open();
        if let Some(end) = self.send(Some(hook.config())).await? {
            return Ok(end);
        }
        let bounds = self.errand.bounds;
        let most = Duration::from_millis(bounds.poll_ms).saturating_mul(bounds.polls);
        let deadline = tokio::time::Instant::now() + most;
        loop {
            match tokio::time::timeout_at(deadline, hook.next()).await {
                // A call back that makes no sense may come from anybody; it ends nothing.
                Ok(Some(event)) => {
                    if let Ok(Some(end)) = self.hear(event).await {
                        return Ok(end);
                    }
                }
                Ok(None) | Err(_) => {
                    self.errand.bounds.polls = 1;
                    return self.poll().await;
                }
            }
        }
    }

    async fn hear(&mut self, event: StreamResponse) -> Result<Option<End>, CallError> {
        let (news, end) = self.following.hear(event).map_err(CallError::Malformed)?;
        for news in news {
            if let News::Began { task_id, .. } = &news {
                self.hold.task = Some(task_id.clone());
                if let (Some(notes), None) = (&self.notes, &end) {
                    notes.keep(&self.key, task_id).await;
                }
            }
            drop(self.report.send(news).await);
        }
        Ok(end)
    }
}
