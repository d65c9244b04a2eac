//! The chats of the viewer with an agent.

use super::scope::ConsoleScope;
use console::{
    location::ConsoleLocation,
    views::chat::{ChatData, ChatLine, ChatTurn},
};
use engine::{context_records, records::lists::TaskFilter};
use patterns::session::is_shown_to;
use protocol::{
    problem::Problem,
    task::{Task, TaskState},
};

/// The most turns of a chat, the newest, and the most chats in the list.
const MAX_TURNS: usize = 100;
const MAX_CHATS: usize = 30;

/// The data of the page: the chat that `at` names, or a new one.
pub(super) async fn data(scope: &ConsoleScope, at: &ConsoleLocation) -> Result<ChatData, Problem> {
    let agent = scope.agent(&at.agent)?.id.clone();
    let named = at.id.clone();
    let context = if named.is_empty() { new_name() } else { named };
    let of = (agent.clone(), context.clone());
    let (chats, mut turns) = scope
        .read(move |scope| {
            let (agent, context) = of;
            let Some(local) = scope.agents.iter().find(|local| local.id == agent) else {
                return Ok((Vec::new(), Vec::new()));
            };
            let mut chats = Vec::new();
            for view in context_records::list(local.store.as_ref(), &agent, &scope.by, MAX_CHATS)? {
                if view.of.tenant.is_some() {
                    continue;
                }
                let first = turns_of(scope, local, &view.of.context_id, 1)?;
                let first =
                    first.first().map_or_else(|| view.of.context_id.clone(), |turn| turn.said.clone());
                chats.push(ChatLine {
                    agent: agent.to_string(),
                    context: view.of.context_id,
                    used: view.used_at,
                    first,
                });
            }
            Ok((chats, turns_of(scope, local, &context, MAX_TURNS)?))
        })
        .await?;
    let files = scope.agent(agent.as_str())?.shown_files();
    for turn in &mut turns {
        files.show_artifacts(&mut turn.artifacts).await;
    }
    Ok(ChatData {
        agents: scope.ids().iter().map(ToString::to_string).collect(),
        agent: agent.to_string(),
        context,
        turns,
        chats,
    })
}

/// A name that no other chat has.
fn new_name() -> String {
    let unique = uuid::Uuid::new_v4().simple().to_string();
    format!("chat-{}", unique.get(..8).unwrap_or_default())
}

/// The newest `most` turns of a context, the oldest of them first.
fn turns_of(
    scope: &ConsoleScope,
    local: &crate::http::node_state::HostedAgent,
    context: &str,
    most: usize,
) -> Result<Vec<ChatTurn>, store::Error> {
    let filter = TaskFilter { context: Some(context.to_owned()), ..TaskFilter::default() };
    let keys = local.store.list(&filter.of_principal(&local.id, &scope.by), most)?;
    let mut tasks = crate::tasks::listed(local.store.as_ref(), &local.id, keys, true)?;
    // The list has them by a digest of the context.
    tasks.retain(|task| task.context_id() == context && is_shown_to(task, &scope.by, scope.proof));
    tasks.sort_by_key(|task| task.created_at);
    Ok(tasks.into_iter().map(turn).collect())
}

fn turn(task: Task) -> ChatTurn {
    let message = task.status.message.unwrap_or_default();
    let first =
        task.spec.contact.as_ref().map(|contact| contact.message.parts.as_slice()).unwrap_or_default();
    // What a turn has made is its answer; what it says beside it tells how far it is, or why it failed.
    let is_said = task.artifacts.is_empty() || task.status.state != TaskState::Completed;
    ChatTurn {
        task: task.spec.task_id.to_string(),
        said: task.spec.description.clone(),
        files: first.iter().filter_map(|part| part.filename.clone()).collect(),
        answer: if is_said { message } else { String::new() },
        artifacts: task.artifacts,
        state: task.status.state,
        at: task.changed_at,
        by: task.doer.as_ref().map(ToString::to_string),
        questions: task.status.questions,
    }
}
