//! Performs single attempts: a message to a peer, a signal or a claim to the board. The engine decides about retries.

use super::large_message::LargeMessage;
use crate::{
    artifacts::{file, hand_over},
    clock::wall_time,
    inbox::TakeMessages,
    outbox::Transports,
};
use blackboard::{claims::ClaimState, client::Blackboard};
use bytes::Bytes;
use engine::{
    Attempt, AttemptResult, ClaimRequest, Delivery, IncomingMessage, MessageResult, PeerLocation,
    RelayedApproval,
};
use patterns::EventKind;
use protocol::{
    envelope::Envelope,
    ids::{AgentId, Digest},
    message::MessageKind,
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
    routes::{self, MESH_FILE},
    task::OpenTaskKey,
};
use reqwest::Method;
use std::time::Duration;
use transport::http_client::{ClientRequest, MessageAnswer, is_unreachable};

/// The most bytes of several messages in one request.
const MAX_SHARED_BYTES: usize = 64 * 1024;

pub(super) async fn run(me: AgentId, transports: Transports, attempt: Attempt) -> AttemptResult {
    let by = Principal::Agent(me.clone());
    let result = match attempt {
        Attempt::Deliver(delivery) => deliver(&me, &transports, *delivery).await,
        Attempt::Publish(signals) => {
            transports.board.publish_all(&by, signals).await.map(AttemptResult::Published)
        }
        Attempt::AskSpace(request) => {
            transports.board.ask_space(&by, &request).await.map(AttemptResult::SpaceAnswered)
        }
        Attempt::Claim(task, request) => {
            claim(&transports.board, &me, &task, request).await.map(AttemptResult::Claim)
        }
    };
    result.unwrap_or_else(AttemptResult::Failed)
}

/// Delivers the messages that fit into one request.
async fn deliver(
    me: &AgentId,
    transports: &Transports,
    delivery: Delivery,
) -> Result<AttemptResult, Problem> {
    let messages = serialize(&delivery, transports)?;
    let results = match &delivery.at {
        PeerLocation::Here => deliver_locally(me, transports, &delivery, &messages).await?,
        PeerLocation::At(endpoint) => {
            let posted = post(me, transports, &delivery, endpoint, &messages).await;
            if posted.as_ref().is_err_and(is_unreachable) {
                transports.peers.report_unreachable(me, &delivery.to);
            }
            posted?
        }
        PeerLocation::Away { .. } | PeerLocation::Left | PeerLocation::Unknown => {
            return Err(Problem::new(Reason::AgentNotFound, format!("no agent {} is known", delivery.to)));
        }
    };
    if delivery.to != *me {
        let delivered = results.iter().filter(|result| result.is_ok()).count();
        transports.sent.count(&delivery.to, delivered, transports.clock.node());
    }
    Ok(AttemptResult::Delivered(results))
}

/// The first message, and those behind it that fit into the same request. A message with files, or whose payload goes by reference, is
/// alone.
fn serialize(delivery: &Delivery, transports: &Transports) -> Result<Vec<LargeMessage>, Problem> {
    let (is_local, limits) = (delivery.at == PeerLocation::Here, &transports.limits);
    let mut messages: Vec<LargeMessage> = Vec::new();
    let mut bytes = 0;
    for envelope in &delivery.messages {
        let message = match LargeMessage::of(envelope, limits, is_local) {
            Ok(message) => message,
            Err(problem) if messages.is_empty() => return Err(problem),
            // It is the first of the next request.
            Err(_) => break,
        };
        bytes += message.body.len() + 2;
        let is_alone = message.is_alone();
        if !messages.is_empty() && (is_alone || bytes > limits.max_body_bytes.min(MAX_SHARED_BYTES)) {
            break;
        }
        messages.push(message);
        if is_alone {
            break;
        }
    }
    Ok(messages)
}

