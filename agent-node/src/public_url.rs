//! A URL under which clients outside the mesh reach agents through a proxy.

use crate::console_paths;
use protocol::{ids::AgentId, routes};
use reqwest::Url;
use std::str::FromStr;

/// A base URL of agents for clients outside the mesh, such as `https://mesh.example.com/agents`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl {
    /// Without a `/` at the end.
    text: String,
    /// The host, and the port if it is not the scheme's.
    pub(crate) authority: String,
    /// Empty, or it begins with `/`.
    pub(crate) path: String,
}

impl PublicUrl {
    /// The URL, without a `/` at the end.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name or address without a port.
    pub(crate) fn host(&self) -> &str {
        let name_end = self.authority.rfind(']').map_or_else(|| self.authority.find(':'), |at| Some(at + 1));
        &self.authority[..name_end.unwrap_or(self.authority.len())]
    }

    /// That of one of several agents that share this URL.
    #[must_use]
    pub fn of_agent(&self, agent: &AgentId) -> Self {
        let below = |base: &str| format!("{base}/{agent}");
        Self { text: below(&self.text), path: below(&self.path), ..self.clone() }
    }

    /// What follows its path in `path`, with a `/` at the front; `None` if `path` is not below it.
    pub(crate) fn below<'a>(&self, path: &'a str) -> Option<&'a str> {
        let rest = path.strip_prefix(&self.path).filter(|_| !self.path.is_empty())?;
        match rest {
            "" => Some("/"),
            rest => rest.starts_with('/').then_some(rest),
        }
    }
}

impl FromStr for PublicUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            |why: &str| Err(format!("{text:?} is no public URL like https://mesh.example.com/agents: {why}"));
        let url = match Url::parse(text) {
            Ok(url) if ["http", "https"].contains(&url.scheme()) => url,
            Ok(_) | Err(_) => return wrong("it begins with https:// or http://"),
        };
        let Some(host) = url.host_str() else { return wrong("it has no host") };
        if !url.username().is_empty() || url.password().is_some() {
            return wrong("it must not carry a name or a password");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return wrong("it has no query and no fragment");
        }
        let path = url.path().trim_end_matches('/');
        if path.contains('%') || path.contains("//") {
            return wrong("its path is plain names");
        }
        let first = path.split('/').nth(1).unwrap_or_default();
        if routes::FIRST_SEGMENTS.contains(&first) || first == console_paths::FIRST_SEGMENT {
            return wrong(&format!("/{first} is a path of the mesh itself; choose another one"));
        }
        let authority = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        Ok(Self { text: format!("{}://{authority}{path}", url.scheme()), authority, path: path.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> PublicUrl {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_public_url_is_a_base_without_credentials_and_beside_the_paths_of_the_mesh() {
        for (text, as_str, host, path) in [
            ("https://mesh.example.com", "https://mesh.example.com", "mesh.example.com", ""),
            ("https://Mesh.example.com:443/", "https://mesh.example.com", "mesh.example.com", ""),
            ("http://10.0.0.1:8443/a/b/", "http://10.0.0.1:8443/a/b", "10.0.0.1", "/a/b"),
            ("https://[fd00::7]:8443/x", "https://[fd00::7]:8443/x", "[fd00::7]", "/x"),
        ] {
            let url = url(text);
            assert_eq!((url.as_str(), url.host(), url.path.as_str()), (as_str, host, path));
        }
        for (text, why) in [
            ("mesh.example.com/agents", "begins with"),
            ("ftp://mesh.example.com", "begins with"),
            ("https://me:pw@mesh.example.com", "password"),
            ("https://mesh.example.com?a=b", "query"),
            ("https://mesh.example.com/a%2Fb", "plain names"),
            ("https://mesh.example.com/a//b", "plain names"),
            ("https://mesh.example.com/a2a/x", "/a2a is a path of the mesh"),
            ("https://mesh.example.com/registry", "/registry is a path of the mesh"),
            ("https://mesh.example.com/.well-known", "/.well-known is a path of the mesh"),
        ] {
            let error = text.parse::<PublicUrl>().unwrap_err();
            assert!(error.contains(why) && error.contains(text), "{error}");
        }
    }
}
