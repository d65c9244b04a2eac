//! The actor of one agent: an adapter around the engine. It passes inputs to the engine, performs its outputs, one attempt at a
//! time, and reports their results. All decisions are in the crate `engine`.

mod agent_status;
mod attempts;
mod board_subscription;
mod brain_log;
mod large_message;
mod messages;
mod observations;
mod peer_probe;
mod quota_shares;
mod report_limits;
mod supervision;
mod turn_brief;
mod turn_workspace;
mod turns;
mod world;

pub use agent_status::AgentStatus;
pub use messages::{
    ActorSnapshot, AnswerTaskRequest, CancelTaskRequest, DirectSessionRequest, GetAgentSnapshot,
    GetReadableLayers, HandBackTasks, IsIdle, IsPending, RedriveDeadLetter, ReplaceBrain,
    StartRetentionSweep, UpdateCard,
};

use crate::{
    brain::Brain,
    clock::NodeClock,
    inbox::LocalAgent,
    outbox::{Transports, a2a::remote_task_store},
    telemetry::Telemetry,
    workspace::WorkspaceRights,
};
use actix::{Actor, Addr, AsyncContext, Context, Handler, Message};
use engine::{
    Ack, Agent, AttemptId, EngineConfig, Input, Observation, Output, ReplyTo, TimerId, TurnKey, records::keys,
};
use protocol::{
    ids::{AgentId, ConversationId},
    problem::{Problem, Reason},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    future::Future,
    sync::Arc,
    time::Instant,
};
use store::{Error, SharedStore};
use supervision::Supervision;
use tokio::{sync::oneshot, task::JoinHandle};
use turn_brief::KnownBriefs;
use turns::SpawnedTurn;
use world::NodeWorld;

/// Everything that an agent's actor needs.
#[derive(Clone)]
pub struct AgentParts {
    pub config: EngineConfig,
    pub brain: Arc<dyn Brain>,
    /// Does the work of the sessions that it hosts.
    pub session_work: Arc<dyn Brain>,
    /// Checks results before they count.
    pub checker: Arc<dyn Brain>,
    /// Its clones of the repositories that it works in.
    pub workspaces: WorkspaceRights,
    /// Its store, bound to its own prefix.
    pub store: SharedStore,
    pub clock: NodeClock,
    /// The clients that it sends through.
    pub transports: Transports,
    pub telemetry: Telemetry,
    /// The status that other threads read.
    pub status: Arc<AgentStatus>,
    /// Ends the process after a failure of the store. A restart recovers the durable state.
    pub fatal: Arc<dyn Fn(&str) + Send + Sync>,
}

/// The actor.
pub struct AgentActor {
    me: AgentId,
    parts: AgentParts,
    /// None while it restarts, and after it has been given up.
    agent: Option<Agent>,
    /// The number of restarts. Inputs of an older life are dropped.
    life: u64,
    supervision: Supervision,
    replies: BTreeMap<ReplyTo, oneshot::Sender<AckResult>>,
    last_reply: u64,
    timers: HashMap<TimerId, JoinHandle<()>>,
    attempts: HashMap<AttemptId, JoinHandle<()>>,
    turns: HashMap<TurnKey, SpawnedTurn>,
    known_briefs: KnownBriefs,
    subscription: Option<JoinHandle<()>>,
    /// How often in a row each peer that holds an award has refused a connection.
    refusals: BTreeMap<AgentId, u32>,
    /// The number of commits, of any life, that have not settled.
    commits: usize,
    is_drained: bool,
}

/// The reply to a message to an agent.
type AckResult = Result<Ack, Problem>;

/// An input for the engine, and the life of the agent that it belongs to.
#[derive(Message)]
#[rtype(result = "()")]
struct LifeInput {
    life: u64,
    input: Input,
}

impl AgentActor {
    /// An agent that has not started.
    pub fn new(parts: AgentParts) -> Self {
        Self {
            me: parts.config.card.agent_id.clone(),
            parts,
            agent: None,
            life: 0,
            supervision: Supervision::default(),
            replies: BTreeMap::new(),
            last_reply: 0,
            timers: HashMap::new(),
            attempts: HashMap::new(),
            turns: HashMap::new(),
            known_briefs: KnownBriefs::default(),
            subscription: None,
            refusals: BTreeMap::new(),
            commits: 0,
            is_drained: false,
        }
    }

