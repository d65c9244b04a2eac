//! A foreign A2A agent in the mesh: it joins by its card, bids, streams, asks, is cancelled and survives restarts.

use super::remote_access::{outward, team_beyond};
use crate::harness::{
    Agent, Process, artifact, call, client,
    cluster::Cluster,
    directory, eventually, file,
    foreign::{ForeignAgent, ForeignBehavior, skill},
    mesh, message, read_answer, state, stream,
};
use protocol::task::EXTENSION;
use reqwest::Method;
use serde_json::{Value, json};

pub(super) const STREAMING: &str = r#"{ "capabilities": { "streaming": true } }"#;

fn forecast() -> Value {
    skill("get_forecast", "Weather forecast", &["weather"], &["Will it rain?"])
}

pub(super) async fn weather(more: &str, play: ForeignBehavior) -> ForeignAgent {
    ForeignAgent::start("WeatherBot", forecast(), serde_json::from_str(more).unwrap(), play).await
}

/// A team with the foreign agent and an agent that lacks its skill.
pub(super) fn team(foreign: &ForeignAgent, how: &str) -> String {
    format!(
        "
mesh: {{ outside: {{ allow: [127.0.0.0/8] }} }}
agents:
  - {{ agent: desk-01, skills: [desk], brain: {{ echo: {{}} }} }}
  - agent: weather-bot
    brain: {{ a2a: {{ card: '{}'{how} }} }}
    bid: {{ cost: 0.02, maxParallel: 4 }}
",
        foreign.url
    )
}

pub(super) async fn up(foreign: &ForeignAgent, how: &str) -> (Process, Agent) {
    let mesh = Process::up(&team(foreign, how)).await;
    let desk = mesh.agent("desk-01");
    (mesh, desk)
}

pub(super) fn forecast_of(text: &str) -> Value {
    json!({ "description": text, "capability": "get_forecast" })
}

#[actix::test]
async fn a_foreign_agent_wins_a_contract_net_and_streams() {
    let foreign = weather(STREAMING, ForeignBehavior::Streams(&["sunny ", "and ", "warm"], None)).await;
    let (_mesh, desk) = up(&foreign, "").await;
    let id = desk.send(forecast_of("Tomorrow in Bern")).await;
    let events = stream(&format!("{}/a2a/tasks/{id}/events", desk.url), None).await;
    let task = desk.task_in(&id, &["completed"]).await;
    assert_eq!(artifact(&task, "result").as_deref(), Some("sunny and warm"));
    let candidate = desk.award(&id).await["rounds"][0]["candidates"][0].clone();
    assert_eq!((&candidate["agent"], &candidate["fate"]), (&json!("weather-bot"), &json!("completed")));
    assert!(events.iter().any(|(_, event)| event.to_string().contains("listening")), "{events:?}");

    let sent = foreign.received("SendStreamingMessage");
    assert_eq!(sent.len(), 1);
    let said = &sent[0].params["message"];
    assert_eq!(said["parts"][0]["text"], "Tomorrow in Bern");
    assert_eq!(said["role"], "ROLE_USER");
    assert_eq!(sent[0].headers["a2a-version"], "1.0");
    assert_eq!(sent[0].headers["accept"], "text/event-stream");
    assert!(sent[0].headers.contains_key("traceparent"), "{:?}", sent[0].headers);
    assert!(!sent[0].headers.contains_key("signature"), "the mesh's own proof stays in the mesh");
}

#[actix::test]
async fn a_broken_stream_is_resumed_without_a_gap_or_a_repeat() {
    let foreign = weather(STREAMING, ForeignBehavior::Streams(&["one ", "two ", "three"], Some(2))).await;
    let (_mesh, desk) = up(&foreign, "").await;
    let task = desk.ask(forecast_of("count")).await;
    assert_eq!(artifact(&task, "result").as_deref(), Some("one two three"));
    assert_eq!(foreign.received("SendStreamingMessage").len(), 1);
    assert_eq!(foreign.received("SubscribeToTask").len(), 1);
}

