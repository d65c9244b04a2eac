//! An entry: one record of a space, and the changes that it goes through.

use super::{
    EntryAction, EntryDraft, EntryLink, EntryState, EntryType, MemberId, Slug, SpaceId,
    entry_draft::{CROSS_TEAM, MAX_TITLE_BYTES},
};
use crate::{
    ids::{StageId, TaskId},
    principal::{Principal, RootProof, SenderProof, TaskRoot},
    problem::{Problem, Reason},
    run_root::RunRoot,
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

pub use crate::ids::EntryId;
pub use wire::entry::{EntryKind, Grade, MemoryScope};

/// An entry of a space. Its JSON is the same on the wire and in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Its id, unique in its space.
    pub id: EntryId,
    /// The space it belongs to.
    pub space: SpaceId,
    pub kind: EntryKind,
    pub state: EntryState,
    /// Counts its changes, from 1.
    pub version: u64,
    /// Who wrote its content.
    pub author: Principal,
    /// For whom the author, an agent, has written it. Absent: nobody but the agent has caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<Principal>,
    /// How that principal was proved; unproven if absent.
    #[serde(default, deserialize_with = "RootProof::known", skip_serializing_if = "Option::is_none")]
    pub root_proof: Option<RootProof>,
    /// Whether it comes from below `member` and no member has accepted it: no brief has it.
    #[serde(default, rename = "unaccepted", skip_serializing_if = "std::ops::Not::not")]
    pub is_unaccepted: bool,
    /// When it was posted.
    pub at: WallTime,
    /// When it was last changed.
    pub changed_at: WallTime,
    /// Who last changed its state, if that was not its author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_by: Option<Principal>,
    /// Why its state was last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The task it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The session it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<TaskId>,
    /// The run that its task was a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunRoot>,
    /// The session's stage it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<StageId>,
    /// Words it is found by; each is compared as a whole.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
    /// Other entries that it refers to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<EntryLink, EntryId>,
    /// Its title; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    pub content: String,
    /// The type of a proposal, a decision or a memory.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub entry_type: Option<EntryType>,
    /// The name of a proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slug: Option<Slug>,
    /// The importance of a proposal or a memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub importance: Option<Grade>,
    /// Who reads a memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<MemoryScope>,
    /// The severity of a finding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Grade>,
    /// The addressees of a message; empty: the team.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub to: BTreeSet<MemberId>,
}

/// What a merge writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merge {
    /// The proposal, merged, with a link to the result.
    pub proposal: Entry,
    /// The decision or memory, with a link to the proposal.
    pub result: Entry,
}

impl Entry {
    /// The entry that `author` posts with `draft`, which has been checked, at `at`. A proposal has `slug`.
    pub fn new(
        id: EntryId,
        space: SpaceId,
        author: Principal,
        at: WallTime,
        draft: EntryDraft,
        slug: Option<Slug>,
    ) -> Self {
        let title = match (&slug, draft.title.is_empty()) {
            (Some(slug), true) => slug.to_string(),
            _ => draft.title,
        };
        let is_memory = draft.kind == EntryKind::Memory;
        let has_importance = is_memory || draft.kind == EntryKind::Proposal;
        Self {
            id,
            space,
            kind: draft.kind,
            state: EntryState::initial(draft.kind),
            version: 1,
            author,
            root: draft.root,
            root_proof: draft.root_proof,
            is_unaccepted: false,
            at,
            changed_at: at,
            changed_by: None,
            reason: None,
            task: draft.task,
            session: draft.session,
            run: draft.run,
            stage: draft.stage,
            tags: draft.tags,
            links: draft.links,
            title,
            content: draft.content,
            entry_type: draft.entry_type,
            slug,
            importance: has_importance.then(|| draft.importance.unwrap_or_default()),
            scope: is_memory.then(|| draft.scope.unwrap_or_default()),
            severity: (draft.kind == EntryKind::Finding).then(|| draft.severity.unwrap_or_default()),
            to: draft.to,
        }
    }

