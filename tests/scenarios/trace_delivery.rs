//! Spans are retried for a limited time while a backend is busy or unreachable, and the failure is logged.

use crate::harness::{
    Process,
    collector::{Collector, CollectorBehavior},
    eventually, get,
    ports::reserved_port,
};
use serde_json::json;
use std::time::{Duration, Instant};

const ECHO: &str = "agents:\n  - { agent: echo-01, skills: [echo], open: true, brain: { echo: {} } }\n";

async fn ask(mesh: &Process, task: &str) {
    mesh.agent("echo-01").ask(json!({ "taskId": task, "description": "say", "capability": "echo" })).await;
}

async fn delivered(collector: &Collector, task: &str) {
    collector
        .spans_where(task, |spans| spans.iter().any(|span| span.attribute("mesh.task.id") == task))
        .await;
}

/// A backend over HTTP and one over gRPC.
fn both() -> [Collector; 2] {
    [Collector::start(), Collector::over_grpc()]
}

async fn counts(mesh: &Process) -> serde_json::Value {
    get(&format!("{}/state", mesh.url)).await["telemetry"].clone()
}

#[tokio::test]
async fn spans_are_retried_until_a_busy_backend_accepts_them_and_after_its_retry_after() {
    for collector in both() {
        spans_are_retried(collector).await;
    }
}

async fn spans_are_retried(collector: Collector) {
    let mesh = Process::up_in(&collector.environment(), ECHO).await;
    for (status, task) in [(503, "t-1"), (429, "t-2"), (502, "t-3"), (504, "t-4")] {
        collector.set_behavior(CollectorBehavior::Busy(if status == 503 { 6 } else { 1 }, status, 0));
        ask(&mesh, task).await;
        delivered(&collector, task).await;
    }
    collector.set_behavior(CollectorBehavior::Busy(1, 503, 2));
    let before = collector.requests();
    ask(&mesh, "t-5").await;
    delivered(&collector, "t-5").await;
    let waited = collector.pauses()[before];
    assert!(waited >= Duration::from_secs(2), "asked to wait for 2 s: {waited:?}");
    let counts = get(&format!("{}/state", mesh.url)).await["telemetry"].clone();
    assert_eq!((&counts["droppedFailed"], &counts["droppedFull"]), (&json!(0), &json!(0)), "{counts}");
    assert!(!mesh.log().contains("traces"), "nothing was lost: {}", mesh.log());
}

#[tokio::test]
async fn a_backend_that_starts_later_gets_the_earlier_spans() {
    let address = ([127, 0, 0, 1], reserved_port()).into();
    let environment =
        [format!("OTEL_EXPORTER_OTLP_ENDPOINT=http://{address}"), "OTEL_BSP_SCHEDULE_DELAY=50".to_owned()];
    let mesh = Process::up_in(&environment, ECHO).await;
    ask(&mesh, "t-1").await;
    eventually("the line", async || mesh.log().contains("traces can't be delivered").then_some(())).await;
    let begun = Instant::now();
    // Longer than one or two quick retries.
    eventually("a while", async || (begun.elapsed() > Duration::from_secs(3)).then_some(())).await;
    let collector = Collector::start_at(address);
    delivered(&collector, "t-1").await;
    eventually("good news", async || mesh.log().contains("traces are delivered again").then_some(())).await;
}

