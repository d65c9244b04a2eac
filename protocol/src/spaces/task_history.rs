//! What an agent remembers of the tasks that it has done in a space: a short memory of scope `own` each, made when the task
//! ends. The board keeps the last [`KEPT`] of an agent.

use super::{Entry, EntryDraft, EntryKind, EntryState, EntryType, Grade, MemoryScope};
use crate::{ids::TaskId, task::TaskState};
use std::collections::BTreeSet;

/// How many of an agent are kept in a space.
pub const KEPT: usize = 50;
/// How many of them are in a brief, the last ones.
pub const IN_BRIEF: usize = 5;
/// The tag of such a memory.
pub const TAG: &str = "task";

/// What the poster's own id ends with, behind the task.
const OWN_ID: &str = ":history";
/// The most characters of what was asked, and of what came of it.
const MAX_CHARS: usize = 200;
/// The most artifacts that are named.
const MAX_NAMES: usize = 16;

/// The memory of a task that has ended: what was asked, how it ended, with which words, and what was made.
pub fn draft(
    task: &TaskId,
    asked: &str,
    (state, said): (TaskState, Option<&str>),
    artifacts: &[String],
) -> EntryDraft {
    let mut content = state.word().to_owned();
    if let Some(said) = said.map(beginning).filter(|said| !said.is_empty()) {
        content.push_str(&format!(": {said}"));
    }
    if !artifacts.is_empty() {
        let named = artifacts.iter().take(MAX_NAMES).map(|name| beginning(name)).collect::<Vec<_>>();
        content.push_str(&format!("\nArtifacts: {}", named.join(", ")));
    }
    EntryDraft {
        id: Some(format!("{task}{OWN_ID}")),
        title: beginning(asked),
        entry_type: Some(EntryType::Update),
        importance: Some(Grade::Low),
        scope: Some(MemoryScope::Own),
        tags: BTreeSet::from([TAG.to_owned()]),
        task: Some(task.clone()),
        ..EntryDraft::new(EntryKind::Memory, content)
    }
}

/// Whether a post is one of these memories.
pub fn is_of_history(draft: &EntryDraft) -> bool {
    draft.id.as_ref().is_some_and(|id| id.ends_with(OWN_ID))
        && draft.kind == EntryKind::Memory
        && draft.scope == Some(MemoryScope::Own)
        && draft.entry_type == Some(EntryType::Update)
        && draft.tags.contains(TAG)
}

/// Whether an entry is in force and one of these memories.
pub fn is_remembered(entry: &Entry) -> bool {
    (entry.kind, entry.state, entry.scope) == (EntryKind::Memory, EntryState::Active, Some(MemoryScope::Own))
        && entry.entry_type == Some(EntryType::Update)
        && entry.tags.contains(TAG)
}

/// The beginning of the first line.
fn beginning(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let cut: String = line.chars().take(MAX_CHARS).collect();
    if cut.len() < line.len() { cut + "…" } else { cut }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_of_a_task_is_short_whatever_the_task_was() {
        let task = TaskId::parse("t-1").unwrap();
        let long = "é".repeat(100_000);
        let draft =
            draft(&task, &format!("{long}\nmore"), (TaskState::Failed, Some(&long)), &vec![long.clone(); 99]);
        assert!(draft.check().is_ok() && is_of_history(&draft));
        assert!(
            draft.content.len() < 8_000 && draft.content.starts_with("failed: é"),
            "{}",
            draft.content.len()
        );
        assert_eq!(draft.id.as_deref(), Some("t-1:history"));
        let other = EntryDraft { id: Some("t-1:0123".to_owned()), ..draft };
        assert!(!is_of_history(&other), "what a brain remembers is no history, whatever its tags");
    }
}
