//! What is merged without a person at the end of a run: the low-risk proposals that were made in it, and after a session at whose
//! gate a person has approved what its host has proposed to decide. If a person has declined the whole, they are rejected.

use super::{Entry, EntryAction, EntryKind, EntryState, EntryType, MemberId, Space, SpaceVerb, may};
use crate::{ids::TaskId, principal::Principal};

/// The end of a task, or of a session, that is the root of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Curation {
    /// Who has done it, or was its host.
    pub agent: Principal,
    pub task: TaskId,
    /// Whether it was a session of a person, at whose gate a person has approved.
    pub is_session: bool,
    /// Why a person has declined it. Else it was completed.
    pub declined: Option<String>,
}

impl Curation {
    /// Whether `entry` is a pending proposal that the agent has made in the task, or as a seat of its own session, or that was made
    /// in the run for which it answers: its author says so.
    pub fn concerns(&self, entry: &Entry) -> bool {
        let is_pending = entry.kind == EntryKind::Proposal && entry.state == EntryState::Pending;
        let is_own = self.is_authors(entry) && entry.task.as_ref() == Some(&self.task);
        let is_of_run = entry.run.as_ref().is_some_and(|run| {
            run.task == self.task && MemberId::of(&self.agent) == Some(MemberId::Agent(run.agent.clone()))
        });
        is_pending && (is_own || is_of_run || self.is_of_session(entry))
    }

    fn is_authors(&self, entry: &Entry) -> bool {
        let author = MemberId::of(&entry.author);
        author.is_some() && author == MemberId::of(&self.agent)
    }

    /// Why `entry` is rejected; `None` if it is not.
    pub fn why_rejected(&self, entry: &Entry) -> Option<String> {
        self.declined.clone().filter(|_| self.concerns(entry))
    }

    /// Why `entry` is merged in `space` without a person; `None` if a person decides.
    pub fn why_merged(&self, space: &Space, entry: &Entry) -> Option<String> {
        let entry_type = entry.entry_type.filter(|_| self.declined.is_none() && self.concerns(entry))?;
        let is_decided_by_host = matches!(entry_type, EntryType::Architectural | EntryType::Scope);
        if self.is_of_session(entry) && is_decided_by_host && may_be_decided_by_its_cause(space, entry) {
            return Some(format!(
                "proposed by the host of the session {}, at whose gate a person has approved",
                self.task
            ));
        }
        let is_allowed = entry_type.is_low_risk() && space.auto_merge.contains(&entry_type);
        is_allowed.then(|| format!("autoMerge of the space, after task {}", self.task))
    }

    fn is_of_session(&self, entry: &Entry) -> bool {
        self.is_session && self.is_authors(entry) && entry.session.as_ref() == Some(&self.task)
    }
}

