//! A2A over gRPC on real sockets: the same tasks, callers and refusals as over HTTP.

use crate::harness::{Process, client, eventually};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use prost::Message as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tonic::{Code, Request, Response, Status, body::Body, metadata::AsciiMetadataKey};

mod floods;
mod foreign;
mod principals;
mod refusals;
mod streams;
mod tls;
mod wire;

use wire::{a2a_service_client::A2aServiceClient, part::Content};

const TEAM: &str = "
agents:
  - agent: front-01
    open: true
    skills: [front]
    brain: { scripted: script.yaml }
    bid: { maxParallel: 8 }
  - { agent: smith-01, open: true, skills: [forge], brain: { scripted: script.yaml }, bid: { maxParallel: 4 } }
mesh:
  grpcPort: 0
  outside: { allow: [127.0.0.0/8] }
  callers:
    - { user: alice, apiKey: alices-own-key-0001 }
    - { user: bob, bearer: bobs-own-token-0001 }
";

const SCRIPT: &str = "
turns:
  - { when: { messageId: last-word }, end: { done: so it is } }
  - { when: { contains: ask me }, say: [{ type: question, id: q, text: which? }] }
  - { when: { contains: for ever }, say: [{ type: status, message: at it }], holdMs: 60000, end: { done: done } }
  - { when: { contains: slowly }, say: [{ type: status, message: one }, { type: status, message: two }], delayMs: 300, end: { done: done } }
  - { say: [{ type: artifact, name: a.txt, text: made }], end: { done: done } }
";

type Stub = A2aServiceClient<Client<HttpConnector, Body>>;

async fn up() -> Process {
    Process::up_beside(TEAM, &[("script.yaml", SCRIPT)]).await
}

/// The gRPC address of the node.
fn port(mesh: &Process) -> String {
    let run: Value = serde_json::from_slice(&std::fs::read(mesh.data.join("run.json")).unwrap()).unwrap();
    run["grpc"].as_str().unwrap_or_else(|| panic!("no gRPC: {run}")).to_owned()
}

fn stub(mesh: &Process) -> Stub {
    let http = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let origin = format!("http://{}", port(mesh)).parse().unwrap();
    A2aServiceClient::with_origin(http, origin).max_decoding_message_size(64 << 20)
}

/// A request without metadata.
fn bare<T>(params: T) -> Request<T> {
    Request::new(params)
}

