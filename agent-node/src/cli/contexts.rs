//! `mesh context`: the person's chats with agents, which A2A calls contexts.

use super::{
    CommonArgs,
    client::{MeshClient, encoded},
    endpoints::{self, AgentEndpoint, AtArgs, recipient},
    exit::{CliError, Exit},
    output,
};
use clap::{Args, Subcommand};
use comfy_table::Cell;
use engine::context_records::A2aContextId;
use protocol::{
    artifact::Artifact, handoff::Handover, ids::AgentId, problem::Reason, routes, time::WallTime,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Debug, Args)]
pub(super) struct ContextArgs {
    #[command(subcommand)]
    verb: Option<ContextVerb>,
    #[command(flatten)]
    at: AtArgs,
}

#[derive(Debug, Subcommand)]
enum ContextVerb {
    /// List the chats with all agents, the one that was used last first.
    #[command(visible_alias = "list")]
    Ls,
    /// Show what was said in a chat, and the summary that the model has written of what is long ago.
    Show(OfContext),
    /// Print a chat as Markdown; with --json as the agent is given it.
    Export(OfContext),
    /// Have the agent forget a chat: the next message in it begins anew. The records of its tasks are deleted later.
    Forget(OfContext),
    /// Give a chat that an agent has handed over back to that agent.
    TakeBack(OfContext),
}

#[derive(Debug, Args)]
struct OfContext {
    /// The name of the chat; `-` is the one that was used last.
    context: String,
    /// The agent; that one which has a chat of this name if absent.
    #[arg(long, value_name = "AGENT")]
    of: Option<String>,
}

/// A chat as the agent is given it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chat {
    #[serde(flatten)]
    pub(super) of: A2aContextId,
    pub(super) used_at: WallTime,
    /// With whom it goes on, if it was handed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    handover: Option<Handover>,
    #[serde(default)]
    summary: String,
    #[serde(default)]
    pub(super) turns: Vec<patterns::turn::PastTurn>,
}

impl Chat {
    /// What was said, oldest first, in Markdown: at most the newest `most` turns.
    pub(super) fn to_markdown(&self, agent: &str, most: usize) -> String {
        let left_out = self.turns.len().saturating_sub(most);
        let mut text = String::new();
        if left_out == 0 && !self.summary.is_empty() {
            text.push_str(&format!("*Long ago:*\n\n{}\n", self.summary));
        }
        for turn in &self.turns[left_out..] {
            if let Some(summary) = &turn.summary {
                text.push_str(&format!(
                    "*Summary of what was before, by {agent}:*\n\n{}\n\n",
                    summary.trim()
                ));
            }
            let asked = turn.asked.as_deref().unwrap_or(&turn.place);
            text.push_str(&format!("**you:** {}\n\n", asked.trim()));
            let made: Vec<_> = turn.produced.iter().map(Artifact::as_text).collect();
            let said = made.iter().map(String::as_str).chain(turn.message.as_deref());
            let said: Vec<_> = said.map(str::trim).filter(|said| !said.is_empty()).collect();
            let who = turn.by.as_ref().map_or(agent, AgentId::as_str);
            text.push_str(&format!("**{who}:** {}\n\n", said.join("\n\n")));
        }
        if let Some(now_with) = self.now_with() {
            text.push_str(&format!("*{now_with}*\n"));
        }
        text
    }

    /// With whom it goes on, if it was handed over, and why.
    pub(super) fn now_with(&self) -> Option<String> {
        let Handover { to, reason, .. } = self.handover.as_ref()?;
        Some(format!("now with agent {to}: {}", output::plain(reason)))
    }
}

/// The chats of the person with an agent.
#[derive(Debug, Deserialize)]
struct ChatList {
    contexts: Vec<Chat>,
}

