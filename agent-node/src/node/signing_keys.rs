//! The signing key of each agent: created with mode 0600 at its first start and kept (DESIGN §8).

use super::services::StartError;
use protocol::{a2a::card_signature::SigningKey, ids::AgentId};
use ring::rand::{SecureRandom, SystemRandom};
use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The directory of the keys; `None` makes keys that last as long as the process.
#[derive(Debug, Clone, Default)]
pub struct SigningKeys(pub Option<PathBuf>);

impl SigningKeys {
    /// The key of `agent`; created if it is missing. Fails if the file is invalid or readable by others.
    pub fn of(&self, agent: &AgentId) -> anyhow::Result<Arc<SigningKey>> {
        let seed = match &self.0 {
            None => random_seed()?,
            Some(dir) => {
                super::data_dir::create(dir)?;
                let file = dir.join(format!("{agent}.ed25519"));
                read_or_create(&file).map_err(|error| StartError::BadAgentKey {
                    agent: agent.clone(),
                    file,
                    why: format!("{error:#}"),
                })?
            }
        };
        Ok(Arc::new(SigningKey::from_seed(&seed)))
    }
}

fn random_seed() -> anyhow::Result<[u8; 32]> {
    let mut seed = [0; 32];
    SystemRandom::new().fill(&mut seed).map_err(|_| anyhow::anyhow!("the system gives no random numbers"))?;
    Ok(seed)
}

fn read_or_create(file: &Path) -> anyhow::Result<[u8; 32]> {
    if !file.exists() {
        let draft = file.with_extension(format!("{}.new", std::process::id()));
        let mut draft_file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        draft_file.write_all(&random_seed()?)?;
        draft_file.sync_all()?;
        fs::rename(&draft, file)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_created_once_for_its_owner_only_and_stays_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let keys = SigningKeys(Some(dir.path().join("keys")));
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
