//! `mesh validate`: checks agent and team files without running them.

use super::{
    CommonArgs,
    exit::{CliError, Exit},
    output, settings_reference,
};
use crate::{
    brain::json_lines,
    config::{self, Team, TimingPreset},
};
use clap::Args;
use protocol::words::counted;
use serde_json::json;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct ValidateArgs {
    /// The files, checked as one team.
    #[arg(required_unless_present_any = ["schema", "brain_schema", "settings"])]
    files: Vec<PathBuf>,
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
    match Team::load(&validate.files, TimingPreset::Default) {
        Ok(team) if common.json => {
            let agents: Vec<_> = team.agents.iter().map(|agent| json!(agent.id)).collect();
            output::json(&json!({ "valid": true, "agents": agents, "faults": [] }))
        }
        Ok(team) => {
            let ids: Vec<_> = team.agents.iter().map(|agent| agent.id.as_str()).collect();
            output::line(&format!("valid: {}: {}", counted(ids.len(), "agent", "agents"), ids.join(", ")))
        }
        Err(errors) if common.json => {
            let faults = errors.0.iter().map(|fault| {
                json!({ "file": fault.file, "line": fault.line, "key": fault.key, "message": fault.what })
            });
            let faults: Vec<_> = faults.collect();
            output::json(&json!({ "valid": false, "agents": [], "faults": faults }))?;
            Err(CliError::new(Exit::Config, ""))
        }
        Err(errors) => Err(errors.into()),
    }
}
