//! `mesh token`: prints the person's token, which every process of the mesh accepts as a bearer token: of this machine's mesh
//! that `--name` or `--data` names, or else of that one in `~/.mesh` whose process is at `--url`.

use super::{
    CommonArgs, DEFAULT_URL,
    client::MeshClient,
    exit::{CliError, Exit},
    output,
    processes::DataDirArgs,
};
use crate::{http::edge::tokens::PERSON_PREFIX, node::data_dir};
use blackboard::http_client::redact_url;
use clap::Args;
use std::path::Path;

/// `mesh token`.
#[derive(Debug, Args)]
pub(super) struct TokenArgs {
    #[command(flatten)]
    place: DataDirArgs,
}

pub(super) async fn token(common: &CommonArgs, args: &TokenArgs) -> Result<(), CliError> {
    if !args.place.is_named() {
        let client = MeshClient::new(common)?;
        if let Some(token) = client.token(&client.url).await {
            return output::line(&token);
        }
        if common.url != DEFAULT_URL {
            let message = format!(
                "no mesh in ~/.mesh is at {}: --name or --data tells where the data of that mesh lies",
                redact_url(&client.url)
            );
            return Err(CliError::new(Exit::Secret, message));
        }
    }
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
