//! Runs turns of the brain and reports their updates and ends.

use super::{
    AgentActor, AgentParts, LifeInput,
    brain_log::BrainLog,
    report_limits::{ReportLimits, ReportVerdict, gather as gather_update},
    send_input, turn_brief, turn_workspace,
};
use crate::{
    brain::{
        Brain, CallUnderWay, TurnHandle, TurnReport, TurnRequest,
        agent_access::AgentAccess,
        bidding::{BidRequest, ComputedBid},
    },
    telemetry::{Telemetry, meters::model_meters::CallOrigin},
};
use actix::{AsyncContext, Context};
use engine::{BidQuestion, Input, InstantAnswer, TurnStart};
use futures_util::FutureExt;
use patterns::{
    contract_net::bidding::BidAnswer,
    session::{host_work::HOST_WORK, seat},
    turn::{Progress, Prompt, TurnEnd, TurnSubject},
};
use protocol::{
    deputy::Deputy,
    ids::{AgentId, Capability, EffectId, TaskId},
    message::Bid,
    principal::{Principal, TaskRoot},
    usage::{ModelUsage, Usage},
};
use std::{
    collections::VecDeque,
    future::Future,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

/// How long updates are gathered before they are recorded (DESIGN §5).
const GATHER: Duration = Duration::from_millis(50);
/// The most updates recorded at once.
const MAX_UPDATES: usize = 64;
const PANICKED: &str = "the brain panicked";

pub(super) struct SpawnedTurn {
    running: JoinHandle<()>,
    /// Told how many more of its checkpoints are durable.
    recorded: mpsc::UnboundedSender<usize>,
    task: Option<TaskId>,
    call: CallUnderWay,
    origin: CallOrigin,
    telemetry: Telemetry,
}

impl SpawnedTurn {
    /// Stops it. Metrics count what the call of a model that is cut has used.
    pub(super) fn stop(&self) {
        self.running.abort();
        if let Some(call) = self.call.take() {
            self.telemetry.meters().models.observe(&self.origin, &Progress::Usage(call));
        }
    }

    /// What a call of a model has used that the turn of `task` waits for.
    pub(super) fn call_for(&self, task: &TaskId) -> Option<ModelUsage> {
        self.call.get().filter(|_| self.task.as_ref() == Some(task))
    }

    pub(super) fn acknowledge(&self, checkpoints: usize) {
        let _ = self.recorded.send(checkpoints);
    }
}

/// How long a turn may take, and how long its brain may be silent.
struct TurnLimits {
    turn: Duration,
    idle: Duration,
    deadline: Option<Duration>,
}

impl TurnLimits {
    /// How long the turn may take in all.
    fn whole(&self) -> Duration {
        self.deadline.map_or(self.turn, |deadline| deadline.min(self.turn))
    }

    fn too_long(&self) -> String {
        let (whole, turn) = (self.whole(), self.turn);
        let why =
            if whole < turn { "its deadline passed" } else { "a turn may take no longer (bounds: turn)" };
        format!("{why}: the brain was cut after {} ms without an end", whole.as_millis())
    }

    /// Why the brain was silent for too long.
    fn too_silent(&self) -> String {
        let idle = self.idle.as_millis();
        format!("the brain reported nothing for {idle} ms (bounds: idle), and was cut")
    }
}

fn brain_for<'a>(parts: &'a AgentParts, prompt: &Prompt) -> &'a Arc<dyn Brain> {
    match &prompt.about {
        TurnSubject::Task(task) => brain_of(parts, task.capability.as_ref()),
        TurnSubject::Help { .. } | TurnSubject::Signal(_) => &parts.brain,
        TurnSubject::Check { .. } => &parts.checker,
    }
}

/// The agent's own brain; another one for the work of a session's host, unless the agent has that skill itself.
pub(super) fn brain_of<'a>(parts: &'a AgentParts, wanted: Option<&Capability>) -> &'a Arc<dyn Brain> {
    let is_own =
        |wanted: &Capability| wanted.as_str() != HOST_WORK || parts.config.card.support(wanted) > 0.0;
    if wanted.is_none_or(is_own) { &parts.brain } else { &parts.session_work }
}

