//! `mesh bench`: what a mesh does on this machine, beside what the bare parts under it do in the same run.
//!
//! A figure alone says what the machine is worth; a ratio says what the mesh costs. So every server under measure runs in
//! a process of its own, the reference among them, and is sent the same bytes by the same generator, in rounds that
//! alternate; what counts is the median of the rounds' ratios. Everything stays on loopback, ends by itself, and leaves
//! nothing behind.
//!
//! In reading order:

mod load;
mod traffic;

mod reference;
mod subject;

mod accept;
mod award;
mod fan_out;
mod up;

mod child;
mod scratch;

mod report;

pub use child::{Program, serve};
pub use report::{Line, Report, Wanted};

use accept::{Case, Kept};
use scratch::Scratch;
use std::path::PathBuf;

/// The threads that serve HTTP, in the mesh and in the reference.
const WORKERS: usize = 2;

/// What is measured, and for how long.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which measures; all of them if empty.
    pub only: Vec<Measure>,
    /// Alternating rounds of each.
    pub rounds: usize,
    /// Requests in one round.
    pub requests: usize,
    /// Connections at once.
    pub connections: usize,
    /// Open conversations in the measure that spreads its messages.
    pub conversations: usize,
    /// Readers of the board's stream.
    pub readers: usize,
    /// Candidates registered in the larger auction.
    pub candidates: usize,
    /// Where stores are put, on the device they are to be measured on.
    pub dir: PathBuf,
    /// How the servers are started.
    pub program: Program,
}

impl Options {
    /// The usual measures, with servers started as `program`.
    pub fn new(program: Program) -> Self {
        Self {
            only: Vec::new(),
            rounds: 9,
            requests: 20_000,
            connections: 64,
            conversations: 64,
            readers: 1_000,
            candidates: 1_000,
            dir: std::env::temp_dir(),
            program,
        }
    }
}

/// One thing to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Measure {
    /// Messages accepted a second.
    Accept,
    /// From a request to its award.
    Award,
    /// One signal to many readers.
    FanOut,
    /// What it takes to start, and to rest.
    Up,
}

/// The tasks given away in each auction measure.
const AWARDS: usize = 200;
/// The bidders of the smaller auction.
const BIDDERS: usize = 10;
/// The peers asked of the larger.
const FANOUT: usize = 16;
/// The signals told to everyone.
const SIGNALS: usize = 20;

/// Measures what `options` ask for, and hands each figure to `each` as soon as it is there.
pub fn run(options: &Options, mut each: impl FnMut(&Line)) -> anyhow::Result<Report> {
    let secret: Vec<u8> =
        [uuid::Uuid::now_v7(), uuid::Uuid::now_v7()].iter().flat_map(|id| id.into_bytes()).collect();
    let mut report = Report::default();
    let mut add = |line: Line| {
        each(&line);
        report.lines.push(line);
    };
    let is_wanted = |measure| options.only.is_empty() || options.only.contains(&measure);
    if is_wanted(Measure::Accept) {
        for (kept, signed, conversations) in [
            (Kept::Memory, false, 1),
            (Kept::Memory, true, 1),
            (Kept::Memory, false, options.conversations),
            (Kept::Embedded, false, 1),
            (Kept::Embedded, true, 1),
            (Kept::Embedded, false, options.conversations),
        ] {
            add(accept::measure(options, &secret, Case { kept, signed, conversations })?);
        }
    }
    if is_wanted(Measure::Award) {
        awards(options, &secret)?.into_iter().for_each(&mut add);
    }
    if is_wanted(Measure::FanOut) {
        let told = fan_out::measure(&options.program, &secret, options.readers, SIGNALS)?;
        add(Line {
            what: format!("one signal to {} readers, p99", options.readers),
            measured: millis(told.p99),
            unit: "ms",
            wanted: Some(Wanted::AtMost(30.0)),
            detail: format!("p50 {:.2} ms", millis(told.p50)),
        });
        add(Line {
            what: "memory of an idle reader".to_owned(),
            measured: told.per_reader as f64 / 1024.0,
            unit: "KiB",
            wanted: Some(Wanted::AtMost(20.0)),
            detail: String::new(),
        });
    }
    if is_wanted(Measure::Up) {
        let up = up::measure(&options.program.path, &options.dir)?;
        add(Line {
            what: "`mesh up`, start to first answer".to_owned(),
            measured: millis(up.first_answer),
            unit: "ms",
            wanted: Some(Wanted::AtMost(200.0)),
            detail: "the demo team, fresh data".to_owned(),
        });
        add(Line {
            what: "`mesh up`, memory at rest".to_owned(),
            measured: up.resident as f64 / 1_048_576.0,
            unit: "MiB",
            wanted: Some(Wanted::AtMost(40.0)),
            detail: String::new(),
        });
    }
    Ok(report)
}

fn awards(options: &Options, secret: &[u8]) -> anyhow::Result<Vec<Line>> {
    let scratch = Scratch::new(&options.dir)?;
    let scene = |bidders: usize| award::Scene {
        store: scratch.path().join(format!("{bidders}")),
        bidders,
        fanout: FANOUT,
        tasks: AWARDS,
        secret: secret.to_vec(),
    };
    let few = award::measure(&options.program, scene(BIDDERS))?;
    let many = award::measure(&options.program, scene(options.candidates))?;
    let detail = |awards: &award::Awards| {
        format!(
            "p99 {:.2} ms; from the calls on {:.2} ms; {} commits in a row, which alone take {:.2} ms",
            millis(awards.p99),
            millis(awards.call_p50),
            awards.commits,
            millis(awards.bare)
        )
    };
    let more = options.candidates.saturating_sub(BIDDERS).max(1);
    Ok(vec![
        Line {
            what: format!("request to award, {BIDDERS} bidders, embedded, p50"),
            measured: millis(few.p50),
            unit: "ms",
            wanted: Some(Wanted::AtMost(3.0)),
            detail: detail(&few),
        },
        Line {
            what: format!("the same, {FANOUT} of {} candidates asked", options.candidates),
            measured: many.p50.as_secs_f64() / few.p50.as_secs_f64(),
            unit: "×",
            wanted: Some(Wanted::AtMost(2.0)),
            detail: format!("p50 {:.2} ms, {}", millis(many.p50), detail(&many)),
        },
        Line {
            what: "memory of an idle agent".to_owned(),
            measured: many.resident.saturating_sub(few.resident) as f64 / more as f64 / 1024.0,
            unit: "KiB",
            wanted: Some(Wanted::AtMost(64.0)),
            detail: format!("{BIDDERS} agents: {:.1} MiB in all", few.resident as f64 / 1_048_576.0),
        },
    ])
}

fn millis(duration: std::time::Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
