//! A session's file: YAML or JSON with `seats` or `stages`. A `task` that names a text file beside it is replaced by its text.

use super::super::exit::{CliError, Exit};
use crate::text_file;
use protocol::patterns::session::graph::Graph;
use serde_json::Value;
use std::path::Path;

/// Whether `name` is the name of a file, not of an agent.
pub(super) fn is_name(name: &str) -> bool {
    [".yaml", ".yml", ".json"].iter().any(|ending| name.ends_with(ending))
}

/// The graph in a file, checked.
pub(super) fn read(path: &Path) -> Result<Value, CliError> {
    let fail = |why: String| CliError::new(Exit::Config, format!("{}: {why}", path.display()));
    let text = text_file::read(path).map_err(|error| fail(error.to_string()))?;
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    let mut graph: Value =
        serde_saphyr::from_str_with_options(&text, options).map_err(|error| fail(error.to_string()))?;
    let base = path.parent().unwrap_or(Path::new(""));
    if !graph.is_object() {
        return Err(fail("a session has `seats` or `stages`".to_owned()));
    }
    for stage in list(&mut graph, "stages") {
        read_task(stage, base).map_err(fail)?;
        for seat in list(stage, "seats") {
            read_task(seat, base).map_err(fail)?;
        }
    }
    Graph::read(Some(&graph)).map_err(fail)?;
    Ok(graph)
}

fn list<'a>(of: &'a mut Value, name: &str) -> &'a mut [Value] {
    of.get_mut(name).and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default()
}

/// Replaces the name of a text file by its text.
fn read_task(of: &mut Value, base: &Path) -> Result<(), String> {
    let Some(task) = of.get_mut("task") else { return Ok(()) };
    let is_file = |name: &&str| {
        !name.contains(char::is_whitespace) && [".md", ".txt"].iter().any(|end| name.ends_with(end))
    };
    if let Some(name) = task.as_str().filter(is_file) {
        let text = text_file::read(&base.join(name)).map_err(|error| format!("task: {name}: {error}"))?;
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
            "stages:\n  - { id: a, task: frame.md, seats: [{ agent: x, task: Be terse. }] }\n",
        );
        let graph = read(&dir.path().join("good.yaml")).unwrap();
        assert_eq!(graph["stages"][0]["task"], json!("Frame it."));
        assert_eq!(graph["stages"][0]["seats"][0]["task"], json!("Be terse."));
        for (text, part) in [
            ("seats: [a", "bad.yaml: "),
            ("seets: [a]", "unknown field `seets`"),
            ("stages: [{ id: a, task: none.md, seats: [x] }]", "task: none.md: "),
            ("- a", "a session has"),
            ("stages: [a]", "invalid type"),
        ] {
            write("bad.yaml", text);
            let failure = read(&dir.path().join("bad.yaml")).unwrap_err();
            assert!(failure.message.contains(part), "{text}: {failure:?}");
        }
    }
}
