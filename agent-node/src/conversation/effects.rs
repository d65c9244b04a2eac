//! What an effect changes in the records, before anything is performed: open rows, the task's row, claims, the end.

use super::{
    Conversation, Decided, Now,
    record::{Claim, DeadLetter, Open, Place, TaskRow, keys},
    spill,
};
use crate::outbox::letter;
use blackboard::store::{Error, Write};
use protocol::{
    coordination::{AnyPattern, Effect, Outcome, Update},
    ids::AgentId,
    message::Payload,
    task::TaskState,
    time::WallTime,
};
use std::collections::BTreeSet;

impl Conversation {
    pub(super) fn note(
        &mut self,
        now: Now<'_>,
        effect: &Effect,
        place: Place,
        decided: &mut Decided,
    ) -> Result<(), Error> {
        let Now { me, wall, .. } = now;
        let mut is_open = false;
        match effect {
            Effect::Tell(tell) => {
                is_open = !tell.payload.kind().is_best_effort();
                if matches!(tell.payload, Payload::TaskRequest(_) | Payload::HelpRequest(_)) {
                    self.labels.insert(place, tell.label.clone());
                }
            }
            Effect::Resend(_)
            | Effect::Publish { .. }
            | Effect::FindPeers { .. }
            | Effect::Think { .. }
            | Effect::ClaimOpen { .. }
            | Effect::RenewOpen { .. }
            | Effect::CloseOpen { .. }
            | Effect::ReleaseOpen { .. } => is_open = true,
            Effect::TakeOn { spec, owner, epoch } => {
                let row = TaskRow::new(spec.as_ref().clone(), owner.clone(), self.id.clone(), wall);
                self.task = Some(TaskRow { epoch: Some(*epoch), ..row });
            }
            Effect::StopThinking => self.drop_open(decided, |effect| matches!(effect, Effect::Think { .. })),
            Effect::Claim { task, holder, lease } => {
                is_open = true;
                let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
                let claim = Claim { holder: holder.clone(), lease_ms, conversation: self.id.clone() };
                decided.claims.push((decided.batch.writes.len(), place, holder.clone()));
                let bytes = spill::encode(me, &claim, &mut Vec::new(), &mut BTreeSet::new())?;
                decided.batch.writes.push(Write::Put(keys::claim(me, task, &self.id), bytes));
            }
            Effect::Release { task, .. } => {
                decided.batch.writes.push(Write::Delete(keys::claim(me, task, &self.id)));
            }
            Effect::WakeAt { timer, .. } => {
                self.drop_open(
                    decided,
                    |effect| matches!(effect, Effect::WakeAt { timer: set, .. } if set == timer),
                );
                is_open = true;
            }
            Effect::Forget { timer } => {
                self.drop_open(
                    decided,
                    |effect| matches!(effect, Effect::WakeAt { timer: set, .. } if set == timer),
                );
            }
            Effect::AskHuman { .. } => {}
            Effect::Update(update) => self.show(update, wall),
            Effect::Assign { doer } => {
                if let Some(row) = &mut self.task {
                    row.task.doer.clone_from(doer);
                    let peer = doer.clone().map(protocol::principal::Principal::Agent);
                    row.task.participants.extend(peer.filter(|peer| !row.task.participants.contains(peer)));
                }
            }
            Effect::Finish(outcome) => self.finish(now, outcome, decided)?,
        }
        if is_open {
            let attempts = u32::from(matches!(effect, Effect::Think { .. }));
            self.open.insert(place, Open { effect: effect.clone(), attempts, at: wall });
        }
        if is_performed(effect) {
            decided.effects.push((place, effect.clone()));
        }
        Ok(())
    }

    pub(super) fn drop_open(&mut self, decided: &mut Decided, which: impl Fn(&Effect) -> bool) {
        let dropped: Vec<_> =
            self.open.iter().filter(|(_, open)| which(&open.effect)).map(|(place, _)| *place).collect();
        dropped.iter().for_each(|place| drop(self.open.remove(place)));
        decided.effects.retain(|(place, _)| !dropped.contains(place));
        decided.dropped.extend(dropped);
    }

