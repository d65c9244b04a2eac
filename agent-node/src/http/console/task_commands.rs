//! The commands that show a task in a terminal, and those that ask for the same again.

use super::scope::ConsoleScope;
use crate::{
    http::{
        node_state::{HostedAgent, NodeState},
        routes::task_requests::payload_of,
    },
    shell_quote::shell_quoted,
};
use console::{json_view::escaped, views::task::TaskCommand, visible_text::is_plain};
use protocol::{routes, task::TaskSpec};
use serde_json::json;

/// The commands for `spec` at `local`; `flag` is what a command needs to find the mesh of the page.
pub(super) fn of_task(
    scope: &ConsoleScope,
    node: &NodeState,
    local: &HostedAgent,
    spec: &TaskSpec,
    (has_award, has_files): (bool, bool),
) -> Vec<TaskCommand> {
    let flag = scope.flag();
    let id = shell_quoted(spec.task_id.as_str());
    let shows = [
        ("What it is", "tasks show"),
        ("What was said with the model", "tasks show --model"),
        ("The timeline", "trace"),
        ("Why its bid won", "award explain"),
    ];
    let shows = shows.into_iter().take(if has_award { 4 } else { 3 });
    let mut commands: Vec<_> = shows
        .map(|(label, verb)| TaskCommand { label, command: format!("mesh {verb} {id}{flag}") })
        .chain(has_files.then(|| TaskCommand {
            label: "Its files, into a folder",
            command: format!("mesh tasks show {id}{flag} --out files"),
        }))
        .chain([TaskCommand { label: "As JSON", command: format!("mesh tasks show {id}{flag} --json") }])
        .collect();
    // Files don't fit into a command.
    if spec.artifacts.is_empty() {
        let ask = ask(local, spec, flag);
        // What hides or turns text is not to be pasted.
        commands.extend(is_plain(&ask).then_some(TaskCommand { label: "The same again", command: ask }));
        let cards = node.peers.cards().into_iter();
        let endpoint =
            cards.filter(|card| card.agent_id == local.id).map(|card| card.endpoint.clone()).next();
        commands.extend(
            endpoint.map(|endpoint| TaskCommand {
                label: "The same again",
                command: curl(&endpoint, local, spec),
            }),
        );
    }
    commands
}

fn ask(local: &HostedAgent, spec: &TaskSpec, flag: &str) -> String {
    // An address of the agent says which it is.
    let to = format!(" --to {}", shell_quoted(local.id.as_str()));
    let mut command = format!("mesh ask{}{flag}", if flag.starts_with(" --at") { "" } else { &to });
    let budget = (!spec.budget.is_none()).then_some(spec.budget);
    let members = [
        ("capability", spec.capability.as_ref().map(ToString::to_string)),
        ("space", spec.space.as_ref().map(ToString::to_string)),
        ("budget", budget.and_then(|budget| budget.cost).map(|cost| cost.get().to_string())),
        ("max-tokens", budget.and_then(|budget| budget.tokens).map(|tokens| tokens.to_string())),
        ("input", spec.input.as_ref().map(ToString::to_string)),
    ];
    for (name, value) in members {
        if let Some(value) = value {
            command.push_str(&format!(" --{name} {}", shell_quoted(&value)));
        }
    }
    format!("{command} -- {}", shell_quoted(&spec.description))
}

fn curl(endpoint: &str, local: &HostedAgent, spec: &TaskSpec) -> String {
    // Without an id it is a new task each time.
    let message = json!({ "fromAgentId": "me", "toAgentId": local.id, "type": "task-request", "payload": payload_of(spec) });
    let url = format!("{endpoint}{}", routes::MESSAGES);
    format!(
        "curl -s {} -H 'content-type: application/json' -H 'prefer: wait=60' -d {}",
        shell_quoted(&url),
        shell_quoted(&escaped(&message.to_string()))
    )
}
