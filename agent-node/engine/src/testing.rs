//! Shared by unit tests: a world without peers, an agent's configuration, and an agent whose commits and timers a test
//! settles one by one.
use crate::{
    Ack, CommitId, IncomingMessage, Input, InstantAnswer, Output, PeerDirectory, PeerLocation,
    RelayedApproval, ReplyTo, TurnKey, World,
    agent::{Agent, EngineConfig},
    content,
    records::{Step, keys},
    settings::AgentSettings,
};
use patterns::{
    AnyPattern, Candidate, Effect, Event, EventKind,
    turn::{Prompt, TurnEnd},
};
use protocol::{
    ids::{AgentId, Capability, ConversationId, Digest, TaskId},
    limits::Limits,
    principal::{Principal, SenderProof},
    problem::Problem,
    time::{NodeTime, WallTime},
    usage::ModelUsage,
};
use serde_json::{Value, json};
use std::{cell::Cell, collections::BTreeSet, sync::Arc, time::Duration};
use store_types::{Batch, Error, MemoryState, Snapshot};

pub(crate) const HOUR: i64 = 3_600_000;

/// On which events the rules panic, and how often.
type RulePanics = (fn(&EventKind) -> bool, u32);

/// A world without a registry.
#[derive(Default)]
pub(crate) struct EmptyWorld {
    pub(crate) now: NodeTime,
    pub(crate) wall: WallTime,
    /// Whether the brain's turns take no time.
    pub(crate) answers: bool,
    /// Agents of the same process.
    pub(crate) neighbours: BTreeSet<AgentId>,
    /// The rules panic on so many of these events.
    panics: Cell<Option<RulePanics>>,
    ids: u64,
}

impl EmptyWorld {
    /// The rules panic on the next `times` events for which `is_event` returns true.
    pub(crate) fn panic_on(&self, is_event: fn(&EventKind) -> bool, times: u32) {
        self.panics.set(Some((is_event, times)));
    }
}

impl World for EmptyWorld {
    fn now(&self) -> NodeTime {
        self.now
    }

    fn wall(&self) -> WallTime {
        self.wall
    }

    fn uuid(&mut self) -> String {
        self.ids += 1;
        format!("id-{}", self.ids)
    }

    fn random(&mut self) -> u64 {
        300
    }

    fn samples(&self, _: Option<bool>, _: u128) -> bool {
        false
    }

    fn directory(&self) -> &dyn PeerDirectory {
        self
    }

    fn answer_at_once(&self, prompt: &Prompt) -> Option<InstantAnswer> {
        self.answers
            .then(|| (Vec::new(), Ok(TurnEnd::Done { message: Some(format!("turn {}", prompt.turn)) })))
    }

    fn run_rule(&self, pattern: &mut AnyPattern, event: &Event) -> Vec<Effect> {
        if let Some((is_event, left @ 1..)) = self.panics.get()
            && is_event(&event.what)
        {
            self.panics.set(Some((is_event, left - 1)));
            panic!("a rule panics on purpose");
        }
        pattern.on(event)
    }
}

impl PeerDirectory for EmptyWorld {
    fn candidates(&self, _: &Capability) -> Vec<Candidate> {
        Vec::new()
    }

    fn has(&self, _: &Capability) -> bool {
        false
    }

    fn skills(&self) -> BTreeSet<Capability> {
        BTreeSet::new()
    }

    fn knows(&self, _: &AgentId) -> bool {
        false
    }

    fn locate(&self, agent: &AgentId) -> PeerLocation {
        if self.neighbours.contains(agent) { PeerLocation::Here } else { PeerLocation::Unknown }
    }

    fn is_synced(&self) -> bool {
        true
    }
}

pub(crate) fn me() -> AgentId {
    AgentId::parse("a").unwrap()
}

/// The configuration of an agent without skills.
pub(crate) fn config(limits: Limits) -> EngineConfig {
    let card = json!({ "agentId": "a", "endpoint": "http://a", "skills": [] });
    EngineConfig {
        card: Arc::new(serde_json::from_value(card).unwrap()),
        settings: Default::default(),
        limits: Arc::new(limits),
        auction: Default::default(),
        work_limits: Default::default(),
        mesh_quotas: Default::default(),
        acceptance: Default::default(),
    }
}

/// The settings of an agent that follows signals.
pub(crate) fn subscribing(subscribe: &[&str]) -> Arc<AgentSettings> {
    let subscribe = subscribe.iter().map(|kind| (*kind).into()).collect();
    Arc::new(AgentSettings { subscribe, ..AgentSettings::default() })
}

/// An agent that takes every task, with the outputs that the test has not yet handled.
pub(crate) struct TestAgent {
    pub(crate) agent: Agent,
    config: EngineConfig,
    pub(crate) store: MemoryState,
    pub(crate) world: EmptyWorld,
    pub(crate) outputs: Vec<Output>,
    replies: u64,
}

impl TestAgent {
    /// An agent with an empty store. It subscribes to `subscribe`.
    pub(crate) fn new(subscribe: &[&str]) -> Self {
        let card = json!({ "agentId": "a", "endpoint": "http://a", "skills": [], "open": true });
        let config = EngineConfig {
            card: Arc::new(serde_json::from_value(card).unwrap()),
            settings: subscribing(subscribe),
            ..config(Limits::default())
        };
        let (store, mut world) = (MemoryState::default(), EmptyWorld::default());
        let (agent, outputs) = Agent::recover(config.clone(), &store, &mut world).unwrap();
        Self { agent, config, store, world, outputs, replies: 0 }
    }

