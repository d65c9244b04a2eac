//! Claims on the board: made, renewed and ended, for however long it takes to reach it. A repeat after a crash finds
//! what the first try has done.

use super::{Outbox, is_worth_another_try, pause};
use crate::{agent::Happened, conversation::record::Place};
use blackboard::{claims::Standing, client::Blackboard};
use protocol::{
    coordination::What,
    ids::{AgentId, ConversationId, TaskId},
    message::Epoch,
    principal::Principal,
    problem::{Problem, Reason},
};
use std::time::Duration;

/// What is wanted of an open task's claim.
#[derive(Debug, Clone, Copy)]
pub enum Wanted {
    /// To have it.
    Take {
        /// For how long, without a sign of life.
        lease: Duration,
    },
    /// To keep it.
    Renew(Epoch),
    /// To give it back.
    Release(Epoch),
    /// To end it: the task is done, or will not be.
    Close {
        /// Which claim.
        epoch: Epoch,
        /// Whether it is done.
        is_done: bool,
    },
}

impl Outbox {
    /// Does what is wanted of the claim on `task`, and reports what came of it.
    pub fn claim(&self, conversation: ConversationId, place: Place, task: TaskId, wanted: Wanted) {
        let this = self.clone();
        self.begin();
        actix::spawn(async move {
            let mut attempt = 0;
            let what = loop {
                match wanted.from(&this.ways.board, &this.me, &task).await {
                    Ok(what) => break what,
                    Err(problem) if is_worth_another_try(problem.reason) => {
                        tracing::debug!(%task, %problem, attempt, "a claim waits for the board");
                        tokio::time::sleep(pause(attempt)).await;
                        attempt += 1;
                    }
                    Err(problem) => break wanted.refused(&task, &problem),
                }
            };
            this.report(Happened { conversation, closes: Some(place), what }).await;
            this.end();
        });
    }
}

impl Wanted {
    async fn from(self, board: &Blackboard, me: &AgentId, task: &TaskId) -> Result<What, Problem> {
        let by = Principal::Agent(me.clone());
        match self {
            Self::Take { lease } => match board.claim(&by, task, me, lease).await {
                Ok(claim) => Ok(What::Claimed { holder: claim.holder, epoch: claim.epoch }),
                Err(problem) if problem.reason == Reason::AlreadyClaimed => {
                    let stands = board.look(&by, task).await?;
                    Ok(match stands.state == Standing::Held && stands.holder == *me {
                        true => What::Claimed { holder: stands.holder, epoch: stands.epoch },
                        false => What::ClaimLost { holder: Some(stands.holder) },
                    })
                }
                Err(problem) => Err(problem),
            },
            Self::Renew(epoch) => {
                let claim = board.renew(&by, task, epoch).await?;
                Ok(What::Claimed { holder: claim.holder, epoch: claim.epoch })
            }
            Self::Release(epoch) => {
                Ok(What::ClaimEnded { epoch: board.release(&by, task, epoch).await?.epoch })
            }
            Self::Close { epoch, is_done } => {
                let claim = match is_done {
                    true => board.complete(&by, task, epoch).await?,
                    false => board.fail(&by, task, epoch).await?,
                };
                Ok(What::ClaimEnded { epoch: claim.epoch })
            }
        }
    }

    /// What it means that the board will not have it.
    fn refused(self, task: &TaskId, problem: &Problem) -> What {
        tracing::warn!(%task, %problem, "the board refused a claim");
        match self {
            Self::Take { .. } => What::ClaimLost { holder: None },
            Self::Renew(epoch) | Self::Release(epoch) | Self::Close { epoch, .. } => {
                What::ClaimExpired { epoch }
            }
        }
    }
}
