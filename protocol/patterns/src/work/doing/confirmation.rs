//! The end of awarded work: its manager has the result, or has given the task to another agent.

use super::{Doing, Effect, Event, Label};
use crate::{EventKind, Outcome};
use protocol::{
    problem::Reason,
    task::{Status, TaskState},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An outcome whose response, or a report before it, the manager may not have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UnconfirmedOutcome {
    pub(super) outcome: Outcome,
    /// The responses whose delivery is not known yet. A second one follows if a report is given up.
    pub(super) responses: u32,
}

impl Doing {
    /// The manager has fenced a report: the award has lapsed.
    pub(super) fn superseded(&mut self, why: &str) -> Vec<Effect> {
        let so_far = self.so_far(TaskState::Canceled, None);
        let mut effects = self.stop(why);
        self.task.ownership.requester = None;
        self.task.ownership.announces = false;
        let why = format!("superseded: {why}");
        effects.extend(self.task.ownership.finish(TaskState::Canceled, Some(why), BTreeMap::new()));
        if let Some(Effect::Finish(outcome)) = effects.last_mut() {
            outcome.so_far = so_far;
        }
        effects
    }

    /// The effects of `event` while the manager's acknowledgement of the result is awaited: of the response, and of the reports
    /// with chunks, without which the response is incomplete.
    pub(super) fn confirm(&mut self, event: &Event) -> Vec<Effect> {
        let Some(mut unconfirmed) = self.unconfirmed.take() else { return Vec::new() };
        let UnconfirmedOutcome { outcome, responses } = unconfirmed.as_mut();
        let canceled = |outcome: &mut Outcome, why: String| {
            outcome.status = Status::new(TaskState::Canceled, why);
            (outcome.chunks, outcome.produced) = Default::default();
        };
        let (mut effects, mut is_over) = (Vec::new(), false);
        match &event.what {
            EventKind::Delivered { label: Label::Response, .. } => {
                *responses = responses.saturating_sub(1);
            }
            EventKind::Delivered { label: Label::Chunks, .. } => {
                effects = self.task.ownership.chunks_settled(true);
            }
            EventKind::Undelivered { label, reason, message, .. }
                if label.is_report() && *reason == Reason::Fenced.code() =>
            {
                canceled(outcome, format!("superseded: {message}"));
                is_over = true;
            }
            EventKind::Undelivered { label: Label::Chunks, .. } => {
                effects = self.task.ownership.chunks_settled(false);
                *responses += u32::from(!effects.is_empty());
            }
            EventKind::Undelivered { label: Label::Response, reason, message, .. } => {
                effects = self.task.ownership.response_undelivered(reason, message);
                is_over = true;
            }
            EventKind::Cancelled { reason, .. } => {
                canceled(outcome, reason.clone());
                is_over = true;
            }
            EventKind::MessageReceived { by, envelope, .. } => {
                if let Some(reason) = self.task.cancel_reason(by, &envelope.payload) {
                    canceled(outcome, reason);
                    is_over = true;
                }
            }
            _ => {}
        }
        match is_over || *responses == 0 && !self.task.ownership.has_reports_in_flight() {
            true => {
                let mut outcome = unconfirmed.outcome;
                if outcome.status.state == TaskState::Completed {
                    outcome.so_far = None;
                }
                effects.push(Effect::Finish(outcome));
            }
            false => self.unconfirmed = Some(unconfirmed),
        }
        effects
    }
}
