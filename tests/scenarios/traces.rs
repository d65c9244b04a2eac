//! One task is one trace over every process, kill and restart; a failing backend has no effect on tasks.

use super::crash::{at_work, build, builder, open_gate};
use crate::harness::{
    Process, client,
    cluster::Cluster,
    collector::{Collector, CollectorBehavior, ReceivedSpan, assert_one_tree, is_whole},
    eventually, get, mesh, state, text,
};
use serde_json::json;

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const CALLER_SPAN: &str = "b7ad6b7169203331";
const MANAGER: &str = "
agents:
  - { agent: manager-01, skills: [manage], brain: { echo: {} } }
";

fn count(spans: &[ReceivedSpan], word: &str) -> usize {
    spans.iter().filter(|span| span.attribute("mesh.span") == word).count()
}

pub(super) fn ended(spans: &[ReceivedSpan], agent: &str, pattern: &str) -> bool {
    spans
        .iter()
        .any(|span| span.attribute("gen_ai.agent.id") == agent && span.attribute("mesh.pattern") == pattern)
}

fn one<'a>(spans: &'a [ReceivedSpan], name: &str, agent: &str) -> &'a ReceivedSpan {
    let found: Vec<_> =
        spans.iter().filter(|span| span.name == name && span.attribute("gen_ai.agent.id") == agent).collect();
    assert_eq!(found.len(), 1, "{name} of {agent}: {found:#?}");
    found[0]
}

/// A builder that asks a reviewer once its gate opens.
fn asking(dir: &std::path::Path) -> String {
    let script = format!(
        r#"#!/bin/sh
read -r line
case "$line" in *'"turn":1'*)
  echo '{{"type":"help","id":"q","capability":"review","question":"is it good?"}}' ;;
*)
  echo "second builder-01" >> '{dir}/effects'
  while [ ! -e '{dir}/open' ]; do [ -d '{dir}' ] || exit 1; sleep 0.03; done
  echo '{{"type":"artifact","name":"out.txt","text":"built"}}'
  echo '{{"type":"done"}}' ;;
esac
"#,
        dir = dir.display()
    );
    crate::harness::file(dir, "asking.sh", &script).to_string_lossy().into_owned()
}

