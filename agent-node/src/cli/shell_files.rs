//! `mesh completions` and `mesh man`: what a shell and `man` read about the command line.

use super::{
    exit::{CliError, Exit},
    output,
};
use clap::{Args, Command};
use clap_complete::Shell;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// Where they are written, as `mesh.1`, `mesh-ask.1` and so on; it is made if it is not there.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Prints the completions of `command`.
pub(super) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "mesh", &mut script);
    output::bytes(&script)
}

/// Writes the man pages of `command` and of its verbs.
pub(super) fn man(args: &ManArgs, command: Command) -> Result<(), CliError> {
    let dir = args.dir.display();
    let written =
        std::fs::create_dir_all(&args.dir).and_then(|()| clap_mangen::generate_to(command, &args.dir));
    written.map_err(|error| CliError::new(Exit::Failed, format!("{dir} can't be written: {error}")))?;
    output::line(&format!("the man pages are in {dir}; `man {dir}/mesh.1` shows the first"))
}
