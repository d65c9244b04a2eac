//! One of several processes of the same agent that share a data directory: it takes the first free `<data>/<agent>-<n>`
//! by locking it, and that is its id. The lock goes with the process, however it ends, so that the next one to start
//! finds the place and what was left there.

use super::{home, plan::Plan};
use crate::config::{BadConfig, Fault};
use blackboard::store::embedded::OpenError;
use protocol::ids::AgentId;
use std::{
    fs::{File, TryLockError},
    path::Path,
    time::{Duration, Instant},
};

/// The most replicas of one agent.
const MOST: usize = 1_000;
/// How long a lock may outlive its process: a child that was just being forked has it until it is another program.
const LINGER: Duration = Duration::from_millis(300);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A place that is taken; let go when dropped, or when the process ends in whatever way.
#[derive(Debug)]
pub(super) struct Slot {
    _lock: File,
}

/// Takes a place for the one agent of `plan`, which gets its id and its data directory from it.
pub(super) fn take(plan: &mut Plan) -> anyhow::Result<Slot> {
    let [agent] = plan.team.agents.as_mut_slice() else {
        let count = plan.team.agents.len();
        return Err(bad(format!("a replica is one agent, the files name {count}")).into());
    };
    home::make(&plan.data)?;
    for n in 1..=MOST {
        let name = format!("{}-{n}", agent.id);
        let id = AgentId::parse(&name).map_err(|error| bad(error.to_string()))?;
        let dir = plan.data.join(&name);
        if let Some(slot) = lock(&dir)? {
            tracing::info!(agent = %id, dir = %dir.display(), "a replica has its place");
            agent.id = id;
            plan.data = dir;
            return Ok(slot);
        }
    }
    anyhow::bail!("all {MOST} places of {} in {} are taken", agent.id, plan.data.display())
}

fn bad(what: String) -> BadConfig {
    BadConfig(vec![Fault::of_file(Path::new("--replica"), what)])
}

/// The place at `dir`, if nobody has it.
fn lock(dir: &Path) -> anyhow::Result<Option<Slot>> {
    home::make(dir)?;
    let io = |source| OpenError::Io { dir: dir.to_owned(), source };
    let file = File::open(dir).map_err(io)?;
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(Slot { _lock: file })),
            Err(TryLockError::WouldBlock) if started.elapsed() > LINGER => return Ok(None),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK_AGAIN),
            Err(TryLockError::Error(source)) => return Err(io(source).into()),
        }
    }
}
