//! Every error answer has our shape, also those that actix makes.

use super::readers::Seat;
use crate::http::server::line::Serving;
use actix_web::{
    Error, HttpResponse, ResponseError,
    body::{BodySize, BoxBody, MessageBody},
    dev::{Payload, ResponseHead, ServiceResponse},
    http::{StatusCode, header},
};
use blackboard::refusal::Refusal;
use bytes::Bytes;
use protocol::problem::{Problem, Reason};
use std::{
    cell::Cell,
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

/// `answer` as it is if it is no error or has our shape, else the refusal it stands for.
pub(super) fn ours<B>(answer: ServiceResponse<B>) -> Result<ServiceResponse<B>, Error> {
    let status = answer.status();
    if !status.is_client_error() && !status.is_server_error() {
        return Ok(answer);
    }
    let Some(error) = answer.response().error() else {
        let is_json =
            answer.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().ends_with(b"json"));
        return if is_json { Ok(answer) } else { Err(Refusal(by_status(status, "")).into()) };
    };
    if error.as_error::<Refusal>().is_some() {
        return Ok(answer);
    }
    let said = error.to_string();
    Err(Refusal(by_status(status, &said)).into())
}

/// The answer to HEAD: the size stays, what has it goes, and a stream that would never end ends at once.
pub(super) fn without_body(_: &mut ResponseHead, body: BoxBody) -> BoxBody {
    match body.size() {
        BodySize::None | BodySize::Sized(_) => body,
        BodySize::Stream => BoxBody::new(EndedStream),
    }
}

/// What ends a stream of events, which has no end of its own.
pub(super) type Leaves = Pin<Box<dyn Future<Output = ()>>>;

/// `body`, which takes `serving` and its reader's `seat` along for as long as it has something to send.
pub(super) fn while_sent(
    body: BoxBody,
    serving: Option<Serving>,
    seat: Option<Seat>,
    leaves: Option<Leaves>,
) -> BoxBody {
    BoxBody::new(Sent { body, _serving: serving, _seat: seat, leaves, has_left: false })
}

/// Whether this answer is a stream of events.
pub(super) fn is_events<B>(answer: &ServiceResponse<B>) -> bool {
    let kind = answer.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

struct Sent {
    body: BoxBody,
    _serving: Option<Serving>,
    _seat: Option<Seat>,
    leaves: Option<Leaves>,
    has_left: bool,
}

impl MessageBody for Sent {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        // Looked at before the body, which may end by the same word: what it still says then is not cut.
        if !self.has_left {
            self.has_left = self.leaves.as_mut().is_some_and(|leaves| leaves.as_mut().poll(cx).is_ready());
        }
        match Pin::new(&mut self.body).poll_next(cx) {
            Poll::Ready(bytes) => Poll::Ready(bytes),
            // All that there is has been sent: what is cut is nothing but the wait, and the reader sees a whole answer.
            Poll::Pending if self.has_left => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

struct EndedStream;

impl MessageBody for EndedStream {
    type Error = std::convert::Infallible;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Poll::Ready(None)
    }
}

fn by_status(status: StatusCode, said: &str) -> Problem {
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
            tracing::error!(%status, said, "an error that nobody put into words");
            return Problem::new(Reason::Internal, "a fault of ours; nothing more is known");
        }
    };
    let said = if said.is_empty() { status.canonical_reason().unwrap_or("refused") } else { said };
    Problem::new(reason, said.chars().take(300).collect::<String>())
}

/// `problem`, answered while some of the body may still be on its way: the connection is closed behind it.
pub(super) fn unread(problem: Problem, payload: Payload) -> Error {
    Unread { refusal: Refusal(problem), payload: Cell::new(Some(payload)) }.into()
}

/// The problem that `error` is about, if it is a refusal of ours.
pub(super) fn problem_of(error: &Error) -> Option<&Problem> {
    let unread = || error.as_error::<Unread>().map(|unread| &unread.refusal);
    error.as_error::<Refusal>().or_else(unread).map(|refusal| &refusal.0)
}

struct Unread {
    refusal: Refusal,
    payload: Cell<Option<Payload>>,
}

impl fmt::Debug for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal.fmt(f)
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal.fmt(f)
    }
}

impl ResponseError for Unread {
    fn status_code(&self) -> StatusCode {
        self.refusal.status_code()
    }

    fn error_response(&self) -> HttpResponse {
        let payload = self.payload.take();
        self.refusal.error_response().map_body(|_, body| match (body.try_into_bytes(), payload) {
            (Ok(bytes), payload) => BoxBody::new(LastWords { bytes, _payload: payload }),
            (Err(body), _) => body,
        })
    }
}

/// An answer that keeps the request's payload: while it lives, actix neither drains an endless body for the next
/// request nor resets the connection under the client's feet, but lingers for a bounded time and closes.
struct LastWords {
    bytes: Bytes,
    _payload: Option<Payload>,
}

impl MessageBody for LastWords {
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
    use crate::http::leaving::Leaving;
    use actix_web::body::to_bytes;

    /// Ends by the word that the edge ends it by, and has one more thing to say then. The word comes just after it has
    /// looked, as it may from another thread.
    struct Last {
        leaving: Leaving,
        told: Leaves,
        said: bool,
    }

    impl MessageBody for Last {
        type Error = std::convert::Infallible;

        fn size(&self) -> BodySize {
            BodySize::Stream
        }

        fn poll_next(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Bytes, Self::Error>>> {
            if self.said {
                return Poll::Ready(None);
            }
            match self.told.as_mut().poll(cx) {
                Poll::Ready(()) => {
                    self.said = true;
                    Poll::Ready(Some(Ok(Bytes::from_static(b"last"))))
                }
                Poll::Pending => {
                    self.leaving.begin();
                    Poll::Pending
                }
            }
        }
    }

    #[actix_web::test]
    async fn a_stream_that_ends_itself_when_the_node_leaves_says_its_last_word() {
        let leaving = Leaving::default();
        let told = Box::pin(leaving.begun());
        let body = BoxBody::new(Last { leaving: leaving.clone(), told, said: false });
        let body = while_sent(body, None, None, Some(Box::pin(leaving.begun())));
        assert_eq!(to_bytes(body).await.unwrap(), "last");
    }
}
