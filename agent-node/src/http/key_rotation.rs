//! Replaces the key of a running agent or service (DESIGN §8). The registry learns that of an agent from a statement of the old
//! key, then the agent signs with it. A service keeps such statements as the history of its keys, by which others that have
//! pinned an earlier one follow. Both keys are good for a while, so nothing that is under way is lost.

use super::{
    a2a::facade::AgentFacade,
    node_state::{HostedAgent, NodeState},
};
use crate::{key_records, shared_cell::SharedCell};
use protocol::{
    a2a::card_signature::SigningKey,
    card::Card,
    identity::PublicIdentity,
    ids::AgentId,
    principal::MeshService,
    problem::{Problem, Reason},
};
use registry::registrar::ChangeKey;
use std::sync::Arc;
use transport::key_ring::KeyRing;

pub(crate) struct CardSigner {
    pub(crate) key: SharedCell<SigningKey>,
    pub(crate) facade: SharedCell<AgentFacade>,
}

impl CardSigner {
    /// Signs with the key that the agent has now.
    pub(crate) fn use_own_key(&self, keys: &KeyRing, card: &Card) {
        let Some(key) = keys.own_signing_key(card.agent_id.as_str()) else { return };
        let facade = self.facade.get();
        let AgentFacade { policy, schemes, grpc, .. } = facade.as_ref();
        self.facade.put(AgentFacade::new(card, policy.clone(), *schemes, grpc.clone(), &key));
        self.key.put(key);
    }
}

/// Replaces the key of `agent` and returns the new one. After a failure at any point a repeat goes on with the same new key;
/// so does a start of the process, if the registry has pinned it.
pub(super) async fn rotate(node: &NodeState, agent: &HostedAgent) -> Result<Arc<PublicIdentity>, Problem> {
    let _one_at_a_time = node.rotation.lock().await;
    let id = &agent.id;
    let failed = failure_of(id);
    let registry = agent.registry.as_ref().ok_or_else(|| {
        Problem::new(Reason::RegistryUnavailable, "this process uses no registry".to_owned())
    })?;
    let next = node.key_files.next(id).map_err(|error| failed(format!("{error:#}")))?;
    let change = node.keys.change_of(id.as_str(), next.public());
    let change = change.ok_or_else(|| failed("this process has none".to_owned()))?;
    let certificate = registry.call(id, ChangeKey { id: id.clone(), change }).await?;
    node.key_files.promote_next(id).map_err(|error| failed(error.to_string()))?;
    let public = next.public().clone();
    node.keys.set_own(next);
    let signer = CardSigner { key: agent.key.clone(), facade: agent.facade.clone() };
    signer.use_own_key(&node.keys, &agent.card.get());
    key_records::learn_own(&node.keys, registry, &certificate).await?;
    tracing::info!(agent = %id, key = public.fingerprint(), "its key was replaced");
    Ok(public)
}

/// Replaces the key of the registry or the board of this process and returns the new one. The history is durable before the key
/// is; a process that ends in between takes the new key at its next start.
pub(super) async fn rotate_service(
    node: &NodeState,
    service: MeshService,
) -> Result<Arc<PublicIdentity>, Problem> {
    let _one_at_a_time = node.rotation.lock().await;
    let name = service.name();
    let id = AgentId::parse(name).map_err(|error| Problem::new(Reason::Internal, error.to_string()))?;
    let failed = failure_of(&id);
    if node.keys.own(name).is_none() {
        let addresses = node.services.addresses();
        let at = if service == MeshService::Registry { addresses.registry } else { addresses.board };
        let at = at.map_or_else(String::new, |at| format!(", but at {at}"));
        return Err(Problem::new(Reason::AgentNotFound, format!("the {name} is not in this process{at}")));
    }
    let next = node.key_files.next(&id).map_err(|error| failed(format!("{error:#}")))?;
    let change = node.keys.change_of(name, next.public());
    let change = change.ok_or_else(|| failed("this process has none".to_owned()))?;
    let history = node.keys.own_history(name).with(change);
    node.key_files.write_history(&id, &history).map_err(|error| failed(format!("{error:#}")))?;
    node.key_files.promote_next(&id).map_err(|error| failed(error.to_string()))?;
    let public = next.public().clone();
    node.keys.set_own_service(next, history);
    if let (MeshService::Registry, Some(registry)) = (service, &node.registry) {
        // A registry that is down certifies with the new key when it is back.
        drop(registry.recertify().await);
    }
    tracing::info!(service = name, key = public.fingerprint(), "its key was replaced");
    Ok(public)
}

fn failure_of(id: &AgentId) -> impl Fn(String) -> Problem {
    move |why| Problem::new(Reason::StoreUnavailable, format!("the key of {id}: {why}"))
}
