//! The changes of an effect to the records of its step: open effects, the task's row, claims, the end.

use crate::{
    artifacts::SHARED,
    content, context_records,
    conversation::{Conversation, DecidedStep, StepContext},
    delivery::envelope,
    records::{DeadLetter, EffectKey, OpenEffect, TaskClaim, TaskRow, keys, large_bytes, lists},
};
use bytes::Bytes;
use patterns::{ChunkRange, Effect, Outcome, OutgoingSignal, Update, turn_record::TurnRecord};
use protocol::{
    ids::AgentId, message::Payload, principal::Principal, problem::Reason, task::TaskState, time::WallTime,
};
use std::collections::BTreeSet;
use store_types::{Error, Write};

impl Conversation {
    pub(crate) fn apply_effect(
        &mut self,
        now: StepContext<'_>,
        effect: &Effect,
        key: EffectKey,
        decided: &mut DecidedStep,
    ) -> Result<(), Error> {
        let StepContext { me, wall, .. } = now;
        let mut is_open = false;
        match effect {
            Effect::Send(message) => {
                is_open = !message.payload.kind().is_best_effort();
                if matches!(message.payload, Payload::TaskRequest(_) | Payload::HelpRequest(_)) {
                    self.labels.insert(key, message.label);
                }
            }
            Effect::Publish { signal } => {
                is_open = true;
                self.share(me, signal, decided);
            }
            Effect::Resend { .. }
            | Effect::AskSpace { .. }
            | Effect::FindPeers { .. }
            | Effect::RunTurn { .. }
            | Effect::ClaimOpenTask { .. }
            | Effect::ConfirmResult { .. }
            | Effect::RenewOpenTask { .. } => is_open = true,
            Effect::CloseOpenTask { .. } | Effect::ReleaseOpenTask { .. } => {
                is_open = true;
                self.drop_open(decided, |effect| matches!(effect, Effect::RenewOpenTask { .. }));
            }
            Effect::TrackTask { spec, owner, epoch } => {
                let row = TaskRow::new(spec.as_ref().clone(), owner.clone(), self.id.clone(), wall);
                let request_bytes = large_bytes(&row.task.spec);
                let row = TaskRow { epoch: Some(*epoch), request_bytes, ..row };
                self.task = Some(row.with_files_of_request());
            }
            Effect::StopTurn => self.drop_open(decided, |effect| matches!(effect, Effect::RunTurn { .. })),
            Effect::Claim { task, holder, lease } => {
                is_open = true;
                let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
                let claim = TaskClaim { holder: holder.clone(), lease_ms, conversation: self.id.clone() };
                decided.claims.push((decided.batch.writes.len(), key, holder.clone()));
                let bytes = content::encode(me, &claim, &mut Vec::new(), &mut BTreeSet::new())?;
                decided.batch.writes.push(Write::Put(keys::claim(me, task, &self.id), bytes));
            }
            Effect::Release { task, .. } => {
                decided.batch.writes.push(Write::Delete(keys::claim(me, task, &self.id)));
            }
            Effect::SetTimer { timer, .. } => {
                self.drop_open(
                    decided,
                    |effect| matches!(effect, Effect::SetTimer { timer: set, .. } if set == timer),
                );
                is_open = true;
            }
            Effect::ClearTimer { timer } => {
                self.drop_open(
                    decided,
                    |effect| matches!(effect, Effect::SetTimer { timer: set, .. } if set == timer),
                );
            }
            Effect::Record { number, record } => {
                let log = self.chunk_log(me);
                decided.chunks.record_of_turn(&log, *number, record, &mut decided.batch.writes)?;
                if matches!(record, TurnRecord::Checkpoint(_)) {
                    // Attempts count since the last checkpoint.
                    let turns = self.open.values_mut();
                    let turns = turns.filter(|open| matches!(open.effect, Effect::RunTurn { .. }));
                    turns.for_each(|turn| turn.attempts = 1);
                }
            }
            Effect::AskPerson { .. } | Effect::HandOn(_) => {}
            Effect::Update(update) => self.show(me, update, wall, decided)?,
            Effect::Assign { doer } => {
                if let Some(row) = &mut self.task {
                    row.task.doer.clone_from(doer);
                    let peer = doer.clone().map(Principal::Agent);
                    row.task.participants.extend(peer.filter(|peer| !row.task.participants.contains(peer)));
                }
            }
            Effect::HandOver { context, handover } => {
                let write = context_records::hand_over(me, context, handover.as_deref())?;
                decided.batch.writes.push(write);
            }
            Effect::Finish(outcome) => self.finish(now, outcome, decided)?,
        }
        if is_open {
            let attempts = u32::from(matches!(effect, Effect::RunTurn { .. }));
            self.open.insert(key, OpenEffect { effect: effect.clone(), attempts, at: wall });
        }
        if is_performed(effect) {
            decided.effects.push((key, effect.clone()));
        }
        Ok(())
    }

    /// Records that whoever sees the signal may read the artifact to which it refers.
    fn share(&mut self, me: &AgentId, signal: &OutgoingSignal, decided: &mut DecidedStep) {
        let (Some(row), Some(digest)) = (&mut self.task, signal.produced()) else { return };
        let key = keys::reader(me, &digest, &row.task.spec.task_id, &row.task.owner);
        decided.batch.writes.push(Write::Put(key, Bytes::from_static(SHARED)));
        if !row.references.contains(&digest) {
            row.references.push(digest);
        }
    }

