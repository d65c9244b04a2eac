//! Heads that are none, or that do not come: the connection ends, in our words, and nobody else notices.

use super::harness::{Peer, Reply, Served, front, refused, serve};
use std::io::Read;

fn quick() -> Served {
    let mut front = front();
    front.limits.head_ms = 1_000;
    front.keep_alive = std::time::Duration::from_secs(1);
    serve(front)
}

/// All that comes until the other side closes.
fn rest(peer: &mut Peer) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = peer.0.read(&mut chunk) {
        bytes.extend_from_slice(&chunk[..count]);
    }
    bytes
}

#[test]
fn what_is_no_http_is_refused_in_our_shape_and_closed() {
    let served = quick();
    for garbage in [
        "hello\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET /bare HTTP/1.1\r\nhost localhost\r\n\r\n",
        "GET /bare HTTP/1.1\r\nhost: localhost\r\ncontent-length: ten\r\n\r\n",
        "POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
        "POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}",
        "GET /b\u{1}are HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}",
    ] {
        let mut peer = served.peer();
        peer.write(garbage.as_bytes());
        let reply = Reply::read(&rest(&mut peer)).unwrap_or_else(|| panic!("no answer to {garbage:?}"));
        assert_eq!(reply.refusal(), refused(400, "bad_request"), "{garbage:?}");
        assert_eq!(reply.header("connection"), Some("close"), "{garbage:?}");
    }
    assert_eq!(served.ask("GET", "/bare", "", b"").status, 200, "others are served");
}

#[test]
fn a_first_head_that_stops_is_told_so() {
    let served = quick();
    let mut peer = served.peer();
    peer.write(b"GET /bare HTTP/1.1\r\nhost: local");
    assert_eq!(Reply::read(&rest(&mut peer)).unwrap().refusal(), refused(408, "request_timeout"));
}

#[test]
fn a_later_head_that_stops_is_told_so_however_it_came() {
    let served = quick();
    let mut after = served.peer();
    after.send("GET", "/bare", "", b"");
    assert_eq!(after.reply().status, 200);
    after.write(b"GET /bare HTTP/1.1\r\nhost: local");
    assert_eq!(Reply::read(&rest(&mut after)).unwrap().refusal(), refused(408, "request_timeout"));

    let mut together = served.peer();
    together.write(b"GET /bare HTTP/1.1\r\nhost: localhost\r\n\r\nGET /bare HTTP/1.1\r\nhost: local");
    assert_eq!(together.reply().status, 200);
    assert!(together.is_closed());

    let mut dripping = served.peer();
    dripping.send("POST", "/echo", "content-type: application/json\r\n", b"{}");
    assert_eq!(dripping.reply().status, 200);
    dripping.0.set_read_timeout(Some(std::time::Duration::from_millis(20))).unwrap();
    let started = std::time::Instant::now();
    let mut heard = Vec::new();
    while started.elapsed() < super::harness::PATIENCE && Reply::read(&heard).is_none() {
        dripping.write(b"G");
        let mut chunk = [0; 1024];
        let count = dripping.0.read(&mut chunk).unwrap_or(0);
        heard.extend_from_slice(&chunk[..count]);
    }
    assert_eq!(Reply::read(&heard).expect("an answer").refusal(), refused(408, "request_timeout"));
}

#[test]
fn a_head_without_end_is_cut() {
    let served = quick();
    let mut peer = served.peer();
    peer.write(b"GET /bare HTTP/1.1\r\nhost: localhost\r\nx: ");
    for _ in 0..40 {
        peer.write(&[b'x'; 8 * 1024]);
    }
    // What was not read may make the kernel take the answer back; that the connection ends is what counts.
    if let Some(reply) = Reply::read(&rest(&mut peer)) {
        assert_eq!(reply.refusal(), refused(431, "head_too_large"));
    }
    assert!(peer.is_closed());
    assert_eq!(served.ask("GET", "/bare", "", b"").status, 200, "others are served");
}

#[test]
fn a_slow_answer_and_a_stream_are_not_cut_while_they_last() {
    let served = quick();
    let mut held = served.peer();
    held.write(b"POST /hold HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{");
    std::thread::sleep(std::time::Duration::from_millis(50));
    held.write(b"}");
    served.begun.recv_timeout(super::harness::PATIENCE).unwrap();
    let mut stream = served.peer();
    stream.send("GET", "/stream", "", b"");
    assert_eq!(stream.reply().status, 200);
    // Longer than a head may take and a connection may idle.
    let mut late = served.peer();
    late.send("GET", "/bare", "", b"");
    assert_eq!(late.reply().status, 200);
    assert!(late.is_closed());
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    served.may_end.add_permits(1);
    assert_eq!(held.reply().status, 200);
    stream.0.set_nonblocking(true).unwrap();
    let mut chunk = [0; 64];
    let lives = match stream.0.read(&mut chunk) {
        Ok(count) => count > 0,
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    };
    assert!(lives, "a stream outlives the time for a head");
}

#[test]
fn content_that_looks_like_such_an_answer_is_sent_as_it_is() {
    let served = quick();
    for size in [0, 1, 4 * 1024, 32 * 1024 - 1, 32 * 1024, 200_000, 5_000_000] {
        let mut peer = served.peer();
        for _ in 0..2 {
            peer.send("GET", &format!("/alike/{size}"), "", b"");
            let reply = peer.reply();
            assert_eq!(reply.status, 200);
            assert_eq!(reply.body, super::harness::alike(size), "{size}");
        }
    }
}
