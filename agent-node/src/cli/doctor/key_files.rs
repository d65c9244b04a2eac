//! Compares the key files in a data directory with what the registry has pinned.

use super::DoctorFinding;
use crate::cli::{exit::CliError, keys::PinnedKeyList, reset::data_dirs};
use protocol::{
    a2a::card_signature::SigningKey,
    identity::{IdentityKey, KeyHistory, PublicIdentity},
    ids::AgentId,
};
use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

/// What the registry and the key files say about each other.
struct Comparison<'a> {
    list: &'a PinnedKeyList,
    /// The agents whose processes run. Each has the key that is pinned.
    live: &'a [AgentId],
    /// The boards' keys in these files.
    boards: Vec<(PublicIdentity, KeyHistory)>,
    files: &'a [PathBuf],
}

/// What the key files of all processes of `dir` say; `live` are the agents that run. None if there is no such directory.
pub(super) fn check(
    dir: &Path,
    list: &PinnedKeyList,
    live: &[AgentId],
) -> Result<Vec<DoctorFinding>, CliError> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let mut files: Vec<PathBuf> = Vec::new();
    for dir in data_dirs(dir)? {
        let entries = fs::read_dir(dir.join("keys")).into_iter().flatten();
        files.extend(entries.filter_map(Result::ok).map(|entry| entry.path()));
    }
    files.sort();
    let boards = files.iter().filter_map(|file| board_key(file)).collect();
    let comparison = Comparison { list, live, boards, files: &files };
    Ok(files.iter().filter_map(|file| of_file(file, &comparison)).collect())
}

/// The key in `file`, if it is that of a board, and those that it has replaced.
fn board_key(file: &Path) -> Option<(PublicIdentity, KeyHistory)> {
    let id = file.file_name()?.to_str()?.strip_suffix(".ed25519").filter(|id| *id == "board")?;
    let own = identity(file, &AgentId::parse(id).ok()?).ok()?;
    let history = fs::read(file.with_extension("history")).ok();
    let history = history.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    Some((own.public().as_ref().clone(), history))
}

/// Whether the key of `service` that is pinned in `file` is one of its keys, or leads to one.
fn of_pin(file: &Path, service: &str, own: &[(PublicIdentity, KeyHistory)]) -> DoctorFinding {
    let pinned = fs::read(file).ok().and_then(|text| serde_json::from_slice::<PublicIdentity>(&text).ok());
    let is_same = pinned.is_some_and(|pinned| own.iter().any(|(own, history)| history.leads(&pinned, own)));
    let at = file.display();
    match is_same {
        true => DoctorFinding::right(service, format!("{at} is its key, or one that it has replaced")),
        false => DoctorFinding::wrong(
            service,
            format!(
                "{at} is another key than the {service} has: if it has lost its data, `mesh keys reset {service} --data {}` removes it",
                file.parent().and_then(Path::parent).unwrap_or(file).display()
            ),
        ),
    }
}