    /// The same with so many places.
    pub(crate) fn with_places(mut self, places: u32) -> Self {
        Arc::make_mut(&mut self.config.card).terms.max_parallel = places;
        self.restart();
        self
    }

    /// Starts again from the store, as after a crash.
    pub(crate) fn restart(&mut self) {
        let recovered = Agent::recover(self.config.clone(), &self.store, &mut self.world);
        (self.agent, self.outputs) = recovered.unwrap();
        self.commit_all();
    }

    pub(crate) fn handle(&mut self, input: Input) {
        self.outputs.extend(self.agent.handle(input, &self.store, &mut self.world));
    }

    pub(crate) fn reply_to(&mut self) -> ReplyTo {
        self.replies += 1;
        ReplyTo(self.replies)
    }

    /// Sends a message of the local user, or of the agent `from`.
    pub(crate) fn send(&mut self, from: Option<&str>, message: Value) -> ReplyTo {
        self.send_with(from, message, None)
    }

    /// The same, with why an approval in it counts.
    pub(crate) fn send_with(
        &mut self,
        from: Option<&str>,
        message: Value,
        approval: Option<RelayedApproval>,
    ) -> ReplyTo {
        let by = from.map_or_else(Principal::local_user, |id| Principal::Agent(AgentId::parse(id).unwrap()));
        let digest = Digest::of(message.to_string().as_bytes());
        let mut message = message;
        message["fromAgentId"] = from.unwrap_or("me").into();
        message["toAgentId"] = "a".into();
        let envelope = Box::new(serde_json::from_value(message).unwrap());
        let reply = self.reply_to();
        self.handle(Input::Message(
            IncomingMessage {
                envelope,
                by,
                proof: SenderProof::Credential,
                digest,
                trace: None,
                contact: None,
                origin: None,
                approval,
            },
            reply,
        ));
        reply
    }

    /// Sends a task of the local user, commits it, and returns its conversation.
    pub(crate) fn begin_task_that_waits(&mut self, task: &str) -> ConversationId {
        let payload = json!({ "taskId": task, "description": "x" });
        let message = json!({ "messageId": format!("m-{task}"), "type": "task-request", "payload": payload });
        let reply = self.send(None, message);
        self.commit_all();
        self.reply(reply).unwrap().unwrap().conversation_id.unwrap()
    }

    /// The same of a task that begins at once; returns its turn, too.
    pub(crate) fn begin_task(&mut self, task: &str) -> (ConversationId, TurnKey) {
        let id = self.begin_task_that_waits(task);
        let turn = self.take(|output| match output {
            Output::StartTurn(turn) if turn.key.conversation == id => Some(turn.key.clone()),
            _ => None,
        });
        (id, turn.unwrap())
    }

    pub(crate) fn cancel(&mut self, task: &str) -> ReplyTo {
        self.cancel_with(task, Vec::new())
    }

    /// Cancels a task whose turns wait for these calls of models.
    pub(crate) fn cancel_with(&mut self, task: &str, calls: Vec<(TurnKey, ModelUsage)>) -> ReplyTo {
        let reply = self.reply_to();
        let (task, by) = (TaskId::parse(task).unwrap(), Principal::local_user());
        self.handle(Input::Cancel { task, by, reason: "enough".into(), calls, reply });
        reply
    }

    /// Removes the first output of which `which` gives something.
    pub(crate) fn take<T>(&mut self, which: impl Fn(&Output) -> Option<T>) -> Option<T> {
        let (at, found) =
            self.outputs.iter().enumerate().find_map(|(at, output)| Some((at, which(output)?)))?;
        self.outputs.remove(at);
        Some(found)
    }

    fn take_commit(&mut self) -> Option<(CommitId, Batch)> {
        self.take(|output| match output {
            Output::Commit(id, _, batch) => Some((*id, batch.clone())),
            _ => None,
        })
    }

    /// Executes all commits.
    pub(crate) fn commit_all(&mut self) {
        while let Some((id, batch)) = self.take_commit() {
            let written = self.store.commit(batch);
            let revisions = written.map(|written| written.iter().map(|(revision, _)| *revision).collect());
            self.handle(Input::CommitSettled(id, revisions));
        }
    }

    /// Refuses the oldest commit.
    pub(crate) fn refuse_commit(&mut self, error: Error) {
        let (id, _) = self.take_commit().unwrap();
        self.handle(Input::CommitSettled(id, Err(error)));
    }

    /// Fires the oldest timer that was set for `after`.
    pub(crate) fn fire_timer(&mut self, after: Duration) {
        let timer = self.take(|output| match output {
            Output::SetTimer(id, wait) if *wait == after => Some(*id),
            _ => None,
        });
        self.handle(Input::TimerFired(timer.unwrap()));
    }

    /// The answer to `to`, if there is one.
    pub(crate) fn reply(&mut self, to: ReplyTo) -> Option<Result<Ack, Problem>> {
        self.take(|output| match output {
            Output::Reply(reply, answer) if *reply == to => Some(answer.clone()),
            _ => None,
        })
    }

    /// The last recorded step of a conversation.
    pub(crate) fn last_step(&self, id: &ConversationId) -> Step {
        let record = self.store.latest(&keys::journal(&me(), id)).unwrap().unwrap();
        content::decode(&me(), &self.store, &record.value).unwrap()
    }
}
