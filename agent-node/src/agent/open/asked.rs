//! What a request asks for: whom it means, which way it came, and what it starts from.

use super::{MOST_NAMED, internal};
use crate::agent::{AgentActor, admit::Admit};
use protocol::{
    artifact::{Artifact, ArtifactRef, Content, Part},
    coordination::accountable::Asker,
    envelope::Envelope,
    ids::{AgentId, Capability, Digest},
    message::{self, Payload},
    principal::Principal,
    problem::{Problem, Reason},
};

impl AgentActor {
    /// What an A2A client means that names no skill: the only one there is, unless somebody else takes such requests.
    pub(super) fn meant_by_a_client(&self, admit: &Admit) -> Option<&Capability> {
        admit.contact.as_ref().filter(|_| !self.parts.card.open && self.whoever_orchestrates().is_err())?;
        let [only] = self.parts.card.skills.as_slice() else { return None };
        Some(&only.id)
    }

    pub(super) fn whoever_orchestrates(&self) -> Result<Capability, Problem> {
        let orchestrate = Capability::parse("orchestrate").map_err(internal)?;
        if self.parts.ways.peers.has(&orchestrate) {
            return Ok(orchestrate);
        }
        let mut message =
            "payload.capability is needed: this agent takes no open requests, and no peer orchestrates"
                .to_owned();
        let there = self.parts.ways.peers.skills();
        if there.is_empty() {
            return Err(Problem::new(Reason::CapabilityNeeded, message + "; no peer is known to have any"));
        }
        let named: Vec<_> = there.iter().take(MOST_NAMED).map(Capability::as_str).collect();
        message += &format!("; there are {}", named.join(", "));
        if there.len() > named.len() {
            message += &format!(" and {} more", there.len() - named.len());
        }
        Err(Problem::new(Reason::CapabilityNeeded, message).with("skills", named.join(",")))
    }

    /// What an agent asks of itself it does once: then it is on the path, for its own part as for everybody's.
    pub(super) fn once_by_itself(&self, path: &mut Vec<AgentId>) -> Result<(), Problem> {
        if path.contains(&self.me) {
            let way: Vec<_> = path.iter().map(AgentId::as_str).collect();
            let message = format!("{} is already on the path, and asks itself: {}", self.me, way.join(" → "));
            return Err(Problem::new(Reason::DelegationLoop, message));
        }
        path.push(self.me.clone());
        Ok(())
    }

    pub(super) fn path_to_here(&self, envelope: &Envelope, by: &Principal) -> Vec<AgentId> {
        let sender = by.agent().filter(|id| **id != self.me).cloned();
        envelope.path.iter().cloned().chain(sender).collect()
    }

    /// The content behind references: what was put here by digest is taken in; a name nobody here knows stays a name.
    pub(super) fn resolve(
        &self,
        inline: Vec<Artifact>,
        references: &[ArtifactRef],
        by: &Principal,
    ) -> Result<Vec<Artifact>, Problem> {
        let mut artifacts = inline;
        for reference in references {
            let named = |digest: &Digest| reference.name.clone().unwrap_or_else(|| digest.to_string());
            match &reference.sha256 {
                Some(digest) => {
                    let stored = crate::artifacts::read(self.parts.store.as_ref(), &self.me, digest, by)?;
                    artifacts.push(stored.into_artifact(named(digest), reference.media_type.clone()));
                }
                None => {
                    let name = reference.name.clone().unwrap_or_default();
                    let part = Part::new(Content::Url(name.clone()));
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

/// Who hears how it goes: the agent that asked. A user looks for himself.
pub(super) fn asker(admit: &Admit, epoch: Option<u64>) -> Option<Asker> {
    admit.by.agent().map(|agent| Asker {
        agent: agent.clone(),
        conversation: admit.envelope.reply_conversation_id.clone(),
        message: admit.envelope.message_id.clone(),
        epoch,
    })
}

/// The principal who asked first; an agent is believed about whom it works for.
pub(super) fn root(by: &Principal, on_behalf_of: Option<Principal>) -> Principal {
    match (by, on_behalf_of) {
        (Principal::Agent(_), Some(root)) => root,
        (by, _) => by.clone(),
    }
}

/// The artifacts a task begins with that were put here.
pub(super) fn references(payload: &Payload) -> Vec<Digest> {
    let Payload::TaskRequest(request) = payload else { return Vec::new() };
    request.artifacts.iter().filter_map(|reference| reference.sha256).collect()
}

pub(super) fn digest_of_request(request: &message::TaskRequest) -> Digest {
    let same = request.reply_to.is_some().then(|| message::TaskRequest { reply_to: None, ..request.clone() });
    Digest::of(&serde_json::to_vec(same.as_ref().unwrap_or(request)).unwrap_or_default())
}
