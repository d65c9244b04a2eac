//! Shares of the quotas of the mesh, and what the board is told of quotas.

use blackboard::{client::Blackboard, shares::LeaseShare};
use engine::{GrantedShare, QuotaNotice, ShareRequest};
use protocol::{
    ids::{AgentId, Digest},
    principal::Principal,
    problem::{Problem, Reason},
    quota::QuotaLevel,
    signal::{Signal, SignalType},
    time::WallTime,
};
use serde_json::json;
use std::time::Duration;

/// How long the board has for an answer. Without one the shares that the agent holds decide.
const PATIENCE: Duration = Duration::from_secs(2);

/// Tells the log and the board that a quota of `me` is used up, or nearly.
pub(super) async fn announce(board: Blackboard, me: AgentId, notice: QuotaNotice, at: WallTime) {
    let QuotaNotice { level, figures, opens, requester } = notice;
    let (kind, said) = match level {
        QuotaLevel::UsedUp => (SignalType::quota_reached(), "used up"),
        QuotaLevel::Near => (SignalType::quota_near(), "nearly used up"),
        QuotaLevel::Open => return,
    };
    tracing::warn!(agent = %me, figures, opens = %opens, "a quota is {said}");
    let refs = json!({ "figures": figures, "opensAt": opens });
    let name = figures.split(':').next().unwrap_or_default();
    let signal = Signal {
        id: format!("{kind}-{}", &Digest::of(format!("{me} {name} {opens}").as_bytes()).to_string()[..24]),
        kind,
        from: me.clone(),
        by: None,
        root: requester,
        root_proof: None,
        subject: Some(me.to_string()),
        task_id: None,
        capability: None,
        refs: refs.as_object().cloned().unwrap_or_default(),
        to: Vec::new(),
        at,
    };
    // After a restart it may be there already, with other figures.
    if let Err(problem) = board.publish(&Principal::Agent(me), signal).await {
        tracing::debug!(%problem, "a signal about a quota was not published");
    }
}

/// Asks the board for each share, or gives it back, until it does not answer. What was given back, and what it does not answer, is left
/// out; a share that it does not take back is free again when its window ends.
pub(super) async fn lease_all(
    board: Blackboard,
    me: AgentId,
    wanted: Vec<ShareRequest>,
) -> Vec<GrantedShare> {
    let mut granted = Vec::new();
    for request in wanted {
        let lease = LeaseShare {
            per: request.per,
            window: request.window.clone(),
            requester: request.requester.clone(),
            limits: request.limits,
            used: request.used,
            gives_back: request.gives_back,
        };
        let answer = tokio::time::timeout(PATIENCE, board.call(&me, lease)).await;
        let silent = |_| Problem::new(Reason::BlackboardUnavailable, "the board did not answer in time");
        match answer.map_err(silent).flatten() {
            Ok(_) if request.gives_back => {}
            Ok(share) => {
                granted.push(GrantedShare {
                    request,
                    granted: share.granted,
                    used_by_all: share.used_by_all,
                });
            }
            Err(problem) => {
                tracing::warn!(agent = %me, %problem, "no share of a quota");
                break;
            }
        }
    }
    granted
}
