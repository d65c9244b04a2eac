//! Collects what signals caused. Each agent that follows a signal's type is asked once for all signals of a conversation.
//!
//! The board does not know which agents reacted. Cards name the signal types that an agent follows. An agent keeps a receipt
//! of each conversation that a signal opened, as long as its journals, and reveals it to the signal's publisher.

use super::{
    MissingTracePart, TracePart,
    collect::{MAX_DEPTH, collect, request_timeout},
};
use crate::{
    http::node_state::{HostedAgent, NodeState},
    telemetry::{names as n, span::Span},
};
use actix_web::{HttpRequest, HttpResponse, web};
use engine::PeerLocation;
use engine::records::{ReactionReceipt, keys};
use futures_util::future::{join, join_all};
use protocol::{
    card::Card,
    ids::{AgentId, ConversationId},
    principal::Principal,
    problem::{Problem, Reason},
    routes,
    words::counted,
};
use serde::Deserialize;
use transport::http_client::ClientRequest;
use transport::refusal::Refusal;

/// Limit of agents on other nodes that are asked about one conversation's signals.
const MAX_FOLLOWERS: usize = 64;
/// Limit of signals of one conversation that are followed, and of reactions to one signal that an agent returns.
const MAX_SIGNALS: usize = 128;

/// The query for reactions.
#[derive(Debug, Deserialize)]
pub struct ReactionQuery {
    /// Ids of the spans that published the signals, separated by commas; all of the trace if absent.
    under: Option<String>,
    agent: Option<AgentId>,
    depth: Option<u32>,
}

/// A published signal, as its span records it.
pub(super) struct PublishedSignal<'a> {
    kind: &'a str,
    span: &'a Span,
}

pub(super) fn published(span: &Span) -> Option<PublishedSignal<'_>> {
    (span.text(n::MESH_SPAN) == Some("publish"))
        .then(|| Some(PublishedSignal { kind: span.text(n::MESH_TYPE)?, span }))
        .flatten()
}

/// Returns what the caller's signals caused at agents of this node.
pub async fn answer(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
    query: web::Query<ReactionQuery>,
) -> Result<HttpResponse, Refusal> {
    let trace = hex(&path, 32).and_then(|trace| u128::from_str_radix(trace, 16).ok()).ok_or_else(|| {
        Problem::new(Reason::InvalidField, format!("{:?} is no trace id, which has 32 digits", &**path))
    })?;
    let under = match &query.under {
        None => vec![None],
        Some(spans) => {
            spans.split(',').map(|span| Ok(Some(span_id(span)?))).collect::<Result<_, Problem>>()?
        }
    };
    if under.len() > MAX_SIGNALS {
        let message = format!("{} spans, the limit is {MAX_SIGNALS}", under.len());
        return Err(Problem::new(Reason::InvalidField, message).with("limit", MAX_SIGNALS).into());
    }
    let mut part = TracePart::default();
    for local in node.agents_in_lookup_order(&request) {
        if query.agent.as_ref().is_none_or(|agent| *agent == local.id) {
            let depth = query.depth.unwrap_or(MAX_DEPTH).min(MAX_DEPTH);
            part.add(here(&node, local, trace, &under, &by, depth).await?);
        }
    }
    Ok(HttpResponse::Ok().json(part))
}

fn span_id(text: &str) -> Result<u64, Problem> {
    hex(text, 16).and_then(|span| u64::from_str_radix(span, 16).ok()).ok_or_else(|| {
        let text: String = text.chars().take(40).collect();
        Problem::new(Reason::InvalidField, format!("under: {text:?} is no span id, which has 16 digits"))
    })
}

