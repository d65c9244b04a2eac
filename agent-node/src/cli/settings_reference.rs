//! The reference of every flag and environment variable; `deploy/config/settings.md` is its output.
//! Not `clap-markdown`, which lists each command with all its flags again and knows neither the variables that no flag has nor
//! those of standards.

use super::{Cli, SERVERS, endpoints::AtArgs};
use crate::telemetry::otel_settings::unused::UNUSED;
use clap::{Arg, Args as _, Command, CommandFactory as _};
use std::fmt::Write as _;

/// Variables of the environment and of standards: name, default, effect.
pub(super) const STANDARD: [(&str, &str, &str); 59] = [
    ("HOME", "", "where `~/.mesh` lies"),
    (
        "RUST_LOG",
        "warn,brain=info",
        "which logs a process shows, if `--log` does not say; `brain` is what brains log and write to standard error",
    ),
    ("NO_COLOR", "", "no colours, if it is set to anything"),
    (
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "",
        "where traces, and logs and metrics if they are exported, go: the base URL of an OTLP receiver; nowhere if empty",
    ),
    (
        "OTEL_EXPORTER_OTLP_HEADERS",
        "",
        "headers (over gRPC metadata) that go with them, `name=value,…`, values percent-encoded",
    ),
    ("OTEL_EXPORTER_OTLP_TIMEOUT", "10000", "how long one request may take, milliseconds"),
    (
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "http/protobuf",
        "`http/protobuf` (usually port 4318) or `grpc` (usually port 4317)",
    ),
    (
        "OTEL_EXPORTER_OTLP_INSECURE",
        "false",
        "`true` for no TLS, if the endpoint of gRPC is a host and a port without `http://` or `https://`",
    ),
    ("OTEL_EXPORTER_OTLP_COMPRESSION", "none", "`gzip` compresses what is sent"),
    (
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "",
        "the whole URL (over gRPC without a path), before that of the general variable",
    ),
    ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "", "before those of the general variable"),
    ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "10000", "before that of the general variable"),
    ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf", "before that of the general variable"),
    ("OTEL_EXPORTER_OTLP_TRACES_INSECURE", "false", "before that of the general variable"),
    ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "none", "before that of the general variable"),
    (
        "OTEL_EXPORTER_OTLP_CERTIFICATE",
        "",
        "a file (PEM) with the only roots that the receiver's certificate may have; the machine's if empty",
    ),
    (
        "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
        "",
        "a file (PEM) with the certificate that is shown to the receiver",
    ),
    ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "", "a file (PEM) with its key"),
    ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "", "before that of the general variable"),
    ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", "", "before that of the general variable"),
    ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "", "before that of the general variable"),
    ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "", "as that of traces, for metrics"),
    ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "", "as that of traces, for metrics"),
    ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "10000", "as that of traces, for metrics"),
    ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/protobuf", "as that of traces, for metrics"),
    ("OTEL_EXPORTER_OTLP_METRICS_INSECURE", "false", "as that of traces, for metrics"),
    ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "none", "as that of traces, for metrics"),
    ("OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE", "", "as that of traces, for metrics"),
    ("OTEL_EXPORTER_OTLP_METRICS_CLIENT_CERTIFICATE", "", "as that of traces, for metrics"),
    ("OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY", "", "as that of traces, for metrics"),
    ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "", "as that of traces, for logs"),
    ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "", "as that of traces, for logs"),
    ("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "10000", "as that of traces, for logs"),
    ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "http/protobuf", "as that of traces, for logs"),
    ("OTEL_EXPORTER_OTLP_LOGS_INSECURE", "false", "as that of traces, for logs"),
    ("OTEL_EXPORTER_OTLP_LOGS_COMPRESSION", "none", "as that of traces, for logs"),
    ("OTEL_EXPORTER_OTLP_LOGS_CERTIFICATE", "", "as that of traces, for logs"),
    ("OTEL_EXPORTER_OTLP_LOGS_CLIENT_CERTIFICATE", "", "as that of traces, for logs"),
    ("OTEL_EXPORTER_OTLP_LOGS_CLIENT_KEY", "", "as that of traces, for logs"),
    ("OTEL_TRACES_EXPORTER", "otlp", "`none` for no traces"),
    ("OTEL_METRICS_EXPORTER", "none", "`otlp` sends metrics, too; they are at `GET /metrics` in any case"),
    ("OTEL_LOGS_EXPORTER", "none", "`otlp` sends logs, too; they go to standard error in any case"),
    ("OTEL_METRIC_EXPORT_INTERVAL", "60000", "how often metrics are sent, milliseconds"),
    (
        "OTEL_PROPAGATORS",
        "tracecontext,baggage",
        "how traces are passed on: as `tracecontext` whatever it says, and a line says so if it says otherwise; no baggage is carried",
    ),
    ("OTEL_TRACES_SAMPLER", "parentbased_always_on", "which traces are recorded"),
    ("OTEL_TRACES_SAMPLER_ARG", "", "the share of them, for a sampler by ratio"),
    ("OTEL_SDK_DISABLED", "false", "`true` for no export"),
    ("OTEL_SERVICE_NAME", "", "what the process is called in its traces, if not by its part in the mesh"),
    ("OTEL_RESOURCE_ATTRIBUTES", "", "what else is said of the process in its traces, `name=value,…`"),
    (
        "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
        "",
        "the most characters of a text among a span's attributes; the rest is cut off",
    ),
    ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "", "before that of the general variable"),
    ("OTEL_BSP_SCHEDULE_DELAY", "5000", "how long spans are gathered, milliseconds, at least 10"),
    (
        "OTEL_BSP_MAX_QUEUE_SIZE",
        "2048",
        "the most spans that wait, up to 65536; more are dropped and counted",
    ),
    ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "512", "the most spans that go together; never more than may wait"),
    ("OTEL_BSP_EXPORT_TIMEOUT", "30000", "how long a batch may take with all its repeats, milliseconds"),
    ("OTEL_BLRP_SCHEDULE_DELAY", "1000", "how long logs are gathered, milliseconds, at least 10"),
    ("OTEL_BLRP_MAX_QUEUE_SIZE", "2048", "the most lines that wait, up to 65536; more are dropped"),
    ("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", "512", "the most lines that go together; never more than may wait"),
    (
        "OTEL_BLRP_EXPORT_TIMEOUT",
        "30000",
        "how long a batch of them may take with all its repeats, milliseconds",
    ),
];

