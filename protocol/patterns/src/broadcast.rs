//! Publishes a message as a signal on the board, for its subscribers (RFC-005, pattern 3).

use super::{Effect, Event, EventKind, Outcome, OutgoingSignal, Pattern, View};
use protocol::{
    message::{self, MessageKind},
    principal::{Principal, RootProof},
    signal::ON_BEHALF_OF,
    task::{Status, TaskState},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The publication of one broadcast.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Broadcast {
    signal: OutgoingSignal,
    settled: bool,
}

impl Broadcast {
    /// The broadcast of `message`. The signal's publisher is the agent; `refs` names the principal `by`.
    pub fn new(message: message::Broadcast, by: &Principal) -> Self {
        let message::Broadcast { signal, subject, mut refs, task_id, capability, extra: _ } = message;
        refs.insert(ON_BEHALF_OF.into(), json!(by));
        Self {
            signal: OutgoingSignal {
                kind: signal,
                subject,
                task_id,
                capability,
                refs,
                to: Vec::new(),
                root_proof: None,
            },
            settled: false,
        }
    }

    /// The same, with how the principal was proved.
    #[must_use]
    pub fn proven(mut self, proof: RootProof) -> Self {
        self.signal.root_proof = Some(proof);
        self
    }
}

impl Broadcast {
    /// The signal.
    pub fn announcement(&self) -> &OutgoingSignal {
        &self.signal
    }

    fn settle(&mut self, state: TaskState, message: String) -> Vec<Effect> {
        if std::mem::replace(&mut self.settled, true) {
            return Vec::new();
        }
        let status = Status::new(state, message);
        vec![Effect::Finish(Outcome::new(status))]
    }
}

impl Pattern for Broadcast {
    const NAME: &'static str = "broadcast";
    const OPENED_BY: &'static [MessageKind] = &[MessageKind::Broadcast];
    const RECEIVES: &'static [MessageKind] = &[];

    fn view(&self) -> View<'_> {
        View::default()
    }

    fn on(&mut self, event: &Event) -> Vec<Effect> {
        match &event.what {
            EventKind::Started => vec![Effect::Publish { signal: self.signal.clone() }],
            EventKind::Published { revision } => {
                self.settle(TaskState::Completed, format!("on the board at revision {revision}"))
            }
            EventKind::PublishRefused { message, .. } => self.settle(TaskState::Failed, message.clone()),
            EventKind::Cancelled { reason, .. } => self.settle(TaskState::Canceled, reason.clone()),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{
        message::Payload,
        time::{NodeTime, WallTime},
    };

    #[test]
    fn a_cancelled_broadcast_ends_once() {
        let content = json!({ "signal": "x.y" }).as_object().unwrap().clone();
        let Ok(Payload::Broadcast(message)) = Payload::parse(MessageKind::Broadcast, content) else {
            panic!("a broadcast")
        };
        let by = Principal::local_user();
        let mut broadcast = Broadcast::new(message, &by);
        let mut on = |what| broadcast.on(&Event { at: NodeTime(0), wall: WallTime(0), what });
        on(EventKind::Started);
        let ended = on(EventKind::Cancelled { by, reason: "a test".to_owned() });
        let [Effect::Finish(outcome)] = ended.as_slice() else { panic!("{ended:?}") };
        assert_eq!(outcome.status.state, TaskState::Canceled);
        assert_eq!(on(EventKind::Published { revision: 1 }), []);
    }
}
