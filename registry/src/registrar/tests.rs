use super::*;
use crate::{
    client::Registry,
    directory::test_cards::card,
    entry::{AgentQuery, Heartbeat, Presence, RegistryEvent},
};
use protocol::{
    a2a::card_signature::SigningKey,
    card::Card,
    identity::{IdentityKey, KeyChange},
    ids::AgentId,
    problem::Reason,
    signal::Signal,
    signature::Secret,
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

/// A board that stores each signal once, unless it is unavailable or refuses signals.
#[derive(Default)]
pub(crate) struct FakeBoard {
    signals: std::sync::Mutex<Vec<Signal>>,
    refused: AtomicU64,
    away: AtomicBool,
    refuses: AtomicBool,
}

impl SignalPublisher for Arc<FakeBoard> {
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
            let mut signals = board.signals.lock().unwrap_or_else(PoisonError::into_inner);
            if signals.iter().all(|known| known.id != signal.id) {
                signals.push(signal);
            }
            Ok(())
        })
    }
}

impl FakeBoard {
    pub(crate) fn be_away(&self) {
        self.away.store(true, Ordering::SeqCst);
    }

    fn ids(&self) -> Vec<String> {
        self.signals.lock().unwrap().iter().map(|signal| signal.id.clone()).collect()
    }
}

/// Waits until `is_done` holds for what `observe` returns; panics with the last value after five seconds.
async fn until<T>(mut observe: impl FnMut() -> T, is_done: impl Fn(&T) -> bool) -> T
where
    T: std::fmt::Debug,
{
    let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
    loop {
        let now = observe();
        if is_done(&now) {
            return now;
        }
        assert!(tokio::time::Instant::now() < deadline, "still {now:?}");
        tokio::task::yield_now().await;
    }
}

/// The identity of `id`, with a seed of `byte`s.
pub(crate) fn identity(id: &str, byte: u8) -> IdentityKey {
    IdentityKey::new(AgentId::parse(id).unwrap(), Arc::new(SigningKey::from_seed(&[byte; 32])))
}

/// The keys of a registry that knows those of the agents of the tests.
pub(crate) fn keys() -> KeyRing {
    let keys = KeyRing::new(Secret::new(&[7; 32]).unwrap(), None);
    keys.set_own(identity("registry", 1));
    let numbered = (0..1_000).map(|number| format!("a-{number}"));
    for id in ["a", "b", "c"].map(str::to_owned).into_iter().chain(numbered) {
        keys.set_pinned(identity(&id, 1).public().clone(), 0);
    }
    keys
}

