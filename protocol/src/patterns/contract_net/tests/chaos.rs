//! Any events in any order: one award at a time, one end, no effects after it.

use super::fixture::*;
use crate::{
    message::Payload,
    patterns::{
        TimerAt,
        contract_net::{Auction, ContractNetEffect, ContractNetLabel, ContractNetTimer},
    },
    principal::Principal,
};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;

const AGENTS: [&str; 4] = ["b-1", "b-2", "b-3", "stranger"];

/// What the world throws at the manager.
#[derive(Debug, Clone)]
enum Throw {
    Bid(usize, u32),
    NoBid(usize),
    Accept(usize, bool),
    Decline(usize, bool),
    Update(usize, bool, u64),
    Done(usize, bool, bool),
    Undelivered(usize),
    Stale(usize),
    Again,
    Tick,
    Cancel,
    ClaimLost,
}

fn throws() -> impl Strategy<Value = Vec<Throw>> {
    let who = 0..AGENTS.len();
    let throw = prop_oneof![
        4 => (who.clone(), 0..5_u32).prop_map(|(who, cost)| Throw::Bid(who, cost)),
        1 => who.clone().prop_map(Throw::NoBid),
        4 => (who.clone(), prop::bool::weighted(0.8)).prop_map(|(who, current)| Throw::Accept(who, current)),
        2 => (who.clone(), any::<bool>()).prop_map(|(who, current)| Throw::Decline(who, current)),
        4 => (who.clone(), prop::bool::weighted(0.8), 0..6_u64).prop_map(|(who, current, seq)| Throw::Update(who, current, seq)),
        2 => (who.clone(), any::<bool>(), any::<bool>()).prop_map(|(who, current, good)| Throw::Done(who, current, good)),
        1 => who.prop_map(Throw::Undelivered),
        2 => (0..4_usize).prop_map(Throw::Stale),
        4 => Just(Throw::Again),
        3 => Just(Throw::Tick),
        1 => prop::bool::weighted(0.1).prop_map(|rare| if rare { Throw::Cancel } else { Throw::Again }),
        1 => prop::bool::weighted(0.3).prop_map(|rare| if rare { Throw::ClaimLost } else { Throw::Tick }),
    ];
    prop::collection::vec(throw, 0..60)
}

/// The driver and the claims' store, which watch what the rule does.
struct World {
    fixture: ManagerFixture,
    timers: BTreeMap<ContractNetTimer, u64>,
    pending: Vec<EventKind>,
    held: Option<u64>,
    epochs: Vec<u64>,
    ends: usize,
}

impl World {
    fn new() -> Self {
        let candidates = AGENTS[..3].iter().map(|agent| candidate(agent)).collect();
        let fixture = ManagerFixture::new(Auction::default(), candidates);
        let mut world =
            Self { fixture, timers: BTreeMap::new(), pending: vec![], held: None, epochs: vec![], ends: 0 };
        world.give(EventKind::Started);
        world
    }

    /// One event, and what the driver does with what follows; with results of effects if it is not held up.
    fn give(&mut self, what: EventKind) -> Vec<ContractNetEffect> {
        let effects = self.fixture.deliver_only(what);
        if self.ends > 0 {
            assert!(effects.is_empty(), "after its end: {effects:?}");
        }
        for effect in &effects {
            match effect {
                ContractNetEffect::Claim { holder, .. } => {
                    assert_eq!(self.held, None, "two claims at once");
                    self.fixture.epoch += 1;
                    self.held = Some(self.fixture.epoch);
                    self.pending
                        .push(EventKind::Claimed { holder: holder.clone(), epoch: self.fixture.epoch });
                }
                ContractNetEffect::Release { epoch, .. } => {
                    assert_eq!(self.held, Some(*epoch), "another's claim was freed");
                    self.held = None;
                }
                ContractNetEffect::FindPeers { label, .. } => {
                    let candidates = AGENTS[..3].iter().map(|agent| candidate(agent)).collect();
                    self.pending.push(EventKind::PeersFound { label: *label, candidates });
                }
                ContractNetEffect::SetTimer { timer, when: TimerAt::Node(at) } => {
                    self.timers.insert(*timer, at.0);
                }
                ContractNetEffect::ClearTimer { timer } => drop(self.timers.remove(timer)),
                ContractNetEffect::Send(message) => {
                    if let Payload::Award(award) = &message.payload {
                        assert_eq!(self.held, Some(award.epoch), "an award without its claim");
                        assert!(self.epochs.last().is_none_or(|last| *last < award.epoch), "epochs grow");
                        self.epochs.push(award.epoch);
                    }
                }
                ContractNetEffect::Finish(_) => {
                    self.ends += 1;
                    self.timers.clear();
                }
                _ => {}
            }
        }
        effects
    }

