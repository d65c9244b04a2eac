//! The tasks of a page, by what its address says.

use super::scope::ConsoleScope;
use crate::tasks::search::{FoundTasks, MAX_SEARCHED, TaskCriteria, TaskSearch, search};
use console::{
    location::ConsoleLocation,
    views::{task_line::TaskLine, tasks::TaskListPage},
};
use protocol::{problem::Problem, time::WallTime};
use store::Error;

/// The tasks of a page.
const PAGE: usize = 50;

/// The page at `at`, without its lists of agents and capabilities.
pub(super) async fn page(scope: &ConsoleScope, at: &ConsoleLocation) -> Result<TaskListPage, Problem> {
    let criteria = criteria(scope, at)?;
    let criteria = match at.before.parse::<i64>() {
        Ok(before) => criteria.not_after(WallTime(before - 1)),
        Err(_) => criteria,
    };
    let agent = at.agent.clone();
    let read = scope.read(move |scope| {
        let found = found(scope, &agent, &criteria, (PAGE, MAX_SEARCHED))?;
        let (next, searched) = (found.next, found.searched);
        Ok(TaskListPage { lines: lines(found), next, searched, ..TaskListPage::default() })
    });
    read.await
}

/// The newest tasks of these states, at most `most`.
pub(super) async fn newest(scope: &ConsoleScope, state: &str, most: usize) -> Result<Vec<TaskLine>, Problem> {
    let criteria =
        criteria(scope, &ConsoleLocation { state: state.to_owned(), ..ConsoleLocation::default() })?;
    let read = scope.read(move |scope| {
        let mut lines = lines(found(scope, "", &criteria, (most, most * 4))?);
        lines.truncate(most);
        Ok(lines)
    });
    read.await
}

/// The filters of an address. Where several agents are shown, a part of a task stands with the whole.
fn criteria(scope: &ConsoleScope, at: &ConsoleLocation) -> Result<TaskCriteria, Problem> {
    let requester = match at.requester.as_str() {
        "" if scope.agents.len() > 1 => scope.by.to_string(),
        requester => requester.to_owned(),
    };
    let (state, capability, text) = (at.state.clone(), at.capability.clone(), at.text.clone());
    TaskSearch { state, capability, requester, text, ..TaskSearch::default() }.criteria(&scope.by)
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
