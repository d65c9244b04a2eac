//! `mesh health`: what works and what is broken.

use super::{
    Common,
    client::Client,
    exit::{Exit, Failure},
    output::{self, Colour},
    places::{self, At, Place},
};
use crate::http::routes::health::Readiness;
use blackboard::http_client::redact_url;
use clap::Args;
use comfy_table::Cell;
use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use std::time::Duration;

/// How long a process may take to say how it is.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub(super) struct Health {
    /// Ask only the process at the URL, not the agents it knows.
    #[arg(long)]
    itself: bool,
    /// The same; once it was ready, only what is its own has to work, whatever else is away: for a container's health check.
    #[arg(long)]
    steady: bool,
    #[command(flatten)]
    at: At,
}

/// A process, and what came of asking it.
struct Asked {
    name: String,
    url: String,
    answer: Result<Readiness, Failure>,
}

pub(super) async fn health(common: &Common, asked: Health) -> Result<(), Failure> {
    let client = Client::new(common)?;
    let mut beyond = Vec::new();
    let mut all = Vec::new();
    if asked.at.base().is_some() {
        for Place { agent, endpoint, .. } in asked.at.places(&client).await? {
            let answer = client.readiness(&endpoint, PATIENCE).await;
            let url = redact_url(&endpoint).into_owned();
            all.push(Asked { name: agent.to_string(), url, answer });
        }
    } else {
        let agents = async {
            match asked.itself || asked.steady {
                true => Vec::new(),
                false => client.agents_within(PATIENCE).await.unwrap_or_default(),
            }
        };
        let (own, agents) = join(client.readiness(&client.url, PATIENCE), agents).await;
        if let Err(failure) = &own
            && failure.exit == Exit::Unreachable
        {
            return own.map(|_| ());
        }
        all.push(Asked { name: "mesh".to_owned(), url: redact_url(&client.url).into_owned(), answer: own });
        let places: Vec<_> = agents.iter().map(|entry| Place::registered(&entry.card)).collect();
        let answers = join_all(places.iter().map(|place| client.readiness(&place.endpoint, PATIENCE))).await;
        for (place, answer) in places.into_iter().zip(answers) {
            let (name, url) = (place.agent.to_string(), place.endpoint.clone());
            beyond.extend(answer.as_ref().is_err_and(|failure| place.is_beyond(failure)).then_some(place));
            all.push(Asked { name, url, answer });
        }
    }
    let broken = all.iter().filter(|place| !place.is_ready(asked.steady)).count();
    if common.json {
        let places: Vec<_> = all.iter().map(Asked::json).collect();
        output::json(&json!({ "ready": broken == 0, "places": places }))?;
    } else {
        output::line(&output::table(
            &["name", "state", "at", "what"],
            all.iter().map(|place| place.row(asked.steady)),
        ))?;
    }
    if broken == 0 {
        return Ok(());
    }
    let hint = match beyond.as_slice() {
        [] => String::new(),
        beyond => format!("; {}", places::beyond(&beyond.iter().collect::<Vec<_>>()).message),
    };
    Err(Failure::new(Exit::Failed, format!("{broken} of {} are not ready{hint}", all.len())))
}

impl Asked {
    fn is_ready(&self, is_steadiness_enough: bool) -> bool {
        self.answer.as_ref().is_ok_and(|told| told.ready || is_steadiness_enough && told.is_steady())
    }

    fn json(&self) -> Value {
        let Self { name, url, answer } = self;
        match answer {
            Ok(told) => json!({ "name": name, "url": url, "ready": told.ready, "says": told }),
            Err(failure) => json!({ "name": name, "url": url, "ready": false, "message": failure.message }),
        }
    }

    fn row(&self, is_steadiness_enough: bool) -> Vec<Cell> {
        let (state, what) = match &self.answer {
            Ok(told) if told.ready => (output::cell("ready", Colour::Green), reasons(told)),
            Ok(told) if is_steadiness_enough && told.is_steady() => {
                (output::cell("steady", Colour::Yellow), reasons(told))
            }
            Ok(told) => (output::cell("broken", Colour::Red), reasons(told)),
            Err(failure) if failure.exit == Exit::Unreachable => {
                (output::cell("no answer", Colour::Yellow), failure.message.clone())
            }
            Err(failure) => (output::cell("broken", Colour::Red), failure.message.clone()),
        };
        vec![self.name.as_str().into(), state, self.url.as_str().into(), output::plain(&what).into()]
    }
}

/// What does not work, by name and why, and which conversations can't go on.
fn reasons(told: &Readiness) -> String {
    let broken = told.checks.iter().filter(|(_, seen)| !seen.ok);
    let broken = broken.map(|(name, seen)| format!("{name}: {}", seen.why.as_deref().unwrap_or("broken")));
    let parked = told.parked.iter().flat_map(|(agent, parked)| {
        let conversations = parked.as_object().into_iter().flatten();
        conversations.map(move |(id, why)| {
            format!(
                "{agent} can't go on with {id}: {}",
                why.as_str().map_or_else(|| why.to_string(), str::to_owned)
            )
        })
    });
    broken.chain(parked).collect::<Vec<_>>().join("; ")
}
