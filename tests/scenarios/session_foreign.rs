//! Sessions with seats of A2A agents that are not of the mesh.

use crate::harness::{
    Agent, Process, artifact, eventually,
    foreign::{ForeignAgent, ForeignBehavior, skill},
    message, state,
};
use reqwest::Method;
use serde_json::{Value, json};

async fn weather(more: &str, behavior: ForeignBehavior) -> ForeignAgent {
    let skill = skill("get_forecast", "The forecast for a place and a day", &["weather"], &[]);
    ForeignAgent::start("WeatherBot", skill, serde_json::from_str(more).unwrap(), behavior).await
}

/// A node with one agent, which does one task at a time.
async fn desk() -> (Process, Agent) {
    let mesh = Process::up_beside(
        "
mesh: { outside: { allow: [127.0.0.0/8] } }
agents: [{ agent: desk-01, skills: [desk], brain: { scripted: desk.yaml } }]
",
        &[("desk.yaml", "turns: [{ end: { done: \"the desk, says it (twice)\" } }]")],
    )
    .await;
    let desk = mesh.agent("desk-01");
    (mesh, desk)
}

fn seat(of: &ForeignAgent, more: Value) -> Value {
    let bounds = json!({ "pollMs": 10, "polls": 100000, "attempts": 2 });
    crate::harness::with(json!({ "card": of.url, "name": "sky", "bounds": bounds }), more)
}

fn session(stages: Value) -> Value {
    json!({ "description": "plan a picnic", "capability": "session", "input": { "stages": stages } })
}

async fn view(mesh: &Process, desk: &Agent, id: &str) -> Value {
    let url = format!("{}/a2a/tasks/{id}/session", desk.url);
    mesh.call_as_person(Method::GET, &url, None).await.body["session"].clone()
}

fn sent(foreign: &ForeignAgent) -> Vec<Value> {
    let all = ["SendMessage", "SendStreamingMessage"].map(|method| foreign.received(method));
    all.into_iter().flatten().map(|call| call.params["message"].clone()).collect()
}

#[actix::test]
async fn a_foreign_seat_hears_the_others_and_is_done_after_its_first_answer() {
    let foreign = weather("{}", ForeignBehavior::Answers("clear, 22 C")).await;
    let (mesh, desk) = desk().await;
    let task = "Is https://a.b/c?d=(e, f) right? Say so, and (please) why.";
    let id = desk
        .send(session(json!([
            { "id": "table", "order": "turns", "seats": ["desk-01", seat(&foreign, json!({ "task": task, "skill": "get_forecast" }))] },
            { "id": "end", "after": ["table"], "seats": ["desk-01"] },
        ])))
        .await;
    let done = desk.task_in(&id, &["completed", "failed"]).await;
    assert_eq!(state(&done), "completed", "{done:#}");
    let [message] = &sent(&foreign)[..] else { panic!("asked once: {:#?}", sent(&foreign)) };
    assert_eq!(
        message["parts"],
        json!([{ "text": task }, { "text": "the desk, says it (twice)", "mediaType": "text/plain" }]),
        "the task of the seat and what was said, and nothing of the session"
    );
    assert_eq!(message["metadata"]["urn:agent-mesh:ext:task:v1"]["capability"], "get_forecast");
    assert_eq!(artifact(&done, "table.1.sky.1.result").as_deref(), Some("clear, 22 C"), "{done:#}");
    let view = view(&mesh, &desk, &id).await;
    assert_eq!(view["stages"][0]["round"], 1, "{view:#}");
    assert_eq!(view["stages"][0]["seats"][1]["who"]["card"], foreign.url);
}

#[actix::test]
async fn foreign_seats_work_at_the_same_time_in_each_mode() {
    let both = r#"{ "capabilities": { "streaming": true, "pushNotifications": true } }"#;
    let modes = ["sync", "polling", "streaming", "webhook"];
    let (_mesh, desk) = desk().await;
    let mut agents = Vec::new();
    for mode in modes {
        let behavior = match mode {
            "webhook" => ForeignBehavior::CallsBack("clear"),
            "streaming" => ForeignBehavior::Streams(&["cle", "ar"], None),
            _ => ForeignBehavior::Never,
        };
        agents.push(weather(both, behavior).await);
    }
    let seats = agents.iter().zip(modes);
    let seats: Vec<_> =
        seats.map(|(agent, mode)| seat(agent, json!({ "name": mode, "mode": mode }))).collect();
    let id = desk.send(session(json!([{ "id": "ask", "seats": seats }]))).await;
    eventually("all of them to be asked", async || {
        agents.iter().all(|agent| !sent(agent).is_empty()).then_some(())
    })
    .await;
    agents.iter().take(2).for_each(|agent| agent.set_behavior(ForeignBehavior::Answers("clear")));
    let done = desk.task_in(&id, &["completed", "failed"]).await;
    assert_eq!(state(&done), "completed", "{done:#}");
    let parts = done["artifacts"].as_array().unwrap().iter().filter(|artifact| artifact["name"] == "result");
    let text = |artifact: &Value| {
        let parts = artifact["parts"].as_array().unwrap().iter();
        parts.map(|part| part["text"].as_str().unwrap()).collect::<String>()
    };
    assert_eq!(parts.map(text).collect::<Vec<_>>(), ["clear"; 4], "{done:#}");
}

