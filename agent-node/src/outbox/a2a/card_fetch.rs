//! Fetches cards, from a given URL or the well-known URI of a host (A2A §8.2), and checks their signatures.

mod freshness;

pub use freshness::Freshness;

use super::super::outbound_client::{self, OutboundClient, OutboundRequest, OutboundResponse};
use blackboard::http_client::redact_url;
use protocol::{
    a2a::{
        card::{GRPC, HTTP_JSON, JSONRPC},
        card_signature::{CardSignatureError, PublicKey, claims, verify},
        card_validation::{ClientProtocols, MAX_CARD_BYTES, ValidatedCard, validate},
        version::{VERSION, VERSION_PARAMETER},
    },
    json::{MAX_DEPTH, parse},
    routes,
};
use reqwest::{Method, Url};
use serde_json::Value;

/// The extensions and bindings of this client. None of the extensions changes a client's requests.
pub const CLIENT_PROTOCOLS: ClientProtocols<'static> =
    ClientProtocols { extensions: &[protocol::task::EXTENSION], bindings: &[JSONRPC, HTTP_JSON, GRPC] };

const FETCH_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// A card that was fetched, not validated.
#[derive(Debug, Clone)]
pub struct FetchedCard {
    pub url: String,
    /// The JSON as received.
    pub raw: Value,
    /// The result of the signature check.
    pub signature: SignatureStatus,
    /// How long it may be cached.
    pub freshness: Freshness,
}

/// The result of a check of a card's signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureStatus {
    /// A key of the card's host signed the card: the key's id.
    Verified(String),
    /// No signature could be checked, for this reason.
    Unproven(String),
    /// The named key did not sign this card.
    Forged(String),
}

impl std::fmt::Display for SignatureStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Verified(kid) => write!(f, "it is signed by its host's key {kid}"),
            Self::Unproven(problems) | Self::Forged(problems) => f.write_str(problems),
        }
    }
}

impl FetchedCard {
    /// The validated card, or all reasons why it can't be used.
    pub fn validate(&self, client: &OutboundClient) -> Result<ValidatedCard, Vec<String>> {
        let forged =
            if let SignatureStatus::Forged(why) = &self.signature { Some(why.clone()) } else { None };
        match (validate_card(&self.raw, client), forged) {
            (card, None) => card,
            (Ok(_), Some(forged)) => Err(vec![forged]),
            (Err(mut reasons), Some(forged)) => {
                reasons.push(forged);
                Err(reasons)
            }
        }
    }
}

/// Validates the card in `raw` without its signatures. Fails with all reasons against it.
pub fn validate_card(raw: &Value, client: &OutboundClient) -> Result<ValidatedCard, Vec<String>> {
    let url_problem = |url: &str| {
        let absolute = if url.contains("://") { url.to_owned() } else { format!("https://{url}") };
        client.check(&absolute).err().map(|error| error.to_string())
    };
    validate(raw, CLIENT_PROTOCOLS, &url_problem)
}

/// A card that a request contains. Its signatures are checked with the keys of its first interface's host.
pub async fn inline_card(client: &OutboundClient, raw: Value) -> FetchedCard {
    let url = raw["supportedInterfaces"][0]["url"].as_str().unwrap_or_default().to_owned();
    let signature = check_signatures(client, &url, &raw).await;
    FetchedCard { url, raw, signature, freshness: Freshness::default() }
}

/// The card at the well-known URI of `host`, which may have no scheme.
pub async fn fetch_from_host(client: &OutboundClient, host: &str) -> Result<FetchedCard, String> {
    let hint = if host.contains("://") {
        String::new()
    } else {
        format!(" (https was tried; for an agent without TLS write http://{host})")
    };
    fetch(client, &well_known_url(host)?).await.map_err(|why| format!("{why}{hint}"))
}

/// The well-known URI of the host in `url`, which may have no scheme.
pub fn well_known_url(url: &str) -> Result<String, String> {
    let absolute = if url.contains("://") { url.to_owned() } else { format!("https://{url}") };
    let parsed =
        Url::parse(&absolute).map_err(|error| format!("{:?} is no URL: {error}", redact_url(url)))?;
    parsed
        .join(routes::AGENT_CARD)
        .map(String::from)
        .map_err(|error| format!("{:?}: {error}", redact_url(url)))
}

