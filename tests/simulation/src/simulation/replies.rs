//! Replies of the agents: to peers, to users, and to the reader of the board.

use super::{AttemptTry, Simulation, event::Event};
use engine::{Ack, AttemptResult, IncomingMessage, Input, MessageResult, ReplyTo};
use protocol::{
    envelope::Envelope,
    ids::{AgentId, MessageId, TaskId},
    message::{MessageKind, Payload},
    principal::Principal,
    problem::Problem,
    signal::SignalRecord,
};

/// Who gets an agent's reply.
#[derive(Debug)]
pub(super) enum ReplyTarget {
    /// A peer that delivered messages in one request, and which of them it is.
    Peer { from: usize, life: u64, attempt: AttemptTry, message: usize },
    /// A user who sent a request.
    User { request: usize },
    /// A user who cancelled or answered a task.
    Owner { is_cancel: bool },
    /// The agent's reader of the board.
    BoardReader { signal: Box<SignalRecord> },
    /// No one: the message is a duplicate by the network.
    None,
}

impl ReplyTarget {
    /// The target of the reply to one message of a request.
    pub(super) fn of_message(&self, message: usize) -> Self {
        match self {
            Self::Peer { from, life, attempt, .. } => {
                Self::Peer { from: *from, life: *life, attempt: *attempt, message }
            }
            Self::User { request } => Self::User { request: *request },
            Self::Owner { is_cancel } => Self::Owner { is_cancel: *is_cancel },
            Self::BoardReader { signal } => Self::BoardReader { signal: signal.clone() },
            Self::None => Self::None,
        }
    }
}

/// A reply that an agent owes.
#[derive(Debug)]
pub(super) struct PendingReply {
    pub(super) agent: usize,
    pub(super) since: u64,
    pub(super) target: ReplyTarget,
    /// The message; its receipt must be durable before the reply.
    pub(super) message: Option<(MessageId, Principal, AgentId, MessageKind)>,
    /// The task that the message cancels, and the newest epoch it covers.
    pub(super) cancels: Option<(TaskId, u64)>,
}

impl Simulation {
    /// Registers the reply to an input.
    pub(super) fn expect_reply(
        &mut self,
        agent: usize,
        target: ReplyTarget,
        of: Option<&IncomingMessage>,
    ) -> ReplyTo {
        let id = self.next_id();
        let message = of.map(|message| {
            let Envelope { message_id, from_agent_id, .. } = message.envelope.as_ref();
            (message_id.clone(), message.by.clone(), from_agent_id.clone(), message.envelope.kind())
        });
        let cancels = of.and_then(|message| match &message.envelope.payload {
            Payload::TaskCancel(cancel) => Some((cancel.task_id.clone(), cancel.epoch.unwrap_or(u64::MAX))),
            _ => None,
        });
        self.pending_replies.insert(id, PendingReply { agent, since: self.now, target, message, cancels });
        ReplyTo(id)
    }

    /// An agent replies; what it acknowledges must be durable.
    pub(super) fn on_reply(&mut self, agent: usize, to: ReplyTo, answer: Result<Ack, Problem>) {
        let me = self.nodes[agent].id.clone();
        let Some(pending) = self.pending_replies.remove(&to.0) else {
            return self.fail(format!("{me} answers twice, or nobody: {answer:?}"));
        };
        if let Ok(ack) = &answer {
            self.check_ack(agent, &pending, ack);
            if let (Some((_, by, ..)), Some((task, epoch))) = (&pending.message, &pending.cancels)
                && !ack.duplicate
            {
                self.observer.cancelled(&me, task, by, *epoch);
            }
        }
        match pending.target {
            target @ ReplyTarget::Peer { .. } => self.answer_peer(agent, &target, answer.map(|ack| ack.bid)),
            ReplyTarget::User { request } => self.on_user_reply(agent, request, answer),
            ReplyTarget::Owner { is_cancel } => {
                let request = if is_cancel { "cancel" } else { "answer" };
                let outcome =
                    answer.map(|_| "taken".to_owned()).unwrap_or_else(|problem| problem.to_string());
                self.note(|| format!("{me} to its owner's {request}: {outcome}"));
            }
            ReplyTarget::BoardReader { signal } => {
                let life = self.nodes[agent].life;
                let Some(reader) = &mut self.nodes[agent].reader else { return };
                reader.delivering_since = None;
                let id = reader.id;
                match answer {
                    Ok(_) => {
                        if let Some(cursor) = &mut reader.cursor {
                            cursor.revision = signal.revision;
                        }
                        self.after(1, Event::PollBoard { agent, life, reader: id });
                    }
                    Err(problem) => {
                        self.note(|| format!("{me} did not take signal {}: {problem}", signal.signal.id));
                        self.nodes[agent].reader = None;
                        self.handle(agent, Input::SubscriptionLost(problem));
                    }
                }
            }
            ReplyTarget::None => {}
        }
    }

    /// Answers one message of a request; the peer hears once all are answered.
    pub(super) fn answer_peer(&mut self, agent: usize, target: &ReplyTarget, answer: MessageResult) {
        let ReplyTarget::Peer { from, life, attempt, message } = *target else { return };
        let Some(answers) = self.answers.get_mut(&attempt.1) else { return };
        if let Some(place) = answers.get_mut(message) {
            *place = Some(answer);
        }
        let Some(results) = answers.iter().cloned().collect::<Option<Vec<_>>>() else { return };
        self.answers.remove(&attempt.1);
        let rate = self.faults.reply_loss;
        let is_lost = from != agent && self.chance(rate);
        if let Some(delay) = self.travel(agent, from).filter(|_| !is_lost) {
            let result = Box::new(AttemptResult::Delivered(results));
            self.after(delay, Event::Attempted { agent: from, life, attempt, result });
        }
    }
}
