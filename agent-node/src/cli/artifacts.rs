//! Prints a task's artifacts or writes them to files.

use super::{
    exit::{CliError, Exit},
    output,
};
use base64::Engine as _;
use protocol::artifact::{Artifact, Part, PartContent};
use serde_json::Value;
use std::path::{Component, Path, PathBuf};

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

/// Writes the artifacts below `dir` and prints the paths.
pub(super) fn write(artifacts: &[Artifact], dir: &Path) -> Result<(), CliError> {
    let write_error = |path: &Path, error: std::io::Error| {
        CliError::new(Exit::Failed, format!("{} cannot be written: {error}", path.display()))
    };
    for artifact in artifacts {
        let name = artifact.name.as_deref().unwrap_or(&artifact.artifact_id);
        for (at, part) in artifact.parts.iter().enumerate() {
            let file_name = part.filename.as_deref().unwrap_or(name);
            let path =
                dir.join(safe_path(file_name, at, part.filename.is_none() && artifact.parts.len() > 1));
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(|error| write_error(parent, error))?;
            }
            std::fs::write(&path, content(part)).map_err(|error| write_error(&path, error))?;
            output::line(&path.display().to_string())?;
        }
    }
    Ok(())
}

/// `name` as a relative path without `..`; the index `at` distinguishes parts of one name.
fn safe_path(name: &str, at: usize, is_one_of_many: bool) -> PathBuf {
    let sanitize = |text: &str| -> String {
        text.chars()
            .map(|c| if c.is_control() || r#"\:*?"<>|"#.contains(c) { '_' } else { c })
            .take(120)
            .collect()
    };
    let mut path: PathBuf = Path::new(name)
        .components()
        .filter_map(|part| match part {
            Component::Normal(text) => Some(sanitize(&text.to_string_lossy())),
            Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
        })
        .collect();
    if path.as_os_str().is_empty() {
        path.push("artifact");
    }
    if is_one_of_many && at > 0 {
        let stem = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        path.set_file_name(format!("{at}-{stem}"));
    }
    path
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
        ] {
            assert_eq!(safe_path(name, 0, false), PathBuf::from(path), "{name}");
        }
        assert_eq!(safe_path("x/a.txt", 1, true), PathBuf::from("x/1-a.txt"));
    }
}
