use super::harness::{
    Reply, TestServer, TestSigner, identity, refused, serve, serve_on, server_keys, signer, signer_with,
    test_config,
};
use crate::{
    callers::{Callers, ConfiguredCaller, Credential},
    http::{
        edge::{Auth, HttpServerConfig, IssuedTokens},
        local_callers::LocalCallers,
    },
    token_format::{PERSON_PREFIX, random_token},
};
use protocol::{
    identity::PersonKey,
    ids::{AgentId, Digest},
    signature::{Secret, SignedParts},
};
use std::{
    net::{IpAddr, UdpSocket},
    time::{SystemTime, UNIX_EPOCH},
};

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// The headers of a request that `signer` sends to `recipient`.
fn signed(signer: &TestSigner, path: &str, recipient: &str, body: &[u8], at: u64) -> String {
    let parts = SignedParts {
        method: "POST",
        path_and_query: path,
        recipient,
        message_id: Some("m-1"),
        digest: Digest::of(body),
    };
    let mut headers =
        format!("content-type: application/json\r\nmesh-recipient: {recipient}\r\nmesh-message-id: m-1\r\n");
    for (name, value) in signer.sign(&parts, at).into_pairs() {
        headers += &format!("{name}: {value}\r\n");
    }
    headers
}

fn post(server: &TestServer, headers: &str) -> Reply {
    server.ask("POST", "/echo", headers, b"{}")
}

#[test]
fn a_signed_request_is_its_agents_and_an_unsigned_one_the_local_users() {
    let server = serve(test_config());
    assert_eq!(server.post(b"{}").json()["who"], "user:local");
    let reply = post(&server, &signed(&signer("planner-01"), "/echo", "builder-01", b"{}", now())).json();
    assert_eq!(reply["who"], "agent:planner-01");
    assert_eq!(reply["digest"], Digest::of(b"{}").to_string());
}

#[test]
fn a_bad_signature_is_never_the_local_user() {
    let server = serve(test_config());
    let good = signed(&signer("planner-01"), "/echo", "builder-01", b"{}", now());
    let other_key = signer_with(identity("planner-01", 2));
    let line = |name: &str| {
        good.split_inclusive("\r\n").find(|line| line.starts_with(name)).expect("a header").to_owned()
    };
    let without = |name: &str| good.replace(&line(name), "");
    for (what, headers) in [
        ("another key", signed(&other_key, "/echo", "builder-01", b"{}", now())),
        ("an unknown sender", signed(&signer("planner-02"), "/echo", "builder-01", b"{}", now())),
        (
            "a colleague in the same process",
            signed(&signer_with(identity("board", 2)), "/echo", "builder-01", b"{}", now()),
        ),
        ("another body", signed(&signer("planner-01"), "/echo", "builder-01", b"[]", now())),
        ("another sender", good.replace("keyid=\"planner-01\"", "keyid=\"planner-02\"")),
        ("another algorithm", good.replace("hmac-sha256", "none")),
        ("another message", good.replace("mesh-message-id: m-1", "mesh-message-id: m-2")),
        ("no recipient", without("mesh-recipient")),
        ("no input", without("signature-input")),
        ("no signature", without("signature: ")),
        ("no digest", without("content-digest")),
        ("two recipients", format!("{good}mesh-recipient: builder-02\r\n")),
        ("bytes", format!("{}signature: ä\r\n", without("signature: "))),
        ("nothing in it", "content-type: application/json\r\nsignature-input: \r\nsignature: \r\n".into()),
    ] {
        assert_eq!(post(&server, &headers).refusal(), refused(401, "unauthenticated"), "{what}");
    }
}

#[test]
fn the_registry_alone_speaks_for_a_user_that_it_names_in_its_signature() {
    let keys = server_keys();
    keys.set_pinned(identity("registry", 1).public().clone(), 1);
    let server = serve(HttpServerConfig { auth: Auth::new(keys), ..test_config() });
    let parts = SignedParts {
        method: "POST",
        path_and_query: "/echo",
        recipient: "builder-01",
        message_id: None,
        digest: Digest::of(b"{}"),
    };
    let headers = |signer: &str, user: &str| {
        let head = "content-type: application/json\r\nmesh-recipient: builder-01\r\n".to_owned();
        let pairs = self::signer(signer).sign_for(&parts, user).into_pairs();
        pairs.into_iter().fold(head, |all, (name, value)| all + &format!("{name}: {value}\r\n"))
    };
    for user in ["user:local", "user:alice"] {
        assert_eq!(post(&server, &headers("registry", user)).json()["who"], user);
        let other = headers("registry", user).replace("acts-for=\"user:", "acts-for=\"user:x");
        assert_eq!(
            post(&server, &other).refusal(),
            refused(401, "unauthenticated"),
            "the signature covers it"
        );
        assert_eq!(post(&server, &headers("planner-01", user)).refusal(), refused(401, "unauthenticated"));
    }
    for nobody in ["agent:planner-01", "service:board"] {
        assert_eq!(post(&server, &headers("registry", nobody)).refusal(), refused(401, "unauthenticated"));
    }
}

