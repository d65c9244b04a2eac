//! What a node is told by its YAML (DESIGN §12): agents, one a document or a team in one file, and the mesh's terms.
//!
//! `tree` reads YAML and remembers lines, `variables` puts in `${VAR:-default}`, `unknown` names keys that nobody knows,
//! `file` is the YAML as types, `words` says what does not fit them, `check` turns it into what the node uses.

mod a2a;
mod check;
mod fault;
mod file;
mod mesh;
mod schema;
mod text;
mod tree;
mod unknown;
mod variables;
mod words;

pub use fault::{BadConfig, Fault};
pub use mesh::{MeshConfig, Profile};
pub use schema::schema;

use crate::brain::{
    Brain, BrainError, a2a::A2aBrainConfig, echo::EchoBrain, exec::ExecBrain, scripted::ScriptedBrain,
};
use crate::telemetry::capture::{of_command, of_variable};
use protocol::{
    a2a::agent_policy::AgentPolicy,
    card::{BidTerms, Card, Skill},
    ids::AgentId,
    limits::Limits,
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Agents that are started together, and the terms of the mesh they work in.
#[derive(Debug, Clone, PartialEq)]
pub struct Team {
    /// In the order of the files.
    pub agents: Vec<AgentConfig>,
    /// The terms.
    pub mesh: MeshConfig,
}

/// One agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentConfig {
    /// Its id.
    pub id: AgentId,
    /// One sentence for people.
    pub description: String,
    /// What it can do.
    pub skills: Vec<Skill>,
    /// Who thinks.
    pub brain: BrainConfig,
    /// What its bids are made of.
    pub terms: BidTerms,
    /// Signal types it reacts to, each exact or ending in `*`.
    pub subscribe: Vec<String>,
    /// Whether it takes requests that name no capability.
    pub open: bool,
    /// What it offers to A2A clients.
    pub a2a: AgentPolicy,
    /// Its part in the team, for people.
    pub role: Option<String>,
    /// The port it listens at; the next free one if none.
    pub port: Option<u16>,
}

/// Who thinks for an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum BrainConfig {
    /// A command.
    Exec {
        /// The program and its arguments.
        command: Vec<String>,
        /// Its environment.
        env: BTreeMap<String, String>,
        /// Where it runs.
        dir: Option<PathBuf>,
    },
    /// Answers from a file.
    Scripted(PathBuf),
    /// A foreign A2A agent.
    Foreign(A2aBrainConfig),
    /// Says back what it is told.
    Echo,
}

impl BrainConfig {
    /// The credentials it holds, which are told to nobody.
    pub fn secrets(&self) -> Vec<String> {
        match self {
            Self::Exec { env, command, .. } => {
                let named = env.iter().flat_map(|(name, value)| of_variable(name, value));
                named.chain(of_command(command)).collect()
            }
            Self::Foreign(config) => {
                config.credentials.0.values().map(|secret| secret.expose().to_owned()).collect()
            }
            Self::Scripted(_) | Self::Echo => Vec::new(),
        }
    }
}

impl Team {
    /// The team that the files describe together. A file's faults are all named at once.
    /// `profile` is where times start from if the files do not say.
    pub fn load(paths: &[PathBuf], profile: Profile) -> Result<Self, BadConfig> {
        let mut loading = check::Loading::in_profile(profile);
        for path in paths {
            match std::fs::read_to_string(path) {
                Ok(text) => {
                    let base = path.parent().filter(|dir| !dir.as_os_str().is_empty());
                    loading.add(&path.display().to_string(), &text, base, &variables::from_process);
                }
                Err(error) => loading.fault(Fault::of_file(path, format!("cannot be read: {error}"))),
            }
        }
        loading.team()
    }

    /// The team in `text`. `name` stands for the file in faults, relative paths start at `base`.
    pub fn parse(name: &str, text: &str, base: Option<&Path>) -> Result<Self, BadConfig> {
        let mut loading = check::Loading::default();
        loading.add(name, text, base, &variables::from_process);
        loading.team()
    }

    /// The demo team, which is part of the program.
    pub fn demo(profile: Profile) -> Result<Self, BadConfig> {
        let mut loading = check::Loading::in_profile(profile);
        loading.add("the demo team", crate::demo::TEAM, None, &variables::from_process);
        loading.team()
    }
}

impl AgentConfig {
    /// The card it registers with.
    pub fn card(&self, endpoint: &str, version: &str, limits: &Limits) -> Card {
        Card {
            agent_id: self.id.clone(),
            description: self.description.clone(),
            endpoint: endpoint.to_owned(),
            version: version.to_owned(),
            skills: self.skills.clone(),
            open: self.open,
            subscribe: self.subscribe.clone(),
            terms: self.terms.clone(),
            limits: limits.clone(),
            waits_for: None,
        }
    }
}

impl BrainConfig {
    /// The brain itself.
    pub fn brain(&self) -> Result<Arc<dyn Brain>, BrainError> {
        Ok(match self {
            Self::Exec { command, env, dir } => {
                Arc::new(ExecBrain { env: env.clone(), dir: dir.clone(), ..ExecBrain::new(command.clone()) })
            }
            Self::Scripted(path) => Arc::new(ScriptedBrain::read(path)?),
            Self::Echo => Arc::new(EchoBrain),
            Self::Foreign(foreign) => {
                let what = format!("{} is reached through a node", foreign.card);
                return Err(BrainError::NotStarted { what, source: None });
            }
        })
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
