//! The vault of an agent, as the person sees and mends it.

use super::SpaceStore;
use crate::{
    feed::run_blocking,
    spaces::{EntryQuery, entry_writes::permitted, rows, vault::decide_vault_change},
};
use protocol::{
    ids::{AgentId, SpaceId},
    principal::{Principal, SenderProof},
    problem::Problem,
    spaces::{
        EntryKind, EntryState, Reader, SpaceVerb,
        vault::{Vault, VaultChange, is_in_vault, may_open_vault},
    },
};
use std::collections::BTreeSet;
use store::{self, Lane, Store};

/// The most memories that are shown, and the most agents whose knowledge is read.
const MOST: usize = 1_000;

impl SpaceStore {
    /// What `agent` remembers for itself in `space`, for the person.
    pub async fn vault(&self, by: &Reader, space: &SpaceId, agent: &AgentId) -> Result<Vault, Problem> {
        self.configure().await?;
        let cursors = self.cursor_key().await?;
        let (store, by, space, agent) = (self.0.store.clone(), by.clone(), space.clone(), agent.clone());
        run_blocking(move || {
            let space = permitted(store.as_ref(), &by, SpaceVerb::Read, &space)?;
            may_open_vault(&by, &space)?;
            let principal = Principal::Agent(agent.clone());
            let reader = Reader { principal: principal.clone(), proof: SenderProof::Credential };
            let query = EntryQuery {
                kinds: BTreeSet::from([EntryKind::Memory]),
                states: BTreeSet::from([EntryState::Active]),
                author: Some(principal),
                ..EntryQuery::default()
            };
            let mut entries = query.page(store.as_ref(), &cursors, &reader, &space, MOST)?.entries;
            entries.retain(|entry| is_in_vault(entry, &agent));
            let mut known = rows::find_expertise(store.as_ref(), &space.id, None, MOST)?;
            let knowledge = known.remove(&agent).unwrap_or_default();
            Ok(Vault { agent, space: space.id, knowledge, entries })
        })
        .await
    }

    /// Mends the vault of `agent` for the person, and returns it.
    pub async fn change_vault(
        &self,
        by: &Reader,
        space: &SpaceId,
        agent: &AgentId,
        change: &VaultChange,
    ) -> Result<Vault, Problem> {
        self.configure().await?;
        let permit = self.admit()?;
        loop {
            let at = self.0.clock.wall();
            let (reader, to, of, wanted) = (by.clone(), space.clone(), agent.clone(), change.clone());
            let decide =
                move |store: &dyn Store| decide_vault_change(store, &reader, (&to, &of), &wanted, at);
            let batch = self.read(decide).await?;
            match self.0.store.commit(Lane::Admission, batch).await {
                Ok(_) => break,
                Err(store::Error::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        drop(permit);
        self.vault(by, space, agent).await
    }
}