/// Delivers messages to an agent of this process, with the same admission as over HTTP.
async fn deliver_locally(
    me: &AgentId,
    transports: &Transports,
    delivery: &Delivery,
    messages: &[LargeMessage],
) -> Result<Vec<MessageResult>, Problem> {
    let Some(local) = transports.locals.get(&delivery.to) else {
        return Err(Problem::new(Reason::AgentNotFound, format!("{} is not here", delivery.to)));
    };
    for digest in messages.iter().flat_map(|message| &message.files).filter(|_| delivery.to != *me) {
        let stores = (transports.store.as_ref(), local.store.as_ref());
        hand_over(stores, (me, &delivery.to), transports.clock.wall(), *digest).await?;
    }
    let inbox = local.inbox;
    let messages = delivery.messages.iter().zip(messages).map(|(envelope, message)| IncomingMessage {
        proof: SenderProof::Credential,
        digest: Digest::of(&message.body),
        envelope: Box::new(envelope.clone()),
        by: Principal::Agent(me.clone()),
        trace: delivery.trace.clone(),
        contact: None,
        origin: None,
        approval: Some(RelayedApproval::ByTrustedAgent),
    });
    let messages = TakeMessages(messages.collect());
    match tokio::time::timeout(transports.limits.ack(), inbox.send(messages)).await {
        Ok(Ok(answers)) => Ok(answers.into_iter().map(|answer| answer.map(|ack| ack.bid)).collect()),
        Ok(Err(error)) => Err(Problem::new(Reason::Overloaded, error.to_string())),
        Err(_) => {
            Err(Problem::new(Reason::GatewayTimeout, format!("{} did not acknowledge in time", delivery.to)))
        }
    }
}

/// Posts messages. If the recipient does not have the files of the only one, or its payload, which goes by reference, puts these there
/// first.
async fn post(
    me: &AgentId,
    transports: &Transports,
    delivery: &Delivery,
    endpoint: &str,
    messages: &[LargeMessage],
) -> Result<Vec<MessageResult>, Problem> {
    let [large] = messages else { return post_several(transports, delivery, endpoint, messages).await };
    let first = post_once(transports, delivery, endpoint, large.body.clone()).await;
    let problem = match first {
        Ok(bid) => return Ok(vec![Ok(bid)]),
        Err(problem) => problem,
    };
    if !large.is_missing(&problem) {
        return Err(problem);
    }
    for digest in &large.files {
        let content = file(transports.store.as_ref(), me, *digest).await?;
        put(transports, delivery, endpoint, content, true).await?;
    }
    if let Some(payload) = &large.payload {
        put(transports, delivery, endpoint, payload.clone(), false).await?;
    }
    let second = post_once(transports, delivery, endpoint, large.body.clone()).await;
    // The recipient has deleted the payload since; a retry puts it again.
    let is_payload = large.payload.is_some();
    second.map(|bid| vec![Ok(bid)]).map_err(|problem| match is_payload && large.is_missing(&problem) {
        true => Problem { reason: Reason::Overloaded, ..problem },
        false => problem,
    })
}

/// Puts content at the recipient of a message: a file of it, or its payload.
async fn put(
    transports: &Transports,
    delivery: &Delivery,
    endpoint: &str,
    content: Bytes,
    is_file: bool,
) -> Result<(), Problem> {
    let limits = &transports.limits;
    let url = format!("{endpoint}{}", routes::ARTIFACTS);
    let call = ClientRequest::new(Method::PUT, &url, delivery.to.as_str()).body(content);
    let call = if is_file { call.header(MESH_FILE, "1") } else { call };
    let timeout = limits.ack() + Duration::from_millis(limits.body_ms);
    transports.wire.bytes(call.within(timeout)).await.map(drop)
}

