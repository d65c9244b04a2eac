//! The messages of an agent's actor.

use super::{AckResult, AgentActor};
use crate::inbox::{TakeMessage, TakeMessages};
use actix::{Context, Handler, Message, ResponseFuture};
use engine::{Ack, AgentSnapshot, Input, QuotaStatus, ReadableLayers, ReplyTo};
use futures_util::future::{join_all, ready};
use patterns::speech::Directive;
use protocol::{
    card::Card,
    ids::{AgentId, MessageId, QuestionId, TaskId},
    principal::Principal,
    problem::{Problem, Reason},
    question::Answer,
};
use serde::Serialize;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Cancels a task.
#[derive(Debug, Message)]
#[rtype(result = "Result<Ack, Problem>")]
pub struct CancelTaskRequest {
    pub task: TaskId,
    pub by: Principal,
    pub reason: String,
}

/// Steers a session.
#[derive(Debug, Message)]
#[rtype(result = "Result<Ack, Problem>")]
pub struct DirectSessionRequest {
    pub task: TaskId,
    pub by: Principal,
    pub directive: Box<Directive>,
}

/// Asks what its brain may read of a space.
#[derive(Debug, Message)]
#[rtype(result = "Result<ReadableLayers, Problem>")]
pub struct GetReadableLayers;

/// Answers a question of a task.
#[derive(Debug, Message)]
#[rtype(result = "Result<Ack, Problem>")]
pub struct AnswerTaskRequest {
    pub task: TaskId,
    pub by: Principal,
    /// The question; if absent, the only open one that takes a text.
    pub question: Option<QuestionId>,
    pub answer: Answer,
    /// The message of an A2A client. It is also accepted if the task has no question.
    pub message: Option<Box<protocol::a2a::message::Message>>,
    /// Whether the sender is proven to be a person, who may approve.
    pub is_persons: bool,
}

/// Resends a dead letter.
#[derive(Debug, Message)]
#[rtype(result = "Result<Ack, Problem>")]
pub struct RedriveDeadLetter {
    pub message: MessageId,
}

/// Replaces the agent's card.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct UpdateCard(pub Arc<Card>);

/// The agent goes on with other settings and another brain: running turns are stopped, and begin again with their checkpoints.
#[derive(Message)]
#[rtype(result = "()")]
pub struct ReplaceBrain {
    pub config: engine::EngineConfig,
    pub brain: Arc<dyn crate::brain::Brain>,
    pub session_work: Arc<dyn crate::brain::Brain>,
    pub checker: Arc<dyn crate::brain::Brain>,
}

/// Hands back tasks that other agents can do. The rest resumes at the next start.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct HandBackTasks;

/// Starts a retention sweep.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct StartRetentionSweep;

/// Asks whether all steps are committed and all messages are sent.
#[derive(Debug, Message)]
#[rtype(result = "bool")]
pub struct IsIdle;

/// Asks whether a message from `by` is being committed.
#[derive(Debug, Message)]
#[rtype(result = "bool")]
pub struct IsPending {
    pub message: MessageId,
    pub by: Principal,
    /// Its `fromAgentId`; `None` for any.
    pub sent_as: Option<AgentId>,
}

/// Asks for a snapshot; `None` while the agent restarts.
#[derive(Debug, Message)]
#[rtype(result = "Option<ActorSnapshot>")]
pub struct GetAgentSnapshot;

/// A snapshot of an agent and its brain.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActorSnapshot {
    pub brain: &'static str,
    #[serde(flatten)]
    pub agent: AgentSnapshot,
    /// How much of each quota is used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<QuotaStatus>,
}

impl std::ops::Deref for ActorSnapshot {
    type Target = AgentSnapshot;

    fn deref(&self) -> &AgentSnapshot {
        &self.agent
    }
}

pub(super) type AckFuture = ResponseFuture<AckResult>;

/// Resolves with the answer, or with 503 if the agent stops first.
pub(super) fn ack_future(answer: oneshot::Receiver<AckResult>) -> AckFuture {
    let stopped = || Problem::new(Reason::StoreUnavailable, "the agent stopped before it was recorded");
    Box::pin(async move { answer.await.unwrap_or_else(|_| Err(stopped())) })
}

impl AgentActor {
    pub(super) fn feed_request(
        &mut self,
        input: impl FnOnce(ReplyTo) -> Input,
        ctx: &mut Context<Self>,
    ) -> AckFuture {
        let (reply, answer) = self.expect_reply();
        self.feed(input(reply), ctx);
        ack_future(answer)
    }
}

impl Handler<TakeMessage> for AgentActor {
    type Result = AckFuture;

    fn handle(&mut self, TakeMessage(message): TakeMessage, ctx: &mut Context<Self>) -> AckFuture {
        ack_future(self.take_message(message, ctx))
    }
}

impl Handler<TakeMessages> for AgentActor {
    type Result = ResponseFuture<Vec<AckResult>>;

