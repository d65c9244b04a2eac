//! `mesh reset`: deletes stores and the join secret after a confirmation; the keys of agents and other files stay.

use super::{
    data_dir_args::DataDirArgs,
    exit::{CliError, Exit},
    output,
};
use crate::data_dir::SPACES;
use clap::Args;
use std::{
    io::{BufRead, IsTerminal},
    path::{Path, PathBuf},
};
use store::embedded::{self, OpenError};

#[derive(Debug, Args)]
pub(super) struct ResetArgs {
    #[command(flatten)]
    place: DataDirArgs,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
}

pub(super) fn reset(reset: &ResetArgs) -> Result<(), CliError> {
    let dir = reset.place.dir().map_err(|error| CliError::new(Exit::Usage, format!("{error:#}")))?;
    if !dir.is_dir() {
        return output::line(&format!("{} does not exist; there is nothing to delete", dir.display()));
    }
    let dirs = data_dirs(&dir)?;
    // Other files in a directory that was named by mistake are kept.
    let mut ours = Vec::new();
    for dir in &dirs {
        ours.extend(entries(dir, is_ours)?);
    }
    if ours.is_empty() {
        return output::line(&format!("{} holds no mesh data; there is nothing to delete", dir.display()));
    }
    for dir in dirs.iter().filter(|dir| dir.join("lock").exists()) {
        if let Err(OpenError::Held { .. }) = embedded::open(dir, embedded::StoreOptions::default()) {
            let message = format!("a running mesh has {}; stop it first", dir.display());
            return Err(CliError::new(Exit::Held, message));
        }
    }
    if !reset.yes {
        if !std::io::stdin().is_terminal() {
            return Err(CliError::new(
                Exit::Usage,
                "standard input is no terminal to ask at; --yes deletes without asking",
            ));
        }
        output::note(&format!("Delete all tasks, signals and secrets in {}? [y/N]", dir.display()));
        let mut answer = String::new();
        let _ = std::io::stdin().lock().read_line(&mut answer);
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            return Err(CliError::new(Exit::Canceled, "nothing is deleted"));
        }
    }
    for path in &ours {
        let is_folder = path.is_dir() && !path.is_symlink();
        match if is_folder { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) } {
            // Opening the store above removes temporary files of a killed process.
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(CliError::new(Exit::Failed, format!("{} stays: {error}", path.display())));
            }
            Ok(()) | Err(_) => {}
        }
    }
    let left = remaining(&dir, &dirs)?;
    match left.as_slice() {
        [] => output::line(&format!("{} is empty", dir.display())),
        left => {
            output::line(&format!("{} still has {}; the rest is deleted", dir.display(), left.join(", ")))
        }
    }
}

/// What is left in `dirs`, relative to `dir`. A directory is named by its path, an empty one is not named.
fn remaining(dir: &Path, dirs: &[PathBuf]) -> Result<Vec<String>, CliError> {
    let mut names = Vec::new();
    for path in dirs {
        for entry in entries(path, |_| true)?.into_iter().filter(|entry| !dirs.contains(entry)) {
            let name = entry.strip_prefix(dir).unwrap_or(&entry).display().to_string();
            match entry.is_dir() && !entry.is_symlink() {
                true if entries(&entry, |_| true)?.is_empty() => {}
                true => names.push(format!("{name}/")),
                false => names.push(name),
            }
        }
    }
    names.sort();
    Ok(names)
}

/// The mesh's directory, those of its separate processes, and those of replicas and spaces in them.
pub(super) fn data_dirs(dir: &Path) -> Result<Vec<PathBuf>, CliError> {
    let processes =
        entries(dir, |name| ["registry", "blackboard"].contains(&name) || name.starts_with("node-"))?;
    let mut dirs: Vec<_> =
        std::iter::once(dir.to_owned()).chain(processes.into_iter().filter(|path| path.is_dir())).collect();
    for at in 0..dirs.len() {
        let inner = entries(&dirs[at], |name| name == SPACES || is_replica(name))?;
        dirs.extend(inner.into_iter().filter(|dir| dir.join("lock").is_file()));
    }
    Ok(dirs)
}

fn entries(dir: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, CliError> {
    let entries = std::fs::read_dir(dir)
        .map_err(|error| CliError::new(Exit::Failed, format!("{} cannot be read: {error}", dir.display())))?;
    let entries = entries.filter_map(Result::ok);
    Ok(entries
        .filter(|entry| wanted(&entry.file_name().to_string_lossy()))
        .map(|entry| entry.path())
        .collect())
}

/// Whether `name` has the form of a replica's directory.
fn is_replica(name: &str) -> bool {
    name.rsplit_once('-').is_some_and(|(agent, n)| !agent.is_empty() && n.parse::<u32>().is_ok())
}

fn is_ours(name: &str) -> bool {
    let named = ["join", "token", "lock", "run.json", "run.json.new", "blobs", "requests"];
    name.starts_with("store.sqlite") || named.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::{is_ours, remaining};

    #[test]
    fn only_the_meshs_own_files_are_deleted() {
        assert!(
            ["join", "token", "store.sqlite", "store.sqlite-wal", "lock", "blobs"].into_iter().all(is_ours)
        );
        assert!(!["thesis.txt", "mesh", ".ssh"].into_iter().any(is_ours));
    }

    #[test]
    fn what_is_left_is_named_without_empty_directories() {
        let dir = tempfile::tempdir().unwrap();
        let node = dir.path().join("node-team");
        for made in [dir.path().join("cards"), node.join("keys")] {
            std::fs::create_dir_all(made).unwrap();
        }
        std::fs::write(dir.path().join("notes.txt"), "").unwrap();
        std::fs::write(node.join("keys/a.ed25519"), "").unwrap();
        let left = remaining(dir.path(), &[dir.path().to_owned(), node]).unwrap();
        assert_eq!(left, ["node-team/keys/", "notes.txt"]);
    }
}
