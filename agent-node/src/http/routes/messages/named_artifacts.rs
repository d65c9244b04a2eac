//! `payload.artifacts` of a request by name (RFC-005): a name becomes the newest artifact of that name of which the board was told
//! and that the sender may see.

use crate::{
    artifacts::{self, StoredArtifact, UploadedContent},
    http::node_state::{HostedAgent, NodeState},
};
use engine::PeerLocation;
use protocol::{
    artifact::{Artifact, ArtifactRef},
    deputy::{Deputy, MeshOperation},
    envelope::Envelope,
    ids::{AgentId, Digest},
    principal::{Principal, SenderProof, TaskRoot},
    problem::{Problem, Reason},
    routes,
    signal::{OWNER, Selector, Signal, SignalType, may_see},
};
use std::collections::BTreeMap;
use transport::http_client::ClientRequest;

/// The signals of a page.
const PAGE: usize = 1_000;

/// Puts the content of named artifacts into the request; returns its bytes. Refuses a name that nothing has, content that can't be
/// had now, and more content than an artifact may have.
pub(super) async fn resolve(
    node: &NodeState,
    local: &HostedAgent,
    by: &Principal,
    envelope: &mut Envelope,
) -> Result<usize, Problem> {
    let root = envelope.payload.root(by);
    let Some((references, inline)) = envelope.payload.artifacts_mut() else { return Ok(0) };
    if !references.iter().any(is_named) {
        return Ok(0);
    }
    let names = references.iter().filter(|reference| is_named(reference)).filter_map(|one| one.name.clone());
    let produced = newest(local, (by, root), names.collect()).await?;
    let (named, kept): (Vec<_>, Vec<_>) = std::mem::take(references).into_iter().partition(is_named);
    *references = kept;
    let (mut bytes, max) = (0, node.limits.max_artifact_bytes);
    for reference in named {
        let (artifact, length) = content_of(node, local, reference, &produced).await?;
        bytes += length;
        if bytes > max {
            let message =
                format!("payload.artifacts: what is named has more than {max} bytes (maxArtifactBytes)");
            return Err(Problem::new(Reason::PayloadTooLarge, message).with("field", "payload.artifacts"));
        }
        inline.push(artifact);
    }
    Ok(bytes)
}

/// Whether it is neither a digest nor a URL.
fn is_named(reference: &ArtifactRef) -> bool {
    let is_url = |name: &String| name.contains("://");
    reference.sha256.is_none() && reference.name.as_ref().is_some_and(|name| !is_url(name))
}

/// The newest signal about an artifact of each name that the sender may see, and the one for whom it asks.
async fn newest(
    local: &HostedAgent,
    (by, root): (&Principal, Option<TaskRoot>),
    names: Vec<String>,
) -> Result<BTreeMap<String, Signal>, Problem> {
    let types = vec![SignalType::artifact_produced().as_str().to_owned()];
    let selector = Selector { types, ..Selector::default() };
    let deputy = by.agent().zip(root).map(|(agent, root)| Deputy { agent: agent.clone(), root });
    let is_visible = |signal: &Signal| match &deputy {
        Some(deputy) => deputy.may(MeshOperation::ReadSignal(signal)).is_ok(),
        None => may_see(by, signal),
    };
    let (reader, mut found, mut after) = (Principal::Agent(local.id.clone()), BTreeMap::new(), None);
    loop {
        let page = local.board.read(&reader, &selector, after.clone(), PAGE).await?;
        let is_last = page.signals.is_empty();
        for signal in page.signals.into_iter().map(|record| record.signal) {
            let name = signal.subject.clone().unwrap_or_default();
            if names.contains(&name) && signal.produced().is_some() && is_visible(&signal) {
                found.insert(name, signal);
            }
        }
        if is_last {
            return Ok(found);
        }
        after = Some(page.next);
    }
}

async fn content_of(
    node: &NodeState,
    local: &HostedAgent,
    reference: ArtifactRef,
    produced: &BTreeMap<String, Signal>,
) -> Result<(Artifact, usize), Problem> {
    let name = reference.name.unwrap_or_default();
    let refused = |why: &str| {
        let message = format!("payload.artifacts: {name}: {why}");
        Problem::new(Reason::ArtifactNotFound, message).with("field", "payload.artifacts")
    };
    let Some((signal, digest)) = produced.get(&name).and_then(|signal| Some((signal, signal.produced()?)))
    else {
        return Err(refused(
            "the board was told of no artifact of this name that you may see; a digest names one, too",
        ));
    };
    let said = |name: &str| signal.refs.get(name).and_then(|value| value.as_str()).map(str::to_owned);
    let owner = said(OWNER).and_then(|owner| AgentId::parse(&owner).ok());
    let owner = owner.ok_or_else(|| refused("its signal names no owner"))?;
    let stored = read(node, local, &owner, &digest).await.map_err(|problem| refused(&problem.message))?;
    let (length, media_type) = (stored.content.bytes(), reference.media_type.or_else(|| said("mediaType")));
    let mut artifact = stored.into_artifact(name.clone(), media_type);
    let (store, by) = (local.store.as_ref(), Principal::Brain(local.id.clone()));
    for part in &mut artifact.parts {
        artifacts::keep_file(store, &local.id, &by, node.clock.wall(), part).await?;
    }
    Ok((artifact, length))
}

/// The content, from the agent that has it.
async fn read(
    node: &NodeState,
    local: &HostedAgent,
    owner: &AgentId,
    digest: &Digest,
) -> Result<StoredArtifact, Problem> {
    if let Some(owner) = node.agents.get(owner) {
        let (store, by) = (owner.store.as_ref(), Principal::Agent(local.id.clone()));
        let stored = artifacts::read(store, &owner.id, digest, &by, SenderProof::Credential)?;
        if matches!(stored.content, UploadedContent::Blob(_)) && owner.id != local.id {
            let (stores, ids) = ((store, local.store.as_ref()), (&owner.id, &local.id));
            artifacts::hand_over(stores, ids, node.clock.wall(), *digest).await?;
        }
        return Ok(stored);
    }
    let PeerLocation::At(endpoint) = node.peers.locate(owner) else {
        return Err(Problem::new(Reason::ArtifactNotFound, format!("{owner}, which has it, is not there")));
    };
    let url = format!("{endpoint}{}/{digest}", routes::ARTIFACTS);
    let content = local.wire.bytes(ClientRequest::get(&url, owner.as_str())).await?;
    Ok(StoredArtifact { content: UploadedContent::Here(content), media_type: None })
}
