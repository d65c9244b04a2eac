//! The spans of a conversation, and of all that it led to: what its messages opened, and what its signals set off.

use super::{Missing, Part, opened_by, reactions};
use crate::{
    http::node_state::{HostedAgent, Node},
    journal::steps,
    telemetry::{capture::Capture, names as n, span::Span, span_builder},
};
use actix_web::web;
use blackboard::wire::Call;
use futures_util::future::{LocalBoxFuture, join, join_all};
use protocol::{
    ids::{AgentId, ConversationId, MessageId},
    message::MessageKind,
    principal::Principal,
    problem::{Problem, Reason},
    routes,
};
use std::{collections::BTreeSet, time::Duration};

/// How many agents deep a trace is followed.
pub(super) const DEEPEST: u32 = 8;
/// How long an agent at the deepest place may take; every one above it this much longer.
const PER_LEVEL: Duration = Duration::from_millis(750);

/// How long an agent may take that follows so much deeper.
pub(super) fn patience(depth: u32) -> Duration {
    PER_LEVEL * depth.max(1)
}

/// What a message opened elsewhere, as a span tells of it.
struct Asked {
    to: AgentId,
    message: MessageId,
    span_id: String,
}

fn asked(me: &AgentId, span: &Span) -> Option<Asked> {
    let opens =
        [MessageKind::TaskRequest, MessageKind::Award, MessageKind::HelpRequest].map(MessageKind::wire);
    let is_sent = [Some("tell"), Some("award")].contains(&span.text(n::MESH_SPAN));
    if !is_sent || !opens.contains(&span.text(n::MESH_TYPE)?) {
        return None;
    }
    let to = span.text(n::PEER_TO)?;
    let to = if to.starts_with("capability:") { me.clone() } else { AgentId::parse(to).ok()? };
    Some(Asked {
        to,
        message: MessageId::parse(span.text(n::MESH_MESSAGE)?).ok()?,
        span_id: span.span_id.clone(),
    })
}

/// The spans of a conversation, and of all that it led to.
pub(super) fn follow<'a>(
    node: &'a Node,
    local: &'a HostedAgent,
    conversation: ConversationId,
    depth: u32,
) -> LocalBoxFuture<'a, Result<Part, Problem>> {
    Box::pin(async move {
        let (store, me, id) = (local.store.clone(), local.id.clone(), conversation);
        let read = web::block(move || {
            let steps = steps(store.as_ref(), &me, &id)?;
            let built = span_builder::build(&me, &id, &steps, &Capture::default()).into_iter();
            let bids = span_builder::bids_in_journal(&me, &id, &steps, &Capture::default());
            Ok(built.map(|built| built.span).chain(bids).collect())
        });
        let told = read.await.map_err(|error| Problem::new(Reason::Overloaded, error.to_string()))?;
        let told = told.map_err(|error: blackboard::store::Error| Problem::from(error))?;
        let mut part = Part { spans: told, missing: Vec::new() };
        let asked: Vec<_> = part.spans.iter().filter_map(|span| asked(&local.id, span)).collect();
        let published: Vec<_> = part.spans.iter().filter_map(reactions::published).collect();
        let parts = join_all(asked.iter().map(|asked| part_of(node, local, asked, depth)));
        let (parts, set_off) = join(parts, reactions::of(node, local, &published, depth)).await;
        part.add(set_off);
        for (asked, answer) in asked.into_iter().zip(parts) {
            match answer {
                Ok(more) => part.add(more),
                Err(problem) => part.missing.push(Missing {
                    agent: asked.to.to_string(),
                    span_id: asked.span_id,
                    why: problem.message,
                }),
            }
        }
        let mut seen = BTreeSet::new();
        part.spans.retain(|span| seen.insert(span.span_id.clone()));
        Ok(part)
    })
}

async fn part_of(node: &Node, local: &HostedAgent, asked: &Asked, depth: u32) -> Result<Part, Problem> {
    if depth == 0 {
        return Err(Problem::new(Reason::TooManyHops, format!("more than {DEEPEST} agents deep")));
    }
    let by = Principal::Agent(local.id.clone());
    if let Some(other) = node.agents.get(&asked.to) {
        return match opened_by(other, &asked.message, &by)? {
            Some(conversation) => follow(node, other, conversation, depth - 1).await,
            None => Err(Problem::new(Reason::MessageNotFound, format!("{} has not taken it", asked.to))),
        };
    }
    let engine::PeerLocation::At(endpoint) = node.peers.locate(&asked.to) else {
        return Err(Problem::new(Reason::AgentNotFound, format!("{} is not there", asked.to)));
    };
    let url = format!("{endpoint}{}/{}/trace?depth={}", routes::MESSAGES, asked.message, depth - 1);
    let call = Call::get(&url, asked.to.as_str()).within(patience(depth));
    let said = |problem: Problem| Problem { message: problem.message.replace(&url, &endpoint), ..problem };
    local.wire.json(call).await.map_err(said)
}
