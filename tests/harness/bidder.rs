//! A peer played by the test: it is registered, signs what it refusal_text, keeps what it hears, and does only what it is told.

use super::{Agent, Process, cluster::SECRET, eventually};
use blackboard::wire::{Call, Wire, WireLimits};
use bytes::Bytes;
use protocol::{
    ids::AgentId,
    problem::Problem,
    signature::{Secret, Signer},
};
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// One such peer.
pub struct Bidder {
    pub id: String,
    pub endpoint: String,
    pub incarnation: u64,
    registry: String,
    wire: Wire,
    heard: Arc<Mutex<Vec<Value>>>,
    beats: Option<JoinHandle<()>>,
    listens: JoinHandle<()>,
}

impl Drop for Bidder {
    fn drop(&mut self) {
        self.stop_heartbeats();
        self.listens.abort();
    }
}

fn bytes(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

/// Signs as `id` with `secret`.
pub fn wire(id: &str, secret: &str) -> Wire {
    let signer = Signer::new(Secret::new(secret.as_bytes()).unwrap(), AgentId::parse(id).unwrap());
    Wire::new(Some(signer), WireLimits::default()).unwrap()
}

/// The secret that agents at this registry sign with.
pub fn secret_of(registrar: &Process) -> String {
    let own = std::fs::read_to_string(registrar.data.join("join"));
    own.map_or_else(|_| SECRET.to_owned(), |text| text.trim().to_owned())
}

/// Registers a card at `registry`; its incarnation, or why not.
pub async fn register(registry: &str, wire: &Wire, card: &Value, instance: &str) -> Result<u64, Problem> {
    let url = format!("{registry}/registry/agents");
    let application = json!({ "card": card, "instance": instance });
    let answer: Value = wire.json(Call::post(&url, "registry", bytes(&application))).await?;
    Ok(answer["incarnation"].as_u64().unwrap())
}

/// One heartbeat.
pub async fn beat(
    registry: &str,
    wire: &Wire,
    id: &str,
    incarnation: u64,
    running: u32,
) -> Result<(), Problem> {
    let url = format!("{registry}/registry/agents/{id}/heartbeat");
    let heartbeat = json!({ "incarnation": incarnation, "running": running });
    wire.bytes(Call::new(Method::PUT, &url, "registry").body(bytes(&heartbeat))).await.map(|_| ())
}

/// Says goodbye.
pub async fn deregister(registry: &str, wire: &Wire, id: &str, incarnation: u64) -> Result<(), Problem> {
    let url = format!("{registry}/registry/agents/{id}?incarnation={incarnation}");
    wire.bytes(Call::new(Method::DELETE, &url, "registry")).await.map(|_| ())
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
        let listens = tokio::spawn(listen(listener, heard.clone()));
        let wire = wire(id, &secret_of(registrar));
        let card = card(id, &endpoint, skill, &terms);
        let incarnation = register(registry, &wire, &card, &format!("{id}-{endpoint}")).await.unwrap();
        let (at, speaks, name) = (registry.to_owned(), wire.clone(), id.to_owned());
        let beats = tokio::spawn(async move {
            loop {
                drop(beat(&at, &speaks, &name, incarnation, 0).await);
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        });
        let (id, registry) = (id.to_owned(), registry.to_owned());
        Self { id, endpoint, incarnation, registry, wire, heard, beats: Some(beats), listens }
    }

    /// No more heartbeats.
    pub fn stop_heartbeats(&mut self) {
        if let Some(beats) = self.beats.take() {
            beats.abort();
        }
    }

    /// One heartbeat by hand.
    pub async fn beat(&self) -> Result<(), Problem> {
        beat(&self.registry, &self.wire, &self.id, self.incarnation, 0).await
    }

    /// Says goodbye.
    pub async fn leave(&mut self) {
        self.stop_heartbeats();
        deregister(&self.registry, &self.wire, &self.id, self.incarnation).await.unwrap();
    }

    /// The messages of this type so far.
    pub fn received(&self, kind: &str) -> Vec<Value> {
        let heard = self.heard.lock().unwrap();
        heard.iter().filter(|message| message["type"] == kind).cloned().collect()
    }

    /// Waits for a message of this type, the `nth` from 1.
    pub async fn wait_for(&self, kind: &str, nth: usize) -> Value {
        eventually(&format!("{kind} no. {nth} at {}", self.id), async || {
            self.received(kind).get(nth - 1).cloned()
        })
        .await
    }

    /// Says something to an agent.
    pub async fn say(&self, to: &Agent, mut envelope: Value) -> Result<Value, Problem> {
        let id = uuid::Uuid::now_v7().to_string();
        envelope["messageId"] = json!(id);
        envelope["fromAgentId"] = json!(self.id);
        envelope["toAgentId"] = json!(to.id);
        let url = format!("{}/a2a/messages", to.url);
        self.wire.json(Call::post(&url, &to.id, bytes(&envelope)).message_id(&id)).await
    }

    /// Answers a message it heard.
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
        self.say(to, envelope).await
    }

    /// Answers a call for proposals with these terms.
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

/// As much of HTTP as our own client speaks.
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
