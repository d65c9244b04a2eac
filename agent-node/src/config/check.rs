//! From files to a team: every document is read, every fault is named.

use super::{
    AgentConfig, BadConfig, BrainConfig, Fault, MeshConfig, Profile, Team,
    file::{AgentFile, BrainFile, MeshFile, TeamFile},
    schema,
    text::Text,
    tree::{self, Node},
    unknown, variables, words,
};
use crate::{
    brain::a2a::A2aBrainConfig,
    outbox::a2a::credentials::{SchemeCredentials, SecretString},
};
use blackboard::wire::names_who_speaks;
use protocol::{card::BidTerms, signal::SIGNAL_TYPES, signal::SignalType};
use serde::de::DeserializeOwned;
use std::{collections::BTreeMap, os::unix::fs::PermissionsExt as _, path::Path};

/// What has been read so far.
#[derive(Default)]
pub(super) struct Loading {
    agents: Vec<AgentConfig>,
    mesh: Option<MeshConfig>,
    profile: Profile,
    faults: Vec<Fault>,
    ids: BTreeMap<String, String>,
    ports: BTreeMap<u16, String>,
}

/// Where in which file something stands.
struct Place<'a> {
    file: &'a str,
    base: Option<&'a Path>,
    node: &'a Node,
    /// `agents[0]`, or nothing.
    path: String,
}

impl Place<'_> {
    fn fault(&self, key: &str, what: impl Into<String>) -> Fault {
        let steps = key.split(['.', '[', ']']).filter(|step| !step.is_empty());
        let key = match (self.path.as_str(), key) {
            ("", key) => key.to_owned(),
            (path, "") => path.to_owned(),
            (path, key) => format!("{path}.{key}"),
        };
        let line = Some(self.node.line_of(steps)).filter(|line| *line > 0);
        Fault { file: self.file.to_owned(), line, key, what: what.into() }
    }

    fn read<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        serde_path_to_error::deserialize(self.node.to_json()).map_err(|error| {
            let path = error.path().to_string();
            self.fault(if path == "." { "" } else { &path }, words::plain(&error.into_inner().to_string()))
        })
    }
}