#[actix::test]
async fn a_question_goes_to_the_owner_and_the_answer_to_the_foreign_task() {
    for how in ["", ", mode: sync"] {
        let foreign = weather(STREAMING, ForeignBehavior::Asks("Which town?")).await;
        let (_mesh, desk) = up(&foreign, how).await;
        let id = desk.send(forecast_of("Will it rain?")).await;
        let task = desk.task_in(&id, &["input_required"]).await;
        assert_eq!(message(&task), "Which town?");
        let answer = json!({ "text": "Bern" });
        assert_eq!(
            call(Method::POST, &format!("{}/a2a/tasks/{id}/answer", desk.url), Some(&answer)).await.status,
            200
        );
        let task = desk.task_in(&id, &["completed", "failed"]).await;
        assert_eq!(artifact(&task, "result").as_deref(), Some("so it is Bern"), "{how}: {task:#}");
        let sent = [foreign.received("SendMessage"), foreign.received("SendStreamingMessage")].concat();
        assert_eq!(sent[1].params["message"]["taskId"], "foreign-1", "{how}");
    }
}

#[actix::test]
async fn a_cancel_reaches_the_foreign_task() {
    for eta in ["", ", eta: 1s"] {
        a_cancel_reaches_the_foreign_task_of(eta).await;
    }
}

/// The task of an agent that is expected to take that long, and takes for ever.
async fn a_cancel_reaches_the_foreign_task_of(eta: &str) {
    let foreign = weather(STREAMING, ForeignBehavior::Never).await;
    let team = team(&foreign, "").replace("maxParallel: 4", &format!("maxParallel: 4{eta}"));
    let mesh = Process::up(&team).await;
    let desk = mesh.agent("desk-01");
    let id = desk.send(forecast_of("for ever")).await;
    eventually("the foreign task", async || {
        (!foreign.received("SendStreamingMessage").is_empty()).then_some(())
    })
    .await;
    desk.task_in(&id, &["working"]).await;
    eventually("its name to be known", async || {
        desk.task(&id).await.to_string().contains("busy over there").then_some(())
    })
    .await;
    let cancelled = call(
        Method::POST,
        &format!("{}/a2a/tasks/{id}/cancel", desk.url),
        Some(&json!({ "reason": "enough" })),
    )
    .await;
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    let heard = eventually("the cancel", async || foreign.received("CancelTask").first().cloned()).await;
    assert_eq!(heard.params["id"], "foreign-1");
    assert_eq!(state(&desk.task(&id).await), "canceled");
}

async fn cancel(desk: &Agent, id: &str) {
    let because = json!({ "reason": "enough" });
    let cancelled = desk.call_on_task(Method::POST, id, "/cancel", Some(&because)).await;
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
}

#[actix::test]
async fn a_cancel_reaches_a_waiting_foreign_task_after_a_restart() {
    for restarts in [false, true] {
        let foreign = weather(STREAMING, ForeignBehavior::Asks("Which town?")).await;
        let (mut mesh, mut desk) = up(&foreign, "").await;
        let bid_for = forecast_of("Will it rain?");
        let planned = json!({
            "description": "Will it rain? The weather forecast, please.", "capability": "session",
            "input": { "preset": "foreign", "discovery": { "cards": [foreign.url] } },
        });
        for (at, task) in [bid_for, planned].into_iter().enumerate() {
            let id = desk.send(task).await;
            desk.task_in(&id, &["input_required"]).await;
            if restarts {
                mesh = mesh.restart().await;
                desk = mesh.agent("desk-01");
            }
            cancel(&desk, &id).await;
            let heard =
                eventually("the cancel", async || foreign.received("CancelTask").get(at).cloned()).await;
            let begun = foreign.received("SendStreamingMessage").len();
            assert_eq!(begun, at + 1);
            assert!(heard.params["id"].as_str().unwrap().starts_with("foreign-"), "{:?}", heard.params);
        }
        let ended = foreign.received("CancelTask");
        assert_ne!(ended[0].params["id"], ended[1].params["id"], "each task is ended once");
    }
}

