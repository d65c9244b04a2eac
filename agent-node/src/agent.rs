//! One agent: an actor that takes messages in, finds the conversation each belongs to, and keeps those conversations
//! going. It holds what is open; everything that has ended lies in its store.

mod admit;
mod desk;
mod drive;
mod learn;
mod leave;
mod open;
mod open_claim;
mod parked;
mod perform;
mod pulse;
mod recover;
mod reply;
mod retain;
mod subscribe;
mod supersede;
mod telling;
mod think;
mod together;

pub(crate) use admit::store_problem;
pub use admit::{Ack, Admit};
pub(crate) use desk::hand_over;
pub use learn::Learn;
pub use leave::{IsIdle, Leave};
pub use pulse::Pulse;
pub use recover::newest_time;
pub(crate) use recover::{every, every_after};
pub use reply::{Durable, Waiter};
pub use retain::{Sweep, Swept};
pub(crate) use telling::{first_step, steps};

use crate::{
    brain::Brain,
    clock::Clock,
    conversation::{
        Conversation,
        record::{Place, keys},
    },
    outbox::{Outbox, Ways},
    telemetry::{Telemetry, cursor::Cursor},
};
use actix::{Actor, AsyncContext, Context, Handler, Message, SpawnHandle};
use blackboard::store::{Filter, Key, Revision, Shared};
use protocol::{
    card::Card,
    coordination::{
        AnyPattern, What,
        contract_net::{Auction, track_record::TrackRecord},
        delegation::Patience,
    },
    ids::{AgentId, ConversationId, Digest, MessageId, TaskId},
    lasting::Lasting,
    limits::Limits,
    principal::Principal,
    problem::{Problem, Reason},
};
use reply::now;
use serde::Serialize;
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

/// What an agent has done since it started.
#[derive(Debug, Default, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Messages taken.
    pub admitted: u64,
    /// Messages that had been taken before.
    pub duplicates: u64,
    /// Messages refused.
    pub refused: u64,
    /// Steps committed.
    pub steps: u64,
    /// Acknowledgements nobody waited for any more.
    pub late_acks: u64,
    /// Calls for proposals answered with a bid.
    pub bids: u64,
    /// Signals reacted to.
    pub reactions: u64,
    /// Rules that panicked; each ended its conversation.
    pub panics: u64,
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

/// Ends a task, for its owner.
#[derive(Debug, Message)]
#[rtype(result = "Result<Ack, Problem>")]
pub struct Cancel {
    /// Which task.
    pub task: TaskId,
    /// Who wants it.
    pub by: Principal,
    /// Why.
    pub reason: String,
}

/// Answers what a task waits for, for its owner.
#[derive(Debug, Message)]
#[rtype(result = "Result<Ack, Problem>")]
pub struct Answer {
    /// Which task.
    pub task: TaskId,
    /// Who answers.
    pub by: Principal,
    /// What.
    pub text: String,
    /// The same as an A2A client said it: also taken when nothing was asked.
    pub message: Option<Box<protocol::a2a::message::Message>>,
}

/// Asks whether a message of `by` is on its way into the store.
#[derive(Debug, Message)]
#[rtype(result = "bool")]
pub struct IsPending {
    /// Which message.
    pub message: MessageId,
    /// Whose it is.
    pub by: Principal,
}

/// Sends a dead letter again.
#[derive(Debug, Message)]
#[rtype(result = "Result<Ack, Problem>")]
pub struct Redrive {
    /// Which message.
    pub message: MessageId,
}

/// Asks what the actor is doing.
#[derive(Debug, Message)]
#[rtype(result = "Snapshot")]
pub struct Look;

/// What an agent is doing.
#[derive(Debug, Serialize, actix::MessageResponse)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Who.
    pub agent: AgentId,
    /// Its brain's kind.
    pub brain: &'static str,
    /// Open conversations by pattern.
    pub conversations: BTreeMap<&'static str, usize>,
    /// Tasks it is doing.
    pub running: u32,
    /// Turns being thought.
    pub thinking: usize,
    /// Timers set.
    pub timers: usize,
    /// Messages on their way, by recipient.
    pub outbox: BTreeMap<AgentId, usize>,
    /// How far it has followed the board, if it subscribes to anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub followed: Option<Revision>,
    /// What it has done since it started.
    pub counts: Counts,
    /// What it has let go of since it started.
    pub swept: Swept,
    /// Conversations it can't go on with before its next start, and why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parked: BTreeMap<ConversationId, String>,
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

impl Handler<Cancel> for AgentActor {
    type Result = Durable;

    fn handle(&mut self, cancel: Cancel, ctx: &mut Self::Context) -> Self::Result {
        let what = What::Cancelled { by: cancel.by.clone(), reason: cancel.reason };
        let id = match self.open_task(&cancel.task, &cancel.by, Reason::TaskNotCancelable) {
            Ok(id) => id,
            Err(problem) => return now(Err(problem)),
        };
        self.tell_owner_event(id, &cancel.task, what, ctx)
    }
}

impl Handler<Answer> for AgentActor {
    type Result = Durable;

