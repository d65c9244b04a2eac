//! Where a signal goes and how: each variable of the standard for one signal counts before the general one.

use super::{
    ExportSettings, OtlpProtocol, TelemetrySignal, VariableLookup, decoded, exporter_variable, known,
    timeout_of,
};
use reqwest::{Url, header};
use std::{collections::HashMap, path::PathBuf, time::Duration};
use transport::http_client::tls::TlsFiles;

/// The variables of the exporters: one for the signal, which counts first, and one for all signals.
#[derive(Clone, Copy)]
struct ExporterVariables<'a> {
    get: VariableLookup<'a>,
    signal: TelemetrySignal,
}

impl ExporterVariables<'_> {
    /// The names of the signal's variable and of the general one.
    fn names(self, what: &str) -> [String; 2] {
        let signal = self.signal.word().to_uppercase();
        [["OTEL", "EXPORTER", "OTLP", &signal, what].join("_"), ["OTEL", "EXPORTER", "OTLP", what].join("_")]
    }

    /// The name and the value of the first one that is set.
    fn given(self, what: &str) -> Option<(String, String)> {
        self.names(what).into_iter().find_map(|name| (self.get)(&name).map(|value| (name, value)))
    }

    /// The file that a variable names.
    fn file(self, what: &str) -> Option<(String, PathBuf)> {
        self.given(what).map(|(name, path)| (name, path.into()))
    }

    fn protocol(self, warnings: &mut Vec<String>) -> OtlpProtocol {
        let Some((name, protocol)) = self.given("PROTOCOL") else { return OtlpProtocol::Http };
        match protocol.to_ascii_lowercase().as_str() {
            "grpc" => OtlpProtocol::Grpc,
            "http/protobuf" => OtlpProtocol::Http,
            _ => {
                warnings.push(format!(
                    "{name} is {protocol:?}: there are grpc and http/protobuf; the latter is spoken"
                ));
                OtlpProtocol::Http
            }
        }
    }

    fn is_compressed(self, warnings: &mut Vec<String>) -> bool {
        for name in self.names("COMPRESSION") {
            match (self.get)(&name).map(|text| text.to_ascii_lowercase()).as_deref() {
                Some("gzip") => return true,
                Some("none") => return false,
                None => {}
                Some(other) => warnings.push(format!("{name} is {other:?}: there are gzip and none")),
            }
        }
        false
    }

    /// The URL of requests; `None` without an endpoint.
    fn url(self, protocol: OtlpProtocol, warnings: &mut Vec<String>) -> Option<Url> {
        let (name, text) = self.given("ENDPOINT")?;
        let [of_signal, _] = self.names("ENDPOINT");
        let has_scheme = text.contains("://");
        let scheme = match self.given("INSECURE") {
            Some((_, is_insecure)) if is_insecure.eq_ignore_ascii_case("true") => "http",
            _ => "https",
        };
        let url = match protocol {
            // A host and a port are enough: OTEL_EXPORTER_OTLP_INSECURE says how to speak to them.
            OtlpProtocol::Grpc if !has_scheme => format!("{scheme}://{text}"),
            OtlpProtocol::Grpc | OtlpProtocol::Http => text,
        };
        let mut url = known(warnings, url_of(&name, &url))?;
        match (protocol, url.port()) {
            (OtlpProtocol::Http, Some(4317)) => warnings.push(format!(
                "{name} has the usual port of gRPC, but http/protobuf is spoken: use port 4318, or OTEL_EXPORTER_OTLP_PROTOCOL=grpc"
            )),
            (OtlpProtocol::Grpc, Some(4318)) => warnings.push(format!(
                "{name} has the usual port of http/protobuf, but gRPC is spoken: use port 4317, or no OTEL_EXPORTER_OTLP_PROTOCOL"
            )),
            _ => {}
        }
        match protocol {
            OtlpProtocol::Http if name != of_signal => {
                let base = url.path().trim_end_matches('/').to_owned();
                url.set_path(&format!("{base}/v1/{}", self.signal.word()));
            }
            OtlpProtocol::Grpc if url.path().len() > 1 => {
                warnings.push(format!("{name} has a path, of which gRPC has no use: it is left out"));
                url.set_path("");
            }
            OtlpProtocol::Http | OtlpProtocol::Grpc => {}
        }
        Some(url)
    }

    /// The files of certificates and keys, which are read later.
    fn pems(self) -> Result<TlsFiles, String> {
        let [_, certificate] = self.names("CLIENT_CERTIFICATE");
        let [_, key] = self.names("CLIENT_KEY");
        let own = match (self.file("CLIENT_CERTIFICATE"), self.file("CLIENT_KEY")) {
            (Some(own), Some(key)) => Some((own, key)),
            (None, None) => None,
            (Some((name, _)), None) => return Err(format!("{name} is of no use without its key: {key}")),
            (None, Some((name, _))) => {
                return Err(format!("{name} is of no use without its certificate: {certificate}"));
            }
        };
        Ok(TlsFiles { roots: self.file("CERTIFICATE"), own })
    }
}

