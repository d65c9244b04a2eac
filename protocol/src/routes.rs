//! Every path, once.

/// Peer messages; `GET {MESSAGES}/{id}` looks one up.
pub const MESSAGES: &str = "/a2a/messages";
/// Tasks, the house view: `{id}`, `{id}/events`, `{id}/award`, `{id}/cancel`, `{id}/answer`.
pub const TASKS: &str = "/a2a/tasks";
/// Artifacts by digest.
pub const ARTIFACTS: &str = "/a2a/artifacts";
/// Messages that were given up: `{id}`, `{id}/redrive`.
pub const DEAD_LETTERS: &str = "/a2a/dead-letters";
/// The card an agent is registered with.
pub const CARD: &str = "/a2a/card";
/// Signals: GET reads, POST publishes, `/stream` follows.
pub const SIGNALS: &str = "/board/signals";
/// Claims on open tasks: `{task}`, `{task}/renew`, `{task}/release`, `{task}/complete`, `{task}/fail`.
pub const CLAIMS: &str = "/board/claims";
/// Registered agents: `{id}`, `{id}/heartbeat`.
pub const AGENTS: &str = "/registry/agents";
/// Changes among the registered agents, live.
pub const REGISTRY_WATCH: &str = "/registry/watch";
/// Where the registry and the board are, as the process that is asked knows it.
pub const SERVICES: &str = "/services";
/// Whether the process lives.
pub const HEALTH: &str = "/healthz";
/// Whether it can do its work, and if not, what is broken.
pub const READY: &str = "/readyz";
/// What every actor is doing.
pub const STATE: &str = "/state";
