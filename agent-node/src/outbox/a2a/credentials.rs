//! Credentials for foreign agents: from the configuration, shown to whom they are for, never in a log.

use crate::outbox::outside::Call;
use protocol::a2a::{
    card::AgentCard,
    credential::{Way, way},
    vetting::Vetted,
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
    /// The credentials for an agent all of whose interfaces are at one host that has some.
    pub fn of(&self, vetted: &Vetted) -> Arc<Credentials> {
        let mut hosts: Vec<_> = vetted.interfaces.iter().map(|interface| host(&interface.url)).collect();
        hosts.dedup();
        let credentials = match hosts.as_slice() {
            [Some(host)] => self.0.get(host).cloned(),
            _ => None,
        };
        Arc::new(credentials.unwrap_or_default())
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

/// The host of an interface, which over gRPC is named without a scheme.
fn host(url: &str) -> Option<String> {
    let full = if url.contains("://") { url.to_owned() } else { format!("https://{url}") };
    let url = Url::parse(&full).ok()?;
    let host = url.host_str()?;
    Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

/// Credentials by the name of the card's security scheme.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials(pub BTreeMap<String, Hidden>);

impl Credentials {
    /// The schemes there is a credential for.
    pub fn schemes(&self) -> BTreeSet<String> {
        self.0.keys().cloned().collect()
    }

    fn ways<'a>(&'a self, card: &'a AgentCard) -> impl Iterator<Item = (Way, &'a str)> {
        self.0.iter().filter_map(|(scheme, secret)| {
            Some((way(card.security_schemes.get(scheme)?)?, secret.0.as_str()))
        })
    }

    /// `call` with the credentials that go into headers.
    pub(super) fn onto(&self, card: &AgentCard, mut call: Call) -> Call {
        for (way, secret) in self.ways(card) {
            call = match way {
                Way::Header(name) => call.secret_header(&name, secret),
                Way::Authorization(word) => call.secret_header("authorization", &format!("{word} {secret}")),
                Way::Cookie(name) => call.secret_header("cookie", &format!("{name}={secret}")),
                Way::Query(_) => call,
            };
        }
        call
    }

    /// `url` with the credentials that go into its query.
    pub(super) fn within(&self, card: &AgentCard, url: String) -> String {
        let Ok(mut parsed) = Url::parse(&url) else { return url };
        let mut any = false;
        for (way, secret) in self.ways(card) {
            if let Way::Query(name) = way {
                parsed.query_pairs_mut().append_pair(&name, secret);
                any = true;
            }
        }
        if any { parsed.into() } else { url }
    }
}
