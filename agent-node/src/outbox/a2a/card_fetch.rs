//! Fetches cards, from a given URL, the well-known path below it, or the well-known URI of its host (A2A §8.2), and checks their
//! signatures.

mod freshness;

pub use freshness::Freshness;

use super::super::outbound_client::{self, OutboundClient, OutboundRequest, OutboundResponse};
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
use transport::http_client::redact_url;

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
    let url = raw["supportedInterfaces"][0]["url"].as_str().or(raw["url"].as_str()).unwrap_or_default();
    let url = url.to_owned();
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

/// The card at `url`; if there is none, that at the well-known path below `url`, or that of its origin. An error names all that
/// were tried.
pub async fn fetch(client: &OutboundClient, url: &str) -> Result<FetchedCard, String> {
    let mut tried = Vec::new();
    for place in places(url)? {
        let response = get(client, &place, None).await?;
        let why = match parse_card(&response) {
            Ok(raw) => return Ok(found(client, &place, raw, &response).await),
            Err(why) => why,
        };
        tried.push(if place == url { why } else { format!("{} {why}", redact_url(&place)) });
        // Another status says nothing about where the card is: a server that is busy must not be replaced by its origin's agent.
        if !response.status.is_success()
            && ![401, 403, 404, 405, 406, 410].contains(&response.status.as_u16())
        {
            break;
        }
    }
    Err(tried.join("; "))
}

/// Where the card that `url` names may be, the likeliest place first.
fn places(url: &str) -> Result<Vec<String>, String> {
    let origin = well_known_url(url)?;
    let Ok(parsed) = Url::parse(url) else { return Ok(vec![origin]) };
    let path = parsed.path().trim_end_matches('/');
    if path.is_empty() {
        return Ok(vec![origin]);
    }
    let mut places = vec![url.to_owned()];
    if !path.ends_with(routes::AGENT_CARD) {
        let mut below = parsed.clone();
        below.set_path(&format!("{path}{}", routes::AGENT_CARD));
        places.push(below.into());
    }
    if !places.contains(&origin) {
        places.push(origin);
    }
    Ok(places)
}

/// The result of a conditional request for a card.
pub enum CardRefresh {
    /// The card is unchanged (304).
    Unchanged(Freshness),
    Changed(Box<FetchedCard>),
}

/// Fetches the card again from `url`, where it was found, unless the entity tag in `known` still holds.
pub async fn refetch(client: &OutboundClient, url: &str, known: &Freshness) -> Result<CardRefresh, String> {
    let etag = known.etag.as_deref();
    let response = get(client, url, etag).await?;
    if let (304, Some(etag)) = (response.status.as_u16(), etag) {
        let freshness = Freshness::from_headers(&response.headers, url);
        let etag = freshness.etag.or_else(|| Some(etag.to_owned()));
        return Ok(CardRefresh::Unchanged(Freshness { etag, ..freshness }));
    }
    let raw = parse_json(&response)?;
    Ok(CardRefresh::Changed(Box::new(found(client, url, raw, &response).await)))
}

async fn found(client: &OutboundClient, url: &str, raw: Value, response: &OutboundResponse) -> FetchedCard {
    let signature = check_signatures(client, url, &raw).await;
    FetchedCard {
        url: url.to_owned(),
        raw,
        signature,
        freshness: Freshness::from_headers(&response.headers, url),
    }
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

/// The JSON in a response, if it looks like a card: a base URL may answer with something else.
fn parse_card(response: &OutboundResponse) -> Result<Value, String> {
    let raw = parse_json(response)?;
    let is_card = ["name", "supportedInterfaces", "url"].iter().any(|member| raw.get(member).is_some());
    if is_card { Ok(raw) } else { Err("answered with JSON that is no agent card".to_owned()) }
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

#[cfg(test)]
mod tests {
    use super::places;

    #[test]
    fn a_card_is_looked_for_at_its_url_then_below_it_then_at_its_origin() {
        let suffix = ".well-known/agent-card.json";
        let origin = format!("https://h:8/{suffix}");
        for url in ["https://h:8", "https://h:8/", origin.as_str()] {
            assert_eq!(places(url).unwrap(), [origin.as_str()], "{url}");
        }
        for url in ["https://h:8/a/b", "https://h:8/a/b/"] {
            let below = format!("https://h:8/a/b/{suffix}");
            assert_eq!(places(url).unwrap(), [url, &below, &origin]);
        }
        let exact = format!("https://h:8/a/{suffix}");
        assert_eq!(places(&exact).unwrap(), [exact.as_str(), &origin]);
    }
}
