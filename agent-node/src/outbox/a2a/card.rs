//! Where cards come from: a URL somebody gave, or the well-known place of a host (A2A §8.2).

use super::super::outside::{self, Call, Outside};
use protocol::{
    a2a::{
        card::{HTTP_JSON, JSONRPC},
        card_signature::{PublicKey, claims, verify},
        version::{VERSION, VERSION_PARAMETER},
        vetting::{MAX_CARD_BYTES, Spoken, Vetted, vet},
    },
    json::{MAX_DEPTH, parse},
    routes,
};
use reqwest::{Method, Url};
use serde_json::Value;

/// What this client speaks. None of the extensions changes what a client says.
pub const SPOKEN: Spoken<'static> = Spoken {
    extensions: &[protocol::task::EXTENSION],
    #[cfg(not(feature = "grpc"))]
    bindings: &[JSONRPC, HTTP_JSON],
    #[cfg(feature = "grpc")]
    bindings: &[JSONRPC, HTTP_JSON, protocol::a2a::card::GRPC],
};

/// How long a card may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// A card as it was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// Where.
    pub url: String,
    /// As it was sent.
    pub raw: Value,
    /// Whether one of its signatures holds: the key's name, or why none does.
    pub signed: Result<String, String>,
}

impl Found {
    /// The card, if it can be worked with; else every reason against it.
    pub fn vetted(&self) -> Result<Vetted, Vec<String>> {
        vet(&self.raw, SPOKEN)
    }
}

/// The well-known place of the host in `url`, which may leave out its scheme.
pub fn well_known(url: &str) -> Result<String, String> {
    let full = if url.contains("://") { url.to_owned() } else { format!("https://{url}") };
    let parsed = Url::parse(&full).map_err(|error| format!("{url:?} is no URL: {error}"))?;
    parsed.join(routes::AGENT_CARD).map(String::from).map_err(|error| format!("{url:?}: {error}"))
}

/// The card at `url`; a bare origin means its well-known place.
pub async fn fetch(outside: &Outside, url: &str) -> Result<Found, String> {
    let is_origin = Url::parse(url).is_ok_and(|parsed| matches!(parsed.path(), "" | "/"));
    let url = if is_origin { well_known(url)? } else { url.to_owned() };
    let raw = json_at(outside, &url).await?;
    let signed = signed(outside, &url, &raw).await;
    Ok(Found { url, raw, signed })
}

/// Checks the signatures by the keys of the card's own origin: it proves that the card is that host's, and unchanged.
async fn signed(outside: &Outside, url: &str, raw: &Value) -> Result<String, String> {
    let origin = Url::parse(url).map_err(|error| error.to_string())?.origin();
    let mut keys = Vec::new();
    let mut places: Vec<String> = claims(raw).into_iter().flatten().filter_map(|claim| claim.jku).collect();
    places.dedup();
    for jku in places.into_iter().take(3) {
        let is_own = Url::parse(&jku).is_ok_and(|jku| jku.origin() == origin);
        if is_own {
            keys.extend(PublicKey::from_jwks(&json_at(outside, &jku).await?));
        }
    }
    verify(raw, &keys).map_err(|doubts| {
        let doubts: Vec<_> = doubts.iter().map(ToString::to_string).collect();
        doubts.join("; ")
    })
}

async fn json_at(outside: &Outside, url: &str) -> Result<Value, String> {
    let call = Call::new(Method::GET, url)
        .header("accept", "application/json")
        .header(VERSION_PARAMETER, VERSION)
        .within(PATIENCE);
    let answer = outside.call(call).await.map_err(|error: outside::Error| error.to_string())?;
    if !answer.status.is_success() {
        return Err(format!("answered {}", answer.status.as_u16()));
    }
    if answer.body.len() > MAX_CARD_BYTES {
        return Err(format!("is longer than {MAX_CARD_BYTES} bytes"));
    }
    parse(&answer.body, MAX_DEPTH).map_err(|problem| problem.message)
}
