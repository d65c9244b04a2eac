//! Every promise of the README, on real sockets, with the real program (SEEDS §9, RELIABILITY §2).

#![expect(clippy::unwrap_used, reason = "a test that can't go on says so by panicking")]

mod harness;

mod scenarios {
    mod a2a;
    mod a2a_limits;
    mod a2a_strangers;
    mod artifacts;
    mod auction;
    mod capture;
    mod command;
    mod config;
    mod crash;
    mod dead_letters;
    mod demo;
    mod elsewhere;
    mod foreign;
    mod foreign_away;
    mod foreign_bounds;
    mod foreign_hosts;
    mod grpc;
    mod health;
    mod http;
    mod joint;
    mod joint_questions;
    mod large_results;
    mod leave;
    mod messages;
    mod metrics;
    mod reach;
    mod readme;
    mod refusals;
    mod registry;
    mod replay;
    mod replicas;
    mod restart;
    mod separate;
    mod signals;
    mod start;
    mod subscriptions;
    mod tasks;
    mod trace_delivery;
    mod trace_tree;
    mod traces;
}
