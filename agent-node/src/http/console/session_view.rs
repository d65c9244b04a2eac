//! A session as its route shows it, with what was said.

use super::scope::ConsoleScope;
use crate::{
    http::{node_state::NodeState, routes::tasks::session_of},
    tasks,
};
use console::{location::ConsoleLocation, views::session::SessionData};
use protocol::problem::{Problem, Reason};
use store::Revision;

/// The data of the page.
pub(super) fn data(
    scope: &ConsoleScope,
    node: &NodeState,
    at: &ConsoleLocation,
) -> Result<SessionData, Problem> {
    if !scope.is_signed_in() {
        let why = "a session is shown to those who have proven who they are: sign in first";
        return Err(Problem::new(Reason::Forbidden, why));
    }
    let (local, row) = scope.task(&at.agent, &at.id)?;
    let session = session_of(node, local, &row)?;
    let has_ended = row.ended_at.is_some();
    let shown = tasks::with_artifacts(local.store.as_ref(), &local.id, row, Revision::MAX);
    Ok(SessionData {
        agent: local.id.to_string(),
        task: shown.map_err(Problem::from)?.task,
        has_ended,
        session,
    })
}
