//! Sends a dead letter again, unchanged and under its own id, so that a recipient that had received it answers with a
//! duplicate. If it has expired meanwhile, it is sent once more without its expiry.

use super::{Effect, Event, EventKind, Label, Outcome, Pattern, View};
use protocol::{
    envelope::Envelope,
    message::MessageKind,
    problem::Reason,
    task::{Status, TaskState},
};
use serde::{Deserialize, Serialize};

/// The redelivery of one dead letter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Redelivery {
    dead_letter: Box<Envelope>,
    #[serde(default)]
    is_renewed: bool,
    settled: bool,
}

impl Redelivery {
    /// Sends `dead_letter` again.
    pub fn new(dead_letter: Envelope) -> Self {
        Self { dead_letter: Box::new(dead_letter), is_renewed: false, settled: false }
    }

    fn settle(&mut self, state: TaskState, message: String) -> Vec<Effect> {
        if std::mem::replace(&mut self.settled, true) {
            return Vec::new();
        }
        vec![Effect::Finish(Outcome::new(Status::new(state, message)))]
    }
}

impl Pattern for Redelivery {
    const NAME: &'static str = "redelivery";
    const OPENED_BY: &'static [MessageKind] = &[];
    const RECEIVES: &'static [MessageKind] = &[];

    fn view(&self) -> View<'_> {
        View { dead_letter: Some(&self.dead_letter), ..View::default() }
    }

    fn on(&mut self, event: &Event) -> Vec<Effect> {
        match &event.what {
            EventKind::Started => vec![resend(self.dead_letter.clone())],
            EventKind::Delivered { by, .. } => {
                self.settle(TaskState::Completed, format!("delivered to {by}"))
            }
            EventKind::Undelivered { reason, .. }
                if reason == Reason::Expired.code() && !self.is_renewed && !self.settled =>
            {
                self.is_renewed = true;
                let renewed =
                    Envelope { timestamp: Some(event.wall), expires_at: None, ..(*self.dead_letter).clone() };
                vec![resend(Box::new(renewed))]
            }
            EventKind::Undelivered { message, .. } => self.settle(TaskState::Failed, message.clone()),
            EventKind::Cancelled { reason, .. } => self.settle(TaskState::Canceled, reason.clone()),
            _ => Vec::new(),
        }
    }
}

fn resend(envelope: Box<Envelope>) -> Effect {
    Effect::Resend { label: Label::Resend, envelope }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{
        ids::AgentId,
        principal::Principal,
        time::{NodeTime, WallTime},
    };

    #[test]
    fn a_cancelled_redelivery_ends_and_does_not_send_again() {
        let dead_letter = serde_json::json!({
            "messageId": "m-1", "fromAgentId": "a", "toAgentId": "b", "type": "task-cancel", "payload": { "taskId": "t-1" }
        });
        let mut redelivery = Redelivery::new(serde_json::from_value(dead_letter).unwrap());
        let mut on = |what| redelivery.on(&Event { at: NodeTime(0), wall: WallTime(0), what });
        assert_eq!(on(EventKind::Started).len(), 1);
        let by = Principal::local_user();
        let ended = on(EventKind::Cancelled { by, reason: "a test".to_owned() });
        let [Effect::Finish(outcome)] = ended.as_slice() else { panic!("{ended:?}") };
        assert_eq!(outcome.status.state, TaskState::Canceled);
        let (label, to) = (Label::Resend, AgentId::parse("b").unwrap());
        let (reason, message) = (Reason::Expired.code().to_owned(), String::new());
        assert_eq!(on(EventKind::Undelivered { label, to, reason, message }), []);
    }
}
