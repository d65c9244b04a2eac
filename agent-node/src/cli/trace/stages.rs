//! The trace of a session by stage: a line for each turn, with who did it, how it ended and what it used.

use super::{duration, outcome, usage::UsageSum};
use crate::{
    cli::output::{Colour, paint, plain},
    telemetry::{names as n, span::Span},
};
use protocol::{time::WallTime, words::counted};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A turn of a seat: the request for it, and everything that came of it.
struct TurnTrace<'a> {
    request: &'a Span,
    spans: Vec<&'a Span>,
}

struct StageTrace<'a> {
    name: String,
    turns: Vec<TurnTrace<'a>>,
}

/// The stages of a session in the order in which they began, each with its turns; `None` if no span is the turn of a session. Times
/// count from `start`.
pub(super) fn text(spans: &[Span], start: WallTime) -> Option<String> {
    let stages = stages(spans);
    if stages.is_empty() {
        return None;
    }
    let turns = || stages.iter().flat_map(|stage| &stage.turns);
    let wide = turns().map(|turn| turn.name().chars().count()).max().unwrap_or_default();
    let who = turns().map(|turn| turn.doer().len()).max().unwrap_or_default();
    let mut lines = Vec::new();
    for stage in &stages {
        let (begun, ended) = stage.period();
        let used = with_comma(&UsageSum::of(stage.turns.iter().flat_map(|turn| turn.spans.iter().copied())));
        let count = counted(stage.turns.len(), "turn", "turns");
        lines.push(format!(
            "{:>9}  {:>9}  {}  {count}{used}",
            format!("+{}", duration(start, begun)),
            took(begun, ended),
            paint(&plain(&format!("stage {}", stage.name)), Colour::Cyan),
        ));
        lines.extend(stage.turns.iter().map(|turn| {
            let line = format!(
                "{:>9}  {:>9}    {:wide$}  {:who$}  {}{}",
                format!("+{}", duration(start, turn.request.start)),
                took(turn.request.start, turn.ended()),
                plain(&turn.name()),
                plain(turn.doer()),
                turn.outcome(),
                with_comma(&UsageSum::of(turn.spans.iter().copied())),
            );
            line.trim_end().to_owned()
        }));
    }
    let all = UsageSum::of(spans).text();
    lines.extend((!all.is_empty()).then(|| format!("used: {}", plain(&all))));
    Some(lines.join("\n"))
}

fn stages(spans: &[Span]) -> Vec<StageTrace<'_>> {
    let mut below: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
    for span in spans {
        below.entry(span.parent_id.as_deref().unwrap_or_default()).or_default().push(span);
    }
    let is_request = |span: &&Span| span.text(n::MESH_SPAN) == Some("tell");
    let mut requests: Vec<_> =
        spans.iter().filter(is_request).filter_map(|span| Some((span.text(n::MESH_STAGE)?, span))).collect();
    requests.sort_by_key(|(_, span)| span.start);
    let mut stages: Vec<StageTrace<'_>> = Vec::new();
    for (stage, request) in requests {
        let name = match number(request, n::MESH_ITERATION) {
            0 | 1 => stage.to_owned(),
            again => format!("{stage} ({again})"),
        };
        let turn = TurnTrace { request, spans: descendants(&below, request) };
        match stages.iter_mut().find(|stage| stage.name == name) {
            Some(stage) => stage.turns.push(turn),
            None => stages.push(StageTrace { name, turns: vec![turn] }),
        }
    }
    stages
}

/// All spans under `root`, parents first.
fn descendants<'a>(below: &BTreeMap<&str, Vec<&'a Span>>, root: &'a Span) -> Vec<&'a Span> {
    let mut known = BTreeSet::from([root.span_id.as_str()]);
    let mut found: Vec<&Span> = Vec::new();
    let mut open = vec![root];
    while let Some(span) = open.pop() {
        for child in below.get(span.span_id.as_str()).into_iter().flatten() {
            if known.insert(child.span_id.as_str()) {
                found.push(child);
                open.push(child);
            }
        }
    }
    found
}

impl TurnTrace<'_> {
    fn name(&self) -> String {
        let seat = self.request.text(n::MESH_SEAT).unwrap_or_default();
        format!("{} {seat}", number(self.request, n::MESH_ROUND))
    }

    /// The work of the agents that took part, the doer's last.
    fn work(&self) -> impl Iterator<Item = &Span> {
        self.spans.iter().copied().filter(|span| span.text(n::MESH_SPAN) == Some("conversation"))
    }

    fn doer(&self) -> &str {
        let thinks = |span: &&&Span| span.text(n::MESH_SPAN) == Some("think");
        let doer = self.spans.iter().find(thinks).copied().or_else(|| self.work().last());
        doer.map_or("-", |span| span.agent.as_str())
    }

    fn outcome(&self) -> String {
        self.work().next().map(outcome).unwrap_or_default()
    }

    /// When the work has ended; `None` while it goes on.
    fn ended(&self) -> Option<WallTime> {
        self.work().next()?.end
    }
}

impl StageTrace<'_> {
    /// When it has begun and ended.
    fn period(&self) -> (WallTime, Option<WallTime>) {
        let begun = self.turns.iter().map(|turn| turn.request.start).min().unwrap_or(WallTime(0));
        let ends: Option<Vec<_>> = self.turns.iter().map(TurnTrace::ended).collect();
        (begun, ends.and_then(|ends| ends.into_iter().max()))
    }
}

fn number(span: &Span, name: &str) -> u64 {
    span.attributes.get(name).and_then(Value::as_u64).unwrap_or_default()
}

fn took(begun: WallTime, ended: Option<WallTime>) -> String {
    ended.map_or_else(|| "…".to_owned(), |ended| duration(begun, ended))
}

fn with_comma(used: &UsageSum) -> String {
    let used = used.text();
    if used.is_empty() { used } else { format!(", {}", plain(&used)) }
}
