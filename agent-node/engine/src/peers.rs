//! What the agent knows of its peers: their track records, and the searches that wait for the complete directory.

use crate::{PeerDirectory, records::EffectKey};
use patterns::{Candidate, contract_net::track_record::TrackRecord};
use protocol::{
    card::Card,
    ids::{AgentId, Capability, ConversationId},
    words,
};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct KnownPeers {
    track_records: BTreeMap<AgentId, TrackRecord>,
    /// Searches for peers that wait until the whole directory is known.
    searches: Vec<(ConversationId, EffectKey)>,
}

impl KnownPeers {
    pub(crate) fn track_records(&self) -> &BTreeMap<AgentId, TrackRecord> {
        &self.track_records
    }

    pub(crate) fn learn(&mut self, records: impl IntoIterator<Item = (AgentId, TrackRecord)>) {
        self.track_records.extend(records);
    }

    /// The agents with `capability`, with their track records. `own` is this agent as it is now; it is one of them if it has the
    /// capability.
    pub(crate) fn candidates(
        &self,
        capability: &Capability,
        own: Candidate,
        directory: &dyn PeerDirectory,
    ) -> Vec<Candidate> {
        let mut candidates = directory.candidates(capability);
        if own.support > 0.0 {
            candidates.retain(|candidate| candidate.agent != own.agent);
            candidates.push(own);
        }
        for candidate in &mut candidates {
            let record = self.track_records.get(&candidate.agent).cloned().unwrap_or_default();
            candidate.track_record = record.value();
        }
        candidates
    }

    /// A search waits for the complete directory.
    pub(crate) fn wait(&mut self, conversation: ConversationId, effect: EffectKey) {
        self.searches.push((conversation, effect));
    }

    pub(crate) fn waits(&self, conversation: &ConversationId, effect: EffectKey) -> bool {
        self.searches.iter().any(|(id, key)| (id, *key) == (conversation, effect))
    }

    /// A search waits no more.
    pub(crate) fn end_wait(&mut self, conversation: &ConversationId, effect: EffectKey) {
        self.searches.retain(|(id, key)| (id, *key) != (conversation, effect));
    }

    /// The searches that have waited.
    pub(crate) fn take_waiting(&mut self) -> Vec<(ConversationId, EffectKey)> {
        std::mem::take(&mut self.searches)
    }
}

/// The capability of this agent or of a live peer whose name is most like `name`, if one is like it.
pub(crate) fn capability_like(name: &str, card: &Card, directory: &dyn PeerDirectory) -> Option<Capability> {
    let mut known = directory.skills();
    known.extend(card.skills.iter().map(|skill| skill.id.clone()));
    let nearest = words::nearest(name, known.iter().map(Capability::as_str))?;
    known.iter().find(|known| known.as_str() == nearest).cloned()
}
