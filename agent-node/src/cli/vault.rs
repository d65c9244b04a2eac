//! `mesh vault`: what an agent remembers for itself. Only the person with the token reads and mends it.

use super::{
    CommonArgs,
    client::{MeshClient, encoded},
    exit::{CliError, Exit},
    output,
};
use clap::{Args, Subcommand};
use protocol::{
    ids::{AgentId, EntryId},
    routes,
    spaces::{
        Entry, SpaceId,
        brief::short_id,
        task_history,
        vault::{Vault, VaultChange},
    },
    words::counted,
};
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct VaultArgs {
    /// The agent.
    agent: AgentId,
    /// The space.
    #[arg(long, global = true, value_name = "NAME", default_value = "default")]
    space: SpaceId,
    #[command(subcommand)]
    verb: Option<VaultVerb>,
}

#[derive(Debug, Subcommand)]
enum VaultVerb {
    /// Show it: what it knows best, files analysed, insights, tasks.
    Show,
    /// Write it to a file, as JSON.
    Export {
        /// The file.
        file: PathBuf,
    },
    /// Say otherwise what a memory says. The change carries your name.
    Edit {
        /// The memory, by its id or the short one.
        id: String,
        /// What it says then.
        text: String,
    },
    /// Take a memory out of use.
    Archive {
        /// The memory, by its id or the short one.
        id: String,
        /// Why.
        #[arg(long)]
        reason: Option<String>,
    },
    /// Set how much it knows in areas; 0 removes an area.
    Expertise {
        /// Areas and scores.
        #[arg(required = true, value_name = "AREA=SCORE", value_parser = area)]
        areas: Vec<(String, u64)>,
    },
    /// Say that it has not analysed these files.
    ForgetFiles {
        /// Their paths.
        #[arg(required = true)]
        files: Vec<String>,
    },
}

fn area(text: &str) -> Result<(String, u64), String> {
    let wrong = || format!("{text:?} is no area and score; one like networking=3 is wanted");
    let (area, score) = text.split_once('=').ok_or_else(wrong)?;
    Ok((area.to_owned(), score.parse().map_err(|_| wrong())?))
}

pub(super) async fn vault(common: &CommonArgs, args: VaultArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let board = client.board().await?;
    let (space, agent) = (encoded(args.space.as_str()), encoded(args.agent.as_str()));
    let path = format!("{}/{space}/vault?of={agent}", routes::SPACES);
    let read = async || -> Result<Vault, CliError> { client.get(&board, &path).await };
    let change = match args.verb.unwrap_or(VaultVerb::Show) {
        VaultVerb::Show => {
            let vault = read().await?;
            let known = &vault.knowledge;
            if vault.entries.is_empty() && known.areas.is_empty() && known.files.is_empty() {
                client.card_of(args.agent.as_str()).await?;
            }
            return show(common, &vault);
        }
        VaultVerb::Export { file } => {
            let vault = read().await?;
            let text = serde_json::to_string_pretty(&vault).unwrap_or_default();
            std::fs::write(&file, text + "\n").map_err(|error| {
                CliError::new(Exit::Failed, format!("{} can't be written: {error}", file.display()))
            })?;
            return output::line(&format!("{} has the vault of {}", file.display(), args.agent));
        }
        VaultVerb::Edit { id, text } => VaultChange::Edit { id: known(&read().await?, &id)?, content: text },
        VaultVerb::Archive { id, reason } => VaultChange::Archive { id: known(&read().await?, &id)?, reason },
        VaultVerb::Expertise { areas } => VaultChange::Expertise { areas: areas.into_iter().collect() },
        VaultVerb::ForgetFiles { files } => VaultChange::Files { forget: files.into_iter().collect() },
    };
    let answer: Value = client.post(&board, &path, &json!(change)).await?;
    let vault = serde_json::from_value(answer)
        .map_err(|error| CliError::new(Exit::Failed, format!("the board's answer can't be read: {error}")))?;
    show(common, &vault)
}

/// The memory with this id, whole or short.
fn known(vault: &Vault, id: &str) -> Result<EntryId, CliError> {
    let is_it = |entry: &&Entry| entry.id.as_str() == id || short_id(&entry.id) == id;
    let found = vault.entries.iter().find(is_it).map(|entry| entry.id.clone());
    let missing = || format!("no memory {id} is in the vault of {} in {}", vault.agent, vault.space);
    found.ok_or_else(|| CliError::new(Exit::Refused, missing()))
}

fn show(common: &CommonArgs, vault: &Vault) -> Result<(), CliError> {
    if common.json {
        return output::json(vault);
    }
    let (tasks, insights): (Vec<_>, Vec<_>) =
        vault.entries.iter().partition(|entry| task_history::is_remembered(entry));
    let areas = vault.knowledge.areas.iter().map(|(area, score)| format!("{} {score}", output::plain(area)));
    let areas: Vec<_> = areas.collect();
    output::line(&format!("{} in the space {}", vault.agent, vault.space))?;
    output::line(&format!(
        "Expertise: {}",
        if areas.is_empty() { "none".to_owned() } else { areas.join(", ") }
    ))?;
    output::line(&format!("Files analysed: {}", counted(vault.knowledge.files.len(), "file", "files")))?;
    for file in &vault.knowledge.files {
        output::line(&format!("  {}", output::plain(file)))?;
    }
    for (heading, entries) in [("Insights", insights), ("Tasks", tasks)] {
        output::line(&format!("{heading}: {}", counted(entries.len(), "memory", "memories")))?;
        for entry in entries {
            let changed =
                entry.changed_by.as_ref().map(|by| format!(", changed by {by}")).unwrap_or_default();
            let title = Some(entry.title.as_str()).filter(|title| !title.is_empty());
            let title = title.map(|title| format!(" {}:", output::plain(title))).unwrap_or_default();
            let text = output::plain(&entry.content);
            let root = entry.root.as_ref().map(|root| format!(", for {root}")).unwrap_or_default();
            let waits = match entry.is_unaccepted {
                true => format!(", in no brief until `mesh space accept {}`", entry.id),
                false => String::new(),
            };
            output::line(&format!(
                "  {} {}{root}{changed}{waits}{title} {text}",
                short_id(&entry.id),
                entry.at
            ))?;
        }
    }
    Ok(())
}
