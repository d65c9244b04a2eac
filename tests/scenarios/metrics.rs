//! Metrics count what happened and contain no id.

use crate::harness::{Process, call, cluster::Cluster, eventually, get, text};
use agent_node::telemetry::meters::openmetrics::{Metric, MetricType};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const TEAM: &str = "
agents:
  - { agent: front-01, skills: [front], brain: { echo: {} } }
  - { agent: doer-01, skills: [do], brain: { echo: {} } }
";

fn values(page: &str) -> BTreeMap<String, f64> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

#[tokio::test]
async fn a_task_through_a_contract_net_is_counted_from_its_arrival_to_its_end() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("front-01");
    agent.ask(json!({ "taskId": "task-canary", "description": "do it", "capability": "do" })).await;
    agent
        .post(&agent.request(json!({ "taskId": "task-canary", "description": "do it", "capability": "do" })))
        .await;
    agent.post(&json!({ "type": "nonsense" })).await;
    call(reqwest::Method::DELETE, &format!("{}/a2a/tasks", agent.url), None).await;
    // The task ends at the doer once its manager has the result.
    let ended = "mesh_tasks_ended_total{state=\"completed\"}";
    let (page, values) = eventually("both ends", async || {
        let page = text(&format!("{}/metrics", agent.url)).await;
        let values = values(&page);
        (values.get(ended) == Some(&2.0)).then_some((page, values))
    })
    .await;
    let at_least = |name: &str, least: f64| {
        let value = values.get(name).copied();
        assert!(value.is_some_and(|value| value >= least), "{name} is {value:?}, not {least} in\n{page}");
    };
    for kind in ["task-request", "cfp", "award", "award-accept", "task-response"] {
        at_least(&format!("mesh_messages_accepted_total{{type=\"{kind}\"}}"), 1.0);
    }
    at_least("mesh_messages_duplicate_total", 1.0);
    at_least("mesh_http_refused_total{reason=\"unknown_type\"}", 1.0);
    at_least("mesh_http_refused_total{reason=\"method_not_allowed\"}", 1.0);
    at_least("mesh_steps_total", 4.0);
    at_least("mesh_step_commit_seconds_count", 4.0);
    at_least("mesh_think_seconds_bucket{le=\"+Inf\"}", 1.0);
    at_least("mesh_outbox_attempts_total{outcome=\"delivered\"}", 3.0);
    for name in ["rounds", "bids_heard", "bids_made", "awards"] {
        at_least(&format!("mesh_auction_{name}_total"), 1.0);
    }
    at_least("mesh_board_signals_total{outcome=\"published\"}", 1.0);
    at_least("mesh_registry_agents{state=\"alive\"}", 2.0);
    at_least("mesh_store_bytes", 4_096.0);
    for id in ["canary", "front-01", "doer-01"] {
        assert!(!page.contains(id), "{id} stands in the metrics");
    }
}

#[tokio::test]
async fn every_process_has_metrics_and_each_is_documented() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let document = std::fs::read_to_string(root.join("deploy/config/TELEMETRY.md")).unwrap();
    let cluster = Cluster::start().await;
    let node = cluster.node("n", TEAM).await;
    let agent = node.agent("front-01");
    let mut shown = std::collections::BTreeSet::new();
    for url in [&cluster.registry.url, &cluster.board.url, &agent.url] {
        let page = text(&format!("{url}/metrics")).await;
        assert!(page.contains("mesh_http_refused_total"), "{url}: {page}");
        shown.extend(
            page.lines().filter_map(|line| Some(line.strip_prefix("# HELP ")?.split(' ').next()?.to_owned())),
        );
    }
    for metric in Metric::ALL {
        let (name, kind, label, help) = metric.describe();
        let row = format!(
            "| `{name}` | {} | {} | {help} |",
            kind.word(),
            if label.is_empty() { "" } else { label }
        );
        assert!(document.contains(&row), "the document lacks\n{row}");
        // The names of counters have their suffix in samples only. Open conversations have no sample while there are none, and
        // models none before their first call (`model_usage.rs`).
        let is_shown = shown.contains(name.trim_end_matches("_total"));
        let is_empty = matches!(
            metric,
            Metric::Conversations
                | Metric::ModelTokens
                | Metric::CallSeconds
                | Metric::ModelCost
                | Metric::UnpricedTokens
        );
        assert!(is_shown || is_empty, "{name} is nowhere shown");
    }
    for (name, says) in agent_node::telemetry::names::ALL {
        let row = format!("| `{name}` | {} |", says.trim());
        assert!(document.contains(&row), "the document lacks\n{row}");
    }
    assert_eq!(get(&format!("{}/state", agent.url)).await["telemetry"]["waiting"], 0);
}

/// The expressions of a dashboard.
fn expressions<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("expr").and_then(Value::as_str));
            members.values().for_each(|value| expressions(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| expressions(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn the_dashboard_shows_metrics_and_labels_that_exist() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let dashboard = std::fs::read_to_string(root.join("deploy/grafana/dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let mut found = Vec::new();
    expressions(&dashboard, &mut found);
    let mut shown = BTreeSet::new();
    for expression in found {
        let (before, after) = expression.split_once('{').unwrap();
        let name = before.rsplit(['(', ' ']).next().unwrap();
        let (selectors, _) = after.split_once('}').unwrap();
        let is_meant = |metric: &&Metric| {
            let (known, kind, _, _) = metric.describe();
            let suffixes: &[&str] =
                if kind == MetricType::Histogram { &["_bucket", "_sum", "_count"] } else { &[""] };
            suffixes.iter().any(|suffix| name.strip_suffix(suffix) == Some(known))
        };
        let metric =
            Metric::ALL.iter().find(is_meant).unwrap_or_else(|| panic!("no metric {name}: {expression}"));
        let grouped =
            expression.split_once("by (").map_or("", |(_, labels)| labels.split(')').next().unwrap());
        let selected = selectors.split(", ").map(|selector| selector.split(['=', '!']).next().unwrap());
        for label in grouped.split(", ").chain(selected).filter(|label| !label.is_empty()) {
            let known = metric.describe().2.split(", ").chain(["instance", "le"]);
            assert!(
                known.into_iter().any(|known| known == label),
                "{name} has no label {label}: {expression}"
            );
        }
        shown.insert(*metric);
    }
    let missing: Vec<_> = Metric::ALL.iter().filter(|metric| !shown.contains(*metric)).collect();
    assert!(missing.is_empty(), "the dashboard does not show {missing:?}");
}
