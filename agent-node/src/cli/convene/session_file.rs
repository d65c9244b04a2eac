//! A session's file: YAML or JSON with `seats`, `phases`, `stages` or a `preset`, and its `space`. A `task` that names a text file beside it is replaced by its text.

use crate::{
    config::{ConfigErrors, ConfigFault, Document, SESSION_KEYS, TEAM_KEYS},
    text_file,
};
use patterns::session::graph::Graph;
use protocol::{ids::SpaceId, words};
use serde_json::{Map, Value};
use std::path::Path;

/// The other keys of a session. One that has nothing but these is recognised by them.
const OTHER_KEYS: [&str; 7] = ["autopilot", "budget", "cast", "discovery", "findings", "routing", "space"];

/// Whether `name` is the name of a file, not of an agent.
pub(super) fn is_name(name: &str) -> bool {
    [".yaml", ".yml", ".json"].iter().any(|ending| name.ends_with(ending))
}

/// Whether a file is a session's, not one of agents.
pub(in crate::cli) fn is_session(path: &Path) -> bool {
    let value = Document::read(path).map(|document| document.value());
    value.is_ok_and(|value| value.as_object().is_some_and(is_like_a_session))
}

/// Whether these are the members of a session: by the keys that only one of both has, by one that is like these, else by others.
fn is_like_a_session(members: &Map<String, Value>) -> bool {
    let has = |keys: &[&str]| keys.iter().any(|key| members.contains_key(*key));
    let is_team = has(&TEAM_KEYS) || has(&["agent"]);
    if is_team || has(&SESSION_KEYS) {
        return !is_team;
    }
    let decisive = || TEAM_KEYS.into_iter().chain(["agent"]).chain(SESSION_KEYS);
    match members.keys().find_map(|key| words::nearest(key, decisive())) {
        Some(meant) => SESSION_KEYS.contains(&meant),
        None => has(&OTHER_KEYS),
    }
}

/// The graph in a file, checked, and its space; or everything that is wrong.
pub(in crate::cli) fn read(path: &Path) -> Result<(Value, Option<SpaceId>), ConfigErrors> {
    let document = Document::read(path).map_err(|fault| ConfigErrors(vec![fault]))?;
    let mut graph = document.value();
    let base = path.parent().unwrap_or(Path::new(""));
    let fail = |what: &str| Err(ConfigErrors(vec![document.fault("", what)]));
    let Some(members) = graph.as_object_mut() else {
        return fail("a session has `seats`, `phases`, `stages` or a `preset`");
    };
    if TEAM_KEYS.iter().chain(&["agent"]).any(|key| members.contains_key(*key)) {
        return fail(
            "describes agents, which `mesh up` starts; a session has `seats`, `phases`, `stages` or a `preset`",
        );
    }
    let mut faults = Vec::new();
    if members.get("preset").is_some_and(|preset| preset == "round-table") && !members.contains_key("seats") {
        // The order of a map is lost on the way.
        members.insert("seats".to_owned(), document.keys("cast").into());
    }
    let space = members.remove("space").map(serde_json::from_value::<SpaceId>).transpose();
    let space = space.map_err(|error| faults.push(document.fault("space", &error.to_string())));
    let mut read_tasks = |stage: &mut Value, key: &str| {
        let mut read = |of: &mut Value, key: String| {
            faults.extend(read_task(of, base).err().map(|what| document.fault(&key, &what)));
        };
        read(stage, format!("{key}.task"));
        let has_members = stage.is_object();
        let seats = if has_members { list(stage, "seats") } else { items(stage) };
        let seats_key = if has_members { format!("{key}.seats") } else { key.to_owned() };
        for (at, seat) in seats.iter_mut().enumerate() {
            read(seat, format!("{seats_key}[{at}].task"));
        }
    };
    for (at, stage) in list(&mut graph, "stages").iter_mut().enumerate() {
        read_tasks(stage, &format!("stages[{at}]"));
    }
    for (name, phase) in graph.get_mut("phases").and_then(Value::as_object_mut).into_iter().flatten() {
        read_tasks(phase, &format!("phases.{name}"));
    }
    if let Err(found) = Graph::read(Some(&graph)) {
        faults.extend(found.0.iter().map(|fault| document.fault(&fault.key, &fault.what)));
    }
    match space {
        Ok(space) if faults.is_empty() => Ok((graph, space)),
        Ok(_) | Err(()) => {
            faults.sort_by_key(|fault: &ConfigFault| fault.line);
            Err(ConfigErrors(faults))
        }
    }
}

fn list<'a>(of: &'a mut Value, name: &str) -> &'a mut [Value] {
    of.get_mut(name).map(items).unwrap_or_default()
}