/// Posts several messages in one request, as a JSON array; the answer is an array with the status and body of each.
async fn post_several(
    transports: &Transports,
    delivery: &Delivery,
    endpoint: &str,
    messages: &[LargeMessage],
) -> Result<Vec<MessageResult>, Problem> {
    let bodies: Vec<&[u8]> = messages.iter().map(|message| message.body.as_ref()).collect();
    let body = [b"[".as_slice(), &bodies.join(b",".as_slice()), b"]"].concat();
    let url = format!("{endpoint}{}", routes::MESSAGES);
    let call = ClientRequest::post(&url, delivery.to.as_str(), body.into()).trace(delivery.trace.clone());
    let call = call.within(transports.limits.ack() + Duration::from_secs(1));
    let answers: Vec<MessageAnswer> = transports.wire.json(call).await?;
    if answers.len() != messages.len() {
        let why = format!("{} messages got {} answers", messages.len(), answers.len());
        return Err(Problem::new(Reason::GatewayTimeout, why));
    }
    Ok(answers.into_iter().map(|answer| answer.into_result().map(|_| None)).collect())
}

async fn post_once(
    transports: &Transports,
    delivery: &Delivery,
    endpoint: &str,
    body: Bytes,
) -> MessageResult {
    let url = format!("{endpoint}{}", routes::MESSAGES);
    let Some(envelope) = delivery.messages.first() else { return Ok(None) };
    let call = ClientRequest::post(&url, delivery.to.as_str(), body)
        .message_id(envelope.message_id.as_str())
        .trace(delivery.trace.clone())
        .within(transports.limits.ack() + Duration::from_secs(1));
    if envelope.kind() != MessageKind::Cfp {
        return transports.wire.bytes(call).await.map(|_| None);
    }
    let answer = transports.wire.signed_bytes(call, &delivery.to).await?;
    let Some((answer, signed_at)) = answer else { return Ok(None) };
    let bid = serde_json::from_slice::<Box<Envelope>>(&answer).map_err(|error| {
        Problem::new(Reason::Internal, format!("the answer of {} is no message: {error}", delivery.to))
    });
    bid.map(|mut bid| {
        bid.read_times_by(signed_at, wall_time());
        Some(bid)
    })
}

async fn claim(
    board: &Blackboard,
    me: &AgentId,
    task: &OpenTaskKey,
    request: ClaimRequest,
) -> Result<EventKind, Problem> {
    let by = Principal::Agent(me.clone());
    match request {
        ClaimRequest::Take { lease } => match board.claim(&by, task, me, lease).await {
            Ok(claim) => Ok(EventKind::Claimed { holder: claim.holder, epoch: claim.epoch }),
            Err(problem) if problem.reason == Reason::AlreadyClaimed => {
                let claim = board.claim_of(&by, task).await?;
                Ok(match claim.state == ClaimState::Held && claim.by == by {
                    true => EventKind::Claimed { holder: claim.holder, epoch: claim.epoch },
                    false => EventKind::ClaimLost { holder: Some(claim.holder) },
                })
            }
            Err(problem) => Err(problem),
        },
        ClaimRequest::Renew(epoch) => {
            let claim = board.renew(&by, task, epoch).await?;
            Ok(EventKind::Claimed { holder: claim.holder, epoch: claim.epoch })
        }
        ClaimRequest::Release(epoch) => {
            Ok(EventKind::ClaimEnded { epoch: board.release(&by, task, epoch).await?.epoch })
        }
        ClaimRequest::Close { epoch, is_done } => {
            let claim = match is_done {
                true => board.complete(&by, task, epoch).await?,
                false => board.fail(&by, task, epoch).await?,
            };
            Ok(EventKind::ClaimEnded { epoch: claim.epoch })
        }
        ClaimRequest::Confirm { doer, epoch } => {
            let claim = board.claim_of(&by, task).await?;
            let has_ended = matches!(claim.state, ClaimState::Completed | ClaimState::Failed);
            if has_ended && claim.by == Principal::Agent(doer.clone()) && claim.epoch == epoch {
                return Ok(EventKind::ClaimEnded { epoch });
            }
            tracing::warn!(agent = %me, %task, %doer, epoch, holder = %claim.holder, "a result is not from the claim's holder");
            Ok(EventKind::ClaimExpired { epoch })
        }
    }
}
