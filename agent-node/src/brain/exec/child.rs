//! A child process that leads a group of its own; the whole group goes when this does.

use super::{BrainError, Exec};
use protocol::trace::TraceContext;
use rustix::process::{Pid, Signal, kill_process_group};
use std::{io, os::unix::process::ExitStatusExt, process::ExitStatus, process::Stdio};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

const INHERITED: [&str; 3] = ["PATH", "HOME", "LANG"];

pub(super) struct Child {
    process: tokio::process::Child,
    group: Option<Pid>,
}

impl Child {
    /// `trace` is told as OpenTelemetry's SDKs expect it, so that what the brain traces itself hangs under its turn.
    pub(super) fn start(exec: &Exec, trace: Option<&TraceContext>) -> Result<Self, BrainError> {
        let (program, args) = exec
            .command
            .split_first()
            .ok_or_else(|| BrainError::NotStarted { what: "the command is empty".into(), source: None })?;
        let failed = |source: io::Error| {
            let at = exec.dir.as_ref().map(|dir| format!(" in {}", dir.display())).unwrap_or_default();
            BrainError::NotStarted { what: format!("{program}{at}: {source}"), source: Some(source) }
        };
        let mut command = match program.as_str() {
            "mesh" => match &exec.mesh {
                Some(mesh) => Command::new(mesh),
                None => Command::new(std::env::current_exe().map_err(failed)?),
            },
            // Where a relative program is looked for differs between systems once the directory changes.
            relative if relative.contains('/') && !relative.starts_with('/') => {
                let here = std::env::current_dir().map_err(failed)?;
                Command::new(here.join(exec.dir.as_deref().unwrap_or(&here)).join(relative))
            }
            found => Command::new(found),
        };
        command.args(args).env_clear();
        command.envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        if let Some(trace) = trace {
            command.env("TRACEPARENT", trace.to_string());
            command.envs(trace.state.as_deref().map(|state| ("TRACESTATE", state)));
        }
        command.envs(&exec.env);
        if let Some(dir) = &exec.dir {
            command.current_dir(dir);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
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
        // What it started must not outlive it, and its id is soon free for others.
        self.kill_group();
        status
    }

    fn kill_group(&mut self) {
        if let Some(group) = self.group.take() {
            // An error means that nobody is left.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill_group();
    }
}

pub(super) fn how_it_died(status: io::Result<ExitStatus>) -> Option<String> {
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
