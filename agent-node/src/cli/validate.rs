//! `mesh validate`: agent and team files, before anything runs.

use super::{
    Common,
    exit::{Exit, Failure},
    output, settings,
};
use crate::config::{self, Profile, Team};
use clap::Args;
use protocol::words::counted;
use serde_json::json;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Validate {
    /// The files, checked as one team.
    #[arg(required_unless_present_any = ["schema", "settings"])]
    files: Vec<PathBuf>,
    /// Print the JSON Schema of such files.
    #[arg(long, conflicts_with = "files")]
    schema: bool,
    /// Print every flag and variable of a process, with its default.
    #[arg(long, conflicts_with_all = ["files", "schema"])]
    settings: bool,
}

pub(super) fn validate(common: &Common, validate: &Validate) -> Result<(), Failure> {
    if validate.schema {
        return output::json(&config::schema());
    }
    if validate.settings {
        return output::line(settings::text().trim_end());
    }
    match Team::load(&validate.files, Profile::Default) {
        Ok(team) if common.json => {
            let agents: Vec<_> = team.agents.iter().map(|agent| json!(agent.id)).collect();
            output::json(&json!({ "valid": true, "agents": agents, "faults": [] }))
        }
        Ok(team) => {
            let ids: Vec<_> = team.agents.iter().map(|agent| agent.id.as_str()).collect();
            output::line(&format!("valid: {}: {}", counted(ids.len(), "agent", "agents"), ids.join(", ")))
        }
        Err(bad) if common.json => {
            let faults = bad.0.iter().map(|fault| {
                json!({ "file": fault.file, "line": fault.line, "key": fault.key, "message": fault.what })
            });
            let faults: Vec<_> = faults.collect();
            output::json(&json!({ "valid": false, "agents": [], "faults": faults }))?;
            Err(Failure::new(Exit::Config, ""))
        }
        Err(bad) => Err(bad.into()),
    }
}