/// Variables of the compose files, from the shell or from `deploy/.env`: name, default, effect.
pub(super) const COMPOSE: [(&str, &str, &str); 12] = [
    ("COMPOSE_PROJECT_NAME", "agent-mesh", "what containers, volumes and networks are called after"),
    ("COMPOSE_PROFILES", "jaeger", "the tracing backend that starts with the mesh; empty for none"),
    ("MESH_IMAGE", "agent-mesh:0.1.0", "the image that every process runs, and what a build is called"),
    (
        "MESH_PULL",
        "never",
        "when a registry is asked for that image: `never`, as it is built here; `if_not_present` or `always` for one that lies there",
    ),
    (
        "MESH_BUILD_CONTEXT",
        "..",
        "the folder the image is built from: the sources, or one with a static `mesh` in it",
    ),
    ("MESH_BUILD_FILE", "deploy/Dockerfile", "the Dockerfile, as seen from that folder"),
    (
        "MESH_BUILD_TARGET",
        "mesh",
        "`mesh` compiles in the public Rust image, `ready` takes the binary that is there",
    ),
    ("MESH_MEMORY", "1g", "how much memory a container of the mesh may use"),
    ("MESH_LOOPBACK", "0.0.1", "the address of this machine's loopback to publish at, without its `127.`"),
    (
        "MESH_RESOURCE_ATTRIBUTES",
        "",
        "the containers' `OTEL_RESOURCE_ATTRIBUTES`; docker takes that name for itself",
    ),
    ("LANGFUSE_URL", "", "with `compose.langfuse.yaml`: the base URL of Langfuse"),
    ("LANGFUSE_AUTH", "", "with `compose.langfuse.yaml`: `public:secret` key, base64"),
];

pub(super) fn text() -> String {
    let command = Cli::command();
    let mut text = String::from(
        "# Every setting of a process\n\n\
         Made by `mesh validate --settings`. A flag goes before its variable. What agents and the terms of the mesh are told\n\
         in YAML is in `mesh.yaml` beside this file.\n",
    );
    let servers: Vec<_> = SERVERS.iter().filter_map(|verb| command.find_subcommand(verb)).collect();
    let is_common = |arg: &&Arg| {
        let has = |server: &&clap::Command| {
            server.get_arguments().any(|other| description(other) == description(arg))
        };
        servers.iter().all(has)
    };
    if let Some(first) = servers.first() {
        table(&mut text, "Every process", first.get_arguments().filter(is_common));
    }
    for server in &servers {
        let own = server.get_arguments().filter(|arg| !is_common(arg));
        table(&mut text, &format!("`mesh {}`", server.get_name()), own);
    }
    table(&mut text, "Every verb", command.get_arguments());
    let asking = AtArgs::augment_args(Command::new("asking"));
    table(&mut text, "`mesh ask`, `tasks`, `trace`, `award`, `dlq`, `health`", asking.get_arguments());
    for (title, variables) in [("From the environment", &STANDARD[..]), ("Of the compose files", &COMPOSE)] {
        let _ = write!(text, "\n## {title}\n\n| variable | default | what it does |\n| --- | --- | --- |\n");
        for (name, default, what) in variables {
            let _ = writeln!(text, "| `{name}` | {} | {what} |", code(default));
        }
    }
    text += "\n## Of the OpenTelemetry standard, and not used\n\nWhoever sets one is told so at the start.\n\n\
             | variable | why not |\n| --- | --- |\n";
    for (name, why) in UNUSED {
        let _ = writeln!(text, "| `{name}` | {why} |");
    }
    text
}

/// Id, defaults and help of `arg`; arguments of one name may differ in these.
fn description(arg: &Arg) -> (String, String, String) {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    (arg.get_id().to_string(), defaults.join(","), help)
}

