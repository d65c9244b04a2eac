//! The A2A parts of the configuration: an agent's policy for its clients, and known callers.

use super::text::YamlText;
use crate::{
    brain::llm::model::MediaKind,
    callers::{ConfiguredCaller, Credential},
    config::BrainConfig,
};
use protocol::{a2a::agent_policy::AgentPolicy, ids::AgentId, principal::Principal};
use schemars::JsonSchema;
use serde::Deserialize;

/// The URLs that the public card of an agent contains, with their keys.
pub(super) fn published(policy: &AgentPolicy) -> impl Iterator<Item = (&'static str, &str)> {
    let urls = [
        ("a2a.provider.url", policy.provider.as_ref().map(|provider| &provider.url)),
        ("a2a.documentationUrl", policy.documentation_url.as_ref()),
        ("a2a.iconUrl", policy.icon_url.as_ref()),
    ];
    urls.into_iter().filter_map(|(key, url)| Some((key, url?.as_str())))
}

/// The media types that an agent takes if nobody has said so: without images and PDFs if no model of it sees them.
pub(super) fn default_modes(brain: &BrainConfig) -> Vec<String> {
    let mut modes = AgentPolicy::default().input_modes;
    if let BrainConfig::Llm(llm) = brain {
        let seen = [("image/*", MediaKind::Image), ("application/pdf", MediaKind::Pdf)];
        modes.retain(|mode| seen.iter().all(|(other, kind)| mode != other || llm.sees(*kind)));
    }
    modes
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
pub(super) fn callers(files: &[CallerFile]) -> Result<Vec<ConfiguredCaller>, String> {
    let mut callers: Vec<ConfiguredCaller> = Vec::with_capacity(files.len());
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
        callers.push(ConfiguredCaller { user: user.clone(), credential });
    }
    Ok(callers)
}
