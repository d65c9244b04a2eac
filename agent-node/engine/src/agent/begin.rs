//! Opens conversations. The caller is answered when the first step is durable.

use crate::{
    Ack, IncomingMessage, ReplyTo,
    agent::{Agent, requests::task_requests::references},
    context::Context,
    conversation::{
        Conversation, QueuedEvent,
        origin::{OpeningMessage, OpeningSignal, Origin},
    },
    problems::internal,
    records::{Receipt, TaskRow, keys, large_bytes},
};
use patterns::{AnyPattern, ChunkRange, EventKind};
use protocol::{
    envelope::Envelope,
    ids::{Capability, ConversationId, Digest, TaskId, ThreadId},
    message::Payload,
    problem::Problem,
    task::TaskSpec,
    trace::{TraceContext, trace_begun_by},
};
use store_types::Key;

/// What triggered a conversation: its trace, and its subject if it is not a task.
#[derive(Default)]
pub(super) struct ConversationTrigger {
    pub(super) trace: Option<TraceContext>,
    /// The id of the new trace if there is no `trace`; several agents that react to one signal start the same trace.
    pub(super) begins: Option<u128>,
    pub(super) thread: Option<ThreadId>,
    pub(super) message: Option<OpeningMessage>,
    pub(super) signal: Option<OpeningSignal>,
    pub(super) task: Option<TaskId>,
    pub(super) capability: Option<Capability>,
}

/// The task that a message opens.
pub(super) struct OpenedTask {
    pub(super) spec: TaskSpec,
    /// The digest of what was asked.
    pub(super) asked: Digest,
    /// The digest that equal requests of the same run have in common, if they are counted.
    pub(super) equals: Option<Digest>,
    /// The epoch of the award.
    pub(super) epoch: Option<u64>,
    /// Where it goes on, if it was worked on before.
    pub(super) earlier: Option<EarlierWork>,
}

/// What a new award goes on behind.
pub(super) struct EarlierWork {
    /// The epoch under which the log begins.
    pub(super) log: u64,
    /// The chunks in it that count.
    pub(super) chunks: ChunkRange,
}

/// A message that opens a conversation.
pub(super) struct Opening {
    pub(super) message: IncomingMessage,
    pub(super) pattern: AnyPattern,
    pub(super) task: Option<OpenedTask>,
    pub(super) reply: ReplyTo,
}

/// A conversation that is about to begin.
pub(super) struct NewConversation {
    pub(super) id: ConversationId,
    pub(super) pattern: AnyPattern,
    pub(super) task: Option<TaskRow>,
    pub(super) receipt: Option<(Key, Receipt)>,
    pub(super) trigger: ConversationTrigger,
    /// The caller and its answer.
    pub(super) waiter: (ReplyTo, Ack),
}

