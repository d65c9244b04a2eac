//! The state of the subscription to the board.

use crate::ReplyTo;
use protocol::signal::{Selector, SignalRecord};
use store_types::Revision;

/// What the agent subscribes to on the board, and its cursor.
pub(crate) struct BoardSubscription {
    pub(crate) selector: Option<Selector>,
    pub(crate) cursor: Option<Revision>,
    pub(crate) attempts: u32,
    /// The signal that waits for a retry.
    pub(crate) waiting: Option<(Box<SignalRecord>, ReplyTo)>,
    /// The signal that the current or last input handles.
    pub(crate) in_hand: Option<Revision>,
    /// The cursor that is being recorded.
    pub(crate) recording: Option<Revision>,
    /// The last signal whose reaction failed.
    pub(crate) failed: Option<Revision>,
}

impl BoardSubscription {
    pub(crate) fn new(types: &[String]) -> Self {
        let selector = Selector { types: types.to_vec(), ..Selector::default() };
        Self {
            selector: (!types.is_empty()).then_some(selector),
            cursor: None,
            attempts: 0,
            waiting: None,
            in_hand: None,
            recording: None,
            failed: None,
        }
    }

    /// The cursor; `None` before the first is recorded.
    pub(crate) fn cursor(&self) -> Option<Revision> {
        self.cursor
    }
}