fn table<'a>(text: &mut String, title: &str, args: impl Iterator<Item = &'a Arg>) {
    let _ = write!(
        text,
        "\n## {title}\n\n| flag | variable | default | what it does |\n| --- | --- | --- | --- |\n"
    );
    for arg in args {
        let (id, default, help) = description(arg);
        let flag = arg.get_long().map_or_else(|| id.to_uppercase(), |long| format!("--{long}"));
        let variable = arg.get_env().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let default = if arg.get_action().takes_values() { default } else { String::new() };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            code(&flag),
            code(&variable),
            code(&default),
            table_cell(&help)
        );
    }
}

/// `help` as a table cell; escapes `|`, and `<` outside of code.
fn table_cell(help: &str) -> String {
    let pieces = help.split('`').enumerate().map(|(at, piece)| match at % 2 {
        0 => piece.replace('<', "&lt;").replace('|', "\\|"),
        _ => piece.replace('|', "\\|"),
    });
    pieces.collect::<Vec<_>>().join("`")
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

#[cfg(test)]
mod tests {
    use super::{super::parsing::all_args, *};
    use std::path::{Path, PathBuf};

    const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/config/settings.md");

    #[test]
    fn the_committed_settings_are_current() {
        let committed = std::fs::read_to_string(COMMITTED).unwrap_or_default();
        assert!(committed == text(), "run: mesh validate --settings > deploy/config/settings.md");
    }

    #[test]
    fn every_setting_has_a_line_that_says_what_it_does() {
        for line in text().lines().filter(|line| line.starts_with("| `")) {
            let what = line.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
            assert!(what.len() > 10, "{line}");
        }
    }

    /// The flags of every verb that runs a process, and the variables of every verb, are listed.
    #[test]
    fn no_verb_of_a_process_and_no_variable_is_left_out() {
        let (text, command) = (text(), Cli::command());
        for verb in command.get_subcommands() {
            let runs = verb.get_arguments().any(|arg| arg.get_id() == "grace");
            assert_eq!(SERVERS.contains(&verb.get_name()), runs, "SERVERS and `mesh {}`", verb.get_name());
            let flags = verb.get_arguments().filter_map(Arg::get_long).filter(|_| runs);
            for flag in flags {
                assert!(text.contains(&format!("| `--{flag}` |")), "--{flag} of `mesh {}`", verb.get_name());
            }
        }
        let variables = all_args(&command).into_iter().filter_map(|arg| arg.get_env()?.to_str());
        for name in variables {
            assert!(text.contains(&format!("| `{name}` |")), "{name} has no line");
        }
    }

    /// Every `${NAME…}` of the compose files is listed with its default.
    #[test]
    fn no_variable_of_the_compose_files_is_left_out() {
        let (text, deploy) = (text(), Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy"));
        let mut named = 0;
        for file in ["compose.yaml", "compose.langfuse.yaml", "compose.collector.yaml"] {
            let source = std::fs::read_to_string(deploy.join(file)).unwrap();
            for variable in source.split("${").skip(1).filter_map(|rest| rest.split('}').next()) {
                let (name, default) = variable.split_once(":-").unwrap_or((variable, ""));
                let name = name.split([':', '-', '?']).next().unwrap();
                let lines: Vec<_> =
                    text.lines().filter(|line| line.contains(&format!("| `{name}` |"))).collect();
                assert!(!lines.is_empty(), "{name} of {file} has no line in cli/settings_reference.rs");
                let is_said = lines.iter().any(|line| line.contains(default));
                assert!(is_said || name == "MESH_STOP_GRACE", "{name} of {file} has the default {default}");
                named += 1;
            }
        }
        assert!(named > 25, "{named}");
        for line in std::fs::read_to_string(deploy.join(".env")).unwrap().lines() {
            if let Some((name, _)) = line.split_once('=').filter(|(name, _)| !name.starts_with('#')) {
                assert!(text.contains(&format!("| `{name}` |")), "{name} of .env");
            }
        }
    }

    /// Every `OTEL_*` variable that the sources name is listed.
    #[test]
    fn no_variable_of_the_standard_is_left_out() {
        let mut folders = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
        let mut named = std::collections::BTreeSet::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let others =
                    ["cli/settings_reference.rs", "cli/unknown_variables.rs", "otel_settings/tests.rs"];
                let is_this = others.iter().any(|file| path.ends_with(file));
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") && !is_this {
                    let source = std::fs::read_to_string(&path).unwrap();
                    let words = source.split('"').filter(|word| word.starts_with("OTEL_"));
                    named.extend(words.map(|word| word.split([' ', ':']).next().unwrap().to_owned()));
                }
            }
        }
        assert!(named.len() > 10, "{named:?}");
        let known: Vec<_> =
            STANDARD.iter().map(|(name, _, _)| name).chain(UNUSED.iter().map(|(name, _)| name)).collect();
        let missing: Vec<_> = named.iter().filter(|name| !known.contains(&&name.as_str())).collect();
        assert!(missing.is_empty(), "without a line in cli/settings_reference.rs: {missing:?}");
    }
}
