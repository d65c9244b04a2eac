//! Runs one errand to its end: sends the message, follows the task as its mode says, joins a broken stream again, and
//! after a restart takes up where it was. Every loop has a bound.

use super::{CallError, Events, Remote, hooks::Hooks, notes::Page};
use crate::outbox::chance;
use futures_util::StreamExt;
use protocol::a2a::{
    event::{SendMessageResponse, StreamResponse},
    interaction::InteractionMode,
    push::PushConfig,
    remote_task::{
        EventRefusal, RemoteTask, RemoteTaskEnd, RemoteTaskEvent, RemoteTaskLimits, RemoteTaskOutcome,
        RemoteTaskTracker,
    },
    request::{SendConfiguration, SendMessage},
};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Streams in a row that bring nothing new before the task is looked at instead.
const IDLE_STREAMS: u32 = 4;

/// How many pauses of one that is looked at a task that calls back may be silent before it is looked at once.
const SILENT_POLLS: u32 = 20;

/// Runs `errand` under `key`, which names it for good. News go to `report`, in order, before this returns. Dropping the
/// future ends the task over there.
pub async fn run(
    remote: Remote,
    key: String,
    errand: RemoteTask,
    notes: Option<Page>,
    hooks: Option<Hooks>,
    report: mpsc::Sender<RemoteTaskEvent>,
) -> RemoteTaskEnd {
    let is_answer = errand.message.task_id.is_some();
    let known = match notes.as_ref().map(|notes| notes.known(&key)).transpose() {
        Ok(known) => known.flatten(),
        Err(why) => return RemoteTaskTracker::new(None, is_answer).end(RemoteTaskOutcome::Failed, Some(why)),
    };
    let task = known.clone().or_else(|| errand.message.task_id.clone());
    let following = RemoteTaskTracker::new(task.clone(), is_answer).within(remote.most());
    let mut run = Run {
        hold: Hold { remote: Some(remote.clone()), notes: notes.clone(), task: task.clone() },
        remote,
        key,
        errand,
        notes,
        hooks,
        report,
        following,
        told: 0,
        is_noted: known.is_some(),
    };
    let whole = run.errand.bounds.whole();
    let pursued = async {
        match known {
            Some(_) => run.follow().await,
            None => run.begin().await,
        }
    };
    let end = match tokio::time::timeout(whole, pursued).await {
        Ok(Ok(end)) => end,
        Ok(Err(error)) => run.following.end(ending(&error), Some(error.to_string())),
        Err(_) => {
            let why = format!("not done within its bounds, {} ms", whole.as_millis());
            run.following.end(RemoteTaskOutcome::Timeout, Some(why))
        }
    };
    run.hold.remote = None;
    let Some(task) = end.task_id.clone() else { return end };
    match end.how {
        // A later turn brings the answer, or the conversation ends and the task with it.
        RemoteTaskOutcome::InputRequired | RemoteTaskOutcome::AuthRequired => {
            if let Some(notes) = &run.notes {
                notes.forget(&task).await;
                notes.keep(&run.key, &task, &run.remote.vetted().card).await;
            }
        }
        // Nobody looks at it any more, so nobody should work at it.
        RemoteTaskOutcome::Timeout
        | RemoteTaskOutcome::Unreachable
        | RemoteTaskOutcome::TooLarge
        | RemoteTaskOutcome::Malformed => {
            give_up(run.remote.clone(), run.notes.clone(), task);
        }
        RemoteTaskOutcome::Completed
        | RemoteTaskOutcome::Failed
        | RemoteTaskOutcome::Rejected
        | RemoteTaskOutcome::Canceled
        | RemoteTaskOutcome::Unauthenticated
        | RemoteTaskOutcome::Refused => {
            if let Some(notes) = &run.notes {
                notes.forget(&task).await;
            }
        }
    }
    end
}

fn ending(error: &CallError) -> RemoteTaskOutcome {
    match error {
        CallError::Away(_) | CallError::Later { .. } | CallError::Forbidden(_) => {
            RemoteTaskOutcome::Unreachable
        }
        CallError::Unauthenticated(_) => RemoteTaskOutcome::Unauthenticated,
        CallError::Refused(_) => RemoteTaskOutcome::Refused,
        CallError::TooLarge(_) => RemoteTaskOutcome::TooLarge,
        CallError::Malformed(_) => RemoteTaskOutcome::Malformed,
    }
}

/// Ends the task over there when the errand is dropped before its end.
struct Hold {
    remote: Option<Remote>,
    notes: Option<Page>,
    task: Option<String>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let (Some(remote), Some(task)) = (self.remote.take(), self.task.take()) {
            give_up(remote, self.notes.take(), task);
        }
    }
}