    fn handle(&mut self, TakeMessages(messages): TakeMessages, ctx: &mut Context<Self>) -> Self::Result {
        self.feed(Input::HoldSteps, ctx);
        let (mut answers, mut refused): (Vec<AckFuture>, Option<Problem>) = (Vec::new(), None);
        for message in messages {
            if let Some(problem) = refused.clone() {
                answers.push(Box::pin(ready(Err(problem))));
                continue;
            }
            let mut answer = self.take_message(message, ctx);
            match answer.try_recv() {
                Ok(answer) => {
                    refused =
                        answer.as_ref().err().filter(|why| engine::may_succeed_later(why.reason)).cloned();
                    answers.push(Box::pin(ready(answer)));
                }
                Err(_) => answers.push(ack_future(answer)),
            }
        }
        self.feed(Input::ReleaseSteps, ctx);
        Box::pin(join_all(answers))
    }
}

impl Handler<CancelTaskRequest> for AgentActor {
    type Result = AckFuture;

    fn handle(&mut self, request: CancelTaskRequest, ctx: &mut Context<Self>) -> AckFuture {
        let CancelTaskRequest { task, by, reason } = request;
        let calls = self.turns.iter().filter_map(|(key, turn)| Some((key.clone(), turn.call_for(&task)?)));
        let calls = calls.collect();
        self.feed_request(|reply| Input::Cancel { task, by, reason, calls, reply }, ctx)
    }
}

impl Handler<DirectSessionRequest> for AgentActor {
    type Result = AckFuture;

    fn handle(&mut self, request: DirectSessionRequest, ctx: &mut Context<Self>) -> AckFuture {
        let DirectSessionRequest { task, by, directive } = request;
        self.feed_request(|reply| Input::Direct { task, by, directive, reply }, ctx)
    }
}

impl Handler<AnswerTaskRequest> for AgentActor {
    type Result = AckFuture;

    fn handle(&mut self, request: AnswerTaskRequest, ctx: &mut Context<Self>) -> AckFuture {
        let AnswerTaskRequest { task, by, question, answer, message, is_persons } = request;
        let answer = |reply| Input::Answer { task, by, question, answer, message, is_persons, reply };
        self.feed_request(answer, ctx)
    }
}

impl Handler<RedriveDeadLetter> for AgentActor {
    type Result = AckFuture;

    fn handle(&mut self, request: RedriveDeadLetter, ctx: &mut Context<Self>) -> AckFuture {
        self.feed_request(|reply| Input::Redrive { message: request.message, reply }, ctx)
    }
}

impl Handler<UpdateCard> for AgentActor {
    type Result = ();

    fn handle(&mut self, UpdateCard(card): UpdateCard, ctx: &mut Context<Self>) {
        self.parts.config.card = card.clone();
        self.feed(Input::CardChanged(card), ctx);
    }
}

impl Handler<ReplaceBrain> for AgentActor {
    type Result = ();

    fn handle(&mut self, new: ReplaceBrain, ctx: &mut Context<Self>) {
        let ReplaceBrain { config, brain, session_work, checker } = new;
        self.parts.config = config;
        (self.parts.brain, self.parts.session_work, self.parts.checker) = (brain, session_work, checker);
        self.begin_anew(ctx);
    }
}

impl Handler<HandBackTasks> for AgentActor {
    type Result = ();

    fn handle(&mut self, _: HandBackTasks, ctx: &mut Context<Self>) {
        self.feed(Input::HandBack, ctx);
    }
}

impl Handler<StartRetentionSweep> for AgentActor {
    type Result = ();

    fn handle(&mut self, _: StartRetentionSweep, ctx: &mut Context<Self>) {
        self.feed(Input::Sweep, ctx);
    }
}

impl Handler<IsIdle> for AgentActor {
    type Result = bool;

    fn handle(&mut self, _: IsIdle, _: &mut Context<Self>) -> bool {
        self.agent.as_ref().is_none_or(engine::Agent::is_idle)
    }
}

impl Handler<IsPending> for AgentActor {
    type Result = bool;

    fn handle(&mut self, IsPending { message, by, sent_as }: IsPending, _: &mut Context<Self>) -> bool {
        self.agent.as_ref().is_some_and(|agent| agent.is_recording(&message, &by, sent_as.as_ref()))
    }
}

impl Handler<GetAgentSnapshot> for AgentActor {
    type Result = Option<ActorSnapshot>;

    fn handle(&mut self, _: GetAgentSnapshot, _: &mut Context<Self>) -> Option<ActorSnapshot> {
        let mut agent = self.agent.as_ref()?.snapshot();
        agent.counts.late_acks = self.parts.status.late_acks();
        let quotas = self.agent.as_ref()?.quota_statuses(self.parts.clock.wall());
        Some(ActorSnapshot { brain: self.parts.brain.name(), agent, quotas })
    }
}

impl Handler<GetReadableLayers> for AgentActor {
    type Result = Result<ReadableLayers, Problem>;

    fn handle(&mut self, _: GetReadableLayers, _: &mut Context<Self>) -> Self::Result {
        let why = "the agent is starting again: which turns it has is not known";
        let agent = self.agent.as_ref().ok_or_else(|| Problem::new(Reason::Overloaded, why))?;
        Ok(agent.readable_layers())
    }
}
