//! `mesh say`: says something to one agent. Every text is a task in one A2A context, so the agent is told of the earlier ones.

use super::{
    CommonArgs,
    client::MeshClient,
    endpoints::{AgentEndpoint, AtArgs, recipient},
    exit::{self, CliError, Exit},
    interrupt::InterruptSignals,
    output, prompt,
    sent_task::{follow, print_result, say_in_context, unfinished},
    watch::{TaskWatch, WatchProgress},
};
use clap::Args;
use mentions::{bare_name, mentions};
use protocol::{bid::Eta, ids::AgentId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
};
use tokio::time::Instant;

mod mentions;

/// The context of what a person says to an agent. An agent keeps the contexts of its callers apart.
const CONTEXT: &str = "mesh-say";

/// The file of [`SayTarget`] in the data directory of a mesh.
const FILE: &str = "say.json";

#[derive(Debug, Args)]
pub(super) struct SayArgs {
    /// What to say, to the agents that it names: `@NAME` anywhere, after a space and outside code. Without a name it is said to the
    /// focus, or else to the agent that was addressed last.
    #[arg(value_name = "TEXT", required_unless_present = "focus")]
    text: Vec<String>,
    /// Say everything without a name to this agent from now on; without NAME to the one addressed last, again.
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    focus: Option<String>,
    /// Return as soon as it is said.
    #[arg(long)]
    no_wait: bool,
    /// How long to wait for the answer, such as `90s` or `10m`.
    #[arg(long, default_value = "10m", value_parser = Eta::parse)]
    timeout: Eta,
    #[command(flatten)]
    at: AtArgs,
}

/// Whom a text without a name is for.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct SayTarget {
    focus: Option<AgentId>,
    /// The agent that was addressed last.
    latest: Option<AgentId>,
}

impl SayTarget {
    /// What is remembered in `dir`; a file that can't be read is reported, and counts as none.
    fn read(dir: Option<&Path>) -> Self {
        let Some(file) = dir.map(|dir| dir.join(FILE)) else { return Self::default() };
        let Ok(text) = std::fs::read_to_string(&file) else { return Self::default() };
        serde_json::from_str(&text).unwrap_or_else(|error| {
            output::note(&format!("mesh: {} can't be read: {error}; it is made anew", file.display()));
            Self::default()
        })
    }

    fn write(&self, dir: &Path) -> Result<(), CliError> {
        let file = dir.join(FILE);
        let draft = dir.join(format!("{FILE}.{}", std::process::id()));
        let written = std::fs::write(&draft, serde_json::to_vec(self).unwrap_or_default());
        written.and_then(|()| std::fs::rename(&draft, &file)).map_err(|error| {
            CliError::new(Exit::Failed, format!("{} can't be written: {error}", file.display()))
        })
    }
}

pub(super) async fn say(common: &CommonArgs, args: SayArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let dir = client.data_dir().await;
    let mut target = SayTarget::read(dir.as_deref());
    if let Some(name) = &args.focus {
        set_focus(&client, &mut target, name, dir.as_ref()).await?;
    }
    if args.text.is_empty() {
        return focus_answer(common, &target);
    }
    let said = args.text.join(" ");
    let known = client.agents(None).await?;
    let known: Vec<&str> = known.iter().map(|entry| entry.card.agent_id.as_str()).collect();
    let Addressed { to, text, note } = addressed(&said, &known, &target)?;
    let mut signals = (!args.no_wait).then(InterruptSignals::listen).transpose()?;
    let mut said = Vec::with_capacity(to.len());
    for to in &to {
        let recipient = recipient(&client, &args.at, Some(to.as_str())).await?;
        let words = json!([{ "text": text }]);
        let task = say_in_context(&client, &recipient, CONTEXT, (words, json!({}))).await?;
        target.latest = Some(to.clone());
        said.push((recipient, task));
    }
    if let Some(dir) = &dir
        && let Err(failure) = target.write(dir)
    {
        // It was said; only the next text needs a name.
        output::note(&format!("mesh: {}", failure.message));
    }
    note.iter().for_each(|note| output::note(note));
    let mut outcome = Ok(());
    for (recipient, task) in &said {
        let shown = match &mut signals {
            Some(signals) => show_answer(common, &client, (recipient, task), &args, signals).await,
            None => show_receipt(common, &recipient.agent, task, &args.at),
        };
        outcome = outcome.and(shown);
    }
    outcome
}

/// Whom a text is for.
#[derive(Debug, PartialEq)]
struct Addressed {
    to: Vec<AgentId>,
    text: String,
    /// What may have been meant otherwise.
    note: Option<String>,
}

