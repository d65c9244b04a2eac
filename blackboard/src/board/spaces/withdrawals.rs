//! The withdrawal of all that one principal has caused.

use super::SpaceStore;
use crate::spaces::{
    entry_writes::permitted,
    withdrawal::{Withdrawal, WithdrawalStep, decide_forgetting, decide_withdrawal},
};
use protocol::{
    ids::SpaceId,
    principal::Principal,
    problem::{Problem, Reason},
    spaces::{Reader, SpaceVerb, entry_draft::MAX_TITLE_BYTES, vault::may_open_vault},
};
use serde::{Deserialize, Serialize};
use store::{self, Lane, Store};

/// Whose entries are withdrawn: the body of `POST …/withdraw`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WithdrawalOfAll {
    pub principal: Principal,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a withdrawal has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WithdrawalOutcome {
    /// How many entries are out of use now that were not before.
    pub withdrawn: u64,
}

impl SpaceStore {
    /// Takes out of use all that a principal has caused in `space`, by itself or by agents, memories of scope `own` and what agents
    /// know included. Only a person who owns the space does. If it is interrupted, a repeat does the rest.
    pub async fn withdraw_all(
        &self,
        by: &Reader,
        space: &SpaceId,
        wanted: &WithdrawalOfAll,
    ) -> Result<WithdrawalOutcome, Problem> {
        self.configure().await?;
        if wanted.reason.as_ref().is_some_and(|reason| reason.len() > MAX_TITLE_BYTES) {
            let message = format!("reason: at most {MAX_TITLE_BYTES} bytes");
            return Err(Problem::new(Reason::InvalidField, message).with("field", "reason"));
        }
        let permitted_space = self.permitted(by, SpaceVerb::Read, space).await?;
        may_open_vault(by, &permitted_space)?;
        let _permit = self.admit()?;
        let mut outcome = WithdrawalOutcome::default();
        // What is changed gets a later revision, and is out of use when it is met again.
        let mut after = Some(0);
        while let Some(from) = after {
            let decide = move |store: &dyn Store, space: &SpaceId, withdrawal: &Withdrawal<'_>| {
                decide_withdrawal(store, space, withdrawal, from)
            };
            let step = self.withdraw_step(by, space, wanted, decide).await?;
            outcome.withdrawn += step.count;
            after = step.next;
        }
        let forget = |store: &dyn Store, space: &SpaceId, withdrawal: &Withdrawal<'_>| {
            decide_forgetting(store, space, withdrawal)
        };
        outcome.withdrawn += self.withdraw_step(by, space, wanted, forget).await?.count;
        Ok(outcome)
    }

    /// Commits one step, decided again after each conflict.
    async fn withdraw_step(
        &self,
        by: &Reader,
        space: &SpaceId,
        wanted: &WithdrawalOfAll,
        decide: impl Fn(&dyn Store, &SpaceId, &Withdrawal<'_>) -> Result<WithdrawalStep, Problem>
        + Clone
        + Send
        + 'static,
    ) -> Result<WithdrawalStep, Problem> {
        loop {
            let (decide, at) = (decide.clone(), self.0.clock.wall());
            let (reader, space, wanted) = (by.clone(), space.clone(), wanted.clone());
            let step = self
                .read(move |store| {
                    permitted(store, &reader, SpaceVerb::Read, &space)?;
                    let WithdrawalOfAll { principal, reason } = &wanted;
                    let withdrawal =
                        Withdrawal { of: principal, by: &reader.principal, at, reason: reason.as_ref() };
                    decide(store, &space, &withdrawal)
                })
                .await?;
            if step.batch.writes.is_empty() {
                return Ok(step);
            }
            match self.0.store.commit(Lane::Admission, step.batch.clone()).await {
                Ok(_) => return Ok(step),
                Err(store::Error::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
