//! `mesh token`: prints the person's token, which every process of the mesh accepts as a bearer token: of this machine's mesh
//! that `--name` or `--data` names, or else of that one in `~/.mesh` whose process is at `--url`. `mesh token agent ID` makes the
//! token of an agent's own process.

use super::{
    CommonArgs, DEFAULT_URL,
    client::MeshClient,
    data_dir_args::DataDirArgs,
    endpoints::AtArgs,
    exit::{CliError, Exit},
    local_tokens::read_token,
    output,
};
use crate::data_dir;
use clap::{Args, Subcommand};
use protocol::{ids::AgentId, routes};
use serde_json::json;
use transport::http_client::redact_url;

/// `mesh token`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct TokenArgs {
    #[command(flatten)]
    place: DataDirArgs,
    #[command(subcommand)]
    whose: Option<TokenOwner>,
}

#[derive(Debug, Subcommand)]
enum TokenOwner {
    /// Make the token with which the process of an agent registers and speaks (`brain: { peer: {} }`). The one before is void.
    Agent {
        /// The agent's id.
        id: AgentId,
        #[command(flatten)]
        at: AtArgs,
    },
}

pub(super) async fn token(common: &CommonArgs, args: &TokenArgs) -> Result<(), CliError> {
    if let Some(TokenOwner::Agent { id, at }) = &args.whose {
        return of_agent(common, id, at).await;
    }
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
    output::line(&read_token(&dir.join(data_dir::TOKEN), "--name or --data tells where their data lies")?)
}

async fn of_agent(common: &CommonArgs, id: &AgentId, at: &AtArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let endpoint = match at.base() {
        Some(at) => at,
        None => client.card_of(id.as_str()).await?.endpoint.clone(),
    };
    let made = client.post(&endpoint, &format!("{}/token", routes::PEER), &json!({ "agentId": id })).await?;
    output::line(made["token"].as_str().unwrap_or_default())
}
