//! One process at a time holds a data directory.

use super::OpenError;
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::Path;

/// A held directory; let go when dropped, or when the process ends in whatever way.
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    pub(super) fn acquire(dir: &Path) -> Result<Self, OpenError> {
        let io = |source| OpenError::Io { dir: dir.to_owned(), source };
        fs::create_dir_all(dir).map_err(io)?;
        let path = dir.join("lock");
        let open = File::options().create(true).truncate(false).read(true).write(true).open(&path);
        let mut file = open.map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let pid = fs::read_to_string(&path).unwrap_or_default().trim().to_owned();
                return Err(OpenError::Held { dir: dir.to_owned(), pid });
            }
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        // Who holds it is only told to people; a full disk must not keep the store from opening.
        let told = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        if let Err(error) = told {
            tracing::warn!(%error, path = %path.display(), "cannot write the holder's pid");
        }
        Ok(Self { _file: file })
    }
}
