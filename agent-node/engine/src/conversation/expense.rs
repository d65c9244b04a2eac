//! What a step has used: the calls of models that its events tell of, and a task that it begins.

use crate::{
    conversation::{Conversation, DecidedStep, HandledEvent, StepContext},
    records::expense::Expense,
};
use patterns::{AnyPattern, EventKind, WorkPhase, turn::Progress};
use protocol::{principal::Principal, quota::Amount, usage::Usage};
use store_types::Error;

impl Conversation {
    /// Records what the step uses, if that is anything.
    pub(super) fn record_expense(
        &self,
        now: StepContext<'_>,
        decided: &mut DecidedStep,
    ) -> Result<(), Error> {
        let used = self.uncommitted.iter().flat_map(|handled| used_by(&handled.event.what));
        let used = used.fold(Usage::default(), |sum, call| sum.plus(&call));
        let begins = now.counts_tasks && self.begins_task();
        let begins = begins.then(|| self.begun_task()).flatten();
        if used.is_none() && begins.is_none() {
            return Ok(());
        }
        let (task, is_asked) = begins.unwrap_or_default();
        let spent = self.expense(now, Amount::from(&used).plus(task), is_asked);
        decided.batch.writes.push(spent.write((now.me, &self.id), now.wall, now.store)?);
        decided.spent = Some(Box::new(spent));
        Ok(())
    }

    /// Whether the step begins its work: the first one does, unless a quota makes it wait.
    fn begins_task(&self) -> bool {
        let is_held = self.pattern.view().work == Some(WorkPhase::Held);
        let waited = |handled: &HandledEvent| {
            matches!(handled.event.what, EventKind::TurnStarted { was_held: true, .. })
        };
        self.step == 0 && !is_held || self.uncommitted.iter().any(waited)
    }

    /// The task that it is, as an amount, and whether it is asked for from outside.
    fn begun_task(&self) -> Option<(Amount, bool)> {
        let spec = &self.task.as_ref()?.task.spec;
        let does =
            matches!(self.pattern, AnyPattern::Doing(_) | AnyPattern::Hosting(_) | AnyPattern::Offer(_));
        let is_asked = spec.parent.is_none() && spec.path.is_empty();
        let amount = if does { Amount::task() } else { Amount::default() };
        (does || is_asked).then_some((amount, is_asked))
    }

    /// What it has used.
    fn expense(&self, now: StepContext<'_>, amount: Amount, is_asked: bool) -> Expense {
        let root = self.root().map(|root| root.principal);
        let requester = root.unwrap_or_else(|| Principal::Agent(now.me.clone()));
        let spec = self.task.as_ref().map(|row| &row.task.spec);
        Expense {
            capability: spec.and_then(|spec| spec.capability.clone()),
            task: spec.map(|spec| spec.task_id.clone()),
            run: spec.and_then(|spec| spec.run.as_ref()).map(|run| run.task.clone()),
            amount,
            is_asked,
            ..Expense::new(requester, now.wall)
        }
    }
}

/// What the calls of models have used that an event tells of.
fn used_by(what: &EventKind) -> impl Iterator<Item = Usage> {
    let updates = match what {
        EventKind::TurnProgress { updates, .. } | EventKind::TurnEnded { updates, .. } => updates.as_slice(),
        _ => &[],
    };
    updates
        .iter()
        .filter_map(|update| if let Progress::Usage(call) = update { Some(Usage::from(call)) } else { None })
}
