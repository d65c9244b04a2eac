//! `mesh trace`: the spans of a task as a tree with times, and what models used by task and agent, read from the agents'
//! journals. A session is shown by stage.

mod stages;
mod usage;

use super::{
    CommonArgs, award,
    client::{MeshClient, encoded},
    endpoints::{AgentEndpoint, AtArgs},
    exit::CliError,
    located_task::find,
    output::{self, Colour, paint, plain},
    tasks,
};
use crate::telemetry::{names as n, span::Span};
use clap::Args;
use futures_util::future::join_all;
use protocol::{
    acceptance::ResultCheck, bid::Eta, ids::EffectId, routes, task::EXTENSION, time::WallTime, words::counted,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use usage::UsageSum;

#[derive(Debug, Args)]
pub(super) struct TraceArgs {
    /// The task.
    task: String,
    /// Show each call of a model and a tool; otherwise a turn's line has their sum.
    #[arg(long)]
    calls: bool,
    /// Show each span of a session; otherwise it is shown by stage, with a line for each turn.
    #[arg(long)]
    spans: bool,
    #[command(flatten)]
    at: AtArgs,
}

pub(super) async fn trace(common: &CommonArgs, trace: TraceArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let found = find(&client, &trace.at.endpoints(&client).await?, &trace.task).await?;
    let task = found.id();
    let path = format!("{}/{}/trace", routes::TASKS, encoded(&task));
    let mut answer: Value = client.get(&found.endpoint, &path).await?;
    add_trigger_spans(&client, &trace.at.endpoints(&client).await?, &mut answer).await;
    if let Some(origin) = tasks::origin(&found.task) {
        output::note(&format!("mesh: a part of what {origin} asked for, who can tell the whole"));
    }
    let spans: Vec<Span> = serde_json::from_value(answer["spans"].clone()).unwrap_or_default();
    if common.json {
        answer["usage"] = json!(usage::by_agent(&spans));
        return output::json(&answer);
    }
    let start = spans.iter().map(|span| span.start).min().unwrap_or(WallTime(0));
    let by_stage = (!trace.calls && !trace.spans).then(|| stages::text(&spans, start)).flatten();
    match by_stage {
        Some(stages) => output::line(&format!("{}\n{stages}", head(&task, &spans, start)))?,
        None => {
            output::line(&text(&task, &spans, trace.calls))?;
            if let Some(table) = usage::table(&spans) {
                output::line(&format!("\n{table}"))?;
            }
        }
    }
    let checks: Vec<ResultCheck> =
        serde_json::from_value(found.task["metadata"][EXTENSION]["checks"].clone()).unwrap_or_default();
    if !checks.is_empty() {
        let lines: Vec<_> = checks.iter().map(award::check_line).collect();
        output::line(&format!("\nchecks of results:\n{}", lines.join("\n")))?;
    }
    let answered = tasks::answered_lines(&found.task);
    if !answered.is_empty() {
        output::line(&format!("\nquestions:\n  {}", answered.join("\n  ")))?;
    }
    for missing in answer["missing"].as_array().into_iter().flatten() {
        let part = |name: &str| plain(missing[name].as_str().unwrap_or_default());
        output::note(&format!("{}'s part is missing: {}", part("agent"), part("why")));
    }
    Ok(())
}

/// Adds the spans of the publisher to a task that a signal triggered: those of the publishing agent's conversation, or,
/// for a signal of the caller, those of all agents that reacted to it.
async fn add_trigger_spans(client: &MeshClient, endpoints: &[AgentEndpoint], answer: &mut Value) {
    let spans: Vec<Span> = serde_json::from_value(answer["spans"].clone()).unwrap_or_default();
    let known: BTreeSet<_> = spans.iter().map(|span| span.span_id.as_str()).collect();
    let is_root = |span: &&Span| !span.parent_id.as_deref().is_some_and(|parent| known.contains(parent));
    let is_reaction = |span: &&Span| span.text(n::MESH_SPAN) == Some("conversation");
    let Some(root) = spans.iter().filter(is_root).find(is_reaction) else { return };
    let Some(signal) = root.text(n::MESH_MESSAGE) else { return };
    let publisher = EffectId::parse(signal);
    let parts = match &publisher {
        Some(effect) => {
            let path = format!("{}/{}/trace", routes::CONVERSATIONS, encoded(effect.conversation.as_str()));
            let publishers: Vec<_> =
                endpoints.iter().filter(|endpoint| endpoint.agent == effect.agent).collect();
            join_all(publishers.iter().map(|endpoint| client.get::<Value>(&endpoint.endpoint, &path))).await
        }
        None => {
            let path = |endpoint: &AgentEndpoint| {
                format!(
                    "{}/{}/reactions?agent={}",
                    routes::TRACES,
                    root.trace_id,
                    encoded(endpoint.agent.as_str())
                )
            };
            let requests = endpoints
                .iter()
                .map(|endpoint| async { client.get(&endpoint.endpoint, &path(endpoint)).await });
            join_all(requests).await
        }
    };
    if let (Some(effect), false) = (&publisher, parts.iter().any(Result::is_ok)) {
        output::note(&format!("mesh: set off by a signal of {}, who can tell the whole", effect.agent));
    }
    let mut known: BTreeSet<_> = known.into_iter().map(str::to_owned).collect();
    for (endpoint, part) in endpoints.iter().zip(parts) {
        let part = match part {
            Ok(part) => part,
            Err(failure) if publisher.is_none() => {
                json!({ "missing": [{ "agent": endpoint.agent, "spanId": "", "why": failure.message }] })
            }
            Err(_) => continue,
        };
        for (list, more) in ["spans", "missing"].map(|name| (name, part[name].as_array())) {
            let more = more.into_iter().flatten();
            let new = more.filter(|one| list != "spans" || known.insert(text_of(&one["spanId"]))).cloned();
            if let Some(all) = answer[list].as_array_mut() {
                all.extend(new);
            }
        }
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

struct TraceLine<'a> {
    prefix: String,
    span: &'a Span,
}

/// The first line: how much there is.
fn head(task: &str, spans: &[Span], start: WallTime) -> String {
    let ended = spans.iter().filter_map(|span| span.end).max().unwrap_or(start);
    let agents: BTreeSet<_> = spans.iter().map(|span| &span.agent).collect();
    format!(
        "task {task} · trace {} · {} of {} · {}",
        spans.first().map(|span| span.trace_id.as_str()).unwrap_or_default(),
        counted(spans.len(), "span", "spans"),
        counted(agents.len(), "agent", "agents"),
        duration(start, ended)
    )
}

fn text(task: &str, spans: &[Span], shows_calls: bool) -> String {
    let Some(start) = spans.iter().map(|span| span.start).min() else { return String::new() };
    let agents: BTreeSet<_> = spans.iter().map(|span| &span.agent).collect();
    let head = head(task, spans, start);
    let shown: Vec<_> = spans.iter().filter(|span| shows_calls || !usage::is_call(span)).collect();
    let lines = tree(&shown);
    let who = agents.iter().map(|agent| agent.as_str().len()).max().unwrap_or_default();
    let what = |line: &TraceLine<'_>| format!("{}{}", line.prefix, plain(&line.span.name));
    let wide = lines.iter().map(|line| what(line).chars().count()).max().unwrap_or_default();
    let rows = lines.iter().map(|line| {
        let span = line.span;
        let took = span.end.map_or_else(|| "…".to_owned(), |end| duration(span.start, end));
        let mut details = format!("{} {}", outcome(span), about(span));
        let calls = spans.iter().filter(|call| usage::is_call(call));
        let calls = calls.filter(|call| match shows_calls {
            true => call.span_id == span.span_id && span.text(n::MESH_SPAN) == Some("chat"),
            false => call.parent_id.as_deref() == Some(&span.span_id),
        });
        let used = UsageSum::of(calls).text();
        if !used.is_empty() {
            details.push_str(&format!(", {}", plain(&used)));
        }
        let row = format!(
            "{:>9}  {:>9}  {:who$}  {:wide$}  {}",
            format!("+{}", duration(start, span.start)),
            took,
            span.agent,
            what(line),
            details.trim(),
        );
        row.trim_end().to_owned()
    });
    std::iter::once(head).chain(rows).collect::<Vec<_>>().join("\n")
}

/// Every span under its parent, in order of start time.
fn tree<'a>(spans: &[&'a Span]) -> Vec<TraceLine<'a>> {
    let known: BTreeSet<_> = spans.iter().map(|span| span.span_id.as_str()).collect();
    let mut below: BTreeMap<Option<&str>, Vec<&Span>> = BTreeMap::new();
    for span in spans.iter().copied() {
        let parent = span.parent_id.as_deref().filter(|parent| known.contains(parent));
        below.entry(parent).or_default().push(span);
    }
    below.values_mut().for_each(|spans| spans.sort_by_key(|span| span.start));
    let mut lines = Vec::new();
    push(&below, None, "", &mut lines);
    lines
}

