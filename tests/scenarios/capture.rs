//! What is told of content: nothing, its shape, or all of it; and whatever is told, no credential, in no form and from
//! nowhere. Everything that a backend receives is searched for canaries.

use super::traces::ended;
use crate::harness::{
    Process, client,
    collector::{Collector, Seen},
    directory, eventually, file, get, state, text,
};
use serde_json::{Value, json};

/// What a brain that was told a secret says again and again.
const TELLTALE: &str = r#"#!/bin/sh
read -r line
echo "canary-said-aloud $BRAIN_API_KEY" >&2
case "$TRACEPARENT" in 00-*-01) ;; *) exit 1 ;; esac
echo "{\"type\":\"status\",\"message\":\"with $BRAIN_API_KEY\"}"
echo "{\"type\":\"artifact\",\"name\":\"out.txt\",\"text\":\"$BRAIN_API_KEY and password=canary-artifact\"}"
echo "{\"type\":\"done\",\"message\":\"used Bearer canary-message\"}"
"#;

#[tokio::test]
async fn no_credential_reaches_a_trace_a_log_or_the_metrics_however_much_is_captured() {
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
        // A conversation that names nothing is told.
        let harmless = json!({ "taskId": "t-4", "capability": "front", "description": "Sing a public-word" });
        let sung = agent.post_raw(agent.request(harmless).to_string(), &[("prefer", "wait=25")]).await;
        assert_eq!(state(&sung.body), "completed", "{:#}", sung.body);
        let payload = json!({
            "taskId": "t-5", "capability": "tell", "description": "Sing a canary-before\n\nin tune\nand loud.\n\nThe token is canary-description",
            "input": { "apiKey": "canary-payload", "deep": { "db_password": "canary-deep" }, "join": join.trim() },
        });
        let headers = [
            ("authorization", "Bearer canary-authorization"),
            ("prefer", "wait=25"),
            ("x-api-key", "canary-header-in"),
        ];
        let answer = agent.post_raw(agent.request(payload).to_string(), &headers).await;
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

/// Texts with a canary each, as people, programs and brains write credentials down.
const FORMS: &[&str] = &[
    r#"{"user":"bob","password":"canary-json"}"#,
    r#"{\"deep\":\"{\\\"api_key\\\":\\\"canary-escaped\\\"}\"}"#,
    "password = \"canary-quoted\"",
    "db:\n  password: canary-yaml\n  pin: 4711-canary",
    "Password\ncanary-7-below\n",
    "GET https://example.org/?page=2&access_token=canary-query&sig=canary-sig",
    "https://bob:canary-url@example.org/",
    "Authorization: Token canary-scheme",
    "Proxy-Authorization: Basic canary-basic",
    "curl -u bob:canary-user -H 'X-Api-Key: canary-header' https://example.org",
    "deploy --token canary-flag --password=canary-flag",
    "Cookie: sid=canary-cookie; theme=dark",
    "<password>canary-xml</password><user password=\"canary-attribute\"/>",
    "-----BEGIN PRIVATE KEY-----\ncanary-pem\n-----END PRIVATE KEY-----",
    "eyJhbGciOiJIUzI1NiJ9.canary-jwt.canary-jwt",
    "ghp_canarycanarycanary glpat-canarycanarycanary",
    "root:$6$canary$canaryhash:1",
    "aws_secret_access_key = canary-aws",
    "export DB_PASSWORD=canary-shell",
    "Server=db;Password=canary-connection;Encrypt=true",
    "Use the token canary-prose to log in",
    "Password (bob): canary-whose",
    "the password was changed to canary-changed",
    "username admin password 0 canary-device",
    "enable secret 5 canary-enable",
    "ConvertTo-SecureString \"canary-shell\" -AsPlainText -Force",
    "{\"mfa_code\":\"canary-mfa\"}",
    "Your one-time code is: canary-once",
    "bob / canary-behind (password)",
    "the password is correct canary battery",
    "INSERT INTO users (name, password) SELECT 'bob', 'canary-select'",
    "ALTER USER bob IDENTIFIED BY canary-by REPLACE canary-old",
    "Das Passwort lautet canary-wort, 密码是canary-zh",
    "Credentials:\n\nbob\n\ncanary-below\n\neve\n\ncanary-far-below",
    "key-canary0123456789abcdef0123456789 SK0123456789abcdefcanary0123456789 sntrys_canary-sentry tvly-canary-tavily",
];

/// Secrets of the process itself, each with where it comes from.
const VARIABLES: &[&str] = &[
    "GITHUB_TOKEN=own-nightingale-1",
    "BILLING_API_KEY=own-nightingale-2",
    "DATABASE_URL=postgres://mesh:own-nightingale-3@127.0.0.1/mesh",
    "SMTP_PASS=own-nightingale 4&",
    "OTEL_EXPORTER_OTLP_HEADERS=authorization=Basic%20bWVzaDpvd24tbmlnaHRpbmdhbGUtNQ==",
    "OTEL_RESOURCE_ATTRIBUTES=note=own-nightingale-1",
];

/// A brain that says what it read, in whatever way a brain can say something, and fails in the end with all of it.
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

/// Every secret that the process has, as it may turn up in what is said.
fn own() -> String {
    let plain = [
        "own-nightingale-1",
        "own-nightingale-2",
        "own-nightingale-3",
        "own-nightingale 4&",
        "own-nightingale-5",
    ];
    let config = ["own-nightingale-caller", "own-nightingale-outside"];
    let mut said = String::from("The public-word\nof the day:");
    for secret in plain.into_iter().chain(config) {
        let packed = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, format!("x{secret}"));
        let percent: String = secret.bytes().map(|byte| format!("%{byte:02X}")).collect();
        said += &format!(" {secret} {percent} {packed} {}", json!(json!(secret).to_string()));
    }
    said
}

