//! `mesh dlq`: messages that were given up, and another try for them.

use super::{
    Common,
    client::{Client, encoded},
    exit::{Exit, Failure},
    output,
    places::{self, At, Place},
};
use clap::{Args, Subcommand};
use protocol::{problem::Reason, routes};
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(super) struct Dlq {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    at: At,
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
    let places = dlq.at.places(&client).await?;
    match dlq.verb.unwrap_or(Verb::Ls) {
        Verb::Ls => ls(common, &client, &places).await,
        Verb::Show { id } => output::json(&find(&client, &places, &id).await?.1),
        Verb::Redrive { id } => {
            let (endpoint, _) = find(&client, &places, &id).await?;
            let path = format!("{}/{}/redrive", routes::DEAD_LETTERS, encoded(&id));
            let answer = client.post(&endpoint, &path, &json!({})).await?;
            if common.json { output::json(&answer) } else { output::line(&format!("{id} is sent again")) }
        }
    }
}

async fn ls(common: &Common, client: &Client, places: &[Place]) -> Result<(), Failure> {
    let mut all = Vec::new();
    for (agent, answer) in places::all(client, places, routes::DEAD_LETTERS).await? {
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
    output::line(&output::table(&["message", "from", "to", "type", "reason", "at", "why"], rows))
}

async fn find(client: &Client, places: &[Place], id: &str) -> Result<(String, Value), Failure> {
    let path = format!("{}/{}", routes::DEAD_LETTERS, encoded(id));
    let mut other = None;
    for (place, answer) in places::ask(client, places, &path).await {
        match answer {
            Ok(letter) => return Ok((place.endpoint.clone(), letter)),
            Err(failure) if failure.reason == Some(Reason::MessageNotFound) => {}
            Err(failure) => other = Some(place.explain(failure)),
        }
    }
    let nowhere = || Failure::new(Exit::Refused, format!("no dead letter {id} (message_not_found)"));
    Err(other.unwrap_or_else(nowhere))
}
