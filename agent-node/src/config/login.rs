//! The key `login` of a tool server at a URL.

use super::{forms::ShortForm, text::YamlText};
use crate::{
    outbox::{a2a::credentials::SecretString, environment_proxy::is_loopback},
    tool_login::{LoginConfig, LoginOwner},
};
use reqwest::Url;
use schemars::JsonSchema;
use serde::Deserialize;

/// A login at a tool server by OAuth; whose it is is enough.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct LoginFile {
    /// Whose token is sent: `agent`, one for all tasks, or `user`, that of the user whose task it is.
    whose: LoginOwner,
    /// The id of the client that the operator of the authorization server has made for this mesh; if absent, the mesh registers itself.
    client_id: Option<YamlText>,
    /// Its secret, best as `${VARIABLE}`; with it an agent logs in without a person, where the authorization server offers that.
    client_secret: Option<SecretString>,
    /// What is asked for; what the server names if absent.
    #[serde(default)]
    scopes: Vec<String>,
}

impl ShortForm for LoginFile {
    const KEY: &'static str = "whose";
}

impl LoginFile {
    /// The login at `url`. A fault has the key below `login` and what is wrong.
    pub(super) fn config(&self, url: &str) -> Result<LoginConfig, (&'static str, String)> {
        let is_safe = Url::parse(url).is_ok_and(|url| url.scheme() == "https" || is_loopback(&url));
        if !is_safe {
            return Err((
                "login",
                "needs an https: URL, or one of this machine: tokens are secrets".to_owned(),
            ));
        }
        let secret = self.client_secret.as_ref().filter(|secret| !secret.expose().is_empty());
        let client = match (&self.client_id, secret) {
            (Some(id), secret) => Some((id.as_str().to_owned(), secret.cloned())),
            (None, Some(_)) => {
                return Err(("login.clientId", "is missing: `clientSecret` is of a client".to_owned()));
            }
            (None, None) => None,
        };
        Ok(LoginConfig { whose: self.whose, client, scopes: self.scopes.clone() })
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Team;

    /// What is wrong with a tool server with these keys, or the servers that get the agent's own token.
    fn read(server: &str) -> Result<Vec<String>, String> {
        let llm = format!("model: openai/x, url: 'http://127.0.0.1:1/v1', tools: [{{ name: t, {server} }}]");
        let yaml = format!("agent: a\nbrain: {{ llm: {{ {llm} }} }}\n");
        let team = Team::parse("a.yaml", &yaml, None);
        let team = team.map_err(|errors| format!("{}: {}", errors.0[0].key, errors.0[0].what))?;
        Ok(team.agents[0].brain.own_logins().into_iter().map(str::to_owned).collect())
    }

    #[test]
    fn a_login_is_for_a_url_that_keeps_secrets_and_says_whose_it_is() {
        assert_eq!(read("mcp: 'https://t.example/mcp', login: agent"), Ok(vec!["t".to_owned()]));
        assert_eq!(
            read("mcp: 'http://localhost:1/mcp', login: { whose: user, scopes: [a] }"),
            Ok(Vec::new())
        );
        for (server, why) in [
            ("mcp: 'http://t.example/mcp', login: agent", "needs an https: URL"),
            ("mcp: [sh], login: agent", "is for a URL"),
            ("mcp: 'https://t.example/mcp', login: both", "both"),
            (
                "mcp: 'https://t.example/mcp', login: { whose: agent, clientSecret: s }",
                "login.clientId: is missing",
            ),
            (
                "mcp: 'https://t.example/mcp', login: user, headers: { authorization: x }",
                "leave it out of `headers`",
            ),
        ] {
            let fault = read(server).unwrap_err();
            assert!(fault.contains(why), "{server}: {fault}");
        }
    }
}
