//! The settings of the mesh: a timing preset with the file's overrides.

use super::{ConfigFault, file::MeshFile, sources::SourceLocation};
use crate::callers::ConfiguredCaller;
use crate::outbox::a2a::credentials::{Keyring, SecretString};
use blackboard::board::BoardConfig;
use engine::settings::Quota;
use patterns::contract_net::Auction;
use protocol::{address_policy::AddressPolicy, ids::AgentId, limits::Limits};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The timing preset: `default`, or `fast` for tests: quick heartbeats and retries, long leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum TimingPreset {
    /// Times for use.
    #[default]
    Default,
    /// Short times, for tests.
    Fast,
}

/// The settings of the mesh.
#[derive(Debug, Clone, PartialEq)]
pub struct MeshConfig {
    pub preset: TimingPreset,
    /// Limits and timeouts of a node.
    pub limits: Limits,
    pub auction: Auction,
    /// The registry's timing and limits.
    pub registry: registry::config::Config,
    /// The board's timing and limits.
    pub board: BoardConfig,
    /// Which addresses outside of the mesh may be called.
    pub outside: AddressPolicy,
    /// Credentials for foreign agents.
    pub keyring: Keyring,
    /// The gRPC port, if the node takes A2A over gRPC.
    pub grpc_port: Option<u16>,
    pub callers: Vec<ConfiguredCaller>,
    /// What the whole mesh may use, or each requester.
    pub quotas: Vec<Quota>,
    /// Agents of other processes whose word for a person's approval counts.
    pub approvers: Vec<AgentId>,
    /// Who is told of questions and approvals that wait for users.
    pub inbox_webhook: Option<SecretString>,
}

impl Default for MeshConfig {
    fn default() -> Self {
        Self::of(TimingPreset::Default)
    }
}

impl MeshConfig {
    /// The defaults of a timing preset.
    pub fn of(preset: TimingPreset) -> Self {
        match preset {
            TimingPreset::Default => Self {
                preset,
                limits: Limits::default(),
                auction: Auction::default(),
                registry: registry::config::Config::default(),
                board: BoardConfig::default(),
                outside: Default::default(),
                keyring: Keyring::default(),
                grpc_port: None,
                callers: Vec::new(),
                quotas: Vec::new(),
                approvers: Vec::new(),
                inbox_webhook: None,
            },
            // Nothing waits long for something to happen; what must happen in time has time, also on a busy machine.
            TimingPreset::Fast => Self {
                preset,
                auction: Auction {
                    bid_window_ms: 20_000,
                    accept_ms: 30_000,
                    lease_ms: 60_000,
                    ..Auction::default()
                },
                registry: registry::config::Config::fast(),
                board: BoardConfig::fast(),
                ..Self::of(TimingPreset::Default)
            },
        }
    }

    /// What `given`, the YAML at `location` and of the files that it includes, says over the settings of its profile, or of
    /// `default_preset`.
    pub(super) fn read(
        location: &SourceLocation<'_>,
        given: Value,
        default_preset: TimingPreset,
    ) -> Result<Self, ConfigFault> {
        // A profile that is none is a fault below.
        let base = Self::of(TimingPreset::deserialize(&given["profile"]).unwrap_or(default_preset));
        let mut merged = json!({ "limits": base.limits, "auction": base.auction, "registry": base.registry });
        merge(&mut merged, given);
        let file: MeshFile = location.read_as("", merged)?;
        let callers = super::a2a::callers(&file.callers).map_err(|what| location.fault("callers", what))?;
        let spaces = super::space::spaces(&file.spaces).map_err(|what| location.fault("spaces", what))?;
        let mesh = Self {
            limits: file.limits,
            auction: file.auction,
            registry: file.registry,
            outside: AddressPolicy { allow: file.outside.allow },
            callers,
            quotas: file.quotas,
            approvers: file.approvers,
            inbox_webhook: file.inbox.webhook,
            keyring: file.outside.credentials,
            grpc_port: file.grpc_port,
            board: BoardConfig { spaces, ..base.board },
            ..base
        };
        if let Some((key, what)) = quota_fault(&mesh.quotas, true) {
            return Err(location.fault(&key, what));
        }
        if mesh.inbox_webhook.as_ref().is_some_and(|url| !is_http_url(url.expose())) {
            return Err(location.fault("inbox.webhook", "must be a URL, https or http"));
        }
        let (limits, auction, registry) = (&mesh.limits, &mesh.auction, &mesh.registry);
        let weights = auction.weights;
        let all = [weights.fit, weights.track_record, weights.eta, weights.cost, weights.load];
        let checks = [
            (
                !(1..=1 << 20).contains(&limits.max_body_bytes),
                "limits.maxBodyBytes",
                "must be from 1 to 1048576",
            ),
            (
                limits.max_a2a_body_bytes < limits.max_body_bytes,
                "limits.maxA2aBodyBytes",
                "must not be below maxBodyBytes",
            ),
            // A journal record nests a message a few levels deeper; serde_json reads up to 127 levels.
            (!(1..=100).contains(&limits.max_depth), "limits.maxDepth", "must be from 1 to 100"),
            (limits.dedup_ms < limits.message_life_ms, "limits.dedupMs", "must not be below messageLifeMs"),
            (auction.fanout == 0, "auction.fanout", "must be at least 1"),
            (auction.rounds == 0, "auction.rounds", "must be at least 1"),
            (auction.bid_window_ms == 0, "auction.bidWindowMs", "must be at least 1"),
            (
                all.iter().any(|w| !w.is_finite() || *w < 0.0) || all.iter().sum::<f64>() <= 0.0,
                "auction.weights",
                "must not be negative, and one must be above 0",
            ),
            (
                registry.heartbeat_ms == 0 || registry.heartbeat_ms.saturating_mul(2) >= registry.lease_ms,
                "registry.leaseMs",
                "must be more than twice heartbeatMs, which must be above 0",
            ),
            (registry.sweep_ms == 0, "registry.sweepMs", "must be above 0"),
        ];
        match checks.into_iter().find(|(is_invalid, _, _)| *is_invalid) {
            Some((_, key, what)) => Err(location.fault(key, what)),
            None => Ok(mesh),
        }
    }
}

/// What is wrong with the quotas of the mesh or of an agent, with the key.
pub(super) fn quota_fault(quotas: &[Quota], of_mesh: bool) -> Option<(String, String)> {
    quotas.iter().enumerate().find_map(|(at, quota)| {
        let is_twin = quotas[..at].iter().any(|other| quota.is_twin_of(other));
        let twin =
            is_twin.then_some(("per", "there is another one for the same time: say all limits in one"));
        let (key, what) = quota.fault(of_mesh).or(twin)?;
        Some((format!("quotas[{at}].{key}"), what.to_owned()))
    })
}

fn is_http_url(text: &str) -> bool {
    reqwest::Url::parse(text).is_ok_and(|url| ["http", "https"].contains(&url.scheme()))
}

/// Puts the members of `given` over those of `base`. One without a value leaves what there is.
fn merge(base: &mut Value, given: Value) {
    match (base, given) {
        (Value::Object(base), Value::Object(given)) => {
            for (key, value) in given {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (_, Value::Null) => {}
        (base, given) => *base = given,
    }
}
