//! The `mesh` command: what is asked, and who answers.

pub mod exit;

mod artifacts;
mod ask;
mod award;
mod board;
mod client;
mod dlq;
mod health;
mod join;
mod join_secret;
mod ls;
mod misunderstood;
mod output;
mod places;
mod reaching;
mod reset;
mod serve;
mod settings;
mod stopped;
mod tasks;
mod trace;
mod typed;
mod unknown;
mod validate;
mod watch;

use crate::telemetry::{self, LogFormat};
use clap::{Args, Parser, Subcommand};
use exit::{Exit, Failure};
use std::process::ExitCode;

/// A mesh of agents: any agent takes a task, the contract net awards it, the blackboard tells.
#[derive(Debug, Parser)]
#[command(name = "mesh", version, after_help = exit::TABLE, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    verb: Option<Verb>,
}

/// Where `mesh up` has the registry and the board if it is told nothing else.
const USUAL_URL: &str = "http://127.0.0.1:8000";

/// What every verb takes.
#[derive(Debug, Clone, Args)]
struct Common {
    /// Where the registry and the board are.
    #[arg(
        long,
        global = true,
        env = "MESH_URL",
        hide_env_values = true,
        default_value = USUAL_URL,
        value_parser = client::base_url,
        value_name = "URL"
    )]
    url: String,
    /// Print JSON instead of tables; streams print one object a line.
    #[arg(long, global = true)]
    json: bool,
    /// Which logs to show, such as `info` or `agent_node=debug`; RUST_LOG does the same.
    #[arg(long, global = true, value_name = "FILTER")]
    log: Option<String>,
    /// How logs are written.
    #[arg(long, global = true, value_enum, default_value_t, env = "MESH_LOG")]
    log_format: LogFormat,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run everything in one process: registry, blackboard and agents (the demo team if no file is given).
    Up(serve::Up),
    /// Run agents that join a mesh.
    Node(serve::NodeArgs),
    /// Let a foreign A2A agent join a mesh, by the URL of its card.
    Join(join::Join),
    /// Run a registry.
    Registry(serve::RegistryArgs),
    /// Run a blackboard.
    Blackboard(serve::BlackboardArgs),
    #[command(flatten)]
    Mesh(Asking),
    /// Check agent and team files, or print their JSON Schema.
    Validate(validate::Validate),
    /// Delete a mesh's data, after asking.
    Reset(reset::Reset),
    /// Make the secret that every process of a mesh shares.
    JoinSecret(join_secret::JoinSecret),
    /// Run one of the demo's brains: one JSON line in, JSON lines out.
    Brain(Brain),
}

/// What is asked of a running mesh.
#[derive(Debug, Subcommand)]
enum Asking {
    /// Send a task, follow it, print its artifacts.
    Ask(ask::Ask),
    /// List the agents.
    Ls(ls::Ls),
    /// Show the card an agent is registered with.
    Card(ls::Card),
    /// List, show, watch, cancel or answer tasks.
    Tasks(tasks::Tasks),
    /// Follow the blackboard.
    #[command(subcommand)]
    Board(board::Board),
    /// Explain who got a task, and why.
    #[command(subcommand)]
    Award(award::Award),
    /// Show what happened to a task, agent by agent, with times.
    Trace(trace::Trace),
    /// Messages that were given up: list, show, or send them again.
    Dlq(dlq::Dlq),
    /// Say what works and what is broken.
    Health(health::Health),
}

#[derive(Debug, Args)]
struct Brain {
    /// planner, rest-builder, reviewer or orchestrator.
    name: String,
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let Cli { common, verb } = match misunderstood::parse() {
        Ok(line) => line,
        Err(code) => return code,
    };
    let verb = match verb.map_or_else(|| serve::Up::usual().map(Verb::Up), Ok) {
        Ok(verb) => verb,
        Err(code) => return code,
    };
    let is_server =
        matches!(verb, Verb::Up(_) | Verb::Node(_) | Verb::Join(_) | Verb::Registry(_) | Verb::Blackboard(_));
    let usual = if is_server { "warn" } else { "error" };
    if let Err(problem) = telemetry::start(common.log.as_deref(), usual, common.log_format) {
        let exit = if common.log.is_some() { Exit::Usage } else { Exit::Config };
        return Failure::new(exit, problem).report();
    }
    if is_server {
        unknown::name_unknown();
    }
    let told = match verb {
        Verb::Up(up) => return serve::up(up),
        Verb::Node(node) => return serve::node(node),
        Verb::Join(card) => return join::join(card),
        Verb::Registry(registry) => return serve::registry(registry),
        Verb::Blackboard(blackboard) => return serve::blackboard(blackboard),
        Verb::Brain(Brain { name }) => return crate::demo::run(&name),
        Verb::Validate(validate) => validate::validate(&common, &validate),
        Verb::JoinSecret(asked) => join_secret::join_secret(&asked),
        Verb::Reset(reset) => reset::reset(&reset),
        Verb::Mesh(verb) => actix::System::new().block_on(run(&common, verb)),
    };
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

async fn run(common: &Common, verb: Asking) -> Result<(), Failure> {
    match verb {
        Asking::Ask(ask) => ask::ask(common, ask).await,
        Asking::Ls(list) => ls::ls(common, list).await,
        Asking::Card(card) => ls::card(common, card).await,
        Asking::Tasks(tasks) => tasks::tasks(common, tasks).await,
        Asking::Board(board::Board::Tail(tail)) => board::tail(common, tail).await,
        Asking::Award(award::Award::Explain(explain)) => award::explain(common, explain).await,
        Asking::Trace(trace) => trace::trace(common, trace).await,
        Asking::Dlq(dlq) => dlq::dlq(common, dlq).await,
        Asking::Health(health) => health::health(common, health).await,
    }
}
