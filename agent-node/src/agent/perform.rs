//! Performs what a step decided, once the step is durable; a restart performs what is still open again.

use super::{AgentActor, Happened};
use crate::{
    conversation::record::{Claim, Open, Place, keys},
    outbox::{
        claims::Wanted,
        letter::{self, Letter},
    },
};
use actix::{AsyncContext, Context};
use protocol::{
    coordination::{Effect, What, When},
    ids::{Address, ConversationId, EffectId, TaskId},
    trace::{SpanName, TRACEPARENT},
};
use std::time::Duration;

/// How long a search waits for the first view of the directory.
const FIRST_VIEW: Duration = Duration::from_secs(5);
/// The longest a timer sleeps before it looks at the wall clock again.
const WALL_CHECK: Duration = Duration::from_secs(60);

impl AgentActor {
    pub(super) fn perform(
        &mut self,
        id: &ConversationId,
        place: Place,
        effect: &Effect,
        ctx: &mut Context<Self>,
    ) {
        let conversation = self.conversations.get(id);
        let effect_id =
            EffectId { agent: self.me.clone(), conversation: id.clone(), step: place.0, index: place.1 };
        let trace = conversation.and_then(|conversation| conversation.trace.clone());
        let below = |span: SpanName<'_>| trace.as_ref().map(|trace| trace.below(span.id()));
        match effect {
            Effect::Tell(tell) => {
                let at =
                    conversation.and_then(|conversation| conversation.open.get(&place)).map(|open| open.at);
                let at = at.unwrap_or_else(|| self.parts.clock.wall());
                let envelope = letter::envelope(&self.me, id, place, tell, at);
                let to = match &tell.to {
                    Address::Agent(agent) => agent.clone(),
                    Address::Capability(_) => self.me.clone(),
                };
                let best_effort = tell.payload.kind().is_best_effort();
                let trace = below(SpanName::Message(&envelope.message_id));
                let origin = Some((id.clone(), place));
                self.send(Letter { origin, label: tell.label.clone(), to, envelope, best_effort, trace });
            }
            Effect::Resend(envelope) => {
                let to = match &envelope.to_agent_id {
                    Address::Agent(agent) => agent.clone(),
                    Address::Capability(_) => self.me.clone(),
                };
                let origin = Some((id.clone(), place));
                let envelope = envelope.as_ref().clone();
                let trace = below(SpanName::Effect(&effect_id.to_string()));
                self.send(Letter {
                    origin,
                    label: "resend".to_owned(),
                    to,
                    envelope,
                    best_effort: false,
                    trace,
                });
            }
            Effect::Think { turn, prompt, deadline } => {
                self.think(id, place, (*turn, prompt), *deadline, ctx)
            }
            Effect::Publish { signal } => {
                let name = effect_id.to_string();
                let at =
                    conversation.and_then(|conversation| conversation.open.get(&place)).map(|open| open.at);
                let at = at.unwrap_or_else(|| self.parts.clock.wall());
                let trace = below(SpanName::Effect(&name));
                let mut signal = signal.clone().signed(name, self.me.clone(), at);
                // Whoever reacts to it goes on in the same trace, however much later.
                if let Some(trace) = &trace {
                    signal.refs.entry(TRACEPARENT).or_insert_with(|| trace.to_string().into());
                }
                if let Some(outbox) = self.outbox() {
                    outbox.publish(id.clone(), place, signal);
                }
            }
            Effect::FindPeers { label, capability } => {
                let (label, capability, me) = (label.clone(), capability.clone(), ctx.address().recipient());
                let (peers, records, conversation) =
                    (self.parts.ways.peers.clone(), self.track_records.clone(), id.clone());
                actix::spawn(async move {
                    peers.first_view(&[], FIRST_VIEW).await;
                    let candidates = peers.candidates(&capability, &records);
                    let what = What::PeersFound { label, candidates };
                    tell_agent(&me, Happened { conversation, closes: Some(place), what }).await;
                });
            }
            Effect::ClaimOpen { task, lease } => self.claim(id, place, task, Wanted::Take { lease: *lease }),
            Effect::RenewOpen { task, epoch } => self.claim(id, place, task, Wanted::Renew(*epoch)),
            Effect::CloseOpen { task, epoch, is_done } => {
                self.claim(id, place, task, Wanted::Close { epoch: *epoch, is_done: *is_done });
            }
            Effect::ReleaseOpen { task, epoch } => self.claim(id, place, task, Wanted::Release(*epoch)),
            Effect::TakeOn { spec, owner, .. } => {
                self.tasks.insert((spec.task_id.clone(), owner.clone()), id.clone());
            }
            Effect::WakeAt { timer, when } => self.wake(id, place, timer.clone(), *when, ctx),
            Effect::StopThinking
            | Effect::Claim { .. }
            | Effect::Release { .. }
            | Effect::Forget { .. }
            | Effect::AskHuman { .. }
            | Effect::Update(_)
            | Effect::Assign { .. }
            | Effect::Finish(_) => {}
        }
    }

    /// Performs an effect again that a restart found open.
    pub(super) fn perform_again(
        &mut self,
        id: &ConversationId,
        place: Place,
        open: &Open,
        ctx: &mut Context<Self>,
    ) {
        let Effect::Claim { task, .. } = &open.effect else {
            return self.perform(id, place, &open.effect, ctx);
        };
        let key = keys::claim(&self.me, task, id);
        let claim = self.parts.store.latest(&key).map(|record| {
            let record = record?;
            let claim = serde_json::from_slice::<Claim>(&record.value).ok()?;
            Some(What::Claimed { holder: claim.holder, epoch: record.revision })
        });
        match claim {
            // A claim that is not there any more must not be waited for.
            Ok(claim) => {
                let what = claim.unwrap_or(What::ClaimLost { holder: None });
                ctx.notify(Happened { conversation: id.clone(), closes: Some(place), what });
            }
            Err(error) => (self.parts.fatal)(&format!("{} can't read {key}: {error}", self.me)),
        }
    }

    fn send(&self, letter: Letter) {
        if let Some(outbox) = self.outbox() {
            outbox.send(letter);
        }
    }

    fn claim(&self, id: &ConversationId, place: Place, task: &TaskId, wanted: Wanted) {
        if let Some(outbox) = self.outbox() {
            outbox.claim(id.clone(), place, task.clone(), wanted);
        }
    }

    fn wake(
        &mut self,
        id: &ConversationId,
        place: Place,
        timer: String,
        when: When,
        ctx: &mut Context<Self>,
    ) {
        let clock = self.parts.clock;
        let wait = match when {
            When::Node(at) => at.since(clock.node()),
            When::Wall(at) => clock.wall().until(at).min(WALL_CHECK),
        };
        let of = (id.clone(), place);
        let conversation = id.clone();
        let handle = ctx.run_later(wait, move |this, ctx| {
            this.timers.remove(&(conversation.clone(), place));
            let clock = this.parts.clock;
            let is_due = match when {
                When::Node(at) => clock.node() >= at,
                When::Wall(at) => clock.wall() >= at,
            };
            if is_due {
                this.happened(
                    Happened { conversation, closes: Some(place), what: What::Woke { timer } },
                    ctx,
                );
            } else {
                this.wake(&conversation, place, timer, when, ctx);
            }
        });
        self.timers.insert(of, handle);
    }
}

/// Tells the agent; `false` if it is gone, and its store knows what is open.
pub(super) async fn tell_agent(agent: &actix::Recipient<Happened>, happened: Happened) -> bool {
    agent.send(happened).await.is_ok()
}
