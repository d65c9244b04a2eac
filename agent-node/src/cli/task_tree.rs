//! The parts of a task over all agents, as `mesh tasks show` prints them: who does what since when, and what each waits for.

use super::{output, watch::status_of};
use protocol::task::EXTENSION;
use serde_json::Value;
use std::collections::BTreeMap;

/// The most parts that are shown.
const MOST_SHOWN: usize = 100;

/// The most levels of parts of parts.
const MOST_LEVELS: usize = 16;

/// The most characters of what is said about a part.
const MOST_SAID: usize = 100;

/// A line for each part of `task` among `tasks` (the agents' tasks, each once), the older one first; parts of parts are indented.
pub(super) fn lines(task: &str, tasks: &[(String, Value)]) -> Vec<String> {
    let mut children: BTreeMap<&str, Vec<&(String, Value)>> = BTreeMap::new();
    for listed in tasks {
        if let Some(parent) = listed.1["metadata"][EXTENSION]["parentTaskId"].as_str() {
            children.entry(parent).or_default().push(listed);
        }
    }
    for parts in children.values_mut() {
        parts.sort_by_key(|(_, part)| part["metadata"][EXTENSION]["createdAt"].as_str().unwrap_or_default());
    }
    let mut lines = Vec::new();
    add(task, 0, &children, &mut lines);
    if lines.len() > MOST_SHOWN {
        let more = lines.len() - MOST_SHOWN;
        lines.truncate(MOST_SHOWN);
        lines.push(format!("and {more} more"));
    }
    lines
}

fn add(task: &str, level: usize, children: &BTreeMap<&str, Vec<&(String, Value)>>, lines: &mut Vec<String>) {
    for (agent, part) in children.get(task).into_iter().flatten() {
        lines.push(format!("{}{}", "  ".repeat(level), line(agent, part)));
        if level < MOST_LEVELS {
            add(part["id"].as_str().unwrap_or_default(), level + 1, children, lines);
        }
    }
}

fn line(agent: &str, part: &Value) -> String {
    let ours = &part["metadata"][EXTENSION];
    let text = |value: &Value| output::plain(value.as_str().unwrap_or_default());
    let (state, message) = status_of(&part["status"]);
    let state =
        state.map_or_else(|| "?".to_owned(), |state| output::paint(state.word(), output::colour_of(state)));
    let doer = Some(text(&ours["doer"])).filter(|doer| !doer.is_empty());
    let who = doer.map_or_else(|| agent.to_owned(), |doer| format!("{doer} for {agent}"));
    let said = if message.is_empty() { text(&ours["description"]) } else { message };
    let said: String = said.lines().next().unwrap_or_default().chars().take(MOST_SAID).collect();
    format!("{} {state} {who} since {}: {said}", text(&part["id"]), text(&part["status"]["timestamp"]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn task(id: &str, parent: Option<&str>, created: &str) -> (String, Value) {
        let ours = json!({ "parentTaskId": parent, "createdAt": created, "description": format!("do {id}") });
        let status = json!({ "state": "TASK_STATE_WORKING", "timestamp": created });
        ("a-1".to_owned(), json!({ "id": id, "status": status, "metadata": { EXTENSION: ours } }))
    }

    #[test]
    fn parts_stand_under_what_they_are_a_part_of_in_the_order_of_their_creation() {
        let tasks = [
            task("t", None, "1"),
            task("late", Some("t"), "3"),
            task("early", Some("t"), "2"),
            task("deep", Some("early"), "4"),
            task("other", Some("elsewhere"), "1"),
        ];
        let lines = lines("t", &tasks);
        let ids: Vec<_> = lines.iter().map(|line| line.split(" \u{1b}").next().unwrap_or_default()).collect();
        let ids: Vec<_> = ids.iter().map(|line| line.split(" working").next().unwrap_or_default()).collect();
        assert_eq!(ids, ["early", "  deep", "late"], "{lines:?}");
        assert!(lines[0].ends_with("a-1 since 2: do early"), "{lines:?}");
    }

    #[test]
    fn a_circle_of_parts_ends() {
        assert!(!lines("a", &[task("a", Some("b"), "1"), task("b", Some("a"), "2")]).is_empty());
    }
}
