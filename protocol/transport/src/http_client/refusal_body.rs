//! Parses the body of an error response into a [`Problem`].

use protocol::problem::{Problem, Reason};
use serde_json::Value;
use std::time::Duration;

/// The longest text that is kept of a response, characters.
const MAX_TEXT: usize = 500;

/// The problem in `body`; for a foreign shape, the reason follows from `status`.
pub(super) fn parse(status: u16, wait: Option<Duration>, body: &[u8]) -> Problem {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let named = value["reasonCode"].as_str().and_then(Reason::from_code).filter(|r| r.status() == status);
    let message = match value["error"]["message"].as_str() {
        Some(message) => message.chars().take(MAX_TEXT).collect(),
        None => format!("answered {status}"),
    };
    let mut problem = Problem::new(named.unwrap_or_else(|| reason_of_status(status)), message);
    if named.is_none() {
        problem = problem.with(super::FOREIGN, true);
    }
    if let Some(wait) = wait {
        problem.retry_after = Some(wait);
    }
    let details = value["error"]["details"].as_array();
    let metadata =
        details.and_then(|details| details.first()).and_then(|first| first["metadata"].as_object());
    for (key, value) in metadata.into_iter().flatten() {
        if let (Some(key), Some(value)) = (KEPT_METADATA.iter().find(|known| *known == key), value.as_str()) {
            problem = problem.with(key, value.chars().take(MAX_TEXT).collect::<String>());
        }
    }
    problem
}

/// The metadata that callers use; other members are dropped.
const KEPT_METADATA: &[&str] = &[
    "endpoint",
    "epoch",
    "field",
    "floor",
    "generation",
    "holder",
    "incarnation",
    "limit",
    "now",
    "remainingMs",
    "revision",
    "taskId",
];

/// The reason for a status without a reason code.
fn reason_of_status(status: u16) -> Reason {
    match status {
        401 => Reason::Unauthenticated,
        403 => Reason::Forbidden,
        404 => Reason::RouteNotFound,
        405 => Reason::MethodNotAllowed,
        408 => Reason::RequestTimeout,
        409 => Reason::Fenced,
        410 => Reason::Expired,
        413 => Reason::PayloadTooLarge,
        415 => Reason::UnsupportedMediaType,
        421 => Reason::RegisteredElsewhere,
        429 => Reason::RateLimited,
        503 => Reason::Overloaded,
        504 => Reason::GatewayTimeout,
        507 => Reason::StorageFull,
        400..500 => Reason::BadRequest,
        _ => Reason::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_round_trips() {
        for reason in Reason::ALL {
            let sent = Problem::new(*reason, "why").with("limit", 5).retry_after(Duration::from_secs(3));
            let body = serde_json::to_vec(&sent.body()).unwrap();
            assert_eq!(parse(reason.status(), Some(Duration::from_secs(3)), &body), sent);
        }
    }

    #[test]
    fn a_foreign_body_gets_its_reason_from_the_status() {
        assert_eq!(parse(503, None, b"<html>busy").reason, Reason::Overloaded);
        assert!(super::super::is_foreign_response(&parse(404, None, b"no such page")));
        assert!(!super::super::is_foreign_response(&parse(
            404,
            None,
            b"{\"reasonCode\":\"task_not_found\"}"
        )));
        assert_eq!(parse(418, None, b"").reason, Reason::BadRequest);
        assert_eq!(parse(500, None, b"{\"reasonCode\":\"fenced\"}").reason, Reason::Internal);
        assert_eq!(parse(599, None, b"[]").reason, Reason::Internal);
    }
}