/// Whether the person that caused `entry`, and has approved at the gate, may merge it: a gate gives no rights. What no person has caused
/// is the agent's.
fn may_be_decided_by_its_cause(space: &Space, entry: &Entry) -> bool {
    entry.cause().is_none_or(|cause| {
        may(&cause.reader(), SpaceVerb::Change(EntryAction::Merge), Some(entry), space).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::{AgentId, EntryId},
        principal::RootProof,
        run_root::RunRoot,
        spaces::EntryDraft,
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
        let ended = Curation { agent: agent("b-1"), task: task("t-1"), is_session: false, declined: None };
        let is_merged = |entry: &Entry| ended.why_merged(&space, entry).is_some();
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

    #[test]
    fn a_completed_session_merges_what_its_host_has_proposed_to_decide_in_it() {
        let agent = |id: &str| Principal::Agent(AgentId::parse(id).unwrap());
        let task = |id: &str| TaskId::parse(id).unwrap();
        let space = Space::initial_default();
        let proposal = |author: &str, session: Option<&str>, entry_type: EntryType| {
            let draft = EntryDraft {
                entry_type: Some(entry_type),
                task: Some(task("turn")),
                session: session.map(task),
                ..EntryDraft::new(EntryKind::Proposal, "c")
            };
            Entry::new(
                EntryId::parse("e-1").unwrap(),
                space.id.clone(),
                agent(author),
                WallTime(1),
                draft,
                None,
            )
        };
        let ended =
            |is_session| Curation { agent: agent("host"), task: task("s-1"), is_session, declined: None };
        let is_merged = |entry: &Entry| ended(true).why_merged(&space, entry).is_some();
        let own = proposal("host", Some("s-1"), EntryType::Architectural);
        assert!(is_merged(&own) && is_merged(&proposal("host", Some("s-1"), EntryType::Scope)));
        assert!(
            !is_merged(&proposal("host", Some("s-1"), EntryType::Process)),
            "only what reaches every brief"
        );
        assert!(
            !is_merged(&proposal("host", Some("s-1"), EntryType::Learning)),
            "the space does not allow it"
        );
        assert!(!is_merged(&proposal("other", Some("s-1"), EntryType::Scope)), "another seat's waits");
        assert!(!is_merged(&proposal("host", Some("s-0"), EntryType::Scope)), "of an earlier run");
        assert!(!is_merged(&proposal("host", None, EntryType::Scope)), "of no session");
        assert_eq!(ended(false).why_merged(&space, &own), None, "a task is no session");
        for (root, proof, is_decided) in [
            ("user:local", Some(RootProof::Token), true),
            ("user:local", None, false),
            ("user:bob", Some(RootProof::Credential), false),
        ] {
            let caused = Entry {
                root: Some(Principal::try_from(root.to_owned()).unwrap()),
                root_proof: proof,
                ..own.clone()
            };
            assert_eq!(is_merged(&caused), is_decided, "{root}: a gate gives no rights");
        }
    }

    #[test]
    fn who_answers_for_a_run_has_what_was_proposed_in_it_merged_or_rejected() {
        let agent = |id: &str| Principal::Agent(AgentId::parse(id).unwrap());
        let task = |id: &str| TaskId::parse(id).unwrap();
        let space = Space { auto_merge: BTreeSet::from([EntryType::Learning]), ..Space::initial_default() };
        let run = |of: &str, by: &str| RunRoot { task: task(of), agent: AgentId::parse(by).unwrap() };
        let proposal = |run: RunRoot, entry_type: EntryType| {
            let draft = EntryDraft {
                entry_type: Some(entry_type),
                task: Some(task("child")),
                run: Some(run),
                ..EntryDraft::new(EntryKind::Proposal, "c")
            };
            let id = EntryId::parse("e-1").unwrap();
            Entry::new(id, space.id.clone(), agent("child-01"), WallTime(1), draft, None)
        };
        let of_child =
            Curation { agent: agent("child-01"), task: task("child"), is_session: false, declined: None };
        let ended = Curation { agent: agent("host"), task: task("s-1"), is_session: true, declined: None };
        let declined = Curation { declined: Some("too slow".to_owned()), is_session: false, ..ended.clone() };
        let learnt = proposal(run("s-1", "host"), EntryType::Learning);
        assert!(ended.why_merged(&space, &learnt).is_some() && ended.why_rejected(&learnt).is_none());
        assert!(declined.why_merged(&space, &learnt).is_none());
        assert_eq!(declined.why_rejected(&learnt).as_deref(), Some("too slow"));
        let scope = proposal(run("s-1", "host"), EntryType::Scope);
        assert!(ended.why_merged(&space, &scope).is_none(), "what reaches every brief a person decides");
        assert!(declined.why_rejected(&scope).is_some());
        for other in [run("s-1", "another"), run("s-2", "host")] {
            let other = proposal(other, EntryType::Learning);
            assert!(ended.why_merged(&space, &other).is_none() && declined.why_rejected(&other).is_none());
        }
        assert!(of_child.concerns(&learnt), "an agent may always curate its own task");
    }
}
