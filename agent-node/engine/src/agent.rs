//! The agent: its machines, and the dispatch of inputs. Each machine keeps its state to itself and is given what else it needs;
//! what concerns several of them is done here and in the files below.

mod begin;
mod failed_steps;
mod incoming;
mod messages;
mod open_tasks;
mod parking;
mod perform;
mod quotas;
mod recovery;
mod requests;
mod signals;
mod snapshot;
mod steps;
mod supersede;
mod task_control;
mod turns;

pub use recovery::{RecoverError, newest_time};
pub use snapshot::{AgentSnapshot, ReadableLayers};

use crate::{
    AttemptId, AttemptResult, BidQuestionId, Input, Output, PeerLocation, TimerId, World,
    admission::Admission,
    auctions::Auctions,
    bids::{Bidder, Bids},
    commits::Commits,
    context::Context,
    contexts::Contexts,
    conversations::Conversations,
    counts::AgentCounts,
    delivery::{Deliveries, DeliveryContext, lanes::OutgoingEnvelope},
    internal_events::InternalEvents,
    offers::Offers,
    owner_answer::OwnerAnswer,
    peers::KnownPeers,
    quotas::Quotas,
    records::EffectKey,
    retention::{RetentionContext, state::Retention},
    settings::{AgentSettings, Quota},
    step_schedule::StepSchedule,
    subscription::{BoardSubscription, SubscriptionContext},
    timer_purpose::TimerPurpose,
    timers::Timers,
    turn_end::TurnTerms,
    turns::Turns,
};
use patterns::{
    EventKind, TimerAt, WorkPhase,
    contract_net::{Auction, bidding::BidAnswer},
    work::WorkLimits,
};
use protocol::{
    acceptance::AcceptanceRule,
    card::Card,
    ids::{AgentId, ConversationId},
    limits::Limits,
    principal::Principal,
    problem::Problem,
    usage::Usage,
};
use recovery::HeldTurn;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use store_types::Snapshot;

/// The configuration of an agent.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    pub card: Arc<Card>,
    /// What its file says.
    pub settings: Arc<AgentSettings>,
    pub limits: Arc<Limits>,
    /// How it awards work to bidders.
    pub auction: Auction,
    /// How long it waits for the results of its requests.
    pub work_limits: WorkLimits,
    /// What the mesh may use, which its agents share.
    pub mesh_quotas: Arc<[Quota]>,
    /// What it demands of results before they count.
    pub acceptance: Arc<[AcceptanceRule]>,
}

/// One agent. It holds open conversations in memory; ended ones are only in its store.
pub struct Agent {
    me: AgentId,
    config: EngineConfig,
    admission: Admission,
    conversations: Conversations,
    schedule: StepSchedule,
    commits: Commits,
    /// Events that it has produced itself and not handled yet.
    events: InternalEvents,
    timers: Timers,
    turns: Turns,
    deliveries: Deliveries,
    peers: KnownPeers,
    auctions: Auctions,
    bids: Bids,
    contexts: Contexts,
    offers: Offers,
    quotas: Quotas,
    subscription: BoardSubscription,
    retention: Retention,
    /// The turns that wait until the managers of their work know that this agent is back.
    held_turns: BTreeMap<ConversationId, Vec<HeldTurn>>,
    is_draining: bool,
    /// Whether the store had no room for the last step.
    is_store_full: bool,
    counts: AgentCounts,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent")
            .field("me", &self.me)
            .field("open", &self.conversations.iter().count())
            .finish()
    }
}

