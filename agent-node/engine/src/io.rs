//! What goes into an agent, what comes out of it, and the world it asks for time, chance and the directory.

use crate::{ClaimRequest, records::EffectKey};
use protocol::{
    a2a::message::Message,
    card::Card,
    envelope::Envelope,
    ids::{AgentId, Capability, ConversationId, Digest, MessageId, TaskId},
    message::MessageKind,
    patterns::{
        Candidate, EventKind,
        turn::{Progress, Prompt, TurnEnd},
    },
    principal::Principal,
    problem::{Problem, Reason},
    signal::{Selector, Signal, SignalRecord},
    task::{A2aRequestContext, TaskState},
    time::{NodeTime, WallTime},
    trace::TraceContext,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use store_types::{Batch, Error, Filter, Lane, Revision};

/// Names whoever waits for an answer. The shell chooses it, and it is answered once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyTo(pub u64);

/// Names a commit or a trim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitId(pub u64);

/// Names one attempt at something outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId(pub u64);

/// Names a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId(pub u64);

/// Names a turn of the brain: the effect that asked for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnKey {
    /// The conversation.
    pub conversation: ConversationId,
    /// The effect within it.
    pub effect: EffectKey,
}

/// A message as the edge hands it in.
#[derive(Debug, Clone)]
pub struct IncomingMessage {
    /// The message.
    pub envelope: Box<Envelope>,
    /// Who was proven to have sent it.
    pub by: Principal,
    /// The digest of its body as it came.
    pub digest: Digest,
    /// The trace it came under.
    pub trace: Option<TraceContext>,
    /// How it was said, if an A2A client said it.
    pub contact: Option<Box<A2aRequestContext>>,
}

/// What a message that was taken is answered with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ack {
    /// The message.
    pub message_id: MessageId,
    /// The task it began or is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The conversation it went to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
    /// Whether it had been taken before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub duplicate: bool,
}

impl Ack {
    /// The answer to a message that was not taken before and is about nothing yet.
    pub(crate) fn of(message_id: MessageId) -> Self {
        Self { message_id, task_id: None, conversation_id: None, duplicate: false }
    }
}

/// What happens to an agent.
#[derive(Debug)]
pub enum Input {
    /// A message came. → [`Output::Reply`].
    Message(IncomingMessage, ReplyTo),
    /// A task's owner ends it. → [`Output::Reply`].
    Cancel {
        /// Which task.
        task: TaskId,
        /// Who wants it.
        by: Principal,
        /// Why.
        reason: String,
        /// Who waits for the answer.
        reply: ReplyTo,
    },
    /// A task's owner answers what the task waits for. → [`Output::Reply`].
    Answer {
        /// Which task.
        task: TaskId,
        /// Who answers.
        by: Principal,
        /// What.
        text: String,
        /// The same as an A2A client said it: also taken when nothing was asked.
        message: Option<Box<Message>>,
        /// Who waits for the answer.
        reply: ReplyTo,
    },
    /// A dead letter is to be sent again. → [`Output::Reply`].
    Redrive {
        /// Which message.
        message: MessageId,
        /// Who waits for the answer.
        reply: ReplyTo,
    },
    /// What became of a commit: the revision of each write.
    CommitSettled(CommitId, Result<Vec<Revision>, Error>),
    /// What became of a trim: how many records went.
    TrimSettled(CommitId, Result<u64, Error>),
    /// What became of an attempt.
    Attempted(AttemptId, AttemptResult),
    /// A timer's time has come.
    TimerFired(TimerId),
    /// A brain reported while it thinks.
    TurnProgress(TurnKey, Vec<Progress>),
    /// A turn ended: what was left to report, and how it ended, or why it failed.
    TurnEnded(TurnKey, Vec<Progress>, Result<TurnEnd, String>),
    /// The whole directory has been seen.
    DirectorySynced,
    /// The board's head, for an agent that has never followed it.
    BoardHead(Revision),
    /// A signal the agent subscribes to. → [`Output::Reply`] once it is taken; the next comes after that.
    Signal(Box<SignalRecord>, ReplyTo),
    /// The subscription ended.
    SubscriptionLost(Problem),
    /// What the agent says of itself has changed.
    CardChanged(Arc<Card>),
    /// The node leaves: nothing new is taken from here on.
    Drain,
    /// The node leaves soon: what others can do is handed back.
    HandBack,
    /// Time to delete what has been kept long enough.
    Sweep,
    /// The answer to [`Output::Continue`].
    Continue,
}

/// What an agent wants done.
#[derive(Debug)]
pub enum Output {
    /// Write a batch. → [`Input::CommitSettled`].
    Commit(CommitId, Lane, Batch),
    /// Delete log records below a revision. → [`Input::TrimSettled`].
    Trim(CommitId, Filter, Revision),
    /// Answer whoever waits.
    Reply(ReplyTo, Result<Ack, Problem>),
    /// Try something once. → [`Input::Attempted`].
    Attempt(AttemptId, Attempt),
    /// Run a turn of the brain. → [`Input::TurnProgress`]*, then [`Input::TurnEnded`].
    StartTurn(Box<TurnStart>),
    /// Stop a turn; no input follows.
    StopTurn(TurnKey),
    /// Fire after this long. → [`Input::TimerFired`].
    SetTimer(TimerId, Duration),
    /// Forget a timer; no input follows.
    ClearTimer(TimerId),
    /// Follow the board. Without a cursor its head is asked for first. → [`Input::BoardHead`] or [`Input::Signal`]*, then
    /// [`Input::SubscriptionLost`].
    Subscribe(Selector, Option<Revision>),
    /// A conversation has ended: the brain that was asked for this capability ends what still works for it elsewhere.
    ReleaseBrain(ConversationId, Option<Capability>),
    /// Something happened that is counted or shown in traces.
    Observed(Observation),
    /// There is more to do: → [`Input::Continue`], after what is waiting.
    Continue,
    /// The store has failed, and only a restart of the process recovers what is true.
    Fatal(String),
}

