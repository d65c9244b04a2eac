//! `mesh trace`: what happened to a task, agent by agent, as a tree with times; from the journals, without any backend.

use super::{
    Common,
    client::{Client, encoded},
    exit::Failure,
    output::{self, Colour, paint, plain},
    places::{At, Place},
    tasks::{self, find},
};
use crate::telemetry::{names as n, span::Span};
use clap::Args;
use futures_util::future::join_all;
use protocol::{bid::Eta, ids::EffectId, routes, time::WallTime, words::counted};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Args)]
pub(super) struct Trace {
    /// The task.
    task: String,
    #[command(flatten)]
    at: At,
}

pub(super) async fn trace(common: &Common, trace: Trace) -> Result<(), Failure> {
    let client = Client::new(common)?;
    let found = find(&client, &trace.at.places(&client).await?, &trace.task).await?;
    let path = format!("{}/{}/trace", routes::TASKS, encoded(&trace.task));
    let mut answer: Value = client.get(&found.endpoint, &path).await?;
    set_off(&client, &trace.at.places(&client).await?, &mut answer).await;
    if let Some(asker) = tasks::asker(&found.task) {
        output::note(&format!("mesh: a part of what {asker} asked for, who can tell the whole"));
    }
    if common.json {
        return output::json(&answer);
    }
    let spans: Vec<Span> = serde_json::from_value(answer["spans"].clone()).unwrap_or_default();
    output::line(&text(&trace.task, &spans))?;
    for missing in answer["missing"].as_array().into_iter().flatten() {
        let part = |name: &str| plain(missing[name].as_str().unwrap_or_default());
        output::note(&format!("{}'s part is missing: {}", part("agent"), part("why")));
    }
    Ok(())
}

/// A task that began with a signal hangs under what published it: an agent that passed on what the caller asked it to,
/// or the caller itself, whose signal others may have reacted to as well. Their parts are asked for as the caller.
async fn set_off(client: &Client, places: &[Place], answer: &mut Value) {
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
            let theirs: Vec<_> = places.iter().filter(|place| place.agent == effect.agent).collect();
            join_all(theirs.iter().map(|place| client.get::<Value>(&place.endpoint, &path))).await
        }
        None => {
            let path = |place: &Place| {
                format!(
                    "{}/{}/reactions?agent={}",
                    routes::TRACES,
                    root.trace_id,
                    encoded(place.agent.as_str())
                )
            };
            let asked = places.iter().map(|place| async { client.get(&place.endpoint, &path(place)).await });
            join_all(asked).await
        }
    };
    if let (Some(effect), false) = (&publisher, parts.iter().any(Result::is_ok)) {
        output::note(&format!("mesh: set off by a signal of {}, who can tell the whole", effect.agent));
    }
    let mut known: BTreeSet<_> = known.into_iter().map(str::to_owned).collect();
    for (place, part) in places.iter().zip(parts) {
        let part = match part {
            Ok(part) => part,
            Err(failure) if publisher.is_none() => {
                json!({ "missing": [{ "agent": place.agent, "spanId": "", "why": failure.message }] })
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

/// One span in its place.
struct Line<'a> {
    depth: String,
    span: &'a Span,
}

fn text(task: &str, spans: &[Span]) -> String {
    let Some(begun) = spans.iter().map(|span| span.start).min() else { return String::new() };
    let ended = spans.iter().filter_map(|span| span.end).max().unwrap_or(begun);
    let agents: BTreeSet<_> = spans.iter().map(|span| &span.agent).collect();
    let head = format!(
        "task {task} · trace {} · {} of {} · {}",
        spans.first().map(|span| span.trace_id.as_str()).unwrap_or_default(),
        counted(spans.len(), "span", "spans"),
        counted(agents.len(), "agent", "agents"),
        duration(begun, ended)
    );
    let lines = tree(spans);
    let who = agents.iter().map(|agent| agent.as_str().len()).max().unwrap_or_default();
    let what = |line: &Line<'_>| format!("{}{}", line.depth, plain(&line.span.name));
    let wide = lines.iter().map(|line| what(line).chars().count()).max().unwrap_or_default();
    let rows = lines.iter().map(|line| {
        let span = line.span;
        let took = span.end.map_or_else(|| "…".to_owned(), |end| duration(span.start, end));
        let told = format!("{} {}", outcome(span), about(span));
        let row = format!(
            "{:>9}  {:>9}  {:who$}  {:wide$}  {}",
            format!("+{}", duration(begun, span.start)),
            took,
            span.agent,
            what(line),
            told.trim(),
        );
        row.trim_end().to_owned()
    });
    std::iter::once(head).chain(rows).collect::<Vec<_>>().join("\n")
}

/// Every span under the one it hangs under, in the order of time.
fn tree(spans: &[Span]) -> Vec<Line<'_>> {
    let known: BTreeSet<_> = spans.iter().map(|span| span.span_id.as_str()).collect();
    let mut below: BTreeMap<Option<&str>, Vec<&Span>> = BTreeMap::new();
    for span in spans {
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
    depth: &str,
    lines: &mut Vec<Line<'a>>,
) {
    let children = below.get(&parent).map(Vec::as_slice).unwrap_or_default();
    for (at, span) in children.iter().enumerate() {
        let is_last = at + 1 == children.len();
        let (mine, more) = match (parent, is_last) {
            (None, _) => ("", ""),
            (Some(_), true) => ("└ ", "  "),
            (Some(_), false) => ("├ ", "│ "),
        };
        lines.push(Line { depth: format!("{depth}{mine}"), span });
        push(below, Some(span.span_id.as_str()), &format!("{depth}{more}"), lines);
    }
}

fn outcome(span: &Span) -> String {
    match (&span.failed, span.text(n::MESH_STATE)) {
        (Some(why), _) => paint(&plain(why), Colour::Red),
        (None, Some(state)) => paint(&plain(state), Colour::Green),
        (None, None) => String::new(),
    }
}

/// Who else is in it, and on what terms.
fn about(span: &Span) -> String {
    let word = span.text(n::MESH_SPAN).unwrap_or_default();
    let peer = match word {
        "receive" => span.text(n::PEER_FROM).map(|from| format!("from {from}")),
        "tell" | "cfp" | "bid" | "award" | "claim" => span.text(n::PEER_TO).map(|to| format!("to {to}")),
        "conversation" => span.text(n::MESH_PATTERN).map(str::to_owned),
        _ => None,
    };
    let number = |name: &str| span.attributes.get(name);
    let terms = [
        number(n::MESH_BID_COST).and_then(|cost| Some(format!("cost {}", cost.as_f64()?))),
        number(n::MESH_BID_ETA).and_then(|eta| Some(format!("eta {}", Eta(eta.as_u64()?)))),
        number(n::MESH_TURN).map(|turn| format!("turn {turn}")),
    ];
    let told: Vec<_> = peer.into_iter().chain(terms.into_iter().flatten()).collect();
    plain(&told.join(", "))
}

/// By hand, as `humantime` writes every unit down to the nanosecond.
fn duration(from: WallTime, to: WallTime) -> String {
    let time = from.until(to);
    match time.as_millis() {
        ms @ 0..1_000 => format!("{ms} ms"),
        ms @ 1_000..60_000 => format!("{:.2} s", ms as f64 / 1_000.0),
        ms => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
    }
}
