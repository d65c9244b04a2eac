//! What brains have used, as `GET /a2a/costs` says it, over the agents of the page.

use super::{elsewhere::Elsewhere, scope::ConsoleScope, task_list};
use crate::http::{
    node_state::{HostedAgent, NodeState},
    routes::costs::{costs_of, month_of, quotas, seen_requester},
};
use console::{
    location::ConsoleLocation,
    views::cost::{CostData, CostLine, QuotaUse},
};
use engine::{
    QuotaStatus,
    costs::{CostKey, CostRow},
};
use protocol::{
    problem::{Problem, Reason},
    quota::{Amount, QuotaLimits, QuotaPeriod},
    time::WallTime,
};
use serde_json::json;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    time::Duration,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The most days of a page: ten years.
const MAX_DAYS: u32 = 3_650;
/// The most tasks of each agent among which those are looked for that a quota holds back.
const MAX_HELD: usize = 100;

/// `days` before now.
pub(super) fn days_ago(now: WallTime, days: u32) -> WallTime {
    let millis = i64::try_from((DAY * days).as_millis()).unwrap_or(i64::MAX);
    WallTime(now.0.saturating_sub(millis))
}

fn begin(since: &str, now: WallTime) -> Result<WallTime, Problem> {
    let invalid =
        || Problem::new(Reason::InvalidField, "since: must be 7d, 30d or 90d").with("field", "since");
    match since {
        "" => WallTime::parse(&month_of(now)).map_err(|_| invalid()),
        days => days
            .strip_suffix('d')
            .and_then(|days| days.parse().ok())
            .filter(|days| (1..=MAX_DAYS).contains(days))
            .map(|days| days_ago(now, days))
            .ok_or_else(invalid),
    }
}

/// The sums of `agents` by `key`.
pub(super) async fn sums(
    scope: &ConsoleScope,
    node: &NodeState,
    agents: &[HostedAgent],
    (key, since): (CostKey, WallTime),
) -> Result<(WallTime, Vec<CostLine>), Problem> {
    let requester = seen_requester(&scope.by, scope.is_signed_in());
    let (mut sums, mut first) = (BTreeMap::<String, Amount>::new(), since);
    for local in agents {
        let (since, rows) = costs_of(node, local, key, since, requester.clone()).await?;
        first = since;
        for CostRow { key, amount } in rows {
            let sum = sums.entry(key).or_default();
            *sum = sum.plus(amount);
        }
    }
    Ok((first, sums.into_iter().map(|(key, amount)| CostLine { key, amount }).collect()))
}

/// What `agents` have used on each day since `since`.
pub(super) async fn days(
    scope: &ConsoleScope,
    node: &NodeState,
    agents: &[HostedAgent],
    since: WallTime,
) -> Result<Vec<CostLine>, Problem> {
    let (since, used) = sums(scope, node, agents, (CostKey::Day, since)).await?;
    let mut used: BTreeMap<String, Amount> = used.into_iter().map(|line| (line.key, line.amount)).collect();
    let (mut day, now) = (since, node.clock.wall());
    while day <= now {
        used.entry(QuotaPeriod::Day.window(day).label).or_default();
        day = QuotaPeriod::Day.window(day).ends;
    }
    Ok(used.into_iter().map(|(key, amount)| CostLine { key, amount }).collect())
}

/// The data of the page.
pub(super) async fn data(
    scope: &ConsoleScope,
    node: &NodeState,
    elsewhere: Option<&mut Elsewhere>,
    at: &ConsoleLocation,
) -> Result<CostData, Problem> {
    let kind = if at.kind.is_empty() { "agent" } else { &at.kind };
    let key: CostKey = serde_json::from_value(json!(kind)).map_err(|error| {
        Problem::new(Reason::InvalidField, format!("kind: {error}")).with("field", "kind")
    })?;
    let begin = begin(&at.since, node.clock.wall())?;
    let (since, mut lines) = sums(scope, node, &scope.agents, (key, begin)).await?;
    let mut days = days(scope, node, &scope.agents, begin).await?;
    let requester = seen_requester(&scope.by, scope.is_signed_in());
    let mut statuses = Vec::new();
    for local in &scope.agents {
        let of_agent = quotas(node, local, requester.as_ref()).await;
        statuses.extend(of_agent.into_iter().map(|status| (local.id.to_string(), status)));
    }
    if let Some(elsewhere) = elsewhere {
        for (card, answer) in elsewhere.costs(key, begin).await {
            add(&mut lines, answer.costs);
            let of_agent = answer.quotas.into_iter().map(|status| (card.agent_id.to_string(), status));
            statuses.extend(of_agent);
        }
        for (_, answer) in elsewhere.costs(CostKey::Day, begin).await {
            add(&mut days, answer.costs);
        }
    }
    let names: Vec<String> = statuses.iter().map(|(_, status)| status.quota.clone()).collect();
    let held = match names.is_empty() {
        true => Vec::new(),
        false => scope.read(move |scope| task_list::held_by(scope, &names, MAX_HELD)).await?,
    };
    Ok(CostData { since, lines, days, quotas: uses(statuses), held, sees_all: requester.is_none() })
}

