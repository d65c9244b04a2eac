//! OpenTelemetry's variables (`OTEL_*`), read once at the start. A wrong or unsupported value gives a warning that names the
//! variable and shows no header's value, and is ignored: such variables are often set for every program of a cluster. Only
//! files of certificates that can't be used are errors, and only with an endpoint.

pub mod unused;

use super::sampler::TraceSampler;
use blackboard::http_client::tls::TlsFiles;
use reqwest::{Url, header};
use std::{collections::HashMap, time::Duration};

/// The telemetry settings of the environment.
#[derive(Debug, Clone, Default)]
pub struct TelemetrySettings {
    pub sampler: TraceSampler,
    /// The backend; `None` without an endpoint.
    pub export: Option<ExportSettings>,
    pub queue: SpanQueueSettings,
    /// Settings that are wrong, have no effect or are replaced.
    pub warnings: Vec<String>,
}

/// A backend.
#[derive(Clone, PartialEq, Eq)]
pub struct ExportSettings {
    pub url: Url,
    /// Headers of every request, such as credentials.
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
            "ExportSettings {{ url: {}, headers: {names:?}, timeout: {:?} }}",
            without_query(&self.url),
            self.timeout
        )
    }
}

/// The queue of spans, as OpenTelemetry's batch span processor has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanQueueSettings {
    /// How long a batch is gathered.
    pub delay: Duration,
    /// The most spans that wait; more are dropped.
    pub capacity: usize,
    pub batch: usize,
    /// The time for a batch, with all repeats.
    pub timeout: Duration,
}

impl Default for SpanQueueSettings {
    fn default() -> Self {
        Self { delay: Duration::from_secs(5), capacity: 2_048, batch: 512, timeout: Duration::from_secs(30) }
    }
}

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
        let queue = queue(&get, &mut warnings);
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
        let export = export(&get, &mut warnings)?;
        if exports_otlp(&get, &mut warnings) {
            settings.export = export;
        }
        if let Some(export) = settings.export.as_ref().filter(|export| export.url.scheme() == "http") {
            let names = export.pems.names();
            warnings.extend(names.map(|name| {
                format!("{name} is set, but the endpoint begins with http://: nothing is encrypted and nobody's certificate is asked for")
            }));
        }
        if endpoint(&get).is_none() {
            let unused = [
                "OTEL_EXPORTER_OTLP_HEADERS",
                "OTEL_EXPORTER_OTLP_CERTIFICATE",
                "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
            ];
            warnings.extend(unused.into_iter().filter(|name| get(name).is_some()).map(|name| {
                format!("{name} is set, but no endpoint is: OTEL_EXPORTER_OTLP_ENDPOINT says where traces go")
            }));
        }
        let is_share = get("OTEL_TRACES_SAMPLER").is_some_and(|name| name.contains("ratio"));
        if get("OTEL_TRACES_SAMPLER_ARG").is_some() && !is_share {
            warnings.push(
                "OTEL_TRACES_SAMPLER_ARG is set, but OTEL_TRACES_SAMPLER names no sampler by ratio"
                    .to_owned(),
            );
        }
        settings.warnings = warnings;
        Ok(settings)
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