fn has_ended(spans: &[Seen], patterns: &[(&str, &str)]) -> bool {
    patterns.iter().all(|(agent, pattern)| ended(spans, agent, pattern))
}

#[tokio::test]
async fn no_form_of_a_credential_leaves_from_wherever_it_was_said() {
    for (level, is_told) in [("full", true), ("redacted", false), ("off", false)] {
        let collector = Collector::start();
        let mut environment = collector.environment();
        environment.extend(VARIABLES.iter().map(|variable| (*variable).to_owned()));
        environment.push(format!("MESH_CAPTURE={level}"));
        let dir = directory();
        let said = format!("{}\n\nThis stands\nin between.\n\n{}", own(), FORMS.join("\n"));
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

        // As a task, with a question and an answer, help, work given away, and a failure.
        let harmless = json!({ "taskId": "t-0", "capability": "advise", "description": own() });
        let adviser = mesh.agent("adviser-01");
        let advised = adviser
            .post_raw(
                adviser.request(harmless).to_string(),
                &[("x-api-key", "own-nightingale-caller"), ("prefer", "wait=25")],
            )
            .await;
        assert_eq!(state(&advised.body), "completed", "{advised:?}");
        let payload = json!({
            "taskId": "t-1", "capability": "tell", "description": said, "canary-member": said,
            "input": { "text": said, "canary-name": { "pwd": "canary-pwd", "auth": ["canary-auth"], "n": 1 } },
            "artifacts": [{ "artifactId": "a", "parts": [{ "text": said }], "metadata": { "client_secret": "canary-metadata" } }],
        });
        let mut request = parrot.request(payload);
        if !is_told {
            // Names of members are content: only `full` tells them.
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
        by_alice("/answer", Some(json!({ "text": format!("password=canary-answer\n{said}") }))).await;
        in_state("failed").await;

        // As an A2A message, with a webhook that has credentials of its own.
        let message = json!({
            "message": { "messageId": "m-1", "role": "ROLE_USER", "parts": [
                { "text": said }, { "data": { "session": "canary-part", "text": said } },
                { "raw": base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &said), "mediaType": "text/plain" },
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
                    && spans.iter().filter(|span| span.is("mesh.task.state") == "canceled").count() > 0
            })
            .await;
        mesh.signal("TERM");
        assert_eq!(mesh.ended().await, 0);
        let raw = collector.raw();
        let packed = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, "own-nightingale");
        for canary in ["canary", "nightingale", &packed[..16], "Y2FuYXJ5", "%6E%69%67%68"] {
            // What `full` tells of names is what they are called.
            let raw = raw.replace("canary-member", "").replace("canary-name", "");
            let raw = if is_told { raw } else { collector.raw() };
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
