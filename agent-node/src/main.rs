//! The `mesh` command.

use std::process::ExitCode;

/// A message makes many small allocations that move between threads. mimalloc accepts about a tenth more messages per
/// second (`cargo run --release -p bench accept`), for some 10 MiB of memory at rest.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    agent_node::cli::main()
}
