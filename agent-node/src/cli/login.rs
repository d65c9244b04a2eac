//! `mesh login` and `mesh logout`: a person logs in at a tool server of an agent. The node speaks to the server and keeps the token;
//! this command shows the page to open, and passes the address on to which the browser was sent back.

use super::{
    CommonArgs,
    client::MeshClient,
    endpoints::AtArgs,
    exit::{CliError, Exit},
    output,
};
use crate::tool_login::PENDING_LIFE;
use clap::Args;
use comfy_table::Cell;
use protocol::{ids::AgentId, routes};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    io::BufRead as _,
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

#[derive(Debug, Args)]
pub(super) struct LoginArgs {
    /// The tool server: its `name` in the agent's file, or its URL. Without one, the servers that take a login are listed.
    server: Option<String>,
    #[command(flatten)]
    of: LoginAgentArgs,
    /// The address to which the browser was sent back, for a login that was begun earlier.
    #[arg(long, value_name = "URL", requires = "server")]
    paste: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct LogoutArgs {
    /// The tool server: its `name` in the agent's file, or its URL.
    server: String,
    #[command(flatten)]
    of: LoginAgentArgs,
}

#[derive(Debug, Args)]
struct LoginAgentArgs {
    /// The agent whose tool server it is, if several have one of this name.
    #[arg(long, value_name = "ID")]
    agent: Option<AgentId>,
    #[command(flatten)]
    at: AtArgs,
}

/// A tool server that takes a login.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LoginServer {
    agent: AgentId,
    server: String,
    url: String,
    whose: String,
    is_logged_in: bool,
    issuer: Option<String>,
}

impl LoginServer {
    fn told(&self) -> String {
        format!("{} at {}", output::plain(&self.server), output::plain(&self.url))
    }
}

/// How often it is asked whether the browser has come back.
const POLL: Duration = Duration::from_secs(1);

pub(super) async fn login(common: &CommonArgs, args: LoginArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let known = args.of.servers(&client).await?;
    let Some(name) = &args.server else { return list(common, &known) };
    let of = args.of.find(&known, name)?;
    let (base, server) = of;
    if let Some(url) = args.paste {
        finish(&client, base, &url).await?;
        return done(common, server);
    }
    let body = json!({ "server": server.server, "redirect": base });
    let begun = client.post(base, routes::LOGINS, &body).await;
    let begun =
        begun.map_err(|error| CliError::new(error.exit, format!("{}: {}", server.told(), error.message)))?;
    let (Some(id), Some(url)) = (begun["id"].as_str(), begun["url"].as_str()) else {
        return done(common, server);
    };
    output::line(&format!(
        "Open this page and log in:\n\n    {}\n\nIf the browser ends at a page that it can't show, paste the address of that page here.",
        output::plain(url)
    ))?;
    wait(&client, of, id).await?;
    done(common, server)
}

pub(super) async fn logout(common: &CommonArgs, args: LogoutArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let known = args.of.servers(&client).await?;
    let (base, server) = args.of.find(&known, &args.server)?;
    let path = format!("{}/forget", routes::LOGINS);
    let answer = client.post(base, &path, &json!({ "server": server.server })).await?;
    if common.json {
        return output::json(&answer);
    }
    let was = if answer["wasLoggedIn"] == true { "is logged out of" } else { "was not logged in at" };
    output::line(&format!("{} {was} {}", server.agent, output::plain(&server.server)))
}