/// Whom `said` is for, of the agents that are `known`. A mention at its beginning alone is no part of what is said.
fn addressed(said: &str, known: &[&str], target: &SayTarget) -> Result<Addressed, CliError> {
    let named = mentions(said);
    let first = said.trim_start().strip_prefix('@').and_then(|_| named.first().copied());
    // Only a name at the beginning must be one of an agent: others may be anything.
    let to: Vec<&str> =
        named.into_iter().filter(|name| Some(*name) == first || known.contains(name)).collect();
    let text = match (to.as_slice(), first) {
        ([only], Some(first)) if *only == first => said.trim_start()[1 + first.len()..].trim().to_owned(),
        _ => said.trim().to_owned(),
    };
    if let Some(first) = to.first() {
        if text.is_empty() {
            return Err(CliError::new(Exit::Usage, format!("say what? `mesh say @{first} TEXT`")));
        }
        let to = to.iter().map(|name| agent_id(name)).collect::<Result<_, _>>()?;
        return Ok(Addressed { to, text, note: None });
    }
    let nobody = "nobody was addressed yet: say @NAME TEXT, or set --focus NAME (`mesh ls` names the agents)";
    let to = target.focus.clone().or_else(|| target.latest.clone());
    let to = to.ok_or_else(|| CliError::new(Exit::Usage, nobody))?;
    if text.is_empty() {
        return Err(CliError::new(Exit::Usage, format!("say what? `mesh say @{to} TEXT`")));
    }
    let others = known.iter().copied().filter(|name| *name != to.as_str());
    let note = bare_name(&text, others).map(|name| {
        format!("{name} is named, but not addressed: {to} got it; `@{name}` in the text addresses {name}")
    });
    Ok(Addressed { to: vec![to], text, note })
}

/// Waits for the answer of an agent, and prints it.
async fn show_answer(
    common: &CommonArgs,
    client: &MeshClient,
    (recipient, task): (&AgentEndpoint, &Value),
    args: &SayArgs,
    signals: &mut InterruptSignals,
) -> Result<(), CliError> {
    let id = task["id"].as_str().unwrap_or_default();
    let watch = TaskWatch {
        until: Some(Instant::now() + args.timeout.duration()),
        streams: !common.json && std::io::stdout().is_terminal(),
        shows_progress: std::io::stderr().is_terminal(),
        is_chat: true,
        says_wait: true,
        at: args.at.repeat_flag(common),
        ..TaskWatch::default()
    };
    let asks_here = !common.json && prompt::has_person();
    let (mut progress, endpoint) = (WatchProgress::new(), &recipient.endpoint);
    let followed = follow(client, endpoint, id, (&watch, &mut progress), asks_here, signals).await;
    let (state, done) = followed?;
    match common.json {
        true => output::json(&done)?,
        false if exit::of_state(state) == Exit::Done => {
            print_result(client, endpoint, &done, &progress).await?
        }
        false => {}
    }
    if exit::of_state(state) == Exit::Done { Ok(()) } else { Err(unfinished(id, state, &done, &watch.at)) }
}

/// Tells what became of what was said.
fn show_receipt(common: &CommonArgs, to: &AgentId, task: &Value, at: &AtArgs) -> Result<(), CliError> {
    let id = task["id"].as_str().unwrap_or_default();
    let (state, message) = super::watch::status_of(&task["status"]);
    let is_queued = state == Some(protocol::task::TaskState::Submitted);
    let outcome = if is_queued { "queued" } else { "delivered" };
    if common.json {
        return output::json(&json!({ "agent": to, "task": id, "outcome": outcome, "message": message }));
    }
    match is_queued {
        true => output::line(&format!("queued: {to} is busy and takes it next"))?,
        false => output::line(&format!("delivered to {to}"))?,
    }
    output::note(&format!(
        "`mesh tasks watch {}{}` shows its answer",
        output::plain(id),
        at.repeat_flag(common)
    ));
    Ok(())
}

/// Sets the focus to the agent `name`, which must be registered; an empty name ends it.
async fn set_focus(
    client: &MeshClient,
    target: &mut SayTarget,
    name: &str,
    dir: Option<&PathBuf>,
) -> Result<(), CliError> {
    let nowhere = "the focus is remembered with the data of the mesh, and no mesh in ~/.mesh is at this URL; say @NAME TEXT";
    let dir = dir.ok_or_else(|| CliError::new(Exit::Usage, nowhere))?;
    target.focus = match name.strip_prefix('@').unwrap_or(name) {
        "" => None,
        name => Some(client.card_of(name).await?.agent_id.clone()),
    };
    target.write(dir)
}

fn focus_answer(common: &CommonArgs, target: &SayTarget) -> Result<(), CliError> {
    match (&target.focus, common.json) {
        (focus, true) => output::json(&json!({ "focus": focus })),
        (Some(agent), false) => output::line(&format!("the focus is {agent}")),
        (None, false) => output::line("no focus: a text without a name is for the agent addressed last"),
    }
}

fn agent_id(name: &str) -> Result<AgentId, CliError> {
    AgentId::parse(name).map_err(|bad| CliError::new(Exit::Usage, format!("@{name}: {bad}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mention_anywhere_addresses_and_a_bare_name_is_told_of() {
        let known = ["oracle", "scout"];
        let target = SayTarget { focus: None, latest: AgentId::parse("scout").ok() };
        let of = |said: &str| {
            let Addressed { to, text, note } = addressed(said, &known, &target).unwrap();
            (to.iter().map(ToString::to_string).collect::<Vec<_>>(), text, note)
        };
        let to = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(of("@oracle check"), (to(&["oracle"]), "check".to_owned(), None));
        let whole = "please @oracle check this";
        assert_eq!(of(whole), (to(&["oracle"]), whole.to_owned(), None));
        assert_eq!(of("@oracle and @scout, look").0, to(&["oracle", "scout"]));
        assert_eq!(of("use @Override there").0, to(&["scout"]), "no agent is called so");
        let (got, _, note) = of("oracle, check");
        assert_eq!(got, to(&["scout"]));
        assert!(note.unwrap().contains("`@oracle` in the text addresses oracle"));
        assert!(addressed("@oracle", &known, &target).is_err(), "nothing is said");
    }
}
