//! `POST /a2a/messages`: one message in, one acknowledgement out, from the target (RFC-005; DESIGN §4).

mod carried;
mod sent;

use engine::{Ack, IncomingMessage, records::TaskRow};
pub use sent::get;

use crate::{
    http::{
        edge::stop_counting,
        headers,
        node_state::{HostedAgent, Node},
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
use blackboard::{
    refusal::Refusal,
    store::{Filter, Key},
};
use bytes::Bytes;
use protocol::{
    envelope::Envelope,
    ids::{Address, Digest, MessageId},
    principal::Principal,
    problem::{Problem, Reason},
    trace::TraceContext,
};
use serde::Serialize;
use std::time::Duration;

/// How much deeper than a user's message an agent's may be nested.
const PASSED_ON_DEPTH: usize = 8;

/// How long it was really waited at most (RFC 7240 §3).
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// Takes a message in.
pub async fn post(
    request: HttpRequest,
    node: web::Data<Node>,
    by: web::ReqData<Principal>,
    body: web::ReqData<Bytes>,
) -> Result<HttpResponse, Refusal> {
    // What an agent passes on stands deeper in its message than it stood in the one it came with.
    let passed_on = if by.agent().is_some() { PASSED_ON_DEPTH } else { 0 };
    let depth = node.limits.max_depth + passed_on;
    let mut json = protocol::json::parse(&body, depth)?;
    let carried = carried::unpack(&request, &node, &mut json, &by)?;
    let envelope = Box::new(Envelope::from_json(json, minted)?);
    let local = match &envelope.to_agent_id {
        Address::Agent(id) => node.agent(id)?,
        Address::Capability(_) => node.host(&request)?,
    };
    let digest = request.extensions().get::<Digest>().copied().unwrap_or_else(|| Digest::of(&body));
    let trace = trace_of(&request);
    let id = envelope.message_id.clone();
    let by = by.into_inner();
    let admit = IncomingMessage { envelope, by: by.clone(), digest, trace, contact: None };
    let mut acknowledgement = Box::pin(local.actor.send(TakeMessage(admit)));
    let ack = match tokio::time::timeout(node.ack(), &mut acknowledgement).await {
        Ok(Ok(answer)) => {
            let ack = answer?;
            carried.into_iter().for_each(carried::Carried::let_go);
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
    let most = Duration::from_millis(node.limits.max_wait_ms);
    if let (Some(wait), Some(_)) = (prefer::wait(&request, most), &ack.task_id) {
        stop_counting(&request);
        let mut answer = finished(&node, local, &ack, &by, wait).await?;
        if let Ok(applied) = HeaderValue::from_str(&format!("wait={}", wait.as_secs())) {
            answer.headers_mut().insert(PREFERENCE_APPLIED, applied);
        }
        return Ok(answer);
    }
    Ok(acknowledged(&ack))
}

/// An [`Ack`] as it is answered.
#[derive(Serialize)]
struct Acknowledged<'a> {
    accepted: bool,
    #[serde(flatten)]
    ack: &'a Ack,
}

fn acknowledged(ack: &Ack) -> HttpResponse {
    let mut answer = if ack.duplicate { HttpResponse::Ok() } else { HttpResponse::Accepted() };
    if ack.duplicate {
        answer.insert_header(("mesh-duplicate", "true"));
    }
    answer.json(Acknowledged { accepted: true, ack })
}

/// Waits for the task's end: 200 with the finished task, or 202 with the task as it is when the time is up, or the node
/// leaves. A question ends the wait too, also one for a credential.
async fn finished(
    node: &Node,
    local: &HostedAgent,
    ack: &Ack,
    by: &Principal,
    wait: Duration,
) -> Result<HttpResponse, Problem> {
    let failed = Problem::from;
    let Some(task) = &ack.task_id else { return Ok(acknowledged(ack)) };
    let look = || tasks::find(local.store.as_ref(), &local.id, task, by).map_err(failed);
    let rests = |row: &TaskRow| row.ended_at.is_some() || row.task.status.state.is_interrupted();
    let filter = Filter::Below(Key::new(&[local.id.as_str(), "task", task.as_str()]));
    let mut changes = local.store.watch(filter, local.store.head()).map_err(failed)?;
    let rest = async {
        loop {
            match look()? {
                Some(row) if rests(&row) => return Ok::<_, Problem>(row),
                Some(_) | None => drop(changes.next().await.map_err(failed)?),
            }
        }
    };
    let answer = |row: &TaskRow, mut answer: actix_web::HttpResponseBuilder| answer.json(row.task.to_a2a());
    let rested = tokio::select! {
        biased;
        row = rest => Some(row?),
        () = tokio::time::sleep(wait) => None,
        () = node.leaving.begun() => None,
    };
    match rested {
        Some(row) => {
            let done = if row.ended_at.is_some() { HttpResponse::Ok() } else { HttpResponse::Accepted() };
            Ok(answer(&row, done))
        }
        None => match look()? {
            Some(row) => Ok(answer(&row, HttpResponse::Accepted())),
            None => Ok(acknowledged(ack)),
        },
    }
}

/// The trace a request comes under.
pub(crate) fn trace_of(request: &HttpRequest) -> Option<TraceContext> {
    let parent = request.headers().get(&headers::TRACEPARENT)?.to_str().ok();
    let states = request.headers().get_all(&headers::TRACESTATE);
    trace_from(parent, &states.filter_map(|header| header.to_str().ok()).collect::<Vec<_>>())
}

/// The trace that these headers name.
pub(crate) fn trace_from(parent: Option<&str>, states: &[&str]) -> Option<TraceContext> {
    Some(TraceContext::parse(parent?)?.with_state(&states.join(",")))
}

fn minted() -> MessageId {
    MessageId::parse(&format!("msg-{}", uuid::Uuid::now_v7()))
        .unwrap_or_else(|_| unreachable!("a UUID is an id"))
}
