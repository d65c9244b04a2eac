//! HTTP/1.1 responses to peers whose request never reaches the edge, in the format of every other refusal.

use protocol::problem::{Problem, Reason};

/// The response to a head that takes too long.
pub(super) fn head_timeout() -> Vec<u8> {
    answer("408 Request Timeout", &Problem::new(Reason::RequestTimeout, "the request's head came too slowly"))
}

/// The response to a head with a line that a bare LF ends.
pub(super) fn bare_line_feed() -> Vec<u8> {
    let message = "a line of the request's head must end with CR LF (RFC 9112 \u{a7}2.2)";
    answer("400 Bad Request", &Problem::new(Reason::BadRequest, message))
}

/// The response to a client that does not speak HTTP/2 on the gRPC port.
pub(crate) fn http2_required() -> Vec<u8> {
    let problem = Problem::new(Reason::BadRequest, "this port speaks gRPC, which begins as HTTP/2 does");
    answer("400 Bad Request", &problem)
}

/// The response to send in place of `bytes`, if they are an error response of actix without a body.
pub(super) fn replacement_for(bytes: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, rest) = text.split_once("\r\n\r\n")?;
    let (status, fields) = head.strip_prefix("HTTP/1.1 ")?.split_once("\r\n")?;
    if !rest.is_empty() || !fields.lines().any(|field| field.eq_ignore_ascii_case("content-length: 0")) {
        return None;
    }
    let problem = match status.get(..3)? {
        "400" => Problem::new(Reason::BadRequest, "this is no HTTP/1.1 request that can be read"),
        "408" => return Some(head_timeout()),
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
