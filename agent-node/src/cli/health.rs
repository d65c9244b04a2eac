//! `mesh health`: what works and what is broken.

use super::{
    Common,
    client::Client,
    exit::{Exit, Failure},
    output::{self, Colour},
};
use clap::Args;
use futures_util::future::join_all;
use protocol::routes;
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(super) struct Health {
    /// Ask only the process at the URL, not the agents it knows: what a container's health check wants.
    #[arg(long)]
    itself: bool,
}

pub(super) async fn health(common: &Common, asked: Health) -> Result<(), Failure> {
    let client = Client::new(common)?;
    let own: Result<Value, Failure> = client.get(&client.url, routes::READY).await;
    if let Err(failure) = &own
        && failure.exit == Exit::Unreachable
    {
        return own.map(|_| ());
    }
    let mut places = vec![("mesh".to_owned(), client.url.clone(), own)];
    if !asked.itself
        && let Ok(agents) = client.agents(None).await
    {
        let asked = agents.iter().map(|entry| client.get::<Value>(&entry.card.endpoint, routes::READY));
        for (entry, answer) in agents.iter().zip(join_all(asked).await) {
            places.push((entry.card.agent_id.to_string(), entry.card.endpoint.clone(), answer));
        }
    }
    let broken = places.iter().filter(|(_, _, answer)| answer.is_err()).count();
    if common.json {
        let all: Vec<_> = places
            .iter()
            .map(|(name, url, answer)| match answer {
                Ok(answer) => json!({ "name": name, "url": url, "ready": true, "says": answer }),
                Err(failure) => {
                    json!({ "name": name, "url": url, "ready": false, "message": failure.message })
                }
            })
            .collect();
        output::json(&json!({ "ready": broken == 0, "places": all }))?;
    } else {
        let rows = places.iter().map(|(name, url, answer)| match answer {
            Ok(_) => vec![name.into(), output::cell("ready", Colour::Green), url.into(), "".into()],
            Err(failure) => {
                vec![
                    name.into(),
                    output::cell("broken", Colour::Red),
                    url.into(),
                    output::plain(&failure.message).into(),
                ]
            }
        });
        output::line(&output::table(&["name", "state", "at", "what"], rows))?;
    }
    match broken {
        0 => Ok(()),
        count => Err(Failure::new(Exit::Failed, format!("{count} of {} are not ready", places.len()))),
    }
}
