//! Each agent's own key: made at its first start, for its owner's eyes only, and kept for good (DESIGN §8).

use super::services::NotStarted;
use protocol::{a2a::card_signature::SigningKey, ids::AgentId};
use ring::rand::{SecureRandom, SystemRandom};
use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Where keys are kept; nowhere for a process that forgets everything.
#[derive(Debug, Clone, Default)]
pub struct Keys(pub Option<PathBuf>);

impl Keys {
    /// The key of `agent`.
    pub fn of(&self, agent: &AgentId) -> anyhow::Result<Arc<SigningKey>> {
        let seed = match &self.0 {
            None => fresh()?,
            Some(dir) => {
                super::home::make(dir)?;
                let file = dir.join(format!("{agent}.ed25519"));
                kept(&file).map_err(|error| NotStarted::NoKey {
                    agent: agent.clone(),
                    file,
                    why: format!("{error:#}"),
                })?
            }
        };
        Ok(Arc::new(SigningKey::from_seed(&seed)))
    }
}

fn fresh() -> anyhow::Result<[u8; 32]> {
    let mut seed = [0; 32];
    SystemRandom::new().fill(&mut seed).map_err(|_| anyhow::anyhow!("the system gives no random numbers"))?;
    Ok(seed)
}

fn kept(file: &Path) -> anyhow::Result<[u8; 32]> {
    if !file.exists() {
        let draft = file.with_extension(format!("{}.new", std::process::id()));
        let mut made = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        made.write_all(&fresh()?)?;
        made.sync_all()?;
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
    fn a_key_is_made_once_for_its_owner_only_and_stays_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let keys = Keys(Some(dir.path().join("keys")));
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
