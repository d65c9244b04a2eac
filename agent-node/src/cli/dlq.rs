//! `mesh dlq`: messages that were given up, and another try for them.

use super::{
    Common,
    client::{Client, encoded},
    exit::{Exit, Failure},
    output,
};
use clap::{Args, Subcommand};
use futures_util::future::join_all;
use protocol::routes;
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(super) struct Dlq {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List them.
    Ls,
    /// Show one, with its message.
    Show { id: String },
    /// Send one again.
    Redrive { id: String },
}

pub(super) async fn dlq(common: &Common, dlq: Dlq) -> Result<(), Failure> {
    let client = Client::new(common)?;
    match dlq.verb.unwrap_or(Verb::Ls) {
        Verb::Ls => ls(common, &client).await,
        Verb::Show { id } => output::json(&find(&client, &id).await?.1),
        Verb::Redrive { id } => {
            let (endpoint, _) = find(&client, &id).await?;
            let path = format!("{}/{}/redrive", routes::DEAD_LETTERS, encoded(&id));
            let answer = client.post(&endpoint, &path, &json!({})).await?;
            if common.json { output::json(&answer) } else { output::line(&format!("{id} is sent again")) }
        }
    }
}

async fn ls(common: &Common, client: &Client) -> Result<(), Failure> {
    let agents = client.agents(None).await?;
    let asked = agents.iter().map(|entry| client.get::<Value>(&entry.card.endpoint, routes::DEAD_LETTERS));
    let mut all = Vec::new();
    for (entry, answer) in agents.iter().zip(join_all(asked).await) {
        match answer {
            Ok(answer) => all.extend(answer["deadLetters"].as_array().into_iter().flatten().map(|letter| {
                let mut letter = letter.clone();
                if let Some(members) = letter.as_object_mut() {
                    members.insert("agentId".into(), json!(entry.card.agent_id));
                }
                letter
            })),
            Err(failure) => {
                output::note(&format!("mesh: {} is left out: {}", entry.card.agent_id, failure.message))
            }
        }
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
    output::line(&output::table(&["message", "from", "to", "type", "reason", "at", "why"], rows))
}

async fn find(client: &Client, id: &str) -> Result<(String, Value), Failure> {
    let path = format!("{}/{}", routes::DEAD_LETTERS, encoded(id));
    let agents = client.agents(None).await?;
    let asked = agents.iter().map(|entry| client.get::<Value>(&entry.card.endpoint, &path));
    let mut other = None;
    for (entry, answer) in agents.iter().zip(join_all(asked).await) {
        match answer {
            Ok(letter) => return Ok((entry.card.endpoint.clone(), letter)),
            Err(failure) if failure.message.contains("_not_found)") => {}
            Err(failure) => other = Some(failure),
        }
    }
    let nowhere = || Failure::new(Exit::Refused, format!("no dead letter {id} (message_not_found)"));
    Err(other.unwrap_or_else(nowhere))
}
