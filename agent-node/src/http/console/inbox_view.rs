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

/// The most of the viewer's last tasks among which failed ones are looked for, and the most of these.
const MOST_TASKS: usize = 500;
const MOST_FAILED: usize = 50;
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
    elsewhere: Option<&mut Elsewhere>,
    items: Vec<WaitingItem>,
) -> Result<InboxData, Problem> {
    let lately = ConsoleLocation { since: SINCE.to_owned(), ..ConsoleLocation::of(ViewName::Tasks) };
    let own = task_list::of_requester(scope, &lately);
    let page = elsewhere::task_page(scope, elsewhere, &own, MOST_TASKS).await?;
    let mut failed = failures(page.lines);
    failed.truncate(MOST_FAILED);
    Ok(InboxData { items, failed })
}
