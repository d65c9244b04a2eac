//! The event of a turn's end.

use patterns::{
    EventKind,
    turn::{Progress, TurnEnd},
};

/// The most bytes of JSON that the mesh adds to a signal of a brain: ids, the sender, the root, the time, the trace.
pub(crate) const SIGNAL_FRAME: usize = 640;

/// Why a turn with these updates fails: one is a signal that may have more than `most` bytes on the board.
pub fn oversized_signal(updates: &[Progress], most: usize) -> Option<String> {
    updates.iter().find_map(|update| {
        let Progress::Signal { signal, .. } = update else { return None };
        let bytes = serde_json::to_vec(update).map_or(usize::MAX, |json| json.len() + SIGNAL_FRAME);
        (bytes > most).then(|| {
            format!(
                "the signal {signal} has {bytes} bytes of JSON with what the mesh adds, the limit is {most} (maxSignalBytes); \
                 what is large goes by reference"
            )
        })
    })
}

/// What the turns of an agent may say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TurnTerms {
    /// Whether a turn may answer a request with a message; elsewhere that is the result's text.
    pub(crate) is_direct: bool,
    pub(crate) max_signal_bytes: usize,
}

impl TurnTerms {
    /// The event of a turn's end. A signal that is too large fails the turn.
    pub(crate) fn end(self, turn: u32, updates: Vec<Progress>, end: Result<TurnEnd, String>) -> EventKind {
        match oversized_signal(&updates, self.max_signal_bytes).map_or(end, Err) {
            Ok(TurnEnd::Message { text }) if !self.is_direct => {
                EventKind::TurnEnded { turn, updates, end: TurnEnd::Done { message: Some(text) } }
            }
            Ok(end) => EventKind::TurnEnded { turn, updates, end },
            Err(reason) => EventKind::TurnFailed { turn, reason },
        }
    }
}
