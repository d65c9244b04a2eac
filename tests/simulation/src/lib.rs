//! Many agents, a registry and a board in one thread under virtual time. The agents are the real engine over a store in
//! memory, the board and the registry their own pure rules; brains are scripts, the network loses, doubles and delays.
//!
//! A seed reproduces a run to the byte. After a phase of faults the world heals, and runs on past the longest retention;
//! what must hold is checked on every step that becomes durable, on everything that is performed, and at the end.
//!
//! `SIM_SEEDS=0..5000 cargo test -p simulation --test seeds` runs more seeds, `SIM_SEED=7` one with everything it does.
#![expect(clippy::wildcard_enum_match_arm, reason = "a check looks at what it is about, and at nothing else")]

mod board;
mod brain;
mod observer;
mod peers;
mod plan;
mod random;
mod simulation;
mod store;

pub use engine::faults::PlantedFault;
pub use simulation::{Report, Settings, Survives};

use std::{
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
    sync::Once,
};

/// Runs one seed. A panic of the engine is a failure like any other.
pub fn run(settings: Settings) -> Report {
    quiet_planted_panics();
    engine::faults::panic_on_turns(0);
    engine::faults::fail_steps(0);
    let seed = settings.seed;
    catch_unwind(AssertUnwindSafe(|| simulation::Simulation::new(settings).run())).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let failures = vec![format!("a panic: {}", text.unwrap_or_default())];
        Report {
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

/// Panics that a run plants are no news.
fn quiet_planted_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = take_hook();
        set_hook(Box::new(move |panic| {
            if panic.payload().downcast_ref::<&str>() != Some(&"a planted panic") {
                loud(panic);
            }
        }));
    });
}

/// Runs one seed with `fault` planted in the engine.
pub fn run_with(fault: PlantedFault, seed: u64) -> Report {
    engine::faults::plant(Some(fault));
    let report = run(Settings::of(seed));
    engine::faults::plant(None);
    report
}

impl std::fmt::Display for Report {
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
