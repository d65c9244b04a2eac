//! A connection as its server sees it from below. actix bounds the head of a connection's first request in time, but of
//! no later one, and answers a head that it cannot read without a word. Both are made good here, where the bytes pass.

use super::last_words;
use actix_web::rt::net::TcpStream;
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

/// What the socket and the edge of one connection know of each other.
pub(in crate::http) struct Line {
    serving: Cell<u32>,
    /// Whether what is written next is an answer of ours.
    is_ours: Cell<bool>,
    has_begun: Cell<bool>,
    deadline: Cell<Option<Instant>>,
    head: Duration,
    idle: Duration,
}

/// A request that is being served, its answer's body included.
pub(in crate::http) struct Serving(Rc<Line>);

impl Line {
    fn new(head: Duration, idle: Duration) -> Rc<Self> {
        let (serving, is_ours, has_begun) = (Cell::new(0), Cell::new(false), Cell::new(false));
        Rc::new(Self { serving, is_ours, has_begun, deadline: Cell::new(None), head, idle })
    }

    /// A whole head has come.
    pub(in crate::http) fn serve(self: &Rc<Self>) -> Serving {
        self.serving.set(self.serving.get() + 1);
        self.deadline.set(None);
        Serving(Rc::clone(self))
    }

    /// Bytes have come. Of a connection's first head, actix keeps the time.
    fn hear(&self) {
        if self.deadline.get().is_some() && !self.has_begun.replace(true) {
            self.deadline.set(Some(Instant::now() + self.head));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let Self(line) = self;
        line.serving.set(line.serving.get() - 1);
        line.is_ours.set(true);
        line.has_begun.set(false);
        // A piece of the next head may be here already, and keep actix from closing what is idle.
        line.deadline.set(Some(Instant::now() + line.idle + line.head));
    }
}

/// The socket.
pub(super) struct Watched {
    io: TcpStream,
    line: Rc<Line>,
    timer: RefCell<Option<Pin<Box<Sleep>>>>,
    /// Whether a part of what was to be written is still to come.
    is_midway: bool,
    /// What goes out instead of that many bytes.
    instead: Option<(Vec<u8>, usize)>,
}

impl Watched {
    /// `io`, whose requests' heads take at most `head` and come at most `idle` after what was before.
    pub(super) fn new(io: TcpStream, head: Duration, idle: Duration) -> Self {
        let timer = RefCell::new(None);
        Self { io, line: Line::new(head, idle), timer, is_midway: false, instead: None }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.io
    }

    pub(super) fn line(&self) -> Rc<Line> {
        Rc::clone(&self.line)
    }

    /// Whether the time for the next head is up; wakes the task when it will be.
    fn is_late(&self, cx: &mut Context<'_>) -> bool {
        let mut timer = self.timer.borrow_mut();
        let Some(deadline) = self.line.deadline.get() else { return false };
        let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(cx).is_ready()
    }
}

impl AsyncRead for Watched {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let read = Pin::new(&mut this.io).poll_read(cx, buf);
        if read.is_ready() {
            if buf.filled().len() > before {
                this.line.hear();
            }
            return read;
        }
        if !this.is_late(cx) {
            return Poll::Pending;
        }
        if this.line.has_begun.get() {
            // Whether they are heard is the peer's business: it has been too slow already.
            let _ = Pin::new(&mut this.io).poll_write(cx, &last_words::too_slow());
        }
        this.line.deadline.set(None);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.instead.is_none()
            && !this.is_midway
            && !this.line.is_ours.get()
            && this.line.serving.get() == 0
        {
            this.instead = last_words::instead_of(bytes).map(|words| (words, bytes.len()));
        }
        while let Some((words, stands_for)) = &mut this.instead {
            let written = ready!(Pin::new(&mut this.io).poll_write(cx, words))?;
            if written == 0 {
                return Poll::Ready(Ok(0));
            }
            words.drain(..written);
            if words.is_empty() {
                let stands_for = *stands_for;
                this.instead = None;
                return Poll::Ready(Ok(stands_for));
            }
        }
        let written = ready!(Pin::new(&mut this.io).poll_write(cx, bytes))?;
        this.is_midway = written < bytes.len();
        if !this.is_midway {
            this.line.is_ours.set(false);
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
