//! One run: everything that happens is an event at a virtual time; each is handled before the next.

use crate::{
    board::Board,
    brain::{self, Act},
    observer::{self, Observer},
    peers::{Known, Registry},
    plan::{self, END, Faults, HEAL, IMPATIENT, Plan, QUIET},
    random::{Hash, Random},
    store::{Operation, Outcome, Store, What},
};
use engine::{
    Ack, Agent, Attempt, AttemptId, AttemptResult, ClaimRequest, EngineConfig, IncomingMessage, Input,
    Output, PeerDirectory, ReplyTo, TimerId, TurnKey, World,
    records::{EffectKey, keys},
};
use protocol::{
    envelope::Envelope,
    ids::{AgentId, Digest, EffectId, MessageId, TaskId},
    message::{MessageKind, Payload},
    patterns::{Effect, EventKind, broadcast, reaction},
    principal::Principal,
    problem::{Problem, Reason},
    signal::{Selector, Signal, SignalRecord, SignalType},
    task::TaskState,
    time::{NodeTime, WallTime},
    trace::TraceContext,
};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};
use store_types::{Error, Revision, Snapshot};

/// What a run is told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Says everything that happens.
    pub seed: u64,
    /// How many agents take part.
    pub agents: usize,
    /// Whether everything that happens is printed.
    pub is_traced: bool,
    /// No faults and little work, but this: the agent that gives the commit of that number crashes, and what it has given
    /// is kept or lost.
    pub only_crash: Option<(u64, Survives)>,
}

/// What a crash at a commit leaves of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survives {
    /// Nothing that has not settled.
    Nothing,
    /// All that was given, though nobody has heard of it.
    Given,
}

impl Settings {
    /// A run of `seed` with twelve agents.
    pub fn of(seed: u64) -> Self {
        Self { seed, agents: 12, is_traced: false, only_crash: None }
    }
}

/// What a run did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// Over every journal record and every record of the board.
    pub hash: u64,
    /// Inputs that agents handled.
    pub inputs: u64,
    /// Commits that agents gave.
    pub commits: u64,
    /// Steps that became durable.
    pub steps: u64,
    /// Crashes of agents.
    pub crashes: u64,
    /// Tasks that users asked for and agents took.
    pub tasks: u64,
    /// What did not hold; empty if all did.
    pub failures: Vec<String>,
    /// The last events.
    pub tail: Vec<String>,
}

const ACK: u64 = 5_000;
const BOARD: usize = usize::MAX;
const REGISTRY: usize = usize::MAX - 1;

/// One try of an attempt.
type Try = (AttemptId, u64);

/// Who waits for an agent's answer.
#[derive(Debug)]
enum Waiter {
    /// An agent's attempt to deliver.
    Peer { from: usize, life: u64, attempt: Try },
    /// A user.
    User { asked: usize },
    /// A user who cancels or answers.
    Owner { is_cancel: bool },
    /// The feed of the board.
    Feed { posted: Box<SignalRecord> },
    /// A copy that the network made.
    Nobody,
}

#[derive(Debug)]
struct Waiting {
    agent: usize,
    since: u64,
    waiter: Waiter,
    /// What was sent: its receipt is durable before the answer.
    message: Option<(MessageId, Principal, AgentId, MessageKind)>,
    /// Which awards of which task it takes back.
    cancels: Option<(TaskId, u64)>,
}

#[derive(Debug)]
enum Event {
    Plan(Plan),
    Start { agent: usize },
    Crash { agent: usize, life: u64 },
    Execute { agent: usize, life: u64 },
    Settle { agent: usize, life: u64 },
    Timer { agent: usize, life: u64, timer: TimerId },
    Turn { agent: usize, life: u64, key: TurnKey, token: u64, act: Box<Act> },
    Arrive { agent: usize, message: Box<IncomingMessage>, waiter: Waiter },
    Attempted { agent: usize, life: u64, attempt: Try, result: Box<AttemptResult> },
    BoardAsked { agent: usize, life: u64, attempt: Try, asked: Box<BoardAsk> },
    Feed { agent: usize, life: u64, feed: u64 },
    Hand { agent: usize, life: u64, feed: u64, posted: Box<SignalRecord> },
    Pulse { agent: usize, life: u64 },
    Sweep { agent: usize, life: u64 },
    Continue { agent: usize, life: u64 },
    Drain { agent: usize, life: u64, stage: u8 },
    BoardSweep,
    RegistrySweep,
    BoardBack,
    RegistryBack,
    Heal,
    Unsplit,
    AskAgain { asked: usize },
    Cancel { agent: usize, task: TaskId },
    Answer { agent: usize, task: TaskId },
    Redrive { agent: usize, message: MessageId },
    Impatience,
}

#[derive(Debug)]
enum BoardAsk {
    Publish(Signal),
    Claim(TaskId, ClaimRequest),
}

/// A user's request.
#[derive(Debug)]
struct Asked {
    to: usize,
    message: Box<IncomingMessage>,
    is_task: bool,
    tries: u32,
    /// The agent's store when it was taken, and the answer.
    taken: Option<(u64, Ack)>,
}

#[derive(Debug)]
struct Follow {
    name: u64,
    selector: Selector,
    cursor: Option<Revision>,
    /// Up to where nothing is wanted.
    looked: Revision,
    is_handing: bool,
}

#[derive(Debug)]
struct Node {
    id: AgentId,
    config: EngineConfig,
    life: u64,
    /// Which store it has; grows when its data is lost.
    data: u64,
    agent: Option<Agent>,
    store: Store,
    known: Known,
    random: Random,
    base: u64,
    started: u64,
    skew: i64,
    timers: BTreeSet<TimerId>,
    /// What is tried, and which try it is: the answer to an earlier one comes too late.
    attempts: BTreeMap<AttemptId, u64>,
    /// Messages that this life has tried before.
    tried: BTreeSet<MessageId>,
    /// Dead letters that were sent again: each at least once, however old.
    redriven: BTreeSet<MessageId>,
    turns: BTreeMap<TurnKey, u64>,
    follow: Option<Follow>,
    incarnation: Option<u64>,
    is_slow: bool,
}

struct Around<'a> {
    now: NodeTime,
    wall: WallTime,
    random: &'a mut Random,
    known: &'a Known,
}

impl World for Around<'_> {
    fn now(&self) -> NodeTime {
        self.now
    }

    fn wall(&self) -> WallTime {
        self.wall
    }

    fn uuid(&mut self) -> String {
        let (a, b) = (self.random.next(), self.random.next());
        let head = u64::try_from(self.wall.0).unwrap_or_default();
        format!(
            "{:08x}-{:04x}-7{:03x}-{:04x}-{:012x}",
            (head >> 16) & 0xffff_ffff,
            head & 0xffff,
            a & 0xfff,
            0x8000 | (a >> 16) & 0x3fff,
            b & 0xffff_ffff_ffff
        )
    }

    fn random(&mut self) -> u64 {
        self.random.next()
    }

    fn samples(&self, _: Option<bool>, _: u128) -> bool {
        false
    }

    fn directory(&self) -> &dyn PeerDirectory {
        self.known
    }
}

