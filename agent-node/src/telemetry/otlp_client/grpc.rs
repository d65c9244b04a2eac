//! A request of the SDK's exporters, which is made for HTTP, as a unary call of OTLP's gRPC service. The answer is the one of
//! OTLP over HTTP that stands for the same, so that the exporters repeat what may be repeated.

use super::{
    super::otel_settings::{ExportSettings, TelemetrySignal},
    answered,
};
use http_body_util::{BodyExt as _, Limited};
use opentelemetry_http::{Bytes, HttpError, Request, Response};
use reqwest::{StatusCode, header};
use std::time::Duration;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// The most bytes of an answer.
const MAX_ANSWER: usize = 4 * 1024 * 1024;
/// The bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// Calls the service of the signal. Returns the answer, and what it is called in the log. Fails if there is none.
pub(super) async fn send(
    client: &reqwest::Client,
    settings: &ExportSettings,
    request: Request<Bytes>,
) -> Result<(Response<Bytes>, String), HttpError> {
    let (head, message) = request.into_parts();
    let mut url = settings.url.clone();
    url.set_query(None);
    url.set_path(path(settings.signal));
    let is_compressed = head.headers.contains_key(header::CONTENT_ENCODING);
    let mut headers = head.headers;
    headers.remove(header::CONTENT_ENCODING);
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/grpc"));
    headers.insert(header::TE, header::HeaderValue::from_static("trailers"));
    if is_compressed {
        headers.insert("grpc-encoding", header::HeaderValue::from_static("gzip"));
    }
    let body = framed(&message, is_compressed)?;
    let answer = client.post(url).headers(headers).body(body).send().await?;
    if answer.status() != StatusCode::OK {
        // A proxy answers, or a server without gRPC.
        return Ok((answered(answer.status(), None), format!("it answers {}", answer.status())));
    }
    let answer: Response<reqwest::Body> = answer.into();
    let status = Status::from_header_map(answer.headers());
    let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await?;
    let status = status.or_else(|| Status::from_header_map(body.trailers()?));
    let Some(status) = status else {
        return Ok((answered(StatusCode::BAD_REQUEST, None), "it does not speak gRPC".to_owned()));
    };
    if status.code() == Code::Ok {
        let message = body.to_bytes();
        return Ok((Response::new(message.slice(message.len().min(PREFIX)..)), String::new()));
    }
    let pause = status.get_details_retry_info().and_then(|info| info.retry_delay);
    Ok((answered(meaning(status.code(), pause), pause), format!("it answers {:?} (gRPC)", status.code())))
}

fn path(signal: TelemetrySignal) -> &'static str {
    match signal {
        TelemetrySignal::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        TelemetrySignal::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        TelemetrySignal::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    }
}

/// `message` with its prefix. Fails if it is longer than gRPC allows.
fn framed(message: &Bytes, is_compressed: bool) -> Result<Vec<u8>, HttpError> {
    let length = u32::try_from(message.len())?;
    let mut framed = Vec::with_capacity(PREFIX + message.len());
    framed.push(u8::from(is_compressed));
    framed.extend_from_slice(&length.to_be_bytes());
    framed.extend_from_slice(message);
    Ok(framed)
}

/// The HTTP status that stands for `code`. gRPC has no code for a message that is too large: servers answer
/// RESOURCE_EXHAUSTED or, with tonic, OUT_OF_RANGE, and name no time after which it would be taken.
fn meaning(code: Code, pause: Option<Duration>) -> StatusCode {
    match (code, pause) {
        (Code::ResourceExhausted, Some(_)) => StatusCode::TOO_MANY_REQUESTS,
        (Code::ResourceExhausted | Code::OutOfRange, None) => StatusCode::PAYLOAD_TOO_LARGE,
        (Code::Unimplemented, _) => StatusCode::NOT_FOUND,
        (
            Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unavailable
            | Code::DataLoss,
            _,
        ) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_means_what_otlp_says() {
        let second = Some(Duration::from_secs(1));
        for (code, pause, status) in [
            (Code::Unavailable, None, 503),
            (Code::DeadlineExceeded, None, 503),
            (Code::ResourceExhausted, None, 413),
            (Code::ResourceExhausted, second, 429),
            (Code::OutOfRange, None, 413),
            (Code::OutOfRange, second, 503),
            (Code::Unimplemented, None, 404),
            (Code::Unauthenticated, None, 400),
            (Code::InvalidArgument, None, 400),
        ] {
            assert_eq!(meaning(code, pause), status, "{code:?}");
        }
        let pause = answered(StatusCode::TOO_MANY_REQUESTS, Some(Duration::from_millis(1_200)));
        assert_eq!(pause.headers()[header::RETRY_AFTER], "2");
    }

    #[test]
    fn a_message_has_its_length_before_it() {
        let message = Bytes::from_static(b"abc");
        assert_eq!(framed(&message, true).unwrap(), b"\x01\0\0\0\x03abc");
        assert_eq!(framed(&message, false).unwrap(), b"\0\0\0\0\x03abc");
    }
}
