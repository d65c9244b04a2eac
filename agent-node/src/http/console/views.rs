//! Collects what a view shows, and renders it.

use super::{
    agent_views, board_view, brief_view, chat_view, cost_view,
    elsewhere::{self, Elsewhere},
    health_view, html, inbox_view,
    scope::{ConsoleScope, capabilities},
    session_view, space_view, start_view, task_list, task_verb, task_view,
};
use crate::http::{node_state::NodeState, registry_calls::BOARD};
use actix_web::{HttpRequest, HttpResponse, http::header, web};
use console::{
    location::{ConsoleLocation, ViewName},
    views::{
        agent, agents, board, brief, bulk, chat, cost, health,
        inbox::{self, WaitingItem},
        mesh, refused, session, sessions, space, start, task, tasks,
    },
};
use patterns::session::CAPABILITY;
use protocol::{
    principal::Principal,
    problem::{Problem, Reason},
};
use transport::refusal::Refusal;

/// From this status on the page keeps what it shows, and asks again.
const BUSY: u16 = 429;

/// The refusal of a task that neither an agent of this process nor one that answers has.
fn nowhere(id: &str, elsewhere: &Elsewhere) -> Problem {
    let silent: Vec<_> = elsewhere.silent.iter().map(String::as_str).collect();
    let silent = match silent.is_empty() {
        true => String::new(),
        false => format!("; no answer came from {}", silent.join(", ")),
    };
    let why = format!("no agent that answers has a task {id} of yours{silent}");
    Problem::new(Reason::TaskNotFound, why)
}

/// Returns the view that the query names, as HTML without the frame.
pub(super) async fn get(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
) -> Result<HttpResponse, Refusal> {
    let mut scope = ConsoleScope::of(&request, &node, &by)?;
    let at = ConsoleLocation::parse(request.query_string()).map_err(|why| {
        Problem::new(Reason::InvalidField, format!("the address is none of the console: {why}"))
    })?;
    let mut elsewhere = Elsewhere::of(&request, &node, &scope).await?;
    scope.spans |= elsewhere.is_some();
    let waiting = inbox_view::waiting(&scope, &node, elsewhere.as_mut()).await?;
    let asked = (waiting.len(), at.clone());
    match show(&scope, &node, elsewhere, at, waiting).await {
        Ok(view) => Ok(html(view)),
        // The page shows why, with who looks and the filters that are to be mended.
        Err(problem)
            if problem.reason.status() < BUSY
                && request.headers().get(header::ACCEPT).is_some_and(|wanted| wanted == "text/html") =>
        {
            let view = refused::view(&scope.viewer(asked.0, Vec::new()), &asked.1, &problem.message);
            Ok(html(view.into_string()))
        }
        Err(problem) => Err(problem.into()),
    }
}

