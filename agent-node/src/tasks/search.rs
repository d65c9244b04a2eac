//! Which tasks a list shows: one search for `GET /a2a/tasks`, and so for the command line, and for the console.

use super::with_artifacts;
use console::views::tasks::{state_words, states};
use engine::{
    content,
    records::{TaskRow, lists::TaskFilter},
};
use patterns::session::{is_shown_to, shows_confidential_to};
use protocol::{
    ids::AgentId,
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
    task::{Task, TaskState},
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use store::{Error, ListQuery, ListedKey, MAX_READ, Revision, Store};

/// The most tasks of each agent and state that are compared with filters.
pub const MAX_SEARCHED: usize = 2_000;

/// The requester that stands for the caller.
pub const ME: &str = "me";

/// A task waits for a person's answer or login.
pub const PERSON: &str = "person";
/// It has not begun: it waits for a bidder, a free place or a quota.
pub const PLACE: &str = "place";
/// It waits for any other agent.
pub const AGENT: &str = "agent";

/// The filters of a list of tasks, as the query of an address has them. A member that is empty is not set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct TaskSearch {
    /// The most tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Whether the tasks have their artifacts, as they have if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_artifacts: Option<bool>,
    /// A group of states, such as `open`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub state: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub capability: String,
    /// What it waits for: [`PERSON`], [`PLACE`], [`AGENT`], or the id of an agent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub waiting_for: String,
    /// The principal that has requested it from the agent, or [`ME`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub requester: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub space: String,
    /// A part of the id or of the description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Its status changed then or later.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub since: String,
    /// Its status changed then or before.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub until: String,
    /// What it has used has cost this or more.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub min_cost: String,
}

/// What an open task waits for, if it waits: [`PERSON`], [`PLACE`], or the agent `doer` that does it.
pub fn waits_for(state: TaskState, doer: Option<&str>) -> Option<&str> {
    match state {
        TaskState::InputRequired | TaskState::AuthRequired => Some(PERSON),
        TaskState::Submitted => Some(PLACE),
        TaskState::Working => doer,
        TaskState::Completed | TaskState::Failed | TaskState::Canceled | TaskState::Rejected => None,
    }
}

/// The filters of a list, checked.
#[derive(Debug, Clone, Default)]
pub struct TaskCriteria {
    search: TaskSearch,
    states: Option<&'static [TaskState]>,
    since: Option<WallTime>,
    until: Option<WallTime>,
    min_cost: Option<f64>,
}

impl TaskSearch {
    /// The newest tasks, at most `limit`, without their artifacts.
    pub fn newest(limit: usize) -> Self {
        Self { limit: Some(limit.to_string()), include_artifacts: Some(false), ..Self::default() }
    }

    /// Whether no filter is set.
    pub fn selects_all(&self) -> bool {
        let (limit, include_artifacts) = (self.limit.clone(), self.include_artifacts);
        *self == Self { limit, include_artifacts, ..Self::default() }
    }

    /// The filters of a list for `by`. Fails with the member that is invalid.
    pub fn criteria(mut self, by: &Principal) -> Result<TaskCriteria, Problem> {
        let invalid = |field: &'static str, why: String| {
            Problem::new(Reason::InvalidField, format!("{field} {why}")).with("field", field)
        };
        let time = |field: &'static str, text: &str| {
            let parsed = (!text.is_empty()).then(|| WallTime::parse(text)).transpose();
            parsed.map_err(|error| invalid(field, format!("is no time: {error}")))
        };
        let states = states(&self.state);
        if states.is_none() && !self.state.is_empty() {
            let words = state_words().collect::<Vec<_>>().join(", ");
            return Err(invalid("state", format!("must be one of {words}")));
        }
        let (since, until) = (time("since", &self.since)?, time("until", &self.until)?);
        let min_cost = (!self.min_cost.is_empty()).then(|| self.min_cost.parse::<f64>());
        let min_cost = min_cost.transpose().ok().filter(|cost| cost.is_none_or(|cost| cost.is_finite()));
        let min_cost = min_cost.ok_or_else(|| invalid("minCost", "must be a number".to_owned()))?;
        if self.requester == ME {
            self.requester = by.to_string();
        }
        self.text = self.text.to_lowercase();
        Ok(TaskCriteria { search: self, states, since, until, min_cost })
    }
}