/// The card at `url`. For an origin without a path, this is its well-known URI.
pub async fn fetch(client: &OutboundClient, url: &str) -> Result<FetchedCard, String> {
    match refetch(client, url, None).await? {
        CardRefresh::Changed(found) => Ok(*found),
        CardRefresh::Unchanged(_) => Err("answered 304 to an unconditional request".to_owned()),
    }
}

/// The result of a conditional request for a card.
pub enum CardRefresh {
    /// The card is unchanged (304).
    Unchanged(Freshness),
    Changed(Box<FetchedCard>),
}

/// Fetches the card at `url`, unless the entity tag in `known` still holds.
pub async fn refetch(
    client: &OutboundClient,
    url: &str,
    known: Option<&Freshness>,
) -> Result<CardRefresh, String> {
    let is_origin = Url::parse(url).is_ok_and(|parsed| matches!(parsed.path(), "" | "/"));
    let url = if is_origin { well_known_url(url)? } else { url.to_owned() };
    let etag = known.and_then(|known| known.etag.as_deref());
    let response = get(client, &url, etag).await?;
    let freshness = Freshness::from_headers(&response.headers);
    if let (304, Some(etag)) = (response.status.as_u16(), etag) {
        let etag = freshness.etag.or_else(|| Some(etag.to_owned()));
        return Ok(CardRefresh::Unchanged(Freshness { etag, ..freshness }));
    }
    let raw = parse_json(&response)?;
    let signature = check_signatures(client, &url, &raw).await;
    Ok(CardRefresh::Changed(Box::new(FetchedCard { url, raw, signature, freshness })))
}

/// Checks the signatures with keys from the card's own origin only: they prove that the host published this card.
async fn check_signatures(client: &OutboundClient, url: &str, raw: &Value) -> SignatureStatus {
    let origin = Url::parse(url).ok().map(|url| url.origin());
    let (mut keys, mut problems) = (Vec::new(), Vec::new());
    let mut key_urls: Vec<String> = claims(raw).into_iter().flatten().filter_map(|claim| claim.jku).collect();
    key_urls.dedup();
    for jku in key_urls.into_iter().take(3) {
        if origin.is_none() || Url::parse(&jku).ok().map(|jku| jku.origin()) != origin {
            continue;
        }
        match get_json(client, &jku).await {
            Ok(key_set) => keys.extend(PublicKey::from_jwks(&key_set)),
            Err(why) => problems.push(format!("the keys at {jku} can't be had: {why}")),
        }
    }
    match verify(raw, &keys) {
        Ok(kid) => SignatureStatus::Verified(kid),
        Err(errors) => {
            let is_forged = errors.iter().any(|error| matches!(error, CardSignatureError::Forged(_)));
            problems.extend(errors.iter().map(ToString::to_string));
            let problems = problems.join("; ");
            if is_forged { SignatureStatus::Forged(problems) } else { SignatureStatus::Unproven(problems) }
        }
    }
}

async fn get_json(client: &OutboundClient, url: &str) -> Result<Value, String> {
    parse_json(&get(client, url, None).await?)
}

async fn get(client: &OutboundClient, url: &str, etag: Option<&str>) -> Result<OutboundResponse, String> {
    let request = OutboundRequest::new(Method::GET, url)
        .header("accept", "application/json")
        .header(VERSION_PARAMETER, VERSION)
        .with_timeout(FETCH_TIMEOUT);
    let request = match etag {
        Some(etag) => request.header("if-none-match", etag),
        None => request,
    };
    client.send(request).await.map_err(|error: outbound_client::Error| error.to_string())
}

fn parse_json(response: &OutboundResponse) -> Result<Value, String> {
    if !response.status.is_success() {
        return Err(format!("answered {}", response.status.as_u16()));
    }
    if response.body.len() > MAX_CARD_BYTES {
        return Err(format!("is longer than {MAX_CARD_BYTES} bytes"));
    }
    parse(&response.body, MAX_DEPTH).map_err(|problem| problem.message)
}
