//! The address of whoever makes a request, if a proxy that the configuration trusts passes it on.

use super::local_callers::LocalCallers;
use std::net::{IpAddr, Ipv6Addr};

/// The header in which proxies add whom they pass a request on for.
pub(crate) const FORWARDED_FOR: &str = "x-forwarded-for";

/// The caller behind `peer`: the last address in the lines of [`FORWARDED_FOR`] that is no proxy in `trusted`. It is `peer` itself
/// if that is not trusted, or says nothing. What stands before the first address that is not trusted was said by nobody known, and
/// is not read.
pub(in crate::http) fn client_address<'a>(
    peer: IpAddr,
    forwarded_for: impl DoubleEndedIterator<Item = &'a str>,
    trusted: &LocalCallers,
) -> IpAddr {
    let mut client = peer.to_canonical();
    for hop in forwarded_for.rev().flat_map(|line| line.rsplit(',')) {
        if !trusted.lists(client) {
            break;
        }
        let Some(address) = address_of(hop.trim()) else { break };
        client = address.to_canonical();
    }
    client
}

/// Whom `address` counts as: one site is given 2^64 addresses of IPv6 (RFC 6177), so they count as one.
pub(in crate::http) fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}

/// An address, with or without a port.
fn address_of(hop: &str) -> Option<IpAddr> {
    let bare = hop.strip_prefix('[').and_then(|rest| Some(rest.split_once(']')?.0)).unwrap_or(hop);
    bare.parse().ok().or_else(|| bare.rsplit_once(':')?.0.parse::<std::net::Ipv4Addr>().ok().map(IpAddr::V4))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::local_callers::LocalCaller;

    #[test]
    fn only_a_trusted_proxy_names_its_client() {
        let words = ["127.0.0.1", "10.0.0.0/8"];
        let parsed: Vec<LocalCaller> = words.iter().map(|word| word.parse().unwrap()).collect();
        let trusted = LocalCallers::resolve(&parsed);
        for (peer, lines, client) in [
            ("127.0.0.1", vec!["203.0.113.7"], "203.0.113.7"),
            ("::ffff:127.0.0.1", vec!["203.0.113.7:4711"], "203.0.113.7"),
            ("127.0.0.1", vec!["[2001:db8::1]:80"], "2001:db8::1"),
            ("127.0.0.1", vec!["2001:db8::1"], "2001:db8::1"),
            // Two proxies; what the client itself said is not read.
            ("127.0.0.1", vec!["1.1.1.1, 203.0.113.7, 10.1.2.3"], "203.0.113.7"),
            ("127.0.0.1", vec!["1.1.1.1", "203.0.113.7", "10.1.2.3"], "203.0.113.7"),
            ("127.0.0.1", vec!["1.1.1.1, unknown"], "127.0.0.1"),
            ("127.0.0.1", vec!["1.1.1.1, unknown, 10.1.2.3"], "10.1.2.3"),
            ("127.0.0.1", vec![], "127.0.0.1"),
            ("127.0.0.1", vec![""], "127.0.0.1"),
            ("192.0.2.1", vec!["203.0.113.7"], "192.0.2.1"),
        ] {
            let found = client_address(peer.parse().unwrap(), lines.iter().copied(), &trusted);
            assert_eq!(found.to_string(), client, "{peer} {lines:?}");
        }
        for (address, counted) in [
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("::ffff:203.0.113.7", "203.0.113.7"),
            ("::1", "::1"),
        ] {
            assert_eq!(counted_as(address.parse().unwrap()).to_string(), counted);
        }
        let nobody = LocalCallers::default();
        let found = client_address("127.0.0.1".parse().unwrap(), ["203.0.113.7"].into_iter(), &nobody);
        assert_eq!(found.to_string(), "127.0.0.1");
    }
}
