mod claims;
mod damaged_head;
mod sealed;
mod spaces;
mod task_history;

use super::*;
use futures_util::{StreamExt, future::join_all};
use protocol::{
    ids::{Capability, TaskId},
    signal::SignalType,
    time::{NodeTime, WallTime},
};
use std::sync::atomic::{AtomicU64, Ordering};
use store::memory;

fn board() -> Board {
    Board::start(memory::new(), BoardConfig::fast(), BoardClock::system()).unwrap()
}

fn open_task(id: &str) -> OpenTaskKey {
    OpenTaskKey { publisher: agent("planner"), task_id: TaskId::parse(id).unwrap() }
}

/// Publishes an offer of `task` by its publisher.
async fn offer(board: &Board, task: &OpenTaskKey) {
    let from = task.publisher.id();
    let offer = Signal {
        task_id: Some(task.task_id.clone()),
        ..signal(&format!("offer-{}", task.task_id), "task.available", from)
    };
    board.publish(&task.publisher, offer).await.unwrap();
}

fn agent(id: &str) -> Principal {
    Principal::Agent(AgentId::parse(id).unwrap())
}

fn signal(id: &str, kind: &str, from: &str) -> Signal {
    crate::signals::tests::signal(id, kind, from)
}

#[actix::test]
async fn a_signal_published_twice_is_written_once() {
    let board = board();
    let by = agent("b-1");
    board.publish(&by, signal("a", "help.needed", "b-1")).await.unwrap();
    let first = board.publish(&by, signal("b", "task.failed", "b-1")).await.unwrap();
    board.publish(&agent("b-2"), signal("b", "task.failed", "b-2")).await.unwrap();
    assert_eq!(board.publish(&by, signal("b", "task.failed", "b-1")).await, Ok(first));
    let refused = board.publish(&by, signal("b", "help.needed", "b-1")).await.unwrap_err();
    assert_eq!(refused.reason, Reason::MessageIdReused);
    let page = board.read(&Principal::local_user(), Selector::default(), None, 100).await.unwrap();
    assert_eq!(page.signals.len(), 3);
    assert!(page.signals.iter().any(|posted| posted.revision == first && posted.signal.id == "b"));
    let counts = board.snapshot().await.unwrap().counts;
    assert_eq!((counts.published, counts.repeated, counts.refused), (3, 1, 1));
}

#[actix::test]
async fn concurrent_signals_share_commits_and_a_repeat_is_written_once() {
    let board = board();
    let by = agent("b-1");
    let known = board.publish(&by, signal("known", "task.failed", "b-1")).await.unwrap();
    let ids = ["a", "b", "known", "c", "a", "d"];
    let at_once = ids.map(|id| board.publish(&by, signal(id, "task.failed", "b-1")));
    let revisions: Vec<_> = join_all(at_once).await.into_iter().map(Result::unwrap).collect();
    assert_eq!((revisions[2], revisions[4]), (known, revisions[0]));
    let page = board.read(&Principal::local_user(), Selector::default(), None, 100).await.unwrap();
    let on_board: Vec<_> =
        page.signals.iter().map(|posted| (posted.signal.id.as_str(), posted.revision)).collect();
    let first = [
        ("known", known),
        ("a", revisions[0]),
        ("b", revisions[1]),
        ("c", revisions[3]),
        ("d", revisions[5]),
    ];
    assert_eq!(on_board, first);
    let counts = board.snapshot().await.unwrap();
    assert_eq!((counts.counts.published, counts.counts.repeated, counts.in_flight), (5, 2, 0));
}

