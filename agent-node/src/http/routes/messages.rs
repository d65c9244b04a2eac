//! `POST /a2a/messages`: receives a message and answers with the target's acknowledgement (RFC-005; DESIGN §4).

mod accept_schema;
mod large_payload;
mod message_status;
mod named_artifacts;
mod reply_to;
mod several;
mod space;

use engine::{Ack, IncomingMessage, RelayedApproval, records::TaskRow};
pub use message_status::get;

use crate::{
    artifacts,
    clock::wall_time,
    http::{
        edge::{SignedAt, release_permit},
        headers,
        node_state::{HostedAgent, NodeState},
        prefer,
    },
    inbox::TakeMessage,
    tasks,
};
use actix_web::{
    HttpMessage, HttpRequest, HttpResponse,
    http::header::{HeaderName, HeaderValue},
    web,
};
use bytes::Bytes;
use patterns::session::is_shown_to;
use protocol::{
    a2a::task::A2aTask,
    envelope::{Envelope, TURN_KEY},
    ids::{Address, Digest, MessageId},
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
    question::Answer,
    signature::SignedResponse,
    trace::TraceContext,
};
use serde::Serialize;
use std::time::Duration;
use store::{Filter, Key, Revision};
use transport::refusal::Refusal;

/// Additional nesting depth for an agent's message, which may carry a user's content.
const FORWARDED_DEPTH: usize = 8;

/// The unknown members that an answer names.
const MAX_WARNINGS: usize = 8;

/// The applied `wait` preference (RFC 7240 §3).
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// Receives a message.
pub async fn post(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::ReqData<Bytes>,
) -> Result<HttpResponse, Refusal> {
    receive(&request, &node, by.into_inner(), body.into_inner()).await
}

/// Receives the message in `body`, as that of `by`.
pub(in crate::http) async fn receive(
    request: &HttpRequest,
    node: &NodeState,
    by: Principal,
    body: Bytes,
) -> Result<HttpResponse, Refusal> {
    if by.agent().is_some() && body.first() == Some(&b'[') {
        return several::post(request, node, &by, &body).await;
    }
    // An agent nests forwarded content deeper in its message than the original did.
    let additional_depth = if by.agent().is_some() { FORWARDED_DEPTH } else { 0 };
    let depth = node.limits.max_depth + additional_depth;
    let mut json = protocol::json::parse(&body, depth)?;
    if let Principal::Brain(agent) = &by {
        // The process of an agent speaks as the agent.
        json.as_object_mut()
            .map(|members| members.entry("fromAgentId").or_insert_with(|| agent.as_str().into()));
    }
    let payload = large_payload::inline(request, node, &mut json, &by).await?;
    let mut envelope = Box::new(match by.agent() {
        Some(_) => Envelope::from_json(json, new_message_id)?,
        None => Envelope::from_hand_written_json(json, new_message_id)?,
    });
    read_times(request, &mut envelope);
    accept_schema::check(&envelope)?;
    let local = match (&by, &envelope.to_agent_id) {
        (Principal::Brain(agent), _) => node.agent(agent)?,
        (_, Address::Agent(id)) => node.agent(id).map_err(|problem| problem.with("field", "toAgentId"))?,
        (_, Address::Capability(_)) => node.default_agent(request)?,
    };
    space::check(local, &by, proof_of(request), &envelope).await?;
    check_files(local, &by, &envelope)?;
    let named = named_artifacts::resolve(node, local, &by, &mut envelope).await?;
    let max = node.limits.max_artifact_bytes_per_principal;
    node.artifact_quota.add_message(local.store.as_ref(), &local.id, &by, body.len() + named, max)?;
    let digest = request.extensions().get::<Digest>().copied().unwrap_or_else(|| Digest::of(&body));
    let trace = trace_of(request);
    let id = envelope.message_id.clone();
    let answered = id.clone();
    let callback = reply_to::UserCallback::of(node, &by, &envelope)?;
    // Agents of a later version may know more.
    let mut warnings = if by.agent().is_some() { Vec::new() } else { ineffective_members(&by, &envelope) };
    let approval = relayed_approval(node, &by, &envelope)?;
    let proof = proof_of(request);
    let incoming = IncomingMessage {
        envelope,
        by: by.clone(),
        proof,
        digest,
        trace,
        contact: None,
        origin: None,
        approval,
    };
    let mut acknowledgement = Box::pin(local.actor.send(TakeMessage(incoming)));
    let ack = match tokio::time::timeout(node.ack(), &mut acknowledgement).await {
        Ok(Ok(answer)) => {
            let ack = answer?;
            payload.into_iter().for_each(large_payload::LargePayload::release);
            ack
        }
        Ok(Err(_)) => {
            return Err(Problem::new(Reason::Overloaded, format!("{} has stopped", local.id)).into());
        }
        Err(_) => {
            let status = local.status.clone();
            actix_web::rt::spawn(async move {
                if matches!(acknowledgement.await, Ok(Ok(_))) {
                    status.count_late_ack();
                }
            });
            let message = format!(
                "{} did not acknowledge within {} ms; GET /a2a/messages/{id} tells what became of it",
                local.id, node.limits.ack_ms
            );
            return Err(Problem::new(Reason::GatewayTimeout, message).with("messageId", id).into());
        }
    };
    if let Some(bid) = &ack.bid {
        return Ok(signed_bid(local, &by, &answered, bid)?);
    }
    if let Some(callback) = callback {
        warnings.extend(callback.register(local, &by, &ack).await?);
    }
    let max = Duration::from_millis(node.limits.max_wait_ms);
    if let (Some(wait), Some(_)) = (prefer::wait(request, max), &ack.task_id) {
        release_permit(request);
        let mut answer = wait_for_task(node, local, &ack, (&by, proof), wait, &warnings).await?;
        if let Ok(applied) = HeaderValue::from_str(&format!("wait={}", wait.as_secs())) {
            answer.headers_mut().insert(PREFERENCE_APPLIED, applied);
        }
        return Ok(answer);
    }
    Ok(acknowledged(&ack, &warnings))
}

