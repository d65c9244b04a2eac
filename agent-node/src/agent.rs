//! One agent: an actor that takes messages in, finds the conversation each belongs to, and keeps those conversations
//! going. It holds what is open; everything that has ended lies in its store.

mod admit;
mod desk;
mod drive;
mod hear;
mod learn;
mod leave;
mod look;
mod open;
mod open_claim;
mod parked;
mod perform;
mod pulse;
mod recover;
mod reply;
mod retain;
mod steer;
mod subscribe;
mod supersede;
mod telling;
mod think;
mod together;
mod undo;

pub(crate) use admit::store_problem;
pub use admit::{Ack, Admit};
pub(crate) use desk::hand_over;
pub use learn::Learn;
pub use leave::{IsIdle, Leave};
pub use look::{Counts, IsPending, Look, Snapshot};
pub use pulse::Pulse;
pub use recover::newest_time;
pub(crate) use recover::{every, every_after};
pub use reply::{Durable, Waiter};
pub use retain::{Sweep, Swept};
pub use steer::{Answer, Cancel, Redrive};
pub(crate) use telling::{first_step, steps};

use crate::{
    brain::Brain,
    clock::Clock,
    conversation::{Conversation, record::Place},
    outbox::{Outbox, Ways},
    telemetry::{Telemetry, cursor::Cursor},
};
use actix::{Actor, AsyncContext, Context, Handler, Message, SpawnHandle};
use blackboard::store::{Key, Revision, Shared};
use protocol::{
    card::Card,
    coordination::{
        What,
        contract_net::{Auction, track_record::TrackRecord},
        delegation::Patience,
    },
    ids::{AgentId, ConversationId, Digest, TaskId},
    lasting::Lasting,
    limits::Limits,
    principal::Principal,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, atomic::Ordering},
};
use tokio::sync::Semaphore;

/// What an agent is made of.
pub struct Parts {
    /// What it says of itself.
    pub card: Arc<Card>,
    /// Who thinks for it.
    pub brain: Arc<dyn Brain>,
    /// Who thinks for it when a request needs several agents.
    pub coordinator: Arc<dyn Brain>,
    /// Its store, bound to its own prefix.
    pub store: Shared,
    /// The node's clocks.
    pub clock: Clock,
    /// What it sends through.
    pub ways: Ways,
    /// What it takes, and for how long it waits.
    pub limits: Arc<Limits>,
    /// Types of signals it reacts to, each exact or ending in `*`.
    pub subscribe: Vec<String>,
    /// How it gives work away.
    pub auction: Auction,
    /// How long it waits for what it asked.
    pub patience: Patience,
    /// What is told of it to whoever watches.
    pub telemetry: Telemetry,
    /// Whether its brain may answer with a message and make no task of it.
    pub is_direct: bool,
    /// What the outside may look at without asking it.
    pub pulse: Arc<Pulse>,
    /// Ends the process: the store has failed, and only a restart recovers what is true.
    pub fatal: Arc<dyn Fn(&str) + Send + Sync>,
}

/// Messages that are being taken: what each says, and who waits for the same answer.
type InFlight = HashMap<Key, (Digest, Vec<(Waiter, Ack)>), foldhash::fast::RandomState>;

/// The actor.
pub struct AgentActor {
    me: AgentId,
    parts: Parts,
    outbox: Option<Outbox>,
    thinking_places: Arc<Semaphore>,
    conversations: BTreeMap<ConversationId, Box<Conversation>>,
    /// Those of them that are work of its own.
    working: BTreeSet<ConversationId>,
    tasks: HashMap<(TaskId, Principal), ConversationId>,
    in_flight: InFlight,
    joiners: HashMap<ConversationId, Vec<(Waiter, Ack)>>,
    timers: HashMap<(ConversationId, Place), SpawnHandle>,
    thoughts: HashMap<(ConversationId, Place), tokio::task::JoinHandle<()>>,
    /// Those whose news waits for a step that it can share; there is a timer if there are any.
    deferred: BTreeSet<ConversationId>,
    /// Whether that timer runs: one at a time, however often they come and go.
    will_flush: bool,
    /// Those of them that wait for nothing else.
    closing: Vec<ConversationId>,
    track_records: BTreeMap<AgentId, TrackRecord>,
    followed: subscribe::Followed,
    poisoned: std::collections::BTreeSet<ConversationId>,
    /// What this process can't go on with, and where its journal begins.
    parked: BTreeMap<ConversationId, Revision>,
    /// How far the journal has been told, if it is told to anybody.
    told: Option<Arc<Cursor>>,
    journal_bytes: Arc<retain::JournalBytes>,
    sweeping: Arc<retain::Sweeping>,
    /// Whether there is room for what is to be recorded.
    unrecorded: Lasting,
    counts: Counts,
}

/// Something happened to a conversation, from inside the node.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Happened {
    /// Which.
    pub conversation: ConversationId,
    /// The effect whose result it is.
    pub closes: Option<Place>,
    /// What.
    pub what: What,
}

impl AgentActor {
    /// An agent that has not started.
    pub fn new(parts: Parts) -> Self {
        let places = usize::try_from(parts.card.terms.max_parallel.max(1)).unwrap_or(1);
        Self {
            me: parts.card.agent_id.clone(),
            thinking_places: Arc::new(Semaphore::new(places)),
            parts,
            outbox: None,
            conversations: BTreeMap::new(),
            working: BTreeSet::new(),
            tasks: HashMap::new(),
            in_flight: HashMap::default(),
            joiners: HashMap::new(),
            timers: HashMap::new(),
            thoughts: HashMap::new(),
            deferred: BTreeSet::new(),
            will_flush: false,
            closing: Vec::new(),
            track_records: BTreeMap::new(),
            followed: subscribe::Followed::default(),
            poisoned: std::collections::BTreeSet::new(),
            parked: BTreeMap::new(),
            journal_bytes: Arc::default(),
            sweeping: Arc::default(),
            told: None,
            unrecorded: Lasting::default(),
            counts: Counts::default(),
        }
    }

    /// Counts the work in hand again after something has changed about this conversation.
    fn count_running(&mut self, changed: &ConversationId) {
        let is_work = self.conversations.get(changed).is_some_and(|conversation| conversation.is_work());
        match (is_work, self.working.contains(changed)) {
            (true, false) => drop(self.working.insert(changed.clone())),
            (false, true) => drop(self.working.remove(changed)),
            (true, true) | (false, false) => return,
        }
        let running = self.working.len();
        self.parts.pulse.running.store(u32::try_from(running).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    fn outbox(&self) -> Option<&Outbox> {
        self.outbox.as_ref()
    }
}

impl Actor for AgentActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let sink = ctx.address().recipient();
        self.outbox = Some(Outbox::new(self.me.clone(), self.parts.ways.clone(), self.parts.clock, sink));
        if let Err(error) = self.recover(ctx) {
            (self.parts.fatal)(&format!("{} can't recover from its store: {error}", self.me));
        }
        self.parts.ways.locals.add(self.me.clone(), ctx.address().recipient());
        self.follow_the_board(ctx);
    }
}

impl Handler<Happened> for AgentActor {
    type Result = ();

    fn handle(&mut self, happened: Happened, ctx: &mut Self::Context) {
        self.happened(happened, ctx);
    }
}
