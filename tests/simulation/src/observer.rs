//! What must hold, checked on everything that becomes durable, in the order in which it does.

use crate::{random::Hash, store::What};
use engine::{
    content,
    records::{ConversationState, Step, TaskRow, Tombstone, keys},
    replay,
};
use protocol::{
    ids::{AgentId, ConversationId, MessageId, TaskId},
    message::{MessageKind, Payload},
    patterns::{AnyPattern, Effect, EventKind},
    principal::Principal,
    task::TaskState,
    time::WallTime,
};
use std::collections::{BTreeMap, BTreeSet};
use store_types::{MemoryState, Snapshot, Write};

/// One conversation, as its journal tells of it.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    pub steps: Vec<Step>,
    /// The step in which it ended, and how.
    pub ended: Option<(u64, TaskState)>,
    /// The award that is out.
    live: Option<(u64, AgentId)>,
    newest_epoch: u64,
    awarded: BTreeSet<u64>,
}

impl Conversation {
    /// The number of its last durable step.
    pub(crate) fn last(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.step)
    }

    /// Whether an owner's word of this kind is durable.
    pub(crate) fn has_heard(&self, is_it: impl Fn(&EventKind) -> bool) -> bool {
        self.steps.iter().flat_map(|step| &step.events).any(|event| is_it(&event.what))
    }
}

/// A task, as its row showed it last.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub conversation: ConversationId,
    pub epoch: Option<u64>,
    pub state: TaskState,
    pub root: Principal,
    row: Vec<u8>,
}

/// What one agent's store has held.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub conversations: BTreeMap<ConversationId, Conversation>,
    pub tasks: BTreeMap<(TaskId, Principal), Task>,
    /// Messages that were handled, with the time.
    handled: BTreeMap<(MessageId, Principal), WallTime>,
    /// Signals that were reacted to.
    pub reactions: BTreeSet<(AgentId, String)>,
    /// The newest award of a task that was accepted, or refused for good by a cancel.
    awards: BTreeMap<(TaskId, Principal), u64>,
    tombstones: BTreeMap<(TaskId, String), u64>,
    /// The board's cursor when it was recorded first.
    pub first_cursor: Option<u64>,
}

impl Seen {
    /// Whether a conversation has heard of a message.
    pub(crate) fn has_handled(&self, message: &MessageId, by: &Principal) -> bool {
        self.handled.contains_key(&(message.clone(), by.clone()))
    }
}

/// All agents together.
#[derive(Debug)]
pub(crate) struct Observer {
    pub agents: BTreeMap<AgentId, Seen>,
    pub hash: Hash,
    pub broken: Vec<String>,
    pub steps: u64,
    dedup_ms: u64,
}

impl Observer {
    pub(crate) fn new(agents: impl Iterator<Item = AgentId>, dedup_ms: u64) -> Self {
        let agents = agents.map(|id| (id, Seen::default())).collect();
        Self { agents, hash: Hash::default(), broken: Vec::new(), steps: 0, dedup_ms }
    }

    pub(crate) fn seen(&self, agent: &AgentId) -> &Seen {
        self.agents.get(agent).unwrap_or_else(|| unreachable!("every agent is there"))
    }

    /// The agent lost its data: nothing that was promised on it holds any more.
    pub(crate) fn forget(&mut self, agent: &AgentId) {
        self.agents.insert(agent.clone(), Seen::default());
    }