/// One try at something outside.
#[derive(Debug, Clone)]
pub enum Attempt {
    /// Hand a message to a peer.
    Deliver(Box<Delivery>),
    /// Put a signal on the board.
    Publish(Box<Signal>),
    /// Make, renew or end a claim on the board.
    Claim(TaskId, ClaimRequest),
}

/// A message to be handed over once.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The recipient.
    pub to: AgentId,
    /// Where it is.
    pub at: PeerLocation,
    /// The message.
    pub envelope: Envelope,
    /// The trace it belongs to.
    pub trace: Option<TraceContext>,
}

/// What became of an attempt.
#[derive(Debug, Clone)]
pub enum AttemptResult {
    /// The message was acknowledged.
    Delivered,
    /// The signal is on the board.
    Published(Revision),
    /// What the board said of a claim: `Claimed`, `ClaimLost` or `ClaimEnded`.
    Claim(EventKind),
    /// It failed.
    Failed(Problem),
}

/// A turn to be run.
#[derive(Debug, Clone)]
pub struct TurnStart {
    /// The turn's name; the same after a crash.
    pub key: TurnKey,
    /// What the brain is asked.
    pub prompt: Prompt,
    /// When it must have ended, if before the node's own limit.
    pub deadline: Option<WallTime>,
    /// The trace it belongs to.
    pub trace: Option<TraceContext>,
    /// Whether it is done under an award that somebody else has bid for too.
    pub has_runner_up: bool,
}

/// Something that is counted, or shown in traces. Each is told once, after it is true.
#[derive(Debug)]
pub enum Observation {
    /// A message was taken.
    Taken(MessageKind),
    /// A message came again.
    Duplicate,
    /// A message was refused.
    Refused(Reason),
    /// A bid was received.
    BidReceived,
    /// A call for proposals was answered, at these times.
    CallAnswered {
        /// The call.
        call: Box<Envelope>,
        /// Who sent it.
        by: Principal,
        /// The answer.
        answer: Box<Envelope>,
        /// The trace it came under.
        trace: Option<TraceContext>,
        /// When it came.
        at: WallTime,
    },
    /// A round of bidding began.
    RoundStarted,
    /// Work was awarded.
    Awarded,
    /// A commit settled this long after it was given to the store.
    Committed,
    /// A delivery was tried: delivered, to be tried again, or given up.
    Tried(DeliveryAttemptOutcome),
    /// A message was given up.
    GivenUp(Reason),
    /// A task ended.
    TaskEnded(TaskState),
    /// Steps after `from` up to `to` of an ended conversation are durable; the last stands at `head`.
    StepsOfEnded {
        /// The conversation.
        conversation: ConversationId,
        /// Its trace.
        trace: Option<TraceContext>,
        /// The last step told before.
        from: u64,
        /// The last step.
        to: u64,
        /// Its revision.
        head: Revision,
    },
    /// Ended tasks were deleted.
    TasksRemoved,
}

/// What came of one try to deliver a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryAttemptOutcome {
    /// It was acknowledged.
    Delivered,
    /// It is tried again.
    Retried,
    /// It never will be.
    GivenUp,
}

/// Where a peer can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerLocation {
    /// In this process.
    Here,
    /// At this endpoint.
    At(String),
    /// It was there, and left.
    Departed,
    /// Never heard of.
    Unknown,
}

/// What is known of the peers.
pub trait PeerDirectory {
    /// Everyone who could be asked for `capability`, in the order of their ids; `track_record` is not filled in.
    fn candidates(&self, capability: &Capability) -> Vec<Candidate>;

    /// Whether anyone who is there has `capability`.
    fn has(&self, capability: &Capability) -> bool;

    /// The skills of all who are there, tags left out.
    fn skills(&self) -> BTreeSet<Capability>;

    /// Whether `agent` is, or was, a registered agent: nobody else may speak in its name.
    fn knows(&self, agent: &AgentId) -> bool;

    /// Where `agent` can be reached.
    fn locate(&self, agent: &AgentId) -> PeerLocation;

    /// Whether the whole directory has been seen.
    fn is_synced(&self) -> bool;
}

/// Where an agent gets time, chance and the directory from. Nothing else enters it but inputs and the store.
pub trait World {
    /// The node's own clock: it never goes back.
    fn now(&self) -> NodeTime;

    /// The wall clock.
    fn wall(&self) -> WallTime;

    /// A new id, as the text of a UUIDv7 (RFC 9562).
    fn uuid(&mut self) -> String;

    /// Any number.
    fn random(&mut self) -> u64;

    /// Whether a trace is sampled, under a parent that was or was not, or as a new one.
    fn samples(&self, parent: Option<bool>, trace: u128) -> bool;

    /// The peers.
    fn directory(&self) -> &dyn PeerDirectory;
}
