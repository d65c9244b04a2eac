//! A TCP connection under actix. actix limits the time for the head of a connection's first request only, answers a malformed
//! head without a body, and takes lines that a bare LF ends. This stream adds the time limit for later heads, a body for those
//! answers and a check of line ends, and it ends when the connection has to give way to another one.

use super::{error_response, head_check::HeadCheck};
use crate::http::{
    connections::{ConnectionGuard, ServedRequest},
    edge::BudgetHolder,
};
use actix_web::rt::net::TcpStream;
use protocol::problem::Problem;
use std::{
    cell::{Cell, RefCell},
    future::Future,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

/// State that the stream and the edge of one connection share.
pub(in crate::http) struct ConnectionState {
    requests: Cell<u32>,
    /// Whether the next write is the response of a handler or the edge.
    is_own_response: Cell<bool>,
    head_started: Cell<bool>,
    deadline: Cell<Option<Instant>>,
    head: Duration,
    idle: Duration,
    admitted: ConnectionGuard,
}

/// Held while a request is served, until the response body is sent.
pub(in crate::http) struct RequestGuard(Rc<ConnectionState>, ServedRequest);

impl RequestGuard {
    /// Notes that the request was authenticated as `holder`'s. Fails if a limit keeps the holder from the connection.
    pub(in crate::http) fn note_caller(&self, holder: &BudgetHolder) -> Result<(), Problem> {
        self.1.note_caller(holder)
    }
}

impl ConnectionState {
    fn new(head: Duration, idle: Duration, admitted: ConnectionGuard) -> Rc<Self> {
        let (requests, is_own_response, head_started) = (Cell::new(0), Cell::new(false), Cell::new(false));
        let deadline = Cell::new(None);
        Rc::new(Self { requests, is_own_response, head_started, deadline, head, idle, admitted })
    }

    /// Call it when a head is complete.
    pub(in crate::http) fn begin_request(self: &Rc<Self>) -> RequestGuard {
        self.requests.set(self.requests.get() + 1);
        self.deadline.set(None);
        RequestGuard(Rc::clone(self), self.admitted.begin_request())
    }

    /// Starts the timeout of a head at its first byte. actix times the first head of a connection.
    fn note_received(&self) {
        if self.deadline.get().is_some() && !self.head_started.replace(true) {
            self.deadline.set(Some(Instant::now() + self.head));
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let Self(state, _) = self;
        state.requests.set(state.requests.get() - 1);
        state.is_own_response.set(true);
        state.head_started.set(false);
        // If actix has buffered a part of the next head already, it does not close the idle connection.
        state.deadline.set(Some(Instant::now() + state.idle + state.head));
    }
}

/// A TCP stream with a deadline for each head.
pub(super) struct MonitoredStream {
    io: TcpStream,
    state: Rc<ConnectionState>,
    timer: RefCell<Option<Pin<Box<Sleep>>>>,
    heads: HeadCheck,
    /// Whether the last write was partial.
    is_write_partial: bool,
    /// The rest of a replacement response, and the length of the response of actix that it replaces.
    replacement: Option<(Vec<u8>, usize)>,
}

impl MonitoredStream {
    /// `io`, where a head takes at most `head` and starts at most `idle` after the previous response.
    pub(super) fn new(io: TcpStream, head: Duration, idle: Duration, admitted: ConnectionGuard) -> Self {
        let timer = RefCell::new(None);
        Self {
            io,
            state: ConnectionState::new(head, idle, admitted),
            timer,
            heads: HeadCheck::default(),
            is_write_partial: false,
            replacement: None,
        }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.io
    }

    pub(super) fn state(&self) -> Rc<ConnectionState> {
        Rc::clone(&self.state)
    }

    /// Whether the deadline for the next head has passed; wakes the task when it passes.
    fn is_head_overdue(&self, cx: &mut Context<'_>) -> bool {
        let mut timer = self.timer.borrow_mut();
        let Some(deadline) = self.state.deadline.get() else { return false };
        let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(cx).is_ready()
    }
}

impl AsyncRead for MonitoredStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let read = Pin::new(&mut this.io).poll_read(cx, buf);
        if read.is_ready() {
            let received = buf.filled().get(before..).unwrap_or_default();
            if !received.is_empty() {
                this.state.note_received();
            }
            if this.heads.check(received).is_err() {
                buf.set_filled(before);
                if this.state.requests.get() == 0 {
                    // A failed write does not matter: the connection closes.
                    let _ = Pin::new(&mut this.io).poll_write(cx, &error_response::bare_line_feed());
                }
                return Poll::Ready(Ok(()));
            }
            return read;
        }
        if this.state.admitted.connection().poll_evicted(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        if !this.is_head_overdue(cx) {
            return Poll::Pending;
        }
        if this.state.head_started.get() {
            // A failed write does not matter: the connection closes.
            let _ = Pin::new(&mut this.io).poll_write(cx, &error_response::head_timeout());
        }
        this.state.deadline.set(None);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for MonitoredStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.replacement.is_none()
            && !this.is_write_partial
            && !this.state.is_own_response.get()
            && this.state.requests.get() == 0
        {
            this.replacement =
                error_response::replacement_for(bytes).map(|bytes_left| (bytes_left, bytes.len()));
        }
        while let Some((bytes_left, replaced_bytes)) = &mut this.replacement {
            let written = ready!(Pin::new(&mut this.io).poll_write(cx, bytes_left))?;
            if written == 0 {
                return Poll::Ready(Ok(0));
            }
            bytes_left.drain(..written);
            if bytes_left.is_empty() {
                let replaced_bytes = *replaced_bytes;
                this.replacement = None;
                return Poll::Ready(Ok(replaced_bytes));
            }
        }
        let written = ready!(Pin::new(&mut this.io).poll_write(cx, bytes))?;
        this.is_write_partial = written < bytes.len();
        if !this.is_write_partial {
            this.state.is_own_response.set(false);
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}
