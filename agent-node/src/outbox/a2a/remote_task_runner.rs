//! Runs one task of a foreign agent to its end: sends the message and follows the task by stream, polling or push
//! notifications, as its mode says. It subscribes again after a broken stream and resumes after a restart. Every loop is
//! bounded.

use super::{
    CallError, RemoteAgent, RemoteEventStream, callbacks::CallbackRegistry, remote_memory::RemoteMemory,
    remote_task_store::ConversationRemoteTasks,
};
use crate::outbox::random_fraction;
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

/// Consecutive streams without a new event before the task is polled instead.
const MAX_IDLE_STREAMS: u32 = 4;

/// Polling intervals without a push notification before the task is polled once.
const SILENT_POLLS: u32 = 20;

/// Where a runner keeps what must survive it.
#[derive(Clone, Default)]
pub struct RemoteRecords {
    /// The task, so that a restart resumes it.
    pub tasks: Option<ConversationRemoteTasks>,
    /// The context in which it goes on, and how long it takes.
    pub memory: Option<RemoteMemory>,
}

/// Runs `task` under `key`, its effect key. Sends events to `report` in order, all of them before it returns. Dropping the
/// future cancels the task at the foreign agent.
pub async fn run(
    remote: RemoteAgent,
    key: String,
    mut task: RemoteTask,
    RemoteRecords { tasks: store, memory }: RemoteRecords,
    callbacks: Option<CallbackRegistry>,
    report: mpsc::Sender<RemoteTaskEvent>,
) -> RemoteTaskEnd {
    let is_answer = task.message.task_id.is_some();
    let recorded = match store.as_ref().map(|store| store.remote_id(&key)).transpose() {
        Ok(recorded) => recorded.flatten(),
        Err(why) => return RemoteTaskTracker::new(None, is_answer).end(RemoteTaskOutcome::Failed, Some(why)),
    };
    let task_id = recorded.clone().or_else(|| task.message.task_id.clone());
    let is_new = task_id.is_none();
    task.message.context_id = memory.as_ref().filter(|_| is_new).and_then(RemoteMemory::context);
    let tracker = RemoteTaskTracker::new(task_id.clone(), is_answer).within(remote.max_task_bytes());
    let mut runner = RemoteTaskRunner {
        cancel_on_drop: CancelOnDrop { remote: Some(remote.clone()), store: store.clone(), task_id },
        remote,
        key,
        task,
        store,
        callbacks,
        report,
        tracker,
        event_count: 0,
        is_saved: recorded.is_some(),
    };
    let (timeout, begun) = (runner.task.bounds.whole(), Instant::now());
    let run = async {
        match recorded {
            Some(_) => runner.resume().await,
            None => match runner.begin().await {
                // It may have forgotten the context.
                Err(CallError::Refused(_)) if runner.leave_context() => runner.begin().await,
                end => end,
            },
        }
    };
    let end = match tokio::time::timeout(timeout, run).await {
        Ok(Ok(end)) => end,
        Ok(Err(error)) => runner.tracker.end(outcome_of(&error), Some(error.to_string())),
        Err(_) => {
            let why = format!("not done within its bounds, {} ms", timeout.as_millis());
            runner.tracker.end(RemoteTaskOutcome::Timeout, Some(why))
        }
    };
    runner.cancel_on_drop.remote = None;
    if let Some(memory) = memory.filter(|_| is_new) {
        let is_completed = end.how == RemoteTaskOutcome::Completed;
        let context = end.context_id.clone().filter(|_| end.how != RemoteTaskOutcome::Refused);
        let took = is_completed.then(|| begun.elapsed());
        memory.note(context.as_deref(), took).await;
    }
    let Some(task_id) = end.task_id.clone() else { return end };
    match end.how {
        // A later turn sends the answer, or the end of the conversation cancels the task.
        RemoteTaskOutcome::InputRequired | RemoteTaskOutcome::AuthRequired => {
            if let Some(store) = &runner.store {
                store.delete(&task_id).await;
                store.save(&runner.key, &task_id, &runner.remote.card().card).await;
            }
        }
        // The task may still run, but its result is no longer used.
        RemoteTaskOutcome::Timeout
        | RemoteTaskOutcome::Unreachable
        | RemoteTaskOutcome::TooLarge
        | RemoteTaskOutcome::Malformed => {
            cancel_in_background(runner.remote.clone(), runner.store.clone(), task_id);
        }
        _ => {
            if let Some(store) = &runner.store {
                store.delete(&task_id).await;
            }
        }
    }
    end
}

