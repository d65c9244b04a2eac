//! Faults that tests plant in their thread: the simulator must find each. Without the feature `planted-faults`,
//! `is_planted` is a constant `false`.

/// A fault of the engine's policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlantedFault {
    /// A delivery that failed is not tried again.
    LostRetry,
    /// A message that opens something is answered before its step is durable.
    EarlyReply,
    /// Effects are performed before the step that decided them is durable.
    EarlyEffects,
    /// A released claim stays in the store.
    KeptClaim,
    /// A duplicate is admitted.
    TakenTwice,
    /// A restart does not send open messages again.
    ForgottenSend,
    /// A restart does not set open timers again.
    ForgottenTimer,
    /// Signals of one conversation do not wait for each other.
    UnorderedSignals,
    /// A message is still sent when it has expired.
    SentExpired,
    /// An award is accepted that is not newer than a known one.
    LateAward,
    /// The board's cursor moves in a commit of its own, before the conversation is recorded.
    CursorAlone,
    /// Deferred events are never committed.
    LostNews,
    /// A duplicate that is received while the first copy is being recorded gets no answer.
    LostJoiner,
    /// A cancel that precedes its award writes no tombstone.
    NoTombstone,
    /// An award is accepted while a tombstone that refuses it is being committed.
    UnseenTombstone,
    /// An open task is done again under a claim that has ended.
    ClaimTwice,
    /// After a failed commit a conversation continues with the state in memory.
    NoRollback,
    /// Receipts are deleted while duplicates are still possible.
    ShortDedup,
    /// The board's cursor moves in memory before the reaction is recorded.
    EarlyCursor,
    /// The board's cursor moves in memory past a signal whose reaction was refused.
    SkippedSignal,
    /// A turn whose restart could not be recorded is never started.
    LostTurn,
    /// A message for an open conversation is recorded, but not handed to it.
    Unheard,
    /// The late answer of a renewal counts after the work has ended.
    LateRenewal,
    /// Open tasks of all publishers share their ids.
    SharedTaskIds,
    /// The pause before the next try of a claim request grows past the lease.
    SlowClaims,
    /// A report under an award that is not in force is acknowledged like any other.
    UnfencedReports,
    /// A task whose bidders are all busy does not wait for a place.
    NoQueue,
    /// A restart does not build the queues of waiting auctions again.
    ForgottenQueue,
    /// An open conversation keeps all journal records that are newer than its first.
    PinnedJournals,
    /// The end of an open task does not wait for the signals about its artifacts.
    LateArtifact,
    /// The artifact of a signal is readable only by those who see the task.
    HiddenArtifact,
    /// An offer that waits for a place hides the signals behind it.
    HiddenSignals,
    /// The generation of the board is not compared.
    ForeignCursor,
    /// A checkpoint is acknowledged before it is durable.
    EarlyCheckpoint,
    /// Results count without the checks that the agent demands.
    UncheckedResults,
    /// A task does not have the budget of its request.
    LostBudget,
}

impl PlantedFault {
    /// Every fault.
    pub const ALL: &'static [Self] = &[
        Self::LostRetry,
        Self::EarlyReply,
        Self::EarlyEffects,
        Self::KeptClaim,
        Self::TakenTwice,
        Self::ForgottenSend,
        Self::ForgottenTimer,
        Self::UnorderedSignals,
        Self::SentExpired,
        Self::LateAward,
        Self::CursorAlone,
        Self::LostNews,
        Self::LostJoiner,
        Self::NoTombstone,
        Self::UnseenTombstone,
        Self::ClaimTwice,
        Self::NoRollback,
        Self::ShortDedup,
        Self::EarlyCursor,
        Self::SkippedSignal,
        Self::LostTurn,
        Self::Unheard,
        Self::LateRenewal,
        Self::SharedTaskIds,
        Self::SlowClaims,
        Self::UnfencedReports,
        Self::NoQueue,
        Self::ForgottenQueue,
        Self::PinnedJournals,
        Self::LateArtifact,
        Self::HiddenArtifact,
        Self::HiddenSignals,
        Self::ForeignCursor,
        Self::EarlyCheckpoint,
        Self::UncheckedResults,
        Self::LostBudget,
    ];
}

#[cfg(not(any(test, feature = "planted-faults")))]
pub(crate) const fn is_planted(_: PlantedFault) -> bool {
    false
}

