//! A server on a port of its own with misbehaving handlers, and a client that writes raw bytes.

use crate::http::{
    edge::{Auth, Edge, HttpServerConfig, release_permit},
    server::server,
};
use actix_web::{
    HttpRequest, HttpResponse,
    dev::ServerHandle,
    http::Method,
    web::{self, ReqData},
};
use bytes::Bytes;
use protocol::{
    a2a::card_signature::SigningKey,
    identity::IdentityKey,
    ids::{AgentId, Digest},
    json,
    limits::Limits,
    principal::Principal,
    signature::{Secret, SignatureHeaders, SignedParts},
};
use serde_json::Value;
use std::{
    io::{ErrorKind, Read, Write},
    net::{IpAddr, Ipv4Addr, TcpListener, TcpStream},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};
use tokio::sync::Semaphore;
use transport::key_ring::KeyRing;
use transport::refusal::Refusal;
use transport::resource::resource;

/// How long a test waits for an expected event.
pub(super) const DEADLINE: Duration = Duration::from_secs(10);

/// The identity of `id`, with a seed of `byte`s.
pub(super) fn identity(id: &str, byte: u8) -> IdentityKey {
    IdentityKey::new(AgentId::parse(id).unwrap(), Arc::new(SigningKey::from_seed(&[byte; 32])))
}

/// The keys of a server with builder-01 and the board, which knows planner-01.
pub(super) fn server_keys() -> KeyRing {
    let keys = KeyRing::new(Secret::new(&[1; 32]).unwrap(), None);
    ["builder-01", "board"].into_iter().for_each(|own| keys.set_own(identity(own, 1)));
    keys.set_pinned(identity("planner-01", 1).public().clone(), 1);
    keys
}

/// Signs as an agent.
pub(super) struct TestSigner {
    keys: KeyRing,
    me: AgentId,
}

/// Signs as `agent` with the key that the server knows.
pub(super) fn signer(agent: &str) -> TestSigner {
    signer_with(identity(agent, 1))
}

/// Signs with `key`.
pub(super) fn signer_with(key: IdentityKey) -> TestSigner {
    let keys = KeyRing::new(Secret::new(&[1; 32]).unwrap(), None);
    let me = key.public().id().clone();
    keys.set_own(key);
    for known in ["builder-01", "builder-02", "board"] {
        keys.set_pinned(identity(known, 1).public().clone(), 1);
    }
    TestSigner { keys, me }
}

impl TestSigner {
    pub(super) fn sign(&self, parts: &SignedParts<'_>, at: u64) -> SignatureHeaders {
        self.keys.sign_request(&self.me, parts, at).unwrap()
    }

    /// Signs a request that it makes for a user.
    pub(super) fn sign_for(&self, parts: &SignedParts<'_>, user: &str) -> SignatureHeaders {
        let at = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let user = protocol::principal::Principal::try_from(user.to_owned()).unwrap();
        self.keys.sign_request_for(&self.me, parts, at, Some(&user)).unwrap()
    }
}

/// A server configuration with short timeouts.
pub(super) fn test_config() -> HttpServerConfig {
    let limits = Limits { head_ms: 2_000, body_ms: 2_000, ..Limits::default() };
    HttpServerConfig {
        workers: 1,
        body_grace: Duration::from_millis(150),
        linger: Duration::from_millis(200),
        keep_alive: Duration::from_millis(500),
        shutdown: Duration::ZERO,
        ..HttpServerConfig::new(limits, Auth::new(server_keys()))
    }
}

/// The server under test.
pub(super) struct TestServer {
    pub(super) port: u16,
    handle: ServerHandle,
    /// Receives a message when a request to `/hold` or `/wait` starts.
    pub(super) started: mpsc::Receiver<()>,
    /// Each permit lets one of these requests end.
    pub(super) may_end: Arc<Semaphore>,
}

struct HoldState {
    started: Mutex<mpsc::Sender<()>>,
    may_end: Arc<Semaphore>,
}

pub(super) fn serve(config: HttpServerConfig) -> TestServer {
    serve_on("127.0.0.1", config)
}

pub(super) fn serve_on(address: &str, config: HttpServerConfig) -> TestServer {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (send_started, started) = mpsc::channel();
    let may_end = Arc::new(Semaphore::new(0));
    let state =
        web::Data::new(HoldState { started: Mutex::new(send_started), may_end: Arc::clone(&may_end) });
    let (send, handle) = mpsc::channel();
    thread::spawn(move || {
        actix_web::rt::System::new().block_on(async {
            let server = server(vec![listener], Edge::new(config), move |cfg| {
                routes(cfg.app_data(state.clone()));
            })
            .unwrap();
            send.send(server.handle()).unwrap();
            server.await.unwrap();
        });
    });
    TestServer { port, handle: handle.recv_timeout(DEADLINE).unwrap(), started, may_end }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        drop(self.handle.stop(false));
    }
}

