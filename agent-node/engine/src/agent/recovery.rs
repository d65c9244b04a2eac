//! Recovery: loads the states and performs every open effect again under its key (DESIGN §2). Old events never run
//! through newer rules. A state that the last rules have computed becomes one of these rules, and the next step of its
//! conversation records it; after a crash before that it is read again. A state of older rules ends.

use crate::{
    Output, TurnKey, World,
    agent::{Agent, EngineConfig},
    commits::StandaloneRecords,
    content,
    context::Context,
    conversation::{Conversation, QueuedEvent},
    internal_events::InternalEvent,
    records::{
        EffectKey, OpenEffect, StateOutline, Step, StepTimes, TaskRow, keys, lists,
        scan::{conversation_id, every_readable},
    },
    states,
    timer_purpose::TimerPurpose,
};
use patterns::{AnyPattern, Effect, Event, EventKind, Outcome};
use protocol::{
    ids::{AgentId, ConversationId},
    principal::Principal,
    task::{Status, TaskState},
    time::NodeTime,
};
use serde::Deserialize;
use std::{collections::BTreeMap, time::Duration};
use store_types::{Batch, Error, Expectation, Filter, Record, Snapshot, Write};

/// The members of a journal record that every rules version has.
#[derive(Deserialize)]
struct StepOutline {
    step: u64,
}

/// How often a turn is started before it counts as the cause of the crashes.
const MAX_ATTEMPTS: u32 = 5;
/// From so many starts on that ended with a crash, turns start one at a time, so that those beside the cause are not blamed.
const ISOLATED_FROM: u32 = 2;

/// How long a turn under an award waits for the manager's answer after a restart. The award may have lapsed meanwhile; a manager
/// that can't be reached has awarded nothing anew, or fences the reports.
const CHECK_IN: Duration = Duration::from_secs(10);

/// A turn that waits for the manager's answer.
pub(super) struct HeldTurn {
    key: EffectKey,
    /// Whether it has a place, so that it counts as an attempt.
    is_counted: bool,
}

/// The store can't be read.
#[derive(Debug)]
pub struct RecoverError(pub Error);

impl std::fmt::Display for RecoverError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for RecoverError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

impl From<Error> for RecoverError {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

/// The newest node time in the journals of an agent's open conversations.
pub fn newest_time(store: &dyn Snapshot, me: &AgentId) -> Result<NodeTime, Error> {
    let mut newest = NodeTime::default();
    let mut journals = Vec::new();
    let id = |record: Record| journals.extend(conversation_id(&record.key));
    every_readable(store, &keys::all(me, "state"), id, |_, _| {})?;
    for id in journals {
        // An unreadable conversation is parked when the agent starts.
        let step = match store.latest(&keys::journal(me, &id)) {
            Ok(journal) => journal.and_then(|last| content::outline::<StepTimes>(&last.value).ok()),
            Err(Error::Corrupt { .. }) => None,
            Err(error) => return Err(error),
        };
        let at = step.and_then(|step| step.at());
        newest = at.unwrap_or_default().max(newest);
    }
    Ok(newest)
}

/// Returns `error` if it is about one damaged record; fails if the store can't be read.
fn only_damage(error: Error) -> Result<Error, RecoverError> {
    match error {
        Error::Corrupt { .. } | Error::Refused(_) => Ok(error),
        _ => Err(error.into()),
    }
}

impl Agent {
    /// Loads an agent from its store and returns its first outputs. Fails if the store can't be read; a damaged conversation
    /// is parked.
    pub fn recover(
        config: EngineConfig,
        store: &dyn Snapshot,
        world: &mut dyn World,
    ) -> Result<(Self, Vec<Output>), RecoverError> {
        let mut agent = Self::new(config);
        let mut cx = Context { store, world, out: Vec::new() };
        let me = agent.me.clone();
        every_readable(
            store,
            &keys::all(&me, "record"),
            |record| {
                let peer = record.key.tokens().get(2).and_then(|id| AgentId::parse(id).ok());
                if let (Some(peer), Ok(kept)) = (peer, serde_json::from_slice(&record.value)) {
                    agent.peers.learn([(peer, kept)]);
                }
            },
            |_, _| {},
        )?;
        agent.quotas.load(&me, store, cx.world.wall())?;
        let (mut open, mut damaged) = (Vec::new(), Vec::new());
        let id = |record: Record| open.extend(conversation_id(&record.key));
        every_readable(store, &keys::all(&me, "state"), id, |key, error| {
            damaged.extend(conversation_id(&key).map(|id| (id, error)));
        })?;
        let mut restored = Vec::new();
        for id in open {
            let restored_one = match agent.end_if_rules_changed(&id, &mut cx) {
                Ok(false) => agent.restore(&id, store),
                Ok(true) => Ok(None),
                Err(error) => Err(error),
            };
            match restored_one {
                Ok(Some(conversation)) => {
                    agent.insert_restored(conversation);
                    restored.push(id);
                }
                Ok(None) => {}
                Err(error) => damaged.push((id, only_damage(error)?)),
            }
        }
        // The oldest conversations get the places for turns, in the same order at every start.
        // Those that wait for their managers come last: they start later.
        restored.sort_by_key(|id| {
            let conversation = agent.conversations.get(id);
            (conversation.is_some_and(|open| agent.checks_in(open)), conversation.map(Conversation::first))
        });
        let crashes = restored.iter().filter_map(|id| agent.conversations.get(id));
        let is_isolated = crashes.flat_map(Conversation::turn_attempts).max() >= Some(ISOLATED_FROM);
        let mut places = if is_isolated { agent.turns.limit().min(1) } else { agent.turns.limit() };
        if is_isolated {
            tracing::warn!(agent = %me, "the node was killed again and again: turns that ran start one at a time");
            agent.isolate_turns(&restored);
        }
        for id in restored {
            if let Err(error) = agent.resume(&id, &mut places, &mut cx) {
                damaged.push((id, only_damage(error)?));
            }
        }
        agent.park_damaged(damaged, &mut cx)?;
        agent.subscription.begin(&me, &mut cx)?;
        agent.finish_input(&mut cx);
        Ok((agent, cx.out))
    }

