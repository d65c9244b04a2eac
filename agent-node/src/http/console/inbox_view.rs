//! What waits for the viewer, and which tasks of the viewer have failed.

use super::{
    elsewhere::{self, Elsewhere},
    scope::ConsoleScope,
    space_view, task_list,
};
use crate::http::{node_state::NodeState, registry_calls::OpenQuestion};
use console::{
    location::{ConsoleLocation, ViewName},
    views::{
        inbox::{InboxData, WaitingItem, WaitingQuestion},
        task_line::failures,
    },
};
use protocol::problem::Problem;

/// The most of the viewer's failed tasks, and of the last ones among which it is looked whether they were sent again.
const MOST_FAILED: usize = 50;
const MOST_TASKS: usize = 500;
/// For how long a failed task is shown.
const SINCE: &str = "7d";

fn asked(question: OpenQuestion) -> WaitingItem {
    let OpenQuestion { agent_id, task_id, description, since, question } = question;
    let (agent, task) = (agent_id.to_string(), task_id.to_string());
    WaitingItem::Question(Box::new(WaitingQuestion { agent, task, description, since, question }))
}

/// The questions and proposals that wait for the viewer, in the order of the page.
pub(super) async fn waiting(
    scope: &ConsoleScope,
    node: &NodeState,
    elsewhere: Option<&mut Elsewhere>,
) -> Result<Vec<WaitingItem>, Problem> {
    let questions = elsewhere::questions(scope, elsewhere).await?;
    let proposals = space_view::proposals(scope, node).await;
    let proposals = proposals.into_iter().map(|line| WaitingItem::Proposal(Box::new(line)));
    Ok(WaitingItem::sorted(questions.into_iter().map(asked).chain(proposals).collect()))
}

/// The data of the page.
pub(super) async fn data(
    scope: &ConsoleScope,
    mut elsewhere: Option<&mut Elsewhere>,
    items: Vec<WaitingItem>,
) -> Result<InboxData, Problem> {
    let lately = ConsoleLocation { since: SINCE.to_owned(), ..ConsoleLocation::of(ViewName::Tasks) };
    let own = task_list::of_requester(scope, &lately);
    let failed = ConsoleLocation { state: "failed".to_owned(), ..own.clone() };
    let mut tasks = elsewhere::task_page(scope, elsewhere.as_deref_mut(), &failed, MOST_FAILED).await?.lines;
    // Usually there is none, and it need not be known what was sent again.
    if !tasks.is_empty() {
        tasks.extend(elsewhere::task_page(scope, elsewhere, &own, MOST_TASKS).await?.lines);
    }
    Ok(InboxData { items, failed: failures(tasks) })
}
