#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks for one effect among many")]

mod bench;
mod chaos;
mod fairness;
mod scenarios;
