//! Replicas of an agent that share a data directory. A replica locks the first free `<data>/<agent>-<n>` and takes its
//! name as id. The lock ends with the process, so that the next replica takes over the directory and its data.

use crate::{
    config::{ConfigErrors, ConfigFault, Team},
    data_dir,
};
use protocol::ids::AgentId;
use std::{
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use store::embedded::OpenError;

const MAX_REPLICAS: usize = 1_000;
/// How long a lock may outlive its process: a forked child holds it until it calls exec.
const LOCK_LINGER: Duration = Duration::from_millis(300);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The lock of a replica's directory; released on drop or when the process ends.
#[derive(Debug)]
pub(super) struct ReplicaLock {
    _lock: File,
}

/// Locks a directory in `data` for the one agent of `team`, and sets the agent's id and `data` to it.
pub(super) fn claim(team: &mut Team, data: &mut PathBuf) -> anyhow::Result<ReplicaLock> {
    let [agent] = team.agents.as_mut_slice() else {
        let count = team.agents.len();
        return Err(config_error(format!("a replica is one agent, the files name {count}")).into());
    };
    data_dir::create(data)?;
    for n in 1..=MAX_REPLICAS {
        let name = format!("{}-{n}", agent.id);
        let id = AgentId::parse(&name).map_err(|error| config_error(error.to_string()))?;
        let dir = data.join(&name);
        if let Some(lock) = try_lock(&dir)? {
            tracing::info!(agent = %id, dir = %dir.display(), "a replica has locked its directory");
            if n > 1 {
                // All replicas have one file: the first owns its schedules.
                agent.schedules.clear();
            }
            agent.id = id;
            *data = dir;
            return Ok(lock);
        }
    }
    anyhow::bail!("all {MAX_REPLICAS} places of {} in {} are taken", agent.id, data.display())
}

fn config_error(what: String) -> ConfigErrors {
    ConfigErrors(vec![ConfigFault::of_file(Path::new("--replica"), what)])
}

/// Locks `dir`; `None` if another process holds the lock.
fn try_lock(dir: &Path) -> anyhow::Result<Option<ReplicaLock>> {
    data_dir::create(dir)?;
    let io = |source| OpenError::Io { dir: dir.to_owned(), source };
    let file = File::open(dir).map_err(io)?;
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(ReplicaLock { _lock: file })),
            Err(TryLockError::WouldBlock) if started.elapsed() > LOCK_LINGER => return Ok(None),
            Err(TryLockError::WouldBlock) => std::thread::sleep(POLL_INTERVAL),
            Err(TryLockError::Error(source)) => return Err(io(source).into()),
        }
    }
}
