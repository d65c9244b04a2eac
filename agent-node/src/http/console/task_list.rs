//! The tasks of a page, by what its address says.

use super::scope::ConsoleScope;
use crate::{http::node_state::HostedAgent, tasks};
use console::{
    location::ConsoleLocation,
    views::{
        task_line::TaskLine,
        tasks::{TaskListPage, states},
    },
};
use engine::{
    content,
    records::{TaskRow, lists::TaskFilter},
};
use patterns::session::{is_shown_to, shows_confidential_to};
use protocol::{
    ids::AgentId,
    task::{Task, TaskState},
};
use std::cmp::Reverse;
use store::{Error, ListedKey};

/// The tasks of a page.
const PAGE: usize = 50;
/// The most tasks that are compared with the filters for one page.
const MAX_SEARCHED: usize = 2_000;

/// The page at `at`, without its lists of agents and capabilities.
pub(super) fn page(scope: &ConsoleScope, at: &ConsoleLocation) -> Result<TaskListPage, Error> {
    let until = at.before.parse::<i64>().ok().map(|before| before - 1);
    let mut keys = keys(scope, at, until, MAX_SEARCHED + 1)?;
    keys.sort_by_key(|(listed, _)| Reverse(listed.position.at));
    let mut page = TaskListPage::default();
    let mut last = None;
    for (ListedKey { position, key }, local) in keys {
        // All tasks of one millisecond are on one page, so that the next one begins behind them.
        if (page.lines.len() >= PAGE || page.searched >= MAX_SEARCHED) && last != Some(position.at) {
            page.next = last;
            break;
        }
        (page.searched, last) = (page.searched + 1, Some(position.at));
        let Some(record) = local.store.latest(&key)? else { continue };
        let row: TaskRow = content::decode(&local.id, local.store.as_ref(), &record.value)?;
        if is_shown(scope, &row.task) && matches(scope, at, &row.task) {
            page.lines.push(TaskLine::of(&local.id, &row.task));
        }
    }
    Ok(page)
}

/// The newest tasks in one of `states`, at most `most`.
pub(super) fn newest(scope: &ConsoleScope, state: &str, most: usize) -> Result<Vec<TaskLine>, Error> {
    let at = ConsoleLocation { state: state.to_owned(), ..ConsoleLocation::default() };
    let mut keys = keys(scope, &at, None, most * 2)?;
    keys.sort_by_key(|(listed, _)| Reverse(listed.position.at));
    let mut lines = Vec::new();
    for (ListedKey { key, .. }, local) in keys {
        let Some(record) = local.store.latest(&key)? else { continue };
        let row: TaskRow = content::decode(&local.id, local.store.as_ref(), &record.value)?;
        if lines.len() < most && is_shown(scope, &row.task) && matches(scope, &at, &row.task) {
            lines.push(TaskLine::of(&local.id, &row.task));
        }
    }
    Ok(lines)
}

/// The newest tasks of one agent, at most `most`.
pub(super) fn of_agent(scope: &ConsoleScope, agent: &AgentId, most: usize) -> Result<Vec<TaskLine>, Error> {
    let Some(local) = scope.agents.iter().find(|local| local.id == *agent) else { return Ok(Vec::new()) };
    let tasks = tasks::list(local.store.as_ref(), agent, (&scope.by, scope.proof), most)?;
    Ok(tasks.iter().map(|task| TaskLine::of(agent, task)).collect())
}

/// The tasks whose status says that they wait for one of the quotas of these names; `most` open tasks of each agent are looked at.
pub(super) fn held_by(scope: &ConsoleScope, quotas: &[String], most: usize) -> Result<Vec<TaskLine>, Error> {
    let at = ConsoleLocation { state: "working".to_owned(), ..ConsoleLocation::default() };
    let mut lines = Vec::new();
    for (ListedKey { key, .. }, local) in keys(scope, &at, None, most)? {
        let Some(record) = local.store.latest(&key)? else { continue };
        let row: TaskRow = content::decode(&local.id, local.store.as_ref(), &record.value)?;
        let message = row.task.status.message.as_deref().unwrap_or_default();
        if is_shown(scope, &row.task) && quotas.iter().any(|name| message.contains(name.as_str())) {
            lines.push(TaskLine::of(&local.id, &row.task));
        }
    }
    Ok(lines)
}

/// The newest tasks of each agent in the states of `at`, at most `most` of each.
fn keys<'a>(
    scope: &'a ConsoleScope,
    at: &ConsoleLocation,
    until: Option<i64>,
    most: usize,
) -> Result<Vec<(ListedKey, &'a HostedAgent)>, Error> {
    let wanted: Vec<Option<TaskState>> = match (at.state.as_str(), states(&at.state)) {
        (ENDED, _) => ENDS.into_iter().map(Some).collect(),
        (_, Some(states)) => states.iter().copied().map(Some).collect(),
        (_, None) => vec![None],
    };
    let hides_confidential = !shows_confidential_to(&scope.by, scope.proof);
    let mut keys = Vec::new();
    let agents = scope.agents.iter().filter(|local| at.agent.is_empty() || local.id.as_str() == at.agent);
    for local in agents {
        for state in &wanted {
            let filter = TaskFilter { state: *state, hides_confidential, ..TaskFilter::default() };
            let query = store::ListQuery { until, ..filter.of_principal(&local.id, &scope.by) };
            keys.extend(local.store.list(&query, most)?.into_iter().map(|listed| (listed, local)));
        }
    }
    Ok(keys)
}

/// The word for all states of ended tasks.
pub(super) const ENDED: &str = "ended";
const ENDS: [TaskState; 4] =
    [TaskState::Completed, TaskState::Failed, TaskState::Canceled, TaskState::Rejected];

/// Whether the viewer may see the task.
pub(super) fn is_shown(scope: &ConsoleScope, task: &Task) -> bool {
    task.is_visible_to(&scope.by) && is_shown_to(task, &scope.by, scope.proof)
}

fn matches(scope: &ConsoleScope, at: &ConsoleLocation, task: &Task) -> bool {
    let spec = &task.spec;
    let has_text = || {
        let text = at.text.to_lowercase();
        spec.task_id.as_str().contains(&at.text) || spec.description.to_lowercase().contains(&text)
    };
    let has_requester = || match at.requester.as_str() {
        // Where several agents are shown, a part of a task stands with the whole.
        "" => scope.agents.len() == 1 || task.owner == scope.by,
        requester => task.owner.to_string() == requester,
    };
    let capability = spec.capability.as_ref().map_or("", |capability| capability.as_str());
    (at.capability.is_empty() || at.capability == capability)
        && has_requester()
        && (at.text.is_empty() || has_text())
}
