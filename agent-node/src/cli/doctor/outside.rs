//! What a caller without a credential may do at a URL: `mesh doctor --url` from outside, mostly through a proxy.

use super::DoctorFinding;
use crate::cli::{RECIPIENT, local_tokens::is_on_this_machine};
use bytes::Bytes;
use futures_util::future::join_all;
use protocol::{
    a2a::{
        card::{AgentCard, GRPC},
        json::FromProtoJson as _,
    },
    problem::Problem,
    routes,
};
use reqwest::{Method, Url};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use transport::http_client::{ClientRequest, HttpClient, is_foreign_response, is_unreachable};

const SUBJECT: &str = "outside";

/// What a request with forged headers adds, and how that is called.
const FORGED: [(&str, &[(&str, &str)]); 3] = [
    ("", &[]),
    (" with X-Forwarded-For: 127.0.0.1", &[("x-forwarded-for", "127.0.0.1")]),
    (" with Host: localhost", &[("host", "localhost")]),
];

/// A request that nobody may make without a credential.
struct Probe {
    method: Method,
    path: &'static str,
    body: Option<Value>,
}

/// What is behind a credential: something of each binding and service. The bodies are refused where they are read.
fn probes() -> Vec<Probe> {
    let get = |path| Probe { method: Method::GET, path, body: None };
    let post = |path, body| Probe { method: Method::POST, path, body: Some(body) };
    vec![
        get(routes::HEALTH),
        get(routes::STATE),
        get(routes::METRICS),
        get(routes::TASKS),
        get(routes::INBOX),
        get(routes::SIGNALS),
        get(routes::AGENTS),
        post(routes::MESSAGES, json!({})),
        post(routes::A2A_RPC, json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {} })),
        post(routes::MCP, json!({})),
    ]
}

/// The findings at `url`: the card, which has to be there if it is `an_agents`, and whether anything is open that needs a credential.
pub(super) async fn check(wire: &HttpClient, url: &str, an_agents: bool) -> Vec<DoctorFinding> {
    let mut findings = match card(wire, url).await {
        Ok(CardAt::Here(findings)) => findings,
        Ok(CardAt::Nowhere(finding)) => Vec::from_iter(an_agents.then_some(finding)),
        Err(unreachable) => return vec![unreachable],
    };
    let probes = probes();
    let calls = probes.iter().flat_map(|probe| FORGED.map(|forged| (probe, forged)));
    let calls: Vec<_> = calls.collect();
    let count = calls.len();
    let answers = join_all(calls.into_iter().map(|(probe, (how, headers))| async move {
        (format!("{} {}{how}", probe.method, probe.path), ask(wire, url, probe, headers).await)
    }))
    .await;
    let faults = faults_of(url, &answers);
    if faults.is_empty() {
        let is_401 = |answer: &OutsideAnswer| answer.is_refusal_of_mesh && answer.status == 401;
        findings.push(match answers.iter().any(|(_, answer)| answer.as_ref().is_ok_and(is_401)) {
            true => DoctorFinding::right(
                SUBJECT,
                format!(
                    "{count} requests without a credential, some with forged headers, are refused by the mesh: cards, keys and callbacks alone are public"
                ),
            ),
            false => DoctorFinding::skipped(
                SUBJECT,
                format!("none of {count} requests reached a mesh: --url names the base URL, with its path"),
            ),
        });
    }
    findings.extend(faults);
    findings
}

/// The status of an answer with nothing in it, as some proxies give for a host that they do not serve.
const NOTHING: u16 = 204;

/// How a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OutsideAnswer {
    status: u16,
    /// Whether it has the form of a mesh's refusal.
    is_refusal_of_mesh: bool,
}

