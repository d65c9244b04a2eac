//! What the stream of a connection and the edge know of its requests.

use super::{ConnectionGuard, ServedRequest};
use crate::budget_holder::BudgetHolder;
use protocol::problem::Problem;
use std::{cell::Cell, rc::Rc, time::Duration};
use tokio::time::Instant;

/// State that the stream and the edge of one connection share.
pub(in crate::http) struct ConnectionState {
    pub(in crate::http) requests: Cell<u32>,
    /// Whether the next write is the response of a handler or the edge.
    pub(in crate::http) is_own_response: Cell<bool>,
    pub(in crate::http) head_started: Cell<bool>,
    pub(in crate::http) deadline: Cell<Option<Instant>>,
    head: Duration,
    idle: Duration,
    pub(in crate::http) admitted: ConnectionGuard,
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
    pub(in crate::http) fn new(head: Duration, idle: Duration, admitted: ConnectionGuard) -> Rc<Self> {
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
    pub(in crate::http) fn note_received(&self) {
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
