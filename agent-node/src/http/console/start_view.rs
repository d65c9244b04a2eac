//! What the first page shows.

use super::{
    elsewhere::Elsewhere,
    scope::{ConsoleScope, capabilities},
    task_list,
};
use crate::http::node_state::NodeState;
use console::{
    location::ConsoleLocation,
    views::{inbox::WaitingItem, start::StartData},
};
use protocol::problem::Problem;
use std::cmp::Reverse;

/// The tasks of each list.
const MOST: usize = 8;

/// The data of the page.
pub(super) async fn data(
    scope: &ConsoleScope,
    node: &NodeState,
    elsewhere: Option<&mut Elsewhere>,
    waiting: Vec<WaitingItem>,
) -> Result<StartData, Problem> {
    let lists = scope.read(|scope| {
        Ok((task_list::newest(scope, "open", MOST)?, task_list::newest(scope, task_list::ENDED, MOST)?))
    });
    let (mut open, mut ended) = lists.await?;
    let mut cards: Vec<_> = scope.agents.iter().map(|local| local.card.get().clone()).collect();
    if let Some(elsewhere) = elsewhere {
        for (state, lines) in [("open", &mut open), (task_list::ENDED, &mut ended)] {
            let at = ConsoleLocation { state: state.to_owned(), ..ConsoleLocation::default() };
            lines.extend(elsewhere.tasks("", task_list::filters(scope, &at), MOST).await.0);
            lines.sort_by_key(|line| Reverse(line.changed));
            lines.truncate(MOST);
        }
        cards.extend(elsewhere.cards().cloned());
    }
    let entrance = cards.iter().find(|card| card.entrance).or(cards.first());
    let entrance = entrance.map(|card| card.agent_id.to_string()).unwrap_or_default();
    let capabilities = capabilities(node).await?.into_iter();
    Ok(StartData {
        agents: cards.iter().map(|card| (card.agent_id.to_string(), card.description.clone())).collect(),
        entrance,
        capabilities: capabilities.map(|(name, agents)| (name.to_string(), agents)).collect(),
        waiting,
        open,
        ended,
    })
}
