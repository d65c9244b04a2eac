//! Loads a team from files: reads every document and collects every fault.

use super::{
    AcceptConfig, AgentDefinition, BrainConfig, ConfigErrors, ConfigFault, MeshConfig, Team, TimingPreset,
    command_check::{self, shown},
    exec::ExecSettings,
    file::{AgentFile, AgentMembers, BrainFile, MeshFile, TeamFile},
    forms::MapOrText,
    llm::{LlmSurroundings, ProviderKeys},
    schema,
    text::YamlText,
    type_names, unknown_keys, variables,
    yaml::{self, YamlNode},
};
use crate::{
    brain::{
        BrainError,
        a2a::A2aBrainConfig,
        exec::os_user::OsUser,
        llm::{output::OutputSchema, provider::Providers},
    },
    outbox::{
        a2a::credentials::{SchemeCredentials, SecretString},
        outbound_client::check_url,
    },
};
use blackboard::http_client::has_credentials;
use engine::settings::{AgentSettings, SignalFilter};
use protocol::{bid::Eta, ids::Capability, signal::SIGNAL_TYPES, signal::SignalType};
use serde::de::DeserializeOwned;
use std::{collections::BTreeMap, path::Path};

/// The agents, settings and faults read so far.
#[derive(Default)]
pub(super) struct TeamLoader {
    agents: Vec<AgentDefinition>,
    mesh: Option<MeshConfig>,
    preset: TimingPreset,
    keys: ProviderKeys,
    providers: Providers,
    faults: Vec<ConfigFault>,
    ids: BTreeMap<String, String>,
    ports: BTreeMap<u16, String>,
    /// The services and cards of brains, with the place of each, where a fault of it is.
    called: Vec<(ConfigFault, String)>,
}

/// A node of a file's YAML and its path.
struct SourceLocation<'a> {
    file: &'a str,
    base: Option<&'a Path>,
    node: &'a YamlNode,
    /// For example `agents[0]`; empty for the document.
    path: String,
}

impl SourceLocation<'_> {
    fn fault(&self, key: &str, what: impl Into<String>) -> ConfigFault {
        let line = self.node.line_at(key);
        let key = match (self.path.as_str(), key) {
            ("", key) => key.to_owned(),
            (path, "") => path.to_owned(),
            (path, key) => format!("{path}.{key}"),
        };
        ConfigFault { file: self.file.to_owned(), line, key, what: what.into() }
    }

    fn read<T: DeserializeOwned>(&self) -> Result<T, ConfigFault> {
        serde_path_to_error::deserialize(self.node.to_json()).map_err(|error| {
            let (path, what) = (error.path().to_string(), error.into_inner().to_string());
            let path = match path.rsplit_once('.') {
                _ if path == "." => "",
                // The kind is the value then, not a key.
                Some((above, _)) if what.contains("unit variant") => above,
                _ => path.as_str(),
            };
            self.fault(path, type_names::explain(&what))
        })
    }
}

impl TeamLoader {
    pub(super) fn fault(&mut self, fault: ConfigFault) {
        self.faults.push(fault);
    }

    pub(super) fn with_preset(preset: TimingPreset) -> Self {
        Self { preset, ..Self::default() }
    }

    pub(super) fn with_keys(self, keys: ProviderKeys) -> Self {
        Self { keys, ..self }
    }

