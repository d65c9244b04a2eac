//! What a seed says: who is there, what is asked of them, and what goes wrong when.

use crate::{brain::capability, random::Random};
use engine::EngineConfig;
use protocol::{
    bid::Eta,
    card::{BidTerms, Card, Skill},
    ids::AgentId,
    limits::Limits,
    patterns::{contract_net::Auction, delegation::Timeouts},
};
use std::{sync::Arc, time::Duration};

/// When faults end, milliseconds.
pub(crate) const HEAL: u64 = 60_000;
/// When whoever still waits for its owner is cancelled by it.
pub(crate) const IMPATIENT: u64 = HEAL + 30_000;
/// When every task has come to its end.
pub(crate) const QUIET: u64 = HEAL + 240_000;
/// When nothing is left that has its time: after the longest retention, and two sweeps.
pub(crate) const END: u64 = QUIET + 200_000;

/// How often what goes wrong, in thousandths.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    pub lost: u64,
    pub doubled: u64,
    pub answer_lost: u64,
    pub late: u64,
    pub longest_delay: u64,
    pub crash_at_commit: u64,
    pub crash_after_settling: u64,
    pub data_loss: u64,
    pub store_refuses: u64,
    pub slow_store: u64,
    pub slow_brains: u64,
}

/// What happens at a time of its own.
#[derive(Debug, Clone)]
pub(crate) enum Plan {
    Ask { to: usize, capability: Option<&'static str>, has_deadline: bool },
    Offer { to: usize },
    Announce { to: usize },
    Help { to: usize },
    Crash { agent: usize },
    Leave { agent: usize },
    Split { sides: u64, length: u64 },
    BoardAway { length: u64 },
    RegistryAway { length: u64 },
    Skew { agent: usize, by: i64 },
    Panic,
    Unwritten,
}

/// The faults of a seed, and everything that happens, in any order.
pub(crate) fn of(seed: u64, agents: usize) -> (Faults, Vec<(u64, Plan)>) {
    let mut random = Random::new(seed).fork(1);
    let some = |random: &mut Random, most: u64| if random.chance(600) { random.below(most) } else { 0 };
    let faults = Faults {
        lost: some(&mut random, 200),
        doubled: some(&mut random, 250),
        answer_lost: some(&mut random, 200),
        late: some(&mut random, 200),
        longest_delay: if random.chance(500) { 400 } else { 40 },
        crash_at_commit: some(&mut random, 12),
        crash_after_settling: some(&mut random, 12),
        data_loss: if random.chance(200) { 150 } else { 0 },
        store_refuses: some(&mut random, 150),
        slow_store: some(&mut random, 300),
        slow_brains: some(&mut random, 300),
    };
    let mut plan = Vec::new();
    let count = agents as u64;
    let agent = |random: &mut Random| usize::try_from(random.below(count)).unwrap_or(0);
    for _ in 0..random.between(6, 14) {
        let wanted = [Some("build"), Some("build"), Some("test"), Some("review"), Some("chore"), None];
        let capability = random.pick(&wanted).copied().flatten();
        let to = if random.chance(500) { agent(&mut random) % 2 } else { agent(&mut random) };
        let has_deadline = random.chance(150);
        plan.push((random.below(HEAL - 5_000), Plan::Ask { to, capability, has_deadline }));
    }
    for _ in 0..random.between(1, 4) {
        plan.push((random.between(3_000, HEAL - 5_000), Plan::Offer { to: agent(&mut random) }));
    }
    for _ in 0..random.between(0, 2) {
        plan.push((random.below(HEAL), Plan::Announce { to: agent(&mut random) }));
        plan.push((random.below(HEAL), Plan::Help { to: agent(&mut random) }));
    }
    for _ in 0..random.between(0, 5) {
        plan.push((random.below(HEAL), Plan::Crash { agent: agent(&mut random) }));
    }
    if random.chance(300) {
        plan.push((random.below(HEAL - 10_000), Plan::Leave { agent: agent(&mut random) }));
    }
    for _ in 0..random.between(0, 3) {
        let length = random.between(500, 20_000);
        plan.push((random.below(HEAL - 20_000), Plan::Split { sides: random.next(), length }));
    }
    if random.chance(300) {
        plan.push((random.below(30_000), Plan::BoardAway { length: random.between(1_000, 30_000) }));
    }
    if random.chance(300) {
        plan.push((random.below(30_000), Plan::RegistryAway { length: random.between(1_000, 30_000) }));
    }
    if random.chance(100) {
        plan.push((random.below(HEAL), Plan::Panic));
    }
    if random.chance(100) {
        plan.push((random.below(HEAL), Plan::Unwritten));
    }
    for agent in 0..agents {
        let most = if random.chance(150) { 40_000 } else { 6_000 };
        let by = i64::try_from(random.below(most)).unwrap_or(0) - i64::try_from(most / 2).unwrap_or(0);
        plan.push((0, Plan::Skew { agent, by }));
        if random.chance(100) {
            let step = i64::try_from(random.below(6_000)).unwrap_or(0) - 3_000;
            plan.push((random.below(HEAL), Plan::Skew { agent, by: by + step }));
        }
    }
    (faults, plan)
}

/// A little of everything, and no faults.
pub(crate) fn calm() -> (Faults, Vec<(u64, Plan)>) {
    let faults = Faults { longest_delay: 20, ..Faults::default() };
    let ask = |at, to, capability| (at, Plan::Ask { to, capability, has_deadline: false });
    let plan = vec![
        ask(2_000, 0, Some("build")),
        ask(2_500, 6, Some("test")),
        ask(9_000, 1, Some("review")),
        (4_000, Plan::Offer { to: 1 }),
        (5_000, Plan::Help { to: 0 }),
    ];
    (faults, plan)
}

/// Limits under which a run is short: the same order of sizes as the product's.
pub(crate) fn limits() -> Limits {
    Limits {
        message_life_ms: 60_000,
        dedup_ms: 75_000,
        keep_tasks_ms: 120_000,
        keep_journals_ms: 90_000,
        keep_artifacts_ms: 60_000,
        think_ms: 20_000,
        sweep_ms: 10_000,
        max_hops: 5,
        ..Limits::default()
    }
}

/// The agents: two managers, bidders, doers, helpers, and two that follow the board.
pub(crate) fn agents(count: usize) -> Vec<EngineConfig> {
    let limits = Arc::new(limits());
    let config = |at: usize| {
        let (role, skills, subscribe): (_, &[&str], &[&str]) = match at {
            0 => ("manager", &["orchestrate"], &[]),
            1 => ("manager", &[], &[]),
            2..=5 => ("bidder", &["build"], &[]),
            6 => ("doer", &["test"], &[]),
            7 => ("doer", &["review", "test"], &[]),
            8 | 9 => ("helper", &["advise"], &[]),
            10 => ("subscriber", &["build", "chore", "advise"], &["task.available", "help.needed"]),
            _ => ("subscriber", &["chore", "advise"], &["task.available", "help.needed"]),
        };
        let id = AgentId::parse(&format!("{role}-{at:02}")).unwrap_or_else(|_| unreachable!("an id"));
        let skill = |name: &&str| Skill {
            id: capability(name),
            name: String::new(),
            description: String::new(),
            tags: Vec::new(),
            examples: Vec::new(),
            output_modes: Vec::new(),
        };
        let card = Card {
            agent_id: id,
            description: String::new(),
            endpoint: format!("http://127.0.0.1:{}", 8_000 + at),
            version: String::new(),
            skills: skills.iter().map(skill).collect(),
            open: at == 0,
            subscribe: subscribe.iter().map(|kind| (*kind).to_owned()).collect(),
            terms: BidTerms { eta: Eta(1_000), max_parallel: 2, ..BidTerms::default() },
            limits: Limits::default(),
            waits_for: None,
        };
        EngineConfig {
            subscribe: card.subscribe.clone(),
            card: Arc::new(card),
            limits: limits.clone(),
            auction: Auction {
                bid_window_ms: 1_000,
                accept_ms: 4_000,
                lease_ms: 9_000,
                ..Auction::default()
            },
            timeouts: Timeouts { help: Duration::from_secs(15), delegate: Duration::from_secs(40) },
            is_direct: false,
        }
    };
    (0..count).map(config).collect()
}
