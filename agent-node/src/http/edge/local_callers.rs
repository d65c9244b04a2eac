//! Whom a process takes for the user of its machine: whoever calls from loopback, and from where it was told to.
//!
//! A port that Docker publishes is called from the address of the container network's gateway, whoever it was that called
//! the host. So what decides who that is, is the host's address the port is published at.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr},
    str::FromStr,
};

/// The fewest bits a network is named by; a wider one must be a slip.
const WIDEST: u8 = 8;
const ROUTES: &str = "/proc/net/route";
const GATEWAY_FLAG: u32 = 2;

/// Somewhere requests may come from without a credential, as it is written: `gateway`, an address, or a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalCaller {
    /// The gateway of this container's network.
    Gateway,
    /// All addresses that begin with the first so many bits of this one.
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
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse::<u8>).map_err(|_| wrong())?;
        match bits {
            bits if bits > most => Err(wrong()),
            0..WIDEST => Err(format!("{text}: a network this wide would let everybody in")),
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

/// The same as addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalCallers(Vec<(IpAddr, u8)>);

impl LocalCallers {
    /// Looks up what has to be looked up. A container without a gateway has no published ports either.
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

    /// Whether whoever calls from `address` is the user of this machine.
    pub(super) fn admit(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_loopback() || self.0.iter().any(|(network, bits)| is_in(address, *network, *bits))
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

/// The default routes' gateways, as the kernel writes them: hexadecimal, in the machine's own byte order.
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
    fn loopback_is_the_user_and_nobody_else_unless_told() {
        let (nobody, told) = (callers(&[]), callers(&["172.18.0.1", "192.168.65.0/24", "fd00::/64"]));
        for address in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
            assert!(nobody.admit(address.parse().unwrap()), "{address}");
        }
        for address in ["172.18.0.1", "::ffff:172.18.0.1", "192.168.65.7", "fd00::9"] {
            assert!(!nobody.admit(address.parse().unwrap()), "{address}");
            assert!(told.admit(address.parse().unwrap()), "{address}");
        }
        for address in ["172.18.0.2", "192.168.66.1", "10.0.0.1", "fd00:0:0:1::9", "fe80::1"] {
            assert!(!told.admit(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn what_is_no_address_or_far_too_wide_is_refused_by_name() {
        for text in ["gatway", "", "10.0.0", "10.0.0.1/33", "10.0.0.1/x", "::/129", "localhost"] {
            let said = text.parse::<LocalCaller>().unwrap_err();
            assert!(said.contains(&format!("{text:?}")), "{said}");
        }
        for text in ["0.0.0.0/0", "::/0", "10.0.0.0/7"] {
            assert!(text.parse::<LocalCaller>().unwrap_err().contains("everybody"), "{text}");
        }
    }

    #[test]
    fn the_gateway_is_the_default_routes() {
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
