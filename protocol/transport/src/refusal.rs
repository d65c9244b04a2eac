//! The HTTP response of a [`Problem`], for every route of every service.

use actix_web::{HttpResponse, ResponseError, http::StatusCode, http::header};
use protocol::problem::{Problem, Reason};
use std::fmt;

/// The metadata key of a problem that becomes the `Allow` header.
pub(crate) const ALLOW: &str = "allow";

/// A problem as the error type of a handler.
#[derive(Debug)]
pub struct Refusal(pub Problem);

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl ResponseError for Refusal {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.0.reason.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        if let Some(wait) = self.0.retry_after {
            response.insert_header((header::RETRY_AFTER, wait.as_secs().max(1).to_string()));
        }
        if self.0.reason == Reason::Unauthenticated {
            response.insert_header((header::WWW_AUTHENTICATE, "Bearer"));
        }
        if let Some((_, allow)) = self.0.metadata.iter().find(|(key, _)| *key == ALLOW) {
            response.insert_header((header::ALLOW, allow.as_str()));
        }
        response.json(self.0.body())
    }
}
