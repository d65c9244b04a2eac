//! How a process is reached: under which name others call it, and from where a call needs no credential.

use crate::http::edge::{LocalCaller, LocalCallers};
use reqwest::Url;
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    str::FromStr,
};

/// What others need to know of where a process listens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// The name or address that others are told; if not given, the address it listens at, or this machine's name if
    /// that is all of them.
    pub advertise: Option<Host>,
    /// Further names it may be called by.
    pub hosts: Vec<Host>,
    /// From where a call needs no credential, beside loopback.
    pub local_callers: Vec<LocalCaller>,
    /// From where what is counted may be read without a credential.
    pub metrics_callers: Vec<LocalCaller>,
}

/// A host's name or address, as it stands in a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host(String);

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::from(address));
        }
        let url = Url::parse(&format!("http://{text}/")).ok();
        let is_bare = |url: &Url| url.host_str().is_some_and(|host| host.eq_ignore_ascii_case(text));
        match url.filter(is_bare) {
            Some(_) => Ok(Self(text.to_owned())),
            None => Err(format!("{text:?} is no name or address of a host (no port, no path)")),
        }
    }
}

impl Host {
    fn is_address(&self) -> bool {
        self.0.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
    }
}

impl From<Ipv4Addr> for Host {
    fn from(address: Ipv4Addr) -> Self {
        IpAddr::V4(address).into()
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self(address.to_string()),
            IpAddr::V6(address) => Self(format!("[{address}]")),
        }
    }
}

impl Reach {
    /// The base URL that others are told for what listens at `address`.
    pub(super) fn endpoint(&self, address: SocketAddr) -> String {
        format!("http://{}", self.authority(address))
    }

    /// The host and port that others are told for what listens at `address`.
    pub(super) fn authority(&self, address: SocketAddr) -> String {
        format!("{}:{}", self.told(address.ip()).0, address.port())
    }

    /// Every name a request may call this process by, beside loopback's.
    pub(super) fn names(&self, listen: IpAddr) -> Vec<String> {
        let own = if listen.is_loopback() { Vec::new() } else { vec![this_machine()] };
        let all = self.hosts.iter().cloned().chain([self.told(listen)]).chain(own);
        all.map(|Host(name)| name).collect()
    }

    /// Those of them that need no credential: what was said, and addresses, which nobody can make lead elsewhere.
    pub(super) fn user_names(&self, listen: IpAddr) -> Vec<String> {
        let told = Some(self.told(listen)).filter(Host::is_address);
        self.hosts.iter().cloned().chain(told).map(|Host(name)| name).collect()
    }

    /// Whose requests are the local user's.
    pub(super) fn callers(&self) -> LocalCallers {
        LocalCallers::resolve(&self.local_callers)
    }

    /// Who may read what is counted.
    pub(super) fn watchers(&self) -> LocalCallers {
        LocalCallers::resolve(&self.metrics_callers)
    }

    fn told(&self, listen: IpAddr) -> Host {
        match &self.advertise {
            Some(host) => host.clone(),
            None if listen.is_unspecified() => this_machine(),
            None => listen.into(),
        }
    }
}

/// The name this machine gives itself, which in a container is known to the others of its network; or its address, if
/// the name can't stand in a URL (a container's may be twelve digits, which is a number there).
fn this_machine() -> Host {
    let name = rustix::system::uname().nodename().to_string_lossy().parse();
    name.ok().or_else(outward_address).unwrap_or_else(|| Ipv4Addr::LOCALHOST.into())
}

/// The address this machine would call others from. Nothing is sent to find out.
fn outward_address() -> Option<Host> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    Some(socket.local_addr().ok()?.ip().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_told_an_address_that_they_can_call() {
        let at = |listen: &str, advertise: Option<&str>| {
            let advertise = advertise.map(|host| host.parse().unwrap());
            Reach { advertise, ..Reach::default() }.endpoint(listen.parse().unwrap())
        };
        assert_eq!(at("127.0.0.1:8001", None), "http://127.0.0.1:8001");
        assert_eq!(at("10.1.2.3:8001", None), "http://10.1.2.3:8001");
        assert_eq!(at("[::1]:8001", None), "http://[::1]:8001");
        assert_eq!(at("0.0.0.0:8001", Some("planner")), "http://planner:8001");
        assert_eq!(at("0.0.0.0:8001", Some("fd00::7")), "http://[fd00::7]:8001");
        let own = at("0.0.0.0:8001", None);
        assert!(!own.contains("0.0.0.0") && own.ends_with(":8001"), "{own}");
    }

    #[test]
    fn a_host_is_one_that_can_stand_in_a_url() {
        for text in ["registry", "Node-1.example", "10.0.0.1", "::1", "3f2a9c"] {
            text.parse::<Host>().unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        for text in ["http://registry", "registry:8000", "a/b", "", "a b", "user@host", "a?b", "123456789012"]
        {
            assert!(text.parse::<Host>().is_err(), "{text}");
        }
    }
}
