use super::{test_cards::card, *};
use crate::entry::{AgentQuery, CapabilityMatch, SearchOrder};
use proptest::prelude::*;
use protocol::{bid::Cost, card::BidTerms, ids::Capability};

fn empty() -> AgentDirectory {
    AgentDirectory::new(Config::default(), [], 0, NodeTime(0))
}

/// Registers and applies the change.
fn join(
    directory: &mut AgentDirectory,
    card: Arc<Card>,
    instance: &str,
    now: NodeTime,
) -> Result<u64, DirectoryError> {
    let decision = directory.register(card, instance)?;
    if let Some(change) = decision.change {
        directory.apply(change, now);
    }
    Ok(decision.incarnation)
}

fn beat(incarnation: u64) -> Heartbeat {
    Heartbeat::new(incarnation, 0, true)
}

/// Sweeps every second until `end`; returns when each agent died.
fn sweep_until(directory: &mut AgentDirectory, from: u64, end: u64) -> Vec<(u64, AgentId)> {
    let mut dead = Vec::new();
    for second in (from..=end).step_by(1_000) {
        if let Some(change) = directory.sweep(NodeTime(second)).change {
            dead.extend(directory.apply(change, NodeTime(second)).into_iter().map(|id| (second, id)));
        }
    }
    dead
}

#[test]
fn a_silent_agent_is_suspect_after_two_heartbeats_and_dead_within_seventeen_seconds() {
    let mut directory = empty();
    join(&mut directory, card("a", &["x"]), "1", NodeTime(0)).unwrap();
    let id = AgentId::parse("a").unwrap();
    sweep_until(&mut directory, 0, 9_000);
    assert_eq!(directory.get(&id, NodeTime(9_000)).unwrap().state, Presence::Alive);
    sweep_until(&mut directory, 10_000, 14_000);
    assert_eq!(directory.get(&id, NodeTime(14_000)).unwrap().state, Presence::Suspect);
    assert_eq!(sweep_until(&mut directory, 15_000, 17_000), [(15_000, id.clone())]);
    let now = NodeTime(17_000);
    assert_eq!(directory.get(&id, now).unwrap().state, Presence::Dead);
    assert!(directory.find(&AgentQuery::default(), now).is_empty());
    assert_eq!(directory.heartbeat(&id, beat(1), now), Err(DirectoryError::Unknown(id.clone())));
    assert_eq!(join(&mut directory, card("a", &["x"]), "1", now), Ok(2));
}

#[test]
fn an_agent_that_is_away_has_left_when_its_time_is_over_or_a_person_says_so() {
    let mut directory = empty();
    let id = |name: &str| AgentId::parse(name).unwrap();
    for name in ["a", "b", "c"] {
        let back = (name == "a").then_some(protocol::bid::Eta(30_000));
        let card = Arc::new(Card { comes_back_in: back, ..Arc::unwrap_or_clone(card(name, &[])) });
        let incarnation = join(&mut directory, card, "1", NodeTime(0)).unwrap();
        let reason = if name == "c" { Departure::Deregistered } else { Departure::Drained };
        let change = directory.deregister(&id(name), incarnation, reason, NodeTime(1_000)).unwrap().unwrap();
        directory.apply(change, NodeTime(1_000));
    }
    let states = |directory: &AgentDirectory, now| {
        ["a", "b", "c"].map(|name| directory.get(&id(name), NodeTime(now)).map(|entry| entry.state))
    };
    let (away, left) = (Some(Presence::Dead), Some(Presence::Departed));
    assert_eq!(states(&directory, 1_000), [away, away, left]);
    sweep_until(&mut directory, 2_000, 31_000);
    assert_eq!(
        states(&directory, 31_000),
        [left, away, left],
        "its card says 30 s; 2 min are meant if it does not"
    );
    let lapsed = |name: &str| directory.get(&id(name), NodeTime(31_000)).unwrap().has_lapsed;
    assert_eq!((lapsed("a"), lapsed("c")), (true, false), "one was away too long, the other left on purpose");
    let change = directory.forget(&id("b")).unwrap();
    assert!(change.events.is_empty());
    directory.apply(change, NodeTime(32_000));
    assert_eq!(
        states(&directory, 32_000),
        [left, left, left],
        "those who follow the registry see that it has left"
    );
    sweep_until(&mut directory, 33_000, 34_000);
    assert_eq!(states(&directory, 34_000), [left, None, left], "then it leaves the lists");
    join(&mut directory, card("d", &[]), "1", NodeTime(35_000)).unwrap();
    assert_eq!(directory.forget(&id("d")), Err(DirectoryError::Present(id("d"))));
    assert_eq!(directory.forget(&id("b")), Err(DirectoryError::Unknown(id("b"))));
}