fn call_origin(parts: &AgentParts, prompt: &Prompt) -> CallOrigin {
    let capability = match &prompt.about {
        TurnSubject::Task(task) => task.capability.as_ref(),
        TurnSubject::Help(asked) => asked.capability.as_ref(),
        TurnSubject::Check(result) => result.capability.as_ref(),
        TurnSubject::Signal(_) => None,
    };
    origin_for(parts, capability)
}

/// The labels of calls for the sake of this capability.
fn origin_for(parts: &AgentParts, capability: Option<&Capability>) -> CallOrigin {
    let capability = match capability {
        Some(own) if parts.config.card.support(own) > 0.0 => own.to_string(),
        Some(_) => "other".to_owned(),
        None => String::new(),
    };
    CallOrigin { agent: parts.config.card.agent_id.to_string(), capability }
}

/// The answer of a brain that needs no time, see [`Brain::answer_at_once`].
pub(super) fn answer_at_once(parts: &AgentParts, prompt: &Prompt) -> Option<InstantAnswer> {
    let begun = Instant::now();
    let (updates, end) = match engine::catch_panic(|| brain_for(parts, prompt).answer_at_once(prompt)) {
        Ok(answer) => answer.filter(|(updates, _)| updates.len() <= MAX_UPDATES)?,
        Err(_) => return Some((Vec::new(), Err(PANICKED.to_owned()))),
    };
    let meters = parts.telemetry.meters();
    meters.think.observe(begun.elapsed().as_secs_f64());
    let origin = call_origin(parts, prompt);
    updates.iter().for_each(|update| meters.models.observe(&origin, update));
    Some((updates, end.map_err(|error| parts.telemetry.capture().label(&error.to_string()))))
}

/// Asks the brain for a bid. What it reports besides is logged or, if it is usage, counted.
pub(super) fn ask_bid(
    parts: &AgentParts,
    agent: AgentId,
    question: BidQuestion,
) -> impl Future<Output = Input> + 'static {
    let BidQuestion { id, cfp, computed, within } = question;
    let Bid { cost, eta, capability_match, load, .. } = computed;
    let request = BidRequest {
        key: format!("{agent}:bid:{}", uuid::Uuid::now_v7()),
        within_ms: u64::try_from(within.as_millis()).unwrap_or(u64::MAX),
        computed: ComputedBid { cost, eta: eta.0, capability_match, load },
        agent: agent.clone(),
        cfp,
    };
    let origin = origin_for(parts, Some(&request.cfp.capability));
    let (telemetry, turn, task) = (parts.telemetry.clone(), request.key.clone(), request.cfp.task_id.clone());
    let log = BrainLog { telemetry, agent, turn, task: Some(task) };
    let brain = parts.brain.clone();
    async move {
        let (handle, mut receiver) = TurnHandle::new(Default::default(), MAX_UPDATES);
        let (call, mut used) = (handle.call_under_way(), Usage::default());
        let answer = {
            let answer = AssertUnwindSafe(async move { brain.bid(request, handle).await }).catch_unwind();
            let answer = tokio::time::timeout(within, answer);
            let collect = async {
                while let Some(TurnReport { progress, recorded: _, is_stderr }) = receiver.recv().await {
                    match &progress {
                        Progress::Usage(call) => {
                            used = used.plus(&Usage::from(call));
                            log.telemetry.meters().models.observe(&origin, &progress);
                        }
                        Progress::Log { message } => log.write(message, is_stderr),
                        _ => {}
                    }
                }
            };
            tokio::join!(answer, collect).0
        };
        if let Some(call) = call.take() {
            used = used.plus(&Usage::from(&call));
            log.telemetry.meters().models.observe(&origin, &Progress::Usage(call));
        }
        let answer = match answer {
            Ok(Ok(Ok(BidAnswer::NoBid { reason }))) => Ok(BidAnswer::NoBid { reason: log.masked(&reason) }),
            Ok(Ok(answer)) => answer.map_err(|error| log.masked(&error.to_string())),
            Ok(Err(_)) => Err(PANICKED.to_owned()),
            Err(_) => Err(format!("it did not answer within {} ms (bid: within)", within.as_millis())),
        };
        Input::BidAnswered(id, answer, used)
    }
}

