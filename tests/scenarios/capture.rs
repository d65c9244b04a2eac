//! What `--capture` puts into spans: nothing, the shape of content, or content without secrets. The tests search everything
//! that a backend receives for canaries.

use super::traces::ended;
use crate::harness::{
    Process, client,
    collector::{Collector, ReceivedSpan},
    directory, eventually, file, get, state, text,
};
use serde_json::{Value, json};

/// A brain that puts the secret of its environment into every output.
const TELLTALE: &str = r#"#!/bin/sh
read -r line
echo "said aloud with $BRAIN_API_KEY" >&2
case "$TRACEPARENT" in 00-*-01) ;; *) exit 1 ;; esac
echo "{\"type\":\"status\",\"message\":\"with $BRAIN_API_KEY\"}"
echo "{\"type\":\"artifact\",\"name\":\"out.txt\",\"text\":\"the key is $BRAIN_API_KEY\"}"
echo "{\"type\":\"done\",\"message\":\"used Bearer $BRAIN_API_KEY\"}"
"#;

#[tokio::test]
async fn no_secret_reaches_a_trace_a_log_or_the_metrics_at_any_level() {
    for (level, is_told) in [("off", false), ("redacted", false), ("full", true)] {
        let collector = Collector::start();
        let mut environment = collector.environment();
        environment.push(format!("MESH_CAPTURE={level}"));
        let dir = directory();
        let script = file(dir.path(), "telltale.sh", TELLTALE);
        let yaml = format!(
            "agents:\n  - {{ agent: tell-01, skills: [tell], brain: {{ exec: [/bin/sh, '{}'] }}, env: {{ BRAIN_API_KEY: canary-environment }} }}\n  - {{ agent: front-01, skills: [front], brain: {{ echo: {{}} }} }}\n",
            script.display()
        );
        let mut mesh = Process::up_in(&environment, &yaml).await;
        let join = std::fs::read_to_string(mesh.data.join("join")).unwrap();
        let agent = mesh.agent("front-01");
        let harmless = json!({ "taskId": "t-4", "capability": "front", "description": "Sing a public-word" });
        let sung = agent.post_raw(agent.request(harmless).to_string(), &[("prefer", "wait=100")]).await;
        assert_eq!(state(&sung.body), "completed", "{:#}", sung.body);
        let payload = json!({
            "taskId": "t-5", "capability": "tell", "description": format!("Sing with {}", join.trim()),
            "input": { "apiKey": "canary-payload", "deep": { "db_password": "canary-deep" }, "join": join.trim() },
        });
        let headers = [
            ("authorization", "Bearer canary-authorization"),
            ("prefer", "wait=100"),
            ("x-api-key", "canary-header-in"),
        ];
        let refused = agent.post_raw(agent.request(payload.clone()).to_string(), &headers).await;
        assert_eq!(refused.status, 401, "{refused:?}");
        let answer = agent.post_raw(agent.request(payload).to_string(), &[("prefer", "wait=100")]).await;
        assert_eq!(state(&answer.body), "completed", "{:#}", answer.body);
        collector
            .spans_where("of both", |spans| {
                ended(spans, "front-01", "contract-net") && ended(spans, "tell-01", "delegation")
            })
            .await;
        let metrics = text(&format!("{}/metrics", mesh.url)).await;
        let trace = get(&format!("{}/a2a/tasks/t-5/trace", agent.url)).await.to_string();
        mesh.signal("TERM");
        assert_eq!(mesh.ended().await, 0);
        let log = std::fs::read_to_string(mesh.data.join("log")).unwrap();
        assert!(log.contains("said aloud with ***"), "what the brain wrote to its standard error: {log}");
        for (where_, text) in
            [("traces", collector.raw()), ("metrics", metrics), ("trace", trace.clone()), ("log", log)]
        {
            for secret in ["canary", join.trim()] {
                let at = text
                    .find(secret)
                    .map(|at| text[at.saturating_sub(80)..].chars().take(160).collect::<String>());
                assert_eq!(at, None, "capture {level}: a secret is in the {where_}");
            }
        }
        assert_eq!(collector.raw().contains("public-word"), is_told, "capture {level}");
        assert!(!trace.contains("public-word"), "the journal's trace holds content");
    }
}

/// Variables of the process that hold secrets.
const VARIABLES: &[&str] = &[
    "GITHUB_TOKEN=own-nightingale-1",
    "BILLING_API_KEY=own-nightingale-2",
    "DATABASE_URL=postgres://mesh:own-nightingale-3@127.0.0.1/mesh",
    "SMTP_PASS=own-nightingale 4&",
    "OTEL_EXPORTER_OTLP_HEADERS=authorization=Basic%20bWVzaDpvd24tbmlnaHRpbmdhbGUtNQ==",
    "OTEL_RESOURCE_ATTRIBUTES=note=own-nightingale-1",
];

/// A brain that puts a text into every kind of output and fails with it.
const PARROT: &str = r#"#!/bin/sh
read -r line
said=$(cat SAID)
case "$line" in
*'"turn":1'*)
  printf '{"type":"status","message":%s}\n' "$said"
  printf '{"type":"artifact","name":"out.txt","text":%s}\n' "$said"
  printf '{"type":"question","id":"q1","text":%s}\n' "$said" ;;
