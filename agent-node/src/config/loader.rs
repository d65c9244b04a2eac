//! Loads a team from files: reads every document and collects every fault.

use super::{
    AcceptConfig, AgentDefinition, BrainConfig, ConfigErrors, ConfigFault, MeshConfig, Team, TimingPreset,
    a2a,
    command_check::{self, shown},
    exec::ExecSettings,
    fault::FaultLog,
    file::{AgentFile, AgentMembers, BrainFile, TeamFile},
    forms::MapOrShort,
    http,
    llm::{self, LlmSurroundings, ProviderKeys},
    mesh::quota_fault,
    parameters::{ParameterValue, Parameters},
    schema,
    sources::{SourceDocument, SourceFile, SourceFiles, SourceLocation},
    text::YamlText,
    unknown_keys,
    variables::Substitution,
    yaml::{self, YamlNode},
};
use crate::{
    brain::{
        BrainError,
        llm::{output::OutputSchema, provider::Providers},
    },
    clock::wall_time,
    os_user::OsUser,
    outbox::outbound_client::check_url,
    public_url::PublicUrl,
};
use engine::{
    schedule::{Schedule, check_name},
    settings::{AgentSettings, SignalFilter},
};
use patterns::session::CAPABILITY as SESSION;
use protocol::{
    a2a::agent_policy::AgentPolicy,
    bid::Eta,
    ids::{AgentId, Capability},
    principal::Principal,
    signal::SIGNAL_TYPES,
    signal::SignalType,
    words,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};
use transport::http_client::has_credentials;

/// The agents, settings and faults read so far.
#[derive(Default)]
pub(super) struct TeamLoader {
    agents: Vec<AgentDefinition>,
    sources: SourceFiles,
    set: Vec<ParameterValue>,
    mesh: Option<GivenMesh>,
    preset: TimingPreset,
    keys: ProviderKeys,
    providers: Providers,
    faults: FaultLog,
    ids: BTreeMap<String, String>,
    ports: BTreeMap<u16, String>,
    /// The services and cards of brains, with the place of each, where a fault of it is.
    called: Vec<(ConfigFault, String)>,
    /// The users whose rights triggers have, each with the place where a fault of it is.
    acting: Vec<(ConfigFault, AgentId)>,
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

    pub(super) fn with_set(self, set: &[ParameterValue]) -> Self {
        Self { set: set.to_vec(), ..self }
    }

    /// Adds a named file.
    pub(super) fn add(&mut self, name: &str, text: &str, base: Option<&Path>) {
        self.sources.add(name, text, base);
    }

    /// Inserts values, and drops documents with unknown keys.
    fn prepare(&mut self, file: &mut SourceFile, parameters: &Parameters) {
        let substitution = Substitution::with_parameters(parameters);
        let name = &file.name;
        file.documents.retain_mut(|SourceDocument { node, is_team }| {
            self.keys.prepare(node);
            if let Some(YamlNode { value: yaml::YamlValue::List(agents), .. }) = node.get_mut("agents") {
                agents.iter_mut().for_each(|agent| self.keys.prepare(agent));
            }
            self.faults.unset(name, substitution.apply(node));
            let schema = if *is_team { schema::of::<TeamFile>() } else { schema::of::<AgentFile>() };
            let mut unknowns = Vec::new();
            unknown_keys::find(node, &schema, "", &mut unknowns);
            let is_known = unknowns.is_empty();
            self.faults.extend(unknowns.into_iter().map(|unknown| unknown.fault(name)));
            is_known
        });
    }

    /// Takes the settings of the mesh and the providers of a document.
    fn add_settings(&mut self, at: usize, file: &SourceFile, node: &YamlNode) {
        if let Some(mesh) = node.get("mesh") {
            self.add_mesh(at, file, mesh);
        }
        if let Some(providers) = node.get("providers") {
            match file.location(providers, "providers").read() {
                Ok(given) => self.providers = self.providers.corrected(given),
                Err(fault) => self.faults.push(fault),
            }
        }
    }