#[actix::test]
async fn signals_of_one_request_are_published_in_order_up_to_the_first_that_is_refused() {
    let (board, by) = (board(), agent("b-1"));
    let of = |id: &str, from| signal(id, "task.failed", from);
    let known = board.publish(&by, of("known", "b-1")).await.unwrap();
    let joint = board.publish_all(&by, vec![of("a", "b-1"), of("b", "b-1")]).await.unwrap();
    let [Ok(a), Ok(b)] = joint[..] else { panic!("{joint:?}") };
    assert!(known < a && a < b);
    let again = board.publish_all(&by, ["known", "a", "c"].map(|id| of(id, "b-1")).into()).await.unwrap();
    let [Ok(first), Ok(second), Ok(c)] = again[..] else { panic!("{again:?}") };
    assert_eq!((first, second), (known, a));
    let stopped = board.publish_all(&by, vec![of("d", "b-1"), of("e", "b-2"), of("f", "b-1")]).await.unwrap();
    let [Ok(d), Err(refused)] = &stopped[..] else { panic!("{stopped:?}") };
    assert_eq!(refused.reason, Reason::SenderNotProven, "{refused:?}");
    let reused = signal("a", "help.needed", "b-1");
    let stopped = board.publish_all(&by, vec![reused, of("g", "b-1")]).await.unwrap();
    let [Err(refused)] = &stopped[..] else { panic!("{stopped:?}") };
    assert_eq!(refused.reason, Reason::MessageIdReused, "{refused:?}");
    let twice = board.publish_all(&by, vec![of("h", "b-1"), of("h", "b-1")]).await.unwrap();
    let [Ok(h), Ok(h_again)] = twice[..] else { panic!("{twice:?}") };
    assert_eq!(h, h_again, "one signal twice in a request");
    let page = board.read(&Principal::local_user(), Selector::default(), None, 100).await.unwrap();
    let ids: Vec<_> =
        page.signals.iter().map(|record| (record.signal.id.as_str(), record.revision)).collect();
    assert_eq!(ids, [("known", known), ("a", a), ("b", b), ("c", c), ("d", *d), ("h", h)]);
    let counts = board.snapshot().await.unwrap();
    assert_eq!((counts.counts.published, counts.counts.repeated, counts.in_flight), (6, 3, 0));
}

#[test]
fn a_group_holds_plain_signals_of_one_lane_without_repeats() {
    let pending = |id: &str, lane, is_plain: bool| {
        let (by, at) = (agent("b-1"), WallTime(0));
        let signal = signal(id, "task.failed", "b-1");
        let store = store_types::MemoryState::default();
        let mut write = crate::signals::prepare_write(&store, &by, &signal, at, 1 << 16).unwrap();
        let extra = store::Write::Delete(store::Key::new(&["board", "agent", "x"]));
        write.batch.writes.splice(0..0, (!is_plain).then_some(extra));
        let done = tokio::sync::oneshot::channel().0;
        publish::PendingSignals { lane, writes: vec![write], refusal: None, done }
    };
    let (work, new) = (store::Lane::Progress, store::Lane::Admission);
    let sizes = |signals| {
        let groups = publish::group_for_commit(signals);
        groups.iter().map(|group| group.requests.len()).collect::<Vec<_>>()
    };
    let plain = |id| pending(id, work, true);
    assert_eq!(sizes(vec![plain("a"), plain("b"), plain("c")]), [3]);
    assert_eq!(sizes(vec![plain("a"), plain("b"), plain("a"), plain("b")]), [2, 2]);
    assert_eq!(sizes(vec![plain("a"), pending("b", new, true), pending("c", new, true)]), [1, 2]);
    assert_eq!(sizes(vec![plain("a"), pending("b", work, false), plain("c"), plain("d")]), [1, 1, 2]);
    let ids: Vec<_> = (0..130).map(|n| n.to_string()).collect();
    assert_eq!(sizes(ids.iter().map(|id| pending(id, work, true)).collect()), [64, 64, 2]);
}

#[actix::test]
async fn a_user_cannot_publish_or_claim_as_a_registered_agent() {
    let board = board();
    let (user, registry, agent_id) = (
        Principal::local_user(),
        Principal::Service(protocol::principal::MeshService::Registry),
        AgentId::parse("b-1").unwrap(),
    );
    let task = open_task("t-1");
    let notice = |kind: &str, incarnation: u64| Signal {
        subject: Some("b-1".to_owned()),
        refs: [("incarnation".to_owned(), incarnation.into())].into_iter().collect(),
        ..signal(&format!("{kind}:{incarnation}"), kind, "registry")
    };
    let publish = |id: &'static str| board.publish(&user, signal(id, "acme.note.left", "b-1"));
    publish("before").await.unwrap();
    board.publish(&registry, notice("agent.joined", 2)).await.unwrap();
    board.publish(&registry, notice("agent.left", 1)).await.unwrap();
    let refused = publish("meanwhile").await.unwrap_err();
    assert_eq!(refused.reason, Reason::SenderNotProven, "{refused:?}");
    let lease = Duration::from_secs(5);
    let refused = board.claim(&user, &task, &agent_id, lease).await.unwrap_err();
    assert_eq!(refused.reason, Reason::SenderNotProven, "{refused:?}");
    board.publish(&agent("b-1"), signal("own", "acme.note.left", "b-1")).await.unwrap();
    offer(&board, &task).await;
    board.claim(&agent("b-1"), &task, &agent_id, lease).await.unwrap();
    board.publish(&registry, notice("agent.left", 2)).await.unwrap();
    for (id, label) in
        [("after", "b-1"), ("in another case", "B-1"), ("a service", "Registry"), ("board", "board")]
    {
        let refused = board.publish(&user, signal("after", "acme.note.left", label)).await.unwrap_err();
        assert_eq!(refused.reason, Reason::SenderNotProven, "{id}: {refused:?}");
    }
    board.publish(&user, signal("other", "acme.note.left", "b-11")).await.expect("a label of its own");
}

