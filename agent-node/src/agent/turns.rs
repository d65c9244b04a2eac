//! Runs turns of the brain and reports their updates and ends.

use super::{AgentActor, AgentParts, LifeInput, send_input};
use crate::brain::{Brain, PeerSummary, TurnRequest};
use actix::{AsyncContext, Context};
use engine::{Input, InstantAnswer, TurnStart};
use futures_util::FutureExt;
use protocol::{
    ids::{Capability, EffectId},
    patterns::{
        joint,
        turn::{Prompt, TurnSubject},
    },
};
use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

/// How long updates are gathered before they are recorded (DESIGN §5).
const GATHER: Duration = Duration::from_millis(50);
/// The most updates recorded at once.
const MAX_UPDATES: usize = 64;
const PANICKED: &str = "the brain panicked";

fn brain_for<'a>(parts: &'a AgentParts, prompt: &Prompt) -> &'a Arc<dyn Brain> {
    match &prompt.about {
        TurnSubject::Task { capability, .. } => brain_of(parts, capability.as_ref()),
        TurnSubject::Help { .. } | TurnSubject::Signal(_) => &parts.brain,
    }
}

/// The agent's own brain; the coordinator for `coordinate`, unless the agent has that skill itself.
pub(super) fn brain_of<'a>(parts: &'a AgentParts, wanted: Option<&Capability>) -> &'a Arc<dyn Brain> {
    let is_own =
        |wanted: &Capability| wanted.as_str() != joint::CAPABILITY || parts.card.support(wanted) > 0.0;
    if wanted.is_none_or(is_own) { &parts.brain } else { &parts.coordinator }
}

/// The answer of a brain that needs no time, see [`Brain::answer_at_once`].
pub(super) fn answer_at_once(parts: &AgentParts, prompt: &Prompt) -> Option<InstantAnswer> {
    let begun = Instant::now();
    let (updates, end) = match engine::catch_panic(|| brain_for(parts, prompt).answer_at_once(prompt)) {
        Ok(answer) => answer.filter(|(updates, _)| updates.len() <= MAX_UPDATES)?,
        Err(_) => return Some((Vec::new(), Err(PANICKED.to_owned()))),
    };
    parts.telemetry.meters().think.observe(begun.elapsed().as_secs_f64());
    Some((updates, end.map_err(|error| error.to_string())))
}

impl AgentActor {
    pub(super) fn start_turn(&mut self, turn: TurnStart, ctx: &mut Context<Self>) {
        let TurnStart { key, prompt, deadline, trace, has_runner_up } = turn;
        let effect_id = EffectId {
            agent: self.me.clone(),
            conversation: key.conversation.clone(),
            step: key.effect.0,
            index: key.effect.1,
        };
        let others = self.parts.transports.peers.present();
        let peers = others.into_iter().filter(|(peer, _)| *peer != self.me).map(|(agent_id, card)| {
            PeerSummary { agent_id, description: card.description.clone(), skills: card.skills.clone() }
        });
        let brain = brain_for(&self.parts, &prompt).clone();
        let peers = peers.collect();
        let (agent, effect) = (self.me.clone(), effect_id.to_string());
        let request = TurnRequest { agent, key: effect, prompt, peers, trace, has_runner_up };
        let clock = self.parts.clock;
        let max = brain.turn_timeout(&request).unwrap_or_else(|| self.parts.limits.think());
        let limit = deadline.map_or(max, |deadline| clock.wall().until(deadline).min(max));
        let (agent, life, telemetry) = (ctx.address(), self.life, self.parts.telemetry.clone());
        let turn = key.clone();
        let handle = actix::spawn(async move {
            let begun = Instant::now();
            let (sender, mut receiver) = mpsc::channel(MAX_UPDATES);
            let turn_end =
                async move { brain.think(request, sender).await.map_err(|error| error.to_string()) };
            let mut turn_end = AssertUnwindSafe(turn_end).catch_unwind().boxed();
            let timeout = tokio::time::sleep(limit);
            tokio::pin!(timeout);
            let mut updates = Vec::new();
            let gather = tokio::time::sleep(GATHER);
            tokio::pin!(gather);
            let end = loop {
                tokio::select! {
                    biased;
                    () = &mut timeout => break Err(timeout_message(limit, max)),
                    Some(update) = receiver.recv() => {
                        if updates.is_empty() {
                            gather.as_mut().reset(tokio::time::Instant::now() + GATHER);
                        }
                        updates.push(update);
                        if updates.len() < MAX_UPDATES {
                            continue;
                        }
                    }
                    end = &mut turn_end => break end.unwrap_or_else(|_| Err(PANICKED.to_owned())),
                    () = &mut gather, if !updates.is_empty() => {}
                }
                let input = Input::TurnProgress(turn.clone(), std::mem::take(&mut updates));
                send_input(&agent, LifeInput { life, input }).await;
            };
            drop(turn_end);
            telemetry.meters().think.observe(begun.elapsed().as_secs_f64());
            while let Ok(update) = receiver.try_recv() {
                updates.push(update);
            }
            send_input(&agent, LifeInput { life, input: Input::TurnEnded(turn, updates, end) }).await;
        });
        self.turns.insert(key, handle);
    }
}

/// Why a turn timed out: the deadline of its task, or the longest time for a turn.
fn timeout_message(limit: Duration, max: Duration) -> String {
    let why = if limit < max { "its deadline passed" } else { "a turn may take no longer" };
    format!("{why}: the brain was cut after {} ms without an end", limit.as_millis())
}
