//! The labels, timers and limits of a delegation.

use crate::{
    patterns::{
        contract_net::{ContractNetLabel, ContractNetTimer},
        ownership::{ReportLabel, from_report_label},
        session::SessionTimer,
    },
    usage::TaskBounds,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub(super) type DelegationEvent = crate::patterns::Event<DelegationLabel, DelegationTimer>;
pub(super) type DelegationEffect = crate::patterns::Effect<DelegationLabel, DelegationTimer>;

/// The labels of a delegation's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DelegationLabel {
    /// The acceptance of the award.
    Accept,
    /// The decline of the award.
    Decline,
    /// A report to the requester, without chunks of artifacts.
    Update,
    /// A report with chunks.
    Chunks,
    /// The result to the requester.
    Response,
    /// A request to another agent.
    Request(RequestKey),
    /// The owner's answer, passed on to an agent that asked.
    Answer,
    /// The cancel of a request that is no longer needed.
    Withdraw,
    /// The review of a result.
    Review,
    /// An entry for a space of the board, or its curation.
    Space,
    /// A label of the auction that follows a failure of the agent's own brain.
    Auction(ContractNetLabel),
}

from_report_label!(DelegationLabel);

impl DelegationLabel {
    /// Whether it is a report under the award.
    pub(super) fn is_report(self) -> bool {
        matches!(self, Self::Accept | Self::Update | Self::Chunks | Self::Response)
    }
}

/// The timers of a delegation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DelegationTimer {
    Deadline,
    /// The next report that renews the lease.
    Renew,
    /// The end of the time in which an answer to a request is awaited.
    Request(RequestKey),
    /// The end of a pause.
    Resume,
    /// The end of the time in which a review is awaited.
    Review,
    /// A timer of the session that the task is.
    Session(SessionTimer),
    /// A timer of the auction that follows a failure of the agent's own brain.
    Auction(ContractNetTimer),
}

/// Names a request: the turn that made it, and its index there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestKey(pub u32, pub u32);

/// How long an agent waits for the results of its requests, and what the work on one task may use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkLimits {
    /// For an answer to a help request.
    pub help: Duration,
    /// For the result of a delegated task.
    pub delegate: Duration,
    /// What the work on one task may use.
    #[serde(default, skip_serializing_if = "TaskBounds::is_default")]
    pub bounds: TaskBounds,
    /// Whether its brain does not say what it uses.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unmetered: bool,
}

impl Default for WorkLimits {
    fn default() -> Self {
        Self {
            help: Duration::from_secs(120),
            delegate: Duration::from_secs(3_600),
            bounds: TaskBounds::default(),
            is_unmetered: false,
        }
    }
}