/// A registry whose clock and sweeps the test drives.
pub(crate) struct Rig {
    pub(crate) addr: Addr<RegistryActor>,
    pub(crate) registry: Registry,
    pub(crate) board: Arc<FakeBoard>,
    pub(crate) store: SharedStore,
    keys: KeyRing,
    clock: Arc<AtomicU64>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::over(store::memory::new(), Config { retry_ms: 1, retry_cap_ms: 1, ..Config::default() }, 0)
    }

    pub(crate) fn over(store: SharedStore, config: Config, now: u64) -> Self {
        Self::with_wall_clock(store, config, now, WallTime(0))
    }

    fn with_wall_clock(store: SharedStore, config: Config, now: u64, wall: WallTime) -> Self {
        let clock = Arc::new(AtomicU64::new(now));
        let node_clock = clock.clone();
        let clocks = Clocks {
            node: Arc::new(move || NodeTime(node_clock.load(Ordering::SeqCst))),
            wall: Arc::new(move || wall),
        };
        let board = Arc::new(FakeBoard::default());
        let keys = keys();
        let opened =
            RegistryActor::open(config, store.clone(), Arc::new(board.clone()), clocks, keys.clone());
        let actor = opened.unwrap();
        let addr = actor.without_sweep_timer().run();
        Self { registry: Registry::local(addr.clone()), addr, board, store, keys, clock }
    }

    /// A new actor over the same store; its clock continues from the old one.
    fn restarted(&self) -> Self {
        let config = Config { retry_ms: 1, retry_cap_ms: 1, ..Config::default() };
        Self::over(self.store.clone(), config, self.clock.load(Ordering::SeqCst))
    }

    /// Advances the clock by `seconds`, with a sweep each second.
    pub(crate) async fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            self.pass_one().await.unwrap();
        }
    }

    /// Advances the clock by a second and sweeps.
    pub(crate) async fn pass_one(&self) -> Result<(), Problem> {
        self.clock.fetch_add(1_000, Ordering::SeqCst);
        self.addr.send(SweepLeases).await.unwrap()
    }

    pub(crate) async fn join(&self, id: &str, instance: &str) -> Result<u64, Problem> {
        self.join_at(id, instance, "http://127.0.0.1:8001").await
    }

    /// The same at `endpoint`.
    pub(crate) async fn join_at(&self, id: &str, instance: &str, endpoint: &str) -> Result<u64, Problem> {
        self.keys.set_pinned(identity(id, 1).public().clone(), 0);
        let card = Card { endpoint: endpoint.into(), ..Arc::unwrap_or_clone(card(id, &["x"])) };
        let registered = self.registry.register(Arc::new(card), instance.into()).await?;
        Ok(registered.incarnation)
    }

    pub(crate) async fn beat(&self, id: &str, incarnation: u64) -> Result<(), Reason> {
        let heartbeat = Heartbeat::new(incarnation, 0, true);
        self.registry.heartbeat(&agent(id), heartbeat).await.map_err(|problem| problem.reason)
    }

    pub(crate) async fn live(&self) -> Vec<String> {
        let found = self.registry.find(&AgentQuery::default()).await.unwrap();
        found.iter().map(|entry| format!("{} {:?}", entry.id(), entry.state)).collect()
    }

    /// The ids of the board's signals, once there are at least `count`.
    pub(crate) async fn signals(&self, count: usize) -> Vec<String> {
        until(|| self.board.ids(), |ids| ids.len() >= count).await
    }
}

fn agent(id: &str) -> AgentId {
    AgentId::parse(id).unwrap()
}

#[actix_web::test]
async fn joins_and_exits_are_signalled_with_their_reasons() {
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
    assert_eq!(rig.registry.get(&agent("a")).await.unwrap().state, Presence::Departed);

    let signals = rig.signals(4).await;
    assert_eq!(signals, ["agent.joined:a:1", "agent.left:a:1", "agent.joined:a:2", "agent.left:a:2"]);
    let reasons: Vec<_> =
        rig.board.signals.lock().unwrap().iter().map(|s| s.refs.get("reason").cloned()).collect();
    assert_eq!(reasons, [None, Some("superseded".into()), None, Some("deregistered".into())]);
    until(|| rows::count_waiting_signals(&rig.store), |count| *count == 0).await;
}

#[actix_web::test]
async fn an_expired_agent_that_heartbeats_is_refused_and_can_register_again() {
    let rig = Rig::new();
    rig.join("a", "1").await.unwrap();
    rig.pass(11).await;
    assert_eq!(rig.live().await, ["a Suspect"]);
    rig.pass(6).await;
    assert_eq!(rig.live().await, [""; 0]);
    assert_eq!(rig.beat("a", 1).await, Err(Reason::AgentNotFound));
    assert_eq!(rig.join("a", "1").await, Ok(2));
    assert_eq!(rig.beat("a", 2).await, Ok(()));
    let signals = rig.signals(3).await;
    assert_eq!(signals, ["agent.joined:a:1", "agent.left:a:1", "agent.joined:a:2"]);
}

