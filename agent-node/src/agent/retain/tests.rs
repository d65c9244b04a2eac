//! What goes, what stays, and in which order.

use super::*;
use blackboard::store::{Key, memory};
use protocol::{
    coordination::{Event, What},
    ids::ConversationId,
    time::NodeTime,
};

pub(super) const HOUR: i64 = 3_600_000;

pub(super) fn me() -> AgentId {
    AgentId::parse("a").unwrap()
}

async fn journal(store: &Shared, conversation: &str, hours: i64) -> Revision {
    let event = Event { at: NodeTime(0), wall: WallTime(hours * HOUR), what: What::Started };
    let step = Step { step: 1, opening: None, events: vec![event], closes: Vec::new(), effects: Vec::new() };
    let key = keys::journal(&me(), &ConversationId::parse(conversation).unwrap());
    let write = Write::Append(key, serde_json::to_vec(&step).unwrap().into());
    let batch = Batch { writes: vec![write], expectations: Vec::new() };
    store.commit(Lane::Progress, batch).await.unwrap()[0]
}

pub(super) fn broom(store: &Shared, hours: i64, limits: Limits, open_from: Revision) -> Broom {
    let (store, limits) = (store.clone(), Arc::new(limits));
    Broom {
        store,
        me: me(),
        limits,
        wall: WallTime(hours * HOUR),
        open_from,
        journal_bytes: Arc::default(),
        sweeping: Arc::default(),
        pulse: Arc::default(),
    }
}

fn left(store: &Shared) -> usize {
    store.read(&Filter::Below(Key::new(&["a", "journal"])), 0, 100).unwrap().len()
}

#[tokio::test]
async fn journals_go_by_age_and_never_those_of_open_conversations() {
    let store = memory::new();
    journal(&store, "c1", 0).await;
    let open = journal(&store, "c2", 1).await;
    journal(&store, "c3", 2).await;
    journal(&store, "c4", 300).await;
    let limits = Limits { keep_journals_ms: 24 * 3_600_000, ..Limits::default() };
    broom(&store, 300, limits.clone(), open).sweep().await.unwrap();
    assert_eq!(left(&store), 3);
    broom(&store, 300, limits, Revision::MAX).sweep().await.unwrap();
    assert_eq!(left(&store), 1);
}

#[tokio::test]
async fn what_finds_a_reaction_goes_with_the_journals() {
    let store = memory::new();
    for (conversation, hours) in [("c1", 0), ("c2", 200)] {
        let id = ConversationId::parse(conversation).unwrap();
        let reacted = Reacted { from: me(), conversation_id: id.clone(), at: WallTime(hours * HOUR) };
        let put = serde_json::to_vec(&reacted).unwrap().into();
        let writes = vec![Write::Put(keys::reaction(&me(), 7, Some(8), &id), put)];
        store.commit(Lane::Admission, Batch { writes, expectations: Vec::new() }).await.unwrap();
    }
    let kept = || store.read(&keys::reactions(&me(), 7, Some(8)), 0, 10).unwrap().len();
    let limits = Limits { keep_journals_ms: 24 * 3_600_000, ..Limits::default() };
    broom(&store, 23, limits.clone(), Revision::MAX).sweep().await.unwrap();
    assert_eq!((kept(), store.read(&keys::reactions(&me(), 7, None), 0, 10).unwrap().len()), (2, 2));
    broom(&store, 210, limits, Revision::MAX).sweep().await.unwrap();
    assert_eq!(kept(), 1);
    assert_eq!(store.read(&keys::reactions(&me(), 7, Some(9)), 0, 10).unwrap().len(), 0);
}

#[tokio::test]
async fn tombstones_go_when_no_award_can_come_late_any_more() {
    let store = memory::new();
    let by = protocol::principal::Principal::Agent(me());
    for (task, hours) in [("t-1", 0), ("t-2", 20)] {
        let key = keys::tombstone(&me(), &protocol::ids::TaskId::parse(task).unwrap(), &by);
        let bytes = serde_json::to_vec(&Tombstone { epoch: 1, at: WallTime(hours * HOUR) }).unwrap();
        let batch = Batch { writes: vec![Write::Put(key, bytes.into())], expectations: Vec::new() };
        store.commit(Lane::Progress, batch).await.unwrap();
    }
    let left = || store.read(&keys::all(&me(), "tombstone"), 0, 100).unwrap().len();
    broom(&store, 24, Limits::default(), Revision::MAX).sweep().await.unwrap();
    assert_eq!(left(), 2);
    broom(&store, 26, Limits::default(), Revision::MAX).sweep().await.unwrap();
    assert_eq!(left(), 1);
}

#[tokio::test]
async fn journals_go_past_their_bytes_the_oldest_first() {
    let store = memory::new();
    for at in 0..10 {
        journal(&store, &format!("c{at}"), 0).await;
    }
    let one = store.read(&Filter::Below(Key::new(&["a", "journal"])), 0, 1).unwrap()[0].value.len() as u64;
    let limits = Limits { keep_journal_bytes: 4 * one, ..Limits::default() };
    broom(&store, 0, limits, Revision::MAX).sweep().await.unwrap();
    assert_eq!(left(&store), 4);
}