/// What the file says; `None` if it is none that the registry knows something of.
fn of_file(file: &Path, comparison: &Comparison<'_>) -> Option<DoctorFinding> {
    let Comparison { list, live, boards, files } = comparison;
    let name = file.file_name()?.to_str()?;
    let at = file.display();
    if let Some(id) = name.strip_suffix(".ed25519.next") {
        let what = format!(
            "{at}: a rotation was not finished; `mesh keys rotate {id}` finishes it, or a restart of its process"
        );
        return Some(DoctorFinding::wrong(id, what));
    }
    if name == "registry.pinned" {
        let own = list.registry.iter().map(|own| (own.clone(), list.history.clone())).collect::<Vec<_>>();
        return Some(of_pin(file, "registry", &own));
    }
    if name == "board.pinned" {
        // A board of another machine tells its key to nobody but the processes of the mesh.
        return (!boards.is_empty()).then(|| of_pin(file, "board", boards));
    }
    if let Some(id) = name.strip_suffix(".seal").and_then(|id| AgentId::parse(id).ok()) {
        let key = file.with_file_name(format!("{id}.ed25519"));
        let pin = list.keys.iter().find(|pin| pin.id == id && pin.identity.is_some());
        let is_lost = !key.exists() && pin.is_some();
        let key = key.display();
        let what = match live.contains(&id) {
            true => format!(
                "{key} is missing, and {id} runs with its pinned key: put the file back before it restarts from here"
            ),
            false => format!(
                "{key} is missing, and the registry has its key pinned: put the file back, or `mesh keys reset {id}`"
            ),
        };
        return is_lost.then(|| DoctorFinding::wrong(id.as_str(), what));
    }
    let id = AgentId::parse(name.strip_suffix(".ed25519")?).ok()?;
    let identity = match identity(file, &id) {
        Ok(identity) => identity,
        Err(error) => return Some(DoctorFinding::wrong(id.as_str(), format!("{at} can't be used: {error}"))),
    };
    let own = identity.public();
    let pinned = match id.as_str() {
        "registry" => list.registry.as_ref(),
        "board" => return None,
        _ => list.keys.iter().find(|pin| pin.id == id).and_then(|pin| pin.identity.as_ref()),
    };
    Some(match pinned {
        Some(pinned) if pinned.is_same(own) => {
            DoctorFinding::right(id.as_str(), format!("{at} is its pinned key"))
        }
        Some(pinned) => {
            let has_it = |other: &&PathBuf| {
                other.file_name() == file.file_name()
                    && self::identity(other, &id).is_ok_and(|other| pinned.is_same(other.public()))
            };
            let other = files.iter().find(has_it).map(|other| other.display().to_string());
            let other = other.or_else(|| {
                let runs = id.as_str() == "registry" || live.contains(&id);
                runs.then(|| "that of the process that runs".to_owned())
            });
            let held = format!("{at} holds {}, the registry has {}", own.fingerprint(), pinned.fingerprint());
            match other {
                Some(other) => DoctorFinding::right(
                    id.as_str(),
                    format!(
                        "{held}, {other}: a process that has stopped left this file; one that starts from here as {id} is refused"
                    ),
                ),
                None => DoctorFinding::wrong(
                    id.as_str(),
                    format!("{held}: put back the right file, or `mesh keys reset {id}` if it is lost"),
                ),
            }
        }
        None => {
            DoctorFinding::right(id.as_str(), format!("{at} is not pinned: it will be when {id} registers"))
        }
    })
}

