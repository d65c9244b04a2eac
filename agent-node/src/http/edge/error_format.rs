//! Formats the edge's refusals for the binding of the request: JSON-RPC at `/a2a/rpc`, HTTP+JSON of A2A at `/a2a/v1`
//! (A2A §9.5, §11.6), the mesh's own format elsewhere.

use super::response::problem_of;
use actix_web::{
    Error, HttpResponse, ResponseError,
    body::{BodySize, BoxBody, MessageBody},
    http::{
        StatusCode,
        header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue},
    },
};
use bytes::Bytes;
use protocol::{a2a::error::A2aError, routes};
use serde_json::{Value, json};
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorFormat {
    Mesh,
    Rpc,
    Rest,
}

impl ErrorFormat {
    pub(super) fn of(path: &str) -> Self {
        let is_at =
            |base: &str| path.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        match (is_at(routes::A2A_RPC), is_at(routes::A2A_REST)) {
            (true, _) => Self::Rpc,
            (false, true) => Self::Rest,
            (false, false) => Self::Mesh,
        }
    }

    /// `error` in this format, with its own headers, and with its own status unless the format has another for it.
    pub(super) fn apply(self, error: Error) -> Error {
        let Some(problem) = problem_of(&error).filter(|_| self != Self::Mesh) else { return error };
        let a2a_error = A2aError::from(problem.clone());
        let body = match self {
            // The request is not parsed, so its id is unknown.
            Self::Rpc => json!({ "jsonrpc": "2.0", "id": Value::Null, "error": a2a_error.to_rpc() }),
            Self::Rest | Self::Mesh => a2a_error.to_rest(),
        };
        let status = match self {
            Self::Rest => StatusCode::from_u16(a2a_error.kind.http_status()).ok(),
            Self::Rpc | Self::Mesh => None,
        };
        let status = status.unwrap_or_else(|| error.as_response_error().status_code());
        FormattedError { error, status, body: body.to_string().into() }.into()
    }
}

struct FormattedError {
    error: Error,
    status: StatusCode,
    body: Bytes,
}

impl fmt::Debug for FormattedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl fmt::Display for FormattedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl ResponseError for FormattedError {
    fn status_code(&self) -> StatusCode {
        self.status
    }

    fn error_response(&self) -> HttpResponse {
        let answer = self.error.error_response();
        let mut answer = answer.map_body(|_, original| {
            BoxBody::new(FormattedBody { bytes: self.body.clone(), _original: original })
        });
        *answer.status_mut() = self.status;
        answer.headers_mut().remove(CONTENT_LENGTH);
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        answer
    }
}

/// A new body in place of the original, which is kept because it may hold the connection open.
struct FormattedBody {
    bytes: Bytes,
    _original: BoxBody,
}

impl MessageBody for FormattedBody {
    type Error = std::convert::Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.bytes.len() as u64)
    }

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let bytes = std::mem::take(&mut self.bytes);
        Poll::Ready((!bytes.is_empty()).then_some(Ok(bytes)))
    }
}
