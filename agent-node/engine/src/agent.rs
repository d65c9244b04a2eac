//! The agent: its state in memory, and the dispatch of inputs.

use crate::{
    Ack, CommitId, Input, Output, PeerLocation, ReplyTo, TimerId, World,
    auction_queue::AuctionQueues,
    bids::BidQuestions,
    commits::PendingCommit,
    context::Context,
    conversation::{Conversation, InternalEvent, parked::ParkedConversations},
    conversation_shares::ConversationShares,
    counts::AgentCounts,
    delivery::lanes::Deliveries,
    owner_answer::OwnerAnswer,
    records::EffectKey,
    retention::state::Retention,
    subscription::state::{BoardSubscription, Offers},
    timers::{TimerPurpose, Timers},
    turns::queue::Turns,
};
use protocol::{
    acceptance::AcceptanceRule,
    card::Card,
    ids::{AgentId, ConversationId, Digest, TaskId},
    limits::Limits,
    patterns::{
        EventKind, TimerAt, WorkPhase,
        contract_net::{Auction, track_record::TrackRecord},
        work::WorkLimits,
    },
    principal::Principal,
    problem::Reason,
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};
use store_types::{Batch, Key, Lane, Snapshot};

/// The configuration of an agent.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    pub card: Arc<Card>,
    pub limits: Arc<Limits>,
    /// Types of signals it reacts to, each exact or ending in `*`.
    pub subscribe: Vec<String>,
    /// How it awards work to bidders.
    pub auction: Auction,
    /// How long it waits for the results of its requests.
    pub work_limits: WorkLimits,
    /// Whether its brain may answer a request with a message instead of a task.
    pub is_direct: bool,
    /// What it demands of results before they count.
    pub acceptance: Arc<[AcceptanceRule]>,
    /// How long its brain has to answer a call for proposals; `None` means that bids are computed.
    pub asks_for_bids: Option<Duration>,
}

/// Messages that are being recorded: the digest of each, and the senders that wait for the same answer.
type MessagesInFlight = BTreeMap<Key, (Digest, Vec<(ReplyTo, Ack)>)>;

/// One agent. It holds open conversations in memory; ended ones are only in its store.
pub struct Agent {
    pub(crate) me: AgentId,
    pub(crate) config: EngineConfig,
    pub(crate) conversations: BTreeMap<ConversationId, Box<Conversation>>,
    pub(crate) shares: ConversationShares,
    /// The conversations that are work of this agent, and how far each is.
    pub(crate) working: BTreeMap<ConversationId, WorkPhase>,
    pub(crate) auction_queues: AuctionQueues,
    /// The peer that holds the award of each conversation that has one.
    pub(crate) awarded: BTreeMap<ConversationId, AgentId>,
    pub(crate) tasks: BTreeMap<(TaskId, Principal), ConversationId>,
    pub(crate) in_flight: MessagesInFlight,
    /// Repeated task requests that wait for the first step of the conversation that the first request opened.
    pub(crate) joiners: BTreeMap<ConversationId, Vec<(ReplyTo, Ack)>>,
    pub(crate) timers: Timers,
    pub(crate) turns: Turns,
    pub(crate) deliveries: Deliveries,
    /// Conversations with messages that are decided once all messages of a request are there.
    pub(crate) held_steps: BTreeSet<ConversationId>,
    /// Whether more messages of a request follow.
    pub(crate) holds_steps: bool,
    /// Conversations with deferred events, which wait for the next step or flush.
    pub(crate) deferred: BTreeSet<ConversationId>,
    pub(crate) track_records: BTreeMap<AgentId, TrackRecord>,
    pub(crate) subscription: BoardSubscription,
    pub(crate) offers: Offers,
    /// Conversations that a failed step has ended once; a second failure parks them.
    pub(crate) failed_before: BTreeSet<ConversationId>,
    pub(crate) parked: ParkedConversations,
    pub(crate) retention: Retention,
    pub(crate) pending: BTreeMap<CommitId, PendingCommit>,
    next_commit: u64,
    pub(crate) events: VecDeque<InternalEvent>,
    /// Searches for peers that wait until the whole directory is known.
    pub(crate) waiting_for_directory: Vec<(ConversationId, EffectKey)>,
    pub(crate) is_draining: bool,
    /// Whether the store had no room for the last step.
    pub(crate) is_store_full: bool,
    pub(crate) bid_questions: BidQuestions,
    pub(crate) counts: AgentCounts,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("me", &self.me).field("open", &self.conversations.len()).finish()
    }
}

