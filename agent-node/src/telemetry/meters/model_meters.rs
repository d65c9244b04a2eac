//! Calls of models and tools. Labels are the agents of this process, the capabilities of their cards, and at most
//! [`MAX_MODELS`] models.

use super::{
    super::model_name::{provider_name, request_model},
    openmetrics::{Metric, MetricsPage},
};
use patterns::turn::Progress;
use prometheus_client::metrics::{counter::Counter, family::Family, histogram::Histogram};
use protocol::usage::{ModelUsage, ToolUse, Usage};
use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError, atomic::AtomicU64},
};

/// The most models that have labels of their own; others are counted as `other`.
const MAX_MODELS: usize = 32;
const TOKEN_LABELS: [&str; 6] = [
    "gen_ai_operation_name",
    "gen_ai_provider_name",
    "gen_ai_request_model",
    "gen_ai_token_type",
    "agent",
    "capability",
];
const DURATION_LABELS: [&str; 6] = [
    "gen_ai_operation_name",
    "gen_ai_provider_name",
    "gen_ai_request_model",
    "error_type",
    "agent",
    "capability",
];
const COST_LABELS: [&str; 3] = ["gen_ai_request_model", "agent", "capability"];
/// Upper bounds of the buckets of tokens, as the conventions advise.
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
/// Upper bounds of the buckets of durations, seconds, as the conventions advise.
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