#[tokio::test]
async fn a_task_over_five_processes_is_one_trace_below_the_callers_span() {
    let collector = Collector::start();
    let mut cluster = Cluster::start().await;
    cluster.environment = collector.environment();
    let manager = cluster.node("manager", MANAGER).await;
    let asks = asking(cluster.dir.path());
    let _builder = cluster
        .node("b1", &format!("agents:\n  - {{ agent: builder-01, skills: [build], brain: {{ exec: [/bin/sh, '{asks}'] }}, bid: {{ cost: 0, eta: 1s }} }}\n"))
        .await;
    let _other = cluster.node("b2", &builder(cluster.dir.path(), "builder-02", "cost: 5, eta: 9m")).await;
    let _reviewer = cluster
        .node("r", "agents:\n  - { agent: reviewer-01, skills: [review], brain: { echo: {} } }\n")
        .await;
    cluster.wait_for_agents(&["manager-01", "builder-01", "builder-02", "reviewer-01"]).await;
    open_gate(cluster.dir.path());
    let agent = manager.agent("manager-01");
    let headers = [("traceparent", CALLER), ("tracestate", "congo=t61,rojo=1"), ("prefer", "wait=100")];
    let answer = agent.post_raw(agent.request(build("t-1")).to_string(), &headers).await;
    assert_eq!(state(&answer.body), "completed", "{:#}", answer.body);

    let spans = collector
        .spans_where("the manager's, the winner's and the reviewer's", |spans| {
            ended(spans, "manager-01", "contract-net")
                && ended(spans, "builder-01", "delegation")
                && ended(spans, "reviewer-01", "help-request")
                && count(spans, "bid") == 2
                && is_whole(spans)
        })
        .await;
    assert_one_tree(&spans, Some(CALLER_SPAN));
    assert_eq!(spans[0].trace, "0af7651916cd43dd8448eb211c80319c");
    assert!(spans.iter().all(|span| span.state == "congo=t61,rojo=1"), "what others pass along is lost");
    for word in ["receive", "conversation", "cfp", "bid", "award", "claim", "think", "tell", "publish"] {
        assert!(count(&spans, word) > 0, "no {word} among {spans:#?}");
    }
    for span in &spans {
        assert_eq!(span.attribute("mesh.task.id"), "t-1", "help for a task is a part of it: {span:?}");
        for name in ["mesh.conversation.id", "mesh.skill", "peer.from"] {
            assert_ne!(span.attribute(name), "", "{name} of {span:?}");
        }
    }
    let services: std::collections::BTreeSet<_> = spans.iter().map(|span| span.service.as_str()).collect();
    assert_eq!(services, ["builder-01", "builder-02", "manager-01", "reviewer-01"].into());

    let entry = one(&spans, "receive task-request", "manager-01");
    assert_eq!((entry.kind, entry.parent.as_str()), (2, CALLER_SPAN));
    let work = one(&spans, "invoke_agent manager-01", "manager-01");
    assert_eq!((work.kind, &work.parent), (1, &entry.id));
    assert_eq!(work.attribute("gen_ai.operation.name"), "invoke_agent");
    assert_eq!(work.attribute("mesh.task.id"), "t-1");
    assert_eq!(work.attribute("mesh.skill"), "build");
    assert_eq!(work.attribute("mesh.task.state"), "completed");
    assert_eq!(work.attribute("langfuse.session.id"), work.attribute("gen_ai.conversation.id"));
    let award = one(&spans, "award", "manager-01");
    assert_eq!((award.kind, &award.parent), (4, &work.id));
    assert_eq!((award.attribute("peer.from"), award.attribute("peer.to")), ("manager-01", "builder-01"));
    let awarded = one(&spans, "receive award", "builder-01");
    assert_eq!(awarded.parent, award.id, "the award is not followed into the winner");
    let accept = one(&spans, "tell award-accept", "builder-01");
    let accepted = one(&spans, "receive award-accept", "manager-01");
    assert_eq!((accepted.links.first(), &accepted.parent), (Some(&accept.id), &work.id));
    assert_eq!(accept.attribute("messaging.message.id"), accepted.attribute("messaging.message.id"));
    let cfp =
        spans.iter().find(|span| span.name == "cfp" && span.attribute("peer.to") == "builder-02").unwrap();
    assert_eq!(one(&spans, "receive cfp", "builder-02").parent, cfp.id);
    assert!(spans.iter().all(|span| span.end >= span.start), "a span ends before it begins");
    let whose = spans
        .iter()
        .map(|span| (span.name.as_str(), span.attribute("gen_ai.agent.id"), span.attribute("mesh.task.id")));
    let without: Vec<_> = whose.filter(|(_, _, task)| *task != "t-1").collect();
    assert!(without.is_empty(), "spans of no task: {without:?}");
    assert!(!collector.raw().contains("is it good?"), "content was told though nobody asked for it");

    let (spans, theirs) = eventually("the journals' spans at the backend", async || {
        let shown = get(&format!("{}/a2a/tasks/t-1/trace", agent.url)).await;
        let (spans, theirs) = (collector.spans(), shown["spans"].as_array().unwrap().clone());
        let is_told = |span: &serde_json::Value| {
            let told = spans.iter().find(|seen| span["spanId"] == seen.id.as_str());
            told.is_some_and(|told| span["name"] == told.name.as_str())
        };
        theirs.iter().all(is_told).then_some((spans, theirs))
    })
    .await;
    let untold = spans.iter().filter(|seen| theirs.iter().all(|span| span["spanId"] != seen.id.as_str()));
    let untold: Vec<_> = untold.map(|seen| seen.name.as_str()).collect();
    assert!(untold.is_empty(), "not in the journals: {untold:?}");
    let (code, shown, errors) = mesh(&["trace", "t-1"], &[("MESH_URL", &cluster.registry.url)]);
    assert_eq!(code, 0, "{errors}");
    for part in ["invoke_agent builder-01", "award", "to builder-01", "reviewer-01", "completed contract-net"]
    {
        assert!(shown.contains(part), "no {part:?} in\n{shown}");
    }
}

