//! `mesh join-secret`: makes the secret that every process of a mesh shares, once.

use super::{
    exit::{Exit, Failure},
    output,
};
use crate::{node::home, telemetry::format_line};
use clap::Args;
use std::path::PathBuf;

/// `mesh join-secret --init FILE`.
#[derive(Debug, Args)]
pub(super) struct JoinSecret {
    /// Write a random secret into this file, for its owner's eyes only, if it is not there yet; never over another.
    #[arg(long, value_name = "FILE")]
    init: PathBuf,
}

pub(super) fn join_secret(asked: &JoinSecret) -> Result<(), Failure> {
    let file = &asked.init;
    let was_there = file.exists();
    let new_folder = file.parent().filter(|dir| !dir.as_os_str().is_empty() && !dir.exists());
    if let Some(dir) = new_folder {
        home::make(dir).map_err(|error| Failure::new(Exit::Store, format!("{error:#}")))?;
    }
    home::secret(file).map_err(|error| Failure::new(Exit::Config, format!("{error:#}")))?;
    let what = match (was_there, new_folder) {
        (true, _) => format!("{} holds a secret already; it stays", file.display()),
        (false, None) => format!("{} holds a new secret", file.display()),
        (false, Some(dir)) => {
            format!("{} holds a new secret; {} was not there and was made", file.display(), dir.display())
        }
    };
    output::line(&format_line(tracing::Level::INFO, &what))
}