#[actix_web::test]
async fn a_restart_keeps_incarnations_and_expires_no_agent_in_the_grace_period() {
    let rig = Rig::new();
    for n in 0..20 {
        rig.join(&format!("a{n}"), "1").await.unwrap();
    }
    rig.join("a0", "2").await.unwrap();
    rig.signals(22).await;
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
    let signals = again.signals(5).await;
    let expired = signals.iter().filter(|id| id.ends_with(":1")).count();
    assert_eq!((signals.len(), expired), (5, 3), "{signals:?}");
    assert!(again.addr.send(GetRegistryState).await.unwrap().agents.self_preserving);
}

#[actix_web::test]
async fn a_registry_that_lost_its_data_reuses_no_incarnation() {
    let fresh = |wall| Rig::with_wall_clock(store::memory::new(), Config::default(), 0, WallTime(wall));
    let before = fresh(1_000);
    let old = before.join("a", "old").await.unwrap();
    let after = fresh(2_000);
    let new = after.join("a", "new").await.unwrap();
    assert!(new > old, "{old} {new}");
    assert_ne!(before.signals(1).await, after.signals(1).await, "the board stores one signal per id");
    let late = after.registry.deregister(&agent("a"), old).await.unwrap_err();
    assert_eq!(late.reason, Reason::StaleIncarnation, "{late}");
    assert_eq!(after.live().await.len(), 1, "the old process cannot deregister the new one");
}

#[actix_web::test]
async fn signals_wait_in_the_store_while_the_board_is_unavailable() {
    let rig = Rig::new();
    rig.board.away.store(true, Ordering::SeqCst);
    rig.join("a", "1").await.unwrap();
    rig.join("b", "1").await.unwrap();
    until(|| rig.board.refused.load(Ordering::SeqCst), |count| *count > 1).await;
    assert_eq!(rig.addr.send(GetRegistryState).await.unwrap().signals_waiting, 2);
    let again = rig.restarted();
    assert_eq!(again.signals(2).await, ["agent.joined:a:1", "agent.joined:b:1"]);
    rig.board.away.store(false, Ordering::SeqCst);
}

#[actix_web::test]
async fn a_signal_that_the_board_refuses_for_good_does_not_block_others() {
    let rig = Rig::new();
    rig.board.refuses.store(true, Ordering::SeqCst);
    rig.join("a", "1").await.unwrap();
    until(|| rows::count_waiting_signals(&rig.store), |count| *count == 0).await;
    rig.board.refuses.store(false, Ordering::SeqCst);
    rig.join("b", "1").await.unwrap();
    assert_eq!(rig.signals(1).await, ["agent.joined:b:1"]);
}

#[actix_web::test]
async fn a_heartbeat_writes_nothing_and_racing_processes_get_different_incarnations() {
    let rig = Rig::new();
    let (a, b, c) = tokio::join!(rig.join("a", "1"), rig.join("a", "2"), rig.join("a", "3"));
    let mut incarnations = [a.unwrap(), b.unwrap(), c.unwrap()];
    incarnations.sort_unstable();
    assert_eq!(incarnations, [1, 2, 3]);
    rig.signals(5).await;
    until(|| rows::count_waiting_signals(&rig.store), |count| *count == 0).await;
    let head = rig.store.head();
    for _ in 0..10 {
        rig.beat("a", 3).await.unwrap();
    }
    assert_eq!(rig.store.head(), head);
}

#[actix_web::test]
async fn a_watch_starts_with_a_snapshot_then_changes_and_a_new_snapshot_after_a_lag() {
    let config = Config { max_watch_lag: 4, ..Config::default() };
    let rig = Rig::over(store::memory::new(), config, 0);
    rig.join("a", "1").await.unwrap();
    let mut watch = rig.registry.watch();
    let RegistryEvent::Snapshot(all) = watch.next().await.unwrap() else { panic!("no snapshot") };
    assert_eq!(all.len(), 1);
    rig.join("b", "1").await.unwrap();
    let RegistryEvent::Change(entry) = watch.next().await.unwrap() else { panic!("no change") };
    assert_eq!((entry.id().as_str(), entry.state), ("b", Presence::Alive));
    for running in 1..=9 {
        let heartbeat = Heartbeat::new(1, running, running < 9);
        rig.registry.heartbeat(&agent("a"), heartbeat).await.unwrap();
    }
    let RegistryEvent::Snapshot(all) = watch.next().await.unwrap() else { panic!("a gap was hidden") };
    assert_eq!((all.len(), all.last().map(|a| (a.running, a.accepting))), (2, Some((9, false))));
}