/// Adds sums of another agent.
fn add(lines: &mut Vec<CostLine>, rows: Vec<CostRow>) {
    for CostRow { key, amount } in rows {
        match lines.iter_mut().find(|line| line.key == key) {
            Some(line) => line.amount = line.amount.plus(amount),
            None => lines.push(CostLine { key, amount }),
        }
    }
    lines.sort_by(|a, b| a.key.cmp(&b.key));
}

/// The quotas, the fullest first. One that agents share is one line: what they have used together, or more if one of them has heard
/// of more.
fn uses(statuses: Vec<(String, QuotaStatus)>) -> Vec<QuotaUse> {
    let mut merged: BTreeMap<(Option<String>, String), (QuotaStatus, Amount)> = BTreeMap::new();
    for (agent, status) in statuses {
        let heard = status.used_by_all.unwrap_or(status.used);
        let key = (status.used_by_all.is_none().then_some(agent), status.quota.clone());
        match merged.entry(key) {
            Entry::Vacant(free) => drop(free.insert((status, heard))),
            Entry::Occupied(known) => {
                let (known, all) = known.into_mut();
                known.used = known.used.plus(status.used);
                *all = all.at_least(heard).at_least(known.used);
            }
        }
    }
    let uses = merged.into_iter().map(|((agent, name), (status, used))| QuotaUse {
        agent,
        name,
        state: status.limits.level(used).word(),
        figures: status.limits.figures(used),
        share: share(&status.limits, used),
        opens: status.opens_at,
    });
    let mut uses: Vec<_> = uses.collect();
    uses.sort_by(|a, b| b.share.total_cmp(&a.share));
    uses
}

/// The largest share of a limit that is used.
fn share(limits: &QuotaLimits, used: Amount) -> f64 {
    let shares = [
        limits.tokens.map(|limit| used.tokens as f64 / limit.max(1) as f64),
        limits.cost.map(|limit| used.cost.micros() as f64 / limit.micros().max(1) as f64),
        limits.tasks.map(|limit| used.tasks as f64 / limit.max(1) as f64),
    ];
    shares.into_iter().flatten().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_begin_with_the_month_or_some_days_ago() {
        let now = WallTime::parse("2026-11-29T20:00:00Z").unwrap();
        let of = |since| begin(since, now).map(|at| at.to_string());
        assert!(
            of("").unwrap().starts_with("2026-11-01T00:00:00")
                && of("7d").unwrap().starts_with("2026-11-22T20")
        );
        assert!(["d", "-1d", "week"].into_iter().all(|bad| of(bad).is_err()));
    }

    #[test]
    fn a_shared_quota_is_one_line_with_its_largest_figures() {
        let status = |used: u64, all: Option<u64>| QuotaStatus {
            quota: "the quota per day".to_owned(),
            limits: QuotaLimits { tokens: Some(100), ..QuotaLimits::default() },
            used: Amount { tokens: used, ..Amount::default() },
            share: None,
            used_by_all: all.map(|tokens| Amount { tokens, ..Amount::default() }),
            requester: None,
            state: "open".to_owned(),
            opens_at: WallTime(0),
        };
        let of = |agent: &str, status| (agent.to_owned(), status);
        let shown =
            uses(vec![of("a", status(1, Some(40))), of("b", status(2, Some(60))), of("c", status(3, None))]);
        let together = uses(vec![of("a", status(30, Some(30))), of("b", status(50, Some(50)))]);
        assert_eq!((together[0].figures.as_str(), together[0].state), ("80 of 100 tokens", "near"));
        let shown: Vec<_> = shown.iter().map(|line| (line.agent.as_deref(), line.figures.as_str())).collect();
        assert_eq!(shown, [(None, "60 of 100 tokens"), (Some("c"), "3 of 100 tokens")]);
    }
}
