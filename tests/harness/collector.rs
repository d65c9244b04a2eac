//! A tracing backend: OTLP over HTTP or gRPC, in protobuf, plain or compressed by gzip. It can be slow or refuse.

mod grpc;

use super::eventually;
use opentelemetry_proto::tonic::{
    collector::{
        logs::v1::ExportLogsServiceRequest,
        metrics::v1::ExportMetricsServiceRequest,
        trace::v1::{ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse},
    },
    common::v1::{AnyValue, KeyValue, any_value::Value},
    metrics::v1::Metric,
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

/// A received line of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedLog {
    pub text: String,
    pub target: String,
    pub severity: String,
    pub trace: String,
    pub service: String,
    pub attributes: BTreeMap<String, String>,
}

/// How the backend answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CollectorBehavior {
    Accepts,
    /// Accepts all but so many spans.
    RejectsSome(i64),
    Refuses,
    /// Answers 404, or UNIMPLEMENTED.
    IsNotThere,
    /// Answers so to all but spans.
    TakesTracesOnly,
    /// Answers 413, or RESOURCE_EXHAUSTED, to bodies of more bytes.
    AcceptsUpTo(usize),
    /// Answers so many requests with this status, or UNAVAILABLE, and `Retry-After` in seconds; then accepts.
    Busy(usize, u16, u64),
    Hangs,
}

#[derive(Default)]
struct CollectorState {
    spans: Vec<ReceivedSpan>,
    logs: Vec<ReceivedLog>,
    metrics: Vec<Metric>,
    /// The paths of all requests.
    paths: Vec<String>,
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
    is_grpc: bool,
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

    /// A backend over gRPC.
    pub fn over_grpc() -> Self {
        Self::listening("http", |stream, state, behavior| grpc::serve(stream, None, state, behavior))
            .speaking_grpc()
    }

    /// A backend over gRPC and TLS, as [`Collector::over_tls`].
    pub fn over_grpc_and_tls() -> Self {
        let mut config = tls();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let config = Arc::new(config);
        Self::listening("https", move |stream, state, behavior| {
            grpc::serve(stream, Some(config.clone()), state, behavior);
        })
        .speaking_grpc()
    }

    /// A backend over gRPC at a given address.
    pub fn over_grpc_at(address: std::net::SocketAddr) -> Self {
        Self::at(address, "http", |stream, state, behavior| grpc::serve(stream, None, state, behavior))
            .speaking_grpc()
    }

    fn speaking_grpc(self) -> Self {
        Self { is_grpc: true, ..self }
    }

    /// A backend at a given address.
    pub fn start_at(address: std::net::SocketAddr) -> Self {
        Self::at(address, "http", |stream, state, behavior| drop(serve(stream, state, behavior)))
    }

    fn listening(
        scheme: &str,
        serve: impl Fn(TcpStream, &Arc<Mutex<CollectorState>>, &Arc<Mutex<CollectorBehavior>>)
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self::at(([127, 0, 0, 1], 0).into(), scheme, serve)
    }

    fn at(
        address: std::net::SocketAddr,
        scheme: &str,
        serve: impl Fn(TcpStream, &Arc<Mutex<CollectorState>>, &Arc<Mutex<CollectorBehavior>>)
        + Send
        + Sync
        + 'static,
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
        Self { url, is_grpc: false, state, behavior }
    }

    pub fn set_behavior(&self, behavior: CollectorBehavior) {
        *self.behavior.lock().unwrap() = behavior;
    }

    /// The environment variables of a process that exports here without delay.
    pub fn environment(&self) -> Vec<String> {
        let protocol = self.is_grpc.then(|| "OTEL_EXPORTER_OTLP_PROTOCOL=grpc".to_owned());
        let others = [
            format!("OTEL_EXPORTER_OTLP_ENDPOINT={}", self.url),
            "OTEL_BSP_SCHEDULE_DELAY=50".to_owned(),
            "OTEL_EXPORTER_OTLP_HEADERS=x-key=canary-header".to_owned(),
        ];
        protocol.into_iter().chain(others).collect()
    }

    pub fn spans(&self) -> Vec<ReceivedSpan> {
        self.state.lock().unwrap().spans.clone()
    }

    pub fn logs(&self) -> Vec<ReceivedLog> {
        self.state.lock().unwrap().logs.clone()
    }

    /// The metrics of the last request that had some.
    pub fn metrics(&self) -> Vec<Metric> {
        self.state.lock().unwrap().metrics.clone()
    }

