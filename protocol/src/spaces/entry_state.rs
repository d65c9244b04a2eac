//! The states of an entry and how they change (DESIGN §13).

use super::EntryKind;
use crate::problem::{Problem, Reason};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The state of an entry. Which states a kind has: [`EntryState::of_kind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntryState {
    /// A finding of a sealed stage: only its author sees it.
    Sealed,
    /// A finding that all members see.
    Open,
    /// A finding that no longer holds.
    Withdrawn,
    /// A proposal that waits for a decision.
    Pending,
    /// A proposal that became a decision or a memory.
    Merged,
    /// A proposal that was refused. It is kept.
    Rejected,
    /// A decision or a memory in force.
    Active,
    /// A decision that another one replaced.
    Superseded,
    /// A decision or a memory that is no longer used.
    Archived,
    /// A message or an artifact; it does not change.
    Posted,
}

/// A change of an entry's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryAction {
    /// Shows a sealed finding to all members.
    Release,
    /// Makes a proposal a decision or a memory.
    Merge,
    Reject,
    /// Replaces a decision by another one.
    Supersede,
    /// Takes a decision or a memory out of use.
    Archive,
    /// Takes a finding back.
    Withdraw,
}

impl EntryState {
    /// Every state, in the order of the enum.
    pub const ALL: [Self; 10] = [
        Self::Sealed,
        Self::Open,
        Self::Withdrawn,
        Self::Pending,
        Self::Merged,
        Self::Rejected,
        Self::Active,
        Self::Superseded,
        Self::Archived,
        Self::Posted,
    ];

    /// The states of `kind`; the first is that of a new entry.
    pub fn of_kind(kind: EntryKind) -> &'static [Self] {
        match kind {
            EntryKind::Message | EntryKind::Artifact => &[Self::Posted],
            EntryKind::Finding => &[Self::Open, Self::Sealed, Self::Withdrawn],
            EntryKind::Proposal => &[Self::Pending, Self::Merged, Self::Rejected],
            EntryKind::Decision => &[Self::Active, Self::Superseded, Self::Archived],
            EntryKind::Memory => &[Self::Active, Self::Archived],
        }
    }

    /// The state of a new entry of `kind` outside a sealed stage.
    pub fn initial(kind: EntryKind) -> Self {
        Self::of_kind(kind)[0]
    }

    /// Whether an entry of `kind` in this state still binds somebody or waits for a change. Retention keeps it then.
    pub fn is_in_use(self, kind: EntryKind) -> bool {
        self == Self::Active || self.actions(kind).iter().any(|action| *action != EntryAction::Withdraw)
    }

    /// What is possible with an entry of `kind` in this state.
    pub fn actions(self, kind: EntryKind) -> &'static [EntryAction] {
        match (kind, self) {
            (EntryKind::Finding, Self::Sealed) => &[EntryAction::Release],
            (EntryKind::Finding, Self::Open) => &[EntryAction::Withdraw],
            (EntryKind::Proposal, Self::Pending) => &[EntryAction::Merge, EntryAction::Reject],
            (EntryKind::Decision, Self::Active) => &[EntryAction::Supersede, EntryAction::Archive],
            (EntryKind::Memory, Self::Active) => &[EntryAction::Archive],
            _ => &[],
        }
    }

    /// The state after `action`. Fails with `entry_state`, which names the state and what is possible.
    pub fn after(self, kind: EntryKind, action: EntryAction) -> Result<Self, Problem> {
        if self.actions(kind).contains(&action) {
            return Ok(action.target());
        }
        let possible: Vec<String> = self.actions(kind).iter().map(ToString::to_string).collect();
        let possible = match possible.is_empty() {
            true => "it does not change any more".to_owned(),
            false => format!("possible: {}", possible.join(", ")),
        };
        let message = format!("{action}: the entry is a {kind} and {self}; {possible}");
        Err(Problem::new(Reason::EntryState, message).with("kind", kind).with("state", self))
    }
}

impl EntryAction {
    /// Every action.
    pub const ALL: [Self; 6] =
        [Self::Release, Self::Merge, Self::Reject, Self::Supersede, Self::Archive, Self::Withdraw];

    fn target(self) -> EntryState {
        match self {
            Self::Release => EntryState::Open,
            Self::Merge => EntryState::Merged,
            Self::Reject => EntryState::Rejected,
            Self::Supersede => EntryState::Superseded,
            Self::Archive => EntryState::Archived,
            Self::Withdraw => EntryState::Withdrawn,
        }
    }
}

impl fmt::Display for EntryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sealed => "sealed",
            Self::Open => "open",
            Self::Withdrawn => "withdrawn",
            Self::Pending => "pending",
            Self::Merged => "merged",
            Self::Rejected => "rejected",
            Self::Active => "active",
            Self::Superseded => "superseded",
            Self::Archived => "archived",
            Self::Posted => "posted",
        })
    }
}

impl fmt::Display for EntryAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Release => "release",
            Self::Merge => "merge",
            Self::Reject => "reject",
            Self::Supersede => "supersede",
            Self::Archive => "archive",
            Self::Withdraw => "withdraw",
        })
    }
}
