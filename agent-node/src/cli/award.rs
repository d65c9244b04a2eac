//! `mesh award explain`: every candidate with its bid, score and outcome.

use super::{
    CommonArgs,
    client::{MeshClient, encoded},
    endpoints::{self, AgentEndpoint, AtArgs},
    exit::CliError,
    located_task::find,
    output::{self, Colour},
};
use clap::{Args, Subcommand};
use comfy_table::Cell;
use patterns::contract_net::record::{AwardRecord, BidScore, BiddingRound, CandidateRecord, CandidateResult};
use protocol::{
    acceptance::{CheckVerdict, ResultCheck},
    routes,
    task::EXTENSION,
};
use serde::Serialize;
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub(super) enum AwardVerb {
    /// Say who could have done a task, who did, and why.
    Explain(ExplainArgs),
}

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// The task.
    task: String,
    #[command(flatten)]
    at: AtArgs,
}

pub(super) async fn explain(common: &CommonArgs, explain: ExplainArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let endpoints = explain.at.endpoints(&client).await?;
    let found = find(&client, &endpoints, &explain.task).await?;
    let task = found.id();
    let parts = parts_of(&client, &endpoints, &task).await;
    let own = award_of(&client, &found.endpoint, &task).await;
    let mut awards = Vec::new();
    for (endpoint, part) in &parts {
        awards.extend(award_of(&client, endpoint, part).await);
    }
    let own = match own {
        Err(failure) if awards.iter().all(|award| award["award"].is_null()) => return Err(failure),
        own => own.unwrap_or(Value::Null),
    };
    if common.json {
        return output::json(&json!({ "agentId": own["agentId"], "award": own["award"], "parts": awards }));
    }
    let texts = std::iter::once(&own).chain(&awards).filter_map(|answer| {
        let record = serde_json::from_value::<AwardRecord>(answer["award"].clone()).ok()?;
        Some(text(&record))
    });
    let texts: Vec<_> = texts.collect();
    if own.is_null() {
        output::note(&format!("task {task} was not awarded, parts of it were:"));
    }
    output::line(&texts.join("\n\n"))
}

async fn award_of(client: &MeshClient, endpoint: &str, task: &str) -> Result<Value, CliError> {
    client.get(endpoint, &format!("{}/{}/award", routes::TASKS, encoded(task))).await
}

/// The parts of this task that `endpoints` awarded to others: endpoint and task id.
async fn parts_of(client: &MeshClient, endpoints: &[AgentEndpoint], task: &str) -> Vec<(String, String)> {
    let path = format!("{}?limit=1000", routes::TASKS);
    let mut parts = Vec::new();
    for (endpoint, answer) in endpoints::get_each(client, endpoints, &path).await {
        let Ok(answer) = answer else { continue };
        for known in answer["tasks"].as_array().into_iter().flatten() {
            let ours = &known["metadata"][EXTENSION];
            let is_managed = ours["owner"].as_str() == Some(&format!("agent:{}", endpoint.agent));
            if ours["parentTaskId"] == task && is_managed {
                parts.push((endpoint.endpoint.clone(), known["id"].as_str().unwrap_or_default().to_owned()));
            }
        }
    }
    parts
}

/// The award record as text.
pub(super) fn text(record: &AwardRecord) -> String {
    let strategy = wire_word(&record.strategy);
    let capability = record.capability.as_ref().map(|name| format!(" for {name}")).unwrap_or_default();
    let mut out = vec![format!("task {}{capability}, by the strategy {}", record.task, strategy)];
    if strategy == "weighted" {
        let weights = record.weights;
        out.push(format!(
            "weights: match {} · track record {} · eta {} · cost {} · load {}",
            weights.fit, weights.track_record, weights.eta, weights.cost, weights.load
        ));
    }
    for round in &record.rounds {
        out.push(String::new());
        out.extend(round_text(round));
    }
    if !record.checks.is_empty() {
        out.push("\nchecks of results:".to_owned());
        out.extend(record.checks.iter().map(check_line));
    }
    if !record.ignored.is_empty() {
        out.push("\nwithout effect:".to_owned());
        out.extend(record.ignored.iter().map(|ignored| {
            format!(
                "  {} from {} at {}: {}",
                ignored.kind,
                ignored.from,
                ignored.at,
                output::plain(&ignored.why)
            )
        }));
    }
    if let Some(outcome) = &record.outcome {
        out.push(format!("\noutcome: {}", output::plain(outcome)));
    }
    out.join("\n")
}

/// The record of one check in one line.
pub(super) fn check_line(check: &ResultCheck) -> String {
    let ResultCheck { by, review, doer, verdict, findings, sha256, at } = check;
    let colour = match verdict {
        CheckVerdict::Accepted => Colour::Green,
        CheckVerdict::Refused | CheckVerdict::Failed => Colour::Red,
    };
    let review = review.as_ref().map(|task| format!(" (task {task})")).unwrap_or_default();
    let findings = output::plain(findings);
    let findings = if findings.is_empty() { findings } else { format!(": {findings}") };
    let digest = sha256.to_string();
    let digest = digest.get(..12).unwrap_or_default();
    let verdict = output::paint(&wire_word(verdict), colour);
    format!("  {at}  result {digest} of {doer} {verdict} by {by}{review}{findings}")
}

