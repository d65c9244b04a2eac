//! Logs: structured, to standard error, filtered by `RUST_LOG`.

use std::io::IsTerminal as _;
use tracing_subscriber::EnvFilter;

/// Starts logging: lines for people on a terminal, JSON lines elsewhere if `MESH_LOG=json` asks for it.
pub fn init() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let as_json = std::env::var("MESH_LOG").is_ok_and(|form| form == "json");
    let started = match as_json {
        true => builder.json().try_init(),
        false => builder.with_ansi(std::io::stderr().is_terminal()).try_init(),
    };
    if started.is_err() {
        tracing::debug!("logging had been started before");
    }
}
