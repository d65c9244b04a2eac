//! The chats of the viewer with an agent.

use super::scope::ConsoleScope;
use console::{
    location::ConsoleLocation,
    views::chat::{ChatData, ChatLine, ChatTurn},
};
use engine::{context_records, records::lists::TaskFilter};
use patterns::session::is_shown_to;
use protocol::{artifact::PartContent, problem::Problem, task::Task};

/// The most turns of a chat, the newest, and the most chats in the list.
const MAX_TURNS: usize = 100;
const MAX_CHATS: usize = 30;

/// The data of the page: the chat that `at` names, or a new one.
pub(super) async fn data(scope: &ConsoleScope, at: &ConsoleLocation) -> Result<ChatData, Problem> {
    let agent = scope.agent(&at.agent)?.id.clone();
    let named = at.id.clone();
    let context = if named.is_empty() { new_name() } else { named };
    let of = (agent.clone(), context.clone());
    let (chats, turns) = scope
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
    Ok(tasks.iter().map(turn).collect())
}

fn turn(task: &Task) -> ChatTurn {
    let texts = task.artifacts.iter().flat_map(|artifact| &artifact.parts);
    let texts = texts.filter_map(|part| match &part.content {
        PartContent::Text(text) => Some(text.as_str()),
        PartContent::Data(_) | PartContent::Raw(_) | PartContent::Url(_) => None,
    });
    let texts: Vec<_> = task.status.message.as_deref().into_iter().chain(texts).collect();
    ChatTurn {
        task: task.spec.task_id.to_string(),
        said: task.spec.description.clone(),
        answer: texts.join("\n\n"),
        state: task.status.state,
        at: task.changed_at,
        by: task.doer.as_ref().map(ToString::to_string),
        questions: task.status.questions.clone(),
    }
}
