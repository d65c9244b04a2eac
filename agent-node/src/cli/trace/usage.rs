//! What the work on each task used, agent by agent: calls of models and tools, tokens and cost.

use crate::{
    cli::output,
    telemetry::{names as n, span::Span},
};
use comfy_table::Cell;
use protocol::{ids::AgentId, words::counted};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Whether a span is a call of a model or a tool.
pub(super) fn is_call(span: &Span) -> bool {
    matches!(span.text(n::MESH_SPAN), Some("chat" | "tool"))
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsageSum {
    models: BTreeSet<String>,
    /// Calls of models, failed ones included.
    model_calls: u64,
    failed_model_calls: u64,
    input_tokens: u64,
    output_tokens: u64,
    /// The known costs; absent if no cost is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
    /// Tokens whose cost is unknown.
    unpriced_tokens: u64,
    tools: BTreeMap<String, u64>,
    failed_tool_calls: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentUsage {
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<String>,
    agent: AgentId,
    #[serde(flatten)]
    sum: UsageSum,
}

impl UsageSum {
    pub(super) fn of<'a>(spans: impl IntoIterator<Item = &'a Span>) -> Self {
        let mut sum = Self::default();
        spans.into_iter().for_each(|span| sum.add(span));
        sum
    }

    fn add(&mut self, span: &Span) {
        let failed = u64::from(span.failed.is_some());
        match span.text(n::MESH_SPAN) {
            Some("chat") => {
                let number =
                    |name: &str| span.attributes.get(name).and_then(Value::as_u64).unwrap_or_default();
                let (input, output) = (number(n::GEN_AI_INPUT_TOKENS), number(n::GEN_AI_OUTPUT_TOKENS));
                self.models.extend(span.text(n::GEN_AI_MODEL).map(str::to_owned));
                self.model_calls += 1;
                self.failed_model_calls += failed;
                self.input_tokens += input;
                self.output_tokens += output;
                match span.attributes.get(n::MESH_USAGE_COST).and_then(Value::as_f64) {
                    Some(cost) => *self.cost.get_or_insert_default() += cost,
                    None => self.unpriced_tokens += input + output,
                }
            }
            Some("tool") => {
                let name = span.text(n::GEN_AI_TOOL).unwrap_or_default();
                *self.tools.entry(name.to_owned()).or_default() += 1;
                self.failed_tool_calls += failed;
            }
            _ => {}
        }
    }

    fn calls(&self) -> String {
        match self.failed_model_calls {
            0 => self.model_calls.to_string(),
            failed => format!("{} ({failed} failed)", self.model_calls),
        }
    }

    fn cost(&self) -> String {
        let known = self.cost.map(|cost| format!("{}", (cost * 1e6).round() / 1e6));
        match (known, self.unpriced_tokens) {
            (Some(known), 0) => known,
            (Some(known), _) => format!("{known} + unknown"),
            (None, 0) => String::new(),
            (None, _) => "unknown".to_owned(),
        }
    }

    fn tools(&self) -> String {
        let tools = self.tools.iter().map(|(name, count)| match count {
            1 => name.clone(),
            count => format!("{name} ×{count}"),
        });
        let mut text = tools.collect::<Vec<_>>().join(", ");
        if self.failed_tool_calls > 0 {
            text.push_str(&format!(" ({} failed)", self.failed_tool_calls));
        }
        text
    }

    /// The sum on one line; empty without calls.
    pub(super) fn text(&self) -> String {
        let models: Vec<_> = self.models.iter().map(String::as_str).collect();
        let parts = [
            (self.model_calls > 0).then(|| {
                let calls = counted(usize::try_from(self.model_calls).unwrap_or(usize::MAX), "call", "calls");
                let failed = match self.failed_model_calls {
                    0 => String::new(),
                    failed => format!(" ({failed} failed)"),
                };
                format!("{calls} of {}{failed}", models.join(", "))
            }),
            (self.input_tokens + self.output_tokens > 0).then(|| {
                format!("{} + {} tokens, cost {}", self.input_tokens, self.output_tokens, self.cost())
            }),
            (!self.tools.is_empty()).then(|| format!("calls {}", self.tools())),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// The usage by task and agent, in the order of their first calls.
pub(super) fn by_agent(spans: &[Span]) -> Vec<AgentUsage> {
    let mut calls: Vec<_> = spans.iter().filter(|span| is_call(span)).collect();
    calls.sort_by_key(|span| span.start);
    let mut usages: Vec<AgentUsage> = Vec::new();
    for span in calls {
        let task = span.text(n::MESH_TASK);
        let known =
            usages.iter_mut().find(|usage| usage.agent == span.agent && usage.task_id.as_deref() == task);
        match known {
            Some(usage) => usage.sum.add(span),
            None => usages.push(AgentUsage {
                task_id: task.map(str::to_owned),
                agent: span.agent.clone(),
                sum: UsageSum::of([span]),
            }),
        }
    }
    usages
}

/// A table of the usage, with a total if there are several rows; `None` without calls.
pub(super) fn table(spans: &[Span]) -> Option<String> {
    let usages = by_agent(spans);
    let row = |task: &str, agent: &str, sum: &UsageSum| {
        let models: Vec<_> = sum.models.iter().map(String::as_str).collect();
        [
            task,
            agent,
            &models.join(", "),
            &sum.calls(),
            &sum.input_tokens.to_string(),
            &sum.output_tokens.to_string(),
            &sum.cost(),
            &sum.tools(),
        ]
        .map(|text| Cell::new(output::plain(text)))
        .to_vec()
    };
    let mut rows: Vec<_> = usages
        .iter()
        .map(|usage| row(usage.task_id.as_deref().unwrap_or_default(), usage.agent.as_str(), &usage.sum))
        .collect();
    match rows.len() {
        0 => return None,
        1 => {}
        _ => rows.push(row("all", "", &UsageSum::of(spans))),
    }
    Some(output::table(&["task", "agent", "model", "calls", "tokens in", "out", "cost", "tools"], rows))
}
