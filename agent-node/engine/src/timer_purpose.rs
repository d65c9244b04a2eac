//! What the timers of an agent are for.

use crate::{AttemptId, records::EffectKey};
use patterns::{Timer, TimerAt};
use protocol::{
    ids::{Capability, ConversationId},
    principal::Principal,
};

/// The purpose of a timer.
pub(crate) enum TimerPurpose {
    /// A pattern set it.
    Pattern { conversation: ConversationId, effect: EffectKey, timer: Timer, at: TimerAt },
    /// Retry an attempt.
    Retry(AttemptId),
    /// Commit deferred events.
    Flush,
    /// End the pause of a conversation that was rolled back.
    Resume(ConversationId),
    /// End the wait of a search for the complete directory.
    Directory { conversation: ConversationId, effect: EffectKey },
    /// The first auction of the queue of a capability and a principal calls for proposals again.
    CallQueue(Capability, Principal),
    /// Look for agents that auctions wait for.
    LookForPeers,
    /// Begin the turn of work whose manager has not answered that the agent is back.
    CheckIn(ConversationId),
    /// Look whether the first turns that quotas keep waiting may begin.
    QuotaOpens,
    /// Subscribe to the board again.
    Subscribe,
    /// Retry the waiting signal.
    Signal,
}