    /// Starts a life from the store.
    fn recover(&mut self, ctx: &mut Context<Self>) {
        let config = self.parts.config.clone();
        self.is_drained = false;
        let mut world = NodeWorld(&self.parts);
        let store = self.parts.store.as_ref();
        let recovered = match engine::catch_panic(|| Agent::recover(config, store, &mut world)) {
            Ok(recovered) => recovered,
            Err(why) => return self.restart(&why, ctx),
        };
        match recovered {
            Ok((agent, outputs)) => {
                self.agent = Some(agent);
                if let Err(error) = self.release_ended() {
                    return self.give_up_store(&error);
                }
                self.perform_all(outputs, ctx);
                self.wait_for_directory(ctx);
            }
            Err(error) => self.give_up_store(&error.0),
        }
    }

    fn give_up_store(&self, error: &Error) {
        (self.parts.fatal)(&format!("{} can't recover from its store: {error}", self.me));
    }

    /// Passes an input to the engine and performs the outputs.
    fn feed(&mut self, input: Input, ctx: &mut Context<Self>) {
        if self.parts.status.is_draining() && !std::mem::replace(&mut self.is_drained, true) {
            self.feed_one(Input::Drain, ctx);
        }
        self.feed_one(input, ctx);
    }

    fn feed_one(&mut self, input: Input, ctx: &mut Context<Self>) {
        let mut world = NodeWorld(&self.parts);
        let Some(agent) = self.agent.as_mut() else {
            let failed = self.parts.status.failed().map(|why| format!("the agent is down: it {why}"));
            return self.refuse_all(failed.as_deref().unwrap_or("the agent is starting again"));
        };
        let store = self.parts.store.as_ref();
        match engine::catch_panic(|| agent.handle(input, store, &mut world)) {
            Ok(outputs) => self.perform_all(outputs, ctx),
            Err(why) => self.restart(&why, ctx),
        }
    }

    fn perform_all(&mut self, outputs: Vec<Output>, ctx: &mut Context<Self>) {
        for output in outputs {
            self.perform(output, ctx);
        }
        if let Some(agent) = &self.agent {
            self.parts.status.update(agent);
        }
    }

    fn perform(&mut self, output: Output, ctx: &mut Context<Self>) {
        match output {
            Output::Commit(id, lane, batch) => {
                let (commit, begun) = (self.parts.store.commit(lane, batch), Instant::now());
                let telemetry = self.parts.telemetry.clone();
                self.settle(ctx, async move {
                    let result = commit.await;
                    telemetry.meters().commit.observe(begun.elapsed().as_secs_f64());
                    Input::CommitSettled(id, result)
                });
            }
            Output::Reply(to, answer) => {
                if let Some(reply) = self.replies.remove(&to) {
                    // A caller that has timed out can ask for the message by its id.
                    drop(reply.send(answer));
                }
            }
            Output::Attempt(id, attempt) => {
                let attempt = attempts::run(self.me.clone(), self.parts.transports.clone(), attempt);
                let running = self.spawn(ctx, async move { Input::Attempted(id, attempt.await) });
                self.attempts.insert(id, running);
            }
            Output::StartTurn(turn) => self.start_turn(*turn, ctx),
            Output::AskBid(question) => {
                let asked = turns::ask_bid(&self.parts, self.me.clone(), *question);
                drop(self.spawn(ctx, asked));
            }
            Output::StopTurn(turn) => {
                if let Some(running) = self.turns.remove(&turn) {
                    running.stop();
                }
            }
            Output::CheckpointsRecorded(turn, count) => {
                if let Some(running) = self.turns.get(&turn) {
                    running.acknowledge(count);
                }
            }
            Output::SetTimer(id, after) => {
                let timer = self.spawn(ctx, async move {
                    tokio::time::sleep(after).await;
                    Input::TimerFired(id)
                });
                self.timers.insert(id, timer);
            }
            Output::ClearTimer(id) => {
                if let Some(timer) = self.timers.remove(&id) {
                    timer.abort();
                }
            }
            Output::Subscribe(selector, after) => {
                let following = board_subscription::follow(
                    self.parts.transports.board.clone(),
                    self.me.clone(),
                    selector,
                    after,
                    ctx.address(),
                    self.life,
                );
                if let Some(before) = self.subscription.replace(actix::spawn(following)) {
                    before.abort();
                }
            }
            Output::ReleaseBrain(conversation, capability) => {
                turns::brain_of(&self.parts, capability.as_ref()).release(&conversation);
                let (workspaces, me) = (self.parts.workspaces.clone(), self.me.clone());
                if workspaces.has_clones() {
                    drop(tokio::task::spawn_blocking(move || workspaces.release(&me, &conversation)));
                }
            }
            Output::Observed(Observation::Quota(notice)) => {
                let (board, at) = (self.parts.transports.board.clone(), self.parts.clock.wall());
                drop(actix::spawn(quota_shares::announce(board, self.me.clone(), notice, at)));
            }
            Output::Observed(what) => self.observe(what),
            Output::AskShares(wanted) => {
                let asked =
                    quota_shares::lease_all(self.parts.transports.board.clone(), self.me.clone(), wanted);
                drop(self.spawn(ctx, async move { Input::SharesGranted(asked.await) }));
            }
            Output::Continue => drop(self.spawn(ctx, std::future::ready(Input::Continue))),
            Output::Fatal(why) => (self.parts.fatal)(&why),
        }
    }

