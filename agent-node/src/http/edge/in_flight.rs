//! Limits the number of concurrent requests of the node. A request counts from its complete body to the head of its
//! response, so a slow sender or a stream does not use up the limit.

use super::is_a2a;
use crate::http::headers::PREFER;
use actix_web::{HttpMessage, HttpRequest, dev::ServiceRequest};
use protocol::{
    problem::{Problem, Reason},
    routes,
};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

pub(super) struct InFlightLimit {
    count: Arc<AtomicUsize>,
    max: usize,
}

/// Permission for one request, released on drop.
pub(crate) struct InFlightPermit(Arc<AtomicUsize>);

impl InFlightLimit {
    pub(super) fn new(max: usize) -> Self {
        Self { count: Arc::default(), max }
    }

    /// A permit, or 503.
    pub(super) fn acquire(&self) -> Result<InFlightPermit, Problem> {
        let before = self.count.fetch_add(1, Ordering::Relaxed);
        let permit = InFlightPermit(Arc::clone(&self.count));
        if before >= self.max {
            let message = format!("{} requests are in flight, which is the limit", self.max);
            return Err(Problem::new(Reason::Overloaded, message).with("limit", self.max));
        }
        Ok(permit)
    }
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Moves the permit into a request that may wait (`Prefer`, A2A, or MCP), so that its handler can release it; else returns it.
pub(super) fn hand_over(permit: InFlightPermit, request: &ServiceRequest) -> Option<InFlightPermit> {
    let may_wait = is_a2a(request) || request.path() == routes::MCP;
    if !request.headers().contains_key(&PREFER) && !may_wait {
        return Some(permit);
    }
    request.extensions_mut().insert(permit);
    None
}

/// Releases the permit of `request`, for a handler that only waits from here on.
pub fn release_permit(request: &HttpRequest) {
    drop(take_permit(request));
}

pub(crate) fn take_permit(request: &HttpRequest) -> Option<InFlightPermit> {
    request.extensions_mut().remove::<InFlightPermit>()
}
