//! The auctions that wait for a place at a bidder, first come, first served per capability and principal.
//!
//! Only the first auction of a queue calls for proposals again: when a bidder is expected to have a free place, when another
//! auction of this agent has given one back, or at once after the one before it has found a place. One that waits for an agent
//! which is away is in no queue, so that it blocks nobody, until there is an agent that it may ask. The queues are derived from
//! the states of the conversations, so a restart builds them again.

use crate::{context::Context, conversation::Conversation, timer_purpose::TimerPurpose, timers::Timers};
use patterns::AuctionPhase;
use protocol::{
    card::Card,
    ids::{AgentId, Capability, ConversationId},
    principal::Principal,
    time::NodeTime,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use store_types::Revision;

/// Which queue an auction waits in.
type QueueKey = (Capability, Principal);

/// Where an auction is in its queue: the older one is before the other.
type QueuePosition = (Revision, ConversationId);

/// The time between two looks for agents that are away.
const LOOK: Duration = Duration::from_secs(1);

/// How far an auction is, see [`AuctionPhase`].
#[derive(Debug, Clone, PartialEq)]
enum Phase {
    Waiting(NodeTime),
    Absent(BTreeSet<AgentId>),
    Calling,
    Placed,
}

impl From<AuctionPhase<'_>> for Phase {
    fn from(phase: AuctionPhase<'_>) -> Self {
        match phase {
            AuctionPhase::Waiting { until } => Self::Waiting(until),
            AuctionPhase::Absent { passed_over } => Self::Absent(passed_over.clone()),
            AuctionPhase::Calling => Self::Calling,
            AuctionPhase::Placed => Self::Placed,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
struct TrackedAuction {
    queue: QueueKey,
    began: Revision,
    phase: Phase,
}

#[derive(Debug, Default)]
struct AuctionQueue {
    /// Each waiting auction, and when a place is expected to be free.
    waiting: BTreeMap<QueuePosition, NodeTime>,
    /// The auction that calls again; the others wait for it.
    caller: Option<ConversationId>,
    /// Whether the first one calls as soon as nobody else calls.
    is_due: bool,
    /// The auction and the time that a timer is set for.
    timer: Option<(ConversationId, NodeTime)>,
}

/// All auctions that wait for a place or have one.
#[derive(Debug, Default)]
pub(crate) struct Auctions {
    auctions: BTreeMap<ConversationId, TrackedAuction>,
    queues: BTreeMap<QueueKey, AuctionQueue>,
    /// Those that wait for an agent that is away.
    absent: BTreeSet<ConversationId>,
    /// Whether a timer for the next look for them is set.
    looks: bool,
    /// Whether this agent itself had a free place when it was last looked at.
    had_free_place: bool,
}

impl Auctions {
    /// Whether an auction of this queue waits or calls again.
    pub(crate) fn has_waiting(&self, capability: &Capability, principal: &Principal) -> bool {
        !self.queues.is_empty() && self.queues.contains_key(&(capability.clone(), principal.clone()))
    }

    /// Takes over how far the auction of a conversation is; `conversation` is `None` if it is not open any more.
    pub(crate) fn track(&mut self, id: &ConversationId, conversation: Option<&Conversation>) {
        let now = conversation.and_then(|conversation| {
            let auction = conversation.pattern.view().auction?;
            let queue = (auction.capability.clone(), auction.principal.clone());
            Some(TrackedAuction { queue, began: conversation.first(), phase: auction.phase.into() })
        });
        let before = match &now {
            Some(auction) => self.auctions.insert(id.clone(), auction.clone()),
            None => self.auctions.remove(id),
        };
        if before == now {
            return;
        }
        let is_waiting = matches!(&now, Some(TrackedAuction { phase: Phase::Waiting(_), .. }));
        self.absent.remove(id);
        if let Some(TrackedAuction { queue, began, phase }) = before {
            if phase == Phase::Placed {
                self.place_freed(&queue.0);
            } else if let Some(queue) = self.queues.get_mut(&queue) {
                queue.waiting.remove(&(began, id.clone()));
                let is_calling = now.as_ref().is_some_and(|now| now.phase == Phase::Calling);
                if !is_calling {
                    queue.caller.take_if(|caller| caller == id);
                }
                queue.is_due |= !is_calling && !is_waiting;
            }
        }
        match now {
            Some(TrackedAuction { queue, began, phase: Phase::Waiting(until) }) => {
                self.queues.entry(queue).or_default().waiting.insert((began, id.clone()), until);
            }
            Some(TrackedAuction { queue, phase: Phase::Calling, .. }) => {
                self.queues.entry(queue).or_default().caller = Some(id.clone());
            }
            Some(TrackedAuction { phase: Phase::Absent(_), .. }) => {
                self.absent.insert(id.clone());
            }
            Some(TrackedAuction { phase: Phase::Placed, .. }) | None => {}
        }
    }

    /// The conversation is read back from the store: what it was told is lost.
    pub(crate) fn forget(&mut self, id: &ConversationId) {
        self.absent.remove(id);
        if let Some(TrackedAuction { queue, began, .. }) = self.auctions.remove(id)
            && let Some(queue) = self.queues.get_mut(&queue)
        {
            queue.waiting.remove(&(began, id.clone()));
            queue.caller.take_if(|caller| caller == id);
        }
    }

    /// A bidder has a free place for the capability.
    fn place_freed(&mut self, capability: &Capability) {
        let queues = self.queues.iter_mut().filter(|((of, _), _)| of == capability);
        queues.for_each(|(_, queue)| queue.is_due = true);
    }

    /// The time for which the timer of a queue was set has come.
    pub(crate) fn timer_fired(&mut self, capability: Capability, principal: Principal) {
        if let Some(queue) = self.queues.get_mut(&(capability, principal)) {
            queue.timer = None;
        }
    }

    /// The time of the next look for agents that are away has come.
    pub(crate) fn look_again(&mut self) {
        self.looks = false;
    }

    /// Takes the auctions that wait for an agent into their queues if there is one that they may ask.
    fn look_for_absent(&mut self, me: &AgentId, timers: &mut Timers, cx: &mut Context<'_>) {
        if self.looks || self.absent.is_empty() || !cx.world.directory().is_synced() {
            return;
        }
        let (now, directory) = (cx.world.now(), cx.world.directory());
        let mut there: BTreeMap<Capability, BTreeSet<AgentId>> = BTreeMap::new();
        for id in std::mem::take(&mut self.absent) {
            let Some(TrackedAuction { queue, began, phase: Phase::Absent(passed_over) }) =
                self.auctions.get_mut(&id)
            else {
                continue;
            };
            let there = there.entry(queue.0.clone()).or_insert_with(|| {
                let candidates = directory.candidates(&queue.0).into_iter();
                let there = candidates.filter(|peer| peer.is_alive && peer.agent != *me);
                there.map(|peer| peer.agent).collect()
            });
            // One that was not there meanwhile may have come back with another card.
            passed_over.retain(|agent| there.contains(agent));
            if there.iter().any(|agent| !passed_over.contains(agent)) {
                self.queues.entry(queue.clone()).or_default().waiting.insert((*began, id), now);
            } else {
                self.absent.insert(id);
            }
        }
        self.looks = true;
        timers.set(LOOK, TimerPurpose::LookForPeers, cx);
    }

    /// The first auction of every queue for which it is time to call, with its capability; for the others a timer is set. After a
    /// restart they wait until the directory is complete: who calls without it finds nobody.
    pub(crate) fn due(
        &mut self,
        card: &Card,
        has_free_place: bool,
        timers: &mut Timers,
        cx: &mut Context<'_>,
    ) -> Vec<(ConversationId, Capability)> {
        self.look_for_absent(&card.agent_id, timers, cx);
        let (now, mut due) = (cx.world.now(), Vec::new());
        if self.queues.is_empty() || !cx.world.directory().is_synced() {
            return due;
        }
        if has_free_place && !self.had_free_place {
            for ((capability, _), queue) in &mut self.queues {
                queue.is_due |= card.support(capability) > 0.0;
            }
        }
        self.had_free_place = has_free_place;
        self.queues.retain(|_, queue| !queue.waiting.is_empty() || queue.caller.is_some());
        for ((capability, principal), queue) in &mut self.queues {
            let Some(((_, head), until)) = queue.waiting.first_key_value() else { continue };
            if queue.caller.is_some() {
                continue;
            }
            if std::mem::take(&mut queue.is_due) || *until <= now {
                queue.caller = Some(head.clone());
                due.push((head.clone(), capability.clone()));
            } else if queue.timer.as_ref() != Some(&(head.clone(), *until)) {
                queue.timer = Some((head.clone(), *until));
                let wait = until.since(now);
                // So that managers that were told the same time do not call at the same time.
                let jitter = (wait / 4).mul_f64((cx.world.random() % 1_000) as f64 / 1_000.0);
                let purpose = TimerPurpose::CallQueue(capability.clone(), principal.clone());
                timers.set(wait + jitter, purpose, cx);
            }
        }
        due
    }
}
