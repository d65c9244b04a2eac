//! `mesh bench`: what a mesh does on this machine, beside what the bare parts under it do.

use super::{
    Common,
    exit::{Exit, Failure},
    output,
};
use crate::bench::{self, Measure, Options, Program};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Bench {
    /// What to measure; everything if nothing is named.
    #[arg(value_enum)]
    only: Vec<Measure>,
    /// Alternating rounds of each measure against its reference.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Requests in one round.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(100..=200_000))]
    requests: u32,
    /// Connections at once.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    connections: u16,
    /// Readers of the board's stream.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(10..=10_000))]
    readers: u16,
    /// Candidates in the larger auction.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(11..=2_000))]
    candidates: u16,
    /// Where stores are put, on the device to be measured; the temporary directory if not given.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Serve what the parent process measures.
    #[arg(long, hide = true)]
    serve: bool,
}

pub(super) fn bench(common: &Common, bench: Bench) -> Result<(), Failure> {
    let failed = |error: anyhow::Error| Failure::new(Exit::Failed, format!("{error:#}"));
    if bench.serve {
        return bench::serve().map_err(failed);
    }
    let path = std::env::current_exe().map_err(|error| failed(error.into()))?;
    let usual = Options::new(Program { path, arguments: vec!["bench".to_owned(), "--serve".to_owned()] });
    let options = Options {
        only: bench.only,
        rounds: bench.rounds.into(),
        requests: bench.requests as usize,
        connections: bench.connections.into(),
        readers: bench.readers.into(),
        candidates: bench.candidates.into(),
        dir: bench.dir.unwrap_or(usual.dir.clone()),
        ..usual
    };
    let report = bench::run(&options, |line| eprintln!("{}: {:.2} {}", line.what, line.measured, line.unit));
    let report = report.map_err(failed)?;
    if common.json { output::json(&report) } else { output::line(report.to_string().trim_end()) }
}
