use super::*;
use crate::key_ring::tests::{identity, ring};
use protocol::{ids::AgentId, signature::PresentedSignature};
use std::{
    io::{Read, Write},
    net::TcpListener,
    thread,
};

/// Answers one request with `answer`; the thread returns the request.
fn serve_once(answer: &'static [u8]) -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut chunk = [0; 4096];
        while !request.ends_with(b"{}") && !request.ends_with(b"\r\n\r\n") {
            let count = socket.read(&mut chunk).unwrap();
            request.extend_from_slice(&chunk[..count]);
        }
        socket.write_all(answer).unwrap();
        String::from_utf8(request).unwrap()
    });
    (url, served)
}

fn client() -> HttpClient {
    let keys = ring(&["planner-01"]);
    for known in ["builder-01", "b", "r", "board", "registry"] {
        keys.set_pinned(identity(known).public().clone(), 1);
    }
    let signer = Signer { keys, me: AgentId::parse("planner-01").unwrap() };
    let limits = HttpClientLimits {
        silence: Duration::from_millis(50),
        max_answer_bytes: 64,
        ..HttpClientLimits::default()
    };
    HttpClient::new(Some(signer), limits).unwrap()
}

fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    request
        .lines()
        .find_map(|line| line.split_once(": ").filter(|(n, _)| n.eq_ignore_ascii_case(name)))
        .map(|l| l.1)
}

#[tokio::test]
async fn a_request_carries_a_valid_signature() {
    let (url, served) = serve_once(b"HTTP/1.1 202 Accepted\r\ncontent-length: 12\r\n\r\n{\"got\":true}");
    let url = format!("{url}/a2a/messages?x=1");
    let call = ClientRequest::post(&url, "builder-01", Bytes::from_static(b"{}")).message_id("m-1");
    let answer: serde_json::Value = client().json(call).await.unwrap();
    assert_eq!(answer["got"], true);

    let request = served.join().unwrap();
    let parts = SignedParts {
        method: "POST",
        path_and_query: "/a2a/messages?x=1",
        recipient: header(&request, "mesh-recipient").unwrap(),
        message_id: header(&request, "mesh-message-id"),
        digest: Digest::of(b"{}"),
    };
    let presented = PresentedSignature {
        content_digest: header(&request, "content-digest"),
        signature_input: header(&request, "signature-input"),
        signature: header(&request, "signature"),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let keys = ring(&["builder-01"]);
    keys.set_pinned(identity("planner-01").public().clone(), 1);
    let proven = keys.verify_request(&parts, &presented, now);
    assert_eq!(proven.unwrap().agent().as_str(), "planner-01");
}

#[tokio::test]
async fn a_refusal_is_returned_as_the_problem_that_was_sent() {
    let (url, _served) = serve_once(
        b"HTTP/1.1 503 Busy\r\nretry-after: 7\r\ncontent-length: 25\r\n\r\n{\"reasonCode\":\"draining\"}",
    );
    let problem = client().bytes(ClientRequest::get(&url, "b")).await.unwrap_err();
    assert_eq!((problem.reason, problem.retry_after), (Reason::Draining, Some(Duration::from_secs(7))));
    assert!(!is_unreachable(&problem));
}

#[tokio::test]
async fn unreachable_late_and_too_long_answers_are_distinguished() {
    let unbound = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{unbound}/");
    assert!(is_unreachable(&client().bytes(ClientRequest::get(&url, "b")).await.unwrap_err()));

    let registry = client().with_unreachable_reason(Reason::RegistryUnavailable);
    assert_eq!(
        registry.bytes(ClientRequest::get(&url, "r")).await.unwrap_err().reason,
        Reason::RegistryUnavailable
    );

    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let late =
        client().bytes(ClientRequest::get(&url, "b").within(Duration::from_millis(30))).await.unwrap_err();
    assert_eq!(late.reason, Reason::GatewayTimeout);

    let (url, _served) = serve_once(b"HTTP/1.1 200 OK\r\ncontent-length: 70\r\n\r\n0123456789012345678901234567890123456789012345678901234567890123456789");
    assert!(client().bytes(ClientRequest::get(&url, "b")).await.unwrap_err().message.contains("64 bytes"));
}

#[tokio::test]
async fn redirects_are_not_followed_and_no_header_can_be_smuggled() {
    let (url, _served) =
        serve_once(b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n");
    assert_eq!(client().send(ClientRequest::get(&url, "b")).await.unwrap().status(), 302);
    let smuggled = ClientRequest::get("http://127.0.0.1:1/", "b\r\nx-admin: 1");
    assert_eq!(client().send(smuggled).await.unwrap_err().reason, Reason::InvalidField);
}

#[tokio::test]
async fn a_stream_is_read_incrementally_and_ends_after_silence() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (done, wait) = std::sync::mpsc::channel::<()>();
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        assert!(socket.read(&mut [0; 4096]).unwrap() > 0);
        socket.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\nid: 1\n\r\n").unwrap();
        let _ = wait.recv();
    });
    let mut events = Box::pin(client().events(ClientRequest::get(&url, "board")).await.unwrap());
    assert_eq!(events.next().await.unwrap().unwrap(), "id: 1\n");
    assert_eq!(events.next().await.unwrap().unwrap_err().reason, Reason::GatewayTimeout);
    assert!(events.next().await.is_none());
    drop(done);
}

#[tokio::test]
async fn credentials_in_a_url_are_sent_as_basic_authentication_and_never_reported() {
    let (url, served) = serve_once(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
    let url = format!("{}/services", url.replace("http://", "http://me:s3cret@"));
    client().bytes(ClientRequest::get(&url, "registry")).await.unwrap();
    let request = served.join().unwrap();
    assert_eq!(header(&request, "authorization"), Some("Basic bWU6czNjcmV0"));
    assert!(request.starts_with("GET /services HTTP/1.1\r\n"), "{request}");

    for url in ["http://me:s3cret@127.0.0.1:1/", "http://%FF:s3cret@127.0.0.1:1/", "http://me:s3cret@x:y/"] {
        let problem = client().bytes(ClientRequest::get(url, "registry")).await.unwrap_err();
        assert!(!problem.message.contains("s3cret"), "{}", problem.message);
    }
}