/// The members of a list; none of what is no list.
fn items(list: &mut Value) -> &mut [Value] {
    list.as_array_mut().map(Vec::as_mut_slice).unwrap_or_default()
}

/// Replaces the name of a text file by its text.
fn read_task(of: &mut Value, base: &Path) -> Result<(), String> {
    let Some(task) = of.get_mut("task") else { return Ok(()) };
    let is_file = |name: &&str| {
        !name.contains(char::is_whitespace) && [".md", ".txt"].iter().any(|end| name.ends_with(end))
    };
    if let Some(name) = task.as_str().filter(is_file) {
        let text = text_file::read(&base.join(name)).map_err(|error| format!("{name}: {error}"))?;
        *task = Value::String(text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tasks_may_be_files_and_what_is_wrong_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("frame.md", "Frame it.");
        write(
            "good.yaml",
            "space: shop\nstages:\n  - { id: a, task: frame.md, seats: [{ agent: x, task: Be terse. }] }\n",
        );
        write("cast.yaml", "preset: round-table\ncast: { zoe: z-01, adam: a-01 }\n");
        write(
            "phases.yaml",
            "phases: { start: [{ agent: x, task: frame.md }], default: { task: frame.md, seats: [y] } }\n",
        );
        let written = |name: &str| read(&dir.path().join(name)).unwrap().0;
        assert_eq!(written("cast.yaml")["seats"], json!(["zoe", "adam"]), "the order of the file");
        let phases = &written("phases.yaml")["phases"];
        assert_eq!(
            (&phases["start"][0]["task"], &phases["default"]["task"]),
            (&json!("Frame it."), &json!("Frame it."))
        );
        let (graph, space) = read(&dir.path().join("good.yaml")).unwrap();
        assert_eq!(space, SpaceId::parse("shop").ok());
        assert_eq!(graph["stages"][0]["task"], json!("Frame it."));
        assert_eq!(graph["stages"][0]["seats"][0]["task"], json!("Be terse."));
        for (text, expected) in [
            ("seats: [a", "bad.yaml:1: is no YAML: "),
            ("", "bad.yaml: is empty"),
            ("seats: [a]\n---\nseats: [b]", "bad.yaml: has 2 documents; one is wanted"),
            ("seets: [a]", "bad.yaml:1: seets: unknown key; did you mean `seats`?"),
            ("space: no\u{20}space\nseats: [a]", "bad.yaml:1: space: "),
            ("stages:\n  - { id: a, task: none.md, seats: [x] }", "bad.yaml:2: stages[0].task: none.md: "),
            ("- a", "bad.yaml: a session has"),
            ("agents: [{ agent: a }]", "bad.yaml: describes agents, which `mesh up` starts"),
            ("stages: [a]", "bad.yaml:1: stages[0]: invalid type: string \"a\", expected struct Stage"),
            ("seats: [a]\nrouting: 1", "bad.yaml:2: routing: invalid type: integer `1`, expected"),
            (
                "seats: [a]\nbudget:\n  time: 20",
                "bad.yaml:3: budget.time: a time needs its unit, such as `20s` or `20min`, not 20",
            ),
        ] {
            write("bad.yaml", text);
            let failure = read(&dir.path().join("bad.yaml")).unwrap_err().to_string();
            assert!(failure.contains(expected), "{text}: {failure}");
        }
        write(
            "bad.yaml",
            "stages:\n  - id: a\n    task: none.md\n    seats:\n      - { agnet: x }\n  - id: b\n    ordr: turns\n    seats: [x]\nbudgt: {}\n",
        );
        let failure = read(&dir.path().join("bad.yaml")).unwrap_err();
        let keys: Vec<_> = failure.0.iter().map(|fault| (fault.line, fault.key.as_str())).collect();
        assert_eq!(
            keys,
            [
                (Some(3), "stages[0].task"),
                (Some(5), "stages[0].seats[0].agnet"),
                (Some(7), "stages[1].ordr"),
                (Some(9), "budgt"),
            ]
        );
    }

    #[test]
    fn a_file_is_a_session_by_its_keys_or_by_what_they_are_like() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file.yaml");
        for (text, expected) in [
            ("seats: [a]", true),
            ("seat: [a]", true),
            ("stage: [{ id: a }]", true),
            ("space: shop\nbudget: {}\nstagse: []", true),
            ("preste: workshop\ncast: {}", true),
            ("agents: []\nseats: [a]", false),
            ("agent: a\nbrain: { echo: {} }", false),
            ("agnet: a\nbrain: { echo: {} }", false),
            ("aget: a\nskills: [a]", false),
            ("mesh: {}", false),
            ("agent: a\n---\nagent: b", false),
            ("colour: red", false),
            ("- a", false),
            ("", false),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(is_session(&path), expected, "{text}");
        }
    }
}