fn hex(text: &str, digits: usize) -> Option<&str> {
    (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(text)
}

/// Collects what signals that `local` has `published` caused, on all nodes.
pub(super) async fn of(
    node: &NodeState,
    local: &HostedAgent,
    published: &[PublishedSignal<'_>],
    depth: u32,
) -> TracePart {
    let mut part = TracePart::default();
    let (followed, beyond) = published.split_at(published.len().min(MAX_SIGNALS));
    if let Some(first) = beyond.first() {
        let more = counted(beyond.len(), "signal", "signals");
        let why = format!("{more} more than {MAX_SIGNALS} can't be followed");
        part.missing.push(missing(&local.id, first, why));
    }
    let local_followers = node.agents.values().map(|local| FollowingAgent::of(&local.card.get(), followed));
    let others = node.peers.cards();
    let others = others.iter().filter(|card| !node.agents.contains_key(&card.agent_id));
    let others = others.map(|card| FollowingAgent::of(card, followed));
    let local_followers: Vec<_> = local_followers.flatten().collect();
    let mut others: Vec<_> = others.flatten().collect();
    if depth == 0 {
        let first = local_followers.first().or(others.first());
        if let Some(follower) = first {
            part.add(follower.missed(format!("more than {MAX_DEPTH} agents deep")));
        }
        return part;
    }
    if others.len() > MAX_FOLLOWERS {
        let why = format!("more than {MAX_FOLLOWERS} agents follow that");
        others.drain(MAX_FOLLOWERS..).for_each(|follower| part.add(follower.missed(why.clone())));
    }
    let by = Principal::Agent(local.id.clone());
    let local_followers = join_all(local_followers.iter().map(|follower| follower.here(node, &by, depth)));
    let others = join_all(others.iter().map(|follower| follower.elsewhere(node, local, depth)));
    let (local_parts, other_parts) = join(local_followers, others).await;
    local_parts.into_iter().chain(other_parts).for_each(|more| part.add(more));
    part
}

/// An agent that follows some of the signals.
struct FollowingAgent<'a> {
    agent: AgentId,
    first: &'a PublishedSignal<'a>,
    under: Vec<u64>,
    trace: u128,
}

impl<'a> FollowingAgent<'a> {
    fn of(card: &Card, published: &'a [PublishedSignal<'a>]) -> Option<Self> {
        let mut followed = published.iter().filter(|one| card.follows(one.kind)).peekable();
        let first = *followed.peek()?;
        let trace = u128::from_str_radix(&first.span.trace_id, 16).ok()?;
        let under = followed.filter_map(|one| span_id(&one.span.span_id).ok()).collect();
        Some(Self { agent: card.agent_id.clone(), first, under, trace })
    }

    fn missed(&self, why: String) -> TracePart {
        TracePart { spans: Vec::new(), missing: vec![missing(&self.agent, self.first, why)] }
    }

    async fn here(&self, node: &NodeState, by: &Principal, depth: u32) -> TracePart {
        let under: Vec<_> = self.under.iter().copied().map(Some).collect();
        let Some(local) = node.agents.get(&self.agent) else { return TracePart::default() };
        let part = here(node, local, self.trace, &under, by, depth - 1).await;
        part.unwrap_or_else(|problem| self.missed(problem.message))
    }

    async fn elsewhere(&self, node: &NodeState, local: &HostedAgent, depth: u32) -> TracePart {
        let agent = &self.agent;
        let PeerLocation::At(endpoint) = node.peers.locate(agent) else {
            return self.missed(format!("{agent}, which follows {}, is not there", self.first.kind));
        };
        let under: Vec<_> = self.under.iter().map(|span| format!("{span:016x}")).collect();
        let (trace, under, deeper) = (format!("{:032x}", self.trace), under.join(","), depth - 1);
        let path = format!("{}/{trace}/reactions?agent={agent}&under={under}&depth={deeper}", routes::TRACES);
        let url = format!("{endpoint}{path}");
        let call = ClientRequest::get(&url, agent.as_str()).within(request_timeout(depth));
        // The URL's path and query are no use to the reader.
        let missed = |problem: Problem| self.missed(problem.message.replace(&url, &endpoint));
        local.wire.json(call).await.unwrap_or_else(missed)
    }
}

fn missing(agent: &AgentId, of: &PublishedSignal<'_>, why: String) -> MissingTracePart {
    MissingTracePart { agent: agent.to_string(), span_id: of.span.span_id.clone(), why }
}

/// Collects what signals of `by` caused at `local`.
async fn here(
    node: &NodeState,
    local: &HostedAgent,
    trace: u128,
    under: &[Option<u64>],
    by: &Principal,
    depth: u32,
) -> Result<TracePart, Problem> {
    let mut part = TracePart::default();
    for under in under {
        for conversation in conversations_opened_by(local, trace, *under, by)? {
            part.add(collect(node, local, conversation, depth).await?);
        }
    }
    Ok(part)
}

/// The conversations of `local` that signals of `by` opened.
fn conversations_opened_by(
    local: &HostedAgent,
    trace: u128,
    under: Option<u64>,
    by: &Principal,
) -> Result<Vec<ConversationId>, Problem> {
    let receipts =
        local.store.read(&keys::reactions(&local.id, trace, under), 0, MAX_SIGNALS).map_err(Problem::from)?;
    let mut conversations = Vec::new();
    for record in receipts {
        let receipt: ReactionReceipt = serde_json::from_slice(&record.value)
            .map_err(|error| Problem::new(Reason::Internal, format!("a record can't be read: {error}")))?;
        if receipt.by.as_ref() == Some(by) {
            conversations.push(receipt.conversation_id);
        }
    }
    Ok(conversations)
}
