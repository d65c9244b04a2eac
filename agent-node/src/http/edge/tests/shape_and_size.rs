use super::harness::{Peer, Reply, refused, serve, test_config};
use std::{io::Read, time::Duration};

const JSON: &str = "content-type: application/json\r\n";

#[test]
fn browsers_and_foreign_hosts_are_refused() {
    let server = serve(test_config());
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1:80", "[::1]:8000"] {
        assert_eq!(server.ask("GET", "/bare", &format!("host: {host}\r\n"), b"").status, 200, "{host}");
    }
    for headers in [
        "host: evil.example\r\n",
        "host: localhost.evil.example:8000\r\n",
        "host: localhost\r\norigin: http://localhost\r\n",
        "host: localhost\r\norigin: null\r\n",
    ] {
        assert_eq!(
            server.ask("GET", "/bare", headers, b"").refusal(),
            refused(403, "foreign_origin"),
            "{headers}"
        );
    }
    let absolute = server.ask("GET", "http://evil.example/bare", "host: localhost\r\n", b"");
    assert_eq!(absolute.refusal(), refused(403, "foreign_origin"));
    let two = server.ask("GET", "/bare", "host: localhost\r\nhost: localhost\r\n", b"");
    assert_eq!(two.status, 400);
    assert_eq!(
        server.ask("OPTIONS", "/echo", "origin: http://a\r\n", b"").refusal(),
        refused(403, "foreign_origin")
    );
}

#[test]
fn only_uncompressed_json_is_accepted_except_for_artifacts() {
    let server = serve(test_config());
    for headers in [
        "content-type: text/plain\r\n",
        "content-type: application/x-www-form-urlencoded\r\n",
        "content-type: application/jsonp\r\n",
        "",
        "content-type: application/json\r\ncontent-encoding: gzip\r\n",
        "content-type: application/json\r\ncontent-encoding: br\r\n",
        "content-type: application/json\r\ncontent-encoding: identity, gzip\r\n",
        "content-type: application/json\r\ncontent-encoding: identity\r\ncontent-encoding: gzip\r\n",
    ] {
        let reply = server.ask("POST", "/echo", headers, b"{}");
        assert_eq!(reply.refusal(), refused(415, "unsupported_media_type"), "{headers}");
    }
    for headers in ["content-type: Application/JSON; charset=utf-8\r\ncontent-encoding: identity\r\n", JSON] {
        assert_eq!(server.ask("POST", "/echo", headers, b"{}").status, 200, "{headers}");
    }
    let artifact = server.ask("PUT", "/a2a/artifacts", "content-type: image/png\r\n", &vec![7; 300 * 1024]);
    assert_eq!(artifact.json()["bytes"], 300 * 1024);
}

