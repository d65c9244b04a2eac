//! What a signal set off: each agent that follows its type is asked what it did because use of it, once for all signals of a
//! conversation.
//!
//! The board does not know who reacted. Cards say who follows what; an agent keeps, as long as its journals, which
//! conversation it opened because of which signal, and tells that to whoever published it.

use super::{
    Missing, Part,
    follow::{DEEPEST, follow, patience},
};
use crate::{
    http::node_state::{HostedAgent, Node},
    telemetry::{names as n, span::Span},
};
use actix_web::{HttpRequest, HttpResponse, web};
use blackboard::{refusal::Refusal, wire::Call};
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

/// The most agents elsewhere that are asked what the signals of one conversation set off.
const MOST_ASKED: usize = 64;
/// The most signals of one conversation that are asked for, and the most reactions to one that an agent tells.
const MOST_SIGNALS: usize = 128;

/// Which reactions are wanted.
#[derive(Debug, Deserialize)]
pub struct Wanted {
    /// To signals that were published under these spans, divided by commas; without, to any of the trace.
    under: Option<String>,
    /// Only this agent's.
    agent: Option<AgentId>,
    depth: Option<u32>,
}

/// A signal that was published, as its span tells.
pub(super) struct Published<'a> {
    kind: &'a str,
    span: &'a Span,
}

/// What `span` published, if it did.
pub(super) fn published(span: &Span) -> Option<Published<'_>> {
    (span.text(n::MESH_SPAN) == Some("publish"))
        .then(|| Some(Published { kind: span.text(n::MESH_TYPE)?, span }))
        .flatten()
}

