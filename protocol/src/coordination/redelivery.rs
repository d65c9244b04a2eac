//! A dead letter is sent again, as it was and under its own id: whoever had it already will know it. If it has expired
//! for whoever had not, it is sent with a new life.

use super::{Effect, Event, Outcome, Pattern, What};
use crate::{
    envelope::Envelope,
    problem::Reason,
    task::{Status, TaskState},
};
use serde::{Deserialize, Serialize};

/// One dead letter's second life.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Redelivery {
    letter: Box<Envelope>,
    #[serde(default)]
    is_renewed: bool,
    settled: bool,
}

impl Redelivery {
    /// Sends `letter` again.
    pub fn new(letter: Envelope) -> Self {
        Self { letter: Box::new(letter), is_renewed: false, settled: false }
    }

    /// The message.
    pub fn letter(&self) -> &Envelope {
        &self.letter
    }

    fn settle(&mut self, state: TaskState, message: String) -> Vec<Effect> {
        if std::mem::replace(&mut self.settled, true) {
            return Vec::new();
        }
        vec![Effect::Finish(Outcome {
            status: Status::new(state, message),
            artifacts: Vec::new(),
            kept_word: Default::default(),
            is_message: false,
        })]
    }
}

impl Pattern for Redelivery {
    #[expect(clippy::wildcard_enum_match_arm, reason = "any other event is foreign here and changes nothing")]
    fn on(&mut self, event: &Event) -> Vec<Effect> {
        match &event.what {
            What::Started => vec![Effect::Resend(self.letter.clone())],
            What::Told { by, .. } => self.settle(TaskState::Completed, format!("delivered to {by}")),
            What::Undelivered { reason, .. }
                if reason == Reason::Expired.code() && !self.is_renewed && !self.settled =>
            {
                self.is_renewed = true;
                let renewed =
                    Envelope { timestamp: Some(event.wall), expires_at: None, ..(*self.letter).clone() };
                vec![Effect::Resend(Box::new(renewed))]
            }
            What::Undelivered { message, .. } => self.settle(TaskState::Failed, message.clone()),
            _ => Vec::new(),
        }
    }
}
