//! Refusals over gRPC.

use super::*;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

#[tokio::test]
async fn every_call_needs_the_version() {
    let mesh = up().await;
    let mut stub = stub(&mesh);
    let done = task(stub.send_message(asked(send("make it"))).await.unwrap());
    let old = [("a2a-version", "0.3")];
    let name =
        wire::ListTaskPushNotificationConfigsRequest { task_id: done.id.clone(), ..Default::default() };
    let subscribe = wire::SubscribeToTaskRequest { id: done.id.clone(), ..Default::default() };
    let card = wire::GetExtendedAgentCardRequest::default();
    let refused = [
        refusal(stub.send_message(bare(send("x"))).await.map(drop_value)),
        refusal(stub.send_message(with(send("x"), &old)).await.map(drop_value)),
        refusal(stub.send_streaming_message(with(send("x"), &old)).await.map(drop_value)),
        refusal(stub.get_task(bare(get(&done.id))).await.map(drop_value)),
        refusal(stub.list_tasks(bare(wire::ListTasksRequest::default())).await.map(drop_value)),
        refusal(stub.subscribe_to_task(bare(subscribe)).await.map(drop_value)),
        refusal(stub.list_task_push_notification_configs(bare(name)).await.map(drop_value)),
        refusal(stub.get_extended_agent_card(bare(card)).await.map(drop_value)),
    ];
    for (code, info, _) in refused {
        assert_eq!((code, info.reason.as_str()), (Code::FailedPrecondition, "VERSION_NOT_SUPPORTED"));
        assert_eq!(info.metadata["supportedVersions"], "1.0");
    }
    stub.get_task(with(get(&done.id), &[("a2a-version", "1.0.7")])).await.unwrap();
}

fn drop_value<T>(response: Response<T>) -> Response<()> {
    response.map(|_| ())
}

#[tokio::test]
async fn callers_see_only_their_own_tasks_over_grpc() {
    let mesh = up().await;
    let mut stub = stub(&mesh);
    let hers = task(stub.send_message(as_alice(send("make it"))).await.unwrap());
    let bob =
        |request| with(request, &[("a2a-version", "1.0"), ("authorization", "Bearer bobs-own-token-0001")]);
    assert!(stub.get_task(as_alice(get(&hers.id))).await.is_ok());
    for request in [asked(get(&hers.id)), bob(get(&hers.id)), asked(get("no-such-task"))] {
        let (code, info, _) = refusal(stub.get_task(request).await);
        assert_eq!((code, info.reason.as_str()), (Code::NotFound, "TASK_NOT_FOUND"));
    }
    let list = stub.list_tasks(asked(wire::ListTasksRequest::default())).await.unwrap().into_inner();
    assert_eq!(list.total_size, 0);
    let cancel = wire::CancelTaskRequest { id: hers.id.clone(), ..Default::default() };
    assert_eq!(refusal(stub.cancel_task(asked(cancel)).await).1.reason, "TASK_NOT_FOUND");
    let (code, info, _) =
        refusal(stub.get_extended_agent_card(asked(wire::GetExtendedAgentCardRequest::default())).await);
    assert_eq!((code, info.reason.as_str()), (Code::Unauthenticated, "UNAUTHENTICATED"));
    let drawer = |tenant: &str| wire::GetTaskRequest { tenant: tenant.to_owned(), ..get(&hers.id) };
    assert!(stub.get_task(as_alice(drawer("front-01"))).await.is_ok());
    assert_eq!(refusal(stub.get_task(as_alice(drawer("another"))).await).1.reason, "TASK_NOT_FOUND");
}

#[tokio::test]
async fn invalid_credentials_are_refused_and_then_rate_limited() {
    let mesh = up().await;
    let mut stub = stub(&mesh);
    let forged = || with(get("x"), &[("a2a-version", "1.0"), ("x-api-key", "not-one-of-the-keys")]);
    let (code, _, _) = refusal(stub.get_task(forged()).await);
    assert_eq!(code, Code::Unauthenticated);
    let signed = with(get("x"), &[("a2a-version", "1.0"), ("signature", "sig=:AA==:")]);
    assert_eq!(refusal(stub.get_task(signed).await).0, Code::Unauthenticated);
    let marked = with(get("x"), &[("a2a-version", "1.0"), ("mesh-outbound", "1")]);
    assert_eq!(refusal(stub.get_task(marked).await).0, Code::Unauthenticated, "never the local user's");
    let limited = async {
        loop {
            let (code, info, more) = refusal(stub.get_task(forged()).await);
            if code == Code::ResourceExhausted {
                return (info, more);
            }
        }
    };
    let (info, more) = tokio::time::timeout(crate::harness::DEADLINE, limited).await.expect("a limit");
    assert_eq!(info.reason, "RATE_LIMITED");
    assert!(more.iter().any(|detail| detail.type_url.ends_with("google.rpc.RetryInfo")), "{more:?}");
    assert!(
        stub.list_tasks(as_alice(wire::ListTasksRequest::default())).await.is_ok(),
        "nobody is locked out"
    );
    let page = with(get("x"), &[("a2a-version", "1.0"), ("origin", "https://evil.example")]);
    assert_eq!(refusal(stub.get_task(page).await).0, Code::PermissionDenied);
}

