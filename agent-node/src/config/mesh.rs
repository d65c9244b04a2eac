//! The terms of the mesh: a profile, and what the file says otherwise.

use super::{file::MeshFile, text::Text};
use crate::http::edge::Caller;
use crate::outbox::a2a::credentials::{Keyring, SchemeCredentials, SecretString};
use blackboard::board::BoardConfig;
use protocol::{limits::Limits, patterns::contract_net::Auction};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::collections::BTreeMap;

/// Where times start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Times for use.
    #[default]
    Default,
    /// Short times, for tests.
    Fast,
}

/// The terms of the mesh.
#[derive(Debug, Clone, PartialEq)]
pub struct MeshConfig {
    /// Where its times started from.
    pub profile: Profile,
    /// What a node takes, and for how long it waits.
    pub limits: Limits,
    /// How work is given away.
    pub auction: Auction,
    /// When an agent counts as missing.
    pub registry: registry::config::Config,
    /// The board's timing and limits.
    pub board: BoardConfig,
    /// Where calls beyond the mesh may go.
    pub outside: protocol::address_policy::AddressPolicy,
    /// What foreign agents are shown there.
    pub keyring: Keyring,
    /// Where the node takes A2A over gRPC, if it does.
    pub grpc_port: Option<u16>,
    /// Users who prove who they are.
    pub callers: Vec<Caller>,
}

impl Default for MeshConfig {
    fn default() -> Self {
        Self::of(Profile::Default)
    }
}

impl MeshConfig {
    /// The terms of a profile.
    pub fn of(profile: Profile) -> Self {
        match profile {
            Profile::Default => Self {
                profile,
                limits: Limits::default(),
                auction: Auction::default(),
                registry: registry::config::Config::default(),
                board: BoardConfig::default(),
                outside: Default::default(),
                keyring: Keyring::default(),
                grpc_port: None,
                callers: Vec::new(),
            },
            Profile::Fast => Self {
                profile,
                limits: Limits { ack_ms: 1_000, head_ms: 1_000, body_ms: 3_000, ..Limits::default() },
                auction: Auction {
                    bid_window_ms: 250,
                    accept_ms: 500,
                    lease_ms: 1_500,
                    ..Auction::default()
                },
                registry: registry::config::Config::fast(),
                board: BoardConfig::fast(),
                outside: Default::default(),
                keyring: Keyring::default(),
                grpc_port: None,
                callers: Vec::new(),
            },
        }
    }

    /// The terms a file asks for, or the member that makes no sense and why.
    pub(super) fn from_file(file: &MeshFile, usual: Profile) -> Result<Self, (&'static str, String)> {
        let base = Self::of(file.profile.unwrap_or(usual));
        let mesh = Self {
            limits: over(&base.limits, &file.limits).map_err(|error| ("limits", error))?,
            auction: over(&base.auction, &file.auction).map_err(|error| ("auction", error))?,
            registry: over(&base.registry, &file.registry).map_err(|error| ("registry", error))?,
            outside: over(&base.outside, &file.outside).map_err(|error| ("outside.allow", error))?,
            callers: super::a2a::callers(&file.callers).map_err(|error| ("callers", error))?,
            keyring: keyring(&file.outside.credentials),
            grpc_port: file.grpc_port,
            ..base
        };
        let (limits, auction, registry) = (&mesh.limits, &mesh.auction, &mesh.registry);
        let weights = auction.weights;
        let all = [weights.fit, weights.track_record, weights.eta, weights.cost, weights.load];
        let refusals = [
            (
                !(1..=1 << 20).contains(&limits.max_body_bytes),
                "limits.maxBodyBytes",
                "must be from 1 to 1048576",
            ),
            // A journal's line nests a message some levels deeper, and is read back up to 127.
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
        match refusals.into_iter().find(|(refused, _, _)| *refused) {
            Some((_, key, what)) => Err((key, what.to_owned())),
            None => Ok(mesh),
        }
    }
}

fn keyring(file: &BTreeMap<String, BTreeMap<String, Text>>) -> Keyring {
    let hidden = |(scheme, secret): (&String, &Text)| (scheme.clone(), SecretString::new(secret.0.clone()));
    let of_host = |schemes: &BTreeMap<String, Text>| SchemeCredentials(schemes.iter().map(hidden).collect());
    Keyring(file.iter().map(|(host, schemes)| (host.clone(), of_host(schemes))).collect())
}

/// `base`, with the members that `given` has.
pub(super) fn over<T: Serialize + DeserializeOwned>(base: &T, given: &impl Serialize) -> Result<T, String> {
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
