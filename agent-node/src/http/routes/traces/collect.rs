//! Collects the spans of a conversation and of everything that its messages and signals caused.

use super::{MissingTracePart, TracePart, conversation_of_message, reactions};
use crate::{
    http::node_state::{HostedAgent, NodeState},
    journal::steps,
    telemetry::{capture::Capture, names as n, span::Span, span_builder},
};
use actix_web::web;
use futures_util::future::{LocalBoxFuture, join, join_all};
use protocol::{
    ids::{AgentId, ConversationId, MessageId},
    message::MessageKind,
    principal::Principal,
    problem::{Problem, Reason},
    routes,
};
use std::{collections::BTreeSet, time::Duration};
use transport::http_client::ClientRequest;

/// Limit of agents on one path of a trace.
pub(in crate::http) const MAX_DEPTH: u32 = 8;
/// Time limit per level of depth below an agent.
const PER_LEVEL: Duration = Duration::from_millis(750);

/// Time limit for an agent that collects `depth` further levels.
pub(super) fn request_timeout(depth: u32) -> Duration {
    PER_LEVEL * depth.max(1)
}

/// A message that opened a conversation elsewhere, as its span records it.
struct SentRequest {
    to: AgentId,
    message: MessageId,
    span_id: String,
}

fn sent_request(me: &AgentId, span: &Span) -> Option<SentRequest> {
    let opens =
        [MessageKind::TaskRequest, MessageKind::Award, MessageKind::HelpRequest].map(MessageKind::wire);
    let is_sent = [Some("tell"), Some("award")].contains(&span.text(n::MESH_SPAN));
    if !is_sent || !opens.contains(&span.text(n::MESH_TYPE)?) {
        return None;
    }
    let to = span.text(n::PEER_TO)?;
    let to = if to.starts_with("capability:") { me.clone() } else { AgentId::parse(to).ok()? };
    Some(SentRequest {
        to,
        message: MessageId::parse(span.text(n::MESH_MESSAGE)?).ok()?,
        span_id: span.span_id.clone(),
    })
}

/// Collects the spans of a conversation and of everything that it caused.
pub(in crate::http) fn collect<'a>(
    node: &'a NodeState,
    local: &'a HostedAgent,
    conversation: ConversationId,
    depth: u32,
) -> LocalBoxFuture<'a, Result<TracePart, Problem>> {
    collect_with(node, local, conversation, depth, Capture::default())
}

/// The same, with the content of the conversation itself as `capture` has it.
pub(in crate::http) fn collect_with<'a>(
    node: &'a NodeState,
    local: &'a HostedAgent,
    conversation: ConversationId,
    depth: u32,
    capture: Capture,
) -> LocalBoxFuture<'a, Result<TracePart, Problem>> {
    Box::pin(async move {
        let (store, me, id) = (local.store.clone(), local.id.clone(), conversation);
        let read = web::block(move || {
            let steps = steps(store.as_ref(), &me, &id)?;
            let built = span_builder::build(&me, &id, &steps, &capture).into_iter();
            let bids = span_builder::bids_in_journal(&me, &id, &steps, &Capture::default());
            Ok(built.map(|built| built.span).chain(bids).collect())
        });
        let spans = read.await.map_err(|error| Problem::new(Reason::Overloaded, error.to_string()))?;
        let spans = spans.map_err(|error: store::Error| Problem::from(error))?;
        let mut part = TracePart { spans, missing: Vec::new() };
        let requests: Vec<_> = part.spans.iter().filter_map(|span| sent_request(&local.id, span)).collect();
        let published: Vec<_> = part.spans.iter().filter_map(reactions::published).collect();
        let parts = join_all(requests.iter().map(|request| part_of(node, local, request, depth)));
        let (parts, reactions) = join(parts, reactions::of(node, local, &published, depth)).await;
        part.add(reactions);
        for (request, answer) in requests.into_iter().zip(parts) {
            match answer {
                Ok(more) => part.add(more),
                Err(problem) => part.missing.push(MissingTracePart {
                    agent: request.to.to_string(),
                    span_id: request.span_id,
                    why: problem.message,
                }),
            }
        }
        let mut ids = BTreeSet::new();
        part.spans.retain(|span| ids.insert(span.span_id.clone()));
        Ok(part)
    })
}

async fn part_of(
    node: &NodeState,
    local: &HostedAgent,
    request: &SentRequest,
    depth: u32,
) -> Result<TracePart, Problem> {
    if depth == 0 {
        return Err(Problem::new(Reason::TooManyHops, format!("more than {MAX_DEPTH} agents deep")));
    }
    let by = Principal::Agent(local.id.clone());
    if let Some(other) = node.agents.get(&request.to) {
        return match conversation_of_message(other, &request.message, &by)? {
            Some((conversation, _)) => collect(node, other, conversation, depth - 1).await,
            None => Err(Problem::new(Reason::MessageNotFound, format!("{} has not taken it", request.to))),
        };
    }
    let engine::PeerLocation::At(endpoint) = node.peers.locate(&request.to) else {
        return Err(Problem::new(Reason::AgentNotFound, format!("{} is not there", request.to)));
    };
    let url = format!("{endpoint}{}/{}/trace?depth={}", routes::MESSAGES, request.message, depth - 1);
    let call = ClientRequest::get(&url, request.to.as_str()).within(request_timeout(depth));
    let shorten = |problem: Problem| Problem { message: problem.message.replace(&url, &endpoint), ..problem };
    local.wire.json(call).await.map_err(shorten)
}
