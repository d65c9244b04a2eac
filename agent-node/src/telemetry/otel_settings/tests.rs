use super::*;

fn read(variables: &[(&str, &str)]) -> Result<TelemetrySettings, String> {
    let owned: HashMap<String, String> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    TelemetrySettings::read(&move |name| owned.get(name).cloned())
}

#[test]
fn the_otel_variables_set_the_endpoint_and_the_queue() {
    let defaults = read(&[]).unwrap();
    assert!(defaults.traces.is_none() && defaults.warnings.is_empty());
    assert_eq!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]).unwrap().traces, None);
    let settings = read(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318/"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20abc=,x-a=b"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
    ])
    .unwrap();
    let export = settings.traces.unwrap();
    assert_eq!(export.url.as_str(), "http://localhost:4318/v1/traces");
    assert_eq!(export.headers["authorization"], "Basic abc=");
    assert_eq!(export.timeout, Duration::from_millis(2_500));
    assert_eq!(settings.queue.delay, Duration::from_millis(100));
    assert!(!format!("{export:?}").contains("abc"), "a header's value is shown: {export:?}");
    let whole = read(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://h/otel")]).unwrap();
    assert_eq!(whole.traces.unwrap().url.as_str(), "http://h/otel");
    let at = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h");
    assert_eq!(read(&[at, ("OTEL_SDK_DISABLED", "true")]).unwrap().traces, None);
    assert_eq!(read(&[at, ("OTEL_TRACES_EXPORTER", "none")]).unwrap().traces, None);
    let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "a=b, c=, d=%20x%2Cy");
    let settings = read(&[at, attributes, ("OTEL_BSP_MAX_QUEUE_SIZE", "65536")]).unwrap();
    assert_eq!(settings.queue.capacity, 65_536);
    assert_eq!(settings.traces.unwrap().attributes["d"], " x,y");
    for variable in [
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=b"),
        ("OTEL_SDK_DISABLED", "si"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.5"),
        ("OTEL_PROPAGATORS", "none"),
        ("OTEL_PROPAGATORS", "baggage"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"),
    ] {
        let warnings = read(&[variable]).unwrap().warnings;
        assert!(matches!(warnings.as_slice(), [line] if line.contains(variable.0)), "{warnings:?}");
    }
    let settings = read(&[
        at,
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "none"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "70"),
    ]);
    let settings = settings.unwrap().traces.unwrap();
    assert_eq!(settings.timeout, Duration::from_millis(70), "that of traces counts");
    assert!(!settings.is_compressed, "that of traces counts");
    assert_eq!(settings.protocol, OtlpProtocol::Http);
    let of_traces = ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "GZIP");
    assert!(read(&[at, of_traces]).unwrap().traces.unwrap().is_compressed);
}