/// A run that goes on.
pub(crate) struct Simulation {
    settings: Settings,
    faults: Faults,
    now: u64,
    sequence: u64,
    queue: BTreeMap<(u64, u64), Event>,
    random: Random,
    nodes: Vec<Node>,
    index: BTreeMap<AgentId, usize>,
    board: Board,
    registry: Registry,
    board_is_up: bool,
    registry_is_up: bool,
    /// On which side of a split everybody is: a bit per agent, the board and the registry.
    split: Option<u64>,
    waiting: BTreeMap<u64, Waiting>,
    next_name: u64,
    asked: Vec<Asked>,
    observer: Observer,
    failures: Vec<String>,
    tail: VecDeque<String>,
    inputs: u64,
    commits: u64,
    crashes: u64,
    tasks: u64,
}

const EPOCH: i64 = 1_767_225_600_000;

impl Simulation {
    pub(crate) fn new(settings: Settings) -> Self {
        let (faults, plan) = match settings.only_crash {
            Some(_) => plan::calm(),
            None => plan::of(settings.seed, settings.agents),
        };
        let random = Random::new(settings.seed).fork(2);
        let configs = plan::agents(settings.agents);
        let limits = plan::limits();
        let observer =
            Observer::new(configs.iter().map(|config| config.card.agent_id.clone()), limits.dedup_ms);
        let mut brains = random.fork(3);
        let node = |(at, config): (usize, EngineConfig)| Node {
            id: config.card.agent_id.clone(),
            config,
            life: 0,
            data: 0,
            agent: None,
            store: Store::default(),
            known: Known::default(),
            random: random.fork(100 + at as u64),
            base: 0,
            started: 0,
            skew: 0,
            timers: BTreeSet::new(),
            attempts: BTreeMap::new(),
            tried: BTreeSet::new(),
            redriven: BTreeSet::new(),
            turns: BTreeMap::new(),
            follow: None,
            incarnation: None,
            is_slow: brains.chance(faults.slow_brains),
        };
        let nodes: Vec<_> = configs.into_iter().enumerate().map(node).collect();
        let mut simulation = Self {
            now: 0,
            sequence: 0,
            queue: BTreeMap::new(),
            index: nodes.iter().enumerate().map(|(at, node)| (node.id.clone(), at)).collect(),
            nodes,
            random,
            board: Board::new(),
            registry: Registry::new(),
            board_is_up: true,
            registry_is_up: true,
            split: None,
            waiting: BTreeMap::new(),
            next_name: 0,
            asked: Vec::new(),
            observer,
            failures: Vec::new(),
            tail: VecDeque::new(),
            inputs: 0,
            commits: 0,
            crashes: 0,
            tasks: 0,
            faults,
            settings,
        };
        for agent in 0..simulation.nodes.len() {
            let after = simulation.random.below(300);
            simulation.after(after, Event::Start { agent });
        }
        for (at, what) in plan {
            simulation.after(at, Event::Plan(what));
        }
        simulation.after(500, Event::BoardSweep);
        simulation.after(1_000, Event::RegistrySweep);
        simulation.after(HEAL, Event::Heal);
        simulation.after(IMPATIENT, Event::Impatience);
        simulation
    }

    pub(crate) fn run(mut self) -> Report {
        while let Some(((at, _), event)) = self.queue.pop_first() {
            if at > END {
                break;
            }
            self.now = at;
            self.happens(event);
            if !self.failures.is_empty() {
                break;
            }
            self.collect_failures();
            if !self.failures.is_empty() {
                break;
            }
        }
        if self.failures.is_empty() {
            self.check_end();
        }
        let mut hash = self.observer.hash;
        hash.add(&self.board.hash.0.to_le_bytes());
        Report {
            seed: self.settings.seed,
            hash: hash.0,
            inputs: self.inputs,
            commits: self.commits,
            steps: self.observer.steps,
            crashes: self.crashes,
            tasks: self.tasks,
            failures: self.failures,
            tail: self.tail.into(),
        }
    }

    fn collect_failures(&mut self) {
        self.failures.append(&mut self.observer.broken);
        self.failures.append(&mut self.board.broken);
    }

    fn after(&mut self, delay: u64, event: Event) {
        self.sequence += 1;
        self.queue.insert((self.now + delay, self.sequence), event);
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        if self.settings.is_traced {
            println!("{:>7} {}", self.now, text());
            return;
        }
        self.tail.push_back(format!("{:>7} {}", self.now, text()));
        if self.tail.len() > 40 {
            self.tail.pop_front();
        }
    }

    fn fail(&mut self, what: String) {
        self.failures.push(what);
    }

    fn has_faults(&self) -> bool {
        self.now < HEAL
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        self.has_faults() && self.random.chance(per_mille)
    }

    /// Whether `a` and `b` can't reach each other.
    fn is_split(&self, a: usize, b: usize) -> bool {
        let side = |who: usize, sides: u64| match who {
            BOARD => (sides >> 62) & 1,
            REGISTRY => (sides >> 63) & 1,
            agent => (sides >> agent) & 1,
        };
        self.split.is_some_and(|sides| side(a, sides) != side(b, sides))
    }

    /// How long something is on its way from `a` to `b`; `None` if it is lost.
    fn travel(&mut self, a: usize, b: usize) -> Option<u64> {
        let (lost, late) = (self.faults.lost, self.faults.late);
        if self.is_split(a, b) || a != b && self.chance(lost) {
            return None;
        }
        if self.chance(late) {
            return Some(self.random.between(100, 12_000));
        }
        let most = if self.has_faults() { self.faults.longest_delay } else { 20 };
        Some(self.random.between(1, most))
    }

    fn name(&mut self) -> u64 {
        self.next_name += 1;
        self.next_name
    }

    fn node_time(&self, agent: usize) -> NodeTime {
        let node = &self.nodes[agent];
        NodeTime(node.base + (self.now - node.started))
    }

    fn wall(&self, agent: usize) -> WallTime {
        let now = i64::try_from(self.now).unwrap_or(i64::MAX);
        WallTime(EPOCH + now + self.nodes[agent].skew)
    }

    fn true_wall(&self) -> WallTime {
        WallTime(EPOCH + i64::try_from(self.now).unwrap_or(i64::MAX))
    }

    fn is_alive(&self, agent: usize, life: u64) -> bool {
        let node = &self.nodes[agent];
        node.agent.is_some() && node.life == life
    }

    fn expects(&mut self, agent: usize, waiter: Waiter, of: Option<&IncomingMessage>) -> ReplyTo {
        let name = self.name();
        let message = of.map(|message| {
            let Envelope { message_id, from_agent_id, .. } = message.envelope.as_ref();
            (message_id.clone(), message.by.clone(), from_agent_id.clone(), message.envelope.kind())
        });
        let cancels = of.and_then(|message| match &message.envelope.payload {
            Payload::TaskCancel(cancel) => Some((cancel.task_id.clone(), cancel.epoch.unwrap_or(u64::MAX))),
            _ => None,
        });
        self.waiting.insert(name, Waiting { agent, since: self.now, waiter, message, cancels });
        ReplyTo(name)
    }

