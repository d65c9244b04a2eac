//! Whose share of a budget a request uses (DESIGN §8, "Budgets"), and a limit of what each may hold at once.

use protocol::principal::{Principal, SenderProof};
use std::{
    collections::BTreeMap,
    fmt,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Whose share of a budget a request uses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum BudgetHolder {
    /// Whoever calls from this address without having proved anything.
    Address(IpAddr),
    /// An authenticated caller; the user of this machine if the address alone makes the caller that user.
    Principal(Principal),
    /// The user of this machine, by the person's token, so that a program without it uses up nothing of the person's.
    Person,
}

impl BudgetHolder {
    /// What proves it.
    pub fn proof(&self) -> SenderProof {
        match self {
            Self::Address(_) => SenderProof::Address,
            Self::Principal(principal) if *principal == Principal::local_user() => SenderProof::Address,
            Self::Principal(_) | Self::Person => SenderProof::Credential,
        }
    }

    /// Whether a credential proves it.
    pub fn has_credential(&self) -> bool {
        self.proof() == SenderProof::Credential
    }
}

impl fmt::Display for BudgetHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Principal(principal) => principal.fmt(f),
            Self::Person => f.write_str("user:local (with the person's token)"),
        }
    }
}

/// How many of something each holder has, and the limit.
#[derive(Debug)]
pub(crate) struct HolderLimit {
    max: usize,
    held: Mutex<BTreeMap<BudgetHolder, usize>>,
}

/// One of what a holder has, released on drop.
pub(crate) struct HolderPermit(Arc<HolderLimit>, BudgetHolder);

impl HolderLimit {
    /// Allows `max` for each holder; 0 means no limit.
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, held: Mutex::default() })
    }

    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// A permit for `holder`; `None` if it has the most.
    pub(crate) fn acquire(self: &Arc<Self>, holder: &BudgetHolder) -> Option<HolderPermit> {
        let mut held = self.held();
        let count = held.entry(holder.clone()).or_default();
        if self.max > 0 && *count >= self.max {
            return None;
        }
        *count += 1;
        Some(HolderPermit(Arc::clone(self), holder.clone()))
    }

    /// How many each holder has.
    pub(crate) fn counts(&self) -> BTreeMap<String, usize> {
        self.held().iter().map(|(holder, count)| (holder.to_string(), *count)).collect()
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<BudgetHolder, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HolderPermit {
    fn drop(&mut self) {
        let Self(limit, holder) = self;
        let mut held = limit.held();
        if let Some(count) = held.get_mut(holder) {
            *count -= 1;
            if *count == 0 {
                held.remove(holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_holder_has_a_limit_of_its_own_and_the_person_is_not_the_local_user() {
        let limit = HolderLimit::new(2);
        let local = BudgetHolder::Principal(Principal::local_user());
        let held: Vec<_> = (0..3).map_while(|_| limit.acquire(&local)).collect();
        assert_eq!((held.len(), local.has_credential()), (2, false));
        let persons = limit.acquire(&BudgetHolder::Person);
        assert!(persons.is_some() && BudgetHolder::Person.has_credential());
        assert_eq!(limit.counts()["user:local"], 2);
        drop(held);
        assert!(limit.acquire(&local).is_some());
        drop(persons);
        assert!(limit.counts().is_empty());
    }
}
