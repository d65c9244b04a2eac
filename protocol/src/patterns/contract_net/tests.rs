#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks for one effect among many")]

mod chaos;
mod fairness;
mod fixture;
mod scenarios;