fn outcome_of(error: &CallError) -> RemoteTaskOutcome {
    match error {
        CallError::Unreachable(_) | CallError::Busy { .. } | CallError::Forbidden(_) => {
            RemoteTaskOutcome::Unreachable
        }
        CallError::Unauthenticated(_) => RemoteTaskOutcome::Unauthenticated,
        CallError::Refused(_) => RemoteTaskOutcome::Refused,
        CallError::TooLarge(_) => RemoteTaskOutcome::TooLarge,
        CallError::Malformed(_) => RemoteTaskOutcome::Malformed,
    }
}

/// Cancels the foreign task when the runner is dropped before the task's end.
struct CancelOnDrop {
    remote: Option<RemoteAgent>,
    store: Option<ConversationRemoteTasks>,
    task_id: Option<String>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let (Some(remote), Some(task_id)) = (self.remote.take(), self.task_id.take()) {
            cancel_in_background(remote, self.store.take(), task_id);
        }
    }
}

/// Cancels a foreign task and deletes its records, unless it is being cancelled already.
pub fn cancel_in_background(remote: RemoteAgent, store: Option<ConversationRemoteTasks>, task_id: String) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    if store.as_ref().is_some_and(|store| !store.begin_cancel(&task_id)) {
        return;
    }
    drop(runtime.spawn(async move {
        for failures in 1..RemoteTaskLimits::default().attempts {
            match remote.cancel(&task_id).await {
                Err(error) if error.is_retryable() => pause(failures, &error).await,
                Err(error) => {
                    tracing::debug!(task = task_id, %error, "a foreign task was not cancelled");
                    break;
                }
                Ok(_) => break,
            }
        }
        if let Some(store) = store {
            store.delete(&task_id).await;
            store.end_cancel(&task_id);
        }
    }));
}

/// Waits after `failures` consecutive failed calls; `error` is that of the last one.
async fn pause(failures: u32, error: &CallError) {
    tokio::time::sleep(RemoteTaskLimits::pause(failures, error.retry_after(), random_fraction())).await;
}

struct RemoteTaskRunner {
    cancel_on_drop: CancelOnDrop,
    remote: RemoteAgent,
    key: String,
    task: RemoteTask,
    store: Option<ConversationRemoteTasks>,
    callbacks: Option<CallbackRegistry>,
    report: mpsc::Sender<RemoteTaskEvent>,
    tracker: RemoteTaskTracker,
    /// The number of new events.
    event_count: u64,
    /// Whether the task is recorded, so that a restart resumes it.
    is_saved: bool,
}

impl RemoteTaskRunner {
    async fn begin(&mut self) -> Result<RemoteTaskEnd, CallError> {
        match self.task.mode {
            _ if self.task.is_streamed => {
                let events = self.send_streaming().await?;
                self.follow_stream(events).await
            }
            InteractionMode::Webhook => self.await_callbacks().await,
            _ => match self.send(None).await? {
                Some(end) => Ok(end),
                None => self.resume().await,
            },
        }
    }

    /// Whether the message named a context, which it does no more.
    fn leave_context(&mut self) -> bool {
        self.tracker.task_id().is_none() && self.task.message.context_id.take().is_some()
    }

    /// Follows a task that the foreign agent has.
    async fn resume(&mut self) -> Result<RemoteTaskEnd, CallError> {
        if self.task.is_streamed { self.resubscribe().await } else { self.poll().await }
    }

    fn request(&self, push: Option<PushConfig>) -> SendMessage {
        SendMessage {
            tenant: None,
            message: self.task.message.clone(),
            configuration: Some(SendConfiguration {
                accepted_output_modes: self.task.accepted_modes.clone(),
                task_push_notification_config: push,
                history_length: Some(0),
                return_immediately: matches!(
                    self.task.mode,
                    InteractionMode::Polling | InteractionMode::Webhook
                ),
            }),
            metadata: Default::default(),
        }
    }