    fn handle(&mut self, answer: Answer, ctx: &mut Self::Context) -> Self::Result {
        let awaits = |row: &crate::conversation::record::TaskRow| {
            answer.message.is_some() || row.task.status.state.is_interrupted()
        };
        let id = match self.open_task(&answer.task, &answer.by, Reason::NotAwaitingAnswer) {
            Ok(id) => id,
            Err(problem) => return now(Err(problem)),
        };
        if !self
            .conversations
            .get(&id)
            .and_then(|conversation| conversation.task.as_ref())
            .is_some_and(awaits)
        {
            let problem =
                Problem::new(Reason::NotAwaitingAnswer, format!("task {} waits for no answer", answer.task));
            return now(Err(problem));
        }
        let what = What::Answered { by: answer.by, text: answer.text, message: answer.message };
        self.tell_owner_event(id, &answer.task, what, ctx)
    }
}

impl Handler<Redrive> for AgentActor {
    type Result = Durable;

    fn handle(&mut self, redrive: Redrive, ctx: &mut Self::Context) -> Self::Result {
        match self.redrive(&redrive.message, ctx) {
            Ok(durable) => durable,
            Err(problem) => now(Err(problem)),
        }
    }
}

impl Handler<IsPending> for AgentActor {
    type Result = bool;

    fn handle(&mut self, pending: IsPending, _: &mut Self::Context) -> bool {
        let (message, by) = (pending.message.as_str(), pending.by.to_string());
        let of_whom = Filter::Below(Key::new(&[self.me.as_str(), "receipt", message, &by]));
        self.in_flight.keys().any(|key| of_whom.admits(key))
    }
}

impl Handler<Look> for AgentActor {
    type Result = Snapshot;

    fn handle(&mut self, _: Look, _: &mut Self::Context) -> Snapshot {
        let mut conversations = BTreeMap::new();
        for conversation in self.conversations.values() {
            *conversations.entry(conversation.pattern.name()).or_default() += 1;
        }
        Snapshot {
            agent: self.me.clone(),
            brain: self.parts.brain.name(),
            conversations,
            running: self.parts.pulse.running(),
            thinking: self.thoughts.len(),
            timers: self.timers.len(),
            outbox: self.outbox().map(Outbox::waiting).unwrap_or_default(),
            followed: self.followed.get(),
            counts: Counts {
                late_acks: self.parts.pulse.late_acks.load(Ordering::Relaxed),
                ..self.counts.clone()
            },
            swept: self.sweeping.swept(),
            parked: self.parts.pulse.parked(),
        }
    }
}

impl AgentActor {
    /// The open conversation of a task that `by` may steer; `too_late` if it has ended.
    fn open_task(&self, task: &TaskId, by: &Principal, too_late: Reason) -> Result<ConversationId, Problem> {
        let missing = || Problem::new(Reason::TaskNotFound, format!("no task {task} of yours"));
        let may_steer =
            |row: &crate::conversation::record::TaskRow| row.task.owner == *by || row.task.spec.root == *by;
        let of_task = self.conversations.iter().filter(|(_, conversation)| {
            conversation.ended.is_none()
                && conversation
                    .task
                    .as_ref()
                    .is_some_and(|row| row.task.spec.task_id == *task && may_steer(row))
        });
        let own =
            |conversation: &Conversation| conversation.task.as_ref().is_some_and(|row| row.task.owner == *by);
        let mut found: Vec<_> = of_task.collect();
        found.sort_by_key(|(_, conversation)| !own(conversation));
        if let Some((id, _)) = found.first() {
            return Ok((*id).clone());
        }
        let rows = crate::tasks::find(self.parts.store.as_ref(), &self.me, task, by)
            .map_err(|error| admit::store_problem(&error))?;
        match rows {
            Some(row) => {
                self.check_not_parked_id(&row.task.conversation)?;
                let message = format!("task {task} has ended: {}", row.task.status.state.word());
                Err(Problem::new(too_late, message))
            }
            None => Err(missing()),
        }
    }

    fn redrive(&mut self, message: &MessageId, ctx: &mut Context<Self>) -> Result<Durable, Problem> {
        let key = keys::dead_letter(&self.me, message);
        let store = self.parts.store.clone();
        let record = store.latest(&key).map_err(|error| admit::store_problem(&error))?;
        let record = record
            .ok_or_else(|| Problem::new(Reason::MessageNotFound, format!("no dead letter {message}")))?;
        let dead: crate::conversation::record::DeadLetter =
            crate::conversation::spill::decode(&self.me, store.as_ref(), &record.value)
                .map_err(|error| admit::store_problem(&error))?;
        let came = open::Came {
            trace: dead.trace,
            task: dead.letter.payload.task_id().cloned(),
            ..Default::default()
        };
        let pattern =
            AnyPattern::Redelivery(protocol::coordination::redelivery::Redelivery::new(dead.letter));
        let ack = Ack {
            message_id: message.clone(),
            task_id: None,
            conversation_id: None,
            duplicate: false,
            ended: None,
        };
        Ok(self.begin(pattern, None, None, came, ack, ctx))
    }
}