#[actix::test]
async fn a_user_publishes_no_signal_of_the_life_of_a_task_an_agent_or_an_artifact() {
    let board = board();
    for kind in protocol::signal::SIGNAL_TYPES {
        let outcome = board.publish(&Principal::local_user(), signal(kind, kind, "me")).await;
        let is_users = ["task.available", "help.needed"].contains(&kind);
        assert_eq!(outcome.as_ref().is_ok(), is_users, "{kind}: {outcome:?}");
        assert!(is_users || outcome.unwrap_err().reason == Reason::Forbidden, "{kind}");
    }
}

#[actix::test]
async fn a_user_sees_signals_of_its_own_tasks_and_those_without_a_task() {
    let board = board();
    let user = |name: &str| Principal::User(AgentId::parse(name).unwrap());
    let of_task = |id: &str, kind: &str, from: &str| Signal {
        task_id: Some(TaskId::parse(id).unwrap()),
        ..signal(id, kind, from)
    };
    board.publish(&user("bert"), of_task("berts-offer", "task.available", "me")).await.unwrap();
    board.publish(&user("anna"), of_task("annas-offer", "task.available", "me")).await.unwrap();
    board.publish(&user("bert"), signal("news", "acme.news", "me")).await.unwrap();
    let for_anna = Signal { root: Some(user("anna")), ..of_task("annas-task", "task.complete", "b-1") };
    board.publish(&agent("b-1"), for_anna).await.unwrap();
    board.publish(&agent("b-1"), of_task("b-1s-task", "task.complete", "b-1")).await.unwrap();
    let seen = async |by: &Principal| {
        let mut live = board.subscribe(by, Selector::default(), Some(0.into())).unwrap();
        let mut ids: Vec<_> = Vec::new();
        while live.cursor().revision < board.snapshot().await.unwrap().head {
            let next = tokio::time::timeout(Duration::from_millis(200), live.next(1 << 20)).await;
            let Ok(events) = next else { break };
            ids.extend(events.unwrap().iter().map(|event| event.posted.signal.id.clone()));
        }
        let page = board.read(by, Selector::default(), None, 100).await.unwrap();
        let read: Vec<_> = page.signals.into_iter().map(|posted| posted.signal.id).collect();
        assert_eq!(ids, read, "live and in history");
        read
    };
    assert_eq!(seen(&user("anna")).await, ["annas-offer", "news", "annas-task"]);
    assert_eq!(seen(&user("bert")).await, ["berts-offer", "news"]);
    assert_eq!(seen(&agent("b-2")).await.len(), 5);
    assert_eq!(seen(&Principal::local_user()).await.len(), 5);
}

#[actix::test]
async fn a_late_subscriber_reads_history_and_then_live_signals() {
    let board = board();
    let by = agent("b-1");
    for at in 0..200 {
        board.publish(&by, signal(&format!("s-{at}"), "help.needed", "b-1")).await.unwrap();
    }
    let handle = crate::client::Blackboard::local(board.clone());
    let mut signals = handle.subscribe(&by, Selector::default(), Some(0.into())).await.unwrap();
    for at in 0..200 {
        assert_eq!(signals.next().await.unwrap().unwrap().signal.id, format!("s-{at}"));
    }
    board.publish(&by, signal("live", "help.needed", "b-1")).await.unwrap();
    assert_eq!(signals.next().await.unwrap().unwrap().signal.id, "live");
}

/// A clock that a test sets; node time and wall time are the same number of milliseconds.
fn clock() -> (BoardClock, Arc<AtomicU64>) {
    let now = Arc::new(AtomicU64::new(0));
    let (node, wall) = (now.clone(), now.clone());
    let clock = BoardClock::new(
        move || NodeTime(node.load(Ordering::SeqCst)),
        move || WallTime(wall.load(Ordering::SeqCst) as i64),
    );
    (clock, now)
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(20), future).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: not within 20 s"),
    }
}