#[tokio::test]
async fn an_open_task_is_one_trace_below_its_publisher() {
    let collector = Collector::start();
    let equal = |n: u8| {
        format!(
            "  - {{ agent: builder-0{n}, skills: [build], subscribe: [task.available], brain: {{ echo: {{}} }} }}\n"
        )
    };
    let mesh = Process::up_in(&collector.environment(), &format!("agents:\n{}{}", equal(1), equal(2))).await;
    for (task, parent) in [("o-1", Some(CALLER)), ("o-2", None)] {
        let offer = json!({
            "type": "task.available", "from": "me", "taskId": task, "capability": "build",
            "refs": { "description": "build it" },
        });
        let mut request = client().post(format!("{}/board/signals", mesh.url)).json(&offer);
        if let Some(parent) = parent {
            request = request.header("traceparent", parent);
        }
        assert_eq!(request.send().await.unwrap().status(), 201);
        let of = |span: &&ReceivedSpan| span.attribute("mesh.task.id") == task;
        let spans = collector
            .spans_where("both who wanted it", |spans| {
                let its_own: Vec<_> = spans.iter().filter(of).cloned().collect();
                ["builder-01", "builder-02"].iter().all(|agent| ended(&its_own, agent, "open-task"))
            })
            .await;
        let traces: std::collections::BTreeSet<_> = spans.iter().filter(of).map(|span| &span.trace).collect();
        assert_eq!(traces.len(), 1, "{task}: {traces:?}");
        if parent.is_some() {
            assert!(traces.iter().all(|trace| *trace == "0af7651916cd43dd8448eb211c80319c"), "{traces:?}");
        }
    }
}