impl Agent {
    fn new(config: EngineConfig) -> Self {
        let limit = usize::try_from(config.card.terms.max_parallel.max(1)).unwrap_or(1);
        let terms = TurnTerms {
            is_direct: config.settings.a2a.direct,
            max_signal_bytes: config.limits.max_signal_bytes,
        };
        Self {
            me: config.card.agent_id.clone(),
            subscription: BoardSubscription::new(&config.settings.subscribe),
            quotas: Quotas::new(&config.settings.quotas, &config.mesh_quotas),
            config,
            admission: Admission::default(),
            conversations: Conversations::default(),
            schedule: StepSchedule::default(),
            commits: Commits::default(),
            events: InternalEvents::default(),
            timers: Timers::default(),
            turns: Turns::new(limit, terms),
            deliveries: Deliveries::default(),
            peers: KnownPeers::default(),
            auctions: Auctions::default(),
            bids: Bids::default(),
            contexts: Contexts::default(),
            offers: Offers::default(),
            retention: Retention::default(),
            held_turns: BTreeMap::new(),
            is_draining: false,
            is_store_full: false,
            counts: AgentCounts::default(),
        }
    }

    /// Handles `input` and returns what the shell must do. Reads at most one page of the store.
    pub fn handle(&mut self, input: Input, store: &dyn Snapshot, world: &mut dyn World) -> Vec<Output> {
        let mut cx = Context { store, world, out: Vec::new() };
        self.subscription.lay_down();
        match input {
            Input::Message(message, reply) => self.take_message(message, reply, &mut cx),
            Input::HoldSteps => self.schedule.hold(true),
            Input::ReleaseSteps => self.schedule.hold(false),
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
            Input::BoardHead(head) => {
                let (subscription, mut own) = self.subscription();
                subscription.head(head, &mut own, &mut cx);
            }
            Input::Signal(posted, reply) => self.signal(posted, reply, &mut cx),
            Input::PassOverSignal(revision, reply) => self.pass_over_signal(revision, reply, &mut cx),
            Input::SubscriptionLost(problem) => {
                let (subscription, mut own) = self.subscription();
                subscription.lost(&problem, &mut own, &mut cx);
            }
            Input::PeerGone(peer, why) => self.peer_gone(&peer, &why),
            Input::CardChanged(card) => self.change_card(card, &mut cx),
            Input::Drain => self.begin_drain(&mut cx),
            Input::HandBack => self.hand_back(&cx),
            Input::SharesGranted(shares) => self.take_shares(shares, &mut cx),
            Input::Sweep => {
                self.give_back_shares(&mut cx);
                let (retention, mut own) = self.retention();
                retention.begin_sweep(&mut own, &mut cx);
            }
            Input::Continue => {
                let (retention, mut own) = self.retention();
                retention.continue_sweep(&mut own, &mut cx);
            }
        }
        self.finish_input(&mut cx);
        cx.out
    }

    /// Delivers internal events, and lets waiting auctions call and waiting claims be requested.
    fn finish_input(&mut self, cx: &mut Context<'_>) {
        self.drain_events(cx);
        self.call_waiting_turns(cx);
        self.call_queue_heads(cx);
        self.request_waiting_claims(cx);
        self.drain_events(cx);
        self.start_turns(cx);
        self.drain_events(cx);
    }

    /// Delivers internal events to their conversations, decides the steps that waited for them and begins deliveries, until
    /// nothing is left.
    fn drain_events(&mut self, cx: &mut Context<'_>) {
        loop {
            if let Some(event) = self.events.pop() {
                self.handle_event(event, cx);
            } else if let Some(id) = self.deliveries.next_start() {
                self.attempt(id, cx);
            } else if let Some(id) = self.schedule.next() {
                self.advance(&id, false, cx);
            } else {
                return;
            }
        }
    }

    /// The deliveries, and what they need of the agent.
    fn deliveries(&mut self, cx: &Context<'_>) -> (&mut Deliveries, DeliveryContext<'_>) {
        let own = DeliveryContext {
            me: &self.me,
            card: &self.config.card,
            limits: &self.config.limits,
            lease: Duration::from_millis(self.config.auction.lease_ms),
            is_draining: self.is_draining,
            has_place: self.may_claim(cx),
            conversations: &self.conversations,
            offers: &mut self.offers,
            timers: &mut self.timers,
            events: &mut self.events,
        };
        (&mut self.deliveries, own)
    }