#[actix::test]
async fn a_cancel_reaches_an_answered_foreign_task() {
    let foreign = weather(STREAMING, ForeignBehavior::Asks("Which town?")).await;
    let (_mesh, desk) = up(&foreign, "").await;
    let id = desk.send(forecast_of("Will it rain?")).await;
    desk.task_in(&id, &["input_required"]).await;
    foreign.set_behavior(ForeignBehavior::Never);
    let answer = json!({ "text": "Bern" });
    call(Method::POST, &format!("{}/a2a/tasks/{id}/answer", desk.url), Some(&answer)).await;
    eventually("the answer", async || {
        desk.task(&id).await.to_string().contains("busy over there").then_some(())
    })
    .await;
    cancel(&desk, &id).await;
    let heard = eventually("the cancel", async || foreign.received("CancelTask").first().cloned()).await;
    assert_eq!(heard.params["id"], "foreign-1");
}

#[actix::test]
async fn after_a_kill_the_same_foreign_task_continues() {
    for (more, how) in [(STREAMING, ""), ("{}", ", bounds: { pollMs: 30 }")] {
        let foreign = weather(more, ForeignBehavior::Never).await;
        let (mesh, desk) = up(&foreign, how).await;
        let id = desk.send(forecast_of("slowly")).await;
        eventually("its name to be known", async || {
            desk.task(&id).await.to_string().contains("busy over there").then_some(())
        })
        .await;
        // A resumed stream repeats the same behavior, so it must change first.
        if more == STREAMING {
            foreign.set_behavior(ForeignBehavior::Answers("done at last"));
        }
        let mesh = mesh.restart().await;
        foreign.set_behavior(ForeignBehavior::Answers("done at last"));
        let task = mesh.agent("desk-01").task_in(&id, &["completed", "failed"]).await;
        assert_eq!(artifact(&task, "result").as_deref(), Some("done at last"), "{task:#}");
        let sent = foreign.received("SendMessage").len() + foreign.received("SendStreamingMessage").len();
        assert_eq!(sent, 1, "{how}");
    }
}