    /// Whether a message that failed is sent again. If the award has a runner-up and the agent has not taken the task, then
    /// only within `reach_ms`, the agent's `Retry-After` included.
    fn may_retry(&self, error: &CallError, attempt: u32, begun: Instant) -> bool {
        let RemoteTask { bounds, has_runner_up, message, .. } = &self.task;
        let may_go_to_runner_up = *has_runner_up && message.task_id.is_none();
        let waited = begun.elapsed() + error.retry_after().unwrap_or_default();
        let may_wait = !may_go_to_runner_up || waited < Duration::from_millis(bounds.reach_ms);
        error.is_retryable() && attempt + 1 < bounds.attempts && may_wait
    }

    /// Sends the message, with retries under the same message id.
    async fn send(&mut self, push: Option<PushConfig>) -> Result<Option<RemoteTaskEnd>, CallError> {
        let request = self.request(push);
        let timeout = Duration::from_millis(self.task.bounds.answer_ms);
        let (mut attempt, begun) = (0, Instant::now());
        let response = loop {
            match self.remote.send(&request, timeout).await {
                Err(error) if self.may_retry(&error, attempt, begun) => {
                    attempt += 1;
                    pause(attempt, &error).await;
                }
                response => break response?,
            }
        };
        self.record(match response {
            SendMessageResponse::Task(task) => StreamResponse::Task(task),
            SendMessageResponse::Message(message) => StreamResponse::Message(message),
        })
        .await
    }

    async fn send_streaming(&self) -> Result<RemoteEventStream, CallError> {
        let request = self.request(None);
        let timeout = Duration::from_millis(self.task.bounds.answer_ms);
        let (mut attempt, begun) = (0, Instant::now());
        loop {
            match self.remote.send_streaming(&request, timeout).await {
                Err(error) if self.may_retry(&error, attempt, begun) => {
                    attempt += 1;
                    pause(attempt, &error).await;
                }
                events => return events,
            }
        }
    }

    async fn follow_stream(&mut self, events: RemoteEventStream) -> Result<RemoteTaskEnd, CallError> {
        match self.read(events).await? {
            Some(end) => Ok(end),
            None if self.tracker.task_id().is_none() => {
                Err(CallError::Malformed("the stream ended before it said which task it is about".to_owned()))
            }
            None => self.resubscribe().await,
        }
    }