/// Ends `task` over there, once, and lets go of its notes.
pub fn give_up(remote: Remote, notes: Option<Page>, task: String) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    if notes.as_ref().is_some_and(|notes| !notes.begin_to_end(&task)) {
        return;
    }
    drop(runtime.spawn(async move {
        for failures in 1..RemoteTaskLimits::default().attempts {
            match remote.cancel(&task).await {
                Err(error) if error.is_worth_another_try() => rest(failures, &error).await,
                Err(error) => {
                    tracing::debug!(task, %error, "a foreign task was not cancelled");
                    break;
                }
                Ok(_) => break,
            }
        }
        if let Some(notes) = notes {
            notes.forget(&task).await;
            notes.has_ended(&task);
        }
    }));
}

/// The pause after `failures` calls in a row came to nothing, the last for this reason.
async fn rest(failures: u32, error: &CallError) {
    tokio::time::sleep(RemoteTaskLimits::pause(failures, error.asked_pause(), chance())).await;
}

struct Run {
    hold: Hold,
    remote: Remote,
    key: String,
    errand: RemoteTask,
    notes: Option<Page>,
    hooks: Option<Hooks>,
    report: mpsc::Sender<RemoteTaskEvent>,
    following: RemoteTaskTracker,
    /// How often anything new was heard.
    told: u64,
    /// Whether a restart would take it up where it is.
    is_noted: bool,
}

impl Run {
    async fn begin(&mut self) -> Result<RemoteTaskEnd, CallError> {
        match self.errand.mode {
            InteractionMode::Streaming => match self.open().await? {
                Some(events) => self.listen(events).await,
                None => self.follow().await,
            },
            InteractionMode::Sync | InteractionMode::Polling => match self.send(None).await? {
                Some(end) => Ok(end),
                None => self.follow().await,
            },
            InteractionMode::Webhook => self.be_called().await,
        }
    }

    /// Takes up a task that is known.
    async fn follow(&mut self) -> Result<RemoteTaskEnd, CallError> {
        match self.errand.mode {
            InteractionMode::Streaming => self.join_again().await,
            InteractionMode::Sync | InteractionMode::Polling | InteractionMode::Webhook => self.poll().await,
        }
    }

    fn request(&self, push: Option<PushConfig>) -> SendMessage {
        SendMessage {
            tenant: None,
            message: self.errand.message.clone(),
            configuration: Some(SendConfiguration {
                accepted_output_modes: self.errand.accepted_modes.clone(),
                task_push_notification_config: push,
                history_length: Some(0),
                return_immediately: matches!(
                    self.errand.mode,
                    InteractionMode::Polling | InteractionMode::Webhook
                ),
            }),
            metadata: Default::default(),
        }
    }

    /// Whether a message that came to nothing is sent again. Work that another has bid for too is not waited for long while
    /// nobody is there to take it, or where one who is there asks for more time than that.
    fn may_try_again(&self, error: &CallError, attempt: u32, begun: Instant) -> bool {
        let RemoteTask { bounds, has_runner_up, message, .. } = &self.errand;
        let is_untaken = *has_runner_up && message.task_id.is_none();
        let waited = begun.elapsed() + error.asked_pause().unwrap_or_default();
        let may_wait = !is_untaken || waited < Duration::from_millis(bounds.reach_ms);
        error.is_worth_another_try() && attempt + 1 < bounds.attempts && may_wait
    }

