//! What came of a message, for whoever asks later.

use blackboard::store::{Error, Filter, Record, Revision, Store};
use engine::{
    content,
    records::{Receipt, Step, keys},
};
use protocol::{
    ids::{AgentId, ConversationId},
    patterns::{Effect, Outcome},
};
use serde::Deserialize;
use serde_json::{Value, json};

/// How many revisions before a journal's last line are looked through first; each time it is not there, this many times more.
const NEAR: Revision = 64;
const FURTHER: Revision = 4;

const PAGE: usize = 64;

/// How the conversation of a message ended; null while it goes on, and once its journal is gone.
pub fn reply(store: &dyn Store, me: &AgentId, receipt: &Receipt) -> Result<Value, Error> {
    let Some(conversation) = &receipt.conversation_id else { return Ok(Value::Null) };
    if goes_on(store, me, conversation) {
        return Ok(Value::Null);
    }
    Ok(end(store, me, conversation)?.map_or(Value::Null, |outcome| {
        json!({
            "state": outcome.status.state,
            "message": outcome.status.message,
            "artifacts": outcome.artifacts,
        })
    }))
}

/// What is wanted of a conversation's state.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stand {
    #[serde(default)]
    has_ended: bool,
}

/// Whether its state says that a conversation has not ended. Where that can't be read, the journal has to say it.
fn goes_on(store: &dyn Store, me: &AgentId, conversation: &ConversationId) -> bool {
    let state = store.latest(&keys::state(me, conversation)).ok().flatten();
    state.and_then(|state| content::outline(&state.value).ok()).is_some_and(|Stand { has_ended }| !has_ended)
}

