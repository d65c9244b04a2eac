//! An agent offers an open task on the board for its owner, and takes the result from the agent that did it (DESIGN §6).
//!
//! The task is one of the owner's from here on. The doer reports its end after the board has recorded it, so the board can
//! confirm who did it; a report of anybody else changes nothing. A cancel ends the task here only: the board keeps the offer.

use super::{
    ChunkRange, Effect, Event, EventKind, Outcome, OutgoingSignal, Pattern, Timer, TimerAt, Update, View,
};
use protocol::{
    artifact::ArtifactChunk,
    ids::AgentId,
    message::{Epoch, MessageKind, Payload, TaskResponse},
    principal::Principal,
    task::{OpenTaskKey, Status, TaskState},
};
use serde::{Deserialize, Serialize};
use std::{collections::VecDeque, time::Duration};

/// The publisher's side of one open task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Offer {
    me: AgentId,
    signal: OutgoingSignal,
    /// How long the result is awaited.
    result_within: Duration,
    /// Results that the board has not confirmed, with the agents that report them, at most one of each. The board is asked
    /// about the first.
    results: VecDeque<(AgentId, TaskResponse)>,
    /// Whether the time has passed in which a result is awaited. Only results that had come before still count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_late: bool,
    has_ended: bool,
}

impl Offer {
    /// `me` offers the task of `signal`, and awaits its result for this long.
    pub fn new(me: AgentId, signal: OutgoingSignal, result_within: Duration) -> Self {
        Self { me, signal, result_within, results: VecDeque::new(), is_late: false, has_ended: false }
    }

    fn end(&mut self, state: TaskState, message: Option<String>) -> Outcome {
        self.has_ended = true;
        self.results.clear();
        Outcome::new(Status { message, ..Status::of(state) })
    }

    fn end_late(&mut self) -> Outcome {
        self.end(TaskState::Failed, Some("nobody has done it in time".to_owned()))
    }

    /// Keeps a result until the board has confirmed it. While it asks about one result of a doer, further ones are dropped.
    fn receive(&mut self, doer: &AgentId, response: &TaskResponse) -> Vec<Effect> {
        let is_of_task = self.signal.task_id.as_ref() == Some(&response.task_id);
        if self.is_late
            || !is_of_task
            || !response.state.is_terminal()
            || self.results.iter().any(|(known, _)| known == doer)
        {
            return Vec::new();
        }
        let is_first = self.results.is_empty();
        self.results.push_back((doer.clone(), response.clone()));
        if is_first { self.confirm_first() } else { Vec::new() }
    }

    /// Asks the board about the first result. No claim has epoch 0, so one without an epoch is refused.
    fn confirm_first(&self) -> Vec<Effect> {
        let Some((doer, response)) = self.results.front() else { return Vec::new() };
        let publisher = Principal::Agent(self.me.clone());
        let task = OpenTaskKey { publisher, task_id: response.task_id.clone() };
        vec![Effect::ConfirmResult { task, doer: doer.clone(), epoch: epoch_of(response) }]
    }

    /// The effects of the first result, which the board has confirmed.
    fn take_result(&mut self) -> Vec<Effect> {
        let Some((doer, response)) = self.results.pop_front() else { return Vec::new() };
        let message = response.message.or_else(|| {
            (response.state != TaskState::Completed).then(|| format!("{doer}: {}", response.state.word()))
        });
        let chunks = ChunkRange { from: 0, to: response.artifacts.len() as u64 };
        let outcome = Outcome { chunks, ..self.end(response.state, message) };
        let artifacts = (0..).zip(response.artifacts).map(|(number, artifact)| {
            Effect::Update(Update::Artifact { number, chunk: ArtifactChunk::whole(artifact) })
        });
        let assign = Effect::Assign { doer: Some(doer) };
        [assign].into_iter().chain(artifacts).chain([Effect::Finish(outcome)]).collect()
    }

    /// The epoch that the board is asked about.
    fn asked_epoch(&self) -> Option<Epoch> {
        self.results.front().map(|(_, response)| epoch_of(response))
    }
}

fn epoch_of(response: &TaskResponse) -> Epoch {
    response.epoch.unwrap_or_default()
}

impl Pattern for Offer {
    const NAME: &'static str = "offer";
    const OPENED_BY: &'static [MessageKind] = &[MessageKind::Broadcast];
    const RECEIVES: &'static [MessageKind] = &[MessageKind::TaskResponse];