impl Agent {
    pub(crate) fn new(config: EngineConfig) -> Self {
        let limit = usize::try_from(config.card.terms.max_parallel.max(1)).unwrap_or(1);
        Self {
            me: config.card.agent_id.clone(),
            subscription: BoardSubscription::new(&config.subscribe),
            offers: Offers::default(),
            config,
            conversations: BTreeMap::new(),
            shares: ConversationShares::default(),
            working: BTreeMap::new(),
            auction_queues: AuctionQueues::default(),
            awarded: BTreeMap::new(),
            tasks: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            joiners: BTreeMap::new(),
            timers: Timers::default(),
            turns: Turns::with_limit(limit),
            deliveries: Deliveries::default(),
            held_steps: BTreeSet::new(),
            holds_steps: false,
            deferred: BTreeSet::new(),
            track_records: BTreeMap::new(),
            failed_before: BTreeSet::new(),
            parked: ParkedConversations::default(),
            retention: Retention::default(),
            pending: BTreeMap::new(),
            next_commit: 0,
            events: VecDeque::new(),
            waiting_for_directory: Vec::new(),
            is_draining: false,
            is_store_full: false,
            bid_questions: BidQuestions::default(),
            counts: AgentCounts::default(),
        }
    }

    /// Handles `input` and returns what the shell must do. Reads at most one page of the store.
    pub fn handle(&mut self, input: Input, store: &dyn Snapshot, world: &mut dyn World) -> Vec<Output> {
        let mut cx = Context { store, world, out: Vec::new() };
        self.subscription.in_hand = None;
        match input {
            Input::Message(message, reply) => self.take_message(message, reply, &mut cx),
            Input::HoldSteps => self.holds_steps = true,
            Input::ReleaseSteps => self.holds_steps = false,
            Input::Direct { task, by, directive, reply } => self.direct(&task, by, directive, reply, &mut cx),
            Input::Cancel { task, by, reason, calls, reply } => {
                self.cancel(&task, by, (reason, calls), reply, &mut cx);
            }
            Input::Answer { task, by, question, answer, message, is_persons, reply } => {
                let said = OwnerAnswer { question, answer, message, is_persons };
                self.answer(&task, by, said, reply, &mut cx);
            }
            Input::Redrive { message, reply } => self.redrive(&message, reply, &mut cx),
            Input::CommitSettled(id, result) => self.commit_settled(id, result, &mut cx),
            Input::Attempted(id, result) => self.attempted(id, result, &mut cx),
            Input::TimerFired(id) => self.timer_fired(id, &mut cx),
            Input::TurnProgress(turn, updates) => self.turn_progress(&turn, updates, &mut cx),
            Input::TurnEnded(turn, updates, end) => self.turn_ended(&turn, updates, end, &mut cx),
            Input::BidAnswered(id, answer, used) => self.bid_answered(id, answer, &used, &mut cx),
            Input::DirectorySynced => self.directory_synced(&mut cx),
            Input::BoardHead(head) => self.board_head(head, &mut cx),
            Input::Signal(posted, reply) => self.signal(posted, reply, &mut cx),
            Input::PassOverSignal(revision, reply) => self.pass_over_signal(revision, reply, &mut cx),
            Input::SubscriptionLost(problem) => self.subscription_lost(&problem, &mut cx),
            Input::PeerGone(peer, why) => self.peer_gone(&peer, &why),
            Input::CardChanged(card) => self.config.card = card,
            Input::Drain => self.begin_drain(&mut cx),
            Input::HandBack => self.hand_back(&cx),
            Input::Sweep => self.begin_sweep(&mut cx),
            Input::Continue => self.continue_sweep(&mut cx),
        }
        self.finish_input(&mut cx);
        cx.out
    }