/// Reads the times of an agent's message by the clock of this node.
fn read_times(request: &HttpRequest, envelope: &mut Envelope) {
    if let Some(SignedAt(signed_at)) = request.extensions().get() {
        envelope.read_times_by(*signed_at, wall_time());
    }
}

/// Fails if a message names files that its sender has not put here.
fn check_files(local: &HostedAgent, by: &Principal, envelope: &Envelope) -> Result<(), Problem> {
    artifacts::check_named(local.store.as_ref(), &local.id, by, &envelope.payload.to_json())
}

/// What proves who has sent a request.
pub(in crate::http) fn proof_of(request: &HttpRequest) -> SenderProof {
    request.extensions().get().copied().unwrap_or(SenderProof::Address)
}

/// Why an approval counts that the agent `by` passes on, if one of both holds: the configuration names the agent, or a person has
/// signed it. Fails if that can't be told yet; the agent then sends it again.
fn relayed_approval(
    node: &NodeState,
    by: &Principal,
    envelope: &Envelope,
) -> Result<Option<RelayedApproval>, Problem> {
    let Some(agent) = by.agent() else { return Ok(None) };
    if node.approvers.contains(agent) {
        return Ok(Some(RelayedApproval::ByTrustedAgent));
    }
    let answer = envelope.payload.answer().and_then(|answer| Answer::from_json(answer).ok());
    let Some(proof) = answer.as_ref().and_then(Answer::proof) else { return Ok(None) };
    let unknown = || Problem::new(Reason::Overloaded, "the registry has not told the person's key yet");
    let person = node.tokens.person().ok_or_else(unknown)?;
    Ok(person.has_approved(proof).then_some(RelayedApproval::SignedFor(proof.question)))
}

/// A warning for each member of a user's message that has no effect: `onBehalfOf`, and at most [`MAX_WARNINGS`] that nothing reads.
fn ineffective_members(by: &Principal, envelope: &Envelope) -> Vec<String> {
    let of_payload = envelope.payload.extra().keys().map(|name| format!("payload.{name}"));
    let is_read = |name: &&String| matches!(by, Principal::Brain(_)) && *name == TURN_KEY;
    let of_envelope = envelope.extra.keys().filter(|name| !is_read(name)).cloned();
    let unknown: Vec<_> = of_envelope.chain(of_payload).collect();
    let left_out = unknown.len().saturating_sub(MAX_WARNINGS);
    let more = (left_out > 0).then(|| format!("and {left_out} more unknown members"));
    let warning = |name: String| {
        let name: String = name.chars().take(64).collect();
        format!("{name}: an unknown member; it is recorded and has no effect")
    };
    let names_another = envelope.payload.on_behalf_of().is_some();
    let not_taken = names_another
        .then(|| "payload.onBehalfOf: only an agent acts for another; it has no effect".to_owned());
    not_taken.into_iter().chain(unknown.into_iter().take(MAX_WARNINGS).map(warning)).chain(more).collect()
}

