//! The brief of an agent, as the route of briefs shows it to the viewer.

use super::{agent_views, scope::ConsoleScope, space_view, viewer_board::ViewerBoard};
use crate::http::node_state::NodeState;
use blackboard::board::BriefView;
use console::{
    location::ConsoleLocation,
    views::brief::{BriefPage, ShownBrief},
};
use protocol::{
    ids::{AgentId, BadId, TaskId},
    problem::{Problem, Reason},
};

/// The data of the page.
pub(super) async fn data(
    scope: &ConsoleScope,
    node: &NodeState,
    at: &ConsoleLocation,
) -> Result<BriefPage, Problem> {
    let board = ViewerBoard::of(scope, node)?;
    let spaces = board.spaces()?;
    let space = spaces.space(board.by(), &space_view::space_id(&at.id)?).await?.id;
    let invalid = |field: &'static str| {
        move |bad: BadId| Problem::new(Reason::InvalidField, format!("{field}: {bad}")).with("field", field)
    };
    let agent = match at.agent.trim() {
        "" => None,
        id => Some(AgentId::parse(id).map_err(invalid("agent"))?),
    };
    let session = match at.session.trim() {
        "" => None,
        id => Some(TaskId::parse(id).map_err(invalid("session"))?),
    };
    let shown = match &agent {
        Some(agent) => {
            let BriefView { brief, vault_entries, explained } =
                spaces.brief_of(board.by(), &space, agent, session).await?;
            Some(ShownBrief { brief, explained, vault_entries: vault_entries.unwrap_or_default() })
        }
        None => None,
    };
    Ok(BriefPage { space, agents: agent_views::ids(node).await?, shown })
}
