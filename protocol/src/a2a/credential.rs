//! What a foreign agent wants as proof of who calls, and how a credential is shown to it (A2A §7.3, §4.5). The secrets
//! themselves never come here: rules see names only.

use super::{
    card::{AgentCard, AgentSkill},
    security::SecurityScheme,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Whether there are credentials for a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "credential")]
pub enum CredentialStatus {
    NotRequired,
    /// There is a credential for each of these schemes.
    Available {
        schemes: Vec<String>,
    },
    /// There is none for these; the first alternative that the card names.
    Missing {
        schemes: Vec<String>,
    },
}

impl CredentialStatus {
    /// One word, as the seed of this has it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NotRequired => "not_required",
            Self::Available { .. } => "available",
            Self::Missing { .. } => "missing",
        }
    }
}

/// How we stand towards `card` (and `skill`, which may ask for more) with credentials for the schemes `have`.
pub fn standing(card: &AgentCard, skill: Option<&AgentSkill>, have: &BTreeSet<String>) -> CredentialStatus {
    let of_skill = skill.map(|skill| &skill.security_requirements).filter(|list| !list.is_empty());
    let alternatives = of_skill.unwrap_or(&card.security_requirements);
    if alternatives.is_empty() || alternatives.iter().any(|needed| needed.schemes.is_empty()) {
        return CredentialStatus::NotRequired;
    }
    let can = |name: &String| {
        have.contains(name) && card.security_schemes.get(name).is_some_and(|scheme| way(scheme).is_some())
    };
    let names =
        |needed: &super::security::SecurityRequirement| needed.schemes.keys().cloned().collect::<Vec<_>>();
    match alternatives.iter().find(|needed| needed.schemes.keys().all(can)) {
        Some(needed) => CredentialStatus::Available { schemes: names(needed) },
        None => {
            let first = alternatives.first().map(names).unwrap_or_default();
            CredentialStatus::Missing { schemes: first.into_iter().filter(|name| !can(name)).collect() }
        }
    }
}

/// The location of a credential in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialLocation {
    /// A header of this name.
    Header(String),
    /// `Authorization`, after this word.
    Authorization(String),
    /// A query parameter of this name.
    Query(String),
    /// A cookie of this name.
    Cookie(String),
}

/// How `scheme` wants its credential; `None` where one that was handed to us can't be shown (mutual TLS).
pub fn way(scheme: &SecurityScheme) -> Option<CredentialLocation> {
    match scheme {
        SecurityScheme::ApiKey(key) => match key.location.as_str() {
            "header" => Some(CredentialLocation::Header(key.name.clone())),
            "query" => Some(CredentialLocation::Query(key.name.clone())),
            "cookie" => Some(CredentialLocation::Cookie(key.name.clone())),
            _ => None,
        },
        SecurityScheme::HttpAuth(auth) => {
            Some(CredentialLocation::Authorization(match auth.scheme.to_ascii_lowercase().as_str() {
                "bearer" => "Bearer".to_owned(),
                "basic" => "Basic".to_owned(),
                _ => auth.scheme.clone(),
            }))
        }
        // An obtained access token is presented like any other.
        SecurityScheme::OAuth2(_) | SecurityScheme::OpenIdConnect(_) => {
            Some(CredentialLocation::Authorization("Bearer".to_owned()))
        }
        SecurityScheme::MutualTls(_) => None,
    }
}