/// The view at `at` for whom `waiting` waits.
async fn show(
    scope: &ConsoleScope,
    node: &web::Data<NodeState>,
    mut elsewhere: Option<Elsewhere>,
    mut at: ConsoleLocation,
    waiting: Vec<WaitingItem>,
) -> Result<String, Problem> {
    // An invalid filter is named.
    task_list::filters(scope, &at).criteria(&scope.by)?;
    let of_tasks = match at.view {
        ViewName::Tasks | ViewName::Sessions => {
            let is_session = at.view == ViewName::Sessions;
            let capability = if is_session { CAPABILITY.to_owned() } else { at.capability.clone() };
            let wanted = ConsoleLocation { capability, ..at.clone() };
            Some(elsewhere::task_page(scope, elsewhere.as_mut(), &wanted, task_list::PAGE).await?)
        }
        _ => None,
    };
    // What is read elsewhere is read before it is said who gave no answer.
    let of_inbox = match at.view {
        ViewName::Inbox => Some(inbox_view::data(scope, elsewhere.as_mut(), waiting.clone()).await?),
        _ => None,
    };
    let of_bulk = match at.view {
        ViewName::Bulk if at.id.is_empty() => Some(task_verb::preview(scope, elsewhere.as_mut(), &at).await?),
        _ => None,
    };
    let is_at_agent = [ViewName::Task, ViewName::Session, ViewName::Chat].contains(&at.view);
    let away = elsewhere.as_ref().filter(|elsewhere| is_at_agent && elsewhere.is_away(&at.agent));
    if let Some(elsewhere) = away {
        return Err(elsewhere.away(&at.agent));
    }
    // A link from the board names no agent.
    let is_of_task = [ViewName::Task, ViewName::Session].contains(&at.view) && at.agent.is_empty();
    if let Some(elsewhere) = elsewhere.as_mut().filter(|_| is_of_task && scope.task("", &at.id).is_err()) {
        let found = elsewhere.find_task(&at.id).await;
        at.agent = found.ok_or_else(|| nowhere(&at.id, elsewhere))?.to_string();
    }
    let silent = elsewhere.iter().flat_map(|elsewhere| elsewhere.silent.iter().cloned());
    let calls = node.registry_calls.as_ref().filter(|_| scope.is_signed_in() && !scope.is_of_agent);
    let board = calls.filter(|calls| calls.is_silent(BOARD)).map(|_| BOARD.to_owned());
    let silent = silent.chain(board).collect();
    let viewer = scope.viewer(waiting.len(), silent);
    if let (ViewName::Chat, true, Some(first)) = (
        at.view,
        at.agent.is_empty() && scope.agents.is_empty(),
        elsewhere.as_ref().and_then(Elsewhere::entrance),
    ) {
        at.agent = first.agent_id.to_string();
    }
    let is_of_one_agent =
        [ViewName::Task, ViewName::Session, ViewName::Chat, ViewName::Agent].contains(&at.view);
    if let Some(card) = elsewhere.as_ref().filter(|_| is_of_one_agent).and_then(|all| all.agent(&at.agent)) {
        return Ok(console::views::elsewhere::view(&viewer, &at, &card.endpoint).into_string());
    }
    let view = match at.view {
        ViewName::Start => {
            start::view(&viewer, &start_view::data(scope, node, elsewhere.as_mut(), waiting).await?)
        }
        ViewName::Inbox => inbox::view(&viewer, &of_inbox.unwrap_or_default()),
        ViewName::Tasks => {
            let mut page = of_tasks.unwrap_or_default();
            page.capabilities = capabilities(node).await?.into_keys().map(|name| name.to_string()).collect();
            tasks::view(&viewer, &at, &page)
        }
        ViewName::Bulk => match of_bulk {
            Some(preview) => bulk::preview(&viewer, &at, &preview),
            None => bulk::progress(&viewer, &at, &task_verb::run(scope, node, &at)?.borrow()),
        },
        ViewName::Task => task::view(&viewer, &at, &task_view::data(scope, node, &at).await?),
        ViewName::Sessions => sessions::view(&viewer, &at, &of_tasks.unwrap_or_default()),
        ViewName::Session => session::view(&viewer, &session_view::data(scope, node, &at)?),
        ViewName::Board => board::view(&viewer, &at, &board_view::data(scope, node, &at).await?),
        ViewName::Space => space::view(&viewer, &at, &space_view::data(scope, node, &at).await?),
        ViewName::Brief => brief::view(&viewer, &at, &brief_view::data(scope, node, &at).await?),
        ViewName::Mesh => mesh::view(&viewer, &agent_views::lines(scope, node).await?),
        ViewName::Agent => agent::view(&viewer, &agent_views::data(scope, node, &at).await?),
        ViewName::Cost => {
            cost::view(&viewer, &at, &cost_view::data(scope, node, elsewhere.as_mut(), &at).await?)
        }
        ViewName::Health => health::view(&viewer, &health_view::data(scope, node).await?),
        ViewName::Chat => {
            let mut data = chat_view::data(scope, &at).await?;
            let there = elsewhere.iter().flat_map(Elsewhere::cards);
            data.agents.extend(there.map(|card| card.agent_id.to_string()));
            chat::view(&viewer, &data)
        }
        ViewName::Agents => agents::view(&viewer, &agent_views::lines(scope, node).await?),
    };
    Ok(view.into_string())
}