    fn add_mesh(&mut self, at: usize, file: &SourceFile, mesh: &YamlNode) {
        let location = file.location(mesh, "mesh");
        let whole = match &self.mesh {
            // A file that includes another takes precedence.
            Some(given) if given.root == file.root && given.file != at => given.node.clone().merged(mesh),
            Some(_) => {
                return self.faults.push(location.fault("", "is said twice; one file says it for all"));
            }
            None => mesh.clone(),
        };
        match MeshConfig::read(&location, whole.to_json(), self.preset) {
            Ok(config) => self.mesh = Some(GivenMesh { root: file.root, file: at, node: whole, config }),
            Err(fault) => self.faults.push(fault),
        }
    }

    fn add_agents(&mut self, file: &SourceFile, node: &YamlNode) {
        let location = file.location(node, "");
        match node.get("agents") {
            Some(YamlNode { value: yaml::YamlValue::List(agents), .. }) if agents.is_empty() => {
                let what = "lists no agent; a file without agents leaves the key out";
                self.faults.push(location.fault("agents", what));
            }
            Some(YamlNode { value: yaml::YamlValue::List(agents), .. }) => {
                for (at, agent) in agents.iter().enumerate() {
                    self.add_agent(&file.location(agent, &format!("agents[{at}]")));
                }
            }
            Some(_) => self.faults.push(location.fault("agents", "must be a list of agents")),
            None => {}
        }
    }

