//! `GET /a2a/inbox`: the questions of this node's agents that wait for the caller.

use super::person_token::is_persons;
use crate::http::{
    node_state::{HostedAgent, NodeState},
    registry_calls::OpenQuestion,
};
use actix_web::{HttpRequest, HttpResponse, web};
use engine::{
    content,
    records::{TaskRow, lists::TaskFilter},
};
use patterns::session::is_confidential;
use protocol::{
    principal::Principal,
    problem::{Problem, Reason},
    task::TaskState,
};
use serde_json::json;
use std::cmp::Reverse;
use store::Error;
use transport::refusal::Refusal;

/// The most tasks of each agent and state that are looked at.
const MAX_TASKS: usize = 200;

/// The states of a task that may have open questions.
const OPEN: [TaskState; 3] = [TaskState::InputRequired, TaskState::AuthRequired, TaskState::Working];

/// Lists the open questions of the caller's own tasks at the agents of this node, those that expire first before the others,
/// then the newest.
pub async fn list(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
) -> Result<HttpResponse, Refusal> {
    let agents: Vec<HostedAgent> = node.agents_in_lookup_order(&request).into_iter().cloned().collect();
    let by = by.into_inner();
    let is_unproven = matches!(by, Principal::User(_)) && !is_persons(&request, &by);
    let items = web::block(move || open_questions(&agents, &by, is_unproven)).await;
    let items = items.map_err(|error| Problem::new(Reason::Overloaded, error.to_string()))?;
    Ok(HttpResponse::Ok().json(json!({ "items": items.map_err(Problem::from)? })))
}

/// The open questions of the tasks that `by` has requested from these agents, those that expire first before the others, then
/// the newest.
pub(in crate::http) fn open_questions(
    agents: &[HostedAgent],
    by: &Principal,
    is_unproven: bool,
) -> Result<Vec<OpenQuestion>, Error> {
    let each = agents.iter().map(|local| questions(local, by, is_unproven));
    let mut items: Vec<_> = each.collect::<Result<Vec<_>, Error>>()?.into_iter().flatten().collect();
    sort(&mut items);
    Ok(items)
}

/// Those that expire first before the others, then the newest.
pub(in crate::http) fn sort(items: &mut [OpenQuestion]) {
    let expires = |item: &OpenQuestion| item.question.expires_at;
    items.sort_by_key(|item| (expires(item).is_none(), expires(item), Reverse(item.since)));
}

/// The open questions of the tasks that `by` has requested from an agent. Who has not proven to be a person is not shown those of
/// sessions.
fn questions(local: &HostedAgent, by: &Principal, is_unproven: bool) -> Result<Vec<OpenQuestion>, Error> {
    let mut items = Vec::new();
    for state in OPEN {
        let filter =
            TaskFilter { state: Some(state), hides_confidential: is_unproven, ..TaskFilter::default() };
        for entry in local.store.list(&filter.of_principal(&local.id, by), MAX_TASKS)? {
            let Some(record) = local.store.latest(&entry.key)? else { continue };
            let row: TaskRow = content::decode(&local.id, local.store.as_ref(), &record.value)?;
            // The tasks of agents that work for it show the same question.
            let is_hidden = is_unproven && is_confidential(&row.task);
            if row.task.owner != *by || row.ended_at.is_some() || is_hidden {
                continue;
            }
            let questions = row.task.status.questions.iter();
            let questions = questions.filter(|question| !is_unproven || question.asked_by.is_none());
            items.extend(questions.map(|question| OpenQuestion {
                agent_id: local.id.clone(),
                task_id: row.task.spec.task_id.clone(),
                description: row.task.spec.description.clone(),
                since: row.task.changed_at,
                question: question.clone(),
            }));
        }
    }
    Ok(items)
}
