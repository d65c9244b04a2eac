//! Asks the brain: within the step that asks it, if the answer follows from the question alone; else once that step is
//! durable, and what it says comes back as events.

use super::{
    AgentActor, Happened, Parts,
    perform::tell_agent,
    recover::{conversation_id, every_readable},
};
use crate::{
    brain::{Ask, Brain, PeerSkill},
    conversation::record::{Place, keys},
    outbox::a2a::notes,
};
use actix::{AsyncContext, Context};
use blackboard::store::{Error, Record};
use futures_util::FutureExt;
use protocol::{
    coordination::{
        AnyPattern, What, joint,
        thought::{About, Progress, Prompt, TurnEnd},
    },
    ids::{Capability, ConversationId, EffectId},
    time::WallTime,
    trace::SpanName,
};
use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::{Semaphore, mpsc};

/// How long reports are gathered before they are recorded (DESIGN §5).
const GATHER: Duration = Duration::from_millis(50);
/// The most reports recorded at once.
const GATHER_MOST: usize = 64;

/// Who answers within the step that asks.
#[derive(Clone, Copy)]
pub(super) struct Thinker<'a> {
    pub(super) parts: &'a Parts,
    pub(super) places: &'a Semaphore,
}

impl Thinker<'_> {
    /// The thought that follows from a question alone. `None` if it takes time, or would go before turns that wait for a
    /// place: then it is asked like any other.
    pub(super) fn at_once(self, turn: u32, prompt: &Prompt, deadline: Option<WallTime>) -> Option<What> {
        let is_over = deadline.is_some_and(|deadline| deadline <= self.parts.clock.wall());
        if is_over || self.places.available_permits() == 0 {
            return None;
        }
        let brain = brain_for(self.parts, prompt);
        let begun = Instant::now();
        let thought = match catch_unwind(AssertUnwindSafe(|| brain.at_once(prompt))) {
            Ok(said) => {
                let (updates, end) = said.filter(|(updates, _)| updates.len() <= GATHER_MOST)?;
                thought(turn, updates, end.map_err(|error| error.to_string()), self.parts.is_direct)
            }
            Err(_) => What::ThoughtFailed { turn, reason: PANICKED.to_owned() },
        };
        self.parts.telemetry.meters().think.took(begun.elapsed());
        Some(thought)
    }
}

const PANICKED: &str = "the brain panicked";

fn brain_for<'a>(parts: &'a Parts, prompt: &Prompt) -> &'a Arc<dyn Brain> {
    match &prompt.about {
        About::Task { capability, .. } => brain_of(parts, capability.as_ref()),
        About::Help { .. } | About::Signal(_) => &parts.brain,
    }
}

/// Its own brain, except for what it is asked to coordinate and has no skill of its own for.
fn brain_of<'a>(parts: &'a Parts, wanted: Option<&Capability>) -> &'a Arc<dyn Brain> {
    let is_its_own =
        |wanted: &Capability| wanted.as_str() != joint::CAPABILITY || parts.card.support(wanted) > 0.0;
    if wanted.is_none_or(is_its_own) { &parts.brain } else { &parts.coordinator }
}

/// What the rule hears of a turn's end.
fn thought(turn: u32, updates: Vec<Progress>, end: Result<TurnEnd, String>, is_direct: bool) -> What {
    match end {
        Ok(TurnEnd::Message { text }) if !is_direct => {
            What::Thought { turn, updates, end: TurnEnd::Done { message: Some(text) } }
        }
        Ok(end) => What::Thought { turn, updates, end },
        Err(reason) => What::ThoughtFailed { turn, reason },
    }
}

impl AgentActor {
    /// A conversation has ended: its brain lets go of what works for it elsewhere.
    pub(super) fn over(&self, id: &ConversationId) {
        let row = self.conversations.get(id).and_then(|conversation| conversation.task.as_ref());
        brain_of(&self.parts, row.and_then(|row| row.task.spec.capability.as_ref())).over(id);
    }

