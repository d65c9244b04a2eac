//! Credentials for foreign agents, from the configuration. They are sent only to the hosts they are for and never logged.

use crate::outbox::outbound_client::OutboundRequest;
use protocol::{
    a2a::{
        card::AgentCard,
        card_validation::ValidatedCard,
        credential::{CredentialLocation, way},
    },
    artifact::{Artifact, PartContent},
};
use reqwest::Url;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

/// A text that `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretString(String);

impl SecretString {
    /// The text. The caller must not log it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// A secret with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hidden")
    }
}

/// Credentials of this node for foreign agents, by host (`weather.example`, `127.0.0.1:9000`). A request that names a card
/// can't choose among them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct Keyring(pub BTreeMap<String, SchemeCredentials>);

impl Keyring {
    /// The credentials for an agent; none unless all its interfaces have the same entry. An entry without a port is for all
    /// ports of the host; an entry with a port takes precedence.
    pub fn for_agent(&self, card: &ValidatedCard) -> Arc<SchemeCredentials> {
        let mut entries: Vec<_> =
            card.interfaces.iter().map(|interface| self.entry_for(&interface.url)).collect();
        entries.dedup();
        let credentials = match entries.as_slice() {
            [Some(entry)] => self.0.get(entry).cloned(),
            _ => None,
        };
        Arc::new(credentials.unwrap_or_default())
    }

    /// The key of the entry for an interface. A gRPC interface has no scheme.
    fn entry_for(&self, url: &str) -> Option<String> {
        let absolute = if url.contains("://") { url.to_owned() } else { format!("https://{url}") };
        let url = Url::parse(&absolute).ok()?;
        let host = url.host_str()?;
        let exact = url.port_or_known_default().map(|port| format!("{host}:{port}"));
        exact.into_iter().chain([host.to_owned()]).find(|entry| self.0.contains_key(entry))
    }

    /// All secrets. The caller must not log them.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.0.values().flat_map(|credentials| credentials.0.values()).map(SecretString::expose)
    }

    /// Replaces every secret in the data of `artifact` with `***`.
    pub fn mask_artifact(&self, artifact: &mut Artifact) {
        for part in &mut artifact.parts {
            if let PartContent::Data(data) = &mut part.content {
                self.mask(data);
            }
        }
    }

    /// Replaces every secret in the texts of `value` with `***`.
    pub fn mask(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                for secret in self.0.values().flat_map(|credentials| credentials.0.values()) {
                    if !secret.0.is_empty() && text.contains(&secret.0) {
                        *text = text.replace(&secret.0, "***");
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.mask(member)),
            _ => {}
        }
    }
}

/// Removes the interfaces of other hosts from the card at `url`: credentials for a host are sent to that host only, at any
/// port. Fails if no interface is left.
pub fn restrict_to_host(mut card: ValidatedCard, url: &str) -> Result<ValidatedCard, String> {
    let home = host_of(url).ok_or_else(|| format!("{url:?} names no host"))?;
    let (ours, others): (Vec<_>, Vec<_>) =
        card.interfaces.into_iter().partition(|interface| host_of(&interface.url).as_ref() == Some(&home));
    if let (true, Some(other)) = (ours.is_empty(), others.first()) {
        let other = host_of(&other.url).unwrap_or_default();
        return Err(format!(
            "the credentials are for {home}, where its card is, and it works at {other}: say \
             `mesh: {{ outside: {{ credentials: {{ \"{other}\": {{ … }} }} }} }}` instead"
        ));
    }
    card.interfaces = ours;
    Ok(card)
}

/// The host of a URL, or of a gRPC interface, which has no scheme.
fn host_of(url: &str) -> Option<String> {
    let absolute = if url.contains("://") { url.to_owned() } else { format!("https://{url}") };
    Url::parse(&absolute).ok()?.host_str().map(str::to_owned)
}

/// Credentials of one host, by the name of the card's security scheme.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct SchemeCredentials(pub BTreeMap<String, SecretString>);

impl SchemeCredentials {
    /// The schemes that have a credential.
    pub fn schemes(&self) -> BTreeSet<String> {
        self.0.keys().cloned().collect()
    }

    fn locations<'a>(&'a self, card: &'a AgentCard) -> impl Iterator<Item = (CredentialLocation, &'a str)> {
        self.0.iter().filter_map(|(scheme, secret)| {
            Some((way(card.security_schemes.get(scheme)?)?, secret.0.as_str()))
        })
    }

    /// Adds the credentials that go into headers.
    pub(super) fn with_headers(&self, card: &AgentCard, mut request: OutboundRequest) -> OutboundRequest {
        for (location, secret) in self.locations(card) {
            request = match location {
                CredentialLocation::Header(name) => request.secret_header(&name, secret),
                CredentialLocation::Authorization(scheme) => {
                    request.secret_header("authorization", &format!("{scheme} {secret}"))
                }
                CredentialLocation::Cookie(name) => {
                    request.secret_header("cookie", &format!("{name}={secret}"))
                }
                CredentialLocation::Query(_) => request,
            };
        }
        request
    }

    /// Adds the credentials that go into the query of `url`.
    pub(super) fn with_query(&self, card: &AgentCard, url: String) -> String {
        let Ok(mut parsed) = Url::parse(&url) else { return url };
        let mut is_changed = false;
        for (location, secret) in self.locations(card) {
            if let CredentialLocation::Query(name) = location {
                parsed.query_pairs_mut().append_pair(&name, secret);
                is_changed = true;
            }
        }
        if is_changed { parsed.into() } else { url }
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
        let protocols = crate::outbox::a2a::card_fetch::CLIENT_PROTOCOLS;
        protocol::a2a::card_validation::validate(&card, protocols, &|_| None).unwrap()
    }

    #[test]
    fn credentials_of_a_cards_host_go_to_no_other_host() {
        let card = "https://weather.example/.well-known/agent-card.json";
        let urls = [
            "https://elsewhere.example/rpc",
            "https://weather.example:8443/rpc",
            "https://weather.example.evil/",
        ];
        let left = restrict_to_host(agent(&urls), card).unwrap().interfaces;
        assert_eq!(left.iter().map(|interface| interface.url.as_str()).collect::<Vec<_>>(), [urls[1]]);
        let refused = restrict_to_host(agent(&[urls[0]]), card).unwrap_err();
        assert!(
            refused.contains("for weather.example") && refused.contains("\"elsewhere.example\": {"),
            "{refused}"
        );
    }

    #[test]
    fn an_entry_for_a_host_holds_for_all_ports_without_an_entry() {
        let of =
            |secret: &str| SchemeCredentials(BTreeMap::from([("key".to_owned(), SecretString::new(secret))]));
        let keyring = Keyring(BTreeMap::from([
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
            let credentials = keyring.for_agent(&agent(urls));
            let found = credentials.0.get("key").map(SecretString::expose);
            assert_eq!(found, expected, "{urls:?}");
        }
    }
}
