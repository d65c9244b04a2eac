use super::*;
use crate::{
    client::Registry,
    directory::samples::card,
    entry::{Heartbeat, News, Presence, Query},
};
use protocol::{
    ids::AgentId,
    problem::Reason,
    signal::Signal,
    time::{NodeTime, WallTime},
};
use std::{
    future::Future,
    pin::Pin,
    sync::{
        PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// A board that keeps what it is told, once, unless it is away.
#[derive(Default)]
pub(crate) struct Board {
    heard: std::sync::Mutex<Vec<Signal>>,
    refused: AtomicU64,
    away: AtomicBool,
    refuses: AtomicBool,
}

impl Publish for Arc<Board> {
    fn publish(&self, signal: Signal) -> Pin<Box<dyn Future<Output = Result<(), Problem>> + Send>> {
        let board = self.clone();
        Box::pin(async move {
            if board.away.load(Ordering::SeqCst) {
                board.refused.fetch_add(1, Ordering::SeqCst);
                return Err(Problem::new(Reason::BlackboardUnavailable, "away"));
            }
            if board.refuses.load(Ordering::SeqCst) {
                board.refused.fetch_add(1, Ordering::SeqCst);
                return Err(Problem::new(Reason::PayloadTooLarge, "never"));
            }
            let mut heard = board.heard.lock().unwrap_or_else(PoisonError::into_inner);
            if heard.iter().all(|known| known.id != signal.id) {
                heard.push(signal);
            }
            Ok(())
        })
    }
}

impl Board {
    pub(crate) fn be_away(&self) {
        self.away.store(true, Ordering::SeqCst);
    }

    fn ids(&self) -> Vec<String> {
        self.heard.lock().unwrap().iter().map(|signal| signal.id.clone()).collect()
    }
}

/// Waits for `seen`, and says what there was instead when it gives up.
async fn until<T>(mut look: impl FnMut() -> T, seen: impl Fn(&T) -> bool) -> T
where
    T: std::fmt::Debug,
{
    let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
    loop {
        let now = look();
        if seen(&now) {
            return now;
        }
        assert!(tokio::time::Instant::now() < deadline, "still {now:?}");
        tokio::task::yield_now().await;
    }
}

/// A registry whose clock and sweeps the test drives.
pub(crate) struct Rig {
    pub(crate) addr: Addr<RegistryActor>,
    pub(crate) registry: Registry,
    pub(crate) board: Arc<Board>,
    pub(crate) store: SharedStore,
    clock: Arc<AtomicU64>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::over(
            blackboard::store::memory::new(),
            Config { retry_ms: 1, retry_cap_ms: 1, ..Config::default() },
            0,
        )
    }

    pub(crate) fn over(store: SharedStore, config: Config, now: u64) -> Self {
        Self::dated(store, config, now, WallTime(0))
    }

    fn dated(store: SharedStore, config: Config, now: u64, wall: WallTime) -> Self {
        let clock = Arc::new(AtomicU64::new(now));
        let hand = clock.clone();
        let clocks = Clocks {
            node: Arc::new(move || NodeTime(hand.load(Ordering::SeqCst))),
            wall: Arc::new(move || wall),
        };
        let board = Arc::new(Board::default());
        let actor = RegistryActor::open(config, store.clone(), Arc::new(board.clone()), clocks).unwrap();
        let addr = actor.sweeping_on_request().run();
        Self { registry: Registry::local(addr.clone()), addr, board, store, clock }
    }

    /// The same store under a new actor, whose clock goes on where the old one stood.
    fn restarted(&self) -> Self {
        let config = Config { retry_ms: 1, retry_cap_ms: 1, ..Config::default() };
        Self::over(self.store.clone(), config, self.clock.load(Ordering::SeqCst))
    }

    /// A sweep every second for so many seconds.
    pub(crate) async fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            self.clock.fetch_add(1_000, Ordering::SeqCst);
            self.addr.send(Sweep).await.unwrap().unwrap();
        }
    }

    pub(crate) async fn join(&self, id: &str, instance: &str) -> Result<u64, Problem> {
        let registered = self.registry.register(card(id, &["x"]), instance.into()).await?;
        Ok(registered.incarnation)
    }

    pub(crate) async fn beat(&self, id: &str, incarnation: u64) -> Result<(), Reason> {
        let heartbeat = Heartbeat { incarnation, running: 0, accepting: true };
        self.registry.heartbeat(&agent(id), heartbeat).await.map_err(|problem| problem.reason)
    }

    pub(crate) async fn live(&self) -> Vec<String> {
        let found = self.registry.find(&Query::default()).await.unwrap();
        found.iter().map(|entry| format!("{} {:?}", entry.id(), entry.state)).collect()
    }

    /// What the board has heard, once it is so many.
    pub(crate) async fn told(&self, count: usize) -> Vec<String> {
        until(|| self.board.ids(), |ids| ids.len() >= count).await
    }
}