#[tokio::test]
async fn the_trace_is_whole_after_a_winner_is_killed_and_after_it_returns() {
    let collector = Collector::start();
    let mut cluster = Cluster::start().await;
    cluster.environment = collector.environment();
    let manager = cluster.node("manager", MANAGER).await;
    let asks = asking(cluster.dir.path());
    let mut winner = cluster
        .node("b1", &format!("agents:\n  - {{ agent: builder-01, skills: [build], brain: {{ exec: [/bin/sh, '{asks}'] }}, bid: {{ cost: 0, eta: 1s }} }}\n"))
        .await;
    let _other = cluster.node("b2", &builder(cluster.dir.path(), "builder-02", "cost: 5, eta: 9m")).await;
    let _reviewer = cluster
        .node("r", "agents:\n  - { agent: reviewer-01, skills: [review], brain: { echo: {} } }\n")
        .await;
    cluster.wait_for_agents(&["manager-01", "builder-01", "builder-02", "reviewer-01"]).await;
    let agent = manager.agent("manager-01");
    let task = agent.send(build("t-2")).await;
    eventually("the winner at its second turn", async || {
        let effects = std::fs::read_to_string(cluster.path("effects")).unwrap_or_default();
        effects.contains("second builder-01").then_some(())
    })
    .await;
    winner.kill();
    at_work(cluster.dir.path(), "builder-02").await;
    open_gate(cluster.dir.path());
    agent.task_in(&task, &["completed"]).await;
    // The spans from before the kill are children of spans that are sent after the restart.
    let by_others =
        |span: &ReceivedSpan| !["builder-01", "reviewer-01"].contains(&span.attribute("gen_ai.agent.id"));
    let spans = collector
        .spans_where("the manager's and the runner-up's", |spans| {
            ended(spans, "manager-01", "contract-net")
                && ended(spans, "builder-02", "delegation")
                && is_whole(spans.iter().filter(|span| by_others(span)))
        })
        .await;
    assert_one_tree(&spans.into_iter().filter(by_others).collect::<Vec<_>>(), None);

    std::fs::remove_file(cluster.path("open")).unwrap();
    winner.revive().await;
    // What the killed process had not sent is missing at the collector; `mesh trace` has it.
    let spans = collector
        .spans_where("the killed one's", |spans| {
            ended(spans, "builder-01", "delegation") && ended(spans, "reviewer-01", "help-request")
        })
        .await;
    let lost = spans.iter().find(|span| {
        span.attribute("gen_ai.agent.id") == "builder-01" && span.attribute("mesh.pattern") == "delegation"
    });
    let lost = lost.unwrap();
    assert!(lost.has_failed, "{lost:?}");
    assert_eq!(count(&spans, "award"), 2);
    let url = format!("{}/a2a/tasks/{task}/trace", agent.url);
    eventually("the whole trace at the agents", async || {
        let told = get(&url).await.to_string();
        ["builder-01", "builder-02", "reviewer-01"].iter().all(|id| told.contains(id)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_unsampled_trace_is_not_recorded_and_still_propagated() {
    let collector = Collector::start();
    let mesh = Process::up_in(&collector.environment(), ECHO).await;
    let agent = mesh.agent("echo-01");
    let unsampled = CALLER.replace("-01", "-00");
    let headers = [("traceparent", unsampled.as_str()), ("prefer", "wait=100")];
    let task = json!({ "taskId": "t-3", "description": "say", "capability": "echo" });
    agent.post_raw(agent.request(task).to_string(), &headers).await;
    let shown = get(&format!("{}/a2a/tasks/t-3/trace", agent.url)).await;
    assert_eq!(shown["traceId"], "0af7651916cd43dd8448eb211c80319c");
    let signal = mesh.signal_where("task.complete", |signal| signal["taskId"] == "t-3").await;
    let passed_on = signal["refs"]["traceparent"].as_str().unwrap_or_default();
    assert!(passed_on.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && passed_on.ends_with("-00"));
    agent.ask(json!({ "taskId": "t-4", "description": "say", "capability": "echo" })).await;
    let spans =
        collector.spans_where("of the other task", |spans| ended(spans, "echo-01", "delegation")).await;
    assert!(spans.iter().all(|span| span.attribute("mesh.task.id") == "t-4"), "{spans:#?}");
}

const ECHO: &str = "agents:\n  - { agent: echo-01, skills: [echo], open: true, brain: { echo: {} } }\n";

#[tokio::test]
async fn a_hanging_backend_costs_only_spans() {
    let collector = Collector::start();
    collector.set_behavior(CollectorBehavior::Hangs);
    let mut environment = collector.environment();
    environment.extend(["OTEL_BSP_MAX_QUEUE_SIZE=20".to_owned(), "OTEL_BSP_EXPORT_TIMEOUT=60000".to_owned()]);
    let mut mesh = Process::up_in(&environment, ECHO).await;
    let agent = mesh.agent("echo-01");
    for number in 0..20 {
        agent
            .ask(json!({ "taskId": format!("t-{number}"), "description": "say", "capability": "echo" }))
            .await;
    }
    let counts = eventually("dropped spans", async || {
        let counts = get(&format!("{}/state", mesh.url)).await["telemetry"].clone();
        (counts["droppedFull"].as_u64()? > 0).then_some(counts)
    })
    .await;
    assert!(counts["waiting"].as_u64().unwrap() <= 20, "{counts}");
    let metrics = text(&format!("{}/metrics", mesh.url)).await;
    assert!(metrics.contains("mesh_spans_dropped_total{reason=\"full\"}"), "{metrics}");
    assert_eq!(mesh.log().matches("traces lose spans").count(), 1, "{}", mesh.log());
    mesh.signal("TERM");
    assert_eq!(mesh.ended().await, 0);
}

#[tokio::test]
async fn a_refusing_backend_is_logged_once_and_again_when_it_recovers() {
    let collector = Collector::start();
    collector.set_behavior(CollectorBehavior::Refuses);
    let mesh = Process::up_in(&collector.environment(), ECHO).await;
    let agent = mesh.agent("echo-01");
    let ask = async |number: u32| {
        agent
            .ask(json!({ "taskId": format!("t-{number}"), "description": "say", "capability": "echo" }))
            .await;
    };
    for number in 0..5 {
        let before = collector.requests();
        ask(number).await;
        eventually("a refusal", async || (collector.requests() > before).then_some(())).await;
    }
    collector.set_behavior(CollectorBehavior::Accepts);
    ask(9).await;
    collector
        .spans_where("of the last task", |spans| {
            spans.iter().any(|span| span.attribute("mesh.task.id") == "t-9")
        })
        .await;
    eventually("the good news", async || mesh.log().contains("delivered again").then_some(())).await;
    assert_eq!(mesh.log().matches("traces can't be delivered").count(), 1, "{}", mesh.log());
    assert!(!mesh.log().contains("canary"), "{}", mesh.log());
}

#[tokio::test]
async fn rejected_spans_are_counted_and_logged_once() {
    let collector = Collector::start();
    collector.set_behavior(CollectorBehavior::RejectsSome(1));
    let mesh = Process::up_in(&collector.environment(), ECHO).await;
    let agent = mesh.agent("echo-01");
    for number in 0..3 {
        let before = collector.requests();
        agent
            .ask(json!({ "taskId": format!("t-{number}"), "description": "say", "capability": "echo" }))
            .await;
        eventually("its spans", async || (collector.requests() > before).then_some(())).await;
    }
    // Spans that end after the task may still arrive.
    let lost = eventually("rejected spans, and all others counted as exported", async || {
        let counts = get(&format!("{}/state", mesh.url)).await["telemetry"].clone();
        let (all, lost) = (collector.spans().len() as u64, counts["droppedRejected"].as_u64()?);
        (lost >= 3 && counts["exported"].as_u64() == Some(all - lost) && counts["waiting"] == 0)
            .then_some(lost)
    })
    .await;
    let metrics = text(&format!("{}/metrics", mesh.url)).await;
    assert!(
        metrics.contains(&format!("mesh_spans_dropped_total{{reason=\"rejected\"}} {lost}")),
        "{metrics}"
    );
    assert_eq!(mesh.log().matches("rejects spans").count(), 1, "{}", mesh.log());
    assert!(!mesh.log().contains("canary"), "{}", mesh.log());
}

#[tokio::test]
async fn otel_variables_with_values_that_are_not_known_give_warnings_and_no_failed_start() {
    let collector = Collector::start();
    let odd = [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier-pigeon"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "brotli"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "canary"),
        ("OTEL_RESOURCE_ATTRIBUTES", "canary"),
        ("OTEL_TRACES_SAMPLER", "sometimes"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
        ("OTEL_TRACES_EXPORTER", "console"),
    ];
    let variables: Vec<_> = odd.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let task = json!({ "taskId": "t-odd", "description": "say", "capability": "echo" });
    for is_exporting in [false, true] {
        let mut environment = variables.clone();
        if is_exporting {
            environment.extend(collector.environment());
        }
        let mesh = Process::up_in(&environment, ECHO).await;
        assert_eq!(state(&mesh.agent("echo-01").ask(task.clone()).await), "completed");
        let log = mesh.log();
        for (name, _) in odd {
            assert_eq!(
                log.matches(&format!("{name} ")).count() + log.matches(&format!("{name}:")).count(),
                1,
                "{name}: {log}"
            );
        }
        assert!(!log.contains("canary"), "{log}");
        if is_exporting {
            collector.spans_where("in spite of all", |spans| !spans.is_empty()).await;
        }
    }
    let mut environment = [variables, collector.environment()].concat();
    environment.push("OTEL_SDK_DISABLED=true".to_owned());
    let before = collector.requests();
    let mut mesh = Process::up_in(&environment, ECHO).await;
    assert_eq!(state(&mesh.agent("echo-01").ask(task).await), "completed");
    mesh.signal("TERM");
    assert_eq!(mesh.ended().await, 0);
    assert!(!mesh.log().contains("OTEL_"), "{}", mesh.log());
    assert_eq!(collector.requests(), before);
}

#[tokio::test]
async fn a_backend_that_is_not_there_is_named_and_tasks_go_on() {
    let nobody = ["OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:9".to_owned()];
    let mesh = Process::up_in(&nobody, ECHO).await;
    eventually("the line", async || mesh.log().contains("traces can't be delivered").then_some(())).await;
    let agent = mesh.agent("echo-01");
    assert_eq!(state(&agent.ask(json!({ "description": "say" })).await), "completed");
    let headers = ["OTEL_EXPORTER_OTLP_HEADERS=a=canary".to_owned()];
    let mesh = Process::up_in(&headers, ECHO).await;
    eventually("the line", async || mesh.log().contains("OTEL_EXPORTER_OTLP_ENDPOINT says").then_some(()))
        .await;
    assert!(!mesh.log().contains("canary"));
}

#[tokio::test]
async fn the_trace_of_another_is_not_shown() {
    let mesh = Process::up_in(&[], ECHO).await;
    let agent = mesh.agent("echo-01");
    agent.ask(json!({ "taskId": "t-6", "description": "say", "capability": "echo" })).await;
    let stranger = mesh.client_as("stranger-01");
    let target = "/a2a/tasks/t-6/trace";
    let answer = stranger.call(reqwest::Method::GET, (&agent.url, target), "echo-01", None).await;
    assert_eq!(answer.status, 404, "{answer:?}");
    assert_eq!(get(&format!("{}{target}", agent.url)).await["taskId"], "t-6");
}

#[tokio::test]
async fn a_log_line_names_the_agent_the_task_and_the_trace() {
    let mesh = Process::up_in(&["MESH_LOG=json".to_owned()], ECHO).await;
    let agent = mesh.agent("echo-01");
    let mut request = agent.request(json!({ "taskId": "t-7", "description": "say", "capability": "echo" }));
    agent.post_raw(request.to_string(), &[("traceparent", CALLER), ("prefer", "wait=100")]).await;
    request["payload"]["description"] = json!("say something else");
    request["messageId"] = json!("m-another");
    agent.post_raw(request.to_string(), &[("traceparent", CALLER)]).await;
    let lines = eventually("both lines", async || {
        let log = mesh.log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let lines: Vec<_> =
            lines.filter(|line| line["agent"] == "echo-01" && line["trace"].is_string()).collect();
        (lines.len() >= 2).then_some(lines)
    })
    .await;
    assert!(lines.iter().all(|line| line["trace"] == CALLER[3..35]), "{lines:#?}");
    assert!(lines.iter().any(|line| line["task"] == "t-7" && line["state"] == "completed"), "{lines:#?}");
    assert!(lines.iter().any(|line| line["reason"] == "task_id_reused"), "{lines:#?}");
}

#[tokio::test]
async fn a_backend_over_tls_is_verified_by_the_files_of_the_standard_variables() {
    let tls = |file: &str| format!("{}/../tests/harness/tls/{file}", env!("CARGO_MANIFEST_DIR"));
    for collector in [Collector::over_tls(), Collector::over_grpc_and_tls()] {
        let mut environment = collector.environment();
        environment.push(format!("OTEL_EXPORTER_OTLP_CERTIFICATE={}", tls("ca.pem")));
        environment.push(format!("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE={}", tls("client.pem")));
        environment.push(format!("OTEL_EXPORTER_OTLP_CLIENT_KEY={}", tls("client.key")));
        environment.push("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT=3".to_owned());
        let mesh = Process::up_in(&environment, ECHO).await;
        let task = json!({ "taskId": "t-8", "description": "say", "capability": "echo" });
        mesh.agent("echo-01").ask(task).await;
        let is_ours = |span: &ReceivedSpan| span.attribute("mesh.span") == "con";
        let spans = collector.spans_where("of the task", |spans| spans.iter().any(is_ours)).await;
        assert!(
            spans.iter().all(|span| span.attributes.values().all(|text| text.chars().count() <= 3)),
            "{spans:?}"
        );
        assert!(!mesh.log().contains("traces"), "{}", mesh.log());
    }

    let collector = Collector::over_tls();
    let at = ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url.as_str());
    let (ca, key, nowhere) = (tls("ca.pem"), tls("client.key"), tls("nowhere.pem"));
    for (name, file, more, why) in [
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", &nowhere, None, "can't be read"),
        ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", &key, None, "holds no certificate"),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", &key, None, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"),
        ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", &ca, None, "OTEL_EXPORTER_OTLP_CLIENT_KEY"),
        (
            "OTEL_EXPORTER_OTLP_CLIENT_KEY",
            &key,
            Some(("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", ca.as_str())),
            "no key of",
        ),
    ] {
        let dir = crate::harness::directory();
        let data = dir.path().to_string_lossy().into_owned();
        let envs: Vec<_> = [at, (name, file.as_str())].into_iter().chain(more).collect();
        let (code, _, errors) = crate::harness::mesh(&["up", "--port", "0", "--data", &data], &envs);
        assert_eq!((code, errors.lines().count()), (78, 1), "{errors}");
        assert!(errors.contains(name) && errors.contains(why), "{errors}");
    }
}
