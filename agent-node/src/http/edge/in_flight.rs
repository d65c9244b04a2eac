//! How many requests are at work at once, on the whole node. Counted from the whole body to the answer's head, so
//! neither a slow sender nor a stream keeps others out.

use super::speaks_a2a;
use crate::http::headers::PREFER;
use actix_web::{HttpMessage, HttpRequest, dev::ServiceRequest};
use protocol::problem::{Problem, Reason};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Lets so many in.
pub(super) struct Gate {
    inside: Arc<AtomicUsize>,
    max: usize,
}

/// One request's place, given back when dropped.
pub(crate) struct Permit(Arc<AtomicUsize>);

impl Gate {
    pub(super) fn new(max: usize) -> Self {
        Self { inside: Arc::default(), max }
    }

    /// A place, or 503.
    pub(super) fn enter(&self) -> Result<Permit, Problem> {
        let before = self.inside.fetch_add(1, Ordering::Relaxed);
        let permit = Permit(Arc::clone(&self.inside));
        if before >= self.max {
            let message = format!("{} requests are in flight, which is the limit", self.max);
            return Err(Problem::new(Reason::Overloaded, message).with("limit", self.max));
        }
        Ok(permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Gives the permit to a request that may wait (`Prefer`, or A2A), so that its handler can stop counting; else back.
pub(super) fn hand_over(permit: Permit, request: &ServiceRequest) -> Option<Permit> {
    if !request.headers().contains_key(&PREFER) && !speaks_a2a(request) {
        return Some(permit);
    }
    request.extensions_mut().insert(permit);
    None
}

/// For a handler that has done its work and only waits from here on: `request` takes no place any more.
pub fn stop_counting(request: &HttpRequest) {
    drop(take_permit(request));
}

/// The place that `request` was given, for whoever serves it.
pub(crate) fn take_permit(request: &HttpRequest) -> Option<Permit> {
    request.extensions_mut().remove::<Permit>()
}
