//! Invariants of each agent's durable records, checked in the order in which the records become durable.

mod conversation;

pub(crate) use conversation::{ObservedConversation, step_line};

use crate::random::Hash;
use conversation::accepted_award;
use engine::{
    content,
    records::{Step, TaskRow, Tombstone},
    replay,
};
use patterns::{Effect, EventKind};
use protocol::{
    ids::{AgentId, ConversationId, EffectId, MessageId, TaskId},
    principal::Principal,
    signal::Cursor,
    task::TaskState,
    time::WallTime,
};
use std::collections::{BTreeMap, BTreeSet};
use store_types::{Batch, MemoryState, Write};

/// A task as its last durable row shows it.
#[derive(Debug, Clone)]
pub(crate) struct ObservedTask {
    pub conversation: ConversationId,
    pub epoch: Option<u64>,
    pub state: TaskState,
    pub root: Principal,
    row: Vec<u8>,
}

/// The durable records of one agent.
#[derive(Debug, Default)]
pub(crate) struct ObservedAgent {
    pub conversations: BTreeMap<ConversationId, ObservedConversation>,
    pub tasks: BTreeMap<(TaskId, Principal), ObservedTask>,
    /// Handled messages, with the time.
    handled: BTreeMap<(MessageId, Principal), WallTime>,
    /// Signals that the agent reacted to.
    pub reactions: BTreeSet<(AgentId, String)>,
    /// The newest accepted award of each task.
    awards: BTreeMap<(TaskId, Principal), u64>,
    tombstones: BTreeMap<(TaskId, String), u64>,
    /// The first durable cursor on the board.
    pub first_cursor: Option<Cursor>,
}

impl ObservedAgent {
    /// Whether a conversation has handled the message.
    pub(crate) fn has_handled(&self, message: &MessageId, by: &Principal) -> bool {
        self.handled.contains_key(&(message.clone(), by.clone()))
    }
}

/// Checks the durable records of all agents.
#[derive(Debug)]
pub(crate) struct Observer {
    pub agents: BTreeMap<AgentId, ObservedAgent>,
    pub hash: Hash,
    pub violations: Vec<String>,
    pub steps: u64,
    dedup_ms: u64,
    /// Whether the board has lost its signals: publishers may repeat them, and a reaction that was decided before may be
    /// recorded after.
    is_board_lost: bool,
}

impl Observer {
    pub(crate) fn new(agents: impl Iterator<Item = AgentId>, dedup_ms: u64) -> Self {
        let agents = agents.map(|id| (id, ObservedAgent::default())).collect();
        Self {
            agents,
            hash: Hash::default(),
            violations: Vec::new(),
            steps: 0,
            dedup_ms,
            is_board_lost: false,
        }
    }

    pub(crate) fn agent(&self, agent: &AgentId) -> &ObservedAgent {
        self.agents.get(agent).unwrap_or_else(|| unreachable!("every agent is observed"))
    }

    /// Whether a message opened it, and so on up to one of a user; not a signal.
    pub(crate) fn is_requested(&self, conversation: &ObservedConversation) -> bool {
        let message = conversation.steps.first().and_then(|step| step.origin.as_ref()?.message.as_ref());
        message.is_some_and(|message| match EffectId::parse(message.id.as_str()) {
            None => true,
            Some(effect) => {
                let sender = self.agent(&effect.agent).conversations.get(&effect.conversation);
                sender.is_some_and(|sender| self.is_requested(sender))
            }
        })
    }

    /// The agent has lost its data: its earlier records no longer count.
    pub(crate) fn forget(&mut self, agent: &AgentId) {
        self.agents.insert(agent.clone(), ObservedAgent::default());
    }

