//! The curator: after a task or a session it merges what needs no person.

use super::SpaceStore;
use crate::{
    spaces::{EntryOrder, EntryQuery, entry_writes::decide_auto_merge},
    store::Store,
};
use protocol::{
    ids::{SpaceId, TaskId},
    principal::Principal,
    problem::{Problem, Reason},
    spaces::{EntryKind, EntryState, Reader, SpaceVerb, curate::Curation},
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
    /// Merges those of the pending proposals of `agent` in `task` that need no person ([`Curation`]). A repeat finds none of them.
    /// Only an agent is the host of a session, not its brain.
    pub async fn curate(
        &self,
        agent: &Reader,
        space: &SpaceId,
        task: &TaskId,
        is_session: bool,
    ) -> Result<CurationOutcome, Problem> {
        self.permitted(agent, SpaceVerb::Post(EntryKind::Proposal), space).await?;
        if is_session && !matches!(agent.principal, Principal::Agent(_)) {
            let message = format!("session: {} hosts none, only an agent does", agent.principal);
            return Err(Problem::new(Reason::Forbidden, message));
        }
        let ended = Curation { agent: agent.principal.clone(), task: task.clone(), is_session };
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
                if !ended.concerns(&proposal) {
                    continue;
                }
                let at = self.0.clock.wall();
                let (space, ended) = (space.clone(), ended.clone());
                let decide = move |store: &dyn Store, minted| {
                    decide_auto_merge(store, (&space, &proposal.id), &ended, minted, at)
                };
                match self.write(agent, decide).await?.state {
                    EntryState::Merged => outcome.merged += 1,
                    EntryState::Pending => outcome.waiting += 1,
                    _ => {}
                }
            }
            query.after = match page.next {
                Some(next) => Some(next),
                None => return Ok(outcome),
            };
        }
    }
}
