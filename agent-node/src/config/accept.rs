//! What an agent demands of results before they count: `accept` in the YAML, and the output schemas of its skills.

use super::{
    fault::ConfigFault,
    forms::OneOrMany,
    text::{YamlText, texts},
};
use crate::{
    brain::{
        exec::{BrainRights, ExecBrain},
        llm::output::OutputSchema,
        result_checker::{AgentAcceptance, NodeCheck, ResultChecker},
    },
    telemetry::capture::{of_command, of_variable},
};
use protocol::{acceptance::AcceptanceRule, bid::Eta, ids::Capability};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

/// What a result must pass before it counts; at least one of `schema`, `exec` and `reviewer`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DemandFile {
    /// The capabilities of the tasks whose results it is for; all if absent.
    #[serde(rename = "for", default)]
    #[schemars(with = "Vec<String>")]
    capabilities: Vec<Capability>,
    /// The JSON Schema of the last artifact, or of the message if there is no artifact.
    #[schemars(with = "Option<serde_json::Map<String, Value>>")]
    schema: Option<Value>,
    /// A command that gets the task and its artifacts as a line of JSON and accepts with the exit code 0; what it prints are its findings.
    #[schemars(length(min = 1))]
    exec: Option<Vec<YamlText>>,
    /// How long the command may take: milliseconds, or text like `10m`; 10 minutes if absent.
    #[schemars(with = "Option<engine::settings::EtaForms>")]
    within: Option<Eta>,
    /// The capability of the agent that reviews it, found by contract net.
    #[schemars(with = "Option<String>")]
    reviewer: Option<Capability>,
}

/// How long a command may take.
const WITHIN: Duration = Duration::from_secs(600);

/// The demands of an agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AcceptConfig {
    /// The schemas of its skills' outputs, with the capabilities that each is for.
    pub(super) outputs: Vec<(Vec<Capability>, OutputSchema)>,
    demands: Vec<AcceptDemand>,
    env: BTreeMap<String, String>,
    dir: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq)]
struct AcceptDemand {
    capabilities: Vec<Capability>,
    schema: Option<OutputSchema>,
    command: Option<(Vec<String>, Duration)>,
    reviewer: Option<Capability>,
}

impl AcceptConfig {
    pub(crate) fn has_commands(&self) -> bool {
        self.demands.iter().any(|demand| demand.command.is_some())
    }

    /// The secrets in the environment and the arguments of its commands, which telemetry redacts.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let commands = self.demands.iter().filter_map(|demand| demand.command.as_ref());
        let of_env = self.env.iter().flat_map(|(name, value)| of_variable(name, value));
        of_env.chain(commands.flat_map(|(words, _)| of_command(words))).collect()
    }

    /// The checks. `rights` are those of the commands.
    pub(crate) fn acceptance(&self, rights: &BrainRights) -> AgentAcceptance {
        let outputs = self.outputs.iter();
        let mut checks: Vec<_> = outputs
            .map(|(capabilities, schema)| (capabilities.clone(), NodeCheck::Schema(schema.clone())))
            .collect();
        let mut reviewers = Vec::new();
        for AcceptDemand { capabilities, schema, command, reviewer } in &self.demands {
            checks.extend(schema.clone().map(|schema| (capabilities.clone(), NodeCheck::Schema(schema))));
            checks.extend(command.clone().map(|(command, within)| {
                let mut exec = ExecBrain::new(command);
                (exec.env, exec.dir) = (self.env.clone(), self.dir.clone());
                (exec.home, exec.user) = (rights.home.clone(), rights.user.clone());
                exec.access = rights.access.clone();
                (capabilities.clone(), NodeCheck::Command { exec: Box::new(exec), within })
            }));
            reviewers.extend(reviewer.clone().map(|reviewer| AcceptanceRule {
                capabilities: capabilities.clone(),
                is_checked_here: false,
                reviewer: Some(reviewer),
            }));
        }
        AgentAcceptance { checker: ResultChecker::new(checks), reviewers }
    }
}

impl AcceptConfig {
    /// The demands of a file. `check_command` says what is wrong with a command; `fault` makes a fault at a key below `accept`.
    pub(super) fn new(
        demands: &OneOrMany<DemandFile>,
        env: BTreeMap<String, String>,
        dir: Option<PathBuf>,
        check_command: impl Fn(&[String]) -> Result<(), String>,
        fault: impl Fn(&str, String) -> ConfigFault,
    ) -> Result<Self, ConfigFault> {
        let mut read = Vec::new();
        for (key, file) in demands.keyed("accept") {
            let below = |member: &str, what: String| fault(&format!("{key}.{member}"), what);
            if file.schema.is_none() && file.exec.is_none() && file.reviewer.is_none() {
                return Err(fault(&key, "demands nothing; it needs schema, exec or reviewer".to_owned()));
            }
            if file.within.is_some() && file.exec.is_none() {
                return Err(below("within", "is for a command; exec names none".to_owned()));
            }
            if file.within.is_some_and(|within| within.duration().is_zero()) {
                return Err(below("within", "must be at least 1".to_owned()));
            }
            let schema = file.schema.clone().map(OutputSchema::new).transpose();
            let command = file.exec.as_ref().map(|words| {
                let command = texts(words);
                check_command(&command)?;
                Ok((command, file.within.map_or(WITHIN, Eta::duration)))
            });
            read.push(AcceptDemand {
                capabilities: file.capabilities.clone(),
                schema: schema.map_err(|what| below("schema", what))?,
                command: command.transpose().map_err(|what: String| below("exec", what))?,
                reviewer: file.reviewer.clone(),
            });
        }
        Ok(Self { outputs: Vec::new(), demands: read, env, dir })
    }
}
