//! The `mesh` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    agent_node::cli::main()
}
