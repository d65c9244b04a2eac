//! Performs single attempts: a message to a peer, a signal or a claim to the board. The engine decides about retries.

use super::large_message::LargeMessage;
use crate::{inbox::TakeMessage, outbox::Transports};
use blackboard::{
    claims::ClaimState,
    client::Blackboard,
    http_client::{ClientRequest, is_unreachable},
};
use bytes::Bytes;
use engine::{Attempt, AttemptResult, ClaimRequest, Delivery, IncomingMessage, PeerLocation};
use protocol::{
    ids::{AgentId, Digest},
    patterns::EventKind,
    principal::Principal,
    problem::{Problem, Reason},
    routes,
    task::OpenTaskKey,
};
use reqwest::Method;
use std::time::Duration;

/// Makes one attempt.
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
    let is_local = delivery.at == PeerLocation::Here;
    let large = LargeMessage::of(&delivery.envelope, &transports.limits, is_local)?;
    match &delivery.at {
        PeerLocation::Here => deliver_locally(me, transports, &delivery, &large).await?,
        PeerLocation::At(endpoint) => {
            let posted = post(transports, &delivery, endpoint, &large).await;
            if posted.as_ref().is_err_and(is_unreachable) {
                transports.peers.report_unreachable(me, &delivery.to);
            }
            posted?;
        }
        PeerLocation::Departed | PeerLocation::Unknown => {
            return Err(Problem::new(Reason::AgentNotFound, format!("no agent {} is known", delivery.to)));
        }
    }
    Ok(AttemptResult::Delivered)
}

/// Delivers a message to an agent of this process, with the same admission as over HTTP.
async fn deliver_locally(
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

/// Posts a message. If its payload goes by reference and the recipient does not have it, puts the payload there first.
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
    let call = ClientRequest::new(Method::PUT, &url, delivery.to.as_str()).body(payload.clone());
    let timeout = limits.ack() + Duration::from_millis(limits.body_ms);
    transports.wire.bytes(call.within(timeout)).await?;
    let second = post_once(transports, delivery, endpoint, large.body.clone()).await;
    // The recipient has deleted the payload since; a retry puts it again.
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
    let call =
        ClientRequest::post(&url, delivery.to.as_str(), body).message_id(id).trace(delivery.trace.clone());
    transports.wire.bytes(call.within(transports.limits.ack() + Duration::from_secs(1))).await.map(drop)
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
                Ok(match claim.state == ClaimState::Held && claim.holder == *me {
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
    }
}