    /// Runs `future` and passes its input to the current life.
    fn spawn(
        &self,
        ctx: &mut Context<Self>,
        future: impl Future<Output = Input> + 'static,
    ) -> JoinHandle<()> {
        let (agent, life) = (ctx.address(), self.life);
        actix::spawn(async move {
            let input = future.await;
            send_input(&agent, LifeInput { life, input }).await;
        })
    }

    /// Like [`Self::spawn`], for a commit. A new life waits until it has settled.
    fn settle(&mut self, ctx: &mut Context<Self>, future: impl Future<Output = Input> + 'static) {
        self.commits += 1;
        drop(self.spawn(ctx, future));
    }

    /// Releases the brains from conversations that ended before the process stopped.
    fn release_ended(&self) -> Result<(), Error> {
        let mut ended = BTreeSet::new();
        for topic in remote_task_store::TOPICS {
            let filter = keys::all(&self.me, topic);
            let mut after = 0;
            loop {
                let page = self.parts.store.keys(&filter, after, 256)?;
                let Some((last, _)) = page.last() else { break };
                after = *last;
                let ids = page.iter().filter_map(|(_, key)| ConversationId::parse(key.tokens().get(2)?).ok());
                ended.extend(ids);
            }
        }
        let is_open = |id: &ConversationId| self.agent.as_ref().is_some_and(|agent| agent.has_open(id));
        for id in ended.iter().filter(|id| !is_open(id)) {
            self.parts.brain.release(id);
            self.parts.session_work.release(id);
        }
        Ok(())
    }

    /// Tells the engine when the directory is complete.
    fn wait_for_directory(&self, ctx: &mut Context<Self>) {
        let peers = self.parts.transports.peers.clone();
        if !peers.is_synced() {
            drop(self.spawn(ctx, async move {
                peers.wait_until_synced().await;
                Input::DirectorySynced
            }));
        }
    }

    /// Registers a reply and returns its receiver, which fails if the agent stops before.
    fn expect_reply(&mut self) -> (ReplyTo, oneshot::Receiver<AckResult>) {
        self.last_reply += 1;
        let (reply, answer) = oneshot::channel();
        self.replies.insert(ReplyTo(self.last_reply), reply);
        (ReplyTo(self.last_reply), answer)
    }

    fn refuse_all(&mut self, why: &str) {
        for reply in std::mem::take(&mut self.replies).into_values() {
            drop(reply.send(Err(Problem::new(Reason::StoreUnavailable, why))));
        }
    }
}

/// Sends an input to the actor. If the actor has stopped, the input is lost; the effect is still open in the store.
async fn send_input(agent: &Addr<AgentActor>, input: LifeInput) {
    if agent.send(input).await.is_err() {
        tracing::debug!("an agent has stopped; its open effects are in its store");
    }
}

impl Actor for AgentActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.recover(ctx);
        ctx.run_interval(transport::endpoint_probe::PROBE_INTERVAL, Self::probe_peers);
        let local = LocalAgent { inbox: ctx.address().recipient(), store: self.parts.store.clone() };
        self.parts.transports.locals.add(self.me.clone(), local);
    }
}

impl Handler<LifeInput> for AgentActor {
    type Result = ();

    fn handle(&mut self, LifeInput { life, input }: LifeInput, ctx: &mut Self::Context) {
        match &input {
            Input::CommitSettled(..) => {
                self.commits -= 1;
                if life != self.life {
                    return self.recover_if_settled(ctx);
                }
            }
            _ if life != self.life => return,
            Input::TimerFired(id) => drop(self.timers.remove(id)),
            Input::Attempted(id, _) => drop(self.attempts.remove(id)),
            Input::TurnEnded(turn, ..) => drop(self.turns.remove(turn)),
            _ => {}
        }
        self.feed(input, ctx);
    }
}