/// The outcome that a conversation's journal ends with. It is looked for from its last line on, which it is in or not far
/// before: however long a conversation was, little is said after its end.
fn end(store: &dyn Store, me: &AgentId, conversation: &ConversationId) -> Result<Option<Outcome>, Error> {
    let journal = keys::journal(me, conversation);
    let Some(last) = store.latest(&journal)? else { return Ok(None) };
    let mut found = outcome(store, me, &last)?;
    let (mut before, mut near) = (last.revision, NEAR);
    let journal = Filter::Exactly(journal);
    while found.is_none() && before > 1 {
        let after = last.revision.saturating_sub(near);
        let mut from = after;
        while from + 1 < before {
            let page = store.read(&journal, from, PAGE)?;
            for line in page.iter().take_while(|line| line.revision < before) {
                found = outcome(store, me, line)?.or(found);
            }
            from = page.last().map_or(before, |line| line.revision);
        }
        (before, near) = (after + 1, near.saturating_mul(FURTHER));
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
    use blackboard::store::{Batch, Key, Lane, Pending, Shared, Watch, Write, memory};
    use engine::records::ConversationState;
    use protocol::{
        ids::Digest,
        message::{self, MessageKind},
        patterns::{AnyPattern, Event, EventKind, broadcast::Broadcast},
        principal::Principal,
        task::{Status, TaskState},
        time::{NodeTime, WallTime},
    };
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A store that counts the lines of journals that are read of it.
    struct Counting(Shared, AtomicUsize);

    impl blackboard::store::Snapshot for Counting {
        fn latest(&self, key: &Key) -> Result<Option<Record>, Error> {
            self.1.fetch_add(usize::from(key.as_str().contains("journal")), Ordering::Relaxed);
            self.0.latest(key)
        }

        fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<Record>, Error> {
            let records = self.0.read(filter, after, limit)?;
            self.1.fetch_add(records.len(), Ordering::Relaxed);
            Ok(records)
        }

        fn head(&self) -> Revision {
            self.0.head()
        }
    }

    impl Store for Counting {
        fn commit(&self, lane: Lane, batch: Batch) -> Pending<Vec<Revision>> {
            self.0.commit(lane, batch)
        }

        fn generation(&self) -> String {
            self.0.generation()
        }

        fn watch(&self, filter: Filter, after: Revision) -> Result<Watch, Error> {
            self.0.watch(filter, after)
        }

        fn trim(&self, filter: Filter, before: Revision) -> Pending<u64> {
            self.0.trim(filter, before)
        }
    }

    fn me() -> AgentId {
        AgentId::parse("a").unwrap()
    }

    fn conversation() -> ConversationId {
        ConversationId::parse("c-1").unwrap()
    }

    fn finish(text: &str) -> Effect {
        Effect::Finish(Outcome {
            status: Status::new(TaskState::Completed, text),
            artifacts: Vec::new(),
            fulfilments: Default::default(),
            is_message: false,
        })
    }

    fn line(step: u64, effects: Vec<Effect>) -> Write {
        let event = Event { at: NodeTime(0), wall: WallTime(0), what: EventKind::Started };
        let step = Step { step, origin: None, events: vec![event], closes: Vec::new(), effects };
        Write::Append(keys::journal(&me(), &conversation()), serde_json::to_vec(&step).unwrap().into())
    }

    fn state(has_ended: bool) -> Write {
        let signal: message::Broadcast = serde_json::from_value(json!({ "signal": "x.y" })).unwrap();
        let state = ConversationState {
            rules: AnyPattern::RULES,
            pattern: Broadcast::new(signal, &Principal::local_user()).into(),
            open: Default::default(),
            labels: Default::default(),
            task: None,
            trace: None,
            thread: None,
            has_ended,
        };
        Write::Put(keys::state(&me(), &conversation()), serde_json::to_vec(&state).unwrap().into())
    }

    async fn commit(store: &Shared, writes: Vec<Write>) {
        store.commit(Lane::Progress, Batch { writes, expectations: Vec::new() }).await.unwrap();
    }

    /// What is answered, and how many lines of the journal were looked at for it.
    fn asked(store: &Shared) -> (Value, usize) {
        let receipt = Receipt {
            digest: Digest::of(b"x"),
            kind: MessageKind::Broadcast,
            task_id: None,
            conversation_id: Some(conversation()),
            at: WallTime(0),
            extra: Default::default(),
        };
        let counting = Counting(store.clone(), AtomicUsize::new(0));
        let answer = reply(&counting, &me(), &receipt).unwrap();
        (answer["message"].clone(), counting.1.into_inner())
    }

    #[tokio::test]
    async fn a_long_conversation_is_not_read_to_say_how_it_stands() {
        let store = memory::new();
        assert_eq!(asked(&store), (Value::Null, 1), "its journal is gone");
        for step in 1..=5_000 {
            commit(&store, vec![line(step, Vec::new()), state(false)]).await;
        }
        assert_eq!(asked(&store), (Value::Null, 0), "it goes on");
        commit(&store, vec![line(5_001, vec![finish("done")]), state(true)]).await;
        assert_eq!(asked(&store), (json!("done"), 1), "it has just ended");
        commit(&store, vec![Write::Delete(keys::state(&me(), &conversation()))]).await;
        for step in 5_002..5_010 {
            commit(&store, vec![line(step, Vec::new())]).await;
        }
        let (answer, looked_at) = asked(&store);
        assert_eq!(answer, "done", "what it still did is known");
        assert!(looked_at < 100, "{looked_at} lines");
    }

    #[tokio::test]
    async fn the_newest_end_is_told_wherever_it_stands() {
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
            assert_eq!(asked(&store).0, "last", "{before} {between} {after}");
        }
    }

    #[tokio::test]
    async fn a_state_that_cannot_be_read_leaves_it_to_the_journal() {
        let store = memory::new();
        let broken = Write::Put(keys::state(&me(), &conversation()), "?".into());
        commit(&store, vec![line(1, vec![finish("done")]), broken]).await;
        assert_eq!(asked(&store).0, "done");
    }
}