    fn send(&mut self, origin: (ConversationId, EffectKey), message: OutgoingEnvelope, cx: &mut Context<'_>) {
        let (deliveries, mut own) = self.deliveries(cx);
        deliveries.send(origin, message, &mut own, cx);
    }

    fn attempt(&mut self, id: AttemptId, cx: &mut Context<'_>) {
        let (deliveries, mut own) = self.deliveries(cx);
        deliveries.attempt(id, &mut own, cx);
    }

    fn attempted(&mut self, id: AttemptId, result: AttemptResult, cx: &mut Context<'_>) {
        let (deliveries, mut own) = self.deliveries(cx);
        for bid in deliveries.attempted(id, result, &mut own, cx) {
            let by = Principal::Agent(bid.from_agent_id.clone());
            self.take_bid(Box::new(bid), by, cx);
        }
    }

    /// The bids, and what they depend on.
    fn bidding(&mut self, cx: &Context<'_>) -> (&mut Bids, Bidder<'_>) {
        let (taken, free_in) = (self.taken_places(), self.place_free_in(cx));
        let (card, asks_for_bids) = (&*self.config.card, self.config.settings.bid.brain_timeout());
        let (quotas, counts) = (&self.quotas, &mut self.counts);
        let bidder = Bidder { me: &self.me, card, taken, free_in, asks_for_bids, quotas, counts };
        (&mut self.bids, bidder)
    }

    fn bid_answered(
        &mut self,
        id: BidQuestionId,
        answer: Result<BidAnswer, String>,
        used: &Usage,
        cx: &mut Context<'_>,
    ) {
        self.counts.bid_usage = self.counts.bid_usage.plus(used);
        self.charge_bid(id, used, cx);
        let (bids, bidder) = self.bidding(cx);
        if let Some((origin, message)) = bids.answered(id, answer, bidder, cx) {
            self.send(origin, message, cx);
        }
    }

    /// The subscription to the board, and what it needs of the agent.
    fn subscription(&mut self) -> (&mut BoardSubscription, SubscriptionContext<'_>) {
        let (timers, commits, counts) = (&mut self.timers, &mut self.commits, &mut self.counts);
        (&mut self.subscription, SubscriptionContext { me: &self.me, timers, commits, counts })
    }

    /// The sweeps, and what they need of the agent.
    fn retention(&mut self) -> (&mut Retention, RetentionContext<'_>) {
        let (limits, conversations) = (&*self.config.limits, &self.conversations);
        let own = RetentionContext { me: &self.me, limits, conversations, commits: &mut self.commits };
        (&mut self.retention, own)
    }

    /// Lets the first auction of every queue call if it is time. While the node drains they wait for the restart.
    fn call_queue_heads(&mut self, cx: &mut Context<'_>) {
        if self.is_draining {
            return;
        }
        let has_free_place = self.has_free_place();
        for (head, capability) in self.auctions.due(&self.config.card, has_free_place, &mut self.timers, cx) {
            let candidates = self.candidates(&capability, cx);
            self.events.push(&head, None, EventKind::CallDue { candidates });
        }
    }

    fn change_card(&mut self, card: Arc<Card>, cx: &mut Context<'_>) {
        self.config.card = card;
        self.turns.set_limit(usize::try_from(self.max_parallel()).unwrap_or(1));
        self.start_turns(cx);
    }

    /// How many tasks it does at a time: the card's `maxParallel`, at least 1.
    fn max_parallel(&self) -> u32 {
        self.config.card.terms.max_parallel.max(1)
    }

    /// The number of tasks it is doing. Tasks that wait for other agents or for a person do not count.
    pub fn running(&self) -> u32 {
        self.conversations.count_work(|phase| phase == WorkPhase::Active)
    }

    /// The number of tasks that go on without a person, and soon.
    pub fn unfinished(&self) -> u32 {
        let goes_on = |phase| !matches!(phase, WorkPhase::AwaitsPerson | WorkPhase::Paused | WorkPhase::Held);
        self.conversations.count_work(goes_on)
    }