    /// Parks conversations whose records are damaged. Looks through all tasks for those whose states can't be read.
    fn park_damaged(
        &mut self,
        damaged: Vec<(ConversationId, Error)>,
        cx: &mut Context<'_>,
    ) -> Result<(), Error> {
        let recorded: Vec<_> = damaged.iter().map(|(id, _)| self.recorded_task(id, cx)).collect();
        let mut tasks = BTreeMap::new();
        if recorded.iter().any(Option::is_none) {
            let (me, store) = (self.me.clone(), cx.store);
            let each = |record: Record| {
                if let Ok(row) = content::decode::<TaskRow>(&me, store, &record.value) {
                    tasks.insert(row.task.conversation, (row.task.spec.task_id, row.task.owner));
                }
            };
            every_readable(store, &keys::all(&me, "task"), each, |_, _| {})?;
        }
        for ((id, error), task) in damaged.into_iter().zip(recorded) {
            let task = task.or_else(|| tasks.remove(&id));
            self.park(&id, task, &error.to_string(), cx);
        }
        Ok(())
    }

    /// Ends a conversation whose state was computed by rules that these don't read: its task fails with `rules_changed`, and
    /// the journal records it. Returns whether it did.
    fn end_if_rules_changed(&mut self, id: &ConversationId, cx: &mut Context<'_>) -> Result<bool, Error> {
        let Some(record) = cx.store.latest(&keys::state(&self.me, id))? else { return Ok(false) };
        let Ok(StateOutline { rules, task }) = content::outline(&record.value) else { return Ok(false) };
        if AnyPattern::reads(rules) {
            return Ok(false);
        }
        let why =
            format!("rules_changed: its state is of rules {rules}, this version has {}", AnyPattern::RULES);
        tracing::warn!(agent = %self.me, conversation = %id, why, "a conversation is ended");
        let status = Status::new(TaskState::Failed, &why);
        let (at, wall) = (cx.world.now(), cx.wall());
        let mut batch = Batch { writes: vec![Write::Delete(record.key)], ..Batch::default() };
        if let Some((task, owner)) = task {
            batch.writes.push(Write::Delete(keys::claim(&self.me, &task, id)));
            let key = keys::task(&self.me, &task, &owner);
            let row = cx.store.latest(&key)?;
            let row =
                row.map(|row| content::decode::<TaskRow>(&self.me, cx.store, &row.value)).transpose()?;
            if let Some(mut row) = row.filter(|row| row.task.conversation == *id && row.ended_at.is_none()) {
                row.task.status = status.clone();
                row.task.changed_at = wall;
                row.ended_at = Some(at);
                let bytes = content::encode(&self.me, &row, &mut batch.writes, &mut Default::default())?;
                let entries = lists::of_task(&self.me, &key, &row);
                batch.writes.push(Write::PutListed(key, bytes, entries));
            }
        }
        let journal = keys::journal(&self.me, id);
        let last = cx.store.latest(&journal)?;
        let step = last.as_ref().and_then(|last| content::outline::<StepOutline>(&last.value).ok());
        let by = Principal::Agent(self.me.clone());
        let step = Step {
            step: step.map_or(1, |last| last.step + 1),
            events: vec![Event { at, wall, what: EventKind::Cancelled { by, reason: why } }],
            effects: vec![Effect::Finish(Outcome::new(status))],
            ..Step::default()
        };
        let bytes = content::encode(&self.me, &step, &mut batch.writes, &mut Default::default())?;
        batch.writes.push(Write::Append(journal.clone(), bytes));
        batch.expectations.extend(last.map(|last| Expectation::At(journal, last.revision)));
        let records = StandaloneRecords { ends: Some(id.clone()), ..StandaloneRecords::default() };
        self.commit_standalone(batch, records, cx);
        Ok(true)
    }

