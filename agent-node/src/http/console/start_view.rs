//! What the first page shows.

use super::{
    scope::{ConsoleScope, capabilities},
    task_list,
};
use crate::http::node_state::NodeState;
use console::views::{inbox::WaitingItem, start::StartData};
use protocol::problem::Problem;

/// The tasks of each list.
const MOST: usize = 8;

/// The data of the page.
pub(super) async fn data(
    scope: &ConsoleScope,
    node: &NodeState,
    waiting: Vec<WaitingItem>,
) -> Result<StartData, Problem> {
    let lists = scope.read(|scope| {
        Ok((task_list::newest(scope, "open", MOST)?, task_list::newest(scope, task_list::ENDED, MOST)?))
    });
    let (open, ended) = lists.await?;
    let entrance = scope.agents.iter().find(|local| local.card.get().entrance).or(scope.agents.first());
    let entrance = entrance.map(|local| local.id.to_string()).unwrap_or_default();
    let agents =
        scope.agents.iter().map(|local| (local.id.to_string(), local.card.get().description.clone()));
    let capabilities = capabilities(node).into_iter().map(|(name, agents)| (name.to_string(), agents));
    Ok(StartData {
        agents: agents.collect(),
        entrance,
        capabilities: capabilities.collect(),
        waiting,
        open,
        ended,
    })
}
