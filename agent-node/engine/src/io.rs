//! The inputs and outputs of an agent, and the world from which it reads time, randomness and the directory.

use crate::quotas::{GrantedShare, QuotaNotice, ShareRequest};
use crate::{ClaimRequest, records::EffectKey};
use patterns::{
    AnyPattern, Candidate, Effect, Event, EventKind,
    contract_net::bidding::BidAnswer,
    speech::Directive,
    turn::{Progress, Prompt, TurnEnd},
};
use protocol::{
    a2a::message::Message,
    card::Card,
    envelope::Envelope,
    ids::{AgentId, Capability, ConversationId, Digest, MessageId, QuestionId, TaskId},
    message::{Bid, Cfp, MessageKind},
    principal::{Principal, SenderProof, TaskRoot},
    problem::{Problem, Reason},
    question::Answer,
    signal::{Cursor, Selector, Signal, SignalRecord},
    spaces::request::{SpaceAnswer, SpaceRequest},
    task::{A2aRequestContext, OpenTaskKey, TaskOrigin, TaskState},
    time::{NodeTime, WallTime},
    trace::TraceContext,
    usage::{ModelUsage, Usage},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use store_types::{Batch, Error, Lane, Revision};

/// Identifies a caller that waits for an answer. The shell chooses it; it is answered once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyTo(pub u64);

/// Identifies a commit or a trim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitId(pub u64);

/// Identifies an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId(pub u64);

/// Identifies a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId(pub u64);

/// Identifies a turn of the brain by its effect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnKey {
    pub conversation: ConversationId,
    /// The effect within it.
    pub effect: EffectKey,
}

/// A message from the HTTP edge.
#[derive(Debug, Clone)]
pub struct IncomingMessage {
    pub envelope: Box<Envelope>,
    pub by: Principal,
    /// What proves the sender.
    pub proof: SenderProof,
    /// The digest of its body.
    pub digest: Digest,
    /// The trace context of its request.
    pub trace: Option<TraceContext>,
    /// The A2A request it was made from, if an A2A client sent it.
    pub contact: Option<Box<A2aRequestContext>>,
    /// What began the task that it requests, if that is a schedule or a trigger of this agent.
    pub origin: Option<Box<TaskOrigin>>,
    /// If an agent passes on an approval: why that may count.
    pub approval: Option<RelayedApproval>,
}

/// Why an approval that an agent passes on may count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelayedApproval {
    /// The agent is trusted to pass on what people say: it runs in this process, or the configuration names it.
    ByTrustedAgent,
    /// A person has signed the approval of the question with this digest ([`protocol::identity::approval_digest`]).
    SignedFor(Digest),
}

/// The answer to an admitted message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ack {
    pub message_id: MessageId,
    /// The task it opened or is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The conversation it went to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
    /// Whether it was admitted before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub duplicate: bool,
    /// The bid or the refusal to bid, if the message is a call for proposals: it is the answer in place of the rest.
    #[serde(skip)]
    pub bid: Option<Box<Envelope>>,
}

impl Ack {
    /// The answer to a new message without task and conversation.
    pub(crate) fn of(message_id: MessageId) -> Self {
        Self { message_id, task_id: None, conversation_id: None, duplicate: false, bid: None }
    }
}

/// Identifies a call for proposals that the brain answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BidQuestionId(pub u64);

/// A call for proposals for the brain.
#[derive(Debug, Clone)]
pub struct BidQuestion {
    pub id: BidQuestionId,
    pub cfp: Cfp,
    /// The bid that is made if the brain does not answer.
    pub computed: Bid,
    /// How long the brain has.
    pub within: Duration,
}

