use super::harness::{DEADLINE, Reply, refused, serve, test_config};
use std::{
    io::{Read, Write},
    time::{Duration, Instant},
};

const HEAD: &[u8] =
    b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 4000\r\n\r\n";

#[test]
fn a_stalled_body_times_out() {
    let server = serve(test_config());
    let mut peer = server.peer();
    peer.write(HEAD);
    peer.write(b"{");
    let start = Instant::now();
    assert_eq!(peer.reply().refusal(), refused(408, "request_timeout"));
    assert!(start.elapsed() < Duration::from_secs(2));
    assert!(peer.is_closed());
}

#[test]
fn a_slow_body_times_out() {
    let server = serve(test_config());
    let mut peer = server.peer();
    peer.write(HEAD);
    peer.0.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let (start, mut received) = (Instant::now(), Vec::new());
    while start.elapsed() < DEADLINE && Reply::read(&received).is_none() {
        let _ = peer.0.write_all(b" ");
        let mut piece = [0; 4096];
        let count = peer.0.read(&mut piece).unwrap_or(0);
        received.extend_from_slice(&piece[..count]);
    }
    assert_eq!(Reply::read(&received).expect("an answer").refusal(), refused(408, "request_timeout"));
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_body_at_the_minimum_rate_times_out_at_its_deadline() {
    let config = test_config();
    let limits = protocol::limits::Limits { body_ms: 400, ..config.limits.clone() };
    let server = serve(crate::http::edge::HttpServerConfig { limits, min_body_rate: 10, ..config });
    let mut peer = server.peer();
    peer.write(HEAD);
    peer.write(&[b' '; 100]);
    let start = Instant::now();
    assert_eq!(peer.reply().refusal(), refused(408, "request_timeout"));
    assert!(start.elapsed() >= Duration::from_millis(300), "received bytes extend the time");
}

#[test]
fn a_stalled_head_times_out_and_an_idle_connection_is_closed() {
    let mut config = test_config();
    config.limits.head_ms = 1_000;
    let server = serve(config);
    let mut peer = server.peer();
    peer.write(b"GET /bare HTTP/1.1\r\nhost: local");
    assert!(peer.is_closed());

    let mut peer = server.peer();
    peer.send("GET", "/bare", "", b"");
    assert_eq!(peer.reply().status, 200);
    assert!(peer.is_closed());
}
