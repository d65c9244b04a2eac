//! Which addresses and ports beyond the mesh may be called: public unicast ones at the ports of https, and those the
//! configuration names (DESIGN §8, RELIABILITY §1.9).
//!
//! A webhook or a card may name any host, and a name may lead anywhere; so it is the address that is judged, in whatever
//! form it is wrapped.

use serde::{Deserialize, Serialize};
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// The header of every call that leaves the mesh. A call with it is never one of the local user, whatever its address.
pub const OUTBOUND: &str = "mesh-outbound";

/// A network such as `10.0.0.0/8`, or a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IpNetwork {
    first: IpAddr,
    bits: u8,
}

impl IpNetwork {
    /// Whether `address` is one of them. IPv4 within IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                let shift = 32 - u32::from(self.bits);
                u64::from(first.to_bits()) >> shift == u64::from(address.to_bits()) >> shift
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                let shift = 128 - u32::from(self.bits);
                first.to_bits().checked_shr(shift) == address.to_bits().checked_shr(shift)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for IpNetwork {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || format!("{text:?} names no addresses; write 127.0.0.1 or 10.0.0.0/8");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| wanted())?)),
            None => (text, None),
        };
        let first = address.parse::<IpAddr>().map_err(|_| wanted())?.to_canonical();
        let most = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        if bits > most {
            return Err(wanted());
        }
        Ok(Self { first, bits })
    }
}

impl TryFrom<String> for IpNetwork {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<IpNetwork> for String {
    fn from(net: IpNetwork) -> Self {
        net.to_string()
    }
}

impl fmt::Display for IpNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

/// The ports of public addresses that may be called without being named.
const PORTS: [u16; 2] = [443, 8443];

/// What the configuration names: a network such as `10.0.0.0/8`, at one port (`10.0.0.0/8:9000`, `[fd00::/8]:9000`) or at every
/// port, or a port of every public address (`*:9000`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AllowedTarget {
    /// `None`: every public address.
    addresses: Option<IpNetwork>,
    port: Option<u16>,
}

impl FromStr for AllowedTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || {
            format!(
                "{text:?} names no addresses; write 127.0.0.1, 10.0.0.0/8, 10.0.0.0/8:9000, [fd00::/8]:9000, or *:9000 for a port of \
                 every public address"
            )
        };
        let (addresses, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once("]:")) {
            Some((net, port)) => (net, Some(port)),
            // A colon within an IPv6 address is not that of a port.
            None if text.matches(':').count() > 1 => (text, None),
            None => text.split_once(':').map_or((text, None), |(net, port)| (net, Some(port))),
        };
        let port =
            port.map(|port| port.parse().ok().filter(|port| *port > 0).ok_or_else(wanted)).transpose()?;
        let addresses = match (addresses, port) {
            ("*", Some(_)) => None,
            (net, _) => Some(net.parse().map_err(|_| wanted())?),
        };
        Ok(Self { addresses, port })
    }
}

impl TryFrom<String> for AllowedTarget {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<AllowedTarget> for String {
    fn from(target: AllowedTarget) -> Self {
        target.to_string()
    }
}

impl fmt::Display for AllowedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.addresses, self.port) {
            (Some(net), None) => net.fmt(f),
            (Some(net), Some(port)) if net.first.is_ipv6() => write!(f, "[{net}]:{port}"),
            (Some(net), Some(port)) => write!(f, "{net}:{port}"),
            (None, Some(port)) => write!(f, "*:{port}"),
            (None, None) => f.write_str("*"),
        }
    }
}

/// Where calls to the outside may go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AddressPolicy {
    /// Addresses that may be called though they are not public, and without TLS, and ports.
    pub allow: Vec<AllowedTarget>,
}

fn refused_port(port: u16) -> String {
    format!("is called at the ports 443 and 8443 only, not at {port}")
}

impl AddressPolicy {
    /// Whether the configuration names `address` at `port`.
    pub fn names(&self, address: IpAddr, port: u16) -> bool {
        let is_at = |target: &AllowedTarget| target.port.is_none_or(|named| named == port);
        self.allow
            .iter()
            .filter(|target| is_at(target))
            .any(|target| target.addresses.is_some_and(|net| net.contains(address)))
    }

    /// Whether this port of every public address may be called.
    fn opens(&self, port: u16) -> bool {
        let named = |target: &AllowedTarget| target.addresses.is_none() && target.port == Some(port);
        PORTS.contains(&port) || self.allow.iter().any(named)
    }

    /// Whether the configuration names a port of its own, or one of those that need no name.
    pub fn mentions(&self, port: u16) -> bool {
        PORTS.contains(&port) || self.allow.iter().any(|target| target.port == Some(port))
    }

