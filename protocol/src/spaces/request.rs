//! What a conversation asks of a space of the board, and the answers.

use super::{EntryDraft, EntryId, EntryKind, sealed::EntryRelease};
use crate::{
    ids::{AgentId, SpaceId, TaskId},
    principal::TaskRoot,
    problem::Problem,
    signal::Cursor,
    task::TaskState,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The most entries that a search returns.
pub const MAX_FOUND: usize = 20;
/// The most bytes of the text of a search's result.
pub const MAX_FOUND_BYTES: usize = 16 * 1024;

/// A request to a space.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpaceRequest {
    pub space: SpaceId,
    /// For whom a brain of the agent asks: it is answered as far as the agent and this principal may ask. Absent: the agent asks by
    /// itself, or asked before an update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<TaskRoot>,
    #[serde(flatten)]
    pub action: SpaceAction,
}

/// What is asked of a space.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "action")]
pub enum SpaceAction {
    /// Post an entry. A repeat of its id changes nothing. → [`SpaceAnswer::Posted`]
    Post {
        /// The entry, with an id of the agent's own.
        entry: Box<EntryDraft>,
    },
    /// Search for entries. → [`SpaceAnswer::Found`]
    Find(EntrySearch),
    /// Merge those of the agent's own proposals of the task, and of all made in its run, that need no person; or reject them.
    /// → [`SpaceAnswer::Curated`]
    Curate {
        task: TaskId,
        /// Whether it was a session that the agent has hosted, at whose gate a person has approved.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        session: bool,
        /// Why they are rejected, if a person has declined what the run has made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        declined: Option<String>,
    },
    /// Say whether a task of anybody's has ended, as its signals tell that the agent may see. → [`SpaceAnswer::TaskEnded`],
    /// [`SpaceAnswer::TaskOpen`], or refused if there is none (`task_not_found`)
    AwaitTask {
        task: TaskId,
        /// Look at the signals after this one only: the task is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<Cursor>,
    },
    /// Release the entries of a sealed stage, or end a session that the agent hosts. → [`SpaceAnswer::Released`]
    Release(EntryRelease),
}

/// Which entries are searched for. Those come first that matter most, then the newest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EntrySearch {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<EntryKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// With these words in title or content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Of other authors only these kinds; all if absent. The stage of a seat says so, never a brain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_others: Option<BTreeSet<EntryKind>>,
    /// Whose findings count, and which sealed ones.
    #[serde(default, skip_serializing_if = "SessionScope::is_default")]
    pub scope: SessionScope,
}

/// What a turn sees of the sessions of a space. The input of its task says so, never a brain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionScope {
    /// The session whose findings it sees; without one those of no session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<TaskId>,
    /// The session of whose sealed entries it sees its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<TaskId>,
}

impl SessionScope {
    /// Whether it is the default.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The answer of a space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "answer")]
pub enum SpaceAnswer {
    /// The entry is there.
    Posted {
        /// Its id; that of the earlier entry if it is a new version of one.
        id: EntryId,
        version: u64,
    },
    /// The result of a search.
    Found {
        /// The entries, at most [`MAX_FOUND`], as a text of at most [`MAX_FOUND_BYTES`].
        text: String,
        /// The number of entries in the text.
        count: u64,
    },
    /// What the curator has done.
    Curated {
        /// The number of merged proposals.
        merged: u64,
        /// The number of rejected ones.
        #[serde(default)]
        rejected: u64,
        /// The number of those that wait for a person.
        waiting: u64,
    },
    /// What was sealed is an entry as any other.
    Released {
        count: u64,
        /// What the space has refused, and why.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        refused: Vec<String>,
    },
    /// The task has ended.
    TaskEnded {
        state: TaskState,
        /// The agent that answers for it.
        by: AgentId,
        /// How it has ended, and the names of what it has produced.
        text: String,
    },
    /// It has not.
    TaskOpen {
        /// What was looked at.
        after: Cursor,
    },
    /// The space refused it for good.
    Refused {
        /// Why, as a `reasonCode`.
        reason: String,
        /// A message for people.
        message: String,
    },
}

impl SpaceRequest {
    /// What it is: `post`, `find`, `curate`, `await-task` or `release`.
    pub fn name(&self) -> &'static str {
        match self.action {
            SpaceAction::Post { .. } => "post",
            SpaceAction::Find(_) => "find",
            SpaceAction::Curate { .. } => "curate",
            SpaceAction::AwaitTask { .. } => "await-task",
            SpaceAction::Release(_) => "release",
        }
    }

    /// Whether it changes the space.
    pub fn is_write(&self) -> bool {
        !matches!(self.action, SpaceAction::Find(_) | SpaceAction::AwaitTask { .. })
    }
}

impl SpaceAnswer {
    /// The answer to a request that was refused.
    pub fn refused(problem: &Problem) -> Self {
        Self::Refused { reason: problem.reason.code().to_owned(), message: problem.message.clone() }
    }
}
