use crate::{
    board::{Board, BoardClock, BoardConfig},
    client::{Backoff, Blackboard},
};
use actix_web::{
    App, Error, HttpMessage, HttpServer,
    body::MessageBody,
    dev::{ServerHandle, ServiceRequest, ServiceResponse},
    middleware::{Next, from_fn},
    web,
};
use futures_util::{StreamExt, future::join_all};
use protocol::{
    ids::{AgentId, TaskId},
    principal::{Principal, SenderProof},
    problem::Reason,
    signal::{Selector, Signal},
    task::OpenTaskKey,
};
use std::{
    future::Future,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    time::{Duration, Instant},
};
use store::memory;
use transport::http_client::{HttpClient, HttpClientLimits};

mod fan_out;
mod local_and_remote;
mod unseen_entries;

/// Replaces the edge: every caller is the local user.
async fn authenticate_everybody(
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    request.extensions_mut().insert(Principal::local_user());
    request.extensions_mut().insert(SenderProof::Credential);
    next.call(request).await
}

const USER_TIMEOUT: Duration = Duration::from_secs(1);

fn serve(board: &Board, listener: TcpListener) -> ServerHandle {
    let data = web::Data::new(board.clone());
    let server = HttpServer::new(move || {
        App::new().app_data(data.clone()).configure(super::routes).wrap(from_fn(authenticate_everybody))
    })
    .workers(1)
    .disable_signals()
    .on_connect(|io, _| {
        let stream = io.downcast_ref::<actix_web::rt::net::TcpStream>().unwrap();
        socket2::SockRef::from(stream).set_tcp_user_timeout(Some(USER_TIMEOUT)).unwrap();
    })
    .listen(listener)
    .unwrap()
    .run();
    let handle = server.handle();
    actix_web::rt::spawn(server);
    handle
}

struct TestServer {
    board: Board,
    at: SocketAddr,
    handle: ServerHandle,
}

fn test_server() -> TestServer {
    let board = Board::start(memory::new(), BoardConfig::fast(), BoardClock::system()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    TestServer { handle: serve(&board, listener), board, at }
}

fn remote(at: SocketAddr) -> Blackboard {
    let client = HttpClient::new(None, HttpClientLimits::default()).unwrap();
    let backoff = Backoff { first: Duration::from_millis(5), max: Duration::from_millis(50) };
    Blackboard::remote(format!("http://{at}"), move |_| client.clone(), backoff)
}

fn signal(id: &str, kind: &str, text: &str) -> Signal {
    Signal { subject: Some(text.to_owned()), ..crate::signals::tests::signal(id, kind, "me") }
}

/// An open task of the local user, for whom no request names a publisher.
fn own_task(id: &str) -> OpenTaskKey {
    OpenTaskKey { publisher: Principal::local_user(), task_id: TaskId::parse(id).unwrap() }
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(20), future).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: not within 20 s"),
    }
}

