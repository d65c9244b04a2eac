//! Where a mesh keeps its data: the store, and the secret that its agents sign with.

use anyhow::Context as _;
use blackboard::store::embedded::OpenError;
use protocol::signature::Secret;
use std::{
    fs::{self, OpenOptions},
    io::{Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
};

/// Makes `dir`, readable by its owner only.
pub fn make(dir: &Path) -> anyhow::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(dir).map_err(|source| OpenError::Io { dir: dir.to_owned(), source }.into())
}

/// The join secret in `file`; made at first, for its owner's eyes only (DESIGN §8).
pub fn secret(file: &Path) -> anyhow::Result<Secret> {
    let what = || format!("the join secret {}", file.display());
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    if let Ok(mut made) = made {
        let random = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        made.write_all(random.as_bytes()).and_then(|()| made.sync_all()).with_context(what)?;
    }
    let mut text = String::new();
    OpenOptions::new()
        .read(true)
        .open(file)
        .and_then(|mut there| there.read_to_string(&mut text))
        .with_context(what)?;
    Secret::new(text.trim().as_bytes()).map_err(|error| anyhow::anyhow!("{}: {error}", what()))
}
