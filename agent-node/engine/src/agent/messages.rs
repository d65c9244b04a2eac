//! Admission of a message: checks of recipient, sender, time and path, and dedup. A message is answered once, when it is
//! durable.

use crate::{Ack, IncomingMessage, Observation, ReplyTo, agent::Agent, context::Context, records::keys};
use patterns::AnyPattern;
use protocol::{
    ids::Address,
    message::MessageKind,
    principal::Principal,
    problem::{Problem, Reason},
};

impl Agent {
    /// Admits a message, or refuses it.
    pub(super) fn take_message(&mut self, message: IncomingMessage, reply: ReplyTo, cx: &mut Context<'_>) {
        let (kind, duplicates) = (message.envelope.kind(), self.counts.duplicates);
        let id = message.envelope.message_id.clone();
        let trace = message.trace.as_ref().map(|trace| trace.trace());
        match self.admit(message, reply, cx) {
            Ok(()) if self.counts.duplicates > duplicates => cx.observe(Observation::Duplicate),
            Ok(()) => cx.observe(Observation::Taken(kind)),
            Err(problem) => {
                self.counts.refused += 1;
                cx.observe(Observation::Refused(problem.reason));
                let reason = problem.reason.code();
                tracing::info!(agent = %self.me, message = %id, kind = kind.wire(), trace, reason, "a message was refused");
                cx.reply(reply, Err(problem));
            }
        }
    }

    fn admit(
        &mut self,
        message: IncomingMessage,
        reply: ReplyTo,
        cx: &mut Context<'_>,
    ) -> Result<(), Problem> {
        self.check_recipient(&message)?;
        self.check_sender(&message, cx)?;
        if message.envelope.kind().is_best_effort() {
            self.check_time(&message, cx)?;
            return self.take_best_effort(message, reply, cx);
        }
        let envelope = &message.envelope;
        let key = keys::receipt(&self.me, &envelope.message_id, &message.by, &envelope.from_agent_id);
        let ack = Ack { duplicate: true, ..Ack::of(envelope.message_id.clone()) };
        if self.admission.answer_if_repeat(&key, message.digest, (reply, ack), cx)? {
            self.counts.duplicates += 1;
            return Ok(());
        }
        self.check_time(&message, cx)?;
        self.check_path(&message)?;
        self.route(message, key, reply, cx)
    }

    fn check_recipient(&self, message: &IncomingMessage) -> Result<(), Problem> {
        match &message.envelope.to_agent_id {
            // It names those who are asked: the agent asks them.
            Address::Agent(_) if self.is_own_process(&message.by) => Ok(()),
            Address::Agent(id) if *id != self.me => {
                Err(Problem::new(Reason::AgentNotFound, format!("this is {}, not {id}", self.me)))
            }
            Address::Agent(_) | Address::Capability(_) => Ok(()),
        }
    }

    /// Whether it is this agent's own process, which has proven that to its node.
    fn is_own_process(&self, by: &Principal) -> bool {
        matches!(by, Principal::Brain(agent) if *agent == self.me)
    }

    /// Refuses new work during a drain, and expired messages. Duplicates are recognised before this check.
    fn check_time(&self, message: &IncomingMessage, cx: &Context<'_>) -> Result<(), Problem> {
        let envelope = &message.envelope;
        let is_self = message.by.agent() == Some(&self.me);
        let begins_work = envelope.kind() == MessageKind::Cfp || AnyPattern::is_opened_by(envelope.kind());
        if self.is_draining && !is_self && begins_work {
            return Err(Problem::new(Reason::Draining, format!("{} is leaving", self.me)));
        }
        match envelope.expires_at {
            Some(expires) if expires <= cx.wall() => {
                Err(Problem::new(Reason::Expired, format!("expiresAt {expires} has passed")))
            }
            _ => Ok(()),
        }
    }

    /// An agent's id as sender needs that agent's signature. A user may use any label but a name that is or was an agent's, or
    /// a service's.
    fn check_sender(&self, message: &IncomingMessage, cx: &Context<'_>) -> Result<(), Problem> {
        let from = &message.envelope.from_agent_id;
        let kind = message.envelope.kind();
        if matches!(message.by, Principal::User(_)) && !MessageKind::OF_USERS.contains(&kind) {
            let own = MessageKind::OF_USERS.map(MessageKind::wire);
            let why =
                format!("type: agents send each other {}; a user sends {}", kind.wire(), own.join(", "));
            return Err(Problem::new(Reason::Forbidden, why).with("field", "type"));
        }
        match &message.by {
            Principal::Agent(id) if id == from => Ok(()),
            Principal::Brain(id) if id == from && *id == self.me => Ok(()),
            Principal::Agent(id) => Err(Problem::new(
                Reason::SenderNotProven,
                format!("fromAgentId is {from}, the signature is {id}'s"),
            )),
            Principal::Brain(id) if *id == self.me => {
                let message = format!("fromAgentId is {from}, the token is {id}'s");
                Err(Problem::new(Reason::SenderNotProven, message).with("field", "fromAgentId"))
            }
            Principal::Service(_) | Principal::Brain(_) => {
                Err(Problem::new(Reason::Forbidden, format!("{} sends no messages", message.by)))
            }
            // The node itself has chosen the label of an A2A request, and of a task that a schedule or trigger begins.
            Principal::User(_) if message.contact.is_some() || message.origin.is_some() => Ok(()),
            Principal::User(_) => {
                let is_own = || self.me.as_str().eq_ignore_ascii_case(from.as_str());
                let whose = match from.is_reserved() {
                    true => "a service's name",
                    false if is_own() || cx.world.directory().knows(from) => "an agent's name",
                    false => return Ok(()),
                };
                let message = format!("fromAgentId: {from} is {whose}; use a label of your own");
                Err(Problem::new(Reason::SenderNotProven, message).with("field", "fromAgentId"))
            }
        }
    }

    fn check_path(&self, message: &IncomingMessage) -> Result<(), Problem> {
        let envelope = &message.envelope;
        let is_self = message.by.agent() == Some(&self.me);
        let path = envelope.agents_on_path();
        // Help makes no loop: who is on the path only answers.
        let may_repeat = envelope.kind() == MessageKind::HelpRequest;
        if path.contains(&self.me) && !is_self && !may_repeat {
            let way: Vec<_> = path.iter().map(|id| id.as_str()).collect();
            let message = format!("{} is already on the path: {}", self.me, way.join(" → "));
            return Err(Problem::new(Reason::DelegationLoop, message));
        }
        let limit = self.config.limits.max_hops;
        if path.len() >= limit {
            let message = format!("{} hops, the limit is {limit}", path.len());
            return Err(Problem::new(Reason::TooManyHops, message));
        }
        Ok(())
    }
}
