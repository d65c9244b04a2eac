//! Runs of many seeds.

use simulation::{CommitSurvival, RunSettings, run};
use std::{
    env,
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

/// The commits of a run without other faults that an agent may crash at; all work is done by the last one.
const CRASH_POINTS: u64 = 400;

/// So many failed runs are printed; then no more begin.
const SHOWN: usize = 3;

/// The seeds to run: `SIM_SEEDS=from..to`, by default the first five hundred.
fn seeds() -> Range<u64> {
    let text = env::var("SIM_SEEDS").unwrap_or_else(|_| "0..500".to_owned());
    let parsed = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    parsed.unwrap_or_else(|| panic!("SIM_SEEDS is from..to, got {text:?}"))
}

#[test]
fn every_seed_keeps_every_invariant() {
    if let Ok(seed) = env::var("SIM_SEED") {
        let seed = seed.parse().expect("SIM_SEED is a number");
        let report = run(RunSettings { is_traced: true, ..RunSettings::of(seed) });
        println!("{report}");
        assert!(report.failures.is_empty());
        return;
    }
    let seeds = seeds();
    let workers = thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let failures = AtomicUsize::new(0);
    let work = |worker: u64| {
        let own = seeds.clone().filter(|seed| seed % workers == worker);
        let until_some_fail = own.take_while(|_| failures.load(Relaxed) < SHOWN);
        let reports = until_some_fail.map(|seed| run(RunSettings::of(seed)));
        reports
            .inspect(|report| {
                failures.fetch_add(usize::from(!report.failures.is_empty()), Relaxed);
            })
            .collect::<Vec<_>>()
    };
    let reports: Vec<_> = thread::scope(|scope| {
        let all: Vec<_> = (0..workers).map(|worker| scope.spawn(move || work(worker))).collect();
        all.into_iter().flat_map(|worker| worker.join().expect("a worker")).collect()
    });
    let sum = |of: fn(&simulation::RunReport) -> u64| reports.iter().map(of).sum::<u64>();
    let (inputs, steps) = (sum(|report| report.inputs), sum(|report| report.steps));
    let (crashes, tasks) = (sum(|report| report.crashes), sum(|report| report.tasks));
    let hash = reports.iter().fold(0, |hash, report| hash ^ report.hash);
    println!(
        "{} seeds, hash {hash:016x}: {inputs} inputs, {steps} steps, {crashes} crashes, {tasks} tasks",
        reports.len()
    );
    let failed: Vec<_> = reports.iter().filter(|report| !report.failures.is_empty()).collect();
    for report in failed.iter().take(SHOWN) {
        println!("{report}");
    }
    let names: Vec<_> = failed.iter().map(|report| report.seed.to_string()).collect();
    assert!(failed.is_empty(), "{} seeds failed: {}", names.len(), names.join(", "));
    assert!(steps > 100 * reports.len() as u64 && tasks > reports.len() as u64, "too little happens");
}

#[test]
fn a_seed_reproduces_a_run_to_the_byte() {
    for seed in 0..20 {
        let (first, again) = (run(RunSettings::of(seed)), run(RunSettings::of(seed)));
        assert_eq!(first, again);
    }
    assert_ne!(run(RunSettings::of(0)).hash, run(RunSettings::of(1)).hash);
}

#[test]
fn an_agent_may_crash_at_every_commit() {
    let calm = |only_crash| {
        let settings = RunSettings::of(0);
        run(RunSettings { only_crash: Some(only_crash), has_acceptance: true, ..settings })
    };
    let commits = calm((0, CommitSurvival::Lost)).commits;
    assert!(commits > 100, "{commits} commits");
    let mut failed = Vec::new();
    for at in 1..=CRASH_POINTS.min(commits) {
        for survives in [CommitSurvival::Lost, CommitSurvival::Kept] {
            let report = calm((at, survives));
            assert!(report.crashes <= 1);
            if !report.failures.is_empty() {
                println!("crash at commit {at}, {survives:?} survives: {report}");
                failed.push((at, survives));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
