//! The nodes: each runs one agent, hands it inputs and performs its outputs.

use super::{EPOCH, RULE_PANIC, RulePanic, Simulation, event::Event, services::BoardReader};
use crate::{
    brain, plan,
    random::{Hash, Random},
    registry::RegistryCache,
    store::{Operation, SimulatedStore},
};
use engine::{
    Agent, AttemptId, EngineConfig, Input, InstantAnswer, Output, PeerDirectory, TimerId, TurnKey, World,
};
use patterns::{AnyPattern, Effect, turn::Prompt};
use protocol::{
    ids::{AgentId, ConversationId, MessageId},
    time::{NodeTime, WallTime},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// One node: its agent, its store, and what its current life has open.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) id: AgentId,
    pub(super) config: EngineConfig,
    /// Grows with each start.
    pub(super) life: u64,
    /// Grows when its data is lost.
    pub(super) data_generation: u64,
    pub(super) agent: Option<Agent>,
    pub(super) store: SimulatedStore,
    pub(super) directory: RegistryCache,
    pub(super) random: Random,
    /// The node time at its start, and the virtual time of that.
    pub(super) clock_base: u64,
    pub(super) started: u64,
    /// By how much its wall clock is off, milliseconds.
    pub(super) skew: i64,
    pub(super) timers: BTreeSet<TimerId>,
    /// The attempts in progress, each with its current try.
    pub(super) attempts: BTreeMap<AttemptId, u64>,
    /// When an attempt last failed in this life.
    pub(super) failed_attempts: BTreeMap<AttemptId, u64>,
    /// Messages that this life has sent at least once.
    pub(super) sent: BTreeSet<MessageId>,
    /// Dead letters that a user sent again: they may be sent after they expired.
    pub(super) redriven: BTreeSet<MessageId>,
    /// The turns in progress, each with its number.
    pub(super) turns: BTreeMap<TurnKey, u64>,
    /// How many checkpoints of each conversation were acknowledged.
    pub(super) checkpoints: BTreeMap<ConversationId, usize>,
    pub(super) reader: Option<BoardReader>,
    pub(super) incarnation: Option<u64>,
    pub(super) is_slow: bool,
}

impl Node {
    pub(super) fn new(config: EngineConfig, random: Random, is_slow: bool) -> Self {
        Self {
            id: config.card.agent_id.clone(),
            config,
            life: 0,
            data_generation: 0,
            agent: None,
            store: SimulatedStore::default(),
            directory: RegistryCache::default(),
            random,
            clock_base: 0,
            started: 0,
            skew: 0,
            timers: BTreeSet::new(),
            attempts: BTreeMap::new(),
            failed_attempts: BTreeMap::new(),
            sent: BTreeSet::new(),
            redriven: BTreeSet::new(),
            turns: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            reader: None,
            incarnation: None,
            is_slow,
        }
    }
}

/// The clocks, the randomness and the directory of a node.
struct NodeWorld<'a> {
    now: NodeTime,
    wall: WallTime,
    random: &'a mut Random,
    directory: &'a RegistryCache,
    seed: u64,
    me: &'a AgentId,
    rule_panic: &'a RulePanic,
}

impl World for NodeWorld<'_> {
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
        self.directory
    }

    fn answer_at_once(&self, prompt: &Prompt) -> Option<InstantAnswer> {
        brain::answer_at_once(self.seed, self.me, prompt)
    }

    fn run_rule(&self, pattern: &mut AnyPattern, event: &patterns::Event) -> Vec<Effect> {
        if self.rule_panic.get().is_some_and(|is_event| is_event(&event.what)) {
            self.rule_panic.set(None);
            std::panic::panic_any(RULE_PANIC);
        }
        pattern.on(event)
    }
}

impl Simulation {
    pub(super) fn node_time(&self, agent: usize) -> NodeTime {
        let node = &self.nodes[agent];
        NodeTime(node.clock_base + (self.now - node.started))
    }

    /// The wall time by the clock of a node.
    pub(super) fn wall(&self, agent: usize) -> WallTime {
        let now = i64::try_from(self.now).unwrap_or(i64::MAX);
        WallTime(EPOCH + now + self.nodes[agent].skew)
    }

    pub(super) fn is_alive(&self, agent: usize, life: u64) -> bool {
        let node = &self.nodes[agent];
        node.agent.is_some() && node.life == life
    }

    /// Starts a node that is down: its agent recovers from the store.
    pub(super) fn start(&mut self, agent: usize) {
        let (now, seed) = (self.now, self.settings.seed);
        let node = &mut self.nodes[agent];
        if node.agent.is_some() {
            return;
        }
        node.life += 1;
        let life = node.life;
        node.clock_base =
            engine::newest_time(&node.store.settled, &node.id).unwrap_or_default().0.max(node.clock_base);
        node.started = now;
        node.random = Random::new(seed).fork(Hash::of(&[node.id.as_str(), &life.to_string()]));
        node.directory = RegistryCache::default();
        let (at, wall) = (self.node_time(agent), self.wall(agent));
        let node = &mut self.nodes[agent];
        let mut world = NodeWorld {
            now: at,
            wall,
            random: &mut node.random,
            directory: &node.directory,
            seed,
            me: &node.id,
            rule_panic: &self.rule_panic,
        };
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
            self.after(self.now % 50 + 1, Event::Heartbeat { agent, life });
            let first = self.random.below(plan::limits().sweep_ms);
            self.after(first, Event::Sweep { agent, life });
        }
    }

    /// Hands an input to an agent and performs the outputs.
    pub(super) fn handle(&mut self, agent: usize, input: Input) {
        let (now, wall) = (self.node_time(agent), self.wall(agent));
        let reads_executed = self.random.chance(500);
        let node = &mut self.nodes[agent];
        let Some(mut inner) = node.agent.take() else { return };
        self.inputs += 1;
        let seed = self.settings.seed;
        let (random, directory, me) = (&mut node.random, &node.directory, &node.id);
        let rule_panic = &self.rule_panic;
        let mut world = NodeWorld { now, wall, random, directory, seed, me, rule_panic };
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
            Output::Commit(id, lane, batch) => self.commit(agent, life, Operation { id, lane, batch }),
            Output::Reply(to, answer) => self.on_reply(agent, to, answer),
            Output::Attempt(id, attempt) => self.attempt(agent, life, id, attempt),
            Output::StartTurn(turn) => self.start_turn(agent, life, *turn),
            Output::StopTurn(key) => {
                self.note_turn(agent, &key, "is stopped");
                self.nodes[agent].turns.remove(&key);
            }
            Output::CheckpointsRecorded(key, count) => self.acknowledge_checkpoints(agent, &key, count),
            Output::SetTimer(timer, after) => {
                self.nodes[agent].timers.insert(timer);
                self.after(millis(after), Event::Timer { agent, life, timer });
            }
            Output::ClearTimer(timer) => {
                self.nodes[agent].timers.remove(&timer);
            }
            Output::Subscribe(selector, cursor) => {
                let reader = self.next_id();
                self.nodes[agent].reader =
                    Some(BoardReader { id: reader, selector, cursor, scanned: 0, delivering_since: None });
                let delay = self.random.between(1, 50);
                self.after(delay, Event::PollBoard { agent, life, reader });
            }
            Output::AskBid(question) => self.ask_for_bid(agent, life, &question),
            Output::ReleaseBrain(..) | Output::Observed(_) | Output::AskShares(_) => {}
            Output::Continue => self.after(1, Event::Continue { agent, life }),
            Output::Fatal(_) => self.crash(agent, "its store failed"),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
