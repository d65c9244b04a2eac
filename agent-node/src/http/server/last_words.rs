//! What is said to a peer whose request never became one: in the shape of every other refusal.

use protocol::problem::{Problem, Reason};

/// The answer to a head that takes too long.
pub(super) fn too_slow() -> Vec<u8> {
    answer("408 Request Timeout", &Problem::new(Reason::RequestTimeout, "the request's head came too slowly"))
}

/// The answer to what comes in where only HTTP/2 is spoken and is none.
pub(crate) fn no_http2() -> Vec<u8> {
    let problem = Problem::new(Reason::BadRequest, "this port speaks gRPC, which begins as HTTP/2 does");
    answer("400 Bad Request", &problem)
}

/// What is written instead of an empty answer of actix's own; nothing if `bytes` is none.
pub(super) fn instead_of(bytes: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, rest) = text.split_once("\r\n\r\n")?;
    let (status, fields) = head.strip_prefix("HTTP/1.1 ")?.split_once("\r\n")?;
    if !rest.is_empty() || !fields.lines().any(|field| field.eq_ignore_ascii_case("content-length: 0")) {
        return None;
    }
    let problem = match status.get(..3)? {
        "400" => Problem::new(Reason::BadRequest, "this is no HTTP/1.1 request that can be read"),
        "408" => return Some(too_slow()),
        "431" => Problem::new(Reason::HeadTooLarge, "the request's head is longer than 128 KiB"),
        _ => return None,
    };
    Some(answer(status, &problem))
}

fn answer(status: &str, problem: &Problem) -> Vec<u8> {
    let body = problem.body().to_string();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
