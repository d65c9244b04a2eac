//! Tells every process of the mesh the public key of the person's token, which the registry has made.
//!
//! A process with agents asks the registry. A board knows no registry, so the registry tells it. Both repeat it, because either
//! may have been restarted.

use crate::{
    http::{edge::IssuedTokens, routes::person_token::PersonVerifier},
    services::{ServiceLocation, ServiceLocator},
};
use bytes::Bytes;
use protocol::{problem::Problem, routes};
use reqwest::Method;
use serde_json::json;
use std::{sync::Arc, time::Duration};
use transport::http_client::{ClientRequest, HttpClient};

/// The pause until the key is known to both.
const UNKNOWN: Duration = Duration::from_secs(1);
/// The pause after that.
const KNOWN: Duration = Duration::from_secs(5);

/// Keeps the person's key that this process accepts in step with the registry at `url`; `wire` signs.
pub(super) fn follow_registry(url: String, wire: HttpClient, tokens: IssuedTokens) {
    actix::spawn(async move {
        loop {
            let from = format!("{url}{}", routes::REGISTRY_TOKEN);
            let told: Result<PersonVerifier, Problem> =
                wire.json(ClientRequest::get(&from, "registry")).await;
            match &told {
                Ok(PersonVerifier { public_key }) => tokens.set_person(*public_key),
                Err(problem) => {
                    tracing::debug!(%problem, "the registry has not told the key of the token")
                }
            }
            tokio::time::sleep(if told.is_ok() { KNOWN } else { UNKNOWN }).await;
        }
    });
}

/// Tells the board in another process the person's key that the registry here has made; `wire` signs as the registry.
pub(super) fn tell_board(locator: Arc<ServiceLocator>, wire: HttpClient, tokens: IssuedTokens) {
    actix::spawn(async move {
        loop {
            let told = match (locator.board_url(), tokens.person()) {
                (Some(board), Some(public_key)) => {
                    let to = format!("{board}{}", routes::BOARD_TOKEN);
                    let body = Bytes::from(json!(PersonVerifier { public_key }).to_string());
                    wire.bytes(ClientRequest::new(Method::PUT, &to, "board").body(body)).await.map(drop)
                }
                (_, _) => return,
            };
            if let Err(problem) = &told {
                tracing::debug!(%problem, "the board does not know the key of the token");
            }
            tokio::time::sleep(if told.is_ok() { KNOWN } else { UNKNOWN }).await;
        }
    });
}

/// Whether a process asks, tells, or has both services.
pub(super) fn start(
    registry: Option<&ServiceLocation>,
    locator: &Arc<ServiceLocator>,
    (as_agent, as_registry): (HttpClient, HttpClient),
    tokens: &IssuedTokens,
) {
    match registry {
        Some(ServiceLocation::Remote(url)) => follow_registry(url.clone(), as_agent, tokens.clone()),
        Some(ServiceLocation::Local) => tell_board(locator.clone(), as_registry, tokens.clone()),
        Some(ServiceLocation::FromRegistry) | None => {}
    }
}
