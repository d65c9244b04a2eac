//! Several messages of an agent in one request: a JSON array of envelopes for one recipient. Each is answered with the status
//! and body that it would have got in a request of its own.

use super::{Acknowledgement, accept_schema, new_message_id, reply_to::UserCallback, trace_of};
use crate::{
    http::node_state::{HostedAgent, NodeState},
    inbox::TakeMessages,
};
use actix_web::{HttpRequest, HttpResponse};
use engine::IncomingMessage;
use protocol::{
    envelope::Envelope,
    ids::{Address, Digest},
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
};
use transport::http_client::MessageAnswer;
use transport::refusal::Refusal;

const MAX_MESSAGES: usize = 64;

/// Receives the messages in `body`. Fails as a whole if it is no array, or if they are not all for one agent of this node.
pub(super) async fn post(
    request: &HttpRequest,
    node: &NodeState,
    by: &Principal,
    body: &[u8],
) -> Result<HttpResponse, Refusal> {
    let elements = protocol::json::elements(body)?;
    if elements.is_empty() || elements.len() > MAX_MESSAGES {
        let message = format!("{} messages in one request, 1 to {MAX_MESSAGES} are possible", elements.len());
        return Err(Problem::new(Reason::InvalidField, message).into());
    }
    let trace = trace_of(request);
    let depth = node.limits.max_depth + super::FORWARDED_DEPTH;
    let parsed = elements.into_iter().map(|element| {
        let json = protocol::json::parse(element, depth)?;
        let mut envelope = Box::new(Envelope::from_json(json, new_message_id)?);
        super::read_times(request, &mut envelope);
        accept_schema::check(&envelope)?;
        UserCallback::of(node, by, &envelope)?;
        let digest = Digest::of(element);
        let approval = super::relayed_approval(node, by, &envelope)?;
        Ok(IncomingMessage {
            envelope,
            by: by.clone(),
            proof: SenderProof::Credential,
            digest,
            trace: trace.clone(),
            contact: None,
            origin: None,
            approval,
        })
    });
    let parsed: Vec<Result<IncomingMessage, Problem>> = parsed.collect();
    let local = recipient(node, &parsed)?;
    let (mut messages, mut answers) = (Vec::new(), Vec::new());
    let proof = super::proof_of(request);
    for message in parsed {
        let message = match message {
            Ok(message) => {
                let checked = super::space::check(local, by, proof, &message.envelope).await;
                checked.and_then(|()| super::check_files(local, by, &message.envelope)).map(|()| message)
            }
            Err(problem) => Err(problem),
        };
        answers.push(match message {
            Ok(message) => {
                messages.push(message);
                None
            }
            Err(problem) => Some(MessageAnswer::refused(&problem)),
        });
    }
    let taken = match tokio::time::timeout(node.ack(), local.actor.send(TakeMessages(messages))).await {
        Ok(Ok(taken)) => taken,
        Ok(Err(_)) => {
            return Err(Problem::new(Reason::Overloaded, format!("{} has stopped", local.id)).into());
        }
        Err(_) => {
            let message = format!("{} did not acknowledge within {} ms", local.id, node.limits.ack_ms);
            return Err(Problem::new(Reason::GatewayTimeout, message).into());
        }
    };
    let mut taken = taken.into_iter().map(|answer| match answer {
        Ok(ack) => {
            let body = serde_json::to_value(Acknowledgement { accepted: true, ack: &ack, warnings: &[] });
            MessageAnswer::acknowledged(if ack.duplicate { 200 } else { 202 }, body.unwrap_or_default())
        }
        Err(problem) => MessageAnswer::refused(&problem),
    });
    let answers: Vec<_> = answers.into_iter().filter_map(|answer| answer.or_else(|| taken.next())).collect();
    Ok(HttpResponse::Ok().json(answers))
}

fn recipient<'a>(
    node: &'a NodeState,
    messages: &[Result<IncomingMessage, Problem>],
) -> Result<&'a HostedAgent, Problem> {
    let mut recipients = messages.iter().flatten().map(|message| &message.envelope.to_agent_id);
    let one_agent = "several messages in one request are for one agent";
    match recipients.next() {
        Some(Address::Agent(first)) if recipients.all(|to| *to == Address::Agent(first.clone())) => {
            node.agent(first)
        }
        _ => Err(Problem::new(Reason::InvalidField, one_agent)),
    }
}
