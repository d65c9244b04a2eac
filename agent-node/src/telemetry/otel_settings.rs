//! OpenTelemetry's variables (`OTEL_*`), read once at the start. A wrong or unsupported value gives a warning that names the
//! variable and shows no header's value, and is ignored: such variables are often set for every program of a cluster. Only
//! files of certificates that can't be used are errors, and only with an endpoint.

mod backend;
pub mod unused;

use super::sampler::TraceSampler;
use backend::export;
use reqwest::Url;
use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};
use transport::http_client::tls::TlsFiles;

/// The telemetry settings of the environment.
#[derive(Debug, Clone, Default)]
pub struct TelemetrySettings {
    pub sampler: TraceSampler,
    /// The backend of traces; `None` without an endpoint.
    pub traces: Option<ExportSettings>,
    /// The backend of metrics, and how often they are sent; `None` without an endpoint, or if `OTEL_METRICS_EXPORTER` does not
    /// name it.
    pub metrics: Option<(ExportSettings, Duration)>,
    /// The backend of logs; `None` without an endpoint, or if `OTEL_LOGS_EXPORTER` does not name it.
    pub logs: Option<ExportSettings>,
    pub queue: ExportQueueSettings,
    /// The queue of logs.
    pub log_queue: ExportQueueSettings,
    /// Settings that are wrong, have no effect or are replaced.
    pub warnings: Vec<String>,
}

/// What is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TelemetrySignal {
    Traces,
    Metrics,
    Logs,
}

impl TelemetrySignal {
    /// Its name in texts, and in the path of its requests.
    pub fn word(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }
}

/// How requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// `http/protobuf`.
    Http,
    Grpc,
}

/// The backend of one signal.
#[derive(Clone, PartialEq, Eq)]
pub struct ExportSettings {
    pub signal: TelemetrySignal,
    pub protocol: OtlpProtocol,
    /// The URL of requests over HTTP; over gRPC only its scheme, host and port count.
    pub url: Url,
    /// Headers of every request, such as credentials. Over gRPC they are metadata.
    pub headers: HashMap<String, String>,
    pub timeout: Duration,
    /// Whether bodies are compressed by gzip.
    pub is_compressed: bool,
    pub attributes: HashMap<String, String>,
    pub pems: TlsFiles,
    /// The most characters of an attribute.
    pub max_attribute_len: Option<usize>,
}

impl std::fmt::Debug for ExportSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.headers.keys().collect();
        write!(
            f,
            "ExportSettings {{ url: {}, protocol: {:?}, headers: {names:?}, timeout: {:?} }}",
            without_query(&self.url),
            self.protocol,
            self.timeout
        )
    }
}

/// The queue of spans or logs, as OpenTelemetry's batch processors have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportQueueSettings {
    /// How long a batch is gathered.
    pub delay: Duration,
    /// The most items that wait; more are dropped.
    pub capacity: usize,
    pub batch: usize,
    /// The time for a batch, with all repeats.
    pub timeout: Duration,
}

impl Default for ExportQueueSettings {
    fn default() -> Self {
        Self { delay: Duration::from_secs(5), capacity: 2_048, batch: 512, timeout: Duration::from_secs(30) }
    }
}

/// How often metrics are sent, unless it is set.
const METRIC_INTERVAL: Duration = Duration::from_mins(1);
/// The delay of logs, unless it is set.
const LOG_DELAY: Duration = Duration::from_secs(1);
/// The shortest delay: the SDK's batch processors look for items that often.
const MIN_DELAY: Duration = Duration::from_millis(10);
/// The largest queue; a span has some KiB.
const MAX_CAPACITY: usize = 65_536;
const MAX_DURATION: Duration = Duration::from_hours(24);

/// A URL for logs, without its query, which may hold credentials.
pub fn without_query(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.to_string()
}

type VariableLookup<'a> = &'a dyn Fn(&str) -> Option<String>;

