//! Every path, once.

/// Peer messages; `GET {MESSAGES}/{id}` looks one up, `{id}/trace` shows its trace.
pub const MESSAGES: &str = "/a2a/messages";
/// Tasks, the house view: `{id}`, `{id}/events`, `{id}/award`, `{id}/trace`, `{id}/cancel`, `{id}/answer`.
pub const TASKS: &str = "/a2a/tasks";
/// The A2A contexts of the caller: `{id}`.
pub const CONTEXTS: &str = "/a2a/contexts";
/// The schedules of the caller: `{name}`, `{name}/pause`, `{name}/resume`, `{name}/run`.
pub const SCHEDULES: &str = "/a2a/schedules";
/// Where other systems begin tasks: `{name}`.
pub const TRIGGERS: &str = "/a2a/triggers";
/// What the brain of the agent has used, and how much of the quotas is used.
pub const COSTS: &str = "/a2a/costs";
/// The questions that wait for the caller.
pub const INBOX: &str = "/a2a/inbox";
/// What a space knows for the agent of the calling brain: `{space}/brief`.
pub const AGENT_SPACES: &str = "/a2a/spaces";
/// The process that speaks for an agent: PUT registers it, DELETE says goodbye; `heartbeat`, `turns`, `lines`, `token`.
pub const PEER: &str = "/a2a/peer";
/// Logins at tool servers: GET lists, POST begins one; `finish`, `forget`.
pub const LOGINS: &str = "/a2a/logins";
/// Where the browser of a person who logs in at a tool server is sent back to.
pub const LOGIN_CALLBACK: &str = "/a2a/logins/callback";
/// What the brain of the agent can call, and the state of its tool servers.
pub const TOOLS: &str = "/a2a/tools";
/// Artifacts by digest.
pub const ARTIFACTS: &str = "/a2a/artifacts";
/// Messages that were given up: `{id}`, `{id}/redrive`.
pub const DEAD_LETTERS: &str = "/a2a/dead-letters";
/// The card an agent is registered with.
pub const CARD: &str = "/a2a/card";
/// What agents did because of the caller's signals in a trace: `{trace}/reactions`.
pub const TRACES: &str = "/a2a/traces";
/// Conversations: `{id}/trace` shows the trace, for the sender of the opening message.
pub const CONVERSATIONS: &str = "/a2a/conversations";
/// The mesh as an MCP server over streamable HTTP.
pub const MCP: &str = "/mcp";
/// Signals: GET reads, POST publishes, `/stream` follows.
pub const SIGNALS: &str = "/board/signals";
/// Claims on open tasks: `{task}`, `{task}/renew`, `{task}/release`, `{task}/complete`, `{task}/fail`.
pub const CLAIMS: &str = "/board/claims";
/// Shares of quotas that several agents use together.
pub const SHARES: &str = "/board/shares";
/// Spaces: `{space}`, `{space}/import`, `{space}/entries`, and of an entry `{entry}`, `{entry}/merge` and other changes.
pub const SPACES: &str = "/board/spaces";
/// Registered agents: `{id}`, `{id}/heartbeat`, `{id}/suspicion`.
pub const AGENTS: &str = "/registry/agents";
/// Changes among the registered agents, live.
pub const REGISTRY_WATCH: &str = "/registry/watch";
/// The digest of the person's token at the registry, for agents and services.
pub const REGISTRY_TOKEN: &str = "/registry/token";
/// Where the registry tells the board the digest of the person's token.
pub const BOARD_TOKEN: &str = "/board/token";
/// Where two processes of a mesh tell each other their keys, under the join secret.
pub const JOIN: &str = "/join";
/// The keys that the registry has pinned: `{id}`, `{id}/change`.
pub const REGISTRY_KEYS: &str = "/registry/keys";
/// What the registry says about keys, in the order in which they changed.
pub const KEY_RECORDS: &str = "/registry/key-records";
/// Where the registry tells the board what it says about keys.
pub const BOARD_KEY_RECORDS: &str = "/board/key-records";
/// The keys of this process's agents and services: `{id}/rotate`.
pub const OWN_KEYS: &str = "/keys";
/// The addresses of the registry and the board, as this process knows them.
pub const SERVICES: &str = "/services";
/// Whether the process lives.
pub const HEALTH: &str = "/healthz";
/// Whether it can do its work, and if not, what is broken.
pub const READY: &str = "/readyz";
/// What is counted, for Prometheus.
pub const METRICS: &str = "/metrics";
/// What every actor is doing.
pub const STATE: &str = "/state";
/// The header of content that is put as a file, also if it is a text.
pub const MESH_FILE: &str = "mesh-file";
/// A2A's JSON-RPC binding.
pub const A2A_RPC: &str = "/a2a/rpc";
/// A2A's HTTP+JSON binding: the base of its routes.
pub const A2A_REST: &str = "/a2a/v1";
/// The card any A2A client reads first (A2A §8.2).
pub const AGENT_CARD: &str = "/.well-known/agent-card.json";
/// Where foreign agents call back: `{id}`.
pub const HOOKS: &str = "/a2a/hooks";
/// The public keys that cards are signed with.
pub const JWKS: &str = "/.well-known/jwks.json";
/// The cards of all registered agents.
pub const AI_CATALOG: &str = "/.well-known/ai-catalog.json";
/// The OpenAPI document of a process.
pub const OPENAPI: &str = "/openapi.json";
/// The first names of the paths of all processes of a mesh; a path of a proxy that begins with one of them would be ambiguous.
pub const FIRST_SEGMENTS: [&str; 13] = [
    ".well-known",
    "a2a",
    "board",
    "healthz",
    "join",
    "keys",
    "mcp",
    "metrics",
    "openapi.json",
    "readyz",
    "registry",
    "services",
    "state",
];