    /// The number of its places that are taken: by tasks that it is doing, and by other turns.
    fn taken_places(&self) -> u32 {
        let others = self.turns.conversations().filter(|id| self.conversations.phase(id).is_none()).count();
        self.running().saturating_add(u32::try_from(others).unwrap_or(u32::MAX))
    }

    fn has_free_place(&self) -> bool {
        self.taken_places() < self.max_parallel()
    }

    /// When a place is expected to be free, if none is.
    fn place_free_in(&self, cx: &Context<'_>) -> Duration {
        self.turns.free_in(self.config.card.terms.eta.duration(), cx.world.now())
    }

    /// Fails if no conversation may be opened, or none for `principal`. What this agent sends to itself belongs to a task that has
    /// its place already, so it needs no share.
    fn check_room(&self, principal: Option<&Principal>) -> Result<(), Problem> {
        self.conversations.check_room(self.config.limits.max_open_conversations, principal)
    }

    /// Something has changed about a conversation: its work in hand, its auction, its award or its claim.
    fn note_change(&mut self, id: &ConversationId) {
        self.conversations.note_work(id);
        self.conversations.note_award(id);
        let conversation = self.conversations.get(id);
        self.auctions.track(id, conversation);
        self.offers.note(id, conversation);
        self.contexts.note(id, conversation);
    }

    /// The peers that hold awards of this agent.
    pub fn awarded_peers(&self) -> BTreeSet<AgentId> {
        self.conversations.awarded_peers()
    }

    /// A peer is gone: its awards go to others. If it is not, its results are fenced.
    fn peer_gone(&mut self, peer: &AgentId, why: &str) {
        for (id, lost) in self.conversations.lost_awards(peer, why) {
            self.events.push(&id, None, lost);
        }
    }

    /// New work is refused from here on; claims that are not yet requested are left to the next start.
    fn begin_drain(&mut self, cx: &mut Context<'_>) {
        self.is_draining = true;
        while let Some(id) = self.offers.next_waiting() {
            self.attempt(id, cx);
        }
    }

    fn timer_fired(&mut self, id: TimerId, cx: &mut Context<'_>) {
        match self.timers.take(id) {
            None => {}
            Some(TimerPurpose::Pattern { conversation, effect, timer, at }) => {
                let is_due = match at {
                    TimerAt::Node(at) => cx.world.now() >= at,
                    TimerAt::Wall(at) => cx.wall() >= at,
                };
                if is_due {
                    self.events.push(&conversation, Some(effect), EventKind::TimerFired { timer });
                } else {
                    self.timers.set_for_pattern(conversation, effect, timer, at, cx);
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
            Some(TimerPurpose::CallQueue(capability, principal)) => {
                self.auctions.timer_fired(capability, principal);
            }
            Some(TimerPurpose::LookForPeers) => self.auctions.look_again(),
            Some(TimerPurpose::CheckIn(id)) => self.release_turns(&id, cx),
            Some(TimerPurpose::QuotaOpens) => self.look_at_held(cx),
            Some(TimerPurpose::Subscribe) => self.subscription.subscribe(cx),
            Some(TimerPurpose::Signal) => self.retry_signal(cx),
        }
    }

    /// Hands back work that other agents can do; the rest waits for the next start: a question to a person, which is asked again
    /// then, and an award of an agent of this node, which stops too and can award it to nobody else.
    fn hand_back(&mut self, cx: &Context<'_>) {
        for id in self.conversations.unfinished() {
            let manager = self.conversations.get(&id).and_then(|open| open.pattern.view().manager);
            let directory = cx.world.directory();
            let is_kept = manager.is_some_and(|manager| directory.locate(manager) == PeerLocation::Here);
            let reason = (!is_kept).then(|| format!("{} is leaving and could not finish in time", self.me));
            let away_ms = u64::try_from(self.config.card.may_be_away().as_millis()).ok();
            self.events.push(&id, None, EventKind::Draining { reason, away_ms });
        }
    }
}

#[cfg(test)]
mod tests;