    /// The conversation as the store holds it.
    pub(super) fn restore(
        &self,
        id: &ConversationId,
        store: &dyn Snapshot,
    ) -> Result<Option<Conversation>, Error> {
        let Some(recorded) = states::load(store, &self.me, id)? else { return Ok(None) };
        let oldest = store.read(&Filter::Exactly(keys::journal(&self.me, id)), 0, 1)?;
        let first = oldest.first().map_or(recorded.head, |record| record.revision);
        let task = match &recorded.state.task {
            Some((task, owner)) => match store.latest(&keys::task(&self.me, task, owner))? {
                // The row may belong to the conversation of a later award.
                Some(row) => Some(content::decode::<TaskRow>(&self.me, store, &row.value)?)
                    .filter(|row| row.task.conversation == *id),
                None => None,
            },
            None => None,
        };
        Ok(Some(Conversation::restore(id.clone(), recorded, task, first)))
    }

    /// Takes a restored conversation into memory.
    pub(super) fn insert_restored(&mut self, conversation: Conversation) {
        let id = conversation.id.clone();
        if let Some(row) = conversation.task.as_ref().filter(|row| row.ended_at.is_none()) {
            let (task, owner) = (row.task.spec.task_id.clone(), row.task.owner.clone());
            self.conversations.set_task(task, owner, id.clone());
        }
        self.conversations.insert(conversation);
        self.note_change(&id);
    }

    /// Lets the open turns of these conversations start one at a time, but for those in which no brain has a part.
    fn isolate_turns(&mut self, restored: &[ConversationId]) {
        for id in restored {
            let open = self.conversations.get(id).into_iter().flat_map(|conversation| &conversation.open);
            let keys: Vec<_> = open
                .filter(|(_, open)| match &open.effect {
                    Effect::RunTurn { prompt, .. } => {
                        (ISOLATED_FROM..MAX_ATTEMPTS).contains(&open.attempts) && !self.is_host_work(prompt)
                    }
                    _ => false,
                })
                .map(|(key, _)| TurnKey { conversation: id.clone(), effect: *key })
                .collect();
            keys.into_iter().for_each(|key| self.turns.isolate(key));
        }
    }

    /// Performs the open effects of a restored conversation again. Turns start in the order in which they are restarted, so
    /// the first ones get the free `places`; only these are counted as attempts, because the others have to wait.
    fn resume(&mut self, id: &ConversationId, places: &mut usize, cx: &mut Context<'_>) -> Result<(), Error> {
        let checks_in = self.conversations.get(id).is_some_and(|open| self.checks_in(open));
        let Some(conversation) = self.conversations.get_mut(id) else { return Ok(()) };
        let open: Vec<(EffectKey, OpenEffect)> =
            conversation.open.iter().map(|(key, open)| (*key, open.clone())).collect();
        if checks_in {
            conversation.queue.push_back(QueuedEvent::from_inside(EventKind::Restarted, None));
        }
        let mut held = Vec::new();
        for (key, open) in open {
            let Effect::RunTurn { turn, prompt, .. } = &open.effect else {
                self.perform_again(id, key, &open, cx)?;
                continue;
            };
            if open.attempts >= MAX_ATTEMPTS {
                let reason = format!(
                    "given up: the node stopped {MAX_ATTEMPTS} times while this turn was being thought"
                );
                let what = EventKind::TurnFailed { turn: *turn, reason };
                self.handle_event(InternalEvent { conversation: id.clone(), closes: Some(key), what }, cx);
            } else {
                held.push(HeldTurn { key, is_counted: *places > 0 });
                // The work of a host takes no place.
                if !self.is_host_work(prompt) {
                    *places = places.saturating_sub(1);
                }
            }
        }
        if checks_in && !held.is_empty() {
            self.held_turns.insert(id.clone(), held);
            self.timers.set(CHECK_IN, TimerPurpose::CheckIn(id.clone()), cx);
        } else {
            self.restart_turns(id, held);
        }
        self.advance(id, true, cx);
        Ok(())
    }

