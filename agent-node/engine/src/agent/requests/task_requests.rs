//! The parts of a request: candidates, capability, path, input artifacts, requester.

use super::is_seat_turn;
use crate::{
    IncomingMessage, agent::Agent, artifacts, context::Context, peers::capability_like, problems::internal,
    settings::Openness,
};
use patterns::{Candidate, ownership::Requester};
use protocol::{
    acceptance::{AcceptanceDemand, AcceptanceTerms},
    artifact::{Artifact, ArtifactRef, Part, PartContent},
    envelope::Envelope,
    ids::{AgentId, Capability, Digest},
    message::{self, Payload},
    principal::{Principal, RootProof, SenderProof, TaskRoot},
    problem::{Problem, Reason},
    task::TaskOrigin,
};
use serde_json::{json, value::RawValue};
use std::collections::BTreeMap;

/// The most skills that a refusal names.
const MOST_NAMED: usize = 20;

impl Agent {
    /// The agents with `capability`, with their track records. This agent is one of them, as it is now.
    pub(in crate::agent) fn candidates(&self, capability: &Capability, cx: &Context<'_>) -> Vec<Candidate> {
        let own = Candidate {
            running: self.taken_places(),
            is_alive: !self.is_draining && self.config.card.waits_for.is_none(),
            ..Candidate::new(&self.config.card, capability)
        };
        self.peers.candidates(capability, own, cx.world.directory())
    }

    /// The known capability whose name is most like `capability`, if none of `candidates` has that one.
    pub(crate) fn nearest_capability(
        &self,
        capability: &Capability,
        candidates: &[Candidate],
        cx: &Context<'_>,
    ) -> Option<Capability> {
        let is_known = candidates.iter().any(|candidate| candidate.support > 0.0);
        if is_known {
            None
        } else {
            capability_like(capability.as_str(), &self.config.card, cx.world.directory())
        }
    }

    /// The capability of a request that names none: the agent's only skill, unless it delegates such requests. The turn of a seat
    /// is for the agent, not for its skill.
    pub(crate) fn only_skill(
        &self,
        message: &IncomingMessage,
        request: &message::TaskRequest,
    ) -> Option<Capability> {
        match self.config.card.skills.as_slice() {
            [only] if self.config.settings.open != Openness::Delegate && !is_seat_turn(message, request) => {
                Some(only.id.clone())
            }
            _ => None,
        }
    }

    /// The capability of those that take what this agent delegates.
    pub(crate) fn orchestrator_capability(&self, cx: &Context<'_>) -> Result<Capability, Problem> {
        let orchestrate = Capability::parse("orchestrate").map_err(internal)?;
        if cx.world.directory().has(&orchestrate) {
            return Ok(orchestrate);
        }
        let skills = cx.world.directory().skills();
        Err(capability_needed("no peer orchestrates; there are", skills.iter()))
    }

    /// The refusal of a request that names no capability.
    pub(crate) fn needs_capability(&self) -> Problem {
        let skills = self.config.card.skills.iter().map(|skill| &skill.id);
        capability_needed(&format!("{} has the skills", self.me), skills)
    }

    /// What the result of a task passes before it counts, by the agent's rules and the demand of the request.
    pub(crate) fn acceptance(
        &self,
        capability: Option<&Capability>,
        demand: Option<AcceptanceDemand>,
    ) -> AcceptanceTerms {
        AcceptanceTerms::of(&self.config.acceptance, capability, demand)
    }

    /// Adds this agent to the path of a request that it sent to itself; fails if it is on the path already.
    pub(crate) fn push_self_on_path(&self, path: &mut Vec<AgentId>) -> Result<(), Problem> {
        if path.contains(&self.me) {
            let way: Vec<_> = path.iter().map(AgentId::as_str).collect();
            let message = format!("{} is already on the path, and asks itself: {}", self.me, way.join(" → "));
            return Err(Problem::new(Reason::DelegationLoop, message));
        }
        path.push(self.me.clone());
        Ok(())
    }

    pub(crate) fn path_to_here(&self, envelope: &Envelope, by: &Principal) -> Vec<AgentId> {
        let sender = by.agent().filter(|id| **id != self.me).cloned();
        envelope.path.iter().cloned().chain(sender).collect()
    }

