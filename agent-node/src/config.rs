//! The YAML configuration of a node (DESIGN §12): agents, one per document or as a team, and the mesh's settings.
//!
//! `document` is a YAML file of something else, such as a session. `yaml` parses YAML with line numbers, `variables` substitutes `${VAR:-default}` and `${param.name}`, `unknown_keys` finds unknown keys,
//! `sources` reads a file and those that it includes, `parameters` has the values of `--set`, `file` has the types of the YAML, `forms` keeps the keys of faults in values of several forms, `loader` validates and converts.

mod a2a;
mod accept;
mod command_check;
mod demo_models;
mod document;
mod exec;
mod fault;
mod file;
mod forms;
mod http;
mod llm;
mod loader;
mod login;
mod mesh;
mod parameters;
mod peer;
mod schema;
mod sources;
mod space;
mod text;
mod unknown_keys;
mod variables;
mod yaml;

pub use accept::AcceptConfig;
pub use demo_models::DemoOfModels;
pub(crate) use document::Document;
pub use fault::{ConfigErrors, ConfigFault};
pub use llm::ProviderKeys;
pub use mesh::{MeshConfig, TimingPreset};
pub use parameters::ParameterValue;
pub use peer::PeerRegistration;
pub use schema::schema;

use crate::brain::{
    Brain, BrainError,
    a2a::A2aBrainConfig,
    echo::EchoBrain,
    exec::{BrainRights, ExecBrain, ExecMode},
    http::HttpBrainConfig,
    llm::{
        LlmBrain, LlmConfig,
        cassette::Cassette,
        tool_server::{ToolServerConfig, ToolServerTransport},
    },
    scripted::ScriptedBrain,
};
use crate::{
    telemetry::capture::{of_command, of_variable},
    text_file,
    tool_login::LoginOwner,
    triggers::Trigger,
};
use engine::{schedule::Schedule, settings::AgentSettings};
use protocol::ids::AgentId;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The keys of a team's document, which one of a single agent has not.
pub(crate) const TEAM_KEYS: [&str; 5] = ["agents", "include", "mesh", "parameters", "providers"];

/// The keys that a session's file has and no agent's.
pub(crate) const SESSION_KEYS: [&str; 4] = ["seats", "phases", "stages", "preset"];

/// The agents of a node and the settings of their mesh.
#[derive(Debug, Clone, PartialEq)]
pub struct Team {
    /// The agents, in the order of the files.
    pub agents: Vec<AgentDefinition>,
    pub mesh: MeshConfig,
    /// The values of the parameters of its files, by name.
    pub parameters: BTreeMap<String, Value>,
}

/// One agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentDefinition {
    pub id: AgentId,
    pub settings: AgentSettings,
    pub brain: BrainConfig,
    /// The repositories that sessions which it hosts may work in.
    pub workspaces: BTreeMap<String, PathBuf>,
    /// What it demands of results before they count.
    pub accept: AcceptConfig,
    /// When tasks of its own begin, by name.
    pub schedules: BTreeMap<String, Schedule>,
    /// How other systems begin tasks of it, by name.
    pub triggers: BTreeMap<String, Trigger>,
    /// Its port; `None` takes the next free one.
    pub port: Option<u16>,
}

/// The brain of an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum BrainConfig {
    Exec {
        /// The program and its arguments.
        command: Vec<String>,
        env: BTreeMap<String, String>,
        dir: Option<PathBuf>,
        /// The user of the operating system that it runs as; the node's own if `None`.
        user: Option<String>,
        /// How it takes its turns.
        mode: ExecMode,
    },
    /// Answers from a file.
    Scripted(PathBuf),
    /// A language model with tools.
    Llm(Box<LlmConfig>),
    Http(HttpBrainConfig),
    /// A foreign A2A agent.
    Foreign(A2aBrainConfig),
    /// A process that registers and speaks for itself.
    Peer,
    Echo,
}