    pub(crate) fn drop_open(&mut self, decided: &mut DecidedStep, which: impl Fn(&Effect) -> bool) {
        let dropped: Vec<_> =
            self.open.iter().filter(|(_, open)| which(&open.effect)).map(|(key, _)| *key).collect();
        dropped.iter().for_each(|key| drop(self.open.remove(key)));
        decided.effects.retain(|(key, _)| !dropped.contains(key));
        decided.dropped.extend(dropped);
    }

    fn show(
        &mut self,
        me: &AgentId,
        update: &Update,
        wall: WallTime,
        decided: &mut DecidedStep,
    ) -> Result<(), Error> {
        if let Update::Artifact { number, chunk } = update {
            if let Some(row) = &mut self.task {
                row.note_files(&chunk.artifact.parts);
            }
            return decided.chunks.record(&self.chunk_log(me), *number, chunk, &mut decided.batch.writes);
        }
        let Some(row) = &mut self.task else { return Ok(()) };
        match update {
            Update::Status(status) => {
                row.task.status = status.clone();
                row.task.changed_at = wall;
            }
            Update::Restart { from } => row.chunks = Some(ChunkRange { from: *from, to: u64::MAX }),
            Update::Usage(usage) => row.task.usage = *usage,
            Update::Reserved(reserved) => row.task.reserved = *reserved,
            Update::OverBudget(figures) => row.task.over_budget = Some(figures.clone()),
            Update::Checked(check) => row.task.append_check(check.as_ref().clone()),
            Update::Artifact { .. } => {}
        }
        Ok(())
    }

    fn finish(
        &mut self,
        now: StepContext<'_>,
        outcome: &Outcome,
        decided: &mut DecidedStep,
    ) -> Result<(), Error> {
        let StepContext { me, at, wall, records, .. } = now;
        let is_done = outcome.status.state == TaskState::Completed;
        self.drop_open(decided, |effect| {
            // A lost open task discards its artifacts.
            let is_discarded = |signal: &OutgoingSignal| !is_done && signal.produced().is_some();
            matches!(
                effect,
                Effect::SetTimer { .. }
                    | Effect::RunTurn { .. }
                    | Effect::FindPeers { .. }
                    | Effect::ClaimOpenTask { .. }
                    | Effect::RenewOpenTask { .. }
                    | Effect::CloseOpenTask { .. }
                    | Effect::ConfirmResult { .. }
            ) || matches!(effect, Effect::Publish { signal } if is_discarded(signal))
                || matches!(effect, Effect::AskSpace { request, .. } if !request.is_write())
        });
        self.labels.clear();
        if let Some(row) = &mut self.task {
            row.task.status = outcome.status.clone();
            row.chunks = Some(outcome.chunks);
            row.so_far.clone_from(&outcome.so_far);
            row.task.changed_at = wall;
            row.task.is_message = outcome.is_message;
            row.ended_at = Some(at);
        }
        let writes = &mut decided.batch.writes;
        if let Some(award) = self.pattern.view().award {
            let bytes = content::encode(me, award, writes, &mut self.stored_content)?;
            writes.push(Write::Put(keys::award(me, &self.id), bytes));
        }
        for (peer, kept) in &outcome.fulfilments {
            let record = kept
                .iter()
                .fold(records.get(peer).cloned().unwrap_or_default(), |record, kept| record.after(*kept));
            let bytes = content::encode(me, &record, writes, &mut self.stored_content)?;
            writes.push(Write::Put(keys::track_record(me, peer), bytes));
            decided.track_records.push((peer.clone(), record));
        }
        if let (Some(entry), Some(row)) = (&outcome.context, &self.task) {
            context_records::record(me, entry, (&self.id, row), wall, writes)?;
        }
        if let Some(dead_letter) = self.pattern.view().dead_letter
            && outcome.status.state == TaskState::Completed
        {
            writes.push(Write::Delete(keys::dead_letter(me, &dead_letter.message_id)));
        }
        self.ended = Some(outcome.status.state);
        Ok(())
    }

    /// Writes an undelivered message to the dead letters.
    pub(crate) fn move_to_dead_letters(
        &self,
        StepContext { me, wall, store, .. }: StepContext<'_>,
        open: &OpenEffect,
        key: EffectKey,
        (reason, message): (&str, &str),
        writes: &mut Vec<Write>,
    ) -> Result<(), Error> {
        // Nobody can use a report under an award that is not in force.
        if reason == Reason::Fenced.code() {
            return Ok(());
        }
        let letter = match self.pattern.view().dead_letter {
            Some(again) => Some(again.clone()),
            None => match envelope::of(me, self, key, open, store) {
                Err(Error::Refused(why)) => {
                    tracing::warn!(agent = %me, conversation = %self.id, why, "no dead letter");
                    None
                }
                letter => letter?,
            },
        };
        let Some(letter) = letter else { return Ok(()) };
        let dead = DeadLetter {
            message_id: letter.message_id.clone(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            letter,
            at: wall,
            trace: self.trace.clone(),
        };
        let bytes = content::encode(me, &dead, writes, &mut BTreeSet::new())?;
        let key = keys::dead_letter(me, &dead.message_id);
        let entry = lists::aged(&key, wall);
        writes.push(Write::PutListed(key, bytes, vec![entry]));
        Ok(())
    }
}

/// Whether the agent performs it after the commit.
fn is_performed(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Send(_)
            | Effect::Resend { .. }
            | Effect::RunTurn { .. }
            | Effect::Publish { .. }
            | Effect::AskSpace { .. }
            | Effect::ClaimOpenTask { .. }
            | Effect::RenewOpenTask { .. }
            | Effect::CloseOpenTask { .. }
            | Effect::ReleaseOpenTask { .. }
            | Effect::ConfirmResult { .. }
            | Effect::TrackTask { .. }
            | Effect::FindPeers { .. }
            | Effect::SetTimer { .. }
    )
}
