//! What a client hears of one task: a first word, then each event once, until the task rests or ends.

use super::call::{Call, store};
use crate::{
    http::{events::HEARTBEAT, leaving::Leaving},
    tasks::{self, TaskEvent, follower::TaskFollower},
};
use actix_web::{HttpResponse, http::header};
use blackboard::store::{Revision, Shared};
use bytes::Bytes;
use futures_util::{FutureExt as _, stream};
use protocol::{
    a2a::{error::A2aError, event::StreamResponse},
    ids::AgentId,
    task::EXTENSION,
};
use serde_json::json;
use std::{collections::VecDeque, convert::Infallible};

/// A client's ear at one task.
pub(crate) struct Heard {
    follow: TaskFollower,
    ready: VecDeque<StreamResponse>,
    /// Kept back until the brain has said whether there is a task at all; and the step that began it.
    held: Option<(VecDeque<StreamResponse>, Option<Revision>)>,
    closes_when_interrupted: bool,
    /// Where the award is looked up that goes with the last event.
    award: Option<(Shared, AgentId)>,
    is_over: bool,
}

impl Heard {
    /// `first`, then whatever `follow` sees.
    pub(super) fn new(follow: TaskFollower, first: StreamResponse, call: &Call) -> Self {
        let is_over = first.is_terminal();
        let award = call.wants_ours().then(|| (call.local.store.clone(), call.local.id.clone()));
        Self { follow, ready: [first].into(), held: None, closes_when_interrupted: false, award, is_over }
    }

    /// The same, which ends when the task waits for its owner.
    pub(super) fn closing_when_interrupted(mut self) -> Self {
        self.closes_when_interrupted = true;
        self.is_over |= self.ready.iter().any(is_interruption);
        self
    }

    /// The same, silent until the brain has said whether there is a task at all.
    pub(super) fn holding_back(mut self) -> Self {
        self.held = Some((std::mem::take(&mut self.ready), None));
        self
    }

    /// The next event; `None` when it is over. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<Result<StreamResponse, A2aError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.is_over {
                return None;
            }
            match self.follow.next().await {
                Ok(events) if events.is_empty() => self.end_here(),
                Ok(events) => events.into_iter().for_each(|seen| self.take(seen)),
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(store(&error)));
                }
            }
        }
    }

    fn take(&mut self, seen: TaskEvent) {
        if self.is_over {
            return;
        }
        let TaskEvent { id, mut data, is_last } = seen;
        if is_last {
            self.add_award(&mut data);
        }
        self.is_over |= is_last || self.closes_when_interrupted && is_interruption(&data);
        let Some((held, begun)) = &mut self.held else { return self.ready.push_back(data) };
        if matches!(data, StreamResponse::Message(_)) {
            // There is no task, so nothing of one is heard.
            self.held = None;
            self.ready = [data].into();
            return;
        }
        held.push_back(data);
        if *begun.get_or_insert(id.0) != id.0 || self.is_over {
            self.let_go();
        }
    }

    /// Nothing more is waited for. What was held back is told: whoever hears it can look for the task later.
    fn end_here(&mut self) {
        self.is_over = true;
        self.let_go();
    }

    fn let_go(&mut self) {
        if let Some((held, _)) = self.held.take() {
            self.ready.extend(held);
        }
    }

    fn add_award(&self, event: &mut StreamResponse) {
        let (Some((store, me)), StreamResponse::StatusUpdate(update)) = (&self.award, event) else { return };
        let conversation = &self.follow.task().conversation;
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

/// The answer that tells what is heard, each event as `write` puts it, until the node leaves.
pub(super) fn answer(
    heard: Heard,
    leaving: &Leaving,
    extensions: Option<String>,
    write: impl Fn(Result<StreamResponse, A2aError>) -> String + 'static,
) -> HttpResponse {
    let leaves = Box::pin(leaving.begun().fuse());
    let body = stream::unfold((heard, leaves, write), |(mut heard, mut leaves, write)| async move {
        let bytes = loop {
            tokio::select! {
                biased;
                event = heard.next() => break Bytes::from(format!("data: {}\n\n", write(event?))),
                () = &mut leaves => heard.end_here(),
                () = tokio::time::sleep(HEARTBEAT) => break Bytes::from_static(b": alive\n\n"),
            }
        };
        Some((Ok::<_, Infallible>(bytes), (heard, leaves, write)))
    });
    let mut answer = HttpResponse::Ok();
    answer
        .content_type("text/event-stream")
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .insert_header(("x-accel-buffering", "no"));
    if let Some(extensions) = extensions {
        answer.insert_header((protocol::a2a::version::EXTENSIONS_PARAMETER, extensions));
    }
    answer.streaming(body)
}