fn identity(file: &Path, id: &AgentId) -> io::Result<IdentityKey> {
    let mode = fs::metadata(file)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(io::Error::other(format!("others may read it (mode {mode:o}): chmod 600")));
    }
    let seed: [u8; 32] =
        fs::read(file)?.try_into().map_err(|_| io::Error::other("it does not have 32 bytes"))?;
    Ok(IdentityKey::new(id.clone(), Arc::new(SigningKey::from_seed(&seed))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use registry::pinned_keys::PinnedKey;

    #[test]
    fn a_file_that_does_not_match_is_named_with_its_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let keys = dir.path().join("keys");
        fs::create_dir(&keys).unwrap();
        let write = |name: &str, byte: u8| {
            let file = keys.join(name);
            fs::write(&file, [byte; 32]).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            file
        };
        let pin = |id: &str, byte: u8| {
            let id = AgentId::parse(id).unwrap();
            let key = IdentityKey::new(id.clone(), Arc::new(SigningKey::from_seed(&[byte; 32])));
            PinnedKey { id, identity: Some(key.public().as_ref().clone()), number: 1, former: Vec::new() }
        };
        let registry = pin("registry", 9).identity;
        let list =
            PinnedKeyList { registry, history: Default::default(), keys: vec![pin("a", 1), pin("b", 2)] };
        let comparison = Comparison { list: &list, live: &[], boards: Vec::new(), files: &[] };
        let of = |file: &Path| of_file(file, &comparison).unwrap();
        assert!(!of(&write("a.ed25519", 1)).is_wrong());
        let other = of(&write("b.ed25519", 3));
        assert!(other.is_wrong() && other.what.contains("mesh keys reset b"), "{other:?}");
        assert!(!of(&write("c.ed25519", 1)).is_wrong(), "not pinned yet");
        let unfinished = of(&write("a.ed25519.next", 1));
        assert!(unfinished.is_wrong() && unfinished.what.contains("mesh keys rotate a"), "{unfinished:?}");
        assert!(!of(&write("registry.ed25519", 9)).is_wrong());
        let running = of(&write("registry.ed25519", 8));
        assert!(!running.is_wrong() && running.what.contains("that of the process that runs"), "{running:?}");
        let open = write("a.ed25519", 1);
        fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(of(&open).what.contains("chmod 600"));
        assert!(of_file(&write("a.seal", 1), &comparison).is_none());
        let pinned = keys.join("registry.pinned");
        fs::write(&pinned, serde_json::to_vec(&list.registry).unwrap()).unwrap();
        assert!(!of(&pinned).is_wrong());
        fs::write(&pinned, "{}").unwrap();
        assert!(of(&pinned).what.contains("mesh keys reset registry"));
        assert_eq!(check(dir.path(), &list, &[]).unwrap().len(), 6);
        let pinned = keys.join("board.pinned");
        fs::write(&pinned, serde_json::to_vec(&pin("board", 5).identity).unwrap()).unwrap();
        assert_eq!(check(dir.path(), &list, &[]).unwrap().len(), 6, "the board is elsewhere");
        let of_board = || {
            let mut found = check(dir.path(), &list, &[]).unwrap();
            found.retain(|finding| finding.subject == "board");
            let [finding] = found.as_slice() else { panic!("{found:?}") };
            finding.clone()
        };
        write("board.ed25519", 5);
        assert!(!of_board().is_wrong());
        write("board.ed25519", 6);
        assert!(
            of_board().is_wrong() && of_board().what.contains("mesh keys reset board"),
            "{:?}",
            of_board()
        );
    }
    #[test]
    fn the_key_of_a_running_agent_is_not_given_up_for_a_file_of_a_stopped_process() {
        let dir = tempfile::tempdir().unwrap();
        let write = |process: &str, name: &str, byte: u8| {
            let keys = dir.path().join(process).join("keys");
            fs::create_dir_all(&keys).unwrap();
            let file = keys.join(name);
            fs::write(&file, [byte; 32]).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        };
        let id = |text: &str| AgentId::parse(text).unwrap();
        let pin = |name: &str, byte: u8| {
            let key = IdentityKey::new(id(name), Arc::new(SigningKey::from_seed(&[byte; 32])));
            let identity = Some(key.public().as_ref().clone());
            PinnedKey { id: id(name), identity, number: 1, former: Vec::new() }
        };
        let keys = vec![pin("a", 1), pin("b", 2), pin("c", 3)];
        let list = PinnedKeyList { registry: None, history: Default::default(), keys };
        write("", "a.ed25519", 9);
        write("node-team", "a.ed25519", 1);
        write("", "b.ed25519", 9);
        write("", "c.seal", 9);
        let found = check(dir.path(), &list, &[id("b"), id("c")]).unwrap();
        assert!(found.iter().all(|finding| !finding.what.contains("keys reset")), "{found:#?}");
        let of = |subject: &str, part: &str| {
            found.iter().find(|finding| finding.subject == subject && finding.what.contains(part)).unwrap()
        };
        assert!(!of("a", "node-team/keys/a.ed25519: a process that has stopped left this file").is_wrong());
        assert!(!of("b", "that of the process that runs").is_wrong());
        assert!(of("c", "put the file back before it restarts").is_wrong());
        let stopped = check(dir.path(), &list, &[]).unwrap();
        let lost = stopped.iter().filter(|finding| finding.what.contains("keys reset")).count();
        assert_eq!(lost, 2, "{stopped:#?}");
    }
}
