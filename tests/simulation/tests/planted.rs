//! The simulation finds every fault that can be planted in the engine.

use simulation::{PlantedFault, run_with};

/// The seeds that are tried for each fault.
const SEEDS: u64 = 500;

#[test]
fn every_planted_fault_is_found() {
    let mut missed = Vec::new();
    for fault in PlantedFault::ALL {
        let found = (0..SEEDS).map(|seed| run_with(*fault, seed)).find(|report| !report.failures.is_empty());
        match found {
            Some(report) => {
                let failure = report.failures.first().and_then(|text| text.lines().next());
                println!("{fault:?}: found by seed {}: {}", report.seed, failure.unwrap_or_default());
            }
            None => missed.push(*fault),
        }
    }
    assert!(missed.is_empty(), "not found within {SEEDS} seeds: {missed:?}");
}