#[actix::test]
async fn early_and_late_subscribers_get_exactly_the_signals_they_selected() {
    let board = board();
    let rest = Capability::parse("rest").unwrap();
    let handle = crate::client::Blackboard::local(board.clone());
    let by = agent("b-1");
    let capable = Selector {
        types: vec!["help.needed".into(), "task.available".into()],
        capabilities: vec![rest.clone()],
        task_id: None,
    };
    let mut early = handle.subscribe(&by, capable.clone(), None).await.unwrap();
    for kind in protocol::signal::SIGNAL_TYPES {
        let from = if SignalType::parse(kind).unwrap().is_registrys() { "registry" } else { "b-1" };
        for capability in [Some(&rest), None] {
            let id = format!("{kind}-{}", capability.is_some());
            let signal = Signal { capability: capability.cloned(), ..signal(&id, kind, from) };
            let by_another = board.publish(&agent("b-2"), signal.clone()).await.unwrap_err();
            assert_eq!(by_another.reason, Reason::SenderNotProven);
            board.publish(&Principal::of_signer(AgentId::parse(from).unwrap()), signal).await.unwrap();
        }
    }
    let mut late = handle.subscribe(&by, capable, Some(0.into())).await.unwrap();
    for wanted in ["task.available-true", "help.needed-true"] {
        for reader in [&mut early, &mut late] {
            assert_eq!(within("a signal", reader.next()).await.unwrap().unwrap().signal.id, wanted);
        }
    }
    let of_tasks = Selector { types: vec!["task.*".into()], ..Selector::default() };
    let page = board.read(&Principal::local_user(), of_tasks, None, 100).await.unwrap();
    assert_eq!(page.signals.len(), 8);
    let rest_of = board
        .read(&Principal::local_user(), Selector::default(), Some(page.signals[5].revision.into()), 100)
        .await
        .unwrap();
    assert!(rest_of.signals.iter().all(|posted| posted.revision > page.signals[5].revision));
}

#[actix::test]
async fn old_signals_are_removed_and_a_cursor_below_the_floor_is_refused() {
    let store = memory::new();
    let (clock, now) = clock();
    let board = Board::start(store.clone(), BoardConfig::fast(), clock).unwrap();
    let by = agent("b-1");
    let old = board.publish(&by, signal("old", "help.needed", "b-1")).await.unwrap();
    now.store(1_000, Ordering::SeqCst);
    let new = board.publish(&by, signal("new", "help.needed", "b-1")).await.unwrap();
    history::remove_expired(store, WallTime(1_500), Duration::from_millis(700)).await.unwrap();
    let kept = board.read(&Principal::local_user(), Selector::default(), None, 10).await.unwrap();
    assert_eq!(kept.signals.iter().map(|posted| posted.revision).collect::<Vec<_>>(), [new]);
    let trimmed =
        board.read(&Principal::local_user(), Selector::default(), Some(0.into()), 10).await.unwrap_err();
    assert_eq!((trimmed.reason, trimmed.metadata), (Reason::Trimmed, vec![("floor", old.to_string())]));
    let subscribed =
        board.subscribe(&agent("b-1"), Selector::default(), Some(0.into())).map(drop).unwrap_err();
    assert_eq!(subscribed.reason, Reason::Trimmed);
    assert_eq!(
        board
            .read(&Principal::local_user(), Selector::default(), Some(old.into()), 10)
            .await
            .unwrap()
            .signals
            .len(),
        1
    );
}

