//! One run: a queue of events at virtual times; each is handled before the next.

mod checks;
mod commits;
mod crash;
mod event;
mod network;
mod node;
mod replies;
mod services;
mod turns;
mod users;

use crate::{
    board::SimulatedBoard,
    invariants::Observer,
    plan::{self, CANCEL_AT, END_AT, FaultRates, HEAL_AT, LEFT_OPEN_UNTIL},
    random::Random,
    registry::SimulatedRegistry,
};
use engine::{AttemptId, EngineConfig, MessageResult};
use event::Event;
use node::Node;
use patterns::EventKind;
use protocol::{
    ids::{AgentId, TaskId},
    time::WallTime,
};
use replies::PendingReply;
use std::{
    cell::Cell,
    collections::{BTreeMap, VecDeque},
};
use users::UserRequest;

/// The settings of a run.
#[derive(Debug, Clone)]
pub struct RunSettings {
    /// Determines everything that happens.
    pub seed: u64,
    /// How many agents take part.
    pub agents: usize,
    /// Whether every event is printed.
    pub is_traced: bool,
    /// No other faults and little work: the agent that issues the commit of that number crashes, and its unsettled
    /// commits are lost or kept.
    pub only_crash: Option<(u64, CommitSurvival)>,
    /// Whether agents check results before they count.
    pub has_acceptance: bool,
}

/// What happens to the unsettled commits of an agent that crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitSurvival {
    Lost,
    /// All become durable; the agent does not learn of it.
    Kept,
}

impl RunSettings {
    /// A run of `seed` with twelve agents.
    pub fn of(seed: u64) -> Self {
        Self { seed, agents: 12, is_traced: false, only_crash: None, has_acceptance: seed % 3 == 1 }
    }
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunReport {
    pub seed: u64,
    /// A hash over every journal record and every record of the board.
    pub hash: u64,
    /// Inputs that agents handled.
    pub inputs: u64,
    /// Commits that agents issued.
    pub commits: u64,
    /// Steps that became durable.
    pub steps: u64,
    pub crashes: u64,
    /// Tasks of users that agents accepted.
    pub tasks: u64,
    /// The violated invariants; empty if all hold.
    pub failures: Vec<String>,
    pub tail: Vec<String>,
}

/// How long an attempt waits for its answer, milliseconds.
const ACK_TIMEOUT: u64 = 5_000;
/// The board and the registry as endpoints of the network, beside the agents' indexes.
const BOARD: usize = usize::MAX;
const REGISTRY: usize = usize::MAX - 1;
/// The wall time at which a run starts: 2026-01-01, milliseconds.
const EPOCH: i64 = 1_767_225_600_000;

/// The message of a panic that a run plans.
pub(crate) const RULE_PANIC: &str = "a rule panics on purpose";

/// An event on which a rule panics once.
type RulePanic = Cell<Option<fn(&EventKind) -> bool>>;

/// One try of an attempt: an answer to an earlier try is ignored.
type AttemptTry = (AttemptId, u64);

/// A run in progress.
pub(crate) struct Simulation {
    settings: RunSettings,
    faults: FaultRates,
    now: u64,
    sequence: u64,
    queue: BTreeMap<(u64, u64), Event>,
    random: Random,
    nodes: Vec<Node>,
    index: BTreeMap<AgentId, usize>,
    board: SimulatedBoard,
    registry: SimulatedRegistry,
    board_is_up: bool,
    /// Whether the board loses its signals before it is up again.
    board_loses_signals: bool,
    registry_is_up: bool,
    /// The side of each endpoint in a network partition: a bit for each agent, the board and the registry.
    partition: Option<u64>,
    pending_replies: BTreeMap<u64, PendingReply>,
    /// The answers so far to the messages of a request, by its try.
    answers: BTreeMap<u64, Vec<Option<MessageResult>>>,
    last_id: u64,
    requests: Vec<UserRequest>,
    /// The task whose question users leave unanswered, and its agent.
    left_open: Option<(usize, TaskId)>,
    /// The event on which the next rule panics.
    rule_panic: RulePanic,
    observer: Observer,
    failures: Vec<String>,
    tail: VecDeque<String>,
    inputs: u64,
    commits: u64,
    crashes: u64,
    tasks: u64,
}

impl Simulation {
    pub(crate) fn new(settings: RunSettings) -> Self {
        let (faults, plan) = match settings.only_crash {
            Some(_) => plan::calm(),
            None => plan::of(settings.seed, settings.agents),
        };
        let random = Random::new(settings.seed).fork(2);
        let mut configs = plan::agents(settings.agents);
        if settings.has_acceptance {
            plan::demand_acceptance(&mut configs);
        }
        let limits = plan::limits();
        let observer =
            Observer::new(configs.iter().map(|config| config.card.agent_id.clone()), limits.dedup_ms);
        let mut brains = random.fork(3);
        let node = |(at, config): (usize, EngineConfig)| {
            Node::new(config, random.fork(100 + at as u64), brains.chance(faults.slow_brains))
        };
        let nodes: Vec<_> = configs.into_iter().enumerate().map(node).collect();
        let mut simulation = Self {
            now: 0,
            sequence: 0,
            queue: BTreeMap::new(),
            index: nodes.iter().enumerate().map(|(at, node)| (node.id.clone(), at)).collect(),
            nodes,
            random,
            board: SimulatedBoard::new(),
            registry: SimulatedRegistry::new(),
            board_is_up: true,
            board_loses_signals: false,
            registry_is_up: true,
            partition: None,
            pending_replies: BTreeMap::new(),
            answers: BTreeMap::new(),
            last_id: 0,
            requests: Vec::new(),
            left_open: None,
            rule_panic: Cell::new(None),
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
        for (at, planned) in plan {
            simulation.after(at, Event::Planned(planned));
        }
        simulation.after(500, Event::BoardSweep);
        simulation.after(1_000, Event::RegistrySweep);
        simulation.after(HEAL_AT, Event::Heal);
        simulation.after(CANCEL_AT, Event::CancelWaiting);
        simulation.after(LEFT_OPEN_UNTIL - 1, Event::CheckJournals);
        simulation
    }

    pub(crate) fn run(mut self) -> RunReport {
        while let Some(((at, _), event)) = self.queue.pop_first() {
            if at > END_AT {
                break;
            }
            self.now = at;
            self.dispatch(event);
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
        RunReport {
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
        self.failures.append(&mut self.observer.violations);
        self.failures.append(&mut self.board.violations);
    }

    /// Schedules an event `delay` milliseconds from now.
    fn after(&mut self, delay: u64, event: Event) {
        self.sequence += 1;
        self.queue.insert((self.now + delay, self.sequence), event);
    }

    /// Prints or keeps a line about what happens.
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

    fn fail(&mut self, failure: String) {
        self.failures.push(failure);
    }

    fn has_faults(&self) -> bool {
        self.now < HEAL_AT
    }

    /// True in `per_mille` of a thousand cases while there are faults.
    fn chance(&mut self, per_mille: u64) -> bool {
        self.has_faults() && self.random.chance(per_mille)
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn true_wall(&self) -> WallTime {
        WallTime(EPOCH + i64::try_from(self.now).unwrap_or(i64::MAX))
    }
}
