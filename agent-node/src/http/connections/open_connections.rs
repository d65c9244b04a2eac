//! The open connections, counted by their holders.

use super::Connection;
use crate::budget_holder::BudgetHolder;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering::Relaxed},
};

#[derive(Default)]
pub(super) struct OpenConnections {
    pub(super) next: u64,
    pub(super) by_id: BTreeMap<u64, OpenConnection>,
    /// The ids of each holder's connections, in the order in which they were accepted.
    pub(super) by_holder: BTreeMap<BudgetHolder, BTreeSet<u64>>,
    pub(super) without_credential: usize,
    in_reserve: usize,
}

pub(super) struct OpenConnection {
    pub(super) connection: Arc<Connection>,
    /// Its address until it has a credential.
    pub(super) holder: BudgetHolder,
}

impl OpenConnections {
    pub(super) fn count(&self, holder: &BudgetHolder) -> usize {
        self.by_holder.get(holder).map_or(0, BTreeSet::len)
    }

    /// Those without a credential that may serve requests without one.
    pub(super) fn usable_without_credential(&self) -> usize {
        self.without_credential - self.in_reserve
    }

    /// Those that are in use, or may be, by anybody but the person.
    pub(super) fn not_for_person(&self) -> usize {
        self.by_id.len() - self.in_reserve - self.count(&BudgetHolder::Person)
    }

    pub(super) fn insert(&mut self, connection: Arc<Connection>, holder: BudgetHolder) {
        self.without_credential += usize::from(!holder.has_credential());
        self.in_reserve += usize::from(connection.is_in_reserve.load(Relaxed));
        self.by_holder.entry(holder.clone()).or_default().insert(connection.id);
        self.by_id.insert(connection.id, OpenConnection { connection, holder });
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Arc<Connection>> {
        let OpenConnection { connection, holder } = self.by_id.remove(&id)?;
        self.without_credential -= usize::from(!holder.has_credential());
        self.in_reserve -= usize::from(connection.is_in_reserve.load(Relaxed));
        if let Some(ids) = self.by_holder.get_mut(&holder) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_holder.remove(&holder);
            }
        }
        Some(connection)
    }

    /// Takes it out of the reserve. Without a credential it stays its address's.
    pub(super) fn set_holder(&mut self, id: u64, holder: &BudgetHolder) {
        let Some(before) = self.by_id.get(&id).map(|open| open.holder.clone()) else { return };
        let Some(connection) = self.remove(id) else { return };
        connection.is_in_reserve.store(false, Relaxed);
        connection.has_credential.store(holder.has_credential(), Relaxed);
        self.insert(connection, if holder.has_credential() { holder.clone() } else { before });
    }
}