fn routes(cfg: &mut web::ServiceConfig) {
    cfg.service(resource("/echo", [(Method::GET, web::to(echo)), (Method::POST, web::to(echo))]))
        .service(web::resource("/metrics").route(web::get().to(HttpResponse::Ok)))
        .service(resource("/a2a/artifacts", [(Method::PUT, web::to(echo))]))
        .service(web::resource("/bare").route(web::get().to(HttpResponse::Ok)))
        .service(web::resource("/number/{n}").route(web::get().to(number)))
        .service(web::resource("/panic").route(web::to(panics)))
        .service(web::resource("/teapot").route(web::to(HttpResponse::ImATeapot)))
        .service(web::resource("/hold").route(web::to(hold)))
        .service(web::resource("/wait").route(web::to(wait)))
        .service(web::resource("/alike/{size}").route(web::to(actix_like)))
        .service(web::resource("/stream").route(web::to(stream)));
}

/// `size` bytes, then a text like actix's own answer to a malformed head.
pub(super) fn actix_like_bytes(size: usize) -> Vec<u8> {
    [&vec![b'x'; size][..], b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"].concat()
}

async fn actix_like(size: web::Path<usize>) -> HttpResponse {
    HttpResponse::Ok().body(actix_like_bytes(*size))
}

/// Answers with the sender, digest and body size; checks that both extractors yield the same body.
async fn echo(
    who: ReqData<Principal>,
    body: ReqData<Bytes>,
    again: web::Bytes,
    request: HttpRequest,
) -> Result<HttpResponse, Refusal> {
    assert_eq!(*body, again);
    if request.method() == Method::POST {
        json::parse(&body, json::MAX_DEPTH)?;
    }
    let digest = actix_web::HttpMessage::extensions(&request).get::<Digest>().copied();
    Ok(HttpResponse::Ok().json(serde_json::json!({ "who": *who, "bytes": body.len(), "digest": digest })))
}

async fn number(n: web::Path<u8>, more: web::Query<std::collections::BTreeMap<String, u8>>) -> String {
    format!("{n} {more:?}")
}

async fn panics() -> HttpResponse {
    panic!("on purpose")
}

async fn hold(state: web::Data<HoldState>) -> HttpResponse {
    state.started.lock().unwrap().send(()).unwrap();
    state.may_end.acquire().await.unwrap().forget();
    HttpResponse::Ok().json(true)
}

async fn wait(state: web::Data<HoldState>, request: HttpRequest) -> HttpResponse {
    release_permit(&request);
    hold(state).await
}

async fn stream() -> HttpResponse {
    let first = futures_util::stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b": hello\n\n"))]);
    HttpResponse::Ok().streaming(futures_util::StreamExt::chain(first, futures_util::stream::pending()))
}

/// One client connection.
pub(super) struct Peer(pub(super) TcpStream);

/// A parsed response.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl TestServer {
    pub(super) fn peer(&self) -> Peer {
        self.peer_from(Ipv4Addr::LOCALHOST.into())
    }

    /// A connection to this address of the machine, so that the peer address is the same.
    pub(super) fn peer_from(&self, address: IpAddr) -> Peer {
        let stream = TcpStream::connect((address, self.port)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        Peer(stream)
    }

    /// One request on a connection of its own.
    pub(super) fn ask(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Reply {
        let mut peer = self.peer();
        peer.send(method, path, headers, body);
        peer.reply()
    }

    pub(super) fn post(&self, body: &[u8]) -> Reply {
        self.ask("POST", "/echo", "content-type: application/json\r\n", body)
    }
}

impl Peer {
    pub(super) fn send(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) {
        let length =
            if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        let is_named = headers.lines().any(|line| line.to_ascii_lowercase().starts_with("host:"));
        let host = if is_named { "" } else { "host: localhost\r\n" };
        let head = format!("{method} {path} HTTP/1.1\r\n{host}{length}{headers}\r\n");
        self.write(head.as_bytes());
        self.write(body);
    }

    /// Writes `bytes`; ignores a closed connection.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes);
    }

    /// Whether the other side closes within [`DEADLINE`]; discards what it sends.
    pub(super) fn is_closed(&mut self) -> bool {
        let start = Instant::now();
        while start.elapsed() < DEADLINE {
            match self.0.read(&mut [0; 4096]) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            }
        }
        false
    }

    /// The next response; its body by Content-Length, or what arrived with the head of a stream.
    pub(super) fn reply(&mut self) -> Reply {
        let mut bytes = Vec::new();
        let start = Instant::now();
        loop {
            if let Some(reply) = Reply::read(&bytes) {
                return reply;
            }
            assert!(start.elapsed() < DEADLINE, "no answer; so far {:?}", String::from_utf8_lossy(&bytes));
            let mut chunk = [0; 4096];
            let count = self.0.read(&mut chunk).expect("an answer");
            assert!(count > 0, "closed; so far {:?}", String::from_utf8_lossy(&bytes));
            bytes.extend_from_slice(&chunk[..count]);
        }
    }
}

impl Reply {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let mut reply = Self { status, head, body: Vec::new() };
        let length = reply.header("content-length").map_or(0, |length| length.parse().unwrap());
        // Copies the body once, when it is complete.
        reply.body = bytes.get(end..).filter(|body| body.len() >= length)?.to_vec();
        Some(reply)
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The refusal's status and code; checks its format.
    pub(super) fn refusal(&self) -> (u16, String) {
        let body = self.json();
        assert_eq!(body["error"]["code"], self.status, "{self:?}");
        assert!(!body["error"]["message"].as_str().unwrap().is_empty());
        (self.status, body["reasonCode"].as_str().unwrap().to_owned())
    }
}

/// `(status, code)` as [`Reply::refusal`] gives it.
pub(super) fn refused(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}
