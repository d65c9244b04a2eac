//! Where cards come from: a URL somebody gave, or the well-known place of a host (A2A §8.2).

mod freshness;

pub use freshness::Freshness;

use super::super::outside::{self, Answer, Call, Outside};
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

/// What this client speaks. None of the extensions changes what a client says.
pub const SPOKEN: ClientProtocols<'static> =
    ClientProtocols { extensions: &[protocol::task::EXTENSION], bindings: &[JSONRPC, HTTP_JSON, GRPC] };

/// How long a card may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// A card as it was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// Where.
    pub url: String,
    /// As it was sent.
    pub raw: Value,
    /// What its signatures say.
    pub signed: Signed,
    /// For how long, and how to ask whether it has changed.
    pub freshness: Freshness,
}

/// What the signatures of a card say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signed {
    /// It is the host's, and unchanged: the key's name.
    By(String),
    /// They prove nothing, for this reason.
    Unproven(String),
    /// The key that is named did not sign this card.
    Forged(String),
}

impl std::fmt::Display for Signed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::By(kid) => write!(f, "it is signed by its host's key {kid}"),
            Self::Unproven(doubt) | Self::Forged(doubt) => f.write_str(doubt),
        }
    }
}

impl Found {
    /// The card, if it can be worked with; else every reason against it.
    pub fn vetted(&self, outside: &Outside) -> Result<ValidatedCard, Vec<String>> {
        let forged = if let Signed::Forged(why) = &self.signed { Some(why.clone()) } else { None };
        match (usable(&self.raw, outside), forged) {
            (vetted, None) => vetted,
            (Ok(_), Some(forged)) => Err(vec![forged]),
            (Err(mut against), Some(forged)) => {
                against.push(forged);
                Err(against)
            }
        }
    }
}

/// The card in `raw` by what it says, whoever signed it.
pub fn usable(raw: &Value, outside: &Outside) -> Result<ValidatedCard, Vec<String>> {
    let refuses = |url: &str| {
        let full = if url.contains("://") { url.to_owned() } else { format!("https://{url}") };
        outside.check(&full).err().map(|error| error.to_string())
    };
    validate(raw, SPOKEN, &refuses)
}

/// A card that somebody handed over, its signatures judged by the keys of the host it speaks for.
pub async fn handed(outside: &Outside, raw: Value) -> Found {
    let url = raw["supportedInterfaces"][0]["url"].as_str().unwrap_or_default().to_owned();
    let signed = signed(outside, &url, &raw).await;
    Found { url, raw, signed, freshness: Freshness::default() }
}

/// The card at the well-known place of `host`, which may leave out its scheme.
pub async fn fetch_of_host(outside: &Outside, host: &str) -> Result<Found, String> {
    let hint = if host.contains("://") {
        String::new()
    } else {
        format!(" (https was tried; for an agent without TLS write http://{host})")
    };
    fetch(outside, &well_known(host)?).await.map_err(|why| format!("{why}{hint}"))
}

/// The well-known place of the host in `url`, which may leave out its scheme.
pub fn well_known(url: &str) -> Result<String, String> {
    let full = if url.contains("://") { url.to_owned() } else { format!("https://{url}") };
    let parsed = Url::parse(&full).map_err(|error| format!("{:?} is no URL: {error}", redact_url(url)))?;
    parsed
        .join(routes::AGENT_CARD)
        .map(String::from)
        .map_err(|error| format!("{:?}: {error}", redact_url(url)))
}

/// The card at `url`; a bare origin means its well-known place.
pub async fn fetch(outside: &Outside, url: &str) -> Result<Found, String> {
    match fetch_again(outside, url, None).await? {
        Again::Changed(found) => Ok(*found),
        Again::Same(_) => Err("answered 304 to who knows nothing".to_owned()),
    }
}

/// What there is where a card was read before.
pub enum Again {
    /// The same, for so long.
    Same(Freshness),
    /// Another one.
    Changed(Box<Found>),
}

/// The same, unless it is still the one that `known` was said of.
pub async fn fetch_again(outside: &Outside, url: &str, known: Option<&Freshness>) -> Result<Again, String> {
    let is_origin = Url::parse(url).is_ok_and(|parsed| matches!(parsed.path(), "" | "/"));
    let url = if is_origin { well_known(url)? } else { url.to_owned() };
    let etag = known.and_then(|known| known.etag.as_deref());
    let answer = answer_at(outside, &url, etag).await?;
    let freshness = Freshness::of(&answer.headers);
    if let (304, Some(etag)) = (answer.status.as_u16(), etag) {
        let etag = freshness.etag.or_else(|| Some(etag.to_owned()));
        return Ok(Again::Same(Freshness { etag, ..freshness }));
    }
    let raw = json_in(&answer)?;
    let signed = signed(outside, &url, &raw).await;
    Ok(Again::Changed(Box::new(Found { url, raw, signed, freshness })))
}

/// Checks the signatures by the keys of the card's own origin: it proves that the card is that host's, and unchanged.
async fn signed(outside: &Outside, url: &str, raw: &Value) -> Signed {
    let origin = Url::parse(url).ok().map(|url| url.origin());
    let (mut keys, mut doubts) = (Vec::new(), Vec::new());
    let mut places: Vec<String> = claims(raw).into_iter().flatten().filter_map(|claim| claim.jku).collect();
    places.dedup();
    for jku in places.into_iter().take(3) {
        if origin.is_none() || Url::parse(&jku).ok().map(|jku| jku.origin()) != origin {
            continue;
        }
        match json_at(outside, &jku).await {
            Ok(found) => keys.extend(PublicKey::from_jwks(&found)),
            Err(why) => doubts.push(format!("the keys at {jku} can't be had: {why}")),
        }
    }
    match verify(raw, &keys) {
        Ok(kid) => Signed::By(kid),
        Err(said) => {
            let is_forged = said.iter().any(|doubt| matches!(doubt, CardSignatureError::Forged(_)));
            doubts.extend(said.iter().map(ToString::to_string));
            let doubts = doubts.join("; ");
            if is_forged { Signed::Forged(doubts) } else { Signed::Unproven(doubts) }
        }
    }
}

async fn json_at(outside: &Outside, url: &str) -> Result<Value, String> {
    json_in(&answer_at(outside, url, None).await?)
}

async fn answer_at(outside: &Outside, url: &str, etag: Option<&str>) -> Result<Answer, String> {
    let call = Call::new(Method::GET, url)
        .header("accept", "application/json")
        .header(VERSION_PARAMETER, VERSION)
        .within(PATIENCE);
    let call = match etag {
        Some(etag) => call.header("if-none-match", etag),
        None => call,
    };
    outside.call(call).await.map_err(|error: outside::Error| error.to_string())
}

fn json_in(answer: &Answer) -> Result<Value, String> {
    if !answer.status.is_success() {
        return Err(format!("answered {}", answer.status.as_u16()));
    }
    if answer.body.len() > MAX_CARD_BYTES {
        return Err(format!("is longer than {MAX_CARD_BYTES} bytes"));
    }
    parse(&answer.body, MAX_DEPTH).map_err(|problem| problem.message)
}
