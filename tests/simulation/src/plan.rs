//! What a seed plans: the agents, the requests of users, and the faults with their times.

use crate::{brain::capability, random::Random};
use engine::{
    EngineConfig,
    settings::{AgentSettings, BidSettings, BidSource, Openness},
};
use patterns::{contract_net::Auction, work::WorkLimits};
use protocol::{acceptance::AcceptanceRule, bid::Eta, card::Skill, ids::AgentId, limits::Limits};
use std::{sync::Arc, time::Duration};

/// When faults end, milliseconds.
pub(crate) const HEAL_AT: u64 = 60_000;
/// When users cancel the tasks that still wait for them.
pub(crate) const CANCEL_AT: u64 = HEAL_AT + 30_000;
/// Until when one question may stay unanswered: every journal record of a conversation that ended in time has expired.
pub(crate) const LEFT_OPEN_UNTIL: u64 = HEAL_AT + 150_000;
/// When every task has ended.
pub(crate) const QUIET_AT: u64 = HEAL_AT + 340_000;
/// The tokens that every third task of a user may use.
pub(crate) const BUDGET: u64 = 1_000;
/// When every record has expired: after the longest retention and two sweeps.
pub(crate) const END_AT: u64 = QUIET_AT + 200_000;

/// How often each fault happens, in thousandths; `max_delay_ms` is in milliseconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct FaultRates {
    pub message_loss: u64,
    pub duplication: u64,
    pub reply_loss: u64,
    pub long_delay: u64,
    pub max_delay_ms: u64,
    pub crash_at_commit: u64,
    pub crash_after_commit: u64,
    pub data_loss: u64,
    pub store_refusal: u64,
    pub slow_store: u64,
    pub slow_brains: u64,
}

/// An event that is planned at a time of its own.
#[derive(Debug, Clone)]
pub(crate) enum PlannedEvent {
    /// A user sends a task.
    Task {
        to: usize,
        capability: Option<&'static str>,
        has_deadline: bool,
    },
    /// A user has an agent host a session.
    Session {
        to: usize,
    },
    /// A user sends many tasks at once, more than all agents with the capability can do at a time.
    Burst {
        to: usize,
        tasks: usize,
    },
    /// A user has an agent offer an open task on the board.
    OpenTask {
        to: usize,
    },
    /// A user has an agent publish a signal.
    Announcement {
        to: usize,
    },
    /// A user has an agent ask on the board for help.
    HelpNeeded {
        to: usize,
    },
    /// A user asks a question.
    HelpRequest {
        to: usize,
    },
    Crash {
        agent: usize,
    },
    /// An agent drains and leaves.
    Drain {
        agent: usize,
    },
    /// The network is partitioned; `sides` has a bit for each agent, the board and the registry.
    Partition {
        sides: u64,
        length: u64,
    },
    /// The board does not answer.
    BoardOutage {
        length: u64,
    },
    /// The board does not answer, and then has lost its signals.
    BoardLoss {
        length: u64,
    },
    /// The registry does not answer.
    RegistryOutage {
        length: u64,
    },
    /// An agent's wall clock is off by so many milliseconds.
    ClockSkew {
        agent: usize,
        by: i64,
    },
    /// The next turn that ends panics.
    TurnPanic,
    /// The next rule panics.
    RulePanic,
}

