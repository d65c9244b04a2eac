//! A TCP connection under actix. actix limits the time for the head of a connection's first request only, answers a malformed
//! head without a body, and takes lines that a bare LF ends. This stream adds the time limit for later heads, a body for those
//! answers and a check of line ends, and it ends when the connection has to give way to another one.

use super::{error_response, head_check::HeadCheck};
use crate::http::connections::{ConnectionGuard, connection_state::ConnectionState};
use actix_web::rt::net::TcpStream;
use std::{
    cell::RefCell,
    future::Future,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep_until},
};

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
