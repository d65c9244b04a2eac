//! Carries spans to a backend, from a thread of its own. A backend that is slow or gone costs spans and nothing else: what
//! waits is bounded, what finds no room is dropped and counted, and one line says so.

use super::{
    capture::Capture,
    cursor::UnderWay,
    deliver::{Delivering, Outcome},
    otlp,
    settings::{self, Export, Queue},
    span::Span,
};
use opentelemetry_otlp::{Protocol, RetryPolicy, SpanExporter as Otlp, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    trace::{SpanData, SpanExporter},
};
use reqwest::Url;
use serde::Serialize;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// What became of spans since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Taken by the backend.
    pub exported: u64,
    /// Dropped because too many waited.
    pub dropped_full: u64,
    /// Dropped because the backend did not take them.
    pub dropped_failed: u64,
    /// Dropped by the backend, which took others of their batch.
    pub dropped_rejected: u64,
    /// On their way.
    pub waiting: usize,
}

#[derive(Default)]
struct Shared {
    exported: AtomicU64,
    full: AtomicU64,
    failed: AtomicU64,
    rejected: AtomicU64,
    waiting: AtomicUsize,
    looking: AtomicUsize,
    /// Whether it has been said that spans find no room, since the last that did.
    has_said_full: AtomicBool,
}

/// How long the start waits to see whether a backend is there.
const KNOCK: Duration = Duration::from_secs(2);

enum Message {
    Spans(Vec<Span>, Option<UnderWay>),
    Flush(oneshot::Sender<()>),
}

/// The way to a backend.
pub(super) struct Exporter {
    sender: mpsc::UnboundedSender<Message>,
    shared: Arc<Shared>,
    most: usize,
}

/// Somebody reads a journal to tell of it.
pub(super) struct Looking(Arc<Shared>);

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.looking.fetch_sub(1, Relaxed);
    }
}

impl Exporter {
    /// Starts the thread that sends to `export`; `service` is what the process is called if the environment does not say.
    pub(super) fn start(
        export: &Export,
        queue: Queue,
        service: &str,
        capture: Capture,
    ) -> Result<Self, String> {
        let client = export
            .pems
            .client()
            .map_err(|unusable| unusable.to_string())?
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(export.timeout)
            .build()
            .map_err(|error| format!("no HTTP client for traces: {error}"))?;
        let outcome = Arc::<Outcome>::default();
        let (within, patience) = (export.timeout, queue.timeout);
        let mut otlp = Otlp::builder()
            .with_http()
            .with_http_client(Delivering { client, within, patience, outcome: outcome.clone() })
            .with_retry_policy(RetryPolicy::disabled())
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(export.url.as_str())
            .with_timeout(export.timeout)
            .with_headers(export.headers.clone())
            .build()
            .map_err(|error| format!("{} can't be sent traces: {error}", settings::shown(&export.url)))?;
        otlp.set_resource(&resource(service, &export.attributes, &capture));
        let (sender, receiver) = mpsc::unbounded_channel();
        let shared = Arc::<Shared>::default();
        let carrier = Carrier {
            otlp,
            url: export.url.clone(),
            queue,
            capture,
            longest: export.longest,
            shared: shared.clone(),
            waiting: Vec::new(),
            is_broken: false,
            outcome,
            has_said_rejected: false,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("no thread for traces: {error}"))?;
        std::thread::Builder::new()
            .name("spans".to_owned())
            .spawn(move || runtime.block_on(carrier.run(receiver)))
            .map_err(|error| format!("no thread for traces: {error}"))?;
        Ok(Self { sender, shared, most: queue.most })
    }

    /// Tells `spans`; `step` is dropped when they have been taken, or are lost.
    pub(super) fn tell(&self, spans: Vec<Span>, step: Option<UnderWay>) {
        let count = spans.len();
        if count == 0 {
            return;
        }
        if self.shared.waiting.fetch_add(count, Relaxed) + count > self.most {
            self.shared.waiting.fetch_sub(count, Relaxed);
            self.shared.full.fetch_add(count as u64, Relaxed);
            if !self.shared.has_said_full.swap(true, Relaxed) {
                tracing::warn!(
                    most = self.most,
                    "traces lose spans: too many wait for their backend (counted in mesh_spans_dropped_total)"
                );
            }
            return;
        }
        drop(self.sender.send(Message::Spans(spans, step)));
    }

    pub(super) fn looking(&self) -> Looking {
        self.shared.looking.fetch_add(1, Relaxed);
        Looking(self.shared.clone())
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            exported: self.shared.exported.load(Relaxed),
            dropped_full: self.shared.full.load(Relaxed),
            dropped_failed: self.shared.failed.load(Relaxed),
            dropped_rejected: self.shared.rejected.load(Relaxed),
            waiting: self.shared.waiting.load(Relaxed),
        }
    }

    /// Sends what waits, for at most `patience`.
    pub(super) async fn flush(&self, patience: Duration) {
        let flushed = async {
            while self.shared.looking.load(Relaxed) > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let (done, is_done) = oneshot::channel();
            drop(self.sender.send(Message::Flush(done)));
            drop(is_done.await);
        };
        if tokio::time::timeout(patience, flushed).await.is_err() {
            let waiting = self.shared.waiting.load(Relaxed);
            tracing::warn!(waiting, "traces lose spans: their backend did not take them before the end");
        }
    }
}

