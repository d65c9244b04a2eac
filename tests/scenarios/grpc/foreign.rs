//! A foreign agent that speaks only gRPC: an agent of ours behind a card, served by the test, that names its gRPC port alone.

use super::*;
use crate::harness::{
    Agent, artifact, call,
    foreign::{ForeignAgent, ForeignBehavior, skill},
    message as said_of,
    ports::reserved_port,
    state as state_of,
};
use reqwest::Method;

/// An agent behind a card that names only its gRPC port.
struct GrpcOnlyAgent {
    agent: Process,
    card: ForeignAgent,
}

/// `mesh up` with an agent that can do what its card says, in a team and with a script like these.
pub(super) async fn able(team: &str, script: &str) -> Process {
    let team = team.replace("skills: [front]", "skills: [get_forecast]");
    Process::up_beside(&team, &[("script.yaml", script)]).await
}

/// The members of a card that names only the gRPC interface at `url`, which takes an API key.
pub(super) fn grpc_card(url: &str) -> Value {
    let interface =
        json!({ "url": url, "protocolBinding": "GRPC", "protocolVersion": "1.0", "tenant": "front-01" });
    json!({
        "supportedInterfaces": [interface],
        "capabilities": { "streaming": true },
        "securitySchemes": { "key": { "apiKeySecurityScheme": { "location": "header", "name": "x-api-key" } } },
        "securityRequirements": [{ "schemes": { "key": { "list": [] } } }],
    })
}

async fn abroad(agent: Process) -> GrpcOnlyAgent {
    let members = grpc_card(&port(&agent));
    let skill = skill("get_forecast", "Weather forecast", &["weather"], &["Will it rain?"]);
    GrpcOnlyAgent {
        agent,
        card: ForeignAgent::start("WeatherBot", skill, members, ForeignBehavior::Never).await,
    }
}

/// A mesh with that agent, called as Alice, and one other.
async fn joined(abroad: &GrpcOnlyAgent, how: &str) -> (Process, Agent) {
    joined_with(abroad, &format!(", credentials: {{ key: alices-own-key-0001 }}{how}")).await
}

async fn joined_with(abroad: &GrpcOnlyAgent, how: &str) -> (Process, Agent) {
    let team = format!(
        "
mesh: {{ outside: {{ allow: [127.0.0.0/8] }} }}
agents:
  - {{ agent: desk-01, skills: [desk], brain: {{ echo: {{}} }} }}
  - {{ agent: weather-bot, brain: {{ a2a: {{ card: '{}'{how} }} }} }}
",
        abroad.card.url
    );
    let mesh = Process::up(&team).await;
    let desk = mesh.agent("desk-01");
    (mesh, desk)
}

pub(super) fn forecast_of(text: &str) -> Value {
    json!({ "description": text, "capability": "get_forecast" })
}

/// The tasks of that agent, newest first.
async fn theirs(abroad: &GrpcOnlyAgent) -> Vec<wire::Task> {
    stub(&abroad.agent)
        .list_tasks(as_alice(wire::ListTasksRequest::default()))
        .await
        .unwrap()
        .into_inner()
        .tasks
}

#[actix::test]
async fn a_grpc_agent_works_in_every_mode() {
    let abroad = abroad(able(TEAM, SCRIPT).await).await;
    for how in ["", ", mode: sync", ", mode: polling, bounds: { pollMs: 50 }"] {
        let (_mesh, desk) = joined(&abroad, how).await;
        let task = desk.ask(forecast_of("slowly")).await;
        assert_eq!((state_of(&task).as_str(), said_of(&task).as_str()), ("completed", "done"), "{how}");
        let task = desk.ask(forecast_of("Tomorrow in Bern")).await;
        assert_eq!(artifact(&task, "a.txt").as_deref(), Some("made"), "{how}: {task:#}");
        let done = theirs(&abroad).await;
        assert_eq!(text(&done[0].history[0].parts[0]), "Tomorrow in Bern", "{how}");
    }
    assert_eq!(abroad.card.calls(), 0, "it was never called over HTTP");
}

