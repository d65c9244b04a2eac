//! A credential for one host is sent to no other, whatever a card names and wherever an agent redirects.

use super::foreign::{forecast_of, up, weather};
use crate::harness::{Process, artifact, file, foreign::ForeignBehavior, mesh, message, state};
use serde_json::json;
use std::sync::{Arc, Mutex};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

const GUARD: &str = r#""securitySchemes": { "key": { "apiKeySecurityScheme": { "location": "header", "name": "x-key" } } },
    "securityRequirements": [{ "schemes": { "key": { "list": [] } } }]"#;
const KEY: &str = ", credentials: { key: s3cret-w0rd }";

/// A card of an agent that needs a key, with these URLs.
fn working_at(urls: &[&str]) -> String {
    let interfaces: Vec<_> = urls
        .iter()
        .map(|url| json!({ "url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }))
        .collect();
    format!("{{ {GUARD}, \"supportedInterfaces\": {} }}", json!(interfaces))
}

/// The same server under another host name.
fn by_name(url: &str) -> String {
    format!("{}/rpc", url.replace("127.0.0.1", "localhost"))
}

#[actix::test]
async fn a_credential_is_not_sent_to_an_interface_of_another_host() {
    let elsewhere = weather(&format!("{{ {GUARD} }}"), ForeignBehavior::Answers("from elsewhere")).await;
    let other = by_name(&elsewhere.url);
    let foreign = weather(&working_at(&[&other]), ForeignBehavior::Answers("from home")).await;
    let team =
        super::foreign::team(&foreign, KEY).replace("allow: [127.0.0.0/8]", "allow: [127.0.0.0/8, '::1']");
    let dir = crate::harness::directory();
    let path = file(dir.path(), "team.yaml", &team).to_string_lossy().into_owned();
    let data = dir.path().join("data").to_string_lossy().into_owned();
    let start = move || mesh(&["up", "--port", "0", "--data", &data, &path], &[]);
    let (code, _, said) = tokio::task::spawn_blocking(start).await.unwrap();
    assert_ne!(code, 0);
    assert!(
        said.contains("the credentials are for 127.0.0.1") && said.contains("it works at localhost"),
        "{said}"
    );
    assert_eq!(elsewhere.calls(), 0);

    // With a credential for that host in the node's configuration, the agent is called.
    let named = super::foreign::team(&foreign, "").replace(
        "allow: [127.0.0.0/8]",
        "allow: [127.0.0.0/8, '::1'], credentials: { localhost: { key: s3cret-w0rd } }",
    );
    let mesh = Process::up(&named).await;
    let task = mesh.agent("desk-01").ask(forecast_of("Bern")).await;
    assert_eq!(artifact(&task, "result").as_deref(), Some("from elsewhere"), "{task:#}");
    assert_eq!(elsewhere.received("SendMessage")[0].headers["x-key"], "s3cret-w0rd");
    assert_eq!(foreign.calls(), 0);
}

#[actix::test]
async fn a_redirect_is_not_followed_and_gets_no_credential() {
    let elsewhere = weather("{}", ForeignBehavior::Answers("from elsewhere")).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let sends_on = format!("http://{}/rpc", listener.local_addr().unwrap());
    let (heard, target) = (Arc::new(Mutex::new(Vec::new())), by_name(&elsewhere.url));
    let seen = heard.clone();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = vec![0; 16 * 1024];
            let read = socket.read(&mut request).await.unwrap_or_default();
            seen.lock().unwrap().push(String::from_utf8_lossy(&request[..read]).into_owned());
            let answer = format!(
                "HTTP/1.1 307 Temporary Redirect\r\nlocation: {target}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            );
            let _ = socket.write_all(answer.as_bytes()).await;
        }
    });
    let foreign = weather(&working_at(&[&sends_on]), ForeignBehavior::Answers("from home")).await;
    let (_mesh, desk) = up(&foreign, KEY).await;
    let task = desk.ask(forecast_of("Bern")).await;
    assert_eq!(state(&task), "failed", "{task:#}");
    assert!(message(&task).contains("307"), "{}", message(&task));
    assert!(heard.lock().unwrap().iter().all(|request| request.contains("x-key: s3cret-w0rd")));
    assert!(!heard.lock().unwrap().is_empty());
    assert_eq!(elsewhere.calls(), 0, "nobody was sent on");
}
