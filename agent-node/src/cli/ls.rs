//! `mesh ls`, `mesh card` and `mesh forget`: registered agents.

use super::{
    CommonArgs,
    client::{MeshClient, encoded},
    exit::CliError,
    output::{self, Colour},
};
use clap::Args;
use comfy_table::Cell;
use protocol::{ids::AgentId, routes};
use registry::entry::{AgentEntry, Presence};
use serde_json::json;
use std::cmp::Reverse;

#[derive(Debug, Args)]
pub(super) struct LsArgs {
    /// Only agents with this capability, as a skill or a tag of one.
    #[arg(long, value_name = "NAME")]
    capability: Option<String>,
    /// How many messages agents have sent each other in the last minute.
    #[arg(long)]
    sent: bool,
}

#[derive(Debug, Args)]
pub(super) struct CardArgs {
    /// The agent's id, or its endpoint.
    agent: String,
}

pub(super) async fn ls(common: &CommonArgs, args: LsArgs) -> Result<(), CliError> {
    let agents = MeshClient::new(common)?.agents(args.capability.as_deref()).await?;
    if common.json {
        return output::json(&json!({ "agents": agents }));
    }
    if args.sent {
        let mut sent: Vec<_> = agents
            .iter()
            .flat_map(|from| from.sent.iter().map(|(to, messages)| (Reverse(*messages), from.id(), to)))
            .collect();
        sent.sort();
        let row = |(Reverse(messages), from, to): (Reverse<u32>, &AgentId, &AgentId)| {
            [from.to_string(), to.to_string(), messages.to_string()].map(Cell::from).to_vec()
        };
        return output::line(&output::table(&["from", "to", "messages"], sent.into_iter().map(row)));
    }
    if agents.is_empty() {
        let what = args.capability.map(|name| format!(" with {name}")).unwrap_or_default();
        return output::line(&format!("no agents{what}"));
    }
    let head = ["agent", "state", "running", "cost", "eta", "endpoint", "skills"];
    output::line(&output::table(&head, agents.iter().map(row)))
}

#[derive(Debug, Args)]
pub(super) struct ForgetArgs {
    /// The agent's id.
    id: AgentId,
}

pub(super) async fn forget(common: &CommonArgs, args: ForgetArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let path = format!("{}/{}/forget", routes::AGENTS, encoded(args.id.as_str()));
    let answer = client.post(&client.url, &path, &json!({})).await?;
    match common.json {
        true => output::json(&answer),
        false => output::line(&format!("{} is forgotten; its name stays reserved for its key", args.id)),
    }
}

/// What people are told of the state of an agent.
pub(super) fn presence(entry: &AgentEntry) -> (&'static str, Colour) {
    match (entry.state, entry.accepting) {
        (Presence::Alive, _) if entry.card.waits_for.is_some() => ("waiting", Colour::Yellow),
        (Presence::Alive, true) => ("alive", Colour::Green),
        (Presence::Alive, false) => ("busy", Colour::Yellow),
        (Presence::Suspect, _) => (entry.state.for_people(), Colour::Yellow),
        (Presence::Dead, _) => (entry.state.for_people(), Colour::Red),
        (Presence::Departed, _) => (entry.state.for_people(), Colour::Grey),
    }
}

fn row(entry: &AgentEntry) -> Vec<Cell> {
    let card = &entry.card;
    let (state, colour) = presence(entry);
    let skills: Vec<_> = card.skills.iter().map(|skill| skill.id.as_str()).collect();
    vec![
        card.agent_id.to_string().into(),
        output::cell(state, colour),
        format!("{}/{}", entry.running, card.terms.max_parallel).into(),
        card.terms.cost.get().into(),
        card.terms.eta.to_string().into(),
        output::plain(&card.endpoint).into(),
        card.waits_for.as_deref().map_or_else(|| skills.join(", "), output::plain).into(),
    ]
}

pub(super) async fn card(common: &CommonArgs, args: CardArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    if args.agent.contains("://") {
        return output::json(&client.card_at(&super::client::base(&args.agent)?).await?);
    }
    output::json(&*client.card_of(&args.agent).await?)
}
