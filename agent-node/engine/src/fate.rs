//! What becomes of a request for a task: who does it, and who finds somebody to do it.

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// To host a session.
    Session,
    /// A turn of a session that this agent hosts, from itself.
    HostWork,
    /// A skill of this agent.
    OwnSkill,
    /// A skill that this agent has not.
    OtherSkill,
    /// No skill is named.
    Anything,
}

/// What decides the fate of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestFacts {
    pub(crate) wanted: Wanted,
    /// Whether this agent itself sends it.
    pub(crate) is_self: bool,
    /// Whether it is sent to this agent by its name, not to a skill.
    pub(crate) names_me: bool,
    /// Whether its sender wants this very agent to do it.
    pub(crate) is_addressed: bool,
    /// Whether an A2A client sends it, which can't choose between a skill and an agent.
    pub(crate) is_of_a2a_client: bool,
    /// Whether it is an agent's turn of a seat in a session.
    pub(crate) is_seat_turn: bool,
    /// Whether this agent takes requests that name no skill.
    pub(crate) is_open: bool,
    /// Whether a peer finds somebody for requests that name no skill.
    pub(crate) has_orchestrator: bool,
    pub(crate) has_free_place: bool,
    /// Whether tasks of the same skill and principal wait for a place already.
    pub(crate) others_wait: bool,
    /// Whether another agent may have a free place for it. It counts only if this agent has none.
    pub(crate) has_peer: bool,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// This agent hosts the session.
    Host,
    /// It does the turn of a session that it hosts; that takes no place.
    HostWork,
    /// It does the task, as soon as it has a place.
    Do { is_queued: bool },
    /// It auctions the task, and bids itself.
    AuctionWithOwnBid,
    /// It auctions the task among others.
    Auction,
}

/// The fate of a request.
pub(crate) fn fate(facts: &RequestFacts) -> Fate {
    let is_queued = !facts.has_free_place;
    let does = Fate::Do { is_queued };
    match facts.wanted {
        Wanted::Session => Fate::Host,
        Wanted::HostWork => Fate::HostWork,
        _ if facts.is_addressed => does,
        Wanted::OtherSkill => Fate::Auction,
        // A request of its own that names no agent is for any agent with the skill, itself included: it is a candidate then.
        Wanted::OwnSkill if facts.is_self => {
            if facts.names_me {
                does
            } else {
                Fate::Auction
            }
        }
        // Its own requests to itself stay here: the path of an auction would not show them.
        Wanted::OwnSkill if facts.others_wait || is_queued && facts.has_peer => Fate::AuctionWithOwnBid,
        Wanted::OwnSkill => does,
        // An A2A client names no capability; it chose this agent. So did the host of a session that gives it a turn.
        Wanted::Anything
            if facts.is_open || facts.is_seat_turn || facts.is_of_a2a_client && !facts.has_orchestrator =>
        {
            does
        }
        Wanted::Anything => Fate::Auction,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request of another agent to this one, which has a free place.
    const REQUEST: RequestFacts = RequestFacts {
        wanted: Wanted::OwnSkill,
        is_self: false,
        names_me: true,
        is_addressed: false,
        is_of_a2a_client: false,
        is_seat_turn: false,
        is_open: false,
        has_orchestrator: true,
        has_free_place: true,
        others_wait: false,
        has_peer: true,
    };

    #[test]
    fn the_fate_of_a_request_follows_from_its_facts() {
        use Wanted::{Anything, HostWork, OtherSkill, OwnSkill, Session};
        let now = Fate::Do { is_queued: false };
        let later = Fate::Do { is_queued: true };
        let of = |wanted| RequestFacts { wanted, ..REQUEST };
        let full = |wanted| RequestFacts { has_free_place: false, ..of(wanted) };
        let own = |wanted| RequestFacts { is_self: true, ..of(wanted) };
        let table = [
            ("a skill of this agent", of(OwnSkill), now),
            ("… sent to the skill", RequestFacts { names_me: false, ..of(OwnSkill) }, now),
            ("… while it is full", full(OwnSkill), Fate::AuctionWithOwnBid),
            ("… and nobody else has it", RequestFacts { has_peer: false, ..full(OwnSkill) }, later),
            ("… behind others", RequestFacts { others_wait: true, ..of(OwnSkill) }, Fate::AuctionWithOwnBid),
            ("… to this very agent", RequestFacts { is_addressed: true, ..full(OwnSkill) }, later),
            ("… from itself to itself", own(OwnSkill), now),
            ("… from itself while it is full", RequestFacts { is_self: true, ..full(OwnSkill) }, later),
            ("… from itself to the skill", RequestFacts { names_me: false, ..own(OwnSkill) }, Fate::Auction),
            ("a skill of others", of(OtherSkill), Fate::Auction),
            ("… to this very agent", RequestFacts { is_addressed: true, ..of(OtherSkill) }, now),
            ("no skill", of(Anything), Fate::Auction),
            ("… of an open agent", RequestFacts { is_open: true, ..of(Anything) }, now),
            ("… while it is full", RequestFacts { is_open: true, ..full(Anything) }, later),
            ("… in a turn of a seat", RequestFacts { is_seat_turn: true, ..of(Anything) }, now),
            ("… of an A2A client", RequestFacts { is_of_a2a_client: true, ..of(Anything) }, Fate::Auction),
            (
                "… which nobody orchestrates",
                RequestFacts { is_of_a2a_client: true, has_orchestrator: false, ..of(Anything) },
                now,
            ),
            ("a session", of(Session), Fate::Host),
            ("… while it is full", full(Session), Fate::Host),
            ("… behind others", RequestFacts { others_wait: true, ..of(Session) }, Fate::Host),
            ("the work of a host", own(HostWork), Fate::HostWork),
            ("… while it is full", RequestFacts { is_self: true, ..full(HostWork) }, Fate::HostWork),
        ];
        for (what, facts, expected) in table {
            assert_eq!(fate(&facts), expected, "{what}: {facts:?}");
        }
    }
}
