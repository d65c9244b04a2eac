//! `mesh dlq`: lists, shows and redrives dead letters.

use super::{
    CommonArgs,
    client::{MeshClient, encoded},
    endpoints::{self, AgentEndpoint, AtArgs},
    exit::{CliError, Exit},
    output,
};
use clap::{Args, Subcommand};
use protocol::{problem::Reason, routes};
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(super) struct DlqArgs {
    #[command(subcommand)]
    verb: Option<DlqVerb>,
    #[command(flatten)]
    at: AtArgs,
}

#[derive(Debug, Subcommand)]
enum DlqVerb {
    /// List them.
    #[command(visible_alias = "list")]
    Ls,
    /// Show one, with its message.
    Show { id: String },
    /// Send one again.
    Redrive { id: String },
}

pub(super) async fn dlq(common: &CommonArgs, dlq: DlqArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let endpoints = dlq.at.endpoints(&client).await?;
    match dlq.verb.unwrap_or(DlqVerb::Ls) {
        DlqVerb::Ls => ls(common, &client, &endpoints).await,
        DlqVerb::Show { id } => output::json(&find(&client, &endpoints, &id).await?.1),
        DlqVerb::Redrive { id } => {
            let (endpoint, _) = find(&client, &endpoints, &id).await?;
            let path = format!("{}/{}/redrive", routes::DEAD_LETTERS, encoded(&id));
            let answer = client.post(&endpoint, &path, &json!({})).await?;
            if common.json { output::json(&answer) } else { output::line(&format!("{id} is sent again")) }
        }
    }
}

async fn ls(common: &CommonArgs, client: &MeshClient, endpoints: &[AgentEndpoint]) -> Result<(), CliError> {
    let (mut all, mut has_more) = (Vec::new(), false);
    for (agent, answer) in endpoints::get_all(client, endpoints, routes::DEAD_LETTERS).await? {
        has_more |= answer["next"].is_string();
        all.extend(answer["deadLetters"].as_array().into_iter().flatten().map(|letter| {
            let mut letter = letter.clone();
            if let Some(members) = letter.as_object_mut() {
                members.insert("agentId".into(), json!(agent));
            }
            letter
        }));
    }
    if common.json {
        return output::json(&json!({ "deadLetters": all }));
    }
    if all.is_empty() {
        return output::line("no dead letters");
    }
    let members = ["messageId", "agentId", "to", "type", "reason", "at", "message"];
    let rows = all.iter().map(|letter| {
        let text = |name: &&str| match (&letter[*name], letter[*name].as_str()) {
            (_, Some(text)) => output::plain(text),
            (Value::Null, None) => "-".to_owned(),
            (other, None) => other.to_string(),
        };
        members.iter().map(text).map(Into::into).collect()
    });
    output::line(&output::table(&["message", "from", "to", "type", "reason", "at", "why"], rows))?;
    if has_more { output::line("…and later ones: an agent lists its oldest 1,000") } else { Ok(()) }
}

async fn find(
    client: &MeshClient,
    endpoints: &[AgentEndpoint],
    id: &str,
) -> Result<(String, Value), CliError> {
    let path = format!("{}/{}", routes::DEAD_LETTERS, encoded(id));
    let mut error = None;
    for (endpoint, answer) in endpoints::get_each(client, endpoints, &path).await {
        match answer {
            Ok(letter) => return Ok((endpoint.endpoint.clone(), letter)),
            Err(failure) if failure.reason == Some(Reason::MessageNotFound) => {}
            Err(failure) => error = Some(endpoint.explain(failure)),
        }
    }
    let not_found = || CliError::new(Exit::Refused, format!("no dead letter {id} (message_not_found)"));
    Err(error.unwrap_or_else(not_found))
}
