//! A backend that receives traces, as any collector does: OTLP over HTTP, in protobuf. It can be slow, or refuse.

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

/// One span as it came.
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

/// How it answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CollectorBehavior {
    Accepts,
    /// All but so many.
    RejectsSome(i64),
    Refuses,
    /// So many requests with this status, `Retry-After` so many seconds, then it takes them.
    Busy(usize, u16, u64),
    Hangs,
}

#[derive(Default)]
struct CollectorState {
    spans: Vec<ReceivedSpan>,
    /// Everything that came, head and body.
    raw: Vec<u8>,
    requests: usize,
    /// When each came.
    came: Vec<std::time::Instant>,
}

/// The backend.
pub struct Collector {
    pub url: String,
    got: Arc<Mutex<CollectorState>>,
    manner: Arc<Mutex<CollectorBehavior>>,
}

impl Collector {
    pub fn start() -> Self {
        Self::listening("http", |stream, got, manner| drop(serve(stream, got, manner)))
    }

    /// One that speaks TLS, shows the certificate of `tests/harness/tls` and asks for one that the same root has signed.
    pub fn over_tls() -> Self {
        let config = Arc::new(tls());
        Self::listening("https", move |stream, got, manner| {
            let session = rustls::ServerConnection::new(config.clone()).unwrap();
            drop(serve(rustls::StreamOwned::new(session, stream), got, manner));
        })
    }

    /// One that comes to where nobody was.
    pub fn start_at(address: std::net::SocketAddr) -> Self {
        Self::at(address, "http", |stream, got, manner| drop(serve(stream, got, manner)))
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
        let (got, manner) =
            (Arc::<Mutex<CollectorState>>::default(), Arc::new(Mutex::new(CollectorBehavior::Accepts)));
        let (taken, how) = (got.clone(), manner.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (taken, how, serve) = (taken.clone(), how.clone(), serve.clone());
                std::thread::spawn(move || serve(stream, &taken, &how));
            }
        });
        Self { url, got, manner }
    }

    pub fn set_behavior(&self, manner: CollectorBehavior) {
        *self.manner.lock().unwrap() = manner;
    }

    /// What a process is told so that it sends its traces here, at once.
    pub fn environment(&self) -> Vec<String> {
        vec![
            format!("OTEL_EXPORTER_OTLP_ENDPOINT={}", self.url),
            "OTEL_BSP_SCHEDULE_DELAY=50".to_owned(),
            "OTEL_EXPORTER_OTLP_HEADERS=x-key=canary-header".to_owned(),
        ]
    }

    pub fn spans(&self) -> Vec<ReceivedSpan> {
        self.got.lock().unwrap().spans.clone()
    }

    pub fn requests(&self) -> usize {
        self.got.lock().unwrap().requests
    }

    /// How long the pauses between requests were.
    pub fn pauses(&self) -> Vec<std::time::Duration> {
        self.got.lock().unwrap().came.windows(2).map(|two| two[1] - two[0]).collect()
    }

    pub fn raw(&self) -> String {
        String::from_utf8_lossy(&self.got.lock().unwrap().raw).into_owned()
    }

    /// The spans of a trace, once they are as expected.
    pub async fn spans_where(
        &self,
        what: &str,
        is_it: impl Fn(&[ReceivedSpan]) -> bool,
    ) -> Vec<ReceivedSpan> {
        eventually(&format!("spans: {what}"), async || {
            let spans = self.spans();
            is_it(&spans).then_some(spans)
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
    got: &Mutex<CollectorState>,
    manner: &Mutex<CollectorBehavior>,
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
        let manner = {
            let mut manner = manner.lock().unwrap();
            let now = *manner;
            if let CollectorBehavior::Busy(times, status, seconds) = now {
                *manner = if times > 1 {
                    CollectorBehavior::Busy(times - 1, status, seconds)
                } else {
                    CollectorBehavior::Accepts
                };
            }
            now
        };
        {
            let mut got = got.lock().unwrap();
            got.requests += 1;
            got.came.push(std::time::Instant::now());
        }
        match manner {
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
            CollectorBehavior::Accepts | CollectorBehavior::RejectsSome(_) => {
                assert!(head.starts_with("POST /v1/traces "), "{head}");
                assert!(head.to_lowercase().contains("content-type: application/x-protobuf"), "{head}");
                let request = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
                let mut got = got.lock().unwrap();
                got.raw.extend_from_slice(&body);
                got.spans.extend(seen(request));
                drop(got);
                let rejected = match manner {
                    CollectorBehavior::RejectsSome(rejected_spans) => Some(ExportTracePartialSuccess {
                        rejected_spans,
                        error_message: "too many, says the canary".to_owned(),
                    }),
                    CollectorBehavior::Accepts
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

fn seen(request: ExportTraceServiceRequest) -> Vec<ReceivedSpan> {
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

/// Whether nothing is missing above any span: each hangs under another, or is the one root. What is exported by several
/// processes comes in any order.
pub fn is_whole<'a>(spans: impl IntoIterator<Item = &'a ReceivedSpan> + Clone) -> bool {
    let ids: std::collections::BTreeSet<_> = spans.clone().into_iter().map(|span| span.id.as_str()).collect();
    let roots = spans.into_iter().filter(|span| !ids.contains(span.parent.as_str()));
    roots.map(|span| span.id.as_str()).collect::<std::collections::BTreeSet<_>>().len() == 1
}

/// Each span once. What a process has told and could not note before it was killed is told again when it is back: under
/// the same id, and the same in every respect.
pub fn each_once(spans: Vec<ReceivedSpan>) -> Vec<ReceivedSpan> {
    let mut once: Vec<ReceivedSpan> = Vec::new();
    for span in spans {
        match once.iter().find(|known| known.id == span.id) {
            Some(known) => assert_eq!(*known, span, "told again, and otherwise"),
            None => once.push(span),
        }
    }
    once
}

/// Asserts that the spans are one tree: all in one trace, and every parent there, or `caller`'s.
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