    /// The same message again, under the same id, while nobody answers.
    async fn send(&mut self, push: Option<PushConfig>) -> Result<Option<RemoteTaskEnd>, CallError> {
        let request = self.request(push);
        let within = Duration::from_millis(self.errand.bounds.answer_ms);
        let (mut attempt, begun) = (0, Instant::now());
        let answer = loop {
            match self.remote.send(&request, within).await {
                Err(error) if self.may_try_again(&error, attempt, begun) => {
                    attempt += 1;
                    rest(attempt, &error).await;
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
        let within = Duration::from_millis(self.errand.bounds.answer_ms);
        let (mut attempt, begun) = (0, Instant::now());
        loop {
            match self.remote.send_streaming(&request, within).await {
                Err(error) if self.may_try_again(&error, attempt, begun) => {
                    attempt += 1;
                    rest(attempt, &error).await;
                }
                events => return events.map(Some),
            }
        }
    }

    async fn listen(&mut self, events: Events) -> Result<RemoteTaskEnd, CallError> {
        match self.read(events).await? {
            Some(end) => Ok(end),
            None if self.following.task_id().is_none() => {
                Err(CallError::Malformed("the stream ended before it said which task it is about".to_owned()))
            }
            None => self.join_again().await,
        }
    }

    /// Reads until the end, or until the stream breaks; a malformed event is the end of it.
    async fn read(&mut self, mut events: Events) -> Result<Option<RemoteTaskEnd>, CallError> {
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    if let Some(end) = self.hear(event).await? {
                        return Ok(Some(end));
                    }
                }
                Err(error) if error.is_worth_another_try() => {
                    tracing::debug!(%error, "a foreign stream broke");
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Subscribes to the task, as often as its bounds allow without anything new; where it can't, looks.
    async fn join_again(&mut self) -> Result<RemoteTaskEnd, CallError> {
        let Some(task) = self.following.task_id().map(str::to_owned) else {
            return Err(CallError::Malformed("no task to follow".to_owned()));
        };
        let within = Duration::from_millis(self.errand.bounds.answer_ms);
        let (mut failures, mut idle) = (0, 0);
        loop {
            let told = self.told;
            match self.remote.subscribe(&task, within).await {
                Ok(events) => {
                    if let Some(end) = self.read(events).await? {
                        return Ok(end);
                    }
                    failures = 0;
                    idle = if self.told > told { 0 } else { idle + 1 };
                    if idle >= IDLE_STREAMS {
                        return self.poll().await;
                    }
                    tokio::time::sleep(RemoteTaskLimits::pause(idle + 1, None, chance())).await;
                }
                Err(error) if error.is_worth_another_try() => {
                    failures += 1;
                    if failures >= self.errand.bounds.attempts {
                        return match self.look(&task).await {
                            Ok(Some(end)) => Ok(end),
                            Ok(None) => self.poll().await,
                            Err(_) => Err(error),
                        };
                    }
                    rest(failures, &error).await;
                }
                // It has ended meanwhile, or its tasks can't be listened to.
                Err(CallError::Refused(_) | CallError::Malformed(_)) => return self.poll().await,
                Err(error) => return Err(error),
            }
        }
    }

    async fn look(&mut self, task: &str) -> Result<Option<RemoteTaskEnd>, CallError> {
        let seen = self.remote.get(task).await;
        drop(self.report.send(RemoteTaskEvent::Polled).await);
        self.hear(StreamResponse::Task(Box::new(seen?))).await
    }

    async fn poll(&mut self) -> Result<RemoteTaskEnd, CallError> {
        let Some(task) = self.following.task_id().map(str::to_owned) else {
            return Err(CallError::Malformed("no task to look at".to_owned()));
        };
        let bounds = self.errand.bounds;
        let between = Duration::from_millis(bounds.poll_ms);
        let mut misses = 0;
        for _ in 0..bounds.polls {
            match self.look(&task).await {
                Ok(Some(end)) => return Ok(end),
                Ok(None) => {
                    misses = 0;
                    tokio::time::sleep(between).await;
                }
                Err(error) if error.is_worth_another_try() && misses + 1 < bounds.attempts => {
                    misses += 1;
                    rest(misses, &error).await;
                }
                Err(error) => return Err(error),
            }
        }
        let why =
            format!("not done after it was looked at {} times, every {} ms", bounds.polls, bounds.poll_ms);
        Ok(self.following.end(RemoteTaskOutcome::Timeout, Some(why)))
    }

    /// Waits to be called back; looks now and then, for a call that was lost.
    async fn be_called(&mut self) -> Result<RemoteTaskEnd, CallError> {
        let Some(hooks) = self.hooks.clone().filter(Hooks::can_be_called) else {
            return Err(CallError::Forbidden("nobody can call this node back".to_owned()));
        };
        let mut hook = hooks.open();
        if let Some(end) = self.send(Some(hook.config())).await? {
            return Ok(end);
        }
        let bounds = self.errand.bounds;
        let pause = Duration::from_millis(bounds.poll_ms);
        let deadline = tokio::time::Instant::now() + pause.saturating_mul(bounds.polls);
        loop {
            let silence = tokio::time::Instant::now() + pause.saturating_mul(SILENT_POLLS);
            match tokio::time::timeout_at(deadline.min(silence), hook.next()).await {
                // A call back that makes no sense may come from anybody; it ends nothing.
                Ok(Some(event)) => {
                    if let Ok(Some(end)) = self.hear(event).await {
                        return Ok(end);
                    }
                }
                Err(_) if silence < deadline => {
                    let Some(task) = self.following.task_id().map(str::to_owned) else { continue };
                    match self.look(&task).await {
                        Ok(Some(end)) => return Ok(end),
                        Err(error) if !error.is_worth_another_try() => return Err(error),
                        Ok(None) | Err(_) => {}
                    }
                }
                Ok(None) | Err(_) => {
                    self.errand.bounds.polls = 1;
                    return self.poll().await;
                }
            }
        }
    }

    async fn hear(&mut self, event: StreamResponse) -> Result<Option<RemoteTaskEnd>, CallError> {
        let (news, end) = self.following.apply(event).map_err(|unfit| match unfit {
            EventRefusal::TooLarge(why) => CallError::TooLarge(why),
            EventRefusal::Elsewhere(why) => CallError::Malformed(why),
        })?;
        for news in news {
            self.told += 1;
            if let RemoteTaskEvent::Began { task_id, .. } = &news {
                self.hold.task = Some(task_id.clone());
            }
            self.note(end.is_some()).await;
            drop(self.report.send(news).await);
        }
        Ok(end)
    }

    /// Notes the task as soon as it has heard of the message.
    async fn note(&mut self, has_ended: bool) {
        if let (false, false, Some(notes), Some(task)) =
            (self.is_noted, has_ended, &self.notes, self.following.task_id())
        {
            notes.keep(&self.key, task, &self.remote.vetted().card).await;
            self.is_noted = true;
        }
    }
}
