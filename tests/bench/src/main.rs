//! Measures parts of a mesh from within: `cargo run --release -p bench`. `tests/figures.py` measures from
//! outside.
//!
//! Every server runs in a process of its own (this program, started again), so that the server and the load generator
//! share the machine fairly. Everything stays on loopback and cleans up after itself. Compare only figures of one machine
//! and one hour.
//!
//! In reading order:

mod load;
mod traffic;

mod child;
mod nodes;

mod accept;
mod award;
mod fan_out;

mod agent_loop;
mod brief;
mod provider;
mod session;

use accept::{AcceptCase, StoreKind};
use clap::{Parser, ValueEnum};
use std::{path::PathBuf, time::Duration};

/// The allocator of `mesh`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures parts of a mesh from within.
#[derive(Debug, Parser)]
struct Options {
    /// What to measure; everything if nothing is named.
    #[arg(value_enum)]
    only: Vec<Measure>,
    /// Rounds of `accept`; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
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
    /// Candidates in the larger contract net.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(11..=2_000))]
    candidates: u16,
    /// Where stores are put, on the device to be measured.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
    /// Serve what the parent process measures.
    #[arg(long, hide = true)]
    serve: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Measure {
    /// Messages accepted per second.
    Accept,
    /// From a request to its award.
    Award,
    /// One signal to many readers.
    FanOut,
    /// Processor per answer of a model.
    AgentLoop,
    /// Processor of a brief, in a large space against a small one.
    Brief,
    /// Processor of a turn of a round table, late against early.
    Session,
}

/// Tasks awarded in each contract net.
const TASKS: usize = 200;
/// Bidders of the smaller contract net.
const BIDDERS: usize = 10;
/// The most peers asked in one round.
const FANOUT: usize = 16;
/// Signals published to all readers.
const SIGNALS: usize = 20;
/// Tasks of an agent with a model.
const LOOPS: usize = 200;

/// One figure.
struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    detail: String,
}

impl Figure {
    fn print(&self, as_json: bool) {
        let Self { name, value, unit, detail } = self;
        if as_json {
            println!(
                "{}",
                serde_json::json!({ "name": name, "value": value, "unit": unit, "detail": detail })
            );
        } else {
            println!("{name:<50} {value:>12.2} {unit:<10} {detail}");
        }
    }
}

fn main() -> anyhow::Result<()> {
    if let Err(error) = child_process::raise_open_files() {
        eprintln!("the limit of open files is not raised: {error}");
    }
    let options = Options::parse();
    if options.serve {
        return child::serve();
    }
    let is_wanted = |measure| options.only.is_empty() || options.only.contains(&measure);
    let many = 64;
    if is_wanted(Measure::Accept) {
        for (store, signed, conversations) in [
            (StoreKind::Memory, false, 1),
            (StoreKind::Memory, true, 1),
            (StoreKind::Memory, false, many),
            (StoreKind::Embedded, false, 1),
            (StoreKind::Embedded, true, 1),
            (StoreKind::Embedded, false, many),
        ] {
            accept::measure(&options, AcceptCase { store, signed, conversations })?.print(options.json);
        }
    }
    if is_wanted(Measure::Award) {
        awards(&options)?.iter().for_each(|figure| figure.print(options.json));
    }
    if is_wanted(Measure::FanOut) {
        let readers = usize::from(options.readers);
        let delivery = fan_out::measure(readers, SIGNALS)?;
        let name = format!("one signal to {readers} readers, p99");
        let detail = format!("p50 {:.2} ms", millis(delivery.p50));
        Figure { name, value: millis(delivery.p99), unit: "ms", detail }.print(options.json);
        let (name, value) =
            ("memory of an idle reader".to_owned(), delivery.bytes_per_reader as f64 / 1024.0);
        Figure { name, value, unit: "KiB", detail: String::new() }.print(options.json);
    }
    if is_wanted(Measure::AgentLoop) {
        for store in [StoreKind::Memory, StoreKind::Embedded] {
            for has_tool_server in [false, true] {
                agent_loop::measure(&options, store, has_tool_server, LOOPS)?.print(options.json);
            }
        }
    }
    if is_wanted(Measure::Brief) {
        let [small, large] = [1_000, 100_000].map(|entries| brief::measure(&options, entries));
        let (small, large) = (millis(small?), millis(large?));
        let (name, detail) = (
            "brief, 100,000 entries against 1,000".to_owned(),
            format!("{large:.2} ms against {small:.2} ms"),
        );
        Figure { name, value: large / small, unit: "times", detail }.print(options.json);
    }
    if is_wanted(Measure::Session) {
        let (early, late) = session::measure(&options)?;
        let (early, late) = (millis(early), millis(late));
        let name = "turn of a round table, 180 against 12".to_owned();
        let detail = format!("processor, {late:.2} ms against {early:.2} ms");
        Figure { name, value: late / early, unit: "times", detail }.print(options.json);
    }
    Ok(())
}

fn awards(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let dir = tempfile::tempdir_in(&options.dir)?;
    let candidates = usize::from(options.candidates);
    let measure = |bidders: usize| {
        let store = dir.path().join(format!("{bidders}"));
        award::measure(award::AwardScenario { store, bidders, fanout: FANOUT, tasks: TASKS })
    };
    let (few, many) = (measure(BIDDERS)?, measure(candidates)?);
    let figure = |name: String, awards: &award::AwardFigures| Figure {
        name,
        value: millis(awards.p50),
        unit: "ms",
        detail: format!(
            "p99 {:.2} ms; from the cfp on {:.2} ms; {} commits of the manager",
            millis(awards.p99),
            millis(awards.cfp_p50),
            awards.commits,
        ),
    };
    let added = candidates.saturating_sub(BIDDERS).max(1);
    Ok(vec![
        figure(format!("request to award, {BIDDERS} bidders, p50"), &few),
        figure(format!("the same, {FANOUT} of {candidates} candidates asked, p50"), &many),
        Figure {
            name: "memory of an idle agent".to_owned(),
            value: many.resident.saturating_sub(few.resident) as f64 / added as f64 / 1024.0,
            unit: "KiB",
            detail: format!("{BIDDERS} agents: {:.1} MiB in all", few.resident as f64 / 1_048_576.0),
        },
    ])
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