    fn settle(&mut self) {
        while let Some(what) = self.pending.pop() {
            self.give(what.clone());
            let before = self.fixture.contract_net.clone();
            assert!(self.give(what).is_empty(), "a repeated result of an effect");
            assert_eq!(before, self.fixture.contract_net);
        }
    }

    fn tick(&mut self) -> bool {
        let Some((timer, at)) = self.timers.iter().min_by_key(|(_, at)| **at).map(|(name, at)| (*name, *at))
        else {
            return false;
        };
        self.timers.remove(&timer);
        self.fixture.now_ms = self.fixture.now_ms.max(at);
        self.give(timer_fired(timer));
        true
    }

    fn what(&self, throw: &Throw) -> Option<EventKind> {
        let current = self.epochs.last().copied().unwrap_or(1);
        let epoch = |is_current: &bool| if *is_current { current } else { current.saturating_sub(1) };
        Some(match throw {
            Throw::Bid(who, cost) => bid_received(AGENTS[*who], f64::from(*cost) / 3.0, "1min", 1.0),
            Throw::NoBid(who) => {
                message_received(AGENTS[*who], "no-bid", json!({ "taskId": TASK, "reason": "no" }))
            }
            Throw::Accept(who, is_current) => message_received(
                AGENTS[*who],
                "award-accept",
                json!({ "taskId": TASK, "epoch": epoch(is_current) }),
            ),
            Throw::Decline(who, is_current) => message_received(
                AGENTS[*who],
                "award-decline",
                json!({ "taskId": TASK, "epoch": epoch(is_current), "reason": "no" }),
            ),
            Throw::Update(who, is_current, seq) => message_received(
                AGENTS[*who],
                "task-update",
                json!({ "taskId": TASK, "epoch": epoch(is_current), "seq": seq,
                        "status": { "state": "TASK_STATE_WORKING", "message": "at it" } }),
            ),
            Throw::Done(who, is_current, good) => {
                task_completed(AGENTS[*who], epoch(is_current), if *good { "done" } else { "" })
            }
            Throw::Undelivered(who) => EventKind::Undelivered {
                label: ContractNetLabel::Award(current),
                to: agent_id(AGENTS[*who]),
                reason: "expired".into(),
                message: "gone".into(),
            },
            Throw::Stale(which) => timer_fired(
                [
                    ContractNetTimer::Bids,
                    ContractNetTimer::Round,
                    ContractNetTimer::Accept,
                    ContractNetTimer::Lease,
                ][*which],
            ),
            Throw::Cancel => EventKind::Cancelled { by: Principal::local_user(), reason: "enough".into() },
            Throw::Again | Throw::Tick | Throw::ClaimLost => return None,
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn one_award_at_a_time_one_end_and_nothing_after_it(throws in throws(), eager in any::<bool>()) {
        let mut world = World::new();
        let mut last = None;
        for throw in &throws {
            match throw {
                Throw::Tick => { world.tick(); }
                Throw::Again => if let Some(what) = last.clone() { world.give(what); },
                Throw::ClaimLost => {
                    let claiming = world.pending.iter().position(|what| matches!(what, EventKind::Claimed { .. }));
                    if let Some(place) = claiming {
                        world.pending.remove(place);
                        world.held = None;
                        world.give(EventKind::ClaimLost { holder: None });
                    }
                }
                other => {
                    last = world.what(other);
                    if let Some(what) = last.clone() { world.give(what); }
                }
            }
            if eager { world.settle(); }
        }
        for _ in 0..200 {
            world.settle();
            if !world.tick() { break; }
        }
        prop_assert_eq!(world.ends, 1, "it ends, once: {:?}", world.fixture.contract_net.record);
        prop_assert_eq!(world.held, None, "no claim is left behind");
        prop_assert!(world.fixture.contract_net.record.outcome.is_some());
    }

    #[test]
    fn a_repeated_message_changes_nothing_but_the_notes(throws in throws()) {
        let mut world = World::new();
        for throw in &throws {
            let Some(what) = world.what(throw) else { world.tick(); world.settle(); continue };
            world.give(what.clone());
            world.settle();
            let is_bid = matches!(throw, Throw::Bid(..) | Throw::NoBid(_) | Throw::Stale(_));
            let again = world.give(what);
            if !is_bid {
                prop_assert!(again.is_empty(), "{:?} again: {:?}", throw, again);
            }
        }
    }
}