/// What agents of this node did because of the caller's signals.
pub async fn answer(
    request: HttpRequest,
    node: web::Data<Node>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
    wanted: web::Query<Wanted>,
) -> Result<HttpResponse, Refusal> {
    let trace = hex(&path, 32).and_then(|trace| u128::from_str_radix(trace, 16).ok()).ok_or_else(|| {
        Problem::new(Reason::InvalidField, format!("{:?} is no trace id, which has 32 digits", &**path))
    })?;
    let under = match &wanted.under {
        None => vec![None],
        Some(spans) => {
            spans.split(',').map(|span| Ok(Some(span_id(span)?))).collect::<Result<_, Problem>>()?
        }
    };
    if under.len() > MOST_SIGNALS {
        let message = format!("{} spans, the limit is {MOST_SIGNALS}", under.len());
        return Err(Problem::new(Reason::InvalidField, message).with("limit", MOST_SIGNALS).into());
    }
    let mut part = Part::default();
    for local in node.in_turn(&request) {
        if wanted.agent.as_ref().is_none_or(|agent| *agent == local.id) {
            let depth = wanted.depth.unwrap_or(DEEPEST).min(DEEPEST);
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

/// What was set off by what `local` has `published`, wherever.
pub(super) async fn of(node: &Node, local: &HostedAgent, published: &[Published<'_>], depth: u32) -> Part {
    let mut part = Part::default();
    let (asked, beyond) = published.split_at(published.len().min(MOST_SIGNALS));
    if let Some(first) = beyond.first() {
        let more = counted(beyond.len(), "signal", "signals");
        let why = format!("{more} more than {MOST_SIGNALS} can't be followed");
        part.missing.push(missing(&local.id, first, why));
    }
    let ours = node.agents.values().map(|local| Follower::of(&local.card.get(), asked));
    let others = node.peers.cards();
    let others = others.iter().filter(|card| !node.agents.contains_key(&card.agent_id));
    let others = others.map(|card| Follower::of(card, asked));
    let ours: Vec<_> = ours.flatten().collect();
    let mut others: Vec<_> = others.flatten().collect();
    if depth == 0 {
        let deeper = ours.first().or(others.first());
        if let Some(follower) = deeper {
            part.add(follower.missed(format!("more than {DEEPEST} agents deep")));
        }
        return part;
    }
    if others.len() > MOST_ASKED {
        let why = format!("more than {MOST_ASKED} agents follow that");
        others.drain(MOST_ASKED..).for_each(|follower| part.add(follower.missed(why.clone())));
    }
    let by = Principal::Agent(local.id.clone());
    let ours = join_all(ours.iter().map(|follower| follower.here(node, &by, depth)));
    let others = join_all(others.iter().map(|follower| follower.elsewhere(node, local, depth)));
    let (ours, others) = join(ours, others).await;
    ours.into_iter().chain(others).for_each(|more| part.add(more));
    part
}

/// Who follows some of the signals.
struct Follower<'a> {
    agent: AgentId,
    first: &'a Published<'a>,
    under: Vec<u64>,
    trace: u128,
}

impl<'a> Follower<'a> {
    fn of(card: &Card, published: &'a [Published<'a>]) -> Option<Self> {
        let mut followed = published.iter().filter(|one| card.follows(one.kind)).peekable();
        let first = *followed.peek()?;
        let trace = u128::from_str_radix(&first.span.trace_id, 16).ok()?;
        let under = followed.filter_map(|one| span_id(&one.span.span_id).ok()).collect();
        Some(Self { agent: card.agent_id.clone(), first, under, trace })
    }

    fn missed(&self, why: String) -> Part {
        Part { spans: Vec::new(), missing: vec![missing(&self.agent, self.first, why)] }
    }

    async fn here(&self, node: &Node, by: &Principal, depth: u32) -> Part {
        let under: Vec<_> = self.under.iter().copied().map(Some).collect();
        let Some(local) = node.agents.get(&self.agent) else { return Part::default() };
        let part = here(node, local, self.trace, &under, by, depth - 1).await;
        part.unwrap_or_else(|problem| self.missed(problem.message))
    }

    async fn elsewhere(&self, node: &Node, local: &HostedAgent, depth: u32) -> Part {
        let agent = &self.agent;
        let PeerLocation::At(endpoint) = node.peers.locate(agent) else {
            return self.missed(format!("{agent}, which follows {}, is not there", self.first.kind));
        };
        let under: Vec<_> = self.under.iter().map(|span| format!("{span:016x}")).collect();
        let (trace, under, deeper) = (format!("{:032x}", self.trace), under.join(","), depth - 1);
        let path = format!("{}/{trace}/reactions?agent={agent}&under={under}&depth={deeper}", routes::TRACES);
        let url = format!("{endpoint}{path}");
        let call = Call::get(&url, agent.as_str()).within(patience(depth));
        // Whom it is about is enough; how it was asked is nobody's.
        let said = |problem: Problem| self.missed(problem.message.replace(&url, &endpoint));
        local.wire.json(call).await.unwrap_or_else(said)
    }
}

fn missing(agent: &AgentId, of: &Published<'_>, why: String) -> Missing {
    Missing { agent: agent.to_string(), span_id: of.span.span_id.clone(), why }
}

/// What `local` did because of signals of `by`.
async fn here(
    node: &Node,
    local: &HostedAgent,
    trace: u128,
    under: &[Option<u64>],
    by: &Principal,
    depth: u32,
) -> Result<Part, Problem> {
    let mut part = Part::default();
    for under in under {
        for conversation in opened_by(node, local, trace, *under, by)? {
            part.add(follow(node, local, conversation, depth).await?);
        }
    }
    Ok(part)
}

/// The conversations of `local` that signals of `by` opened. A name on the board that is no agent's is a user's label.
fn opened_by(
    node: &Node,
    local: &HostedAgent,
    trace: u128,
    under: Option<u64>,
    by: &Principal,
) -> Result<Vec<ConversationId>, Problem> {
    let found = local
        .store
        .read(&keys::reactions(&local.id, trace, under), 0, MOST_SIGNALS)
        .map_err(Problem::from)?;
    let is_agent = |from: &AgentId| node.agents.contains_key(from) || node.peers.knows(from);
    let mut conversations = Vec::new();
    for record in found {
        let reacted: ReactionReceipt = serde_json::from_slice(&record.value)
            .map_err(|error| Problem::new(Reason::Internal, format!("a record can't be read: {error}")))?;
        let is_theirs = match by {
            Principal::Agent(agent) => *agent == reacted.from,
            Principal::User(_) => *by == Principal::local_user() && !is_agent(&reacted.from),
        };
        if is_theirs {
            conversations.push(reacted.conversation_id);
        }
    }
    Ok(conversations)
}
