//! The proxy that the environment names for calls of models and tool servers: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, less what
//! `NO_PROXY` lists. This machine is never called through one. The calls of [`super::outbound_client`] use no proxy.

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::{Client, Url};
use std::net::{Ipv4Addr, Ipv6Addr};
use transport::http_client::redact_url;

/// A client for URLs of this machine, and one for all others.
#[derive(Debug, Clone)]
pub(crate) struct ProxiedClients {
    direct: Client,
    by_environment: Client,
}

impl ProxiedClients {
    /// Both clients, of what `builder` returns.
    pub(crate) fn new(builder: impl Fn() -> reqwest::ClientBuilder) -> Result<Self, reqwest::Error> {
        Ok(Self { direct: builder().no_proxy().build()?, by_environment: builder().build()? })
    }

    /// The client for `url`.
    pub(crate) fn for_url(&self, url: &str) -> &Client {
        let is_loopback = Url::parse(url).is_ok_and(|url| is_loopback(&url));
        if is_loopback { &self.direct } else { &self.by_environment }
    }
}

/// The proxy for calls of `url`, without its credentials.
pub(crate) fn proxy_of(url: &Url) -> Option<String> {
    proxy_by(&Matcher::from_system(), url)
}

fn proxy_by(environment: &Matcher, url: &Url) -> Option<String> {
    let proxy = environment.intercept(&url.as_str().parse().ok()?).filter(|_| !is_loopback(url))?;
    Some(redact_url(proxy.uri().to_string().trim_end_matches('/')).to_string())
}

/// Whether `url` leads to this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let name = host.trim_end_matches('.');
    name == "localhost"
        || name.ends_with(".localhost")
        || host.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback())
        || host
            .trim_matches(['[', ']'])
            .parse()
            .is_ok_and(|address: Ipv6Addr| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_no_proxy_and_that_of_others_is_named_without_its_password() {
        let environment = Matcher::builder().all("http://me:secret@proxy.example:3128").no("inside").build();
        let proxy = |url: &str| proxy_by(&environment, &Url::parse(url).unwrap());
        for url in [
            "http://localhost:11434/v1",
            "http://LOCALHOST./v1",
            "https://ollama.localhost/v1",
            "http://127.0.0.1:11434/v1",
            "http://127.8.8.8/",
            "http://[::1]:80/",
            "http://[::ffff:127.0.0.1]/",
            "http://inside/",
        ] {
            assert_eq!(proxy(url), None, "{url}");
        }
        for url in
            ["http://10.0.0.1/", "https://models.example/v1", "http://localhost.example/", "http://[::2]/"]
        {
            assert_eq!(proxy(url).as_deref(), Some("http://proxy.example:3128"), "{url}");
        }
    }
}
