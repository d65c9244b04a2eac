//! The outcome of a message's conversation, for requests after its end.

use super::row;
use engine::{
    chunks, content,
    records::{Receipt, Step, keys},
};
use patterns::{Effect, Outcome};
use protocol::{
    ids::{AgentId, ConversationId},
    principal::Principal,
};
use serde::Deserialize;
use serde_json::{Value, json};
use store::{Error, Filter, Record, Revision, Store};

/// The revisions before the last line of a journal that are searched first.
const FIRST_RANGE: Revision = 64;
/// The growth of the searched range each time it has no outcome.
const RANGE_FACTOR: Revision = 4;

const PAGE: usize = 64;

/// The outcome of a message's conversation; null while it is open and after its journal has been deleted.
pub fn conversation_outcome(
    store: &dyn Store,
    me: &AgentId,
    by: &Principal,
    receipt: &Receipt,
) -> Result<Value, Error> {
    let Some(conversation) = &receipt.conversation_id else { return Ok(Value::Null) };
    if is_open(store, me, conversation) {
        return Ok(Value::Null);
    }
    let Some(outcome) = last_outcome(store, me, conversation)? else { return Ok(Value::Null) };
    let mut artifacts = outcome.artifacts;
    if let Some(task) = receipt.task_id.as_ref().filter(|_| !outcome.chunks.is_empty())
        && let Some(row) = row(store, me, task, by)?
        && row.task.conversation == *conversation
    {
        artifacts = chunks::artifacts_of(store, me, &row, Revision::MAX)?;
    }
    Ok(json!({
        "state": outcome.status.state,
        "message": outcome.status.message,
        "artifacts": artifacts,
    }))
}

/// The part of a conversation's state that is read here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConversationStatus {
    #[serde(default)]
    has_ended: bool,
}

/// Whether the state of a conversation says that it is open. If the state can't be read, the journal decides.
fn is_open(store: &dyn Store, me: &AgentId, conversation: &ConversationId) -> bool {
    let state = store.latest(&keys::state(me, conversation)).ok().flatten();
    state
        .and_then(|state| content::outline(&state.value).ok())
        .is_some_and(|ConversationStatus { has_ended }| !has_ended)
}

/// The last outcome in a conversation's journal. The search goes backwards, because few lines follow an outcome.
fn last_outcome(store: &dyn Store, me: &AgentId, id: &ConversationId) -> Result<Option<Outcome>, Error> {
    let journal = keys::journal(me, id);
    let Some(last) = store.latest(&journal)? else { return Ok(None) };
    let mut found = outcome(store, me, &last)?;
    let (mut before, mut range) = (last.revision, FIRST_RANGE);
    let journal = Filter::Exactly(journal);
    while found.is_none() && before > 1 {
        let after = last.revision.saturating_sub(range);
        let mut from = after;
        while from + 1 < before {
            let page = store.read(&journal, from, PAGE)?;
            for line in page.iter().take_while(|line| line.revision < before) {
                found = outcome(store, me, line)?.or(found);
            }
            from = page.last().map_or(before, |line| line.revision);
        }
        (before, range) = (after + 1, range.saturating_mul(RANGE_FACTOR));
    }
    Ok(found)
}

