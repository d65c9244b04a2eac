//! Warns of misspelled environment variables and names the nearest known one.

use super::{
    Cli,
    endpoints::AtArgs,
    parsing::all_args,
    settings_reference::{COMPOSE, STANDARD},
};
use crate::telemetry::otel_settings::{is_disabled, unused};
use clap::{Args as _, Command, CommandFactory as _};
use std::collections::BTreeSet;

/// Largest edit distance of a misspelled name. Other programs read names that begin with `OTEL_`, too.
const MAX_TYPO_DISTANCE: usize = 2;

/// Logs one warning per misspelled or unused variable of this process.
pub(super) fn warn_unknown() {
    let mut names: Vec<_> = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    names.sort();
    names.retain(|name| !(is_disabled() && name.starts_with("OTEL_")));
    let (ours, standard) = (mesh_variables(), otel_variables());
    let unused =
        names.iter().filter(|name| !standard.contains(*name) && nearest_typo(name, &standard).is_none());
    let values: Vec<_> =
        unused.map(|name| (name.as_str(), std::env::var(name).unwrap_or_default())).collect();
    unused::lines(values.iter().map(|(name, value)| (*name, value.as_str())))
        .iter()
        .for_each(|line| tracing::warn!("{line}"));
    for name in &names {
        let is_unknown = name.starts_with("MESH_") && !ours.contains(name);
        let nearest = nearest_typo(name, if is_unknown { &ours } else { &standard });
        match nearest {
            Some(nearest) => tracing::warn!("{name} is no variable of mesh: {nearest} is the nearest"),
            None if is_unknown => {
                tracing::warn!("{name} is no variable of mesh; `mesh validate --settings` lists them");
            }
            None => {}
        }
    }
}

/// Every variable of this program and its compose files.
fn mesh_variables() -> BTreeSet<String> {
    let (command, asking) = (Cli::command(), AtArgs::augment_args(Command::new("asking")));
    let args = all_args(&command).into_iter().chain(asking.get_arguments());
    let read = args.filter_map(|arg| Some(arg.get_env()?.to_str()?.to_owned()));
    read.chain(COMPOSE.iter().map(|(name, _, _)| (*name).to_owned())).collect()
}

/// The variables of the OpenTelemetry standard that this program reads.
fn otel_variables() -> BTreeSet<String> {
    let names = STANDARD.iter().map(|(name, _, _)| (*name).to_owned());
    names.filter(|name| name.starts_with("OTEL_")).collect()
}

/// The one of `known` within [`MAX_TYPO_DISTANCE`] of `name`; `None` for standard names that this program does not read.
fn nearest_typo<'a>(name: &str, known: &'a BTreeSet<String>) -> Option<&'a str> {
    if known.contains(name) {
        return None;
    }
    let distance = |known: &&str| strsim::damerau_levenshtein(known, name);
    known.iter().map(String::as_str).filter(|known| distance(known) <= MAX_TYPO_DISTANCE).min_by_key(distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_standard_name_is_distinguished_from_an_unused_one() {
        let known = otel_variables();
        for (name, expected) in [
            ("OTEL_EXPORTER_OTLP_ENDPIONT", "OTEL_EXPORTER_OTLP_ENDPOINT"),
            ("OTEL_EXPORTER_OLTP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"),
            ("OTEL_TRACE_SAMPLER", "OTEL_TRACES_SAMPLER"),
            ("OTEL_SERVICENAME", "OTEL_SERVICE_NAME"),
            ("OTEL_RESOURCE_ATTRIBUTE", "OTEL_RESOURCE_ATTRIBUTES"),
        ] {
            assert_eq!(nearest_typo(name, &known), Some(expected), "{name}");
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
            assert_eq!(nearest_typo(&name, &known), None, "{name}");
        }
    }

    #[test]
    fn an_unknown_name_with_our_prefix_gets_one_that_it_may_be_meant_as() {
        let known = mesh_variables();
        for (name, nearest) in [
            ("MESH_CAPTUER", Some("MESH_CAPTURE")),
            ("MESH_REGISTY", Some("MESH_REGISTRY")),
            ("MESH_PROT", None),
            ("MESH_CAPTURE", None),
            ("MESH_OUTSIDE_ALLOW", None),
            ("MESH_AT", None),
            ("MESH_BUILD_FILE", None),
        ] {
            assert_eq!(nearest_typo(name, &known), nearest, "{name}");
        }
    }
}
