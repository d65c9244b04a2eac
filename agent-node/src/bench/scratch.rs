//! A directory that is gone when the measure is over.

use anyhow::Context as _;
use std::path::{Path, PathBuf};

/// A directory of its own, removed when dropped.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// A new directory in `dir`.
    pub(super) fn new(dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join(format!("mesh-bench-{}", uuid::Uuid::now_v7().simple()));
        std::fs::create_dir_all(&path).with_context(|| format!("{} can't be created", path.display()))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}