impl TaskCriteria {
    /// The same, only of tasks whose status changed at `time` or before.
    pub fn not_after(mut self, time: WallTime) -> Self {
        self.until = Some(self.until.map_or(time, |until| until.min(time)));
        self
    }

    /// The queries of the lists of `me` that have the tasks.
    fn queries(&self, me: &AgentId, (by, proof): (&Principal, SenderProof)) -> Vec<ListQuery> {
        let of = |state: Option<TaskState>| {
            let hides_confidential = !shows_confidential_to(by, proof);
            let filter =
                TaskFilter { state, changed_since: self.since, hides_confidential, ..TaskFilter::default() };
            ListQuery { until: self.until.map(|until| until.0), ..filter.of_principal(me, by) }
        };
        match self.states {
            None => vec![of(None)],
            Some(states) => states.iter().map(|state| of(Some(*state))).collect(),
        }
    }

    /// Whether the lists of the store alone select the tasks.
    fn is_in_lists(&self) -> bool {
        let TaskSearch { capability, waiting_for, requester, space, text, .. } = &self.search;
        let compared = [capability, waiting_for, requester, space, text];
        compared.into_iter().all(String::is_empty) && self.min_cost.is_none()
    }

    /// Whether the members that the lists of the store do not compare match.
    fn matches(&self, task: &Task) -> bool {
        let TaskSearch { capability, waiting_for, requester, space, text, .. } = &self.search;
        let spec = &task.spec;
        let is_same = |wanted: &str, given: Option<&str>| wanted.is_empty() || given == Some(wanted);
        let waits = || match waits_for(task.status.state, task.doer.as_ref().map(AgentId::as_str)) {
            Some(PERSON | PLACE) if waiting_for == AGENT => false,
            waits => waits.is_some_and(|_| waiting_for == AGENT) || waits == Some(waiting_for),
        };
        is_same(capability, spec.capability.as_ref().map(|capability| capability.as_str()))
            && (waiting_for.is_empty() || waits())
            && (requester.is_empty() || task.owner.to_string() == *requester)
            && (space.is_empty() || spec.space().as_str() == space)
            && (text.is_empty()
                || spec.task_id.as_str().to_lowercase().contains(text)
                || spec.description.to_lowercase().contains(text))
            && self.min_cost.is_none_or(|cost| task.usage.cost.get() >= cost)
    }
}

/// Tasks that were found, the latest status first, each with its agent.
#[derive(Default)]
pub struct FoundTasks<'a> {
    pub rows: Vec<(&'a AgentId, TaskRow)>,
    /// Behind which time the search goes on, milliseconds since the epoch, if it is not at its end.
    pub next: Option<i64>,
    /// How many tasks were compared with the filters.
    pub searched: usize,
}

