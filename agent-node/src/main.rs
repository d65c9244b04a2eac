//! The `mesh` command.

use std::process::ExitCode;

/// A message makes many small allocations that move between threads. mimalloc accepts about a tenth more messages per
/// second (`cargo run --release -p bench accept`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    agent_node::cli::main()
}