/// The answer to a call for proposals: the bid, signed, so that the manager knows whose it is.
fn signed_bid(
    local: &HostedAgent,
    by: &Principal,
    call: &MessageId,
    bid: &Envelope,
) -> Result<HttpResponse, Problem> {
    let body = serde_json::to_vec(bid)
        .map_err(|error| Problem::new(Reason::Internal, format!("a bid can't be written: {error}")))?;
    let mut response = HttpResponse::Ok();
    let parts = SignedResponse { status: 200, message_id: call.as_str(), digest: Digest::of(&body) };
    if let Some(manager) = by.agent() {
        for header in local.wire.sign_response(manager, &parts)? {
            response.insert_header(header);
        }
    }
    Ok(response.content_type("application/json").body(body))
}

#[derive(Serialize)]
struct Acknowledgement<'a> {
    accepted: bool,
    #[serde(flatten)]
    ack: &'a Ack,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

/// A task, as the answer to a sender that waits.
#[derive(Serialize)]
struct TaskAnswer<'a> {
    #[serde(flatten)]
    task: A2aTask,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

fn acknowledged(ack: &Ack, warnings: &[String]) -> HttpResponse {
    let mut answer = if ack.duplicate { HttpResponse::Ok() } else { HttpResponse::Accepted() };
    if ack.duplicate {
        answer.insert_header(("mesh-duplicate", "true"));
    }
    answer.json(Acknowledgement { accepted: true, ack, warnings })
}

/// Waits until the task ends (200) or is interrupted, `wait` is over, or the node drains (202). Answers with the task.
async fn wait_for_task(
    node: &NodeState,
    local: &HostedAgent,
    ack: &Ack,
    (by, proof): (&Principal, SenderProof),
    wait: Duration,
    warnings: &[String],
) -> Result<HttpResponse, Problem> {
    let failed = Problem::from;
    let Some(task) = &ack.task_id else { return Ok(acknowledged(ack, warnings)) };
    let read = || tasks::row(local.store.as_ref(), &local.id, task, by).map_err(failed);
    if read()?.is_some_and(|row| !is_shown_to(&row.task, by, proof)) {
        return Ok(acknowledged(ack, warnings));
    }
    let is_settled = |row: &TaskRow| row.ended_at.is_some() || row.task.status.state.is_interrupted();
    let filter = Filter::Below(Key::new(&[local.id.as_str(), "task", task.as_str()]));
    let mut changes = local.store.watch(filter, local.store.head()).map_err(failed)?;
    let settled = async {
        loop {
            match read()? {
                Some(row) if is_settled(&row) => return Ok::<_, Problem>(row),
                Some(_) | None => drop(changes.next().await.map_err(failed)?),
            }
        }
    };
    let answer = |row: TaskRow, mut answer: actix_web::HttpResponseBuilder| {
        let row =
            tasks::with_artifacts(local.store.as_ref(), &local.id, row, Revision::MAX).map_err(failed)?;
        let mut task = row.task.to_a2a();
        local.shown_files().link_task(&mut task);
        Ok(answer.json(TaskAnswer { task, warnings }))
    };
    let settled = tokio::select! {
        biased;
        row = settled => Some(row?),
        () = tokio::time::sleep(wait) => None,
        () = node.drain.started() => None,
    };
    match settled {
        Some(row) => {
            let response = if row.ended_at.is_some() { HttpResponse::Ok() } else { HttpResponse::Accepted() };
            answer(row, response)
        }
        None => match read()? {
            Some(row) => answer(row, HttpResponse::Accepted()),
            None => Ok(acknowledged(ack, warnings)),
        },
    }
}

pub(crate) fn trace_of(request: &HttpRequest) -> Option<TraceContext> {
    let parent = request.headers().get(&headers::TRACEPARENT)?.to_str().ok();
    let states = request.headers().get_all(&headers::TRACESTATE);
    trace_from(parent, &states.filter_map(|header| header.to_str().ok()).collect::<Vec<_>>())
}

pub(crate) fn trace_from(parent: Option<&str>, states: &[&str]) -> Option<TraceContext> {
    Some(TraceContext::parse(parent?)?.with_state(&states.join(",")))
}

fn new_message_id() -> MessageId {
    MessageId::parse(&format!("msg-{}", uuid::Uuid::now_v7()))
        .unwrap_or_else(|_| unreachable!("a UUID is an id"))
}
