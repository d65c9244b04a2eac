//! The command line: what was asked for, and which file does it.

mod serve;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// A peer-to-peer mesh of agents: any agent takes a task, the contract net awards it, the blackboard tells.
#[derive(Debug, Parser)]
#[command(name = "mesh", version)]
struct Mesh {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Registry, blackboard and agents in one process; the demo team if no file is given.
    Up(serve::Up),
    /// Agents whose registry and blackboard are elsewhere.
    Node(serve::NodeArgs),
    /// A registry of its own.
    Registry(serve::RegistryArgs),
    /// A blackboard of its own.
    Blackboard(serve::BlackboardArgs),
    /// One turn of a demo brain: a question on standard input, its answer on standard output.
    #[command(hide = true)]
    Brain {
        /// Which.
        name: String,
        /// How the rest-builder works: thorough or quick.
        #[arg(long)]
        style: Option<String>,
    },
}

/// Runs what the command line asks for.
pub fn main() -> ExitCode {
    match Mesh::parse().verb.unwrap_or_else(|| Verb::Up(serve::Up::default())) {
        Verb::Up(up) => serve::up(up),
        Verb::Node(node) => serve::node(node),
        Verb::Registry(registry) => serve::registry(registry),
        Verb::Blackboard(blackboard) => serve::blackboard(blackboard),
        Verb::Brain { name, style } => crate::demo::run(&name, style.as_deref()),
    }
}
