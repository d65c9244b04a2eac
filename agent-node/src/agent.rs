//! The actor of one agent: an adapter around the engine. It hands inputs in, performs what comes out, one attempt at a
//! time, and reports what became of it. What an agent decides is in the crate `engine`.

mod attempts;
mod board;
mod large_message;
mod messages;
mod observations;
mod status;
mod supervision;
mod turns;
mod world;

pub use messages::{Answer, Cancel, HandBack, IsIdle, IsPending, Look, Redrive, Snapshot, Sweep, UpdateCard};
pub use status::AgentStatus;

use crate::{
    brain::Brain,
    clock::Clock,
    outbox::{Transports, a2a::notes},
    telemetry::{Telemetry, cursor::SpanCursor},
};
use actix::{Actor, Addr, AsyncContext, Context, Handler, Message};
use blackboard::store::{Error, Shared};
use engine::{
    Ack, Agent, AttemptId, CommitId, EngineConfig, Input, Output, ReplyTo, TimerId, TurnKey, records::keys,
};
use protocol::{
    card::Card,
    ids::{AgentId, ConversationId},
    limits::Limits,
    patterns::{contract_net::Auction, delegation::Timeouts},
    problem::{Problem, Reason},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    future::Future,
    sync::Arc,
    time::Instant,
};
use supervision::Supervision;
use tokio::{sync::oneshot, task::JoinHandle};

/// What an agent is made of.
#[derive(Clone)]
pub struct AgentParts {
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
    pub transports: Transports,
    /// What it takes, and for how long it waits.
    pub limits: Arc<Limits>,
    /// Types of signals it reacts to, each exact or ending in `*`.
    pub subscribe: Vec<String>,
    /// How it gives work away.
    pub auction: Auction,
    /// How long it waits for what it asked.
    pub timeouts: Timeouts,
    /// Where it is counted and traced.
    pub telemetry: Telemetry,
    /// Whether its brain may answer with a message and make no task of it.
    pub is_direct: bool,
    /// What the outside may look at without asking it.
    pub status: Arc<AgentStatus>,
    /// Ends the process: the store has failed, and only a restart recovers what is true.
    pub fatal: Arc<dyn Fn(&str) + Send + Sync>,
}

/// The actor.
pub struct AgentActor {
    me: AgentId,
    parts: AgentParts,
    /// None while it restarts, and after it has been given up.
    agent: Option<Agent>,
    /// Counts the lives of the agent; what an older life began is not reported to a newer one.
    life: u64,
    supervision: Supervision,
    replies: BTreeMap<ReplyTo, oneshot::Sender<Answered>>,
    last_reply: u64,
    timers: HashMap<TimerId, JoinHandle<()>>,
    attempts: HashMap<AttemptId, JoinHandle<()>>,
    turns: HashMap<TurnKey, JoinHandle<()>>,
    subscription: Option<JoinHandle<()>>,
    /// Commits that have been given to the store and not settled, of any life.
    commits: usize,
    is_drained: bool,
    /// How far the journal has been told in traces, if it is told to anybody.
    traced: Option<Arc<SpanCursor>>,
}

/// What a message to an agent is answered with.
type Answered = Result<Ack, Problem>;

/// Something outside has become of what a life of the agent began.
#[derive(Message)]
#[rtype(result = "()")]
struct Report {
    life: u64,
    input: Input,
}

impl AgentActor {
    /// An agent that has not started.
    pub fn new(parts: AgentParts) -> Self {
        Self {
            me: parts.card.agent_id.clone(),
            parts,
            agent: None,
            life: 0,
            supervision: Supervision::default(),
            replies: BTreeMap::new(),
            last_reply: 0,
            timers: HashMap::new(),
            attempts: HashMap::new(),
            turns: HashMap::new(),
            subscription: None,
            commits: 0,
            is_drained: false,
            traced: None,
        }
    }