    /// Hands an input to an agent and performs what follows.
    fn handle(&mut self, agent: usize, input: Input) {
        let (now, wall) = (self.node_time(agent), self.wall(agent));
        let reads_executed = self.random.chance(500);
        let node = &mut self.nodes[agent];
        let Some(mut inner) = node.agent.take() else { return };
        self.inputs += 1;
        let mut world = Around { now, wall, random: &mut node.random, known: &node.known };
        let store = if reads_executed { &node.store.executed } else { &node.store.settled };
        let outputs = inner.handle(input, store, &mut world);
        node.agent = Some(inner);
        self.perform(agent, outputs);
    }

    fn perform(&mut self, agent: usize, outputs: Vec<Output>) {
        let life = self.nodes[agent].life;
        for output in outputs {
            if !self.is_alive(agent, life) {
                return;
            }
            self.perform_one(agent, life, output);
        }
    }

    fn perform_one(&mut self, agent: usize, life: u64, output: Output) {
        match output {
            Output::Commit(id, lane, batch) => {
                self.nodes[agent].store.give(Operation { id, what: What::Commit(lane, batch) });
                self.execute_later(agent, life);
                self.commits += 1;
                let crashes = self.faults.crash_at_commit;
                match self.settings.only_crash.filter(|(at, _)| *at == self.commits) {
                    Some((_, Survives::Nothing)) => self.crash_keeping(agent, 0),
                    Some((_, Survives::Given)) => {
                        let all = self.nodes[agent].store.unsettled();
                        self.crash_keeping(agent, all);
                    }
                    None => {
                        if self.chance(crashes) {
                            self.crash(agent, "at a commit");
                        }
                    }
                }
            }
            Output::Trim(id, filter, before) => {
                self.nodes[agent].store.give(Operation { id, what: What::Trim(filter, before) });
                self.execute_later(agent, life);
            }
            Output::Reply(to, answer) => self.replied(agent, to, answer),
            Output::Attempt(attempt, what) => self.attempt(agent, life, attempt, what),
            Output::StartTurn(turn) => {
                let (id, effect) = (&turn.key.conversation, turn.key.effect);
                let node = &self.nodes[agent];
                let is_it =
                    |key: &EffectKey, open: &Effect| *key == effect && matches!(open, Effect::RunTurn { .. });
                if !observer::is_open(&node.id, &node.store.settled, id, is_it) {
                    let what =
                        format!("{}, conversation {id}: turn {effect} begins before it is durable", node.id);
                    return self.fail(what);
                }
                self.note_turn(agent, &turn.key, "begins");
                let script = brain::script(
                    self.settings.seed,
                    &self.nodes[agent].id,
                    &turn.prompt,
                    self.nodes[agent].is_slow,
                );
                let token = self.name();
                self.nodes[agent].turns.insert(turn.key.clone(), token);
                let mut at = 0;
                for (pause, act) in script {
                    at += pause;
                    let (key, act) = (turn.key.clone(), Box::new(act));
                    self.after(at, Event::Turn { agent, life, key, token, act });
                }
                let act = Box::new(Act::End(Err("it took too long".to_owned())));
                let most = plan::limits().think_ms;
                self.after(most, Event::Turn { agent, life, key: turn.key, token, act });
            }
            Output::StopTurn(key) => {
                self.note_turn(agent, &key, "is stopped");
                self.nodes[agent].turns.remove(&key);
            }
            Output::SetTimer(timer, after) => {
                self.nodes[agent].timers.insert(timer);
                self.after(millis(after), Event::Timer { agent, life, timer });
            }
            Output::ClearTimer(timer) => {
                self.nodes[agent].timers.remove(&timer);
            }
            Output::Subscribe(selector, cursor) => {
                let name = self.name();
                self.nodes[agent].follow =
                    Some(Follow { name, selector, cursor, looked: 0, is_handing: false });
                let delay = self.random.between(1, 50);
                self.after(delay, Event::Feed { agent, life, feed: name });
            }
            Output::ReleaseBrain(..) | Output::Observed(_) => {}
            Output::Continue => self.after(1, Event::Continue { agent, life }),
            Output::Fatal(_) => self.crash(agent, "its store failed"),
        }
    }

    fn note_turn(&mut self, agent: usize, key: &TurnKey, what: &str) {
        let id = self.nodes[agent].id.clone();
        self.note(|| format!("{id} turn {}/{} {what}", key.conversation, key.effect));
    }

    fn execute_later(&mut self, agent: usize, life: u64) {
        let slow = self.faults.slow_store;
        let delay = if self.chance(slow) { self.random.below(2_500) } else { self.random.below(4) };
        self.after(delay, Event::Execute { agent, life });
    }

    /// One attempt at something outside: what decided it is durable.
    fn attempt(&mut self, agent: usize, life: u64, attempt: AttemptId, what: Attempt) {
        let name = self.name();
        self.nodes[agent].attempts.insert(attempt, name);
        let attempt: Try = (attempt, name);
        let me = self.nodes[agent].id.clone();
        match what {
            Attempt::Deliver(delivery) => {
                let envelope = &delivery.envelope;
                self.check_effect(&me, envelope.message_id.as_str());
                let kind = envelope.kind().wire();
                let (message_id, to_id) = (envelope.message_id.clone(), delivery.to.clone());
                self.note(|| format!("{me} sends {kind} {message_id} to {to_id}"));
                let life_ms = Duration::from_millis(plan::limits().message_life_ms);
                let written = envelope.timestamp.unwrap_or_else(|| self.wall(agent));
                let expires = written.plus(life_ms);
                let expires = envelope.expires_at.map_or(expires, |at| at.min(expires));
                let is_again = !self.nodes[agent].tried.insert(message_id.clone());
                if is_again
                    && self.wall(agent) >= expires
                    && !self.nodes[agent].redriven.contains(&message_id)
                {
                    return self.fail(format!("{me}: {kind} {message_id} is sent after it expired"));
                }
                let Some(&to) = self.index.get(&delivery.to) else { return };
                let answer = Problem::new(Reason::GatewayTimeout, "no answer in time");
                let failed = Box::new(AttemptResult::Failed(answer));
                self.after(ACK, Event::Attempted { agent, life, attempt, result: failed });
                let message = IncomingMessage {
                    digest: Digest::of(&serde_json::to_vec(envelope).unwrap_or_default()),
                    envelope: Box::new(delivery.envelope),
                    by: Principal::Agent(me),
                    trace: delivery.trace,
                    contact: None,
                };
                let doubled = self.faults.doubled;
                if self.chance(doubled)
                    && let Some(delay) = self.travel(agent, to)
                {
                    let most = if self.random.chance(250) { 30_000 } else { 3_000 };
                    let delay = delay + self.random.below(most);
                    let copy = Box::new(message.clone());
                    self.after(delay, Event::Arrive { agent: to, message: copy, waiter: Waiter::Nobody });
                }
                if let Some(delay) = self.travel(agent, to) {
                    let waiter = Waiter::Peer { from: agent, life, attempt };
                    self.after(delay, Event::Arrive { agent: to, message: Box::new(message), waiter });
                }
            }
            Attempt::Publish(signal) => {
                self.check_effect(&me, &signal.id);
                self.note(|| format!("{me} publishes {} {}", signal.kind, signal.id));
                self.ask_board(agent, life, attempt, BoardAsk::Publish(*signal));
            }
            Attempt::Claim(task, request) => {
                self.note(|| format!("{me} wants of the claim on {task}: {request:?}"));
                self.check_claim(agent, &task);
                self.ask_board(agent, life, attempt, BoardAsk::Claim(task, request));
            }
        }
    }

