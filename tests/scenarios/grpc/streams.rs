//! Streams over gRPC.

use super::wire::stream_response::Payload;
use super::*;
use futures_util::future::join_all;
use tonic::Streaming;

fn subscribe(id: &str) -> Request<wire::SubscribeToTaskRequest> {
    asked(wire::SubscribeToTaskRequest { id: id.to_owned(), ..Default::default() })
}

async fn next(stream: &mut Streaming<wire::StreamResponse>) -> Option<Payload> {
    stream.message().await.unwrap().map(|event| event.payload.unwrap())
}

/// Reads a stream to its end; one word for each event.
async fn event_words(mut stream: Streaming<wire::StreamResponse>) -> Vec<String> {
    let mut heard = Vec::new();
    while let Some(event) = next(&mut stream).await {
        heard.push(word(&event));
    }
    heard
}

fn word(event: &Payload) -> String {
    let of = |status: &Option<wire::TaskStatus>| {
        let status = status.as_ref().unwrap();
        let said = status.message.as_ref().map(|message| text(&message.parts[0]).to_owned());
        format!("{:?} {}", status.state(), said.unwrap_or_default())
    };
    match event {
        Payload::Task(task) => format!("task {}", of(&task.status)),
        Payload::StatusUpdate(update) => of(&update.status),
        Payload::ArtifactUpdate(update) => {
            format!("artifact {}", update.artifact.as_ref().unwrap().artifact_id)
        }
        Payload::Message(_) => "message".to_owned(),
    }
}

#[tokio::test]
async fn a_stream_delivers_every_event_in_order_and_ends() {
    let mesh = up().await;
    let mut stub = stub(&mesh);
    let stream = stub.send_streaming_message(asked(send("make it"))).await.unwrap().into_inner();
    let told = event_words(stream).await;
    assert_eq!(told[0], "task Submitted ");
    assert!(told.contains(&"artifact a.txt".to_owned()), "{told:?}");
    assert_eq!(told.last().unwrap(), "Completed done");
}

#[tokio::test]
async fn every_subscriber_gets_every_event_once() {
    let mesh = up().await;
    let mut stub = stub(&mesh);
    let begun = task(stub.send_message(asked(at_once("slowly"))).await.unwrap());
    let listen = |_| {
        let (mut stub, request) = (stub.clone(), subscribe(&begun.id));
        async move { event_words(stub.subscribe_to_task(request).await.unwrap().into_inner()).await }
    };
    for told in join_all((0..4).map(listen)).await {
        assert!(told[0].starts_with("task "), "{told:?}");
        assert_eq!(told.last().unwrap(), "Completed done");
        let count = |what: &str| told.iter().filter(|told| told.ends_with(what)).count();
        assert!(count(" one") <= 1 && count(" two") <= 1, "{told:?}");
    }
    let (code, info, _) =
        refusal(stub.subscribe_to_task(subscribe(&begun.id)).await.map(|_| Response::new(())));
    assert_eq!((code, info.reason.as_str()), (Code::FailedPrecondition, "UNSUPPORTED_OPERATION"));
}

#[tokio::test]
async fn a_waiting_task_can_be_subscribed_to_and_continues() {
    let mesh = up().await;
    let mut stub = stub(&mesh);
    let stream = stub.send_streaming_message(asked(send("ask me"))).await.unwrap().into_inner();
    assert_eq!(event_words(stream).await.last().unwrap(), "InputRequired which?", "it ends where it waits");
    let list = stub.list_tasks(asked(wire::ListTasksRequest::default())).await.unwrap().into_inner();
    let id = list.tasks[0].id.clone();
    let mut stream = stub.subscribe_to_task(subscribe(&id)).await.unwrap().into_inner();
    assert_eq!(word(&next(&mut stream).await.unwrap()), "task InputRequired which?");
    stub.send_message(asked(final_answer(&id))).await.unwrap();
    assert_eq!(event_words(stream).await.last().unwrap(), "Completed so it is");
}

#[tokio::test]
async fn a_cancel_appears_on_the_stream() {
    let mesh = up().await;
    let mut stub = stub(&mesh);
    let mut stream = stub.send_streaming_message(asked(send("for ever"))).await.unwrap().into_inner();
    let Some(Payload::Task(begun)) = next(&mut stream).await else { panic!("the task comes first") };
    while word(&next(&mut stream).await.unwrap()) != "Working at it" {}
    stub.cancel_task(asked(wire::CancelTaskRequest { id: begun.id, ..Default::default() })).await.unwrap();
    assert!(event_words(stream).await.last().unwrap().starts_with("Canceled"));
}

#[tokio::test]
async fn streams_are_counted_per_principal() {
    let team = TEAM.replace("grpcPort: 0", "grpcPort: 0\n  limits: { maxReadersPerPrincipal: 2 }");
    let mesh = Process::up_beside(&team, &[("script.yaml", SCRIPT)]).await;
    let mut stub = stub(&mesh);
    let waits = task(stub.send_message(asked(send("ask me"))).await.unwrap());
    let one = stub.subscribe_to_task(subscribe(&waits.id)).await.unwrap();
    let _two = stub.subscribe_to_task(subscribe(&waits.id)).await.unwrap();
    let third = stub.subscribe_to_task(subscribe(&waits.id)).await.map(|_| Response::new(()));
    assert_eq!(refusal(third).0, Code::ResourceExhausted);
    drop(one);
    eventually("a seat is free again", || {
        let (mut stub, request) = (stub.clone(), subscribe(&waits.id));
        async move { stub.subscribe_to_task(request).await.ok() }
    })
    .await;
}

#[tokio::test]
async fn a_draining_node_refuses_calls_and_ends_its_streams() {
    let mut mesh = up().await;
    let mut stub = stub(&mesh);
    let waits = task(stub.send_message(asked(send("ask me"))).await.unwrap());
    let mut stream = stub.subscribe_to_task(subscribe(&waits.id)).await.unwrap().into_inner();
    assert!(next(&mut stream).await.is_some());
    let mut working = stub.send_streaming_message(asked(send("slowly"))).await.unwrap().into_inner();
    while word(&next(&mut working).await.unwrap()) != "Working one" {}
    mesh.signal("TERM");
    eventually("nothing new is taken", || {
        let mut stub = stub.clone();
        async move {
            let refused = stub.send_message(asked(at_once("more"))).await.err()?;
            assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
            Some(())
        }
    })
    .await;
    assert_eq!(
        event_words(working).await.last().unwrap(),
        "Completed done",
        "what runs is finished and told"
    );
    let end = stream.message().await.unwrap_err();
    assert_eq!(end.code(), Code::Unavailable, "{end:?}");
    assert!(end.message().contains("leaving"), "{end:?}");
    assert_eq!(mesh.ended().await, 0);
}

#[tokio::test]
async fn a_task_survives_the_death_of_its_node() {
    let mesh = up().await;
    let waits = task(stub(&mesh).send_message(asked(send("ask me"))).await.unwrap());
    let mesh = mesh.restart().await;
    let mut stub = stub(&mesh);
    assert_eq!(
        state(&stub.get_task(asked(get(&waits.id))).await.unwrap().into_inner()),
        wire::TaskState::InputRequired
    );
    let done = task(stub.send_message(asked(final_answer(&waits.id))).await.unwrap());
    assert_eq!(state(&done), wire::TaskState::Completed);
}