/// The outcome in a line of a journal.
fn outcome(store: &dyn Store, me: &AgentId, line: &Record) -> Result<Option<Outcome>, Error> {
    let step: Step = content::decode(me, store, &line.value)?;
    let outcomes = step
        .effects
        .into_iter()
        .filter_map(|effect| if let Effect::Finish(outcome) = effect { Some(outcome) } else { None });
    Ok(outcomes.last())
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::records::ConversationState;
    use patterns::{AnyPattern, Event, EventKind, broadcast::Broadcast};
    use protocol::{
        ids::Digest,
        message::{self, MessageKind},
        task::{Status, TaskState},
        time::{NodeTime, WallTime},
    };
    use std::sync::atomic::{AtomicUsize, Ordering};
    use store::{
        Batch, Key, Lane, ListQuery, ListedKey, SharedStore, StoreFuture, StoreWatch, Write, memory,
    };

    /// A store that counts the journal lines that are read.
    struct CountingStore(SharedStore, AtomicUsize);

    impl store::Snapshot for CountingStore {
        fn latest(&self, key: &Key) -> Result<Option<Record>, Error> {
            self.1.fetch_add(usize::from(key.as_str().contains("journal")), Ordering::Relaxed);
            self.0.latest(key)
        }

        fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<Record>, Error> {
            let records = self.0.read(filter, after, limit)?;
            self.1.fetch_add(records.len(), Ordering::Relaxed);
            Ok(records)
        }

        fn list(&self, query: &ListQuery, limit: usize) -> Result<Vec<ListedKey>, Error> {
            self.0.list(query, limit)
        }

        fn count(&self, query: &ListQuery) -> Result<u64, Error> {
            self.0.count(query)
        }

        fn head(&self) -> Revision {
            self.0.head()
        }
    }

    impl Store for CountingStore {
        fn commit(&self, lane: Lane, batch: Batch) -> StoreFuture<Vec<Revision>> {
            self.0.commit(lane, batch)
        }

        fn generation(&self) -> String {
            self.0.generation()
        }

        fn watch(&self, filter: Filter, after: Revision) -> Result<StoreWatch, Error> {
            self.0.watch(filter, after)
        }

        fn trim(&self, filter: Filter, before: Revision) -> StoreFuture<u64> {
            self.0.trim(filter, before)
        }

        fn blobs(&self) -> store::SharedBlobs {
            self.0.blobs()
        }
    }

    fn me() -> AgentId {
        AgentId::parse("a").unwrap()
    }

    fn conversation() -> ConversationId {
        ConversationId::parse("c-1").unwrap()
    }

    fn finish(text: &str) -> Effect {
        Effect::Finish(Outcome::new(Status::new(TaskState::Completed, text)))
    }

    fn line(step: u64, effects: Vec<Effect>) -> Write {
        let event = Event { at: NodeTime(0), wall: WallTime(0), what: EventKind::Started };
        let (events, closes) = (vec![event], Vec::new());
        let step = Step { step, events, closes, effects, ..Step::default() };
        Write::Append(keys::journal(&me(), &conversation()), serde_json::to_vec(&step).unwrap().into())
    }

    fn state(has_ended: bool) -> Write {
        let signal: message::Broadcast = serde_json::from_value(json!({ "signal": "x.y" })).unwrap();
        let state = ConversationState {
            rules: AnyPattern::RULES,
            pattern: AnyPattern::from(Broadcast::new(signal, &Principal::local_user())),
            open: Default::default(),
            labels: Default::default(),
            task: None,
            trace: None,
            thread: None,
            principal: None,
            has_ended,
        };
        Write::Put(keys::state(&me(), &conversation()), serde_json::to_vec(&state).unwrap().into())
    }

    async fn commit(store: &SharedStore, writes: Vec<Write>) {
        store.commit(Lane::Progress, Batch { writes, expectations: Vec::new() }).await.unwrap();
    }

    /// The message of the outcome, and the number of journal lines that were read for it.
    fn read_outcome(store: &SharedStore) -> (Value, usize) {
        let receipt = Receipt {
            digest: Digest::of(b"x"),
            kind: MessageKind::Broadcast,
            task_id: None,
            conversation_id: Some(conversation()),
            at: WallTime(0),
            extra: Default::default(),
        };
        let counting = CountingStore(store.clone(), AtomicUsize::new(0));
        let answer = conversation_outcome(&counting, &me(), &Principal::local_user(), &receipt).unwrap();
        (answer["message"].clone(), counting.1.into_inner())
    }

    #[tokio::test]
    async fn the_outcome_of_a_long_conversation_is_found_with_few_reads() {
        let store = memory::new();
        assert_eq!(read_outcome(&store), (Value::Null, 1), "it has no journal");
        for step in 1..=5_000 {
            commit(&store, vec![line(step, Vec::new()), state(false)]).await;
        }
        assert_eq!(read_outcome(&store), (Value::Null, 0), "it is open");
        commit(&store, vec![line(5_001, vec![finish("done")]), state(true)]).await;
        assert_eq!(read_outcome(&store), (json!("done"), 1), "it has just ended");
        commit(&store, vec![Write::Delete(keys::state(&me(), &conversation()))]).await;
        for step in 5_002..5_010 {
            commit(&store, vec![line(step, Vec::new())]).await;
        }
        let (answer, lines) = read_outcome(&store);
        assert_eq!(answer, "done", "lines after the outcome do not hide it");
        assert!(lines < 100, "{lines} lines");
    }

    #[tokio::test]
    async fn the_last_outcome_is_found_at_any_position() {
        for (before, between, after) in
            [(0, 0, 0), (0, 3, 1), (700, 2, 700), (2, 900, 64), (1, 63, 63), (0, 1, 5_000)]
        {
            let store = memory::new();
            let lines = |count| (0..count).map(|n| line(n + 1, Vec::new()));
            let mut writes: Vec<_> = lines(before).collect();
            writes.push(line(1, vec![finish("first")]));
            writes.extend(lines(between));
            writes.push(line(1, vec![finish("second"), finish("last")]));
            writes.extend(lines(after));
            commit(&store, writes).await;
            assert_eq!(read_outcome(&store).0, "last", "{before} {between} {after}");
        }
    }

    #[tokio::test]
    async fn the_journal_decides_if_the_state_cannot_be_read() {
        let store = memory::new();
        let broken = Write::Put(keys::state(&me(), &conversation()), "?".into());
        commit(&store, vec![line(1, vec![finish("done")]), broken]).await;
        assert_eq!(read_outcome(&store).0, "done");
    }
}