    /// Whether any address may be called at `port`; else why not, as the end of a sentence about a name.
    pub fn judge_port(&self, port: u16) -> Result<(), String> {
        let is_open = |target: &AllowedTarget| target.port.is_none_or(|named| named == port);
        match PORTS.contains(&port) || self.allow.iter().any(is_open) {
            true => Ok(()),
            false => Err(refused_port(port)),
        }
    }

    /// Whether `address` may be called at `port`; else why not, as the end of a sentence about the address.
    pub fn judge(&self, address: IpAddr, port: u16) -> Result<(), String> {
        match what_is_wrong_with(address) {
            _ if self.names(address, port) => Ok(()),
            Some(what) => Err(format!("is {what}")),
            None if self.opens(port) => Ok(()),
            None => Err(refused_port(port)),
        }
    }
}

/// What keeps `address` from being a public unicast one (IANA's special-purpose registries); `None` if it is one.
pub fn what_is_wrong_with(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => special_v6(address),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, d] = address.octets();
    match (a, b, c, d) {
        (0, ..) => Some("of this network"),
        (10, ..) | (172, 16..=31, ..) | (192, 168, ..) => Some("private"),
        (100, 64..=127, ..) => Some("shared by a carrier's customers"),
        (127, ..) => Some("loopback"),
        (169, 254, ..) => Some("link-local"),
        (168, 63, 129, 16) => Some("a cloud's own"),
        (192, 0, 0, _) => Some("of a protocol"),
        (192, 0, 2, _) | (198, 51, 100, _) | (203, 0, 113, _) => Some("for documentation"),
        (192, 88, 99, _) => Some("a 6to4 relay"),
        (198, 18..=19, ..) => Some("for benchmarks"),
        (224..=239, ..) => Some("multicast"),
        (240..=255, ..) => Some("reserved"),
        _ => None,
    }
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    let segments = address.segments();
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("unspecified"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("loopback"),
        // NAT64 leads to the IPv4 address in its last bits.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => special_v4(within(high, low)),
        [0xfe80..=0xfebf, ..] => Some("link-local"),
        [0xfc00..=0xfdff, ..] => Some("private"),
        [0xff00..=0xffff, ..] => Some("multicast"),
        [0x2002, ..] => Some("a 6to4 tunnel"),
        [0x2001, 0, ..] => Some("a Teredo tunnel"),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0x0fff, ..] => Some("for documentation"),
        [0x2001, 0..=0x01ff, ..] => Some("of a protocol"),
        // ISATAP leads to the IPv4 address in its last bits.
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => special_v4(within(high, low)),
        [0x2000..=0x3fff, ..] => None,
        _ => Some("not global unicast"),
    }
}

