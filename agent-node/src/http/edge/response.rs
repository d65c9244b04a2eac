//! Responses on their way out: errors of actix in the mesh's format, and what a body holds until it is sent.

use super::stream_limit::StreamPermit;
use crate::http::connections::connection_state::RequestGuard;
use actix_web::{
    Error, HttpResponse, ResponseError,
    body::{BodySize, BoxBody, MessageBody},
    dev::{Payload, ResponseHead, ServiceResponse},
    http::{StatusCode, header},
};
use bytes::Bytes;
use protocol::problem::{Problem, Reason};
use std::{
    cell::Cell,
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};
use transport::refusal::Refusal;

/// Returns `answer` unless it is an error that is neither a [`Refusal`] nor JSON. Such an error becomes a [`Refusal`].
pub(super) fn normalize_error<B>(answer: ServiceResponse<B>) -> Result<ServiceResponse<B>, Error> {
    let status = answer.status();
    if !status.is_client_error() && !status.is_server_error() {
        return Ok(answer);
    }
    let Some(error) = answer.response().error() else {
        let is_json =
            answer.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().ends_with(b"json"));
        return if is_json { Ok(answer) } else { Err(Refusal(problem_for_status(status, "")).into()) };
    };
    if error.as_error::<Refusal>().is_some() {
        return Ok(answer);
    }
    let message = error.to_string();
    Err(Refusal(problem_for_status(status, &message)).into())
}

/// The body of an answer to HEAD: actix sends the size of a sized body only; a stream is replaced by an empty one.
pub(super) fn without_body(_: &mut ResponseHead, body: BoxBody) -> BoxBody {
    match body.size() {
        BodySize::None | BodySize::Sized(_) => body,
        BodySize::Stream => BoxBody::new(EmptyStream),
    }
}

/// Ends an event stream when it is ready.
pub(super) type DrainFuture = Pin<Box<dyn Future<Output = ()>>>;

/// `body`, which holds the request's guard and its reader's permit until it is sent, and ends when `drain` is ready.
pub(super) fn guard_body(
    body: BoxBody,
    guard: Option<RequestGuard>,
    permit: Option<StreamPermit>,
    drain: Option<DrainFuture>,
) -> BoxBody {
    BoxBody::new(GuardedBody { body, _guard: guard, _permit: permit, drain, is_draining: false })
}

pub(super) fn is_event_stream<B>(answer: &ServiceResponse<B>) -> bool {
    let kind = answer.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

struct GuardedBody {
    body: BoxBody,
    _guard: Option<RequestGuard>,
    _permit: Option<StreamPermit>,
    drain: Option<DrainFuture>,
    is_draining: bool,
}

impl MessageBody for GuardedBody {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        // Polled before the body, so that a last event that the body sends on the same signal is not lost.
        if !self.is_draining {
            self.is_draining = self.drain.as_mut().is_some_and(|drain| drain.as_mut().poll(cx).is_ready());
        }
        match Pin::new(&mut self.body).poll_next(cx) {
            Poll::Ready(bytes) => Poll::Ready(bytes),
            // Everything available is sent; the response ends cleanly.
            Poll::Pending if self.is_draining => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

struct EmptyStream;

impl MessageBody for EmptyStream {
    type Error = std::convert::Infallible;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Poll::Ready(None)
    }
}

fn problem_for_status(status: StatusCode, message: &str) -> Problem {
    let reason = match status.as_u16() {
        401 => Reason::Unauthenticated,
        403 => Reason::Forbidden,
        404 => Reason::RouteNotFound,
        405 => Reason::MethodNotAllowed,
        408 => Reason::RequestTimeout,
        413 => Reason::PayloadTooLarge,
        415 => Reason::UnsupportedMediaType,
        429 => Reason::RateLimited,
        503 => Reason::Overloaded,
        504 => Reason::GatewayTimeout,
        400..500 => Reason::BadRequest,
        _ => {
            tracing::error!(%status, message, "an error without a Problem");
            return Problem::new(Reason::Internal, "a fault of ours; nothing more is known");
        }
    };
    let message = if message.is_empty() { status.canonical_reason().unwrap_or("refused") } else { message };
    Problem::new(reason, message.chars().take(300).collect::<String>())
}

/// Answers `problem` before the whole body is read, then closes the connection.
pub(super) fn refuse_unread(problem: Problem, payload: Payload) -> Error {
    UnreadBodyRefusal { refusal: Refusal(problem), payload: Cell::new(Some(payload)) }.into()
}

pub(super) fn problem_of(error: &Error) -> Option<&Problem> {
    let unread = || error.as_error::<UnreadBodyRefusal>().map(|unread| &unread.refusal);
    error.as_error::<Refusal>().or_else(unread).map(|refusal| &refusal.0)
}

struct UnreadBodyRefusal {
    refusal: Refusal,
    payload: Cell<Option<Payload>>,
}

impl fmt::Debug for UnreadBodyRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal.fmt(f)
    }
}

impl fmt::Display for UnreadBodyRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal.fmt(f)
    }
}

impl ResponseError for UnreadBodyRefusal {
    fn status_code(&self) -> StatusCode {
        self.refusal.status_code()
    }

    fn error_response(&self) -> HttpResponse {
        let payload = self.payload.take();
        self.refusal.error_response().map_body(|_, body| match (body.try_into_bytes(), payload) {
            (Ok(bytes), payload) => BoxBody::new(ErrorResponseBody { bytes, _payload: payload }),
            (Err(body), _) => body,
        })
    }
}

/// A body that holds the request's payload until it is sent. Meanwhile actix neither drains an endless request body nor
/// resets the connection, but lingers for a bounded time and closes.
struct ErrorResponseBody {
    bytes: Bytes,
    _payload: Option<Payload>,
}

impl MessageBody for ErrorResponseBody {
    type Error = std::convert::Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.bytes.len() as u64)
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let bytes = std::mem::take(&mut self.bytes);
        Poll::Ready((!bytes.is_empty()).then_some(Ok(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::drain::DrainSignal;
    use actix_web::body::to_bytes;

    /// Sends one more event when the drain starts. The drain starts right after this body polls the signal, as it may from
    /// another thread.
    struct FinalEventBody {
        signal: DrainSignal,
        started: DrainFuture,
        is_sent: bool,
    }

    impl MessageBody for FinalEventBody {
        type Error = std::convert::Infallible;

        fn size(&self) -> BodySize {
            BodySize::Stream
        }

        fn poll_next(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Bytes, Self::Error>>> {
            if self.is_sent {
                return Poll::Ready(None);
            }
            match self.started.as_mut().poll(cx) {
                Poll::Ready(()) => {
                    self.is_sent = true;
                    Poll::Ready(Some(Ok(Bytes::from_static(b"last"))))
                }
                Poll::Pending => {
                    self.signal.start();
                    Poll::Pending
                }
            }
        }
    }

    #[actix_web::test]
    async fn a_stream_that_ends_on_the_drain_sends_its_last_event() {
        let signal = DrainSignal::default();
        let started = Box::pin(signal.started());
        let body = BoxBody::new(FinalEventBody { signal: signal.clone(), started, is_sent: false });
        let body = guard_body(body, None, None, Some(Box::pin(signal.started())));
        assert_eq!(to_bytes(body).await.unwrap(), "last");
    }
}
