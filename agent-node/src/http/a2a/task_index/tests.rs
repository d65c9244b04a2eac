//! Tests of the index of tasks.

use super::*;
use blackboard::store::{
    Batch, Filter, Lane, Record, Revision, SharedStore, StoreFuture, StoreWatch, Write, memory,
};
use proptest::prelude::*;
use protocol::task::TaskState;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};

fn me() -> AgentId {
    AgentId::parse("a-01").unwrap()
}

fn key(task: &str) -> Key {
    keys::task(&me(), &TaskId::parse(task).unwrap(), &Principal::local_user())
}

fn row(task: &str, at: &str, state: &str) -> Write {
    let row = json!({
        "spec": { "taskId": task, "root": "user:local", "description": { "$content": "elsewhere" } },
        "conversation": "c", "owner": "user:local", "status": { "state": state, "message": "x" },
        "changedAt": at, "createdAt": at, "asked": "0",
    });
    Write::Put(key(task), row.to_string().into_bytes().into())
}

async fn commit(store: &SharedStore, write: Write) {
    store.commit(Lane::Progress, Batch { writes: vec![write], expectations: Vec::new() }).await.unwrap();
}

fn all() -> TaskFilter {
    let by = Principal::local_user();
    TaskFilter { by, tenant: None, context_id: None, state: None, changed_since: None }
}

fn names(page: &TaskIndexPage) -> Vec<Key> {
    page.rows.iter().map(|(_, key)| key.clone()).collect()
}

#[tokio::test]
async fn a_changed_task_moves_and_a_deleted_one_disappears() {
    let (store, index) = (memory::new(), TaskIndex::default());
    for (task, at) in
        [("t-1", "2026-01-01T00:00:01Z"), ("t-2", "2026-01-01T00:00:02Z"), ("t-3", "2026-01-01T00:00:03Z")]
    {
        commit(&store, row(task, at, "TASK_STATE_WORKING")).await;
    }
    let page = |deletions, before: Option<&TaskCursor>| {
        index.page(store.as_ref(), &me(), deletions, before, 1, &all()).unwrap()
    };
    let first = page(0, None);
    assert_eq!((names(&first), first.total), (vec![key("t-3"), key("t-2")], 3));
    assert_eq!(names(&page(0, Some(&first.rows[0].0))), [key("t-2"), key("t-1")]);

    commit(&store, row("t-1", "2026-01-01T00:00:04Z", "TASK_STATE_COMPLETED")).await;
    let moved = page(0, None);
    assert_eq!(
        (names(&moved), moved.total),
        (vec![key("t-1"), key("t-3")], 3),
        "listed once, at its new position"
    );
    let done = TaskFilter { state: Some(TaskState::Completed), ..all() };
    let done = index.page(store.as_ref(), &me(), 0, None, 9, &done).unwrap();
    assert_eq!((names(&done), done.total), (vec![key("t-1")], 1));

    commit(&store, Write::Delete(key("t-3"))).await;
    let left = page(1, None);
    assert_eq!((names(&left), left.total), (vec![key("t-1"), key("t-2")], 2));
}

/// A store that counts the records read.
struct CountingStore(SharedStore, AtomicUsize);

impl CountingStore {
    fn take_count(&self) -> usize {
        self.1.swap(0, Ordering::Relaxed)
    }
}

