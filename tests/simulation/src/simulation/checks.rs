//! Invariants that need the whole run: effects and replies follow durable steps, and nothing is left at the end.

use super::{
    Simulation,
    replies::{PendingReply, ReplyTarget},
};
use engine::{Ack, artifacts, records::keys};
use protocol::{
    ids::{AgentId, Digest, EffectId, TaskId},
    limits::Limits,
    patterns::{Effect, EventKind, broadcast, reaction},
    principal::Principal,
    signal::{Cursor, Signal, SignalType},
    task::TaskState,
};
use std::time::Duration;
use store_types::Snapshot;

/// The longest time in which an agent handles a signal, milliseconds.
const LONGEST_SIGNAL: u64 = 10_000;

impl Simulation {
    /// An effect is performed after its step is durable.
    pub(super) fn check_effect(&mut self, me: &AgentId, name: &str) {
        let Some(id) = EffectId::parse(name).filter(|id| id.agent == *me) else { return };
        let conversation = self.observer.agent(me).conversations.get(&id.conversation);
        if conversation.is_none_or(|observed| observed.last_step() < id.step) {
            self.fail(format!(
                "{me}, conversation {}: effect {name} is performed before its step is durable",
                id.conversation
            ));
        }
    }

    /// Every agent may read the artifact to which a signal refers, unless it has lost its task since.
    pub(super) fn check_artifact(&mut self, owner: usize, signal: &Signal) {
        let (Some(digest), Some(task)) = (signal.produced(), &signal.task_id) else { return };
        let (me, store) = (&self.nodes[owner].id, &self.nodes[owner].store.settled);
        let conversation = EffectId::parse(&signal.id).map(|id| id.conversation);
        let mut rows = self.observer.agent(me).tasks.iter().filter(|((of, _), _)| of == task);
        let is_lost = |state: TaskState| state.is_terminal() && state != TaskState::Completed;
        if rows.any(|(_, row)| is_lost(row.state) || Some(&row.conversation) != conversation.as_ref()) {
            return;
        }
        let reader = AgentId::parse("another").map(Principal::Agent).unwrap_or(Principal::local_user());
        let read = artifacts::read(store, me, &digest, &reader);
        if !read.is_ok_and(|artifact| Digest::of(&artifact.content) == digest) {
            let what = format!("{me}: signal {} refers to an artifact that can't be read", signal.id);
            self.fail(what);
        }
    }

    /// An agent that can take conversations does not let a signal, and those behind it, wait for long.
    pub(super) fn check_readers(&mut self) {
        let mut waiting = Vec::new();
        for node in &self.nodes {
            let since = node.reader.as_ref().and_then(|reader| reader.delivering_since);
            if since.is_some_and(|since| since + LONGEST_SIGNAL < self.now) {
                waiting.push(format!("{} has let a signal wait since {since:?}", node.id));
            }
        }
        waiting.into_iter().for_each(|what| self.fail(what));
    }

    /// A claim is changed after the step that decided it is durable.
    pub(super) fn check_claim(&mut self, agent: usize, task: &TaskId) {
        let node = &self.nodes[agent];
        let is_about_claim = |effect: &Effect| match effect {
            Effect::ClaimOpenTask { task: of, .. }
            | Effect::RenewOpenTask { task: of, .. }
            | Effect::CloseOpenTask { task: of, .. }
            | Effect::ReleaseOpenTask { task: of, .. } => of == task,
            _ => false,
        };
        let conversations = self.observer.agent(&node.id).conversations.values();
        let mut steps = conversations.flat_map(|observed| &observed.steps);
        if !steps.any(|step| step.effects.iter().any(is_about_claim)) {
            self.fail(format!("{}: the claim on {task} is changed before that is durable", node.id));
        }
    }

    /// What an agent acknowledges is durable.
    pub(super) fn check_ack(&mut self, agent: usize, pending: &PendingReply, ack: &Ack) {
        let node = &self.nodes[agent];
        let observed = self.observer.agent(&node.id);
        let conversation = ack.conversation_id.as_ref().and_then(|id| observed.conversations.get(id));
        let early = match (&pending.message, &pending.target) {
            (Some((message, by, from, kind)), _) if !kind.is_best_effort() => {
                let key = keys::receipt(&node.id, message, by, from);
                let has_receipt = node.store.settled.latest(&key).ok().flatten().is_some();
                let has_task = || {
                    let task = ack.task_id.as_ref().filter(|_| ack.duplicate);
                    let key = task.map(|task| keys::task(&node.id, task, by));
                    key.is_some_and(|key| node.store.settled.latest(&key).ok().flatten().is_some())
                };
                let is_open = conversation.is_some_and(|one| one.ended.is_none());
                let is_forgotten = is_open && !ack.duplicate && !observed.has_handled(message, by);
                if is_forgotten {
                    let (me, kind) = (&node.id, kind.wire());
                    return self.fail(format!("{me}: {kind} {message} is acknowledged, and forgotten"));
                }
                let is_durable = has_receipt || has_task();
                (!is_durable).then(|| format!("{} {message} of {by} is acknowledged", kind.wire()))
            }
            (None, ReplyTarget::Owner { is_cancel }) => {
                let is_request = |what: &EventKind| match what {
                    EventKind::Cancelled { .. } => *is_cancel,
                    EventKind::Answered { .. } => !*is_cancel,
                    _ => false,
                };
                let is_durable = conversation.is_some_and(|one| one.has_event(is_request));
                (!is_durable).then(|| "its owner's request is acknowledged".to_owned())
            }
            (None, ReplyTarget::BoardReader { signal }) => {
                let is_durable = ack.conversation_id.is_none() || conversation.is_some();
                (!is_durable).then(|| format!("signal {} is taken", signal.signal.id))
            }
            _ => None,
        };
        if let Some(early) = early {
            let id = ack.conversation_id.as_ref().map(ToString::to_string).unwrap_or_default();
            self.fail(format!("{}, conversation {id}: {early} before that is durable", node.id));
        }
    }