    pub(super) fn add(
        &mut self,
        file: &str,
        text: &str,
        base: Option<&Path>,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) {
        let fault = |line, key: String, what: String| ConfigFault { file: file.to_owned(), line, key, what };
        let documents = match yaml::documents(text) {
            Ok(documents) => documents,
            Err(error) => return self.faults.push(fault(error.line, String::new(), error.what)),
        };
        if documents.is_empty() {
            self.faults.push(fault(None, String::new(), "describes no agent".into()));
        }
        for mut node in documents {
            self.keys.prepare(&mut node);
            if let Some(YamlNode { value: yaml::YamlValue::List(agents), .. }) = node.get_mut("agents") {
                agents.iter_mut().for_each(|agent| self.keys.prepare(agent));
            }
            let mut missing = Vec::new();
            variables::substitute(&mut node, lookup, &mut missing);
            let unset: Vec<_> = missing.iter().map(|(line, _)| *line).collect();
            let before = self.faults.len() + missing.len();
            self.faults
                .extend(missing.into_iter().map(|(line, what)| fault(Some(line), String::new(), what)));

            let is_team = node.get("agents").or(node.get("mesh")).or(node.get("providers")).is_some();
            if is_team && node.get("agent").is_some() {
                let beside = ["agents", "mesh", "providers"];
                let beside = beside.into_iter().find(|key| node.get(key).is_some()).unwrap_or_default();
                let what = format!(
                    "one agent and `{beside}` can't be said in one document; put the agent into the list `agents`, or a line `---` between them"
                );
                self.faults.push(
                    SourceLocation { file, base, node: &node, path: String::new() }.fault("agent", what),
                );
                continue;
            }
            let is_session = !is_team && node.get("agent").is_none();
            if is_session && super::SESSION_KEYS.iter().any(|key| node.get(key).is_some()) {
                let what = "describes a session, not agents; `mesh convene` begins it";
                self.faults.push(fault(None, String::new(), what.into()));
                continue;
            }
            let schema = if is_team { schema::of::<TeamFile>() } else { schema::of::<AgentFile>() };
            let mut unknowns = Vec::new();
            unknown_keys::find(&node, &schema, "", &mut unknowns);
            if !unknowns.is_empty() {
                self.faults.extend(unknowns.into_iter().map(|u| fault(Some(u.line), u.key, u.what)));
                continue;
            }
            if is_team {
                self.add_team(file, base, &node);
            } else {
                self.add_agent(&SourceLocation { file, base, node: &node, path: String::new() });
            }
            // A fault on a line with an unset variable follows from the missing value.
            let mut at = 0;
            self.faults.retain(|fault| {
                at += 1;
                at <= before || !fault.line.is_some_and(|line| unset.contains(&line))
            });
        }
    }

    fn add_team(&mut self, file: &str, base: Option<&Path>, node: &YamlNode) {
        if let Some(mesh) = node.get("mesh") {
            let location = SourceLocation { file, base, node: mesh, path: "mesh".into() };
            let preset = self.preset;
            let mesh = location.read::<MeshFile>().and_then(|given| {
                MeshConfig::from_file(&given, preset).map_err(|(key, what)| location.fault(key, what))
            });
            match mesh {
                Ok(_) if self.mesh.is_some() => {
                    self.faults.push(location.fault("", "is said twice; one file says it for all"));
                }
                Ok(mesh) => self.mesh = Some(mesh),
                Err(fault) => self.faults.push(fault),
            }
        }
        if let Some(providers) = node.get("providers") {
            let location = SourceLocation { file, base, node: providers, path: "providers".into() };
            match location.read() {
                Ok(given) => self.providers = self.providers.corrected(given),
                Err(fault) => self.faults.push(fault),
            }
        }
        match node.get("agents") {
            Some(YamlNode { value: yaml::YamlValue::List(agents), .. }) if agents.is_empty() => {
                let location = SourceLocation { file, base, node, path: String::new() };
                let what = "lists no agent; a file without agents leaves the key out";
                self.faults.push(location.fault("agents", what));
            }
            Some(YamlNode { value: yaml::YamlValue::List(agents), .. }) => {
                for (at, agent) in agents.iter().enumerate() {
                    self.add_agent(&SourceLocation {
                        file,
                        base,
                        node: agent,
                        path: format!("agents[{at}]"),
                    });
                }
            }
            Some(_) => {
                let location = SourceLocation { file, base, node, path: String::new() };
                self.faults.push(location.fault("agents", "must be a list of agents"));
            }
            None => {}
        }
    }

