//! Where a mesh keeps its data: the store, and the secret that its agents sign with.

use super::services::NotStarted;
use blackboard::store::embedded::OpenError;
use protocol::signature::Secret;
use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    net::IpAddr,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

/// Makes `dir`, readable by its owner only.
pub fn make(dir: &Path) -> anyhow::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(dir).map_err(|source| OpenError::Io { dir: dir.to_owned(), source }.into())
}

/// The join secret in `file`; made at first, for its owner's eyes only (DESIGN §8).
pub fn secret(file: &Path) -> Result<Secret, NotStarted> {
    let no_secret = |why: String| NotStarted::NoSecret { file: file.to_owned(), why };
    if !file.exists() {
        make_secret(file).map_err(|error| no_secret(format!("can't be made: {error}")))?;
    }
    let text = fs::read_to_string(file).map_err(|error| no_secret(format!("can't be read: {error}")))?;
    let mode = fs::metadata(file).map_or(0, |about| about.permissions().mode() & 0o777);
    if mode & 0o077 != 0 {
        let file = file.display();
        tracing::warn!(
            "others can read the join secret {file} (mode {mode:o}): chmod 600 keeps it to its owner"
        );
    }
    Secret::new(text.trim().as_bytes()).map_err(|error| no_secret(error.to_string()))
}

/// The join secret in `file`, for a process that other machines can reach: one that it made for itself would shut out
/// everybody, so it must be there.
pub fn shared_secret(file: &Path, listen: IpAddr) -> Result<Secret, NotStarted> {
    match file.exists() {
        true => secret(file),
        false => Err(NotStarted::Beyond { listen, file: file.to_owned() }),
    }
}

/// Nobody ever sees a part of it: processes of one mesh that start together all read what the first of them made.
fn make_secret(file: &Path) -> std::io::Result<()> {
    let random = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
    let draft = file.with_extension(format!("{}.new", std::process::id()));
    let written = (|| {
        let mut made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        made.write_all(random.as_bytes())?;
        made.sync_all()?;
        match fs::hard_link(&draft, file) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    })();
    drop(fs::remove_file(&draft));
    written
}