    /// Resolves references: a digest to the uploaded artifact, a URL to an artifact that names it.
    pub(crate) fn resolve_artifacts(
        &self,
        inline: Vec<Artifact>,
        references: &[ArtifactRef],
        (by, proof): (&Principal, SenderProof),
        cx: &Context<'_>,
    ) -> Result<Vec<Artifact>, Problem> {
        let mut artifacts = inline;
        for reference in references {
            let named = |digest: &Digest| reference.name.clone().unwrap_or_else(|| digest.to_string());
            match &reference.sha256 {
                Some(digest) => {
                    let stored = artifacts::read(cx.store, &self.me, digest, by, proof)?;
                    artifacts.push(stored.into_artifact(named(digest), reference.media_type.clone()));
                }
                None => {
                    let name = reference.name.clone().unwrap_or_default();
                    let part = Part::new(PartContent::Url(name.clone()));
                    artifacts.push(Artifact {
                        artifact_id: name,
                        name: reference.name.clone(),
                        description: None,
                        parts: vec![part],
                        metadata: reference.extra.clone(),
                        extensions: Vec::new(),
                    });
                }
            }
        }
        Ok(artifacts)
    }
}

/// Says that a capability must be named, and why: `there_are` some.
fn capability_needed<'a>(there_are: &str, skills: impl Iterator<Item = &'a Capability>) -> Problem {
    let skills: Vec<_> = skills.map(Capability::as_str).collect();
    let named = skills.iter().take(MOST_NAMED).copied().collect::<Vec<_>>().join(", ");
    let named = if named.is_empty() { "none".to_owned() } else { named };
    let more = skills.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let message = format!("payload.capability is needed: {there_are} {named}{more}");
    Problem::new(Reason::CapabilityNeeded, message).with("skills", named.replace(", ", ","))
}

/// The agent that gets the reports of a task; `None` for a user, who polls.
pub(crate) fn requester(incoming: &IncomingMessage, epoch: Option<u64>) -> Option<Requester> {
    incoming.by.agent().map(|agent| Requester {
        agent: agent.clone(),
        conversation: incoming.envelope.reply_conversation_id.clone(),
        message: incoming.envelope.message_id.clone(),
        epoch,
    })
}

/// The principal at the root of a request, and how it was proved: an agent may name both, a user is it. A trigger that acts as
/// nobody proves nobody.
pub(crate) fn root(
    message: &IncomingMessage,
    on_behalf_of: Option<Principal>,
    proof: Option<RootProof>,
) -> (Principal, Option<RootProof>) {
    match (&message.by, on_behalf_of) {
        (by @ Principal::Agent(_), Some(root)) => {
            let TaskRoot { principal, proof } = TaskRoot::named_by(by, root, proof);
            (principal, proof)
        }
        (by, _) => {
            let is_nobodys = message.proof == SenderProof::Address
                && matches!(message.origin.as_deref(), Some(TaskOrigin::Trigger { .. }));
            (by.clone(), Some(RootProof::of(by, message.proof)).filter(|_| !is_nobodys))
        }
    }
}

/// The digests of the uploaded artifacts that a task request refers to.
pub(crate) fn references(payload: &Payload) -> Vec<Digest> {
    let Payload::TaskRequest(request) = payload else { return Vec::new() };
    request.artifacts.iter().filter_map(|reference| reference.sha256).collect()
}

/// The order in which every version digests the members of a request; others follow, by name.
const DIGESTED: [&str; 14] = [
    "description",
    "taskId",
    "capability",
    "input",
    "artifacts",
    "inlineArtifacts",
    "deadline",
    "acceptedModes",
    "onBehalfOf",
    "parentTaskId",
    "accept",
    "budget",
    "isReview",
    "exclude",
];

/// Tells a repeated request from another one with the same task id, also after an upgrade.
pub(crate) fn digest_of_request(request: &message::TaskRequest) -> Result<Digest, Problem> {
    let json = match request.reply_to {
        None => serde_json::to_string(request),
        Some(_) => serde_json::to_string(&message::TaskRequest { reply_to: None, ..request.clone() }),
    };
    let json = json.map_err(internal)?;
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(&json).map_err(internal)?;
    let mut members: Vec<_> = members.into_iter().collect();
    members
        .sort_by_key(|(name, _)| DIGESTED.iter().position(|known| known == name).unwrap_or(DIGESTED.len()));
    let members: Vec<_> =
        members.iter().map(|(name, value)| format!("{}:{}", json!(name), value.get())).collect();
    Ok(Digest::of(format!("{{{}}}", members.join(",")).as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_digest_that_the_first_version_gave_it() {
        let request = r#"{"description":"d","taskId":"t-1","capability":"dig","input":{"n":1.5},"artifacts":[{"name":"a","mediaType":"x/y","z":1}],"deadline":"2027-01-01T00:00:00.000Z","acceptedModes":["text/plain"],"onBehalfOf":"user:a","parentTaskId":"t-0","budget":{"tokens":1},"exclude":["b"],"own":1,"x":2}"#;
        let read: message::TaskRequest = serde_json::from_str(request).unwrap();
        assert_eq!(digest_of_request(&read).unwrap(), Digest::of(request.as_bytes()));
        let answered = message::TaskRequest { reply_to: Some("http://a.example".into()), ..read };
        assert_eq!(digest_of_request(&answered).unwrap(), Digest::of(request.as_bytes()));
    }
}