#[tokio::test]
async fn a_failing_backend_is_logged_with_its_address_and_a_batch_is_given_up_in_time() {
    let (busy, hangs, secret) = (Collector::start(), Collector::start(), Collector::over_tls());
    busy.set_behavior(CollectorBehavior::Busy(usize::MAX, 503, 0));
    hangs.set_behavior(CollectorBehavior::Hangs);
    let nobody = "http://127.0.0.1:9".to_owned();
    let plain_for_tls = secret.url.replace("https", "http");
    for (url, more, why) in [
        (&busy.url, "A=1", "it answers 503"),
        (&hangs.url, "OTEL_EXPORTER_OTLP_TIMEOUT=300", "no answer within 300ms"),
        (&secret.url, "A=1", "TLS fails: invalid peer certificate: UnknownIssuer"),
        (&busy.url.replace("http", "https"), "A=1", "no connection: tls handshake eof"),
        (&plain_for_tls, "A=1", "no answer: "),
        (&nobody, "A=1", "onnection refused"),
    ] {
        let mut environment = vec![more.to_owned(), format!("OTEL_EXPORTER_OTLP_ENDPOINT={url}/?key=canary")];
        environment
            .extend(["OTEL_BSP_SCHEDULE_DELAY=50".to_owned(), "OTEL_BSP_EXPORT_TIMEOUT=3000".to_owned()]);
        let mut mesh = Process::up_in(&environment, ECHO).await;
        ask(&mesh, "t-1").await;
        eventually("spans given up", async || {
            let counts = get(&format!("{}/state", mesh.url)).await["telemetry"].clone();
            (counts["droppedFailed"].as_u64()? > 0).then_some(())
        })
        .await;
        let log = mesh.log();
        let lines: Vec<_> = log.lines().filter(|line| line.contains("traces")).collect();
        let [line] = lines[..] else { panic!("{url}: one line in {log}") };
        assert!(
            line.contains(why) && line.contains(url.as_str()) && !line.contains("canary"),
            "{why}: {line}"
        );
        // The shutdown does not wait for these spans beyond its limit.
        ask(&mesh, "t-2").await;
        let begun = Instant::now();
        mesh.signal("TERM");
        assert_eq!(mesh.ended().await, 0);
        assert!(begun.elapsed() < Duration::from_secs(25), "{url}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn spans_are_compressed_and_carry_the_headers_if_the_variables_ask_for_it() {
    for (variables, is_compressed) in [
        (&["OTEL_EXPORTER_OTLP_COMPRESSION=gzip"][..], true),
        (&["OTEL_EXPORTER_OTLP_TRACES_COMPRESSION=gzip"], true),
        (&["OTEL_EXPORTER_OTLP_COMPRESSION=gzip", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION=none"], false),
    ] {
        for collector in both() {
            let mut environment = collector.environment();
            environment.extend(variables.iter().map(|variable| (*variable).to_owned()));
            let mesh = Process::up_in(&environment, ECHO).await;
            ask(&mesh, "t-1").await;
            delivered(&collector, "t-1").await;
            for head in collector.heads() {
                assert_eq!(head.contains("-encoding: gzip"), is_compressed, "{head}");
                assert!(head.contains("x-key: canary-header"), "{head}");
            }
        }
    }
}

#[tokio::test]
async fn a_batch_that_is_too_large_is_halved_and_a_span_that_is_too_large_is_cut() {
    for collector in both() {
        too_large(collector).await;
    }
}

async fn too_large(collector: Collector) {
    collector.set_behavior(CollectorBehavior::AcceptsUpTo(6_000));
    let mut environment = collector.environment();
    environment.extend(["OTEL_BSP_SCHEDULE_DELAY=1000".to_owned(), "MESH_CAPTURE=full".to_owned()]);
    let mesh = Process::up_in(&environment, ECHO).await;
    let agent = mesh.agent("echo-01");
    let long = "word ".repeat(8_000);
    agent.ask(json!({ "taskId": "t-1", "description": long, "capability": "echo" })).await;
    for number in 2..8 {
        ask(&mesh, &format!("t-{number}")).await;
    }
    for number in 1..8 {
        delivered(&collector, &format!("t-{number}")).await;
    }
    let counts = eventually("all spans", async || {
        let counts = counts(&mesh).await;
        (counts["waiting"] == 0 && counts["cut"].as_u64()? > 0).then_some(counts)
    })
    .await;
    assert_eq!(counts["droppedFailed"], 0, "{counts}");
    assert!(!mesh.log().contains("traces"), "nothing was lost: {}", mesh.log());
    let metrics = crate::harness::text(&format!("{}/metrics", mesh.url)).await;
    assert!(metrics.contains(&format!("mesh_spans_cut_total {}", counts["cut"])), "{metrics}");
}

#[tokio::test]
async fn a_backend_that_finds_everything_too_large_is_not_asked_for_each_span() {
    let collector = Collector::over_grpc();
    collector.set_behavior(CollectorBehavior::AcceptsUpTo(0));
    let mut environment = collector.environment();
    environment.push("OTEL_BSP_SCHEDULE_DELAY=1000".to_owned());
    let mesh = Process::up_in(&environment, ECHO).await;
    for number in 1..20 {
        ask(&mesh, &format!("t-{number}")).await;
    }
    let counts = eventually("all given up", async || {
        let counts = counts(&mesh).await;
        (counts["waiting"] == 0 && counts["droppedFailed"].as_u64()? > 50).then_some(counts)
    })
    .await;
    let lost = counts["droppedFailed"].as_u64().unwrap();
    assert!((collector.requests() as u64) < lost / 2, "{} requests for {lost} spans", collector.requests());
    assert_eq!(mesh.log().matches("it answers ResourceExhausted (gRPC)").count(), 1, "{}", mesh.log());
}

#[tokio::test]
async fn a_backend_that_takes_no_traces_is_named_once_and_left() {
    for (collector, why) in both().into_iter().zip(["it answers 404", "it answers Unimplemented (gRPC)"]) {
        collector.set_behavior(CollectorBehavior::IsNotThere);
        let mesh = Process::up_in(&collector.environment(), ECHO).await;
        ask(&mesh, "t-1").await;
        eventually("the line", async || mesh.log().contains("takes no traces").then_some(())).await;
        let before = counts(&mesh).await["droppedFailed"].as_u64().unwrap();
        for number in 2..6 {
            ask(&mesh, &format!("t-{number}")).await;
        }
        eventually("spans dropped", async || {
            let counts = counts(&mesh).await;
            (counts["waiting"] == 0 && counts["droppedFailed"].as_u64()? > before).then_some(())
        })
        .await;
        assert_eq!(collector.requests(), 1);
        let log = mesh.log();
        let lines: Vec<_> = log.lines().filter(|line| line.contains("traces")).collect();
        assert!(matches!(lines[..], [line] if line.contains(why) && line.contains(&collector.url)), "{log}");
    }
}

#[tokio::test]
async fn a_collector_that_is_away_costs_spans_only_and_gets_the_later_ones() {
    let address = ([127, 0, 0, 1], reserved_port()).into();
    let environment = [
        format!("OTEL_EXPORTER_OTLP_ENDPOINT=http://{address}"),
        "OTEL_EXPORTER_OTLP_PROTOCOL=grpc".to_owned(),
        "OTEL_BSP_SCHEDULE_DELAY=50".to_owned(),
        "OTEL_BSP_EXPORT_TIMEOUT=500".to_owned(),
        "OTEL_BSP_MAX_QUEUE_SIZE=20".to_owned(),
    ];
    let mesh = Process::up_in(&environment, ECHO).await;
    let begun = Instant::now();
    for number in 1..40 {
        ask(&mesh, &format!("t-{number}")).await;
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    eventually("dropped spans, few that wait", async || {
        let counts = counts(&mesh).await;
        let lost = counts["droppedFull"].as_u64()? + counts["droppedFailed"].as_u64()?;
        assert!(counts["waiting"].as_u64()? <= 20, "{counts}");
        (lost > 40).then_some(())
    })
    .await;
    let collector = Collector::over_grpc_at(address);
    eventually("good news", async || {
        ask(&mesh, &uuid::Uuid::now_v7().to_string()).await;
        mesh.log().contains("traces are delivered again").then_some(())
    })
    .await;
    assert!(!collector.spans().is_empty());
}
