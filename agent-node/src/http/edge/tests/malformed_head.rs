//! Malformed and stalled heads: the connection closes after an error in the mesh's format; others are unaffected.

use super::harness::{Peer, Reply, TestServer, refused, serve, test_config};
use std::io::Read;

fn quick() -> TestServer {
    let mut config = test_config();
    config.limits.head_ms = 1_000;
    config.keep_alive = std::time::Duration::from_secs(1);
    serve(config)
}

/// Reads until the other side closes.
fn rest(peer: &mut Peer) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = peer.0.read(&mut chunk) {
        bytes.extend_from_slice(&chunk[..count]);
    }
    bytes
}

#[test]
fn malformed_http_is_refused_in_the_mesh_format_and_closed() {
    let server = quick();
    for garbage in [
        "hello\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET /bare HTTP/1.1\r\nhost localhost\r\n\r\n",
        "GET /bare HTTP/1.1\r\nhost: localhost\r\ncontent-length: ten\r\n\r\n",
        "POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
        "POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}",
        "GET /b\u{1}are HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET /bare HTTP/1.1\nhost: localhost\n\n",
        "GET /bare HTTP/1.1\r\nhost: localhost\nx: y\r\n\r\n",
        "POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}",
    ] {
        let mut peer = server.peer();
        peer.write(garbage.as_bytes());
        let reply = Reply::read(&rest(&mut peer)).unwrap_or_else(|| panic!("no answer to {garbage:?}"));
        assert_eq!(reply.refusal(), refused(400, "bad_request"), "{garbage:?}");
        assert_eq!(reply.header("connection"), Some("close"), "{garbage:?}");
    }
    assert_eq!(server.ask("GET", "/bare", "", b"").status, 200, "others are served");
}

#[test]
fn a_bare_lf_ends_no_line_of_a_later_head() {
    let server = quick();
    let post = "POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 4\r\n\r\n{\n\n}";
    let mut sequential = server.peer();
    for _ in 0..2 {
        sequential.write(post.as_bytes());
        assert_eq!(sequential.reply().status, 200, "a body may have any line ends");
    }
    sequential.write(b"GET /bare HTTP/1.1\nhost: localhost\r\n\r\n");
    assert_eq!(Reply::read(&rest(&mut sequential)).unwrap().refusal(), refused(400, "bad_request"));
    let mut pipelined = server.peer();
    pipelined.write([post, "GET /bare HTTP/1.1\r\nhost: localhost\n\r\n"].concat().as_bytes());
    let all = String::from_utf8_lossy(&rest(&mut pipelined)).into_owned();
    assert!(all.matches("HTTP/1.1 200").count() <= 1, "{all}");
}

#[test]
fn a_stalled_first_head_answers_408() {
    let server = quick();
    let mut peer = server.peer();
    peer.write(b"GET /bare HTTP/1.1\r\nhost: local");
    assert_eq!(Reply::read(&rest(&mut peer)).unwrap().refusal(), refused(408, "request_timeout"));
}

#[test]
fn a_stalled_later_head_answers_408() {
    let server = quick();
    let mut sequential = server.peer();
    sequential.send("GET", "/bare", "", b"");
    assert_eq!(sequential.reply().status, 200);
    sequential.write(b"GET /bare HTTP/1.1\r\nhost: local");
    assert_eq!(Reply::read(&rest(&mut sequential)).unwrap().refusal(), refused(408, "request_timeout"));

    let mut pipelined = server.peer();
    pipelined.write(b"GET /bare HTTP/1.1\r\nhost: localhost\r\n\r\nGET /bare HTTP/1.1\r\nhost: local");
    assert_eq!(pipelined.reply().status, 200);
    assert!(pipelined.is_closed());

    let mut dripping = server.peer();
    dripping.send("POST", "/echo", "content-type: application/json\r\n", b"{}");
    assert_eq!(dripping.reply().status, 200);
    dripping.0.set_read_timeout(Some(std::time::Duration::from_millis(20))).unwrap();
    let started = std::time::Instant::now();
    let mut received = Vec::new();
    while started.elapsed() < super::harness::DEADLINE && Reply::read(&received).is_none() {
        dripping.write(b"G");
        let mut chunk = [0; 1024];
        let count = dripping.0.read(&mut chunk).unwrap_or(0);
        received.extend_from_slice(&chunk[..count]);
    }
    assert_eq!(Reply::read(&received).expect("an answer").refusal(), refused(408, "request_timeout"));
}

#[test]
fn an_endless_head_is_refused() {
    let server = quick();
    let mut peer = server.peer();
    peer.write(b"GET /bare HTTP/1.1\r\nhost: localhost\r\nx: ");
    for _ in 0..40 {
        peer.write(&[b'x'; 8 * 1024]);
    }
    // Unread input may make the kernel drop the answer; the connection must close all the same.
    if let Some(reply) = Reply::read(&rest(&mut peer)) {
        assert_eq!(reply.refusal(), refused(431, "head_too_large"));
    }
    assert!(peer.is_closed());
    assert_eq!(server.ask("GET", "/bare", "", b"").status, 200, "others are served");
}

#[test]
fn a_slow_answer_and_a_stream_do_not_time_out() {
    let server = quick();
    let mut holding = server.peer();
    holding.write(b"POST /hold HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{");
    std::thread::sleep(std::time::Duration::from_millis(50));
    holding.write(b"}");
    server.started.recv_timeout(super::harness::DEADLINE).unwrap();
    let mut stream = server.peer();
    stream.send("GET", "/stream", "", b"");
    assert_eq!(stream.reply().status, 200);
    // Longer than the head timeout and the idle timeout.
    let mut late = server.peer();
    late.send("GET", "/bare", "", b"");
    assert_eq!(late.reply().status, 200);
    assert!(late.is_closed());
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    server.may_end.add_permits(1);
    assert_eq!(holding.reply().status, 200);
    stream.0.set_nonblocking(true).unwrap();
    let mut chunk = [0; 64];
    let lives = match stream.0.read(&mut chunk) {
        Ok(count) => count > 0,
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    };
    assert!(lives, "a stream outlives the head timeout");
}

#[test]
fn content_that_resembles_an_actix_error_is_not_replaced() {
    let server = quick();
    for size in [0, 1, 4 * 1024, 32 * 1024 - 1, 32 * 1024, 200_000, 5_000_000] {
        let mut peer = server.peer();
        for _ in 0..2 {
            peer.send("GET", &format!("/alike/{size}"), "", b"");
            let reply = peer.reply();
            assert_eq!(reply.status, 200);
            assert_eq!(reply.body, super::harness::actix_like_bytes(size), "{size}");
        }
    }
}
