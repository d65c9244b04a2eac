//! Signed requests, and a registered peer that the test plays itself.

use super::{Agent, Answer, Process, client, eventually, get, read_answer, test_identity};
use protocol::{
    ids::{AgentId, Digest},
    problem::{Problem, Reason},
    signature::{MESSAGE_ID, RECIPIENT, Secret, SignedParts},
    time::WallTime,
};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use transport::http_client::{ClientRequest, HttpClient, HttpClientLimits, Signer};
use transport::key_ring::KeyRing;

/// A client that signs as an agent of a mesh that runs in one process.
#[derive(Clone)]
pub struct SignedClient {
    keys: KeyRing,
    me: AgentId,
    data: PathBuf,
    registry: String,
    is_admitted: Arc<tokio::sync::OnceCell<()>>,
}

impl Process {
    /// A client that signs as the agent `id`: with its key if it is an agent of this process, else with a key of the test,
    /// which the registry admits.
    pub fn client_as(&self, id: &str) -> SignedClient {
        let secret = std::fs::read_to_string(self.data.join("join")).unwrap();
        let keys = KeyRing::new(Secret::new(secret.trim().as_bytes()).unwrap(), None);
        keys.set_own(test_identity(&self.data, id));
        let (data, registry) = (self.data.clone(), self.url.clone());
        SignedClient { keys, me: AgentId::parse(id).unwrap(), data, registry, is_admitted: Arc::default() }
    }
}

impl SignedClient {
    /// Has the registry admit the key, unless it knows it.
    async fn be_admitted(&self) {
        let admission = async {
            let signer = Signer { keys: self.keys.clone(), me: self.me.clone() };
            let wire = HttpClient::new(Some(signer), HttpClientLimits::default()).unwrap();
            let url = format!("{}/registry/agents", self.registry);
            drop(wire.bytes(ClientRequest::get(&url, "registry")).await);
        };
        self.is_admitted.get_or_init(|| admission).await;
    }

    /// A signed request to `base` + `target`, which `recipient` serves.
    pub async fn call(
        &self,
        method: Method,
        (base, target): (&str, &str),
        recipient: &str,
        body: Option<&Value>,
    ) -> Answer {
        self.call_at(now(), method, (base, target), recipient, body).await
    }

    /// The same, signed at another time.
    pub async fn call_at(
        &self,
        created: u64,
        method: Method,
        to: (&str, &str),
        recipient: &str,
        body: Option<&Value>,
    ) -> Answer {
        let request = self.request_at(created, method, to, recipient, body).await;
        read_answer(request.send().await.unwrap()).await
    }

    /// The request of [`SignedClient::call`].
    pub async fn request(
        &self,
        method: Method,
        to: (&str, &str),
        recipient: &str,
        body: Option<&Value>,
    ) -> RequestBuilder {
        self.request_at(now(), method, to, recipient, body).await
    }

    async fn request_at(
        &self,
        created: u64,
        method: Method,
        (base, target): (&str, &str),
        recipient: &str,
        body: Option<&Value>,
    ) -> RequestBuilder {
        let text = body.map(Value::to_string).unwrap_or_default();
        let message_id = body.and_then(|body| body["messageId"].as_str());
        let digest = Digest::of(text.as_bytes());
        let parts =
            SignedParts { method: method.as_str(), path_and_query: target, recipient, message_id, digest };
        self.be_admitted().await;
        if self.data.join(format!("keys/{recipient}.ed25519")).exists() {
            self.keys.set_pinned(test_identity(&self.data, recipient).public().clone(), 1);
        }
        let signed = self.keys.sign_request(&self.me, &parts, created);
        let signed =
            signed.unwrap_or_else(|_| self.keys.join_secret().sign_request(&self.me, &parts, created, None));
        let headers = signed.into_pairs();
        let mut request = client().request(method, format!("{base}{target}")).header(RECIPIENT, recipient);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(id) = message_id {
            request = request.header(MESSAGE_ID, id);
        }
        if !text.is_empty() {
            request = request.header("content-type", "application/json").body(text);
        }
        request
    }

    /// Posts an envelope to an agent.
    pub async fn post(&self, to: &Agent, envelope: &Value) -> Answer {
        self.call(Method::POST, (&to.url, "/a2a/messages"), &to.id, Some(envelope)).await
    }

    /// Signed GET at an agent.
    pub async fn get(&self, at: &Agent, target: &str) -> Answer {
        self.call(Method::GET, (&at.url, target), &at.id, None).await
    }
}

pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// The status for which a peer does not answer at all.
pub const NO_ANSWER: u16 = 0;

/// A registered agent, played by the test.
pub struct Peer {
    pub id: String,
    pub url: String,
    pub signing: SignedClient,
    registry: String,
    incarnation: u64,
    heard: Arc<Mutex<Vec<Value>>>,
    answers: Arc<AtomicU16>,
    beats: tokio::task::JoinHandle<()>,
}

