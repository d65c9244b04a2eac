//! The types of the YAML. Their doc comments are the descriptions in the published JSON Schema.

use super::{
    forms::{MapOrShort, OneOrMany, ShortForm},
    text::YamlText,
};
use crate::{
    brain::{a2a::A2aBrainConfig, http::HttpBrainConfig},
    outbox::a2a::credentials::{Keyring, SecretString},
    triggers::TriggerFile,
};
use engine::{schedule::Schedule, settings::AgentSettings};
use patterns::contract_net::Auction;
use protocol::{
    address_policy::AllowedTarget,
    card::Skill,
    ids::{AgentId, Capability},
    limits::Limits,
};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A team.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    dead_code,
    reason = "read member by member, so that every agent's faults are named; its schema is used"
)]
pub(super) struct TeamFile {
    /// The agents, in the order in which they get their ports.
    #[serde(default)]
    agents: Vec<AgentFile>,
    /// The terms of the mesh they work in.
    mesh: Option<MeshFile>,
    /// Providers of models, by the name before the slash: further ones, or corrections of those that are known.
    #[serde(default)]
    providers: BTreeMap<String, crate::brain::llm::provider::ModelProvider>,
    /// Further files of the team, relative to this one. Where both say something of the mesh or of a provider, this file takes precedence, then the later one in the list.
    #[serde(default)]
    include: Vec<String>,
    /// Values that `--set name=value` gives, by name. `${param.name}` stands for one.
    #[serde(default)]
    parameters: BTreeMap<String, super::parameters::ParameterFile>,
}

/// One agent.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    dead_code,
    reason = "its parts are read one by one: serde loses the keys of faults in what it flattens"
)]
pub(super) struct AgentFile {
    #[serde(flatten)]
    members: AgentMembers,
    #[serde(flatten)]
    settings: AgentSettings,
}

/// What the loader checks or converts of an agent's file; the rest is [`AgentSettings`].
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct AgentMembers {
    /// Its id in the mesh.
    #[schemars(with = "String", regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    pub(super) agent: AgentId,
    /// One sentence for people.
    #[serde(default)]
    pub(super) description: YamlText,
    /// What it can do.
    #[serde(default)]
    pub(super) skills: Vec<MapOrShort<SkillFile>>,
    /// Who thinks.
    pub(super) brain: BrainFile,
    /// The environment of an `exec` brain, and of the tool servers of an `llm` brain. They inherit PATH and LANG, tool servers also what names proxies and certificate authorities, and nothing else; their HOME and TMPDIR are a directory of their own.
    #[serde(default)]
    pub(super) env: BTreeMap<String, YamlText>,
    /// Where an `exec` brain runs, and the tool servers of an `llm` brain, relative to this file; if absent beside this file, and with `user` in its own directory.
    pub(super) cwd: Option<String>,
    /// The git repositories that sessions which it hosts may work in, by name: each a path relative to this file.
    #[serde(default)]
    pub(super) workspaces: BTreeMap<String, YamlText>,
    /// What it demands of results before they count: of its own, and of those that it awarded to others.
    pub(super) accept: Option<OneOrMany<super::accept::DemandFile>>,
    /// When tasks of its own begin, by name.
    #[serde(default)]
    pub(super) schedules: BTreeMap<String, Schedule>,
    /// How other systems begin tasks of it by webhook, at `/a2a/triggers/NAME`, by name.
    #[serde(default)]
    pub(super) triggers: BTreeMap<String, TriggerFile>,
    /// The port it listens at; the next free one if absent.
    #[schemars(range(min = 1))]
    pub(super) port: Option<u16>,
}

/// The schema of a brain that is a command has the member `user`, too, which the loader reads.
fn with_user(brain: &mut Schema) {
    let kinds = brain.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten();
    for kind in kinds.filter(|kind| kind["properties"]["exec"].is_object()) {
        kind["properties"]["user"] = json!({
            "type": "string",
            "description": "The user of the operating system under which an `exec` brain runs, by name or as UID:GID; the node must run as root. The node's own if absent or empty.",
        });
    }
}

impl AgentMembers {
    pub(super) fn env(&self) -> BTreeMap<String, String> {
        self.env.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect()
    }
}