#[actix::test]
async fn a_question_over_grpc_goes_to_the_owner_and_a_cancel_arrives() {
    let abroad = abroad(able(TEAM, SCRIPT).await).await;
    let (_mesh, desk) = joined(&abroad, "").await;
    let id = desk.send(forecast_of("ask me")).await;
    let task = desk.task_in(&id, &["input_required"]).await;
    assert_eq!(said_of(&task), "which?");
    let url = |what: &str| format!("{}/a2a/tasks/{id}/{what}", desk.url);
    let answer = json!({ "text": "Bern" });
    assert_eq!(call(Method::POST, &url("answer"), Some(&answer)).await.status, 200);
    let answered = || async { theirs(&abroad).await.into_iter().find(|task| task.history.len() >= 3) };
    let asked_again = eventually("the answer", answered).await;
    assert_eq!(text(&asked_again.history[2].parts[0]), "Bern");
    desk.task_in(&id, &["input_required"]).await;
    assert_eq!(call(Method::POST, &url("cancel"), Some(&json!({ "reason": "enough" }))).await.status, 200);

    let id = desk.send(forecast_of("for ever")).await;
    let working =
        || async { theirs(&abroad).await.into_iter().find(|task| state(task) == wire::TaskState::Working) };
    let begun = eventually("its work", working).await;
    eventually("its name to be known", async || {
        desk.task(&id).await.to_string().contains("at it").then_some(())
    })
    .await;
    let cancel = format!("{}/a2a/tasks/{id}/cancel", desk.url);
    assert_eq!(call(Method::POST, &cancel, Some(&json!({ "reason": "enough" }))).await.status, 200);
    let over = || async {
        let mut stub = stub(&abroad.agent);
        let seen = stub.get_task(as_alice(get(&begun.id))).await.unwrap().into_inner();
        (state(&seen) == wire::TaskState::Canceled).then_some(())
    };
    eventually("the cancel", over).await;
}

#[actix::test]
async fn a_broken_grpc_stream_is_resumed() {
    let free = reserved_port();
    let team = TEAM.replace("grpcPort: 0", &format!("grpcPort: {free}"));
    let slow = "- { when: { contains: in two }, say: [{ type: artifact, name: a.txt, text: made }], holdMs: 2000, end: { done: done } }";
    let script = SCRIPT.replace("turns:\n", &format!("turns:\n  {slow}\n"));
    let mut abroad = abroad(able(&team, &script).await).await;
    let (_mesh, desk) = joined(&abroad, ", bounds: { attempts: 30 }").await;
    let id = desk.send(forecast_of("in two")).await;
    eventually("the first word", async || desk.task(&id).await["artifacts"].is_array().then_some(())).await;
    abroad.agent = abroad.agent.restart().await;
    let task = desk.task_in(&id, &["completed", "failed"]).await;
    assert_eq!(artifact(&task, "a.txt").as_deref(), Some("made"), "{task:#}");
    assert_eq!(theirs(&abroad).await.len(), 1, "it was begun once");
}

#[actix::test]
async fn a_grpc_agent_gets_its_credential() {
    let abroad = abroad(able(TEAM, SCRIPT).await).await;
    let (mesh, desk) = joined(&abroad, "").await;
    let task = desk.ask(forecast_of("Bern")).await;
    assert_eq!(artifact(&task, "a.txt").as_deref(), Some("made"), "{task:#}");
    assert_eq!(theirs(&abroad).await.len(), 1);
    let local = stub(&abroad.agent).list_tasks(asked(wire::ListTasksRequest::default())).await.unwrap();
    assert_eq!(local.into_inner().total_size, 0);
    drop(mesh);
    let (_mesh, desk) = joined_with(&abroad, ", credentials: { key: somebody-elses-key }").await;
    let task = desk.ask(forecast_of("Bern")).await;
    assert_eq!(state_of(&task), "failed");
    assert!(said_of(&task).contains("does not take our credentials"), "{}", said_of(&task));
}

#[actix::test]
async fn an_unreachable_grpc_agent_is_reported() {
    let mut abroad = abroad(able(TEAM, SCRIPT).await).await;
    let (_mesh, desk) = joined(&abroad, ", bounds: { attempts: 2 }").await;
    abroad.agent.kill();
    let task = desk.ask(forecast_of("Bern")).await;
    assert_eq!(state_of(&task), "failed");
    assert!(said_of(&task).contains("unreachable"), "{}", said_of(&task));
}