#[cfg(any(test, feature = "planted-faults"))]
pub(crate) use planted::{
    fail_if_asked, is_planted, panic_if_asked, panic_over_message_if_asked, panic_over_signal_if_asked,
    panic_while_recovering_if_asked,
};
#[cfg(any(test, feature = "planted-faults"))]
pub use planted::{
    fail_steps, panic_on, panic_on_turns, panic_over_messages, panic_over_poison_signals,
    panic_while_recovering, plant,
};

#[cfg(any(test, feature = "planted-faults"))]
mod planted {
    use super::PlantedFault;
    use protocol::{
        patterns::{Event, EventKind},
        signal::Signal,
    };
    use std::cell::Cell;
    use store_types::Error;

    thread_local! {
        static PLANTED: Cell<Option<PlantedFault>> = const { Cell::new(None) };
        static PANICS: Cell<u32> = const { Cell::new(0) };
        static PANICS_ON: Cell<fn(&EventKind) -> bool> = const { Cell::new(is_end_of_turn) };
        static UNWRITTEN: Cell<u32> = const { Cell::new(0) };
        static PANICS_OVER_MESSAGES: Cell<u32> = const { Cell::new(0) };
        static PANICS_OVER_POISON_SIGNALS: Cell<bool> = const { Cell::new(false) };
        static PANICS_WHILE_RECOVERING: Cell<u32> = const { Cell::new(0) };
    }

    fn take(counter: &'static std::thread::LocalKey<Cell<u32>>) -> bool {
        let left = counter.get();
        counter.set(left.saturating_sub(1));
        left > 0
    }

    /// Plants `fault` in the engine of this thread, or removes the one that was planted.
    pub fn plant(fault: Option<PlantedFault>) {
        PLANTED.set(fault);
    }

    pub(crate) fn is_planted(fault: PlantedFault) -> bool {
        PLANTED.get() == Some(fault)
    }

    /// Makes the patterns of this thread panic on the next `times` ends of turns or cancellations.
    pub fn panic_on_turns(times: u32) {
        panic_on(is_end_of_turn, times);
    }

    /// Makes the patterns of this thread panic on the next `times` events for which `is_event` returns true.
    pub fn panic_on(is_event: fn(&EventKind) -> bool, times: u32) {
        PANICS_ON.set(is_event);
        PANICS.set(times);
    }

    fn is_end_of_turn(what: &EventKind) -> bool {
        matches!(what, EventKind::TurnEnded { .. } | EventKind::Cancelled { .. })
    }

    /// Makes the next `times` steps of this thread impossible to write.
    pub fn fail_steps(times: u32) {
        UNWRITTEN.set(times);
    }

    /// Makes the agents of this thread panic, outside of any pattern, over the next `times` messages.
    pub fn panic_over_messages(times: u32) {
        PANICS_OVER_MESSAGES.set(times);
    }

    /// Makes the agents of this thread panic, outside of any pattern, over signals with the subject `poison`, or not.
    pub fn panic_over_poison_signals(does: bool) {
        PANICS_OVER_POISON_SIGNALS.set(does);
    }

    pub(crate) fn panic_over_signal_if_asked(signal: &Signal) {
        let is_poison = signal.subject.as_deref() == Some("poison");
        assert!(!(is_poison && PANICS_OVER_POISON_SIGNALS.get()), "a planted panic over a signal");
    }

    /// Makes the agents of this thread panic in their next `times` recoveries.
    pub fn panic_while_recovering(times: u32) {
        PANICS_WHILE_RECOVERING.set(times);
    }

    pub(crate) fn panic_while_recovering_if_asked() {
        assert!(!take(&PANICS_WHILE_RECOVERING), "a planted panic while recovering");
    }

    pub(crate) fn panic_over_message_if_asked() {
        assert!(!take(&PANICS_OVER_MESSAGES), "a planted panic over a message");
    }

    pub(crate) fn panic_if_asked(event: &Event) {
        assert!(!(PANICS_ON.get()(&event.what) && take(&PANICS)), "a planted panic");
    }

    pub(crate) fn fail_if_asked() -> Result<(), Error> {
        match take(&UNWRITTEN) {
            true => Err(Error::Refused("a planted failure: a record can't be written".to_owned())),
            false => Ok(()),
        }
    }
}