#[actix::test]
async fn a_question_of_a_foreign_seat_goes_to_the_person_and_the_answer_to_its_task() {
    let foreign = weather("{}", ForeignBehavior::Asks("Which town?")).await;
    let (mesh, desk) = desk().await;
    let id = desk.send(session(json!([{ "id": "ask", "seats": [seat(&foreign, json!({}))] }]))).await;
    let asking = desk.task_in(&id, &["input_required"]).await;
    assert_eq!(message(&asking), "sky in stage ask asks: Which town?");
    let mesh = mesh.restart().await;
    let desk = mesh.agent("desk-01");
    let answer = desk.call_on_task(Method::POST, &id, "/answer", Some(&json!({ "text": "Bern" }))).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let done = desk.task_in(&id, &["completed", "failed"]).await;
    assert_eq!(artifact(&done, "ask.1.sky.1.result").as_deref(), Some("so it is Bern"), "{done:#}");
    let sent = sent(&foreign);
    assert_eq!((sent.len(), &sent[1]["taskId"]), (2, &json!("foreign-1")), "{sent:#?}");
}

#[actix::test]
async fn after_a_kill_of_the_host_the_same_foreign_task_goes_on() {
    let foreign = weather("{}", ForeignBehavior::Never).await;
    let (mesh, desk) = desk().await;
    let id = desk.send(session(json!([{ "id": "ask", "seats": [seat(&foreign, json!({}))] }]))).await;
    eventually("its task to be looked at", async || (foreign.received("GetTask").len() > 2).then_some(()))
        .await;
    let mesh = mesh.restart().await;
    foreign.set_behavior(ForeignBehavior::Answers("clear"));
    let done = mesh.agent("desk-01").task_in(&id, &["completed", "failed"]).await;
    assert_eq!(artifact(&done, "ask.1.sky.1.result").as_deref(), Some("clear"), "{done:#}");
    assert_eq!(sent(&foreign).len(), 1, "nothing is sent twice");
}

#[actix::test]
async fn what_a_foreign_seat_lacks_fails_that_seat_only() {
    const GUARDED: &str = r#"{
        "securitySchemes": { "key": { "apiKeySecurityScheme": { "location": "header", "name": "x-key" } } },
        "securityRequirements": [{ "schemes": { "key": { "list": [] } } }]
    }"#;
    let guarded = weather(GUARDED, ForeignBehavior::Answers("clear")).await;
    let fails = weather("{}", ForeignBehavior::Fails("no satellite")).await;
    let good = weather("{}", ForeignBehavior::Answers("rain")).await;
    let (mesh, desk) = desk().await;
    let seats = json!([
        seat(&guarded, json!({ "name": "guarded" })),
        seat(&fails, json!({ "name": "fails" })),
        seat(&good, json!({ "name": "unknown", "skill": "paint" })),
        seat(&good, json!({ "name": "away", "card": "http://127.0.0.1:9" })),
        seat(&good, json!({ "name": "blocked", "card": "http://169.254.1.1" })),
        seat(&good, json!({ "name": "good" })),
    ]);
    let id = desk.send(session(json!([{ "id": "ask", "needs": "settled", "seats": seats }]))).await;
    let done = desk.task_in(&id, &["completed", "failed"]).await;
    assert_eq!(state(&done), "completed", "{done:#}");
    let view = view(&mesh, &desk, &id).await;
    assert_eq!(view["stages"][0]["partial"], true, "{view:#}");
    let of = |name: &str| {
        let mut seats = view["stages"][0]["seats"].as_array().unwrap().iter();
        seats.find(|seat| seat["seat"] == name).unwrap().clone()
    };
    for (name, why) in [
        ("guarded", "no credential for its key"),
        ("fails", "no satellite"),
        ("unknown", "its card has no skill \"paint\"; it has get_forecast"),
        ("away", "its card at http://127.0.0.1:9"),
        ("blocked", "169.254.1.1 is link-local"),
    ] {
        assert!(of(name)["why"].as_str().unwrap_or_default().contains(why), "{:#}", of(name));
        assert_eq!(of(name)["turns"], 1, "a foreign agent is not asked again");
    }
    assert_eq!(of("good")["state"], "done");
    assert_eq!(guarded.calls(), 0);
}

#[actix::test]
async fn a_cancel_of_the_session_reaches_the_foreign_task() {
    let foreign = weather("{}", ForeignBehavior::Never).await;
    let (_mesh, desk) = desk().await;
    let id = desk.send(session(json!([{ "id": "ask", "seats": [seat(&foreign, json!({}))] }]))).await;
    eventually("its task", async || foreign.received("GetTask").first().cloned()).await;
    let answer = desk.call_on_task(Method::POST, &id, "/cancel", Some(&json!({}))).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let ended = eventually("the cancel", async || foreign.received("CancelTask").first().cloned()).await;
    assert_eq!(ended.params["id"], "foreign-1");
}

#[actix::test]
async fn only_a_host_gives_itself_the_work_of_a_session() {
    let foreign = weather("{}", ForeignBehavior::Answers("clear")).await;
    let (_mesh, desk) = desk().await;
    let task = desk
        .ask(json!({ "description": "x", "capability": "session.work", "input": { "work": { "call": { "card": foreign.url } } } }))
        .await;
    assert_eq!(state(&task), "failed", "{task:#}");
    assert_eq!((foreign.calls(), foreign.card_requests()), (0, (0, 0)));
}
