//! `mesh doctor`: what does not match in a mesh, with the remedy: keys, join secret, clocks, endpoints, versions, damage, what
//! holds work up, and what a caller without a credential may do at a URL that others reach.

mod held_up;
mod key_files;
mod outside;

use super::{
    CommonArgs,
    client::MeshClient,
    data_dir_args::DataDirArgs,
    exit::{CliError, Exit},
    keys::PinnedKeyList,
    local_tokens::is_on_this_machine,
    output::{self, Colour},
};
use clap::Args;
use futures_util::future::join_all;
use protocol::{identity::IdentityKey, ids::AgentId, problem::Reason, routes, signature::Secret};
use registry::entry::AgentEntry;
use serde::Serialize;
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use transport::http_client::{ClientRequest, HttpClient, HttpClientLimits, Signer, redact_url};
use transport::key_ring::KeyRing;

/// A difference between two clocks that is worth a word; at [`MAX_SKEW`] signatures are refused.
const NOTABLE_SKEW: Duration = Duration::from_secs(30);
/// How long a process may take for its checks.
const READINESS_TIMEOUT: Duration = Duration::from_secs(5);
/// How far the clocks of two processes may lie apart.
const MAX_SKEW: Duration = Duration::from_secs(300);

/// `mesh doctor`.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    place: DataDirArgs,
    /// The file of the join secret; if not given, `join` in the data directory.
    #[arg(long, env = "MESH_JOIN")]
    join: Option<PathBuf>,
    /// Say only what a caller without a credential may do at --url. Of a URL of another host than this one that is said, too.
    #[arg(long)]
    outside: bool,
}

/// What one check has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct DoctorFinding {
    subject: String,
    /// `None` if it could not be looked at.
    ok: Option<bool>,
    what: String,
}

impl DoctorFinding {
    fn right(subject: impl Into<String>, what: impl Into<String>) -> Self {
        Self { subject: subject.into(), ok: Some(true), what: what.into() }
    }

    fn skipped(subject: impl Into<String>, what: impl Into<String>) -> Self {
        Self { subject: subject.into(), ok: None, what: what.into() }
    }

    fn wrong(subject: impl Into<String>, what: impl Into<String>) -> Self {
        Self { subject: subject.into(), ok: Some(false), what: what.into() }
    }

    fn is_wrong(&self) -> bool {
        self.ok == Some(false)
    }
}

pub(super) async fn doctor(common: &CommonArgs, args: DoctorArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let mut findings = match args.outside || !is_on_this_machine(&client.url) {
        true => outside::check(&client.wire, &client.url, args.outside).await,
        false => Vec::new(),
    };
    if args.outside {
        return report(common, &findings);
    }
    let dir = args.place.dir().map_err(|error| CliError::new(Exit::Usage, format!("{error:#}")))?;
    if args.place.is_named() && !dir.is_dir() {
        let message =
            format!("{} does not exist: --name or --data names the directory of the mesh", dir.display());
        return Err(CliError::new(Exit::Usage, message));
    }
    let join = args.join.unwrap_or_else(|| dir.join("join"));
    let secret = secret(&client.url, &join).await;
    let agents = client.agents(None).await;
    let live: Vec<_> = agents.iter().flatten().map(|entry| entry.id().clone()).collect();
    match client.get::<PinnedKeyList>(&client.url, routes::REGISTRY_KEYS).await {
        Ok(list) => findings.extend(key_files::check(&dir, &list, &live)?),
        Err(failure) if failure.exit == Exit::Unreachable => return Err(failure),
        Err(failure) if !findings.is_empty() => {
            let what = format!("the keys of the mesh are not looked at: {}", failure.message);
            findings.push(DoctorFinding::skipped("registry", what));
            return report(common, &findings);
        }
        Err(failure) => {
            let at = redact_url(&client.url);
            let what = format!(
                "{at} is no registry that knows keys ({}): --url names one, or it is to be updated",
                failure.message
            );
            findings.push(DoctorFinding::wrong("registry", what));
        }
    }
    if matches!(secret, Err(SecretFault::OfAnotherMesh(_))) && findings.iter().any(DoctorFinding::is_wrong) {
        // What its keys differ from is not their registry: no advice about them is right.
        let at = redact_url(&client.url);
        let what = format!(
            "{} is the data of another mesh than that of the registry at {at}: --url names its registry, --name or --data the directory",
            dir.display()
        );
        findings = vec![DoctorFinding::wrong("data directory", what)];
    }
    findings.push(match secret {
        Ok(what) => DoctorFinding::right("join secret", what),
        Err(SecretFault::OfAnotherMesh(why) | SecretFault::Other(why)) => {
            DoctorFinding::wrong("join secret", format!("{}: {why}", join.display()))
        }
    });
    findings.extend(process(&client, "registry", &client.url).await);
    match client.board().await {
        Ok(board) if board.trim_end_matches('/') == client.url.trim_end_matches('/') => {}
        Ok(board) => findings.extend(process(&client, "board", &board).await),
        Err(failure) => findings.push(DoctorFinding::wrong("board", failure.message)),
    }
    for found in join_all(agents?.iter().map(|entry| agent(&client, entry))).await {
        findings.extend(found);
    }
    report(common, &findings)
}