    /// Delivers internal events, and lets waiting auctions call and waiting claims be requested.
    pub(crate) fn finish_input(&mut self, cx: &mut Context<'_>) {
        self.drain_events(cx);
        self.call_queue_heads(cx);
        self.request_waiting_claims(cx);
        self.drain_events(cx);
    }

    /// Delivers internal events to their conversations, decides the steps that waited for them and begins deliveries, until
    /// nothing is left.
    pub(crate) fn drain_events(&mut self, cx: &mut Context<'_>) {
        loop {
            if let Some(event) = self.events.pop_front() {
                self.handle_event(event, cx);
            } else if let Some(id) = self.deliveries.starting.pop_front() {
                self.attempt(id, cx);
            } else if !self.holds_steps
                && let Some(id) = self.held_steps.pop_first()
            {
                self.advance(&id, false, cx);
            } else {
                return;
            }
        }
    }

    /// Queues an event of a conversation; it is handled before this call of [`Agent::handle`] returns.
    pub(crate) fn queue_event(
        &mut self,
        conversation: &ConversationId,
        closes: Option<EffectKey>,
        what: EventKind,
    ) {
        self.events.push_back(InternalEvent { conversation: conversation.clone(), closes, what });
    }

    pub(crate) fn commit(&mut self, lane: Lane, batch: Batch, pending: PendingCommit, cx: &mut Context<'_>) {
        let id = self.next_commit_id();
        self.pending.insert(id, pending);
        cx.out.push(Output::Commit(id, lane, batch));
    }

    pub(crate) fn next_commit_id(&mut self) -> CommitId {
        self.next_commit += 1;
        CommitId(self.next_commit)
    }

    /// How many tasks it does at a time: the card's `maxParallel`, at least 1.
    pub(crate) fn max_parallel(&self) -> u32 {
        self.config.card.terms.max_parallel.max(1)
    }

    /// The number of tasks it is doing. Tasks that wait for other agents or for a person do not count.
    pub fn running(&self) -> u32 {
        self.count_work(|phase| phase == WorkPhase::Active)
    }

    /// The number of tasks that go on without a person, and soon.
    pub fn unfinished(&self) -> u32 {
        self.count_work(|phase| !matches!(phase, WorkPhase::AwaitsPerson | WorkPhase::Paused))
    }

    fn count_work(&self, is_counted: impl Fn(WorkPhase) -> bool) -> u32 {
        u32::try_from(self.working.values().filter(|phase| is_counted(**phase)).count()).unwrap_or(u32::MAX)
    }

    /// The number of its places that are taken: by tasks that it is doing, and by other turns.
    pub(crate) fn taken_places(&self) -> u32 {
        let others = self.turns.conversations().filter(|id| !self.working.contains_key(*id)).count();
        self.running().saturating_add(u32::try_from(others).unwrap_or(u32::MAX))
    }

    pub(crate) fn has_free_place(&self) -> bool {
        self.taken_places() < self.max_parallel()
    }

    /// When a place is expected to be free, if none is.
    pub(crate) fn place_free_in(&self, cx: &Context<'_>) -> Duration {
        self.turns.free_in(self.config.card.terms.eta.duration(), cx.world.now())
    }

    /// Counts the work in hand again after something has changed about this conversation, and tracks its auction.
    pub(crate) fn count_running(&mut self, changed: &ConversationId) {
        self.count_place(changed);
        self.track_auction(changed);
        let awarded =
            self.conversations.get(changed).and_then(|open| Some(open.pattern.view().awarded?.0.clone()));
        match awarded {
            Some(peer) => drop(self.awarded.insert(changed.clone(), peer)),
            None => drop(self.awarded.remove(changed)),
        }
        let is_pending =
            |open: &Conversation| open.pattern.view().open_task.is_some_and(|task| task.is_pending);
        if !self.conversations.get(changed).is_some_and(|open| is_pending(open)) {
            self.offers.claiming.remove(changed);
        }
    }

