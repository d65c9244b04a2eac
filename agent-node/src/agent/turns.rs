//! Runs a turn of the brain and reports what it says.

use super::{AgentActor, AgentParts, LifeInput, send_input};
use crate::brain::{Brain, PeerSummary, TurnRequest};
use actix::{AsyncContext, Context};
use engine::{Input, TurnStart};
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

/// How long reports are gathered before they are recorded (DESIGN §5).
const GATHER: Duration = Duration::from_millis(50);
/// The most reports recorded at once.
const GATHER_MOST: usize = 64;

fn brain_for<'a>(parts: &'a AgentParts, prompt: &Prompt) -> &'a Arc<dyn Brain> {
    match &prompt.about {
        TurnSubject::Task { capability, .. } => brain_of(parts, capability.as_ref()),
        TurnSubject::Help { .. } | TurnSubject::Signal(_) => &parts.brain,
    }
}

/// Its own brain, except for what it is asked to coordinate and has no skill of its own for.
pub(super) fn brain_of<'a>(parts: &'a AgentParts, wanted: Option<&Capability>) -> &'a Arc<dyn Brain> {
    let is_its_own =
        |wanted: &Capability| wanted.as_str() != joint::CAPABILITY || parts.card.support(wanted) > 0.0;
    if wanted.is_none_or(is_its_own) { &parts.brain } else { &parts.coordinator }
}

impl AgentActor {
    pub(super) fn start_turn(&mut self, turn: TurnStart, ctx: &mut Context<Self>) {
        let TurnStart { key, prompt, deadline, trace, has_runner_up } = turn;
        let name = EffectId {
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
        let request = TurnRequest {
            agent: self.me.clone(),
            key: name.to_string(),
            prompt,
            peers,
            trace,
            has_runner_up,
        };
        let clock = self.parts.clock;
        let most = brain.turn_timeout(&request).unwrap_or_else(|| self.parts.limits.think());
        let limit = deadline.map_or(most, |deadline| clock.wall().until(deadline).min(most));
        let (agent, life, telemetry) = (ctx.address(), self.life, self.parts.telemetry.clone());
        let turn = key.clone();
        let running = actix::spawn(async move {
            let begun = Instant::now();
            let (sender, mut reports) = mpsc::channel(GATHER_MOST);
            let thinking =
                async move { brain.think(request, sender).await.map_err(|error| error.to_string()) };
            let mut thinking = AssertUnwindSafe(thinking).catch_unwind().boxed();
            let cut = tokio::time::sleep(limit);
            tokio::pin!(cut);
            let mut gathered = Vec::new();
            let gather = tokio::time::sleep(GATHER);
            tokio::pin!(gather);
            let end = loop {
                tokio::select! {
                    biased;
                    () = &mut cut => break Err(too_long(limit, most)),
                    Some(update) = reports.recv() => {
                        if gathered.is_empty() {
                            gather.as_mut().reset(tokio::time::Instant::now() + GATHER);
                        }
                        gathered.push(update);
                        if gathered.len() < GATHER_MOST {
                            continue;
                        }
                    }
                    end = &mut thinking => break end.unwrap_or_else(|_| Err("the brain panicked".to_owned())),
                    () = &mut gather, if !gathered.is_empty() => {}
                }
                let input = Input::TurnProgress(turn.clone(), std::mem::take(&mut gathered));
                send_input(&agent, LifeInput { life, input }).await;
            };
            drop(thinking);
            telemetry.meters().think.observe(begun.elapsed().as_secs_f64());
            while let Ok(update) = reports.try_recv() {
                gathered.push(update);
            }
            send_input(&agent, LifeInput { life, input: Input::TurnEnded(turn, gathered, end) }).await;
        });
        self.turns.insert(key, running);
    }
}

/// Why a brain was cut: its task's deadline, or the longest any turn may take.
fn too_long(limit: Duration, most: Duration) -> String {
    let why = if limit < most { "its deadline passed" } else { "a turn may take no longer" };
    format!("{why}: the brain was cut after {} ms without an end", limit.as_millis())
}