/// What a process is, to its backend. `OTEL_SERVICE_NAME` wins, then `attributes`, what `OTEL_RESOURCE_ATTRIBUTES` says: the
/// SDK reads that too, and leaves its values percent-encoded.
fn resource(service: &str, attributes: &HashMap<String, String>, capture: &Capture) -> Resource {
    let given = Resource::builder().build();
    let name = opentelemetry::Key::from_static_str("service.name");
    let is_named = given.get(&name).is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    let ours = Resource::builder()
        .with_attribute(opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    let ours = match is_named {
        true => ours.build(),
        false => ours.with_service_name(service.to_owned()).build(),
    };
    let labels = ours.iter().map(|(key, value)| {
        let is_said_elsewhere = *key == name && std::env::var_os("OTEL_SERVICE_NAME").is_some();
        let said = attributes.get(key.as_str()).filter(|_| !is_said_elsewhere);
        let label = capture.label(said.map_or(&value.as_str(), |said| said.as_str()));
        opentelemetry::KeyValue::new(capture.label(key.as_str()), label)
    });
    Resource::builder_empty().with_attributes(labels.collect::<Vec<_>>()).build()
}

/// Gathers and sends; lives on its own thread.
struct Carrier {
    otlp: Otlp,
    url: Url,
    queue: Queue,
    /// Nothing leaves without having passed it, whoever made it.
    capture: Capture,
    longest: Option<usize>,
    shared: Arc<Shared>,
    waiting: Vec<(SpanData, Option<UnderWay>)>,
    is_broken: bool,
    /// What came of the last batch.
    outcome: Arc<Outcome>,
    has_said_rejected: bool,
}

impl Carrier {
    async fn run(mut self, mut messages: mpsc::UnboundedReceiver<Message>) {
        self.knock().await;
        loop {
            // Nothing waits: sleep until something does, then gather for a while.
            let Some(first) = messages.recv().await else { return };
            let due = tokio::time::Instant::now() + self.queue.delay;
            let mut flushed = self.take(first);
            while flushed.is_none() && self.waiting.len() < self.queue.batch {
                match tokio::time::timeout_at(due, messages.recv()).await {
                    Ok(Some(message)) => flushed = self.take(message),
                    Ok(None) | Err(_) => break,
                }
            }
            while !self.waiting.is_empty() {
                self.send().await;
            }
            if let Some(flushed) = flushed {
                // Whoever asked may have lost patience.
                let _ = flushed.send(());
            }
        }
    }

    /// Says at the start that nobody is there, and not only when the first spans are lost.
    async fn knock(&mut self) {
        let (host, port) = (self.url.host_str().unwrap_or_default(), self.url.port_or_known_default());
        let host = host.trim_matches(['[', ']']);
        let knocked = tokio::net::TcpStream::connect((host, port.unwrap_or_default()));
        let why = match tokio::time::timeout(KNOCK, knocked).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no connection within {KNOCK:?}"),
        };
        self.is_broken = true;
        self.say_broken(&why);
    }

    fn say_broken(&self, why: &str) {
        let (to, why) = (settings::shown(&self.url), why.replace(self.url.as_str(), "it"));
        tracing::warn!(
            to,
            why,
            "traces can't be delivered: until they can, spans that wait too long or find no room are dropped (counted in mesh_spans_dropped_total)"
        );
    }

    /// Takes spans in; somebody who wants them sent at once comes back.
    fn take(&mut self, message: Message) -> Option<oneshot::Sender<()>> {
        match message {
            Message::Spans(spans, step) => {
                let known = self.waiting.len();
                let data = spans.iter().filter_map(|span| otlp::data(span, &self.capture, self.longest));
                self.waiting.extend(data.map(|span| (span, None)));
                let unusable = spans.len() - (self.waiting.len() - known);
                // The last one brings the step with it: when that is taken, all of them are.
                if let Some((_, last)) = self.waiting.last_mut().filter(|_| unusable < spans.len()) {
                    *last = step;
                }
                self.shared.waiting.fetch_sub(unusable, Relaxed);
                None
            }
            Message::Flush(done) => Some(done),
        }
    }

    async fn send(&mut self) {
        let most = self.waiting.len().min(self.queue.batch);
        let (batch, steps): (Vec<_>, Vec<_>) = self.waiting.drain(..most).unzip();
        let count = batch.len();
        let sent = match tokio::time::timeout(self.queue.timeout, self.otlp.export(batch)).await {
            Ok(sent) => sent.map_err(|error| self.outcome.why().unwrap_or_else(|| error.to_string())),
            Err(_) => Err(self
                .outcome
                .why()
                .unwrap_or_else(|| format!("no answer within {:?}", self.queue.timeout))),
        };
        self.shared.waiting.fetch_sub(count, Relaxed);
        let cursors: Vec<_> = steps.iter().flatten().map(|step| step.cursor().clone()).collect();
        drop(steps);
        for cursor in cursors {
            cursor.save().await;
        }
        let is_first = !self.is_broken;
        self.is_broken = sent.is_err();
        match sent {
            Ok(()) => {
                let rejected = self.outcome.rejected.swap(0, Relaxed).min(count as u64);
                self.shared.exported.fetch_add(count as u64 - rejected, Relaxed);
                self.shared.rejected.fetch_add(rejected, Relaxed);
                // What it says of them is not told: it may repeat what it was sent, headers too.
                if rejected > 0 && !self.has_said_rejected {
                    let to = settings::shown(&self.url);
                    tracing::warn!(
                        to,
                        "the backend of traces rejects spans (counted in mesh_spans_dropped_total)"
                    );
                }
                self.has_said_rejected |= rejected > 0;
                self.shared.has_said_full.store(false, Relaxed);
                if !is_first {
                    tracing::warn!(to = settings::shown(&self.url), "traces are delivered again");
                }
            }
            Err(why) => {
                self.shared.failed.fetch_add(count as u64, Relaxed);
                if is_first {
                    self.say_broken(&why);
                }
            }
        }
    }
}