fn within(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn verdict(address: &str) -> Option<&'static str> {
        what_is_wrong_with(address.parse().unwrap())
    }

    #[test]
    fn public_addresses_may_be_called() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "172.15.255.255",
            "172.32.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "192.0.1.0",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2a00:1450:4001::1",
            "::ffff:1.1.1.1",
            "64:ff9b::8.8.8.8",
        ] {
            assert_eq!(verdict(address), None, "{address}");
        }
    }

    #[test]
    fn whatever_leads_inside_is_refused_in_every_disguise() {
        for (address, part) in [
            ("127.0.0.1", "loopback"),
            ("0.0.0.0", "this network"),
            ("10.1.2.3", "private"),
            ("172.31.255.255", "private"),
            ("192.168.0.1", "private"),
            ("169.254.169.254", "link-local"),
            ("168.63.129.16", "cloud"),
            ("100.100.100.200", "carrier"),
            ("192.0.0.192", "protocol"),
            ("198.19.0.1", "benchmarks"),
            ("203.0.113.9", "documentation"),
            ("239.1.1.1", "multicast"),
            ("255.255.255.255", "reserved"),
            ("::1", "loopback"),
            ("::", "unspecified"),
            ("::ffff:127.0.0.1", "loopback"),
            ("::ffff:169.254.169.254", "link-local"),
            ("::127.0.0.1", "not global"),
            ("64:ff9b::10.0.0.1", "private"),
            ("64:ff9b:1::1", "not global"),
            ("2002:7f00:1::", "6to4"),
            ("2001:0:1::1", "Teredo"),
            ("2001:db8::1", "documentation"),
            ("fd00:ec2::254", "private"),
            ("fe80::1", "link-local"),
            ("fec0::1", "not global"),
            ("ff02::1", "multicast"),
            ("2a00::5efe:10.0.0.1", "private"),
        ] {
            let verdict = verdict(address);
            assert!(verdict.is_some_and(|why| why.contains(part)), "{address}: {verdict:?}");
        }
    }

    #[test]
    fn what_the_configuration_names_may_be_called_and_nothing_beside_it() {
        let rules =
            AddressPolicy { allow: vec!["127.0.0.0/8".parse().unwrap(), "fd00:1::/32".parse().unwrap()] };
        for address in ["127.0.0.1", "127.9.9.9", "::ffff:127.0.0.1", "fd00:1:2::3"] {
            assert_eq!(rules.judge(address.parse().unwrap(), 9), Ok(()), "{address}");
        }
        for address in ["128.0.0.1", "::1", "10.0.0.1", "fd00:2::1"] {
            assert_eq!(
                rules.judge(address.parse().unwrap(), 443).is_ok(),
                verdict(address).is_none(),
                "{address}"
            );
        }
        for text in ["", "x", "10.0.0.0/33", "10.0.0.0/", "::/129", "/8", "10.0.0.0/-1"] {
            assert!(text.parse::<IpNetwork>().is_err(), "{text}");
        }
        assert!("0.0.0.0/0".parse::<IpNetwork>().unwrap().contains("9.9.9.9".parse().unwrap()));
    }

    #[test]
    fn a_port_is_called_if_it_is_one_of_https_or_named() {
        let allow = ["10.0.0.0/8:9000", "[fd00::/8]:9001", "*:8080", "192.168.0.1"];
        let rules = AddressPolicy { allow: allow.map(|text| text.parse().unwrap()).to_vec() };
        let judge = |address: &str, port| rules.judge(address.parse().unwrap(), port);
        for (address, port) in [
            ("1.1.1.1", 443),
            ("1.1.1.1", 8443),
            ("1.1.1.1", 8080),
            ("10.1.2.3", 9000),
            ("::ffff:10.1.2.3", 9000),
            ("fd00::1", 9001),
            ("192.168.0.1", 22),
        ] {
            assert_eq!(judge(address, port), Ok(()), "{address} {port}");
        }
        for (address, port, part) in [
            ("1.1.1.1", 22, "not at 22"),
            ("2606:4700::1", 9001, "not at 9001"),
            ("10.1.2.3", 8080, "private"),
            ("10.1.2.3", 443, "private"),
            ("fd00::1", 9000, "private"),
            ("127.0.0.1", 8080, "loopback"),
        ] {
            let why = judge(address, port).unwrap_err();
            assert!(why.contains(part), "{address} {port}: {why}");
        }
        for text in
            ["*", "*:", "*:0", "*:65536", "10.0.0.1:", "10.0.0.1:x", "[::1]", "[::1]:0", "10.0.0.1:1:2"]
        {
            assert!(text.parse::<AllowedTarget>().is_err(), "{text}");
        }
        for target in &rules.allow {
            assert_eq!(target.to_string().parse(), Ok(*target));
        }
    }

    proptest! {
        #[test]
        fn an_ipv4_address_means_the_same_in_every_wrapping(bits: u32) {
            let plain = Ipv4Addr::from_bits(bits);
            let (high, low) = ((bits >> 16) as u16, bits as u16);
            let mapped = IpAddr::V6(plain.to_ipv6_mapped());
            let nat64 = IpAddr::V6(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low));
            let plain = what_is_wrong_with(plain.into());
            prop_assert_eq!(what_is_wrong_with(mapped), plain);
            prop_assert_eq!(what_is_wrong_with(nat64), plain);
        }

        #[test]
        fn nothing_the_standard_library_calls_local_gets_through(bits: u32, wide: u128) {
            let v4 = Ipv4Addr::from_bits(bits);
            if v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast()
                || v4.is_broadcast() || v4.is_documentation() || v4.is_unspecified() {
                prop_assert!(what_is_wrong_with(v4.into()).is_some());
            }
            let v6 = Ipv6Addr::from_bits(wide);
            if v6.is_loopback() || v6.is_multicast() || v6.is_unique_local() || v6.is_unicast_link_local() {
                prop_assert!(what_is_wrong_with(v6.into()).is_some());
            }
        }

        #[test]
        fn a_net_is_read_back_as_written_and_holds_its_first(bits: u128, prefix in 0u8..=128) {
            let net = IpNetwork { first: IpAddr::V6(Ipv6Addr::from_bits(bits)).to_canonical(), bits: prefix };
            prop_assume!(net.first.is_ipv6() || prefix <= 32);
            prop_assert_eq!(net.to_string().parse::<IpNetwork>(), Ok(net));
            prop_assert!(net.contains(net.first));
        }
    }
}
