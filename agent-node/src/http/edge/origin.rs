//! Checks `Host` and `Origin`, against DNS rebinding and cross-site requests.

use actix_web::{dev::ServiceRequest, http::header};
use protocol::problem::{Problem, Reason};
use std::net::Ipv4Addr;

/// Refuses any `Origin`, and any host but this machine's names and `names`.
pub(super) fn check(request: &ServiceRequest, names: &[String]) -> Result<(), Problem> {
    let headers = request.headers();
    if headers.contains_key(header::ORIGIN) {
        return Err(Problem::new(Reason::ForeignOrigin, "requests of web pages (Origin) are not taken"));
    }
    let mut hosts = headers.get_all(header::HOST);
    let (Some(_), None) = (hosts.next(), hosts.next()) else {
        return Err(Problem::new(Reason::BadRequest, "a request has one Host header"));
    };
    addressed_hosts(request).into_iter().try_for_each(|host| check_host(host, names))
}

/// The hosts that a request addresses: its `Host` headers, and the authority of its target.
pub(super) fn addressed_hosts(request: &ServiceRequest) -> Vec<&str> {
    let hosts = request.headers().get_all(header::HOST).map(|host| host.to_str().unwrap_or_default());
    hosts.chain(request.uri().authority().map(|authority| authority.as_str())).collect()
}

/// Refuses any host but this machine's names and `names`.
pub(super) fn check_host(host: &str, names: &[String]) -> Result<(), Problem> {
    if is_own_name(host, names) {
        return Ok(());
    }
    let why = "is no name of this process: localhost and 127.0.0.1 are, and what --advertise (MESH_ADVERTISE) and --hosts \
               (MESH_HOSTS) say";
    Err(foreign_host(host, why))
}

/// Refuses, for a request without a credential, any host but loopback's names and `names`. Against DNS rebinding: a foreign
/// DNS server can resolve a short name, as agents' hosts have, to this machine, but not `localhost` or an address.
pub(super) fn check_user_host(host: &str, names: &[String]) -> Result<(), Problem> {
    if is_own_name(host, names) {
        return Ok(());
    }
    let why = "is for agents: without a credential call localhost or an address, or name it in --hosts (MESH_HOSTS)";
    Err(foreign_host(host, why))
}

fn foreign_host(host: &str, why: &str) -> Problem {
    let host: String = host.chars().take(80).collect();
    Problem::new(Reason::ForeignOrigin, format!("Host {host:?} {why}"))
}

fn is_own_name(host: &str, names: &[String]) -> bool {
    let name_end = host.find(']').map_or_else(|| host.find(':'), |bracket| Some(bracket + 1));
    let (name, port) = host.split_at(name_end.unwrap_or(host.len()));
    let port_is_good = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|port| port.len() <= 5 && port.bytes().all(|b| b.is_ascii_digit()));
    port_is_good && (is_loopback_name(name) || names.iter().any(|known| name.eq_ignore_ascii_case(known)))
}

/// Whether a host without a port is this machine's loopback.
pub(super) fn is_loopback_name(name: &str) -> bool {
    name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        || ["localhost", "[::1]"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::{check_host, is_own_name};

    #[test]
    fn the_refusal_of_a_foreign_host_names_the_settings() {
        let text = check_host("192.168.1.5:8001", &["node-1".to_owned()]).unwrap_err().message;
        assert!(["192.168.1.5:8001", "MESH_ADVERTISE", "MESH_HOSTS"].iter().all(|part| text.contains(part)));
        assert!(!text.contains("node-1"), "it does not name the accepted hosts: {text}");
    }

    #[test]
    fn only_names_of_this_machine_are_accepted() {
        let names = ["node-1".to_owned()];
        for host in [
            "localhost",
            "LocalHost:8000",
            "127.0.0.1:1",
            "127.83.0.1:8001",
            "[::1]",
            "[::1]:8001",
            "node-1:80",
            "localhost:",
        ] {
            assert!(is_own_name(host, &names), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil",
            "localhost:80:80",
            "localhost:x",
            "::1",
            "[::1]x",
            "[::2]",
            "evil@localhost",
            "localhost ",
            "node-2",
            "128.0.0.1",
            "127.1",
            "2130706433",
            "127.0.0.01",
            "localhost:999999",
        ] {
            assert!(!is_own_name(host, &names), "{host}");
        }
    }
}