    /// An effect is performed once the step that decided it is durable.
    fn check_effect(&mut self, me: &AgentId, name: &str) {
        let Some(id) = EffectId::parse(name).filter(|id| id.agent == *me) else { return };
        let seen = self.observer.seen(me).conversations.get(&id.conversation);
        if seen.is_none_or(|seen| seen.last() < id.step) {
            self.fail(format!(
                "{me}, conversation {}: effect {name} is performed before its step is durable",
                id.conversation
            ));
        }
    }

    fn check_claim(&mut self, agent: usize, task: &TaskId) {
        let node = &self.nodes[agent];
        let is_it = |effect: &Effect| match effect {
            Effect::ClaimOpenTask { task: of, .. }
            | Effect::RenewOpenTask { task: of, .. }
            | Effect::CloseOpenTask { task: of, .. }
            | Effect::ReleaseOpenTask { task: of, .. } => of == task,
            _ => false,
        };
        let seen = self.observer.seen(&node.id);
        let mut steps = seen.conversations.values().flat_map(|seen| &seen.steps);
        if !steps.any(|step| step.effects.iter().any(is_it)) {
            let what = format!("{}: the claim on {task} is changed before that is durable", node.id);
            self.fail(what);
        }
    }

    fn ask_board(&mut self, agent: usize, life: u64, attempt: Try, asked: BoardAsk) {
        let away = Problem::new(Reason::BlackboardUnavailable, "no answer in time");
        let failed = Box::new(AttemptResult::Failed(away));
        self.after(ACK, Event::Attempted { agent, life, attempt, result: failed });
        if let Some(delay) = self.travel(agent, BOARD) {
            self.after(delay, Event::BoardAsked { agent, life, attempt, asked: Box::new(asked) });
        }
    }

    /// An agent answered whoever waits: what it says is durable.
    fn replied(&mut self, agent: usize, to: ReplyTo, answer: Result<Ack, Problem>) {
        let me = self.nodes[agent].id.clone();
        let Some(waiting) = self.waiting.remove(&to.0) else {
            return self.fail(format!("{me} answers twice, or nobody: {answer:?}"));
        };
        if let Ok(ack) = &answer {
            self.check_ack(agent, &waiting, ack);
            if let (Some((_, by, ..)), Some((task, epoch))) = (&waiting.message, &waiting.cancels)
                && !ack.duplicate
            {
                self.observer.cancelled(&me, task, by, *epoch);
            }
        }
        let Waiting { waiter, message, .. } = waiting;
        match waiter {
            Waiter::Peer { from, life, attempt } => {
                let lost = self.faults.answer_lost;
                let is_lost = from != agent && self.chance(lost);
                if let Some(delay) = self.travel(agent, from).filter(|_| !is_lost) {
                    let result = match answer {
                        Ok(_) => AttemptResult::Delivered,
                        Err(problem) => AttemptResult::Failed(problem),
                    };
                    let result = Box::new(result);
                    self.after(delay, Event::Attempted { agent: from, life, attempt, result });
                }
            }
            Waiter::User { asked } => self.user_hears(agent, asked, answer),
            Waiter::Owner { is_cancel } => {
                let word = if is_cancel { "cancel" } else { "answer" };
                let said = answer.map(|_| "taken".to_owned()).unwrap_or_else(|problem| problem.to_string());
                self.note(|| format!("{me} to its owner's {word}: {said}"));
            }
            Waiter::Feed { posted } => {
                let life = self.nodes[agent].life;
                let Some(follow) = &mut self.nodes[agent].follow else { return };
                follow.is_handing = false;
                let feed = follow.name;
                match answer {
                    Ok(_) => {
                        follow.cursor = Some(posted.revision);
                        self.after(1, Event::Feed { agent, life, feed });
                    }
                    Err(problem) => {
                        self.note(|| format!("{me} did not take signal {}: {problem}", posted.signal.id));
                        self.nodes[agent].follow = None;
                        self.handle(agent, Input::SubscriptionLost(problem));
                    }
                }
            }
            Waiter::Nobody => {}
        }
        drop(message);
    }

    fn check_ack(&mut self, agent: usize, waiting: &Waiting, ack: &Ack) {
        let node = &self.nodes[agent];
        let seen = self.observer.seen(&node.id);
        let conversation = ack.conversation_id.as_ref().and_then(|id| seen.conversations.get(id));
        let what = match (&waiting.message, &waiting.waiter) {
            (Some((message, by, from, kind)), _) if !kind.is_best_effort() => {
                let key = keys::receipt(&node.id, message, by, from);
                let has_receipt = node.store.settled.latest(&key).ok().flatten().is_some();
                let has_task = || {
                    let task = ack.task_id.as_ref().filter(|_| ack.duplicate);
                    let key = task.map(|task| keys::task(&node.id, task, by));
                    key.is_some_and(|key| node.store.settled.latest(&key).ok().flatten().is_some())
                };
                let is_open = conversation.is_some_and(|seen| seen.ended.is_none());
                let is_unheard = is_open && !ack.duplicate && !seen.has_handled(message, by);
                if is_unheard {
                    let what =
                        format!("{}: {} {message} is acknowledged, and forgotten", node.id, kind.wire());
                    return self.fail(what);
                }
                let is_durable = has_receipt || has_task();
                (!is_durable).then(|| format!("{} {message} of {by} is acknowledged", kind.wire()))
            }
            (None, Waiter::Owner { is_cancel }) => {
                let is_it = |what: &EventKind| match what {
                    EventKind::Cancelled { .. } => *is_cancel,
                    EventKind::Answered { .. } => !*is_cancel,
                    _ => false,
                };
                let is_durable = conversation.is_some_and(|seen| seen.has_heard(is_it));
                (!is_durable).then(|| "its owner's word is acknowledged".to_owned())
            }
            (None, Waiter::Feed { posted }) => {
                let is_durable = ack.conversation_id.is_none() || conversation.is_some();
                (!is_durable).then(|| format!("signal {} is taken", posted.signal.id))
            }
            _ => None,
        };
        if let Some(what) = what {
            let id = ack.conversation_id.as_ref().map(ToString::to_string).unwrap_or_default();
            let what = format!("{}, conversation {id}: {what} before that is durable", node.id);
            self.fail(what);
        }
    }