/// The fault rates of a seed and its planned events, in any order.
pub(crate) fn of(seed: u64, agents: usize) -> (FaultRates, Vec<(u64, PlannedEvent)>) {
    let mut random = Random::new(seed).fork(1);
    let rate = |random: &mut Random, most: u64| if random.chance(600) { random.below(most) } else { 0 };
    let faults = FaultRates {
        message_loss: rate(&mut random, 200),
        duplication: rate(&mut random, 250),
        reply_loss: rate(&mut random, 200),
        long_delay: rate(&mut random, 200),
        max_delay_ms: if random.chance(500) { 400 } else { 40 },
        crash_at_commit: rate(&mut random, 12),
        crash_after_commit: rate(&mut random, 12),
        data_loss: if random.chance(200) { 150 } else { 0 },
        store_refusal: rate(&mut random, 150),
        slow_store: rate(&mut random, 400),
        slow_brains: rate(&mut random, 300),
    };
    let mut plan = Vec::new();
    let count = agents as u64;
    let agent = |random: &mut Random| usize::try_from(random.below(count)).unwrap_or(0);
    for _ in 0..random.between(6, 14) {
        let capabilities = [Some("build"), Some("build"), Some("test"), Some("review"), Some("chore"), None];
        let capability = random.pick(&capabilities).copied().flatten();
        let to = if random.chance(500) { agent(&mut random) % 2 } else { agent(&mut random) };
        let has_deadline = random.chance(150);
        plan.push((random.below(HEAL_AT - 5_000), PlannedEvent::Task { to, capability, has_deadline }));
    }
    for _ in 0..random.between(1, 4) {
        plan.push((
            random.between(3_000, HEAL_AT - 5_000),
            PlannedEvent::OpenTask { to: agent(&mut random) },
        ));
    }
    for _ in 0..random.between(0, 2) {
        plan.push((random.below(HEAL_AT), PlannedEvent::Announcement { to: agent(&mut random) }));
        plan.push((random.below(HEAL_AT), PlannedEvent::HelpRequest { to: agent(&mut random) }));
    }
    for _ in 0..random.between(0, 5) {
        plan.push((random.below(HEAL_AT), PlannedEvent::Crash { agent: agent(&mut random) }));
    }
    if random.chance(300) {
        plan.push((random.below(HEAL_AT - 10_000), PlannedEvent::Drain { agent: agent(&mut random) }));
    }
    for _ in 0..random.between(0, 3) {
        let length = random.between(500, 20_000);
        plan.push((random.below(HEAL_AT - 20_000), PlannedEvent::Partition { sides: random.next(), length }));
    }
    if random.chance(300) {
        plan.push((
            random.below(30_000),
            PlannedEvent::BoardOutage { length: random.between(1_000, 30_000) },
        ));
    } else if random.chance(100) {
        // Until the world heals.
        plan.push((random.between(5_000, 15_000), PlannedEvent::BoardOutage { length: HEAL_AT }));
    }
    if random.chance(300) {
        plan.push((
            random.below(30_000),
            PlannedEvent::RegistryOutage { length: random.between(1_000, 30_000) },
        ));
    }
    // Both in one conversation would park it until a restart that may never come.
    if random.chance(100) {
        plan.push((random.below(HEAL_AT), PlannedEvent::TurnPanic));
    } else if random.chance(100) {
        plan.push((random.below(HEAL_AT), PlannedEvent::RulePanic));
    }
    lose_board(&mut Random::new(seed).fork(4), agents, &mut plan);
    let mut of_sessions = Random::new(seed).fork(5);
    if of_sessions.chance(350) {
        let to = agent(&mut of_sessions) % 3;
        plan.push((of_sessions.between(3_000, HEAL_AT - 10_000), PlannedEvent::Session { to }));
    }
    for agent in 0..agents {
        let most = if random.chance(150) { 40_000 } else { 6_000 };
        let by = i64::try_from(random.below(most)).unwrap_or(0) - i64::try_from(most / 2).unwrap_or(0);
        plan.push((0, PlannedEvent::ClockSkew { agent, by }));
        if random.chance(100) {
            let step = i64::try_from(random.below(6_000)).unwrap_or(0) - 3_000;
            plan.push((random.below(HEAL_AT), PlannedEvent::ClockSkew { agent, by: by + step }));
        }
    }
    if random.chance(400) {
        let at = random.between(5_000, HEAL_AT + 40_000);
        let tasks = usize::try_from(random.between(6, 12)).unwrap_or(6);
        plan.push((at, PlannedEvent::Burst { to: agent(&mut random) % 2, tasks }));
    }
    (faults, plan)
}