#[test]
fn a_heartbeat_ends_suspicion() {
    let mut directory = empty();
    join(&mut directory, card("a", &[]), "1", NodeTime(0)).unwrap();
    sweep_until(&mut directory, 0, 12_000);
    let id = AgentId::parse("a").unwrap();
    assert_eq!(directory.heartbeat(&id, beat(1), NodeTime(12_000)), Ok(true));
    assert_eq!(directory.heartbeat(&id, beat(1), NodeTime(12_000)), Ok(false));
    assert_eq!(directory.get(&id, NodeTime(12_000)).unwrap().state, Presence::Alive);
}

#[test]
fn late_requests_of_a_superseded_process_change_nothing() {
    let mut directory = empty();
    assert_eq!(join(&mut directory, card("a", &[]), "old", NodeTime(0)), Ok(1));
    assert_eq!(join(&mut directory, card("a", &[]), "old", NodeTime(1)), Ok(1));
    let decision = directory.register(card("a", &[]), "new").unwrap();
    let change = decision.change.unwrap();
    let id = AgentId::parse("a").unwrap();
    let left = MembershipEvent::Left { id: id.clone(), incarnation: 1, reason: Departure::Superseded };
    assert_eq!(change.events.first(), Some(&left));
    directory.apply(change, NodeTime(2));
    let before = directory.clone();
    let stale = DirectoryError::Stale { id: id.clone(), current: 2 };
    assert_eq!(directory.heartbeat(&id, beat(1), NodeTime(3)), Err(stale.clone()));
    assert_eq!(directory.deregister(&id, 1, Departure::Deregistered, NodeTime(3)), Err(stale.clone()));
    assert_eq!(directory.register(card("a", &[]), "old").unwrap_err(), stale);
    assert_eq!(directory, before);
}

#[test]
fn after_a_long_gap_between_sweeps_every_agent_gets_a_full_lease() {
    let mut directory = empty();
    for n in 0..20 {
        join(&mut directory, card(&format!("a{n}"), &[]), "1", NodeTime(0)).unwrap();
    }
    sweep_until(&mut directory, 0, 5_000);
    assert!(directory.sweep(NodeTime(3_600_000)).change.is_none());
    assert!(sweep_until(&mut directory, 3_601_000, 3_616_000).is_empty());
    assert_eq!(sweep_until(&mut directory, 3_617_000, 3_617_000).len(), 3);
}

#[test]
fn a_registry_that_is_always_late_expires_who_is_not_heard_again() {
    let mut directory = empty();
    let id = |name: &str| AgentId::parse(name).unwrap();
    join(&mut directory, card("dead", &[]), "1", NodeTime(0)).unwrap();
    let heard = join(&mut directory, card("heard", &[]), "1", NodeTime(0)).unwrap();
    let mut expired = Vec::new();
    for at in (1..=4).map(|n| NodeTime(n * 20_000)) {
        let change = directory.sweep(at).change.unwrap_or_default();
        expired.extend(change.written.iter().map(|row| (at, row.card.agent_id.clone())));
        directory.apply(change, at);
        directory.heartbeat(&id("heard"), beat(heard), at).unwrap();
    }
    assert_eq!(expired, [(NodeTime(40_000), id("dead"))], "its lease is extended once");
}

