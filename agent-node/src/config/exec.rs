//! The settings of a brain that is a command.

use super::{
    forms::{self, YamlForms},
    text::YamlText,
};
use crate::brain::exec::ExecMode;
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer,
    de::{
        MapAccess, SeqAccess,
        value::{MapAccessDeserializer, SeqAccessDeserializer},
    },
};
use std::collections::BTreeMap;

/// A command as a brain.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub(super) enum ExecFile {
    /// The program and its arguments; a process for each turn.
    Command(#[schemars(length(min = 1))] Vec<YamlText>),
    /// The command and how it runs.
    Full(ExecMembers),
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecMembers {
    /// The program and its arguments. `mesh` is this very program.
    #[schemars(length(min = 1))]
    command: Vec<YamlText>,
    /// Its environment, beside the agent's `env`.
    #[serde(default)]
    env: BTreeMap<String, YamlText>,
    /// Where it runs, relative to this file; the agent's `cwd` if absent.
    cwd: Option<String>,
    /// The user of the operating system under which it runs, by name or as UID:GID; the node must run as root. The node's own if absent or empty.
    user: Option<YamlText>,
    /// Whether its standard input stays open in a turn, for acknowledgements of checkpoints and for a cancel.
    #[serde(default)]
    duplex: bool,
    /// Whether one process takes many turns, one at a time. It is `duplex`, too.
    #[serde(default)]
    worker: bool,
}

impl<'de> YamlForms<'de> for ExecFile {
    const EXPECTED: &'static str = "a sequence";

    fn of_list<A: SeqAccess<'de>>(list: A) -> Result<Self, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Self::Command)
    }

    fn of_map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        ExecMembers::deserialize(MapAccessDeserializer::new(map)).map(Self::Full)
    }
}

impl<'de> Deserialize<'de> for ExecFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        forms::deserialize(deserializer)
    }
}

/// The settings of a command with those of its agent. The key of a fault is below `brain.exec`, or the agent's.
pub(super) struct ExecSettings {
    pub(super) command: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    /// With its key in the file.
    pub(super) cwd: Option<(&'static str, String)>,
    /// With its key in the file.
    pub(super) user: Option<(&'static str, String)>,
    pub(super) mode: ExecMode,
    pub(super) command_key: &'static str,
}

impl ExecFile {
    /// The settings, with the `env`, `cwd` and `user` that are beside the brain. A fault has its key and what is wrong.
    pub(super) fn settings(
        &self,
        env: &BTreeMap<String, YamlText>,
        cwd: Option<&String>,
        user: Option<&String>,
    ) -> Result<ExecSettings, (&'static str, String)> {
        let texts = |words: &[YamlText]| words.iter().map(|word| word.0.clone()).collect();
        let mut env: BTreeMap<_, _> =
            env.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect();
        let outer_cwd = cwd.map(|cwd| ("cwd", cwd.clone()));
        let outer_user = user.map(|user| ("brain.user", user.clone()));
        let members = match self {
            Self::Command(command) => {
                return Ok(ExecSettings {
                    command: texts(command),
                    env,
                    cwd: outer_cwd,
                    user: outer_user,
                    mode: ExecMode::OneShot,
                    command_key: "brain.exec",
                });
            }
            Self::Full(members) => members,
        };
        let twice = |key| format!("is said twice, here and as {key}; say it once");
        let own_cwd = members.cwd.as_ref().map(|cwd| ("brain.exec.cwd", cwd.clone()));
        if own_cwd.is_some() && outer_cwd.is_some() {
            return Err(("brain.exec.cwd", twice("the agent's cwd")));
        }
        let own_user = members.user.as_ref().map(|user| user.0.clone()).filter(|user| !user.is_empty());
        let own_user = own_user.map(|user| ("brain.exec.user", user));
        if own_user.is_some() && outer_user.is_some() {
            return Err(("brain.exec.user", twice("brain.user")));
        }
        env.extend(members.env.iter().map(|(name, value)| (name.clone(), value.0.clone())));
        Ok(ExecSettings {
            command: texts(&members.command),
            env,
            cwd: own_cwd.or(outer_cwd),
            user: own_user.or(outer_user),
            mode: match (members.worker, members.duplex) {
                (true, _) => ExecMode::Worker,
                (false, true) => ExecMode::Duplex,
                (false, false) => ExecMode::OneShot,
            },
            command_key: "brain.exec.command",
        })
    }
}
