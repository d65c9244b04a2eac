//! The simulator is tested: it finds every fault that is planted in the engine.

use simulation::{PlantedFault, run_with};

/// How many seeds it may take.
const MOST: u64 = 300;

#[test]
fn every_planted_fault_is_found() {
    let mut missed = Vec::new();
    for fault in PlantedFault::ALL {
        let found = (0..MOST).map(|seed| run_with(*fault, seed)).find(|report| !report.failures.is_empty());
        match found {
            Some(report) => {
                let why =
                    report.failures.first().map(|why| why.lines().next().unwrap_or_default().to_owned());
                println!("{fault:?}: found by seed {}: {}", report.seed, why.unwrap_or_default());
            }
            None => missed.push(*fault),
        }
    }
    assert!(missed.is_empty(), "not found within {MOST} seeds: {missed:?}");
}
