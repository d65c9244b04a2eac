//! `replyTo` of a message: an agent's own endpoint, or a user's callback, to which the `task-response` is delivered by the
//! webhook machinery, without an agent's signature and never to an endpoint of the mesh (DESIGN §4).

use crate::{
    http::node_state::{HostedAgent, NodeState},
    outbox::webhooks::{self, Put, ResponseAddress, Webhook},
};
use engine::Ack;
use protocol::{
    a2a::push::PushConfig,
    envelope::Envelope,
    ids::{AgentId, MessageId},
    principal::Principal,
    problem::{Problem, Reason},
    routes,
};

/// The id of the webhook that `replyTo` makes.
const WEBHOOK_ID: &str = "replyTo";

pub(super) struct UserCallback {
    url: String,
    request: MessageId,
    from: AgentId,
}

impl UserCallback {
    /// The callback that a message of `by` names. The `replyTo` of an agent must be its registered endpoint.
    pub(super) fn of(node: &NodeState, by: &Principal, envelope: &Envelope) -> Result<Option<Self>, Problem> {
        let Some(url) = envelope.reply_to.clone() else { return Ok(None) };
        let Principal::Agent(agent) = by else {
            let (request, from) = (envelope.message_id.clone(), envelope.from_agent_id.clone());
            return Ok(Some(Self { url, request, from }));
        };
        let named = url.trim_end_matches(routes::MESSAGES).trim_end_matches('/');
        let is_own = |endpoint: &str| endpoint.trim_end_matches('/') == named;
        match endpoint(node, agent) {
            Some(endpoint) if !is_own(&endpoint) => {
                let message = format!("replyTo: {agent} is registered at {endpoint}");
                Err(Problem::new(Reason::InvalidField, message).with("field", "replyTo"))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Has the response of the accepted task delivered to the callback. Returns why not, if that is not possible.
    pub(super) async fn register(
        self,
        local: &HostedAgent,
        by: &Principal,
        ack: &Ack,
    ) -> Result<Option<String>, Problem> {
        let ignored = |why: &str| Ok(Some(format!("replyTo is not used: {why}")));
        let Some(task) = ack.task_id.clone() else {
            return ignored("only a task-request has a task-response");
        };
        let client = if *by == Principal::local_user() { &local.callbacks } else { &local.outside };
        if let Err(error) = client.check_resolved(&self.url).await {
            return ignored(&error.to_string());
        }
        let known = webhooks::of_task(&local.store, &local.id, &local.seal, &task, by)?;
        if known.iter().any(|webhook| webhook.config.id.as_deref() == Some(WEBHOOK_ID)) {
            return Ok(None);
        }
        let config = PushConfig {
            id: Some(WEBHOOK_ID.to_owned()),
            task_id: Some(task.to_string()),
            tenant: None,
            url: self.url,
            token: None,
            authentication: None,
        };
        let response = Some(ResponseAddress { to: self.from, request: self.request });
        let (cursor, missed, is_over, is_v03) = ((0, 0), 0, false, false);
        let webhook = Webhook { config, task, owner: by.clone(), cursor, missed, is_over, response, is_v03 };
        let stopped = |error: actix::MailboxError| Problem::new(Reason::Overloaded, error.to_string());
        local.pusher.send(Put(webhook)).await.map_err(stopped)??;
        Ok(None)
    }
}

fn endpoint(node: &NodeState, agent: &AgentId) -> Option<String> {
    let here = node.agents.get(agent).map(|local| local.card.get().endpoint.clone());
    here.or_else(|| match node.peers.locate(agent) {
        engine::PeerLocation::At(endpoint) => Some(endpoint),
        engine::PeerLocation::Here
        | engine::PeerLocation::Away { .. }
        | engine::PeerLocation::Left
        | engine::PeerLocation::Unknown => None,
    })
}