    /// Checks a batch that has just become durable in `store`.
    pub(crate) fn record(&mut self, me: &AgentId, store: &MemoryState, batch: &Batch) {
        for write in &batch.writes {
            let (key, value) = match write {
                Write::Append(key, value) => {
                    self.hash.add(key.as_str().as_bytes());
                    self.hash.add(value);
                    (key, value)
                }
                Write::Put(key, value)
                | Write::PutListed(key, value, _)
                | Write::PutIndexed(key, value, ..) => (key, value),
                Write::Delete(_) | Write::Trim(..) => continue,
            };
            let tokens = key.tokens();
            match (tokens.get(1).map(String::as_str), tokens.get(2)) {
                (Some("journal"), Some(id)) => {
                    let Ok(id) = ConversationId::parse(id) else { continue };
                    match content::decode::<Step>(me, store, value) {
                        Ok(step) => self.check_step(me, &id, step),
                        Err(error) => self.add_violation(me, &id, &format!("a step can't be read: {error}")),
                    }
                }
                (Some("task"), Some(_)) => {
                    if let Ok(row) = content::decode::<TaskRow>(me, store, value) {
                        self.check_row(me, &row, value);
                    }
                }
                (Some("tombstone"), Some(task)) => {
                    let (Ok(task), Some(by)) = (TaskId::parse(task), tokens.get(3)) else { continue };
                    if let Ok(tombstone) = serde_json::from_slice::<Tombstone>(value) {
                        let observed = self.agents.entry(me.clone()).or_default();
                        let known = observed.tombstones.entry((task, by.clone())).or_default();
                        *known = (*known).max(tombstone.epoch);
                    }
                }
                (Some("cursor"), _) => {
                    if let Ok(cursor) = serde_json::from_slice(value) {
                        let observed = self.agents.entry(me.clone()).or_default();
                        observed.first_cursor.get_or_insert(cursor);
                    }
                }
                _ => {}
            }
        }
    }

    /// The board has lost its signals: every agent that has followed it reads the new one from the start.
    pub(crate) fn board_lost(&mut self) {
        self.is_board_lost = true;
        for observed in self.agents.values_mut() {
            observed.reactions.clear();
            observed.first_cursor = observed.first_cursor.take().map(|_| Cursor::from(0));
        }
    }

    /// A cancel of the awards up to `epoch` was acknowledged.
    pub(crate) fn cancelled(&mut self, me: &AgentId, task: &TaskId, by: &Principal, epoch: u64) {
        let observed = self.agents.entry(me.clone()).or_default();
        let known = observed.tombstones.entry((task.clone(), by.to_string())).or_default();
        *known = (*known).max(epoch);
    }

    fn add_violation(&mut self, me: &AgentId, id: &ConversationId, what: &str) {
        let observed = self.agents.get(me).and_then(|observed| observed.conversations.get(id));
        let last =
            observed.map(|conversation| conversation.steps.iter().rev().take(3).rev().collect::<Vec<_>>());
        let last: String =
            last.into_iter().flatten().map(|step| format!("\n    {}", step_line(step))).collect();
        self.violations.push(format!("{me}, conversation {id}: {what}; its last steps:{last}"));
    }