impl Loading {
    pub(super) fn fault(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// Nothing read yet; times start from `profile`.
    pub(super) fn in_profile(profile: Profile) -> Self {
        Self { profile, ..Self::default() }
    }

    /// Reads one file's text.
    pub(super) fn add(
        &mut self,
        file: &str,
        text: &str,
        base: Option<&Path>,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) {
        let fault = |line, key: String, what: String| Fault { file: file.to_owned(), line, key, what };
        let documents = match tree::documents(text) {
            Ok(documents) => documents,
            Err(bad) => return self.faults.push(fault(bad.line, String::new(), bad.what)),
        };
        if documents.is_empty() {
            self.faults.push(fault(None, String::new(), "describes no agent".into()));
        }
        for mut node in documents {
            let mut missing = Vec::new();
            variables::substitute(&mut node, lookup, &mut missing);
            let unset: Vec<_> = missing.iter().map(|(line, _)| *line).collect();
            let before = self.faults.len() + missing.len();
            self.faults
                .extend(missing.into_iter().map(|(line, what)| fault(Some(line), String::new(), what)));

            let is_team = node.get("agents").or(node.get("mesh")).is_some();
            if is_team && node.get("agent").is_some() {
                let beside = if node.get("agents").is_some() { "agents" } else { "mesh" };
                let what = format!(
                    "one agent and `{beside}` can't be said in one document; put the agent into the list `agents`, or a line `---` between them"
                );
                self.faults.push(Place { file, base, node: &node, path: String::new() }.fault("agent", what));
                continue;
            }
            let schema = if is_team { schema::of::<TeamFile>() } else { schema::of::<AgentFile>() };
            let mut unknowns = Vec::new();
            unknown::find(&node, &schema, "", &mut unknowns);
            if !unknowns.is_empty() {
                self.faults.extend(unknowns.into_iter().map(|u| fault(Some(u.line), u.key, u.what)));
                continue;
            }
            if is_team {
                self.add_team(file, base, &node);
            } else {
                self.add_agent(&Place { file, base, node: &node, path: String::new() });
            }
            // What a text without its variable comes to is no fault of its own.
            let mut at = 0;
            self.faults.retain(|fault| {
                at += 1;
                at <= before || !fault.line.is_some_and(|line| unset.contains(&line))
            });
        }
    }

    fn add_team(&mut self, file: &str, base: Option<&Path>, node: &Node) {
        if let Some(mesh) = node.get("mesh") {
            let place = Place { file, base, node: mesh, path: "mesh".into() };
            let profile = self.profile;
            let read = place.read::<MeshFile>().and_then(|given| {
                MeshConfig::from_file(&given, profile).map_err(|(key, what)| place.fault(key, what))
            });
            match read {
                Ok(_) if self.mesh.is_some() => {
                    self.faults.push(place.fault("", "is said twice; one file says it for all"));
                }
                Ok(mesh) => self.mesh = Some(mesh),
                Err(fault) => self.faults.push(fault),
            }
        }
        match node.get("agents") {
            Some(Node { is: tree::Is::List(agents), .. }) => {
                for (at, agent) in agents.iter().enumerate() {
                    self.add_agent(&Place { file, base, node: agent, path: format!("agents[{at}]") });
                }
            }
            Some(_) => {
                let place = Place { file, base, node, path: String::new() };
                self.faults.push(place.fault("agents", "must be a list of agents"));
            }
            None => {}
        }
    }

    fn add_agent(&mut self, place: &Place<'_>) {
        let agent = match place.read::<AgentFile>() {
            Ok(agent) => agent,
            Err(fault) => return self.faults.push(fault),
        };
        let before = self.faults.len();
        let at = place.fault("agent", "");
        let here = format!("{}:{}", at.file, at.line.unwrap_or_default());
        if agent.agent.is_reserved() {
            self.faults.push(
                place.fault("agent", format!("{} is a service's name, no agent may have it", agent.agent)),
            );
        }
        if let Some(other) = self.ids.insert(agent.agent.to_string(), here) {
            self.faults.push(place.fault("agent", format!("{} is taken, see {other}", agent.agent)));
        }
        if let Some(other) = agent.port.and_then(|port| self.ports.insert(port, agent.agent.to_string())) {
            self.faults.push(place.fault("port", format!("is the port of {other} too")));
        }
        if agent.port == Some(0) || agent.bid.max_parallel == Some(0) {
            let key = if agent.port == Some(0) { "port" } else { "bid.maxParallel" };
            self.faults.push(place.fault(key, "must be at least 1"));
        }
        for (at, pattern) in agent.subscribe.iter().enumerate() {
            if !is_pattern(pattern) {
                let what = format!("{pattern:?} fits no signal type; there are {}", SIGNAL_TYPES.join(", "));
                self.faults.push(place.fault(&format!("subscribe[{at}]"), what));
            }
        }
        let brain = match brain(place, &agent) {
            Ok(brain) => brain,
            Err(fault) => return self.faults.push(fault),
        };
        for (key, _) in agent.a2a.published().filter(|(_, url)| names_who_speaks(url)) {
            let what = "must not carry a name or a password: whoever reads the card sees it";
            self.faults.push(place.fault(key, what));
        }
        if self.faults.len() > before {
            return;
        }
        let usual = BidTerms::default();
        self.agents.push(AgentConfig {
            id: agent.agent,
            description: agent.description.0,
            skills: agent.skills.into_iter().map(Into::into).collect(),
            brain,
            terms: BidTerms {
                cost: agent.bid.cost.unwrap_or(usual.cost),
                eta: agent.bid.eta.unwrap_or(usual.eta),
                max_parallel: agent.bid.max_parallel.unwrap_or(usual.max_parallel),
            },
            subscribe: agent.subscribe,
            open: agent.open,
            a2a: agent.a2a.into(),
            role: agent.role,
            port: agent.port,
        });
    }

    /// The team, if nothing was wrong.
    pub(super) fn team(self) -> Result<Team, BadConfig> {
        if self.faults.is_empty() {
            return Ok(Team {
                agents: self.agents,
                mesh: self.mesh.unwrap_or_else(|| MeshConfig::of(self.profile)),
            });
        }
        Err(BadConfig(self.faults))
    }
}

/// Whether some signal type could fit `pattern`.
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

/// Whether somebody may execute the file; who does is seen when it is tried.
fn may_run(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.permissions().mode() & 0o111 != 0)
}

