//! The `mesh` command.

use std::process::ExitCode;

/// A message is many small allocations that change threads: with this one, acceptance gains about a tenth against bare
/// HTTP (`cargo run --release -p bench accept`), for some 10 MiB at rest.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    agent_node::cli::main()
}
