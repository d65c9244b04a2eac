//! `mesh steer`: a person steers a session while it runs.

use super::{
    CommonArgs,
    client::{MeshClient, encoded},
    endpoints::AtArgs,
    exit::CliError,
    output,
};
use clap::Args;
use patterns::speech::{Directive, DirectiveVerb};
use protocol::routes;
use serde_json::json;

#[derive(Debug, Args)]
pub(super) struct SteerArgs {
    /// The task of the session.
    task: String,
    /// What to do: `say` words, `amend` by a constraint, `skip` a stage, `redirect` (begin a stage again), or `stop`.
    #[arg(value_parser = verb)]
    verb: DirectiveVerb,
    /// What is said, or why.
    text: Option<String>,
    /// The stage; `say` without one is for all that run, `amend` and `stop` for the session.
    #[arg(long)]
    stage: Option<String>,
    /// The only seat of the stage that `say`, `amend` or `stop` is for.
    #[arg(long, requires = "stage")]
    seat: Option<String>,
    #[command(flatten)]
    at: AtArgs,
}

fn verb(text: &str) -> Result<DirectiveVerb, String> {
    Directive::read(json!({ "verb": text })).map(|directive| directive.verb)
}

pub(super) async fn steer(common: &CommonArgs, args: SteerArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let endpoints = args.at.endpoints(&client).await?;
    let SteerArgs { task, verb, text, stage, seat, .. } = args;
    let found = super::located_task::find(&client, &endpoints, &task).await?;
    let task = found.id();
    let path = format!("{}/{}/directives", routes::TASKS, encoded(&task));
    let body = json!({ "verb": verb, "stage": stage, "seat": seat, "text": text });
    let answer = client.post(&found.endpoint, &path, &body).await?;
    if common.json {
        return output::json(&answer);
    }
    output::line(&format!("{task} {}", output::plain(answer["outcome"].as_str().unwrap_or_default())))
}