/// Whether one of the exporters, which are separated by commas, is OTLP. That is the default.
fn exports_otlp(get: VariableLookup<'_>, warnings: &mut Vec<String>) -> bool {
    let Some(asked) = get("OTEL_TRACES_EXPORTER") else { return true };
    let (known, others): (Vec<_>, Vec<_>) =
        asked.split(',').map(str::trim).partition(|name| ["otlp", "none"].contains(name));
    if !others.is_empty() {
        warnings.push(format!(
            "OTEL_TRACES_EXPORTER is {asked:?}: there are otlp and none; other names are ignored"
        ));
    }
    known.is_empty() || known.contains(&"otlp")
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

/// The first of `names` that is set, and its value.
fn given<'n>(get: VariableLookup<'_>, names: [&'n str; 2]) -> Option<(&'n str, String)> {
    names.into_iter().find_map(|name| Some((name, get(name)?)))
}

fn export(get: VariableLookup<'_>, warnings: &mut Vec<String>) -> Result<Option<ExportSettings>, String> {
    // Every variable is checked, also without an endpoint.
    let protocol = given(get, ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"]);
    if let Some((name, protocol)) = protocol.filter(|(_, protocol)| protocol != "http/protobuf") {
        warnings
            .push(format!("{name} is {protocol:?}: http/protobuf is spoken instead (port 4318, not 4317)"));
    }
    // As the exporter reads them: `none` for traces does not cancel a general `gzip`.
    let mut is_compressed = false;
    for name in ["OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION"] {
        match get(name).map(|text| text.to_ascii_lowercase()).as_deref() {
            Some("gzip") => is_compressed = true,
            None | Some("none") => {}
            Some(other) => warnings.push(format!("{name} is {other:?}: there are gzip and none")),
        }
    }
    let timeout = given(get, ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"]);
    let timeout = timeout.and_then(|(name, _)| known(warnings, timeout_of(get, name))).flatten();
    let timeout = timeout.unwrap_or(Duration::from_secs(10));
    let max_attribute_len =
        given(get, ["OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"]);
    let max_attribute_len = max_attribute_len.and_then(|(name, text)| {
        let number = text.parse();
        known(
            warnings,
            number.map_err(|_| format!("{name} is {text:?}: a whole number of characters is wanted")),
        )
    });
    let mut headers = HashMap::new();
    for name in ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"] {
        headers.extend(known(warnings, self::headers(get, name)).unwrap_or_default());
    }
    let attributes = known(warnings, pairs(get, "OTEL_RESOURCE_ATTRIBUTES")).unwrap_or_default();
    let Some((name, text, path)) = endpoint(get) else { return Ok(None) };
    let Some(url) = known(warnings, url(name, &text, path)) else { return Ok(None) };
    let pems = pems(get)?;
    let attributes = attributes.into_iter().map(|(_, name, value)| (name, decoded(&value))).collect();
    Ok(Some(ExportSettings { url, headers, timeout, is_compressed, attributes, pems, max_attribute_len }))
}

/// The variable of the endpoint, its value, and the path to append.
fn endpoint(get: VariableLookup<'_>) -> Option<(&'static str, String, &'static str)> {
    let (whole, base) = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT");
    let of_traces = get(whole).map(|text| (whole, text, ""));
    of_traces.or_else(|| Some((base, get(base)?, "/v1/traces")))
}

/// The endpoint `text` of the variable `name`, with `path` appended.
fn url(name: &str, text: &str, path: &str) -> Result<Url, String> {
    let wrong = |why: &str| {
        format!("{name} {why}: an http:// or https:// URL is wanted, such as http://localhost:4318")
    };
    let mut url = Url::parse(text).map_err(|error| wrong(&format!("is no URL ({error})")))?;
    if !["http", "https"].contains(&url.scheme()) || !url.has_host() {
        return Err(wrong(&format!("has the scheme {:?}", url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!(
            "{name} holds a user or password: credentials go into OTEL_EXPORTER_OTLP_HEADERS"
        ));
    }
    if !path.is_empty() {
        url.set_path(&format!("{}{path}", url.path().trim_end_matches('/')));
    }
    Ok(url)
}

/// The files of certificates and keys, which are read later.
fn pems(get: VariableLookup<'_>) -> Result<TlsFiles, String> {
    let roots = given(get, ["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"]);
    let own =
        given(get, ["OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"]);
    let key = given(get, ["OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "OTEL_EXPORTER_OTLP_CLIENT_KEY"]);
    let named = |(name, path): (&str, String)| (name.to_owned(), path.into());
    let own = match (own, key) {
        (Some(own), Some(key)) => Some((named(own), named(key))),
        (None, None) => None,
        (Some((name, _)), None) => {
            return Err(format!("{name} is of no use without its key: OTEL_EXPORTER_OTLP_CLIENT_KEY"));
        }
        (None, Some((name, _))) => {
            return Err(format!(
                "{name} is of no use without its certificate: OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"
            ));
        }
    };
    Ok(TlsFiles { roots: roots.map(named), own })
}

/// `name=value` pairs, separated by commas: position, name, value.
fn pairs(get: VariableLookup<'_>, variable: &str) -> Result<Vec<(usize, String, String)>, String> {
    let text = get(variable).unwrap_or_default();
    let entries = text.split(',').zip(1..).filter(|(entry, _)| !entry.trim().is_empty());
    let pair = |(entry, at): (&str, usize)| {
        let (name, value) = entry.split_once('=').filter(|(name, _)| !name.trim().is_empty())?;
        Some((at, name.trim().to_owned(), value.trim().to_owned()))
    };
    entries.map(|entry| pair(entry).ok_or_else(|| no_pair(variable, entry.1))).collect()
}

/// The entry is not shown: it may hold a credential.
fn no_pair(variable: &str, at: usize) -> String {
    format!("{variable}: entry {at} is no name=value pair")
}

/// Pairs that are headers; values may be percent-encoded.
fn headers(get: VariableLookup<'_>, variable: &str) -> Result<HashMap<String, String>, String> {
    let mut headers = HashMap::new();
    for (at, name, value) in pairs(get, variable)? {
        let (wrong, value) = (|| format!("{} of a header", no_pair(variable, at)), decoded(&value));
        header::HeaderName::try_from(name.as_str()).map_err(|_| wrong())?;
        header::HeaderValue::try_from(&value).map_err(|_| wrong())?;
        headers.insert(name.to_lowercase(), value);
    }
    Ok(headers)
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

fn queue(get: VariableLookup<'_>, warnings: &mut Vec<String>) -> SpanQueueSettings {
    let usual = SpanQueueSettings::default();
    let mut count = |name: &str, usual: usize| {
        let Some(text) = get(name) else { return usual };
        let number = text.parse().ok().filter(|number| (1..=MAX_CAPACITY).contains(number));
        let wrong = || format!("{name} is {text:?}: a whole number from 1 to {MAX_CAPACITY} is wanted");
        known(warnings, number.ok_or_else(wrong)).unwrap_or(usual)
    };
    let capacity = count("OTEL_BSP_MAX_QUEUE_SIZE", usual.capacity);
    let batch = count("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", usual.batch).min(capacity);
    let delay = known(warnings, milliseconds(get, "OTEL_BSP_SCHEDULE_DELAY")).flatten();
    let timeout = known(warnings, timeout_of(get, "OTEL_BSP_EXPORT_TIMEOUT")).flatten();
    SpanQueueSettings {
        delay: delay.unwrap_or(usual.delay),
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