/// Searches the tasks of `agents` that `viewer` is shown, up to `most` of them and `max_searched` that are compared. All tasks of one
/// millisecond are found at once, so that the next search begins behind them.
pub fn search<'a>(
    agents: impl Iterator<Item = (&'a AgentId, &'a dyn Store)>,
    (by, proof): (&Principal, SenderProof),
    criteria: &TaskCriteria,
    (most, max_searched): (usize, usize),
) -> Result<FoundTasks<'a>, Error> {
    let max_keys = if criteria.is_in_lists() { most.min(max_searched) } else { max_searched };
    let mut keys = Vec::new();
    // All that has changed since then is listed.
    let mut whole_since = None;
    for (agent, store) in agents {
        for query in criteria.queries(agent, (by, proof)) {
            let (listed, until) = whole_milliseconds(store, query, max_keys)?;
            keys.extend(listed.into_iter().map(|listed| (listed, agent, store)));
            whole_since = whole_since.max(until);
        }
    }
    keys.sort_by_key(|(listed, ..)| Reverse(listed.position.at));
    let mut found = FoundTasks::default();
    let mut last = None;
    for (ListedKey { position, key }, agent, store) in keys {
        let is_full = found.rows.len() >= most || found.searched >= max_searched;
        if is_full && last != Some(position.at) || whole_since > Some(position.at) {
            found.next = last;
            return Ok(found);
        }
        (found.searched, last) = (found.searched + 1, Some(position.at));
        // One that was deleted meanwhile is left out.
        let Some(record) = store.latest(&key)? else { continue };
        let row: TaskRow = content::decode(agent, store, &record.value)?;
        let task = &row.task;
        if task.is_visible_to(by) && is_shown_to(task, by, proof) && criteria.matches(task) {
            found.rows.push((agent, row));
        }
    }
    found.next = whole_since;
    Ok(found)
}

/// The first keys of `query`, `most` or as many more as are of the last one's millisecond. With the time of the last one if there are
/// more behind it.
fn whole_milliseconds(
    store: &dyn Store,
    mut query: ListQuery,
    most: usize,
) -> Result<(Vec<ListedKey>, Option<i64>), Error> {
    let size = (most + 1).min(MAX_READ);
    let mut keys: Vec<ListedKey> = Vec::new();
    loop {
        let page = store.list(&query, size)?;
        let is_last = page.len() < size;
        for key in page {
            let last = keys.last().map(|last| last.position.at).filter(|_| keys.len() >= most);
            if last.is_some_and(|at| at != key.position.at) {
                return Ok((keys, last));
            }
            keys.push(key);
        }
        if is_last {
            return Ok((keys, None));
        }
        query.after = keys.last().map(|last| last.position);
    }
}

