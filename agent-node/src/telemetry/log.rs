//! Logs: to standard error, as text or one JSON object a line, filtered by `--log` or `RUST_LOG`, and to a backend if one is
//! named ([`super::log_export`]).

use super::log_export::LogExportLayer;
use crate::terminal::escaped;
use serde_json::json;
use std::{
    fmt::Display,
    io::{self, IsTerminal, Write as _},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::SystemTime,
};
use tracing::Level;
use tracing_subscriber::{
    EnvFilter,
    filter::{LevelFilter, ParseError},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};
use transport::http_client::redact_urls;

/// Whether every line of this process is JSON, also those outside the log: the listen address, the reason of its end.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line.
    Json,
}

/// Sets the format of all further lines.
pub fn set_format(format: LogFormat) {
    IS_JSON.store(format == LogFormat::Json, Relaxed);
}

/// Writes one line to standard error, whatever the log filter. Ignores a closed standard error.
pub fn print_line(level: Level, text: &dyn Display) {
    drop(writeln!(std::io::stderr().lock(), "{}", escaped(&format_line(level, text))));
}

/// `text`, or a JSON object like those of the log.
pub fn format_line(level: Level, text: &dyn Display) -> String {
    let text = text.to_string();
    match IS_JSON.load(Relaxed) {
        true => {
            let now = chrono::DateTime::<chrono::Utc>::from(SystemTime::now());
            let timestamp = now.to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
            let message = text.strip_prefix("mesh: ").unwrap_or(&text);
            json!({ "timestamp": timestamp, "level": level.as_str(), "message": message, "target": "mesh" })
                .to_string()
        }
        false => text,
    }
}

/// Crates that log what others send: actix an error for each malformed request of a client, and rmcp the answers of tool servers
/// that fail, with the credentials that are in them. The node reports such failures itself, masked.
const QUIET: [&str; 2] = ["actix_http", "rmcp"];

/// What logs the codes with which tokens are got, at `debug`.
const OAUTH: &str = "rmcp::transport::auth";

/// Crates that log the addresses and headers of their requests, at `debug`.
const CLIENTS: [&str; 5] = ["rmcp", "reqwest", "hyper", "hyper_util", "h2"];

/// The filter that `text` names. What the crates of [`QUIET`] say is logged from the level `debug` on, or if `text` names them; what
/// [`OAUTH`] and [`CLIENTS`] say at `debug` never is.
fn log_filter(text: &str) -> Result<EnvFilter, ParseError> {
    let level = EnvFilter::try_new(text)?.max_level_hint();
    let is_verbose = level.is_none_or(|level| level >= LevelFilter::DEBUG);
    let directives: Vec<String> = match is_verbose {
        true => CLIENTS.iter().chain([&OAUTH]).map(|name| format!("{name}=info")).collect(),
        false => {
            QUIET.iter().filter(|name| !text.contains(**name)).map(|name| format!("{name}=off")).collect()
        }
    };
    EnvFilter::try_new(directives.iter().fold(text.to_owned(), |text, more| format!("{text},{more}")))
}

/// Standard error, for whole lines, without what addresses may hold of credentials: errors of HTTP clients name them.
struct RedactedLog;

impl io::Write for RedactedLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        io::stderr().lock().write_all(redact_urls(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Starts the log. `filter` is a directive such as `info` or `agent_node=debug`; without it `RUST_LOG` counts, then `default`.
/// Fails if the filter does not parse.
pub fn start(filter: Option<&str>, default: &str, format: LogFormat) -> Result<(), String> {
    set_format(format);
    if format == LogFormat::Json {
        std::panic::set_hook(Box::new(|panic| print_line(Level::ERROR, panic)));
    }
    let variable = || std::env::var("RUST_LOG").ok().filter(|text| !text.is_empty());
    let given = filter.map(|text| ("--log", text.to_owned()));
    let (source, text) = given
        .or_else(|| Some(("RUST_LOG", variable()?)))
        .unwrap_or_else(|| ("the default", default.to_owned()));
    let filter = log_filter(&text).map_err(|error| format!("{source} is {text:?}: {error}"))?;
    let colours =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| RedactedLog).with_ansi(colours);
    // A test may have started a log before; it stays.
    let _ = match format {
        LogFormat::Text => log.finish().with(LogExportLayer).try_init(),
        LogFormat::Json => log.json().flatten_event(true).finish().with(LogExportLayer).try_init(),
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{QUIET, log_filter};

    #[test]
    fn what_others_send_is_logged_only_when_asked_for() {
        let hides =
            |text: &str, name: &str| log_filter(text).unwrap().to_string().contains(&format!("{name}=off"));
        for name in QUIET {
            assert!(["warn", "info", "agent_node=info"].into_iter().all(|text| hides(text, name)));
            assert!(!["debug", "trace"].into_iter().any(|text| hides(text, name)));
            assert!(!hides(&format!("info,{name}=error"), name));
        }
        assert!(hides("info,rmcp=error", "actix_http"));
        assert!(log_filter("info,rmcp=trace").unwrap().to_string().contains("rmcp::transport::auth=info"));
    }
}
