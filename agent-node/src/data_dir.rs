//! The data directory of a mesh, and the join secret in it.

use crate::{
    start_error::StartError,
    token_format::{PERSON_PREFIX, random_token},
};
use protocol::signature::Secret;
use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    net::IpAddr,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};
use store::embedded::OpenError;

/// Creates `dir` and its parents with mode 0700.
pub fn create(dir: &Path) -> anyhow::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(dir).map_err(|source| OpenError::Io { dir: dir.to_owned(), source }.into())
}

/// Reads the join secret in `file`; creates the file with mode 0600 if it is missing (DESIGN §8).
pub fn read_or_create_secret(file: &Path) -> Result<Secret, StartError> {
    let no_secret = |why: String| StartError::BadJoinSecret { file: file.to_owned(), why };
    if !file.exists() {
        create_secret(file)
            .map_err(|source| StartError::JoinSecretNotMade { file: file.to_owned(), source })?;
    }
    let text = fs::read_to_string(file).map_err(|error| no_secret(format!("can't be read: {error}")))?;
    warn_if_shared("join secret", file);
    Secret::new(text.trim().as_bytes()).map_err(|error| no_secret(error.to_string()))
}

/// Reads the join secret in `file`, for a process that other machines can reach. Fails if the file is missing: a new
/// secret would match no other process.
pub fn read_shared_secret(file: &Path, listen: IpAddr) -> Result<Secret, StartError> {
    match file.exists() {
        true => read_or_create_secret(file),
        false => Err(StartError::JoinSecretRequired { listen, file: file.to_owned() }),
    }
}

/// The directory of the store of the board's spaces, in the data directory.
pub const SPACES: &str = "spaces";

/// The name of the file of the person's token.
pub const TOKEN: &str = "token";

/// Reads the person's token in `file`; creates the file with mode 0600 if it is missing (DESIGN §13).
pub fn read_or_create_token(file: &Path) -> Result<String, StartError> {
    let bad = |why: String| StartError::BadToken { file: file.to_owned(), why };
    if !file.exists() {
        create_private(file, &random_token(PERSON_PREFIX))
            .map_err(|error| bad(format!("can't be made: {error}")))?;
    }
    let token = fs::read_to_string(file).map_err(|error| bad(format!("can't be read: {error}")))?;
    warn_if_shared("token", file);
    match token.trim().strip_prefix(PERSON_PREFIX).is_some_and(|random| random.len() >= 32) {
        true => Ok(token.trim().to_owned()),
        false => Err(bad("holds no token of a mesh; remove it, and the next start makes one".to_owned())),
    }
}

fn warn_if_shared(what: &str, file: &Path) {
    let mode = fs::metadata(file).map_or(0, |metadata| metadata.permissions().mode() & 0o777);
    if mode & 0o077 != 0 {
        let file = file.display();
        tracing::warn!("others can read the {what} {file} (mode {mode:o}): chmod 600 keeps it to its owner");
    }
}

fn create_secret(file: &Path) -> std::io::Result<()> {
    create_private(file, &random_token(""))
}

/// Creates the file atomically, so that processes that start together all read the secret of the first.
fn create_private(file: &Path, random: &str) -> std::io::Result<()> {
    let draft = file.with_extension(format!("{}.new", std::process::id()));
    let written = (|| {
        let mut draft_file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        draft_file.write_all(random.as_bytes())?;
        draft_file.sync_all()?;
        match fs::hard_link(&draft, file) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    })();
    drop(fs::remove_file(&draft));
    written
}
