//! What a program that this process starts inherits from it: the limit of open files, and its end.
//!
//! - A program that waits with `select(2)` fails on a descriptor beyond 1,023, and some programs close every descriptor up to the
//!   limit when they start. So a child must get the soft limit that this process was started with.
//! - A program that ignores the end of its input would outlive a killed node. On Linux the kernel kills it with the node.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
#[cfg(target_os = "linux")]
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use std::{io, os::unix::process::CommandExt as _, process::Command, sync::OnceLock};

/// The limit of open files before it was raised.
static ORIGINAL: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit of open files to the hard limit. Fails if the system refuses it; the limit then stays.
pub fn raise_open_files() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return Ok(());
    }
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    // A later call finds nothing to raise, unless somebody has lowered the limit again.
    let _ = ORIGINAL.set(limit);
    Ok(())
}

/// Has `command` start its program with the limit of open files that this process had before [`raise_open_files`], and on Linux
/// end with the thread that starts it: by `SIGKILL`, also if this process is killed. Programs that it starts in turn do not.
///
/// The kernel looks at the thread, not at the process, so the thread must last as long as the child is wanted.
pub fn bind(command: &mut Command) {
    restore_open_files(command);
    #[cfg(target_os = "linux")]
    end_with_this_thread(command);
}

fn restore_open_files(command: &mut Command) {
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

#[cfg(target_os = "linux")]
fn end_with_this_thread(command: &mut Command) {
    let parent = getpid();
    // The standard library has changed the user before this, which would clear the signal.
    let end_with_parent = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before.
        match getppid() {
            Some(found) if found == parent => Ok(()),
            Some(_) | None => Err(io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error())),
        }
    };
    // SAFETY: as above; two system calls.
    unsafe { command.pre_exec(end_with_parent) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soft_limit_of_child(is_bound: bool) -> String {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -Sn"]);
        if is_bound {
            bind(&mut command);
        }
        String::from_utf8_lossy(&command.output().expect("sh runs").stdout).trim().to_owned()
    }

    #[test]
    fn a_child_gets_the_limit_from_before_it_was_raised() {
        let hard = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: Some(200), maximum: hard }).expect("it is lowered");
        raise_open_files().expect("it is raised");
        assert_eq!(getrlimit(Resource::Nofile).current, hard);
        assert_eq!(soft_limit_of_child(true), "200");
        assert_ne!(soft_limit_of_child(false), "200");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_ends_with_the_thread_that_has_started_it() {
        use std::{os::unix::process::ExitStatusExt as _, process::Stdio};
        let start = || {
            let mut command = Command::new("sleep");
            command.arg("600").stdin(Stdio::null());
            bind(&mut command);
            command.spawn().expect("sleep runs")
        };
        let mut child = std::thread::spawn(start).join().expect("the thread ends");
        assert_eq!(child.wait().expect("it has ended").signal(), Some(9));
    }
}
