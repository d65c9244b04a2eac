//! Variables that begin like one that is read here and are none: a slip is named, with what was probably meant.

use super::{
    Cli,
    misunderstood::all_args,
    places::At,
    settings::{COMPOSE, STANDARD},
};
use crate::telemetry::otel_settings::unused;
use clap::{Args as _, Command, CommandFactory as _};
use std::collections::BTreeSet;

/// How many letters a slip differs by, where others have names of the same beginning.
const SLIP: usize = 2;
/// The standard's variables for logs, which differ from those for spans by no more than a slip does.
const OF_LOGS: &str = "OTEL_BLRP_";

/// Warns of each, in a line.
pub(super) fn name_unknown() {
    let mut given: Vec<_> = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    given.sort();
    let (ours, standard) = (ours(), standard());
    let unused = given.iter().filter(|name| !standard.contains(*name) && slip(name, &standard).is_none());
    let values: Vec<_> =
        unused.map(|name| (name.as_str(), std::env::var(name).unwrap_or_default())).collect();
    unused::lines(values.iter().map(|(name, value)| (*name, value.as_str())))
        .iter()
        .for_each(|line| tracing::warn!("{line}"));
    for name in &given {
        let nearest = match name.starts_with("MESH_") {
            true => stray(name, &ours),
            false => slip(name, &standard),
        };
        if let Some(nearest) = nearest {
            tracing::warn!("{name} is no variable of mesh: {nearest} is the nearest");
        }
    }
}

/// Every variable of this program and its compose files.
fn ours() -> BTreeSet<String> {
    let (command, asking) = (Cli::command(), At::augment_args(Command::new("asking")));
    let args = all_args(&command).into_iter().chain(asking.get_arguments());
    let read = args.filter_map(|arg| Some(arg.get_env()?.to_str()?.to_owned()));
    read.chain(COMPOSE.iter().map(|(name, _, _)| (*name).to_owned())).collect()
}

/// Those of the OpenTelemetry standard that are read here.
fn standard() -> BTreeSet<String> {
    let names = STANDARD.iter().map(|(name, _, _)| (*name).to_owned());
    names.filter(|name| name.starts_with("OTEL_")).collect()
}

/// The nearest of `known`, if `name` is none of them.
fn stray<'a>(name: &str, known: &'a BTreeSet<String>) -> Option<&'a str> {
    let nearest = known.iter().max_by(|a, b| {
        let near = |known: &str| strsim::jaro_winkler(known, name);
        near(a).total_cmp(&near(b))
    });
    nearest.map(String::as_str).filter(|_| !known.contains(name))
}

/// The one of `known` that `name` is a slip of. The standard has names that are not read here, and languages have their
/// own.
fn slip<'a>(name: &str, known: &'a BTreeSet<String>) -> Option<&'a str> {
    if known.contains(name) || name.starts_with(OF_LOGS) {
        return None;
    }
    let far = |known: &&str| strsim::damerau_levenshtein(known, name);
    known.iter().map(String::as_str).filter(|known| far(known) <= SLIP).min_by_key(far)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_in_a_name_of_the_standard_is_told_from_a_name_that_is_not_used_here() {
        let known = standard();
        for (name, meant) in [
            ("OTEL_EXPORTER_OTLP_ENDPIONT", "OTEL_EXPORTER_OTLP_ENDPOINT"),
            ("OTEL_EXPORTER_OLTP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"),
            ("OTEL_TRACE_SAMPLER", "OTEL_TRACES_SAMPLER"),
            ("OTEL_SERVICENAME", "OTEL_SERVICE_NAME"),
            ("OTEL_RESOURCE_ATTRIBUTE", "OTEL_RESOURCE_ATTRIBUTES"),
        ] {
            assert_eq!(slip(name, &known), Some(meant), "{name}");
        }
        let signals = ["", "TRACES_", "METRICS_", "LOGS_", "PROFILES_"];
        let of_signal = [
            "ENDPOINT",
            "INSECURE",
            "CERTIFICATE",
            "CLIENT_KEY",
            "CLIENT_CERTIFICATE",
            "HEADERS",
            "COMPRESSION",
            "TIMEOUT",
            "PROTOCOL",
        ];
        let exporter = signals
            .iter()
            .flat_map(|signal| of_signal.map(|what| format!("OTEL_EXPORTER_OTLP_{signal}{what}")));
        let batches = ["SCHEDULE_DELAY", "EXPORT_TIMEOUT", "MAX_QUEUE_SIZE", "MAX_EXPORT_BATCH_SIZE"];
        let batches = ["BSP", "BLRP"].iter().flat_map(|of| batches.map(|what| format!("OTEL_{of}_{what}")));
        let others = [
            "OTEL_METRICS_EXPORTER",
            "OTEL_LOGS_EXPORTER",
            "OTEL_PROPAGATORS",
            "OTEL_LOG_LEVEL",
            "OTEL_CONFIG_FILE",
            "OTEL_ENTITIES",
            "OTEL_METRIC_EXPORT_INTERVAL",
            "OTEL_METRIC_EXPORT_TIMEOUT",
            "OTEL_METRICS_EXEMPLAR_FILTER",
            "OTEL_ATTRIBUTE_COUNT_LIMIT",
            "OTEL_SPAN_EVENT_COUNT_LIMIT",
            "OTEL_EXPORTER_ZIPKIN_ENDPOINT",
            "OTEL_EXPORTER_PROMETHEUS_PORT",
            "OTEL_PYTHON_LOG_LEVEL",
            "OTEL_JAVAAGENT_ENABLED",
            "OTEL_SEMCONV_STABILITY_OPT_IN",
            "PATH",
        ];
        for name in exporter.chain(batches).chain(others.map(str::to_owned)) {
            assert_eq!(slip(&name, &known), None, "{name}");
        }
    }

    #[test]
    fn every_name_that_begins_like_ours_is_one_or_is_named() {
        let known = ours();
        assert_eq!(stray("MESH_CAPTUER", &known), Some("MESH_CAPTURE"));
        for name in ["MESH_CAPTURE", "MESH_OUTSIDE_ALLOW", "MESH_AT", "MESH_BUILD_FILE"] {
            assert_eq!(stray(name, &known), None, "{name}");
        }
    }
}
