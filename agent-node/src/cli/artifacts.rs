//! Prints a task's artifacts or writes them to files.

use super::{
    exit::{CliError, Exit},
    output,
};
use crate::terminal::is_misleading;
use base64::Engine as _;
use patterns::session::{names::SESSION, summary::MADE};
use protocol::artifact::{Artifact, Part, PartContent};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs::OpenOptions,
    io::{ErrorKind, Write as _},
    path::{Component, Path, PathBuf},
};

/// The artifacts of an A2A task; invalid ones are left out.
pub(super) fn of_task(task: &Value) -> Vec<Artifact> {
    let all = task["artifacts"].as_array().into_iter().flatten();
    all.filter_map(|artifact| serde_json::from_value(artifact.clone()).ok()).collect()
}

/// The files that a session has made; all artifacts if it has made none.
pub(super) fn result_of(mut artifacts: Vec<Artifact>) -> Vec<Artifact> {
    if artifacts.iter().any(is_made) {
        artifacts.retain(is_made);
    }
    artifacts
}

fn is_made(artifact: &Artifact) -> bool {
    artifact.metadata.get(SESSION).is_some_and(|about| about[MADE] == true)
}

/// Prints the artifacts to standard output; several ones under their names.
pub(super) fn print(artifacts: &[Artifact]) -> Result<(), CliError> {
    for (at, artifact) in artifacts.iter().enumerate() {
        if artifacts.len() > 1 {
            let gap = if at > 0 { "\n" } else { "" };
            let name = artifact.name.as_deref().unwrap_or(&artifact.artifact_id);
            output::line(&format!("{gap}==> {} <==", output::plain(name)))?;
        }
        output::bytes(&artifact.parts.iter().flat_map(content).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// Writes the artifacts below `dir` and prints the paths. A file is replaced only if `replace` is set, and never through a link.
/// What can't be written does not stop the rest; the error lists it.
pub(super) fn write(artifacts: &[Artifact], dir: &Path, replace: bool) -> Result<(), CliError> {
    let mut written = BTreeSet::new();
    let mut not_written = Vec::new();
    // What a session has made has its own names.
    let made = artifacts.iter().filter(|artifact| is_made(artifact));
    for artifact in made.chain(artifacts.iter().filter(|artifact| !is_made(artifact))) {
        let name = artifact.name.as_deref().unwrap_or(&artifact.artifact_id);
        for part in &artifact.parts {
            let relative = unused(safe_path(part.filename.as_deref().unwrap_or(name)), &written);
            match write_file(dir, &relative, &content(part), replace) {
                Ok(path) => output::line(&path.display().to_string())?,
                Err(why) => not_written.push(why),
            }
            written.insert(relative);
        }
    }
    match not_written.is_empty() {
        true => Ok(()),
        false => Err(CliError::new(Exit::Failed, not_written.join("\n"))),
    }
}

/// Writes `content` to `relative` below `dir`, as a new file: another name of a file that is replaced keeps its content.
fn write_file(dir: &Path, relative: &Path, content: &[u8], replace: bool) -> Result<PathBuf, String> {
    let path = dir.join(relative);
    let failed = |path: &Path, error: std::io::Error| {
        let exists = error.kind() == ErrorKind::AlreadyExists;
        let remedy = if exists { "; --force replaces it" } else { "" };
        format!("{} cannot be written: {error}{remedy}", path.display())
    };
    refuse_links(dir, relative)?;
    let parent = path.parent().unwrap_or(dir);
    std::fs::create_dir_all(parent).map_err(|error| match error.kind() == ErrorKind::AlreadyExists {
        true => format!("{} cannot be a directory: it is a file", parent.display()),
        false => failed(parent, error),
    })?;
    if path.is_dir() {
        return Err(format!("{} cannot be written: it is a directory", path.display()));
    }
    let create = |path: &Path| {
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        file.and_then(|mut file| file.write_all(content)).map_err(|error| failed(path, error))
    };
    match replace {
        false => create(&path)?,
        true => {
            let new = path.with_file_name(format!("_new-{}", uuid::Uuid::new_v4().simple()));
            let replaced = create(&new)
                .and_then(|()| std::fs::rename(&new, &path).map_err(|error| failed(&path, error)));
            // The rename has taken it, or it is in the way.
            let _ = std::fs::remove_file(&new);
            replaced?;
        }
    }
    Ok(path)
}

/// Refuses a path below `dir` of which a component is a link: it may lead out of the directory.
fn refuse_links(dir: &Path, relative: &Path) -> Result<(), String> {
    let mut path = dir.to_path_buf();
    for component in relative.components() {
        path.push(component);
        if path.is_symlink() {
            return Err(format!("{} is a link: nothing is written through it", path.display()));
        }
    }
    Ok(())
}

/// `path`, or with a number before its last component if it is already used.
fn unused(path: PathBuf, written: &BTreeSet<PathBuf>) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let numbered = (1..).map(|number| path.with_file_name(format!("{number}-{name}")));
    std::iter::once(path.clone()).chain(numbered).find(|path| !written.contains(path)).unwrap_or_default()
}

/// `name` as a relative path without `..`. No component begins with a dot: programs take such files as their settings. Characters
/// that steer a terminal or are not visible become `_`.
fn safe_path(name: &str) -> PathBuf {
    let sanitize = |text: &str| -> String {
        let text = text.strip_prefix('.').map_or_else(|| text.to_owned(), |rest| format!("_{rest}"));
        text.chars()
            .map(|c| if is_misleading(c) || r#"\:*?"<>|"#.contains(c) { '_' } else { c })
            .take(120)
            .collect()
    };
    let path: PathBuf = Path::new(name)
        .components()
        .filter_map(|part| match part {
            Component::Normal(text) => Some(sanitize(&text.to_string_lossy())),
            Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
        })
        .collect();
    if path.as_os_str().is_empty() { "artifact".into() } else { path }
}

fn content(part: &Part) -> Vec<u8> {
    match &part.content {
        PartContent::Text(text) | PartContent::Url(text) => text.clone().into_bytes(),
        PartContent::Data(data) => serde_json::to_vec_pretty(data).unwrap_or_default(),
        PartContent::Raw(raw) => {
            base64::engine::general_purpose::STANDARD.decode(raw).unwrap_or_else(|_| raw.clone().into_bytes())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_leads_out_of_the_directory() {
        for (name, path) in [
            ("rest.rs", "rest.rs"),
            ("src/rest.rs", "src/rest.rs"),
            ("../../etc/passwd", "etc/passwd"),
            ("/etc/passwd", "etc/passwd"),
            ("..", "artifact"),
            ("a\0b:c", "a_b_c"),
            (".git/config", "_git/config"),
            ("a/.env", "a/_env"),
            ("...", "_.."),
            ("a\u{202e}fdp.exe", "a_fdp.exe"),
            ("a\u{200b}b\nc", "a_b_c"),
        ] {
            assert_eq!(safe_path(name), PathBuf::from(path), "{name}");
        }
        let written = ["x/a.txt", "x/1-a.txt"].map(PathBuf::from).into();
        assert_eq!(unused("x/a.txt".into(), &written), PathBuf::from("x/2-a.txt"));
        assert_eq!(unused("a.txt".into(), &written), PathBuf::from("a.txt"));
    }
    #[test]
    fn the_result_of_a_session_is_what_it_has_made_under_its_own_name() {
        let dir = tempfile::tempdir().unwrap();
        let part = Artifact {
            name: Some("a.txt".into()),
            ..Artifact::text("plan/x.1.a.txt", "text/plain", "draft")
        };
        let mut made = Artifact::text("a.txt", "text/plain", "final");
        made.metadata.insert(SESSION.to_owned(), serde_json::json!({ MADE: true }));
        let all = vec![part.clone(), made.clone()];
        assert_eq!(result_of(all.clone()), [made]);
        assert_eq!(result_of(vec![part.clone()]), [part]);
        write(&all, dir.path(), false).unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("a.txt")).unwrap(), "final");
        assert_eq!(std::fs::read_to_string(dir.path().join("1-a.txt")).unwrap(), "draft");
    }

    fn files(names: &[&str]) -> Vec<Artifact> {
        names.iter().map(|name| Artifact::text(name, "text/plain", "new")).collect()
    }

    #[test]
    fn a_replaced_file_keeps_its_content_under_its_other_names() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("a.txt"), dir.path().join("other"));
        std::fs::write(&other, "old").unwrap();
        std::fs::hard_link(&other, &path).unwrap();
        assert!(write(&files(&["a.txt"]), dir.path(), false).is_err());
        write(&files(&["a.txt"]), dir.path(), true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "old");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn what_is_in_the_way_stops_only_what_it_is_in_the_way_of() {
        for replace in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let refused = write(&files(&["a", "a/b", "c/d", "c", "e"]), dir.path(), replace).unwrap_err();
            let said = refused.message;
            assert_eq!(said.lines().count(), 2, "{said}");
            assert!(said.contains("a cannot be a directory: it is a file"), "{said}");
            assert!(said.contains("c cannot be written: it is a directory"), "{said}");
            for (name, is_file) in [("a", true), ("c/d", true), ("e", true), ("c", false)] {
                assert_eq!(dir.path().join(name).is_file(), is_file, "{name}");
            }
        }
    }
}
