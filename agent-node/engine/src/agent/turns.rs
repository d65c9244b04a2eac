//! Turns of the brain, and the conversations that ask for them.

use crate::{
    PeerLocation, TurnKey, TurnStart, agent::Agent, context::Context, context_records,
    conversation::Conversation, records::EffectKey,
};
use patterns::{
    EventKind, WorkPhase,
    context::{ContextStart, TaskContext},
    session::host_work::HOST_WORK,
    turn::{HandoffRequest, Progress, Prompt, TurnEnd},
};
use protocol::{
    ids::{ConversationId, EffectId},
    principal::Principal,
    task::{TaskSpec, TaskState},
    time::WallTime,
    trace::SpanName,
};
use serde_json::Value;
use store_types::Error;

impl Agent {
    /// Queues a turn; it starts as soon as fewer than `maxParallel` run.
    pub(super) fn run_turn(
        &mut self,
        id: &ConversationId,
        effect: EffectKey,
        prompt: Prompt,
        deadline: Option<WallTime>,
        cx: &mut Context<'_>,
    ) {
        let key =
            EffectId { agent: self.me.clone(), conversation: id.clone(), step: effect.0, index: effect.1 };
        let conversation = self.conversations.get(id);
        let trace = conversation.and_then(|conversation| conversation.trace.as_ref());
        let trace = trace.map(|trace| trace.below(SpanName::Effect(&key.to_string()).id()));
        let pattern = conversation.map(|conversation| &conversation.pattern);
        let root = conversation.and_then(Conversation::root);
        let turn = TurnStart {
            key: TurnKey { conversation: id.clone(), effect },
            prompt,
            deadline,
            trace,
            has_runner_up: pattern.is_some_and(|pattern| pattern.view().has_runner_up),
            root,
        };
        if self.is_host_work(&turn.prompt) {
            return self.turns.start_beside(turn, cx);
        }
        let principal = conversation.and_then(|conversation| conversation.principal.clone());
        let contact = conversation.and_then(|open| open.task.as_ref()?.task.spec.contact.as_ref());
        let is_addressed = contact.is_some_and(|contact| contact.is_addressed);
        self.contexts.has_turn(id);
        self.turns.add(principal, is_addressed, turn);
        self.start_turns(cx);
    }

    /// The context of a task of `owner`, and from where the task goes on if no other turn there is under way.
    pub(super) fn context_of(
        &self,
        spec: &TaskSpec,
        owner: &Principal,
        cx: &Context<'_>,
    ) -> Result<Option<TaskContext>, Error> {
        let Some(name) = patterns::context::name(spec, owner) else { return Ok(None) };
        let start = match self.contexts.is_free(&name) {
            true => Some(self.context_start(&name, spec.input.as_ref(), cx)?),
            false => None,
        };
        Ok(Some(TaskContext { name, start }))
    }

    fn context_start(
        &self,
        name: &str,
        input: Option<&Value>,
        cx: &Context<'_>,
    ) -> Result<ContextStart, Error> {
        context_records::start(&self.me, cx.store, name, self.config.settings.compaction, input)
    }

    /// Lets the first task of each context that waits go on, if no other one is under way there.
    pub(super) fn call_waiting_turns(&mut self, cx: &mut Context<'_>) {
        while let Some((id, name)) = self.contexts.call_next() {
            let open = self.conversations.get(&id);
            let input = open.and_then(|open| open.task.as_ref()?.task.spec.input.as_ref());
            let start = self.context_start(&name, input, cx).unwrap_or_else(|error| {
                tracing::warn!(agent = %self.me, conversation = %id, %error, "a context can't be read");
                ContextStart::default()
            });
            self.events.push(&id, None, EventKind::ContextFree { start: Box::new(start) });
        }
    }

    /// Whether a turn is that of a session which this agent hosts: it waits for agents elsewhere, and its brain has no part in it.
    pub(super) fn is_host_work(&self, prompt: &Prompt) -> bool {
        let Some(capability) = prompt.about.task().and_then(|task| task.capability.as_ref()) else {
            return false;
        };
        capability.as_str() == HOST_WORK && self.config.card.support(capability) == 0.0
    }

    /// Starts ready turns while fewer than `maxParallel` run. A task that was shown as queued is told.
    pub(super) fn start_turns(&mut self, cx: &mut Context<'_>) {
        let is_between = |id: &ConversationId| {
            self.conversations.phase(id) == Some(WorkPhase::Active) && self.turns.of(id).is_empty()
        };
        let reserved = self.contexts.about_to_begin(is_between);
        self.turns.keep_isolated(|id| self.conversations.get(id).is_some());
        if self.quotas.is_any() {
            self.hold_turns(cx);
        }
        for (id, turn) in self.turns.start_ready(reserved, cx) {
            let conversation = self.conversations.get(&id);
            let row = conversation.and_then(|conversation| conversation.task.as_ref());
            if row.is_some_and(|row| row.task.status.state == TaskState::Submitted) {
                let was_held = self.conversations.phase(&id) == Some(WorkPhase::Held);
                self.events.push(&id, None, EventKind::TurnStarted { turn, was_held });
            }
        }
    }

    pub(super) fn turn_progress(&mut self, key: &TurnKey, mut updates: Vec<Progress>, cx: &mut Context<'_>) {
        updates.iter_mut().for_each(|update| self.check_handoff(update, cx));
        let Some((closes, what)) = self.turns.report(key, updates, cx) else { return };
        if closes.is_some() {
            self.start_turns(cx);
        }
        self.events.push(&key.conversation, closes, what);
    }

    pub(super) fn turn_ended(
        &mut self,
        key: &TurnKey,
        mut updates: Vec<Progress>,
        mut end: Result<TurnEnd, String>,
        cx: &mut Context<'_>,
    ) {
        updates.iter_mut().for_each(|update| self.check_handoff(update, cx));
        if let Ok(TurnEnd::Handoff(asked)) = &mut end {
            self.note_unknown_agent(asked, cx);
        }
        let Some(what) = self.turns.end(key, updates, end, cx.world.now()) else { return };
        self.events.push(&key.conversation, Some(key.effect), what);
    }

    fn check_handoff(&self, update: &mut Progress, cx: &Context<'_>) {
        if let Progress::Handoff(asked) = update {
            self.note_unknown_agent(asked, cx);
        }
    }

    /// Refuses to hand a chat over to an agent that nobody knows. One that is away is waited for.
    fn note_unknown_agent(&self, asked: &mut HandoffRequest, cx: &Context<'_>) {
        let directory = cx.world.directory();
        if asked.to == self.me || !directory.is_synced() {
            return;
        }
        let why = match directory.locate(&asked.to) {
            PeerLocation::Unknown => "there is no such agent",
            PeerLocation::Left => "it has left",
            PeerLocation::Here | PeerLocation::At(_) | PeerLocation::Away { .. } => return,
        };
        asked.refusal = Some(format!("the chat is not handed over to {}: {why}", asked.to));
    }

    /// Whether a turn of a conversation that takes no time may be answered now: it has a place, and is before no turn that
    /// waits.
    pub(super) fn has_free_turn(&self, id: &ConversationId) -> bool {
        let own = u32::from(self.conversations.phase(id) == Some(WorkPhase::Active));
        let is_held = self.conversations.phase(id) == Some(WorkPhase::Held);
        !is_held && self.turns.would_start() && self.taken_places().saturating_sub(own) < self.max_parallel()
    }
}

#[cfg(test)]
mod context_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod waiting_tests;