    /// The principal that caused it: for whom an agent has written it, or the user that has. `None` if an agent has on its own behalf.
    pub fn cause(&self) -> Option<TaskRoot> {
        let of_user = || match &self.author {
            Principal::User(_) => Some(TaskRoot {
                principal: self.author.clone(),
                proof: Some(RootProof::of(&self.author, SenderProof::Credential)),
            }),
            Principal::Agent(_) | Principal::Brain(_) | Principal::Service(_) => None,
        };
        let named = self.root.clone().map(|principal| TaskRoot { principal, proof: self.root_proof });
        named.or_else(of_user)
    }

    /// Whether `root` has caused it, or the person whose mesh it is, or nobody.
    pub fn is_for(&self, root: &TaskRoot) -> bool {
        self.cause().is_none_or(|cause| {
            let is_same = cause.principal == root.principal && cause.sender_proof() == root.sender_proof();
            is_same || cause.is_person()
        })
    }

    /// Whether it is a memory that the briefs of all have with what is most important.
    pub fn is_cross_team(&self) -> bool {
        self.scope == Some(MemoryScope::Team) && self.tags.contains(CROSS_TEAM)
    }

    /// Refuses an entry that no posts and changes could have made.
    pub fn check(&self) -> Result<(), Problem> {
        let invalid = |field: &'static str, why: String| {
            Err(Problem::new(Reason::InvalidField, format!("{field}: {why}")).with("field", field))
        };
        if !EntryState::of_kind(self.kind).contains(&self.state) {
            return invalid("state", format!("a {} is never {}", self.kind, self.state));
        }
        if self.version == 0 || self.changed_at < self.at {
            return invalid("version", "counts from 1, and changedAt is not before at".to_owned());
        }
        let (is_memory, is_proposal) = (self.kind == EntryKind::Memory, self.kind == EntryKind::Proposal);
        for (field, is_there, is_needed) in [
            ("slug", self.slug.is_some(), is_proposal),
            ("importance", self.importance.is_some(), is_memory || is_proposal),
            ("scope", self.scope.is_some(), is_memory),
            ("severity", self.severity.is_some(), self.kind == EntryKind::Finding),
        ] {
            if is_needed && !is_there {
                return invalid(field, format!("a {} has one", self.kind));
            }
        }
        for link in self.links.keys() {
            let fits = match link {
                EntryLink::Became => self.state == EntryState::Merged,
                EntryLink::MergedFrom => matches!(self.kind, EntryKind::Decision | EntryKind::Memory),
                EntryLink::SupersededBy => self.state == EntryState::Superseded,
                EntryLink::RetriedFrom => true,
            };
            if !fits {
                return invalid("links", format!("a {} that is {} has none of these", self.kind, self.state));
            }
        }
        if self.reason.as_ref().is_some_and(|reason| reason.len() > MAX_TITLE_BYTES) {
            return invalid("reason", format!("at most {MAX_TITLE_BYTES} bytes"));
        }
        let draft = EntryDraft {
            title: self.title.clone(),
            entry_type: self.entry_type,
            importance: self.importance,
            scope: self.scope,
            severity: self.severity,
            tags: self.tags.clone(),
            to: self.to.clone(),
            slug: self.slug.as_ref().map(ToString::to_string),
            ..EntryDraft::new(self.kind, self.content.clone())
        };
        draft.check_content()
    }

    /// The next version of this pending proposal, with the content of `draft`.
    pub fn revised(&self, at: WallTime, draft: EntryDraft) -> Self {
        let version = self.version + 1;
        let (id, space, author, slug) =
            (self.id.clone(), self.space.clone(), self.author.clone(), self.slug.clone());
        Self { version, changed_at: at, ..Self::new(id, space, author, self.at, draft, slug) }
    }

    /// The entry after `action` by `by`. Fails with `entry_state` if its state does not allow it.
    fn changed(
        &self,
        action: EntryAction,
        by: &Principal,
        at: WallTime,
        reason: Option<String>,
    ) -> Result<Self, Problem> {
        let state = self.state.after(self.kind, action)?;
        let changed_by = Some(by.clone());
        Ok(Self { state, version: self.version + 1, changed_at: at, changed_by, reason, ..self.clone() })
    }

    /// The finding, shown to all members.
    pub fn released(&self, by: &Principal, at: WallTime) -> Result<Self, Problem> {
        self.changed(EntryAction::Release, by, at, None)
    }

    /// The rejected proposal.
    pub fn rejected(&self, by: &Principal, at: WallTime, reason: String) -> Result<Self, Problem> {
        self.changed(EntryAction::Reject, by, at, Some(reason))
    }

    /// The decision or memory, taken out of use.
    pub fn archived(&self, by: &Principal, at: WallTime, reason: Option<String>) -> Result<Self, Problem> {
        self.changed(EntryAction::Archive, by, at, reason)
    }

    /// The same, accepted by a member.
    pub fn accepted(&self, by: &Principal, at: WallTime, reason: Option<String>) -> Result<Self, Problem> {
        if !self.is_unaccepted {
            let message = format!("accept: the entry {} waits for nobody's acceptance", self.id);
            return Err(Problem::new(Reason::EntryState, message).with("state", self.state));
        }
        let (version, changed_by) = (self.version + 1, Some(by.clone()));
        Ok(Self { is_unaccepted: false, version, changed_at: at, changed_by, reason, ..self.clone() })
    }

    /// The finding, taken back.
    pub fn withdrawn(&self, by: &Principal, at: WallTime, reason: Option<String>) -> Result<Self, Problem> {
        self.changed(EntryAction::Withdraw, by, at, reason)
    }

    /// The same out of use, whatever it is: withdrawn, archived or rejected. `None` if it is out of use already, or can't be.
    pub fn taken_out(&self, by: &Principal, at: WallTime, reason: Option<String>) -> Option<Self> {
        let actions = [EntryAction::Withdraw, EntryAction::Archive, EntryAction::Reject];
        let possible = self.state.actions(self.kind);
        let action = actions.into_iter().find(|action| possible.contains(action))?;
        self.changed(action, by, at, reason).ok()
    }

    /// The decision, replaced by `other`, which must be an active decision of the same space.
    pub fn superseded(
        &self,
        other: &Self,
        by: &Principal,
        at: WallTime,
        reason: Option<String>,
    ) -> Result<Self, Problem> {
        let mut changed = self.changed(EntryAction::Supersede, by, at, reason)?;
        let is_in_force = other.kind == EntryKind::Decision && other.state == EntryState::Active;
        if !is_in_force || other.id == self.id || other.space != self.space {
            let message = format!(
                "by: another active decision of the space replaces a decision; {} is a {} and {}",
                other.id, other.kind, other.state
            );
            return Err(Problem::new(Reason::EntryState, message).with("state", other.state));
        }
        changed.links.insert(EntryLink::SupersededBy, other.id.clone());
        Ok(changed)
    }

    /// The proposal merged by `by`: to a decision or a memory of the team, as its type says, with the id `result`.
    pub fn merged(
        &self,
        result: EntryId,
        by: &Principal,
        at: WallTime,
        reason: Option<String>,
    ) -> Result<Merge, Problem> {
        let mut proposal = self.changed(EntryAction::Merge, by, at, reason)?;
        let kind = self.entry_type.map_or(EntryKind::Decision, EntryType::merges_to);
        let is_memory = kind == EntryKind::Memory;
        let result = Self {
            id: result,
            kind,
            state: EntryState::initial(kind),
            version: 1,
            at,
            changed_at: at,
            changed_by: Some(by.clone()),
            reason: None,
            links: BTreeMap::from([(EntryLink::MergedFrom, self.id.clone())]),
            slug: None,
            importance: self.importance.filter(|_| is_memory),
            scope: is_memory.then_some(MemoryScope::Team),
            is_unaccepted: self.is_unaccepted && !matches!(by, Principal::User(_)),
            ..self.clone()
        };
        proposal.links.insert(EntryLink::Became, result.id.clone());
        Ok(Merge { proposal, result })
    }
}