    /// Takes in what has just become durable in `store`.
    pub(crate) fn durable(&mut self, me: &AgentId, store: &MemoryState, what: &What) {
        let What::Commit(_, batch) = what else { return };
        for write in &batch.writes {
            let (key, value) = match write {
                Write::Append(key, value) => {
                    self.hash.add(key.as_str().as_bytes());
                    self.hash.add(value);
                    (key, value)
                }
                Write::Put(key, value) => (key, value),
                Write::Delete(_) => continue,
            };
            let tokens = key.tokens();
            match (tokens.get(1).map(String::as_str), tokens.get(2)) {
                (Some("journal"), Some(id)) => {
                    let Ok(id) = ConversationId::parse(id) else { continue };
                    match content::decode::<Step>(me, store, value) {
                        Ok(step) => self.step(me, &id, step),
                        Err(error) => self.broke(me, &id, &format!("a step can't be read: {error}")),
                    }
                }
                (Some("task"), Some(_)) => {
                    if let Ok(row) = content::decode::<TaskRow>(me, store, value) {
                        self.row(me, &row, value);
                    }
                }
                (Some("tombstone"), Some(task)) => {
                    let (Ok(task), Some(by)) = (TaskId::parse(task), tokens.get(3)) else { continue };
                    if let Ok(tombstone) = serde_json::from_slice::<Tombstone>(value) {
                        let seen = self.agents.entry(me.clone()).or_default();
                        let known = seen.tombstones.entry((task, by.clone())).or_default();
                        *known = (*known).max(tombstone.epoch);
                    }
                }
                (Some("cursor"), _) => {
                    if let Ok(cursor) = serde_json::from_slice(value) {
                        let seen = self.agents.entry(me.clone()).or_default();
                        seen.first_cursor.get_or_insert(cursor);
                    }
                }
                _ => {}
            }
        }
    }

    /// A cancel of these awards was acknowledged.
    pub(crate) fn cancelled(&mut self, me: &AgentId, task: &TaskId, by: &Principal, epoch: u64) {
        let seen = self.agents.entry(me.clone()).or_default();
        let known = seen.tombstones.entry((task.clone(), by.to_string())).or_default();
        *known = (*known).max(epoch);
    }

    fn broke(&mut self, me: &AgentId, id: &ConversationId, what: &str) {
        let seen = self.agents.get(me).and_then(|seen| seen.conversations.get(id));
        let last = seen.map(|seen| seen.steps.iter().rev().take(3).rev().collect::<Vec<_>>());
        let last: String = last.into_iter().flatten().map(|step| format!("\n    {}", brief(step))).collect();
        self.broken.push(format!("{me}, conversation {id}: {what}; its last steps:{last}"));
    }

    fn step(&mut self, me: &AgentId, id: &ConversationId, step: Step) {
        self.steps += 1;
        let seen = self.agents.entry(me.clone()).or_default();
        let conversation = seen.conversations.entry(id.clone()).or_default();
        let mut wrong: Vec<String> = Vec::new();
        if step.step != conversation.last() + 1 {
            wrong.push(format!("step {} follows step {}", step.step, conversation.last()));
        }
        let mut messages = Vec::new();
        if let Some(origin) = &step.origin {
            if let Some(message) = &origin.message {
                messages.push((message.id.clone(), message.by.clone(), message.kind));
            }
            if let Some(signal) = &origin.signal
                && !seen.reactions.insert((signal.from.clone(), signal.id.clone()))
            {
                wrong.push(format!("signal {} was reacted to before", signal.id));
            }
        }
        for event in &step.events {
            match &event.what {
                EventKind::MessageReceived { by, envelope, .. } => {
                    messages.push((envelope.message_id.clone(), by.clone(), envelope.kind()));
                }
                EventKind::Claimed { epoch, .. } if conversation.pattern() == Some("contract-net") => {
                    if *epoch <= conversation.newest_epoch {
                        wrong.push(format!("epoch {epoch} after {}", conversation.newest_epoch));
                    }
                    conversation.newest_epoch = *epoch;
                }
                _ => {}
            }
        }
        let wall = step.events.first().map_or(WallTime(0), |event| event.wall);
        for (message, by, _) in messages.into_iter().filter(|(_, _, kind)| !kind.is_best_effort()) {
            let before = seen.handled.insert((message.clone(), by.clone()), wall);
            let is_remembered = |before: &WallTime| before.0.abs_diff(wall.0) < self.dedup_ms;
            if before.as_ref().is_some_and(is_remembered) {
                wrong.push(format!("message {message} of {by} is processed twice"));
            }
        }
        wrong.extend(conversation.take(&step));
        if let Some((of, epoch)) = accepted(conversation, &step) {
            let cancelled = seen.tombstones.get(&(of.0.clone(), of.1.to_string())).copied();
            let newest = seen.awards.get(&of).copied().max(cancelled).unwrap_or_default();
            if epoch <= newest {
                wrong.push(format!("award {epoch} of task {} is accepted after {newest}", of.0));
            }
            seen.awards.insert(of, epoch);
        }
        conversation.steps.push(step);
        wrong.iter().for_each(|what| self.broke(me, id, what));
    }

