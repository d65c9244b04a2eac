//! The spans of calls of models and tools, which a brain reports within its turn. They have no content.

use super::{
    super::{
        model_name::{provider_name, request_model},
        names as n,
        span::{Span, SpanKind, hex},
    },
    SpanBuilder, set_failure,
};
use patterns::turn::Progress;
use protocol::{
    spaces::brief::{BriefEntry, BriefRecord},
    time::WallTime,
    trace::SpanName,
    usage::{ModelUsage, ToolUse, Usage, is_code},
};
use serde_json::json;

pub(super) struct TurnCalls {
    /// The id of the turn's effect.
    effect: String,
    /// The id of the turn's span.
    span: u64,
    calls: usize,
    /// When the turn began, or its last call ended: the start of a call whose duration is not reported.
    last: WallTime,
}

impl SpanBuilder<'_> {
    pub(super) fn begin_turn(&mut self, turn: u32, effect: &str, span: u64, at: WallTime) {
        let calls = TurnCalls { effect: effect.to_owned(), span, calls: 0, last: at };
        self.turns.insert(turn, calls);
    }

    /// Adds the spans of the calls among the reports of a turn.
    pub(super) fn record_calls(&mut self, turn: u32, updates: &[Progress], at: WallTime) {
        for update in updates {
            match update {
                Progress::Usage(call) => self.record_model_call(turn, call, at),
                Progress::Tool(call) => self.record_tool_call(turn, call, at),
                Progress::Brief(brief) => self.record_brief(turn, brief),
                _ => {}
            }
        }
    }

    /// Names the entries of the brief on the span of the turn.
    fn record_brief(&mut self, turn: u32, brief: &BriefRecord) {
        let Some(turn) = self.turns.get(&turn).map(|calls| hex(calls.span)) else { return };
        let Some(built) = self.spans.iter_mut().find(|built| built.span.span_id == turn) else { return };
        let name = |entry: &BriefEntry| format!("{}@{}", entry.id, entry.version);
        let included: Vec<_> = brief.included.iter().map(name).collect();
        let omitted = brief.omitted.iter();
        let omitted: Vec<_> =
            omitted.map(|omitted| format!("{}: {}", name(&omitted.entry), omitted.why)).collect();
        let known = brief.known_at.map(|at| format!("the board is away; known at {at}"));
        let span = &mut built.span;
        span.set(n::MESH_BRIEF_INCLUDED, json!(included));
        span.set(n::MESH_BRIEF_OMITTED, (!omitted.is_empty()).then(|| json!(omitted)));
        span.set(n::MESH_BRIEF_NOTE, brief.missing.clone().or(known).map(|note| json!(note)));
    }

    fn record_model_call(&mut self, turn: u32, call: &ModelUsage, at: WallTime) {
        let model = request_model(&call.model);
        let span = self.call_span(turn, "chat", SpanKind::Client, "chat", model, call.duration_ms, at);
        let Some(span) = span else { return };
        let finish = call.finish_reason.as_deref().filter(|reason| is_code(reason));
        let mut span = span
            .with(n::GEN_AI_PROVIDER, json!(provider_name(call.provider.as_deref())))
            .with(n::GEN_AI_MODEL, json!(model))
            .with(n::GEN_AI_FINISH, finish.map(|reason| json!([reason])))
            .with(n::LANGFUSE_TYPE, json!("generation"));
        if call.error.is_none() || !Usage::from(call).is_none() {
            span.set(n::GEN_AI_INPUT_TOKENS, json!(call.input_tokens));
            span.set(n::GEN_AI_OUTPUT_TOKENS, json!(call.output_tokens));
            span.set(n::MESH_USAGE_COST, call.cost.map(|cost| json!(cost.get())));
        }
        self.add_call(span, call.error.as_deref());
    }

    fn record_tool_call(&mut self, turn: u32, call: &ToolUse, at: WallTime) {
        let name = if is_code(&call.name) { call.name.as_str() } else { "other" };
        let operation = "execute_tool";
        let span = self.call_span(turn, "tool", SpanKind::Internal, operation, name, call.duration_ms, at);
        let Some(span) = span else { return };
        let span = span
            .with(n::GEN_AI_TOOL, json!(name))
            .with(n::GEN_AI_TOOL_CALL, is_code(&call.id).then(|| json!(call.id)))
            .with(n::LANGFUSE_TYPE, json!("tool"));
        self.add_call(span, call.error.as_deref());
    }

    /// The span of a call that ends at `at`; `None` if the turn is unknown.
    #[expect(clippy::too_many_arguments, reason = "what a span begins with")]
    fn call_span(
        &mut self,
        turn: u32,
        word: &str,
        kind: SpanKind,
        operation: &str,
        what: &str,
        duration_ms: Option<u64>,
        at: WallTime,
    ) -> Option<Span> {
        let calls = self.turns.get_mut(&turn)?;
        calls.calls += 1;
        let duration = duration_ms.and_then(|ms| i64::try_from(ms).ok());
        let start = duration.map_or(calls.last, |ms| WallTime(at.0.saturating_sub(ms)));
        calls.last = at;
        let (id, parent) = (SpanName::Call(&calls.effect, calls.calls).id(), calls.span);
        let mut span = self
            .span(word, id, Some(parent), kind, format!("{operation} {what}"), start)
            .with(n::MESH_TURN, json!(turn))
            .with(n::PEER_FROM, json!(self.me))
            .with(n::GEN_AI_OPERATION, json!(operation))
            .with(n::GEN_AI_AGENT_NAME, json!(self.me))
            .with(n::GEN_AI_CONVERSATION, json!(self.id));
        span.end = Some(at);
        Some(span)
    }

    fn add_call(&mut self, mut span: Span, error: Option<&str>) {
        if let Some(error) = error {
            set_failure(&mut span, if is_code(error) { error } else { "failed" }.to_owned());
        }
        self.add(span, true);
    }
}
