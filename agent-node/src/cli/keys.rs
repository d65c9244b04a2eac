//! `mesh keys`: lists the keys that the registry has pinned, replaces the key of an agent, gives one up.

use super::{
    CommonArgs,
    client::{MeshClient, encoded},
    data_dir_args::DataDirArgs,
    endpoints::AtArgs,
    exit::{CliError, Exit},
    output,
    reset::data_dirs,
};
use crate::services::ServiceAddresses;
use clap::{Args, Subcommand};
use protocol::{
    identity::{KeyHistory, PublicIdentity},
    ids::AgentId,
    routes,
    time::WallTime,
};
use registry::pinned_keys::PinnedKey;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use transport::http_client::redact_url;

#[derive(Debug, Args)]
pub(super) struct KeysArgs {
    #[command(subcommand)]
    verb: Option<KeysVerb>,
    #[command(flatten)]
    at: AtArgs,
}

#[derive(Debug, Subcommand)]
enum KeysVerb {
    /// List which key each id has.
    Ls,
    /// Replace the key of a running agent, of the registry or of the board. Tasks go on.
    Rotate {
        /// The agent's id; `registry`, `board`.
        id: AgentId,
    },
    /// Give up the key of an id, so that the next process that registers under it pins its own: after the loss of a key file.
    Reset {
        /// The agent's id; `registry` or `board` for the key that the processes of a data directory have pinned.
        id: AgentId,
        #[command(flatten)]
        place: DataDirArgs,
    },
}

/// The answer to `GET /registry/keys`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PinnedKeyList {
    pub(super) registry: Option<PublicIdentity>,
    #[serde(default, skip_serializing_if = "KeyHistory::is_empty")]
    pub(super) history: KeyHistory,
    pub(super) keys: Vec<PinnedKey>,
}

pub(super) async fn keys(common: &CommonArgs, args: KeysArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    match args.verb.unwrap_or(KeysVerb::Ls) {
        KeysVerb::Ls => ls(common, &client).await,
        KeysVerb::Rotate { id } => {
            let endpoint = match args.at.base() {
                Some(at) => at,
                None if id.as_str() == "registry" => client.url.clone(),
                None if id.as_str() == "board" => board_url(&client).await?,
                None => client.card_of(id.as_str()).await?.endpoint.clone(),
            };
            let path = format!("{}/{}/rotate", routes::OWN_KEYS, encoded(id.as_str()));
            let answer = client.post(&endpoint, &path, &json!({})).await?;
            done(common, &answer, &format!("{id} has a new key"))
        }
        KeysVerb::Reset { id, place } if id.is_reserved() => reset_service(&id, &place),
        KeysVerb::Reset { id, .. } => {
            let path = format!("{}/{}/reset", routes::REGISTRY_KEYS, encoded(id.as_str()));
            let answer = client.post(&client.url, &path, &json!({})).await?;
            done(
                common,
                &answer,
                &format!("{id} has no key; the next process that registers under it pins its own"),
            )
        }
    }
}

/// The board's base URL, as the process at `--url` knows it.
async fn board_url(client: &MeshClient) -> Result<String, CliError> {
    let services: ServiceAddresses = client.get(&client.url, routes::SERVICES).await?;
    services.board_from(&client.url).ok_or_else(|| {
        CliError::new(
            Exit::Failed,
            format!("{} knows no board; --at says where it is", redact_url(&client.url)),
        )
    })
}

fn done(common: &CommonArgs, answer: &Value, text: &str) -> Result<(), CliError> {
    if common.json { output::json(answer) } else { output::line(text) }
}

async fn ls(common: &CommonArgs, client: &MeshClient) -> Result<(), CliError> {
    let list: PinnedKeyList = client.get(&client.url, routes::REGISTRY_KEYS).await?;
    if common.json {
        return output::json(&list);
    }
    let registry = list
        .registry
        .iter()
        .map(|registry| vec!["registry".into(), registry.fingerprint().into(), "".into()]);
    let rows = list.keys.iter().map(|pin| {
        let key = pin.identity.as_ref().map_or_else(|| "none: reset".to_owned(), PublicIdentity::fingerprint);
        let since = i64::try_from(pin.number).map_or_else(|_| String::new(), |at| WallTime(at).to_string());
        vec![pin.id.as_str().into(), key.into(), since.into()]
    });
    output::line(&output::table(&["id", "key", "since"], registry.chain(rows)))
}

/// Removes the key of a service that the processes of a data directory have pinned.
fn reset_service(id: &AgentId, place: &DataDirArgs) -> Result<(), CliError> {
    let name = if id.as_str() == "registry" { "registry" } else { "board" };
    let dir = place.dir().map_err(|error| CliError::new(Exit::Usage, format!("{error:#}")))?;
    let mut removed = 0;
    for dir in data_dirs(&dir)? {
        let file = dir.join("keys").join(format!("{name}.pinned"));
        match std::fs::remove_file(&file) {
            Ok(()) => {
                removed += 1;
                output::line(&format!("{} is removed", file.display()))?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(CliError::new(Exit::Failed, format!("{} stays: {error}", file.display())));
            }
        }
    }
    match removed {
        0 => Err(CliError::new(
            Exit::Failed,
            format!(
                "no process in {} has pinned a key of the {name}; --data names its directory",
                dir.display()
            ),
        )),
        _ => Ok(()),
    }
}
