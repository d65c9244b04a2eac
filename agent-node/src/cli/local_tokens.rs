//! Which person's token the command line uses at an address: the one that `--token` names, or that of a mesh in `~/.mesh`
//! whose process is there. Processes see tickets, each good at one address, and never the token.

use super::{
    RECIPIENT,
    exit::{CliError, Exit},
};
use crate::{clock::wall_time, data_dir, token_format::PERSON_PREFIX};
use protocol::{identity::PersonKey, problem::Reason, routes};
use reqwest::Url;
use std::{
    collections::BTreeMap,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use transport::http_client::{ClientRequest, HttpClient, has_credentials};

/// How long a process may take to say whether it accepts a token.
pub(super) const PROBE: Duration = Duration::from_secs(2);

/// What to do if the file of `--token` is no good.
const TOKEN_REMEDY: &str =
    "--token or MESH_TOKEN_FILE names it (`token` in the data directory of the registry)";

/// The person's tokens that may be used.
#[derive(Clone)]
pub(super) enum PersonTokens {
    /// That of `--token`, at every address.
    Named(Arc<PersonToken>),
    /// Those of the meshes in `~/.mesh`, the default one's first. Each is used on this machine only, and only for its mesh.
    Local {
        tokens: Arc<[Arc<PersonToken>]>,
        /// What a process at a base URL accepts, of those that have answered.
        accepted: Arc<Mutex<BTreeMap<String, Option<Arc<PersonToken>>>>>,
    },
}

pub(super) struct PersonToken {
    pub(super) text: String,
    pub(super) key: Arc<PersonKey>,
    /// The directory that holds it: the data of the mesh on this machine.
    pub(super) dir: PathBuf,
}

impl PersonToken {
    fn new(text: String, file: &Path) -> Arc<Self> {
        let key = Arc::new(PersonKey::of_token(&text));
        let dir = file.parent().map(Path::to_owned).unwrap_or_default();
        Arc::new(Self { text, key, dir })
    }

    /// Whether the mesh of its directory runs at `base`, as that says.
    fn is_of(&self, base: &str) -> bool {
        let described = std::fs::read_to_string(self.dir.join("run.json"));
        described.is_ok_and(|text| text.contains(&format!("\"{base}\"")))
    }

    /// The value of `Authorization` for the process at `base`.
    fn ticket(&self, base: &str) -> Option<String> {
        Some(format!("Bearer {}", self.key.ticket(&authority(base)?, wall_time())))
    }
}

impl PersonTokens {
    /// The token in `file`, or else those of this machine's meshes.
    pub(super) fn find(file: Option<&Path>) -> Result<Self, CliError> {
        Ok(match file {
            Some(file) => Self::Named(PersonToken::new(read_token(file, TOKEN_REMEDY)?, file)),
            None => Self::Local { tokens: in_home().into(), accepted: Arc::default() },
        })
    }

    /// The token of the mesh at `base`. A process on this machine is asked once which of the tokens it accepts.
    pub(super) async fn of(&self, wire: &HttpClient, base: &str) -> Option<Arc<PersonToken>> {
        let (tokens, accepted) = match self {
            Self::Named(token) => return Some(token.clone()),
            // A name and a password in the URL are a credential for a proxy in between, in the same header.
            Self::Local { .. } if !is_on_this_machine(base) || has_credentials(base) => return None,
            Self::Local { tokens, accepted } => (tokens, accepted),
        };
        let known = accepted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known.get(base) {
            return known.clone();
        }
        // Most processes are of one mesh. A wrong token counts as a failed login there.
        let others =
            tokens.iter().filter(|token| known.values().flatten().all(|known| known.text != token.text));
        let mut candidates: Vec<_> = known.values().flatten().chain(others).collect();
        candidates.sort_by_key(|token| !token.is_of(base));
        let mut found = None;
        for token in candidates {
            match is_accepted(wire, token, base).await {
                Some(true) => {
                    found = Some(token.clone());
                    break;
                }
                Some(false) => {}
                None => return None,
            }
        }
        accepted.lock().unwrap_or_else(PoisonError::into_inner).insert(base.to_owned(), found.clone());
        found
    }

    /// The value of `Authorization` for the process at `base`, if it is to have a ticket of the person.
    pub(super) async fn credential(&self, wire: &HttpClient, base: &str) -> Option<String> {
        match has_credentials(base) {
            true => None,
            false => self.of(wire, base).await?.ticket(base),
        }
    }

    /// The key that signs what is approved at `base`.
    pub(super) async fn key(&self, wire: &HttpClient, base: &str) -> Option<Arc<PersonKey>> {
        Some(self.of(wire, base).await?.key.clone())
    }
}

/// Whether the process at `base` accepts `token`; `None` if it does not answer.
async fn is_accepted(wire: &HttpClient, token: &PersonToken, base: &str) -> Option<bool> {
    let url = format!("{base}{}", routes::HEALTH);
    let probe = ClientRequest::get(&url, RECIPIENT).within(PROBE);
    match wire.bytes(probe.header("authorization", token.ticket(base)?)).await {
        Ok(_) => Some(true),
        Err(problem) if problem.reason == Reason::Unauthenticated => Some(false),
        Err(_) => None,
    }
}

/// The token in `file`; `remedy` says how another file is named.
pub(super) fn read_token(file: &Path, remedy: &str) -> Result<String, CliError> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        let message = format!(
            "{} can't be read ({error}): `mesh up` or `mesh registry` makes it at the first start; {remedy}",
            file.display()
        );
        CliError::new(Exit::Secret, message)
    })?;
    let token = text.trim();
    match token.starts_with(PERSON_PREFIX) {
        true => Ok(token.to_owned()),
        false => Err(CliError::new(
            Exit::Secret,
            format!(
                "{} holds no token of a mesh: remove it, and the next start of `mesh up` or `mesh registry` makes one; {remedy}",
                file.display()
            ),
        )),
    }
}

/// The tokens of the meshes in `~/.mesh`, that of `default` first.
fn in_home() -> Vec<Arc<PersonToken>> {
    let Some(home) = std::env::var_os("HOME").filter(|home| !home.is_empty()) else { return Vec::new() };
    let entries = std::fs::read_dir(PathBuf::from(home).join(".mesh")).into_iter().flatten();
    let mut dirs: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    dirs.sort_by_key(|dir| (dir.file_name().is_none_or(|name| name != "default"), dir.clone()));
    dirs.iter()
        .map(|dir| dir.join(data_dir::TOKEN))
        .filter_map(|file| Some(PersonToken::new(read_token(&file, "").ok()?, &file)))
        .collect()
}

/// The value of `Host` in requests to `base`.
fn authority(base: &str) -> Option<String> {
    let url = Url::parse(base).ok()?;
    let host = url.host_str()?;
    Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

/// Whether `base` names loopback.
pub(super) fn is_on_this_machine(base: &str) -> bool {
    let host = Url::parse(base).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}