/// The backend of `signal`. Every variable is checked, also without an endpoint. Fails if a certificate lacks its key, or a key
/// its certificate.
pub(super) fn export(
    get: VariableLookup<'_>,
    signal: TelemetrySignal,
    warnings: &mut Vec<String>,
) -> Result<Option<ExportSettings>, String> {
    let variables = ExporterVariables { get, signal };
    let protocol = variables.protocol(warnings);
    let is_compressed = variables.is_compressed(warnings);
    let timeout = variables.given("TIMEOUT");
    let timeout = timeout.and_then(|(name, _)| known(warnings, timeout_of(get, &name))).flatten();
    let timeout = timeout.unwrap_or(Duration::from_secs(10));
    let max_attribute_len = ["OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"]
        .into_iter()
        .find_map(|name| Some((name, get(name)?)));
    let max_attribute_len = max_attribute_len.and_then(|(name, text)| {
        let number = text.parse();
        known(
            warnings,
            number.map_err(|_| format!("{name} is {text:?}: a whole number of characters is wanted")),
        )
    });
    let mut headers = HashMap::new();
    for name in variables.names("HEADERS").iter().rev() {
        headers.extend(known(warnings, self::headers(get, name)).unwrap_or_default());
    }
    let attributes = known(warnings, pairs(get, "OTEL_RESOURCE_ATTRIBUTES")).unwrap_or_default();
    if variables.given("ENDPOINT").is_none() {
        let [_, endpoint] = variables.names("ENDPOINT");
        let unused = ["HEADERS", "CERTIFICATE", "CLIENT_CERTIFICATE"];
        let mut unused: Vec<_> = unused.map(|what| variables.names(what)[1].clone()).into();
        unused.extend((signal != TelemetrySignal::Traces).then(|| exporter_variable(signal).to_owned()));
        let unused = unused.into_iter().filter(|name| get(name).is_some());
        let word = signal.word();
        warnings.extend(
            unused.map(|name| format!("{name} is set, but no endpoint is: {endpoint} says where {word} go")),
        );
    }
    let Some(url) = variables.url(protocol, warnings) else { return Ok(None) };
    let pems = variables.pems()?;
    if url.scheme() == "http" {
        warnings.extend(pems.names().map(|name| {
            format!("{name} is set, but the endpoint begins with http://: nothing is encrypted and nobody's certificate is asked for")
        }));
    }
    let attributes = attributes.into_iter().map(|(_, name, value)| (name, decoded(&value))).collect();
    Ok(Some(ExportSettings {
        signal,
        protocol,
        url,
        headers,
        timeout,
        is_compressed,
        attributes,
        pems,
        max_attribute_len,
    }))
}

/// The endpoint `text` of the variable `name`.
fn url_of(name: &str, text: &str) -> Result<Url, String> {
    let wrong = |why: &str| {
        format!("{name} {why}: an http:// or https:// URL is wanted, such as http://localhost:4318")
    };
    let url = Url::parse(text).map_err(|error| wrong(&format!("is no URL ({error})")))?;
    if !["http", "https"].contains(&url.scheme()) || !url.has_host() {
        return Err(wrong(&format!("has the scheme {:?}", url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!(
            "{name} holds a user or password: credentials go into OTEL_EXPORTER_OTLP_HEADERS"
        ));
    }
    Ok(url)
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
