//! The types of the YAML. Their doc comments are the descriptions in the published JSON Schema.

use super::{
    forms::{MapOrText, ShortForm},
    text::YamlText,
};
use engine::settings::AgentSettings;
use patterns::contract_net::Strategy;
use protocol::{
    a2a::interaction::InteractionMode,
    card::Skill,
    ids::{AgentId, Capability},
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{borrow::Cow, collections::BTreeMap};

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
    pub(super) skills: Vec<MapOrText<SkillFile>>,
    /// Who thinks.
    #[schemars(with = "AgentBrainFile")]
    pub(super) brain: BrainFile,
    /// The environment of an `exec` brain, and of the tool servers of an `llm` brain. They inherit nothing but PATH and LANG, and their HOME and TMPDIR are a directory of their own.
    #[serde(default)]
    pub(super) env: BTreeMap<String, YamlText>,
    /// Where an `exec` brain runs, and the tool servers of an `llm` brain, relative to this file; if absent beside this file, and with `user` in its own directory.
    pub(super) cwd: Option<String>,
    /// The git repositories that sessions which it hosts may work in, by name: each a path relative to this file.
    #[serde(default)]
    pub(super) workspaces: BTreeMap<String, YamlText>,
    /// What it demands of results before they count: of its own, and of those that it awarded to others.
    pub(super) accept: Option<super::accept::AcceptFile>,
    /// What it offers to A2A clients.
    #[serde(default)]
    pub(super) a2a: super::a2a::A2aPolicyFile,
    /// The port it listens at; the next free one if absent.
    #[schemars(range(min = 1))]
    pub(super) port: Option<u16>,
}

/// The schema of a brain: of a command it has the member `user`, too.
pub(super) struct AgentBrainFile;

impl JsonSchema for AgentBrainFile {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        BrainFile::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = BrainFile::json_schema(generator);
        let kinds = schema.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten();
        for kind in kinds.filter(|kind| kind["properties"]["exec"].is_object()) {
            kind["properties"]["user"] = json!({
                "type": "string",
                "description": "The user of the operating system under which an `exec` brain runs, by name or as UID:GID; the node must run as root. The node's own if absent or empty.",
            });
        }
        schema
    }
}

/// Who thinks for an agent; exactly one of these.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum BrainFile {
    /// A command: one JSON line in, JSON lines out. `mesh` is this very program.
    Exec(super::exec::ExecFile),
    /// A service that takes the same lines by HTTP.
    Http(super::http::HttpFile),
    /// The path of a script of answers, relative to this file.
    Scripted(String),
    /// A language model that works with tools.
    Llm(Box<super::llm::LlmFile>),
    /// Says back what it is told.
    Echo(EchoFile),
    /// A foreign A2A agent, by the URL of its card.
    #[serde(rename = "a2a")]
    A2a(ForeignAgentFile),
    /// A process that registers at the node with its own token (`mesh token agent ID`) and speaks for itself over HTTP.
    Peer(PeerFile),
}

/// A foreign A2A agent.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ForeignAgentFile {
    /// The URL of its card; of a host, its well-known place is meant.
    pub(super) card: String,
    /// How its work is followed; the best its card offers if absent.
    #[serde(default)]
    pub(super) mode: Option<ModeFile>,
    /// Credentials by the names of the card's security schemes; best as `${VARIABLE}`.
    #[serde(default)]
    pub(super) credentials: BTreeMap<String, YamlText>,
    /// How long its work is pursued.
    #[serde(default)]
    pub(super) bounds: BoundsFile,
}

/// How a foreign agent's work is followed.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ModeFile {
    /// The answer is the result.
    Sync,
    /// It is looked at.
    Polling,
    /// As it happens.
    Streaming,
    /// It calls back.
    Webhook,
}