    fn row(&mut self, me: &AgentId, row: &TaskRow, bytes: &[u8]) {
        let task = &row.task;
        let of = (task.spec.task_id.clone(), task.owner.clone());
        let now = Task {
            conversation: task.conversation.clone(),
            epoch: row.epoch,
            state: task.status.state,
            root: task.spec.root.clone(),
            row: bytes.to_vec(),
        };
        let mut wrong = Vec::new();
        let (state, id) = (now.state, now.conversation.clone());
        if state.is_terminal() && state != TaskState::Completed && task.status.message.is_none() {
            wrong.push(format!("task {} ended as {} without a reason", of.0, state.word()));
        }
        let seen = self.agents.entry(me.clone()).or_default();
        if let Some(before) = seen.tasks.get(&of) {
            let is_same = before.conversation == now.conversation;
            if is_same && before.state.is_terminal() && before.row != now.row {
                wrong.push(format!("task {} changed after it had ended as {}", of.0, before.state.word()));
            }
            if !is_same && now.epoch <= before.epoch && before.epoch.is_some() {
                let (now, before) = (now.epoch, before.epoch);
                wrong.push(format!("task {} is done under {now:?} after {before:?}", of.0));
            }
        }
        seen.tasks.insert(of, now);
        wrong.iter().for_each(|what| self.broke(me, &id, what));
    }

    /// What is to hold once all is quiet: every conversation has ended, and every journal replays.
    pub(crate) fn finish(&mut self) {
        let mut wrong = Vec::new();
        for (me, seen) in &self.agents {
            for (id, conversation) in &seen.conversations {
                if conversation.ended.is_none() {
                    let what = format!("{} never ended", conversation.pattern().unwrap_or("it"));
                    wrong.push((me.clone(), id.clone(), what));
                }
                if let Err(error) = replay::audit(&conversation.steps) {
                    wrong.push((me.clone(), id.clone(), format!("its journal does not replay: {error}")));
                }
            }
            for ((task, _), row) in &seen.tasks {
                if !row.state.is_terminal() {
                    let what = format!("task {task} never ended");
                    wrong.push((me.clone(), row.conversation.clone(), what));
                }
            }
        }
        wrong.iter().for_each(|(me, id, what)| self.broke(me, id, what));
    }
}

impl Conversation {
    fn initial(&self) -> Option<&AnyPattern> {
        self.steps.first()?.origin.as_ref()?.initial.as_deref()
    }

    fn pattern(&self) -> Option<&'static str> {
        self.initial().map(AnyPattern::name)
    }

    /// What is wrong with the next step.
    fn take(&mut self, step: &Step) -> Vec<String> {
        let mut wrong = Vec::new();
        for effect in &step.effects {
            if let (Some((at, state)), true) = (self.ended, is_late(effect)) {
                wrong.push(format!("{} after it had ended as {} in step {at}", name(effect), state.word()));
            }
            match effect {
                Effect::Finish(outcome) => {
                    if self.ended.is_some() {
                        wrong.push("it has two results".to_owned());
                    }
                    let state = outcome.status.state;
                    if state == TaskState::Completed && self.pattern() == Some("contract-net") {
                        wrong.extend(self.why_not_accepted(step));
                    }
                    self.ended = Some((step.step, state));
                }
                Effect::Send(message) => {
                    if let Payload::Award(award) = &message.payload {
                        if let Some((epoch, winner)) = &self.live {
                            wrong.push(format!("two live awards: {epoch} of {winner} and {}", award.epoch));
                        }
                        if award.epoch != self.newest_epoch || !self.awarded.insert(award.epoch) {
                            wrong.push(format!("award {} is not the newest, or given twice", award.epoch));
                        }
                        let protocol::ids::Address::Agent(winner) = &message.to else { continue };
                        self.live = Some((award.epoch, winner.clone()));
                    }
                }
                Effect::Release { epoch, .. } => {
                    self.live.take_if(|(live, _)| live == epoch);
                }
                _ => {}
            }
        }
        wrong
    }

    /// A manager's task is done by a response under the newest award only.
    fn why_not_accepted(&self, step: &Step) -> Option<String> {
        let is_it = step.events.iter().any(|event| match &event.what {
            EventKind::MessageReceived { by, envelope, .. } => match &envelope.payload {
                Payload::TaskResponse(response) => {
                    response.epoch == Some(self.newest_epoch) && by.agent().is_some()
                }
                _ => false,
            },
            _ => false,
        });
        (!is_it).then(|| format!("it is completed without a response under award {}", self.newest_epoch))
    }
}

