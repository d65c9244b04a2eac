//! The queue of outgoing messages, signals and claim requests, in FIFO lanes.

use crate::{AttemptId, ClaimRequest, records::EffectKey};
use patterns::Label;
use protocol::{
    envelope::Envelope,
    ids::{AgentId, ConversationId},
    signal::Signal,
    spaces::request::SpaceRequest,
    task::OpenTaskKey,
    trace::TraceContext,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A FIFO lane.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LaneKey {
    /// Messages of one conversation to one peer.
    Peer(AgentId, ConversationId),
    /// Signals of one conversation, and the end of its claim, which the board announces.
    Signals(ConversationId),
    /// Claim requests of one conversation.
    Claims(ConversationId),
    /// Requests of one conversation to spaces of the board.
    Spaces(ConversationId),
    /// All that the agent writes to spaces: what a seat of its own session has proposed is there before the session is curated.
    SpaceWrites,
}

/// A queued message.
#[derive(Debug, Clone)]
pub(crate) struct OutgoingEnvelope {
    /// The label of its pattern.
    pub(crate) label: Label,
    pub(crate) to: AgentId,
    pub(crate) envelope: Envelope,
    /// Whether it is attempted only once.
    pub(crate) best_effort: bool,
    /// Whether it is a dead letter that is sent again: it is attempted once even if it has expired.
    pub(crate) is_redelivery: bool,
    /// The trace it belongs to.
    pub(crate) trace: Option<TraceContext>,
}

impl OutgoingEnvelope {
    /// The task id and the trace id, for logs.
    pub(super) fn task_and_trace(&self) -> (Option<String>, Option<String>) {
        let task = self.envelope.payload.task_id().map(ToString::to_string);
        (task, self.trace.as_ref().map(TraceContext::trace))
    }
}

pub(crate) enum OutgoingContent {
    Message(Box<OutgoingEnvelope>),
    Signal(Box<Signal>),
    Claim(OpenTaskKey, ClaimRequest),
    Space(Label, Box<SpaceRequest>),
}

/// One queue entry.
pub(crate) struct Outgoing {
    /// The effect it performs.
    pub(crate) origin: (ConversationId, EffectKey),
    /// It is attempted when it is the first of each.
    pub(crate) lanes: Vec<LaneKey>,
    pub(crate) what: OutgoingContent,
    pub(crate) attempts: u32,
    /// Whether its conversation knows that the recipient is away.
    pub(crate) is_told_away: bool,
}

impl Outgoing {
    /// One that has not been attempted.
    pub(super) fn new(
        origin: (ConversationId, EffectKey),
        lanes: Vec<LaneKey>,
        what: OutgoingContent,
    ) -> Self {
        Self { origin, lanes, what, attempts: 0, is_told_away: false }
    }
}

/// All queued entries.
#[derive(Default)]
pub(crate) struct Lanes {
    next: u64,
    all: BTreeMap<AttemptId, Outgoing>,
    lanes: BTreeMap<LaneKey, VecDeque<AttemptId>>,
    waiting: BTreeMap<AgentId, usize>,
    /// Entries to attempt before the current call of the agent returns.
    starting: VecDeque<AttemptId>,
    /// Messages that are the first of their lanes, and wait for what their conversation posts.
    held: BTreeSet<AttemptId>,
}

impl Lanes {
    /// How many messages wait, by recipient.
    pub(crate) fn waiting(&self) -> BTreeMap<AgentId, usize> {
        self.waiting.clone()
    }

    pub(crate) fn waiting_for(&self, recipient: &AgentId) -> usize {
        self.waiting.get(recipient).copied().unwrap_or_default()
    }

    pub(crate) fn get(&self, id: AttemptId) -> Option<&Outgoing> {
        self.all.get(&id)
    }

    /// The entry of a lane that performs this effect.
    pub(crate) fn find(&self, lane: &LaneKey, effect: EffectKey) -> Option<AttemptId> {
        let is_of_effect =
            |id: &&AttemptId| self.all.get(id).is_some_and(|outgoing| outgoing.origin.1 == effect);
        self.lanes.get(lane)?.iter().find(is_of_effect).copied()
    }

    pub(crate) fn count_attempt(&mut self, id: AttemptId) {
        let Some(outgoing) = self.all.get_mut(&id) else { return };
        outgoing.attempts += 1;
        if let OutgoingContent::Space(..) = outgoing.what {
            let conversation = outgoing.origin.0.clone();
            self.start_messages(&conversation);
        }
    }

    /// Notes that the conversation of an entry knows that the recipient is away; returns whether it is to be told.
    pub(crate) fn tell_away(&mut self, id: AttemptId) -> bool {
        self.all.get_mut(&id).is_some_and(|outgoing| !std::mem::replace(&mut outgoing.is_told_away, true))
    }

    /// The next entry to attempt.
    pub(crate) fn next_start(&mut self) -> Option<AttemptId> {
        self.starting.pop_front()
    }

    /// Whether nothing is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Adds an entry. The first of its lanes is attempted.
    pub(crate) fn add(&mut self, outgoing: Outgoing) {
        self.next += 1;
        let id = AttemptId(self.next);
        for lane in &outgoing.lanes {
            self.lanes.entry(lane.clone()).or_default().push_back(id);
        }
        if let OutgoingContent::Message(message) = &outgoing.what {
            *self.waiting.entry(message.to.clone()).or_default() += 1;
        }
        self.all.insert(id, outgoing);
        self.start_if_first(Some(id));
    }

    /// The entries of a lane from `first` on; an entry without a lane is alone.
    pub(crate) fn from(&self, first: AttemptId) -> Vec<AttemptId> {
        let lane = self.all.get(&first).and_then(|outgoing| self.lanes.get(outgoing.lanes.first()?));
        match lane {
            Some(lane) => lane.iter().skip_while(|id| **id != first).copied().collect(),
            None => vec![first],
        }
    }

    /// The lanes of an entry.
    pub(crate) fn lanes_of(&self, id: AttemptId) -> Vec<LaneKey> {
        self.all.get(&id).map(|outgoing| outgoing.lanes.clone()).unwrap_or_default()
    }

    /// The first entries of these lanes are attempted.
    pub(crate) fn start(&mut self, lanes: &[LaneKey]) {
        for lane in lanes {
            let first = self.lanes.get(lane).and_then(|lane| lane.front()).copied();
            self.start_if_first(first);
            if let LaneKey::Spaces(conversation) = lane {
                self.start_messages(conversation);
            }
        }
    }

    fn start_if_first(&mut self, id: Option<AttemptId>) {
        let Some(id) = id.filter(|id| self.is_first(*id) && !self.starting.contains(id)) else { return };
        match self.waits_for_post(id) {
            true => drop(self.held.insert(id)),
            false => self.starting.push_back(id),
        }
    }

    /// Attempts the messages of a conversation that have waited for what it posts.
    fn start_messages(&mut self, conversation: &ConversationId) {
        let of_conversation =
            |id: &AttemptId| self.all.get(id).is_some_and(|held| held.origin.0 == *conversation);
        let held: Vec<_> = self.held.iter().copied().filter(of_conversation).collect();
        for id in held {
            self.held.remove(&id);
            self.start_if_first(Some(id));
        }
    }

    /// Whether a message waits for what its conversation has posted before, so that who gets the message finds that on the board:
    /// until the first attempt, so that nothing waits for a board that is away; the end of a seat's turn until it is there.
    pub(crate) fn waits_for_post(&self, id: AttemptId) -> bool {
        let Some(Outgoing { origin, what: OutgoingContent::Message(message), .. }) = self.all.get(&id) else {
            return false;
        };
        let ends_seat = message.envelope.payload.seat_end().is_some();
        let is_awaited = |post: &AttemptId| {
            let post = self.all.get(post).filter(|_| *post < id && !message.best_effort);
            post.is_some_and(|post| match &post.what {
                OutgoingContent::Space(_, request) => request.is_write() && (ends_seat || post.attempts == 0),
                OutgoingContent::Message(_) | OutgoingContent::Signal(_) | OutgoingContent::Claim(..) => {
                    false
                }
            })
        };
        let posts = self.lanes.get(&LaneKey::Spaces(origin.0.clone()));
        posts.is_some_and(|posts| posts.iter().any(is_awaited))
    }

    /// How many entries wait in `lane`.
    pub(crate) fn len(&self, lane: &LaneKey) -> usize {
        self.lanes.get(lane).map_or(0, VecDeque::len)
    }

    fn is_first(&self, id: AttemptId) -> bool {
        let is_first = |lane| self.lanes.get(lane).and_then(VecDeque::front) == Some(&id);
        self.all.get(&id).is_some_and(|outgoing| outgoing.lanes.iter().all(is_first))
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, id: AttemptId) -> Option<Outgoing> {
        let outgoing = self.all.remove(&id)?;
        self.held.remove(&id);
        if let OutgoingContent::Message(message) = &outgoing.what
            && let Some(waiting) = self.waiting.get_mut(&message.to)
        {
            *waiting -= 1;
            if *waiting == 0 {
                self.waiting.remove(&message.to);
            }
        }
        for lane in &outgoing.lanes {
            let Some(queue) = self.lanes.get_mut(lane) else { continue };
            queue.retain(|queued| *queued != id);
            if queue.is_empty() {
                self.lanes.remove(lane);
            }
        }
        Some(outgoing)
    }
}
