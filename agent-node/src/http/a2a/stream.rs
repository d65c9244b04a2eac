//! The event stream of one task: an initial event, then each later event once, until the task is interrupted or ends.

use super::call::{A2aCall, store};
use crate::{
    artifacts::ShownFiles,
    http::{drain::DrainSignal, events::HEARTBEAT},
    tasks::{self, TaskEvent, follower::TaskFollower},
};
use actix_web::{HttpResponse, http::header};
use bytes::Bytes;
use futures_util::{FutureExt as _, stream};
use protocol::{
    a2a::{error::A2aError, event::StreamResponse, hitl},
    ids::AgentId,
    principal::Principal,
    task::EXTENSION,
};
use serde_json::json;
use std::{collections::VecDeque, convert::Infallible};
use store::{Revision, SharedStore};

pub(crate) struct TaskEventStream {
    follower: TaskFollower,
    ready: VecDeque<StreamResponse>,
    /// Events held back until the brain's output decides between task and message, and the step that began the task.
    held: Option<(VecDeque<StreamResponse>, Option<Revision>)>,
    closes_when_interrupted: bool,
    /// Store and agent to read the award from, for the last event.
    award: Option<(SharedStore, AgentId)>,
    /// Store, agent and client to read open questions with, if the client activates the human-in-the-loop extension.
    hitl: Option<(SharedStore, AgentId, Principal)>,
    is_over: bool,
    files: ShownFiles,
}

impl TaskEventStream {
    /// `first`, then the events of `follower`.
    pub(super) fn new(follower: TaskFollower, first: StreamResponse, call: &A2aCall) -> Self {
        let is_over = first.is_terminal();
        let award = call.wants_extension().then(|| (call.local.store.clone(), call.local.id.clone()));
        let hitl =
            call.wants_hitl().then(|| (call.local.store.clone(), call.local.id.clone(), call.by.clone()));
        let ready = [first].into();
        let files = call.local.shown_files();
        Self { follower, ready, held: None, closes_when_interrupted: false, award, hitl, is_over, files }
    }

    /// The same, but ends when the task is interrupted.
    pub(super) fn closing_when_interrupted(mut self) -> Self {
        self.closes_when_interrupted = true;
        self.is_over |= self.ready.iter().any(is_interruption);
        self
    }

    /// The same, but holds events back until the brain's output decides between task and message.
    pub(super) fn holding_back(mut self) -> Self {
        self.held = Some((std::mem::take(&mut self.ready), None));
        self
    }

    /// The next event; `None` at the end. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Result<StreamResponse, A2aError>> {
        loop {
            if let Some(mut event) = self.ready.pop_front() {
                self.files.show_event(&mut event).await;
                return Some(Ok(event));
            }
            if self.is_over {
                return None;
            }
            match self.follower.next().await {
                Ok(events) if events.is_empty() => self.finish(),
                Ok(events) => events.into_iter().for_each(|event| self.push(event)),
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(store(&error)));
                }
            }
        }
    }

    fn push(&mut self, event: TaskEvent) {
        if self.is_over {
            return;
        }
        let TaskEvent { id, mut data, is_last } = event;
        if is_last {
            self.add_award(&mut data);
        }
        self.attach_hitl(&mut data);
        self.is_over |= is_last || self.closes_when_interrupted && is_interruption(&data);
        let Some((held, first_step)) = &mut self.held else { return self.ready.push_back(data) };
        if matches!(data, StreamResponse::Message(_)) {
            // The answer is a message, so events of a task are dropped.
            self.held = None;
            self.ready = [data].into();
            return;
        }
        held.push_back(data);
        if *first_step.get_or_insert(id.0) != id.0 || self.is_over {
            self.release_held();
        }
    }

    /// Ends the stream after the held events, from which the client learns the task's id.
    fn finish(&mut self) {
        self.is_over = true;
        self.release_held();
    }

    fn release_held(&mut self) {
        if let Some((held, _)) = self.held.take() {
            self.ready.extend(held);
        }
    }

    /// Adds the task's open questions to the event that it waits.
    fn attach_hitl(&self, event: &mut StreamResponse) {
        let (Some((store, me, by)), StreamResponse::StatusUpdate(update)) = (&self.hitl, event) else {
            return;
        };
        if !update.status.state.is_interrupted() {
            return;
        }
        let task = &self.follower.task().spec.task_id;
        if let Ok(Some(row)) = tasks::row(store.as_ref(), me, task, by) {
            hitl::attach(&mut update.status.message, task.as_str(), &row.task.status.questions);
        }
    }

    fn add_award(&self, event: &mut StreamResponse) {
        let (Some((store, me)), StreamResponse::StatusUpdate(update)) = (&self.award, event) else { return };
        let conversation = &self.follower.task().conversation;
        if let Ok(Some(award)) = tasks::award(store.as_ref(), me, conversation) {
            update.metadata.insert(EXTENSION.to_owned(), json!({ "award": award }));
        }
    }
}

fn is_interruption(event: &StreamResponse) -> bool {
    match event {
        StreamResponse::Task(task) => task.status.state.is_interrupted(),
        StreamResponse::StatusUpdate(update) => update.status.state.is_interrupted(),
        StreamResponse::Message(_) | StreamResponse::ArtifactUpdate(_) => false,
    }
}

/// A response of server-sent events, each formatted by `write`; it ends when the node drains. `extensions` is a header.
pub(super) fn answer(
    events: TaskEventStream,
    drain: &DrainSignal,
    extensions: Option<(&'static str, String)>,
    write: impl Fn(Result<StreamResponse, A2aError>) -> String + 'static,
) -> HttpResponse {
    let drained = Box::pin(drain.started().fuse());
    let body = stream::unfold((events, drained, write), |(mut events, mut drained, write)| async move {
        let bytes = loop {
            tokio::select! {
                biased;
                event = events.next() => break Bytes::from(format!("data: {}\n\n", write(event?))),
                () = &mut drained => events.finish(),
                () = tokio::time::sleep(HEARTBEAT) => break Bytes::from_static(b": alive\n\n"),
            }
        };
        Some((Ok::<_, Infallible>(bytes), (events, drained, write)))
    });
    let mut answer = HttpResponse::Ok();
    answer
        .content_type("text/event-stream")
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .insert_header(("x-accel-buffering", "no"));
    if let Some(extensions) = extensions {
        answer.insert_header(extensions);
    }
    answer.streaming(body)
}
