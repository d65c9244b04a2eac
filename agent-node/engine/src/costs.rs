//! What an agent's brain has used, summed up from its records.

use crate::records::{expense::Expense, keys, scan::every_readable};
use protocol::{
    ids::AgentId,
    principal::Principal,
    quota::{Amount, QuotaPeriod},
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use store_types::{Error, Record, Snapshot};

/// What costs are summed up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CostKey {
    /// The agent whose brain has used it.
    #[default]
    Agent,
    Capability,
    /// Who asked first.
    Requester,
    /// The task from which all others of its run come.
    Task,
    /// By UTC.
    Day,
}

/// A sum.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CostRow {
    /// The agent, capability, requester, task or day.
    pub key: String,
    #[serde(flatten)]
    pub amount: Amount,
}

/// The sums of what the brain of `me` has used from `since` to `now`, for work of `requester` if one is given. Tasks are those in
/// which it has used something.
pub fn costs(
    store: &dyn Snapshot,
    me: &AgentId,
    by: CostKey,
    (since, now): (WallTime, WallTime),
    requester: Option<&Principal>,
) -> Result<Vec<CostRow>, Error> {
    let first = QuotaPeriod::Hour.window(since).label;
    let mut sums: BTreeMap<String, (Amount, BTreeSet<String>)> = BTreeMap::new();
    let mut add = |expense: Expense| {
        if expense.hour < first || requester.is_some_and(|requester| *requester != expense.requester) {
            return;
        }
        let (amount, tasks) = sums.entry(key(by, me, &expense)).or_default();
        *amount = amount.plus(Amount { tasks: 0, ..expense.amount });
        tasks.extend(expense.task.map(|task| task.to_string()));
    };
    let mut month = since;
    loop {
        let window = QuotaPeriod::Month.window(month);
        let each = |record: Record| {
            if let Ok(expense) = serde_json::from_slice(&record.value) {
                add(expense);
            }
        };
        every_readable(store, &keys::expenses(me, &window.label), each, |_, _| {})?;
        if window.ends > now {
            break;
        }
        month = window.ends;
    }
    let row = |(key, (amount, tasks)): (String, (Amount, BTreeSet<String>))| CostRow {
        key,
        amount: Amount { tasks: tasks.len() as u64, ..amount },
    };
    Ok(sums.into_iter().map(row).collect())
}

fn key(by: CostKey, me: &AgentId, expense: &Expense) -> String {
    match by {
        CostKey::Agent => me.to_string(),
        CostKey::Capability => expense.capability.as_ref().map_or("-".to_owned(), ToString::to_string),
        CostKey::Requester => expense.requester.to_string(),
        CostKey::Task => {
            let root = expense.run.as_ref().or(expense.task.as_ref());
            root.map_or("-".to_owned(), ToString::to_string)
        }
        CostKey::Day => QuotaPeriod::Day.label_of(&expense.hour).to_owned(),
    }
}