fn brain(place: &Place<'_>, agent: &AgentFile) -> Result<BrainConfig, Fault> {
    let within = |path: &str| place.base.map_or_else(|| path.into(), |base| base.join(path));
    let missing = |key: &str, path: &Path| {
        let path_is = match path.metadata() {
            Ok(found) if found.is_dir() => format!("{} is a directory, and must be a file", path.display()),
            Ok(_) => format!("{} is no file", path.display()),
            Err(_) => format!("there is no {}", path.display()),
        };
        place.fault(key, path_is)
    };
    let dir = match &agent.cwd {
        Some(cwd) => {
            let dir = within(cwd);
            if !dir.is_dir() {
                let what = format!("there is no directory {}", dir.display());
                return Err(place.fault("cwd", what));
            }
            Some(dir)
        }
        None => place.base.map(Path::to_owned),
    };
    match &agent.brain {
        BrainFile::Echo(_) => Ok(BrainConfig::Echo),
        BrainFile::A2a(foreign) => {
            if !foreign.card.starts_with("https://") && !foreign.card.starts_with("http://") {
                return Err(place.fault("brain.a2a.card", "must be a URL, https or http"));
            }
            if names_who_speaks(&foreign.card) {
                let what = "must not carry a name or a password; brain.a2a.credentials is for those";
                return Err(place.fault("brain.a2a.card", what));
            }
            let bounds = super::mesh::over(&Default::default(), &foreign.bounds);
            let hidden =
                |(scheme, secret): (&String, &Text)| (scheme.clone(), SecretString::new(secret.0.clone()));
            Ok(BrainConfig::Foreign(A2aBrainConfig {
                card: foreign.card.clone(),
                mode: foreign.mode.map(Into::into),
                credentials: SchemeCredentials(foreign.credentials.iter().map(hidden).collect()),
                bounds: bounds.map_err(|error| place.fault("brain.a2a.bounds", error))?,
            }))
        }
        BrainFile::Scripted(path) => {
            let path = within(path);
            if !path.is_file() {
                return Err(missing("brain.scripted", &path));
            }
            let script = BrainConfig::Scripted(path);
            script.brain().map_err(|error| place.fault("brain.scripted", error.to_string()))?;
            Ok(script)
        }
        BrainFile::Exec(command) => {
            let command: Vec<_> = command.iter().map(|word| word.0.clone()).collect();
            match command.first().map(String::as_str) {
                None | Some("") => return Err(place.fault("brain.exec", "names no command")),
                Some(program) if program.contains('/') => {
                    let path = dir.as_deref().map_or_else(|| program.into(), |dir| dir.join(program));
                    if !path.is_file() {
                        return Err(missing("brain.exec", &path));
                    }
                    if !may_run(&path) {
                        let what = format!("{} may not be executed; chmod +x lets it", path.display());
                        return Err(place.fault("brain.exec", what));
                    }
                }
                Some(_) => {}
            }
            let env = agent.env.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect();
            Ok(BrainConfig::Exec { command, env, dir })
        }
    }
}
