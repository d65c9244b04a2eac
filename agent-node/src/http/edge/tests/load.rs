use super::harness::{DEADLINE, refused, serve, test_config};
use crate::{
    callers::{Callers, ConfiguredCaller, Credential},
    http::{connections::ConnectionLimits, edge::HttpServerConfig},
};
use protocol::{ids::AgentId, limits::Limits};

fn one_at_a_time() -> HttpServerConfig {
    let config = test_config();
    let limits = Limits { max_in_flight: 1, ..config.limits.clone() };
    // However slow the machine is, no connection is idle for so long.
    HttpServerConfig { limits, keep_alive: DEADLINE, ..config }
}

#[test]
fn an_overloaded_node_answers_503_with_retry_after() {
    let server = serve(one_at_a_time());
    let mut holding = server.peer();
    holding.send("GET", "/hold", "", b"");
    server.started.recv_timeout(DEADLINE).unwrap();
    let refusal = server.ask("GET", "/bare", "", b"");
    assert_eq!(refusal.refusal(), refused(503, "overloaded"));
    assert_eq!(refusal.header("retry-after"), Some("1"));
    server.may_end.add_permits(1);
    assert_eq!(holding.reply().status, 200);
    assert_eq!(server.ask("GET", "/bare", "", b"").status, 200);
}

#[test]
fn a_stream_and_a_waiting_request_hold_no_permit() {
    let server = serve(one_at_a_time());
    let mut streaming = server.peer();
    streaming.send("GET", "/stream", "", b"");
    assert_eq!(streaming.reply().status, 200);
    let mut waiting = server.peer();
    waiting.send("GET", "/wait", "prefer: wait=30\r\n", b"");
    server.started.recv_timeout(DEADLINE).unwrap();
    assert_eq!(server.ask("GET", "/bare", "", b"").status, 200);
    server.may_end.add_permits(1);
    assert_eq!(waiting.reply().status, 200);
}

#[test]
fn a_client_that_disconnects_releases_its_permit() {
    let server = serve(one_at_a_time());
    let mut holding = server.peer();
    holding.send("GET", "/hold", "", b"");
    server.started.recv_timeout(DEADLINE).unwrap();
    drop(holding);
    let start = std::time::Instant::now();
    while server.ask("GET", "/bare", "", b"").status != 200 {
        assert!(start.elapsed() < DEADLINE, "the permit is lost");
    }
}

#[test]
fn chunked_bodies_share_a_memory_budget() {
    let server = serve(HttpServerConfig { max_buffered_bytes: 100_000, ..test_config() });
    let json = [b' '; 200_000];
    let mut peer = server.peer();
    peer.send("POST", "/echo", "content-type: application/json\r\n", &json);
    assert_eq!(peer.reply().refusal(), refused(503, "overloaded"));
    assert_eq!(server.post(b"{}").status, 200);
    assert_eq!(server.post(&[&[b' '; 50_000][..], b"1"].concat()).status, 200, "the reservation is released");
}

#[test]
fn a_wrong_credential_is_refused_before_its_body_is_read() {
    let server = serve(test_config());
    for credential in [
        "x-api-key: nobodys-own-key-0001",
        "authorization: Bearer nobodys-own-token-0001",
        "signature: mesh=:AA==:\r\nsignature-input: mesh=()",
    ] {
        let mut peer = server.peer();
        let head = format!(
            "POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 200000\r\n{credential}\r\n\r\n"
        );
        peer.write(head.as_bytes());
        assert_eq!(peer.reply().refusal(), refused(401, "unauthenticated"), "{credential}");
    }
}

#[test]
fn bodies_that_prove_nothing_do_not_use_the_budget_of_others() {
    let config = test_config();
    let budgets = HttpServerConfig {
        limits: Limits { body_ms: 60_000, ..config.limits.clone() },
        max_buffered_bytes: 400_000,
        max_unproven_bytes: 500_000,
        max_unproven_bytes_per_address: 400_000,
        ..config
    };
    let server = serve(budgets);
    // A callback needs no credential of a caller; its token is in its handler's care.
    let (path, kind) = ("/a2a/hooks/x", "content-type: application/json\r\n");
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 240001\r\n{kind}\r\n");
    let mut holding = server.peer();
    holding.write(&[head.as_bytes(), &[b' '; 240_000]].concat());
    let start = std::time::Instant::now();
    loop {
        let mut second = server.peer();
        second.send("POST", path, kind, &[b' '; 200_000]);
        let answer = second.reply().refusal();
        if answer == refused(503, "overloaded") {
            break;
        }
        assert_eq!(answer, refused(404, "route_not_found"));
        assert!(start.elapsed() < DEADLINE, "the share of the address has no limit");
    }
    assert_eq!(server.post(&[&[b' '; 200_000][..], b"1"].concat()).status, 200, "others are not concerned");
}

#[test]
fn one_caller_does_not_use_the_whole_budget_of_bodies() {
    let anna = ConfiguredCaller {
        user: AgentId::parse("anna").unwrap(),
        credential: Credential::ApiKey("annas-own-key-0001".into()),
    };
    let config = test_config();
    let server = serve(HttpServerConfig {
        auth: config.auth.clone().with_callers(Callers::new(&[anna])),
        limits: Limits { body_ms: 60_000, max_rate_per_second: 100_000, ..config.limits.clone() },
        max_buffered_bytes: 600_000,
        max_buffered_bytes_per_caller: 400_000,
        ..config
    });
    let annas = "content-type: application/json\r\nx-api-key: annas-own-key-0001\r\n";
    let head = format!("POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 240001\r\n{annas}\r\n");
    let mut holding = server.peer();
    holding.write(&[head.as_bytes(), &[b' '; 240_000]].concat());
    let start = std::time::Instant::now();
    loop {
        let mut second = server.peer();
        second.send("POST", "/echo", annas, &[&[b' '; 200_000][..], b"1"].concat());
        let reply = second.reply();
        if reply.status != 200 {
            assert_eq!(reply.refusal(), refused(503, "overloaded"));
            assert!(String::from_utf8_lossy(&reply.body).contains("user:anna"), "{reply:?}");
            break;
        }
        assert!(start.elapsed() < DEADLINE, "the share of the caller has no limit");
    }
    assert_eq!(server.post(&[&[b' '; 200_000][..], b"1"].concat()).status, 200, "others are not concerned");
}

#[test]
fn slow_bodies_without_a_credential_lock_nobody_out() {
    let config = test_config();
    let server = serve(HttpServerConfig {
        limits: Limits { body_ms: 60_000, ..config.limits.clone() },
        body_grace: std::time::Duration::from_secs(60),
        connections: ConnectionLimits::of_open_files(Some(0)),
        keep_alive: DEADLINE,
        ..config
    });
    let slow: Vec<_> = (0..40)
        .map(|_| {
            let mut peer = server.peer();
            peer.write(b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 20\r\n\r\n ");
            peer
        })
        .collect();
    for _ in 0..40 {
        assert_eq!(server.post(b"{}").status, 200);
    }
    drop(slow);
}

#[test]
fn a_panicking_handler_answers_500_and_the_server_survives() {
    let server = serve(one_at_a_time());
    let mut peer = server.peer();
    for _ in 0..3 {
        peer.send("GET", "/panic", "", b"");
        assert_eq!(peer.reply().refusal(), refused(500, "internal"));
        peer.send("GET", "/bare", "", b"");
        assert_eq!(peer.reply().status, 200);
    }
}
