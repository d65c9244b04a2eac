use super::harness::{PATIENCE, front, refused, serve};
use crate::http::edge::Front;
use protocol::limits::Limits;

fn narrow() -> Front {
    let front = front();
    Front { limits: Limits { max_in_flight: 1, ..front.limits.clone() }, ..front }
}

#[test]
fn a_full_node_says_so_and_when_to_come_back() {
    let served = serve(narrow());
    let mut held = served.peer();
    held.send("GET", "/hold", "", b"");
    served.begun.recv_timeout(PATIENCE).unwrap();
    let refusal = served.ask("GET", "/bare", "", b"");
    assert_eq!(refusal.refusal(), refused(503, "overloaded"));
    assert_eq!(refusal.header("retry-after"), Some("1"));
    served.may_end.add_permits(1);
    assert_eq!(held.reply().status, 200);
    assert_eq!(served.ask("GET", "/bare", "", b"").status, 200);
}

#[test]
fn a_stream_and_a_waiting_request_keep_nobody_out() {
    let served = serve(narrow());
    let mut streaming = served.peer();
    streaming.send("GET", "/stream", "", b"");
    assert_eq!(streaming.reply().status, 200);
    let mut waiting = served.peer();
    waiting.send("GET", "/wait", "prefer: wait=30\r\n", b"");
    served.begun.recv_timeout(PATIENCE).unwrap();
    assert_eq!(served.ask("GET", "/bare", "", b"").status, 200);
    served.may_end.add_permits(1);
    assert_eq!(waiting.reply().status, 200);
}

#[test]
fn a_client_that_leaves_gives_its_place_back() {
    let served = serve(narrow());
    let mut held = served.peer();
    held.send("GET", "/hold", "", b"");
    served.begun.recv_timeout(PATIENCE).unwrap();
    drop(held);
    let start = std::time::Instant::now();
    while served.ask("GET", "/bare", "", b"").status != 200 {
        assert!(start.elapsed() < PATIENCE, "the place is lost");
    }
}

#[test]
fn bodies_in_pieces_share_a_bounded_memory() {
    let served = serve(Front { max_buffered_bytes: 100_000, ..front() });
    let json = [b' '; 200_000];
    let mut peer = served.peer();
    peer.send("POST", "/echo", "content-type: application/json\r\n", &json);
    assert_eq!(peer.reply().refusal(), refused(503, "overloaded"));
    assert_eq!(served.post(b"{}").status, 200);
    assert_eq!(served.post(&[&[b' '; 50_000][..], b"1"].concat()).status, 200, "what was held is given back");
}

#[test]
fn a_panicking_handler_is_a_500_and_the_server_lives_on() {
    let served = serve(narrow());
    let mut peer = served.peer();
    for _ in 0..3 {
        peer.send("GET", "/panic", "", b"");
        assert_eq!(peer.reply().refusal(), refused(500, "internal"));
        peer.send("GET", "/bare", "", b"");
        assert_eq!(peer.reply().status, 200);
    }
}
