//! OpenTelemetry's variables that have no effect here. Setting one gives a warning with the reason.

use std::collections::BTreeMap;

/// Names or prefixes (`*`), and the reasons. The first match counts.
pub const UNUSED: [(&str, &str); 23] = [
    ("OTEL_EXPORTER_OTLP_SPAN_INSECURE", SCHEME),
    ("OTEL_EXPORTER_OTLP_PROFILES_*", PROFILES),
    ("OTEL_EXPORTER_PROMETHEUS_*", METRICS),
    ("OTEL_EXPORTER_ZIPKIN_*", OTLP),
    ("OTEL_EXPORTER_JAEGER_*", OTLP),
    ("OTEL_EXPORTER_*", OTLP),
    ("OTEL_METRICS_*", METRICS),
    ("OTEL_METRIC_*", METRICS),
    ("OTEL_LOGS_*", LOGS),
    ("OTEL_LOGRECORD_*", LOGS),
    ("OTEL_LOG_LEVEL", "`--log` and `RUST_LOG` say which logs are shown"),
    ("OTEL_PROFILES_*", PROFILES),
    ("OTEL_ATTRIBUTE_COUNT_LIMIT", ATTRIBUTES),
    ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", ATTRIBUTES),
    ("OTEL_SPAN_EVENT_COUNT_LIMIT", EVENTS),
    ("OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", EVENTS),
    ("OTEL_SPAN_LINK_COUNT_LIMIT", LINKS),
    ("OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", LINKS),
    ("OTEL_ENTITIES", "`OTEL_RESOURCE_ATTRIBUTES` says what a process is"),
    ("OTEL_CONFIG_FILE", FILE),
    ("OTEL_EXPERIMENTAL_CONFIG_FILE", FILE),
    ("OTEL_SEMCONV_*", "the names of attributes are pinned (TELEMETRY.md)"),
    ("OTEL_*", "it is none that mesh knows"),
];

const SCHEME: &str = "`http://` or `https://` in the endpoint says it";
const METRICS: &str = "metrics are at `GET /metrics`, or sent as they are";
const LOGS: &str = "logs are sent as they are";
const PROFILES: &str = "there are no profiles";
const OTLP: &str = "traces are sent as OTLP and in no other way";
const ATTRIBUTES: &str = "no span has more attributes than TELEMETRY.md lists";
const EVENTS: &str = "no span has events";
const LINKS: &str = "a span has one link at most, without attributes";
const FILE: &str = "there is no such file here; these variables are read one by one";

/// A warning for each reason, with those of the `given` variables (name, value) that it holds for. An empty value, or `none`
/// for an exporter, gives no warning.
pub fn lines<'a>(given: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, value) in given {
        let value = value.trim();
        let is_default = value.is_empty() || name.ends_with("_EXPORTER") && value == "none";
        if let Some(why) = reason(name).filter(|_| !is_default) {
            by_reason.entry(why).or_default().push(name);
        }
    }
    let line = |(why, names): (&str, Vec<&str>)| {
        let verb = if let [_] = names[..] { "is" } else { "are" };
        format!("{} {verb} set, but not used by mesh: {why}", names.join(", "))
    };
    by_reason.into_iter().map(line).collect()
}

fn reason(name: &str) -> Option<&'static str> {
    let matches = |(pattern, _): &&(&str, &str)| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == *pattern,
    };
    UNUSED.iter().find(matches).map(|(_, why)| *why)
}