#[test]
fn a_wrong_value_is_ignored_with_a_warning_that_names_the_variable() {
    let at = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h");
    let wrong: &[&[(&str, &str)]] = &[
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318")],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://")],
        &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "ftp://h")],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://u:canary@h")],
        &[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"), at],
        &[("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"), at],
        &[("OTEL_EXPORTER_OTLP_HEADERS", "canary"), at],
        &[("OTEL_EXPORTER_OTLP_HEADERS", "a b=canary"), at],
        &[("OTEL_EXPORTER_OTLP_TIMEOUT", "5s"), at],
        &[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")],
        &[("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "zstd")],
        &[("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "5s")],
        &[("OTEL_BSP_MAX_QUEUE_SIZE", "0")],
        &[("OTEL_BSP_MAX_QUEUE_SIZE", "65537")],
        &[("OTEL_BSP_SCHEDULE_DELAY", "18446744073709551615")],
        &[("OTEL_RESOURCE_ATTRIBUTES", "canary")],
        &[("OTEL_RESOURCE_ATTRIBUTES", "a=b,=canary")],
        &[("OTEL_EXPORTER_OTLP_TIMEOUT", "0")],
        &[("OTEL_BSP_EXPORT_TIMEOUT", "0")],
        &[("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "long")],
        &[("OTEL_TRACES_SAMPLER", "sometimes")],
        &[("OTEL_TRACES_EXPORTER", "zipkin")],
    ];
    for variables in wrong {
        let settings = read(variables).unwrap();
        let [warning] = &settings.warnings[..] else { panic!("{variables:?}: {:?}", settings.warnings) };
        assert!(warning.contains(variables[0].0) && warning.lines().count() == 1, "{warning}");
        assert!(!warning.contains("canary"), "{warning}");
        let usual: Vec<_> = variables.iter().copied().filter(|variable| *variable == at).collect();
        let usual = read(&usual).unwrap();
        assert_eq!((&settings.traces, settings.queue), (&usual.traces, usual.queue), "{variables:?}");
    }
    let key = ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "/canary.key");
    let error = read(&[at, key]).unwrap_err();
    assert!(error.contains(key.0) && !error.contains("canary"), "{error}");
    assert!(read(&[key]).is_ok_and(|settings| settings.traces.is_none()));
    for (exporter, exports) in [("console", true), ("console, otlp", true), ("none,console", false)] {
        let settings = read(&[("OTEL_TRACES_EXPORTER", exporter), at]).unwrap();
        assert_eq!((settings.traces.is_some(), settings.warnings.len()), (exports, 1), "{exporter}");
    }
}

#[test]
fn an_endpoint_of_grpc_is_a_host_and_a_port_and_says_how_to_speak_to_it() {
    let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    for (endpoint, insecure, url, warnings) in [
        ("http://h:4317", None, "http://h:4317/", 0),
        ("https://h", Some("true"), "https://h/", 0),
        ("h:4317", Some("true"), "http://h:4317/", 0),
        ("h:4317", None, "https://h:4317/", 0),
        ("http://h:4317/v1/traces", None, "http://h:4317/", 1),
        ("http://h:4318", None, "http://h:4318/", 1),
    ] {
        let mut variables = vec![grpc, ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)];
        variables.extend(insecure.map(|is| ("OTEL_EXPORTER_OTLP_TRACES_INSECURE", is)));
        let settings = read(&variables).unwrap();
        assert_eq!(settings.warnings.len(), warnings, "{:?}", settings.warnings);
        let traces = settings.traces.unwrap();
        assert_eq!((traces.url.as_str(), traces.protocol), (url, OtlpProtocol::Grpc));
    }
    let settings = read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:4317")]).unwrap();
    assert!(matches!(&settings.warnings[..], [line] if line.contains("OTEL_EXPORTER_OTLP_PROTOCOL=grpc")));
}

#[test]
fn logs_and_metrics_have_a_backend_only_if_their_variables_say_so() {
    let at = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:4318");
    let settings =
        read(&[at, ("OTEL_METRICS_EXPORTER", "prometheus"), ("OTEL_LOGS_EXPORTER", "none")]).unwrap();
    assert!(settings.metrics.is_none() && settings.logs.is_none() && settings.warnings.is_empty());
    let asked = [("OTEL_METRICS_EXPORTER", "otlp"), ("OTEL_LOGS_EXPORTER", "otlp")];
    let more = [
        ("OTEL_METRIC_EXPORT_INTERVAL", "70"),
        ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://l/x"),
        ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc"),
        ("OTEL_BLRP_MAX_QUEUE_SIZE", "7"),
    ];
    let settings = read(&[&[at], &asked[..], &more[..]].concat()).unwrap();
    let (metrics, interval) = settings.metrics.as_ref().unwrap();
    assert_eq!((metrics.protocol, *interval), (OtlpProtocol::Grpc, Duration::from_millis(70)));
    let logs = settings.logs.as_ref().unwrap();
    assert_eq!((logs.url.as_str(), logs.protocol), ("http://l/x", OtlpProtocol::Http));
    assert_eq!((settings.log_queue.capacity, settings.log_queue.batch), (7, 7));
    assert_eq!(settings.backends().count(), 3);
    let nowhere = read(&asked).unwrap();
    assert!(nowhere.metrics.is_none() && nowhere.logs.is_none());
    assert!(nowhere.warnings.iter().all(|line| line.contains("OTEL_EXPORTER_OTLP_ENDPOINT says where")));
    assert_eq!(nowhere.warnings.len(), 2, "{:?}", nowhere.warnings);
}

#[test]
fn a_disabled_sdk_exports_nothing_and_gives_no_warning() {
    let settings = read(&[
        ("OTEL_SDK_DISABLED", "TRUE"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier-pigeon"),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/key.pem"),
        ("OTEL_TRACES_SAMPLER", "sometimes"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
    ])
    .unwrap();
    assert_eq!((settings.traces, settings.warnings), (None, Vec::new()));
}

#[test]
fn a_certificate_for_an_endpoint_without_tls_gives_a_warning() {
    let files = [("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"), ("OTEL_PROPAGATORS", "tracecontext,baggage")];
    let at = |url| [&[("OTEL_EXPORTER_OTLP_ENDPOINT", url)][..], &files].concat();
    let warnings = read(&at("http://h")).unwrap().warnings;
    assert!(
        matches!(warnings.as_slice(), [line] if line.contains("OTEL_EXPORTER_OTLP_CERTIFICATE")),
        "{warnings:?}"
    );
    let settings = read(&at("https://h")).unwrap();
    assert_eq!(settings.warnings, [""; 0]);
    assert_eq!(settings.traces.unwrap().pems.names().collect::<Vec<_>>(), ["OTEL_EXPORTER_OTLP_CERTIFICATE"]);
}

#[test]
fn a_warning_names_all_unused_variables_of_one_reason_without_defaults() {
    let given = [
        ("OTEL_METRICS_EXEMPLAR_FILTER", "always_on"),
        ("OTEL_METRICS_X", "5"),
        ("OTEL_EXPORTER_X_EXPORTER", "none"),
        ("OTEL_LOG_LEVEL", " "),
        ("OTEL_EXPORTER_PROMETHEUS_PORT", "1"),
        ("OTELX", "1"),
    ];
    let warnings = unused::lines(given.into_iter());
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with(
            "OTEL_METRICS_EXEMPLAR_FILTER, OTEL_METRICS_X, OTEL_EXPORTER_PROMETHEUS_PORT are set"
        )
    );
}