    /// No journal keeps an expired record of a conversation that has ended, though others are open.
    pub(super) fn check_journals(&mut self) {
        let mut violations = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let Limits { keep_journals_ms, sweep_ms, .. } = *node.config.limits;
            // A sweep is due, and another may be under way.
            let keep = Duration::from_millis(keep_journals_ms + 3 * sweep_ms);
            let conversations = &self.observer.agent(&node.id).conversations;
            for (id, observed) in conversations.iter().filter(|(_, observed)| observed.ended.is_some()) {
                let last = observed.steps.last().and_then(|step| step.events.last());
                let is_expired = last.is_some_and(|event| event.wall.plus(keep) < self.wall(at));
                let journal = keys::journal(&node.id, id);
                if is_expired && node.store.settled.latest(&journal).ok().flatten().is_some() {
                    violations.push(format!("{} keeps the expired journal of {id}", node.id));
                }
            }
        }
        self.failures.extend(violations);
    }

    /// At the end every conversation has ended, every record has expired, and no one waits.
    pub(super) fn check_end(&mut self) {
        self.observer.finish();
        self.collect_failures();
        let mut violations = Vec::new();
        for node in &self.nodes {
            let me = &node.id;
            let Some(inner) = &node.agent else {
                violations.push(format!("{me} is down"));
                continue;
            };
            let snapshot = inner.snapshot();
            if !snapshot.conversations.is_empty()
                || snapshot.thinking > 0
                || snapshot.timers > 0
                || !inner.is_idle()
            {
                violations.push(format!("{me} is not quiet at the end: {snapshot:?}"));
            }
            if !snapshot.parked.is_empty() {
                violations.push(format!("{me} has parked {:?}", snapshot.parked));
            }
            if !node.timers.is_empty() || !node.turns.is_empty() || !node.attempts.is_empty() {
                let (timers, turns) = (node.timers.len(), node.turns.len());
                let attempts = node.attempts.len();
                violations
                    .push(format!("{me} has {timers} timers, {turns} turns, {attempts} attempts at the end"));
            }
            if !node.store.is_quiet() {
                violations.push(format!("{me}'s store is not quiet at the end"));
            }
            let topics = [
                "state",
                "claim",
                "receipt",
                "reaction",
                "tombstone",
                "dead",
                "task",
                "award",
                "content",
                "journal",
            ];
            for topic in topics {
                let left = node.store.settled.page(&keys::all(me, topic), 0, 5);
                if !left.is_empty() {
                    let keys: Vec<_> = left.iter().map(|record| record.key.to_string()).collect();
                    violations.push(format!("{me} keeps rows of {topic} at the end: {}", keys.join(", ")));
                }
            }
        }
        for (task, stands) in self.board.held() {
            violations.push(format!("the claim on {task} is still held by {} at the end", stands.row.holder));
        }
        for PendingReply { agent, since, target, message, .. } in self.pending_replies.values() {
            let me = &self.nodes[*agent].id;
            violations.push(format!("{me} has not answered {target:?} {message:?} since {since}"));
        }
        violations.extend(self.missed_signals());
        self.failures.extend(violations);
    }

    /// The `help.needed` signals that a subscriber could answer and never reacted to.
    fn missed_signals(&self) -> Vec<String> {
        let mut missed = Vec::new();
        let mut questions = self.board.all();
        questions.retain(|record| record.signal.kind == SignalType::help_needed());
        for node in self.nodes.iter().filter(|node| !node.config.subscribe.is_empty()) {
            let observed = self.observer.agent(&node.id);
            let Some(Cursor { revision: first, .. }) = observed.first_cursor else {
                missed.push(format!("{} never followed the board", node.id));
                continue;
            };
            for record in &questions {
                let signal = &record.signal;
                let can_answer = |capability| node.config.card.support(capability) > 0.0;
                let is_relayed = broadcast::on_behalf_of(signal).is_some();
                let concerns = record.revision > first
                    && (signal.from != node.id || is_relayed)
                    && signal.capability.as_ref().is_none_or(can_answer)
                    && reaction::hops(signal) < node.config.limits.max_hops as u64;
                if concerns && !observed.reactions.contains(&(signal.from.clone(), signal.id.clone())) {
                    missed.push(format!("{} never reacted to {} at {}", node.id, signal.id, record.revision));
                }
            }
        }
        missed
    }
}
