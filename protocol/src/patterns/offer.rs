//! An agent offers an open task on the board for its owner, and takes the result from the agent that did it (DESIGN §6).
//!
//! The task is one of the owner's from here on. The doer reports its end after the board has recorded it. A cancel ends the
//! task here only: the board keeps the offer.

use super::{ChunkRange, EventKind, Outcome, OutgoingSignal, Pattern, TimerAt, Uninhabited, Update};
use crate::{
    artifact::ArtifactChunk,
    ids::AgentId,
    message::{MessageKind, Payload, TaskResponse},
    task::{Status, TaskState},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

type OfferEvent = super::Event<Uninhabited, OfferTimer>;
type OfferEffect = super::Effect<Uninhabited, OfferTimer>;

/// The timers of an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OfferTimer {
    /// The end of the time in which a result is awaited.
    GiveUp,
}

/// The publisher's side of one open task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Offer {
    signal: OutgoingSignal,
    /// How long the result is awaited.
    result_within: Duration,
    has_ended: bool,
}

impl Offer {
    /// Offers the task of `signal`, and awaits its result for this long.
    pub fn new(signal: OutgoingSignal, result_within: Duration) -> Self {
        Self { signal, result_within, has_ended: false }
    }

    fn end(&mut self, state: TaskState, message: Option<String>) -> Outcome {
        self.has_ended = true;
        Outcome::new(Status { state, message })
    }

    fn receive(&mut self, doer: &AgentId, response: &TaskResponse) -> Vec<OfferEffect> {
        if self.signal.task_id.as_ref() != Some(&response.task_id) || !response.state.is_terminal() {
            return Vec::new();
        }
        let message = response.message.clone().or_else(|| {
            (response.state != TaskState::Completed).then(|| format!("{doer}: {}", response.state.word()))
        });
        let chunks = ChunkRange { from: 0, to: response.artifacts.len() as u64 };
        let outcome = Outcome { chunks, ..self.end(response.state, message) };
        let artifacts = (0..).zip(&response.artifacts).map(|(number, artifact)| {
            OfferEffect::Update(Update::Artifact { number, chunk: ArtifactChunk::whole(artifact.clone()) })
        });
        let assign = OfferEffect::Assign { doer: Some(doer.clone()) };
        [assign].into_iter().chain(artifacts).chain([OfferEffect::Finish(outcome)]).collect()
    }
}

impl Pattern for Offer {
    type Label = Uninhabited;
    type Timer = OfferTimer;

    const NAME: &'static str = "offer";
    const OPENED_BY: &'static [MessageKind] = &[MessageKind::Broadcast];
    const RECEIVES: &'static [MessageKind] = &[MessageKind::TaskResponse];

    #[expect(clippy::wildcard_enum_match_arm, reason = "any other event is foreign here and changes nothing")]
    fn on(&mut self, event: &OfferEvent) -> Vec<OfferEffect> {
        if self.has_ended {
            return Vec::new();
        }
        let ended = match &event.what {
            EventKind::Started => {
                let when = TimerAt::Wall(event.wall.plus(self.result_within));
                return vec![
                    OfferEffect::SetTimer { timer: OfferTimer::GiveUp, when },
                    OfferEffect::Publish { signal: self.signal.clone() },
                ];
            }
            EventKind::Published { revision } => {
                let message = format!("offered on the board at revision {revision}");
                return vec![OfferEffect::Update(Update::Status(Status::new(TaskState::Submitted, message)))];
            }
            EventKind::MessageReceived { by, envelope, .. } => {
                return match (by.agent(), &envelope.payload) {
                    (Some(doer), Payload::TaskResponse(response)) => self.receive(doer, response),
                    _ => Vec::new(),
                };
            }
            EventKind::PublishRefused { message, .. } => self.end(TaskState::Failed, Some(message.clone())),
            EventKind::TimerFired { timer: OfferTimer::GiveUp } => {
                self.end(TaskState::Failed, Some("nobody has done it in time".to_owned()))
            }
            EventKind::Cancelled { reason, .. } => self.end(TaskState::Canceled, Some(reason.clone())),
            _ => return Vec::new(),
        };
        vec![OfferEffect::Finish(ended)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::TaskId,
        signal::SignalType,
        time::{NodeTime, WallTime},
    };

    #[test]
    fn an_offer_that_nobody_does_fails_in_time_and_once() {
        let task = TaskId::parse("t-1").unwrap();
        let signal = OutgoingSignal::about(SignalType::task_available(), &task);
        let mut offer = Offer::new(signal, Duration::from_secs(60));
        let mut on = |what| offer.on(&OfferEvent { at: NodeTime(0), wall: WallTime(0), what });
        let effects = on(EventKind::Started);
        let [OfferEffect::SetTimer { when, .. }, OfferEffect::Publish { .. }] = effects.as_slice() else {
            panic!("{effects:?}")
        };
        assert_eq!(*when, TimerAt::Wall(WallTime(60_000)));
        let late = EventKind::TimerFired { timer: OfferTimer::GiveUp };
        let effects = on(late.clone());
        assert!(
            matches!(effects.as_slice(), [OfferEffect::Finish(outcome)] if outcome.status.state == TaskState::Failed)
        );
        assert_eq!(on(late), []);
    }
}
