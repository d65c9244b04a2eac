//! Every principal on every method of gRPC. Messages between agents are not signed here, so agents and services are nobody.

use super::*;
use crate::scenarios::route_table::{CALLERS, Caller, Setup, compare, set_up};
use protocol::a2a::request::A2aOperation;

/// The columns are [`CALLERS`].
const METHODS: &[(&str, &str)] = &[
    ("SendMessage", "11aa3a111111"),
    ("SendStreamingMessage", "11aa3a111111"),
    ("GetTask", "11a43a111111"),
    ("ListTasks", "11aa3a111111"),
    ("CancelTask", "11a43a111111"),
    ("SubscribeToTask", "11a43a111111"),
    ("CreateTaskPushNotificationConfig", "11a43a111111"),
    ("GetTaskPushNotificationConfig", "11a43a111111"),
    ("ListTaskPushNotificationConfigs", "11a43a111111"),
    ("DeleteTaskPushNotificationConfig", "11a43a111111"),
    ("GetExtendedAgentCard", "111a31111111"),
];

#[tokio::test]
async fn every_method_answers_every_principal_as_the_table_says() {
    let setup = set_up().await;
    let mut rows = Vec::new();
    for operation in A2aOperation::ALL {
        let name = operation.name();
        let expected = METHODS.iter().find(|(known, _)| *known == name).map_or("", |(_, expected)| expected);
        let mut seen = String::new();
        for caller in CALLERS {
            seen.push(outcome(&setup, *operation, caller).await);
        }
        rows.push((name.to_owned(), expected, seen));
    }
    compare(&rows);
}

async fn outcome(setup: &Setup, operation: A2aOperation, caller: Caller) -> char {
    let Some(origin) = setup.url_for(caller, &format!("http://{}", grpc_address(setup))) else { return '-' };
    let http = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let mut stub: Stub = A2aServiceClient::with_origin(http, origin.parse().unwrap());
    let headers = setup.headers(caller);
    let mut metadata = vec![("a2a-version", "1.0")];
    metadata.extend(headers.iter().map(|(name, value)| (*name, value.as_str())));
    let (task_id, id) = (setup.task.clone(), "w-1".to_owned());
    let message = wire::Message { message_id: format!("{operation:?}-{caller:?}"), ..said("make it") };
    let message = wire::SendMessageRequest { message: Some(message), ..Default::default() };
    macro_rules! code {
        ($method:ident, $request:expr) => {
            stub.$method(with($request, &metadata)).await.map(|_| ()).map_err(|status| status.code())
        };
    }
    let code = match operation {
        A2aOperation::SendMessage => code!(send_message, message),
        A2aOperation::SendStreamingMessage => code!(send_streaming_message, message),
        A2aOperation::GetTask => code!(get_task, get(&task_id)),
        A2aOperation::ListTasks => code!(list_tasks, wire::ListTasksRequest::default()),
        A2aOperation::CancelTask => {
            code!(cancel_task, wire::CancelTaskRequest { id: task_id, ..Default::default() })
        }
        A2aOperation::SubscribeToTask => {
            code!(subscribe_to_task, wire::SubscribeToTaskRequest { id: task_id, ..Default::default() })
        }
        A2aOperation::CreateTaskPushNotificationConfig => {
            let url = "https://192.0.2.1/hook".to_owned();
            let config = wire::TaskPushNotificationConfig { task_id, id, url, ..Default::default() };
            code!(create_task_push_notification_config, config)
        }
        A2aOperation::GetTaskPushNotificationConfig => {
            let name = wire::GetTaskPushNotificationConfigRequest { task_id, id, ..Default::default() };
            code!(get_task_push_notification_config, name)
        }
        A2aOperation::ListTaskPushNotificationConfigs => {
            let name = wire::ListTaskPushNotificationConfigsRequest { task_id, ..Default::default() };
            code!(list_task_push_notification_configs, name)
        }
        A2aOperation::DeleteTaskPushNotificationConfig => {
            let name = wire::DeleteTaskPushNotificationConfigRequest { task_id, id, ..Default::default() };
            code!(delete_task_push_notification_config, name)
        }
        A2aOperation::GetExtendedAgentCard => {
            code!(get_extended_agent_card, wire::GetExtendedAgentCardRequest::default())
        }
    };
    match code {
        Err(Code::Unauthenticated) => '1',
        Err(Code::PermissionDenied) => '3',
        Err(Code::NotFound) => '4',
        Err(code @ (Code::Internal | Code::Unknown | Code::Unavailable)) => {
            panic!("{operation:?}: {caller:?} is answered {code:?}")
        }
        Ok(()) | Err(_) => 'a',
    }
}

#[tokio::test]
async fn every_name_of_a_call_without_a_credential_is_a_name_of_loopback() {
    let setup = set_up().await;
    for (authority, host, status) in [
        ("localhost", None, "0"),
        ("localhost", Some("127.0.0.1"), "0"),
        ("mesh.example", None, "16"),
        ("mesh.example", Some("localhost"), "16"),
        ("localhost", Some("mesh.example"), "16"),
        ("localhost", Some("evil.example"), "7"),
        ("evil.example", None, "7"),
    ] {
        let socket = tokio::net::TcpStream::connect(grpc_address(&setup)).await.unwrap();
        let io = hyper_util::rt::TokioIo::new(socket);
        let (mut calls, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        drop(tokio::spawn(connection));
        let uri = format!("http://{authority}/lf.a2a.v1.A2AService/ListTasks");
        let request = hyper::Request::post(uri).header("content-type", "application/grpc");
        let request = request.header("a2a-version", "1.0");
        let request = host.into_iter().fold(request, |request, host| request.header("host", host));
        let empty = http_body_util::Full::new(bytes::Bytes::from_static(&[0; 5]));
        let answer = calls.send_request(request.body(Body::new(empty)).unwrap()).await.unwrap();
        let refused = answer.headers().get("grpc-status").map(|status| status.to_str().unwrap());
        assert_eq!(refused.unwrap_or("0"), status, "{authority} {host:?}");
    }
}

/// The gRPC address of the node, as this machine reaches it.
fn grpc_address(setup: &Setup) -> String {
    port(&setup.mesh).replace("0.0.0.0", "127.0.0.1")
}
