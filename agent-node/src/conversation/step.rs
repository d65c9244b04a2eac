//! One step as records: the task's row, the state a restart needs, and the journal's line that expects the one before.

use super::{
    Conversation, Decided, Seen,
    record::{State, Step, keys},
    spill,
};
use blackboard::store::{Error, Expectation, Write};
use bytes::Bytes;
use protocol::{
    coordination::{AnyPattern, Effect},
    ids::AgentId,
};

impl Conversation {
    pub(super) fn record(
        &mut self,
        me: &AgentId,
        step: u64,
        effects: Vec<Effect>,
        decided: &mut Decided,
    ) -> Result<(), Error> {
        #[cfg(test)]
        super::tests::fail_if_asked()?;
        let writes = &mut decided.batch.writes;
        if self.task != self.shown {
            if let Some(row) = &self.task {
                let key = keys::task(me, &row.task.spec.task_id, &row.task.owner);
                let bytes = spill::encode(me, row, writes, &mut self.kept)?;
                writes.push(Write::Put(key, bytes));
                if self.shown.is_none() {
                    let (task, owner) = (&row.task.spec.task_id, &row.task.owner);
                    let reader =
                        |digest| Write::Put(keys::reader(me, digest, task, owner), Bytes::from_static(b"{}"));
                    writes.extend(row.references.iter().map(reader));
                }
            }
            self.shown.clone_from(&self.task);
        }
        if self.ended.is_some() && self.open.is_empty() {
            if self.written.take().is_some() {
                writes.push(Write::Delete(keys::state(me, &self.id)));
            }
        } else if !self.is_written() {
            let state = self.state();
            let bytes = spill::encode(me, &state, writes, &mut self.kept)?;
            writes.push(Write::Put(keys::state(me, &self.id), bytes));
            self.written = Some(state);
        }
        let journal = keys::journal(me, &self.id);
        decided.batch.expectations.push(match self.head {
            0 => Expectation::Absent(journal.clone()),
            head if self.is_committing() => Expectation::Beyond(journal.clone(), head),
            head => Expectation::At(journal.clone(), head),
        });
        let (mut events, mut closes, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        for (at, Seen { event, closes: place, text }) in self.uncommitted.drain(..).enumerate() {
            events.push(event);
            texts.push(text);
            closes.extend(place.map(|place| (at, place)));
        }
        let step = Step { step, opening: self.opening.take(), events, closes, effects };
        let bytes = spill::spilled(me, step.to_bytes(&texts), writes, &mut self.kept)?;
        writes.push(Write::Append(journal, bytes));
        Ok(())
    }

    fn state(&self) -> State {
        State {
            rules: AnyPattern::RULES,
            pattern: self.pattern.clone(),
            open: self.open.clone(),
            labels: self.labels.clone(),
            task: self.task.as_ref().map(|row| (row.task.spec.task_id.clone(), row.task.owner.clone())),
            trace: self.trace.clone(),
            has_ended: self.ended.is_some(),
        }
    }

    /// Whether the state's record says what [`Self::state`] would.
    fn is_written(&self) -> bool {
        self.written.as_ref().is_some_and(|State { rules, pattern, open, labels, task, trace, has_ended }| {
            let own = self.task.as_ref().map(|row| (&row.task.spec.task_id, &row.task.owner));
            *rules == AnyPattern::RULES
                && *pattern == self.pattern
                && *open == self.open
                && *labels == self.labels
                && task.as_ref().map(|(id, owner)| (id, owner)) == own
                && *trace == self.trace
                && *has_ended == self.ended.is_some()
        })
    }
}
