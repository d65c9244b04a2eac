//! Selection of the peers that get a call for proposals.

use super::record::{CandidateRecord, CandidateResult, MAX_CANDIDATES};
use crate::Candidate;
use protocol::{
    card::have_common,
    ids::{AgentId, Capability, Digest},
    task::TaskSpec,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A called peer, as the manager stores it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EligiblePeer {
    /// How well its registered card supports the capability.
    pub support: f64,
    pub track_record: f64,
    /// How busy it was at its last heartbeat.
    pub load: f64,
}

/// The peers to call, the records of all others, and how many of those are omitted.
pub(super) struct PeerSelection {
    pub asked: BTreeMap<AgentId, EligiblePeer>,
    pub candidates: Vec<CandidateRecord>,
    pub not_listed: usize,
    /// Whether a peer has the capability but is not available now.
    pub may_come: bool,
}

/// Orders equal peers by the hash of task and agent, so that neither name nor time of registration decides.
pub(super) fn tie_break(task: &str, agent: &AgentId) -> Digest {
    Digest::of(format!("{task}\u{0}{agent}").as_bytes())
}

pub(super) fn choose(
    me: &AgentId,
    spec: &TaskSpec,
    capability: &Capability,
    candidates: &[Candidate],
    excluded: &BTreeMap<&AgentId, &str>,
    fanout: usize,
) -> PeerSelection {
    let mut eligible = Vec::new();
    let mut choice =
        PeerSelection { asked: BTreeMap::new(), candidates: Vec::new(), not_listed: 0, may_come: false };
    for candidate in candidates {
        let excluded = excluded.get(&candidate.agent).map(|why| Err(((*why).to_owned(), false)));
        match excluded.unwrap_or_else(|| why_not(me, spec, capability, candidate)) {
            Ok(()) => {
                let places = f64::from(candidate.max_parallel.max(1));
                let peer = EligiblePeer {
                    support: candidate.support,
                    track_record: candidate.track_record.clamp(0.0, 1.0),
                    load: (f64::from(candidate.running) / places).min(1.0),
                };
                eligible.push((&candidate.agent, peer));
            }
            Err((why, may_come)) => {
                choice.may_come |= may_come;
                note(&mut choice, &candidate.agent, CandidateResult::NotEligible, Some(why));
            }
        }
    }
    if eligible.len() > fanout {
        let task = spec.task_id.as_str();
        eligible.sort_by_cached_key(|(agent, peer)| {
            (order(-peer.support), order(peer.load), tie_break(task, agent))
        });
    }
    for (place, (agent, peer)) in eligible.into_iter().enumerate() {
        if place < fanout {
            choice.candidates.push(entry(agent, CandidateResult::NoAnswer, None));
            choice.asked.insert(agent.clone(), peer);
        } else {
            choice.may_come = true;
            note(&mut choice, agent, CandidateResult::NotAsked, None);
        }
    }
    choice
}

fn note(choice: &mut PeerSelection, agent: &AgentId, fate: CandidateResult, why: Option<String>) {
    if choice.candidates.len() < MAX_CANDIDATES {
        choice.candidates.push(entry(agent, fate, why));
    } else {
        choice.not_listed += 1;
    }
}

fn entry(agent: &AgentId, fate: CandidateResult, why: Option<String>) -> CandidateRecord {
    CandidateRecord { fate, why, ..CandidateRecord::asked(agent) }
}

/// A float in an order that can be a key.
pub(super) fn order(value: f64) -> i64 {
    // Adding zero makes -0 the 0 it is equal to.
    let bits = (value + 0.0).to_bits().cast_signed();
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

/// Why a candidate is not eligible, and whether that may change.
fn why_not(
    me: &AgentId,
    spec: &TaskSpec,
    capability: &Capability,
    candidate: &Candidate,
) -> Result<(), (String, bool)> {
    let modes = &spec.accepted_modes;
    if candidate.support <= 0.0 {
        Err((format!("{capability} is none of its skills"), false))
    } else if candidate.agent == *me {
        Err(("it is the manager itself".to_owned(), false))
    } else if spec.exclude.contains(&candidate.agent) {
        Err(("it has another seat of the session, and its routing keeps them apart".to_owned(), false))
    } else if spec.path.contains(&candidate.agent) {
        Err(("it is on the path of this task".to_owned(), false))
    } else if !have_common(&candidate.output_modes, modes) {
        Err((format!("it does not answer in {}", modes.join(", ")), false))
    } else if !candidate.is_alive {
        let why = match candidate.away_since {
            Some(since) => format!("it is away since {since}"),
            None => "it is not alive, or takes no work".to_owned(),
        };
        Err((why, true))
    } else {
        Ok(())
    }
}
