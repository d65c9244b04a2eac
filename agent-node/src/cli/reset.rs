//! `mesh reset`: an empty data directory, after asking.

use super::{
    exit::{Exit, Failure},
    output,
    serve::Place,
};
use blackboard::store::embedded::{self, OpenError};
use clap::Args;
use std::{
    io::{BufRead, IsTerminal},
    path::{Path, PathBuf},
};

#[derive(Debug, Args)]
pub(super) struct Reset {
    #[command(flatten)]
    place: Place,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
}

pub(super) fn reset(reset: &Reset) -> Result<(), Failure> {
    let dir = reset.place.dir().map_err(|error| Failure::new(Exit::Usage, format!("{error:#}")))?;
    if !dir.is_dir() {
        return output::line(&format!("{} does not exist; there is nothing to delete", dir.display()));
    }
    let places = places(&dir)?;
    // Whatever else lies in a directory that was named by mistake must survive.
    let mut ours = Vec::new();
    for place in &places {
        ours.extend(inside(place, is_ours)?);
    }
    if ours.is_empty() {
        return output::line(&format!("{} holds no mesh data; there is nothing to delete", dir.display()));
    }
    for place in places.iter().filter(|place| place.join("lock").exists()) {
        if let Err(OpenError::Held { .. }) = embedded::open(place, embedded::StoreOptions::default()) {
            let message = format!("a running mesh has {}; stop it first", place.display());
            return Err(Failure::new(Exit::Held, message));
        }
    }
    if !reset.yes {
        if !std::io::stdin().is_terminal() {
            return Err(Failure::new(
                Exit::Usage,
                "standard input is no terminal to ask at; --yes deletes without asking",
            ));
        }
        output::note(&format!("Delete all tasks, signals and secrets in {}? [y/N]", dir.display()));
        let mut answer = String::new();
        let _ = std::io::stdin().lock().read_line(&mut answer);
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            return Err(Failure::new(Exit::Canceled, "nothing is deleted"));
        }
    }
    for path in &ours {
        match std::fs::remove_file(path) {
            // What a kill left beside a store goes when the store is looked at.
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Failure::new(Exit::Failed, format!("{} stays: {error}", path.display())));
            }
            Ok(()) | Err(_) => {}
        }
    }
    output::line(&format!("{} is empty", dir.display()))
}

/// The mesh's directory, those of its separate processes, and those of replicas.
fn places(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let parts = inside(dir, |name| ["registry", "blackboard"].contains(&name) || name.starts_with("node-"))?;
    let mut places: Vec<_> =
        std::iter::once(dir.to_owned()).chain(parts.into_iter().filter(|part| part.is_dir())).collect();
    for at in 0..places.len() {
        let replicas = inside(&places[at], is_replica)?;
        places.extend(replicas.into_iter().filter(|place| place.join("lock").is_file()));
    }
    Ok(places)
}

fn inside(dir: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, Failure> {
    let entries = std::fs::read_dir(dir)
        .map_err(|error| Failure::new(Exit::Failed, format!("{} cannot be read: {error}", dir.display())))?;
    let entries = entries.filter_map(Result::ok);
    Ok(entries
        .filter(|entry| wanted(&entry.file_name().to_string_lossy()))
        .map(|entry| entry.path())
        .collect())
}

/// Whether a replica would call its directory so.
fn is_replica(name: &str) -> bool {
    name.rsplit_once('-').is_some_and(|(agent, n)| !agent.is_empty() && n.parse::<u32>().is_ok())
}

fn is_ours(name: &str) -> bool {
    name.starts_with("store.sqlite") || ["join", "lock", "run.json", "run.json.new"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::is_ours;

    #[test]
    fn only_the_meshs_own_files_are_deleted() {
        assert!(["join", "store.sqlite", "store.sqlite-wal", "lock"].into_iter().all(is_ours));
        assert!(!["thesis.txt", "mesh", ".ssh"].into_iter().any(is_ours));
    }
}
