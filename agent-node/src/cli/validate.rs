//! `mesh validate`: checks files of agents, teams and sessions without running them.

use super::{
    CommonArgs,
    convene::session_file,
    exit::{CliError, Exit},
    output,
    processes::ParameterArgs,
    settings_reference,
};
use crate::{
    brain::json_lines,
    config::{self, ConfigErrors, ProviderKeys, Team, TimingPreset},
};
use clap::Args;
use protocol::words::counted;
use serde_json::json;
use std::{collections::BTreeMap, path::PathBuf};

#[derive(Debug, Args)]
pub(super) struct ValidateArgs {
    /// The files: those of agents, checked as one team, and those of sessions.
    #[arg(required_unless_present_any = ["schema", "brain_schema", "settings"])]
    files: Vec<PathBuf>,
    #[command(flatten)]
    set: ParameterArgs,
    /// Print the JSON Schema of such files.
    #[arg(long, conflicts_with = "files")]
    schema: bool,
    /// Print the JSON Schema of a line of a brain's output.
    #[arg(long, conflicts_with_all = ["files", "schema"])]
    brain_schema: bool,
    /// Print every flag and variable of a process, with its default.
    #[arg(long, conflicts_with_all = ["files", "schema", "brain_schema"])]
    settings: bool,
}

pub(super) fn validate(common: &CommonArgs, validate: &ValidateArgs) -> Result<(), CliError> {
    if validate.schema {
        return output::json(&config::schema());
    }
    if validate.brain_schema {
        return output::json(&json_lines::schema());
    }
    if validate.settings {
        return output::line(settings_reference::text().trim_end());
    }
    let (sessions, teams): (Vec<_>, Vec<_>) =
        validate.files.iter().cloned().partition(|file| session_file::is_session(file));
    let refused = sessions.iter().filter_map(|file| session_file::read(file).err());
    let mut faults: Vec<_> = refused.flat_map(|errors| errors.0).collect();
    let (mut ids, mut notes, mut parameters) = (Vec::new(), Vec::new(), BTreeMap::new());
    match Team::load_with(&teams, TimingPreset::Default, ProviderKeys::Required, &validate.set.set) {
        Ok(team) => {
            ids.extend(team.agents.iter().map(|agent| agent.id.to_string()));
            for agent in &team.agents {
                let servers = agent.brain.own_logins().into_iter();
                notes.extend(servers.map(|server| {
                    format!("{} sends one token to {server}, whoever asks (login: agent)", agent.id)
                }));
            }
            parameters = team.parameters;
        }
        Err(errors) => faults.extend(errors.0),
    }
    if common.json {
        let shown = faults.iter().map(|fault| {
            json!({ "file": fault.file, "line": fault.line, "key": fault.key, "message": fault.what })
        });
        let shown: Vec<_> = shown.collect();
        let agents: &[String] = if faults.is_empty() { &ids } else { &[] };
        output::json(
            &json!({ "valid": faults.is_empty(), "agents": agents, "parameters": parameters, "notes": notes, "faults": shown }),
        )?;
        return if faults.is_empty() { Ok(()) } else { Err(CliError::new(Exit::Config, "")) };
    }
    if !faults.is_empty() {
        return Err(ConfigErrors(faults).into());
    }
    let agents =
        (!ids.is_empty()).then(|| format!("{}: {}", counted(ids.len(), "agent", "agents"), ids.join(", ")));
    let values = parameters.iter().map(|(name, value)| format!("{name}={value}"));
    let values = (!parameters.is_empty()).then(|| format!("with {}", values.collect::<Vec<_>>().join(" ")));
    let sessions = sessions.iter().map(|file| format!("{} is a session", file.display()));
    output::line(&format!(
        "valid: {}",
        agents.into_iter().chain(values).chain(notes).chain(sessions).collect::<Vec<_>>().join("; ")
    ))
}