impl TelemetrySettings {
    /// The settings of this process's environment.
    pub fn from_env() -> Result<Self, String> {
        Self::read(&|name| std::env::var(name).ok())
    }

    /// The settings of the variables that `variable` returns. An empty variable counts as unset. Fails if a certificate lacks
    /// its key, or a key its certificate.
    pub fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let get =
            |name: &str| variable(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let mut warnings = Vec::new();
        let queue = queue(&get, "BSP", ExportQueueSettings::default(), &mut warnings);
        let sampler = get("OTEL_TRACES_SAMPLER").and_then(|name| {
            let sampler = TraceSampler::parse(&name, get("OTEL_TRACES_SAMPLER_ARG").as_deref());
            known(&mut warnings, sampler)
        });
        let mut settings = Self { queue, sampler: sampler.unwrap_or_default(), ..Self::default() };
        match get(DISABLED).map(|text| text.to_ascii_lowercase()).as_deref() {
            Some("true") => return Ok(settings),
            None | Some("false") => {}
            Some(_) => warnings.push(format!("{DISABLED} is neither true nor false: false is assumed")),
        }
        warnings.extend(propagators(&get));
        if exports_otlp(&get, TelemetrySignal::Traces, &mut warnings) {
            settings.traces = export(&get, TelemetrySignal::Traces, &mut warnings)?;
        }
        if exports_otlp(&get, TelemetrySignal::Metrics, &mut warnings) {
            let interval = known(&mut warnings, timeout_of(&get, "OTEL_METRIC_EXPORT_INTERVAL")).flatten();
            let backend = export(&get, TelemetrySignal::Metrics, &mut warnings)?;
            settings.metrics = backend.map(|backend| (backend, interval.unwrap_or(METRIC_INTERVAL)));
        }
        if exports_otlp(&get, TelemetrySignal::Logs, &mut warnings) {
            settings.logs = export(&get, TelemetrySignal::Logs, &mut warnings)?;
            let usual = ExportQueueSettings { delay: LOG_DELAY, ..ExportQueueSettings::default() };
            settings.log_queue = self::queue(&get, "BLRP", usual, &mut warnings);
        }
        let is_share = get("OTEL_TRACES_SAMPLER").is_some_and(|name| name.contains("ratio"));
        if get("OTEL_TRACES_SAMPLER_ARG").is_some() && !is_share {
            warnings.push(
                "OTEL_TRACES_SAMPLER_ARG is set, but OTEL_TRACES_SAMPLER names no sampler by ratio"
                    .to_owned(),
            );
        }
        // General variables are read once for each signal.
        let mut known = BTreeSet::new();
        warnings.retain(|line| known.insert(line.clone()));
        settings.warnings = warnings;
        Ok(settings)
    }
}

impl TelemetrySettings {
    /// Every backend that there is.
    pub fn backends(&self) -> impl Iterator<Item = &ExportSettings> {
        let metrics = self.metrics.as_ref().map(|(backend, _)| backend);
        [self.traces.as_ref(), metrics, self.logs.as_ref()].into_iter().flatten()
    }
}

/// Turns all telemetry off if it is `true`.
const DISABLED: &str = "OTEL_SDK_DISABLED";

/// Whether this process's environment turns telemetry off. No other variable then matters.
pub fn is_disabled() -> bool {
    std::env::var(DISABLED).is_ok_and(|text| text.trim().eq_ignore_ascii_case("true"))
}

/// The value of `read`; an error becomes a warning.
fn known<T>(warnings: &mut Vec<String>, read: Result<T, String>) -> Option<T> {
    read.map_err(|wrong| warnings.push(format!("{wrong}; the value is ignored"))).ok()
}

fn exporter_variable(signal: TelemetrySignal) -> &'static str {
    match signal {
        TelemetrySignal::Traces => "OTEL_TRACES_EXPORTER",
        TelemetrySignal::Metrics => "OTEL_METRICS_EXPORTER",
        TelemetrySignal::Logs => "OTEL_LOGS_EXPORTER",
    }
}