/// The inputs of an agent.
#[derive(Debug)]
pub enum Input {
    /// A message was received. → [`Output::Reply`].
    Message(IncomingMessage, ReplyTo),
    /// The messages that follow, until [`Input::ReleaseSteps`], came in one request and share a step where they can.
    HoldSteps,
    /// The end of those messages.
    ReleaseSteps,
    /// A task's owner cancels it. → [`Output::Reply`].
    Cancel {
        task: TaskId,
        by: Principal,
        reason: String,
        /// The calls of models that turns of the task wait for, and what each has used. They are charged if they are cut.
        calls: Vec<(TurnKey, ModelUsage)>,
        reply: ReplyTo,
    },
    /// The owner of a session steers it. → [`Output::Reply`].
    Direct {
        task: TaskId,
        by: Principal,
        directive: Box<Directive>,
        reply: ReplyTo,
    },
    /// A task's owner answers a question. → [`Output::Reply`].
    Answer {
        task: TaskId,
        by: Principal,
        /// The question; if absent, the only open one that takes a text.
        question: Option<QuestionId>,
        answer: Answer,
        /// The answer as an A2A message; it is accepted without an open question, too.
        message: Option<Box<Message>>,
        /// Whether the owner is proven to be a person, who may approve: by the person's token, or as a configured caller.
        is_persons: bool,
        reply: ReplyTo,
    },
    /// Send a dead letter again. → [`Output::Reply`].
    Redrive {
        message: MessageId,
        reply: ReplyTo,
    },
    /// The result of a commit: the revision of each write.
    CommitSettled(CommitId, Result<Vec<Revision>, Error>),
    /// The result of an attempt.
    Attempted(AttemptId, AttemptResult),
    TimerFired(TimerId),
    /// A brain reported progress of a running turn.
    TurnProgress(TurnKey, Vec<Progress>),
    /// A turn ended: the last progress, and how it ended or why it failed.
    TurnEnded(TurnKey, Vec<Progress>, Result<TurnEnd, String>),
    /// The brain's answer to a call for proposals, or why there is none, and what it has used.
    BidAnswered(BidQuestionId, Result<BidAnswer, String>, Usage),
    /// The directory is complete.
    DirectorySynced,
    /// The board's head, for an agent without a cursor.
    BoardHead(Cursor),
    /// A signal the agent subscribes to. → [`Output::Reply`] once it is recorded; the next signal follows after that.
    Signal(Box<SignalRecord>, ReplyTo),
    /// A signal is passed over, because the agent has panicked over it too often. → [`Output::Reply`].
    PassOverSignal(Revision, ReplyTo),
    SubscriptionLost(Problem),
    /// A peer is gone, and why that is known.
    PeerGone(AgentId, String),
    /// The agent's card has changed.
    CardChanged(Arc<Card>),
    /// What the board answers to requests for shares of quotas.
    SharesGranted(Vec<GrantedShare>),
    /// The node drains: requests for new work are refused from here on.
    Drain,
    /// The drain is about to end: work that other agents can do is handed back.
    HandBack,
    /// Start a retention sweep.
    Sweep,
    /// The answer to [`Output::Continue`].
    Continue,
}

/// The outputs of an agent: what the shell must do.
#[derive(Debug)]
pub enum Output {
    /// Write a batch. → [`Input::CommitSettled`].
    Commit(CommitId, Lane, Batch),
    Reply(ReplyTo, Result<Ack, Problem>),
    /// Make one attempt. → [`Input::Attempted`].
    Attempt(AttemptId, Attempt),
    /// Run a turn of the brain. → [`Input::TurnProgress`]*, then [`Input::TurnEnded`].
    StartTurn(Box<TurnStart>),
    /// Ask the brain for a bid. → [`Input::BidAnswered`].
    AskBid(Box<BidQuestion>),
    /// Stop a turn; no input follows.
    StopTurn(TurnKey),
    /// So many more checkpoints of a running turn are durable, in the order in which they were reported.
    CheckpointsRecorded(TurnKey, usize),
    /// Set a timer. → [`Input::TimerFired`].
    SetTimer(TimerId, Duration),
    /// Clear a timer; no input follows.
    ClearTimer(TimerId),
    /// Follow the board. Without a cursor, read its head first. → [`Input::BoardHead`] or [`Input::Signal`]*, then
    /// [`Input::SubscriptionLost`].
    Subscribe(Selector, Option<Cursor>),
    /// A conversation has ended: the brain for this capability cancels remote work that it started for it.
    ReleaseBrain(ConversationId, Option<Capability>),
    /// Count something, or show it in traces.
    Observed(Observation),
    /// Ask the board for shares of quotas, or give them back. → [`Input::SharesGranted`].
    AskShares(Vec<ShareRequest>),
    /// There is more to do. → [`Input::Continue`], after the inputs that wait.
    Continue,
    /// The result of a commit is unknown. Only a restart of the process recovers the state.
    Fatal(String),
}