fn agent(id: &str) -> AgentId {
    AgentId::parse(id).unwrap()
}

#[actix_web::test]
async fn the_board_hears_who_joins_and_who_leaves_and_why() {
    let rig = Rig::new();
    assert_eq!(rig.join("a", "1").await, Ok(1));
    assert_eq!(rig.join("a", "1").await, Ok(1));
    assert_eq!(rig.join("a", "2").await, Ok(2));
    assert_eq!(rig.beat("a", 1).await, Err(Reason::StaleIncarnation));
    let late = rig.registry.deregister(&agent("a"), 1).await.unwrap_err();
    assert_eq!(late.reason, Reason::StaleIncarnation);
    assert_eq!(rig.join("a", "1").await.unwrap_err().reason, Reason::StaleIncarnation);
    assert_eq!(rig.live().await, ["a Alive"]);

    rig.registry.deregister(&agent("a"), 2).await.unwrap();
    rig.registry.deregister(&agent("a"), 2).await.unwrap();
    let unknown = rig.registry.deregister(&agent("nobody"), 1).await.unwrap_err();
    assert_eq!(unknown.reason, Reason::AgentNotFound);
    assert_eq!(rig.registry.look(&agent("a")).await.unwrap().unwrap().state, Presence::Departed);

    let told = rig.told(4).await;
    assert_eq!(told, ["agent.joined:a:1", "agent.left:a:1", "agent.joined:a:2", "agent.left:a:2"]);
    let reasons: Vec<_> =
        rig.board.heard.lock().unwrap().iter().map(|s| s.refs.get("reason").cloned()).collect();
    assert_eq!(reasons, [None, Some("superseded".into()), None, Some("deregistered".into())]);
    until(|| rows::count_waiting(&rig.store), |count| *count == 0).await;
}

#[actix_web::test]
async fn an_evicted_agent_that_heartbeats_is_told_to_register_again_and_can() {
    let rig = Rig::new();
    rig.join("a", "1").await.unwrap();
    rig.pass(11).await;
    assert_eq!(rig.live().await, ["a Suspect"]);
    rig.pass(6).await;
    assert_eq!(rig.live().await, [""; 0]);
    assert_eq!(rig.beat("a", 1).await, Err(Reason::AgentNotFound));
    assert_eq!(rig.join("a", "1").await, Ok(2));
    assert_eq!(rig.beat("a", 2).await, Ok(()));
    let told = rig.told(3).await;
    assert_eq!(told, ["agent.joined:a:1", "agent.left:a:1", "agent.joined:a:2"]);
}

#[actix_web::test]
async fn a_restart_keeps_incarnations_and_declares_nobody_dead_for_one_period() {
    let rig = Rig::new();
    for n in 0..20 {
        rig.join(&format!("a{n}"), "1").await.unwrap();
    }
    rig.join("a0", "2").await.unwrap();
    rig.told(22).await;
    rig.pass(14).await;
    let again = rig.restarted();
    again.pass(15).await;
    assert_eq!(again.live().await.len(), 20);
    assert_eq!(again.board.ids(), [""; 0]);
    assert_eq!(again.beat("a0", 1).await, Err(Reason::StaleIncarnation));
    assert_eq!(again.beat("a0", 2).await, Ok(()));
    assert_eq!(again.join("a0", "3").await, Ok(3));
    assert_eq!(again.join("a1", "1").await, Ok(1));
    again.pass(3).await;
    let told = again.told(5).await;
    let expired = told.iter().filter(|id| id.ends_with(":1")).count();
    assert_eq!((told.len(), expired), (5, 3), "{told:?}");
    assert!(again.addr.send(Observe).await.unwrap().agents.self_preserving);
}

#[actix_web::test]
async fn a_registry_that_has_lost_its_data_gives_no_life_twice() {
    let fresh = |wall| Rig::dated(blackboard::store::memory::new(), Config::default(), 0, WallTime(wall));
    let before = fresh(1_000);
    let old = before.join("a", "old").await.unwrap();
    let after = fresh(2_000);
    let new = after.join("a", "new").await.unwrap();
    assert!(new > old, "{old} {new}");
    assert_ne!(before.told(1).await, after.told(1).await, "the board takes one signal of an id");
    let late = after.registry.deregister(&agent("a"), old).await.unwrap_err();
    assert_eq!(late.reason, Reason::StaleIncarnation, "{late}");
    assert_eq!(after.live().await.len(), 1, "the old one's exit doesn't end the new one");
}