#[actix::test]
async fn a_foreign_agent_that_calls_back_is_not_polled() {
    let foreign =
        weather(r#"{ "capabilities": { "pushNotifications": true } }"#, ForeignBehavior::CallsBack("rain"))
            .await;
    let (mesh, desk) = up(&foreign, ", mode: webhook").await;
    let task = desk.ask(forecast_of("Bern")).await;
    assert_eq!(artifact(&task, "result").as_deref(), Some("rain"));
    assert_eq!(foreign.received("GetTask").len(), 0, "it was not polled");
    let push =
        foreign.received("SendMessage")[0].params["configuration"]["taskPushNotificationConfig"].clone();
    // The callback address ends with the task, and needs the token.
    let news = json!({ "task": { "id": "x", "status": { "state": "TASK_STATE_COMPLETED" } } });
    let late = call(Method::POST, push["url"].as_str().unwrap(), Some(&news)).await;
    assert_eq!(late.status, 404, "{late:?}");
    drop(mesh);
}

#[actix::test]
async fn a_task_with_a_lost_callback_is_polled() {
    let foreign =
        weather(r#"{ "capabilities": { "pushNotifications": true } }"#, ForeignBehavior::Works(1, "done"))
            .await;
    let how = ", mode: webhook, bounds: { pollMs: 20, polls: 100000 }";
    let (_mesh, desk) = up(&foreign, how).await;
    let task = desk.ask(forecast_of("Bern")).await;
    assert_eq!(artifact(&task, "result").as_deref(), Some("done"), "{task:#}");
    assert_eq!((foreign.received("SendMessage").len(), foreign.received("GetTask").len()), (1, 1));
}

#[actix::test]
async fn a_callback_from_another_machine_needs_only_its_token() {
    let Some(own) = outward() else { return eprintln!("this machine has no address but loopback") };
    let foreign =
        weather(r#"{ "capabilities": { "pushNotifications": true } }"#, ForeignBehavior::CallsBack("rain"))
            .await;
    let cluster = Cluster::start().await;
    // A call to the external address of this machine has no credential; so has the foreign agent.
    let more = ["--advertise", &own, "--local-callers", "192.0.2.7"];
    let team = team(&foreign, ", mode: webhook");
    let (_node, endpoint) = team_beyond(&cluster, ("desk-01", &team), &more).await;
    cluster.wait_for_agents(&["weather-bot"]).await;
    let desk = Agent::at("desk-01", &endpoint.replace(&own, "127.0.0.1"));
    let task = desk.ask(forecast_of("Bern")).await;
    assert_eq!(artifact(&task, "result").as_deref(), Some("rain"), "{task:#}");
    assert_eq!(foreign.received("GetTask").len(), 0, "it was not polled");
    let push =
        foreign.received("SendMessage")[0].params["configuration"]["taskPushNotificationConfig"].clone();
    let place = push["url"].as_str().unwrap();
    assert!(place.starts_with(&format!("http://{own}:")), "{place}");
    for (method, path, status) in [
        (Method::POST, place.to_owned(), 404),
        (Method::GET, place.to_owned(), 401),
        (Method::POST, format!("{place}/more"), 401),
        (Method::POST, format!("{endpoint}/a2a/tasks/x/cancel"), 401),
    ] {
        let news = json!({ "task": { "id": "x", "status": { "state": "TASK_STATE_COMPLETED" } } });
        let answer = call(method, &path, Some(&news)).await;
        assert_eq!(answer.status, status, "{path}: {answer:?}");
    }
}

#[actix::test]
async fn a_credential_is_sent_only_to_its_host() {
    let guarded = r#"{
        "securitySchemes": { "key": { "apiKeySecurityScheme": { "location": "header", "name": "x-key" } } },
        "securityRequirements": [{ "schemes": { "key": { "list": [] } } }]
    }"#;
    let foreign = weather(guarded, ForeignBehavior::Answers("fine")).await;
    let (mesh, desk) = up(&foreign, "").await;
    let task = desk.ask(forecast_of("Bern")).await;
    assert_eq!(state(&task), "failed");
    assert!(message(&task).contains("no credential for its key"), "{}", message(&task));
    assert_eq!(foreign.calls(), 0, "nothing was sent without a credential");
    drop(mesh);

    let (mesh, desk) = up(&foreign, ", credentials: { key: s3cret-w0rd }").await;
    let task = desk.ask(forecast_of("Bern")).await;
    assert_eq!(artifact(&task, "result").as_deref(), Some("fine"), "{task:#}");
    assert_eq!(foreign.received("SendMessage")[0].headers["x-key"], "s3cret-w0rd");
    assert!(!mesh.log().contains("s3cret"), "{}", mesh.log());
    assert!(!task.to_string().contains("s3cret"));
}

/// Runs `mesh up` in a thread, so that the foreign agent can answer meanwhile; returns exit code and output.
async fn starts(data: &str, team: &std::path::Path) -> (i32, String, String) {
    let args = ["up", "--port", "0", "--data", data, &team.to_string_lossy()].map(str::to_owned);
    let run = move || mesh(&args.each_ref().map(String::as_str), &[]);
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[actix::test]
async fn an_unusable_card_is_refused_with_reasons_and_a_stored_card_bridges_an_outage() {
    let dir = directory();
    let odd = weather(r#"{ "supportedInterfaces": [{ "url": "x:1", "protocolBinding": "urn:x:smoke", "protocolVersion": "1.0" }]}"#, ForeignBehavior::Never).await;
    let path = file(dir.path(), "odd.yaml", &team(&odd, ""));
    let data = dir.path().join("data").to_string_lossy().into_owned();
    let (code, _, said) = starts(&data, &path).await;
    assert_ne!(code, 0);
    assert!(said.contains("no interface can be used: urn:x:smoke at \"x:1\""), "{said}");

    let away = file(dir.path(), "away.yaml", "agent: gone\nbrain: { a2a: { card: 'http://127.0.0.1:9' } }\n");
    let (code, _, said) = starts(&data, &away).await;
    assert_ne!(code, 0);
    assert!(said.contains("is loopback") && said.contains("outside: { allow:"), "{said}");

    let foreign = weather("{}", ForeignBehavior::Answers("fine")).await;
    let (mesh, _) = up(&foreign, ", bounds: { attempts: 2 }").await;
    // Its card becomes one of another version: that does not keep this node from starting.
    foreign.set_card(json!({ "supportedInterfaces": [] }));
    let mesh = mesh.restart().await;
    assert_eq!(state(&mesh.agent("desk-01").ask(forecast_of("Bern")).await), "completed");
    assert!(mesh.log().contains("the cached card is used"), "{}", mesh.log());
    drop(foreign);
    let mesh = mesh.restart().await;
    let task = mesh.agent("desk-01").ask(forecast_of("Bern")).await;
    assert_eq!(state(&task), "failed", "it is known, and away: {task:#}");
}

#[actix::test]
async fn a_card_with_a_bad_signature_or_an_unsupported_mode_is_refused() {
    let dir = directory();
    let data = dir.path().join("data").to_string_lossy().into_owned();
    for (more, how, why) in [
        (r#"{ "forged": true }"#, "", "did not sign this card as it is"),
        ("{}", ", mode: streaming", "its card does not say capabilities.streaming"),
        (
            r#"{ "supportedInterfaces": [
                { "url": "http://169.254.1.1/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" },
                { "url": "https://agent.example/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.1" }
            ]}"#,
            "",
            "169.254.1.1 is link-local",
        ),
    ] {
        let foreign = weather(more, ForeignBehavior::Never).await;
        let path = file(dir.path(), "team.yaml", &team(&foreign, how));
        let (code, _, said) = starts(&data, &path).await;
        assert_ne!(code, 0, "{more}");
        assert!(said.contains(why), "{more}: {said}");
    }
    let forged = weather(r#"{ "forged": true }"#, ForeignBehavior::Answers("trust me")).await;
    let mesh = Process::up(
        "{ mesh: { outside: { allow: [127.0.0.0/8] } }, agents: [{ agent: desk-01, skills: [desk], brain: { echo: {} } }] }",
    )
    .await;
    let planned = json!({
        "description": "Will it rain? The weather forecast, please.", "capability": "session",
        "input": { "preset": "foreign", "discovery": { "cards": [forged.url] } },
    });
    let task = mesh.agent("desk-01").ask(planned).await;
    assert!(task.to_string().contains("did not sign this card as it is"), "{task:#}");
    assert_eq!(forged.calls(), 0);

    let host = forged.url.strip_prefix("http://").unwrap();
    let of_host = json!({
        "description": "Will it rain?", "capability": "session",
        "input": { "preset": "foreign", "discovery": { "hosts": [host] } },
    });
    let task = mesh.agent("desk-01").ask(of_host).await;
    let hint = format!("https was tried; for an agent without TLS write http://{host}");
    assert!(task.to_string().contains(&hint), "{task:#}");
}

#[actix::test]
async fn the_skills_of_a_foreign_card_are_registered_within_the_limits() {
    let long = "ä".repeat(5_000);
    let skills = json!([{ "id": "get_forecast", "name": "Weather forecast", "description": long,
        "tags": vec!["weather"; 100], "examples": ["Will it rain?"] }]);
    let card = json!({ "description": long, "skills": skills }).to_string();
    let foreign = weather(&card, ForeignBehavior::Answers("it won't")).await;
    let (mesh, desk) = up(&foreign, "").await;
    let entry = mesh.entry_where("weather-bot", |_| true).await;
    assert_eq!(entry["card"]["description"].as_str().map(str::len), Some(4_096));
    let bot = mesh.agent("weather-bot");
    let card = call(Method::GET, &format!("{}/.well-known/agent-card.json", bot.url), None).await;
    let skill = &card.body["skills"][0];
    assert_eq!((&skill["name"], &skill["examples"]), (&json!("Weather forecast"), &json!(["Will it rain?"])));
    // The example of the skill matches the request.
    let planned =
        json!({ "description": "Will it rain?", "capability": "session", "input": { "preset": "foreign" } });
    let task = desk.ask(planned).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    assert!(message(&task).contains("it won't"), "{task:#}");
}

#[actix::test]
async fn a_foreign_card_is_cached_as_its_host_says() {
    for (card, looks) in [("{}", (1, 0)), (r#"{ "noCache": true }"#, (1, 2))] {
        let foreign = weather(card, ForeignBehavior::Answers("fine")).await;
        let (_mesh, desk) = up(&foreign, "").await;
        for _ in 0..2 {
            let task = desk.ask(forecast_of("Bern")).await;
            assert_eq!(artifact(&task, "result").as_deref(), Some("fine"), "{task:#}");
        }
        assert_eq!(foreign.card_requests(), looks, "as a whole, and whether it is the same: {card}");
    }
}

#[actix::test]
async fn the_media_types_are_those_of_the_foreign_card() {
    let foreign = weather("{}", ForeignBehavior::Answers("fine")).await;
    let (mesh, _) = up(&foreign, "").await;
    let bot = mesh.agent("weather-bot");
    let card = call(Method::GET, &format!("{}/.well-known/agent-card.json", bot.url), None).await;
    assert_eq!(card.body["defaultInputModes"], json!(["text/plain"]), "{card:?}");
    assert_eq!(card.body["defaultOutputModes"], json!(["application/json", "text/plain"]));
}

#[actix::test]
async fn mesh_join_adds_an_agent_by_its_card() {
    let foreign = weather("{}", ForeignBehavior::Answers("fine")).await;
    let mesh = Process::up("{ agent: desk-01, skills: [desk], brain: { echo: {} } }").await;
    let join = mesh.data.join("join").to_string_lossy().into_owned();
    let dir = directory();
    let args = [
        "join",
        &foreign.url,
        "--registry",
        &mesh.url,
        "--join",
        &join,
        "--port",
        "0",
        "--allow",
        "127.0.0.0/8",
        "--profile",
        "fast",
        "--cost",
        "0.5",
    ];
    let joined = Process::start(&dir.path().join("data"), &args).await;
    assert!(joined.agents.contains_key("weatherbot"), "{:?}", joined.agents);
    let entry = mesh.entry_where("weatherbot", |entry| entry["state"] == "alive").await;
    assert_eq!(entry["card"]["skills"][0]["id"], "get_forecast");
    let task = mesh.agent("desk-01").ask(forecast_of("Bern")).await;
    assert_eq!(artifact(&task, "result").as_deref(), Some("fine"));
}

#[actix::test]
async fn a_card_is_found_below_a_path_or_at_the_origin_and_the_error_names_all_that_was_tried() {
    let foreign = weather("{}", ForeignBehavior::Answers("fine")).await;
    for path in ["/serve/7", "/nowhere/"] {
        let card = format!("{}{path}", foreign.url);
        let team = format!(
            "mesh: {{ outside: {{ allow: [127.0.0.0/8] }} }}
agents: [{{ agent: weather-bot, open: true, brain: {{ a2a: {{ card: \"{card}\" }} }} }}]"
        );
        let node = Process::up(&team).await;
        let task = node.agent("weather-bot").ask(forecast_of("Bern")).await;
        assert_eq!(artifact(&task, "result").as_deref(), Some("fine"), "{path}: {task:#}");
    }
    let nothing = crate::harness::model_stub::ModelStub::start(|_| unreachable!());
    let url = nothing.url.clone();
    let joined = tokio::task::spawn_blocking(move || mesh(&["join", &url, "--allow", "127.0.0.0/8"], &[]));
    let (code, _, said) = joined.await.unwrap();
    let origin = nothing.url.trim_end_matches("/v1");
    let suffix = "/.well-known/agent-card.json";
    assert_eq!(code, 6, "{said}");
    for part in [
        format!("the card at {}", nothing.url),
        format!("{}{suffix} answered 404", nothing.url),
        format!("{origin}{suffix} answered 404"),
    ] {
        assert!(said.contains(&part), "{part}: {said}");
    }
}

#[actix::test]
async fn an_agent_cannot_join_under_the_name_of_a_service() {
    let foreign =
        ForeignAgent::start("Registry", forecast(), json!({}), ForeignBehavior::Answers("fine")).await;
    let join = move |more: &[&str]| {
        let args =
            [&["join", &foreign.url, "--allow", "127.0.0.0/8", "--registry", "http://127.0.0.1:9"], more]
                .concat();
        mesh(&args, &[])
    };
    let refused = move || [join(&[]), join(&["--as", "mesh"])];
    for (code, _, said) in tokio::task::spawn_blocking(refused).await.unwrap() {
        assert_eq!(code, 6, "{said}");
        assert!(said.contains("a service's name and no agent's; say --as AGENT"), "{said}");
    }
}

/// Sends a request in a context of the client's, and waits for its end.
pub(super) async fn ask_in(
    agent: &Agent,
    context: &str,
    text: &str,
    capability: &str,
    input: Value,
) -> Value {
    let extension = json!({ "capability": capability, "input": input });
    let message = json!({
        "messageId": format!("{context}-{text}"), "contextId": context, "role": "ROLE_USER", "parts": [{ "text": text }],
        "metadata": { EXTENSION: extension },
    });
    let url = format!("{}/a2a/v1/message:send?A2A-Version=1.0", agent.url);
    let request = client().post(url).bearer_auth(agent.token.as_ref().unwrap());
    let answer = read_answer(request.json(&json!({ "message": message })).send().await.unwrap()).await;
    let id = answer.body["task"]["id"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned();
    agent.task_in(&id, &["completed"]).await
}

/// The context of each message that the foreign agent was sent.
pub(super) fn contexts(foreign: &ForeignAgent) -> Vec<Value> {
    foreign.received("SendMessage").iter().map(|sent| sent.params["message"]["contextId"].clone()).collect()
}

#[actix::test]
async fn a_second_request_goes_on_in_the_context_of_the_foreign_agent() {
    let foreign = weather("{}", ForeignBehavior::Answers("sunny")).await;
    let (mut mesh, _) = up(&foreign, "").await;
    // The agent itself, and one that awards the task to it.
    for agent in ["weather-bot", "desk-01"] {
        let known = contexts(&foreign).len();
        let ask = async |mesh: &Process, context: &str, text: &str| {
            ask_in(&mesh.agent(agent), &format!("{agent}-{context}"), text, "get_forecast", Value::Null).await
        };
        ask(&mesh, "trip", "Bern").await;
        mesh = mesh.restart().await;
        ask(&mesh, "trip", "and on Sunday?").await;
        ask(&mesh, "other", "Rome").await;
        let there = contexts(&foreign).split_off(known);
        assert_eq!(there[0], Value::Null, "{there:?}");
        assert_eq!(there[1], json!(format!("context-foreign-{}", known + 1)), "{there:?}");
        assert_eq!(there[2], Value::Null, "another context of ours: {there:?}");
    }
}

#[actix::test]
async fn a_context_that_the_foreign_agent_has_forgotten_is_left() {
    let foreign = weather("{}", ForeignBehavior::Answers("sunny")).await;
    let (mesh, _) = up(&foreign, "").await;
    let bot = mesh.agent("weather-bot");
    ask_in(&bot, "trip", "Bern", "get_forecast", Value::Null).await;
    foreign.refuse_contexts();
    let second = ask_in(&bot, "trip", "and on Sunday?", "get_forecast", Value::Null).await;
    assert_eq!(artifact(&second, "result").as_deref(), Some("sunny"));
    let there = contexts(&foreign);
    assert_eq!(there, [Value::Null, json!("context-foreign-1"), Value::Null]);
}

#[actix::test]
async fn how_long_a_task_takes_decides_how_it_is_followed() {
    let foreign = weather("{}", ForeignBehavior::Answers("sunny")).await;
    // Whether each message waits for the end of its task.
    let waits = || -> Vec<bool> {
        let sent = foreign.received("SendMessage");
        sent.iter().map(|call| call.params["configuration"]["returnImmediately"] != true).collect()
    };
    let (mesh, desk) = up(&foreign, "").await;
    desk.ask(forecast_of("nobody knows how long the first takes")).await;
    desk.ask(forecast_of("the second is answered at once")).await;
    assert_eq!(waits(), [false, true]);
    drop(mesh);
    let long = team(&foreign, "").replace("maxParallel: 4", "eta: 2m");
    let mesh = Process::up(&long).await;
    let desk = mesh.agent("desk-01");
    desk.ask(forecast_of("x")).await;
    desk.ask(forecast_of("y")).await;
    assert_eq!(waits(), [false, true, false, false]);
}