/// What an earlier version sends: it is told to update.
#[test]
fn the_join_secret_signs_nothing_but_the_exchange_of_keys() {
    let server = serve(test_config());
    let secret = Secret::new(&[1; 32]).unwrap();
    let parts = SignedParts {
        method: "POST",
        path_and_query: "/echo",
        recipient: "builder-01",
        message_id: Some("m-1"),
        digest: Digest::of(b"{}"),
    };
    for id in ["planner-01", "planner-02", "board", "registry"] {
        let mut headers =
            "content-type: application/json\r\nmesh-recipient: builder-01\r\nmesh-message-id: m-1\r\n"
                .to_owned();
        let signer = AgentId::parse(id).unwrap();
        for (name, value) in secret.sign_request(&signer, &parts, now(), None).into_pairs() {
            headers += &format!("{name}: {value}\r\n");
        }
        let refusal = post(&server, &headers);
        assert_eq!(refusal.refusal(), refused(401, "unauthenticated"), "{id}");
        let message = refusal.json()["error"]["message"].as_str().unwrap().to_owned();
        let is_explained = message.contains("of an earlier version, update it");
        assert_eq!(is_explained, id == "planner-02" || id == "registry", "{message}");
    }
}

#[test]
fn a_malformed_credential_is_never_the_local_user() {
    let key = ConfiguredCaller {
        user: AgentId::parse("alice").unwrap(),
        credential: Credential::ApiKey("alices-own-key-0001".into()),
    };
    let auth = |callers: &[ConfiguredCaller]| Auth::new(server_keys()).with_callers(Callers::new(callers));
    for callers in [&[][..], &[key]] {
        let server = serve(HttpServerConfig {
            auth: auth(callers),
            limits: protocol::limits::Limits { max_failed_auth_per_second: 0, ..test_config().limits },
            ..test_config()
        });
        for credential in [
            "authorization: Bearer",
            "authorization: Bearer ",
            "authorization: bearer\tx",
            "authorization: ",
            "authorization: Basic YTpi",
            "authorization: nonsense",
            "authorization: Bearer nobodys-own-token-0001",
            "authorization: Bearer \u{e4}",
            "authorization: Bearer a\r\nauthorization: Bearer b",
            "authorization: Bearer mesh-person-0",
            "authorization: Bearer mesh-brain-0",
            "x-api-key: ",
            "x-api-key: nobodys-own-key-0001",
            "x-api-key: \u{e4}",
            "x-api-key: alices-own-key-0001\r\nx-api-key: alices-own-key-0001",
            "x-api-key: alices-own-key-0001\r\nauthorization: Bearer nobodys-own-token-0001",
        ] {
            let headers = format!("content-type: application/json\r\n{credential}\r\n");
            assert_eq!(post(&server, &headers).refusal(), refused(401, "unauthenticated"), "{credential:?}");
        }
        assert_eq!(server.post(b"{}").json()["who"], "user:local");
    }
}

/// RELIABILITY M05.
#[test]
fn a_captured_request_is_refused_elsewhere_and_later() {
    let server = serve(test_config());
    let sender = signer("planner-01");
    for (what, headers, code) in [
        ("for another agent", signed(&sender, "/echo", "builder-02", b"{}", now()), "unauthenticated"),
        ("for another path", signed(&sender, "/a2a/messages", "builder-01", b"{}", now()), "unauthenticated"),
        ("for another query", signed(&sender, "/echo?x=1", "builder-01", b"{}", now()), "unauthenticated"),
        ("six minutes ago", signed(&sender, "/echo", "builder-01", b"{}", now() - 360), "stale_signature"),
        ("six minutes hence", signed(&sender, "/echo", "builder-01", b"{}", now() + 360), "stale_signature"),
    ] {
        assert_eq!(post(&server, &headers).refusal(), refused(401, code), "{what}");
    }
    let redirected = signed(&sender, "/echo", "builder-01", b"{}", now())
        .replace("mesh-recipient: builder-01", "mesh-recipient: board");
    assert_eq!(post(&server, &redirected).refusal(), refused(401, "unauthenticated"));
}

