//! Growth has an end: what is finished goes, each kind after its own time (DESIGN §6).

use super::AgentActor;
use crate::conversation::{
    record::{DeadLetter, Receipt, TaskRow, keys},
    spill,
};
use actix::{Context, Handler, Message};
use blackboard::store::{Batch, Error, Filter, Lane, Store, Write};
use protocol::{ids::AgentId, limits::Limits, time::WallTime};
use std::time::Duration;

/// Asks an agent to let go of what has been kept long enough.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct Sweep;

/// The most records looked at in one sweep; the rest waits for the next.
const MOST: usize = 5_000;

impl Handler<Sweep> for AgentActor {
    type Result = ();

    fn handle(&mut self, _: Sweep, _: &mut Context<Self>) {
        let (store, me, limits, wall) =
            (self.parts.store.clone(), self.me.clone(), self.parts.limits.clone(), self.parts.clock.wall());
        actix::spawn(async move {
            if let Err(error) = sweep(store.as_ref(), &me, &limits, wall).await {
                tracing::warn!(agent = %me, %error, "what is old could not be let go of");
            }
        });
    }
}

/// Lets go of everything that `limits` no longer keep at `wall`; returns how many records went.
async fn sweep(store: &dyn Store, me: &AgentId, limits: &Limits, wall: WallTime) -> Result<usize, Error> {
    let is_past = |at: WallTime, keep_ms: u64| at.plus(Duration::from_millis(keep_ms)) <= wall;
    let mut writes = Vec::new();
    let mut journals = Vec::new();
    oldest(store, &keys::all(me, "receipt"), |record| {
        let receipt: Receipt = spill::decode(me, store, &record.value)?;
        let is_old = is_past(receipt.at, limits.dedup_ms);
        if is_old {
            writes.push(Write::Delete(record.key));
        }
        Ok(is_old)
    })?;
    oldest(store, &keys::all(me, "dead"), |record| {
        let dead: DeadLetter = spill::decode(me, store, &record.value)?;
        let is_old = is_past(dead.at, limits.keep_tasks_ms);
        if is_old {
            writes.push(Write::Delete(record.key));
        }
        Ok(is_old)
    })?;
    oldest(store, &keys::all(me, "task"), |record| {
        let row: TaskRow = spill::decode(me, store, &record.value)?;
        let has_ended = row.ended_at.is_some();
        if has_ended && is_past(row.task.changed_at, limits.keep_journals_ms.min(limits.keep_tasks_ms)) {
            journals.push(row.task.conversation.clone());
        }
        if has_ended && is_past(row.task.changed_at, limits.keep_tasks_ms) {
            writes.push(Write::Delete(keys::award(me, &row.task.conversation)));
            writes.push(Write::Delete(record.key));
        }
        Ok(is_past(row.task.changed_at, limits.keep_journals_ms.min(limits.keep_tasks_ms)))
    })?;
    let gone = writes.len();
    for chunk in writes.chunks(256) {
        store.commit(Lane::Admission, Batch { writes: chunk.to_vec(), expectations: Vec::new() }).await?;
    }
    for conversation in journals {
        store.trim(Filter::Exactly(keys::journal(me, &conversation)), store.head() + 1).await?;
    }
    Ok(gone)
}

/// Looks at records from the oldest on, until `is_old` says that one is not.
fn oldest(
    store: &dyn Store,
    filter: &Filter,
    mut is_old: impl FnMut(blackboard::store::Record) -> Result<bool, Error>,
) -> Result<(), Error> {
    let mut after = 0;
    for _ in 0..MOST / 500 {
        let page = store.read(filter, after, 500)?;
        let Some(last) = page.last().map(|record| record.revision) else { return Ok(()) };
        for record in page {
            if !is_old(record)? {
                return Ok(());
            }
        }
        after = last;
    }
    Ok(())
}