#[tokio::test]
async fn the_fault_of_a_message_is_named() {
    let mesh = up().await;
    let mut stub = stub(&mesh);
    #[derive(Clone, PartialEq, prost::Message)]
    struct Bad {
        #[prost(message, repeated, tag = "1")]
        violations: Vec<Violation>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct Violation {
        #[prost(string, tag = "1")]
        field: String,
    }
    let of =
        |message: wire::Message| wire::SendMessageRequest { message: Some(message), ..Default::default() };
    let nan = prost_types::Value { kind: Some(prost_types::value::Kind::NumberValue(f64::NAN)) };
    let metadata = Some(prost_types::Struct { fields: [("n".to_owned(), nan)].into() });
    for (request, field) in [
        (wire::SendMessageRequest::default(), "message"),
        (of(wire::Message { message_id: String::new(), ..said("x") }), "message.messageId"),
        (of(wire::Message { parts: Vec::new(), ..said("x") }), "message.parts"),
        (of(wire::Message { parts: vec![wire::Part::default()], ..said("x") }), "message.parts[0]"),
        (of(wire::Message { role: 0, ..said("x") }), "message.role"),
        (of(wire::Message { role: 2, ..said("x") }), "message.role"),
        (of(wire::Message { metadata, ..said("x") }), "message.metadata.n"),
    ] {
        let (code, info, more) = refusal(stub.send_message(asked(request)).await);
        assert_eq!((code, info.reason.as_str()), (Code::InvalidArgument, "INVALID_PARAMS"), "{field}");
        assert_eq!(more[0].type_url, "type.googleapis.com/google.rpc.BadRequest");
        assert_eq!(Bad::decode(&*more[0].value).unwrap().violations[0].field, field);
    }
    let list = |page_size| asked(wire::ListTasksRequest { page_size: Some(page_size), ..Default::default() });
    for size in [0, 101, -1] {
        assert_eq!(refusal(stub.list_tasks(list(size)).await).0, Code::InvalidArgument, "{size}");
    }
    let part = wire::Part { media_type: "application/x-unsupported".to_owned(), ..said("x").parts.remove(0) };
    let (code, info, _) =
        refusal(stub.send_message(asked(of(wire::Message { parts: vec![part], ..said("x") }))).await);
    assert_eq!((code, info.reason.as_str()), (Code::InvalidArgument, "CONTENT_TYPE_NOT_SUPPORTED"));
    let ended = task(stub.send_message(asked(send("make it"))).await.unwrap());
    let late = of(wire::Message { task_id: ended.id.clone(), ..said("more") });
    let (code, info, _) = refusal(stub.send_message(asked(late)).await);
    assert_eq!((code, info.reason.as_str()), (Code::FailedPrecondition, "UNSUPPORTED_OPERATION"));
}

#[tokio::test]
async fn too_large_and_too_deep_messages_are_refused() {
    let mesh = up().await;
    let mut stub = stub(&mesh);
    let (code, info, _) = refusal(stub.send_message(asked(send(&"x".repeat(300_000)))).await);
    assert_eq!((code, info.reason.as_str()), (Code::ResourceExhausted, "PAYLOAD_TOO_LARGE"));
    let mut value = prost_types::Value { kind: Some(prost_types::value::Kind::BoolValue(true)) };
    let mut seen = Vec::new();
    for _ in 0..80 {
        let metadata = prost_types::Struct { fields: [("a".to_owned(), value)].into() };
        let message = wire::Message { metadata: Some(metadata.clone()), ..said("x") };
        let request = wire::SendMessageRequest { message: Some(message), ..Default::default() };
        seen.push(stub.send_message(asked(request)).await.map(|_| ()).map_err(|status| status.code()));
        value = prost_types::Value { kind: Some(prost_types::value::Kind::StructValue(metadata)) };
    }
    assert_eq!(seen[0], Ok(()));
    assert_eq!(
        seen.iter().filter(|seen| seen.is_ok()).count(),
        30,
        "32 levels, two of them the message's: {seen:?}"
    );
    assert!(seen.iter().skip(30).all(|seen| *seen == Err(Code::InvalidArgument)), "{seen:?}");
}

#[tokio::test]
async fn an_unknown_method_and_a_non_grpc_request_are_refused() {
    let mesh = up().await;
    let mut socket = TcpStream::connect(port(&mesh)).await.unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut said = String::new();
    socket.read_to_string(&mut said).await.unwrap();
    assert!(said.starts_with("HTTP/1.1 400 ") && said.contains("gRPC"), "{said}");
    let http: Client<_, Body> = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let call = |path: &str, kind: &str, host: &str| {
        let uri = format!("http://{}{path}", port(&mesh).replace("127.0.0.1", host));
        let request = hyper::Request::post(uri).header("content-type", kind).body(Body::empty()).unwrap();
        http.request(request)
    };
    let grpc = |response: hyper::Response<_>| {
        let _: hyper::body::Incoming = response.into_body();
    };
    let unknown = call("/lf.a2a.v1.A2AService/Dance", "application/grpc", "127.0.0.1").await.unwrap();
    assert_eq!(unknown.headers()["grpc-status"], "12", "{unknown:?}");
    grpc(unknown);
    let plain = call("/lf.a2a.v1.A2AService/GetTask", "text/plain", "127.0.0.1").await.unwrap();
    assert_eq!(plain.status(), 415);
    let port = port(&mesh);
    let foreign = async {
        let socket = TcpStream::connect(&port).await.unwrap();
        let io = hyper_util::rt::TokioIo::new(socket);
        let (mut calls, line) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        drop(tokio::spawn(line));
        let uri = "http://evil.example/lf.a2a.v1.A2AService/ListTasks";
        let request = hyper::Request::post(uri).header("content-type", "application/grpc");
        calls.send_request(request.body(Body::empty()).unwrap()).await.unwrap()
    };
    assert_eq!(foreign.await.headers()["grpc-status"], "7", "a name that is not ours");
    let known = call("/lf.a2a.v1.A2AService/GetTask", "application/grpc", "localhost").await.unwrap();
    assert_ne!(known.headers().get("grpc-status").map(|status| status.as_bytes()), Some(&b"7"[..]));
}

#[tokio::test]
async fn slow_callers_time_out() {
    let mesh = up().await;
    let mut silent = TcpStream::connect(port(&mesh)).await.unwrap();
    let mut half = TcpStream::connect(port(&mesh)).await.unwrap();
    half.write_all(b"PRI * HTTP/2.0").await.unwrap();
    for socket in [&mut silent, &mut half] {
        let mut said = String::new();
        let read = tokio::time::timeout(crate::harness::DEADLINE, socket.read_to_string(&mut said));
        read.await.expect("an end").unwrap();
        assert!(said.starts_with("HTTP/1.1 400 "), "{said}");
    }
    let http: Client<_, Body> = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let begun = futures_util::stream::once(async {
        Ok::<_, std::io::Error>(hyper::body::Frame::data(bytes::Bytes::from_static(&[0, 0, 0, 0, 9])))
    });
    let never_done = futures_util::StreamExt::chain(begun, futures_util::stream::pending());
    let uri = format!("http://{}/lf.a2a.v1.A2AService/GetTask", port(&mesh));
    let request = hyper::Request::post(uri).header("content-type", "application/grpc");
    let body = Body::new(http_body_util::StreamBody::new(never_done));
    let answer = tokio::time::timeout(crate::harness::DEADLINE, http.request(request.body(body).unwrap()));
    let answer = answer.await.expect("an answer").unwrap();
    assert_eq!(answer.headers()["grpc-status"], "14", "{answer:?}");
}

#[tokio::test]
async fn an_operation_that_an_agent_does_not_offer_has_its_own_error() {
    let agent = "{ agent: plain-01, open: true, skills: [plain], brain: { echo: {} }, \
        a2a: { streaming: false, pushNotifications: false, extendedCard: false, requires: ['urn:x'] } }";
    let mesh = Process::up(&format!("{{ agents: [{agent}], mesh: {{ grpcPort: 0 }} }}")).await;
    let mut stub = stub(&mesh);
    let hook =
        wire::TaskPushNotificationConfig { task_id: "t".into(), url: "x".into(), ..Default::default() };
    let listen = wire::SubscribeToTaskRequest { id: "t".to_owned(), ..Default::default() };
    let card = wire::GetExtendedAgentCardRequest::default();
    let refused = [
        (refusal(stub.send_message(asked(send("x"))).await.map(drop_value)), "EXTENSION_SUPPORT_REQUIRED"),
        (refusal(stub.subscribe_to_task(asked(listen)).await.map(drop_value)), "UNSUPPORTED_OPERATION"),
        (
            refusal(stub.create_task_push_notification_config(asked(hook)).await.map(drop_value)),
            "PUSH_NOTIFICATION_NOT_SUPPORTED",
        ),
        (refusal(stub.get_extended_agent_card(asked(card)).await.map(drop_value)), "UNSUPPORTED_OPERATION"),
    ];
    for ((code, info, _), reason) in refused {
        assert_eq!((code, info.reason.as_str()), (Code::FailedPrecondition, reason));
    }
    let known = with(send("x"), &[("a2a-version", "1.0"), ("a2a-extensions", "urn:x")]);
    let answer = stub.send_message(known).await.unwrap();
    assert_eq!(answer.metadata().get("a2a-extensions").unwrap(), "urn:x");
    assert_eq!(state(&task(answer)), wire::TaskState::Completed);
}
