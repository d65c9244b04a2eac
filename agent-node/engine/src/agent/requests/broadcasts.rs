//! Broadcasts: one that the board would refuse for good is refused before it is admitted; one that offers a task makes the
//! task its owner's.

use crate::{
    IncomingMessage, ReplyTo,
    agent::{
        Agent,
        begin::{OpenedTask, Opening},
    },
    context::Context,
    problems::internal,
};
use patterns::{OutgoingSignal, broadcast::Broadcast, offer::Offer, open_task};
use protocol::{
    ids::{ConversationId, Digest, EffectId, TaskId},
    principal::{Principal, TaskRoot},
    problem::{Problem, Reason},
    signal::{SignalType, described_task},
    task::TaskSpec,
    trace::{TRACEPARENT, TraceContext},
};

/// A placeholder of the length of a conversation id.
const SOME_CONVERSATION: &str = "00000000-0000-0000-0000-000000000000";

impl Agent {
    /// The signal and the task of a broadcast that offers one. A task without an id gets one. `None` for any other signal, and
    /// for an offer without a description.
    pub(crate) fn offered_task(
        &self,
        broadcast: &Broadcast,
        by: &Principal,
        cx: &mut Context<'_>,
    ) -> Result<Option<(OutgoingSignal, TaskSpec)>, Problem> {
        let mut signal = broadcast.announcement().clone();
        if signal.kind != SignalType::task_available() {
            return Ok(None);
        }
        if signal.task_id.is_none() {
            signal.task_id = Some(TaskId::parse(&format!("task-{}", cx.world.uuid())).map_err(internal)?);
        }
        let complete = signal.clone().signed(String::new(), self.me.clone(), cx.wall());
        let root = TaskRoot { principal: by.clone(), proof: signal.root_proof };
        Ok(open_task::offered(&complete, root).map(|spec| (signal, spec)))
    }

    /// Offers a task for its owner. The same offer again is a duplicate, another one under the same id is refused.
    pub(crate) fn take_offer(
        &mut self,
        message: IncomingMessage,
        offer: OutgoingSignal,
        spec: TaskSpec,
        asked: Digest,
        reply: ReplyTo,
        cx: &mut Context<'_>,
    ) -> Result<(), Problem> {
        if self.answer_if_known_task(&spec.task_id, &message, asked, reply, cx)? {
            self.counts.duplicates += 1;
            return Ok(());
        }
        let mut offer = offer;
        offer.task_id = Some(self.id_among_agents(&spec.task_id, &message.by, cx)?);
        let pattern = Offer::new(self.me.clone(), offer, self.config.limits.message_life()).into();
        let task = Some(OpenedTask { spec, asked, equals: None, epoch: None, earlier: None });
        self.open(Opening { message, pattern, task, reply }, cx)
    }

    /// Refuses a broadcast whose signal this node's limits do not allow. A board in another process may have a lower limit
    /// and refuses it itself.
    pub(crate) fn check_announcement(
        &self,
        broadcast: &Broadcast,
        by: &Principal,
        cx: &Context<'_>,
    ) -> Result<(), Problem> {
        let signal = broadcast.announcement();
        let why = if signal.kind.is_registrys() {
            Some("only the registry publishes")
        } else if signal.kind.is_lifecycle() {
            Some(
                "an agent publishes task.*, agent.* and artifact.* only about its own, offers (task.available) aside, so not",
            )
        } else {
            None
        };
        if let Some(why) = why {
            let message = format!("payload.signal: {why} {}", signal.kind);
            return Err(Problem::new(Reason::Forbidden, message).with("field", "payload.signal"));
        }
        let described = || described_task(&signal.refs, signal.subject.as_deref());
        if signal.kind == SignalType::task_available() && described().is_none() {
            let message =
                "payload.refs.description: an offer says what is to be done, here or in payload.subject";
            return Err(Problem::new(Reason::InvalidField, message).with("field", "payload.refs.description"));
        }
        let conversation = ConversationId::parse(SOME_CONVERSATION).map_err(internal)?;
        let id = EffectId { agent: self.me.clone(), conversation, step: 1, index: 0 };
        let mut signal = signal.clone().signed(id.to_string(), self.me.clone(), cx.wall());
        signal.root = Some(by.clone()).filter(|_| signal.kind == SignalType::task_available());
        let trace = TraceContext { trace_id: 1, span_id: 1, sampled: true, state: None };
        signal.refs.entry(TRACEPARENT).or_insert_with(|| trace.to_string().into());
        let (bytes, most) =
            (serde_json::to_vec(&signal).map_err(internal)?.len(), self.config.limits.max_signal_bytes);
        if bytes <= most {
            return Ok(());
        }
        let message = format!(
            "payload: as a signal it has {bytes} bytes of JSON, the limit is {most}; what is large goes by reference"
        );
        Err(Problem::new(Reason::PayloadTooLarge, message).with("field", "payload").with("limit", most))
    }
}
