//! The spans of a task over all agents, nested, as bars.

use crate::{
    state_mark::{StateTone, mark},
    times,
    visible_text::{VisibleText, brief},
};
use maud::{Markup, html};
use protocol::time::WallTime;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The most rows of a timeline.
pub const MAX_ROWS: usize = 400;
const DEEPEST: usize = 8;
/// The width of the picture, in units of its own.
const WIDTH: f64 = 1_000.0;

/// One span.
#[derive(Debug, Clone)]
pub struct TimelineSpan {
    pub id: String,
    pub parent: Option<String>,
    pub agent: String,
    pub name: String,
    /// What it is: `conversation`, `think`, `chat`, `tool`, `tell`, and so on.
    pub kind: String,
    pub start: WallTime,
    /// The end; absent while it is open.
    pub end: Option<WallTime>,
    pub failed: Option<String>,
    pub attributes: Map<String, Value>,
}

/// A span with its depth, in the order of the timeline.
fn rows(spans: &[TimelineSpan]) -> Vec<(usize, &TimelineSpan)> {
    let known: BTreeSet<&str> = spans.iter().map(|span| span.id.as_str()).collect();
    let mut below: BTreeMap<Option<&str>, Vec<&TimelineSpan>> = BTreeMap::new();
    for span in spans {
        below.entry(span.parent.as_deref().filter(|parent| known.contains(parent))).or_default().push(span);
    }
    // The last one is taken first.
    below.values_mut().for_each(|spans| spans.sort_by_key(|span| std::cmp::Reverse(span.start)));
    let mut open: Vec<_> = below.get(&None).into_iter().flatten().map(|span| (0, *span)).collect();
    let mut rows = Vec::with_capacity(spans.len());
    while let Some((depth, span)) = open.pop() {
        rows.push((depth, span));
        open.extend(
            below.get(&Some(span.id.as_str())).into_iter().flatten().map(|child| (depth + 1, *child)),
        );
    }
    rows
}

/// The timeline of `spans` at `now`.
pub fn chart(now: WallTime, spans: &[TimelineSpan]) -> Markup {
    let Some(start) = spans.iter().map(|span| span.start).min() else {
        return html! { div.empty { p { "Nothing has happened yet." } } };
    };
    let end = spans.iter().map(|span| span.end.unwrap_or(now)).max().unwrap_or(now);
    let rows = rows(spans);
    let scale = Scale { start, whole: (end.0 - start.0).max(1) as f64, now };
    html! {
        div.scroll tabindex="0" role="region" aria-label="Timeline" {
            div.timeline {
                @for (depth, span) in rows.iter().take(MAX_ROWS) { (row(&scale, *depth, span)) }
            }
        }
        @if rows.len() > MAX_ROWS { p.muted.small { "The first " (MAX_ROWS) " of " (rows.len()) " spans are shown; " code { "mesh trace" } " prints all." } }
        (legend())
    }
}

struct Scale {
    start: WallTime,
    whole: f64,
    now: WallTime,
}

fn row(scale: &Scale, depth: usize, span: &TimelineSpan) -> Markup {
    let end = span.end.unwrap_or(scale.now);
    let x = (span.start.0 - scale.start.0) as f64 / scale.whole * WIDTH;
    let width = ((end.0 - span.start.0) as f64 / scale.whole * WIDTH).max(3.0);
    let x = x.min(WIDTH - width).max(0.0);
    let took = times::duration(span.start.until(end));
    let took = if span.end.is_some() { took } else { format!("{took}, open") };
    let begun = times::duration(scale.start.until(span.start));
    let class = if span.failed.is_some() { "bad" } else { span.kind.as_str() };
    let indent = depth.min(DEEPEST);
    html! {
        div.name data-key={ "n" (span.id) } title=(VisibleText(&span.name)) {
            span class={ "indent-" (indent) } { (brief(&span.name, 80)) " " span.agent { (span.agent) } }
        }
        div.bar data-key={ "b" (span.id) } {
            svg viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" aria-label={ "begins after " (begun) ", takes " (took) @if let Some(why) = &span.failed { ", failed: " (VisibleText(why)) } } {
                rect.track x="0" y="9" width="1000" height="2" {}
                rect class={ "span " (class) } x=(format!("{x:.1}")) y="4" width=(format!("{width:.1}")) height="12" {}
                title { "+" (begun) " \u{b7} " (took) }
            }
        }
    }
}

fn legend() -> Markup {
    let kinds = [
        ("conversation", "work of an agent"),
        ("think", "a turn of its brain"),
        ("chat", "a call of a model"),
        ("tool", "a call of a tool"),
        ("other", "a message or a wait"),
        ("bad", "failed"),
    ];
    html! {
        div.legend {
            @for (class, text) in kinds {
                span { svg viewBox="0 0 10 10" aria-hidden="true" { rect class=(class) width="10" height="10" rx="2" {} } (text) }
            }
        }
    }
}

/// The spans as a table: what each was, and what is known of it.
pub fn table(spans: &[TimelineSpan]) -> Markup {
    let Some(start) = spans.iter().map(|span| span.start).min() else { return html! {} };
    html! {
        div.scroll tabindex="0" role="region" aria-label="Spans" {
            table {
                thead { tr { th.num { "After" } th.num { "Took" } th { "Agent" } th { "What" } th { "Outcome" } } }
                tbody {
                    @for (_, span) in rows(spans).into_iter().take(MAX_ROWS) {
                        tr data-key={ "r" (span.id) } {
                            td.num { (times::duration(start.until(span.start))) }
                            td.num { @match span.end { Some(end) => (times::duration(span.start.until(end))), None => "open" } }
                            td { (span.agent) }
                            td {
                                details data-key={ "d" (span.id) } {
                                    summary { (VisibleText(&span.name)) }
                                    (crate::json_view::block("the attributes of the span", &Value::Object(span.attributes.clone())))
                                }
                            }
                            td { @if let Some(why) = &span.failed { (mark(StateTone::Bad, "failed")) " " span.muted { (VisibleText(why)) } } }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(id: &str, parent: Option<&str>, start: i64, end: Option<i64>) -> TimelineSpan {
        TimelineSpan {
            id: id.to_owned(),
            parent: parent.map(str::to_owned),
            agent: "a-1".to_owned(),
            name: format!("<b>{id}"),
            kind: "think".to_owned(),
            start: WallTime(start),
            end: end.map(WallTime),
            failed: None,
            attributes: Map::new(),
        }
    }

    #[test]
    fn children_follow_their_parents_by_start() {
        let spans = [
            span("c", Some("a"), 30, None),
            span("b", Some("a"), 10, Some(20)),
            span("a", None, 0, Some(40)),
            span("d", Some("b"), 12, Some(13)),
            span("z", Some("unknown"), 5, Some(6)),
        ];
        let order: Vec<_> = rows(&spans).into_iter().map(|(depth, span)| (depth, span.id.as_str())).collect();
        assert_eq!(order, [(0, "a"), (1, "b"), (2, "d"), (1, "c"), (0, "z")]);
        let shown = chart(WallTime(50), &spans).into_string();
        assert!(!shown.contains("<b>") && shown.contains("20 ms, open"), "{shown}");
    }
}