/// The answer, or why there is none.
async fn ask(
    wire: &HttpClient,
    url: &str,
    probe: &Probe,
    headers: &[(&'static str, &str)],
) -> Result<OutsideAnswer, Problem> {
    let target = format!("{url}{}", probe.path);
    let call = ClientRequest::new(probe.method.clone(), &target, RECIPIENT);
    let call = match &probe.body {
        Some(body) => call.body(Bytes::from(body.to_string())).header("a2a-version", "1.0"),
        None => call,
    };
    let call = headers.iter().fold(call, |call, (name, value)| call.header(name, *value));
    let (status, is_refusal_of_mesh) = match wire.send(call).await {
        Ok(answer) if answer.status().is_success() && answer.content_length() == Some(0) => (NOTHING, false),
        Ok(answer) => (answer.status().as_u16(), false),
        Err(problem) if is_unreachable(&problem) => return Err(problem),
        Err(problem) => (problem.reason.status(), !is_foreign_response(&problem)),
    };
    Ok(OutsideAnswer { status, is_refusal_of_mesh })
}

/// What is wrong with answers to requests without a credential.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum OutsideFault {
    OpenHere,
    Open,
    Redirected,
    ProxyFails,
    NoAnswer,
}

/// What is to be said of `answers` at `url`, one finding for each kind.
fn faults_of(url: &str, answers: &[(String, Result<OutsideAnswer, Problem>)]) -> Vec<DoctorFinding> {
    let mut by_fault = BTreeMap::<_, Vec<String>>::new();
    for (what, answer) in answers {
        let status = answer.as_ref().map(|answer| answer.status);
        let fault = match status {
            Ok(NOTHING | 401 | 403 | 404 | 405 | 421 | 429) => continue,
            Ok(300..=399) => OutsideFault::Redirected,
            Ok(500..) => OutsideFault::ProxyFails,
            // A program of this machine may, but for what a proxy passes on.
            Ok(_) if is_on_this_machine(url) && !what.contains("X-Forwarded-For") => OutsideFault::OpenHere,
            Ok(_) => OutsideFault::Open,
            Err(_) => OutsideFault::NoAnswer,
        };
        let how = status.map_or_else(|problem| problem.message.clone(), |status| status.to_string());
        by_fault.entry(fault).or_default().push(format!("{what} ({how})"));
    }
    let found = by_fault.into_iter().map(|(fault, requests)| {
        let (text, remedy) = match fault {
            OutsideFault::OpenHere => (
                "open to programs of this machine",
                "say --url with the name that others use, from another machine",
            ),
            OutsideFault::Open => (
                "open to everybody who reaches this URL",
                "a proxy calls as this machine does; let it add X-Forwarded-For and keep Host (docs/security.md, deploy/proxy)",
            ),
            OutsideFault::Redirected => ("redirected", "--url names where they lead"),
            OutsideFault::ProxyFails => ("answered by a failure", "look at the proxy"),
            OutsideFault::NoAnswer => ("not answered", "look at the proxy"),
        };
        let what = format!("{text}: {}: {remedy}", requests.join(", "));
        match fault {
            OutsideFault::OpenHere => DoctorFinding::skipped(SUBJECT, what),
            _ => DoctorFinding::wrong(SUBJECT, what),
        }
    });
    found.collect()
}

/// What is found of the card at a URL.
enum CardAt {
    Here(Vec<DoctorFinding>),
    /// There is none, as at a registry.
    Nowhere(DoctorFinding),
}

/// Whether the card at `url` sends its reader to `url`. Fails if nothing answers there.
async fn card(wire: &HttpClient, url: &str) -> Result<CardAt, DoctorFinding> {
    let target = format!("{url}{}", routes::AGENT_CARD);
    let wrong = |what: String| DoctorFinding::wrong("card", what);
    let read: Result<Value, Problem> = wire.json(ClientRequest::get(&target, RECIPIENT)).await;
    let card = match read.map(AgentCard::from_proto) {
        Ok(Ok(card)) => card,
        Ok(Err(error)) => return Ok(CardAt::Here(vec![wrong(format!("{target} is no card: {error}"))])),
        Err(problem) if is_unreachable(&problem) => {
            let hint = match problem.message.contains("certificate") {
                true => " (SSL_CERT_FILE names the file of a private authority's certificates)",
                false => "",
            };
            return Err(DoctorFinding::wrong(SUBJECT, format!("{}{hint}", problem.message)));
        }
        Err(problem) => {
            return Ok(CardAt::Nowhere(wrong(format!("{target} has no card: {}", problem.message))));
        }
    };
    let urls = card.supported_interfaces.iter().filter(|interface| interface.protocol_binding != GRPC);
    let elsewhere = urls.map(|interface| interface.url.as_str()).find(|named| !is_below(url, named));
    let mut findings = vec![match elsewhere {
        None => DoctorFinding::right("card", format!("{} names this URL", card.name)),
        Some(named) if is_on_this_machine(url) => DoctorFinding::skipped(
            "card",
            format!("{} tells clients {named}; say --url with that name to look at it", card.name),
        ),
        Some(named) => wrong(format!(
            "{} names {named}, which is not below this URL: start its process with --public-url {}",
            card.name,
            url.strip_suffix(&format!("/{}", card.name)).unwrap_or(url)
        )),
    }];
    let keys = format!("{url}{}", routes::JWKS);
    if let Err(problem) = wire.send(ClientRequest::get(&keys, RECIPIENT)).await {
        findings.push(wrong(format!(
            "the keys that cards are signed with are not at {keys}: {}",
            problem.message
        )));
    }
    Ok(CardAt::Here(findings))
}

/// Whether `named` begins with `base`, by scheme, host, port and whole names of the path.
fn is_below(base: &str, named: &str) -> bool {
    let (Ok(base), Ok(named)) = (Url::parse(base), Url::parse(named)) else { return false };
    let path = base.path().trim_end_matches('/');
    base.origin() == named.origin()
        && named.path().strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refusals_are_right_without_a_credential() {
        let found = |status| {
            let answer = OutsideAnswer { status, is_refusal_of_mesh: false };
            faults_of("https://mesh.example", &[("GET /state".to_owned(), Ok(answer))])
        };
        for status in [NOTHING, 401, 403, 404, 429] {
            assert_eq!(found(status), [], "{status}");
        }
        for (status, why) in
            [(200, "open to everybody"), (400, "open to everybody"), (301, "redirected"), (502, "proxy")]
        {
            let found = found(status);
            let [DoctorFinding { ok: Some(false), what, .. }] = found.as_slice() else { panic!("{found:?}") };
            assert!(what.contains(why) && what.contains(&format!("GET /state ({status})")), "{what}");
        }
    }

    #[test]
    fn a_card_is_of_a_url_if_its_interfaces_lie_below_it() {
        let base = "https://mesh.example/agents";
        for named in ["https://mesh.example/agents/a2a/rpc", "https://mesh.example:443/agents/x/a2a/v1"] {
            assert!(is_below(base, named), "{named}");
        }
        for named in [
            "http://mesh.example/agents/a2a/rpc",
            "https://mesh.example/agentsx/a2a/rpc",
            "https://mesh.example/a2a/rpc",
            "https://mesh.example:8443/agents/a2a/rpc",
            "http://127.0.0.1:8001/a2a/rpc",
        ] {
            assert!(!is_below(base, named), "{named}");
        }
    }
}
