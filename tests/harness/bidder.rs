//! A bidder played by the test: it is registered, signs its messages, records what it receives and sends only what the test
//! tells it to.

use super::{Agent, Process, cluster::SECRET, eventually, test_identity};
use bytes::Bytes;
use protocol::{identity::IdentityKey, problem::Problem, signature::Secret};
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    ops::Deref,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use transport::http_client::{ClientRequest, HttpClient, HttpClientLimits, Signer};
use transport::key_ring::KeyRing;

/// A registered peer; it stops when dropped.
pub struct Bidder {
    pub id: String,
    pub endpoint: String,
    pub incarnation: u64,
    registry: String,
    pub wire: AgentClient,
    heard: Arc<Mutex<Vec<Value>>>,
    heartbeats: Option<JoinHandle<()>>,
    listener: JoinHandle<()>,
}

impl Drop for Bidder {
    fn drop(&mut self) {
        self.stop_heartbeats();
        self.listener.abort();
    }
}

fn bytes(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

/// A client that signs as an agent, with the keys that it knows.
#[derive(Clone)]
pub struct AgentClient {
    http: HttpClient,
    pub keys: KeyRing,
}

impl Deref for AgentClient {
    type Target = HttpClient;

    fn deref(&self) -> &HttpClient {
        &self.http
    }
}

/// A client that signs as `id` with a key of the test's, and joins with `secret`.
pub fn wire(id: &str, secret: &str) -> AgentClient {
    wire_with(test_identity(Path::new("/nowhere"), id), secret)
}

/// A client that signs with `key`, and joins with `secret`.
pub fn wire_with(key: IdentityKey, secret: &str) -> AgentClient {
    let keys = KeyRing::new(Secret::new(secret.as_bytes()).unwrap(), None);
    let me = key.public().id().clone();
    keys.set_own(key);
    let signer = Signer { keys: keys.clone(), me };
    AgentClient { http: HttpClient::new(Some(signer), HttpClientLimits::default()).unwrap(), keys }
}

/// The join secret of the mesh of a registry.
pub fn secret_of(registrar: &Process) -> String {
    let own = std::fs::read_to_string(registrar.data.join("join"));
    own.map_or_else(|_| SECRET.to_owned(), |text| text.trim().to_owned())
}

/// Registers a card; returns its incarnation, or the refusal.
pub async fn register(
    registry: &str,
    wire: &AgentClient,
    card: &Value,
    instance: &str,
) -> Result<u64, Problem> {
    let url = format!("{registry}/registry/agents");
    let application = json!({ "card": card, "instance": instance });
    let answer: Value = wire.json(ClientRequest::post(&url, "registry", bytes(&application))).await?;
    if let Ok(certificate) = serde_json::from_value(answer["certificate"].clone()) {
        wire.keys.learn(&certificate).unwrap();
    }
    Ok(answer["incarnation"].as_u64().unwrap())
}

/// Sends one heartbeat.
pub async fn send_heartbeat(
    registry: &str,
    wire: &HttpClient,
    id: &str,
    incarnation: u64,
    running: u32,
) -> Result<(), Problem> {
    let url = format!("{registry}/registry/agents/{id}/heartbeat");
    let heartbeat = json!({ "incarnation": incarnation, "running": running });
    wire.bytes(ClientRequest::new(Method::PUT, &url, "registry").body(bytes(&heartbeat))).await.map(|_| ())
}

/// Deregisters an agent.
pub async fn deregister(
    registry: &str,
    wire: &HttpClient,
    id: &str,
    incarnation: u64,
) -> Result<(), Problem> {
    let url = format!("{registry}/registry/agents/{id}?incarnation={incarnation}");
    wire.bytes(ClientRequest::new(Method::DELETE, &url, "registry")).await.map(|_| ())
}

/// A card with one skill.
pub fn card(id: &str, endpoint: &str, skill: &str, terms: &Value) -> Value {
    json!({ "agentId": id, "endpoint": endpoint, "skills": [{ "id": skill }], "terms": terms })
}

impl Bidder {
    /// Registers a peer with one skill and keeps it alive.
    pub async fn join(registrar: &Process, id: &str, skill: &str, terms: Value) -> Self {
        let registry = registrar.url.as_str();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let heard = Arc::new(Mutex::new(Vec::new()));
        let serving = tokio::spawn(listen(listener, heard.clone()));
        let wire = wire(id, &secret_of(registrar));
        let card = card(id, &endpoint, skill, &terms);
        let incarnation = register(registry, &wire, &card, &format!("{id}-{endpoint}")).await.unwrap();
        let (at, signer, name) = (registry.to_owned(), wire.clone(), id.to_owned());
        let heartbeats = tokio::spawn(async move {
            loop {
                drop(send_heartbeat(&at, &signer, &name, incarnation, 0).await);
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        });
        let (id, registry) = (id.to_owned(), registry.to_owned());
        Self {
            id,
            endpoint,
            incarnation,
            registry,
            wire,
            heard,
            heartbeats: Some(heartbeats),
            listener: serving,
        }
    }

    /// Stops the heartbeats.
    pub fn stop_heartbeats(&mut self) {
        if let Some(heartbeats) = self.heartbeats.take() {
            heartbeats.abort();
        }
    }

    /// Sends one heartbeat.
    pub async fn send_heartbeat(&self) -> Result<(), Problem> {
        send_heartbeat(&self.registry, &self.wire, &self.id, self.incarnation, 0).await
    }

    /// Deregisters.
    pub async fn leave(&mut self) {
        self.stop_heartbeats();
        deregister(&self.registry, &self.wire, &self.id, self.incarnation).await.unwrap();
    }

    /// The received messages of this type.
    pub fn received(&self, kind: &str) -> Vec<Value> {
        let heard = self.heard.lock().unwrap();
        heard.iter().filter(|message| message["type"] == kind).cloned().collect()
    }

    /// Waits for the `nth` message of this type, counted from 1; returns it.
    pub async fn wait_for(&self, kind: &str, nth: usize) -> Value {
        eventually(&format!("{kind} no. {nth} at {}", self.id), async || {
            self.received(kind).get(nth - 1).cloned()
        })
        .await
    }

    /// Sends a message to an agent.
    pub async fn send(&self, to: &Agent, mut envelope: Value) -> Result<Value, Problem> {
        let id = uuid::Uuid::now_v7().to_string();
        envelope["messageId"] = json!(id);
        envelope["fromAgentId"] = json!(self.id);
        envelope["toAgentId"] = json!(to.id);
        let url = format!("{}/a2a/messages", to.url);
        self.wire.json(ClientRequest::post(&url, &to.id, bytes(&envelope)).message_id(&id)).await
    }

    /// Answers a received message.
    pub async fn answer(
        &self,
        to: &Agent,
        message: &Value,
        kind: &str,
        payload: Value,
    ) -> Result<Value, Problem> {
        let envelope = json!({
            "type": kind, "payload": payload, "conversationId": message["replyConversationId"],
            "inReplyTo": message["messageId"],
        });
        self.send(to, envelope).await
    }

    /// Answers a call for proposals with a bid.
    pub async fn bid(&self, to: &Agent, cfp: &Value, cost: f64, eta: u64) {
        let bid = json!({ "taskId": cfp["payload"]["taskId"], "cost": cost, "eta": eta });
        self.answer(to, cfp, "bid", bid).await.unwrap();
    }
}

async fn listen(listener: TcpListener, heard: Arc<Mutex<Vec<Value>>>) {
    while let Ok((socket, _)) = listener.accept().await {
        tokio::spawn(serve(socket, heard.clone()));
    }
}

/// The part of HTTP that the mesh's client uses.
async fn serve(mut socket: TcpStream, heard: Arc<Mutex<Vec<Value>>>) -> Option<()> {
    let mut buffer = Vec::new();
    loop {
        let head = loop {
            if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            let mut chunk = [0; 4096];
            let n = socket.read(&mut chunk).await.ok().filter(|n| *n > 0)?;
            buffer.extend_from_slice(&chunk[..n]);
        };
        let text = String::from_utf8_lossy(&buffer[..head]).to_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let end = head + length.unwrap_or(0usize);
        while buffer.len() < end {
            let mut chunk = [0; 4096];
            let n = socket.read(&mut chunk).await.ok().filter(|n| *n > 0)?;
            buffer.extend_from_slice(&chunk[..n]);
        }
        let message: Value = serde_json::from_slice(&buffer[head..end]).unwrap_or_default();
        buffer.drain(..end);
        let body = json!({ "messageId": message["messageId"], "accepted": true }).to_string();
        heard.lock().unwrap().push(message);
        let answer = format!(
            "HTTP/1.1 202 Accepted\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.write_all(answer.as_bytes()).await.ok()?;
    }
}
