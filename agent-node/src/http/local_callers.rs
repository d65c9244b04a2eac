//! The addresses whose callers count as the user of this machine: loopback, and those that the configuration names.
//!
//! Calls to a port that Docker publishes come from the gateway of the container's network, whatever their real origin. Who
//! can make them depends on the host address that the port is published at.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr},
    str::FromStr,
};

/// The shortest network prefix accepted, bits; a shorter one is most likely an error.
const MIN_PREFIX: u8 = 8;
const ROUTES: &str = "/proc/net/route";
const GATEWAY_FLAG: u32 = 2;

/// An origin of requests without a credential, as configured: `gateway`, an address, or a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalCaller {
    /// The gateway of this container's network.
    Gateway,
    /// The addresses that share this prefix length with this address.
    Network(IpAddr, u8),
}

impl FromStr for LocalCaller {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "gateway" {
            return Ok(Self::Gateway);
        }
        let wrong =
            || format!("{text:?} is neither `gateway` nor an address nor a network like 192.168.65.0/24");
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let max = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(max), str::parse::<u8>).map_err(|_| wrong())?;
        match bits {
            bits if bits > max => Err(wrong()),
            0..MIN_PREFIX => Err(format!("{text}: a network this wide would let everybody in")),
            bits => Ok(Self::Network(address, bits)),
        }
    }
}

impl fmt::Display for LocalCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gateway => f.write_str("gateway"),
            Self::Network(address, bits) => write!(f, "{address}/{bits}"),
        }
    }
}

/// The resolved networks: address and prefix length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalCallers(Vec<(IpAddr, u8)>);

impl LocalCallers {
    /// Resolves `gateway`. A container without a gateway has no published ports either.
    pub fn resolve(callers: &[LocalCaller]) -> Self {
        let mut networks = Vec::new();
        for caller in callers {
            match *caller {
                LocalCaller::Network(address, bits) => networks.push((address, bits)),
                LocalCaller::Gateway => {
                    let routes = std::fs::read_to_string(ROUTES).unwrap_or_default();
                    let found = gateways(&routes);
                    if found.is_empty() {
                        tracing::warn!("no gateway in {ROUTES}: only loopback needs no credential");
                    }
                    networks.extend(found.into_iter().map(|gateway| (IpAddr::V4(gateway), 32)));
                }
            }
        }
        Self(networks)
    }

    /// Both lists in one.
    pub(in crate::http) fn and(&self, other: &Self) -> Self {
        Self(self.0.iter().chain(&other.0).copied().collect())
    }

    /// Whether `address` is loopback or in one of the networks.
    pub(in crate::http) fn contains(&self, address: IpAddr) -> bool {
        address.to_canonical().is_loopback() || self.lists(address)
    }

    /// Whether `address` is in one of the networks.
    pub(in crate::http) fn lists(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|(network, bits)| is_in(address, *network, *bits))
    }
}

fn is_in(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let differ = u32::from(address) ^ u32::from(network);
            differ.checked_shr(32 - u32::from(bits)).unwrap_or(0) == 0
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let differ = u128::from(address) ^ u128::from(network);
            differ.checked_shr(128 - u32::from(bits)).unwrap_or(0) == 0
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

/// The default routes' gateways in `/proc/net/route`: hexadecimal, in the machine's byte order.
fn gateways(routes: &str) -> Vec<Ipv4Addr> {
    let gateway = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (to, gateway, flags) = (words.next()?, words.next()?, words.next()?);
        let flags = u32::from_str_radix(flags, 16).ok()?;
        let gateway = u32::from_str_radix(gateway, 16).ok()?;
        (to == "00000000" && flags & GATEWAY_FLAG != 0).then(|| Ipv4Addr::from(gateway.to_ne_bytes()))
    };
    routes.lines().filter_map(gateway).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn callers(words: &[&str]) -> LocalCallers {
        let parsed: Vec<LocalCaller> = words.iter().map(|word| word.parse().unwrap()).collect();
        LocalCallers::resolve(&parsed)
    }

    #[test]
    fn only_loopback_and_configured_addresses_are_local() {
        let (default, configured) = (callers(&[]), callers(&["172.18.0.1", "192.168.65.0/24", "fd00::/64"]));
        for address in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
            assert!(default.contains(address.parse().unwrap()), "{address}");
        }
        for address in ["172.18.0.1", "::ffff:172.18.0.1", "192.168.65.7", "fd00::9"] {
            assert!(!default.contains(address.parse().unwrap()), "{address}");
            assert!(configured.contains(address.parse().unwrap()), "{address}");
        }
        for address in ["172.18.0.2", "192.168.66.1", "10.0.0.1", "fd00:0:0:1::9", "fe80::1"] {
            assert!(!configured.contains(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn an_invalid_address_or_a_too_wide_network_is_refused_and_named() {
        for text in ["gatway", "", "10.0.0", "10.0.0.1/33", "10.0.0.1/x", "::/129", "localhost"] {
            let error = text.parse::<LocalCaller>().unwrap_err();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
        for text in ["0.0.0.0/0", "::/0", "10.0.0.0/7"] {
            assert!(text.parse::<LocalCaller>().unwrap_err().contains("everybody"), "{text}");
        }
    }

    #[test]
    fn the_gateway_is_that_of_the_default_route() {
        let routes = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010012AC\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000012AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
eth1\t00000A0A\t01000A0A\t0003\t0\t0\t0\t0000FFFF\t0\t0\t0
";
        assert_eq!(gateways(routes), [Ipv4Addr::new(172, 18, 0, 1)]);
        assert_eq!(gateways(""), Vec::<Ipv4Addr>::new());
    }
}
