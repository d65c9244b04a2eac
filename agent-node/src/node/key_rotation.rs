//! Replaces the key of a running agent: the registry learns the new one from a statement of the old one, then the agent signs
//! with it (DESIGN §8). Both keys are good for a while, so nothing that is under way is lost.

use crate::http::{
    a2a::facade::AgentFacade,
    node_state::{HostedAgent, NodeState},
};
use protocol::{
    identity::PublicIdentity,
    problem::{Problem, Reason},
};
use std::sync::Arc;

/// Replaces the key of `agent` and returns the new one. After a failure at any point a repeat goes on with the same new key;
/// so does a start of the process, if the registry has pinned it.
pub async fn rotate(node: &NodeState, agent: &HostedAgent) -> Result<Arc<PublicIdentity>, Problem> {
    let id = &agent.id;
    let failed = |why: String| Problem::new(Reason::StoreUnavailable, format!("the key of {id}: {why}"));
    let registry = agent.registry.as_ref().ok_or_else(|| {
        Problem::new(Reason::RegistryUnavailable, "this process uses no registry".to_owned())
    })?;
    let next = node.key_files.next(id).map_err(|error| failed(format!("{error:#}")))?;
    let change = node.keys.change_of(id.as_str(), next.public());
    let change = change.ok_or_else(|| failed("this process has none".to_owned()))?;
    let certificate = registry.change_key(id, change).await?;
    node.key_files.promote_next(id).map_err(|error| failed(error.to_string()))?;
    let (public, signing) = (next.public().clone(), next.signing().clone());
    node.keys.set_own(next);
    node.keys.learn(&certificate)?;
    agent.key.put(signing);
    let facade = agent.facade.get();
    agent.facade.put(AgentFacade::new(
        &agent.card.get(),
        facade.policy.clone(),
        facade.schemes,
        facade.grpc.clone(),
        &agent.key.get(),
    ));
    tracing::info!(agent = %id, key = public.fingerprint(), "its key was replaced");
    Ok(public)
}
