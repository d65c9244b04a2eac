//! The bulk actions that users have begun at the console, the last of each user.

use console::views::bulk::{BulkOutcome, BulkRun, BulkVerb};
use protocol::{
    principal::Principal,
    problem::{Problem, Reason},
};
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};
use tokio::sync::watch;

/// The most users whose last action is remembered.
const MOST_USERS: usize = 64;

/// The last bulk action of each user. One that has ended has no sender.
#[derive(Default)]
pub struct BulkRuns(Mutex<BTreeMap<Principal, watch::Receiver<BulkRun>>>);

impl BulkRuns {
    /// Begins an action of `by` with these tasks, each with its agent. Fails while another one of the same user runs.
    pub(in crate::http) fn begin(
        &self,
        by: &Principal,
        verb: BulkVerb,
        tasks: Vec<(String, String)>,
    ) -> Result<watch::Sender<BulkRun>, Problem> {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let runs_on = |run: &watch::Receiver<BulkRun>| run.has_changed().is_ok();
        if runs.get(by).is_some_and(runs_on) {
            let why = "another action of yours with many tasks still runs: wait for its end";
            return Err(Problem::new(Reason::Overloaded, why));
        }
        if runs.len() >= MOST_USERS {
            runs.retain(|_, run| runs_on(run));
        }
        let tasks = tasks.into_iter().map(|(agent, task)| (agent, task, BulkOutcome::Waits)).collect();
        let run = BulkRun { id: uuid::Uuid::now_v7().simple().to_string(), verb, tasks };
        let (sender, receiver) = watch::channel(run);
        runs.insert(by.clone(), receiver);
        Ok(sender)
    }

    /// The last action of `by`, if it has this id.
    pub(in crate::http) fn find(&self, by: &Principal, id: &str) -> Option<watch::Receiver<BulkRun>> {
        let runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.get(by).filter(|run| run.borrow().id == id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_one_action_at_a_time_and_sees_no_other_ones() {
        let (runs, me) = (BulkRuns::default(), Principal::local_user());
        let tasks = vec![("a-1".to_owned(), "t-1".to_owned())];
        let run = runs.begin(&me, BulkVerb::Cancel, tasks.clone()).unwrap();
        assert_eq!(runs.begin(&me, BulkVerb::Cancel, tasks.clone()).unwrap_err().reason, Reason::Overloaded);
        let id = run.borrow().id.clone();
        drop(run);
        assert_eq!(runs.find(&me, &id).unwrap().borrow().waiting(), 1, "it is there when it has ended");
        let alice = Principal::User(protocol::ids::AgentId::parse("alice").unwrap());
        assert!(runs.find(&alice, &id).is_none());
        assert!(runs.begin(&me, BulkVerb::Retry, tasks).is_ok());
    }
}
