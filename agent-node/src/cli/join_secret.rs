//! `mesh join-secret`: creates the secret that all processes of a mesh share.

use super::{
    exit::{CliError, Exit},
    output,
};
use crate::{data_dir, telemetry::format_line};
use clap::Args;
use std::path::PathBuf;

/// `mesh join-secret --init FILE`.
#[derive(Debug, Args)]
pub(super) struct JoinSecretArgs {
    /// Write a random secret into this file, for its owner's eyes only, if it is not there yet; never over another.
    #[arg(long, value_name = "FILE")]
    init: PathBuf,
}

pub(super) fn join_secret(args: &JoinSecretArgs) -> Result<(), CliError> {
    let file = &args.init;
    let existed = file.exists();
    let new_dir = file.parent().filter(|dir| !dir.as_os_str().is_empty() && !dir.exists());
    if let Some(dir) = new_dir {
        data_dir::create(dir).map_err(|error| CliError::new(Exit::Store, format!("{error:#}")))?;
    }
    data_dir::read_or_create_secret(file)
        .map_err(|error| CliError::new(Exit::Config, format!("{error:#}")))?;
    let what = match (existed, new_dir) {
        (true, _) => format!("{} holds a secret already; it stays", file.display()),
        (false, None) => format!("{} holds a new secret", file.display()),
        (false, Some(dir)) => {
            format!("{} holds a new secret; {} was not there and was made", file.display(), dir.display())
        }
    };
    output::line(&format_line(tracing::Level::INFO, &what))
}