    fn add_agent(&mut self, location: &SourceLocation<'_>) {
        let read = || {
            let user: Option<YamlText> = location.read_at("brain.user")?;
            // It is beside the kind of the brain, of which serde takes one key.
            let mut value = location.node.to_json();
            if let Some(brain) = value.get_mut("brain") {
                let mut kinds = brain.as_object_mut();
                kinds.iter_mut().for_each(|kinds| drop(kinds.remove("user")));
                if kinds.is_none_or(|kinds| kinds.len() != 1) {
                    return Err(location.fault("brain", ONE_KIND));
                }
            }
            for settings in ["/a2a", "/brain/a2a/bounds"] {
                // A key without a value leaves the default.
                if let Some(settings) = value.pointer_mut(settings).and_then(Value::as_object_mut) {
                    settings.retain(|_, value| !value.is_null());
                }
            }
            let user = user.map(|YamlText(user)| user).filter(|user| !user.is_empty());
            Ok((location.read_as("", value.clone())?, user, location.read_as("", value)?))
        };
        let (agent, user, mut settings): (AgentMembers, Option<String>, AgentSettings) = match read() {
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
        for (at, MapOrShort(skill)) in agent.skills.iter().enumerate() {
            if agent.skills[..at].iter().any(|MapOrShort(other)| other.id == skill.id) {
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
        if let Some((key, what)) = quota_fault(&settings.quotas, false) {
            self.faults.push(location.fault(&key, what));
        }
        self.faults.extend(unknown_quota_capabilities(location, &agent, &settings.quotas));
        self.faults.extend(schedule_faults(location, &agent.schedules));
        let mut triggers = BTreeMap::new();
        for (name, file) in agent.triggers.clone() {
            let key = format!("triggers.{name}");
            if let Some(user) = &file.act_as {
                self.acting.push((location.fault(&format!("{key}.actAs"), ""), user.clone()));
            }
            let ready = check_name(&name).map_err(|what| (String::new(), what)).and_then(|()| file.ready());
            match ready {
                Ok(trigger) => drop(triggers.insert(name, trigger)),
                Err((below, what)) => self.faults.push(location.fault(&below_key(&key, &below), what)),
            }
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
        for (key, _) in a2a::published(&settings.a2a).filter(|(_, url)| has_credentials(url)) {
            let what = "must not carry a name or a password: whoever reads the card sees it";
            self.faults.push(location.fault(key, what));
        }
        if let Some(url) = &mut settings.a2a.public_url {
            match url.parse::<PublicUrl>() {
                Ok(public) => *url = public.as_str().to_owned(),
                Err(what) => self.faults.push(location.fault("a2a.publicUrl", what)),
            }
        }
        let given = location.node.at("a2a.inputModes").filter(|given| given.value != yaml::YamlValue::Null);
        if given.is_none() || settings.a2a.input_modes.is_empty() {
            settings.a2a.input_modes = a2a::default_modes(&brain);
        }
        if settings.a2a.output_modes.is_empty() {
            settings.a2a.output_modes = AgentPolicy::default().output_modes;
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
                skills: agent.skills.into_iter().map(|MapOrShort(skill)| skill.into()).collect(),
                workspaces: workspaces.keys().cloned().collect(),
                ..settings
            },
            workspaces,
            brain,
            accept,
            schedules: agent.schedules,
            triggers,
            port: agent.port,
        });
    }

    pub(super) fn team(mut self) -> Result<Team, ConfigErrors> {
        let mut sources = std::mem::take(&mut self.sources);
        self.faults.append(std::mem::take(&mut sources.faults));
        let parameters = Parameters::new(&sources, &self.set, &mut self.faults);
        sources.files.iter_mut().for_each(|file| self.prepare(file, &parameters));
        for at in &sources.precedence {
            let file = &sources.files[*at];
            let of_teams = file.documents.iter().filter(|document| document.is_team);
            of_teams.for_each(|document| self.add_settings(*at, file, &document.node));
        }
        for file in &sources.files {
            for SourceDocument { node, is_team } in &file.documents {
                match is_team {
                    true => self.add_agents(file, node),
                    false => self.add_agent(&file.location(node, "")),
                }
            }
        }
        let mesh = self.mesh.map_or_else(|| MeshConfig::of(self.preset), |mesh| mesh.config);
        self.faults.extend(self.called.into_iter().filter_map(|(fault, url)| {
            let refused = check_url(&mesh.outside, &url).err()?;
            Some(ConfigFault { what: refused.to_string(), ..fault })
        }));
        let callers: BTreeSet<_> = mesh.callers.iter().map(|caller| caller.user.clone()).collect();
        self.faults.extend(self.acting.into_iter().filter_map(|(fault, user)| {
            let is_known = user.as_str() == Principal::local_user().id() || callers.contains(&user);
            let what = format!("{user} is neither `local` nor one of `mesh: {{ callers: … }}`");
            (!is_known).then_some(ConfigFault { what, ..fault })
        }));
        let names: Vec<_> = sources.files.into_iter().map(|file| file.name).collect();
        let faults = self.faults.finish(&names);
        match faults.is_empty() {
            true => Ok(Team { agents: self.agents, mesh, parameters: parameters.into_values() }),
            false => Err(ConfigErrors(faults)),
        }
    }
}

/// What is wrong with the schedules of an agent.
fn schedule_faults(
    location: &SourceLocation<'_>,
    schedules: &BTreeMap<String, Schedule>,
) -> Vec<ConfigFault> {
    let now = wall_time();
    let faults = schedules.iter().filter_map(|(name, schedule)| {
        let key = format!("schedules.{name}");
        if let Err(what) = check_name(name) {
            return Some(location.fault(&key, what));
        }
        let fault = schedule.timing(now).err()?;
        Some(location.fault(&below_key(&key, fault.key), fault.what))
    });
    faults.collect()
}

/// The key `below` `key`; `key` if that is empty.
fn below_key(key: &str, below: &str) -> String {
    if below.is_empty() { key.to_owned() } else { format!("{key}.{below}") }
}

/// The settings of the mesh so far.
struct GivenMesh {
    /// The position of the named file, and of the last file that says something of it.
    root: usize,
    file: usize,
    node: YamlNode,
    config: MeshConfig,
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

/// The quotas for capabilities that the agent does not have, and so count nothing. An agent whose skills are not in the file may have
/// any.
fn unknown_quota_capabilities(
    location: &SourceLocation<'_>,
    agent: &AgentMembers,
    quotas: &[engine::settings::Quota],
) -> Vec<ConfigFault> {
    let known =
        agent.skills.iter().flat_map(|MapOrShort(skill)| std::iter::once(&skill.id).chain(&skill.tags));
    let known: BTreeSet<_> = known.map(Capability::as_str).chain([SESSION]).collect();
    let named = quotas.iter().enumerate().filter_map(|(at, quota)| Some((at, quota.capability.as_ref()?)));
    let unknown =
        named.filter(|(_, capability)| !agent.skills.is_empty() && !known.contains(capability.as_str()));
    unknown
        .map(|(at, capability)| {
            let nearest = words::nearest(capability.as_str(), known.iter().copied());
            let hint = nearest.map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default();
            let what = format!(
                "{capability} is no skill of this agent, nor a tag of one: nothing would count{hint}"
            );
            location.fault(&format!("quotas[{at}].capability"), what)
        })
        .collect()
}

/// The schemas of the skills' outputs, with the capabilities that each is for. A tag that is a skill of its own has that
/// skill's.
fn outputs(
    location: &SourceLocation<'_>,
    agent: &AgentMembers,
) -> Result<BTreeMap<Capability, OutputSchema>, ConfigFault> {
    let mut outputs = BTreeMap::new();
    for (at, MapOrShort(skill)) in agent.skills.iter().enumerate() {
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
    let fault = |key: &str, what: String| location.fault(key, what);
    let mut accept = match &agent.accept {
        Some(demands) => AcceptConfig::new(demands, agent.env(), dir.clone(), check_command, fault)?,
        None => AcceptConfig::default(),
    };
    let outputs = outputs(location, agent)?.into_iter();
    accept.outputs = outputs.map(|(capability, schema)| (vec![capability], schema)).collect();
    Ok(accept)
}

const ONE_KIND: &str =
    "has one kind with its settings: exec, http, scripted, echo, llm, a2a or peer, such as `echo: {}`";

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
        BrainFile::Llm(_) => {
            let outputs = outputs(location, agent)?;
            let env = agent.env();
            let description = &agent.description.0;
            let base = location.base;
            let agent = LlmSurroundings { description, env, dir, base, outputs, keys, providers };
            Ok(BrainConfig::Llm(Box::new(llm::config(location, &agent)?)))
        }
        BrainFile::A2a(foreign) => {
            if !foreign.card.starts_with("https://") && !foreign.card.starts_with("http://") {
                return Err(location.fault("brain.a2a.card", "must be a URL, https or http"));
            }
            if has_credentials(&foreign.card) {
                let what = "must not carry a name or a password; brain.a2a.credentials is for those";
                return Err(location.fault("brain.a2a.card", what));
            }
            Ok(BrainConfig::Foreign(foreign.clone()))
        }
        BrainFile::Http(service) => {
            http::check(service).map_err(|(key, what)| location.fault(&format!("brain.http.{key}"), what))?;
            Ok(BrainConfig::Http(service.clone()))
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
        BrainFile::Exec(MapOrShort(exec)) => {
            let exec = exec.settings(agent.env(), agent.cwd.as_ref(), user.as_ref());
            let exec = exec.map_err(|(key, what)| location.fault(key, what))?;
            let ExecSettings { mut command, env, cwd, user, mode } = exec;
            let (cwd_key, cwd) = cwd.map_or(("cwd", None), |(key, cwd)| (key, Some(cwd)));
            let dir = directory(cwd_key, cwd.as_deref())?;
            if let Some((key, user)) = &user {
                OsUser::lookup(user).map_err(|what| location.fault(key, what))?;
            }
            let is_short = location.node.at("brain.exec.command").is_none();
            let command_key = if is_short { "brain.exec" } else { "brain.exec.command" };
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