    fn user_hears(&mut self, agent: usize, asked: usize, answer: Result<Ack, Problem>) {
        let (me, data) = (self.nodes[agent].id.clone(), self.nodes[agent].data);
        let now = self.now;
        let request = &mut self.asked[asked];
        match answer {
            Ok(ack) => {
                let id = request.message.envelope.message_id.clone();
                if let Some((before, first)) = &request.taken {
                    let is_same =
                        (&first.task_id, &first.conversation_id) == (&ack.task_id, &ack.conversation_id);
                    if *before == data && !is_same {
                        let what = format!("{me}: {id} was taken as {first:?}, and then as {ack:?}");
                        self.fail(what);
                    }
                    return;
                }
                request.taken = Some((data, ack.clone()));
                let is_task = request.is_task;
                self.tasks += u64::from(is_task);
                self.note(|| format!("{me} took {id} of a user"));
                if self.random.chance(250) && now < HEAL {
                    let delay = self.random.below(15_000);
                    self.after(delay, Event::AskAgain { asked });
                }
                if let Some(task) = ack.task_id.filter(|_| is_task)
                    && self.random.chance(180)
                {
                    let delay = self.random.below(20_000);
                    self.after(delay, Event::Cancel { agent, task });
                }
            }
            Err(problem) => {
                let id = request.message.envelope.message_id.clone();
                request.tries += 1;
                let goes_on = request.tries < 4 && problem.reason.status() >= 500;
                self.note(|| format!("{me} did not take {id} of a user: {problem}"));
                if goes_on {
                    self.after(1_500, Event::AskAgain { asked });
                }
            }
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Plan(plan) => self.planned(plan),
            Event::Start { agent } => self.start(agent),
            Event::Crash { agent, life } if self.is_alive(agent, life) => self.crash(agent, "as planned"),
            Event::Execute { agent, life } if self.is_alive(agent, life) => self.execute(agent, life),
            Event::Settle { agent, life } if self.is_alive(agent, life) => self.settle(agent),
            Event::Timer { agent, life, timer } if self.is_alive(agent, life) => {
                if self.nodes[agent].timers.remove(&timer) {
                    self.handle(agent, Input::TimerFired(timer));
                }
            }
            Event::Turn { agent, life, key, token, act } if self.is_alive(agent, life) => {
                if self.nodes[agent].turns.get(&key) != Some(&token) {
                    return;
                }
                match *act {
                    Act::Report(updates) => self.handle(agent, Input::TurnProgress(key, updates)),
                    Act::End(end) => {
                        self.note_turn(agent, &key, "ends");
                        self.nodes[agent].turns.remove(&key);
                        self.handle(agent, Input::TurnEnded(key, Vec::new(), end));
                    }
                }
            }
            Event::Arrive { agent, message, waiter } => self.arrive(agent, *message, waiter),
            Event::Attempted { agent, life, attempt, result } if self.is_alive(agent, life) => {
                let (attempt, name) = attempt;
                if self.nodes[agent].attempts.get(&attempt) == Some(&name) {
                    self.nodes[agent].attempts.remove(&attempt);
                    self.handle(agent, Input::Attempted(attempt, *result));
                }
            }
            Event::BoardAsked { agent, life, attempt, asked } => {
                self.board_asked(agent, life, attempt, *asked);
            }
            Event::Feed { agent, life, feed } if self.is_alive(agent, life) => self.feed(agent, life, feed),
            Event::Hand { agent, life, feed, posted } if self.is_alive(agent, life) => {
                if self.nodes[agent].follow.as_ref().is_some_and(|follow| follow.name == feed) {
                    let reply = self.expects(agent, Waiter::Feed { posted: posted.clone() }, None);
                    self.handle(agent, Input::Signal(posted, reply));
                }
            }
            Event::Pulse { agent, life } if self.is_alive(agent, life) => self.pulse(agent, life),
            Event::Sweep { agent, life } if self.is_alive(agent, life) => {
                self.handle(agent, Input::Sweep);
                self.after(plan::limits().sweep_ms, Event::Sweep { agent, life });
            }
            Event::Continue { agent, life } if self.is_alive(agent, life) => {
                self.handle(agent, Input::Continue);
            }
            Event::Drain { agent, life, stage } if self.is_alive(agent, life) => {
                self.drain(agent, life, stage);
            }
            Event::BoardSweep => {
                if self.board_is_up {
                    self.board.expire(NodeTime(self.now), self.true_wall());
                }
                self.after(500, Event::BoardSweep);
            }
            Event::RegistrySweep => {
                if self.registry_is_up {
                    self.registry.sweep(NodeTime(self.now));
                }
                self.after(1_000, Event::RegistrySweep);
            }
            Event::BoardBack => {
                if !self.board_is_up {
                    self.board_is_up = true;
                    self.board.restart(NodeTime(self.now));
                }
            }
            Event::RegistryBack => {
                if !self.registry_is_up {
                    self.registry_is_up = true;
                    self.registry.restart(NodeTime(self.now));
                }
            }
            Event::Unsplit => self.split = None,
            Event::Heal => {
                self.note(|| "the world heals".to_owned());
                self.split = None;
                self.after(0, Event::BoardBack);
                self.after(0, Event::RegistryBack);
                for agent in 0..self.nodes.len() {
                    self.after(self.now % 7, Event::Start { agent });
                }
            }
            Event::AskAgain { asked } => self.ask(asked),
            Event::Cancel { agent, task } => self.cancel(agent, task),
            Event::Answer { agent, task } => self.answer(agent, task),
            Event::Redrive { agent, message } => {
                if self.nodes[agent].agent.is_some() {
                    self.nodes[agent].redriven.insert(message.clone());
                    let reply = self.expects(agent, Waiter::Nobody, None);
                    self.handle(agent, Input::Redrive { message, reply });
                }
            }
            Event::Impatience => {
                self.impatience();
                self.after(10_000, Event::Impatience);
            }
            Event::Crash { .. }
            | Event::Execute { .. }
            | Event::Settle { .. }
            | Event::Timer { .. }
            | Event::Turn { .. }
            | Event::Attempted { .. }
            | Event::Feed { .. }
            | Event::Hand { .. }
            | Event::Pulse { .. }
            | Event::Sweep { .. }
            | Event::Continue { .. }
            | Event::Drain { .. } => {}
        }
    }

