//! Logs: to standard error, as text or one JSON object a line, filtered by `--log` or `RUST_LOG`.

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line.
    Json,
}

/// Starts logging. `filter` is a directive such as `info` or `agent_node=debug`; what it gets wrong is named.
pub fn start(filter: Option<&str>, usual: &str, format: LogFormat) -> Result<(), String> {
    let given =
        filter.map(str::to_owned).or_else(|| std::env::var("RUST_LOG").ok().filter(|f| !f.is_empty()));
    let filter = match given {
        Some(text) => {
            EnvFilter::try_new(&text).map_err(|error| format!("the log filter {text:?}: {error}"))?
        }
        None => EnvFilter::new(usual),
    };
    let colours =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    // Somebody may have started logging before, in tests for example: theirs stays.
    let _ = match format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    Ok(())
}
