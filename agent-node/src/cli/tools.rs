//! `mesh tools`: the tool servers of agents with their state, and the tools of one agent.

use super::{
    CommonArgs,
    client::MeshClient,
    endpoints::{self, AtArgs},
    exit::{CliError, Exit},
    output::{self, Colour},
};
use crate::brain::brain_tools::{BrainTools, OfferedTool, ToolPermission, ToolServerReport, ToolServerState};
use clap::Args;
use comfy_table::Cell;
use protocol::{ids::AgentId, routes, words::cut};
use serde_json::Value;

/// The most characters of a description, and of why a server has failed.
const MOST_SAID: usize = 100;

#[derive(Debug, Args)]
pub(super) struct ToolsArgs {
    /// Only this agent, with its tools: what each does, and whether a person is asked.
    agent: Option<AgentId>,
    #[command(flatten)]
    at: AtArgs,
}

pub(super) async fn tools(common: &CommonArgs, args: ToolsArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let mut asked = args.at.endpoints(&client).await?;
    if let Some(agent) = &args.agent {
        asked.retain(|endpoint| endpoint.agent == *agent);
        if asked.is_empty() {
            let why = format!("there is no agent {agent} here: `mesh ls` lists them");
            return Err(CliError::new(Exit::Usage, why));
        }
    }
    let answers = endpoints::get_all(&client, &asked, routes::TOOLS).await?;
    if common.json {
        return output::json(&answers.into_iter().map(|(_, answer)| answer).collect::<Vec<_>>());
    }
    let unreadable = |agent: &AgentId, error| CliError::new(Exit::Failed, format!("{agent}: {error}"));
    let mut known = Vec::new();
    for (agent, answer) in answers {
        let tools: BrainTools =
            serde_json::from_value(answer.clone()).map_err(|error| unreadable(agent, error))?;
        known.push((agent, answer, tools));
    }
    let servers = known.iter().flat_map(|(agent, _, tools)| {
        tools.servers.iter().map(|server| server_row(agent, server)).collect::<Vec<_>>()
    });
    let servers: Vec<_> = servers.collect();
    if servers.is_empty() {
        output::line("no tool server is known")?;
    } else {
        output::line(&output::table(
            &["agent", "server", "state", "tools", "last used", "at", "why"],
            servers,
        ))?;
    }
    match known.as_slice() {
        [(_, answer, tools)] if args.agent.is_some() => show_tools(answer, tools),
        _ => Ok(()),
    }
}

fn server_row(agent: &AgentId, server: &ToolServerReport) -> Vec<Cell> {
    let colour = match server.state {
        ToolServerState::Connected => Colour::Green,
        ToolServerState::Failed => Colour::Red,
        ToolServerState::Starting => Colour::Yellow,
        ToolServerState::NotStarted | ToolServerState::Ended => Colour::Grey,
    };
    let used = server.last_used.map(|at| at.to_string()).unwrap_or_default();
    vec![
        agent.to_string().into(),
        output::plain(&server.name).into(),
        output::cell(server.state.words(), colour),
        server.tools.len().to_string().into(),
        used.into(),
        output::plain(&cut(&server.place, MOST_SAID)).into(),
        output::plain(&cut(server.why.as_deref().unwrap_or_default(), MOST_SAID)).into(),
    ]
}

fn show_tools(answer: &Value, tools: &BrainTools) -> Result<(), CliError> {
    let of_servers = tools.servers.iter().flat_map(|server| {
        let offered = server.tools.iter().map(|tool| tool_row(&server.name, tool));
        offered.collect::<Vec<_>>()
    });
    let built_in = tools.built_in.iter().map(|tool| tool_row("built in", tool));
    let rows: Vec<_> = of_servers.chain(built_in).collect();
    if rows.is_empty() {
        let brain = answer["brain"].as_str().unwrap_or_default();
        return output::line(&format!(
            "its brain ({brain}) may have tools of its own, which the node does not know"
        ));
    }
    output::line(&output::table(&["tool", "of", "calls", "what it does"], rows))
}

fn tool_row(of: &str, tool: &OfferedTool) -> Vec<Cell> {
    let calls = match tool.permission {
        ToolPermission::Allowed => output::cell("allowed", Colour::Green),
        ToolPermission::Asked => output::cell("asks a person", Colour::Yellow),
        ToolPermission::Denied | ToolPermission::Hidden => output::cell("denied", Colour::Red),
    };
    let what = cut(&tool.description, MOST_SAID);
    vec![output::plain(&tool.name).into(), output::plain(of).into(), calls, output::plain(&what).into()]
}