    fn planned(&mut self, plan: Plan) {
        match plan {
            Plan::Ask { to, capability, has_deadline } => {
                let at = self.asked.len();
                let deadline = has_deadline.then(|| self.true_wall().plus(Duration::from_secs(25)));
                let task = format!("t-{at}");
                let mut payload = json!({ "description": format!("ask {at}"), "taskId": task });
                if let Some(members) = payload.as_object_mut() {
                    members.extend(capability.map(|name| ("capability".to_owned(), json!(name))));
                    members.extend(deadline.map(|at| ("deadline".to_owned(), json!(at))));
                    if at.is_multiple_of(3) {
                        members.remove("taskId");
                    }
                }
                self.ask_first(to, MessageKind::TaskRequest, payload);
            }
            Plan::Offer { to } => {
                let at = self.asked.len();
                let payload = json!({
                    "signal": "task.available", "taskId": format!("open-{at}"), "capability": "chore",
                    "refs": { "description": format!("open work {at}") },
                });
                self.ask_first(to, MessageKind::Broadcast, payload);
            }
            Plan::Announce { to } => {
                self.ask_first(to, MessageKind::Broadcast, json!({ "signal": "acme.news" }))
            }
            Plan::Help { to } => {
                let payload = json!({ "question": "why?", "capability": "advise" });
                self.ask_first(to, MessageKind::HelpRequest, payload);
            }
            Plan::Crash { agent } => {
                let life = self.nodes[agent].life;
                self.after(0, Event::Crash { agent, life });
            }
            Plan::Leave { agent } => {
                let life = self.nodes[agent].life;
                self.after(0, Event::Drain { agent, life, stage: 0 });
            }
            Plan::Split { sides, length } => {
                self.note(|| format!("the network splits for {length} ms"));
                self.split = Some(sides);
                self.after(length, Event::Unsplit);
            }
            Plan::BoardAway { length } => {
                self.note(|| format!("the board is away for {length} ms"));
                self.board_is_up = false;
                self.after(length, Event::BoardBack);
            }
            Plan::RegistryAway { length } => {
                self.note(|| format!("the registry is away for {length} ms"));
                self.registry_is_up = false;
                self.after(length, Event::RegistryBack);
            }
            Plan::Panic => {
                self.note(|| "the next turn that ends panics".to_owned());
                engine::faults::panic_on_turns(1);
            }
            Plan::Unwritten => {
                self.note(|| "the next step can't be written".to_owned());
                engine::faults::fail_steps(1);
            }
            Plan::Skew { agent, by } => self.nodes[agent].skew = by,
        }
    }

    fn ask_first(&mut self, to: usize, kind: MessageKind, payload: serde_json::Value) {
        let Ok(payload) = Payload::parse(kind, payload.as_object().cloned().unwrap_or_default()) else {
            return self.fail(format!("the simulator's own {} is wrong", kind.wire()));
        };
        let at = self.asked.len();
        let (Ok(message_id), Ok(user)) = (MessageId::parse(&format!("m-{at}")), AgentId::parse("somebody"))
        else {
            return;
        };
        let envelope = Envelope {
            message_id,
            from_agent_id: user,
            to_agent_id: protocol::ids::Address::Agent(self.nodes[to].id.clone()),
            payload,
            timestamp: None,
            conversation_id: None,
            thread_id: None,
            in_reply_to: None,
            reply_conversation_id: None,
            reply_to: None,
            expires_at: None,
            path: Vec::new(),
            extra: serde_json::Map::new(),
        };
        let message = Box::new(IncomingMessage {
            digest: Digest::of(&serde_json::to_vec(&envelope).unwrap_or_default()),
            envelope: Box::new(envelope),
            by: Principal::local_user(),
            trace: None::<TraceContext>,
            contact: None,
        });
        let is_task = kind == MessageKind::TaskRequest;
        self.asked.push(Asked { to, message, is_task, tries: 0, taken: None });
        self.ask(at);
    }

    fn ask(&mut self, asked: usize) {
        let Asked { to, message, .. } = &self.asked[asked];
        let (to, message) = (*to, message.clone());
        self.after(1, Event::Arrive { agent: to, message, waiter: Waiter::User { asked } });
        // An impatient client sends it twice at once.
        if self.chance(150) {
            let message = self.asked[asked].message.clone();
            let delay = self.random.between(1, 12);
            self.after(delay, Event::Arrive { agent: to, message, waiter: Waiter::User { asked } });
        }
    }

    fn arrive(&mut self, agent: usize, message: IncomingMessage, waiter: Waiter) {
        if self.nodes[agent].agent.is_none() {
            let refused = Problem::new(Reason::GatewayTimeout, "connection refused");
            match waiter {
                Waiter::Peer { from, life, attempt } => {
                    let result = Box::new(AttemptResult::Failed(refused));
                    self.after(2, Event::Attempted { agent: from, life, attempt, result });
                }
                Waiter::User { asked } => self.user_hears(agent, asked, Err(refused)),
                Waiter::Owner { .. } | Waiter::Feed { .. } | Waiter::Nobody => {}
            }
            return;
        }
        let me = self.nodes[agent].id.clone();
        let (kind, id) = (message.envelope.kind().wire(), message.envelope.message_id.clone());
        self.note(|| format!("{me} gets {kind} {id}"));
        let reply = self.expects(agent, waiter, Some(&message));
        self.handle(agent, Input::Message(message, reply));
    }

    fn board_asked(&mut self, agent: usize, life: u64, attempt: Try, asked: BoardAsk) {
        let me = self.nodes[agent].id.clone();
        let now = (NodeTime(self.now), self.true_wall());
        if !self.board_is_up {
            return;
        }
        let answer = match asked {
            BoardAsk::Publish(signal) => {
                let by = Principal::Agent(me.clone());
                self.board.publish(&by, &signal, now.1).map(AttemptResult::Published)
            }
            BoardAsk::Claim(task, request) => {
                self.board.claim(&me, &task, request, now).map(AttemptResult::Claim)
            }
        };
        if let Err(problem) = &answer {
            self.note(|| format!("the board refuses {me}: {problem}"));
        }
        let answer_lost = self.faults.answer_lost;
        if self.chance(answer_lost) {
            return;
        }
        if let Some(delay) = self.travel(BOARD, agent) {
            let result = Box::new(answer.unwrap_or_else(AttemptResult::Failed));
            self.after(delay, Event::Attempted { agent, life, attempt, result });
        }
    }

    fn feed(&mut self, agent: usize, life: u64, feed: u64) {
        let is_away = !self.board_is_up || self.is_split(agent, BOARD);
        let Some(follow) = self.nodes[agent].follow.as_mut().filter(|follow| follow.name == feed) else {
            return;
        };
        if follow.is_handing {
            return;
        }
        if is_away {
            self.nodes[agent].follow = None;
            let lost = Problem::new(Reason::BlackboardUnavailable, "the stream ended");
            return self.handle(agent, Input::SubscriptionLost(lost));
        }
        let Some(cursor) = follow.cursor else {
            self.nodes[agent].follow = None;
            let head = self.board.head();
            return self.handle(agent, Input::BoardHead(head));
        };
        let head = self.board.head();
        let next =
            (follow.looked < head).then(|| self.board.next(&follow.selector, cursor.max(follow.looked)));
        match next.flatten() {
            Some(posted) => {
                follow.is_handing = true;
                let delay = self.random.between(1, 60);
                self.after(delay, Event::Hand { agent, life, feed, posted: Box::new(posted) });
            }
            None => {
                follow.looked = head;
                self.after(if self.now < QUIET { 100 } else { 5_000 }, Event::Feed { agent, life, feed });
            }
        }
    }

