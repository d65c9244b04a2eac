//! One process at a time holds a data directory.

use super::OpenError;
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a lock may outlive its process: a child that was being forked when the process was killed holds it until it
/// has become another program.
const LINGER: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

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
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {
                    let pid = fs::read_to_string(&path).unwrap_or_default().trim().to_owned();
                    if is_anothers(&pid) || started.elapsed() > LINGER {
                        return Err(OpenError::Held { dir: dir.to_owned(), pid });
                    }
                    std::thread::sleep(LOOK_AGAIN);
                }
                Err(TryLockError::Error(source)) => return Err(io(source)),
            }
        }
        // Who holds it is only told to people; a full disk must not keep the store from opening.
        let told = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        if let Err(error) = told {
            tracing::warn!(%error, path = %path.display(), "cannot write the holder's pid");
        }
        Ok(Self { _file: file })
    }
}

/// Whether another process of that id is there; where that can't be seen, it is taken to be. What this process has let
/// go may linger in a child of its own.
fn is_anothers(pid: &str) -> bool {
    let is_there =
        !Path::new("/proc/self").exists() || !pid.is_empty() && Path::new("/proc").join(pid).exists();
    is_there && pid != std::process::id().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_outlives_its_process_for_a_moment_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let lingering = Lock::acquire(dir.path()).unwrap();
        fs::write(dir.path().join("lock"), "4194999\n").unwrap();
        let waiting = {
            let dir = dir.path().to_owned();
            std::thread::spawn(move || Lock::acquire(&dir).map(|_| ()))
        };
        drop(lingering);
        waiting.join().unwrap().unwrap();
        let held = Lock::acquire(dir.path()).unwrap();
        let refused = Lock::acquire(dir.path()).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains(&std::process::id().to_string()), "{refused}");
        drop(held);
    }
}