/// Who thinks for an agent; exactly one of these.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = with_user)]
pub(super) enum BrainFile {
    /// A command: one JSON line in, JSON lines out. `mesh` is this very program.
    Exec(MapOrShort<super::exec::ExecFile>),
    /// A service that takes the same lines by HTTP.
    Http(HttpBrainConfig),
    /// The path of a script of answers, relative to this file.
    Scripted(String),
    /// A language model that works with tools.
    // Its parts are read one by one.
    Llm(#[schemars(with = "super::llm::LlmFile")] IgnoredAny),
    /// Says back what it is told.
    Echo(EchoFile),
    /// A foreign A2A agent, by the URL of its card.
    #[serde(rename = "a2a")]
    A2a(A2aBrainConfig),
    /// A process that registers at the node with its own token (`mesh token agent ID`) and speaks for itself over HTTP.
    Peer(PeerFile),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EchoFile {}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PeerFile {}

/// Something an agent can do; the name of its capability is enough.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SkillFile {
    /// The capability.
    #[schemars(with = "String", regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    pub(super) id: Capability,
    /// What people call it; its id if not given.
    #[serde(default)]
    name: String,
    /// For people.
    #[serde(default)]
    description: String,
    /// Further capabilities it counts as.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub(super) tags: Vec<Capability>,
    /// Things that can be asked of it.
    #[serde(default)]
    examples: Vec<String>,
    /// Media types it can answer in; none means any.
    #[serde(default)]
    output_modes: Vec<String>,
    /// The JSON Schema of its results: of the last artifact, or of the message if there is none. They are checked before they count, and an `llm` brain is told of it; any result if absent.
    #[serde(default)]
    #[schemars(with = "Option<serde_json::Map<String, Value>>")]
    pub(super) output_schema: Option<Value>,
}

impl ShortForm for SkillFile {
    const KEY: &'static str = "id";
}

impl From<SkillFile> for Skill {
    fn from(file: SkillFile) -> Self {
        let SkillFile { id, name, description, tags, examples, output_modes, .. } = file;
        Self { id, name, description, tags, examples, output_modes }
    }
}

/// The terms of the mesh, read over the settings of its profile.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct MeshFile {
    /// Which set of times the rest starts from; `fast` is for tests.
    pub(super) profile: Option<super::TimingPreset>,
    /// What a node takes, and for how long it waits.
    #[schemars(extend("default" = {}))]
    pub(super) limits: Limits,
    /// How work is given away.
    #[schemars(extend("default" = {}))]
    pub(super) auction: Auction,
    /// When an agent counts as missing.
    #[schemars(extend("default" = {}))]
    pub(super) registry: registry::config::Config,
    /// Where calls beyond the mesh may go: webhooks, foreign cards, foreign agents.
    pub(super) outside: OutsideFile,
    /// Where the node's agents take A2A over gRPC; 0 takes any free port, nowhere if not given.
    pub(super) grpc_port: Option<u16>,
    /// Users who prove who they are; without any, whoever calls from this machine is its user.
    pub(super) callers: Vec<super::a2a::CallerFile>,
    /// What may be used in an hour, a day or a month: by all together, by one requester, or by each.
    #[schemars(transform = engine::settings::of_mesh)]
    pub(super) quotas: Vec<engine::settings::Quota>,
    /// What the team's spaces are, by name.
    pub(super) spaces: BTreeMap<String, super::space::SpaceFile>,
    /// Agents of other processes that may pass on an approval which a caller there has given. One given with the person's token needs
    /// no entry.
    #[schemars(with = "Vec<String>")]
    pub(super) approvers: Vec<AgentId>,
    /// Who is told of questions and approvals.
    pub(super) inbox: InboxFile,
}

/// Who is told of questions and approvals that wait for users.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct InboxFile {
    /// Where a POST goes when a question or an approval opens, and when it is closed; `outside` says which addresses may be called. Best as `${VARIABLE}`: it may be secret.
    pub(super) webhook: Option<SecretString>,
}

/// Where calls beyond the mesh may go. Public addresses by https at the ports 443 and 8443 always; what is named here too.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct OutsideFile {
    /// Addresses, at every port or at one: `127.0.0.0/8`, `10.1.2.3:9000`, `[fd00::/8]:9000`; a port of every public address: `*:8080`.
    #[schemars(with = "Vec<String>")]
    pub(super) allow: Vec<AllowedTarget>,
    /// Credentials for foreign agents, by host and by the name of their card's security scheme; best as `${VARIABLE}`.
    pub(super) credentials: Keyring,
}
