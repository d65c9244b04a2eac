//! What was said between the agent and its model, to be read: what it was told, what it thought, said and called, and what came of it.

use crate::{
    json_view,
    state_mark::{StateTone, mark},
    times,
    visible_text::{VisibleText, brief},
};
use maud::{Markup, html};
use protocol::{
    model_line::{ModelLine, ModelReply, ModelToolCall, ModelWords},
    usage::ModelUsage,
};
use std::time::Duration;

/// The lines, the oldest first; nothing if there are none. `omitted` older ones are not among them.
pub fn section(lines: &[ModelLine], omitted: usize) -> Markup {
    html! {
        @if !lines.is_empty() {
            section.card {
                header { h2 { "Said with the model" } span.small.muted { "its instructions are those of its file; times are UTC" } }
                div.body {
                    @if omitted > 0 { p.muted.small { "The first " (omitted) " lines are left out." } }
                    div.chat { @for (at, line) in lines.iter().enumerate() { (said(at + omitted, line)) } }
                }
            }
        }
    }
}

fn said(at: usize, line: &ModelLine) -> Markup {
    html! {
        @match &line.what {
            ModelWords::Told { text, files } => div.said.mine data-key={ "line-" (at) } {
                (head("told", line))
                (VisibleText(text))
                @if !files.is_empty() { span.small.muted { "with " (brief(&files.join(", "), 400)) } }
            },
            ModelWords::Answered(reply) => div.said.model data-key={ "line-" (at) } { (answer(at, line, reply)) },
            ModelWords::Failed { code, usage } => div.said data-key={ "line-" (at) } {
                div.row { (mark(StateTone::Bad, "no answer")) span.small { (VisibleText(code)) } (call_of_model(usage)) (times::clock(line.at)) }
            },
            ModelWords::Dropped { what } => div.said data-key={ "line-" (at) } {
                div.row { (mark(StateTone::Wait, "dropped")) span.small { "the conversation was too long: " (brief(&what.join("; "), 400)) } (times::clock(line.at)) }
            },
        }
    }
}

fn head(word: &str, line: &ModelLine) -> Markup {
    html! { div.row.small.muted { span { (word) ", turn " (line.turn) } (times::clock(line.at)) } }
}

fn call_of_model(usage: &ModelUsage) -> Markup {
    html! {
        span.small.muted {
            (VisibleText(&usage.model)) ", " (times::count(usage.input_tokens)) " tokens in, " (times::count(usage.output_tokens)) " out"
            @if usage.estimated { " (estimated)" }
            @if let Some(cost) = usage.cost { ", cost " (format!("{:.4}", cost.get())) }
            @if let Some(took) = usage.duration_ms { ", " (times::duration(Duration::from_millis(took))) }
        }
    }
}

fn answer(at: usize, line: &ModelLine, reply: &ModelReply) -> Markup {
    html! {
        (head("answered", line))
        @if let Some(usage) = &reply.usage { (call_of_model(usage)) }
        @if let Some(reasoning) = &reply.reasoning {
            details data-key={ "reasoning-" (at) } { summary.small { "Reasoning" } div.prose.muted { (VisibleText(reasoning)) } }
        }
        @if !reply.text.trim().is_empty() { div.prose { (VisibleText(&reply.text)) } }
        @for call in &reply.calls { (tool_call(call)) }
        @for note in &reply.notes { p.small.muted { "It was told: " (VisibleText(note)) } }
    }
}

fn tool_call(call: &ModelToolCall) -> Markup {
    let (tone, word) = match &call.result {
        Some(_) if call.is_error => (StateTone::Bad, "failed"),
        Some(_) => (StateTone::Ok, "done"),
        None if call.starts > 0 => (StateTone::Busy, "under way"),
        None => (StateTone::Wait, "waits"),
    };
    html! {
        details.call data-key={ "tool-" (call.id) } {
            summary {
                span.chip { "tool" } " " strong { (VisibleText(&call.name)) } " "
                span.mono.small.muted { (brief(&call.made_with.as_ref().unwrap_or(&call.arguments).to_string(), 90)) } " "
                (mark(tone, word))
                @if call.starts > 1 { span.small.muted { ", started " (call.starts) " times" } }
            }
            div.sides {
                div {
                    (json_view::copied("Arguments", &call.arguments))
                    @if let Some(made) = &call.made_with { (json_view::copied("Made with", made)) }
                }
                @if let Some(result) = &call.result { div { (json_view::copied_text("Result", result)) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::time::WallTime;
    use serde_json::json;

    #[test]
    fn what_is_said_is_escaped_and_calls_have_both_sides() {
        let call = ModelToolCall {
            id: "c1_0".to_owned(),
            name: "<b>".to_owned(),
            arguments: json!({ "path": "\u{202e}<script>" }),
            made_with: Some(json!({ "path": "/safe" })),
            starts: 1,
            result: Some("<script>".to_owned()),
            is_error: true,
        };
        let reply = ModelReply {
            text: "<script>".to_owned(),
            reasoning: Some("hm <i>".to_owned()),
            calls: vec![call],
            usage: Some(ModelUsage::new("m", 1_200, 7)),
            ..ModelReply::default()
        };
        let line = |what| ModelLine { at: WallTime(0), turn: 1, what };
        let lines = [
            line(ModelWords::Told { text: "<u>".to_owned(), files: vec!["<x>.png".to_owned()] }),
            line(ModelWords::Answered(Box::new(reply))),
        ];
        let shown = section(&lines, 3).into_string();
        for hostile in ["<script", "<b>", "<i>", "<u>", "<x>", "\u{202e}"] {
            assert!(!shown.contains(hostile), "{hostile}: {shown}");
        }
        for expected in [
            "Arguments",
            "Made with",
            "Result",
            "failed",
            "Reasoning",
            "1\u{202f}200 tokens in",
            "first 3 lines",
        ] {
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
        assert_eq!(section(&[], 0).into_string(), "");
    }
}
