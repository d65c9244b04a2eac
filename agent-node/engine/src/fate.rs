//! What becomes of a request for a task: who does it, and who finds somebody to do it.

use crate::settings::Openness;

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
    /// Whether it is for this agent alone: another agent addresses it, and does not let it be passed on.
    pub(crate) is_bound: bool,
    /// What this agent does with requests that name no skill.
    pub(crate) openness: Openness,
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
    /// It does the task, as soon as it has a place. If its brain fails, others may do it, unless `is_bound`.
    Do { is_queued: bool, is_bound: bool },
    /// It auctions the task, and bids itself.
    AuctionWithOwnBid,
    /// It auctions the task among others.
    Auction,
    /// It auctions the task among those that orchestrate.
    Delegate,
    /// It needs the name of a skill.
    Refuse,
}

/// The fate of a request.
pub(crate) fn fate(facts: &RequestFacts) -> Fate {
    let is_queued = !facts.has_free_place;
    let does = Fate::Do { is_queued, is_bound: facts.is_bound };
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
        Wanted::OwnSkill if facts.is_bound => does,
        // Its own requests to itself stay here: the path of an auction would not show them.
        Wanted::OwnSkill if facts.others_wait || is_queued && facts.has_peer => Fate::AuctionWithOwnBid,
        Wanted::OwnSkill => does,
        Wanted::Anything => match facts.openness {
            Openness::Open => does,
            Openness::Closed => Fate::Refuse,
            Openness::Delegate => Fate::Delegate,
        },
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
        is_bound: false,
        openness: Openness::Open,
        has_free_place: true,
        others_wait: false,
        has_peer: true,
    };

    #[test]
    fn the_fate_of_a_request_follows_from_its_facts() {
        use Wanted::{Anything, HostWork, OtherSkill, OwnSkill, Session};
        let now = Fate::Do { is_queued: false, is_bound: false };
        let later = Fate::Do { is_queued: true, is_bound: false };
        let of = |wanted| RequestFacts { wanted, ..REQUEST };
        let full = |wanted| RequestFacts { has_free_place: false, ..of(wanted) };
        let own = |wanted| RequestFacts { is_self: true, ..of(wanted) };
        let bound = |facts| RequestFacts { is_bound: true, ..facts };
        let if_it = |openness| RequestFacts { openness, ..of(Anything) };
        let table = [
            ("a skill of this agent", of(OwnSkill), now),
            ("… sent to the skill", RequestFacts { names_me: false, ..of(OwnSkill) }, now),
            ("… while it is full", full(OwnSkill), Fate::AuctionWithOwnBid),
            ("… and nobody else has it", RequestFacts { has_peer: false, ..full(OwnSkill) }, later),
            ("… behind others", RequestFacts { others_wait: true, ..of(OwnSkill) }, Fate::AuctionWithOwnBid),
            ("… for it alone", bound(of(OwnSkill)), Fate::Do { is_queued: false, is_bound: true }),
            ("… while it is full", bound(full(OwnSkill)), Fate::Do { is_queued: true, is_bound: true }),
            ("… to this very agent", RequestFacts { is_addressed: true, ..full(OwnSkill) }, later),
            ("… from itself to itself", own(OwnSkill), now),
            ("… from itself while it is full", RequestFacts { is_self: true, ..full(OwnSkill) }, later),
            ("… from itself to the skill", RequestFacts { names_me: false, ..own(OwnSkill) }, Fate::Auction),
            ("a skill of others", of(OtherSkill), Fate::Auction),
            ("… for it alone", bound(of(OtherSkill)), Fate::Auction),
            ("… to this very agent", RequestFacts { is_addressed: true, ..of(OtherSkill) }, now),
            ("no skill", of(Anything), now),
            ("… while it is full", full(Anything), later),
            ("… for it alone", bound(of(Anything)), Fate::Do { is_queued: false, is_bound: true }),
            ("… of an agent that wants a skill", if_it(Openness::Closed), Fate::Refuse),
            ("… of an agent that delegates", if_it(Openness::Delegate), Fate::Delegate),
            ("… for it alone, that delegates", bound(if_it(Openness::Delegate)), Fate::Delegate),
            ("… to this very agent", RequestFacts { is_addressed: true, ..if_it(Openness::Closed) }, now),
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