impl AgentActor {
    pub(super) fn start_turn(&mut self, turn: TurnStart, ctx: &mut Context<Self>) {
        let TurnStart { key, prompt, deadline, trace, has_runner_up, root } = turn;
        let root = root.unwrap_or(TaskRoot { principal: Principal::local_user(), proof: None });
        let effect_id = EffectId {
            agent: self.me.clone(),
            conversation: key.conversation.clone(),
            step: key.effect.0,
            index: key.effect.1,
        };
        let others = self.parts.transports.peers.present();
        let input = prompt.about.task().and_then(|task| task.input.as_ref());
        // Nothing names the other seats of a sealed stage, and nobody is asked there.
        let is_sealed = seat::is_sealed_input(input);
        let others = others.iter().filter(|(peer, _)| **peer != self.me && !is_sealed);
        let peers = others.map(|(_, card)| card.as_ref().into()).collect();
        let is_of_task = matches!(prompt.about, TurnSubject::Task(_) | TurnSubject::Check { .. });
        let of_task = is_of_task.then(|| root.clone());
        let brain = brain_for(&self.parts, &prompt).clone();
        let (agent, effect, turn) = (self.me.clone(), effect_id.to_string(), key.clone());
        let mut request = TurnRequest {
            agent,
            key: effect,
            prompt,
            peers,
            trace,
            has_runner_up,
            root: of_task,
            workspace: None,
        };
        let bounds = &self.parts.config.settings.bounds;
        let own = brain.turn_timeout(&request);
        let limits = TurnLimits {
            turn: own.unwrap_or(bounds.turn()),
            idle: own.unwrap_or(bounds.idle()),
            deadline: deadline.map(|deadline| self.parts.clock.wall().until(deadline)),
        };
        request.prompt.remaining.turn_ms = u64::try_from(limits.whole().as_millis()).ok();
        request.prompt.remaining.idle_ms = u64::try_from(limits.idle.as_millis()).ok();
        let (agent, life, telemetry) = (ctx.address(), self.life, self.parts.telemetry.clone());
        let log = BrainLog::new(&request, telemetry.clone());
        let origin = call_origin(&self.parts, &request.prompt);
        let access = AgentAccess {
            agent: self.me.clone(),
            root: root.clone(),
            board: self.parts.transports.board.clone(),
            store: self.parts.store.clone(),
            clock: self.parts.clock,
            keep: Duration::from_millis(self.parts.config.limits.keep_artifacts_ms),
            max_signal_bytes: self.parts.config.limits.max_signal_bytes,
        };
        let (recorded, mut is_recorded) = mpsc::unbounded_channel::<usize>();
        let (board, known_briefs) = (self.parts.transports.board.clone(), self.known_briefs.clone());
        let (me, clock, now) = (self.me.clone(), self.parts.clock, self.parts.clock.wall());
        let (workspaces, store) = (self.parts.workspaces.clone(), self.parts.store.clone());
        let conversation = key.conversation.clone();
        let (handle, mut receiver) = TurnHandle::new(request.prompt.remaining, MAX_UPDATES);
        let handle = handle.with_access(access).for_prompt(&request.prompt);
        let call = handle.call_under_way();
        let spawned = (log.task.clone(), call.clone(), origin.clone(), telemetry.clone());
        let running = actix::spawn(async move {
            let mut updates = Vec::new();
            if !matches!(request.prompt.about, TurnSubject::Check { .. }) {
                let deputy = Deputy { agent: me.clone(), root };
                let given = turn_brief::add(&board, &deputy, &known_briefs, now, &mut request.prompt).await;
                updates.extend(given.withheld.map(|message| Progress::Status { message }));
                updates.extend(given.record.map(|record| Progress::Brief(Box::new(record))));
            }
            let begun = Instant::now();
            let workspace = turn_workspace::prepare(&workspaces, &me, &conversation, &mut request).await;
            let (mut workspace, refused) = match workspace {
                Ok(workspace) => (workspace, None),
                Err(why) => (None, Some(why)),
            };
            let turn_end = async move {
                match refused {
                    Some(reason) => Ok(TurnEnd::Rejected { reason }),
                    None => brain.think(request, handle).await.map_err(|error| error.to_string()),
                }
            };
            let mut turn_end = AssertUnwindSafe(turn_end).catch_unwind().boxed();
            let timeout = tokio::time::sleep(limits.whole());
            tokio::pin!(timeout);
            let idle = tokio::time::sleep(limits.idle);
            tokio::pin!(idle);
            // The checkpoints that the brain waits for, in order; `None` for one that it does not wait for.
            let mut checkpoints: VecDeque<Option<oneshot::Sender<()>>> = VecDeque::new();
            let mut report_limits = ReportLimits::default();
            let gather = tokio::time::sleep(GATHER);
            tokio::pin!(gather);
            let mut end = loop {
                tokio::select! {
                    biased;
                    () = &mut timeout => break Err(limits.too_long()),
                    Some(count) = is_recorded.recv() => {
                        let recorded = checkpoints.drain(..count.min(checkpoints.len()));
                        for waiting in recorded.flatten() {
                            let _ = waiting.send(());
                        }
                        idle.as_mut().reset(tokio::time::Instant::now() + limits.idle);
                        continue;
                    }
                    Some(TurnReport { mut progress, recorded, is_stderr }) = receiver.recv() => {
                        if !is_stderr {
                            idle.as_mut().reset(tokio::time::Instant::now() + limits.idle);
                            match report_limits.admit(&mut progress) {
                                ReportVerdict::Take => {}
                                ReportVerdict::Drop => continue,
                                ReportVerdict::Fail(why) => break Err(why),
                            }
                        }
                        if let Progress::Log { message } = &progress {
                            log.write(message, is_stderr);
                            continue;
                        }
                        log.mask_status(&mut progress);
                        turn_workspace::note(workspace.as_mut(), &mut progress);
                        telemetry.meters().models.observe(&origin, &progress);
                        if updates.is_empty() {
                            gather.as_mut().reset(tokio::time::Instant::now() + GATHER);
                        }
                        let is_checkpoint = matches!(progress, Progress::Checkpoint(_));
                        if is_checkpoint {
                            checkpoints.push_back(recorded);
                        }
                        gather_update(&mut updates, progress);
                        if updates.len() < MAX_UPDATES && !is_checkpoint {
                            continue;
                        }
                    }
                    end = &mut turn_end => break end.unwrap_or_else(|_| Err(PANICKED.to_owned())),
                    () = &mut idle, if checkpoints.is_empty() => break Err(limits.too_silent()),
                    () = &mut gather, if !updates.is_empty() => {}
                }
                let input = Input::TurnProgress(turn.clone(), std::mem::take(&mut updates));
                send_input(&agent, LifeInput { life, input }).await;
            };
            drop(turn_end);
            telemetry.meters().think.observe(begun.elapsed().as_secs_f64());
            while let Ok(TurnReport { mut progress, is_stderr, .. }) = receiver.try_recv() {
                let verdict =
                    if is_stderr { ReportVerdict::Take } else { report_limits.admit(&mut progress) };
                match verdict {
                    ReportVerdict::Take => {}
                    ReportVerdict::Drop => continue,
                    ReportVerdict::Fail(why) => {
                        end = end.and(Err(why));
                        continue;
                    }
                }
                if let Progress::Log { message } = &progress {
                    log.write(message, is_stderr);
                } else {
                    log.mask_status(&mut progress);
                    turn_workspace::note(workspace.as_mut(), &mut progress);
                    telemetry.meters().models.observe(&origin, &progress);
                    gather_update(&mut updates, progress);
                }
            }
            if let Some(call) = call.take() {
                let progress = Progress::Usage(call);
                telemetry.meters().models.observe(&origin, &progress);
                updates.push(progress);
            }
            // The commit is there before its turn has ended.
            if let (Some(workspace), Ok(done)) = (&mut workspace, &end) {
                match workspace.commit(store.as_ref(), &me, clock.wall(), done).await {
                    Ok(named) => updates.extend(named),
                    Err(reason) => end = Ok(TurnEnd::Failed { reason }),
                }
            }
            let end = log.masked_end(end);
            // A failure carries no updates, and what was used before it counts.
            if end.is_err() && !updates.is_empty() {
                let input = Input::TurnProgress(turn.clone(), std::mem::take(&mut updates));
                send_input(&agent, LifeInput { life, input }).await;
            }
            send_input(&agent, LifeInput { life, input: Input::TurnEnded(turn, updates, end) }).await;
        });
        let (task, call, origin, telemetry) = spawned;
        self.turns.insert(key, SpawnedTurn { running, recorded, task, call, origin, telemetry });
    }
}
