//! Credentials for foreign agents: from the configuration, shown to whom they are for, never in a log.

use crate::outbox::outside::Call;
use protocol::a2a::{
    card::AgentCard,
    card_validation::ValidatedCard,
    credential::{CredentialLocation, way},
};
use reqwest::Url;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

/// Something that nobody may read in a log.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(String);

impl Hidden {
    /// What is hidden, for whoever sees to it that nobody is told.
    pub(crate) fn secret(&self) -> &str {
        &self.0
    }

    /// `text`, hidden.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hidden")
    }
}

/// Credentials of this node for foreign agents, by their host (`weather.example`, `127.0.0.1:9000`): who asks for a card
/// does not decide what is shown to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keyring(pub BTreeMap<String, Credentials>);

impl Keyring {
    /// The credentials for an agent all of whose interfaces are where the same ones belong. A host without a port stands
    /// for all its ports; one with a port goes before it.
    pub fn of(&self, vetted: &ValidatedCard) -> Arc<Credentials> {
        let mut places: Vec<_> =
            vetted.interfaces.iter().map(|interface| self.place(&interface.url)).collect();
        places.dedup();
        let credentials = match places.as_slice() {
            [Some(place)] => self.0.get(place).cloned(),
            _ => None,
        };
        Arc::new(credentials.unwrap_or_default())
    }

    /// The entry for an interface, which over gRPC is named without a scheme.
    fn place(&self, url: &str) -> Option<String> {
        let full = if url.contains("://") { url.to_owned() } else { format!("https://{url}") };
        let url = Url::parse(&full).ok()?;
        let host = url.host_str()?;
        let exact = url.port_or_known_default().map(|port| format!("{host}:{port}"));
        exact.into_iter().chain([host.to_owned()]).find(|place| self.0.contains_key(place))
    }

    /// All of them, for whoever sees to it that nobody is told.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.0.values().flat_map(|credentials| credentials.0.values()).map(Hidden::secret)
    }

    /// Puts stars in the place of every secret in `value`.
    pub fn hide(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                for secret in self.0.values().flat_map(|credentials| credentials.0.values()) {
                    if !secret.0.is_empty() && text.contains(&secret.0) {
                        *text = text.replace(&secret.0, "***");
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.hide(member)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// The card at `place` without the interfaces of other hosts: what belongs to a host is shown to that host only, at
/// whatever port.
///
/// # Errors
/// Where no interface is left; the message says what to do.
pub fn at_home(mut vetted: ValidatedCard, place: &str) -> Result<ValidatedCard, String> {
    let home = host_of(place).ok_or_else(|| format!("{place:?} names no host"))?;
    let (ours, others): (Vec<_>, Vec<_>) =
        vetted.interfaces.into_iter().partition(|interface| host_of(&interface.url).as_ref() == Some(&home));
    if let (true, Some(other)) = (ours.is_empty(), others.first()) {
        let other = host_of(&other.url).unwrap_or_default();
        return Err(format!(
            "the credentials are for {home}, where its card is, and it works at {other}: say \
             `mesh: {{ outside: {{ credentials: {{ \"{other}\": {{ … }} }} }} }}` instead"
        ));
    }
    vetted.interfaces = ours;
    Ok(vetted)
}

/// The host of a URL, or of a gRPC interface, which is named without a scheme.
fn host_of(url: &str) -> Option<String> {
    let full = if url.contains("://") { url.to_owned() } else { format!("https://{url}") };
    Url::parse(&full).ok()?.host_str().map(str::to_owned)
}

/// Credentials by the name of the card's security scheme.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials(pub BTreeMap<String, Hidden>);

impl Credentials {
    /// The schemes there is a credential for.
    pub fn schemes(&self) -> BTreeSet<String> {
        self.0.keys().cloned().collect()
    }

    fn ways<'a>(&'a self, card: &'a AgentCard) -> impl Iterator<Item = (CredentialLocation, &'a str)> {
        self.0.iter().filter_map(|(scheme, secret)| {
            Some((way(card.security_schemes.get(scheme)?)?, secret.0.as_str()))
        })
    }

    /// `call` with the credentials that go into headers.
    pub(super) fn onto(&self, card: &AgentCard, mut call: Call) -> Call {
        for (way, secret) in self.ways(card) {
            call = match way {
                CredentialLocation::Header(name) => call.secret_header(&name, secret),
                CredentialLocation::Authorization(word) => {
                    call.secret_header("authorization", &format!("{word} {secret}"))
                }
                CredentialLocation::Cookie(name) => call.secret_header("cookie", &format!("{name}={secret}")),
                CredentialLocation::Query(_) => call,
            };
        }
        call
    }

    /// `url` with the credentials that go into its query.
    pub(super) fn within(&self, card: &AgentCard, url: String) -> String {
        let Ok(mut parsed) = Url::parse(&url) else { return url };
        let mut any = false;
        for (way, secret) in self.ways(card) {
            if let CredentialLocation::Query(name) = way {
                parsed.query_pairs_mut().append_pair(&name, secret);
                any = true;
            }
        }
        if any { parsed.into() } else { url }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn agent(urls: &[&str]) -> ValidatedCard {
        let interfaces: Vec<_> = urls
            .iter()
            .map(|url| json!({ "url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }))
            .collect();
        let card = json!({
            "name": "x", "description": "x", "version": "1", "capabilities": {}, "supportedInterfaces": interfaces,
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
            "skills": [{ "id": "s", "name": "s", "description": "s", "tags": ["s"] }],
        });
        let spoken = crate::outbox::a2a::card::SPOKEN;
        protocol::a2a::card_validation::validate(&card, spoken, &|_| None).unwrap()
    }

    #[test]
    fn what_belongs_to_a_cards_host_goes_to_no_other() {
        let card = "https://weather.example/.well-known/agent-card.json";
        let urls = [
            "https://elsewhere.example/rpc",
            "https://weather.example:8443/rpc",
            "https://weather.example.evil/",
        ];
        let kept = at_home(agent(&urls), card).unwrap().interfaces;
        assert_eq!(kept.iter().map(|kept| kept.url.as_str()).collect::<Vec<_>>(), [urls[1]]);
        let refused = at_home(agent(&[urls[0]]), card).unwrap_err();
        assert!(
            refused.contains("for weather.example") && refused.contains("\"elsewhere.example\": {"),
            "{refused}"
        );
    }

    #[test]
    fn a_host_stands_for_its_ports_unless_one_is_named() {
        let of = |secret: &str| Credentials(BTreeMap::from([("key".to_owned(), Hidden::new(secret))]));
        let ring = Keyring(BTreeMap::from([
            ("127.0.0.1".to_owned(), of("any port")),
            ("127.0.0.1:9000".to_owned(), of("that port")),
        ]));
        for (urls, expected) in [
            (&["http://127.0.0.1:18500/rpc"][..], Some("any port")),
            (&["http://127.0.0.1/rpc", "http://127.0.0.1:7/v1"], Some("any port")),
            (&["http://127.0.0.1:9000/rpc"], Some("that port")),
            (&["http://127.0.0.1:9000/rpc", "http://127.0.0.1:9001/rpc"], None),
            (&["http://127.0.0.1:7/rpc", "https://elsewhere.example/rpc"], None),
            (&["https://127.0.0.10/rpc"], None),
        ] {
            let credentials = ring.of(&agent(urls));
            let found = credentials.0.get("key").map(Hidden::secret);
            assert_eq!(found, expected, "{urls:?}");
        }
    }
}