impl BrainConfig {
    /// The credentials in the configuration, which telemetry redacts.
    pub fn secrets(&self) -> Vec<String> {
        match self {
            Self::Exec { env, command, .. } => {
                let of_env = env.iter().flat_map(|(name, value)| of_variable(name, value));
                of_env.chain(of_command(command)).collect()
            }
            Self::Foreign(config) => {
                config.credentials.0.values().map(|secret| secret.expose().to_owned()).collect()
            }
            Self::Llm(config) => config.secrets(),
            Self::Http(HttpBrainConfig { headers, secret, .. }) => {
                headers.values().chain(secret).map(|secret| secret.expose().to_owned()).collect()
            }
            Self::Scripted(_) | Self::Peer | Self::Echo => Vec::new(),
        }
    }
}

impl Team {
    /// Loads the team that the files describe together; the error lists all faults of all files. `preset` is the timing
    /// preset if the files name none.
    pub fn load(paths: &[PathBuf], preset: TimingPreset) -> Result<Self, ConfigErrors> {
        Self::load_with(paths, preset, ProviderKeys::Required, &[])
    }

    /// The same with or without the keys of models' providers, and with the parameters that `set` gives.
    pub fn load_with(
        paths: &[PathBuf],
        preset: TimingPreset,
        keys: ProviderKeys,
        set: &[ParameterValue],
    ) -> Result<Self, ConfigErrors> {
        let mut loader = loader::TeamLoader::with_preset(preset).with_keys(keys).with_set(set);
        for path in paths {
            match text_file::read(path) {
                Ok(text) => {
                    // Brains and git run in other directories.
                    let whole = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                    loader.add(&path.display().to_string(), &text, whole.parent());
                }
                Err(error) => loader.fault(ConfigFault::of_file(path, format!("cannot be read: {error}"))),
            }
        }
        loader.team()
    }

    /// Parses the team in `text`. `name` is the file name in faults; relative paths start at `base`.
    pub fn parse(name: &str, text: &str, base: Option<&Path>) -> Result<Self, ConfigErrors> {
        let mut loader = loader::TeamLoader::default();
        loader.add(name, text, base);
        loader.team()
    }

    /// The built-in demo team.
    pub fn demo(preset: TimingPreset) -> Result<Self, ConfigErrors> {
        let mut loader = loader::TeamLoader::with_preset(preset);
        loader.add("the demo team", crate::demo::TEAM, None);
        loader.team()
    }
}

impl BrainConfig {
    /// The tool servers to which it sends one token of its own, whoever asks.
    pub fn own_logins(&self) -> Vec<&str> {
        let Self::Llm(config) = self else { return Vec::new() };
        let is_own = |server: &&ToolServerConfig| matches!(&server.transport, ToolServerTransport::Http { login: Some(login), .. } if login.whose == LoginOwner::Agent);
        config.tools.iter().filter(is_own).map(|server| server.name.as_str()).collect()
    }

    /// Creates the brain; `rights` are those of a command or a tool server, and `cassette` records or replaces models. Fails for
    /// a foreign agent, a service and a process that registers, which need a node.
    pub fn brain(
        &self,
        rights: &BrainRights,
        cassette: Option<&Cassette>,
    ) -> Result<Arc<dyn Brain>, BrainError> {
        Ok(match self {
            Self::Exec { command, env, dir, user, mode } => {
                let mut exec = ExecBrain::new(command.clone());
                exec.mode = *mode;
                exec.env.clone_from(env);
                exec.dir = dir.clone().or_else(|| user.is_some().then(|| rights.home.clone())?);
                exec.home.clone_from(&rights.home);
                exec.user.clone_from(&rights.user);
                exec.access = rights.access.clone();
                Arc::new(exec)
            }
            Self::Scripted(path) => Arc::new(ScriptedBrain::read(path)?),
            Self::Llm(config) => Arc::new(LlmBrain::new(config.as_ref().clone(), rights, cassette)?),
            Self::Echo => Arc::new(EchoBrain),
            Self::Http(service) => {
                let what = format!("{} is reached through a node", service.url);
                return Err(BrainError::NotStarted { what, source: None });
            }
            Self::Peer => {
                let what = "a process that registers is reached through a node".to_owned();
                return Err(BrainError::NotStarted { what, source: None });
            }
            Self::Foreign(foreign) => {
                let what = format!("{} is reached through a node", foreign.card);
                return Err(BrainError::NotStarted { what, source: None });
            }
        })
    }
}

#[cfg(test)]
mod reference_tests;
#[cfg(test)]
mod tests;
