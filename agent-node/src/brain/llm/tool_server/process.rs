//! The process of a tool server. It leads a process group, which is killed when the process is dropped.

use crate::brain::server_log::ServerLog;
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    collections::BTreeMap,
    io,
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    task::JoinHandle,
};

/// What a command inherits of the node's environment.
const INHERITED: [&str; 2] = ["PATH", "LANG"];
/// What it inherits besides, to reach the network as the node does. The command runs as the node's user and could read the
/// password of a proxy there, too.
pub(super) const NETWORK: [&str; 15] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "UV_NATIVE_TLS",
];
/// Commands that fetch a package when they start.
const FETCHING: [&str; 8] = ["npx", "uvx", "npm", "pnpm", "bunx", "yarn", "uv", "pipx"];
/// How long a server that does not speak MCP may take to say why.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The longest line of standard error that is logged, bytes.
const MAX_LINE: u64 = 4 << 10;
/// The most lines that are logged in a [`LOG_WINDOW`]; the others are left out.
const MAX_LINES: u32 = 1_000;
const LOG_WINDOW: Duration = Duration::from_secs(60);
const LINES_LEFT_OUT: &str = "(more than 1,000 lines in a minute: the rest of this minute is left out)";

#[derive(Debug)]
pub(super) struct ServerProcess {
    _child: Child,
    group: Option<Pid>,
    last_line: Arc<Mutex<String>>,
    logging: Option<JoinHandle<()>>,
}

/// Where it speaks.
pub(super) struct ServerStdio {
    pub(super) stdout: ChildStdout,
    pub(super) stdin: ChildStdin,
}

impl ServerProcess {
    /// Starts `command`. Its standard error goes to `log`, as that of `server`.
    pub(super) fn start(
        (log, server): (&ServerLog, &str),
        command: &[String],
        env: &BTreeMap<String, String>,
        dir: Option<&Path>,
        home: Option<&Path>,
    ) -> io::Result<(Self, ServerStdio)> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the command is empty"));
        };
        let mut started = match program.as_str() {
            "mesh" => Command::new(std::env::current_exe()?),
            // POSIX does not define whether a relative program is looked up before or after the directory changes.
            relative if relative.contains('/') && !relative.starts_with('/') => {
                let current = std::env::current_dir()?;
                Command::new(current.join(dir.unwrap_or(&current)).join(relative))
            }
            other => Command::new(other),
        };
        started.args(arguments).env_clear();
        let inherited = INHERITED.iter().chain(&NETWORK);
        started.envs(inherited.filter_map(|name| Some((name, std::env::var_os(name)?))));
        started.envs(home.iter().flat_map(|home| [("HOME", home), ("TMPDIR", home)]));
        started.envs(env);
        if let Some(dir) = dir {
            started.current_dir(dir);
        }
        started.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        started.process_group(0).kill_on_drop(true);
        child_process::bind(started.as_std_mut());
        let mut child = started.spawn()?;
        let last_line = Arc::new(Mutex::new(String::new()));
        let stderr = child.stderr.take();
        let (log, server) = (log.clone(), server.to_owned());
        let logging = stderr.map(|stderr| tokio::spawn(log_lines(log, server, stderr, last_line.clone())));
        let (Some(stdout), Some(stdin)) = (child.stdout.take(), child.stdin.take()) else {
            return Err(io::Error::other("it has no standard input and output"));
        };
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok((Self { _child: child, group, last_line, logging }, ServerStdio { stdout, stdin }))
    }

    /// The last line of its standard error, as far as it comes soon.
    pub(super) async fn last_words(mut self) -> String {
        if let Some(logging) = self.logging.take() {
            let _ = tokio::time::timeout(LAST_WORDS, logging).await;
        }
        self.last_line.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What may be wrong with a `command` that did not start, if it fetches a package first.
pub(super) fn fetch_hint(command: &[String], env: &BTreeMap<String, String>) -> String {
    let program = command.first().and_then(|program| Path::new(program).file_name());
    if !program.is_some_and(|program| FETCHING.iter().any(|fetching| program == *fetching)) {
        return String::new();
    }
    let is_set = |name: &&&str| env.contains_key(**name) || std::env::var_os(name).is_some();
    let set: Vec<_> = NETWORK.iter().filter(is_set).copied().collect();
    let gets = if set.is_empty() { "none of these".to_owned() } else { set.join(", ") };
    format!(
        "; it fetches its package first: behind a proxy it needs HTTPS_PROXY, and with a certificate authority of your own \
         SSL_CERT_FILE or NODE_EXTRA_CA_CERTS, in the environment of the node or in the agent's `env` (it gets {gets})"
    )
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        if let Some(group) = self.group.take() {
            // An error means that the group is empty.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

async fn log_lines(log: ServerLog, server: String, stderr: ChildStderr, last_line: Arc<Mutex<String>>) {
    let mut lines = BufReader::new(stderr);
    let (mut window, mut logged) = (Instant::now(), 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut lines).take(MAX_LINE).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line).trim().to_owned();
                if !text.is_empty() {
                    if window.elapsed() > LOG_WINDOW {
                        (window, logged) = (Instant::now(), 0);
                    }
                    logged += 1;
                    match logged {
                        ..=MAX_LINES => log.write(&server, &text),
                        _ if logged == MAX_LINES + 1 => log.write(&server, LINES_LEFT_OUT),
                        _ => {}
                    }
                    *last_line.lock().unwrap_or_else(PoisonError::into_inner) = text;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    #[test]
    fn a_command_that_fetches_a_package_may_need_a_proxy() {
        let hint = |program: &str, env: &[(&str, &str)]| {
            let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            fetch_hint(&[program.to_owned(), "server".to_owned()], &env)
        };
        assert_eq!(hint("./server", &[]), "");
        assert!(hint("uvx", &[]).contains("behind a proxy it needs HTTPS_PROXY"));
        let hint = hint("/usr/bin/npx", &[("NODE_EXTRA_CA_CERTS", "/ca.pem"), ("OTHER", "x")]);
        // The environment of the tests has some, too.
        let (_, gets) = hint.split_once("it gets").unwrap();
        assert!(gets.contains("NODE_EXTRA_CA_CERTS") && !gets.contains("OTHER"), "{hint}");
    }

    #[tokio::test]
    async fn a_server_has_the_limit_of_open_files_from_before_it_was_raised() {
        let limit = getrlimit(Resource::Nofile);
        let hard = limit.maximum.unwrap();
        setrlimit(Resource::Nofile, Rlimit { current: Some(hard - 1), ..limit }).unwrap();
        child_process::raise_open_files().unwrap();
        let command = ["sh", "-c", "ulimit -Sn >&2"].map(str::to_owned);
        let (server, _stdio) =
            ServerProcess::start((&ServerLog::default(), "s"), &command, &BTreeMap::new(), None, None)
                .unwrap();
        assert_eq!(server.last_words().await, (hard - 1).to_string());
    }
}
