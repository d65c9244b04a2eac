//! The lock of a data directory: one process at a time holds it.

use super::OpenError;
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a lock may outlive its process: a child forked just before the process was killed holds it until its exec.
const MAX_LINGER: Duration = Duration::from_secs(2);
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// A held directory. The lock is released on drop and at the end of the process.
pub(super) struct DataDirLock {
    _file: File,
}

impl DataDirLock {
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
                    if is_other_live_process(&pid) || started.elapsed() > MAX_LINGER {
                        return Err(OpenError::Held { dir: dir.to_owned(), pid });
                    }
                    std::thread::sleep(RETRY_PAUSE);
                }
                Err(TryLockError::Error(source)) => return Err(io(source)),
            }
        }
        // The pid is only for error messages; a full disk must not prevent opening.
        let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        if let Err(error) = written {
            tracing::warn!(%error, path = %path.display(), "cannot write the holder's pid");
        }
        Ok(Self { _file: file })
    }
}

/// Whether `pid` is another live process; without `/proc`, it counts as live. A lock that this process released may
/// linger in a child of its own.
fn is_other_live_process(pid: &str) -> bool {
    let exists =
        !Path::new("/proc/self").exists() || !pid.is_empty() && Path::new("/proc").join(pid).exists();
    exists && pid != std::process::id().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acquire_waits_for_a_lock_that_outlives_its_process() {
        let dir = tempfile::tempdir().unwrap();
        let lingering_lock = DataDirLock::acquire(dir.path()).unwrap();
        fs::write(dir.path().join("lock"), "4194999\n").unwrap();
        let waiting = {
            let dir = dir.path().to_owned();
            std::thread::spawn(move || DataDirLock::acquire(&dir).map(|_| ()))
        };
        drop(lingering_lock);
        waiting.join().unwrap().unwrap();
        let held = DataDirLock::acquire(dir.path()).unwrap();
        let refused = DataDirLock::acquire(dir.path()).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains(&std::process::id().to_string()), "{refused}");
        drop(held);
    }
}
