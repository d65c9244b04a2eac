//! A tracing backend: OTLP over HTTP, in protobuf, plain or compressed by gzip. It can be slow or refuse.

use super::eventually;
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
    },
    common::v1::{AnyValue, KeyValue, any_value::Value},
};
use prost::Message;
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

/// A received span.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedSpan {
    pub trace: String,
    pub id: String,
    pub parent: String,
    pub state: String,
    pub name: String,
    /// 1 internal, 2 server, 3 client, 4 producer.
    pub kind: i32,
    pub start: u64,
    pub end: u64,
    pub links: Vec<String>,
    pub has_failed: bool,
    pub service: String,
    pub attributes: BTreeMap<String, String>,
}

impl ReceivedSpan {
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map(String::as_str).unwrap_or_default()
    }
}

/// How the backend answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CollectorBehavior {
    Accepts,
    /// Accepts all but so many spans.
    RejectsSome(i64),
    Refuses,
    /// Answers 413 to bodies of more bytes.
    AcceptsUpTo(usize),
    /// Answers so many requests with this status and `Retry-After` in seconds; then accepts.
    Busy(usize, u16, u64),
    Hangs,
}

#[derive(Default)]
struct CollectorState {
    spans: Vec<ReceivedSpan>,
    /// The bodies of all accepted requests.
    raw: Vec<u8>,
    requests: usize,
    /// The heads of all accepted requests, in lower case.
    heads: Vec<String>,
    arrivals: Vec<std::time::Instant>,
}

/// The backend.
pub struct Collector {
    pub url: String,
    state: Arc<Mutex<CollectorState>>,
    behavior: Arc<Mutex<CollectorBehavior>>,
}

impl Collector {
    pub fn start() -> Self {
        Self::listening("http", |stream, state, behavior| drop(serve(stream, state, behavior)))
    }

    /// A backend over TLS with the certificate of `tests/harness/tls`; it requires a client certificate of the same root.
    pub fn over_tls() -> Self {
        let config = Arc::new(tls());
        Self::listening("https", move |stream, state, behavior| {
            let session = rustls::ServerConnection::new(config.clone()).unwrap();
            drop(serve(rustls::StreamOwned::new(session, stream), state, behavior));
        })
    }

    /// A backend at a given address.
    pub fn start_at(address: std::net::SocketAddr) -> Self {
        Self::at(address, "http", |stream, state, behavior| drop(serve(stream, state, behavior)))
    }

    fn listening(
        scheme: &str,
        serve: impl Fn(TcpStream, &Mutex<CollectorState>, &Mutex<CollectorBehavior>) + Send + Sync + 'static,
    ) -> Self {
        Self::at(([127, 0, 0, 1], 0).into(), scheme, serve)
    }

    fn at(
        address: std::net::SocketAddr,
        scheme: &str,
        serve: impl Fn(TcpStream, &Mutex<CollectorState>, &Mutex<CollectorBehavior>) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let serve = Arc::new(serve);
        let (state, behavior) =
            (Arc::<Mutex<CollectorState>>::default(), Arc::new(Mutex::new(CollectorBehavior::Accepts)));
        let (shared_state, shared_behavior) = (state.clone(), behavior.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (state, behavior) = (shared_state.clone(), shared_behavior.clone());
                let serve = serve.clone();
                std::thread::spawn(move || serve(stream, &state, &behavior));
            }
        });
        Self { url, state, behavior }
    }

    pub fn set_behavior(&self, behavior: CollectorBehavior) {
        *self.behavior.lock().unwrap() = behavior;
    }

    /// The environment variables of a process that exports here without delay.
    pub fn environment(&self) -> Vec<String> {
        vec![
            format!("OTEL_EXPORTER_OTLP_ENDPOINT={}", self.url),
            "OTEL_BSP_SCHEDULE_DELAY=50".to_owned(),
            "OTEL_EXPORTER_OTLP_HEADERS=x-key=canary-header".to_owned(),
        ]
    }

    pub fn spans(&self) -> Vec<ReceivedSpan> {
        self.state.lock().unwrap().spans.clone()
    }

    pub fn requests(&self) -> usize {
        self.state.lock().unwrap().requests
    }

    /// The heads of all accepted requests, in lower case.
    pub fn heads(&self) -> Vec<String> {
        self.state.lock().unwrap().heads.clone()
    }

    /// The pauses between the requests.
    pub fn pauses(&self) -> Vec<std::time::Duration> {
        self.state.lock().unwrap().arrivals.windows(2).map(|two| two[1] - two[0]).collect()
    }

    pub fn raw(&self) -> String {
        String::from_utf8_lossy(&self.state.lock().unwrap().raw).into_owned()
    }

    /// Waits until the received spans match; returns them.
    pub async fn spans_where(
        &self,
        what: &str,
        matches: impl Fn(&[ReceivedSpan]) -> bool,
    ) -> Vec<ReceivedSpan> {
        eventually(&format!("spans: {what}"), async || {
            let spans = self.spans();
            matches(&spans).then_some(spans)
        })
        .await
    }
}

fn tls() -> rustls::ServerConfig {
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
    let file = |name: &str| format!("{}/../tests/harness/tls/{name}", env!("CARGO_MANIFEST_DIR"));
    let certificate = |name: &str| CertificateDer::from_pem_file(file(name)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate("ca.pem")).unwrap();
    let callers =
        rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(callers.build().unwrap())
        .with_single_cert(
            vec![certificate("server.pem")],
            PrivateKeyDer::from_pem_file(file("server.key")).unwrap(),
        )
        .unwrap()
}

