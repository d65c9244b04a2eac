//! The settings of a brain that is a service.

use crate::brain::http::HttpBrainConfig;
use reqwest::header::{HeaderName, HeaderValue};
use transport::http_client::has_credentials;

/// The headers that the node sets.
const RESERVED: [&str; 9] = [
    "accept",
    "content-type",
    "content-length",
    "host",
    "idempotency-key",
    "traceparent",
    "webhook-id",
    "webhook-signature",
    "webhook-timestamp",
];

/// The minimum length of a secret, so that it can't be guessed.
const MIN_SECRET: usize = 16;

/// Refuses what can't be. A fault has the key below `brain.http` and what is wrong.
pub(super) fn check(service: &HttpBrainConfig) -> Result<(), (String, String)> {
    let fault = |key: &str, what: String| Err((key.to_owned(), what));
    if !service.url.starts_with("https://") && !service.url.starts_with("http://") {
        return fault("url", format!("{:?} must be a URL, https or http", service.url));
    }
    if has_credentials(&service.url) {
        let what = "must not carry a name or a password; `headers` and `secret` are for those";
        return fault("url", what.to_owned());
    }
    for (name, value) in &service.headers {
        let key = format!("headers.{name}");
        if HeaderName::try_from(name).is_err() || HeaderValue::try_from(value.expose()).is_err() {
            return fault(&key, "is no header that HTTP allows".to_owned());
        }
        if RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
            return fault(&key, "is set by the node; leave it out".to_owned());
        }
    }
    if service.secret.as_ref().is_some_and(|secret| secret.expose().len() < MIN_SECRET) {
        return fault("secret", format!("needs {MIN_SECRET} characters at least"));
    }
    Ok(())
}
