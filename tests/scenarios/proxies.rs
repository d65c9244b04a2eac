//! A mesh behind a proxy: what callers from outside may do, public URLs in cards, requests by a public path, and the limits of
//! each client of a trusted proxy.

use crate::harness::{Process, client, directory, file, mesh};
use protocol::{identity::PersonKey, time::WallTime};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use std::{
    net::Ipv4Addr,
    time::{SystemTime, UNIX_EPOCH},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpSocket,
};

const TEAM: &str = "
agents:
  - { agent: front-01, skills: [front], brain: { echo: {} } }
  - { agent: back-01, skills: [back], brain: { echo: {} }, a2a: { publicUrl: 'https://other.example:8443/own/back/' } }
mesh:
  grpcPort: 0
  limits: { maxFailedAuthPerSecond: 2 }
  callers: [{ user: alice, apiKey: alices-own-key-0001 }]
";
const PUBLIC: &str = "https://mesh.example/agents";
const ALICE: (&str, &str) = ("x-api-key", "alices-own-key-0001");

async fn behind_a_proxy(more: &[&str]) -> Process {
    let dir = directory();
    let team = file(dir.path(), "team.yaml", TEAM).to_string_lossy().into_owned();
    let args = ["up", "--port", "0", "--profile", "fast", "--public-url", PUBLIC].iter().chain(more);
    let args = args.map(|arg| (*arg).to_owned()).chain([team]).collect();
    let data = dir.path().join("data");
    Process::run(data, args, Some(dir)).await
}

/// A request as a proxy passes it on for the client at `address`: with the public name, and with its path or without.
fn passed_on(method: Method, url: &str, host: &str, address: &str) -> RequestBuilder {
    client().request(method, url).header("host", host).header("x-forwarded-for", address)
}

async fn card(url: &str, host: &str) -> Value {
    let answer = passed_on(Method::GET, &format!("{url}/.well-known/agent-card.json"), host, "203.0.113.7");
    let answer = answer.header("a2a-version", "1.0").send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK, "{url}");
    answer.json().await.unwrap()
}

