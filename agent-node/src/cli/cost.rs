//! `mesh cost`: what the brains of agents have used, and how near quotas are.

use super::{
    CommonArgs,
    client::{MeshClient, encoded},
    endpoints::{self, AtArgs},
    exit::{CliError, Exit},
    output,
    past_time::past_time,
};
use clap::Args;
use comfy_table::Cell;
use engine::costs::CostRow;
use protocol::{
    quota::{Amount, QuotaLimits},
    routes,
    time::WallTime,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Debug, Args)]
pub(super) struct CostArgs {
    /// What to sum up by: the agent whose brain has used it, the capability, who asked first, the task from which all others of its
    /// run come, or the day.
    #[arg(long, value_name = "WHAT", default_value = "agent", value_parser = ["agent", "capability", "requester", "task", "day"])]
    by: String,
    /// From when on: a time such as 2026-11-01T00:00:00Z, or a duration until now such as 7d; the first of the month if absent.
    #[arg(long, value_name = "TIME", value_parser = past_time)]
    since: Option<WallTime>,
    /// Show the quotas: how much of each is used, and when it opens again.
    #[arg(long, conflicts_with_all = ["by", "since"])]
    quotas: bool,
    #[command(flatten)]
    at: AtArgs,
}

/// What an agent answers about costs.
#[derive(Debug, Deserialize)]
pub(super) struct AgentCosts {
    pub(super) costs: Vec<CostRow>,
    #[serde(default)]
    quotas: Vec<QuotaLine>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct QuotaLine {
    quota: String,
    limits: QuotaLimits,
    used: Amount,
    used_by_all: Option<Amount>,
    state: String,
    opens_at: WallTime,
}

pub(super) async fn cost(common: &CommonArgs, args: CostArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let endpoints = args.at.endpoints(&client).await?;
    let mut path = format!("{}?by={}", routes::COSTS, args.by);
    if let Some(since) = &args.since {
        path.push_str(&format!("&since={}", encoded(&since.to_string())));
    }
    let (mut sums, mut quotas, mut lines) = (BTreeMap::<String, Amount>::new(), Vec::new(), Vec::new());
    for (agent, answer) in endpoints::get_each(&client, &endpoints, &path).await {
        let answer: Value = match answer {
            Ok(answer) => answer,
            Err(error) => {
                output::note(&format!("{}: {}", agent.agent, error.message));
                continue;
            }
        };
        let unreadable = |error| CliError::new(Exit::Failed, format!("{}: {error}", agent.agent));
        let costs: AgentCosts = serde_json::from_value(answer.clone()).map_err(unreadable)?;
        for CostRow { key, amount } in costs.costs {
            let sum = sums.entry(key).or_default();
            *sum = sum.plus(amount);
        }
        for quota in costs.quotas {
            add_quota(&mut quotas, agent.agent.as_str(), quota);
        }
        lines.extend(answer["quotas"].as_array().into_iter().flatten().map(|quota| {
            let mut quota = quota.clone();
            quota["agent"] = json!(agent.agent);
            quota
        }));
    }
    match (args.quotas, common.json) {
        (true, true) => output::json(&lines),
        (true, false) => show_quotas(&quotas),
        (false, true) => {
            let row = |(key, amount)| CostRow { key, amount };
            output::json(&sums.into_iter().map(row).collect::<Vec<_>>())
        }
        (false, false) => show_costs(&args.by, &sums),
    }
}

fn show_costs(by: &str, sums: &BTreeMap<String, Amount>) -> Result<(), CliError> {
    if sums.is_empty() {
        return output::line(
            "nothing was used; models are counted, and what `exec` and `http` brains report",
        );
    }
    let line = |key: &str, amount: &Amount| {
        let unpriced = match amount.unpriced_tokens {
            0 => String::new(),
            tokens => format!(" + {tokens} tokens without a price"),
        };
        let cost = format!("{}{unpriced}", amount.cost.get());
        [output::plain(key), amount.tasks.to_string(), amount.tokens.to_string(), cost]
            .map(Cell::new)
            .to_vec()
    };
    let mut rows: Vec<_> = sums.iter().map(|(key, amount)| line(key, amount)).collect();
    if sums.len() > 1 && by != "task" {
        let all = sums.values().fold(Amount::default(), |sum, amount| sum.plus(*amount));
        rows.push(line("all", &all));
    }
    output::line(&output::table(&[by.to_uppercase().as_str(), "TASKS", "TOKENS", "COST"], rows))
}

/// Adds a quota of `agent`. One that agents share is one line: what they have used together, or more if one of them has heard of more.
fn add_quota(quotas: &mut Vec<(String, QuotaLine)>, agent: &str, mut quota: QuotaLine) {
    let Some(all) = quota.used_by_all else { return quotas.push((agent.to_owned(), quota)) };
    let known =
        quotas.iter_mut().find(|(_, known)| known.quota == quota.quota && known.used_by_all.is_some());
    match known {
        Some((_, known)) => {
            known.used = known.used.plus(quota.used);
            let heard = known.used_by_all.unwrap_or_default().at_least(all).at_least(known.used);
            known.used_by_all = Some(heard);
            known.limits.level(heard).word().clone_into(&mut known.state);
        }
        None => {
            quota.used_by_all = Some(all.at_least(quota.used));
            quotas.push(("all".to_owned(), quota));
        }
    }
}

fn show_quotas(quotas: &[(String, QuotaLine)]) -> Result<(), CliError> {
    if quotas.is_empty() {
        return output::line("no quotas; `quotas:` in the file of an agent or of the mesh sets them");
    }
    let rows = quotas.iter().map(|(agent, quota)| {
        let QuotaLine { quota, limits, used, used_by_all, state, opens_at } = quota;
        let figures = limits.figures(used_by_all.unwrap_or(*used));
        [agent.as_str(), quota, state, &figures, &opens_at.to_string()]
            .map(|text| Cell::new(output::plain(text)))
            .to_vec()
    });
    output::line(&output::table(&["AGENT", "QUOTA", "STATE", "USED", "OPENS AGAIN"], rows))
}