#[test]
fn without_a_secret_every_signature_is_refused() {
    let server = serve(HttpServerConfig { auth: Auth::users_only(), ..test_config() });
    assert!(format!("{:?}", Auth::users_only()).contains("Auth"));
    let headers = signed(&signer("planner-01"), "/echo", "builder-01", b"{}", now());
    assert_eq!(post(&server, &headers).refusal(), refused(401, "unauthenticated"));
    assert_eq!(server.post(b"{}").status, 200);
}

/// The external address of this machine; none if it has only loopback.
fn outward() -> Option<IpAddr> {
    let probe = UdpSocket::bind("0.0.0.0:0").unwrap();
    probe.connect("192.0.2.1:9").and_then(|()| probe.local_addr()).ok().map(|own| own.ip())
}

#[test]
fn from_another_machine_a_signature_is_needed() {
    let Some(own) = outward() else { return eprintln!("this machine has no address but loopback") };
    let server = serve_on("0.0.0.0", test_config());
    let mut peer = server.peer_from(own);
    peer.send("GET", "/echo", "", b"");
    assert_eq!(peer.reply().refusal(), refused(401, "unauthenticated"));
    peer.send("POST", "/echo", &signed(&signer("planner-01"), "/echo", "builder-01", b"{}", now()), b"{}");
    assert_eq!(peer.reply().json()["who"], "agent:planner-01");
}

/// A server that is also known as `mesh.example`, with a person's token (returned) and the caller alice.
fn behind_a_proxy(local_callers: LocalCallers) -> (HttpServerConfig, String) {
    let (tokens, token) = (IssuedTokens::default(), random_token(PERSON_PREFIX));
    tokens.set_person(PersonKey::of_token(&token).public());
    let credential = Credential::ApiKey("alices-own-key-0001".into());
    let alice = ConfiguredCaller { user: AgentId::parse("alice").unwrap(), credential };
    let mut config = test_config();
    config.hosts = vec!["mesh.example".to_owned()];
    config.limits.max_failed_auth_per_second = 0;
    config.auth = config.auth.with_tokens(tokens).with_callers(Callers::new(&[alice]));
    config.auth = config.auth.with_local_callers(local_callers);
    (config, token)
}

/// Header lines that say that the caller is not the user of this machine.
const PASSED_ON: [&str; 12] = [
    "host: mesh.example",
    "Host: MESH.example:8001",
    "forwarded: for=127.0.0.1;host=localhost",
    "Forwarded: ",
    "x-forwarded-for: 127.0.0.1",
    "X-FORWARDED-FOR: ::1",
    "X-Forwarded-Host: localhost",
    "X-Forwarded-Proto: http",
    "x-forwarded-anything: 1",
    "X-Real-IP: 127.0.0.1",
    "VIA: 1.1 localhost",
    "via: 1.0 fred, 1.1 p.example",
];

#[test]
fn a_request_that_a_proxy_passes_on_is_never_the_local_users() {
    let (config, token) = behind_a_proxy(LocalCallers::default());
    let server = serve(config);
    for line in PASSED_ON {
        for path in ["/echo", "/metrics", "/stream", "/nothing"] {
            let reply = server.ask("GET", path, &format!("{line}\r\n"), b"");
            assert_eq!(reply.refusal(), refused(401, "unauthenticated"), "{path} {line}");
        }
        let with = |credential: &str| {
            let reply = post(&server, &format!("content-type: application/json\r\n{line}\r\n{credential}"));
            (reply.status, reply.json()["who"].clone())
        };
        assert_eq!(with("").0, 401, "{line}");
        assert_eq!(with("x-api-key: alices-own-key-0001\r\n"), (200, "user:alice".into()), "{line}");
        assert_eq!(with(&format!("authorization: Bearer {token}\r\n")), (200, "user:local".into()), "{line}");
        let signed = signed(&signer("planner-01"), "/echo", "builder-01", b"{}", now());
        let reply = post(&server, &format!("{line}\r\n{signed}"));
        assert_eq!(reply.json()["who"], "agent:planner-01", "{line}");
        let reply = server.ask("GET", "/.well-known/x", &format!("{line}\r\n"), b"");
        assert_eq!(reply.status, 404, "a public path: {line}");
    }
    for path in ["/echo", "/metrics"] {
        assert_eq!(server.ask("GET", path, "", b"").status, 200, "{path}");
    }
}

