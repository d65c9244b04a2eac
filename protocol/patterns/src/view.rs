//! What the engine asks of a conversation, whatever its pattern is.

use super::{
    ChunkRange, Label,
    context::{ContextStart, TaskContext},
    contract_net::record::AwardRecord,
    speech::{Directive, DirectiveOutcome},
    work::Hosting,
};
use protocol::{
    artifact::Artifact,
    envelope::Envelope,
    ids::{AgentId, Capability, SpaceId, TaskId},
    message::{Epoch, Payload},
    principal::{Principal, RootProof},
    question::Question,
    signal::Signal,
    task::TaskSpec,
    time::NodeTime,
    usage::{RemainingBudget, Usage},
};
use serde_json::Value;
use std::collections::BTreeSet;

/// The state of a pattern, as far as it matters to the engine. A member that does not apply is absent.
#[derive(Debug, Clone, Copy, Default)]
pub struct View<'a> {
    /// How far its work is, if it is unfinished work of this agent.
    pub work: Option<WorkPhase>,
    /// How far its auction is, if it waits for a place at a bidder or has one.
    pub auction: Option<AuctionView<'a>>,
    /// Whether another bidder would get the work if it is handed back.
    pub has_runner_up: bool,
    /// Why a bid won, if bids were called for.
    pub award: Option<&'a AwardRecord>,
    /// The peer that holds the award in force, and the label of that award.
    pub awarded: Option<(&'a AgentId, Label)>,
    /// Which reports are refused: those under an award that is not in force any more.
    pub fence: Option<AwardFence<'a>>,
    /// The agent that has awarded the work.
    pub manager: Option<&'a AgentId>,
    /// Whether its work is done and its end waits for the agent or board that granted the work.
    pub is_closing: bool,
    /// The open task of the board that it does or claims.
    pub open_task: Option<OpenTaskView<'a>>,
    /// The signal that it reacts to.
    pub signal: Option<&'a Signal>,
    /// The dead letter that it sends again.
    pub dead_letter: Option<&'a Envelope>,
    /// The session that it hosts.
    pub session: Option<SessionView<'a>>,
    /// The context of its task.
    pub context: Option<&'a TaskContext>,
    /// What its running turn is given that changes while the turn runs.
    pub turn: RecordedTurnProgress<'a>,
    /// The principal at the root of its work and how that was proved, if it works for one.
    pub root: Option<(&'a Principal, Option<RootProof>)>,
    /// The space that it belongs to, if it has no task that says so.
    pub space: Option<&'a SpaceId>,
    /// The agents through which a question has come.
    pub path: &'a [AgentId],
    /// The open questions to a person, if it has no task that shows them.
    pub questions: &'a [Question],
}

/// The awards of a task whose reports are refused.
#[derive(Debug, Clone, Copy)]
pub struct AwardFence<'a> {
    pub(super) task: &'a TaskId,
    /// The award in force.
    pub(super) in_force: Option<Epoch>,
    /// The last award.
    pub(super) last: Epoch,
}

impl AwardFence<'_> {
    /// Why a message of `agent` is refused as `fenced`.
    pub fn why_fenced(&self, agent: &AgentId, payload: &Payload) -> Option<String> {
        let epoch = payload.reported_epoch()?;
        let why = match self.in_force {
            Some(in_force) if epoch < in_force => "a later award is in force",
            None if epoch > 0 && epoch <= self.last => "that award was taken back",
            Some(_) | None => return None,
        };
        Some(format!("award {epoch} of task {} to {agent}: {why}", self.task))
    }
}

/// The session that a conversation hosts.
#[derive(Debug, Clone, Copy)]
pub struct SessionView<'a>(pub(super) &'a Hosting);

impl SessionView<'_> {
    /// The session as people see it.
    pub fn shown(&self) -> Option<Value> {
        self.0.shown()
    }

    /// What would become of a directive, or why it is refused.
    pub fn check_directive(&self, directive: &Directive) -> Result<DirectiveOutcome, String> {
        self.0.check_directive(directive)
    }
}

/// What a turn is given of the progress so far, and what it may still use. If it begins again after a crash, its own progress is
/// part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RecordedTurnProgress<'a> {
    /// The chunks of the artifacts that have been produced.
    pub produced: ChunkRange,
    /// Further ones, which are in the state of the conversation.
    pub artifacts: &'a [Artifact],
    /// The checkpoints that count.
    pub checkpoints: ChunkRange,
    /// From where the task goes on, if it belongs to a context.
    pub context: Option<&'a ContextStart>,
    /// What the task has used.
    pub used: Usage,
    /// What is left of its bounds.
    pub remaining: RemainingBudget,
}

/// How far the work of a conversation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkPhase {
    /// A turn runs, waits for a free slot, or is about to be decided: it counts against the card's `maxParallel`.
    Active,
    /// It waits for other agents.
    AwaitsAgents,
    /// It waits for a person's answer, which may never arrive.
    AwaitsPerson,
    /// It goes on after a pause.
    Paused,
    /// It has not begun: it waits for a quota, and takes no place.
    Held,
}

/// An auction, for the queue of those that wait for a place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AuctionView<'a> {
    /// The capability of the task.
    pub capability: &'a Capability,
    /// The principal at the root of the task.
    pub principal: &'a Principal,
    /// How far it is.
    pub phase: AuctionPhase<'a>,
}

/// How far an auction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuctionPhase<'a> {
    /// It waits for a place. → [`EventKind::CallDue`]
    Waiting {
        /// When a place is expected to be free.
        until: NodeTime,
    },
    /// It waits for an agent that is away. → [`EventKind::CallDue`]
    Absent {
        /// The agents that are there and can't be asked.
        passed_over: &'a BTreeSet<AgentId>,
    },
    /// It has waited and calls again.
    Calling,
    /// A bidder has accepted the task.
    Placed,
}

/// An open task of the board that an agent does or claims.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OpenTaskView<'a> {
    /// The specification of the task.
    pub spec: &'a TaskSpec,
    /// The principal that offered it.
    pub owner: &'a Principal,
    /// The epoch of the claim it is done under.
    pub epoch: Option<Epoch>,
    /// Whether the result of the claim is pending.
    pub is_pending: bool,
}
