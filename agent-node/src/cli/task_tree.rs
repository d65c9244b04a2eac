//! The parts of a task over all agents, as `mesh tasks show` prints them: who does what since when, and what each waits for.

use super::{output, watch::status_of};
use protocol::task::EXTENSION;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The most parts that are shown.
const MOST_SHOWN: usize = 100;

/// The most levels of parts of parts.
const MOST_LEVELS: usize = 16;

/// The most characters of what is said about a part.
const MOST_SAID: usize = 100;

/// A line for each part of `task` among `tasks` (the agents' tasks, each once), the older one first; parts of parts are indented.
pub(super) fn lines(task: &str, tasks: &[(String, Value)]) -> Vec<String> {
    let mut below = Vec::new();
    add_parts(task, 0, &parts_of(tasks), &mut below);
    let line = |(level, at): &(usize, usize)| {
        let (agent, part) = &tasks[*at];
        format!("{}{}", "  ".repeat(*level), line(agent, part))
    };
    let mut lines: Vec<_> = below.iter().take(MOST_SHOWN).map(line).collect();
    if below.len() > MOST_SHOWN {
        lines.push(format!("and {} more", below.len() - MOST_SHOWN));
    }
    lines
}

/// The order in which each of `tasks` stands under the one it is a part of, with its level. Those of which `tasks` have no whole keep
/// their order.
pub(super) fn in_tree_order(tasks: &[(String, Value)]) -> Vec<(usize, usize)> {
    let ids: BTreeSet<_> = tasks.iter().filter_map(|(_, task)| task["id"].as_str()).collect();
    let parts = parts_of(tasks);
    let (roots, below): (Vec<usize>, Vec<usize>) =
        (0..tasks.len()).partition(|at| parent(&tasks[*at].1).is_none_or(|parent| !ids.contains(parent)));
    let (mut order, mut placed) = (Vec::with_capacity(tasks.len()), BTreeSet::new());
    // What is left after the roots has no root: parts of each other, or too deep.
    for at in roots.into_iter().chain(below) {
        if placed.insert(at) {
            order.push((0, at));
            let mut under = Vec::new();
            add_parts(tasks[at].1["id"].as_str().unwrap_or_default(), 1, &parts, &mut under);
            order.extend(under.into_iter().filter(|(_, at)| placed.insert(*at)));
        }
    }
    order
}

fn parent(task: &Value) -> Option<&str> {
    task["metadata"][EXTENSION]["parentTaskId"].as_str()
}

/// Where in `tasks` the parts of each task are, the older one first, each with its id.
fn parts_of(tasks: &[(String, Value)]) -> BTreeMap<&str, Vec<(usize, &str)>> {
    let mut parts: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
    for (at, (_, task)) in tasks.iter().enumerate() {
        if let Some(parent) = parent(task) {
            parts.entry(parent).or_default().push((at, task["id"].as_str().unwrap_or_default()));
        }
    }
    for of_one in parts.values_mut() {
        of_one.sort_by_key(|(at, _)| {
            tasks[*at].1["metadata"][EXTENSION]["createdAt"].as_str().unwrap_or_default()
        });
    }
    parts
}

fn add_parts(
    task: &str,
    level: usize,
    parts: &BTreeMap<&str, Vec<(usize, &str)>>,
    below: &mut Vec<(usize, usize)>,
) {
    for (at, id) in parts.get(task).into_iter().flatten() {
        below.push((level, *at));
        if level < MOST_LEVELS {
            add_parts(id, level + 1, parts, below);
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
        let circle = [task("a", Some("b"), "1"), task("b", Some("a"), "2")];
        assert!(!lines("a", &circle).is_empty());
        assert_eq!(in_tree_order(&circle), [(0, 0), (1, 1)]);
    }

    #[test]
    fn in_a_tree_each_task_stands_once_under_its_whole() {
        let tasks = [
            task("deep", Some("early"), "4"),
            task("other", Some("elsewhere"), "1"),
            task("late", Some("t"), "3"),
            task("t", None, "1"),
            task("early", Some("t"), "2"),
        ];
        assert_eq!(in_tree_order(&tasks), [(0, 1), (0, 3), (1, 4), (2, 0), (1, 2)]);
    }
}