    /// Reads a stream. Returns `None` if it ends before the task does, and fails at a malformed event.
    async fn read(&mut self, mut events: RemoteEventStream) -> Result<Option<RemoteTaskEnd>, CallError> {
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    if let Some(end) = self.record(event).await? {
                        return Ok(Some(end));
                    }
                }
                Err(error) if error.is_retryable() => {
                    tracing::debug!(%error, "a foreign stream broke");
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Subscribes to the task until it ends. Polls instead if that is not possible or several streams have no new event.
    async fn resubscribe(&mut self) -> Result<RemoteTaskEnd, CallError> {
        let Some(task) = self.tracker.task_id().map(str::to_owned) else {
            return Err(CallError::Malformed("no task to follow".to_owned()));
        };
        let timeout = Duration::from_millis(self.task.bounds.answer_ms);
        let (mut failures, mut idle) = (0, 0);
        loop {
            let event_count = self.event_count;
            match self.remote.subscribe(&task, timeout).await {
                Ok(events) => {
                    if let Some(end) = self.read(events).await? {
                        return Ok(end);
                    }
                    failures = 0;
                    idle = if self.event_count > event_count { 0 } else { idle + 1 };
                    if idle >= MAX_IDLE_STREAMS {
                        return self.poll().await;
                    }
                    tokio::time::sleep(RemoteTaskLimits::pause(idle + 1, None, random_fraction())).await;
                }
                Err(error) if error.is_retryable() => {
                    failures += 1;
                    if failures >= self.task.bounds.attempts {
                        return match self.poll_once(&task).await {
                            Ok(Some(end)) => Ok(end),
                            Ok(None) => self.poll().await,
                            Err(_) => Err(error),
                        };
                    }
                    pause(failures, &error).await;
                }
                // The task has ended, or the agent does not support subscriptions.
                Err(CallError::Refused(_) | CallError::Malformed(_)) => return self.poll().await,
                Err(error) => return Err(error),
            }
        }
    }

    async fn poll_once(&mut self, task: &str) -> Result<Option<RemoteTaskEnd>, CallError> {
        let task = self.remote.get(task).await;
        drop(self.report.send(RemoteTaskEvent::Polled).await);
        self.record(StreamResponse::Task(Box::new(task?))).await
    }

    async fn poll(&mut self) -> Result<RemoteTaskEnd, CallError> {
        let Some(task) = self.tracker.task_id().map(str::to_owned) else {
            return Err(CallError::Malformed("no task to look at".to_owned()));
        };
        let bounds = self.task.bounds;
        let interval = Duration::from_millis(bounds.poll_ms);
        let mut failures = 0;
        for _ in 0..bounds.polls {
            match self.poll_once(&task).await {
                Ok(Some(end)) => return Ok(end),
                Ok(None) => {
                    failures = 0;
                    tokio::time::sleep(interval).await;
                }
                Err(error) if error.is_retryable() && failures + 1 < bounds.attempts => {
                    failures += 1;
                    pause(failures, &error).await;
                }
                Err(error) => return Err(error),
            }
        }
        let why =
            format!("not done after it was looked at {} times, every {} ms", bounds.polls, bounds.poll_ms);
        Ok(self.tracker.end(RemoteTaskOutcome::Timeout, Some(why)))
    }

    /// Sends the message and waits for push notifications. Polls after a long silence: a notification may be lost.
    async fn await_callbacks(&mut self) -> Result<RemoteTaskEnd, CallError> {
        let Some(callbacks) = self.callbacks.clone().filter(CallbackRegistry::is_reachable) else {
            return Err(CallError::Forbidden("nobody can call this node back".to_owned()));
        };
        let mut callback = callbacks.open();
        if let Some(end) = self.send(Some(callback.config())).await? {
            return Ok(end);
        }
        let bounds = self.task.bounds;
        let interval = Duration::from_millis(bounds.poll_ms);
        let deadline = tokio::time::Instant::now() + interval.saturating_mul(bounds.polls);
        loop {
            let poll_at = tokio::time::Instant::now() + interval.saturating_mul(SILENT_POLLS);
            match tokio::time::timeout_at(deadline.min(poll_at), callback.next()).await {
                // An invalid notification is ignored: its sender may not be the foreign agent.
                Ok(Some(event)) => {
                    if let Ok(Some(end)) = self.record(event).await {
                        return Ok(end);
                    }
                }
                Err(_) if poll_at < deadline => {
                    let Some(task) = self.tracker.task_id().map(str::to_owned) else { continue };
                    match self.poll_once(&task).await {
                        Ok(Some(end)) => return Ok(end),
                        Err(error) if !error.is_retryable() => return Err(error),
                        Ok(None) | Err(_) => {}
                    }
                }
                Ok(None) | Err(_) => {
                    self.task.bounds.polls = 1;
                    return self.poll().await;
                }
            }
        }
    }

    /// Reports what is new in `event`. Returns the end of the task, if the event brings it.
    async fn record(&mut self, event: StreamResponse) -> Result<Option<RemoteTaskEnd>, CallError> {
        let (events, end) = self.tracker.apply(event).map_err(|refusal| match refusal {
            EventRefusal::TooLarge(why) => CallError::TooLarge(why),
            EventRefusal::Elsewhere(why) => CallError::Malformed(why),
        })?;
        for event in events {
            self.event_count += 1;
            if let RemoteTaskEvent::Began { task_id, .. } = &event {
                self.cancel_on_drop.task_id = Some(task_id.clone());
            }
            self.save(end.is_some()).await;
            drop(self.report.send(event).await);
        }
        Ok(end)
    }

    /// Records the task once its id is known.
    async fn save(&mut self, has_ended: bool) {
        if let (false, false, Some(store), Some(task_id)) =
            (self.is_saved, has_ended, &self.store, self.tracker.task_id())
        {
            store.save(&self.key, task_id, &self.remote.card().card).await;
            self.is_saved = true;
        }
    }
}