    /// Begins a life: from what the store holds.
    fn recover(&mut self, ctx: &mut Context<Self>) {
        let config = EngineConfig {
            card: self.parts.card.clone(),
            limits: self.parts.limits.clone(),
            subscribe: self.parts.subscribe.clone(),
            auction: self.parts.auction.clone(),
            timeouts: self.parts.timeouts,
            is_direct: self.parts.is_direct,
        };
        self.is_drained = false;
        let mut world = self.world();
        match Agent::recover(config, self.parts.store.as_ref(), &mut world) {
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

    /// Hands an input to the agent and performs what comes out.
    fn feed(&mut self, input: Input, ctx: &mut Context<Self>) {
        if self.parts.status.is_draining() && !std::mem::replace(&mut self.is_drained, true) {
            self.feed_one(Input::Drain, ctx);
        }
        self.feed_one(input, ctx);
    }

    fn feed_one(&mut self, input: Input, ctx: &mut Context<Self>) {
        let mut world = self.world();
        let Some(agent) = self.agent.as_mut() else {
            let failed = self.parts.status.failed().map(|why| format!("the agent is down: it {why}"));
            return self.refuse_all(failed.as_deref().unwrap_or("the agent is starting again"));
        };
        let store = self.parts.store.as_ref();
        match supervision::guarded(|| agent.handle(input, store, &mut world)) {
            Ok(outputs) => self.perform_all(outputs, ctx),
            Err(why) => self.restart(&why, ctx),
        }
    }

    fn perform_all(&mut self, outputs: Vec<Output>, ctx: &mut Context<Self>) {
        for output in outputs {
            self.perform(output, ctx);
        }
        if let Some(agent) = &self.agent {
            self.parts.status.show(agent);
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
            Output::Trim(id, filter, before) => self.trim(id, filter, before, ctx),
            Output::Reply(to, answer) => {
                if let Some(waits) = self.replies.remove(&to) {
                    // Whoever no longer waits asks for the message by its id.
                    drop(waits.send(answer));
                }
            }
            Output::Attempt(id, attempt) => {
                let attempt = attempts::run(self.me.clone(), self.parts.transports.clone(), attempt);
                let running = self.spawn(ctx, async move { Input::Attempted(id, attempt.await) });
                self.attempts.insert(id, running);
            }
            Output::StartTurn(turn) => self.start_turn(*turn, ctx),
            Output::StopTurn(turn) => {
                if let Some(running) = self.turns.remove(&turn) {
                    running.abort();
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
                let following = board::follow(
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
                turns::brain_of(&self.parts, capability.as_ref()).over(&conversation);
            }
            Output::Observed(what) => self.observe(what),
            Output::Continue => drop(self.spawn(ctx, std::future::ready(Input::Continue))),
            Output::Fatal(why) => (self.parts.fatal)(&why),
        }
    }

    fn trim(
        &mut self,
        id: CommitId,
        filter: blackboard::store::Filter,
        before: blackboard::store::Revision,
        ctx: &mut Context<Self>,
    ) {
        let trim = self.parts.store.trim(filter, before);
        self.settle(ctx, async move { Input::TrimSettled(id, trim.await) });
    }

    /// Reports what `future` resolves to, to the life that began it.
    fn spawn(
        &self,
        ctx: &mut Context<Self>,
        future: impl Future<Output = Input> + 'static,
    ) -> JoinHandle<()> {
        let (agent, life) = (ctx.address(), self.life);
        actix::spawn(async move {
            let input = future.await;
            report(&agent, Report { life, input }).await;
        })
    }

    /// The same for what must have settled before another life begins.
    fn settle(&mut self, ctx: &mut Context<Self>, future: impl Future<Output = Input> + 'static) {
        self.commits += 1;
        drop(self.spawn(ctx, future));
    }

    /// At a start: brains end what still works elsewhere for conversations that ended just before the process did.
    fn release_ended(&self) -> Result<(), Error> {
        let mut ended = BTreeSet::new();
        for topic in notes::TOPICS {
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
            self.parts.brain.over(id);
            self.parts.coordinator.over(id);
        }
        Ok(())
    }

    /// Tells the agent when the whole directory has been seen.
    fn wait_for_directory(&self, ctx: &mut Context<Self>) {
        let peers = self.parts.transports.peers.clone();
        if !peers.is_synced() {
            drop(self.spawn(ctx, async move {
                peers.synced().await;
                Input::DirectorySynced
            }));
        }
    }

    /// A place for an answer, and where it arrives. The answer is an error if the agent stops before.
    fn expect_reply(&mut self) -> (ReplyTo, oneshot::Receiver<Answered>) {
        self.last_reply += 1;
        let (reply, answer) = oneshot::channel();
        self.replies.insert(ReplyTo(self.last_reply), reply);
        (ReplyTo(self.last_reply), answer)
    }

    /// Answers everyone who waits that the agent is not there.
    fn refuse_all(&mut self, why: &str) {
        for waits in std::mem::take(&mut self.replies).into_values() {
            drop(waits.send(Err(Problem::new(Reason::StoreUnavailable, why))));
        }
    }
}

/// Reports to the agent; if it has stopped, its store knows what is open.
async fn report(agent: &Addr<AgentActor>, report: Report) {
    if agent.send(report).await.is_err() {
        tracing::debug!("an agent has stopped; its store knows what is open");
    }
}

impl Actor for AgentActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if let Err(error) = self.trace_again() {
            self.give_up_store(&error);
        }
        self.recover(ctx);
        self.parts.transports.locals.add(self.me.clone(), ctx.address().recipient());
    }
}

impl Handler<Report> for AgentActor {
    type Result = ();

    fn handle(&mut self, report: Report, ctx: &mut Self::Context) {
        let Report { life, input } = report;
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "only these end something that is remembered here"
        )]
        match &input {
            Input::CommitSettled(..) | Input::TrimSettled(..) => {
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