fn serve(
    stream: impl Read + Write,
    state: &Mutex<CollectorState>,
    behavior: &Mutex<CollectorBehavior>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let behavior = {
            let mut behavior = behavior.lock().unwrap();
            let now = *behavior;
            if let CollectorBehavior::Busy(times, status, seconds) = now {
                *behavior = if times > 1 {
                    CollectorBehavior::Busy(times - 1, status, seconds)
                } else {
                    CollectorBehavior::Accepts
                };
            }
            now
        };
        {
            let mut state = state.lock().unwrap();
            state.requests += 1;
            state.arrivals.push(std::time::Instant::now());
        }
        match behavior {
            CollectorBehavior::Hangs => loop {
                std::thread::park();
            },
            CollectorBehavior::Refuses => {
                reader.get_mut().write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")?;
            }
            CollectorBehavior::Busy(_, status, seconds) => {
                let after = if seconds > 0 { format!("retry-after: {seconds}\r\n") } else { String::new() };
                let answer = format!("HTTP/1.1 {status} Busy\r\n{after}content-length: 0\r\n\r\n");
                reader.get_mut().write_all(answer.as_bytes())?;
            }
            CollectorBehavior::AcceptsUpTo(most) if body.len() > most => {
                reader.get_mut().write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n")?;
            }
            CollectorBehavior::Accepts
            | CollectorBehavior::RejectsSome(_)
            | CollectorBehavior::AcceptsUpTo(_) => {
                assert!(head.starts_with("POST /v1/traces "), "{head}");
                let head = head.to_lowercase();
                assert!(head.contains("content-type: application/x-protobuf"), "{head}");
                if head.contains("content-encoding: gzip") {
                    let packed = std::mem::take(&mut body);
                    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut body)?;
                }
                let request = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
                let mut state = state.lock().unwrap();
                state.raw.extend_from_slice(&body);
                state.heads.push(head);
                state.spans.extend(spans_of(request));
                drop(state);
                let rejected = match behavior {
                    CollectorBehavior::RejectsSome(rejected_spans) => Some(ExportTracePartialSuccess {
                        rejected_spans,
                        error_message: "too many, says the canary".to_owned(),
                    }),
                    CollectorBehavior::Accepts
                    | CollectorBehavior::AcceptsUpTo(_)
                    | CollectorBehavior::Refuses
                    | CollectorBehavior::Busy(..)
                    | CollectorBehavior::Hangs => None,
                };
                let body = ExportTraceServiceResponse { partial_success: rejected }.encode_to_vec();
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length";
                reader.get_mut().write_all(format!("{head}: {}\r\n\r\n", body.len()).as_bytes())?;
                reader.get_mut().write_all(&body)?;
            }
        }
    }
}

fn spans_of(request: ExportTraceServiceRequest) -> Vec<ReceivedSpan> {
    let mut spans = Vec::new();
    for resource in request.resource_spans {
        let known = attributes(&resource.resource.unwrap_or_default().attributes);
        let service = known.get("service.name").cloned().unwrap_or_default();
        for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            spans.push(ReceivedSpan {
                trace: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                state: span.trace_state,
                name: span.name,
                kind: span.kind,
                start: span.start_time_unix_nano,
                end: span.end_time_unix_nano,
                links: span.links.iter().map(|link| hex(&link.span_id)).collect(),
                has_failed: span.status.is_some_and(|status| status.code == 2),
                service: service.clone(),
                attributes: attributes(&span.attributes),
            });
        }
    }
    spans
}

fn attributes(list: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Option<AnyValue>| match value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        Some(Value::BoolValue(is)) => is.to_string(),
        other => format!("{other:?}"),
    };
    list.iter().map(|pair| (pair.key.clone(), text(&pair.value))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether no parent is missing: every span but the one root has its parent. Spans of several processes arrive in any
/// order.
pub fn is_whole<'a>(spans: impl IntoIterator<Item = &'a ReceivedSpan> + Clone) -> bool {
    let ids: std::collections::BTreeSet<_> = spans.clone().into_iter().map(|span| span.id.as_str()).collect();
    let roots = spans.into_iter().filter(|span| !ids.contains(span.parent.as_str()));
    roots.map(|span| span.id.as_str()).collect::<std::collections::BTreeSet<_>>().len() == 1
}

/// Each span once. A process that was killed before it recorded an export sends the same spans again; they must be equal.
pub fn each_once(spans: Vec<ReceivedSpan>) -> Vec<ReceivedSpan> {
    let mut once: Vec<ReceivedSpan> = Vec::new();
    for span in spans {
        match once.iter().find(|known| known.id == span.id) {
            Some(known) => assert_eq!(*known, span, "sent again with other content"),
            None => once.push(span),
        }
    }
    once
}

/// Asserts that the spans are one tree of one trace whose root has the parent `caller`.
pub fn assert_one_tree(spans: &[ReceivedSpan], caller: Option<&str>) {
    let traces: std::collections::BTreeSet<_> = spans.iter().map(|span| &span.trace).collect();
    assert_eq!(traces.len(), 1, "{traces:?}");
    let ids: std::collections::BTreeSet<_> = spans.iter().map(|span| span.id.as_str()).collect();
    assert_eq!(ids.len(), spans.len(), "a span came twice");
    let roots: Vec<_> = spans
        .iter()
        .filter(|span| !ids.contains(span.parent.as_str()))
        .inspect(|span| {
            assert_eq!(
                span.parent,
                caller.unwrap_or_default(),
                "{} hangs under nothing: {span:?}",
                span.name
            );
        })
        .collect();
    assert_eq!(roots.len(), 1, "{roots:?}");
}
