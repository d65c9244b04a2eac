//! Repositories that a brain has made inside its clone. git would add each as a link to a commit that is nowhere else.

use rustix::{
    fs::{Dir, FileType, Mode, OFlags, open, openat, renameat},
    io::Errno,
};
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
};

/// The deepest directory that is looked at.
const MAX_DEPTH: usize = 256;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes every `.git` below the top of the clone `work`, so that its files are added as files. It follows no link, whatever a
/// process that the brain has left does meanwhile. The `submodules` of the commit that the turn began with stay as they are: fails
/// if a file was written into the empty directory of one.
pub(super) fn remove(work: &Path, submodules: &BTreeSet<PathBuf>) -> Result<(), String> {
    let away = work.with_extension("away");
    let failed = |error: std::io::Error| format!("{}: {error}", away.display());
    let _ = fs::remove_dir_all(&away);
    fs::create_dir(&away).map_err(failed)?;
    let opened = |path: &Path| open(path, DIRECTORY, Mode::empty()).map_err(|error| failed(error.into()));
    let mut search = Search { submodules, away: opened(&away)?, removed: 0 };
    let searched = search.directory(opened(work)?, Path::new(""), 0);
    fs::remove_dir_all(&away).map_err(failed)?;
    searched
}

struct Search<'a> {
    submodules: &'a BTreeSet<PathBuf>,
    /// Where they are moved to.
    away: OwnedFd,
    removed: usize,
}

impl Search<'_> {
    fn directory(&mut self, dir: OwnedFd, at: &Path, depth: usize) -> Result<(), String> {
        let failed = |error: Errno| format!("{}: {error}", at.display());
        let mut names = Vec::new();
        for entry in Dir::read_from(&dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
            if name != "." && name != ".." {
                names.push((name, entry.file_type()));
            }
        }
        if self.submodules.contains(at) {
            return match names.is_empty() || names.iter().any(|(name, _)| name == ".git") {
                true => Ok(()),
                false => Err(format!("{} is a submodule: files in it can't be committed", at.display())),
            };
        }
        for (name, kind) in names {
            if name == ".git" {
                if depth > 0 {
                    self.take(dir.as_fd()).map_err(failed)?;
                }
                continue;
            }
            if !matches!(kind, FileType::Directory | FileType::Unknown) {
                continue;
            }
            if depth == MAX_DEPTH {
                return Err(format!("{}: directories are deeper than {MAX_DEPTH}", at.display()));
            }
            match openat(&dir, &name, DIRECTORY, Mode::empty()) {
                Ok(inner) => self.directory(inner, &at.join(name), depth + 1)?,
                // It is no directory, or it has gone.
                Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => {}
                Err(error) => return Err(format!("{}: {error}", at.join(name).display())),
            }
        }
        Ok(())
    }

    fn take(&mut self, dir: BorrowedFd<'_>) -> Result<(), Errno> {
        self.removed += 1;
        renameat(dir, ".git", &self.away, self.removed.to_string())
    }
}
