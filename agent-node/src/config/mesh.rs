//! The settings of the mesh: a timing preset with the file's overrides.

use super::{file::MeshFile, text::YamlText};
use crate::http::edge::Caller;
use crate::outbox::a2a::credentials::{Keyring, SchemeCredentials, SecretString};
use blackboard::board::BoardConfig;
use patterns::contract_net::Auction;
use protocol::{ids::AgentId, limits::Limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::collections::BTreeMap;

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

fn approvers(ids: &[String]) -> Result<Vec<AgentId>, String> {
    ids.iter().map(|id| AgentId::parse(id).map_err(|error| format!("{id:?}: {error}"))).collect()
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
    pub outside: protocol::address_policy::AddressPolicy,
    /// Credentials for foreign agents.
    pub keyring: Keyring,
    /// The gRPC port, if the node takes A2A over gRPC.
    pub grpc_port: Option<u16>,
    pub callers: Vec<Caller>,
    /// Agents of other processes whose word for a person's approval counts.
    pub approvers: Vec<AgentId>,
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
                approvers: Vec::new(),
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

    /// The settings of a file over `default_preset`; the error is the key and its fault.
    pub(super) fn from_file(
        file: &MeshFile,
        default_preset: TimingPreset,
    ) -> Result<Self, (&'static str, String)> {
        let base = Self::of(file.profile.unwrap_or(default_preset));
        let mesh = Self {
            limits: with_overrides(&base.limits, &file.limits).map_err(|error| ("limits", error))?,
            auction: with_overrides(&base.auction, &file.auction).map_err(|error| ("auction", error))?,
            registry: with_overrides(&base.registry, &file.registry).map_err(|error| ("registry", error))?,
            outside: with_overrides(&base.outside, &file.outside)
                .map_err(|error| ("outside.allow", error))?,
            callers: super::a2a::callers(&file.callers).map_err(|error| ("callers", error))?,
            approvers: approvers(&file.approvers).map_err(|error| ("approvers", error))?,
            keyring: keyring(&file.outside.credentials),
            grpc_port: file.grpc_port,
            board: BoardConfig {
                spaces: super::space::spaces(&file.spaces).map_err(|error| ("spaces", error))?,
                ..base.board
            },
            ..base
        };
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
            Some((_, key, what)) => Err((key, what.to_owned())),
            None => Ok(mesh),
        }
    }
}

fn keyring(file: &BTreeMap<String, BTreeMap<String, YamlText>>) -> Keyring {
    let hidden =
        |(scheme, secret): (&String, &YamlText)| (scheme.clone(), SecretString::new(secret.0.clone()));
    let of_host =
        |schemes: &BTreeMap<String, YamlText>| SchemeCredentials(schemes.iter().map(hidden).collect());
    Keyring(file.iter().map(|(host, schemes)| (host.clone(), of_host(schemes))).collect())
}

/// `base` with the members of `given` in place of its own.
pub(super) fn with_overrides<T: Serialize + DeserializeOwned>(
    base: &T,
    given: &impl Serialize,
) -> Result<T, String> {
    let to_json = |error: serde_json::Error| error.to_string();
    let mut merged = serde_json::to_value(base).map_err(to_json)?;
    merge(&mut merged, serde_json::to_value(given).map_err(to_json)?);
    serde_json::from_value(merged).map_err(to_json)
}

fn merge(base: &mut Value, given: Value) {
    match (base, given) {
        (Value::Object(base), Value::Object(given)) => {
            for (key, value) in given {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, given) => *base = given,
    }
}
