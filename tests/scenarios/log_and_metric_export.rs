//! Logs and metrics go to a collector only if they are asked for, and a backend that takes traces only is told of once.

use crate::harness::{
    Process,
    collector::{Collector, CollectorBehavior},
    eventually,
};
use opentelemetry_proto::tonic::metrics::v1::{metric::Data, number_data_point::Value};
use serde_json::json;

const ECHO: &str = "agents:\n  - { agent: echo-01, skills: [echo], open: true, brain: { echo: {} } }\n";

/// An environment that asks for all signals.
fn all_of(collector: &Collector) -> Vec<String> {
    let mut environment = collector.environment();
    environment.extend(
        [
            "OTEL_LOGS_EXPORTER=otlp",
            "OTEL_BLRP_SCHEDULE_DELAY=50",
            "OTEL_METRICS_EXPORTER=otlp,prometheus",
            "OTEL_METRIC_EXPORT_INTERVAL=200",
            "RUST_LOG=debug",
        ]
        .map(str::to_owned),
    );
    environment
}

async fn ask(mesh: &Process, task: &str) {
    mesh.agent("echo-01").ask(json!({ "taskId": task, "description": "say", "capability": "echo" })).await;
}

#[tokio::test]
async fn logs_and_metrics_go_to_the_collector_if_the_variables_say_so() {
    for collector in [Collector::start(), Collector::over_grpc()] {
        let mut environment = all_of(&collector);
        environment.push("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION=gzip".to_owned());
        let mesh = Process::up_in(&environment, ECHO).await;
        ask(&mesh, "t-canary-header").await;
        let line = eventually("the line of the task's end", async || {
            let logs = collector.logs();
            logs.into_iter().find(|log| log.attributes.get("state").is_some_and(|is| is == "completed"))
        })
        .await;
        assert_eq!((line.severity.as_str(), line.service.as_str()), ("INFO", "echo-01"), "{line:?}");
        assert_eq!(line.attributes["agent"], "echo-01");
        assert_eq!(line.trace, line.attributes["trace"]);
        // A header's value is a secret of this process, wherever it occurs.
        assert_eq!(line.attributes["task"], "t-***", "{line:?}");
        assert!(collector.logs().iter().all(|log| !log.text.contains("canary-header")));
        for sender in ["hyper", "h2", "reqwest", "rustls", "tonic", "opentelemetry"] {
            let is_of = |target: &str| target.split("::").next().is_some_and(|name| name.starts_with(sender));
            let logs = collector.logs();
            assert!(logs.iter().all(|log| !is_of(&log.target)), "{sender}: {logs:#?}");
        }
        let ended = eventually("the count of the task", async || {
            let metrics = collector.metrics();
            let ended = metrics.into_iter().find(|metric| metric.name == "mesh_tasks_ended")?;
            let Some(Data::Sum(sum)) = ended.data else { panic!("no sum") };
            sum.data_points.iter().any(|point| point.value == Some(Value::AsInt(1))).then_some(sum)
        })
        .await;
        assert!(ended.is_monotonic && ended.data_points.iter().all(|point| point.start_time_unix_nano > 0));
        assert!(collector.heads().iter().all(|head| head.contains("x-key: canary-header")));
    }
}

#[tokio::test]
async fn a_backend_of_traces_is_asked_once_for_each_other_signal() {
    for collector in [Collector::start(), Collector::over_grpc()] {
        collector.set_behavior(CollectorBehavior::TakesTracesOnly);
        let mesh = Process::up_in(&all_of(&collector), ECHO).await;
        for number in 0..5 {
            let task = format!("t-{number}");
            ask(&mesh, &task).await;
            let is_of =
                |span: &crate::harness::collector::ReceivedSpan| span.attribute("mesh.task.id") == task;
            collector.spans_where(&task, |spans| spans.iter().any(is_of)).await;
        }
        eventually("both tried", async || {
            (collector.requests_to("logs") > 0 && collector.requests_to("metrics") > 0).then_some(())
        })
        .await;
        ask(&mesh, "t-last").await;
        collector.spans_where("the last", |spans| spans.len() > 20).await;
        assert_eq!((collector.requests_to("logs"), collector.requests_to("metrics")), (1, 1));
        assert!(collector.logs().is_empty() && collector.metrics().is_empty());
    }
}

#[tokio::test]
async fn nothing_but_traces_is_sent_unless_it_is_asked_for() {
    let collector = Collector::start();
    let mut environment = collector.environment();
    environment.push("OTEL_METRIC_EXPORT_INTERVAL=50".to_owned());
    environment.push("OTEL_LOGS_EXPORTER=none".to_owned());
    let mut mesh = Process::up_in(&environment, ECHO).await;
    ask(&mesh, "t-1").await;
    mesh.signal("TERM");
    assert_eq!(mesh.ended().await, 0);
    assert!(collector.requests_to("trace") > 0);
    assert_eq!(collector.requests_to("trace"), collector.requests());
}
