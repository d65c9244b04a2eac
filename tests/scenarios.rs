//! Scenarios with the real program on real sockets (SEEDS §9, RELIABILITY §2).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness;

mod scenarios {
    mod a2a;
    mod a2a_clients;
    mod a2a_limits;
    mod acceptance;
    mod agent_address;
    mod approvals;
    mod artifacts;
    mod ask_prompt;
    mod auction;
    mod brains;
    mod briefs;
    mod budgets;
    mod capture;
    mod cassettes;
    mod command_failures;
    mod config;
    mod connections;
    mod coordinator;
    mod coordinator_questions;
    mod crash;
    mod dead_letters;
    mod demo;
    mod demo_models;
    mod foreign;
    mod foreign_bounds;
    mod foreign_credentials;
    mod foreign_unavailable;
    mod grpc;
    mod health;
    mod hitl;
    mod http;
    mod http_brain;
    mod identity;
    mod large_prompts;
    mod large_results;
    mod llm;
    mod llm_bids;
    mod llm_durable;
    mod llm_tools;
    mod mcp;
    mod messages;
    mod metrics;
    mod model_usage;
    mod outbound_calls;
    mod own_agents;
    mod person_token;
    mod principals;
    mod readme;
    mod refusals;
    mod registry;
    mod remote_access;
    mod replay;
    mod replicas;
    mod restart;
    mod route_table;
    mod separate_processes;
    mod service_keys;
    mod sessions;
    mod shutdown;
    mod signals;
    mod spaces;
    mod startup;
    mod subscriptions;
    mod tasks;
    mod terminal;
    mod trace_delivery;
    mod trace_tree;
    mod traces;
    mod turns;
    mod workers;
}
