//! Spans as the types of OpenTelemetry's SDK.

use super::{
    capture::Capture,
    span::{self, Span},
};
use opentelemetry::{
    Array, InstrumentationScope, KeyValue, StringValue, Value as Attribute,
    trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState},
};
use opentelemetry_sdk::trace::{SpanData, SpanLinks};
use protocol::time::WallTime;
use serde_json::Value;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The span for the SDK's exporters; `None` if it has no end. `capture` masks its labels, many of which peers chose.
/// Attributes are cut after `max_len` characters.
pub(super) fn span_data(span: &Span, capture: &Capture, max_len: Option<usize>) -> Option<SpanData> {
    let label = |text: &String| capture.label(text);
    let others = span.trace_state.as_ref().filter(|state| label(state) == **state);
    let (trace, state) = (TraceId::from_hex(&span.trace_id).ok()?, state(others.map(String::as_str)));
    let id = |text: &str| SpanId::from_hex(text).ok();
    let context =
        |span, is_remote| SpanContext::new(trace, span, TraceFlags::SAMPLED, is_remote, state.clone());
    let mut links = SpanLinks::default();
    if let Some(link) = span.link.as_deref().and_then(id) {
        links.links.push(Link::new(context(link, true), Vec::new(), 0));
    }
    Some(SpanData {
        span_context: context(id(&span.span_id)?, false),
        parent_span_id: span.parent_id.as_deref().and_then(id).unwrap_or(SpanId::INVALID),
        parent_span_is_remote: span.is_parent_remote,
        span_kind: match span.kind {
            span::SpanKind::Internal => SpanKind::Internal,
            span::SpanKind::Server => SpanKind::Server,
            span::SpanKind::Client => SpanKind::Client,
            span::SpanKind::Producer => SpanKind::Producer,
        },
        name: label(&span.name).into(),
        start_time: time(span.start),
        end_time: time(span.end?),
        attributes: span
            .attributes
            .iter()
            .map(|(name, value)| KeyValue::new(name.clone(), attribute(value, capture, max_len)))
            .collect(),
        dropped_attributes_count: 0,
        events: Default::default(),
        links,
        status: span.failed.as_ref().map_or(Status::Unset, |why| Status::error(label(why))),
        instrumentation_scope: InstrumentationScope::builder("agent-mesh")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build(),
    })
}

/// The length that no text is cut below, in bytes.
const MIN_CUT_LEN: usize = 256;

/// Cuts the long texts among the attributes to half the length of the longest. Returns false if all are short.
pub(super) fn cut(span: &mut SpanData) -> bool {
    let lens = span.attributes.iter_mut().flat_map(|attribute| texts(&mut attribute.value));
    let longest = lens.map(|text| text.as_str().len()).max().unwrap_or_default();
    if longest <= MIN_CUT_LEN {
        return false;
    }
    let max_len = (longest / 2).max(MIN_CUT_LEN);
    for text in span.attributes.iter_mut().flat_map(|attribute| texts(&mut attribute.value)) {
        let end = text.as_str().floor_char_boundary(max_len);
        *text = text.as_str()[..end].to_owned().into();
    }
    true
}

fn texts(value: &mut Attribute) -> &mut [StringValue] {
    if let Attribute::String(text) = value {
        std::slice::from_mut(text)
    } else if let Attribute::Array(Array::String(texts)) = value {
        texts
    } else {
        &mut []
    }
}

fn state(text: Option<&str>) -> TraceState {
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn time(at: WallTime) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(at.0).unwrap_or_default())
}

fn attribute(value: &Value, capture: &Capture, max_len: Option<usize>) -> Attribute {
    let text = |value: &Value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let mut text = capture.label(&text);
        let end = max_len.and_then(|max_len| text.char_indices().nth(max_len));
        end.inspect(|(at, _)| text.truncate(*at));
        StringValue::from(text)
    };
    match value {
        Value::Bool(is) => Attribute::Bool(*is),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Attribute::I64(whole),
            None => Attribute::F64(number.as_f64().unwrap_or_default()),
        },
        Value::Array(items) => Attribute::Array(Array::String(items.iter().map(text).collect())),
        _ => Attribute::String(text(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{ids::AgentId, trace::TraceContext};
    use serde_json::json;

    #[test]
    fn the_long_texts_of_a_span_are_halved_down_to_a_limit() {
        let trace = TraceContext { trace_id: 7, span_id: 1, sampled: true, state: None };
        let agent = AgentId::parse("a-01").unwrap();
        let mut span = Span::new(&trace, 2, None, &agent, span::SpanKind::Internal, "turn", WallTime(0))
            .with("list", json!(["é".repeat(300), "short"]))
            .with("number", json!(1))
            .with("text", json!("x".repeat(1_000)));
        span.end = Some(WallTime(1));
        let mut span = span_data(&span, &Capture::default(), None).unwrap();
        let mut lens = || {
            let is_cut = cut(&mut span);
            let texts = span.attributes.iter_mut().flat_map(|attribute| texts(&mut attribute.value));
            (is_cut, texts.map(|text| text.as_str().len()).collect::<Vec<_>>())
        };
        assert_eq!(lens(), (true, vec![500, 5, 500]));
        assert_eq!(lens(), (true, vec![256, 5, 256]));
        assert_eq!(lens(), (false, vec![256, 5, 256]));
    }
}
