//! What was used: one record for each conversation and hour, written in the step that uses it.

use crate::records::{keys, lists};
use protocol::{
    ids::{AgentId, Capability, ConversationId, TaskId},
    principal::Principal,
    quota::{Amount, QuotaPeriod},
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use store_types::{Error, Snapshot, Write};

/// What one conversation has used in one hour, by calls of this agent's brain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Expense {
    /// `2026-11-29T20`, by UTC.
    pub hour: String,
    /// Who asked first.
    pub requester: Principal,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<Capability>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The task from which it comes, if it is a part of another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<TaskId>,
    #[serde(flatten)]
    pub amount: Amount,
    /// Whether the task was asked for from outside of the mesh in this hour.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_asked: bool,
}

impl Expense {
    /// Nothing yet, at `now`.
    pub fn new(requester: Principal, now: WallTime) -> Self {
        Self {
            hour: QuotaPeriod::Hour.window(now).label,
            requester,
            capability: None,
            task: None,
            run: None,
            amount: Amount::default(),
            is_asked: false,
        }
    }

    /// What counts for a quota of the mesh: of tasks only those that are asked for from outside.
    pub(crate) fn of_mesh(&self) -> Amount {
        Amount { tasks: u64::from(self.is_asked), ..self.amount }
    }

    /// The write that adds it to what `conversation` has used in the hour before.
    pub(crate) fn write(
        &self,
        (me, conversation): (&AgentId, &ConversationId),
        now: WallTime,
        store: &dyn Snapshot,
    ) -> Result<Write, Error> {
        let key = keys::expense(me, &self.hour, conversation.as_str());
        let unwritable = |error: serde_json::Error| Error::Refused(error.to_string());
        let mut sum = self.clone();
        if let Some(record) = store.latest(&key)? {
            let before: Self = serde_json::from_slice(&record.value).map_err(unwritable)?;
            sum.amount = before.amount.plus(sum.amount);
            sum.is_asked |= before.is_asked;
        }
        let entry = lists::aged(&key, now);
        Ok(Write::PutListed(key, serde_json::to_vec(&sum).map_err(unwritable)?.into(), vec![entry]))
    }
}
