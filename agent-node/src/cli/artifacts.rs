//! Prints a task's artifacts or writes them to files.

use super::{
    exit::{CliError, Exit},
    output,
};
use base64::Engine as _;
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
pub(super) fn write(artifacts: &[Artifact], dir: &Path, replace: bool) -> Result<(), CliError> {
    let write_error = |path: &Path, error: std::io::Error| {
        let exists = error.kind() == ErrorKind::AlreadyExists;
        let remedy = if exists { "; --force replaces it" } else { "" };
        CliError::new(Exit::Failed, format!("{} cannot be written: {error}{remedy}", path.display()))
    };
    let mut written = BTreeSet::new();
    for artifact in artifacts {
        let name = artifact.name.as_deref().unwrap_or(&artifact.artifact_id);
        for part in &artifact.parts {
            let relative = unused(safe_path(part.filename.as_deref().unwrap_or(name)), &written);
            let path = dir.join(&relative);
            refuse_links(dir, &relative)?;
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(|error| write_error(parent, error))?;
            }
            let mut options = OpenOptions::new();
            match replace {
                true => options.write(true).create(true).truncate(true),
                false => options.write(true).create_new(true),
            };
            let file = options.open(&path);
            file.and_then(|mut file| file.write_all(&content(part)))
                .map_err(|error| write_error(&path, error))?;
            output::line(&path.display().to_string())?;
            written.insert(relative);
        }
    }
    Ok(())
}

/// Refuses a path below `dir` of which a component is a link: it may lead out of the directory.
fn refuse_links(dir: &Path, relative: &Path) -> Result<(), CliError> {
    let mut path = dir.to_path_buf();
    for component in relative.components() {
        path.push(component);
        if path.is_symlink() {
            let message = format!("{} is a link: nothing is written through it", path.display());
            return Err(CliError::new(Exit::Failed, message));
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

/// `name` as a relative path without `..`. No component begins with a dot: programs take such files as their settings.
fn safe_path(name: &str) -> PathBuf {
    let sanitize = |text: &str| -> String {
        let text = text.strip_prefix('.').map_or_else(|| text.to_owned(), |rest| format!("_{rest}"));
        text.chars()
            .map(|c| if c.is_control() || r#"\:*?"<>|"#.contains(c) { '_' } else { c })
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
        ] {
            assert_eq!(safe_path(name), PathBuf::from(path), "{name}");
        }
        let written = ["x/a.txt", "x/1-a.txt"].map(PathBuf::from).into();
        assert_eq!(unused("x/a.txt".into(), &written), PathBuf::from("x/2-a.txt"));
        assert_eq!(unused("a.txt".into(), &written), PathBuf::from("a.txt"));
    }
}
