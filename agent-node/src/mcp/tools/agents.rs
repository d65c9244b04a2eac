//! `list_agents`: who is there, and what each can do.

use crate::mcp::tool_call::{McpToolCall, ToolOutcome};
use protocol::problem::Problem;
use registry::entry::{AgentEntry, Presence};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const MAX_AGENTS: usize = 100;

const MAX_SKILLS: usize = 24;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ListAgentsArguments {
    /// Only agents with this skill or tag.
    #[serde(default)]
    capability: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentListOutput {
    agents: Vec<ListedAgent>,
    /// How many more there are.
    more: usize,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ListedAgent {
    agent_id: String,
    description: String,
    /// Its skills; send_task takes the id of one, or a tag, as capability.
    skills: Vec<ListedSkill>,
    /// Whether it takes tasks that name no capability.
    open: bool,
    /// Whether it answers. One that is suspect has missed heartbeats.
    is_suspect: bool,
    /// Whether it takes more work.
    accepting: bool,
    /// How many tasks it works on.
    running: u32,
}

#[derive(Serialize, JsonSchema)]
struct ListedSkill {
    id: String,
    description: String,
    tags: Vec<String>,
}

pub(super) async fn list(
    call: &mut McpToolCall<'_>,
    arguments: ListAgentsArguments,
) -> Result<ToolOutcome, Problem> {
    let found = call.api.agents(arguments.capability.as_deref()).await?;
    let more = found.len().saturating_sub(MAX_AGENTS);
    let agents = found.iter().take(MAX_AGENTS).map(listed).collect();
    ToolOutcome::data(&AgentListOutput { agents, more })
}

fn listed(entry: &AgentEntry) -> ListedAgent {
    let skills = entry.card.skills.iter().take(MAX_SKILLS).map(|skill| ListedSkill {
        id: skill.id.to_string(),
        description: skill.description.clone(),
        tags: skill.tags.iter().map(ToString::to_string).collect(),
    });
    ListedAgent {
        agent_id: entry.id().to_string(),
        description: entry.card.description.clone(),
        skills: skills.collect(),
        open: entry.card.open,
        is_suspect: entry.state == Presence::Suspect,
        accepting: entry.accepting,
        running: entry.running,
    }
}