impl From<ModeFile> for InteractionMode {
    fn from(mode: ModeFile) -> Self {
        match mode {
            ModeFile::Sync => Self::Sync,
            ModeFile::Polling => Self::Polling,
            ModeFile::Streaming => Self::Streaming,
            ModeFile::Webhook => Self::Webhook,
        }
    }
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

/// The terms of the mesh.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct MeshFile {
    /// Which set of times the rest starts from; `fast` is for tests.
    pub(super) profile: Option<super::TimingPreset>,
    /// What a node takes, and for how long it waits.
    pub(super) limits: LimitsFile,
    /// How work is given away.
    pub(super) auction: AuctionFile,
    /// When an agent counts as missing.
    pub(super) registry: RegistryFile,
    /// Where calls beyond the mesh may go: webhooks, foreign cards, foreign agents.
    pub(super) outside: OutsideFile,
    /// Where the node's agents take A2A over gRPC; 0 takes any free port, nowhere if not given.
    pub(super) grpc_port: Option<u16>,
    /// Users who prove who they are; without any, whoever calls from this machine is its user.
    pub(super) callers: Vec<super::a2a::CallerFile>,
    /// What the team's spaces are, by name.
    pub(super) spaces: BTreeMap<String, super::space::SpaceFile>,
    /// Agents of other processes that may pass on an approval which a caller there has given. One given with the person's token needs
    /// no entry.
    pub(super) approvers: Vec<String>,
}

/// Where calls beyond the mesh may go. Public addresses by https at the ports 443 and 8443 always; what is named here too.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct OutsideFile {
    /// Addresses, at every port or at one: `127.0.0.0/8`, `10.1.2.3:9000`, `[fd00::/8]:9000`; a port of every public address: `*:8080`.
    allow: Vec<String>,
    /// Credentials for foreign agents, by host and by the name of their card's security scheme; best as `${VARIABLE}`.
    #[serde(skip_serializing)]
    pub(super) credentials: BTreeMap<String, BTreeMap<String, YamlText>>,
}

macro_rules! numbers {
    ($(#[$doc:meta])* $name:ident { $($field:ident)* } $({ $($member:ident: $type:ty,)* })?) => {
        $(#[$doc])*
        #[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
        pub(super) struct $name {
            $(#[serde(skip_serializing_if = "Option::is_none")] $field: Option<u64>,)*
            $($(#[serde(skip_serializing_if = "Option::is_none")] $member: Option<$type>,)*)?
        }
    };
}

numbers! {
    /// What a node takes, and for how long it waits; bytes, counts and milliseconds.
    LimitsFile {
        max_body_bytes max_a2a_body_bytes max_signal_bytes max_artifact_bytes max_artifact_bytes_per_principal max_depth max_hops max_open_conversations max_in_flight
        max_outbox_per_peer max_rate_per_second max_failed_auth_per_second max_readers_per_principal keep_signals_ms keep_signal_bytes keep_entries_ms keep_entry_changes_ms max_entries_per_author ack_ms head_ms body_ms max_wait_ms message_life_ms dedup_ms
        keep_tasks_ms keep_contexts_ms keep_journals_ms keep_journal_bytes keep_artifacts_ms sweep_ms
    }
}

numbers! {
    /// How long a foreign agent's work is pursued: tries without an answer, looks, and their times.
    BoundsFile { attempts polls poll_ms answer_ms reach_ms }
}

numbers! {
    /// When an agent counts as missing.
    RegistryFile { lease_ms heartbeat_ms sweep_ms flap_limit flap_window_ms flap_calm_ms }
}

numbers! {
    /// How work is given away.
    AuctionFile { fanout bid_window_ms rounds accept_ms lease_ms max_queue_ms } { strategy: StrategyFile, weights: WeightsFile, }
}

/// Which bid is the best.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum StrategyFile {
    Weighted,
    Cheapest,
    Fastest,
    BestMatch,
    FirstClaim,
}

impl From<Strategy> for StrategyFile {
    fn from(strategy: Strategy) -> Self {
        match strategy {
            Strategy::Weighted => Self::Weighted,
            Strategy::Cheapest => Self::Cheapest,
            Strategy::Fastest => Self::Fastest,
            Strategy::BestMatch => Self::BestMatch,
            Strategy::FirstClaim => Self::FirstClaim,
        }
    }
}

/// What counts how much under `weighted`; only the ratios matter.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct WeightsFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    r#match: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    track_record: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eta: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    load: Option<f64>,
}
