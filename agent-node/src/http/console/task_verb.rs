//! What a person does with one task or with many: cancel it or send it again, here or at an agent of another process.

use super::{
    elsewhere::{self, Elsewhere},
    scope::ConsoleScope,
    task_list,
};
use crate::http::{node_state::NodeState, routes::task_requests};
use actix_web::{HttpRequest, web};
use console::{
    location::ConsoleLocation,
    views::bulk::{BulkOutcome, BulkPreview, BulkRun, BulkVerb, MAX_BULK},
};
use futures_util::{StreamExt as _, stream};
use protocol::{
    ids::TaskId,
    problem::{Problem, Reason},
};
use serde_json::json;
use tokio::sync::watch;

/// How many tasks of a bulk action are worked on at once.
const AT_ONCE: usize = 8;

/// Why a person ends a task who gives no reason.
pub(super) const CANCELED: &str = "canceled by its user at the console";

/// A person at a page, and what the page shows.
pub(super) struct PageActor {
    pub(super) request: HttpRequest,
    pub(super) node: web::Data<NodeState>,
    pub(super) scope: ConsoleScope,
    pub(super) elsewhere: Option<Elsewhere>,
}

impl PageActor {
    /// Does it with the task of this id at the agent of this name, or at the first that has it. Returns the agent, and the id of the
    /// new task if there is one.
    pub(super) async fn perform(
        &self,
        verb: BulkVerb,
        (agent, task): (&str, &str),
        reason: &str,
    ) -> Result<(String, Option<String>), Problem> {
        if let Some((all, card)) = self.elsewhere.as_ref().and_then(|all| Some((all, all.agent(agent)?))) {
            let task =
                TaskId::parse(task).map_err(|bad| Problem::new(Reason::InvalidField, bad.to_string()))?;
            let body = match verb {
                BulkVerb::Cancel => json!({ "reason": reason }),
                BulkVerb::Retry => json!({}),
            };
            let answer = all.act(card, &task, verb.word(), &body).await?;
            let new = answer["taskId"].as_str().filter(|_| verb == BulkVerb::Retry);
            return Ok((agent.to_owned(), new.map(str::to_owned)));
        }
        let (local, row) = self.scope.task(agent, task)?;
        let (by, spec) = (self.scope.by.clone(), &row.task.spec);
        let new = match verb {
            BulkVerb::Cancel => {
                task_requests::cancel(local, spec.task_id.clone(), by, reason.to_owned()).await?;
                None
            }
            BulkVerb::Retry => {
                let sent = task_requests::send_again(&self.request, &self.node, by, &local.id, spec).await;
                Some(sent.map_err(|refusal| refusal.0)?.0)
            }
        };
        Ok((local.id.to_string(), new))
    }

    /// Begins a bulk action with these tasks, each with its agent. Returns its id; it goes on when the page is closed.
    pub(super) fn begin(self, verb: BulkVerb, tasks: Vec<(String, String)>) -> Result<String, Problem> {
        let run = self.node.bulk_runs.begin(&self.scope.by, verb, tasks.clone())?;
        let id = run.borrow().id.clone();
        actix_web::rt::spawn(async move {
            let (actor, run) = (&self, &run);
            let each = tasks.iter().enumerate().map(|(at, (agent, task))| async move {
                let outcome = match actor.perform(verb, (agent, task), CANCELED).await {
                    Ok((_, new)) => BulkOutcome::Done(new),
                    Err(problem) => BulkOutcome::Failed(problem.message),
                };
                run.send_modify(|run| run.tasks[at].2 = outcome);
            });
            stream::iter(each).buffer_unordered(AT_ONCE).collect::<()>().await;
        });
        Ok(id)
    }
}

/// What a bulk action would do: its verb and the filters are in the address.
pub(super) async fn preview(
    scope: &ConsoleScope,
    elsewhere: Option<&mut Elsewhere>,
    at: &ConsoleLocation,
) -> Result<BulkPreview, Problem> {
    let verb = verb(&at.kind)?;
    let mut wanted = task_list::of_requester(scope, at);
    if wanted.state.is_empty() {
        verb.states().clone_into(&mut wanted.state);
    }
    let page = elsewhere::task_page(scope, elsewhere, &wanted, MAX_BULK).await?;
    let (mut tasks, has_next) = (page.lines, page.next.is_some());
    tasks.retain(|task| verb.is_for(task.state));
    let has_more = has_next || tasks.len() > MAX_BULK;
    tasks.truncate(MAX_BULK);
    Ok(BulkPreview { verb, tasks, has_more })
}

/// The verb of this name.
pub(super) fn verb(word: &str) -> Result<BulkVerb, Problem> {
    BulkVerb::parse(word)
        .ok_or_else(|| Problem::new(Reason::InvalidField, format!("{word:?} is none of cancel and retry")))
}

/// The bulk action of the address, if the viewer has begun it.
pub(super) fn run(
    scope: &ConsoleScope,
    node: &NodeState,
    at: &ConsoleLocation,
) -> Result<watch::Receiver<BulkRun>, Problem> {
    node.bulk_runs.find(&scope.by, &at.id).ok_or_else(|| {
        let why = "no action of yours with many tasks has this id, or you have begun another one since";
        Problem::new(Reason::InvalidField, why)
    })
}
