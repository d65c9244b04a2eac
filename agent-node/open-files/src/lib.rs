//! The limit of open files: raised for this process, restored for the programs that it starts.
//!
//! A program that waits with `select(2)` fails on a descriptor beyond 1,023, and some programs close every descriptor up to the
//! limit when they start. So a child must get the soft limit that this process was started with.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{io, os::unix::process::CommandExt as _, process::Command, sync::OnceLock};

/// The limit before it was raised.
static ORIGINAL: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit to the hard limit. Fails if the system refuses it; the limit then stays.
pub fn raise() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return Ok(());
    }
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    // A later call finds nothing to raise, unless somebody has lowered the limit again.
    let _ = ORIGINAL.set(limit);
    Ok(())
}

/// Has `command` start its program with the limit that this process had before [`raise`].
pub fn restore_in_child(command: &mut Command) {
    let Some(original) = ORIGINAL.get() else { return };
    let original = Rlimit { current: original.current, maximum: original.maximum };
    let restore = move || {
        setrlimit(Resource::Nofile, Rlimit { current: original.current, maximum: original.maximum })
            .map_err(io::Error::from)
    };
    // SAFETY: the closure runs between fork and exec, where only async-signal-safe calls are allowed. It makes one system call,
    // allocates nothing and takes no lock; an error is a number.
    unsafe { command.pre_exec(restore) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soft_limit_of_child(restored: bool) -> String {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -Sn"]);
        if restored {
            restore_in_child(&mut command);
        }
        String::from_utf8_lossy(&command.output().expect("sh runs").stdout).trim().to_owned()
    }

    #[test]
    fn a_child_gets_the_limit_from_before_it_was_raised() {
        let hard = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: Some(200), maximum: hard }).expect("it is lowered");
        raise().expect("it is raised");
        assert_eq!(getrlimit(Resource::Nofile).current, hard);
        assert_eq!(soft_limit_of_child(true), "200");
        assert_ne!(soft_limit_of_child(false), "200");
    }
}