/// The award that a step accepts.
fn accepted(conversation: &Conversation, step: &Step) -> Option<((TaskId, Principal), u64)> {
    let first = conversation.steps.first().unwrap_or(step);
    let by = first.origin.as_ref()?.message.as_ref().filter(|message| message.kind == MessageKind::Award)?;
    let accepted = step.effects.iter().find_map(|effect| match effect {
        Effect::Send(message) => match &message.payload {
            Payload::AwardAccept(accept) => Some((accept.task_id.clone(), accept.epoch)),
            _ => None,
        },
        _ => None,
    });
    accepted.map(|(task, epoch)| ((task, by.by.clone()), epoch))
}

/// Whether nothing like it may follow the end.
fn is_late(effect: &Effect) -> bool {
    let is_award = |effect: &Effect| matches!(effect, Effect::Send(message) if matches!(message.payload.kind(), MessageKind::Award | MessageKind::Cfp | MessageKind::TaskUpdate));
    matches!(
        effect,
        Effect::RunTurn { .. }
            | Effect::Update(_)
            | Effect::Assign { .. }
            | Effect::Claim { .. }
            | Effect::ClaimOpenTask { .. }
            | Effect::SetTimer { .. }
            | Effect::AskPerson { .. }
    ) || is_award(effect)
}

fn name(effect: &Effect) -> String {
    let value = serde_json::to_value(effect).unwrap_or_default();
    let named = |member: &str| value.get(member).and_then(|name| name.as_str()).map(str::to_owned);
    let kind = named("effect").unwrap_or_default();
    named("type").map_or(kind.clone(), |of| format!("{kind} {of}"))
}

/// A step in one line.
pub(crate) fn brief(step: &Step) -> String {
    let event = |what: &EventKind| {
        let value = serde_json::to_value(what).unwrap_or_default();
        let kind = value.get("event").and_then(|name| name.as_str()).unwrap_or_default().to_owned();
        match what {
            EventKind::MessageReceived { by, envelope, .. } => {
                format!("{} {} of {by}", envelope.kind().wire(), envelope.message_id)
            }
            EventKind::TimerFired { timer } => format!("{kind} {timer:?}"),
            EventKind::Delivered { label, by } => format!("{kind} {label:?} by {by}"),
            EventKind::Undelivered { label, to, reason, .. } => format!("{kind} {label:?} to {to}: {reason}"),
            EventKind::Claimed { holder, epoch } => format!("{kind} {epoch} for {holder}"),
            EventKind::ClaimExpired { epoch } | EventKind::ClaimEnded { epoch } => format!("{kind} {epoch}"),
            _ => kind,
        }
    };
    let events: Vec<_> = step.events.iter().map(|one| event(&one.what)).collect();
    let effects: Vec<_> = step.effects.iter().map(name).collect();
    let at = step.events.first().map_or(0, |event| event.at.0);
    format!("step {} at {at}: [{}] -> [{}]", step.step, events.join(", "), effects.join(", "))
}

/// Whether the durable state has `effect` open.
pub(crate) fn is_open(
    me: &AgentId,
    store: &MemoryState,
    id: &ConversationId,
    is_it: impl Fn(&engine::records::EffectKey, &Effect) -> bool,
) -> bool {
    let record = store.latest(&keys::state(me, id)).ok().flatten();
    let state = record.and_then(|record| content::decode::<ConversationState>(me, store, &record.value).ok());
    state.is_some_and(|state| state.open.iter().any(|(key, open)| is_it(key, &open.effect)))
}