    fn add_agent(&mut self, location: &SourceLocation<'_>) {
        let read = || {
            // It is beside the kind of the brain, of which serde takes one key.
            let mut node = location.node.clone();
            let user = node.get_mut("brain").and_then(|brain| brain.remove("user"));
            let agent = SourceLocation { node: &node, path: location.path.clone(), ..*location }.read()?;
            let user = user.map(|user| serde_json::from_value(user.to_json())).transpose();
            let user = user.map_err(|error| location.fault("brain.user", error.to_string()))?;
            Ok((agent, user.map(|YamlText(user)| user).filter(|user| !user.is_empty()), location.read()?))
        };
        let (agent, user, settings): (AgentMembers, Option<String>, AgentSettings) = match read() {
            Ok(read) => read,
            Err(fault) => return self.faults.push(fault),
        };
        let before = self.faults.len();
        let at = location.fault("agent", "");
        let position = format!("{}:{}", at.file, at.line.unwrap_or_default());
        if agent.agent.is_reserved() {
            self.faults.push(
                location.fault("agent", format!("{} is a service's name, no agent may have it", agent.agent)),
            );
        }
        if let Some(other) = self.ids.insert(agent.agent.as_str().to_ascii_lowercase(), position) {
            self.faults.push(location.fault("agent", format!("{} is taken, see {other}", agent.agent)));
        }
        if let Some(other) = agent.port.and_then(|port| self.ports.insert(port, agent.agent.to_string())) {
            self.faults.push(location.fault("port", format!("is the port of {other} too")));
        }
        let is_zero = |eta: Option<Eta>| eta.is_some_and(|eta| eta.duration().is_zero());
        let positive = [
            ("port", agent.port == Some(0)),
            ("bid.maxParallel", settings.bid.max_parallel == Some(0)),
            ("bid.within", is_zero(settings.bid.within)),
            ("bounds.turns", settings.bounds.turns == Some(0)),
            ("bounds.idle", is_zero(settings.bounds.idle)),
            ("bounds.turn", is_zero(settings.bounds.turn)),
        ];
        for (key, _) in positive.into_iter().filter(|(_, is_zero)| *is_zero) {
            self.faults.push(location.fault(key, "must be at least 1"));
        }
        for (at, MapOrText(skill)) in agent.skills.iter().enumerate() {
            if agent.skills[..at].iter().any(|MapOrText(other)| other.id == skill.id) {
                let key = format!("skills[{at}]");
                self.faults.push(location.fault(&key, format!("{} is there twice", skill.id)));
            }
        }
        for (at, SignalFilter { kind: pattern, .. }) in settings.subscribe.iter().enumerate() {
            if !is_pattern(pattern) {
                let what = format!(
                    "{pattern:?} fits no signal type; there are {}, and types of your own such as my.own",
                    SIGNAL_TYPES.join(", ")
                );
                self.faults.push(location.fault(&format!("subscribe[{at}]"), what));
            }
        }
        let may_bid = matches!(agent.brain, BrainFile::Exec(_) | BrainFile::Http(_) | BrainFile::Llm(_));
        if settings.bid.ask.is_some() && !may_bid {
            let what = "is for an exec, http or llm brain; the bids of this one are always computed";
            self.faults.push(location.fault("bid.ask", what));
        }
        if settings.bid.within.is_some() && settings.bid.ask.is_none() {
            self.faults.push(location.fault("bid.within", "is for `ask: brain`; computed bids take no time"));
        }
        let brain = brain(location, &agent, user, (self.keys, &self.providers));
        let (brain, accept) = match (brain, accept(location, &agent)) {
            (Ok(brain), Ok(accept)) => (brain, accept),
            (brain, accept) => return self.faults.extend([brain.err(), accept.err()].into_iter().flatten()),
        };
        if let (BrainConfig::Llm(llm), Some(_)) = (&brain, settings.bounds.cost)
            && let Some(model) = llm.models.iter().find(|model| model.price.is_none())
        {
            let what = format!("needs the `price` of every model; {} has none", model.model);
            self.faults.push(location.fault("bounds.cost", what));
        }
        for (key, _) in agent.a2a.published().filter(|(_, url)| has_credentials(url)) {
            let what = "must not carry a name or a password: whoever reads the card sees it";
            self.faults.push(location.fault(key, what));
        }
        let called = match &brain {
            BrainConfig::Http(service) => Some(("brain.http.url", &service.url)),
            BrainConfig::Foreign(foreign) => Some(("brain.a2a.card", &foreign.card)),
            _ => None,
        };
        self.called.extend(called.map(|(key, url)| (location.fault(key, ""), url.clone())));
        if self.faults.len() > before {
            return;
        }
        let path = |YamlText(path): YamlText| match location.base {
            Some(base) => base.join(path),
            None => path.into(),
        };
        let workspaces: BTreeMap<_, _> =
            agent.workspaces.into_iter().map(|(name, given)| (name, path(given))).collect();
        self.agents.push(AgentDefinition {
            id: agent.agent,
            settings: AgentSettings {
                description: agent.description.0,
                skills: agent.skills.into_iter().map(|MapOrText(skill)| skill.into()).collect(),
                a2a: agent.a2a.into(),
                workspaces: workspaces.keys().cloned().collect(),
                ..settings
            },
            workspaces,
            brain,
            accept,
            port: agent.port,
        });
    }