    /// Whether its manager is told that this agent is back before its turn begins.
    fn checks_in(&self, conversation: &Conversation) -> bool {
        let view = conversation.pattern.view();
        view.work.is_some() && view.manager.is_some_and(|manager| *manager != self.me)
    }

    fn restart_turns(&mut self, id: &ConversationId, held: Vec<HeldTurn>) {
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        held.into_iter().for_each(|turn| conversation.restart_turn(turn.key, turn.is_counted));
    }

    /// Begins the turns that waited until the manager of their work knows that this agent is back. Those of work that has ended
    /// meanwhile are gone.
    pub(super) fn release_turns(&mut self, id: &ConversationId, cx: &mut Context<'_>) {
        if let Some(held) = self.held_turns.remove(id) {
            self.restart_turns(id, held);
            self.advance(id, true, cx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        CommitId, Input, Output,
        records::ConversationState,
        testing::{EmptyWorld, TestAgent, config, me},
    };
    use patterns::turn::TurnEnd;
    use protocol::{ids::TaskId, limits::Limits, task::TaskSpec, time::WallTime};
    use serde_json::{Value, json};
    use store_types::{Key, MemoryState};

    fn id() -> ConversationId {
        ConversationId::parse("c-1").unwrap()
    }

    fn claim() -> Key {
        keys::claim(&me(), &TaskId::parse("t-1").unwrap(), &id())
    }

    /// A store with a conversation of another rules version. Its task's row is `row`, if that is given.
    fn store_of_other_rules(row: Option<&[u8]>) -> MemoryState {
        let (id, owner) = (id(), Principal::local_user());
        let task = TaskId::parse("t-1").unwrap();
        let spec: TaskSpec =
            serde_json::from_value(json!({ "taskId": "t-1", "description": "x", "root": "user:local" }))
                .unwrap();
        let valid = TaskRow::new(spec, owner.clone(), id.clone(), WallTime(0));
        let state = json!({ "rules": 1, "pattern": { "pattern": "unknown" }, "task": ["t-1", "user:local"] });
        let line = json!({ "step": 7, "events": [{ "event": "unknown" }] });
        let mut store = MemoryState::default();
        let writes = vec![
            Write::Put(keys::state(&me(), &id), serde_json::to_vec(&state).unwrap().into()),
            Write::Put(
                keys::task(&me(), &task, &owner),
                row.map_or_else(|| serde_json::to_vec(&valid).unwrap(), <[u8]>::to_vec).into(),
            ),
            Write::Put(claim(), b"{}".to_vec().into()),
            Write::Append(keys::journal(&me(), &id), serde_json::to_vec(&line).unwrap().into()),
        ];
        store.commit(Batch { writes, expectations: Vec::new() }).unwrap();
        store
    }

    fn recover(store: &MemoryState) -> (Agent, Vec<Output>) {
        Agent::recover(config(Limits::default()), store, &mut EmptyWorld::default()).unwrap()
    }

    fn started(agent: &mut TestAgent) -> Vec<TurnKey> {
        let turn = |output: &Output| match output {
            Output::StartTurn(turn) => Some(turn.key.clone()),
            _ => None,
        };
        std::iter::from_fn(|| agent.take(turn)).collect()
    }

    #[test]
    fn after_two_crashes_turns_start_one_at_a_time_and_only_that_one_is_given_up() {
        let mut agent = TestAgent::new(&[]).with_places(3);
        let tasks = ["t-1", "t-2", "t-3"];
        for task in tasks {
            agent.begin_task(task);
        }
        agent.restart();
        assert_eq!(started(&mut agent).len(), 3, "one crash may have any cause");
        let mut first = Vec::new();
        for _ in 0..3 {
            agent.restart();
            first.push(started(&mut agent));
        }
        assert!(first.iter().all(|turns| turns.len() == 1 && *turns == first[0]), "{first:?}");
        agent.restart();
        let next = started(&mut agent);
        assert!(next.len() == 1 && next != first[0], "the first one is given up, the others go on: {next:?}");
        let state = |agent: &TestAgent, task: &str| {
            let (task, by) = (TaskId::parse(task).unwrap(), Principal::local_user());
            crate::tasks::find(&agent.store, &me(), &task, &by).unwrap().unwrap().task.status.state
        };
        let states = tasks.map(|task| state(&agent, task));
        assert_eq!(states.iter().filter(|state| **state == TaskState::Failed).count(), 1, "{states:?}");

        let end = |agent: &mut TestAgent, turn: &TurnKey| {
            agent.handle(Input::TurnEnded(turn.clone(), Vec::new(), Ok(TurnEnd::Done { message: None })));
            agent.commit_all();
        };
        end(&mut agent, &next[0]);
        let last = started(&mut agent);
        assert_eq!(last.len(), 1);
        agent.begin_task_that_waits("t-4");
        assert_eq!(started(&mut agent), [], "new work waits, too");
        end(&mut agent, &last[0]);
        assert_eq!(started(&mut agent).len(), 1, "nothing is isolated any more");
    }

    #[test]
    fn a_conversation_of_another_rules_version_ends_with_a_failed_task() {
        let mut store = store_of_other_rules(None);
        let (agent, outputs) = recover(&store);
        assert_eq!((agent.running(), agent.parked().count()), (0, 0));
        let [Output::Commit(CommitId(1), _, batch)] = outputs.as_slice() else { panic!("{outputs:?}") };
        store.commit(batch.clone()).unwrap();
        let row = crate::tasks::find(&store, &me(), &TaskId::parse("t-1").unwrap(), &Principal::local_user())
            .unwrap()
            .unwrap();
        assert_eq!(row.task.status.state, TaskState::Failed);
        assert!(row.task.status.message.unwrap().starts_with("rules_changed"));
        assert!(store.latest(&keys::state(&me(), &id())).unwrap().is_none());
        assert!(store.latest(&claim()).unwrap().is_none());
        let last = store.latest(&keys::journal(&me(), &id())).unwrap().unwrap();
        let last: Step = content::decode(&me(), &store, &last.value).unwrap();
        assert!(last.step == 8 && matches!(last.effects[0], Effect::Finish(_)));
        assert!(recover(&store).1.is_empty());
    }

    fn recorded(agent: &TestAgent, id: &ConversationId) -> ConversationState<Value> {
        let row = agent.store.latest(&keys::state(&me(), id)).unwrap().unwrap();
        content::decode(&me(), &agent.store, &row.value).unwrap()
    }

    #[test]
    fn a_conversation_of_the_last_rules_goes_on_under_these() {
        let mut agent = TestAgent::new(&[]);
        agent.world.now = NodeTime(5_000);
        let (id, _) = agent.begin_task("t-1");
        let state = recorded(&agent, &id);
        let last = ConversationState { rules: AnyPattern::RULES - 1, ..state.clone() };
        let write = Write::Put(keys::state(&me(), &id), serde_json::to_vec(&last).unwrap().into());
        agent.store.commit(Batch { writes: vec![write], expectations: Vec::new() }).unwrap();
        agent.restart();
        assert_eq!(recorded(&agent, &id).rules, AnyPattern::RULES);
        let step = agent.last_step(&id);
        assert_eq!((step.step, step.events.len(), step.replay_start().is_some()), (2, 0, true), "{step:?}");
        assert_eq!(newest_time(&agent.store, &me()).unwrap(), NodeTime(5_000), "no clock goes back");
        agent.restart();
        assert!(agent.last_step(&id).upgraded.is_none());
        agent.cancel("t-1");
        agent.commit_all();
        let (journal, store) = (keys::journal(&me(), &id), &agent.store);
        let steps = store.read(&Filter::Exactly(journal), 0, 10).unwrap().into_iter();
        let steps: Vec<Step> =
            steps.map(|line| content::decode(&me(), store, &line.value).unwrap()).collect();
        crate::replay::audit(&steps[1..]).unwrap();
        assert!(steps.last().unwrap().effects.iter().any(|effect| matches!(effect, Effect::Finish(_))));
    }

    #[test]
    fn a_conversation_whose_end_is_refused_is_parked() {
        let store = store_of_other_rules(None);
        let (mut agent, outputs) = recover(&store);
        let [Output::Commit(commit, ..)] = outputs.as_slice() else { panic!("{outputs:?}") };
        let input = Input::CommitSettled(*commit, Err(Error::Full));
        let outputs = agent.handle(input, &store, &mut EmptyWorld::default());
        assert!(agent.has_open(&id()) && agent.parked().count() == 1);
        assert!(matches!(outputs.as_slice(), [Output::Commit(..)]), "its task shows it: {outputs:?}");
    }

    #[test]
    fn a_damaged_task_row_parks_the_conversation_and_the_agent_starts() {
        let (agent, _) = recover(&store_of_other_rules(Some(b"damaged")));
        assert_eq!(agent.parked().count(), 1);
    }
}