    /// How many requests had a path with `word` in it.
    pub fn requests_to(&self, word: &str) -> usize {
        self.state.lock().unwrap().paths.iter().filter(|path| path.to_lowercase().contains(word)).count()
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
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let behavior = arrived(&path, state, behavior);
        match behavior {
            CollectorBehavior::Hangs => loop {
                std::thread::park();
            },
            CollectorBehavior::Refuses => {
                reader.get_mut().write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")?;
            }
            CollectorBehavior::IsNotThere => {
                reader.get_mut().write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?;
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
            | CollectorBehavior::TakesTracesOnly
            | CollectorBehavior::RejectsSome(_)
            | CollectorBehavior::AcceptsUpTo(_) => {
                let head = head.to_lowercase();
                assert!(head.contains("content-type: application/x-protobuf"), "{head}");
                if head.contains("content-encoding: gzip") {
                    let packed = std::mem::take(&mut body);
                    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut body)?;
                }
                let body = accept(&path, &body, head, state, behavior);
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length";
                reader.get_mut().write_all(format!("{head}: {}\r\n\r\n", body.len()).as_bytes())?;
                reader.get_mut().write_all(&body)?;
            }
        }
    }
}

/// Counts a request, and returns how it is answered.
fn arrived(
    path: &str,
    state: &Mutex<CollectorState>,
    behavior: &Mutex<CollectorBehavior>,
) -> CollectorBehavior {
    let mut behavior = behavior.lock().unwrap();
    let now = *behavior;
    if let CollectorBehavior::Busy(times, status, seconds) = now {
        *behavior = if times > 1 {
            CollectorBehavior::Busy(times - 1, status, seconds)
        } else {
            CollectorBehavior::Accepts
        };
    }
    let mut state = state.lock().unwrap();
    state.requests += 1;
    state.paths.push(path.to_owned());
    state.arrivals.push(std::time::Instant::now());
    let is_other = !path.to_lowercase().contains("trace");
    if now == CollectorBehavior::TakesTracesOnly && is_other { CollectorBehavior::IsNotThere } else { now }
}

/// Keeps what a request has; returns the answer.
fn accept(
    path: &str,
    body: &[u8],
    head: String,
    state: &Mutex<CollectorState>,
    behavior: CollectorBehavior,
) -> Vec<u8> {
    let mut state = state.lock().unwrap();
    state.raw.extend_from_slice(body);
    state.heads.push(head);
    match path {
        "/v1/traces" | "/opentelemetry.proto.collector.trace.v1.TraceService/Export" => {
            state.spans.extend(spans_of(ExportTraceServiceRequest::decode(body).unwrap()));
        }
        "/v1/logs" | "/opentelemetry.proto.collector.logs.v1.LogsService/Export" => {
            state.logs.extend(logs_of(ExportLogsServiceRequest::decode(body).unwrap()));
        }
        "/v1/metrics" | "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export" => {
            let request = ExportMetricsServiceRequest::decode(body).unwrap();
            let scopes = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
            state.metrics = scopes.flat_map(|scope| scope.metrics).collect();
        }
        other => panic!("no path of OTLP: {other}"),
    }
    let partial_success = if let CollectorBehavior::RejectsSome(rejected_spans) = behavior {
        Some(ExportTracePartialSuccess {
            rejected_spans,
            error_message: "too many, says the canary".to_owned(),
        })
    } else {
        None
    };
    ExportTraceServiceResponse { partial_success }.encode_to_vec()
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

fn logs_of(request: ExportLogsServiceRequest) -> Vec<ReceivedLog> {
    let mut logs = Vec::new();
    for resource in request.resource_logs {
        let known = attributes(&resource.resource.unwrap_or_default().attributes);
        let service = known.get("service.name").cloned().unwrap_or_default();
        for scope in resource.scope_logs {
            let target = scope.scope.unwrap_or_default().name;
            for log in scope.log_records {
                logs.push(ReceivedLog {
                    text: text(&log.body),
                    target: target.clone(),
                    severity: log.severity_text,
                    trace: hex(&log.trace_id),
                    service: service.clone(),
                    attributes: attributes(&log.attributes),
                });
            }
        }
    }
    logs
}

fn text(value: &Option<AnyValue>) -> String {
    match value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        Some(Value::BoolValue(is)) => is.to_string(),
        other => format!("{other:?}"),
    }
}

fn attributes(list: &[KeyValue]) -> BTreeMap<String, String> {
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