#[test]
fn a_page_of_a_listed_origin_is_answered_and_is_never_the_local_user() {
    let (mut config, token) = behind_a_proxy(LocalCallers::default());
    config.origins = vec!["https://app.example".parse().unwrap()];
    let server = serve(config);
    let origin = "origin: https://app.example\r\n";
    let asks = "access-control-request-method: POST\r\naccess-control-request-headers: authorization, a2a-version\r\n";
    let reply = server.ask("OPTIONS", "/echo", &format!("{origin}{asks}"), b"");
    assert_eq!(reply.status, 204, "{reply:?}");
    for (name, value) in [
        ("access-control-allow-origin", "https://app.example"),
        ("access-control-allow-headers", "authorization, a2a-version"),
        ("access-control-max-age", "600"),
    ] {
        assert_eq!(reply.header(name), Some(value), "{reply:?}");
    }
    assert!(reply.header("access-control-allow-methods").unwrap().contains("POST"));
    assert_eq!(reply.header("access-control-allow-credentials"), None, "cookies are none");

    let readable = |reply: &Reply| reply.header("access-control-allow-origin") == Some("https://app.example");
    for path in ["/echo", "/metrics", "/stream", "/nothing"] {
        let reply = server.ask("GET", path, origin, b"");
        assert_eq!(reply.refusal(), refused(401, "unauthenticated"), "{path}");
        assert!(readable(&reply), "a page can read why: {reply:?}");
    }
    let reply = server.ask("OPTIONS", "/echo", origin, b"");
    assert_eq!(reply.status, 401, "without a method that is asked for it is no preflight");
    let head = format!("content-type: application/json\r\n{origin}authorization: Bearer {token}\r\n");
    let reply = post(&server, &head);
    assert_eq!((reply.status, reply.json()["who"].clone()), (200, "user:local".into()));
    assert!(
        readable(&reply) && reply.header("vary").is_some_and(|vary| vary.contains("Origin")),
        "{reply:?}"
    );

    for other in ["https://app.example.evil", "http://app.example", "https://app.example:444", "null"] {
        for method in ["OPTIONS", "GET"] {
            let reply = server.ask(method, "/echo", &format!("origin: {other}\r\n{asks}"), b"");
            assert_eq!(reply.refusal(), refused(403, "foreign_origin"), "{method} {other}");
            assert_eq!(reply.header("access-control-allow-origin"), None);
        }
        let reply = server.ask("GET", "/echo", &format!("{origin}origin: {other}\r\n"), b"");
        assert_eq!(reply.status, 403, "two origins");
    }
    let reply = server.ask("OPTIONS", "/echo", &format!("host: evil.example\r\n{origin}{asks}"), b"");
    assert_eq!(reply.status, 403, "a name that is not this process's");
    assert_eq!(server.ask("GET", "/echo", "", b"").status, 200, "the local user, without a page");
}

#[test]
fn the_target_and_every_host_must_name_loopback() {
    let (config, _) = behind_a_proxy(LocalCallers::default());
    let server = serve(config);
    for (target, host, status) in [
        ("/echo", "localhost", 200),
        ("/echo", "[::1]:8001", 200),
        ("/echo", "127.1.2.3", 200),
        ("http://localhost/echo", "127.0.0.1", 200),
        ("http://mesh.example/echo", "localhost", 401),
        ("http://localhost/echo", "mesh.example", 401),
        ("http://evil.example/echo", "localhost", 403),
        ("http://localhost@mesh.example/echo", "localhost", 403),
        ("/echo", "localhost.", 403),
        ("/echo", "localhost.evil.example", 403),
        ("/echo", "0.0.0.0", 403),
        ("/echo", "[::ffff:127.0.0.1]:8001", 403),
        ("/echo", "localhost\r\nhost: mesh.example", 400),
        ("/echo", "localhost\r\nHOST: localhost", 400),
    ] {
        let reply = server.ask("GET", target, &format!("host: {host}\r\n"), b"");
        assert_eq!(reply.status, status, "{target} {host}: {reply:?}");
    }
}

#[test]
fn a_configured_local_caller_names_loopback_too() {
    let Some(own) = outward() else { return eprintln!("this machine has no address but loopback") };
    let (mut config, _) = behind_a_proxy(LocalCallers::resolve(&[own.to_string().parse().unwrap()]));
    config.hosts.push(own.to_string());
    let server = serve_on("0.0.0.0", config);
    let status = |line: &str| {
        let mut peer = server.peer_from(own);
        peer.send("GET", "/echo", &format!("{line}\r\n"), b"");
        peer.reply().status
    };
    assert_eq!((status("host: localhost:8001"), status(&format!("host: {own}"))), (200, 401));
    assert!(PASSED_ON.iter().all(|line| status(line) == 401));
}