fn round_text(round: &BiddingRound) -> Vec<String> {
    let head = ["#", "candidate", "fate", "score", "match", "record", "eta", "cost", "load", "bid", "why"];
    let mut out = vec![
        format!("round {}, called {}, bids awaited for {} ms", round.round, round.opened_at, round.window_ms),
        output::table(&head, round.candidates.iter().map(row)),
    ];
    if round.not_listed > 0 {
        out.push(format!("and {} more that were not asked", round.not_listed));
    }
    out
}

fn row(fate: &CandidateRecord) -> Vec<Cell> {
    let number = |number: f64| format!("{number:.2}");
    let score = |part: fn(&BidScore) -> f64| {
        fate.score.as_ref().map_or_else(|| "-".to_owned(), |score| number(part(score)))
    };
    let bid = fate.bid.as_ref().map(|bid| {
        format!("cost {}, eta {}, match {}, load {}", bid.cost.get(), bid.eta, bid.capability_match, bid.load)
    });
    vec![
        fate.rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string()).into(),
        fate.agent.to_string().into(),
        fate_cell(fate.fate),
        score(|score| score.total).into(),
        score(|score| score.fit).into(),
        score(|score| score.track_record).into(),
        score(|score| score.eta).into(),
        score(|score| score.cost).into(),
        score(|score| score.load).into(),
        bid.unwrap_or_else(|| "-".to_owned()).into(),
        fate.why.as_deref().map(output::plain).unwrap_or_default().into(),
    ]
}

fn fate_cell(fate: CandidateResult) -> Cell {
    let colour = match fate {
        CandidateResult::Awarded | CandidateResult::Accepted | CandidateResult::Completed => Colour::Green,
        CandidateResult::Declined
        | CandidateResult::AcceptTimeout
        | CandidateResult::LeaseExpired
        | CandidateResult::Unreachable
        | CandidateResult::Refused
        | CandidateResult::Failed => Colour::Red,
        CandidateResult::NoAnswer | CandidateResult::NoBid => Colour::Yellow,
        CandidateResult::NotEligible | CandidateResult::NotAsked | CandidateResult::Cancelled => Colour::Grey,
        CandidateResult::Bid | CandidateResult::Outbid => Colour::Cyan,
    };
    output::cell(&wire_word(&fate), colour)
}

fn wire_word(member: &impl Serialize) -> String {
    serde_json::to_value(member).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// RFC-005 (seed 002): two builders; the more expensive one is faster.
    #[test]
    fn the_example_of_rfc_005_is_explained() {
        let candidate = |agent: &str, fate: &str, rank: u32, cost: f64, eta: u64, total: f64| {
            json!({
                "agent": agent, "fate": fate, "rank": rank,
                "bid": { "cost": cost, "eta": eta, "capabilityMatch": 0.9, "load": 0.0 },
                "score": { "total": total, "match": 0.9, "trackRecord": 0.5, "eta": 1.0, "cost": 0.5, "load": 1.0 },
            })
        };
        let record = json!({
            "task": "t-1", "capability": "implement-api", "strategy": "weighted",
            "weights": { "match": 0.3, "trackRecord": 0.25, "eta": 0.2, "cost": 0.15, "load": 0.1 },
            "rounds": [{
                "round": 1, "openedAt": "2026-02-24T10:30:00Z", "windowMs": 5000, "notListed": 3,
                "candidates": [
                    candidate("Builder-02", "completed", 1, 0.02, 120_000, 0.61),
                    candidate("Builder-01", "outbid", 2, 0.0, 300_000, 0.55),
                    { "agent": "Writer-01", "fate": "not-eligible", "why": "it can't implement-api\u{1b}[2J" },
                ],
            }],
            "ignored": [{ "from": "x", "type": "bid", "why": "too late", "at": "2026-02-24T10:31:00Z" }],
            "outcome": "completed",
        });
        let text = text(&serde_json::from_value(record).unwrap());
        let expected = "\
task t-1 for implement-api, by the strategy weighted
weights: match 0.3 · track record 0.25 · eta 0.2 · cost 0.15 · load 0.1

round 1, called 2026-02-24T10:30:00.000Z, bids awaited for 5000 ms
#  CANDIDATE   FATE          SCORE  MATCH  RECORD  ETA   COST  LOAD  BID                                   WHY
1  Builder-02  completed     0.61   0.90   0.50    1.00  0.50  1.00  cost 0.02, eta 2m, match 0.9, load 0
2  Builder-01  outbid        0.55   0.90   0.50    1.00  0.50  1.00  cost 0, eta 5m, match 0.9, load 0
-  Writer-01   not-eligible  -      -      -       -     -     -     -                                     it can't implement-api\\u001b[2J
and 3 more that were not asked

without effect:
  bid from x at 2026-02-24T10:31:00.000Z: too late

outcome: completed";
        assert_eq!(text, expected);
    }
}