/// Whether one of the signal's exporters, which are separated by commas, is OTLP. For traces that is the default.
fn exports_otlp(get: VariableLookup<'_>, signal: TelemetrySignal, warnings: &mut Vec<String>) -> bool {
    let name = exporter_variable(signal);
    let is_default = signal == TelemetrySignal::Traces;
    let Some(asked) = get(name) else { return is_default };
    let (known, others): (Vec<_>, Vec<_>) = asked.split(',').map(str::trim).partition(|name| {
        // `GET /metrics` is there in any case.
        ["otlp", "none"].contains(name) || signal == TelemetrySignal::Metrics && *name == "prometheus"
    });
    if !others.is_empty() {
        warnings.push(format!("{name} is {asked:?}: there are otlp and none; other names are ignored"));
    }
    known.contains(&"otlp") || known.is_empty() && is_default
}

/// OpenTelemetry's default propagators, accepted without a warning.
const PROPAGATORS: [&str; 2] = ["tracecontext", "baggage"];

/// A warning about other propagators than the one that agents use.
fn propagators(get: VariableLookup<'_>) -> Option<String> {
    let asked = get("OTEL_PROPAGATORS")?;
    let others: Vec<_> = asked.split(',').map(str::trim).filter(|name| !PROPAGATORS.contains(name)).collect();
    let is_default = others.is_empty() && asked.contains(PROPAGATORS[0]);
    (!is_default).then(|| {
        format!("OTEL_PROPAGATORS is {asked:?}, but agents pass traces on as tracecontext (traceparent, tracestate) and in no other way")
    })
}

/// `text` without percent-encoding.
pub(super) fn decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let pair = more.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                out.push(byte);
                rest = &more[2..];
            }
            None => {
                out.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

/// The queue of the batch processor `of`, `BSP` (spans) or `BLRP` (logs).
fn queue(
    get: VariableLookup<'_>,
    of: &str,
    usual: ExportQueueSettings,
    warnings: &mut Vec<String>,
) -> ExportQueueSettings {
    let name = |what: &str| ["OTEL", of, what].join("_");
    let mut count = |name: &str, usual: usize| {
        let Some(text) = get(name) else { return usual };
        let number = text.parse().ok().filter(|number| (1..=MAX_CAPACITY).contains(number));
        let wrong = || format!("{name} is {text:?}: a whole number from 1 to {MAX_CAPACITY} is wanted");
        known(warnings, number.ok_or_else(wrong)).unwrap_or(usual)
    };
    let capacity = count(&name("MAX_QUEUE_SIZE"), usual.capacity);
    let batch = count(&name("MAX_EXPORT_BATCH_SIZE"), usual.batch).min(capacity);
    let delay = known(warnings, milliseconds(get, &name("SCHEDULE_DELAY"))).flatten();
    let timeout = known(warnings, timeout_of(get, &name("EXPORT_TIMEOUT"))).flatten();
    ExportQueueSettings {
        delay: delay.unwrap_or(usual.delay).max(MIN_DELAY),
        capacity,
        batch,
        timeout: timeout.unwrap_or(usual.timeout),
    }
}

fn milliseconds(get: VariableLookup<'_>, name: &str) -> Result<Option<Duration>, String> {
    let Some(text) = get(name) else { return Ok(None) };
    let time = text.parse().ok().map(Duration::from_millis).filter(|time| *time <= MAX_DURATION);
    let wrong = || format!("{name} is {text:?}: a whole number of milliseconds up to a day is wanted");
    time.map(Some).ok_or_else(wrong)
}

/// A timeout, which may not be zero.
fn timeout_of(get: VariableLookup<'_>, name: &str) -> Result<Option<Duration>, String> {
    match milliseconds(get, name)? {
        Some(Duration::ZERO) => Err(format!("{name} is 0: nothing can be answered in no time")),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests;
