//! The A2A parts of the configuration: an agent's policy for its clients, and known callers.

use super::text::YamlText;
use crate::{
    brain::llm::media::MediaKind,
    config::BrainConfig,
    http::edge::{Caller, Credential},
};
use protocol::{
    a2a::{agent_policy::AgentPolicy, card::AgentProvider},
    ids::AgentId,
    principal::Principal,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// What an agent offers to A2A clients.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct A2aPolicyFile {
    /// Whether it streams; it does if absent.
    streaming: Option<bool>,
    /// Whether it calls webhooks; it does if absent.
    push_notifications: Option<bool>,
    /// Whether callers with a credential see a card that says more; they do if absent.
    extended_card: Option<bool>,
    /// URIs of extensions without which it takes no message.
    requires: Vec<String>,
    /// Whether its brain may answer with a message and make no task of it.
    direct: bool,
    /// Media types it takes, each whole or as `text/*`; if absent all, without images and PDFs if it is an `llm` brain no model of which sees them.
    input_modes: Option<Vec<String>>,
    /// Media types it answers in.
    output_modes: Option<Vec<String>>,
    /// Who runs it.
    provider: Option<ProviderFile>,
    /// Where to read more.
    documentation_url: Option<String>,
    /// A picture.
    icon_url: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ProviderFile {
    /// Their name.
    organization: String,
    /// Their site.
    url: String,
}

impl A2aPolicyFile {
    /// The URLs that its public card contains, with their keys.
    pub(super) fn published(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let urls = [
            ("a2a.provider.url", self.provider.as_ref().map(|provider| &provider.url)),
            ("a2a.documentationUrl", self.documentation_url.as_ref()),
            ("a2a.iconUrl", self.icon_url.as_ref()),
        ];
        urls.into_iter().filter_map(|(key, url)| Some((key, url?.as_str())))
    }
}

/// The media types that an agent takes if nobody has said so: without images and PDFs if no model of it sees them.
fn default_modes(brain: &BrainConfig) -> Vec<String> {
    let mut modes = AgentPolicy::default().input_modes;
    if let BrainConfig::Llm(llm) = brain {
        let seen = [("image/*", MediaKind::Image), ("application/pdf", MediaKind::Pdf)];
        modes.retain(|mode| seen.iter().all(|(other, kind)| mode != other || llm.sees(*kind)));
    }
    modes
}

impl A2aPolicyFile {
    /// What the agent with this brain offers.
    pub(super) fn policy(self, brain: &BrainConfig) -> AgentPolicy {
        let defaults = AgentPolicy::default();
        let non_empty = |modes: Option<Vec<String>>| modes.filter(|modes| !modes.is_empty());
        AgentPolicy {
            streaming: self.streaming.unwrap_or(defaults.streaming),
            push_notifications: self.push_notifications.unwrap_or(defaults.push_notifications),
            extended_card: self.extended_card.unwrap_or(defaults.extended_card),
            requires: self.requires,
            direct: self.direct,
            input_modes: non_empty(self.input_modes).unwrap_or_else(|| default_modes(brain)),
            output_modes: non_empty(self.output_modes).unwrap_or(defaults.output_modes),
            provider: self
                .provider
                .map(|ProviderFile { organization, url }| AgentProvider { url, organization }),
            documentation_url: self.documentation_url,
            icon_url: self.icon_url,
        }
    }
}

/// One user and one credential.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CallerFile {
    /// Who it is; several entries may be one user's.
    #[schemars(with = "String", regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    user: AgentId,
    /// A key that comes in `X-API-Key`. Take it from the environment: `${ALICE_KEY}`.
    api_key: Option<YamlText>,
    /// A token that comes in `Authorization: Bearer`.
    bearer: Option<YamlText>,
}

/// The minimum length of a credential, so that it can't be guessed.
const MIN_CREDENTIAL: usize = 16;

/// Validates the callers of a file; the error names the user. A credential proves one user and is listed once.
pub(super) fn callers(files: &[CallerFile]) -> Result<Vec<Caller>, String> {
    let mut callers: Vec<Caller> = Vec::with_capacity(files.len());
    for file in files {
        let user = &file.user;
        if Principal::User(user.clone()) == Principal::local_user() {
            return Err(format!("{user} is the user of this machine and needs no credential"));
        }
        let credential = match (&file.api_key, &file.bearer) {
            (Some(YamlText(key)), None) => Credential::ApiKey(key.clone()),
            (None, Some(YamlText(token))) => Credential::Bearer(token.clone()),
            (Some(_), Some(_)) | (None, None) => {
                return Err(format!("{user} needs apiKey or bearer, one of them"));
            }
        };
        let (Credential::ApiKey(secret) | Credential::Bearer(secret)) = &credential;
        if secret.len() < MIN_CREDENTIAL || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "the credential of {user} needs {MIN_CREDENTIAL} visible ASCII characters at least"
            ));
        }
        if let Some(other) = callers.iter().find(|other| other.credential.secret() == secret) {
            let whose = match other.user == *user {
                true => format!("a credential of {user} is listed twice"),
                false => format!("{} and {user} have the same credential", other.user),
            };
            return Err(format!("{whose}; give each entry one of its own"));
        }
        callers.push(Caller { user: user.clone(), credential });
    }
    Ok(callers)
}
