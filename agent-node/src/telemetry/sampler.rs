//! Which traces are recorded: the samplers of OpenTelemetry's SDK. The SDK reads `OTEL_TRACES_SAMPLER` only for a tracer
//! provider, which is not used here, and ignores wrong values, so it is read here.

use opentelemetry::{
    Context,
    trace::{SpanContext, SpanId, SpanKind, TraceContextExt as _, TraceFlags, TraceState},
};
use opentelemetry_sdk::trace::{Sampler, SamplingDecision, ShouldSample as _};

/// Decides whether a trace is recorded. The default is `parentbased_always_on`.
#[derive(Debug, Clone)]
pub struct TraceSampler(Sampler);

impl Default for TraceSampler {
    fn default() -> Self {
        Self(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)))
    }
}

/// The names of the samplers in OpenTelemetry's specification.
pub const NAMES: [&str; 6] = [
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
];

impl TraceSampler {
    /// The sampler `name`; `arg` is the ratio for those that take one, 1 if absent. Fails on other names and ratios.
    pub fn parse(name: &str, arg: Option<&str>) -> Result<Self, String> {
        let ratio = || match arg.map(str::parse::<f64>) {
            None => Ok(1.0),
            Some(Ok(ratio)) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
            Some(_) => Err(format!(
                "OTEL_TRACES_SAMPLER_ARG is {:?}: a share from 0 to 1 is wanted, such as 0.25",
                arg.unwrap_or_default()
            )),
        };
        let root = match name.trim_start_matches("parentbased_") {
            "always_on" => Sampler::AlwaysOn,
            "always_off" => Sampler::AlwaysOff,
            "traceidratio" => Sampler::TraceIdRatioBased(ratio()?),
            _ => return Err(format!("OTEL_TRACES_SAMPLER is {name:?}: use one of {}", NAMES.join(", "))),
        };
        let is_parent_based = name.starts_with("parentbased_");
        Ok(Self(if is_parent_based { Sampler::ParentBased(Box::new(root)) } else { root }))
    }

    /// Whether `trace` is recorded; `parent` is the caller's decision.
    pub fn decide(&self, parent: Option<bool>, trace: u128) -> bool {
        let trace = trace.into();
        let parent = parent.map(|is_sampled| {
            let flags = TraceFlags::default().with_sampled(is_sampled);
            // Samplers look at the flags only, but ignore a span without an id.
            let span = SpanContext::new(trace, SpanId::from(1_u64), flags, true, TraceState::default());
            Context::new().with_remote_span_context(span)
        });
        let result = self.0.should_sample(parent.as_ref(), trace, "", &SpanKind::Internal, &[], &[]);
        result.decision == SamplingDecision::RecordAndSample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callers_decision_counts_for_parent_based_samplers_only() {
        let all = TraceSampler::default();
        assert!(all.decide(None, 1) && all.decide(Some(true), 1) && !all.decide(Some(false), 1));
        assert!(TraceSampler::parse("always_on", None).unwrap().decide(Some(false), 1));
        assert!(!TraceSampler::parse("parentbased_always_off", None).unwrap().decide(None, 1));
    }

    #[test]
    fn a_ratio_of_the_traces_is_recorded() {
        let quarter = TraceSampler::parse("parentbased_traceidratio", Some("0.25")).unwrap();
        let agent = protocol::ids::AgentId::parse("a").unwrap();
        let traces = (0..4_000).map(|number| {
            let id = protocol::ids::ConversationId::parse(&format!("c-{number}")).unwrap();
            protocol::trace::trace_begun_by(&agent, &id)
        });
        let sampled = traces.filter(|trace| quarter.decide(None, *trace)).count();
        assert!((850..1_150).contains(&sampled), "{sampled} of 4000");
    }

    #[test]
    fn a_wrong_sampler_or_ratio_is_named() {
        let parse = |name, arg| TraceSampler::parse(name, arg).unwrap_err();
        assert!(parse("jaeger_remote", None).contains("parentbased_always_on"));
        assert!(parse("traceidratio", Some("2")).contains("OTEL_TRACES_SAMPLER_ARG"));
    }
}
