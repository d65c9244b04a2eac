//! The settings of a brain that is a command.

use super::{
    forms::ShortForm,
    text::{YamlText, texts},
};
use crate::brain::exec::ExecMode;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A command as a brain, and how it runs; the command is enough.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecFile {
    /// The program and its arguments; each turn has a process of its own if it is no `worker`. `mesh` is this very program.
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

impl ShortForm for ExecFile {
    const KEY: &'static str = "command";
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
}

impl ExecFile {
    /// The settings, with the `env`, `cwd` and `user` that are beside the brain. A fault has its key and what is wrong.
    pub(super) fn settings(
        &self,
        mut env: BTreeMap<String, String>,
        cwd: Option<&String>,
        user: Option<&String>,
    ) -> Result<ExecSettings, (&'static str, String)> {
        let twice = |key| format!("is said twice, here and as {key}; say it once");
        let outer_cwd = cwd.map(|cwd| ("cwd", cwd.clone()));
        let own_cwd = self.cwd.as_ref().map(|cwd| ("brain.exec.cwd", cwd.clone()));
        if own_cwd.is_some() && outer_cwd.is_some() {
            return Err(("brain.exec.cwd", twice("the agent's cwd")));
        }
        let outer_user = user.map(|user| ("brain.user", user.clone()));
        let own_user = self.user.as_ref().map(|user| user.0.clone()).filter(|user| !user.is_empty());
        let own_user = own_user.map(|user| ("brain.exec.user", user));
        if own_user.is_some() && outer_user.is_some() {
            return Err(("brain.exec.user", twice("brain.user")));
        }
        env.extend(self.env.iter().map(|(name, value)| (name.clone(), value.0.clone())));
        Ok(ExecSettings {
            command: texts(&self.command),
            env,
            cwd: own_cwd.or(outer_cwd),
            user: own_user.or(outer_user),
            mode: match (self.worker, self.duplex) {
                (true, _) => ExecMode::Worker,
                (false, true) => ExecMode::Duplex,
                (false, false) => ExecMode::OneShot,
            },
        })
    }
}
