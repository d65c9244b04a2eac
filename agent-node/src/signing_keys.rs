//! The signing key of each agent and service: created with mode 0600 at its first start and kept (DESIGN §8). Its X25519 key is
//! derived from it. A service also keeps the history of its keys.

use crate::{outbox::webhooks::Seal, start_error::StartError};
use anyhow::Context as _;
use protocol::{
    a2a::card_signature::SigningKey,
    identity::{IdentityKey, KeyHistory},
    ids::{AgentId, Digest},
};
use ring::rand::{SecureRandom, SystemRandom};
use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The keys of a process.
#[derive(Debug, Clone, Default)]
pub struct SigningKeys {
    /// Their directory; `None` makes keys that last as long as the process.
    pub dir: Option<PathBuf>,
    /// The directories of agents whose keys another process of the mesh has made.
    elsewhere: BTreeMap<AgentId, PathBuf>,
}

impl SigningKeys {
    /// The keys in `dir`.
    pub fn at(dir: Option<PathBuf>) -> Self {
        Self { dir, elsewhere: BTreeMap::new() }
    }

    /// The keys in `dir`. An agent that has begun in another process of the same mesh, whose data lies in `mesh`, keeps the key that
    /// it has there: the newest, if there are several.
    pub fn of_mesh<'a>(dir: PathBuf, mesh: &Path, agents: impl Iterator<Item = &'a AgentId>) -> Self {
        let entries = fs::read_dir(mesh).into_iter().flatten().flatten();
        let others = entries.map(|entry| entry.path().join("keys")).chain([mesh.join("keys")]);
        let others: Vec<_> = others.filter(|other| *other != dir && other.is_dir()).collect();
        let made_at = |file: PathBuf| fs::metadata(file).and_then(|file| file.modified()).ok();
        let elsewhere =
            agents.filter(|agent| !dir.join(format!("{agent}.ed25519")).exists()).filter_map(|agent| {
                let made = others.iter().filter_map(|other| {
                    Some((made_at(other.join(format!("{agent}.ed25519")))?, other.clone()))
                });
                let (_, newest) = made.max()?;
                tracing::info!(%agent, keys = %newest.display(), "it keeps the key that it has there");
                Some((agent.clone(), newest))
            });
        Self { elsewhere: elsewhere.collect(), dir: Some(dir) }
    }

    /// The directory of the key of an agent or a service.
    fn dir_of(&self, id: &AgentId) -> Option<&Path> {
        self.elsewhere.get(id).or(self.dir.as_ref()).map(PathBuf::as_path)
    }

    /// The identity of an agent or a service; created if it is missing.
    pub fn identity(&self, id: &AgentId) -> anyhow::Result<IdentityKey> {
        Ok(IdentityKey::new(id.clone(), self.of(id)?))
    }

    /// The identity of a service, created if it is missing, and the history of its keys. Finishes a rotation whose history is
    /// durable.
    pub fn service(&self, id: &AgentId) -> anyhow::Result<(IdentityKey, KeyHistory)> {
        let history = self.history(id)?;
        let ends_with = |key: &IdentityKey| history.last().is_some_and(|last| last.is_same(key.public()));
        if self.has_next(id) {
            let next = self.next(id)?;
            if ends_with(&next) {
                self.promote_next(id).with_context(|| format!("the key of {id}"))?;
                tracing::info!(service = %id, "the rotation of its key is finished");
                return Ok((next, history));
            }
        }
        let key = self.identity(id)?;
        // Without the key that it ends with, it leads nowhere.
        let history = if ends_with(&key) { history } else { KeyHistory::default() };
        Ok((key, history))
    }

    fn history_file(&self, service: &AgentId) -> Option<PathBuf> {
        Some(self.dir_of(service)?.join(format!("{service}.history")))
    }

    fn history(&self, service: &AgentId) -> anyhow::Result<KeyHistory> {
        let Some(file) = self.history_file(service).filter(|file| file.exists()) else {
            return Ok(KeyHistory::default());
        };
        let read = || {
            serde_json::from_slice(&fs::read(&file)?).context(
                "it is damaged; put it back, or take it away and reset the pinned key of each process that has not followed",
            )
        };
        Ok(read().map_err(bad_key(service, file.clone()))?)
    }

    /// Makes the history of a service's keys durable.
    pub fn write_history(&self, service: &AgentId, history: &KeyHistory) -> anyhow::Result<()> {
        let Some(file) = self.history_file(service) else { return Ok(()) };
        write_durably(&file, &serde_json::to_vec(history)?)
    }

    /// The seal of the webhooks of `agent`, whose key is `key`. It stays when the key is replaced or lost.
    pub fn seal(&self, agent: &AgentId, key: &SigningKey) -> anyhow::Result<Seal> {
        let secret = Seal::secret_of(key);
        let Some(dir) = self.dir_of(agent) else { return Ok(Seal::new(secret)) };
        let file = dir.join(format!("{agent}.seal"));
        Ok(Seal::new(read_or_create(&file, || Ok(secret)).map_err(bad_key(agent, file))?))
    }

    fn peer_token_file(&self, agent: &AgentId) -> Option<PathBuf> {
        Some(self.dir_of(agent)?.join(format!("{agent}.peer")))
    }

    /// The digest of the token of the process of `agent`, if it has one.
    pub fn peer_token(&self, agent: &AgentId) -> anyhow::Result<Option<Digest>> {
        let Some(file) = self.peer_token_file(agent).filter(|file| file.exists()) else { return Ok(None) };
        let read = || Ok(Digest::parse(fs::read_to_string(&file)?.trim())?);
        Ok(Some(read().map_err(bad_key(agent, file.clone()))?))
    }

    /// Makes the digest of the token of the process of `agent` durable; it replaces an earlier one.
    pub fn write_peer_token(&self, agent: &AgentId, digest: &Digest) -> anyhow::Result<()> {
        let Some(file) = self.peer_token_file(agent) else { return Ok(()) };
        write_durably(&file, format!("{digest}\n").as_bytes())
    }

    fn next_file(&self, agent: &AgentId) -> Option<PathBuf> {
        Some(self.dir_of(agent)?.join(format!("{agent}.ed25519.next")))
    }

    /// The key that is to replace that of `agent`; created if there is none.
    pub fn next(&self, agent: &AgentId) -> anyhow::Result<IdentityKey> {
        let seed = match self.next_file(agent) {
            None => random_seed()?,
            Some(file) => read_or_create(&file, random_seed).map_err(bad_key(agent, file))?,
        };
        Ok(IdentityKey::new(agent.clone(), Arc::new(SigningKey::from_seed(&seed))))
    }

    /// Whether a key is to replace that of `agent`.
    pub fn has_next(&self, agent: &AgentId) -> bool {
        self.next_file(agent).is_some_and(|file| file.exists())
    }

    /// Keeps the key of `agent`, which the registry refuses, under the name of its fingerprint: the refusal is not signed.
    pub fn keep_refused(&self, agent: &AgentId, fingerprint: &str) -> std::io::Result<()> {
        let Some(dir) = self.dir_of(agent) else { return Ok(()) };
        let (file, kept) =
            (dir.join(format!("{agent}.ed25519")), dir.join(format!("{agent}.ed25519.{fingerprint}")));
        match fs::hard_link(file, kept) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// Makes the next key of `agent` its key.
    pub fn promote_next(&self, agent: &AgentId) -> std::io::Result<()> {
        let (Some(dir), Some(next)) = (self.dir_of(agent), self.next_file(agent)) else { return Ok(()) };
        fs::rename(next, dir.join(format!("{agent}.ed25519")))?;
        fs::File::open(dir)?.sync_all()
    }

    /// The key of `agent`; created if it is missing. Fails if the file is invalid or readable by others.
    pub fn of(&self, agent: &AgentId) -> anyhow::Result<Arc<SigningKey>> {
        let seed = match self.dir_of(agent) {
            None => random_seed()?,
            Some(dir) => {
                crate::data_dir::create(dir)?;
                let file = dir.join(format!("{agent}.ed25519"));
                read_or_create(&file, random_seed).map_err(bad_key(agent, file))?
            }
        };
        Ok(Arc::new(SigningKey::from_seed(&seed)))
    }
}