#[actix_web::test]
async fn a_stream_that_is_cut_repeatedly_has_no_gap_and_no_repeat() {
    let TestServer { board, at, mut handle } = test_server();
    let by = Principal::local_user();
    let mut signals = remote(at).subscribe(&by, Selector::default(), None).await.unwrap();
    for round in 0..5 {
        for n in 0..20 {
            board.publish(&by, signal(&format!("{round}-{n}"), "help.needed", "")).await.unwrap();
            if n == 10 {
                handle.stop(false).await;
            }
        }
        let listener = within("the port is free again", async {
            loop {
                match TcpListener::bind(at) {
                    Ok(listener) => return listener,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        })
        .await;
        handle = serve(&board, listener);
        for n in 0..20 {
            let posted = within("the next signal", signals.next()).await.unwrap().unwrap();
            assert_eq!(posted.signal.id, format!("{round}-{n}"));
        }
    }
    handle.stop(false).await;
}

#[actix_web::test]
async fn several_signals_share_a_request_up_to_the_first_that_is_refused() {
    let TestServer { board, at, handle } = test_server();
    let (by, client) = (Principal::local_user(), remote(at));
    let of = |id: &str| signal(id, "acme.news", "");
    let answers = client.publish_all(&by, vec![of("a"), of("b"), of("a")]).await.unwrap();
    let [Ok(a), Ok(b), Ok(again)] = answers[..] else { panic!("{answers:?}") };
    assert!(a < b && a == again, "{answers:?}");
    let reused = signal("a", "acme.other", "");
    let answers = client.publish_all(&by, vec![of("c"), reused, of("d")]).await.unwrap();
    let [Ok(_), Err(refused)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(refused.reason, Reason::MessageIdReused, "{refused:?}");
    let large = ["e-1", "e-2", "e-3", "e-4", "e-5"].map(|id| {
        let refs = [("text".to_owned(), "x".repeat(15_000).into())].into_iter().collect();
        Signal { refs, ..of(id) }
    });
    let answers = client.publish_all(&by, large.to_vec()).await.unwrap();
    assert_eq!(answers.len(), 4, "64 KiB in one request: {answers:?}");
    assert_eq!(client.publish_all(&by, large[4..].to_vec()).await.unwrap().len(), 1);
    let page = board.read(&Principal::local_user(), Selector::default(), None, 100).await.unwrap();
    let ids: Vec<_> = page.signals.iter().map(|record| record.signal.id.as_str()).collect();
    assert_eq!(ids, ["a", "b", "c", "e-1", "e-2", "e-3", "e-4", "e-5"]);
    handle.stop(false).await;
}

/// Requests a stream on a plain socket.
fn open_stream(at: SocketAddr, query: &str, headers: &str) -> TcpStream {
    let mut socket = TcpStream::connect(at).unwrap();
    write!(socket, "GET /board/signals/stream{query} HTTP/1.1\r\nhost: {at}\r\n{headers}\r\n").unwrap();
    socket
}

#[actix_web::test]
async fn a_client_that_never_reads_is_cut_without_delaying_others() {
    let TestServer { board, at, handle } = test_server();
    let by = Principal::local_user();
    let mut fast = remote(at).subscribe(&by, Selector::default(), None).await.unwrap();
    let stuck = open_stream(at, "", "");
    within("both follow", async {
        while board.snapshot().await.unwrap().subscribers < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let text = "x".repeat(15 * 1024);
    let mut slowest = Duration::ZERO;
    for n in 0..1_000 {
        let start = Instant::now();
        board.publish(&by, signal(&n.to_string(), "help.needed", &text)).await.unwrap();
        slowest = slowest.max(start.elapsed());
        let posted = within("the fast reader's next", fast.next()).await.unwrap().unwrap();
        assert_eq!(posted.signal.id, n.to_string());
    }
    assert!(slowest < Duration::from_secs(1), "a publisher waited {slowest:?}");
    within("the stuck one is cut", async {
        while board.snapshot().await.unwrap().subscribers > 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(board.snapshot().await.unwrap().recent_bytes <= board.config().recent_bytes);
    drop(stuck);
    handle.stop(false).await;
}

#[actix_web::test]
async fn a_stream_resumes_by_last_event_id_and_a_foreign_cursor_is_refused() {
    let TestServer { board, at, handle } = test_server();
    let by = Principal::local_user();
    let first = board.publish(&by, signal("a", "help.needed", "")).await.unwrap();
    let second = board.publish(&by, signal("b", "help.needed", "")).await.unwrap();
    let until = |mut socket: TcpStream, end: &'static str| {
        tokio::task::spawn_blocking(move || {
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let (mut text, mut bytes) = (String::new(), [0; 4096]);
            while !text.contains(end) {
                let n = socket.read(&mut bytes).unwrap();
                assert!(n > 0, "the stream ended: {text}");
                text.push_str(&String::from_utf8_lossy(&bytes[..n]));
            }
            text
        })
    };
    let resumed =
        until(open_stream(at, "?after=0", &format!("last-event-id: {first}\r\n")), ": here").await.unwrap();
    assert!(resumed.contains(&format!("-{second}\ndata: ")) && !resumed.contains(r#""id":"a""#), "{resumed}");
    let foreign = until(open_stream(at, "?after=999999", ""), "reasonCode").await.unwrap();
    assert!(foreign.starts_with("HTTP/1.1 410 ") && foreign.contains("trimmed"), "{foreign}");
    let other = format!("last-event-id: 0a1f-{first}\r\n");
    let other = until(open_stream(at, "", &other), "reasonCode").await.unwrap();
    assert!(other.starts_with("HTTP/1.1 410 ") && other.contains("generation_changed"), "{other}");
    let wrong = until(open_stream(at, "", "last-event-id: soon\r\n"), "reasonCode").await.unwrap();
    assert!(wrong.starts_with("HTTP/1.1 400 ") && wrong.contains("Last-Event-ID"), "{wrong}");
    handle.stop(false).await;
}