fn report(common: &CommonArgs, findings: &[DoctorFinding]) -> Result<(), CliError> {
    let wrong = findings.iter().filter(|finding| finding.is_wrong()).count();
    if common.json {
        output::json(&json!({ "ok": wrong == 0, "findings": findings }))?;
    } else {
        let rows = findings.iter().map(|finding| {
            let state = match finding.ok {
                Some(true) => output::cell("right", Colour::Green),
                Some(false) => output::cell("wrong", Colour::Red),
                None => output::cell("skipped", Colour::Yellow),
            };
            vec![finding.subject.as_str().into(), state, output::plain(&finding.what).into()]
        });
        output::line(&output::table(&["what", "state", "finding"], rows))?;
    }
    match wrong {
        0 => Ok(()),
        _ => Err(CliError::new(
            Exit::Failed,
            format!("{wrong} of {} checks found something wrong", findings.len()),
        )),
    }
}

/// Why a join secret is no use.
enum SecretFault {
    /// The registry does not take it.
    OfAnotherMesh(String),
    Other(String),
}

/// Whether the registry takes the join secret in `file`.
async fn secret(url: &str, file: &Path) -> Result<String, SecretFault> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(format!("{} is not there: no process of the mesh starts from here", file.display()));
        }
        Err(error) => return Err(SecretFault::Other(format!("it can't be read: {error}"))),
    };
    let refusal = async {
        let secret = Secret::new(text.trim().as_bytes()).map_err(|error| error.to_string())?;
        let keys = KeyRing::new(secret, None);
        // A service's name: the registry checks the secret, and pins no key for it.
        let me = AgentId::parse("mesh").map_err(|error| error.to_string())?;
        let seed = *protocol::ids::Digest::of(uuid::Uuid::new_v4().as_bytes()).bytes();
        let signing = Arc::new(protocol::a2a::card_signature::SigningKey::from_seed(&seed));
        keys.set_own(IdentityKey::new(me.clone(), signing));
        let wire = HttpClient::new(Some(Signer { keys, me }), HttpClientLimits::default());
        let wire = wire.map_err(|problem| problem.message)?;
        let target = format!("{url}{}", routes::AGENTS);
        Ok::<_, String>(wire.bytes(ClientRequest::get(&target, "registry")).await.err())
    };
    let taken = || format!("the registry takes {}", file.display());
    let Some(problem) = refusal.await.map_err(SecretFault::Other)? else { return Ok(taken()) };
    if problem.reason == Reason::KeyMismatch {
        return Ok(taken());
    }
    if problem.reason == Reason::Unauthenticated {
        return Err(SecretFault::OfAnotherMesh(format!(
            "the registry at {} does not take it: --join names the file that all of a mesh share ({})",
            redact_url(url),
            problem.message
        )));
    }
    let is_stale = problem.reason == Reason::StaleSignature;
    let cause = if is_stale { "the clocks lie too far apart: " } else { "" };
    Err(SecretFault::Other(format!("{cause}{}", problem.message)))
}

