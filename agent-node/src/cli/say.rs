//! `mesh say`: says something to one agent. Every text is a task in one A2A context, so the agent is told of the earlier ones.

use super::{
    CommonArgs, ask,
    client::MeshClient,
    endpoints::AtArgs,
    exit::{CliError, Exit},
    output,
};
use clap::Args;
use protocol::{ids::AgentId, task::EXTENSION};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The context of what a person says to an agent. An agent keeps the contexts of its callers apart.
const CONTEXT: &str = "mesh-say";

/// The file of [`SayTarget`] in the data directory of a mesh.
const FILE: &str = "say.json";

#[derive(Debug, Args)]
pub(super) struct SayArgs {
    /// `@NAME` and what to say. Without a name it is said to the focus, or else to the agent that was addressed last.
    #[arg(value_name = "@NAME|TEXT", required_unless_present = "focus")]
    text: Vec<String>,
    /// Say everything without a name to this agent from now on; without NAME to the one addressed last, again.
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    focus: Option<String>,
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
    let Some(first) = args.text.first() else { return focus_answer(common, &target) };
    let mention =
        first.strip_prefix('@').map(|first| first.split_once(char::is_whitespace).unwrap_or((first, "")));
    let (to, text) = match mention {
        Some((name, rest)) => {
            let words = [rest].into_iter().chain(args.text.iter().skip(1).map(String::as_str));
            let words: Vec<_> = words.filter(|words| !words.is_empty()).collect();
            (agent_id(name)?, words.join(" "))
        }
        None => {
            let nobody =
                "nobody was addressed yet: say @NAME TEXT, or set --focus NAME (`mesh ls` names the agents)";
            let known = target.focus.clone().or_else(|| target.latest.clone());
            (known.ok_or_else(|| CliError::new(Exit::Usage, nobody))?, args.text.join(" "))
        }
    };
    if text.trim().is_empty() {
        return Err(CliError::new(Exit::Usage, format!("say what? `mesh say @{to} TEXT`")));
    }
    let recipient = ask::recipient(&client, &args.at, Some(to.as_str())).await?;
    let body = json!({
        "message": {
            "messageId": uuid::Uuid::now_v7(), "role": "ROLE_USER", "parts": [{ "text": text }], "contextId": CONTEXT,
            "metadata": { EXTENSION: { "addressed": true } },
        },
        "configuration": { "returnImmediately": true },
    });
    let sent = client.post(&recipient.endpoint, "/a2a/v1/message:send?A2A-Version=1.0", &body).await;
    let task = sent.map_err(|failure| recipient.explain(failure))?["task"].take();
    target.latest = Some(to.clone());
    if let Some(dir) = &dir
        && let Err(failure) = target.write(dir)
    {
        // It was said; only the next text needs a name.
        output::note(&format!("mesh: {}", failure.message));
    }
    answer(common, &to, &task, &args.at)
}

fn answer(common: &CommonArgs, to: &AgentId, task: &Value, at: &AtArgs) -> Result<(), CliError> {
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