impl LoginAgentArgs {
    /// The servers that take a login, with the address of the agent of each.
    async fn servers(&self, client: &MeshClient) -> Result<Vec<(String, LoginServer)>, CliError> {
        let endpoints = self.at.endpoints(client).await?;
        if let Some(agent) =
            self.agent.as_ref().filter(|agent| endpoints.iter().all(|of| of.agent != **agent))
        {
            return Err(CliError::new(
                Exit::Usage,
                format!("there is no agent {agent} here: `mesh ls` lists them"),
            ));
        }
        let (mut known, mut failure) = (Vec::new(), None);
        for of in endpoints.iter().filter(|of| self.agent.as_ref().is_none_or(|agent| of.agent == *agent)) {
            match client.get::<Value>(&of.endpoint, routes::LOGINS).await {
                Ok(mut found) => {
                    let servers =
                        Vec::<LoginServer>::deserialize(found["servers"].take()).unwrap_or_default();
                    known.extend(servers.into_iter().map(|server| (of.endpoint.clone(), server)));
                }
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(failure) if known.is_empty() => Err(failure),
            _ => Ok(known),
        }
    }

    /// The one server with this name or URL.
    fn find<'a>(
        &self,
        known: &'a [(String, LoginServer)],
        name: &str,
    ) -> Result<&'a (String, LoginServer), CliError> {
        let is_named = |(_, known): &&(String, LoginServer)| known.server == name || known.url == name;
        let found: Vec<_> = known.iter().filter(is_named).collect();
        let told = |servers: &mut dyn Iterator<Item = &(String, LoginServer)>| {
            servers.map(|(_, of)| format!("{} of {}", of.server, of.agent)).collect::<Vec<_>>().join(", ")
        };
        match found.as_slice() {
            [one] => Ok(one),
            [] if known.is_empty() => {
                let message = "no tool server of an agent has `login` in its file";
                Err(CliError::new(Exit::Refused, message))
            }
            [] => {
                let message =
                    format!("no tool server {name:?} takes a login; there are: {}", told(&mut known.iter()));
                Err(CliError::new(Exit::Refused, message))
            }
            several => {
                let several = told(&mut several.iter().copied());
                Err(CliError::new(Exit::Usage, format!("--agent says which one: {several}")))
            }
        }
    }
}

/// Waits until the browser has come back, or the person has pasted where it ended.
async fn wait(client: &MeshClient, (base, server): &(String, LoginServer), id: &str) -> Result<(), CliError> {
    let (sender, mut lines) = mpsc::unbounded_channel();
    // A thread of its own, which the end of the process does not wait for.
    std::thread::spawn(move || {
        std::io::stdin().lock().lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    let begun = Instant::now();
    while begun.elapsed() < PENDING_LIFE {
        tokio::select! {
            Some(line) = lines.recv() => {
                if !line.trim().is_empty() {
                    return finish(client, base, line.trim()).await;
                }
            }
            () = tokio::time::sleep(POLL) => {}
        }
        let found: Value = client.get(base, routes::LOGINS).await?;
        let own = found["logins"].as_array().into_iter().flatten().find(|login| login["id"] == id);
        match own.and_then(|login| login["state"].as_str()) {
            Some("waiting") => {}
            Some("done") => return Ok(()),
            _ => {
                let reason = own.and_then(|login| login["reason"].as_str());
                let reason = reason.map_or("begun again, or too old".to_owned(), output::plain);
                return Err(CliError::new(
                    Exit::Refused,
                    format!("{}: the login has failed: the server {reason}", server.told()),
                ));
            }
        }
    }
    Err(CliError::new(Exit::Refused, "nobody has logged in; begin again"))
}

async fn finish(client: &MeshClient, base: &str, url: &str) -> Result<(), CliError> {
    client.post(base, &format!("{}/finish", routes::LOGINS), &json!({ "url": url })).await.map(drop)
}

fn done(common: &CommonArgs, server: &LoginServer) -> Result<(), CliError> {
    if common.json {
        return output::json(
            &json!({ "agent": server.agent, "server": server.server, "whose": server.whose }),
        );
    }
    let whose = match server.whose.as_str() {
        "agent" => "for all its tasks".to_owned(),
        user => format!("for tasks of {user}"),
    };
    output::line(&format!("{} is logged in at {}, {whose}", server.agent, output::plain(&server.server)))
}

fn list(common: &CommonArgs, known: &[(String, LoginServer)]) -> Result<(), CliError> {
    if common.json {
        let servers = known.iter().map(|(_, of)| {
            json!({
                "agent": of.agent, "server": of.server, "url": of.url, "whose": of.whose,
                "isLoggedIn": of.is_logged_in, "issuer": of.issuer,
            })
        });
        return output::json(&json!({ "servers": servers.collect::<Vec<_>>() }));
    }
    let rows = known.iter().map(|(_, of)| {
        let state = if of.is_logged_in { "yes" } else { "no" };
        let issuer = of.issuer.clone().unwrap_or_default();
        let row = [of.agent.as_str(), &of.server, &of.whose, state, &issuer, &of.url];
        row.map(|text| Cell::new(output::plain(text))).to_vec()
    });
    output::line(&output::table(&["AGENT", "SERVER", "WHOSE", "LOGGED IN", "ISSUER", "URL"], rows))
}