/// The clock, the version and the stores of the process at `base`.
async fn process(client: &MeshClient, name: &str, base: &str) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    match client.clock_skew(base).await {
        Ok(Some(skew)) => findings.push(clock(name, skew)),
        Ok(None) => {}
        Err(failure) => return vec![DoctorFinding::wrong(name, failure.message)],
    }
    let own = env!("CARGO_PKG_VERSION");
    match client.get::<Value>(base, routes::STATE).await {
        Ok(state) if state["version"] == own => {
            findings.push(DoctorFinding::right(name, format!("version {own}")))
        }
        Ok(state) => {
            let what = format!(
                "version {}, this command is {own}: use one version in all processes",
                state["version"]
            );
            findings.push(DoctorFinding::wrong(name, what));
        }
        Err(failure) => findings.push(DoctorFinding::wrong(name, failure.message)),
    }
    let damaged = client.readiness(base, READINESS_TIMEOUT).await.map(|readiness| readiness.damaged);
    findings.extend(damaged.into_iter().flatten().map(|what| {
        DoctorFinding::wrong(
            name,
            format!("{what}: put a copy of its data back; `mesh store check` lists all"),
        )
    }));
    findings
}

fn clock(name: &str, skew: Duration) -> DoctorFinding {
    let seconds = skew.as_secs();
    let what = match seconds {
        0 | 1 => "its clock and this one agree within a second".to_owned(),
        _ => format!("its clock and this one are {seconds} s apart"),
    };
    match skew {
        skew if skew >= MAX_SKEW => DoctorFinding::wrong(
            name,
            format!("{what}; signatures are good for {} s: set the clocks (NTP)", MAX_SKEW.as_secs()),
        ),
        skew if skew >= NOTABLE_SKEW => {
            DoctorFinding::right(name, format!("{what}: signatures are good for {} s", MAX_SKEW.as_secs()))
        }
        _ => DoctorFinding::right(name, what),
    }
}

async fn agent(client: &MeshClient, entry: &AgentEntry) -> Vec<DoctorFinding> {
    let (id, endpoint) = (entry.id(), entry.card.endpoint.as_str());
    let mut findings = Vec::new();
    if entry.key.is_none() {
        let what = "no key is pinned: its key was reset, or its process is of an earlier version; update and restart it";
        findings.push(DoctorFinding::wrong(id.as_str(), what));
    }
    match client.card_at(endpoint).await {
        Ok(card) if card.agent_id == *id => {
            findings.extend(process(client, id.as_str(), endpoint).await);
            findings.extend(held_up::check(client, id.as_str(), endpoint).await);
        }
        Ok(card) => {
            let what = format!(
                "{} answers at its endpoint {}: --advertise names an address of its own",
                card.agent_id,
                redact_url(endpoint)
            );
            findings.push(DoctorFinding::wrong(id.as_str(), what));
        }
        Err(failure) if failure.exit == Exit::Unreachable => {
            let what = format!(
                "{}; from here its endpoint can't be checked, if it is a container's name",
                failure.message
            );
            findings.push(DoctorFinding::wrong(id.as_str(), what));
        }
        Err(failure) => findings.push(DoctorFinding::wrong(id.as_str(), failure.message)),
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skew_is_wrong_from_where_signatures_are_refused() {
        let of = |seconds| clock("a", Duration::from_secs(seconds));
        assert!([0, 31, 299].into_iter().all(|seconds| !of(seconds).is_wrong()) && of(300).is_wrong());
        assert!(of(31).what.contains("300 s") && of(300).what.contains("NTP"));
    }
}
