//! Collects what a view shows, and renders it.

use super::{
    chat_view, html,
    scope::{ConsoleScope, capabilities},
    start_view, task_list, task_view,
};
use crate::http::{node_state::NodeState, routes::health};
use actix_web::{HttpRequest, HttpResponse, web};
use console::{
    location::{ConsoleLocation, ViewName},
    views::{agents, chat, inbox, start, task, tasks},
};
use engine::PeerLocation;
use protocol::{
    card::Card,
    ids::AgentId,
    principal::Principal,
    problem::{Problem, Reason},
};
use registry::entry::{AgentQuery, Presence};
use transport::refusal::Refusal;

/// Returns the view that the query names, as HTML without the frame.
pub(super) async fn get(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
) -> Result<HttpResponse, Refusal> {
    let scope = ConsoleScope::of(&request, &node, &by)?;
    let at = ConsoleLocation::parse(request.query_string()).map_err(|why| {
        Problem::new(Reason::InvalidField, format!("the address is none of the console: {why}"))
    })?;
    let questions = scope.read(ConsoleScope::questions).await?;
    let viewer = scope.viewer(questions.len());
    let view = match at.view {
        ViewName::Start => start::view(&viewer, &start_view::data(&scope, &node, questions).await?),
        ViewName::Inbox => {
            let items: Vec<_> = questions.into_iter().map(start_view::waiting).collect();
            inbox::view(&viewer, &items)
        }
        ViewName::Tasks => {
            let mut page = {
                let at = at.clone();
                scope.read(move |scope| task_list::page(scope, &at)).await?
            };
            page.agents = scope.ids().iter().map(ToString::to_string).collect();
            page.capabilities = capabilities(&node).into_keys().map(|name| name.to_string()).collect();
            tasks::view(&viewer, &at, &page)
        }
        ViewName::Task => task::view(&viewer, &task_view::data(&scope, &node, &at).await?),
        ViewName::Chat => chat::view(&viewer, &chat_view::data(&scope, &at).await?),
        ViewName::Agents => agents::view(&viewer, &agent_lines(&node).await?, &checks(&node).await),
    };
    Ok(html(view.into_string()))
}

/// The agents of the mesh, as the registry of this process knows them, or its cache of the registry.
async fn agent_lines(node: &NodeState) -> Result<Vec<agents::AgentLine>, Problem> {
    let mut lines = Vec::new();
    if let Some(registry) = &node.local_services.registry {
        let query = AgentQuery { include_dead: true, ..AgentQuery::default() };
        for entry in registry.read(query).await?.agents {
            let presence = match entry.state {
                Presence::Alive | Presence::Suspect if entry.accepting => agents::AgentPresence::Ready,
                Presence::Alive | Presence::Suspect => agents::AgentPresence::Waiting,
                Presence::Dead => agents::AgentPresence::Away,
                Presence::Departed => agents::AgentPresence::Left,
            };
            lines.push(agent_line(node, &entry.card, presence, entry.running));
        }
    } else {
        for card in node.peers.cards() {
            let presence = match node.peers.locate(&card.agent_id) {
                PeerLocation::At(_) | PeerLocation::Here => agents::AgentPresence::Ready,
                PeerLocation::Away { .. } | PeerLocation::Unknown => agents::AgentPresence::Away,
                PeerLocation::Left => agents::AgentPresence::Left,
            };
            let running = node.peers.running(&card.agent_id);
            lines.push(agent_line(node, &card, presence, running));
        }
    }
    lines.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(lines)
}

fn agent_line(
    node: &NodeState,
    card: &Card,
    presence: agents::AgentPresence,
    running: u32,
) -> agents::AgentLine {
    let local = node.agents.get(&card.agent_id);
    let failed = local.and_then(|local| local.status.failed());
    let waits_for = local.and_then(|local| local.status.waits_for()).or_else(|| card.waits_for.clone());
    let presence = match (&failed, &waits_for) {
        (Some(_), _) => agents::AgentPresence::Down,
        (None, Some(_)) if presence == agents::AgentPresence::Ready => agents::AgentPresence::Waiting,
        (None, _) => presence,
    };
    let endpoint = local.map(|local| public_base(node, &local.id)).unwrap_or_default();
    agents::AgentLine {
        id: card.agent_id.to_string(),
        description: card.description.clone(),
        skills: card.skills.iter().map(|skill| skill.id.to_string()).collect(),
        version: card.version.clone(),
        endpoint: endpoint.unwrap_or_else(|| card.endpoint.clone()),
        presence,
        running: local.map_or(running, |local| local.status.running()),
        places: card.terms.max_parallel,
        is_here: local.is_some(),
        trouble: failed.or(waits_for),
    }
}

/// Where a browser reaches an agent of this process, if a proxy leads there.
fn public_base(node: &NodeState, agent: &AgentId) -> Option<String> {
    let end = format!("/{agent}");
    node.public_urls.urls().find(|url| url.ends_with(&end)).map(str::to_owned)
}

/// The checks of the readiness of this process, and why each fails.
async fn checks(node: &NodeState) -> Vec<(String, Option<String>)> {
    let health::Readiness { checks, damaged, .. } = health::readiness(node).await;
    let damaged = damaged.into_iter().map(|what| ("store".to_owned(), Some(what)));
    let why = |result: health::CheckResult| (!result.ok).then(|| result.why.unwrap_or_default());
    checks.into_iter().map(|(name, result)| (name, why(result))).chain(damaged).collect()
}