/// The newest `limit` tasks of `me` that `viewer` is shown, the latest status first.
pub fn list(
    store: &dyn Store,
    me: &AgentId,
    viewer: (&Principal, SenderProof),
    criteria: &TaskCriteria,
    limit: usize,
) -> Result<Vec<Task>, Error> {
    let found = search([(me, store)].into_iter(), viewer, criteria, (limit, MAX_SEARCHED))?;
    let has_artifacts = criteria.search.include_artifacts.unwrap_or(true);
    let shown = |row| if has_artifacts { with_artifacts(store, me, row, Revision::MAX) } else { Ok(row) };
    found.rows.into_iter().take(limit).map(|(_, row)| Ok(shown(row)?.task)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::records::{keys, lists};
    use protocol::{
        ids::{ConversationId, TaskId},
        task::{Status, TaskSpec},
    };
    use std::collections::BTreeSet;
    use store::{Batch, Lane, Write};

    fn task(state: TaskState, doer: Option<&str>) -> Task {
        let terms =
            serde_json::from_value(serde_json::json!({ "description": "Ship IT", "capability": "ship" }));
        let me = Principal::local_user();
        let spec = TaskSpec::new(TaskId::parse("t-1").unwrap(), terms.unwrap(), me.clone());
        let task = serde_json::json!({
            "spec": spec, "conversation": "c-1", "owner": me, "doer": doer, "status": Status::of(state),
            "changedAt": "2026-11-01T00:00:00Z", "createdAt": "2026-11-01T00:00:00Z",
        });
        serde_json::from_value(task).unwrap()
    }

    fn search_of(query: &str) -> Result<TaskCriteria, Problem> {
        let search: TaskSearch = serde_html_form::from_str(query).unwrap();
        search.criteria(&Principal::local_user())
    }

    #[test]
    fn every_filter_that_is_set_must_match() {
        let working = task(TaskState::Working, Some("b-01"));
        for (query, expected) in [
            ("", true),
            ("capability=ship&text=ship+it&requester=me&waitingFor=b-01&space=default&minCost=0", true),
            ("text=T-1", true),
            ("waitingFor=agent", true),
            ("waitingFor=person", false),
            ("waitingFor=place", false),
            ("waitingFor=b-02", false),
            ("requester=agent:b-01", false),
            ("capability=shi", false),
            ("space=other", false),
            ("minCost=0.5", false),
        ] {
            assert_eq!(search_of(query).unwrap().matches(&working), expected, "{query}");
        }
        let waiting = task(TaskState::InputRequired, Some("b-01"));
        assert!(search_of("waitingFor=person").unwrap().matches(&waiting));
        assert!(!search_of("waitingFor=agent").unwrap().matches(&waiting));
        assert!(search_of("waitingFor=place").unwrap().matches(&task(TaskState::Submitted, None)));
    }

    #[test]
    fn an_invalid_filter_is_named() {
        for (query, named) in
            [("state=odd", "state"), ("since=now", "since"), ("until=x", "until"), ("minCost=NaN", "minCost")]
        {
            let problem = search_of(query).unwrap_err();
            assert!(problem.message.starts_with(named), "{problem:?}");
        }
        assert!(search_of("state=ended&since=2026-11-01T00:00:00Z&minCost=1e-3").is_ok());
    }

    /// The pages of tasks that changed at these times, each with its number of tasks.
    async fn pages(times: impl Iterator<Item = i64>, query: &str, bounds: (usize, usize)) -> Vec<usize> {
        let (store, me) = (store::memory::new(), AgentId::parse("a-1").unwrap());
        let mut writes = Vec::new();
        for (number, at) in times.enumerate() {
            let mut spec = task(TaskState::Working, None).spec;
            spec.task_id = TaskId::parse(&format!("t-{number}")).unwrap();
            let row = TaskRow::new(
                spec,
                Principal::local_user(),
                ConversationId::parse("c-1").unwrap(),
                WallTime(at),
            );
            let key = keys::task(&me, &row.task.spec.task_id, &row.task.owner);
            let bytes = serde_json::to_vec(&row).unwrap();
            let entries = lists::of_task(&me, &key, &row);
            writes.push(Write::PutListed(key, bytes.into(), entries));
        }
        store.commit(Lane::Progress, Batch { writes, ..Batch::default() }).await.unwrap();
        let (mut criteria, mut pages, mut seen) = (search_of(query).unwrap(), Vec::new(), BTreeSet::new());
        let by = Principal::local_user();
        loop {
            let viewer = (&by, SenderProof::Credential);
            let found = search([(&me, store.as_ref())].into_iter(), viewer, &criteria, bounds).unwrap();
            pages.push(found.rows.len());
            for (_, row) in found.rows {
                assert!(seen.insert(row.task.spec.task_id.to_string()), "each is found once");
            }
            let Some(next) = found.next else { return pages };
            criteria.until = Some(WallTime(next - 1));
        }
    }

    #[tokio::test]
    async fn pages_have_each_task_once_however_many_change_in_a_millisecond() {
        assert_eq!(pages([9, 8, 7, 6, 5].into_iter(), "", (2, 100)).await, [2, 2, 1]);
        assert_eq!(pages([9, 8, 8, 8, 8, 7, 6].into_iter(), "", (2, 100)).await, [5, 2]);
        assert_eq!(pages([9, 9, 9, 9, 8].into_iter(), "", (2, 100)).await, [4, 1]);
        let all = pages((0..2_500).rev(), "text=nowhere", (50, 2_000)).await;
        assert_eq!(all, [0, 0], "a page compares 2,000, and the next goes on behind them");
        let all = pages((0..2_500).map(|_| 7), "", (50, 2_000)).await;
        assert_eq!(all, [2_500], "a store reads fewer at once");
    }
}