    pub(super) fn team(mut self) -> Result<Team, ConfigErrors> {
        let mesh = self.mesh.unwrap_or_else(|| MeshConfig::of(self.preset));
        self.faults.extend(self.called.into_iter().filter_map(|(fault, url)| {
            let refused = check_url(&mesh.outside, &url).err()?;
            Some(ConfigFault { what: refused.to_string(), ..fault })
        }));
        if self.faults.is_empty() {
            Ok(Team { agents: self.agents, mesh })
        } else {
            Err(ConfigErrors(self.faults))
        }
    }
}

/// Whether `pattern` can match a signal type.
fn is_pattern(pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        None => SignalType::parse(pattern).is_ok(),
        Some("") => true,
        Some(prefix) => {
            prefix.ends_with('.')
                && (SIGNAL_TYPES.iter().any(|kind| kind.starts_with(prefix))
                    || SignalType::parse(&format!("{prefix}x")).is_ok())
        }
    }
}

/// The schemas of the skills' outputs, with the capabilities that each is for. A tag that is a skill of its own has that
/// skill's.
fn outputs(
    location: &SourceLocation<'_>,
    agent: &AgentMembers,
) -> Result<BTreeMap<Capability, OutputSchema>, ConfigFault> {
    let mut outputs = BTreeMap::new();
    for (at, MapOrText(skill)) in agent.skills.iter().enumerate() {
        let Some(schema) = &skill.output_schema else { continue };
        let schema = OutputSchema::new(schema.clone())
            .map_err(|what| location.fault(&format!("skills[{at}].outputSchema"), what))?;
        for tag in &skill.tags {
            outputs.entry(tag.clone()).or_insert_with(|| schema.clone());
        }
        outputs.insert(skill.id.clone(), schema);
    }
    Ok(outputs)
}

fn accept(location: &SourceLocation<'_>, agent: &AgentMembers) -> Result<AcceptConfig, ConfigFault> {
    let dir = match &agent.cwd {
        Some(cwd) => Some(location.base.map_or_else(|| cwd.into(), |base| base.join(cwd))),
        None => location.base.map(Path::to_owned),
    };
    let path_variable = agent.env.get("PATH").map(|path| path.0.as_str());
    let check_command = |command: &[String]| command_check::check(command, dir.as_deref(), path_variable);
    let env = agent.env.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect();
    let fault = |key: &str, what: String| location.fault(key, what);
    let accept = agent.accept.as_ref();
    let accept = accept.map(|accept| accept.config(env, dir.clone(), check_command, fault)).transpose()?;
    let mut accept = accept.unwrap_or_default();
    let outputs = outputs(location, agent)?.into_iter();
    accept.outputs = outputs.map(|(capability, schema)| (vec![capability], schema)).collect();
    Ok(accept)
}