fn bad_key(agent: &AgentId, file: PathBuf) -> impl FnOnce(anyhow::Error) -> StartError {
    move |error| StartError::BadAgentKey { agent: agent.clone(), file, why: format!("{error:#}") }
}

fn random_seed() -> anyhow::Result<[u8; 32]> {
    let mut seed = [0; 32];
    SystemRandom::new().fill(&mut seed).map_err(|_| anyhow::anyhow!("the system gives no random numbers"))?;
    Ok(seed)
}

/// The 32 bytes in `file`; those of `create` if it is missing.
fn read_or_create(
    file: &Path,
    create: impl FnOnce() -> anyhow::Result<[u8; 32]>,
) -> anyhow::Result<[u8; 32]> {
    if !file.exists() {
        create_durably(file, &create()?)?;
    }
    let mode = fs::metadata(file)?.permissions().mode() & 0o777;
    anyhow::ensure!(mode & 0o077 == 0, "others may read it (mode {mode:o}); it must be 600, or made anew");
    let seed = fs::read(file)?;
    seed.try_into().map_err(|seed: Vec<u8>| {
        anyhow::anyhow!(
            "it has {} bytes instead of 32; put it back, or take it away to have another made",
            seed.len()
        )
    })
}

/// Replaces the content of `file`, which only its owner may read.
fn write_durably(file: &Path, content: &[u8]) -> anyhow::Result<()> {
    let draft = write_draft(file, content)?;
    fs::rename(&draft, file)?;
    sync_parent(file)
}

