use super::*;

fn read(variables: &[(&str, &str)]) -> Result<TelemetrySettings, String> {
    let owned: HashMap<String, String> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    TelemetrySettings::read(&move |name| owned.get(name).cloned())
}

#[test]
fn the_otel_variables_set_the_endpoint_and_the_queue() {
    let defaults = read(&[]).unwrap();
    assert!(defaults.export.is_none() && defaults.warnings.is_empty());
    assert_eq!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]).unwrap().export, None);
    let settings = read(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318/"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20abc=,x-a=b"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
    ])
    .unwrap();
    let export = settings.export.unwrap();
    assert_eq!(export.url.as_str(), "http://localhost:4318/v1/traces");
    assert_eq!(export.headers["authorization"], "Basic abc=");
    assert_eq!(export.timeout, Duration::from_millis(2_500));
    assert_eq!(settings.queue.delay, Duration::from_millis(100));
    assert!(!format!("{export:?}").contains("abc"), "a header's value is shown: {export:?}");
    let whole = read(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://h/otel")]).unwrap();
    assert_eq!(whole.export.unwrap().url.as_str(), "http://h/otel");
    let at = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h");
    assert_eq!(read(&[at, ("OTEL_SDK_DISABLED", "true")]).unwrap().export, None);
    assert_eq!(read(&[at, ("OTEL_TRACES_EXPORTER", "none")]).unwrap().export, None);
    let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "a=b, c=, d=%20x%2Cy");
    let settings = read(&[at, attributes, ("OTEL_BSP_MAX_QUEUE_SIZE", "65536")]).unwrap();
    assert_eq!(settings.queue.capacity, 65_536);
    assert_eq!(settings.export.unwrap().attributes["d"], " x,y");
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
    let settings = settings.unwrap().export.unwrap();
    assert_eq!(settings.timeout, Duration::from_millis(70), "that of traces counts");
    assert!(settings.is_compressed);
    let of_traces = ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "GZIP");
    assert!(read(&[at, of_traces]).unwrap().export.unwrap().is_compressed);
}

#[test]
fn a_wrong_value_is_ignored_with_a_warning_that_names_the_variable() {
    let at = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h");
    let wrong: &[&[(&str, &str)]] = &[
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318")],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://")],
        &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "ftp://h")],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://u:canary@h")],
        &[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), at],
        &[("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"), at],
        &[("OTEL_EXPORTER_OTLP_HEADERS", "canary"), at],
        &[("OTEL_EXPORTER_OTLP_HEADERS", "a b=canary"), at],
        &[("OTEL_EXPORTER_OTLP_TIMEOUT", "5s"), at],
        &[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
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
        assert_eq!((&settings.export, settings.queue), (&usual.export, usual.queue), "{variables:?}");
    }
    let key = ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "/canary.key");
    let error = read(&[at, key]).unwrap_err();
    assert!(error.contains(key.0) && !error.contains("canary"), "{error}");
    assert!(read(&[key]).is_ok_and(|settings| settings.export.is_none()));
    for (exporter, exports) in [("console", true), ("console, otlp", true), ("none,console", false)] {
        let settings = read(&[("OTEL_TRACES_EXPORTER", exporter), at]).unwrap();
        assert_eq!((settings.export.is_some(), settings.warnings.len()), (exports, 1), "{exporter}");
    }
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
    assert_eq!((settings.export, settings.warnings), (None, Vec::new()));
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
    assert_eq!(settings.export.unwrap().pems.names().collect::<Vec<_>>(), ["OTEL_EXPORTER_OTLP_CERTIFICATE"]);
}

#[test]
fn a_warning_names_all_unused_variables_of_one_reason_without_defaults() {
    let given = [
        ("OTEL_METRICS_EXPORTER", "otlp"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "5"),
        ("OTEL_LOGS_EXPORTER", "none"),
        ("OTEL_LOG_LEVEL", " "),
        ("OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE", "/x"),
        ("OTELX", "1"),
    ];
    let warnings = unused::lines(given.into_iter());
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with(
        "OTEL_METRICS_EXPORTER, OTEL_METRIC_EXPORT_INTERVAL, OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE are set"
    ));
}
