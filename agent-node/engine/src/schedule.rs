//! Schedules: when a task of an agent is due, and which of what was due is begun. Pure: the node's clock and the state of the tasks
//! are arguments.
//!
//! A firing is *decided* by [`ScheduleProgress::advance`], *begun* by [`ScheduleProgress::begin`] and *settled* by
//! [`ScheduleProgress::settle`]. The caller records the progress after a firing is begun and before its task is requested, under an
//! id that is the same for the same firing ([`task_id`]): after a crash it is requested again, and the agent knows the task.

mod progress;
mod timing;

#[cfg(test)]
mod tests;

pub use progress::{FiringOutcome, ScheduleProgress, SkippedFiring, StartedFiring};
pub use timing::Timing;

use protocol::{
    bid::Eta,
    ids::{AgentId, BadId, Capability, TaskId},
    time::WallTime,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The longest name of a schedule or trigger: the ids of its tasks begin with it.
pub const MAX_NAME: usize = 40;

/// A schedule, as a file or a request gives it.
// The doc comments are descriptions in the published JSON Schema.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Schedule {
    /// When it is due: minute, hour, day of the month, month and day of the week, or `@hourly`, `@daily`, `@weekly`, `@monthly`. One of `cron`, `every` and `at` must be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// The time zone of `cron`, such as `Europe/Berlin`; UTC if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// The time between two firings, from when the schedule was made: milliseconds, or text like `15m`; at least 1 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<crate::settings::EtaForms>")]
    pub every: Option<Eta>,
    /// When it is due, once (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub at: Option<WallTime>,
    /// What is to be done.
    pub task: String,
    /// The capability that it needs; the agent itself does it if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    pub capability: Option<Capability>,
    /// What to do it with; any JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// What becomes of firings while the agent was not there: `latest` (the newest is made up for, which is meant if absent), `all` (each is, at most 100), or `skip`.
    #[serde(default)]
    pub missed: MissedPolicy,
    /// What becomes of a firing while the task of the one before runs: `skip` (meant if absent), `wait`, or `allow` (both run).
    #[serde(default)]
    pub overlap: OverlapPolicy,
}

/// What becomes of firings while the agent was not there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MissedPolicy {
    /// The newest is made up for.
    #[default]
    Latest,
    /// Each is made up for.
    All,
    /// None is.
    Skip,
}

/// What becomes of a firing while the task of the one before runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OverlapPolicy {
    /// It is left out.
    #[default]
    Skip,
    /// It waits for the end of that task.
    Wait,
    /// Both run.
    Allow,
}

/// What is wrong with a schedule: the key, and what it must be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {what}")]
pub struct BadSchedule {
    pub key: &'static str,
    pub what: String,
}

impl BadSchedule {
    fn new(key: &'static str, what: impl Into<String>) -> Self {
        Self { key, what: what.into() }
    }
}

impl Schedule {
    /// When it is due, if it was made at `made`. Fails if it makes no sense, or is never due.
    pub fn timing(&self, made: WallTime) -> Result<Timing, BadSchedule> {
        if self.task.trim().is_empty() {
            return Err(BadSchedule::new("task", "says what is to be done; it is empty"));
        }
        if (self.missed, self.overlap) == (MissedPolicy::All, OverlapPolicy::Skip) {
            let what = "all needs `overlap: wait` or `overlap: allow`: with skip one run leaves out the next";
            return Err(BadSchedule::new("missed", what));
        }
        if self.timezone.is_some() && self.cron.is_none() {
            return Err(BadSchedule::new("timezone", "is for `cron`; `at` has its offset in the time"));
        }
        match (&self.cron, self.every, self.at) {
            (Some(cron), None, None) => Timing::cron(cron, self.timezone.as_deref(), made),
            (None, Some(every), None) => Timing::every(every, made),
            (None, None, Some(at)) => Ok(Timing::Once(at)),
            _ => Err(BadSchedule::new("", "needs `cron`, `every` or `at`, one of them")),
        }
    }

    /// Whether `other` is due at the same times, if both were made at the same time.
    pub fn is_due_like(&self, other: &Self) -> bool {
        (&self.cron, &self.timezone, self.every, self.at)
            == (&other.cron, &other.timezone, other.every, other.at)
    }
}

/// Fails if `name` can't name a schedule or a trigger.
pub fn check_name(name: &str) -> Result<(), String> {
    match AgentId::parse(name) {
        Ok(_) if name.len() <= MAX_NAME && !name.contains('.') => Ok(()),
        _ => Err(format!("a name is letters, digits, `_` and `-`, at most {MAX_NAME}, got {name:?}")),
    }
}

/// The id of the task of the firing of the schedule `name` that is due at `due`: the name and the second, in UTC.
pub fn task_id(name: &str, due: WallTime) -> Result<TaskId, BadId> {
    let due = due.to_string();
    let second = due.split('.').next().unwrap_or_default().replace(['-', ':'], "");
    TaskId::parse(&format!("{name}-{second}Z"))
}