*'"turn":2'*) printf '{"type":"help","id":"h1","capability":"advise","question":%s}\n' "$said" ;;
*'"turn":3'*) printf '{"type":"delegate","id":"d1","to":"capability:advise","description":%s,"input":{"password":"canary-delegated"}}\n' "$said" ;;
*) printf '{"type":"failed","reason":%s}\n' "$said" ;;
esac
"#;

/// A text with every secret of the process, as it is, in a URL and in JSON.
fn own() -> String {
    let plain = [
        "own-nightingale-1",
        "own-nightingale-2",
        "own-nightingale-3",
        "own-nightingale 4&",
        "own-nightingale-5",
    ];
    let config = ["own-nightingale-caller", "own-nightingale-outside"];
    let mut text = String::from("The public-word\nof the day:");
    for secret in plain.into_iter().chain(config) {
        let in_url = reqwest::Url::parse_with_params("http://x", [("q", secret)]).unwrap();
        text += &format!(" {secret} {in_url} {}", json!(json!(secret).to_string()));
    }
    text
}

fn has_ended(spans: &[ReceivedSpan], patterns: &[(&str, &str)]) -> bool {
    patterns.iter().all(|(agent, pattern)| ended(spans, agent, pattern))
}

#[tokio::test]
async fn no_part_of_a_message_carries_a_secret_into_a_trace() {
    for (level, is_told) in [("full", true), ("redacted", false), ("off", false)] {
        let collector = Collector::start();
        let mut environment = collector.environment();
        environment.extend(VARIABLES.iter().map(|variable| (*variable).to_owned()));
        environment.push(format!("MESH_CAPTURE={level}"));
        let dir = directory();
        let said = own();
        let words = file(dir.path(), "said.json", &json!(said).to_string());
        let script = file(dir.path(), "parrot.sh", &PARROT.replace("SAID", &words.to_string_lossy()));
        let yaml = format!(
            "mesh:
  callers: [{{ user: alice, apiKey: own-nightingale-caller }}]
  outside: {{ allow: [127.0.0.0/8], credentials: {{ 'weather.example': {{ key: own-nightingale-outside }} }} }}
agents:
  - {{ agent: parrot-01, skills: [tell], open: true, brain: {{ exec: [/bin/sh, '{}'] }} }}
  - {{ agent: adviser-01, skills: [advise], brain: {{ echo: {{}} }} }}
",
            script.display()
        );
        let mut mesh = Process::up_in(&environment, &yaml).await;
        let parrot = mesh.agent("parrot-01");

        // A task with a question and an answer, help, a delegation, and a failure.
        let payload = json!({
            "taskId": "t-1", "capability": "tell", "description": said,
            "input": { "text": said, "deep": { "pwd": "canary-pwd", "authorization": ["canary-auth"], "n": 1 } },
            "artifacts": [{ "artifactId": "a", "parts": [{ "text": said }], "metadata": { "client_secret": "canary-metadata" } }],
        });
        let mut request = parrot.request(payload);
        if !is_told {
            // Names of members are content: only `full` has them.
            request["payload"]["input"]["nightingale-name"] = json!(1);
        }
        let headers = [
            ("authorization", "ApiKey canary-in"),
            ("cookie", "sid=canary-in"),
            ("x-api-key", "own-nightingale-caller"),
        ];
        let begun = parrot.post_raw(request.to_string(), &headers[1..]).await;
        assert_eq!(begun.status, 202, "{begun:?}");
        let by_alice = async |path: &str, body: Option<Value>| {
            let url = format!("{}/a2a/tasks/t-1{path}", parrot.url);
            let request = match body {
                Some(body) => client().post(url).json(&body),
                None => client().get(url),
            };
            request
                .header("x-api-key", "own-nightingale-caller")
                .send()
                .await
                .unwrap()
                .json::<Value>()
                .await
                .unwrap()
        };
        let in_state = async |wanted: &str| {
            eventually(&format!("t-1 {wanted}"), async || {
                (state(&by_alice("", None).await) == wanted).then_some(())
            })
            .await;
        };
        in_state("input_required").await;
        by_alice("/answer", Some(json!({ "text": said }))).await;
        in_state("failed").await;

        // An A2A message with a webhook that has its own credentials.
        let message = json!({
            "message": { "messageId": "m-1", "role": "ROLE_USER", "parts": [
                { "text": said }, { "data": { "sessionToken": "canary-part", "text": said } },
            ], "metadata": { "token": "canary-message" } },
            "metadata": { "skill": "tell", "apiKey": "canary-request" },
            "configuration": { "returnImmediately": true, "taskPushNotificationConfig": {
                "url": "http://127.0.0.1:9/canary-hook", "token": "canary-hook",
                "authentication": { "scheme": "Bearer", "credentials": "canary-hook" } } },
        });
        let url = format!("{}/a2a/v1/message:send", parrot.url);
        let asked = client().post(url).header("a2a-version", "1.0").json(&message).send().await.unwrap();
        assert!(asked.status().is_success(), "{asked:?}");
        let asked: Value = asked.json().await.unwrap();
        let id = asked["task"]["id"].as_str().unwrap().to_owned();
        parrot.task_in(&id, &["input_required"]).await;
        client()
            .post(format!("{}/a2a/tasks/{id}/cancel", parrot.url))
            .json(&json!({ "reason": said }))
            .send()
            .await
            .unwrap();
        parrot.task_in(&id, &["canceled"]).await;

        let all = [("parrot-01", "delegation"), ("adviser-01", "help-request"), ("adviser-01", "delegation")];
        collector
            .spans_where("of all of it", |spans| {
                has_ended(spans, &all)
                    && spans.iter().filter(|span| span.attribute("mesh.task.state") == "canceled").count() > 0
            })
            .await;
        mesh.signal("TERM");
        assert_eq!(mesh.ended().await, 0);
        let raw = collector.raw();
        for canary in ["canary", "nightingale"] {
            let at = raw.find(canary).map(|at| {
                String::from_utf8_lossy(&raw.as_bytes()[at.saturating_sub(90)..(at + 60).min(raw.len())])
                    .into_owned()
            });
            assert_eq!(at, None, "capture {level}: {canary} is told");
        }
        assert_eq!(raw.contains("public-word"), is_told, "capture {level}");
        assert_eq!(raw.contains("characters]"), level == "redacted", "capture {level}");
    }
}

