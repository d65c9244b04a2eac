//! The curator: after a task it merges the low-risk proposals of the agent that has done it.

use super::SpaceStore;
use crate::spaces::{
    EntryOrder, EntryQuery,
    entry_writes::{decide_auto_merge, permitted},
};
use protocol::{
    ids::{SpaceId, TaskId},
    problem::Problem,
    spaces::{EntryKind, EntryState, Reader, SpaceVerb, curate::is_proposed_in},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Proposals in one page.
const PAGE: usize = 100;

/// What the curator has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CurationOutcome {
    /// The number of proposals that it has merged.
    pub merged: u64,
    /// The number of those that wait for a person.
    pub waiting: u64,
}

impl SpaceStore {
    /// Merges the pending proposals of `agent` in `task` that the space's `autoMerge` allows. A repeat finds none of them.
    pub async fn curate(
        &self,
        agent: &Reader,
        space: &SpaceId,
        task: &TaskId,
    ) -> Result<CurationOutcome, Problem> {
        let verb = SpaceVerb::Post(EntryKind::Proposal);
        permitted(self.0.store.as_ref(), agent, verb, space)?;
        let mut query = EntryQuery {
            kinds: BTreeSet::from([EntryKind::Proposal]),
            states: BTreeSet::from([EntryState::Pending]),
            author: Some(agent.principal.clone()),
            order: EntryOrder::Oldest,
            ..EntryQuery::default()
        };
        let mut outcome = CurationOutcome::default();
        loop {
            let page = self.entries(agent, space, query.clone(), PAGE).await?;
            for proposal in page.entries {
                if !is_proposed_in(&proposal, &agent.principal, task) {
                    continue;
                }
                let at = self.0.clock.wall();
                let decided = self.write(agent, |store, minted| {
                    decide_auto_merge(store, (space, &proposal.id), &agent.principal, task, minted, at)
                });
                match decided.await?.state {
                    EntryState::Merged => outcome.merged += 1,
                    EntryState::Pending => outcome.waiting += 1,
                    EntryState::Sealed
                    | EntryState::Open
                    | EntryState::Rejected
                    | EntryState::Active
                    | EntryState::Superseded
                    | EntryState::Archived
                    | EntryState::Posted => {}
                }
            }
            query.after = match page.next {
                Some(next) => Some(next),
                None => return Ok(outcome),
            };
        }
    }
}