/// One attempt at something outside of the agent.
#[derive(Debug, Clone)]
pub enum Attempt {
    /// Deliver messages to a peer, in one request. → [`AttemptResult::Delivered`] or [`AttemptResult::Failed`].
    Deliver(Box<Delivery>),
    /// Put signals of one conversation on the board, in order and in one request. → [`AttemptResult::Published`] or
    /// [`AttemptResult::Failed`].
    Publish(Vec<Signal>),
    /// Ask a space of the board. → [`AttemptResult::SpaceAnswered`] or [`AttemptResult::Failed`].
    AskSpace(Box<SpaceRequest>),
    /// Make, renew or end a claim on the board.
    Claim(OpenTaskKey, ClaimRequest),
}

/// Messages of one conversation to one peer, in order. Only the first may open a conversation.
#[derive(Debug, Clone)]
pub struct Delivery {
    pub to: AgentId,
    pub at: PeerLocation,
    /// The messages, at least one.
    pub messages: Vec<Envelope>,
    /// The trace that the first belongs to.
    pub trace: Option<TraceContext>,
}

/// The result of one message: it was acknowledged, perhaps with a bid that answers a call for proposals, or it was refused.
pub type MessageResult = Result<Option<Box<Envelope>>, Problem>;

/// The result of an attempt.
#[derive(Debug, Clone)]
pub enum AttemptResult {
    /// The recipient answered each message of the delivery, in order. The list is shorter than the delivery if the rest was
    /// not sent.
    Delivered(Vec<MessageResult>),
    /// The signals are on the board, with these revisions, up to the first that was refused. The list is shorter than the
    /// request if the rest was not sent.
    Published(Vec<Result<Revision, Problem>>),
    /// The board's answer to a claim request: `Claimed`, `ClaimLost` or `ClaimEnded`.
    Claim(EventKind),
    /// The answer of a space of the board.
    SpaceAnswered(SpaceAnswer),
    Failed(Problem),
}

/// The start of a turn.
#[derive(Debug, Clone)]
pub struct TurnStart {
    /// The turn's key; the same after a crash.
    pub key: TurnKey,
    pub prompt: Prompt,
    /// When it must have ended, if before the node's own limit.
    pub deadline: Option<WallTime>,
    /// The trace it belongs to.
    pub trace: Option<TraceContext>,
    /// Whether another bidder would get the work if it is handed back.
    pub has_runner_up: bool,
    /// The root of its work.
    pub root: Option<TaskRoot>,
}

/// Something that is counted, or shown in traces. Each is emitted once, after it is durable.
#[derive(Debug)]
pub enum Observation {
    /// A message was admitted.
    Taken(MessageKind),
    /// A message was a duplicate.
    Duplicate,
    /// A message was refused.
    Refused(Reason),
    /// A bid was received.
    BidReceived,
    /// A call for proposals was answered.
    CallAnswered {
        call: Box<Envelope>,
        by: Principal,
        answer: Box<Envelope>,
        /// The trace context of its request.
        trace: Option<TraceContext>,
        /// When it was received.
        at: WallTime,
    },
    /// A round of bidding began.
    RoundStarted,
    Awarded,
    /// A quota is used up, or nearly.
    Quota(QuotaNotice),
    /// The result of a delivery attempt.
    Tried(DeliveryAttemptOutcome),
    /// A message was given up.
    GivenUp(Reason),
    TaskEnded(TaskState),
    /// Steps after `from` up to `to` of an ended conversation are durable.
    StepsOfEnded {
        conversation: ConversationId,
        trace: Option<TraceContext>,
        /// The last step that was reported before.
        from: u64,
        to: u64,
    },
}

