//! The batch of one step: the task's row, the conversation's state and the journal record. The batch fails if the journal
//! has changed since the previous step.

use crate::{
    content,
    conversation::{Conversation, DecidedStep, HandledEvent},
    records::{ConversationState, Step, keys, lists},
    states::{StateRecord, StateRow},
};
use bytes::Bytes;
use patterns::{AnyPattern, Effect};
use protocol::{ids::AgentId, time::NodeTime};
use std::collections::BTreeMap;
use store_types::{Error, Expectation, Write};

impl Conversation {
    /// Adds the writes and the expectation of step number `step` to `decided.batch`. The row of the task is written only if it
    /// has changed, that of the state if it has changed much; the latter is deleted when the pattern has ended and no effect
    /// is open.
    pub(crate) fn record(
        &mut self,
        (me, at): (&AgentId, NodeTime),
        step: u64,
        effects: Vec<Effect>,
        decided: &mut DecidedStep,
    ) -> Result<(), Error> {
        let writes = &mut decided.batch.writes;
        if self.task != self.recorded_task {
            if let Some(row) = &self.task {
                let key = keys::task(me, &row.task.spec.task_id, &row.task.owner);
                let bytes = content::encode(me, row, writes, &mut self.stored_content)?;
                let entries = lists::of_task(me, &key, row);
                let recorded = self.recorded_task.as_ref();
                let is_listed = recorded.is_some_and(|row| lists::of_task(me, &key, row) == entries);
                writes.push(match is_listed {
                    true => Write::Put(key, bytes),
                    false => Write::PutListed(key, bytes, entries),
                });
                let (task, owner) = (&row.task.spec.task_id, &row.task.owner);
                let known = recorded.map(|row| row.references.as_slice()).unwrap_or_default();
                for digest in row.references.iter().filter(|digest| !known.contains(digest)) {
                    let reader = keys::reader(me, digest, task, owner);
                    // The step may have shared it already.
                    if !writes.iter().any(|write| *write.key() == reader) {
                        writes.push(Write::Put(reader, Bytes::from_static(b"{}")));
                    }
                }
            }
            self.recorded_task.clone_from(&self.task);
        }
        let mut change = None;
        if self.ended.is_some() && self.open.is_empty() {
            if self.state_row.take().is_some() {
                writes.push(Write::Delete(keys::state(me, &self.id)));
            }
        } else {
            let new = StateRow::of(&self.state())?;
            let row = self.state_row.as_ref().filter(|_| self.upgraded.is_none());
            let how = row.map_or(Ok(StateRecord::InRow), |row| row.record(&new))?;
            match how {
                StateRecord::Unchanged => {}
                StateRecord::InStep(changed) => change = Some(changed),
                StateRecord::InRow => {
                    let json = new.json().as_bytes().to_vec();
                    let row =
                        content::encode_json(me, json, &BTreeMap::new(), writes, &mut self.stored_content)?;
                    self.state_row = Some(new);
                    writes.push(Write::Put(keys::state(me, &self.id), row));
                }
            }
        }
        let journal = keys::journal(me, &self.id);
        decided.batch.expectations.push(match self.head {
            0 => Expectation::Absent(journal.clone()),
            head => Expectation::At(journal.clone(), head),
        });
        let (mut events, mut closes) = (Vec::new(), Vec::new());
        for (event_index, HandledEvent { event, closes: effect }) in self.uncommitted.drain(..).enumerate() {
            events.push(event);
            closes.extend(effect.map(|effect| (event_index, effect)));
        }
        let at = events.is_empty().then_some(at);
        let (origin, upgraded) = (self.origin.take(), self.upgraded.take());
        let step = Step { step, origin, events, closes, effects, state: change, at, upgraded };
        let bytes = content::encode_step(me, &step, &decided.chunks.0, writes, &mut self.stored_content)?;
        writes.push(Write::Append(journal, bytes));
        Ok(())
    }

    fn state(&self) -> ConversationState {
        ConversationState {
            rules: AnyPattern::RULES,
            pattern: self.pattern.clone(),
            open: self.open.clone(),
            labels: self.labels.clone(),
            task: self.task.as_ref().map(|row| (row.task.spec.task_id.clone(), row.task.owner.clone())),
            trace: self.trace.clone(),
            thread: self.thread.clone(),
            principal: self.principal.clone(),
            has_ended: self.ended.is_some(),
        }
    }
}
