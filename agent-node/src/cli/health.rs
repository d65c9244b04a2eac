//! `mesh health`: the readiness of the processes of a mesh.

use super::{
    CommonArgs,
    client::MeshClient,
    endpoints::{self, AgentEndpoint, AtArgs},
    exit::{CliError, Exit},
    output::{self, Colour},
};
use crate::http::routes::health::Readiness;
use clap::Args;
use comfy_table::Cell;
use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use std::time::Duration;
use transport::http_client::redact_url;

/// How long a process may take to answer.
const TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub(super) struct HealthArgs {
    /// Ask only the process at the URL, not the agents it knows.
    #[arg(long)]
    itself: bool,
    /// The same; once it was ready, only what is its own has to work, whatever else is away: for a container's health check.
    #[arg(long)]
    steady: bool,
    #[command(flatten)]
    at: AtArgs,
}

/// A process and its readiness.
struct ProcessHealth {
    name: String,
    url: String,
    answer: Result<Readiness, CliError>,
}

pub(super) async fn health(common: &CommonArgs, args: HealthArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let mut unreachable = Vec::new();
    let mut all = Vec::new();
    if args.at.base().is_some() {
        for AgentEndpoint { agent, endpoint, .. } in args.at.endpoints(&client).await? {
            let answer = client.readiness(&endpoint, TIMEOUT).await;
            let url = redact_url(&endpoint).into_owned();
            all.push(ProcessHealth { name: agent.to_string(), url, answer });
        }
    } else {
        let agents = async {
            match args.itself || args.steady {
                true => Vec::new(),
                false => client.agents_within(TIMEOUT).await.unwrap_or_default(),
            }
        };
        let (own, agents) = join(client.readiness(&client.url, TIMEOUT), agents).await;
        if let Err(failure) = &own
            && failure.exit == Exit::Unreachable
        {
            return own.map(|_| ());
        }
        all.push(ProcessHealth {
            name: "mesh".to_owned(),
            url: redact_url(&client.url).into_owned(),
            answer: own,
        });
        let endpoints: Vec<_> = agents.iter().map(|entry| AgentEndpoint::registered(&entry.card)).collect();
        let answers =
            join_all(endpoints.iter().map(|endpoint| client.readiness(&endpoint.endpoint, TIMEOUT))).await;
        for (endpoint, answer) in endpoints.into_iter().zip(answers) {
            let (name, url) = (endpoint.agent.to_string(), endpoint.endpoint.clone());
            unreachable.extend(
                answer
                    .as_ref()
                    .is_err_and(|failure| endpoint.is_unreachable_address(failure))
                    .then_some(endpoint),
            );
            all.push(ProcessHealth { name, url, answer });
        }
    }
    let broken = all.iter().filter(|process| !process.is_ready(args.steady)).count();
    if common.json {
        let processes: Vec<_> = all.iter().map(ProcessHealth::json).collect();
        output::json(&json!({ "ready": broken == 0, "places": processes }))?;
    } else {
        output::line(&output::table(
            &["name", "state", "at", "what"],
            all.iter().map(|process| process.row(args.steady)),
        ))?;
    }
    if broken == 0 {
        return Ok(());
    }
    let hint = match unreachable.as_slice() {
        [] => String::new(),
        unreachable => {
            format!("; {}", endpoints::unreachable_error(&unreachable.iter().collect::<Vec<_>>()).message)
        }
    };
    Err(CliError::new(Exit::Failed, format!("{broken} of {} are not ready{hint}", all.len())))
}

impl ProcessHealth {
    fn is_ready(&self, accepts_steady: bool) -> bool {
        self.answer.as_ref().is_ok_and(|readiness| readiness.ready || accepts_steady && readiness.is_steady())
    }

    fn json(&self) -> Value {
        let Self { name, url, answer } = self;
        match answer {
            Ok(readiness) => json!({ "name": name, "url": url, "ready": readiness.ready, "says": readiness }),
            Err(failure) => json!({ "name": name, "url": url, "ready": false, "message": failure.message }),
        }
    }

    fn row(&self, accepts_steady: bool) -> Vec<Cell> {
        let (state, what) = match &self.answer {
            Ok(readiness) if readiness.ready => (output::cell("ready", Colour::Green), reasons(readiness)),
            Ok(readiness) if accepts_steady && readiness.is_steady() => {
                (output::cell("steady", Colour::Yellow), reasons(readiness))
            }
            Ok(readiness) => (output::cell("broken", Colour::Red), reasons(readiness)),
            Err(failure) if failure.exit == Exit::Unreachable => {
                (output::cell("no answer", Colour::Yellow), failure.message.clone())
            }
            Err(failure) => (output::cell("broken", Colour::Red), failure.message.clone()),
        };
        vec![self.name.as_str().into(), state, self.url.as_str().into(), output::plain(&what).into()]
    }
}

/// The failed checks with their reasons, the parked conversations, and what is damaged.
fn reasons(readiness: &Readiness) -> String {
    let broken = readiness.checks.iter().filter(|(_, check)| !check.ok);
    let broken = broken.map(|(name, check)| format!("{name}: {}", check.why.as_deref().unwrap_or("broken")));
    let parked = readiness.parked.iter().flat_map(|(agent, parked)| {
        let conversations = parked.as_object().into_iter().flatten();
        conversations.map(move |(id, why)| {
            format!(
                "{agent} can't go on with {id}: {}",
                why.as_str().map_or_else(|| why.to_string(), str::to_owned)
            )
        })
    });
    broken.chain(parked).chain(readiness.damaged.iter().cloned()).collect::<Vec<_>>().join("; ")
}
