//! `mesh token`: prints the person's token, which every process of the mesh accepts as a bearer token. It reads the file of this
//! machine's mesh that `--name` or `--data` names, whatever `--url` is.

use super::{
    exit::{CliError, Exit},
    output,
    processes::DataDirArgs,
};
use crate::{http::edge::tokens::PERSON_PREFIX, node::data_dir};
use clap::Args;
use std::path::{Path, PathBuf};

/// `mesh token`.
#[derive(Debug, Args)]
pub(super) struct TokenArgs {
    #[command(flatten)]
    place: DataDirArgs,
}

pub(super) fn token(args: &TokenArgs) -> Result<(), CliError> {
    let dir = args.place.dir().map_err(|error| CliError::new(Exit::Usage, format!("{error:#}")))?;
    output::line(&read(&dir.join(data_dir::TOKEN), "--name or --data tells where their data lies")?)
}

/// The token in `file`; `remedy` says how another file is named.
pub(super) fn read(file: &Path, remedy: &str) -> Result<String, CliError> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        let message = format!(
            "{} can't be read ({error}): `mesh up` or `mesh registry` makes it at the first start; {remedy}",
            file.display()
        );
        CliError::new(Exit::Secret, message)
    })?;
    let token = text.trim();
    match token.starts_with(PERSON_PREFIX) {
        true => Ok(token.to_owned()),
        false => Err(CliError::new(
            Exit::Secret,
            format!(
                "{} holds no token of a mesh: remove it, and the next start of `mesh up` or `mesh registry` makes one; {remedy}",
                file.display()
            ),
        )),
    }
}

/// The token of the mesh in `~/.mesh/default`, if there is one.
pub(super) fn of_default_mesh() -> Option<String> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty())?;
    read(&PathBuf::from(home).join(".mesh/default").join(data_dir::TOKEN), "").ok()
}
