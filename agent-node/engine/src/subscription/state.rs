//! The state of the subscription to the board.

use crate::{AttemptId, ReplyTo};
use protocol::{
    ids::ConversationId,
    signal::{Cursor, Selector, SignalRecord},
};
use std::collections::{BTreeSet, VecDeque};
use store_types::Revision;

/// What the agent subscribes to on the board, and its cursor.
pub(crate) struct BoardSubscription {
    pub(crate) selector: Option<Selector>,
    pub(crate) cursor: Option<Cursor>,
    pub(crate) attempts: u32,
    /// The signal that waits for a retry.
    pub(crate) waiting: Option<(Box<SignalRecord>, ReplyTo)>,
    /// The signal that the current or last input handles.
    pub(crate) in_hand: Option<Revision>,
    /// The cursor that is being recorded.
    pub(crate) recording: Option<Cursor>,
    /// The last signal whose reaction failed.
    pub(crate) failed: Option<Cursor>,
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

    /// The cursor of the signal at `revision`, in the generation that is followed.
    pub(crate) fn at(&self, revision: Revision) -> Cursor {
        let generation = self.cursor.as_ref().and_then(|cursor| cursor.generation.clone());
        Cursor { generation, revision }
    }
}

/// Offers of open tasks that have a conversation and no claim yet.
#[derive(Default)]
pub(crate) struct Offers {
    /// The claim requests that wait for a place.
    pub(crate) waiting: VecDeque<AttemptId>,
    /// The conversations whose claim has been requested. Each takes a place.
    pub(crate) claiming: BTreeSet<ConversationId>,
}