fn push<'a>(
    below: &BTreeMap<Option<&str>, Vec<&'a Span>>,
    parent: Option<&str>,
    prefix: &str,
    lines: &mut Vec<TraceLine<'a>>,
) {
    let children = below.get(&parent).map(Vec::as_slice).unwrap_or_default();
    for (at, span) in children.iter().enumerate() {
        let is_last = at + 1 == children.len();
        let (mine, more) = match (parent, is_last) {
            (None, _) => ("", ""),
            (Some(_), true) => ("└ ", "  "),
            (Some(_), false) => ("├ ", "│ "),
        };
        lines.push(TraceLine { prefix: format!("{prefix}{mine}"), span });
        push(below, Some(span.span_id.as_str()), &format!("{prefix}{more}"), lines);
    }
}

fn outcome(span: &Span) -> String {
    match (&span.failed, span.text(n::MESH_STATE)) {
        (Some(why), _) => paint(&plain(why), Colour::Red),
        (None, Some(state)) => paint(&plain(state), Colour::Green),
        (None, None) => String::new(),
    }
}

/// The peer of a span, and its bid and turn.
fn about(span: &Span) -> String {
    let word = span.text(n::MESH_SPAN).unwrap_or_default();
    let peer = match word {
        "receive" => span.text(n::PEER_FROM).map(|from| format!("from {from}")),
        "tell" | "cfp" | "bid" | "award" | "claim" => span.text(n::PEER_TO).map(|to| format!("to {to}")),
        "conversation" => span.text(n::MESH_PATTERN).map(str::to_owned),
        _ => None,
    };
    let number = |name: &str| span.attributes.get(name);
    let count = |name: &str| number(name)?.as_array().map(Vec::len);
    let terms = [
        number(n::MESH_BID_COST).and_then(|cost| Some(format!("cost {}", cost.as_f64()?))),
        number(n::MESH_BID_ETA).and_then(|eta| Some(format!("eta {}", Eta(eta.as_u64()?)))),
        number(n::MESH_TURN).map(|turn| format!("turn {turn}")),
        count(n::MESH_BRIEF_INCLUDED)
            .map(|entries| format!("brief of {}", counted(entries, "entry", "entries"))),
        count(n::MESH_BRIEF_OMITTED).map(|entries| format!("{entries} left out")),
        span.text(n::MESH_BRIEF_NOTE).map(str::to_owned),
        number(n::MESH_BUDGET_TOKENS).map(|tokens| format!("may use {tokens} tokens")),
        number(n::MESH_BUDGET_COST).map(|cost| format!("may cost {cost}")),
        number(n::MESH_USED_TOKENS).map(|tokens| format!("used {tokens} tokens")),
    ];
    let parts: Vec<_> = peer.into_iter().chain(terms.into_iter().flatten()).collect();
    plain(&parts.join(", "))
}

/// Not `humantime`, which prints every unit down to nanoseconds.
fn duration(from: WallTime, to: WallTime) -> String {
    let time = from.until(to);
    match time.as_millis() {
        ms @ 0..1_000 => format!("{ms} ms"),
        ms @ 1_000..60_000 => format!("{:.2} s", ms as f64 / 1_000.0),
        ms => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
    }
}
