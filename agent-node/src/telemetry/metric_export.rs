//! Sends the metrics of `GET /metrics` to a backend at intervals. The SDK's exporter takes what its own instruments have measured
//! and nothing else, so the values are written as OTLP here. They count from the start of the process, so that one that is lost
//! is made up for by the next.

mod openmetrics_values;

use super::{
    capture::Capture,
    delivery::SignalDelivery,
    export_thread::ExportThread,
    otel_settings::ExportSettings,
    otlp_client::{ExportResults, OtlpClient},
    resource::resource,
};
use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value},
    metrics::v1::{ResourceMetrics, ScopeMetrics},
    resource::v1::Resource,
};
use prost::Message as _;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::AcqRel},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The export of metrics.
pub(super) struct MetricExport {
    /// The pause between two exports.
    pub(super) interval: Duration,
    sender: Arc<MetricSender>,
    thread: ExportThread,
}

struct MetricSender {
    client: OtlpClient,
    results: Arc<ExportResults>,
    delivery: SignalDelivery,
    resource: Resource,
    /// When the metrics began to count.
    since: u64,
    is_sending: AtomicBool,
}

impl MetricExport {
    /// Starts the thread that sends; `service` is the service name unless the environment sets one.
    pub(super) fn start(
        settings: &ExportSettings,
        interval: Duration,
        service: &str,
        capture: &Capture,
    ) -> Result<Self, String> {
        let thread =
            ExportThread::start("metrics").map_err(|error| format!("no thread for metrics: {error}"))?;
        let (client, results) = OtlpClient::new(settings)?;
        let known = resource(service, &settings.attributes, capture);
        let attributes = known.iter().map(|(key, value)| attribute(key.as_str(), &value.as_str())).collect();
        let sender = MetricSender {
            client,
            results,
            delivery: SignalDelivery::new(settings),
            resource: Resource { attributes, ..Resource::default() },
            since: now(),
            is_sending: AtomicBool::new(false),
        };
        Ok(Self { interval, sender: Arc::new(sender), thread })
    }

    /// Sends a page of `GET /metrics`, unless the one before is still on its way.
    pub(super) fn send(&self, page: String) {
        let sender = self.sender.clone();
        if sender.delivery.is_left() || sender.is_sending.swap(true, AcqRel) {
            return;
        }
        self.thread.runtime().spawn(async move {
            sender.send(&page).await;
            sender.is_sending.store(false, std::sync::atomic::Ordering::Release);
        });
    }
}

impl MetricSender {
    async fn send(&self, page: &str) {
        let scope = InstrumentationScope {
            name: "agent-mesh".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let metrics = openmetrics_values::metrics(page, self.since, now());
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() }];
        let resource = Some(self.resource.clone());
        let of_process = ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() };
        let request = ExportMetricsServiceRequest { resource_metrics: vec![of_process] };
        self.client.post(request.encode_to_vec()).await;
        match self.results.take_failure() {
            None => self.delivery.worked(self.results.take_rejected()),
            Some(failure) => self.delivery.failed(&failure),
        }
    }
}

fn attribute(key: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::StringValue(value.to_owned())) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
