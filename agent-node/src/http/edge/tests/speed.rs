use super::harness::{PATIENCE, Reply, front, refused, serve};
use std::{
    io::{Read, Write},
    time::{Duration, Instant},
};

const HEAD: &[u8] =
    b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 4000\r\n\r\n";

#[test]
fn a_body_that_stops_is_cut() {
    let served = serve(front());
    let mut peer = served.peer();
    peer.write(HEAD);
    peer.write(b"{");
    let start = Instant::now();
    assert_eq!(peer.reply().refusal(), refused(408, "request_timeout"));
    assert!(start.elapsed() < Duration::from_secs(2));
    assert!(peer.is_closed());
}

#[test]
fn a_body_that_drips_is_cut() {
    let served = serve(front());
    let mut peer = served.peer();
    peer.write(HEAD);
    peer.0.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let (start, mut heard) = (Instant::now(), Vec::new());
    while start.elapsed() < PATIENCE && Reply::read(&heard).is_none() {
        let _ = peer.0.write_all(b" ");
        let mut piece = [0; 4096];
        let count = peer.0.read(&mut piece).unwrap_or(0);
        heard.extend_from_slice(&piece[..count]);
    }
    assert_eq!(Reply::read(&heard).expect("an answer").refusal(), refused(408, "request_timeout"));
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_body_at_the_least_rate_is_cut_at_its_deadline() {
    let front = front();
    let limits = protocol::limits::Limits { body_ms: 400, ..front.limits.clone() };
    let served = serve(crate::http::edge::Front { limits, min_body_rate: 10, ..front });
    let mut peer = served.peer();
    peer.write(HEAD);
    peer.write(&[b' '; 100]);
    let start = Instant::now();
    assert_eq!(peer.reply().refusal(), refused(408, "request_timeout"));
    assert!(start.elapsed() >= Duration::from_millis(300), "the bytes that came earned it time");
}

#[test]
fn a_head_that_stops_is_cut_and_an_idle_connection_is_closed() {
    let mut front = front();
    front.limits.head_ms = 1_000;
    let served = serve(front);
    let mut peer = served.peer();
    peer.write(b"GET /bare HTTP/1.1\r\nhost: local");
    assert!(peer.is_closed());

    let mut peer = served.peer();
    peer.send("GET", "/bare", "", b"");
    assert_eq!(peer.reply().status, 200);
    assert!(peer.is_closed());
}
