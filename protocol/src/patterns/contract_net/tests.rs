#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks for one effect among many")]

mod acceptance;
mod budget;
mod fairness;
mod fixture;
mod queue;
mod random_events;
mod scenarios;
