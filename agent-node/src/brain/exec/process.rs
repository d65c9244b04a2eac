//! The process of a brain. It leads a process group, which is killed when the process exits or is dropped.

use super::ExecBrain;
use crate::brain::{BrainError, TurnRequest};
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    ffi::OsString,
    io,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

/// The variable that tells a command whose standard input stays open so.
const EXEC_MODE: &str = "MESH_EXEC_MODE";
/// The variable that tells a command where its clone of a repository is.
pub(in crate::brain) const WORKSPACE: &str = "MESH_WORKSPACE";
const INHERITED: [&str; 2] = ["PATH", "LANG"];

pub(super) struct BrainProcess {
    process: tokio::process::Child,
    group: Option<Pid>,
}

/// An argument that names a file beside the file of the agent, as the command finds it from another directory.
pub(in crate::brain) fn beside_its_file(arg: &str, dir: Option<&Path>) -> OsString {
    let beside = dir.map(|dir| dir.join(arg)).filter(|path| !arg.starts_with('-') && path.is_file());
    let absolute = beside.map(|path| std::path::absolute(&path).unwrap_or(path));
    absolute.map_or_else(|| arg.into(), PathBuf::into_os_string)
}

impl BrainProcess {
    /// Starts the command, for `turn` if it takes only one. The trace goes into the variables that OpenTelemetry defines, so that
    /// spans of the brain are children of the turn's span. The task, its epoch and the brain's access to the mesh are in variables,
    /// too. No secret of the mesh is.
    pub(super) fn start(exec: &ExecBrain, turn: Option<&TurnRequest>) -> Result<Self, BrainError> {
        let (program, args) = exec
            .command
            .split_first()
            .ok_or_else(|| BrainError::NotStarted { what: "the command is empty".into(), source: None })?;
        let failed = |source: io::Error| {
            let at = exec.dir.as_ref().map(|dir| format!(" in {}", dir.display())).unwrap_or_default();
            let as_user = exec.user.as_ref().map(|user| format!(" as {}", user.name)).unwrap_or_default();
            let hint = match &exec.user {
                Some(user) if source.kind() == io::ErrorKind::PermissionDenied => {
                    permission_hint(program, &user.name)
                }
                Some(_) | None => String::new(),
            };
            let what = format!("{program}{at}{as_user}: {source}{hint}");
            BrainError::NotStarted { what, source: Some(source) }
        };
        let mut command = match program.as_str() {
            "mesh" => match &exec.mesh {
                Some(mesh) => Command::new(mesh),
                None => Command::new(std::env::current_exe().map_err(failed)?),
            },
            // POSIX does not define whether a relative program is looked up before or after the directory changes.
            relative if relative.contains('/') && !relative.starts_with('/') => {
                let current = std::env::current_dir().map_err(failed)?;
                Command::new(current.join(exec.dir.as_deref().unwrap_or(&current)).join(relative))
            }
            other => Command::new(other),
        };
        let workspace = turn.and_then(|turn| turn.workspace.as_ref());
        let beside = exec.dir.as_deref().filter(|_| workspace.is_some());
        command.args(args.iter().map(|arg| beside_its_file(arg, beside))).env_clear();
        command.envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.envs(exec.home.iter().flat_map(|home| [("HOME", home), ("TMPDIR", home)]));
        command.envs(exec.access.get().into_iter().flat_map(|access| access.variables()));
        if let Some(turn) = turn
            && let Some(task_id) = turn.prompt.about.task_id()
        {
            command.env("MESH_TASK_ID", task_id.as_str());
            command.envs(turn.prompt.epoch.map(|epoch| ("MESH_EPOCH", epoch.to_string())));
        }
        if let Some(trace) = turn.and_then(|turn| turn.trace.as_ref()) {
            command.env("TRACEPARENT", trace.to_string());
            command.envs(trace.state.as_deref().map(|state| ("TRACESTATE", state)));
        }
        command.envs(exec.mode.word().map(|word| (EXEC_MODE, word)));
        command.envs(&exec.env);
        command.envs(workspace.map(|workspace| (WORKSPACE, workspace)));
        if let Some(dir) = workspace.or(exec.dir.as_ref()) {
            command.current_dir(dir);
        }
        if let Some(user) = &exec.user {
            // The standard library drops the supplementary groups of root, too.
            command.uid(user.uid).gid(user.gid);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        child_process::bind(command.as_std_mut());
        let process = command.spawn().map_err(failed)?;
        let group = process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Self { process, group })
    }

    pub(super) fn stdin(&mut self) -> Option<ChildStdin> {
        self.process.stdin.take()
    }

    pub(super) fn stdout(&mut self) -> Option<ChildStdout> {
        self.process.stdout.take()
    }

    pub(super) fn stderr(&mut self) -> Option<ChildStderr> {
        self.process.stderr.take()
    }

    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.process.wait().await;
        // Ends processes that the brain has started, now, because the group's id can be reused later.
        self.kill_group();
        status
    }

    fn kill_group(&mut self) {
        if let Some(group) = self.group.take() {
            // An error means that the group is empty.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for BrainProcess {
    fn drop(&mut self) {
        self.kill_group();
    }
}

/// What `user` needs to run `program`. A directory in `PATH` that the user may not enter gives the same error as a missing
/// permission.
fn permission_hint(program: &str, user: &str) -> String {
    match program.contains('/') {
        true => format!("; {user} must be able to enter its directories, and to read and run it"),
        false => format!("; {user} finds no {program} in the directories of PATH that {user} may enter"),
    }
}

/// The exit code or signal of a process that failed.
pub(super) fn failure(status: &io::Result<ExitStatus>) -> Option<String> {
    match status {
        Ok(status) if status.success() => None,
        Ok(status) => Some(match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => status.to_string(),
        }),
        Err(error) => Some(error.to_string()),
    }
}