    /// Notes how far the work of this conversation is.
    pub(crate) fn count_place(&mut self, changed: &ConversationId) {
        match self.conversations.get(changed).and_then(|conversation| conversation.pattern.view().work) {
            Some(phase) => drop(self.working.insert(changed.clone(), phase)),
            None => drop(self.working.remove(changed)),
        }
    }

    /// The peers that hold awards of this agent.
    pub fn awarded_peers(&self) -> BTreeSet<AgentId> {
        self.awarded.values().cloned().collect()
    }

    /// A peer is gone: its awards go to others. If it is not, its results are fenced.
    fn peer_gone(&mut self, peer: &AgentId, why: &str) {
        let lost = self.awarded.iter().filter(|(_, winner)| *winner == peer);
        let lost: Vec<_> = lost.map(|(id, _)| id.clone()).collect();
        for id in lost {
            let awarded = self.conversations.get(&id).and_then(|open| open.pattern.view().awarded);
            let Some((_, label)) = awarded.filter(|(winner, _)| *winner == peer) else { continue };
            let reason = Reason::RecipientUnreachable.code().to_owned();
            let (to, message) = (peer.clone(), why.to_owned());
            self.queue_event(&id, None, EventKind::Undelivered { label, to, reason, message });
        }
    }

    /// New work is refused from here on; claims that are not yet requested are left to the next start.
    fn begin_drain(&mut self, cx: &mut Context<'_>) {
        self.is_draining = true;
        for id in std::mem::take(&mut self.offers.waiting) {
            self.attempt(id, cx);
        }
    }

    pub(crate) fn timer_fired(&mut self, id: TimerId, cx: &mut Context<'_>) {
        match self.timers.take(id) {
            None => {}
            Some(TimerPurpose::Pattern { conversation, effect, timer, at }) => {
                let is_due = match at {
                    TimerAt::Node(at) => cx.world.now() >= at,
                    TimerAt::Wall(at) => cx.wall() >= at,
                };
                if is_due {
                    let what = EventKind::TimerFired { timer };
                    self.events.push_back(InternalEvent { conversation, closes: Some(effect), what });
                } else {
                    self.set_timer(conversation, effect, timer, at, cx);
                }
            }
            Some(TimerPurpose::Retry(attempt)) => self.attempt(attempt, cx),
            Some(TimerPurpose::Flush) => self.flush(cx),
            Some(TimerPurpose::Resume(id)) => {
                if let Some(conversation) = self.conversations.get_mut(&id) {
                    conversation.resume();
                }
                self.advance(&id, true, cx);
            }
            Some(TimerPurpose::Directory { conversation, effect }) => {
                self.find_peers_now(&conversation, effect, cx);
            }
            Some(TimerPurpose::CallQueue(queue)) => self.auction_queues.timer_fired(&queue),
            Some(TimerPurpose::Subscribe) => self.subscribe(cx),
            Some(TimerPurpose::Signal) => self.retry_signal(cx),
        }
    }

    /// Hands back work that other agents can do; the rest waits for the next start: a question to a person, which is asked again
    /// then, and an award of an agent of this node, which stops too and can award it to nobody else.
    fn hand_back(&mut self, cx: &Context<'_>) {
        let unfinished = self.working.iter().filter(|(_, phase)| **phase != WorkPhase::AwaitsPerson);
        for id in unfinished.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            let manager = self.conversations.get(&id).and_then(|open| open.pattern.view().manager);
            let directory = cx.world.directory();
            let is_kept = manager.is_some_and(|manager| directory.locate(manager) == PeerLocation::Here);
            let reason = (!is_kept).then(|| format!("{} is leaving and could not finish in time", self.me));
            self.queue_event(&id, None, EventKind::Draining { reason });
        }
    }
}

#[cfg(test)]
mod tests;