impl Agent {
    /// Opens the conversation of a message, if there is room for it.
    pub(super) fn open(&mut self, opening: Opening, cx: &mut Context<'_>) -> Result<(), Problem> {
        let Opening { message, pattern, task, reply } = opening;
        let principal = task.as_ref().map_or(&message.by, |task| &task.spec.root);
        self.check_room(Some(principal).filter(|_| message.by.agent() != Some(&self.me)))?;
        let Envelope { message_id, from_agent_id, .. } = &*message.envelope;
        let key = keys::receipt(&self.me, message_id, &message.by, from_agent_id);
        let mut receipt = self.receipt(&message.envelope, message.digest, cx);
        receipt.task_id = task.as_ref().map(|task| task.spec.task_id.clone()).or(receipt.task_id);
        let id = ConversationId::parse(&cx.world.uuid()).map_err(internal)?;
        let references = references(&message.envelope.payload);
        let request_bytes = large_bytes(&message.envelope.payload);
        let task = task.map(|OpenedTask { spec, asked, equals, epoch, earlier }| TaskRow {
            asked,
            equals,
            epoch,
            log: earlier.as_ref().map(|earlier| earlier.log),
            chunks: earlier.map(|EarlierWork { chunks, .. }| ChunkRange { to: u64::MAX, ..chunks }),
            references,
            request_bytes,
            ..TaskRow::new(spec, message.by.clone(), id.clone(), receipt.at)
        });
        let task = task.map(TaskRow::with_files_of_request);
        let ack = Ack { task_id: receipt.task_id.clone(), ..Ack::of(message_id.clone()) };
        self.counts.admitted += 1;
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "a task's capability is in its row; others have none"
        )]
        let capability = match &message.envelope.payload {
            Payload::HelpRequest(asked) => asked.capability.clone(),
            Payload::Broadcast(announced) => announced.capability.clone(),
            _ => None,
        };
        let trigger = ConversationTrigger {
            thread: message.envelope.thread_id.clone(),
            message: Some(OpeningMessage::of(&message.envelope, &message.by)),
            task: message.envelope.payload.task_id().cloned(),
            trace: message.trace,
            capability,
            ..ConversationTrigger::default()
        };
        let (receipt, waiter) = (Some((key, receipt)), (reply, ack));
        self.begin(NewConversation { id, pattern, task, receipt, trigger, waiter }, cx)
    }

    /// Begins a conversation.
    pub(super) fn begin(&mut self, new: NewConversation, cx: &mut Context<'_>) -> Result<(), Problem> {
        let NewConversation { id, pattern, task, receipt, trigger, waiter: (reply, mut ack) } = new;
        ack.conversation_id = Some(id.clone());
        let mut sealed = None;
        if let Some((key, receipt)) = receipt {
            let receipt = Receipt { conversation_id: Some(id.clone()), ..receipt };
            sealed = Some(receipt.sealed(key.clone()).map_err(internal)?);
            self.admission.begin(key, receipt.digest);
        }
        if let Some(row) = &task {
            let (task, owner) = (row.task.spec.task_id.clone(), row.task.owner.clone());
            self.conversations.set_task(task, owner, id.clone());
        }
        let sender = trigger.message.as_ref().map(|message| message.by.clone());
        let principal = task.as_ref().map(|row| row.task.spec.root.clone()).or(sender);
        let origin = self.origin(&id, &pattern, task.as_ref(), trigger, cx);
        let mut conversation = Conversation::open(id.clone(), pattern, task, Some(origin));
        conversation.principal = principal;
        conversation.queue.push_back(QueuedEvent {
            receipt: sealed,
            waiters: vec![(reply, ack)],
            ..QueuedEvent::from_inside(EventKind::Started, None)
        });
        self.conversations.insert(conversation);
        // Counted before the commit, so that simultaneous awards see each other.
        self.note_change(&id);
        self.advance(&id, false, cx);
        // A turn that takes no time holds its place only during the step.
        self.conversations.note_work(&id);
        Ok(())
    }

    /// The origin of a conversation: in the trace and thread of its trigger, or in new ones.
    pub(super) fn origin(
        &self,
        id: &ConversationId,
        pattern: &AnyPattern,
        task: Option<&TaskRow>,
        trigger: ConversationTrigger,
        cx: &Context<'_>,
    ) -> Origin {
        let trace = trigger.trace;
        let join = |first| match trace {
            Some(parent) => {
                let sampled = cx.world.samples(Some(parent.sampled), parent.trace_id);
                TraceContext { sampled, ..parent }
            }
            None => {
                let trace_id = trigger.begins.unwrap_or_else(|| trace_begun_by(&self.me, id));
                let sampled = cx.world.samples(None, trace_id);
                TraceContext { trace_id, span_id: first, sampled, state: None }
            }
        };
        let origin = Origin::new(&self.me, id, pattern, trigger.message, join);
        let spec = task.map(|row| &row.task.spec);
        let task = spec.map(|spec| spec.task_id.clone()).or(trigger.task);
        let begun = || ThreadId::parse(task.as_ref().map_or(id.as_str(), TaskId::as_str)).ok();
        Origin {
            signal: trigger.signal,
            thread: trigger.thread.or_else(begun),
            capability: spec.and_then(|spec| spec.capability.clone()).or(trigger.capability),
            task,
            ..origin
        }
    }
}