type CallLabels<const N: usize> = [(&'static str, String); N];
type CallHistogram = Family<CallLabels<6>, Histogram, fn() -> Histogram>;

/// Who makes a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallOrigin {
    pub agent: String,
    /// A capability of its card; empty without one, `other` for one that is not in its card.
    pub capability: String,
}

/// What calls of models and tools took.
pub struct ModelMeters {
    tokens: CallHistogram,
    duration: CallHistogram,
    cost: Family<CallLabels<3>, Counter<f64, AtomicU64>>,
    unpriced: Family<CallLabels<3>, Counter>,
    /// The providers and models that have labels.
    models: Mutex<BTreeSet<(String, String)>>,
}

impl Default for ModelMeters {
    fn default() -> Self {
        Self {
            tokens: Family::new_with_constructor(|| Histogram::new(TOKENS)),
            duration: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            cost: Family::default(),
            unpriced: Family::default(),
            models: Mutex::default(),
        }
    }
}

impl ModelMeters {
    /// Counts a report of a brain, if it is about a call.
    pub fn observe(&self, origin: &CallOrigin, report: &Progress) {
        match report {
            Progress::Usage(call) => self.observe_model(origin, call),
            Progress::Tool(call) => self.observe_tool(origin, call),
            _ => {}
        }
    }

    /// Adds the metrics to a page.
    pub fn add_to(&self, page: &mut MetricsPage) {
        page.add(Metric::ModelTokens, self.tokens.clone());
        page.add(Metric::CallSeconds, self.duration.clone());
        page.add(Metric::ModelCost, self.cost.clone());
        page.add(Metric::UnpricedTokens, self.unpriced.clone());
    }

    fn observe_model(&self, origin: &CallOrigin, call: &ModelUsage) {
        let (provider, model) =
            self.labels_of(provider_name(call.provider.as_deref()), request_model(&call.model));
        self.observe_duration(origin, ["chat", &provider, &model], call.error.as_deref(), call.duration_ms);
        if call.error.is_some() && Usage::from(call).is_none() {
            return;
        }
        for (kind, tokens) in [("input", call.input_tokens), ("output", call.output_tokens)] {
            let labels =
                labelled(TOKEN_LABELS, ["chat", &provider, &model, kind, &origin.agent, &origin.capability]);
            self.tokens.get_or_create(&labels).observe(tokens as f64);
        }
        let labels = labelled(COST_LABELS, [&model, &origin.agent, &origin.capability]);
        match call.cost {
            Some(cost) => drop(self.cost.get_or_create(&labels).inc_by(cost.get())),
            None => drop(
                self.unpriced
                    .get_or_create(&labels)
                    .inc_by(call.input_tokens.saturating_add(call.output_tokens)),
            ),
        }
    }

    fn observe_tool(&self, origin: &CallOrigin, call: &ToolUse) {
        self.observe_duration(origin, ["execute_tool", "", ""], call.error.as_deref(), call.duration_ms);
    }

    /// Counts a call. One whose duration is not reported counts as 0 seconds.
    fn observe_duration(
        &self,
        origin: &CallOrigin,
        [operation, provider, model]: [&str; 3],
        error: Option<&str>,
        duration_ms: Option<u64>,
    ) {
        let error = error.map_or("", error_label);
        let labels =
            labelled(DURATION_LABELS, [operation, provider, model, error, &origin.agent, &origin.capability]);
        self.duration.get_or_create(&labels).observe(duration_ms.unwrap_or_default() as f64 / 1_000.0);
    }

    /// The labels of a provider and a model: their names, or `other` for both when there are too many.
    fn labels_of(&self, provider: &str, model: &str) -> (String, String) {
        let names = (provider.to_owned(), model.to_owned());
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if models.contains(&names) || models.len() < MAX_MODELS {
            models.insert(names.clone());
            return names;
        }
        ("other".to_owned(), "other".to_owned())
    }
}

/// The closed list of errors: statuses of HTTP and the codes of the mesh.
fn error_label(code: &str) -> &str {
    const CODES: [&str; 7] =
        ["no_answer", "provider_error", "context_too_long", "cassette", "cut", "tool_error", "interrupted"];
    let is_status = code.len() == 3 && code.parse().is_ok_and(|status: u16| (100..600).contains(&status));
    if is_status || CODES.contains(&code) { code } else { "other" }
}

fn labelled<const N: usize>(names: [&'static str; N], values: [&str; N]) -> CallLabels<N> {
    let mut values = values.into_iter();
    names.map(|name| (name, values.next().unwrap_or_default().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::bid::Cost;

    fn page(meters: &ModelMeters) -> String {
        let mut page = MetricsPage::default();
        meters.add_to(&mut page);
        page.text()
    }

    #[test]
    fn calls_are_counted_by_agent_and_capability_and_the_labels_are_bounded() {
        let meters = ModelMeters::default();
        let origin = CallOrigin { agent: "thinker-01".into(), capability: "research".into() };
        let call = |model: &str, cost: Option<f64>| {
            Progress::Usage(ModelUsage {
                model: model.into(),
                input_tokens: 100,
                output_tokens: 5,
                cost: cost.and_then(Cost::new),
                provider: Some("openai".into()),
                duration_ms: Some(30),
                ..ModelUsage::default()
            })
        };
        meters.observe(&origin, &call("openai/m", Some(0.25)));
        meters.observe(&origin, &call("openai/m", None));
        let failed =
            ModelUsage { model: "openai/m".into(), error: Some("429".into()), ..ModelUsage::default() };
        meters.observe(&origin, &Progress::Usage(failed.clone()));
        let cut = ModelUsage { error: Some("cut".into()), input_tokens: 50, cost: Cost::new(0.5), ..failed };
        meters.observe(&origin, &Progress::Usage(ModelUsage { provider: Some("openai".into()), ..cut }));
        let tool = ToolUse {
            id: "c".into(),
            name: "t".into(),
            error: Some("any text".into()),
            ..ToolUse::default()
        };
        meters.observe(&origin, &Progress::Tool(tool));
        let text = page(&meters);
        let who = "agent=\"thinker-01\",capability=\"research\"";
        let model = "gen_ai_provider_name=\"openai\",gen_ai_request_model=\"m\"";
        for line in [
            format!(
                "gen_ai_client_token_usage_sum{{gen_ai_operation_name=\"chat\",{model},gen_ai_token_type=\"input\",{who}}} 250.0"
            ),
            format!(
                "gen_ai_client_operation_duration_seconds_count{{gen_ai_operation_name=\"chat\",{model},error_type=\"\",{who}}} 2"
            ),
            format!(
                "gen_ai_client_operation_duration_seconds_count{{gen_ai_operation_name=\"chat\",gen_ai_provider_name=\"unknown\",gen_ai_request_model=\"m\",error_type=\"429\",{who}}} 1"
            ),
            format!(
                "gen_ai_client_operation_duration_seconds_count{{gen_ai_operation_name=\"execute_tool\",gen_ai_provider_name=\"\",gen_ai_request_model=\"\",error_type=\"other\",{who}}} 1"
            ),
            format!("mesh_model_cost_total{{gen_ai_request_model=\"m\",{who}}} 0.75"),
            format!("mesh_model_unpriced_tokens_total{{gen_ai_request_model=\"m\",{who}}} 105"),
        ] {
            assert!(text.lines().any(|known| known == line), "no {line} in\n{text}");
        }
        for number in 0..100 {
            meters.observe(&origin, &call(&format!("model-{number}"), None));
        }
        let text = page(&meters);
        let models = text.lines().filter(|line| line.starts_with("mesh_model_unpriced_tokens_total{"));
        assert!(models.count() <= MAX_MODELS + 1 && text.contains("gen_ai_request_model=\"other\""));
    }
}
