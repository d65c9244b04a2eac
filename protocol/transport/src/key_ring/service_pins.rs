//! The keys of the registry and the board in other processes, pinned at the first contact: a file each.

use protocol::{
    identity::{KeyHistory, PublicIdentity},
    problem::{Problem, Reason},
};
use std::{
    fs,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

pub(super) struct ServicePins {
    dir: Option<PathBuf>,
    /// Held while a key is compared and pinned: of two first contacts at once, the second sees what the first has pinned.
    pinning: Mutex<()>,
    /// The last refusal, which is logged once.
    refused: Mutex<Option<String>>,
}

impl ServicePins {
    pub(super) fn new(dir: Option<PathBuf>) -> Self {
        Self { dir, pinning: Mutex::default(), refused: Mutex::default() }
    }

    fn file(&self, id: &str) -> Option<PathBuf> {
        ["registry", "board"].contains(&id).then(|| Some(self.dir.as_ref()?.join(format!("{id}.pinned"))))?
    }

    /// The pinned key of the service `id`, if there is one.
    pub(super) fn read(&self, id: &str) -> Option<Arc<PublicIdentity>> {
        let text = fs::read(self.file(id)?).ok()?;
        serde_json::from_slice(&text)
            .ok()
            .filter(|read: &PublicIdentity| read.id().as_str() == id)
            .map(Arc::new)
    }

    /// Pins a key that has proven the join secret. Fails if another one is pinned that `history` does not lead from.
    pub(super) fn pin(&self, identity: &PublicIdentity, history: &KeyHistory) -> Result<(), Problem> {
        let id = identity.id();
        let Some(file) = self.file(id.as_str()) else { return Ok(()) };
        let _pinning = self.pinning.lock().unwrap_or_else(PoisonError::into_inner);
        if file.exists() {
            match self.read(id.as_str()) {
                Some(pinned) if pinned.is_same(identity) => return Ok(()),
                Some(pinned) if history.leads(&pinned, identity) => {
                    tracing::info!(
                        key = identity.fingerprint(),
                        "the {id} has a new key, as its old one says"
                    );
                }
                pinned => return Err(self.refuse(identity, pinned.as_deref(), &file)),
            }
        }
        let draft = file.with_extension(format!("{}.new", std::process::id()));
        let text = serde_json::to_vec(identity)
            .map_err(|error| Problem::new(Reason::Internal, error.to_string()))?;
        // No key of its own may have been written there.
        let folder = file
            .parent()
            .map_or(Ok(()), |folder| fs::DirBuilder::new().recursive(true).mode(0o700).create(folder));
        let mut options = fs::OpenOptions::new();
        let opened =
            folder.and_then(|()| options.write(true).create(true).truncate(true).mode(0o600).open(&draft));
        let written = opened.and_then(|mut draft_file| {
            draft_file.write_all(&text)?;
            draft_file.sync_all()?;
            fs::rename(&draft, &file)
        });
        written.map_err(|error| {
            Problem::new(
                Reason::StoreUnavailable,
                format!("the key of the {id} can't be pinned in {}: {error}", file.display()),
            )
        })
    }

    fn refuse(&self, identity: &PublicIdentity, pinned: Option<&PublicIdentity>, file: &Path) -> Problem {
        let id = identity.id();
        let known = pinned.map_or_else(|| "a damaged one".to_owned(), PublicIdentity::fingerprint);
        let message = format!(
            "the {id} shows the key {}, pinned here is {known}: another process answers there, or the {id} has lost its data; if \
             that is meant, remove {} (`mesh keys reset {id} --data {}`)",
            identity.fingerprint(),
            file.display(),
            file.parent().and_then(Path::parent).unwrap_or(file).display()
        );
        let logged = self.refused.lock().unwrap_or_else(PoisonError::into_inner).replace(message.clone());
        if logged.as_ref() != Some(&message) {
            tracing::error!("{message}");
        }
        Problem::new(Reason::KeyMismatch, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_ring::tests::keyed;

    #[test]
    fn of_first_contacts_at_once_all_with_one_key_are_pinned_and_no_other() {
        for _ in 0..20 {
            let dir = tempfile::tempdir().unwrap();
            let pins = ServicePins::new(Some(dir.path().to_owned()));
            let contact = |number: u8| {
                let key = keyed("registry", 1 + number % 2);
                (number % 2, pins.pin(key.public(), &KeyHistory::default()).is_ok())
            };
            let outcomes: Vec<_> = std::thread::scope(|scope| {
                let contacts: Vec<_> = (0..8)
                    .map(|number| {
                        scope.spawn({
                            let contact = &contact;
                            move || contact(number)
                        })
                    })
                    .collect();
                contacts.into_iter().map(|contact| contact.join().unwrap()).collect()
            });
            let pinned = pins.read("registry").unwrap();
            for (key, is_pinned) in outcomes {
                let is_same = pinned.is_same(keyed("registry", 1 + key).public());
                assert_eq!(is_pinned, is_same, "key {key}");
            }
        }
    }
}
