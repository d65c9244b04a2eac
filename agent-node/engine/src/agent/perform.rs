//! Performs the effects of a step after its commit; a restart performs open effects again.

use crate::{
    ClaimRequest,
    agent::Agent,
    context::Context,
    context_records,
    delivery::{envelope, lanes::OutgoingEnvelope},
    records::{EffectKey, OpenEffect, TaskClaim, keys},
    timer_purpose::TimerPurpose,
};
use patterns::{Effect, EventKind, OutgoingMessage};
use protocol::{
    ids::{Address, AgentId, ConversationId, EffectId},
    principal::TaskRoot,
    problem::Problem,
    signal::{PARENT_TASK, THREAD},
    trace::{SpanName, TRACEPARENT},
};
use std::time::Duration;
use store_types::Error;

/// How long a search for peers waits for the complete directory.
const DIRECTORY_WAIT: Duration = Duration::from_secs(5);

impl Agent {
    pub(crate) fn perform(
        &mut self,
        id: &ConversationId,
        key: EffectKey,
        effect: &Effect,
        cx: &mut Context<'_>,
    ) {
        let Some(conversation) = self.conversations.get(id) else { return };
        let effect_id =
            EffectId { agent: self.me.clone(), conversation: id.clone(), step: key.0, index: key.1 };
        let trace = conversation.trace.clone();
        let below = |span: SpanName<'_>| trace.as_ref().map(|trace| trace.below(span.id()));
        let at = conversation.open.get(&key).map_or_else(|| cx.wall(), |open| open.at);
        match effect {
            Effect::Send(message) => {
                let complete = envelope::complete(&self.me, conversation, key, message, at, cx.store);
                let envelope = match complete {
                    Ok(envelope) => envelope,
                    Err(error) => return self.not_sent(id, key, message, Problem::from(error)),
                };
                let to = self.recipient(&message.to);
                let best_effort = message.payload.kind().is_best_effort();
                let trace = below(SpanName::Message(&envelope.message_id));
                let label = message.label;
                let is_redelivery = false;
                let message = OutgoingEnvelope { label, to, envelope, best_effort, is_redelivery, trace };
                self.send((id.clone(), key), message, cx);
            }
            Effect::Resend { label, envelope } => {
                let to = self.recipient(&envelope.to_agent_id);
                let envelope = envelope.as_ref().clone();
                let trace = below(SpanName::Effect(&effect_id.to_string()));
                let label = *label;
                let (best_effort, is_redelivery) = (false, true);
                let message = OutgoingEnvelope { label, to, envelope, best_effort, is_redelivery, trace };
                self.send((id.clone(), key), message, cx);
            }
            // A later step that is being committed has stopped the turn, and its pattern may keep no checkpoints for it.
            Effect::RunTurn { .. } if !conversation.open.contains_key(&key) => {}
            Effect::RunTurn { turn, prompt, deadline, input } => {
                let log = conversation.chunk_log(&self.me);
                let view = conversation.pattern.view();
                let prompt = log.complete(cx.store, prompt, *input, view.turn).and_then(|prompt| {
                    let context =
                        view.context.and_then(|context| Some((&context.name, context.start.as_ref()?)));
                    context_records::complete(&self.me, cx.store, context, prompt)
                });
                match prompt {
                    Ok(prompt) => self.run_turn(id, key, prompt, *deadline, cx),
                    Err(error) => {
                        let reason = format!("what the turn is given can't be read: {error}");
                        self.events.push(id, Some(key), EventKind::TurnFailed { turn: *turn, reason });
                    }
                }
            }
            Effect::Publish { signal } => {
                let name = effect_id.to_string();
                let trace = below(SpanName::Effect(&name));
                let mut signal = signal.clone().signed(name, self.me.clone(), at);
                let root = conversation.root().filter(|root| root.principal.agent() != Some(&self.me));
                if let Some(TaskRoot { principal, proof }) = root {
                    (signal.root, signal.root_proof) = (Some(principal), proof);
                }
                let thread = conversation.thread.as_ref();
                if let Some(row) = &conversation.task {
                    let parent = row.task.spec.parent.as_ref().map(|parent| (PARENT_TASK, parent.as_str()));
                    for (name, id) in parent.into_iter().chain(thread.map(|thread| (THREAD, thread.as_str())))
                    {
                        signal.refs.entry(name).or_insert_with(|| id.into());
                    }
                }
                // Reactions continue in the same trace.
                if let Some(trace) = &trace {
                    signal.refs.entry(TRACEPARENT).or_insert_with(|| trace.to_string().into());
                }
                let (deliveries, mut own) = self.deliveries(cx);
                deliveries.publish(id.clone(), key, signal, &mut own);
            }
            Effect::AskSpace { label, request } => {
                self.deliveries.ask_space(id.clone(), key, *label, request.as_ref().clone());
            }
            Effect::FindPeers { .. } => {
                if cx.world.directory().is_synced() {
                    return self.find_peers_now(id, key, cx);
                }
                self.peers.wait(id.clone(), key);
                let purpose = TimerPurpose::Directory { conversation: id.clone(), effect: key };
                self.timers.set(DIRECTORY_WAIT, purpose, cx);
            }
            Effect::ClaimOpenTask { task, lease } => {
                self.deliveries.claim(id.clone(), key, task.clone(), ClaimRequest::Take { lease: *lease });
            }
            Effect::RenewOpenTask { task, epoch } => {
                self.deliveries.claim(id.clone(), key, task.clone(), ClaimRequest::Renew(*epoch));
            }
            Effect::CloseOpenTask { task, epoch, is_done } => {
                let request = ClaimRequest::Close { epoch: *epoch, is_done: *is_done };
                self.deliveries.claim(id.clone(), key, task.clone(), request);
            }
            Effect::ReleaseOpenTask { task, epoch } => {
                self.deliveries.claim(id.clone(), key, task.clone(), ClaimRequest::Release(*epoch));
            }
            Effect::ConfirmResult { task, doer, epoch } => {
                let request = ClaimRequest::Confirm { doer: doer.clone(), epoch: *epoch };
                self.deliveries.claim(id.clone(), key, task.clone(), request);
            }
            Effect::TrackTask { spec, owner, .. } => {
                self.conversations.set_task(spec.task_id.clone(), owner.clone(), id.clone());
            }
            Effect::SetTimer { timer, when } => {
                self.timers.set_for_pattern(id.clone(), key, *timer, *when, cx);
            }
            _ => {}
        }
    }