#[actix_web::test]
async fn counts_of_messages_are_told_to_the_person_and_wake_nobody() {
    let rig = Rig::new();
    rig.join("a", "1").await.unwrap();
    let mut watch = rig.registry.watch();
    watch.next().await.unwrap();
    let beat = |running| {
        let sent = (1..=40).map(|count| (agent(&format!("p{count}")), count)).collect();
        let heartbeat = Heartbeat { sent, ..Heartbeat::new(1, running, true) };
        async { rig.registry.heartbeat(&agent("a"), heartbeat).await.unwrap() }
    };
    beat(0).await;
    let by_address = Caller { proof: protocol::principal::SenderProof::Address, ..caller("user:local") };
    for (by, expected) in [
        (caller("service:registry"), Some(9)),
        (caller("user:local"), Some(9)),
        (by_address, None),
        (caller("user:alice"), None),
        (caller("agent:a"), None),
        (caller("brain:a"), None),
    ] {
        let one = Call { by: by.clone(), operation: GetAgent { id: agent("a") } };
        let one = rig.addr.send(one).await.unwrap().unwrap();
        let all = rig.addr.send(Call { by: by.clone(), operation: AgentQuery::default() }).await.unwrap();
        assert_eq!(all.unwrap().agents.first(), Some(&one));
        assert_eq!(one.sent.values().min().copied(), expected, "{by:?}: the 32 largest");
    }
    beat(3).await;
    let RegistryEvent::Change(entry) = watch.next().await.unwrap() else { panic!("no change") };
    assert_eq!((entry.running, entry.sent.len()), (3, 0), "the change of the counts was no event");
    rig.registry.deregister(&agent("a"), 1).await.unwrap();
    assert_eq!(rig.registry.get(&agent("a")).await.unwrap().sent.len(), 0);
}

fn caller(text: &str) -> Caller {
    let principal = text.to_owned().try_into().unwrap();
    Caller { principal, proof: protocol::principal::SenderProof::Credential, root: None }
}

#[actix_web::test]
async fn an_agent_cannot_register_or_deregister_another() {
    let rig = Rig::new();
    rig.join("a", "1").await.unwrap();
    let register = |by: &str, id: &str| {
        let request =
            crate::registration_request::RegistrationRequest { card: card(id, &[]), instance: "i".into() };
        rig.addr.send(Call { by: caller(by), operation: request })
    };
    let refused = [("agent:b", "a", Reason::AgentIdTaken), ("agent:b", "c", Reason::SenderNotProven)];
    for (by, id, reason) in refused.into_iter().chain([("user:local", "d", Reason::Forbidden)]) {
        assert_eq!(register(by, id).await.unwrap().unwrap_err().reason, reason);
    }
    let operation = Deregister { id: agent("a"), incarnation: 1, reason: None };
    let stolen = rig.addr.send(Call { by: caller("agent:b"), operation }).await.unwrap();
    assert_eq!(stolen.unwrap_err().reason, Reason::AgentIdTaken);
    let bad = crate::directory::test_cards::card_with_endpoint("e", "file:///etc/passwd");
    let refused = rig.registry.register(bad, "1".into()).await.unwrap_err();
    assert!(refused.reason == Reason::InvalidField && refused.message.contains("endpoint"), "{refused}");
}

