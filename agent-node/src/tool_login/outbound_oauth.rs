//! The requests of the OAuth library, by the node's client for URLs that others choose: a tool server names the URLs of its
//! metadata and of its authorization server.

use super::LoginError;
use crate::outbox::outbound_client::{Error as OutboundError, OutboundClient};
use http::header::{ACCEPT, HeaderValue};
use rmcp::transport::auth::{AuthError, OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use serde_json::{Map, Value};
use std::sync::{Mutex, PoisonError};

/// The members of a token response that are kept. Others may hold secrets of a provider, and the library prints them.
const TOKEN_MEMBERS: [&str; 5] = ["access_token", "token_type", "expires_in", "refresh_token", "scope"];

/// How much is shown of what a server answers, characters.
const MAX_SHOWN: usize = 300;

pub(super) struct OutboundOAuth {
    outside: OutboundClient,
    /// What the server names as the resource in its metadata.
    resource: Mutex<Option<String>>,
    /// Why the last request had no answer, which the library does not tell.
    failure: Mutex<Option<OutboundError>>,
}

impl OutboundOAuth {
    pub(super) fn new(outside: OutboundClient) -> Self {
        Self { outside, resource: Mutex::default(), failure: Mutex::default() }
    }

    /// The resource that tokens for the server at `url` are for.
    pub(super) fn resource(&self, url: &str) -> String {
        let named = self.resource.lock().unwrap_or_else(PoisonError::into_inner).clone();
        named.filter(|named| url.starts_with(named.as_str())).unwrap_or_else(|| url.to_owned())
    }

    /// What an error of the library is for people.
    pub(super) fn error(&self, error: &AuthError) -> LoginError {
        match self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(OutboundError::Unreachable(why)) => LoginError::Unreachable(format!("can't log in: {why}")),
            Some(failure) => LoginError::Refused(format!(
                "can't log in: {failure} (mesh.outside.allow names what may be called)"
            )),
            None => LoginError::Refused(format!(
                "can't log in: {}",
                error.to_string().chars().take(MAX_SHOWN).collect::<String>()
            )),
        }
    }

    fn note_resource(&self, body: &[u8]) {
        let Ok(Value::Object(document)) = serde_json::from_slice(body) else { return };
        if let (Some(Value::String(resource)), true) =
            (document.get("resource"), document.contains_key("authorization_servers"))
        {
            *self.resource.lock().unwrap_or_else(PoisonError::into_inner) = Some(resource.clone());
        }
    }
}

impl OAuthHttpClient for OutboundOAuth {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let mut request = request.request;
            let is_get = request.method() == http::Method::GET;
            request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
            let answer = self.outside.send_unless_stream(request.into()).await;
            let mut answer = answer.inspect_err(|error| {
                *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
            })?;
            if is_get {
                self.note_resource(&answer.body);
            } else if let Ok(Value::Object(token)) = serde_json::from_slice(&answer.body)
                && token.contains_key("access_token")
            {
                answer.body = Value::Object(known(token)).to_string().into();
            }
            let mut response = http::Response::new(answer.body.to_vec());
            (*response.status_mut(), *response.headers_mut()) = (answer.status, answer.headers);
            Ok(response)
        })
    }
}

fn known(token: Map<String, Value>) -> Map<String, Value> {
    token.into_iter().filter(|(name, _)| TOKEN_MEMBERS.contains(&name.as_str())).collect()
}