fn urls(card: &Value) -> Vec<&str> {
    card["supportedInterfaces"].as_array().unwrap().iter().map(|i| i["url"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_card_names_the_public_url_of_its_agent_and_peers_keep_the_endpoint() {
    let mesh = behind_a_proxy(&[]).await;
    let front = mesh.agent("front-01").url;
    let of_front = [format!("{PUBLIC}/front-01/a2a/rpc"), format!("{PUBLIC}/front-01/a2a/v1")];
    // With the path or without, whatever name the proxy calls by; gRPC has no public URL.
    for (at, host) in [
        (front.clone(), "mesh.example"),
        (front.clone(), "localhost"),
        (format!("{front}/agents/front-01"), "mesh.example"),
    ] {
        let card = card(&at, host).await;
        assert_eq!(urls(&card), of_front, "{at} {host}");
        let header = card["signatures"][0]["protected"].as_str().unwrap();
        let header =
            base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, header).unwrap();
        let header: Value = serde_json::from_slice(&header).unwrap();
        assert_eq!(header["jku"], format!("{PUBLIC}/front-01/.well-known/jwks.json"));
    }
    // Another agent of the process, at the same port, by its own path.
    let back = card(&format!("{front}/own/back"), "other.example:8443").await;
    assert_eq!(back["name"], "back-01");
    assert_eq!(urls(&back)[0], "https://other.example:8443/own/back/a2a/rpc");
    let local = client().get(format!("{}/registry/agents/front-01", mesh.url)).send().await.unwrap();
    assert_eq!(local.json::<Value>().await.unwrap()["card"]["endpoint"], *front, "peers use the endpoint");

    let with_grpc = behind_a_proxy(&["--public-grpc", "grpc.example:443"]).await;
    let card = card(&with_grpc.agent("front-01").url, "mesh.example").await;
    assert_eq!(urls(&card)[2], "grpc.example:443");
}

#[tokio::test]
async fn requests_by_a_public_path_reach_its_agent() {
    let mesh = behind_a_proxy(&[]).await;
    let front = mesh.agent("front-01").url;
    let send =
        json!({ "message": { "messageId": "m-1", "role": "ROLE_USER", "parts": [{ "text": "hello" }] } });
    let own = mesh.agent("back-01").url;
    for (at, doer, host) in [
        (format!("{front}/agents/front-01"), "front", "mesh.example"),
        (format!("{front}/own/back"), "back", "other.example:8443"),
        (own, "back", "other.example:8443"),
    ] {
        let request = passed_on(Method::POST, &format!("{at}/a2a/v1/message:send"), host, "203.0.113.7");
        let request = request.header(ALICE.0, ALICE.1).header("a2a-version", "1.0");
        let answer = request.json(&send).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{at}");
        let answer: Value = answer.json().await.unwrap();
        assert_eq!(answer["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{answer}");
        let ours = &answer["task"]["metadata"]["urn:agent-mesh:ext:task:v1"];
        assert_eq!(ours["capability"], doer, "{answer}");
    }
    // The command line's ticket is for the public host and port, also if the proxy calls by another name.
    let token = std::fs::read_to_string(mesh.data.join("token")).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let now = WallTime(i64::try_from(now).unwrap());
    let ticket = |host: &str| PersonKey::of_token(token.trim()).ticket(host, now);
    for (made_for, host, status) in [
        ("mesh.example", "mesh.example", 200),
        ("other.example:8443", "other.example:8443", 200),
        ("other.example:8443", "localhost", 200),
        ("other.example:9443", "other.example:9443", 401),
    ] {
        let request = passed_on(Method::GET, &format!("{front}/agents/a2a/tasks"), host, "203.0.113.7");
        let answer = request.bearer_auth(ticket(made_for)).send().await.unwrap();
        assert_eq!(answer.status(), status, "{made_for} {host}");
    }
}

#[tokio::test]
async fn a_caller_from_outside_reaches_nothing_but_cards_without_a_credential() {
    let mesh = behind_a_proxy(&["--trusted-proxies", "127.0.0.1"]).await;
    let front = mesh.agent("front-01").url;
    let mut client_number = 0;
    for (host, forged) in [
        ("mesh.example", None),
        ("other.example:8443", None),
        ("localhost", None),
        ("127.0.0.1", Some(("forwarded", "for=127.0.0.1"))),
        ("mesh.example", Some(("x-forwarded-host", "localhost"))),
        ("mesh.example", Some(("x-real-ip", "127.0.0.1"))),
    ] {
        for base in ["", "/agents", "/agents/front-01", "/own/back"] {
            for (method, path, status) in [
                (Method::GET, "/.well-known/agent-card.json", 200),
                (Method::GET, "/.well-known/jwks.json", 200),
                (Method::GET, "/healthz", 401),
                (Method::GET, "/state", 401),
                (Method::GET, "/metrics", 401),
                (Method::GET, "/a2a/tasks", 401),
                (Method::POST, "/a2a/messages", 401),
                (Method::POST, "/a2a/rpc", 401),
                (Method::POST, "/mcp", 401),
                (Method::GET, "/registry/agents", 401),
                (Method::GET, "/board/signals", 401),
                (Method::GET, "/agents/nobody/a2a/tasks", 401),
            ] {
                client_number += 1;
                // Each is another client, so that none has too many failures.
                let from = format!("127.0.0.1, 203.0.{}.{}", client_number / 250, client_number % 250);
                let url = format!("{front}{base}{path}");
                let request = passed_on(method.clone(), &url, host, &from);
                let request =
                    forged.iter().fold(request, |request, (name, value)| request.header(*name, *value));
                let body = (method == Method::POST).then(|| json!({}));
                let request = body.iter().fold(request, |request, body| request.json(body));
                let answer = request.send().await.unwrap();
                assert_eq!(answer.status(), status, "{method} {base}{path} by {host} {forged:?}");
            }
        }
    }
    // A target with a host of its own counts by that, also below a public path and with the loopback name as `Host`.
    for (target_host, status) in [("evil.example", 403), ("mesh.example", 401), ("other.example:8443", 401)] {
        for (method, path) in [("GET", "/a2a/tasks"), ("POST", "/a2a/v1/message:send"), ("GET", "/state")] {
            for base in ["", "/agents", "/agents/front-01", "/own/back"] {
                let target = format!("{method} http://{target_host}{base}{path}");
                client_number += 1;
                let from = Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + client_number);
                assert_eq!(by_target(&front, &target, from).await, status, "{target}");
            }
        }
    }
    assert_eq!(by_target(&front, "GET http://localhost/agents/a2a/tasks", Ipv4Addr::LOCALHOST).await, 200);
    let foreign = passed_on(Method::GET, &format!("{front}/a2a/tasks"), "evil.example", "203.0.113.7");
    assert_eq!(foreign.send().await.unwrap().status(), StatusCode::FORBIDDEN, "no name of the mesh");
}

/// The status of a request from `from` with this method and target, of which `Host` says that it is for this machine.
async fn by_target(url: &str, method_and_target: &str, from: Ipv4Addr) -> u16 {
    let address = url.strip_prefix("http://").unwrap().parse().unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    let head = format!(
        "{method_and_target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\n\
         Content-Length: 2\r\nConnection: close\r\n\r\n{{}}"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer);
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn failed_logins_are_counted_for_the_client_that_a_trusted_proxy_names() {
    let status = async |mesh: &Process, from: &str| {
        let url = format!("{}/a2a/tasks", mesh.agent("front-01").url);
        let wrong =
            passed_on(Method::GET, &url, "mesh.example", from).header(ALICE.0, "nobodys-own-key-0001");
        wrong.send().await.unwrap().status().as_u16()
    };
    for (proxies, of_another) in [(Some("127.0.0.1"), 401), (None, 429)] {
        let more: Vec<_> = proxies.iter().flat_map(|proxies| ["--trusted-proxies", proxies]).collect();
        let mesh = behind_a_proxy(&more).await;
        let mut seen = Vec::new();
        while seen.last() != Some(&429) && seen.len() < 500 {
            // What the client itself says first is not believed.
            seen.push(status(&mesh, &format!("198.51.100.{}, 203.0.113.7", seen.len() % 200)).await);
        }
        assert_eq!(seen.last(), Some(&429), "{seen:?}");
        assert_eq!(status(&mesh, "203.0.113.8").await, of_another, "trusted: {proxies:?}");
        let right = passed_on(
            Method::GET,
            &format!("{}/a2a/tasks", mesh.agent("front-01").url),
            "mesh.example",
            "203.0.113.7",
        );
        let right = right.header(ALICE.0, ALICE.1).send().await.unwrap();
        assert_eq!(right.status(), StatusCode::OK, "a right credential always works");
    }
}

#[tokio::test]
async fn the_doctor_says_what_is_open_to_a_caller_from_outside() {
    let mesh_process = behind_a_proxy(&[]).await;
    let front = mesh_process.agent("front-01").url;
    // A program of this machine may; what others may is not said.
    let (code, out, errors) = mesh(&["doctor", "--outside", "--json", "--url", &front], &[]);
    assert_eq!(code, 0, "{out} {errors}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let skipped = |text: &str| {
        findings.iter().any(|found| found["ok"].is_null() && found["what"].as_str().unwrap().contains(text))
    };
    assert!(skipped("open to programs of this machine: GET /healthz (200)") && skipped(PUBLIC), "{out}");
    assert!(!out.contains("with X-Forwarded-For"), "{out}");
    let (code, out, errors) = mesh(&["doctor", "--outside", "--url", &format!("{front}/nowhere")], &[]);
    assert!(code != 0 && out.contains("/nowhere/.well-known/agent-card.json has no card"), "{out} {errors}");
    let (code, out, errors) = mesh(&["doctor", "--outside", "--url", "http://127.0.0.1:1"], &[]);
    assert!(code != 0 && out.contains("127.0.0.1:1"), "{out} {errors}");
}

#[tokio::test]
async fn a_public_url_that_two_agents_share_or_that_is_none_stops_the_start() {
    let dir = directory();
    let same = "agents:
  - { agent: a-01, skills: [a], brain: { echo: {} }, a2a: { publicUrl: 'https://mesh.example/a' } }
  - { agent: b-01, skills: [b], brain: { echo: {} }, a2a: { publicUrl: 'https://mesh.example/a/' } }
";
    let same = file(dir.path(), "same.yaml", same).to_string_lossy().into_owned();
    let data = dir.path().join("data").to_string_lossy().into_owned();
    let (code, _, said) = mesh(&["up", "--port", "0", "--data", &data, &same], &[]);
    assert!(
        code != 0 && said.contains("a-01 and b-01 have the same public URL, https://mesh.example/a"),
        "{said}"
    );
    let wrong =
        "{ agent: a-01, skills: [a], brain: { echo: {} }, a2a: { publicUrl: 'https://mesh.example/a2a' } }\n";
    let wrong = file(dir.path(), "wrong.yaml", wrong).to_string_lossy().into_owned();
    let (code, _, said) = mesh(&["validate", &wrong], &[]);
    assert!(
        code != 0 && said.contains("publicUrl") && said.contains("/a2a is a path of the mesh itself"),
        "{said}"
    );
    let (code, _, said) = mesh(&["up", "--port", "0", "--public-url", "mesh.example"], &[]);
    assert!(code == 64 || code == 2, "{code} {said}");
    assert!(said.contains("--public-url") && said.contains("https://"), "{said}");
}