/// Models, tool servers, services, foreign agents and webhooks whose addresses hold a secret, and which nobody serves.
const ADDRESSES: &str = "
agents:
  - agent: think-01
    skills: [think]
    brain:
      llm:
        model: some-model
        url: 'http://127.0.0.1:9/v1?key=canary-model'
        tools: [{ mcp: 'http://127.0.0.1:9/mcp?token=canary-tool', name: office }]
  - { agent: far-01, skills: [far], brain: { a2a: { card: 'http://127.0.0.1:9/x?token=canary-card' } } }
  - { agent: post-01, skills: [post], brain: { http: { url: 'http://127.0.0.1:9/x?token=canary-service' } } }
mesh: { outside: { allow: [127.0.0.0/8] } }
";

#[tokio::test]
async fn no_secret_of_an_address_reaches_a_log_at_any_level_a_span_an_error_or_doctor() {
    let collector = Collector::start();
    let mut environment = collector.environment();
    environment.extend(["RUST_LOG=trace".to_owned(), "MESH_CAPTURE=full".to_owned()]);
    let environment: Vec<_> = environment.iter().map(String::as_str).collect();
    let mut mesh = Process::up_with(&environment, &[], Some(ADDRESSES)).await;
    let mut seen = Vec::new();
    for (agent, capability) in [("think-01", "think"), ("far-01", "far"), ("post-01", "post")] {
        let agent = mesh.agent(agent);
        let message = json!({
            "message": { "messageId": format!("m-{capability}"), "role": "ROLE_USER", "parts": [{ "text": "x" }] },
            "metadata": { "skill": capability },
            "configuration": { "returnImmediately": true, "taskPushNotificationConfig": {
                "url": format!("http://127.0.0.1:9/hook?token=canary-hook-{capability}"),
            } },
        });
        let sent = client().post(format!("{}/a2a/v1/message:send", agent.url)).header("a2a-version", "1.0");
        let sent = sent.bearer_auth(agent.token.as_ref().unwrap()).json(&message).send().await.unwrap();
        let sent: Value = sent.json().await.unwrap();
        let task = sent["task"]["id"].as_str().unwrap_or_else(|| panic!("{sent:#}")).to_owned();
        // Each has met the address that nobody serves.
        let met = eventually("it has failed, or says for what it waits", async || {
            let task = agent.task(&task).await;
            let said = crate::harness::message(&task);
            (state(&task) == "failed" || said.contains("pauses") || said.contains("127.0.0.1"))
                .then_some(task)
        });
        seen.push((capability, met.await.to_string()));
        seen.push(("trace", get(&format!("{}/a2a/tasks/{task}/trace", agent.url)).await.to_string()));
    }
    let data = mesh.data.to_string_lossy().into_owned();
    let (_, doctor, said) = mesh.as_person(&["doctor", "--data", &data]).await;
    seen.extend([("doctor", doctor + &said), ("metrics", text(&format!("{}/metrics", mesh.url)).await)]);
    seen.push(("state", get(&format!("{}/state", mesh.url)).await.to_string()));
    mesh.signal("TERM");
    mesh.ended().await;
    let log = std::fs::read_to_string(mesh.data.join("log")).unwrap();
    assert!(log.contains("TRACE") && log.contains("127.0.0.1:9"), "the level shows what there is");
    seen.extend([("log", log), ("spans", collector.raw())]);
    for (where_, text) in seen {
        let at =
            text.find("canary").map(|at| text[at.saturating_sub(80)..].chars().take(160).collect::<String>());
        assert_eq!(at, None, "a secret is in the {where_}");
    }
}
