//! The same client for remote procedure calls: over HTTP/2 from the first byte, and with what stands behind a body.

use super::{Call, Error, Outside, late, resolve::judge, why};
use bytes::Bytes;
use reqwest::{Body, ClientBuilder, Url};
use std::{net::IpAddr, time::Duration};

/// How often a peer is asked whether it is still there, and how long it may take to say so.
const PING: Duration = Duration::from_secs(15);

pub(super) fn over_http2(client: ClientBuilder) -> ClientBuilder {
    client.http2_prior_knowledge().http2_keep_alive_interval(PING).http2_keep_alive_timeout(PING)
}

impl Outside {
    /// Makes a remote procedure call of `call` with this body; the answer's head is here, the rest comes.
    pub(crate) async fn open(&self, call: Call, body: Bytes) -> Result<hyper::Response<Body>, Error> {
        let within = call.within.unwrap_or(self.bounds.answer);
        let request = self.request(&self.calls, Call { body, ..call })?;
        match tokio::time::timeout(within, request.send()).await {
            Ok(answer) => answer.map(Into::into).map_err(|error| why(&error)),
            Err(_) => Err(late("no answer in time")),
        }
    }

    /// The URL of what a card names as `host:port`: without TLS exactly where the configuration names each of its
    /// addresses, which then may be called so.
    pub(crate) async fn url_of(&self, authority: &str) -> Result<String, Error> {
        if authority.contains("://") {
            return Ok(authority.trim_end_matches('/').to_owned());
        }
        let bad = |why: &str| Error::BadUrl(format!("{authority:?} is no host and port: {why}"));
        let url = Url::parse(&format!("https://{authority}")).map_err(|error| bad(&error.to_string()))?;
        let host = url.host_str().ok_or_else(|| bad("no host"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let found = tokio::net::lookup_host((host, url.port_or_known_default().unwrap_or(443)));
        let found: Vec<IpAddr> = match tokio::time::timeout(self.bounds.connect, found).await {
            Ok(Ok(found)) => found.map(|address| address.ip()).collect(),
            Ok(Err(error)) => return Err(Error::Away(format!("{host}: {error}"))),
            Err(_) => return Err(late("no address in time")),
        };
        let is_plain = !found.is_empty() && found.iter().all(|ip| judge(&self.rules, *ip, true).is_ok());
        Ok(format!("{}://{authority}", if is_plain { "http" } else { "https" }))
    }
}