    /// At a start: the same for conversations that ended just before the process did.
    pub(super) fn over_again(&self) -> Result<(), Error> {
        let mut ended = BTreeSet::new();
        for topic in notes::TOPICS {
            let id = |record: Record| ended.extend(conversation_id(&record.key));
            every_readable(self.parts.store.as_ref(), &keys::all(&self.me, topic), id, |_, _| {})?;
        }
        ended.retain(|id| !self.conversations.contains_key(id) && !self.parked.contains_key(id));
        for id in &ended {
            self.parts.brain.over(id);
            self.parts.coordinator.over(id);
        }
        Ok(())
    }

    /// Has the brain think, and tells itself what it says.
    pub(super) fn think(
        &mut self,
        id: &ConversationId,
        place: Place,
        (turn, prompt): (u32, &Prompt),
        deadline: Option<WallTime>,
        ctx: &mut Context<Self>,
    ) {
        let key =
            EffectId { agent: self.me.clone(), conversation: id.clone(), step: place.0, index: place.1 }
                .to_string();
        let others = self.parts.ways.peers.present();
        let peers = others.into_iter().filter(|(peer, _)| *peer != self.me).map(|(agent_id, card)| {
            PeerSkill { agent_id, description: card.description.clone(), skills: card.skills.clone() }
        });
        let trace = self.conversations.get(id).and_then(|conversation| conversation.trace.as_ref());
        let trace = trace.map(|trace| trace.below(SpanName::Effect(&key).id()));
        let pattern = self.conversations.get(id).map(|conversation| &conversation.pattern);
        let has_runner_up = pattern.is_some_and(AnyPattern::has_runner_up);
        let ask = Ask {
            agent: self.me.clone(),
            key,
            prompt: prompt.clone(),
            peers: peers.collect(),
            trace,
            has_runner_up,
        };
        let clock = self.parts.clock;
        let brain = brain_for(&self.parts, prompt).clone();
        let most = brain.patience(&ask).unwrap_or_else(|| self.parts.limits.think());
        let limit = deadline.map_or(most, |deadline| clock.wall().until(deadline).min(most));
        let (places, me) = (self.thinking_places.clone(), ctx.address().recipient());
        let conversation = id.clone();
        let is_direct = self.parts.is_direct;
        let (telemetry, begun) = (self.parts.telemetry.clone(), Instant::now());
        let thought = actix::spawn(async move {
            let Ok(_place) = places.acquire_owned().await else { return };
            let (report, mut reports) = mpsc::channel(GATHER_MOST);
            let its_turn = async move { brain.think(ask, report).await.map_err(|error| error.to_string()) };
            let mut its_turn = AssertUnwindSafe(its_turn).catch_unwind().boxed();
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
                    end = &mut its_turn => break end.unwrap_or_else(|_| Err(PANICKED.to_owned())),
                    () = &mut gather, if !gathered.is_empty() => {}
                }
                let what = What::Progress { turn, updates: std::mem::take(&mut gathered) };
                if !tell_agent(&me, Happened { conversation: conversation.clone(), closes: None, what }).await
                {
                    return;
                }
            };
            drop(its_turn);
            telemetry.meters().think.took(begun.elapsed());
            while let Ok(update) = reports.try_recv() {
                gathered.push(update);
            }
            let what = thought(turn, gathered, end, is_direct);
            tell_agent(&me, Happened { conversation, closes: Some(place), what }).await;
        });
        self.thoughts.insert((id.clone(), place), thought);
    }
}

/// Why a brain was cut: its task's deadline, or the longest any turn may take.
fn too_long(limit: Duration, most: Duration) -> String {
    let why = if limit < most { "its deadline passed" } else { "a turn may take no longer" };
    format!("{why}: the brain was cut after {} ms without an end", limit.as_millis())
}
