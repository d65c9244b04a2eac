//! One try at a time: a message to a peer, a signal or a claim to the board. Whether it is tried again, the engine decides.

use super::large_message::LargeMessage;
use crate::{inbox::TakeMessage, outbox::Transports};
use blackboard::{
    claims::Standing,
    client::Blackboard,
    wire::{Call, is_unreachable},
};
use bytes::Bytes;
use engine::{Attempt, AttemptResult, ClaimRequest, Delivery, IncomingMessage, PeerLocation};
use protocol::{
    ids::{AgentId, Digest, TaskId},
    patterns::EventKind,
    principal::Principal,
    problem::{Problem, Reason},
    routes,
};
use reqwest::Method;
use std::time::Duration;

/// Makes the attempt.
pub(super) async fn run(me: AgentId, transports: Transports, attempt: Attempt) -> AttemptResult {
    let by = Principal::Agent(me.clone());
    let result = match attempt {
        Attempt::Deliver(delivery) => deliver(&me, &transports, *delivery).await,
        Attempt::Publish(signal) => {
            transports.board.publish(&by, *signal).await.map(AttemptResult::Published)
        }
        Attempt::Claim(task, request) => {
            claim(&transports.board, &me, &task, request).await.map(AttemptResult::Claim)
        }
    };
    result.unwrap_or_else(AttemptResult::Failed)
}

async fn deliver(
    me: &AgentId,
    transports: &Transports,
    delivery: Delivery,
) -> Result<AttemptResult, Problem> {
    let is_here = delivery.at == PeerLocation::Here;
    let large = LargeMessage::of(&delivery.envelope, &transports.limits, is_here)?;
    match &delivery.at {
        PeerLocation::Here => hand_over(me, transports, &delivery, &large).await?,
        PeerLocation::At(endpoint) => {
            let posted = post(transports, &delivery, endpoint, &large).await;
            if posted.as_ref().is_err_and(is_unreachable) {
                transports.peers.miss(me, &delivery.to);
            }
            posted?;
        }
        PeerLocation::Departed | PeerLocation::Unknown => {
            return Err(Problem::new(Reason::AgentNotFound, format!("no agent {} is known", delivery.to)));
        }
    }
    Ok(AttemptResult::Delivered)
}

/// Hands a message to an agent of this process, by the same admission as over HTTP.
async fn hand_over(
    me: &AgentId,
    transports: &Transports,
    delivery: &Delivery,
    large: &LargeMessage,
) -> Result<(), Problem> {
    let Some(inbox) = transports.locals.get(&delivery.to) else {
        return Err(Problem::new(Reason::AgentNotFound, format!("{} is not here", delivery.to)));
    };
    let message = IncomingMessage {
        digest: Digest::of(&large.body),
        envelope: Box::new(delivery.envelope.clone()),
        by: Principal::Agent(me.clone()),
        trace: delivery.trace.clone(),
        contact: None,
    };
    match tokio::time::timeout(transports.limits.ack(), inbox.send(TakeMessage(message))).await {
        Ok(Ok(answer)) => answer.map(drop),
        Ok(Err(error)) => Err(Problem::new(Reason::Overloaded, error.to_string())),
        Err(_) => {
            Err(Problem::new(Reason::GatewayTimeout, format!("{} did not acknowledge in time", delivery.to)))
        }
    }
}

/// Posts a message; what is too large for that is put at the recipient first, unless it lies there already.
async fn post(
    transports: &Transports,
    delivery: &Delivery,
    endpoint: &str,
    large: &LargeMessage,
) -> Result<(), Problem> {
    let first = post_once(transports, delivery, endpoint, large.body.clone()).await;
    let Err(problem) = first else { return Ok(()) };
    let (true, Some(payload)) = (large.is_missing(&problem), &large.payload) else { return Err(problem) };
    let limits = &transports.limits;
    let url = format!("{endpoint}{}", routes::ARTIFACTS);
    let call = Call::new(Method::PUT, &url, delivery.to.as_str()).body(payload.clone());
    let within = limits.ack() + Duration::from_millis(limits.body_ms);
    transports.wire.bytes(call.within(within)).await?;
    let second = post_once(transports, delivery, endpoint, large.body.clone()).await;
    // It was there a moment ago: another try puts it again.
    second.map_err(|problem| match large.is_missing(&problem) {
        true => Problem { reason: Reason::Overloaded, ..problem },
        false => problem,
    })
}

async fn post_once(
    transports: &Transports,
    delivery: &Delivery,
    endpoint: &str,
    body: Bytes,
) -> Result<(), Problem> {
    let url = format!("{endpoint}{}", routes::MESSAGES);
    let id = delivery.envelope.message_id.as_str();
    let call = Call::post(&url, delivery.to.as_str(), body).message_id(id).trace(delivery.trace.clone());
    transports.wire.bytes(call.within(transports.limits.ack() + Duration::from_secs(1))).await.map(drop)
}

async fn claim(
    board: &Blackboard,
    me: &AgentId,
    task: &TaskId,
    request: ClaimRequest,
) -> Result<EventKind, Problem> {
    let by = Principal::Agent(me.clone());
    match request {
        ClaimRequest::Take { lease } => match board.claim(&by, task, me, lease).await {
            Ok(claim) => Ok(EventKind::Claimed { holder: claim.holder, epoch: claim.epoch }),
            Err(problem) if problem.reason == Reason::AlreadyClaimed => {
                let stands = board.look(&by, task).await?;
                Ok(match stands.state == Standing::Held && stands.holder == *me {
                    true => EventKind::Claimed { holder: stands.holder, epoch: stands.epoch },
                    false => EventKind::ClaimLost { holder: Some(stands.holder) },
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
    }
}