#[actix::test]
async fn a_range_has_what_is_kept_up_to_its_end_and_is_read_in_pages() {
    let store = memory::new();
    let board = Board::start(store.clone(), BoardConfig::fast(), BoardClock::system()).unwrap();
    let (by, reader) = (agent("b-1"), Principal::local_user());
    let mut revisions = Vec::new();
    for at in 0..600 {
        let kind = if at % 100 == 0 { "help.needed" } else { "artifact.produced" };
        revisions.push(board.publish(&by, signal(&format!("s-{at}"), kind, "b-1")).await.unwrap());
    }
    let range = async |types: &[&str], after: u64, until: u64, limit| {
        let types = types.iter().map(|kind| (*kind).to_owned()).collect();
        let selector = Selector { types, ..Selector::default() };
        let page = board.read_range(&reader, selector, (Some(after.into()), until), limit).await.unwrap();
        let found: Vec<_> = page.signals.iter().map(|posted| posted.revision).collect();
        (found, page.next.revision)
    };
    let (found, next) = range(&[], revisions[9], revisions[590], 500).await;
    assert_eq!((found.as_slice(), next), (&revisions[10..510], revisions[509]));
    let (found, next) = range(&[], next, revisions[590], 500).await;
    assert_eq!((found.as_slice(), next), (&revisions[510..=590], revisions[590]));
    assert_eq!(range(&[], next, revisions[590], 500).await, (vec![], revisions[590]), "nothing is behind it");
    // Few have the type: those behind the end are not read.
    let (found, next) = range(&["help.needed"], revisions[0], revisions[350], 10).await;
    assert_eq!((found, next), (vec![revisions[100], revisions[200], revisions[300]], revisions[350]));
    store.trim(crate::signals::all_signals(), revisions[500]).await.unwrap();
    let (found, _) = range(&[], 0, revisions[502], 500).await;
    assert_eq!(found.as_slice(), &revisions[500..=502], "what was removed is left out");
    let foreign = Cursor { generation: Some("0a1f".to_owned()), revision: 1 };
    let refused = board.read_range(&reader, Selector::default(), (Some(foreign), 9), 1).await.unwrap_err();
    assert_eq!(refused.reason, Reason::GenerationChanged);
}

#[actix::test]
async fn the_oldest_signals_are_trimmed_to_the_size_limit_and_repeats_are_still_recognised() {
    let store = store::memory::new();
    let board = Board::start(store.clone(), BoardConfig::fast(), BoardClock::system()).unwrap();
    let by = agent("b-1");
    let mut revisions = Vec::new();
    for at in 0..50 {
        let wordy =
            Signal { subject: Some("x".repeat(500)), ..signal(&format!("s-{at}"), "help.needed", "b-1") };
        revisions.push(board.publish(&by, wordy).await.unwrap());
    }
    history::trim_to_size(store.clone(), 1 << 20).await.unwrap();
    assert_eq!(
        board.read(&Principal::local_user(), Selector::default(), None, 100).await.unwrap().signals.len(),
        50,
        "all fit"
    );
    history::trim_to_size(store.clone(), 10_000).await.unwrap();
    let kept = board.read(&Principal::local_user(), Selector::default(), None, 100).await.unwrap().signals;
    let bytes: usize = kept.iter().map(|posted| serde_json::to_vec(&posted.signal).unwrap().len()).sum();
    assert!(kept.len() > 5 && bytes <= 10_000, "{} signals of {bytes} bytes", kept.len());
    assert_eq!(kept.last().unwrap().revision, revisions[49], "the newest stay");
    let wordy = Signal { subject: Some("x".repeat(500)), ..signal("s-0", "help.needed", "b-1") };
    let again = board.publish(&by, wordy).await.unwrap();
    assert!(again <= revisions[0] + 1, "a repeat of a removed signal is no new signal: {again}");
    assert_eq!(
        board.read(&Principal::local_user(), Selector::default(), None, 100).await.unwrap().signals.len(),
        kept.len()
    );
    assert_eq!(
        board
            .read(&Principal::local_user(), Selector::default(), Some(1.into()), 1)
            .await
            .unwrap_err()
            .reason,
        Reason::Trimmed
    );
}

#[actix::test]
async fn on_disk_a_repeat_after_a_restart_is_answered_with_the_first_revision() {
    let dir = tempfile::tempdir().unwrap();
    let (by, task) = (agent("b-1"), OpenTaskKey { publisher: agent("b-1"), ..open_task("t-1") });
    let offer = Signal { task_id: Some(task.task_id.clone()), ..signal("a", "task.available", "b-1") };
    let store = store::embedded::open(dir.path(), Default::default()).unwrap();
    let board = Board::start(store, BoardConfig::fast(), BoardClock::system()).unwrap();
    let first = board.publish(&by, offer.clone()).await.unwrap();
    let claim = board.claim(&by, &task, by.agent().unwrap(), Duration::from_secs(5)).await.unwrap();
    drop(board);
    let board = within("the store is free again", async {
        loop {
            match store::embedded::open(dir.path(), Default::default()) {
                Ok(store) => return Board::start(store, BoardConfig::fast(), BoardClock::system()).unwrap(),
                Err(_) => tokio::task::yield_now().await,
            }
        }
    })
    .await;
    assert_eq!(board.publish(&by, offer).await, Ok(first));
    assert_eq!(board.claim_of(&agent("b-1"), &task).await.unwrap().epoch, claim.epoch);
    assert_eq!(board.complete(&by, &task, claim.epoch).await.unwrap().state, ClaimState::Completed);
}