#[actix_web::test]
async fn signals_wait_in_the_store_while_the_board_is_away() {
    let rig = Rig::new();
    rig.board.away.store(true, Ordering::SeqCst);
    rig.join("a", "1").await.unwrap();
    rig.join("b", "1").await.unwrap();
    until(|| rig.board.refused.load(Ordering::SeqCst), |count| *count > 1).await;
    assert_eq!(rig.addr.send(Observe).await.unwrap().signals_waiting, 2);
    let again = rig.restarted();
    assert_eq!(again.told(2).await, ["agent.joined:a:1", "agent.joined:b:1"]);
    rig.board.away.store(false, Ordering::SeqCst);
}

#[actix_web::test]
async fn a_signal_that_the_board_refuses_for_good_holds_up_nobody() {
    let rig = Rig::new();
    rig.board.refuses.store(true, Ordering::SeqCst);
    rig.join("a", "1").await.unwrap();
    until(|| rows::count_waiting(&rig.store), |count| *count == 0).await;
    rig.board.refuses.store(false, Ordering::SeqCst);
    rig.join("b", "1").await.unwrap();
    assert_eq!(rig.told(1).await, ["agent.joined:b:1"]);
}

#[actix_web::test]
async fn a_heartbeat_writes_nothing_and_racing_processes_get_different_lives() {
    let rig = Rig::new();
    let (a, b, c) = tokio::join!(rig.join("a", "1"), rig.join("a", "2"), rig.join("a", "3"));
    let mut lives = [a.unwrap(), b.unwrap(), c.unwrap()];
    lives.sort_unstable();
    assert_eq!(lives, [1, 2, 3]);
    rig.told(5).await;
    until(|| rows::count_waiting(&rig.store), |count| *count == 0).await;
    let head = rig.store.head();
    for _ in 0..10 {
        rig.beat("a", 3).await.unwrap();
    }
    assert_eq!(rig.store.head(), head);
}

#[actix_web::test]
async fn a_watcher_hears_everybody_first_then_changes_and_everybody_again_when_it_lags() {
    let config = Config { max_watch_lag: 4, ..Config::default() };
    let rig = Rig::over(blackboard::store::memory::new(), config, 0);
    rig.join("a", "1").await.unwrap();
    let mut watch = rig.registry.watch();
    let News::Snapshot(all) = watch.next().await.unwrap() else { panic!("no snapshot") };
    assert_eq!(all.len(), 1);
    rig.join("b", "1").await.unwrap();
    let News::Change(entry) = watch.next().await.unwrap() else { panic!("no change") };
    assert_eq!((entry.id().as_str(), entry.state), ("b", Presence::Alive));
    for running in 1..=9 {
        let heartbeat = Heartbeat { incarnation: 1, running, accepting: running < 9 };
        rig.registry.heartbeat(&agent("a"), heartbeat).await.unwrap();
    }
    let News::Snapshot(all) = watch.next().await.unwrap() else { panic!("a gap was hidden") };
    assert_eq!((all.len(), all.last().map(|a| (a.running, a.accepting))), (2, Some((9, false))));
}

#[actix_web::test]
async fn nobody_registers_or_speaks_for_another() {
    let rig = Rig::new();
    rig.join("a", "1").await.unwrap();
    let register = |by: &str, id: &str| {
        let application = crate::application::Application { card: card(id, &[]), instance: "i".into() };
        rig.addr.send(Register { by: by.to_owned().try_into().unwrap(), application })
    };
    let refused = [("agent:b", "a", Reason::AgentIdTaken), ("agent:b", "c", Reason::SenderNotProven)];
    for (by, id, reason) in refused.into_iter().chain([("user:local", "d", Reason::Forbidden)]) {
        assert_eq!(register(by, id).await.unwrap().unwrap_err().reason, reason);
    }
    let by = "agent:b".to_owned().try_into().unwrap();
    let stolen =
        rig.addr.send(Deregister { by, id: agent("a"), incarnation: 1, is_drained: false }).await.unwrap();
    assert_eq!(stolen.unwrap_err().reason, Reason::AgentIdTaken);
    let bad = crate::directory::samples::with_endpoint("e", "file:///etc/passwd");
    let refused = rig.registry.register(bad, "1".into()).await.unwrap_err();
    assert!(refused.reason == Reason::InvalidField && refused.message.contains("endpoint"), "{refused}");
}

#[actix_web::test]
async fn left_alone_it_looks_at_leases_itself() {
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    let clocks = Clocks {
        node: Arc::new(move || NodeTime(u64::try_from(start.elapsed().as_millis()).unwrap())),
        wall: Arc::new(|| WallTime(0)),
    };
    let (store, board) = (blackboard::store::memory::new(), Arc::new(Board::default()));
    let actor = RegistryActor::open(Config::default(), store, Arc::new(board.clone()), clocks).unwrap();
    let addr = actor.run();
    Registry::local(addr.clone()).register(card("a", &[]), "1".into()).await.unwrap();
    while board.ids().len() < 2 {
        assert!(start.elapsed() <= Duration::from_secs(17), "{:?}", board.ids());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(start.elapsed() >= Duration::from_secs(15));
}