fn brain(
    location: &SourceLocation<'_>,
    agent: &AgentMembers,
    user: Option<String>,
    (keys, providers): (ProviderKeys, &Providers),
) -> Result<BrainConfig, ConfigFault> {
    let within = |path: &str| location.base.map_or_else(|| path.into(), |base| base.join(path));
    let directory = |key: &str, cwd: Option<&str>| match cwd {
        Some(cwd) => {
            let dir = within(cwd);
            match dir.is_dir() {
                true => Ok(Some(dir)),
                false => Err(location.fault(key, format!("there is no directory {}", shown(&dir)))),
            }
        }
        None => Ok(location.base.map(Path::to_owned)),
    };
    let dir = directory("cwd", agent.cwd.as_deref())?;
    if user.is_some() && !matches!(agent.brain, BrainFile::Exec(_)) {
        return Err(location.fault("brain.user", "is for an exec brain; this one runs no command"));
    }
    match &agent.brain {
        BrainFile::Echo(_) => Ok(BrainConfig::Echo),
        BrainFile::Peer(_) => Ok(BrainConfig::Peer),
        BrainFile::Llm(llm) => {
            let outputs = outputs(location, agent)?;
            let env = agent.env.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect();
            let description = &agent.description.0;
            let base = location.base;
            let agent = LlmSurroundings { description, env, dir, base, outputs, keys, providers };
            let config = llm.config(agent);
            let config = config.map_err(|(key, what)| location.fault(&format!("brain.llm.{key}"), what))?;
            Ok(BrainConfig::Llm(Box::new(config)))
        }
        BrainFile::A2a(foreign) => {
            if !foreign.card.starts_with("https://") && !foreign.card.starts_with("http://") {
                return Err(location.fault("brain.a2a.card", "must be a URL, https or http"));
            }
            if has_credentials(&foreign.card) {
                let what = "must not carry a name or a password; brain.a2a.credentials is for those";
                return Err(location.fault("brain.a2a.card", what));
            }
            let bounds = super::mesh::with_overrides(&Default::default(), &foreign.bounds);
            let hidden = |(scheme, secret): (&String, &YamlText)| {
                (scheme.clone(), SecretString::new(secret.0.clone()))
            };
            Ok(BrainConfig::Foreign(A2aBrainConfig {
                card: foreign.card.clone(),
                mode: foreign.mode.map(Into::into),
                credentials: SchemeCredentials(foreign.credentials.iter().map(hidden).collect()),
                bounds: bounds.map_err(|error| location.fault("brain.a2a.bounds", error))?,
            }))
        }
        BrainFile::Http(service) => {
            let config = service.config();
            let config = config.map_err(|(key, what)| location.fault(&format!("brain.http.{key}"), what))?;
            Ok(BrainConfig::Http(config))
        }
        BrainFile::Scripted(path) => {
            let path = within(path);
            if !path.is_file() {
                return Err(location.fault("brain.scripted", command_check::no_file(&path)));
            }
            let script = BrainConfig::Scripted(path);
            script.brain(&Default::default(), None).map_err(|error| {
                let what = match &error {
                    BrainError::NotStarted { what, .. } => what.clone(),
                    _ => error.to_string(),
                };
                location.fault("brain.scripted", what)
            })?;
            Ok(script)
        }
        BrainFile::Exec(exec) => {
            let exec = exec.settings(&agent.env, agent.cwd.as_ref(), user.as_ref());
            let exec = exec.map_err(|(key, what)| location.fault(key, what))?;
            let ExecSettings { mut command, env, cwd, user, mode, command_key } = exec;
            let (cwd_key, cwd) = cwd.map_or(("cwd", None), |(key, cwd)| (key, Some(cwd)));
            let dir = directory(cwd_key, cwd.as_deref())?;
            if let Some((key, user)) = &user {
                OsUser::lookup(user).map_err(|what| location.fault(key, what))?;
            }
            command_check::check(&command, dir.as_deref(), env.get("PATH").map(String::as_str))
                .map_err(|what| location.fault(command_key, what))?;
            let user = user.map(|(_, user)| user);
            if user.is_none() || cwd.is_some() {
                return Ok(BrainConfig::Exec { command, env, dir, user, mode });
            }
            // It runs in its own directory, and its program is still beside this file.
            if let Some(program) = command.first_mut().filter(|program| program.contains('/')) {
                let path = within(program);
                *program = std::path::absolute(&path).unwrap_or(path).display().to_string();
            }
            Ok(BrainConfig::Exec { command, env, dir: None, user, mode })
        }
    }
}
