//! The settings of a brain that is a service.

use super::text::YamlText;
use crate::{brain::http::HttpBrainConfig, outbox::a2a::credentials::SecretString};
use blackboard::http_client::has_credentials;
use reqwest::header::{HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A service as a brain.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HttpFile {
    /// Where its turns are sent; `mesh: { outside: { allow: […] } }` names addresses that are not public.
    url: String,
    /// Headers of every request, such as `Authorization`; best with `${VARIABLE}`.
    #[serde(default)]
    headers: BTreeMap<String, YamlText>,
    /// What every request is signed with, 16 characters at least; best as `${VARIABLE}`. Without it requests are not signed.
    secret: Option<YamlText>,
}

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

impl HttpFile {
    /// The configuration. A fault has the key below `brain.http` and what is wrong.
    pub(super) fn config(&self) -> Result<HttpBrainConfig, (String, String)> {
        let fault = |key: &str, what: String| (key.to_owned(), what);
        if !self.url.starts_with("https://") && !self.url.starts_with("http://") {
            return Err(fault("url", format!("{:?} must be a URL, https or http", self.url)));
        }
        if has_credentials(&self.url) {
            let what = "must not carry a name or a password; `headers` and `secret` are for those";
            return Err(fault("url", what.to_owned()));
        }
        for (name, value) in &self.headers {
            let key = format!("headers.{name}");
            if HeaderName::try_from(name).is_err() || HeaderValue::try_from(&value.0).is_err() {
                return Err(fault(&key, "is no header that HTTP allows".to_owned()));
            }
            if RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
                return Err(fault(&key, "is set by the node; leave it out".to_owned()));
            }
        }
        if self.secret.as_ref().is_some_and(|secret| secret.0.len() < MIN_SECRET) {
            return Err(fault("secret", format!("needs {MIN_SECRET} characters at least")));
        }
        let hidden = |(name, value): (&String, &YamlText)| (name.clone(), SecretString::new(value.0.clone()));
        Ok(HttpBrainConfig {
            url: self.url.clone(),
            headers: self.headers.iter().map(hidden).collect(),
            secret: self.secret.as_ref().map(|secret| SecretString::new(secret.0.clone())),
        })
    }
}
