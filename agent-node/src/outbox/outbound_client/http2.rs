//! The client's HTTP/2 requests, for gRPC: with prior knowledge (RFC 9113 §3.3) and trailers.

use super::{Error, OutboundClient, OutboundRequest, clients::HttpVersion, resolve::check_ip, timed_out};
use bytes::Bytes;
use hyper::Response;
use reqwest::{Body, Url};
use std::net::IpAddr;

impl OutboundClient {
    /// Sends `request` with this body and returns when the head of the response has arrived.
    pub(crate) async fn open_http2(
        &self,
        request: OutboundRequest,
        body: Bytes,
    ) -> Result<Response<Body>, Error> {
        let timeout = request.timeout.unwrap_or(self.limits.response);
        let open = self.open(HttpVersion::Http2, OutboundRequest { body, ..request });
        match tokio::time::timeout(timeout, open).await {
            Ok(response) => response.map(Into::into),
            Err(_) => Err(timed_out("no answer in time")),
        }
    }

    /// The URL of an interface that a card names as `host:port`. It is `http` if the configuration names each address of
    /// the host, else `https`.
    pub(crate) async fn url_of(&self, authority: &str) -> Result<String, Error> {
        if authority.contains("://") {
            return Ok(authority.trim_end_matches('/').to_owned());
        }
        let bad = |why: &str| Error::BadUrl(format!("{authority:?} is no host and port: {why}"));
        let url = Url::parse(&format!("https://{authority}")).map_err(|error| bad(&error.to_string()))?;
        let host = url.host_str().ok_or_else(|| bad("no host"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = url.port_or_known_default().unwrap_or(443);
        let lookup = tokio::net::lookup_host((host, port));
        let ips: Vec<IpAddr> = match tokio::time::timeout(self.limits.connect, lookup).await {
            Ok(Ok(addresses)) => addresses.map(|address| address.ip()).collect(),
            Ok(Err(error)) => return Err(Error::Unreachable(format!("{host}: {error}"))),
            Err(_) => return Err(timed_out("no address in time")),
        };
        let is_plain =
            !ips.is_empty() && ips.iter().all(|ip| check_ip(&self.policy, (*ip, port), true).is_ok());
        Ok(format!("{}://{authority}", if is_plain { "http" } else { "https" }))
    }
}