#[test]
fn mass_expiry_is_throttled_and_reported() {
    let mut directory = empty();
    for n in 0..100 {
        join(&mut directory, card(&format!("a{n}"), &[]), "1", NodeTime(0)).unwrap();
    }
    let dead = sweep_until(&mut directory, 0, 60_000);
    let within = |from: u64, to: u64| dead.iter().filter(|(at, _)| (from..to).contains(at)).count();
    assert_eq!((within(0, 15_000), within(15_000, 30_000), within(30_000, 45_000)), (0, 15, 12));
    assert!(directory.stats().self_preserving);
}

#[test]
fn a_forgotten_agent_comes_back_above_its_old_incarnation() {
    let mut directory = empty();
    for instance in ["1", "2", "3"] {
        join(&mut directory, card("a", &["x"]), instance, NodeTime(0)).unwrap();
    }
    let change = directory
        .deregister(&AgentId::parse("a").unwrap(), 3, Departure::Deregistered, NodeTime(0))
        .unwrap()
        .unwrap();
    directory.apply(change, NodeTime(0));
    let day = 24 * 3_600_000;
    sweep_until(&mut directory, day, day);
    assert_eq!(directory.get(&AgentId::parse("a").unwrap(), NodeTime(day)), None);
    assert!(directory.gone_index.agents_with(&[], CapabilityMatch::Any).is_empty());
    assert_eq!(join(&mut directory, card("a", &[]), "4", NodeTime(day)), Ok(4));
}

#[test]
fn a_full_registry_forgets_the_departed_before_it_refuses() {
    let mut directory =
        AgentDirectory::new(Config { max_agents: 2, ..Config::default() }, [], 0, NodeTime(0));
    join(&mut directory, card("a", &[]), "1", NodeTime(0)).unwrap();
    join(&mut directory, card("b", &[]), "1", NodeTime(0)).unwrap();
    assert_eq!(join(&mut directory, card("c", &[]), "1", NodeTime(0)), Err(DirectoryError::Full(2)));
    let change = directory
        .deregister(&AgentId::parse("a").unwrap(), 1, Departure::Deregistered, NodeTime(0))
        .unwrap()
        .unwrap();
    directory.apply(change, NodeTime(0));
    assert_eq!(join(&mut directory, card("c", &[]), "1", NodeTime(0)), Ok(2));
}

#[test]
fn results_are_ordered_by_state_then_by_preference_then_by_id() {
    let mut directory = empty();
    let terms =
        |cost, max_parallel| BidTerms { cost: Cost::new(cost).unwrap(), max_parallel, ..BidTerms::default() };
    for (id, skills, cost, seen) in [
        ("d", ["x", "y"], 9.0, 5_000),
        ("c", ["x", "z"], 1.0, 5_000),
        ("b", ["x", "y"], 5.0, 5_000),
        ("a", ["x", "y"], 0.0, 0),
    ] {
        let card = Card { terms: terms(cost, 2), ..Arc::unwrap_or_clone(card(id, &skills)) };
        join(&mut directory, Arc::new(card), "1", NodeTime(seen)).unwrap();
    }
    let now = NodeTime(10_000);
    sweep_until(&mut directory, 0, 10_000);
    let busy = Heartbeat::new(1, 1, true);
    directory.heartbeat(&AgentId::parse("b").unwrap(), busy, NodeTime(9_000)).unwrap();
    let found = |capabilities: &[&str], matching, prefer| {
        let capabilities = capabilities.iter().map(|c| Capability::parse(c).unwrap()).collect();
        let query = AgentQuery { capabilities, matching, prefer, include_dead: false };
        directory.find(&query, now).iter().map(|e| e.id().to_string()).collect::<Vec<_>>().concat()
    };
    assert_eq!(found(&["x"], CapabilityMatch::Any, SearchOrder::None), "bcda");
    assert_eq!(found(&["x"], CapabilityMatch::Any, SearchOrder::LeastLoaded), "cdba");
    assert_eq!(found(&["x"], CapabilityMatch::Any, SearchOrder::Cheapest), "cbda");
    assert_eq!(found(&["z", "y"], CapabilityMatch::Any, SearchOrder::None), "bcda");
    assert_eq!(found(&["x", "y"], CapabilityMatch::All, SearchOrder::None), "bda");
    assert_eq!(found(&["x", "nothing"], CapabilityMatch::All, SearchOrder::None), "");
}

