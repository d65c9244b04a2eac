//! Whether anybody listens at an endpoint. Only a refused connection counts as nobody: a slow process has its lease.

use reqwest::Url;
use std::{io::ErrorKind, time::Duration};
use tokio::{net::TcpStream, time::timeout};

/// The time between two probes, and the longest time of one.
pub const PROBE_INTERVAL: Duration = Duration::from_millis(800);

/// The refusals in a row after which a process counts as gone. One may be a restart.
pub const REFUSALS: u32 = 2;

/// Whether the host of `endpoint` refuses connections at its port.
pub async fn refuses(endpoint: &str) -> bool {
    let Ok(url) = Url::parse(endpoint) else { return false };
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else { return false };
    let connection = TcpStream::connect((host.trim_matches(['[', ']']), port));
    let connected = timeout(PROBE_INTERVAL, connection).await;
    matches!(connected, Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_an_endpoint_where_nobody_listens_refuses() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        assert!(!refuses(&endpoint).await, "it listens and says nothing");
        drop(listener);
        assert!(refuses(&endpoint).await);
        assert!(!refuses("http://").await);
    }
}