/// In some seeds, has the board lose its signals while others ask there for help. Without open tasks: the board forgets
/// its claims, too.
fn lose_board(random: &mut Random, agents: usize, plan: &mut Vec<(u64, PlannedEvent)>) {
    if !random.chance(120) {
        return;
    }
    plan.retain(|(_, planned)| {
        !matches!(planned, PlannedEvent::OpenTask { .. } | PlannedEvent::BoardOutage { .. })
    });
    let at = random.between(8_000, 20_000);
    let length = random.between(1_000, 20_000);
    plan.push((at, PlannedEvent::BoardLoss { length }));
    for _ in 0..8 {
        let to = usize::try_from(random.below(agents as u64)).unwrap_or(0);
        plan.push((random.between(1_000, at + length), PlannedEvent::HelpNeeded { to }));
    }
}

/// One of each kind of request, and no faults.
pub(crate) fn calm() -> (FaultRates, Vec<(u64, PlannedEvent)>) {
    let faults = FaultRates { max_delay_ms: 20, ..FaultRates::default() };
    let ask = |at, to, capability| (at, PlannedEvent::Task { to, capability, has_deadline: false });
    let plan = vec![
        ask(2_000, 0, Some("build")),
        ask(2_500, 6, Some("test")),
        ask(9_000, 1, Some("review")),
        (3_000, PlannedEvent::Session { to: 1 }),
        (4_000, PlannedEvent::OpenTask { to: 1 }),
        (5_000, PlannedEvent::HelpRequest { to: 0 }),
    ];
    (faults, plan)
}

/// Limits that keep a run short, with the same order of sizes as the defaults.
/// The longest that a turn may take, milliseconds.
pub(crate) const MAX_TURN: u64 = 20_000;

pub(crate) fn limits() -> Limits {
    Limits {
        message_life_ms: 60_000,
        dedup_ms: 75_000,
        keep_tasks_ms: 120_000,
        keep_contexts_ms: 60_000,
        keep_journals_ms: 90_000,
        keep_artifacts_ms: 60_000,
        sweep_ms: 10_000,
        max_hops: 5,
        ..Limits::default()
    }
}

/// Managers and a doer check results before they count: with checks of their own, by reviewers, or both.
pub(crate) fn demand_acceptance(agents: &mut [EngineConfig]) {
    let rule = |names: &[&str], is_checked_here, reviewer: Option<&str>| AcceptanceRule {
        capabilities: names.iter().map(|name| capability(name)).collect(),
        is_checked_here,
        reviewer: reviewer.map(capability),
    };
    let rules = [
        (0, vec![rule(&[], true, None)]),
        (1, vec![rule(&["build"], true, Some("review")), rule(&["test"], false, Some("review"))]),
        (2, vec![rule(&["build"], true, None)]),
        (10, vec![rule(&["chore"], true, None)]),
    ];
    for (at, rules) in rules {
        if let Some(agent) = agents.get_mut(at) {
            agent.acceptance = rules.into();
        }
    }
}

/// How long a brain has for a bid.
const BID_TIME: Eta = Eta(600);

/// The agents: two managers, bidders, doers, helpers, and two subscribers of the board.
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
        // One bidder of four has computed bids.
        let ask = (2..=4).contains(&at).then_some(BidSource::Brain);
        let settings = AgentSettings {
            skills: skills.iter().map(skill).collect(),
            open: if at == 0 { Openness::Open } else { Openness::Closed },
            subscribe: subscribe.iter().map(|kind| (*kind).into()).collect(),
            bid: BidSettings {
                eta: Some(Eta(1_000)),
                max_parallel: Some(2),
                ask,
                within: Some(BID_TIME),
                ..BidSettings::default()
            },
            ..AgentSettings::default()
        };
        let endpoint = format!("http://127.0.0.1:{}", 8_000 + at);
        EngineConfig {
            card: Arc::new(settings.card(id, endpoint, Limits::default())),
            settings: Arc::new(settings),
            limits: limits.clone(),
            auction: Auction {
                bid_window_ms: 1_000,
                accept_ms: 4_000,
                // Of the claims on open tasks: about as long as the work.
                lease_ms: if role == "subscriber" { 3_000 } else { 9_000 },
                ..Auction::default()
            },
            work_limits: WorkLimits {
                help: Duration::from_secs(15),
                delegate: Duration::from_secs(40),
                ..WorkLimits::default()
            },
            mesh_quotas: Default::default(),
            acceptance: Default::default(),
        }
    };
    (0..count).map(config).collect()
}