    pub(super) fn show(&mut self, update: &Update, wall: WallTime) {
        let Some(row) = &mut self.task else { return };
        match update {
            Update::Status(status) => {
                row.task.status = status.clone();
                row.task.changed_at = wall;
            }
            Update::Artifact { artifact, append, .. } => {
                protocol::artifact::merge(&mut row.task.artifacts, artifact.clone(), *append);
            }
        }
    }

    fn finish(&mut self, now: Now<'_>, outcome: &Outcome, decided: &mut Decided) -> Result<(), Error> {
        let Now { me, at, wall, records, .. } = now;
        self.drop_open(decided, |effect| {
            matches!(
                effect,
                Effect::WakeAt { .. }
                    | Effect::Think { .. }
                    | Effect::FindPeers { .. }
                    | Effect::ClaimOpen { .. }
                    | Effect::RenewOpen { .. }
                    | Effect::CloseOpen { .. }
            )
        });
        self.labels.clear();
        if let Some(row) = &mut self.task {
            row.task.status = outcome.status.clone();
            row.task.artifacts.clone_from(&outcome.artifacts);
            row.task.changed_at = wall;
            row.task.is_message = outcome.is_message;
            row.ended_at = Some(at);
        }
        let writes = &mut decided.batch.writes;
        if let Some(award) = self.pattern.award() {
            let bytes = spill::encode(me, award, writes, &mut self.kept)?;
            writes.push(Write::Put(keys::award(me, &self.id), bytes));
        }
        for (peer, kept) in &outcome.kept_word {
            let record = kept
                .iter()
                .fold(records.get(peer).cloned().unwrap_or_default(), |record, kept| record.after(*kept));
            let bytes = spill::encode(me, &record, writes, &mut self.kept)?;
            writes.push(Write::Put(keys::track_record(me, peer), bytes));
            decided.track_records.push((peer.clone(), record));
        }
        if let AnyPattern::Redelivery(redelivery) = &self.pattern
            && outcome.status.state == TaskState::Completed
        {
            writes.push(Write::Delete(keys::dead_letter(me, &redelivery.letter().message_id)));
        }
        self.ended = Some(outcome.status.state);
        Ok(())
    }

    /// Keeps a message that was given up, so that somebody can look at it and send it again.
    pub(super) fn bury(
        &self,
        me: &AgentId,
        open: &Open,
        place: Place,
        (reason, message): (&str, &str),
        wall: WallTime,
        writes: &mut Vec<Write>,
    ) -> Result<(), Error> {
        let letter = if let AnyPattern::Redelivery(redelivery) = &self.pattern {
            Some(redelivery.letter().clone())
        } else {
            letter::of(me, &self.id, place, open)
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
        let bytes = spill::encode(me, &dead, writes, &mut BTreeSet::new())?;
        writes.push(Write::Put(keys::dead_letter(me, &dead.message_id), bytes));
        Ok(())
    }
}

/// Whether something is to be done about it beyond what its step records.
fn is_performed(effect: &Effect) -> bool {
    match effect {
        Effect::Tell(_)
        | Effect::Resend(_)
        | Effect::Think { .. }
        | Effect::Publish { .. }
        | Effect::ClaimOpen { .. }
        | Effect::RenewOpen { .. }
        | Effect::CloseOpen { .. }
        | Effect::ReleaseOpen { .. }
        | Effect::TakeOn { .. }
        | Effect::FindPeers { .. }
        | Effect::WakeAt { .. } => true,
        Effect::StopThinking
        | Effect::Claim { .. }
        | Effect::Release { .. }
        | Effect::Forget { .. }
        | Effect::AskHuman { .. }
        | Effect::Update(_)
        | Effect::Assign { .. }
        | Effect::Finish(_) => false,
    }
}