/// Makes `file` with `content`, which only its owner may read. A file that somebody makes at the same time stays.
fn create_durably(file: &Path, content: &[u8]) -> anyhow::Result<()> {
    let draft = write_draft(file, content)?;
    let linked = fs::hard_link(&draft, file);
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error.into()),
        _ => sync_parent(file),
    }
}

/// A durable file beside `file` with `content`, whose name nobody else uses.
fn write_draft(file: &Path, content: &[u8]) -> anyhow::Result<PathBuf> {
    let draft = file.with_extension(format!("{}.new", uuid::Uuid::new_v4().simple()));
    let mut draft_file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    draft_file.write_all(content)?;
    draft_file.sync_all()?;
    Ok(draft)
}

fn sync_parent(file: &Path) -> anyhow::Result<()> {
    if let Some(dir) = file.parent() {
        fs::File::open(dir)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::identity::KeyChange;

    #[test]
    fn threads_that_start_at_once_read_one_key() {
        let dir = tempfile::tempdir().unwrap();
        let keys = SigningKeys::at(Some(dir.path().to_owned()));
        let id = AgentId::parse("planner-01").unwrap();
        let read = || keys.identity(&id).unwrap().public().fingerprint();
        let all: std::collections::BTreeSet<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..16).map(|_| scope.spawn(read)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(all.len(), 1, "{all:?}");
        let drafts = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(drafts, 1, "no draft stays");
    }

    #[test]
    fn an_agent_keeps_the_key_that_another_process_of_its_mesh_has_made() {
        let mesh = tempfile::tempdir().unwrap();
        let ids = ["words", "other"].map(|id| AgentId::parse(id).unwrap());
        let of = |process: &str| {
            SigningKeys::of_mesh(mesh.path().join(process).join("keys"), mesh.path(), ids.iter())
        };
        let key = |keys: &SigningKeys, id: &AgentId| keys.identity(id).unwrap().public().fingerprint();
        let node = key(&of("node-words"), &ids[0]);
        assert_eq!(key(&of(""), &ids[0]), node, "begun with `mesh node`, continued with `mesh up`");
        let up = key(&of(""), &ids[1]);
        assert_eq!(key(&of("node-other"), &ids[1]), up, "the other way round");
        assert!(!mesh.path().join("node-other/keys/other.ed25519").exists());
        // Its own file counts, as before.
        let own = SigningKeys::at(Some(mesh.path().join("node-old/keys")));
        let old = key(&own, &ids[0]);
        assert!(old != node && key(&of("node-old"), &ids[0]) == old);
    }

    #[test]
    fn the_next_key_replaces_the_first_and_the_seal_stays() {
        let dir = tempfile::tempdir().unwrap();
        let keys = SigningKeys::at(Some(dir.path().join("keys")));
        let id = AgentId::parse("builder-01").unwrap();
        let first = keys.of(&id).unwrap();
        keys.seal(&id, &first).unwrap();
        let sealed = fs::read(dir.path().join("keys/builder-01.seal")).unwrap();
        assert!(!keys.has_next(&id));
        let next = keys.next(&id).unwrap();
        assert!(keys.has_next(&id));
        assert_eq!(keys.next(&id).unwrap().public(), next.public(), "one until it is promoted");
        assert_eq!(keys.of(&id).unwrap().public(), first.public());
        keys.promote_next(&id).unwrap();
        assert_eq!(keys.identity(&id).unwrap().public(), next.public());
        keys.seal(&id, &keys.of(&id).unwrap()).unwrap();
        assert_eq!(fs::read(dir.path().join("keys/builder-01.seal")).unwrap(), sealed);
    }

    #[test]
    fn a_rotation_of_a_service_is_finished_once_its_history_is_durable() {
        let dir = tempfile::tempdir().unwrap();
        let keys = SigningKeys::at(Some(dir.path().join("keys")));
        let id = AgentId::parse("registry").unwrap();
        let (first, history) = keys.service(&id).unwrap();
        assert!(history.is_empty());
        let next = keys.next(&id).unwrap();
        assert!(
            keys.service(&id).unwrap().0.public().is_same(first.public()),
            "without the statement it has not begun"
        );
        let history = history.with(KeyChange::new(&first, next.public()));
        keys.write_history(&id, &history).unwrap();
        let (second, kept) = keys.service(&id).unwrap();
        assert!(second.public().is_same(next.public()) && !keys.has_next(&id));
        assert!(kept == history && kept.leads(first.public(), second.public()));
        assert_eq!(keys.service(&id).unwrap().1, history);
        fs::remove_file(dir.path().join("keys/registry.ed25519")).unwrap();
        assert!(keys.service(&id).unwrap().1.is_empty(), "of a key that is lost");
        fs::write(dir.path().join("keys/registry.history"), b"{").unwrap();
        assert!(format!("{:#}", keys.service(&id).unwrap_err()).contains("registry.history"));
    }

    #[test]
    fn a_key_is_created_once_for_its_owner_only_and_stays_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let keys = SigningKeys::at(Some(dir.path().join("keys")));
        let id = AgentId::parse("builder-01").unwrap();
        let first = keys.of(&id).unwrap();
        assert_eq!(keys.of(&id).unwrap().public(), first.public());
        assert_ne!(keys.of(&AgentId::parse("builder-02").unwrap()).unwrap().public(), first.public());

        let file = dir.path().join("keys/builder-01.ed25519");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(format!("{:#}", keys.of(&id).unwrap_err()).contains("others may read it (mode 644)"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&file, b"short").unwrap();
        assert!(format!("{:#}", keys.of(&id).unwrap_err()).contains("5 bytes instead of 32"));
    }
}