/// A store whose next `panics` commits panic.
struct PanickingStore {
    store: SharedStore,
    panics: Arc<AtomicU64>,
}

impl store::Snapshot for PanickingStore {
    fn latest(&self, key: &store::Key) -> Result<Option<store::Record>, store::Error> {
        self.store.latest(key)
    }

    fn read(
        &self,
        filter: &store::Filter,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<store::Record>, store::Error> {
        self.store.read(filter, after, limit)
    }

    fn list(&self, query: &store::ListQuery, limit: usize) -> Result<Vec<store::ListedKey>, store::Error> {
        self.store.list(query, limit)
    }

    fn count(&self, query: &store::ListQuery) -> Result<u64, store::Error> {
        self.store.count(query)
    }

    fn head(&self) -> Revision {
        self.store.head()
    }
}

impl store::Store for PanickingStore {
    fn commit(&self, lane: store::Lane, batch: store::Batch) -> store::StoreFuture<Vec<Revision>> {
        let left = self.panics.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        assert!(left.is_err(), "on purpose");
        self.store.commit(lane, batch)
    }

    fn generation(&self) -> String {
        self.store.generation()
    }

    fn watch(&self, filter: store::Filter, after: Revision) -> Result<store::StoreWatch, store::Error> {
        self.store.watch(filter, after)
    }

    fn trim(&self, filter: store::Filter, before: Revision) -> store::StoreFuture<u64> {
        self.store.trim(filter, before)
    }

    fn blobs(&self) -> store::SharedBlobs {
        self.store.blobs()
    }
}

/// Publishes repeatedly until it succeeds.
async fn publish_until_accepted(board: &Board, id: &str) -> Revision {
    within("the board is back", async {
        loop {
            match board.publish(&agent("b-1"), signal(id, "help.needed", "b-1")).await {
                Ok(revision) => return revision,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    })
    .await
}

#[actix::test]
async fn a_board_that_panics_restarts_its_readers_resume_and_its_claims_are_kept() {
    let panics = Arc::new(AtomicU64::new(0));
    let store = Arc::new(PanickingStore { store: memory::new(), panics: panics.clone() });
    let board = Board::start(store as SharedStore, BoardConfig::fast(), BoardClock::system()).unwrap();
    let first = publish_until_accepted(&board, "a").await;
    let task = open_task("t-1");
    let holder = AgentId::parse("b-1").unwrap();
    offer(&board, &task).await;
    board.claim(&agent("b-1"), &task, &holder, Duration::from_secs(5)).await.unwrap();
    let mut reader = board.subscribe(&agent("b-1"), Selector::default(), Some(0.into())).unwrap();
    while reader.cursor().revision < first {
        reader.next(1 << 20).await.unwrap();
    }

    panics.store(1, Ordering::SeqCst);
    let lost = board.publish(&agent("b-1"), signal("b", "help.needed", "b-1")).await.unwrap_err();
    assert_eq!(lost.reason, Reason::BlackboardUnavailable, "{lost:?}");
    let second = publish_until_accepted(&board, "b").await;
    assert_eq!(board.snapshot().await.unwrap().restarts, 1);
    let cut = within("the reader is cut", async {
        loop {
            if let Err(problem) = reader.next(1 << 20).await {
                return problem;
            }
        }
    });
    assert_eq!(cut.await.reason, Reason::BlackboardUnavailable);
    let mut again = board.subscribe(&agent("b-1"), Selector::default(), Some(first.into())).unwrap();
    let mut seen = Vec::new();
    while again.cursor().revision < second {
        seen.extend(again.next(1 << 20).await.unwrap().iter().map(|event| event.posted.signal.id.clone()));
    }
    assert!(seen.contains(&"b".to_owned()), "nothing was missed: {seen:?}");
    assert_eq!(board.claim_of(&agent("b-1"), &task).await.unwrap().holder, holder);

    panics.store(100, Ordering::SeqCst);
    let down = within("it stays down", async {
        loop {
            let refused = board.publish(&agent("b-1"), signal("c", "help.needed", "b-1")).await.unwrap_err();
            if refused.message.contains("stays down") {
                return refused;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(down.await.message.contains("panicked"));
    assert!(board.snapshot().await.is_err(), "a snapshot fails while the board is down");
}