fn with<T>(params: T, metadata: &[(&'static str, &str)]) -> Request<T> {
    let mut request = bare(params);
    for (name, value) in metadata {
        let name = AsciiMetadataKey::from_static(name);
        request.metadata_mut().append(name, value.parse().unwrap());
    }
    request
}

fn asked<T>(params: T) -> Request<T> {
    with(params, &[("a2a-version", "1.0")])
}

fn as_alice<T>(params: T) -> Request<T> {
    with(params, &[("a2a-version", "1.0"), ("x-api-key", "alices-own-key-0001")])
}

fn said(text: &str) -> wire::Message {
    wire::Message {
        message_id: uuid::Uuid::now_v7().to_string(),
        role: wire::Role::User.into(),
        parts: vec![wire::Part { content: Some(Content::Text(text.to_owned())), ..Default::default() }],
        ..Default::default()
    }
}

fn send(text: &str) -> wire::SendMessageRequest {
    wire::SendMessageRequest { message: Some(said(text)), ..Default::default() }
}

/// The answer that completes `task`.
fn final_answer(task: &str) -> wire::SendMessageRequest {
    let (message_id, task_id) = ("last-word".to_owned(), task.to_owned());
    let message = wire::Message { message_id, task_id, ..said("the red one") };
    wire::SendMessageRequest { message: Some(message), ..Default::default() }
}

fn at_once(text: &str) -> wire::SendMessageRequest {
    let configuration = wire::SendMessageConfiguration { return_immediately: true, ..Default::default() };
    wire::SendMessageRequest { configuration: Some(configuration), ..send(text) }
}

fn task(response: Response<wire::SendMessageResponse>) -> wire::Task {
    match response.into_inner().payload {
        Some(wire::send_message_response::Payload::Task(task)) => task,
        other => panic!("no task: {other:?}"),
    }
}

fn state(task: &wire::Task) -> wire::TaskState {
    task.status.as_ref().unwrap().state()
}

fn text(part: &wire::Part) -> &str {
    match &part.content {
        Some(Content::Text(text)) => text,
        other => panic!("no text: {other:?}"),
    }
}

fn get(id: &str) -> wire::GetTaskRequest {
    wire::GetTaskRequest { id: id.to_owned(), ..Default::default() }
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, prost::Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Info {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
    #[prost(btree_map = "string, string", tag = "3")]
    metadata: BTreeMap<String, String>,
}

/// The code and the details of a refusal.
fn refusal<T: std::fmt::Debug>(answer: Result<Response<T>, Status>) -> (Code, Info, Vec<prost_types::Any>) {
    let status = answer.unwrap_err();
    let told = RpcStatus::decode(status.details()).unwrap();
    assert_eq!(told.code, i32::from(status.code()), "{status:?}");
    assert!(!status.message().is_empty());
    let (info, more) = told.details.split_first().unwrap_or_else(|| panic!("no details: {status:?}"));
    assert_eq!(info.type_url, "type.googleapis.com/google.rpc.ErrorInfo");
    let info = Info::decode(&*info.value).unwrap();
    assert_eq!(info.domain, "a2a-protocol.org");
    (status.code(), info, more.to_vec())
}

#[tokio::test]
async fn a_task_is_the_same_over_grpc_and_http() {
    let mesh = up().await;
    let mut stub = stub(&mesh);
    let done = task(stub.send_message(asked(send("make it"))).await.unwrap());
    assert_eq!(state(&done), wire::TaskState::Completed);
    assert_eq!(text(&done.artifacts[0].parts[0]), "made");
    assert!(done.status.as_ref().unwrap().timestamp.is_some());
    assert_eq!(stub.get_task(asked(get(&done.id))).await.unwrap().into_inner(), done);
    let url = format!("{}/a2a/v1/tasks/{}", mesh.agents["front-01"], done.id);
    let http: Value =
        client().get(url).header("a2a-version", "1.0").send().await.unwrap().json().await.unwrap();
    assert_eq!(http["id"], done.id);
    assert_eq!(http["contextId"], done.context_id);
    assert_eq!(http["history"].as_array().unwrap().len(), done.history.len());
    let none = wire::GetTaskRequest { history_length: Some(0), ..get(&done.id) };
    assert!(stub.get_task(asked(none)).await.unwrap().into_inner().history.is_empty());
}

#[tokio::test]
async fn every_part_of_a_message_arrives_and_is_returned() {
    let mesh = up().await;
    let mut stub = stub(&mesh);
    let number = |number| prost_types::Value { kind: Some(prost_types::value::Kind::NumberValue(number)) };
    let data = prost_types::Struct {
        fields: [("n".to_owned(), number(42.0)), ("x".to_owned(), number(0.5))].into(),
    };
    let data = prost_types::Value { kind: Some(prost_types::value::Kind::StructValue(data)) };
    let part = |content, kind: &str| wire::Part {
        content: Some(content),
        media_type: kind.to_owned(),
        filename: "f".to_owned(),
        ..Default::default()
    };
    let mut message = said("with parts");
    message.parts.push(part(Content::Raw(vec![0, 255, 128]), "application/octet-stream"));
    message.parts.push(part(Content::Url("https://example.com/f".to_owned()), "text/plain"));
    message.parts.push(part(Content::Data(data), "application/json"));
    message.extensions = vec!["urn:x".to_owned()];
    let request = wire::SendMessageRequest { message: Some(message.clone()), ..Default::default() };
    let done = task(stub.send_message(asked(request)).await.unwrap());
    let kept = &done.history[0];
    assert_eq!(kept.parts, message.parts);
    assert_eq!((&kept.message_id, &kept.extensions), (&message.message_id, &message.extensions));
    assert_eq!(kept.task_id, done.id);
}

#[tokio::test]
async fn a_question_is_answered_by_the_task_id_alone() {
    let mesh = up().await;
    let mut stub = stub(&mesh);
    let asks = task(stub.send_message(asked(send("ask me"))).await.unwrap());
    assert_eq!(state(&asks), wire::TaskState::InputRequired);
    let done = task(stub.send_message(asked(final_answer(&asks.id))).await.unwrap());
    assert_eq!(state(&done), wire::TaskState::Completed);
    assert_eq!((done.id, done.context_id), (asks.id, asks.context_id));
    assert_eq!(done.history.len(), 3);
}

#[tokio::test]
async fn a_list_is_paged_and_filtered() {
    let mesh = up().await;
    let mut stub = stub(&mesh);
    let mut sent = Vec::new();
    for n in 0..5 {
        sent.push(task(stub.send_message(asked(send(&format!("number {n}")))).await.unwrap()).id);
    }
    let mut listed = Vec::new();
    let mut request = wire::ListTasksRequest { page_size: Some(2), ..Default::default() };
    loop {
        let page = stub.list_tasks(asked(request.clone())).await.unwrap().into_inner();
        assert_eq!((page.page_size, page.total_size), (2, 5));
        assert!(page.tasks.iter().all(|task| task.artifacts.is_empty()));
        listed.extend(page.tasks.into_iter().map(|task| task.id));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    sent.reverse();
    assert_eq!(listed, sent, "the newest first, each once");
    let of = |request: wire::ListTasksRequest| asked(request);
    let none = wire::ListTasksRequest { status: wire::TaskState::Failed.into(), ..Default::default() };
    assert_eq!(stub.list_tasks(of(none)).await.unwrap().into_inner().total_size, 0);
    let all = wire::ListTasksRequest { include_artifacts: Some(true), ..Default::default() };
    let all = stub.list_tasks(of(all)).await.unwrap().into_inner();
    assert_eq!(all.tasks[0].artifacts.len(), 1);
    let newest = all.tasks[0].status.as_ref().unwrap().timestamp;
    let since = wire::ListTasksRequest { status_timestamp_after: newest, ..Default::default() };
    assert_eq!(stub.list_tasks(of(since)).await.unwrap().into_inner().tasks[0].id, sent[0]);
}

#[tokio::test]
async fn a_task_is_cancelled_once() {
    let mesh = up().await;
    let mut stub = stub(&mesh);
    let begun = task(stub.send_message(asked(at_once("for ever"))).await.unwrap());
    let cancel = || asked(wire::CancelTaskRequest { id: begun.id.clone(), ..Default::default() });
    let ended = stub.cancel_task(cancel()).await.unwrap().into_inner();
    assert_eq!(state(&ended), wire::TaskState::Canceled);
    let (code, info, _) = refusal(stub.cancel_task(cancel()).await);
    assert_eq!((code, info.reason.as_str()), (Code::FailedPrecondition, "TASK_NOT_CANCELABLE"));
}

#[tokio::test]
async fn webhooks_are_stored_listed_and_removed() {
    let mesh = up().await;
    let mut stub = stub(&mesh);
    let begun = task(stub.send_message(asked(at_once("for ever"))).await.unwrap());
    let config = |id: &str| wire::TaskPushNotificationConfig {
        id: id.to_owned(),
        task_id: begun.id.clone(),
        url: "http://127.0.0.1:9/hook".to_owned(),
        token: "t".to_owned(),
        authentication: Some(wire::AuthenticationInfo {
            scheme: "Bearer".to_owned(),
            credentials: "c".to_owned(),
        }),
        ..Default::default()
    };
    for id in ["a", "b"] {
        let kept = stub.create_task_push_notification_config(asked(config(id))).await.unwrap().into_inner();
        assert_eq!(kept, config(id));
    }
    let unnamed = stub.create_task_push_notification_config(asked(config(""))).await.unwrap().into_inner();
    assert!(!unnamed.id.is_empty());
    let name = wire::GetTaskPushNotificationConfigRequest {
        task_id: begun.id.clone(),
        id: "a".to_owned(),
        ..Default::default()
    };
    let found = stub.get_task_push_notification_config(asked(name.clone())).await.unwrap().into_inner();
    assert_eq!(found, config("a"));
    let mut request = wire::ListTaskPushNotificationConfigsRequest {
        task_id: begun.id.clone(),
        page_size: 2,
        ..Default::default()
    };
    let page = stub.list_task_push_notification_configs(asked(request.clone())).await.unwrap().into_inner();
    assert_eq!(page.configs.len(), 2);
    request.page_token = page.next_page_token;
    let rest = stub.list_task_push_notification_configs(asked(request)).await.unwrap().into_inner();
    assert_eq!((rest.configs.len(), rest.next_page_token.as_str()), (1, ""));
    for _ in 0..2 {
        let remove = wire::DeleteTaskPushNotificationConfigRequest {
            task_id: begun.id.clone(),
            id: "a".to_owned(),
            ..Default::default()
        };
        stub.delete_task_push_notification_config(asked(remove)).await.unwrap();
    }
    let (code, info, _) = refusal(stub.get_task_push_notification_config(asked(name)).await);
    assert_eq!((code, info.reason.as_str()), (Code::NotFound, "TASK_NOT_FOUND"));
}

#[tokio::test]
async fn the_card_names_the_port_and_each_agent_of_it() {
    let mesh = up().await;
    let mut stub = stub(&mesh);
    for agent in ["front-01", "smith-01"] {
        let url = format!("{}/.well-known/agent-card.json", mesh.agents[agent]);
        let card: Value = client().get(url).send().await.unwrap().json().await.unwrap();
        let told = json!({
            "url": port(&mesh), "protocolBinding": "GRPC", "protocolVersion": "1.0", "tenant": agent,
        });
        assert_eq!(card["supportedInterfaces"][2], told, "{card:#}");
        let request = wire::SendMessageRequest { tenant: agent.to_owned(), ..send("make it") };
        let done = task(stub.send_message(asked(request)).await.unwrap());
        let url = format!("{}/a2a/tasks/{}", mesh.agents[agent], done.id);
        let seen: Value = client().get(url).send().await.unwrap().json().await.unwrap();
        assert_eq!(seen["id"], done.id, "{agent} has it");
        let card = wire::GetExtendedAgentCardRequest { tenant: agent.to_owned() };
        let card = stub.get_extended_agent_card(as_alice(card)).await.unwrap().into_inner();
        assert_eq!(card.name, agent);
        assert_eq!(card.supported_interfaces[2].tenant, agent);
        assert_eq!(card.capabilities.unwrap().streaming, Some(true));
        assert_eq!(card.security_schemes.len(), 2);
        assert_eq!(card.signatures.len(), 1);
    }
}

#[tokio::test]
async fn capabilities_and_extensions_are_those_of_the_addressed_agent() {
    let team = "
agents:
  - agent: first-01
    open: true
    brain: { echo: {} }
    a2a: { streaming: false, pushNotifications: false, requires: [\"urn:x:needed\"] }
  - { agent: other-01, open: true, brain: { echo: {} } }
";
    let mesh = Process::up_in(&["MESH_GRPC_PORT=0".to_owned()], team).await;
    let to = |agent: &str| wire::SendMessageRequest { tenant: agent.to_owned(), ..send("hello") };
    let mut stub = stub(&mesh);
    let mut heard = stub.send_streaming_message(asked(to("other-01"))).await.unwrap().into_inner();
    assert!(heard.message().await.unwrap().is_some());
    let (code, info, _) = refusal(stub.send_message(asked(to("first-01"))).await);
    assert_eq!((code, info.reason.as_str()), (Code::FailedPrecondition, "EXTENSION_SUPPORT_REQUIRED"));
    // The same over HTTP; the answer lists the extensions of the agent that answered.
    let call = |port: &str, tenant: &str| {
        let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "hello" }] });
        let call = client().post(format!("{}/a2a/v1/{tenant}/message:send", mesh.agents[port]));
        call.header("a2a-version", "1.0")
            .header("a2a-extensions", "urn:x:needed")
            .json(&json!({ "message": message }))
    };
    for (port, tenant, told) in
        [("first-01", "other-01", None), ("other-01", "first-01", Some("urn:x:needed"))]
    {
        let answer = call(port, tenant).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let spoken = answer.headers().get("a2a-extensions").map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(spoken.as_deref(), told, "{tenant}");
    }
}

#[tokio::test]
async fn a_single_agent_needs_no_tenant_and_without_a_port_no_card_names_one() {
    let team = "agents: [{ agent: echo-01, skills: [echo], brain: { echo: {} } }]";
    let interfaces = async |mesh: &Process| {
        let url = format!("{}/.well-known/agent-card.json", mesh.agents["echo-01"]);
        let card: Value = client().get(url).send().await.unwrap().json().await.unwrap();
        card["supportedInterfaces"].as_array().unwrap().clone()
    };
    let with = Process::up_in(&["MESH_GRPC_PORT=0".to_owned()], team).await;
    let told = json!({ "url": port(&with), "protocolBinding": "GRPC", "protocolVersion": "1.0" });
    assert_eq!(interfaces(&with).await[2], told);
    let none = stub(&with).list_tasks(asked(wire::ListTasksRequest::default())).await.unwrap().into_inner();
    assert_eq!((none.total_size, none.page_size, none.next_page_token.as_str()), (0, 50, ""));
    let without = Process::up(team).await;
    assert_eq!(interfaces(&without).await.len(), 2);
    let run: Value = serde_json::from_slice(&std::fs::read(without.data.join("run.json")).unwrap()).unwrap();
    assert_eq!(run["grpc"], Value::Null);
}

#[tokio::test]
async fn a_skill_the_agent_lacks_is_awarded_and_the_award_is_sent_on_request() {
    let mesh = up().await;
    let mut stub = stub(&mesh);
    let skill = prost_types::Value { kind: Some(prost_types::value::Kind::StringValue("forge".to_owned())) };
    let metadata = prost_types::Struct { fields: [("skill".to_owned(), skill)].into() };
    let ours = "urn:agent-mesh:ext:task:v1";
    let done = eventually("the smith is known", || {
        let request = wire::SendMessageRequest { metadata: Some(metadata.clone()), ..send("a horseshoe") };
        let mut stub = stub.clone();
        async move {
            let request = with(request, &[("a2a-version", "1.0"), ("a2a-extensions", ours)]);
            let answer = stub.send_message(request).await.unwrap();
            assert_eq!(answer.metadata().get("a2a-extensions").unwrap(), ours);
            Some(task(answer)).filter(|task| state(task) == wire::TaskState::Completed)
        }
    })
    .await;
    let metadata = done.metadata.unwrap();
    let Some(prost_types::value::Kind::StructValue(told)) = &metadata.fields[ours].kind else { panic!() };
    assert!(told.fields.contains_key("award"), "{told:?}");
    assert!(stub.get_task(asked(get(&done.id))).await.is_ok());
}