    fn check_step(&mut self, me: &AgentId, id: &ConversationId, step: Step) {
        self.steps += 1;
        let observed = self.agents.entry(me.clone()).or_default();
        let conversation = observed.conversations.entry(id.clone()).or_default();
        let mut violations: Vec<String> = Vec::new();
        if step.step != conversation.last_step() + 1 {
            violations.push(format!("step {} follows step {}", step.step, conversation.last_step()));
        }
        let mut messages = Vec::new();
        if let Some(origin) = &step.origin {
            if let Some(message) = &origin.message {
                messages.push((message.id.clone(), message.by.clone(), message.kind));
            }
            if let Some(signal) = &origin.signal
                && !observed.reactions.insert((signal.from.clone(), signal.id.clone()))
                && !self.is_board_lost
            {
                violations.push(format!("signal {} was reacted to before", signal.id));
            }
        }
        for event in &step.events {
            match &event.what {
                EventKind::MessageReceived { by, envelope, .. } => {
                    messages.push((envelope.message_id.clone(), by.clone(), envelope.kind()));
                }
                EventKind::Claimed { epoch, .. } if conversation.may_award() => {
                    if *epoch <= conversation.newest_epoch {
                        violations.push(format!("epoch {epoch} after {}", conversation.newest_epoch));
                    }
                    conversation.newest_epoch = *epoch;
                }
                _ => {}
            }
        }
        let wall = step.events.first().map_or(WallTime(0), |event| event.wall);
        for (message, by, _) in messages.into_iter().filter(|(_, _, kind)| !kind.is_best_effort()) {
            let before = observed.handled.insert((message.clone(), by.clone()), wall);
            let is_remembered = |before: &WallTime| before.0.abs_diff(wall.0) < self.dedup_ms;
            if before.as_ref().is_some_and(is_remembered) {
                violations.push(format!("message {message} of {by} is processed twice"));
            }
        }
        violations.extend(conversation.check_step(&step));
        if let Some((of, epoch)) = accepted_award(conversation, &step) {
            let cancelled = observed.tombstones.get(&(of.0.clone(), of.1.to_string())).copied();
            let newest = observed.awards.get(&of).copied().max(cancelled).unwrap_or_default();
            if epoch <= newest {
                violations.push(format!("award {epoch} of task {} is accepted after {newest}", of.0));
            }
            observed.awards.insert(of, epoch);
        }
        conversation.steps.push(step);
        violations.iter().for_each(|what| self.add_violation(me, id, what));
    }

    fn check_row(&mut self, me: &AgentId, row: &TaskRow, bytes: &[u8]) {
        let task = &row.task;
        let of = (task.spec.task_id.clone(), task.owner.clone());
        let now = ObservedTask {
            conversation: task.conversation.clone(),
            epoch: row.epoch,
            state: task.status.state,
            root: task.spec.root.clone(),
            row: bytes.to_vec(),
        };
        let mut violations = Vec::new();
        let (state, id) = (now.state, now.conversation.clone());
        if state.is_terminal() && state != TaskState::Completed && task.status.message.is_none() {
            violations.push(format!("task {} ended as {} without a reason", of.0, state.word()));
        }
        let observed = self.agents.entry(me.clone()).or_default();
        if let Some(before) = observed.tasks.get(&of) {
            let is_same = before.conversation == now.conversation;
            if is_same && before.state.is_terminal() && before.row != now.row {
                violations.push(format!(
                    "task {} changed after it had ended as {}",
                    of.0,
                    before.state.word()
                ));
            }
            if !is_same && now.epoch <= before.epoch && before.epoch.is_some() {
                let (now, before) = (now.epoch, before.epoch);
                violations.push(format!("task {} is done under {now:?} after {before:?}", of.0));
            }
        }
        observed.tasks.insert(of, now);
        violations.iter().for_each(|what| self.add_violation(me, &id, what));
    }

    /// At the end of a run every conversation and task has ended, and every journal replays.
    pub(crate) fn finish(&mut self) {
        let mut violations = Vec::new();
        for (me, observed) in &self.agents {
            for (id, conversation) in &observed.conversations {
                if conversation.ended.is_none() {
                    let what = format!("{} never ended", conversation.pattern().unwrap_or("it"));
                    violations.push((me.clone(), id.clone(), what));
                }
                if let Err(error) = replay::audit(&conversation.steps) {
                    violations.push((
                        me.clone(),
                        id.clone(),
                        format!("its journal does not replay: {error}"),
                    ));
                }
            }
            for ((task, _), row) in &observed.tasks {
                if !row.state.is_terminal() {
                    let what = format!("task {task} never ended");
                    violations.push((me.clone(), row.conversation.clone(), what));
                }
            }
        }
        violations.iter().for_each(|(me, id, what)| self.add_violation(me, id, what));
    }
}

/// Whether the durable state of a conversation has such an effect open.
pub(crate) fn is_open(
    me: &AgentId,
    store: &MemoryState,
    id: &ConversationId,
    is_effect: impl Fn(&engine::records::EffectKey, &Effect) -> bool,
) -> bool {
    let state = engine::states::read(store, me, id).ok().flatten();
    state.is_some_and(|state| state.open.iter().any(|(key, open)| is_effect(key, &open.effect)))
}
