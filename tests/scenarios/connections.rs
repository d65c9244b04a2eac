//! Connections are limited, and those of callers with a credential get through (DESIGN §8, "Budgets").

use super::remote_access::outward;
use crate::harness::{DEADLINE, Process, client, directory, eventually, file, get, mesh, peer::Peer, text};
use serde_json::json;
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

const TEAM: &str = "
agents: [{ agent: echo-01, open: true, skills: [echo], brain: { echo: {} } }]
mesh:
  grpcPort: 0
  limits: { maxFailedAuthPerSecond: 0, maxRatePerSecond: 0 }
  callers: [{ user: alice, apiKey: alices-own-key-0001 }, { user: bob, apiKey: bobs-own-key-00001 }]
";

/// The limit of open files of the process under attack.
const FILES: &str = "1024";

/// A mesh with few files that listens beyond loopback if this machine has another address.
async fn up() -> (Process, Option<String>) {
    let dir = directory();
    let team = file(dir.path(), "team.yaml", TEAM).to_string_lossy().into_owned();
    let data = dir.path().join("data");
    let join = data.join("join").to_string_lossy().into_owned();
    assert_eq!(self::mesh(&["join-secret", "--init", &join], &[]).0, 0);
    let own = outward();
    let mut args = vec!["up", "--port", "0", "--profile", "fast", "--join", &join];
    if let Some(own) = &own {
        args.extend(["--listen", "0.0.0.0", "--advertise", own]);
    }
    let args = args.into_iter().chain([&*team]).map(str::to_owned).collect();
    (Process::run_with_files(FILES, data, args, Some(dir)).await, own)
}

/// Opens a connection, sends a request on it and keeps it.
async fn kept(to: SocketAddr) -> Option<TcpStream> {
    kept_with(to, "").await
}

/// The same with more headers.
async fn kept_with(to: SocketAddr, headers: &str) -> Option<TcpStream> {
    let mut stream = timeout(DEADLINE, TcpStream::connect(to)).await.unwrap().ok()?;
    let request = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = [0; 512];
    let read = timeout(DEADLINE, stream.read(&mut answer)).await.unwrap().ok()?;
    (read > 0).then_some(stream)
}

fn is_open(stream: &TcpStream) -> bool {
    let mut byte = [0; 1];
    matches!(stream.try_read(&mut byte), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

fn address(url: &str, host: &str) -> SocketAddr {
    format!("{host}:{}", url.rsplit(':').next().unwrap()).parse().unwrap()
}

#[tokio::test]
async fn agents_and_tools_get_through_while_1300_connections_are_kept() {
    child_process::raise_open_files().unwrap();
    let (mesh, own) = up().await;
    let echo = mesh.agent("echo-01");
    let peer = Peer::join(&mesh, "peer-01", "anything").await;
    let mut open = Vec::new();
    for _ in 0..1_300 {
        open.extend(kept(address(&echo.url, "127.0.0.1")).await);
    }
    let request = crate::harness::with(
        echo.request(json!({ "description": "x" })),
        json!({ "fromAgentId": "peer-01" }),
    );
    assert_eq!(peer.signing.post(&echo, &request).await.status, 202, "an agent gets through");
    let (code, out, errors) = self::mesh(&["ls", "--url", &mesh.url], &[]);
    assert!(code == 0 && out.contains("echo-01"), "a tool gets through: {errors}");
    echo.ask(json!({ "description": "a task is done" })).await;

    let counts = get(&format!("{}/state", echo.url)).await["connections"].clone();
    let count = |name: &str| counts[name].as_u64().unwrap();
    assert_eq!((count("max"), count("maxWithoutCredential")), (768, 576), "{counts}");
    assert!(count("withoutCredential") <= 576 && count("closedIdle") >= 700, "{counts}");
    let standing = async || {
        let standing = open.iter().filter(|stream| is_open(stream)).count();
        (standing > 0 && standing <= 576).then_some(())
    };
    eventually("the older connections are closed", standing).await;
    let metrics = text(&format!("{}/metrics", echo.url)).await;
    for name in ["mesh_connections_open{credential=\"no\"}", "mesh_connections_closed_total{reason=\"idle\"}"]
    {
        assert!(metrics.contains(name), "{metrics}");
    }

    let Some(own) = own else { return eprintln!("this machine has no address but loopback") };
    let mut elsewhere = Vec::new();
    for _ in 0..300 {
        elsewhere.extend(kept(address(&echo.url, &own)).await);
    }
    let limited = async || {
        let standing = elsewhere.iter().filter(|stream| is_open(stream)).count();
        (standing > 0 && standing <= 192).then_some(())
    };
    eventually("an address has at most its share", limited).await;
    assert_eq!(client().get(format!("{}/healthz", echo.url)).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_user_with_a_credential_keeps_a_share_of_the_connections_and_slow_bodies_keep_none() {
    child_process::raise_open_files().unwrap();
    let (mesh, _) = up().await;
    let echo = mesh.agent("echo-01");
    let to = address(&echo.url, "127.0.0.1");
    let (mut alices, mut slow) = (Vec::new(), Vec::new());
    for _ in 0..300 {
        alices.extend(kept_with(to, "x-api-key: alices-own-key-0001\r\n").await);
    }
    for _ in 0..900 {
        let mut stream = timeout(DEADLINE, TcpStream::connect(to)).await.unwrap().unwrap();
        let head = "POST /a2a/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{";
        // It may be closed already.
        let _ = stream.write_all(head.as_bytes()).await;
        slow.push(stream);
    }
    let limited = async || {
        let standing = alices.iter().filter(|stream| is_open(stream)).count();
        (standing > 0 && standing <= 192).then_some(())
    };
    eventually("a user has at most its share", limited).await;
    let token = std::fs::read_to_string(mesh.data.join("token")).unwrap();
    let tasks = || client().get(format!("{}/a2a/tasks", echo.url));
    for (who, request) in [
        ("bob", tasks().header("x-api-key", "bobs-own-key-00001")),
        ("alice", tasks().header("x-api-key", "alices-own-key-0001")),
        ("the local user", tasks()),
        ("the person", tasks().bearer_auth(token.trim())),
    ] {
        assert_eq!(request.send().await.unwrap().status(), 200, "{who}");
    }
    let counts = get(&format!("{}/state", echo.url)).await["connections"].clone();
    assert_eq!(
        (&counts["maxPerPrincipal"], &counts["reservedForPerson"]),
        (&json!(192), &json!(48)),
        "{counts}"
    );
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed() {
    let mesh = Process::up(TEAM).await;
    let run: serde_json::Value =
        serde_json::from_slice(&std::fs::read(mesh.data.join("run.json")).unwrap()).unwrap();
    let grpc = run["grpc"].as_str().unwrap().to_owned();
    for to in [mesh.agents["echo-01"].trim_start_matches("http://"), &mesh.url["http://".len()..], &grpc] {
        let mut silent = TcpStream::connect(to).await.unwrap();
        let mut answer = Vec::new();
        timeout(DEADLINE, silent.read_to_end(&mut answer)).await.expect("it ends").unwrap();
    }
}