impl Peer {
    /// Registers `id` with one skill and answers every message with 202. Returns once `mesh` has it in its directory.
    pub async fn join(mesh: &Process, id: &str, skill: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heard = Arc::new(Mutex::new(Vec::new()));
        let answers = Arc::new(AtomicU16::new(202));
        let (all, status) = (heard.clone(), answers.clone());
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let (all, status) = (all.clone(), status.clone());
                std::thread::spawn(move || serve(connection, &all, &status));
            }
        });
        let signing = mesh.client_as(id);
        let card = json!({ "agentId": id, "endpoint": url, "skills": [{ "id": skill }] });
        let body = json!({ "card": card, "instance": url });
        let target = (mesh.url.as_str(), "/registry/agents");
        let answer = signing.call(Method::POST, target, "registry", Some(&body)).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        let incarnation = answer.body["incarnation"].as_u64().unwrap();
        let (beating, registry, target) =
            (signing.clone(), mesh.url.clone(), format!("/registry/agents/{id}/heartbeat"));
        let beats = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(300)).await;
                let beat = json!({ "incarnation": incarnation });
                beating.call(Method::PUT, (&registry, &target), "registry", Some(&beat)).await;
            }
        });
        let (registry, id) = (mesh.url.clone(), id.to_owned());
        let peer = Self { id, url, signing, registry, incarnation, heard, answers, beats };
        peer.wait_until_listed(mesh, true).await;
        peer
    }

    /// Waits until the peer is, or is not, in the directory of `mesh`.
    pub async fn wait_until_listed(&self, mesh: &Process, is_listed: bool) {
        eventually(&format!("{} listed: {is_listed}", self.id), async || {
            let state = get(&format!("{}/state", mesh.url)).await;
            let peers = state["peers"].as_array().cloned().unwrap_or_default();
            (peers.contains(&json!(self.id)) == is_listed).then_some(())
        })
        .await;
    }

    /// Deregisters.
    pub async fn leave(&self, mesh: &Process) {
        self.deregister(mesh, "").await;
    }

    /// Deregisters as one that may come back.
    pub async fn drain(&self, mesh: &Process) {
        self.deregister(mesh, "&reason=drained").await;
    }

    async fn deregister(&self, mesh: &Process, reason: &str) {
        self.beats.abort();
        let target = format!("/registry/agents/{}?incarnation={}{reason}", self.id, self.incarnation);
        let answer = self.signing.call(Method::DELETE, (&self.registry, &target), "registry", None).await;
        assert_eq!(answer.status, 204, "{answer:?}");
        self.wait_until_listed(mesh, false).await;
    }

    /// Sets the status of all later answers, or [`NO_ANSWER`].
    pub fn answer_with(&self, status: u16) {
        self.answers.store(status, Ordering::SeqCst);
    }

    /// All received messages, in order.
    pub fn received(&self) -> Vec<Value> {
        self.heard.lock().unwrap().clone()
    }

    /// Waits for a message of this type; returns it.
    pub async fn wait_for(&self, kind: &str) -> Value {
        eventually(&format!("a {kind} at {}", self.id), async || {
            self.received().into_iter().find(|message| message["type"] == kind)
        })
        .await
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.beats.abort();
    }
}

fn is_late(message: &Value) -> bool {
    let expires = message["expiresAt"].as_str().and_then(|at| WallTime::parse(at).ok());
    expires.is_some_and(|at| at.0 / 1_000 < i64::try_from(now()).unwrap())
}

/// Serves one request and closes the connection.
fn serve(mut connection: TcpStream, heard: &Mutex<Vec<Value>>, status: &AtomicU16) -> Option<()> {
    let mut reader = BufReader::new(connection.try_clone().ok()?);
    let mut length = 0;
    let mut request = String::new();
    reader.read_line(&mut request).ok()?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let line = line.trim().to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let is_message = request.starts_with("POST /a2a/messages");
    if is_message {
        heard.lock().ok()?.push(serde_json::from_slice(&body).unwrap_or(Value::Null));
    }
    while status.load(Ordering::SeqCst) == NO_ANSWER {
        std::thread::sleep(Duration::from_millis(10));
    }
    let message: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let status = match status.load(Ordering::SeqCst) {
        _ if !is_message => 404,
        202 if is_late(&message) => 410,
        status => status,
    };
    let body = match status {
        410 => Problem::new(Reason::Expired, "it came too late").body(),
        404 => Problem::new(Reason::MessageNotFound, "peers of tests have messages only").body(),
        202 => json!({ "accepted": true }),
        _ => json!({ "error": { "code": status, "message": "the test says so" } }),
    }
    .to_string();
    let head = format!(
        "HTTP/1.1 {status} -\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    connection.write_all((head + &body).as_bytes()).ok()
}