    /// The chunks of a message can't be read: it is given up.
    fn not_sent(&mut self, id: &ConversationId, key: EffectKey, message: &OutgoingMessage, problem: Problem) {
        tracing::warn!(agent = %self.me, conversation = %id, %problem, "message given up");
        let (label, to) = (message.label, self.recipient(&message.to));
        let reason = problem.reason.code().to_owned();
        let what = EventKind::Undelivered { label, to, reason, message: problem.message };
        self.events.push(id, Some(key), what);
    }

    /// The recipient of a message. One addressed to a capability goes to this agent, which finds a peer for it.
    fn recipient(&self, to: &Address) -> AgentId {
        match to {
            Address::Agent(agent) => agent.clone(),
            Address::Capability(_) => self.me.clone(),
        }
    }

    /// Performs an open effect again after a restart.
    pub(crate) fn perform_again(
        &mut self,
        id: &ConversationId,
        key: EffectKey,
        open: &OpenEffect,
        cx: &mut Context<'_>,
    ) -> Result<(), Error> {
        let Effect::Claim { task, .. } = &open.effect else {
            self.perform(id, key, &open.effect, cx);
            return Ok(());
        };
        let record = cx.store.latest(&keys::claim(&self.me, task, id))?;
        let claimed = record.and_then(|record| {
            let claim = serde_json::from_slice::<TaskClaim>(&record.value).ok()?;
            Some(EventKind::Claimed { holder: claim.holder, epoch: record.revision })
        });
        // A claim that is gone gives no event, so it counts as lost.
        self.events.push(id, Some(key), claimed.unwrap_or(EventKind::ClaimLost { holder: None }));
        Ok(())
    }

    /// Answers a search with the known peers.
    pub(crate) fn find_peers_now(&mut self, id: &ConversationId, key: EffectKey, cx: &mut Context<'_>) {
        self.peers.end_wait(id, key);
        let open = self.conversations.get(id).and_then(|conversation| conversation.open.get(&key));
        let Some(Effect::FindPeers { label, capability }) = open.map(|open| &open.effect) else { return };
        let candidates = self.candidates(capability, cx);
        let nearest = self.nearest_capability(capability, &candidates, cx);
        let what = EventKind::PeersFound { label: *label, candidates, nearest };
        self.events.push(id, Some(key), what);
    }

    /// The directory is complete: answers the searches that wait for it.
    pub(crate) fn directory_synced(&mut self, cx: &mut Context<'_>) {
        for (id, key) in self.peers.take_waiting() {
            self.find_peers_now(&id, key, cx);
        }
    }
}