    fn pulse(&mut self, agent: usize, life: u64) {
        let pause = if self.now < QUIET { 2_000 } else { 5_000 };
        self.after(pause, Event::Pulse { agent, life });
        if !self.registry_is_up || self.is_split(agent, REGISTRY) {
            return;
        }
        let now = NodeTime(self.now);
        let node = &mut self.nodes[agent];
        let running = node.agent.as_ref().map_or(0, Agent::running);
        let is_known = node
            .incarnation
            .is_some_and(|incarnation| self.registry.heartbeat(&node.id, incarnation, running, now));
        if !is_known {
            let instance = format!("{}-{life}", node.id);
            node.incarnation = self.registry.register(node.config.card.clone(), &instance, now);
        }
        if node.known.version != self.registry.version {
            let is_first = node.known.version == 0;
            node.known.learn(self.registry.all(now), self.registry.version);
            if is_first {
                self.handle(agent, Input::DirectorySynced);
            }
        }
    }

    fn start(&mut self, agent: usize) {
        let (now, seed) = (self.now, self.settings.seed);
        let node = &mut self.nodes[agent];
        if node.agent.is_some() {
            return;
        }
        node.life += 1;
        let life = node.life;
        node.base = engine::newest_time(&node.store.settled, &node.id).unwrap_or_default().0.max(node.base);
        node.started = now;
        node.random = Random::new(seed).fork(Hash::of(&[node.id.as_str(), &life.to_string()]));
        node.known = Known::default();
        let (at, wall) = (self.node_time(agent), self.wall(agent));
        let node = &mut self.nodes[agent];
        let mut world = Around { now: at, wall, random: &mut node.random, known: &node.known };
        let recovered = Agent::recover(node.config.clone(), &node.store.settled, &mut world);
        let me = node.id.clone();
        match recovered {
            Ok((inner, outputs)) => {
                node.agent = Some(inner);
                self.note(|| format!("{me} starts, life {life}"));
                self.perform(agent, outputs);
            }
            Err(error) => return self.fail(format!("{me} does not start: {error}")),
        }
        if self.is_alive(agent, life) {
            self.after(self.now % 50 + 1, Event::Pulse { agent, life });
            let first = self.random.below(plan::limits().sweep_ms);
            self.after(first, Event::Sweep { agent, life });
        }
    }

    fn crash(&mut self, agent: usize, why: &str) {
        self.crashes += 1;
        let data_loss = self.faults.data_loss;
        let loses_data = why == "as planned" && self.chance(data_loss);
        let unsettled = self.nodes[agent].store.unsettled() as u64;
        let kept = usize::try_from(self.random.below(unsettled + 1)).unwrap_or(0);
        self.goes_down(agent, why, kept, loses_data);
    }

    fn crash_keeping(&mut self, agent: usize, kept: usize) {
        self.crashes += 1;
        self.goes_down(agent, "at the commit", kept, false);
    }

    fn goes_down(&mut self, agent: usize, why: &str, kept: usize, loses_data: bool) {
        let unsettled = self.nodes[agent].store.unsettled();
        let down = self.random.between(50, 8_000);
        let node = &mut self.nodes[agent];
        // The node's clock goes on from the newest record, as after any restart.
        (node.agent, node.follow, node.incarnation) = (None, None, None);
        node.base = 0;
        node.timers.clear();
        node.attempts.clear();
        node.tried.clear();
        node.turns.clear();
        let me = node.id.clone();
        let survived = node.store.crash(kept);
        for what in &survived {
            self.observer.durable(&me, &self.nodes[agent].store.settled, what);
        }
        if loses_data {
            self.nodes[agent].store = Store::default();
            self.nodes[agent].data += 1;
            self.observer.forget(&me);
        }
        self.note(|| {
            format!("{me} crashes {why}; {kept} of {unsettled} commits survive; data lost: {loses_data}")
        });
        let gone: Vec<u64> =
            self.waiting.iter().filter(|(_, one)| one.agent == agent).map(|(name, _)| *name).collect();
        for name in gone {
            let Some(waiting) = self.waiting.remove(&name) else { continue };
            let reset = Problem::new(Reason::GatewayTimeout, "the connection was reset");
            match waiting.waiter {
                Waiter::Peer { from, life, attempt } => {
                    let result = Box::new(AttemptResult::Failed(reset));
                    self.after(3, Event::Attempted { agent: from, life, attempt, result });
                }
                Waiter::User { asked } => self.user_hears(agent, asked, Err(reset)),
                Waiter::Owner { .. } | Waiter::Feed { .. } | Waiter::Nobody => {}
            }
        }
        self.after(down, Event::Start { agent });
    }

    fn execute(&mut self, agent: usize, life: u64) {
        let refuses = self.faults.store_refuses;
        let refusal = self.chance(refuses).then(|| match self.random.below(8) {
            0..3 => (Error::Full, false),
            3..5 => (Error::StorageFull, false),
            5..7 => {
                let key = store_types::Key::new(&["a", "conflict"]);
                (Error::Conflict { key, actual: 0 }, false)
            }
            _ => (Error::Unknown("the disk did not answer".to_owned()), self.random.chance(500)),
        });
        // After an unknown outcome the process ends soon.
        if matches!(refusal, Some((Error::Unknown(_), _))) {
            self.after(200, Event::Crash { agent, life });
        }
        self.nodes[agent].store.execute(refusal);
        let slow = self.faults.slow_store;
        let delay = if self.chance(slow) { self.random.below(1_000) } else { self.random.below(4) };
        self.after(delay, Event::Settle { agent, life });
    }

    fn settle(&mut self, agent: usize) {
        let me = self.nodes[agent].id.clone();
        let Some((id, outcome, written)) = self.nodes[agent].store.settle() else { return };
        if let Some(what) = &written {
            self.observer.durable(&me, &self.nodes[agent].store.settled, what);
            self.note_steps(agent, what);
        }
        let crashes = self.faults.crash_after_settling;
        if self.chance(crashes) {
            return self.crash(agent, "after a commit");
        }
        match outcome {
            Outcome::Committed(result) => {
                if let Err(error) = &result {
                    self.note(|| format!("{me}'s store refuses: {error}"));
                }
                self.handle(agent, Input::CommitSettled(id, result));
            }
            Outcome::Trimmed(records) => self.handle(agent, Input::TrimSettled(id, Ok(records))),
        }
        self.user_looks(agent, written.as_ref());
    }

    fn note_steps(&mut self, agent: usize, what: &What) {
        let What::Commit(_, batch) = what else { return };
        let me = self.nodes[agent].id.clone();
        for write in &batch.writes {
            let tokens = write.key().tokens();
            if tokens.get(1).is_none_or(|topic| topic != "journal") {
                continue;
            }
            let Some(id) = tokens.get(2).and_then(|id| protocol::ids::ConversationId::parse(id).ok()) else {
                continue;
            };
            let seen = self.observer.seen(&me).conversations.get(&id);
            let Some(line) = seen.and_then(|seen| seen.steps.last()).map(observer::brief) else { continue };
            self.note(|| format!("{me} {id} {line}"));
        }
    }