/// The result of one attempt to deliver a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryAttemptOutcome {
    Delivered,
    /// It will be retried.
    Retried,
    /// It was given up.
    GivenUp,
}

/// The progress of a turn, and its end or why it failed.
pub type InstantAnswer = (Vec<Progress>, Result<TurnEnd, String>);

/// Where a peer can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerLocation {
    Here,
    At(String),
    /// It is not there, but may come back.
    Away {
        since: WallTime,
    },
    /// It has left, or has been away for longer than it may be.
    Left,
    Unknown,
}

impl PeerLocation {
    /// Whether it listens at an address of this machine alone.
    pub fn is_on_this_machine(&self) -> bool {
        let Self::At(endpoint) = self else { return matches!(self, Self::Here) };
        let host = endpoint.split_once("://").map_or(endpoint.as_str(), |(_, rest)| rest);
        let host = host.split('/').next().unwrap_or_default();
        let host = host.rsplit_once(':').map_or(host, |(host, _)| host).trim_matches(['[', ']']);
        host == "localhost" || host == "::1" || host.starts_with("127.")
    }

    /// Whether it is known and not there.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Away { .. } | Self::Left)
    }
}

/// The problem that `agent` is away since then.
pub fn away(agent: &AgentId, since: WallTime) -> Problem {
    Problem::new(Reason::AgentAway, format!("{agent} is away since {since}"))
}

/// The directory of peers.
pub trait PeerDirectory {
    /// The peers with `capability`, ordered by id; `track_record` is not filled in.
    fn candidates(&self, capability: &Capability) -> Vec<Candidate>;

    /// Whether a live peer has `capability`.
    fn has(&self, capability: &Capability) -> bool;

    /// The skills of all live peers, without tags.
    fn skills(&self) -> BTreeSet<Capability>;

    /// Whether `agent` is the name of an agent that is or was registered, compared without case. No user may use it.
    fn knows(&self, agent: &AgentId) -> bool;

    /// Where `agent` can be reached.
    fn locate(&self, agent: &AgentId) -> PeerLocation;

    /// Whether the directory is complete.
    fn is_synced(&self) -> bool;
}

/// Time, randomness and the directory. Together with the inputs and the store, this is all that an agent reads.
pub trait World {
    /// The node's clock, which never goes back.
    fn now(&self) -> NodeTime;

    /// The wall clock.
    fn wall(&self) -> WallTime;

    /// A new id, as the text of a UUIDv7 (RFC 9562).
    fn uuid(&mut self) -> String;

    /// A random number.
    fn random(&mut self) -> u64;

    /// Whether a trace is sampled. `parent` says whether its parent is; `None` for a new trace.
    fn samples(&self, parent: Option<bool>, trace: u128) -> bool;

    /// The peers.
    fn directory(&self) -> &dyn PeerDirectory;

    /// The turn's progress and end, if they follow from the prompt alone: without I/O, without a pause, and the same whenever
    /// it is asked again. `None` for a turn that has to be run, which is most of them.
    fn answer_at_once(&self, prompt: &Prompt) -> Option<InstantAnswer>;

    /// Runs a rule. A panic in it ends the step, not the agent.
    fn run_rule(&self, pattern: &mut AnyPattern, event: &Event) -> Vec<Effect> {
        pattern.on(event)
    }
}