impl blackboard::store::Snapshot for CountingStore {
    fn latest(&self, key: &Key) -> Result<Option<Record>, Error> {
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
}

#[tokio::test]
async fn more_than_a_hundred_thousand_tasks_are_read_once() {
    let (store, index) = (memory::new(), TaskIndex::default());
    let many = 100_001;
    for first in (0..many).step_by(1_000) {
        let writes = (first..many.min(first + 1_000)).map(|n| {
            let (minute, second) = (n / 60 % 60, n % 60);
            row(&format!("t-{n}"), &format!("2026-01-01T00:{minute:02}:{second:02}Z"), "TASK_STATE_COMPLETED")
        });
        let batch = Batch { writes: writes.collect(), expectations: Vec::new() };
        store.commit(Lane::Progress, batch).await.unwrap();
    }
    let store = CountingStore(store, AtomicUsize::new(0));
    let page = |before: Option<&TaskCursor>| index.page(&store, &me(), 0, before, 50, &all()).unwrap();
    let first = page(None);
    assert_eq!((first.rows.len(), first.total, store.take_count()), (51, many, many));
    let next = page(Some(&first.rows[49].0));
    assert_eq!((next.rows[0].clone(), store.take_count()), (first.rows[50].clone(), 0));
    commit(&store.0, row("t-7", "2026-01-02T00:00:00Z", "TASK_STATE_COMPLETED")).await;
    assert_eq!(
        (names(&page(None))[0].clone(), store.take_count()),
        (key("t-7"), 1),
        "only the changed row is read"
    );
}

#[tokio::test]
async fn more_tasks_than_fit_are_listed_by_scan() {
    let store = memory::new();
    let tasks: Vec<_> = (0..40).map(|n| format!("t-{n}")).collect();
    for (n, task) in tasks.iter().enumerate() {
        commit(&store, row(task, &format!("2026-01-01T00:00:{:02}Z", n / 3), "TASK_STATE_WORKING")).await;
    }
    let (indexed, scanned) = (TaskIndex::default(), TaskIndex::bounded(2_000));
    let store = CountingStore(store, AtomicUsize::new(0));
    let (mut before, mut seen) = (None, 0);
    loop {
        let page = |index: &TaskIndex| index.page(&store, &me(), 0, before.as_ref(), 7, &all()).unwrap();
        let (one, other) = (page(&indexed), page(&scanned));
        assert_eq!((&one.rows, one.total), (&other.rows, other.total));
        seen += one.rows.len().min(7);
        let Some((last, _)) = one.rows.get(6).filter(|_| one.rows.len() > 7) else { break };
        before = Some(TaskCursor::parse(&last.token()).unwrap());
    }
    assert_eq!(seen, 40);
    assert!(scanned.0.lock().unwrap().order.is_empty(), "an order over the limit is cleared");
    for task in &tasks[4..] {
        commit(&store.0, Write::Delete(key(task))).await;
    }
    store.take_count();
    let few = scanned.page(&store, &me(), 1, None, 7, &all()).unwrap();
    assert_eq!((few.total, store.take_count()), (4, 4));
    let again = scanned.page(&store, &me(), 1, None, 7, &all()).unwrap();
    assert_eq!((again.total, store.take_count()), (4, 0), "tasks within the limit are indexed again");
}

#[tokio::test]
async fn an_order_that_has_grown_by_outdated_rows_is_rebuilt() {
    let (store, index) = (memory::new(), TaskIndex::bounded(5_000));
    for n in 0..100 {
        let row = json!({
            "spec": { "taskId": "t-1", "root": "user:local", "contact": { "tenant": format!("tenant-{n}") } },
            "conversation": "c", "owner": "user:local", "status": { "state": "TASK_STATE_WORKING" },
            "changedAt": "2026-01-01T00:00:01Z",
        });
        commit(&store, Write::Put(key("t-1"), row.to_string().into_bytes().into())).await;
        let wanted = TaskFilter { tenant: Some(format!("tenant-{n}")), ..all() };
        let page = index.page(store.as_ref(), &me(), 0, None, 1, &wanted).unwrap();
        assert_eq!(names(&page), [key("t-1")]);
        assert!(!index.0.lock().unwrap().is_over_limit);
    }
}

proptest! {
    #[test]
    fn the_index_lists_the_same_as_a_scan(
        steps in proptest::collection::vec((0..6_u8, 0..4_u8, 0..3_u8, any::<bool>()), 1..30)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (store, index, scanned) = (memory::new(), TaskIndex::default(), TaskIndex::bounded(0));
        let mut deletions = 0;
        for (task, at, what, is_message) in steps {
            // Ids of both kinds.
            let task = if task % 2 == 0 { format!("t-{task}") } else { format!("0193{task:04}-0000-7000-8000-000000000000") };
            let mut record = json!({
                "spec": { "taskId": task, "root": "user:local", "contact": { "contextId": format!("c-{at}") } },
                "conversation": "c", "owner": "user:local", "isMessage": is_message && what == 1,
                "status": { "state": "TASK_STATE_WORKING" }, "changedAt": format!("2026-01-01T00:00:0{at}Z"),
            });
            if what == 2 {
                record["owner"] = "agent:other".into();
            }
            let key = keys::task(&me(), &TaskId::parse(&task).unwrap(), &Principal::try_from(record["owner"].as_str().unwrap().to_owned()).unwrap());
            let write = if what == 0 && is_message { Write::Delete(key) } else { Write::Put(key, record.to_string().into_bytes().into()) };
            deletions += u64::from(matches!(write, Write::Delete(_)));
            runtime.block_on(commit(&store, write));
            for wanted in [all(), TaskFilter { context_id: Some("c-1".into()), ..all() }] {
                let page = |index: &TaskIndex| index.page(store.as_ref(), &me(), deletions, None, 3, &wanted).unwrap();
                let (one, other) = (page(&index), page(&scanned));
                prop_assert_eq!((one.rows, one.total), (other.rows, other.total));
            }
        }
    }
}

#[tokio::test]
#[ignore = "a figure, for people: `TASKS=20000 cargo test -p agent-node --lib pages_of_many -- --ignored --nocapture`"]
async fn pages_of_many() {
    use std::time::Instant;
    let count: usize = std::env::var("TASKS").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000);
    let dir = tempfile::tempdir().unwrap();
    let store = blackboard::store::embedded::open(dir.path(), Default::default()).unwrap();
    let pad = "x".repeat(1_500);
    for chunk in (0..count).collect::<Vec<_>>().chunks(500) {
        let writes = chunk.iter().map(|n| {
            let id = uuid::Uuid::now_v7().to_string();
            let at = format!("2026-01-01T{:02}:{:02}:{:02}Z", n / 3600 % 24, n / 60 % 60, n % 60);
            let Write::Put(key, value) = row(&id, &at, "TASK_STATE_COMPLETED") else { panic!() };
            let value = String::from_utf8(value.to_vec()).unwrap().replace("\"x\"", &format!("\"{pad}\""));
            Write::Put(key, value.into())
        });
        store.commit(Lane::Progress, Batch { writes: writes.collect(), expectations: vec![] }).await.unwrap();
    }
    let index = TaskIndex::default();
    for what in ["first", "second", "after a change"] {
        if what == "after a change" {
            commit(&store, row("t-1", "2026-01-02T00:00:00Z", "TASK_STATE_WORKING")).await;
        }
        let started = Instant::now();
        let page = index.page(store.as_ref(), &me(), 0, None, 50, &all()).unwrap();
        println!("{what}: {} of {} in {:?}", page.rows.len(), page.total, started.elapsed());
    }
}