    /// A user who sees that a task waits for him answers, or does not.
    fn user_looks(&mut self, agent: usize, written: Option<&What>) {
        let Some(What::Commit(_, batch)) = written else { return };
        let me = self.nodes[agent].id.clone();
        for write in &batch.writes {
            let tokens = write.key().tokens();
            let topic = tokens.get(1).map(String::as_str);
            if topic == Some("dead")
                && self.random.chance(250)
                && matches!(write, store_types::Write::Put(..))
            {
                let message = tokens.get(2).and_then(|id| MessageId::parse(id).ok());
                let delay = self.random.below(10_000);
                if let Some(message) = message.filter(|_| self.now < IMPATIENT) {
                    self.after(delay, Event::Redrive { agent, message });
                }
            }
            if topic != Some("task") {
                continue;
            }
            let Some(task) = tokens.get(2).and_then(|id| TaskId::parse(id).ok()) else { continue };
            let tasks = self.observer.seen(&me).tasks.iter();
            let user = Principal::local_user();
            let waits = tasks.filter(|((of, _), _)| *of == task).any(|((_, owner), row)| {
                let is_his = *owner == user || row.epoch.is_some() && task.as_str().starts_with("open-");
                is_his && row.state == TaskState::InputRequired
            });
            if waits && self.random.chance(700) {
                let delay = self.random.between(100, 8_000);
                self.after(delay, Event::Answer { agent, task });
            }
        }
    }

    fn cancel(&mut self, agent: usize, task: TaskId) {
        if self.nodes[agent].agent.is_none() {
            return;
        }
        let reply = self.expects(agent, Waiter::Owner { is_cancel: true }, None);
        let (by, reason) = (Principal::local_user(), "no longer wanted".to_owned());
        self.handle(agent, Input::Cancel { task, by, reason, reply });
    }

    fn answer(&mut self, agent: usize, task: TaskId) {
        if self.nodes[agent].agent.is_none() {
            return;
        }
        let reply = self.expects(agent, Waiter::Owner { is_cancel: false }, None);
        let (by, text) = (Principal::local_user(), "the first".to_owned());
        self.handle(agent, Input::Answer { task, by, text, message: None, reply });
    }

    /// Users cancel what waits for them and was not answered.
    fn impatience(&mut self) {
        let user = Principal::local_user();
        let mut waiting = Vec::new();
        for (id, seen) in &self.observer.agents {
            let Some(&agent) = self.index.get(id) else { continue };
            for ((task, owner), row) in &seen.tasks {
                let is_his = *owner == user || row.root == user;
                if is_his && row.state == TaskState::InputRequired {
                    waiting.push((agent, task.clone()));
                }
            }
        }
        for (agent, task) in waiting {
            self.cancel(agent, task);
        }
    }

    fn drain(&mut self, agent: usize, life: u64, stage: u8) {
        let me = self.nodes[agent].id.clone();
        self.note(|| format!("{me} leaves, stage {stage}"));
        match stage {
            0 => {
                self.handle(agent, Input::Drain);
                self.after(1_500, Event::Drain { agent, life, stage: 1 });
            }
            1 => {
                self.handle(agent, Input::HandBack);
                self.after(2_000, Event::Drain { agent, life, stage: 2 });
            }
            _ => {
                if let Some(incarnation) = self.nodes[agent].incarnation
                    && self.registry_is_up
                {
                    self.registry.leave(&me, incarnation, NodeTime(self.now));
                }
                self.crash(agent, "to leave");
            }
        }
    }

    /// What holds once all is quiet and everything that has its time is past it.
    fn check_end(&mut self) {
        self.observer.finish();
        self.collect_failures();
        let mut wrong = Vec::new();
        for node in &self.nodes {
            let me = &node.id;
            let Some(inner) = &node.agent else {
                wrong.push(format!("{me} is down"));
                continue;
            };
            let shown = inner.snapshot();
            if !shown.conversations.is_empty() || shown.thinking > 0 || shown.timers > 0 || !inner.is_idle() {
                wrong.push(format!("{me} is not quiet at the end: {shown:?}"));
            }
            if !shown.parked.is_empty() {
                wrong.push(format!("{me} has parked {:?}", shown.parked));
            }
            if !node.timers.is_empty() || !node.turns.is_empty() || !node.attempts.is_empty() {
                let (timers, turns) = (node.timers.len(), node.turns.len());
                let attempts = node.attempts.len();
                wrong
                    .push(format!("{me} has {timers} timers, {turns} turns, {attempts} attempts at the end"));
            }
            if !node.store.is_quiet() {
                wrong.push(format!("{me}'s store is not quiet at the end"));
            }
            let topics = [
                "state",
                "claim",
                "receipt",
                "reaction",
                "tombstone",
                "dead",
                "task",
                "award",
                "content",
                "journal",
            ];
            for topic in topics {
                let left = node.store.settled.page(&keys::all(me, topic), 0, 5);
                if !left.is_empty() {
                    let keys: Vec<_> = left.iter().map(|record| record.key.to_string()).collect();
                    wrong.push(format!("{me} keeps rows of {topic} at the end: {}", keys.join(", ")));
                }
            }
        }
        for (task, stands) in self.board.held() {
            wrong.push(format!("the claim on {task} is still held by {} at the end", stands.row.holder));
        }
        for waiting in self.waiting.values() {
            let Waiting { agent, since, waiter, message, .. } = waiting;
            let me = &self.nodes[*agent].id;
            wrong.push(format!("{me} has not answered {waiter:?} {message:?} since {since}"));
        }
        wrong.extend(self.missed_signals());
        self.failures.extend(wrong);
    }

    /// Questions to everybody that a follower could answer and never heard of.
    fn missed_signals(&self) -> Vec<String> {
        let mut missed = Vec::new();
        let asked = self.board.all();
        let asked: Vec<_> =
            asked.iter().filter(|posted| posted.signal.kind == SignalType::help_needed()).collect();
        for node in self.nodes.iter().filter(|node| !node.config.subscribe.is_empty()) {
            let seen = self.observer.seen(&node.id);
            let Some(first) = seen.first_cursor else {
                missed.push(format!("{} never followed the board", node.id));
                continue;
            };
            for posted in &asked {
                let signal = &posted.signal;
                let can = |wanted| node.config.card.support(wanted) > 0.0;
                let is_relayed = broadcast::on_behalf_of(signal).is_some();
                let concerns = posted.revision > first
                    && (signal.from != node.id || is_relayed)
                    && signal.capability.as_ref().is_none_or(can)
                    && reaction::hops(signal) < node.config.limits.max_hops as u64;
                if concerns && !seen.reactions.contains(&(signal.from.clone(), signal.id.clone())) {
                    missed.push(format!("{} never reacted to {} at {}", node.id, signal.id, posted.revision));
                }
            }
        }
        missed
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