/// A chat of the person with the agent at `endpoint`; `None` if there is none of this name.
pub(super) async fn find(client: &MeshClient, endpoint: &str, name: &str) -> Result<Option<Chat>, CliError> {
    match client.get(endpoint, &format!("{}/{}", routes::CONTEXTS, encoded(name))).await {
        Ok(chat) => Ok(Some(chat)),
        Err(failure) if failure.reason == Some(Reason::ContextNotFound) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// The newest chats with the agent at `endpoint`, without their turns.
pub(super) async fn newest(client: &MeshClient, endpoint: &str, most: usize) -> Result<Vec<Chat>, CliError> {
    let list: ChatList = client.get(endpoint, &format!("{}?limit={most}", routes::CONTEXTS)).await?;
    Ok(list.contexts)
}

pub(super) async fn context(common: &CommonArgs, args: ContextArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    match args.verb.unwrap_or(ContextVerb::Ls) {
        ContextVerb::Ls => list(common, &client, &args.at).await,
        ContextVerb::Show(of) => {
            let (agent, chat) = located(&client, &args.at, &of).await?;
            match common.json {
                true => output::json(&chat),
                false => output::line(chat.to_markdown(agent.agent.as_str(), usize::MAX).trim_end()),
            }
        }
        ContextVerb::Export(of) => {
            let (agent, chat) = located(&client, &args.at, &of).await?;
            if common.json {
                return output::json(&json!({ "agent": agent.agent, "context": chat }));
            }
            let head = format!("# {} with {}\n\n", chat.of.context_id, agent.agent);
            output::bytes((head + &chat.to_markdown(agent.agent.as_str(), usize::MAX)).as_bytes())
        }
        ContextVerb::Forget(of) => {
            let (agent, Chat { of: A2aContextId { context_id, .. }, .. }) =
                located(&client, &args.at, &of).await?;
            let path = format!("{}/{}", routes::CONTEXTS, encoded(&context_id));
            client.delete(&agent.endpoint, &path).await?;
            match common.json {
                true => output::json(&json!({ "agent": agent.agent, "forgotten": context_id })),
                false => output::line(&format!("{} has forgotten {context_id}", agent.agent)),
            }
        }
        ContextVerb::TakeBack(of) => {
            let (agent, Chat { of: A2aContextId { context_id, .. }, .. }) =
                located(&client, &args.at, &of).await?;
            let path = format!("{}/{}/handover", routes::CONTEXTS, encoded(&context_id));
            client.delete(&agent.endpoint, &path).await?;
            match common.json {
                true => output::json(&json!({ "agent": agent.agent, "takenBack": context_id })),
                false => output::line(&format!("{context_id} goes on with {}", agent.agent)),
            }
        }
    }
}

async fn list(common: &CommonArgs, client: &MeshClient, at: &AtArgs) -> Result<(), CliError> {
    let endpoints = at.endpoints(client).await?;
    let mut all = chats(client, &endpoints).await;
    all.sort_by_key(|(_, chat)| std::cmp::Reverse(chat.used_at));
    if common.json {
        let line = |(agent, Chat { of, used_at, handover, .. }): &(&AgentEndpoint, Chat)| {
            json!({
                "agent": agent.agent, "contextId": of.context_id, "tenant": of.tenant, "usedAt": used_at, "handover": handover,
            })
        };
        return output::json(&all.iter().map(line).collect::<Vec<_>>());
    }
    if all.is_empty() {
        return output::line("no chats; `mesh chat AGENT` begins one");
    }
    let rows = all.iter().map(|(agent, chat)| {
        let now_with = chat.handover.as_ref().map_or("", |handover| handover.to.as_str());
        [&chat.of.context_id, agent.agent.as_str(), now_with, &chat.used_at.to_string()]
            .map(|text| Cell::new(output::plain(text)))
            .to_vec()
    });
    output::line(&output::table(&["CONTEXT", "AGENT", "NOW WITH", "USED"], rows))
}

/// The chats with these agents. One that does not answer has none.
async fn chats<'a>(client: &MeshClient, agents: &'a [AgentEndpoint]) -> Vec<(&'a AgentEndpoint, Chat)> {
    let answers = endpoints::get_each(client, agents, &format!("{}?limit=1000", routes::CONTEXTS)).await;
    let lists = answers.into_iter().filter_map(|(agent, answer)| {
        let list: ChatList = serde_json::from_value(answer.ok()?).ok()?;
        Some(list.contexts.into_iter().map(move |chat| (agent, chat)))
    });
    lists.flatten().collect()
}

/// The chat that is meant, with its turns, and the agent with which it is.
async fn located(
    client: &MeshClient,
    at: &AtArgs,
    of: &OfContext,
) -> Result<(AgentEndpoint, Chat), CliError> {
    let agents = match &of.of {
        Some(name) => vec![recipient(client, at, Some(name)).await?],
        None => at.endpoints(client).await?,
    };
    let mut found = chats(client, &agents).await;
    let name = match of.context.as_str() {
        "-" => found.iter().max_by_key(|(_, chat)| chat.used_at).map(|(_, chat)| chat.of.context_id.clone()),
        name => Some(name.to_owned()),
    };
    let unknown = || {
        CliError::new(Exit::Refused, format!("no chat {} of yours; `mesh context ls` lists them", of.context))
    };
    let name = name.ok_or_else(unknown)?;
    // A whole name beats a beginning.
    let begins = |chat: &Chat| chat.of.context_id.starts_with(&name);
    let is_whole = found.iter().any(|(_, chat)| chat.of.context_id == name);
    found.retain(|(_, chat)| if is_whole { chat.of.context_id == name } else { begins(chat) });
    match found.as_slice() {
        [] => Err(unknown()),
        [(agent, chat)] => {
            let whole = find(client, &agent.endpoint, &chat.of.context_id).await?.ok_or_else(unknown)?;
            Ok(((*agent).clone(), whole))
        }
        several => {
            let all: Vec<_> = several
                .iter()
                .map(|(agent, chat)| format!("{} of {}", chat.of.context_id, agent.agent))
                .collect();
            let message = format!("{name} may be {}; say more of the name, or --of AGENT", all.join(", "));
            Err(CliError::new(Exit::Usage, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_chat_is_markdown_with_its_summary_and_its_newest_turns() {
        let turn = |asked: &str, said: &str, summary: Value| {
            json!({
                "taskId": "t", "asked": asked, "message": said, "summary": summary,
            })
        };
        let chat: Chat = serde_json::from_value(json!({
            "contextId": "c", "usedAt": "2026-01-01T00:00:00Z", "summary": "- asked: x; answered: y\n",
            "turns": [turn("one?", "1", json!("it was short")), turn("two?", "2", Value::Null)],
        }))
        .unwrap();
        let all = chat.to_markdown("clerk", usize::MAX);
        assert!(all.starts_with("*Long ago:*\n\n- asked: x"), "{all}");
        assert!(all.contains("by clerk:*\n\nit was short\n\n**you:** one?\n\n**clerk:** 1\n\n"), "{all}");
        assert_eq!(chat.to_markdown("clerk", 1), "**you:** two?\n\n**clerk:** 2\n\n");
    }
}
