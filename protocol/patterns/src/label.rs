//! The names that conversations give to their messages, searches and timers.

use protocol::message::Epoch;
use serde::{Deserialize, Serialize};

/// Names a message, search or request of a conversation. The event that reports on it carries the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Label {
    /// The acceptance of the award.
    Accept,
    /// The decline of the award.
    Decline,
    /// A report to the requester, without chunks of artifacts.
    Update,
    /// The report of an agent that has started again: the award may have lapsed meanwhile.
    CheckIn,
    /// A report with chunks.
    Chunks,
    /// The result to the requester.
    Response,
    /// A request of a turn to another agent or a space.
    Request(RequestKey),
    /// An answer, passed on to an agent that asked.
    Answer,
    /// The cancel of a request that is no longer needed.
    Withdraw,
    /// The review of a result.
    Review,
    /// An entry for a space of the board, or its curation.
    Space,
    /// The release of what a sealed stage has posted.
    Release,
    /// The search for the peers of a round.
    Search(u32),
    /// A call for proposals.
    Cfp,
    /// An award.
    Award(Epoch),
    /// The cancel of an award.
    Revoke,
    /// A reject to a bidder.
    Reject,
    /// The question of a help request to a peer.
    Question,
    /// A dead letter.
    Resend,
}

impl Label {
    /// Whether it is a report under the award.
    pub(super) fn is_report(self) -> bool {
        matches!(self, Self::Accept | Self::Update | Self::CheckIn | Self::Chunks | Self::Response)
    }
}

/// Names a timer of a conversation. Setting it again replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Timer {
    /// The task's deadline.
    Deadline,
    /// The next report that renews the lease of the award.
    Renew,
    /// The next renewal of a claim on the board.
    Claim,
    /// The end of the time in which an answer to a request is awaited.
    Request(RequestKey),
    /// The board is told of the task.
    Tell,
    /// The next look at a task whose end is awaited.
    Look(RequestKey),
    /// The next status that tells of the progress of agents that work for the task.
    Progress,
    /// The end of a pause.
    Resume,
    /// The end of the time in which a review is awaited.
    Review,
    /// A timer of a session.
    Session(SessionTimer),
    /// The end of the time in which bids are awaited.
    Bids,
    /// The start of the next round.
    Round,
    /// The end of the time in which the winner must accept.
    Accept,
    /// The end of the winner's lease.
    Lease,
    /// The end of the time in which a place is awaited.
    Queue,
    /// The end of the time in which answers to a help request are awaited.
    Window,
    /// The end of the time in which the result of an offered task is awaited.
    GiveUp,
}

/// Names a request: the turn that made it, and its index there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestKey(pub u32, pub u32);

/// The timers of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SessionTimer {
    /// The end of its time.
    Budget,
    /// The end of a stage's time: stage and iteration.
    Stage(u32, u32),
    /// The end of the time that running turns have after that.
    Grace(u32, u32),
    /// A turn has reported nothing for too long: stage, seat, and its number among the session's turns.
    Stall(u32, u32, u32),
    /// The end of the time of a side conversation: stage and first message.
    Side(u32, u64),
}
