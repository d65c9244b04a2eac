//! Chats that an agent has handed over to another one. The first agent stays accountable: what is said later comes to it, and it
//! passes each message on as a task of its own.

use crate::{
    ids::{AgentId, TaskId},
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use wire::task::PastTask;

pub use wire::{context::ChatHandover, line::Handoff};

/// With whom a chat goes on, as the agent that is accountable for it keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Handover {
    /// The task with which the other agent got the chat. It is the name of the chat there, so that a chat which comes to an agent
    /// again begins there with what was said meanwhile.
    pub chat: TaskId,
    /// The agent with which it goes on.
    pub to: AgentId,
    /// The agent that has handed it over: the accountable one, or one that had it before.
    pub by: AgentId,
    /// Why.
    pub reason: String,
    /// When.
    pub at: WallTime,
}

/// What goes with each task of a chat that was handed over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HandedChat {
    /// The name of the chat, unique for its sender.
    pub chat: TaskId,
    /// The agent that has handed it over.
    pub by: AgentId,
    /// Why.
    pub reason: String,
    /// What is left of what was said long ago.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// What was said before, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<PastTask>,
}

impl HandedChat {
    /// The summary and what was said after it, in at most about `most` bytes: the oldest is left out.
    pub fn words(&self, history: &[PastTask], most: usize) -> String {
        let mut words = String::new();
        for past in history.iter().rev().map(PastTask::words) {
            if words.len() + past.len() > most {
                return words;
            }
            words.insert_str(0, &past);
        }
        let summary = self.summary.trim_end();
        match summary.is_empty() || words.len() + summary.len() > most {
            true => words,
            false => format!("{summary}\n{words}"),
        }
    }

    /// How it came to the agent, as a brain is told.
    pub fn handover(&self) -> ChatHandover {
        let (by, reason, summary) = (self.by.clone(), self.reason.clone(), self.summary.clone());
        ChatHandover { by, reason, is_back: false, summary }
    }
}
