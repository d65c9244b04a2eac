//! Many agents, a registry and a board in one thread under virtual time. The agents run the real engine over a store in
//! memory; the board and the registry run their own pure rules. Brains are scripts. The network loses, duplicates and
//! delays messages.
//!
//! A seed reproduces a run to the byte. Faults end at a fixed time; the run continues past the longest retention.
//! Invariants are checked on every durable step, on every performed effect, and at the end.
//!
//! `SIM_SEEDS=0..5000 cargo test -p simulation --test seeds` runs more seeds, `SIM_SEED=7` runs one and prints its events.
mod plan;
mod random;

mod simulation;

mod board;
mod brain;
mod registry;
mod store;

mod invariants;

pub use simulation::{CommitSurvival, RunReport, RunSettings};

use std::{
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
    sync::Once,
};

/// Runs one seed. A panic of the engine is reported as a failure.
pub fn run(settings: RunSettings) -> RunReport {
    silence_panics_of_rules();
    let seed = settings.seed;
    catch_unwind(AssertUnwindSafe(|| simulation::Simulation::new(settings).run())).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let failures = vec![format!("a panic: {}", text.unwrap_or_default())];
        RunReport {
            seed,
            hash: 0,
            inputs: 0,
            commits: 0,
            steps: 0,
            crashes: 0,
            tasks: 0,
            failures,
            tail: Vec::new(),
        }
    })
}

/// Keeps the panics that a run plans out of the output.
fn silence_panics_of_rules() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = take_hook();
        set_hook(Box::new(move |panic| {
            if panic.payload().downcast_ref::<&str>() != Some(&simulation::RULE_PANIC) {
                print(panic);
            }
        }));
    });
}

impl std::fmt::Display for RunReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seed, hash, inputs, commits: _, steps, crashes, tasks, failures, tail } = self;
        write!(
            f,
            "seed {seed}: hash {hash:016x}, {inputs} inputs, {steps} steps, {crashes} crashes, {tasks} tasks"
        )?;
        if failures.is_empty() {
            return Ok(());
        }
        writeln!(f, "; run it alone with SIM_SEED={seed}")?;
        tail.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        failures.iter().try_for_each(|failure| writeln!(f, "seed {seed}: {failure}"))
    }
}
