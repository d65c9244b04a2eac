//! The curator: after a task or a session it merges what needs no person.

use super::SpaceStore;
use crate::spaces::{EntryOrder, EntryQuery, entry_writes::decide_curation};
use protocol::{
    ids::{SpaceId, TaskId},
    principal::Principal,
    problem::{Problem, Reason},
    spaces::{EntryKind, EntryState, Reader, SpaceVerb, curate::Curation},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use store::Store;

/// Proposals in one page.
const PAGE: usize = 100;

/// What the curator has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CurationOutcome {
    /// The number of proposals that it has merged.
    pub merged: u64,
    /// The number of those that it has rejected.
    #[serde(default)]
    pub rejected: u64,
    /// The number of those that wait for a person.
    pub waiting: u64,
}

/// The end of a run: the body of `POST …/curate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndedRun {
    /// The task at its root.
    pub task: TaskId,
    /// Whether it was a session at whose gate a person has approved.
    #[serde(default)]
    pub session: bool,
    /// Why a person has declined it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined: Option<String>,
}

impl SpaceStore {
    /// Merges or rejects the pending proposals that `run` is about ([`Curation`]). A repeat finds none of them. Only an agent is the
    /// host of a session and answers for a run, not its brain.
    pub async fn curate(
        &self,
        agent: &Reader,
        space: &SpaceId,
        run: &EndedRun,
    ) -> Result<CurationOutcome, Problem> {
        let EndedRun { task, session: is_session, declined } = run.clone();
        self.permitted(agent, SpaceVerb::Post(EntryKind::Proposal), space).await?;
        if (is_session || declined.is_some()) && !matches!(agent.principal, Principal::Agent(_)) {
            let message =
                format!("session, declined: {} answers for no run, only an agent does", agent.principal);
            return Err(Problem::new(Reason::Forbidden, message));
        }
        let ended = Curation { agent: agent.principal.clone(), task, is_session, declined };
        let mut query = EntryQuery {
            kinds: BTreeSet::from([EntryKind::Proposal]),
            states: BTreeSet::from([EntryState::Pending]),
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
                    decide_curation(store, (&space, &proposal.id), &ended, minted, at)
                };
                match self.write(agent, decide).await?.state {
                    EntryState::Merged => outcome.merged += 1,
                    EntryState::Rejected => outcome.rejected += 1,
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
