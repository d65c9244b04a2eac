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
/// The kind of a turn that waits for a free place at its agent.
pub const QUEUED: &str = "queued";
/// The most rows of which none is folded.
const MAX_UNFOLDED: usize = 12;
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

impl TimelineSpan {
    /// Whether it says little beside the others: a message or a step on the way that went well.
    fn is_minor(&self) -> bool {
        self.failed.is_none()
            && !["conversation", "think", "chat", "tool", QUEUED].contains(&self.kind.as_str())
    }
}

/// A span with its depth, in the order of the timeline. Those that `is_shown` leaves out have no row; what is below them moves up.
fn rows(spans: &[TimelineSpan], is_shown: impl Fn(&TimelineSpan) -> bool) -> Vec<(usize, &TimelineSpan)> {
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
        let is_row = is_shown(span);
        if is_row {
            rows.push((depth, span));
        }
        let depth = depth + usize::from(is_row);
        open.extend(below.get(&Some(span.id.as_str())).into_iter().flatten().map(|child| (depth, *child)));
    }
    rows
}

/// The timeline of `spans` at `now`.
pub fn chart(now: WallTime, spans: &[TimelineSpan]) -> Markup {
    let Some(start) = spans.iter().map(|span| span.start).min() else {
        return html! { div.empty { p { "Nothing has happened yet." } } };
    };
    let end = spans.iter().map(|span| span.end.unwrap_or(now)).max().unwrap_or(now);
    let scale = Scale { start, whole: (end.0 - start.0).max(1) as f64, now };
    let all = rows(spans, |_| true);
    let major = rows(spans, |span| !span.is_minor());
    let minor = all.len() - major.len();
    // A few rows more are read faster than a fold is opened.
    let folds = minor > 0 && !major.is_empty() && all.len() > MAX_UNFOLDED;
    html! {
        (bars("Timeline", "", &scale, if folds { &major } else { &all }))
        (legend())
        @if folds {
            details data-key="timeline-all" {
                summary { "With " (minor) " messages and other steps that went well" }
                (bars("Timeline with all steps", "all-", &scale, &all))
            }
        }
    }
}

fn bars(label: &str, prefix: &str, scale: &Scale, rows: &[(usize, &TimelineSpan)]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            div.timeline { @for (depth, span) in rows.iter().take(MAX_ROWS) { (row(scale, prefix, *depth, span)) } }
        }
        @if rows.len() > MAX_ROWS { p.muted.small { "The first " (MAX_ROWS) " of " (rows.len()) " spans are shown; " code { "mesh trace" } " prints all." } }
    }
}

struct Scale {
    start: WallTime,
    whole: f64,
    now: WallTime,
}

fn row(scale: &Scale, prefix: &str, depth: usize, span: &TimelineSpan) -> Markup {
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
        div.name data-key={ (prefix) "n" (span.id) } title=(VisibleText(&span.name)) {
            span class={ "indent-" (indent) } { (brief(&span.name, 80)) " " span.agent { (span.agent) } }
        }
        div.bar data-key={ (prefix) "b" (span.id) } {
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
        (QUEUED, "waits: for a place, an answer, a model"),
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
                    @for (_, span) in rows(spans, |_| true).into_iter().take(MAX_ROWS) {
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
        let order = |rows: Vec<(usize, &TimelineSpan)>| {
            rows.into_iter().map(|(depth, span)| format!("{depth}{}", span.id)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(order(rows(&spans, |_| true)), "0a 1b 2d 1c 0z");
        assert_eq!(order(rows(&spans, |span| span.id != "b")), "0a 1d 1c 0z", "what is below it moves up");
        let shown = chart(WallTime(50), &spans).into_string();
        assert!(!shown.contains("<b>") && shown.contains("20 ms, open"), "{shown}");
    }

    #[test]
    fn many_minor_steps_are_folded_and_failures_are_not() {
        let minor = |at: usize| TimelineSpan {
            kind: "tell".to_owned(),
            ..span(&format!("m{at}"), Some("a"), 1, Some(2))
        };
        let mut spans: Vec<_> = (0..20).map(minor).collect();
        spans.push(span("a", None, 0, Some(40)));
        spans[0].failed = Some("lost".to_owned());
        let shown = chart(WallTime(50), &spans).into_string();
        let (before, folded) = shown.split_once("<details").unwrap_or_default();
        assert!(before.contains("data-key=\"nm0\"") && !before.contains("data-key=\"nm1\""), "{before}");
        assert!(folded.contains("With 19 messages") && folded.contains("data-key=\"all-nm1\""), "{folded}");
    }
}