#[actix_web::test]
async fn leases_are_checked_on_a_timer() {
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    let clocks = Clocks {
        node: Arc::new(move || NodeTime(u64::try_from(start.elapsed().as_millis()).unwrap())),
        wall: Arc::new(|| WallTime(0)),
    };
    let (store, board) = (store::memory::new(), Arc::new(FakeBoard::default()));
    let actor =
        RegistryActor::open(Config::default(), store, Arc::new(board.clone()), clocks, keys()).unwrap();
    let addr = actor.run();
    Registry::local(addr.clone()).register(card("a", &[]), "1".into()).await.unwrap();
    while board.ids().len() < 2 {
        assert!(start.elapsed() <= Duration::from_secs(17), "{:?}", board.ids());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(start.elapsed() >= Duration::from_secs(15));
}

#[actix_web::test]
async fn a_pinned_key_outlives_the_row_of_its_agent() {
    let config = Config { keep_departed_ms: 1_000, ..Config::default() };
    let rig = Rig::over(store::memory::new(), config, 0);
    let id = agent("a");
    rig.join("a", "1").await.unwrap();
    let certificate = rig.registry.get(&id).await.unwrap().key.unwrap();
    assert!(certificate.verify(identity("registry", 1).public()).unwrap().is_same(identity("a", 1).public()));
    let writes = rig.store.read(&store::Filter::Below(store::Key::new(&[OWNER])), 0, 10).unwrap();
    let keys: Vec<_> = writes.iter().map(|record| record.key.to_string()).collect();
    assert!(
        keys.contains(&"registry.key.a".to_owned()) && keys.contains(&"registry.agent.a".to_owned()),
        "{keys:?}"
    );

    rig.registry.deregister(&id, 1).await.unwrap();
    rig.pass(3).await;
    assert!(rig.registry.get(&id).await.is_err(), "the row is forgotten");
    let rig = rig.restarted();
    let registry = SupervisedRegistry::from(rig.addr.clone());
    let refused = registry.admit_key(identity("a", 2).public().clone()).await.unwrap_err();
    assert_eq!(refused.reason, Reason::KeyMismatch, "the name is not");
    registry.admit_key(identity("a", 1).public().clone()).await.unwrap();

    let change = KeyChange::new(&identity("a", 1), identity("a", 3).public());
    let certificate = rig.registry.change_key(&id, change.clone()).await.unwrap();
    assert!(certificate.claimed().is_same(identity("a", 3).public()));
    assert_eq!(rig.registry.change_key(&id, change).await.unwrap(), certificate, "a repeat");
    registry.reset_key(id.clone()).await.unwrap();
    registry.admit_key(identity("a", 2).public().clone()).await.unwrap();
    let grant = rig.registry.register(card("a", &[]), "3".into()).await.unwrap();
    let latest = grant.certificate.unwrap();
    assert!(latest.claimed().is_same(identity("a", 2).public()) && latest.number() > certificate.number());
}

#[actix_web::test]
async fn after_a_reset_a_running_agent_registers_with_a_new_key_only() {
    let rig = Rig::new();
    let incarnation = rig.join("a", "1").await.unwrap();
    assert_eq!(rig.beat("a", incarnation).await, Ok(()));
    SupervisedRegistry::from(rig.addr.clone()).reset_key(agent("a")).await.unwrap();
    assert_eq!(rig.registry.get(&agent("a")).await.unwrap().key, None);
    assert_eq!(rig.beat("a", incarnation).await, Err(Reason::AgentNotFound));
    let refused = rig.join("a", "1").await.map_err(|problem| problem.reason);
    assert_eq!(refused, Err(Reason::KeyReset), "the key that was reset");
    let new_key = identity("a", 2).public().clone();
    SupervisedRegistry::from(rig.addr.clone()).admit_key(new_key.clone()).await.unwrap();
    rig.keys.set_pinned(new_key, 1);
    let again = rig.registry.register(card("a", &["x"]), "1".into()).await.map(|grant| grant.incarnation);
    assert_eq!(again, Ok(incarnation), "the same process");
    assert_eq!(rig.beat("a", incarnation).await, Ok(()));
}