#[test]
fn a_metrics_caller_may_use_any_name_and_no_proxy() {
    let Some(own) = outward() else { return eprintln!("this machine has no address but loopback") };
    let (config, _) = behind_a_proxy(LocalCallers::default());
    let callers = LocalCallers::resolve(&[own.to_string().parse().unwrap()]);
    let server = serve_on(
        "0.0.0.0",
        HttpServerConfig { auth: config.auth.clone().with_metrics_callers(callers), ..config },
    );
    let status = |line: &str| {
        let mut peer = server.peer_from(own);
        peer.send("GET", "/metrics", &format!("{line}\r\n"), b"");
        peer.reply().status
    };
    assert_eq!(
        (status("host: localhost"), status("host: mesh.example"), status("via: 1.1 p")),
        (200, 200, 401)
    );
}

#[test]
fn failed_authentication_is_rate_limited_and_valid_signatures_are_not() {
    let mut config = test_config();
    config.limits.max_failed_auth_per_second = 2;
    let server = serve(config);
    let forger = signer_with(identity("planner-01", 2));
    let forged = signed(&forger, "/echo", "builder-01", b"{}", now());
    let answers: Vec<_> = (0..20).map(|_| post(&server, &forged)).collect();
    let limited: Vec<_> = answers.iter().filter(|answer| answer.status == 429).collect();
    assert!(answers[..4].iter().all(|answer| answer.status == 401), "a burst of two seconds");
    assert!(limited.len() >= 5, "{answers:?}");
    assert_eq!(limited[0].refusal(), refused(429, "rate_limited"));
    assert_eq!(limited[0].header("retry-after"), Some("1"));
    let message = limited[0].json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("127.0.0.1") && message.contains("prove nothing"), "{message}");
    assert_eq!(
        post(&server, &signed(&signer("planner-01"), "/echo", "builder-01", b"{}", now())).status,
        200,
        "a valid signature is accepted"
    );
    assert_eq!(server.post(b"{}").status, 200);
}

#[test]
fn the_stream_limit_refuses_one_principals_next_stream() {
    let mut config = test_config();
    config.streams = crate::http::edge::StreamLimit::new(2);
    let (tokens, token) = (IssuedTokens::default(), random_token(PERSON_PREFIX));
    tokens.set_person(PersonKey::of_token(&token).public());
    config.auth = config.auth.with_tokens(tokens);
    let streams = config.streams.clone();
    let server = serve(config);
    let open = || {
        let mut peer = server.peer();
        peer.send("GET", "/stream", "", b"");
        let reply = peer.reply();
        (peer, reply)
    };
    let (first, _second) = (open(), open());
    assert_eq!((first.1.status, streams.counts()["user:local"]), (200, 2));
    let (_, refusal) = open();
    assert_eq!(refusal.refusal(), refused(429, "rate_limited"));
    assert!(refusal.header("retry-after").is_some(), "{refusal:?}");
    let mut persons = server.peer();
    persons.send("GET", "/stream", &format!("authorization: Bearer {token}\r\n"), b"");
    assert_eq!(persons.reply().status, 200, "the person has a share of its own");
    assert_eq!(server.ask("HEAD", "/stream", "", b"").status, 200, "HEAD opens no stream");
    drop(first);
    let start = std::time::Instant::now();
    while open().1.status != 200 {
        assert!(start.elapsed() < super::harness::DEADLINE, "a closed stream releases its permit");
    }
}

#[test]
fn a_user_with_a_credential_is_rate_limited_and_agents_and_the_local_user_are_not() {
    let mut config = test_config();
    config.limits.max_rate_per_second = 1;
    let caller = |user: &str| ConfiguredCaller {
        user: AgentId::parse(user).unwrap(),
        credential: Credential::ApiKey(format!("key-of-{user}")),
    };
    config.auth = config.auth.with_callers(Callers::new(&[caller("anna"), caller("berta")]));
    let server = serve(config);
    let send = |user: &str| {
        post(&server, &format!("content-type: application/json\r\nx-api-key: key-of-{user}\r\n"))
    };
    let replies: Vec<_> = (0..6).map(|_| send("anna")).collect();
    let refusal = replies.iter().find(|reply| reply.status != 200).expect("one over the rate");
    assert_eq!(refusal.refusal(), refused(429, "rate_limited"));
    assert!(refusal.header("retry-after").is_some());
    assert_eq!(send("berta").status, 200, "another user has its own limit");
    let agent = || post(&server, &signed(&signer("planner-01"), "/echo", "builder-01", b"{}", now()));
    assert!((0..20).all(|_| agent().status == 200 && server.post(b"{}").status == 200));
}
