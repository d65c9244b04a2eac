//! What is merged after a task without a person: the low-risk proposals of the agent that has done it.

use super::{Entry, EntryKind, EntryState, MemberId, Space};
use crate::{ids::TaskId, principal::Principal};

/// Whether `space` merges `entry` after `task`, which `agent` has done: a pending proposal of that agent and task, of a type in
/// the space's `autoMerge` that is low-risk.
pub fn is_auto_merged(space: &Space, entry: &Entry, agent: &Principal, task: &TaskId) -> bool {
    let allowed = entry.entry_type.filter(|kind| kind.is_low_risk() && space.auto_merge.contains(kind));
    allowed.is_some() && is_proposed_in(entry, agent, task)
}

/// Whether `entry` is a pending proposal that `agent` has made in `task`.
pub fn is_proposed_in(entry: &Entry, agent: &Principal, task: &TaskId) -> bool {
    let is_authors = MemberId::of(&entry.author).is_some_and(|author| Some(author) == MemberId::of(agent));
    let is_pending = entry.kind == EntryKind::Proposal && entry.state == EntryState::Pending;
    is_pending && is_authors && entry.task.as_ref() == Some(task)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::{AgentId, EntryId},
        spaces::{EntryDraft, EntryType},
        time::WallTime,
    };
    use std::collections::BTreeSet;

    #[test]
    fn only_low_risk_proposals_of_that_agent_and_task_are_merged_without_a_person() {
        let agent = |id: &str| Principal::Agent(AgentId::parse(id).unwrap());
        let task = |id: &str| TaskId::parse(id).unwrap();
        let space = Space {
            auto_merge: BTreeSet::from([EntryType::Learning, EntryType::Scope]),
            ..Space::initial_default()
        };
        let proposal = |author: &str, of: &str, entry_type: EntryType| {
            let draft = EntryDraft {
                entry_type: Some(entry_type),
                task: Some(task(of)),
                ..EntryDraft::new(EntryKind::Proposal, "c")
            };
            let id = EntryId::parse("e-1").unwrap();
            Entry::new(id, space.id.clone(), agent(author), WallTime(1), draft, None)
        };
        let is_merged = |entry: &Entry| is_auto_merged(&space, entry, &agent("b-1"), &task("t-1"));
        let own = proposal("b-1", "t-1", EntryType::Learning);
        assert!(is_merged(&own));
        assert!(!is_merged(&proposal("b-2", "t-1", EntryType::Learning)), "of another agent");
        assert!(!is_merged(&proposal("b-1", "t-2", EntryType::Learning)), "of another task");
        assert!(!is_merged(&proposal("b-1", "t-1", EntryType::Pattern)), "the space does not allow it");
        assert!(
            !is_merged(&proposal("b-1", "t-1", EntryType::Scope)),
            "a person decides, whatever the space says"
        );
        let rejected = own.rejected(&Principal::local_user(), WallTime(2), "no".to_owned()).unwrap();
        assert!(!is_merged(&rejected), "it is closed");
    }
}