#[derive(Debug, Clone)]
enum Step {
    Register(u8, u8),
    Heartbeat(u8, u64),
    Leave(u8, u64),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0u8..30, 0u8..4).prop_map(|(id, instance)| Step::Register(id, instance)),
        4 => (0u8..30, 0u64..6).prop_map(|(id, incarnation)| Step::Heartbeat(id, incarnation)),
        1 => (0u8..30, 0u64..6).prop_map(|(id, incarnation)| Step::Leave(id, incarnation)),
        3 => (1u64..40).prop_map(Step::Wait),
    ]
}

fn live(directory: &AgentDirectory, now: NodeTime) -> BTreeMap<AgentId, u64> {
    directory.find(&AgentQuery::default(), now).into_iter().map(|e| (e.id().clone(), e.incarnation)).collect()
}

proptest! {
    #[test]
    fn incarnations_only_grow_and_the_expiry_throttle_holds(steps in proptest::collection::vec(step(), 1..120)) {
        let mut directory = AgentDirectory::new(Config { keep_departed_ms: 60_000, ..Config::default() }, [], 0, NodeTime(0));
        let mut now = NodeTime(0);
        let mut highest: BTreeMap<AgentId, u64> = BTreeMap::new();
        let mut expired: Vec<u64> = Vec::new();
        for step in steps {
            let before = live(&directory, now);
            match step {
                Step::Register(id, instance) => {
                    let card = card(&format!("a{id}"), &["x"]);
                    let agent = card.agent_id.clone();
                    if let Ok(incarnation) = join(&mut directory, card, &instance.to_string(), now) {
                        let old = highest.insert(agent.clone(), incarnation).unwrap_or(0);
                        prop_assert!(incarnation >= old, "{agent} went from {old} to {incarnation}");
                        prop_assert!(incarnation > old || before.contains_key(&agent), "a life was given twice");
                    }
                }
                Step::Heartbeat(id, incarnation) => {
                    let id = AgentId::parse(&format!("a{id}")).unwrap();
                    let unchanged = directory.clone();
                    if directory.heartbeat(&id, beat(incarnation), now).is_ok() {
                        prop_assert_eq!(before.get(&id), Some(&incarnation));
                    } else {
                        prop_assert_eq!(&directory, &unchanged);
                    }
                }
                Step::Leave(id, incarnation) => {
                    let id = AgentId::parse(&format!("a{id}")).unwrap();
                    let left = directory.deregister(&id, incarnation, Departure::Deregistered, now);
                    if let Ok(Some(change)) = left {
                        directory.apply(change, now);
                    }
                    let after = live(&directory, now);
                    if before.get(&id).is_some_and(|current| *current != incarnation) {
                        prop_assert_eq!(&after, &before, "an old holder's exit removed the new one");
                    }
                }
                Step::Wait(seconds) => for _ in 0..seconds {
                    now = NodeTime(now.0 + 1_000);
                    let live_before = live(&directory, now).len();
                    if let Some(change) = directory.sweep(now).change {
                        let dead = change.written.len();
                        prop_assert_eq!(dead, change.events.len());
                        directory.apply(change, now);
                        expired.extend(std::iter::repeat_n(now.0, dead));
                        let recent = expired.iter().filter(|at| now.0 - **at < 15_000).count();
                        let bound = ((live_before + recent - dead) * 15 / 100).max(1);
                        prop_assert!(recent <= bound, "{recent} of {live_before} expired within a lease");
                    }
                },
            }
            let index: Vec<_> = directory.agents.values().filter(|k| k.row.exit.is_none()).map(|k| k.row.card.agent_id.clone()).collect();
            prop_assert_eq!(index, live(&directory, now).into_keys().collect::<Vec<_>>());
        }
    }
}