    fn view(&self) -> View<'_> {
        View::default()
    }

    fn on(&mut self, event: &Event) -> Vec<Effect> {
        if self.has_ended {
            return Vec::new();
        }
        let ended = match &event.what {
            EventKind::Started => {
                let when = TimerAt::Wall(event.wall.plus(self.result_within));
                return vec![
                    Effect::SetTimer { timer: Timer::GiveUp, when },
                    Effect::Publish { signal: self.signal.clone() },
                ];
            }
            EventKind::Published { revision } => {
                let message = format!("offered on the board at revision {revision}");
                return vec![Effect::Update(Update::Status(Status::new(TaskState::Submitted, message)))];
            }
            EventKind::MessageReceived { by, envelope, .. } => {
                return match (by.agent(), &envelope.payload) {
                    (Some(doer), Payload::TaskResponse(response)) => self.receive(doer, response),
                    _ => Vec::new(),
                };
            }
            EventKind::ClaimEnded { epoch } if self.asked_epoch() == Some(*epoch) => {
                return self.take_result();
            }
            EventKind::ClaimExpired { epoch } if self.asked_epoch() == Some(*epoch) => {
                self.results.pop_front();
                if !self.is_late || !self.results.is_empty() {
                    return self.confirm_first();
                }
                self.end_late()
            }
            EventKind::PublishRefused { message, .. } => self.end(TaskState::Failed, Some(message.clone())),
            EventKind::TimerFired { timer: Timer::GiveUp } if self.results.is_empty() => self.end_late(),
            EventKind::TimerFired { timer: Timer::GiveUp } => {
                self.is_late = true;
                return Vec::new();
            }
            EventKind::Cancelled { reason, .. } => self.end(TaskState::Canceled, Some(reason.clone())),
            _ => return Vec::new(),
        };
        vec![Effect::Finish(ended)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{
        ids::TaskId,
        signal::SignalType,
        time::{NodeTime, WallTime},
    };

    fn offer() -> Offer {
        let (me, task) = (AgentId::parse("publisher").unwrap(), TaskId::parse("t-1").unwrap());
        let signal = OutgoingSignal::about(SignalType::task_available(), &task);
        let mut offer = Offer::new(me, signal, Duration::from_secs(60));
        on(&mut offer, EventKind::Started);
        offer
    }

    fn on(offer: &mut Offer, what: EventKind) -> Vec<Effect> {
        offer.on(&Event { at: NodeTime(0), wall: WallTime(0), what })
    }

    fn report(doer: &str, epoch: Epoch) -> EventKind {
        let doer = AgentId::parse(doer).unwrap();
        let payload = serde_json::json!({
            "messageId": "m", "fromAgentId": doer, "toAgentId": "publisher", "type": "task-response",
            "payload": { "taskId": "t-1", "seq": 1, "state": "TASK_STATE_COMPLETED", "epoch": epoch },
        });
        let envelope = protocol::envelope::Envelope::from_json(payload, || unreachable!("it has an id"));
        let envelope = Box::new(envelope.unwrap());
        EventKind::MessageReceived { by: Principal::Agent(doer), answers: None, envelope }
    }

    fn end_of(effects: &[Effect]) -> Option<TaskState> {
        match effects {
            [.., Effect::Finish(outcome)] => Some(outcome.status.state),
            _ => None,
        }
    }

    #[test]
    fn a_result_that_came_in_time_is_awaited_until_the_board_answers() {
        for (answer, end) in [
            (EventKind::ClaimEnded { epoch: 7 }, TaskState::Completed),
            (EventKind::ClaimExpired { epoch: 7 }, TaskState::Failed),
        ] {
            let mut offer = offer();
            on(&mut offer, report("doer", 7));
            assert_eq!(on(&mut offer, EventKind::TimerFired { timer: Timer::GiveUp }), []);
            assert_eq!(on(&mut offer, report("late", 8)), [], "it came too late");
            assert_eq!(end_of(&on(&mut offer, answer)), Some(end));
        }
    }

    #[test]
    fn a_result_counts_only_if_the_board_confirms_it() {
        let mut offer = offer();
        let mut on = |what| on(&mut offer, what);
        let asked = |effects: &[Effect]| match effects {
            [Effect::ConfirmResult { doer, epoch, .. }] => Some((doer.to_string(), *epoch)),
            _ => None,
        };
        assert_eq!(asked(&on(report("impostor", 6))), Some(("impostor".to_owned(), 6)));
        assert_eq!(on(report("doer", 7)), []);
        assert_eq!(on(EventKind::ClaimEnded { epoch: 7 }), [], "the board was not asked about it yet");
        assert_eq!(asked(&on(EventKind::ClaimExpired { epoch: 6 })), Some(("doer".to_owned(), 7)));
        let effects = on(EventKind::ClaimEnded { epoch: 7 });
        let [Effect::Assign { doer: Some(doer) }, Effect::Finish(outcome)] = effects.as_slice() else {
            panic!("{effects:?}")
        };
        assert_eq!((doer.as_str(), outcome.status.state), ("doer", TaskState::Completed));
    }

    #[test]
    fn an_offer_that_nobody_does_fails_in_time_and_once() {
        let task = TaskId::parse("t-1").unwrap();
        let signal = OutgoingSignal::about(SignalType::task_available(), &task);
        let mut offer = Offer::new(AgentId::parse("publisher").unwrap(), signal, Duration::from_secs(60));
        let mut on = |what| offer.on(&Event { at: NodeTime(0), wall: WallTime(0), what });
        let effects = on(EventKind::Started);
        let [Effect::SetTimer { when, .. }, Effect::Publish { .. }] = effects.as_slice() else {
            panic!("{effects:?}")
        };
        assert_eq!(*when, TimerAt::Wall(WallTime(60_000)));
        let late = EventKind::TimerFired { timer: Timer::GiveUp };
        let effects = on(late.clone());
        assert!(
            matches!(effects.as_slice(), [Effect::Finish(outcome)] if outcome.status.state == TaskState::Failed)
        );
        assert_eq!(on(late), []);
    }
}