#[test]
fn the_size_limit_counts_bytes_and_the_refusal_names_it() {
    let server = serve(test_config());
    let text =
        |bytes: usize| format!("\"{}{}\"", "ä".repeat((bytes - 2) / 2), "x".repeat(bytes % 2)).into_bytes();
    assert_eq!(server.post(&text(256 * 1024)).json()["bytes"], 256 * 1024);
    for bytes in [256 * 1024 + 1, 257 * 1024] {
        let reply = server.post(&text(bytes));
        assert_eq!(reply.refusal(), refused(413, "payload_too_large"));
        assert!(reply.json()["error"]["message"].as_str().unwrap().contains("262144"));
    }
    let mut peer = server.peer();
    peer.write(b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9999999999\r\n\r\n{");
    assert_eq!(peer.reply().refusal(), refused(413, "payload_too_large"));
    assert!(peer.is_closed());
}

#[test]
fn an_endless_body_is_refused_at_the_limit() {
    let server = serve(test_config());
    let mut peer = server.peer();
    peer.write(b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n");
    peer.0.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let chunk = [&b"4000\r\n"[..], &[b' '; 0x4000], b"\r\n"].concat();
    let (mut received, mut closed) = (Vec::new(), false);
    let start = std::time::Instant::now();
    while !closed && start.elapsed() < super::harness::DEADLINE {
        closed = std::io::Write::write_all(&mut peer.0, &chunk).is_err();
        let mut piece = [0; 4096];
        if let Ok(count) = peer.0.read(&mut piece) {
            closed |= count == 0;
            received.extend_from_slice(&piece[..count]);
        }
    }
    assert_eq!(Reply::read(&received).expect("an answer").refusal(), refused(413, "payload_too_large"));
    assert!(closed, "the connection must end");
}

#[test]
fn a_chunked_body_within_the_limit_is_accepted() {
    let server = serve(test_config());
    let mut peer = server.peer();
    peer.send("POST", "/echo", &format!("{JSON}transfer-encoding: chunked\r\n"), b"");
    peer.write(b"3\r\n[1,\r\n2\r\n2]\r\n0\r\n\r\n");
    assert_eq!(peer.reply().json()["bytes"], 5);
    peer.send("POST", "/echo", JSON, b"{}");
    assert_eq!(peer.reply().status, 200, "the connection stays open");
}

#[test]
fn hostile_json_is_refused_as_malformed() {
    let server = serve(test_config());
    let deep = |levels: usize| [vec![b'['; levels], vec![b']'; levels]].concat();
    assert_eq!(server.post(&deep(32)).status, 200);
    for bad in [
        deep(33),
        deep(129),
        deep(100_000),
        b"{\"a\":1,\"a\":2}".to_vec(),
        b"\"\xff\"".to_vec(),
        b"{}x".to_vec(),
    ] {
        assert_eq!(server.post(&bad).refusal(), refused(400, "malformed_json"));
    }
}

#[test]
fn every_error_has_the_same_format() {
    let server = serve(test_config());
    let wrong_method = server.ask("DELETE", "/echo", "", b"");
    assert_eq!(wrong_method.refusal(), refused(405, "method_not_allowed"));
    assert_eq!(wrong_method.header("allow"), Some("GET, HEAD, POST"));
    for (method, path, expected) in [
        ("POST", "/bare", refused(405, "method_not_allowed")),
        ("GET", "/nowhere", refused(404, "route_not_found")),
        ("GET", "/a2a/../etc/passwd", refused(404, "route_not_found")),
        ("GET", "/%2e%2e/%00", refused(404, "route_not_found")),
        ("GET", "/number/x", refused(400, "invalid_field")),
        ("GET", "/number/256", refused(400, "invalid_field")),
        ("GET", "/number/1?a=b", refused(400, "invalid_field")),
        ("GET", "/teapot", refused(400, "bad_request")),
    ] {
        let reply = server.ask(method, path, "", b"");
        assert_eq!(reply.refusal(), expected, "{method} {path}");
    }
}

#[test]
fn request_text_never_becomes_a_response_header() {
    let server = serve(test_config());
    let reply = server.ask("GET", "/x%0d%0aset-cookie:%20a=b?y=%0d%0aset-cookie:%20a=b", "", b"");
    assert_eq!(reply.refusal(), refused(404, "route_not_found"));
    assert_eq!(reply.header("set-cookie"), None);
}

#[test]
fn malformed_http_is_refused_and_others_are_served() {
    let server = serve(test_config());
    let huge = format!("GET /bare HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "a".repeat(200_000));
    let many = format!("GET /bare HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x: y\r\n".repeat(1_000));
    for bytes in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /bare HTTP/1.1\r\nhost: localhost\r\n folded: x\r\n\r\n",
        b"GET /bare HTTP/1.1\r\nhost : localhost\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"CONNECT evil.example:80 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        huge.as_bytes(),
        many.as_bytes(),
    ] {
        let mut peer = server.peer();
        peer.write(bytes);
        let reply = peer.reply();
        assert!((400..500).contains(&reply.status), "{reply:?}");
    }
    assert_eq!(server.ask("GET", "/bare", "", b"").status, 200);
}

#[test]
fn requests_with_ambiguous_length_are_refused() {
    let server = serve(test_config());
    for head in [
        "content-length: 2\r\ntransfer-encoding: chunked\r\n",
        "content-length: 2\r\ncontent-length: 3\r\n",
        "content-length: +2\r\n",
        "transfer-encoding: gzip, chunked\r\n",
    ] {
        let mut peer: Peer = server.peer();
        peer.write(format!("POST /echo HTTP/1.1\r\nhost: localhost\r\n{JSON}{head}\r\n{{}}").as_bytes());
        let reply = peer.reply();
        assert!(reply.status == 400 || reply.status == 415, "{head}: {reply:?}");
        assert!(peer.is_closed(), "{head}");
    }
}
