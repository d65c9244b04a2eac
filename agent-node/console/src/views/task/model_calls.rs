//! What brains were told and what they said, with the calls of models and tools: tokens, cost, and the texts if they are captured.

use crate::{
    json_view,
    state_mark::{StateTone, mark},
    times,
    visible_text::VisibleText,
};
use maud::{Markup, html};
use serde_json::Value;
use std::time::Duration;

/// A turn of a brain, or a call of a model or a tool within one.
#[derive(Debug, Clone)]
pub struct ModelCall {
    pub id: String,
    pub agent: String,
    /// `turn`, `model` or `tool`.
    pub kind: &'static str,
    /// The model, the tool, or which turn it is.
    pub name: String,
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub cost: Option<f64>,
    pub took: Option<Duration>,
    pub failed: Option<String>,
    /// What went in and what came out, if payloads are captured.
    pub input: Option<Value>,
    pub output: Option<Value>,
}

/// The most calls that are shown, the newest.
const MAX_CALLS: usize = 100;

/// The newest calls in the order in which they began; nothing if there are none.
pub fn section(calls: &[ModelCall]) -> Markup {
    let left_out = calls.len().saturating_sub(MAX_CALLS);
    let calls = &calls[left_out..];
    let has_texts = calls.iter().any(|call| call.input.is_some() || call.output.is_some());
    html! {
        @if !calls.is_empty() {
            section.card {
                header {
                    h2 { "Turns, models and tools" }
                    @if !has_texts { span.small.muted { "the agent that did the work shows the person what was said" } }
                }
                @if left_out > 0 { div.body { p.small.muted { "The first " (left_out) " are left out; " code { "mesh trace" } " prints all." } } }
                ul.lines { @for call in calls { (line(call)) } }
            }
        }
    }
}

fn line(call: &ModelCall) -> Markup {
    html! {
        li data-key={ "call-" (call.id) } {
            div.row {
                span.chip { (call.kind) }
                strong { (VisibleText(&call.name)) }
                span.small.muted { (call.agent) }
                @if let Some(took) = call.took { span.small.muted { (times::duration(took)) } } @else { (mark(StateTone::Busy, "open")) }
                @if let Some(tokens) = call.input_tokens { span.small.muted { (times::count(tokens)) " tokens in" } }
                @if let Some(tokens) = call.output_tokens { span.small.muted { (times::count(tokens)) " out" } }
                @if let Some(cost) = call.cost { span.small.muted { "cost " (format!("{cost:.4}")) } }
                @if let Some(why) = &call.failed { (mark(StateTone::Bad, "failed")) span.small.muted { (VisibleText(why)) } }
            }
            @if call.input.is_some() || call.output.is_some() {
                details data-key={ "sides-" (call.id) } {
                    summary { "What went in and what came out" }
                    div.sides {
                        (side("In", call.input.as_ref()))
                        (side("Out", call.output.as_ref()))
                    }
                }
            }
        }
    }
}

fn side(label: &str, value: Option<&Value>) -> Markup {
    html! {
        div {
            @match value {
                None => span.small.muted { (label) ": nothing yet" },
                Some(Value::String(text)) => (json_view::copied_text(label, text)),
                Some(other) => (json_view::copied(label, other)),
            }
        }
    }
}
