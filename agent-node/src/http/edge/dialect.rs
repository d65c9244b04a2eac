//! A refusal of the edge in the words of the binding that was spoken: who calls `/a2a/rpc` hears JSON-RPC, who calls
//! `/a2a/v1` the HTTP+JSON of A2A (§9.5, §11.6), everybody else the house's shape.

use super::shape::problem_of;
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

/// Which words a refusal is put into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    House,
    Rpc,
    Rest,
}

impl Dialect {
    /// The one that is spoken at `path`.
    pub(super) fn of(path: &str) -> Self {
        let is_at =
            |base: &str| path.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        match (is_at(routes::A2A_RPC), is_at(routes::A2A_REST)) {
            (true, _) => Self::Rpc,
            (false, true) => Self::Rest,
            (false, false) => Self::House,
        }
    }

    /// `error` in these words, with its own headers, and with its own status unless the words have another for it.
    pub(super) fn put(self, error: Error) -> Error {
        let Some(problem) = problem_of(&error).filter(|_| self != Self::House) else { return error };
        let said = A2aError::from(problem.clone());
        let body = match self {
            // Nobody has read the request, so nobody knows its id.
            Self::Rpc => json!({ "jsonrpc": "2.0", "id": Value::Null, "error": said.to_rpc() }),
            Self::Rest | Self::House => said.to_rest(),
        };
        let status = match self {
            Self::Rest => StatusCode::from_u16(said.kind.http_status()).ok(),
            Self::Rpc | Self::House => None,
        };
        let status = status.unwrap_or_else(|| error.as_response_error().status_code());
        Put { error, status, body: body.to_string().into() }.into()
    }
}

struct Put {
    error: Error,
    status: StatusCode,
    body: Bytes,
}

impl fmt::Debug for Put {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl fmt::Display for Put {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl ResponseError for Put {
    fn status_code(&self) -> StatusCode {
        self.status
    }

    fn error_response(&self) -> HttpResponse {
        let answer = self.error.error_response();
        let mut answer =
            answer.map_body(|_, under| BoxBody::new(Words { said: self.body.clone(), _under: under }));
        *answer.status_mut() = self.status;
        answer.headers_mut().remove(CONTENT_LENGTH);
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        answer
    }
}

/// What is said instead of what lies under it, which is kept: it may hold the connection open for a moment.
struct Words {
    said: Bytes,
    _under: BoxBody,
}

impl MessageBody for Words {
    type Error = std::convert::Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.said.len() as u64)
    }

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let said = std::mem::take(&mut self.said);
        Poll::Ready((!said.is_empty()).then_some(Ok(said)))
    }
}
