//! The tasks of a page, by what its address says.

use super::scope::ConsoleScope;
use crate::clock::wall_time;
use crate::tasks::search::{FoundTasks, MAX_SEARCHED, TaskCriteria, TaskSearch, search};
use console::{
    location::ConsoleLocation,
    views::{
        task_line::TaskLine,
        tasks::{TaskListPage, states},
    },
};
use patterns::session::is_shown_to;
use protocol::{ids::AgentId, task::Task, time::WallTime};
use store::Error;

/// The tasks of a page.
pub(super) const PAGE: usize = 50;
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// The page of at most `most` tasks at `at`, without its lists of agents and capabilities.
pub(super) fn page(scope: &ConsoleScope, at: &ConsoleLocation, most: usize) -> Result<TaskListPage, Error> {
    let found = found(scope, &at.agent, &criteria(scope, at), (most, MAX_SEARCHED))?;
    let (next, searched) = (found.next, found.searched);
    Ok(TaskListPage { lines: lines(found), next, searched, ..TaskListPage::default() })
}

/// The same address, of the viewer's own tasks if it names no requester.
pub(super) fn of_requester(scope: &ConsoleScope, at: &ConsoleLocation) -> ConsoleLocation {
    let requester = if at.requester.is_empty() { scope.by.to_string() } else { at.requester.clone() };
    ConsoleLocation { requester, ..at.clone() }
}

/// The newest tasks in one of `states`, at most `most`.
pub(super) fn newest(scope: &ConsoleScope, state: &str, most: usize) -> Result<Vec<TaskLine>, Error> {
    let at = ConsoleLocation { state: state.to_owned(), ..ConsoleLocation::default() };
    let mut lines = lines(found(scope, "", &criteria(scope, &at), (most, most * 4))?);
    lines.truncate(most);
    Ok(lines)
}

/// The newest tasks of one agent, at most `most`.
pub(super) fn of_agent(scope: &ConsoleScope, agent: &AgentId, most: usize) -> Result<Vec<TaskLine>, Error> {
    Ok(lines(found(scope, agent.as_str(), &TaskCriteria::default(), (most, most))?))
}

/// The task of an agent that failed last, within a day.
pub(super) fn last_failure(scope: &ConsoleScope, agent: &AgentId) -> Result<Option<TaskLine>, Error> {
    let since = WallTime(wall_time().0 - DAY_MS).to_string();
    let failed = TaskSearch { state: "failed".to_owned(), since, ..TaskSearch::default() };
    let criteria = failed.criteria(&scope.by).unwrap_or_default();
    Ok(lines(found(scope, agent.as_str(), &criteria, (1, PAGE))?).into_iter().next())
}

/// The tasks whose status says that they wait for one of the quotas of these names; `most` open tasks are looked at.
pub(super) fn held_by(scope: &ConsoleScope, quotas: &[String], most: usize) -> Result<Vec<TaskLine>, Error> {
    let at = ConsoleLocation { state: "working".to_owned(), ..ConsoleLocation::default() };
    let mut open = found(scope, "", &criteria(scope, &at), (most, most))?;
    open.rows.retain(|(_, row)| {
        let message = row.task.status.message.as_deref().unwrap_or_default();
        quotas.iter().any(|name| message.contains(name.as_str()))
    });
    Ok(lines(open))
}

/// Whether the viewer may see the task.
pub(super) fn is_shown(scope: &ConsoleScope, task: &Task) -> bool {
    task.is_visible_to(&scope.by) && is_shown_to(task, &scope.by, scope.proof)
}

/// The word for all states of ended tasks.
pub(super) const ENDED: &str = "ended";

/// How long ago `since` is in an address, in days.
fn days(since: &str) -> Option<i64> {
    since.strip_suffix('d')?.parse().ok().filter(|days| (1..=3_650).contains(days))
}

/// The filters of an address; an unknown state is any. Where several agents are shown, a part of a task stands with the whole.
pub(super) fn filters(scope: &ConsoleScope, at: &ConsoleLocation) -> TaskSearch {
    let requester = match at.requester.as_str() {
        "" if scope.spans => scope.by.to_string(),
        requester => requester.to_owned(),
    };
    let state = if states(&at.state).is_some() { at.state.clone() } else { String::new() };
    let since = days(&at.since).map(|days| WallTime(wall_time().0 - days * DAY_MS).to_string());
    let until = at.before.parse().ok().map(|before: i64| WallTime(before.saturating_sub(1)).to_string());
    TaskSearch {
        state,
        requester,
        capability: at.capability.clone(),
        waiting_for: at.waiting_for.clone(),
        space: at.space.clone(),
        text: at.text.clone(),
        since: since.unwrap_or_default(),
        until: until.unwrap_or_default(),
        min_cost: at.min_cost.clone(),
        ..TaskSearch::default()
    }
}

fn criteria(scope: &ConsoleScope, at: &ConsoleLocation) -> TaskCriteria {
    filters(scope, at).criteria(&scope.by).unwrap_or_default()
}

fn found<'a>(
    scope: &'a ConsoleScope,
    agent: &str,
    criteria: &TaskCriteria,
    bounds: (usize, usize),
) -> Result<FoundTasks<'a>, Error> {
    let agents = scope.agents.iter().filter(|local| agent.is_empty() || local.id.as_str() == agent);
    let agents = agents.map(|local| (&local.id, local.store.as_ref()));
    search(agents, (&scope.by, scope.proof), criteria, bounds)
}

fn lines(found: FoundTasks<'_>) -> Vec<TaskLine> {
    found.rows.iter().map(|(agent, row)| TaskLine::of(agent, &row.task)).collect()
}
