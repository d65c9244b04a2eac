//! Who may do what: every principal on every route of every binding. The routes are those of the router (`/openapi.json`) and
//! of the list of A2A's operations; a route without a row fails.

use super::remote_access::outward;
use crate::harness::{
    Process, call, client, directory, eventually, file, mesh, peer::Peer, peer::SignedClient,
};
use protocol::{a2a::request::A2aOperation, ids::Digest};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const TEAM: &str = "
agents:
  - { agent: front-01, open: true, skills: [front], brain: { scripted: script.yaml } }
  - { agent: brain-01, skills: [tell], brain: { exec: [sh, tell.sh] } }
mesh:
  grpcPort: 0
  outside: { allow: [192.0.2.0/24] }
  limits: { maxFailedAuthPerSecond: 0 }
  callers: [{ user: alice, apiKey: alices-own-key-0001 }]
";
const SCRIPT: &str = "
turns:
  - { when: { contains: ask me }, say: [{ type: question, id: q, text: which? }] }
  - { say: [{ type: artifact, name: a.txt, text: made }], end: { done: done } }
";
const TELL: &str = r#"read -r ask
printf '{"type":"artifact","name":"token","text":"%s"}\n' "$MESH_BRAIN_TOKEN"
echo '{"type":"done"}'
"#;

/// The columns of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// An agent of the mesh that has no part in the task.
    Agent,
    Service,
    /// No credential, from this machine.
    Local,
    Alice,
    /// A brain of this node.
    Brain,
    Person,
    /// No credential, from another machine.
    Elsewhere,
    /// No credential, through a proxy on this machine that says so.
    Proxied,
    /// No credential, from this machine, by a public name of the process.
    ByName,
    /// No credential, from this machine, by a mesh's client for the outside.
    Outbound,
    WrongKey,
    /// An `Authorization` that is no credential.
    Malformed,
}

pub(super) const CALLERS: [Caller; 12] = [
    Caller::Agent,
    Caller::Service,
    Caller::Local,
    Caller::Alice,
    Caller::Brain,
    Caller::Person,
    Caller::Elsewhere,
    Caller::Proxied,
    Caller::ByName,
    Caller::Outbound,
    Caller::WrongKey,
    Caller::Malformed,
];

/// A mesh that listens beyond loopback, and what its local user has there.
pub(super) struct Setup {
    pub(super) mesh: Process,
    pub(super) tokens: BTreeMap<&'static str, String>,
    own_address: Option<String>,
    peer: Peer,
    incarnation: u64,
    pub(super) task: String,
    conversation: String,
    artifact: String,
    /// A proposal in the space `default`.
    entry: String,
}

pub(super) async fn set_up() -> Setup {
    let dir = directory();
    let team = file(dir.path(), "team.yaml", TEAM).to_string_lossy().into_owned();
    file(dir.path(), "script.yaml", SCRIPT);
    file(dir.path(), "tell.sh", TELL);
    let data = dir.path().join("data");
    let join = data.join("join").to_string_lossy().into_owned();
    assert_eq!(self::mesh(&["join-secret", "--init", &join], &[]).0, 0);
    let own_address = outward();
    let mut args = vec!["up", "--port", "0", "--profile", "fast", "--join", &join, "--hosts", "mesh.example"];
    if let Some(own) = &own_address {
        args.extend(["--listen", "0.0.0.0", "--advertise", own]);
    }
    let args = args.into_iter().chain([&*team]).map(str::to_owned).collect();
    let mesh = Process::run(data, args, Some(dir)).await;
    let front = mesh.agent("front-01");
    let asked = front.request(json!({ "taskId": "t-1", "description": "ask me" }));
    let asked = front.post(&crate::harness::with(asked, json!({ "messageId": "m-1" }))).await;
    let task = asked.body["taskId"].as_str().unwrap().to_owned();
    front.task_in(&task, &["input_required"]).await;
    let told = mesh.agent("brain-01").ask(json!({ "description": "tell", "capability": "tell" })).await;
    let brain = crate::harness::artifact(&told, "token").unwrap();
    let person = std::fs::read_to_string(mesh.data.join("token")).unwrap().trim().to_owned();
    let put = client().put(format!("{}/a2a/artifacts", front.url)).body("content").send().await.unwrap();
    let artifact = put.json::<Value>().await.unwrap()["sha256"].as_str().unwrap().to_owned();
    let offer = json!({ "type": "task.available", "taskId": "open-1", "capability": "nobodys", "refs": { "description": "x" } });
    let offered = call(Method::POST, &format!("{}/board/signals", mesh.url), Some(&offer)).await;
    assert_eq!(offered.status, 201, "{offered:?}");
    let peer = Peer::join(&mesh, "peer-01", "anything").await;
    let registered = call(Method::GET, &format!("{}/registry/agents/peer-01", mesh.url), None).await;
    let conversation = asked.body["conversationId"].as_str().unwrap().to_owned();
    let incarnation = registered.body["incarnation"].as_u64().unwrap();
    let proposal = json!({ "kind": "proposal", "type": "learning", "slug": "one", "content": "x" });
    let proposed = client().post(format!("{}/board/spaces/default/entries", mesh.url)).bearer_auth(&person);
    let proposed = proposed.json(&proposal).send().await.unwrap().json::<Value>().await.unwrap();
    let entry = proposed["id"].as_str().unwrap().to_owned();
    let tokens = BTreeMap::from([("brain", brain), ("person", person)]);
    Setup { mesh, tokens, own_address, peer, incarnation, task, conversation, artifact, entry }
}

impl Setup {
    /// The headers of a caller that does not sign.
    pub(super) fn headers(&self, caller: Caller) -> Vec<(&'static str, String)> {
        let bearer = |token: &str| vec![("authorization", format!("Bearer {token}"))];
        match caller {
            Caller::Agent | Caller::Service => vec![("signature", "sig=:AA==:".to_owned())],
            Caller::Local | Caller::Elsewhere => Vec::new(),
            Caller::Alice => vec![("x-api-key", "alices-own-key-0001".to_owned())],
            Caller::Brain => bearer(&self.tokens["brain"]),
            Caller::Person => bearer(&self.tokens["person"]),
            Caller::Proxied => vec![("x-forwarded-for", "127.0.0.1".to_owned())],
            Caller::ByName => vec![("host", "mesh.example".to_owned())],
            Caller::Outbound => vec![("mesh-outbound", "1".to_owned())],
            Caller::WrongKey => vec![("x-api-key", "nobodys-own-key-0001".to_owned())],
            Caller::Malformed => vec![("authorization", "Bearer".to_owned())],
        }
    }

    /// `url` as the caller reaches it; `None` if this machine has no address that is not loopback.
    pub(super) fn url_for(&self, caller: Caller, url: &str) -> Option<String> {
        if caller == Caller::Elsewhere {
            return Some(url.replace("127.0.0.1", self.own_address.as_ref()?));
        }
        Some(url.to_owned())
    }

    fn signs(&self, caller: Caller) -> Option<SignedClient> {
        if caller == Caller::Agent {
            return Some(self.peer.signing.clone());
        }
        (caller == Caller::Service).then(|| self.mesh.client_as("registry"))
    }

    /// The request of a route, with what the local user has in place of its parameters.
    fn target(&self, path: &str) -> String {
        let of_agents = path.starts_with("/registry");
        let target = match path {
            "/a2a/messages/{id}" | "/a2a/messages/{id}/trace" => path.replace("{id}", "m-1"),
            "/a2a/conversations/{id}/trace" => path.replace("{id}", &self.conversation),
            "/a2a/dead-letters/{id}" | "/a2a/dead-letters/{id}/redrive" | "/a2a/hooks/{id}" => {
                path.replace("{id}", "no-such-1")
            }
            _ if of_agents => path.replace("{id}", "peer-01"),
            "/keys/{id}/rotate" => path.replace("{id}", "front-01"),
            _ => path
                .replace("pushNotificationConfigs/{id}", "pushNotificationConfigs/w-1")
                .replace("{id}", &self.task),
        };
        let target = target
            .replace("{name}", "no-such-1")
            .replace("{taskId}", &self.task)
            .replace("{sha256}", &self.artifact)
            .replace("{trace}", &"0".repeat(32))
            .replace("{task}", "open-1")
            .replace("{space}", "default")
            .replace("{entry}", &self.entry);
        match path {
            _ if path.starts_with("/board/claims") => format!("{target}?publisher=user:local"),
            "/board/spaces/{space}/brief" => format!("{target}?for=peer-01"),
            "/board/spaces/{space}/vault" => format!("{target}?of=peer-01"),
            "/registry/agents/{id}" => format!("{target}?incarnation={}", self.incarnation),
            _ => target,
        }
    }

    fn body(&self, method: &str, path: &str, caller: Caller) -> Option<Value> {
        let message =
            |id: &str| json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": "make it" }] });
        let label = if caller == Caller::Agent { "peer-01" } else { "some-label" };
        Some(match (method, path) {
            ("POST", "/a2a/messages") => json!({
                "messageId": format!("m-{caller:?}"), "fromAgentId": label, "toAgentId": "front-01",
                "type": "help-request", "payload": { "question": "how?", "capability": "front" },
            }),
            ("POST", "/a2a/tasks/{id}/directives") => json!({ "verb": "stop" }),
            ("POST", "/a2a/tasks/{id}/answer") => json!({ "text": "ask me" }),
            ("PUT", "/a2a/artifacts") => json!("more content"),
            ("POST", "/a2a/hooks/{id}") => {
                json!({ "task": { "id": "x", "contextId": "c", "status": { "state": "TASK_STATE_WORKING" } } })
            }
            ("POST", "/a2a/rpc") => json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {} }),
            ("POST", "/registry/agents") => json!({
                "card": { "agentId": "peer-01", "endpoint": self.peer.url, "skills": [{ "id": "anything" }] },
                "instance": self.peer.url,
            }),
            ("PUT" | "POST", path) if path.starts_with("/registry") => {
                json!({ "incarnation": self.incarnation })
            }
            ("POST", "/board/signals") => json!({ "type": "acme.seen" }),
            ("POST", "/board/claims/{task}") => json!({ "leaseMs": 60_000 }),
            ("POST", path) if path.starts_with("/board/claims") => json!({ "epoch": 1 }),
            ("PUT", "/board/spaces/{space}") => json!({}),
            ("POST", "/board/spaces/{space}/entries") => json!({ "kind": "finding", "content": "seen" }),
            ("POST", "/board/spaces/{space}/curate") => json!({ "task": "t-1" }),
            ("POST", "/board/spaces/{space}/release") => json!({ "session": "t-1" }),
            ("POST", "/board/spaces/{space}/vault") => json!({ "change": "files", "forget": [] }),
            ("POST", "/board/spaces/{space}/withdraw") => json!({ "principal": "user:nobody" }),
            ("POST", "/board/spaces/{space}/import") => json!({ "entries": [] }),
            ("POST", path) if path.ends_with("/reject") => json!({ "reason": "no" }),
            ("POST", path) if path.ends_with("/supersede") => json!({ "by": self.entry }),
            ("PUT", "/board/key-records") => {
                let registry = crate::harness::test_identity(&self.mesh.data, "registry");
                let cursor = json!({ "life": "x", "revision": 0 });
                json!({ "registry": registry.public().as_ref(), "records": [], "cursor": cursor, "hasMore": false })
            }
            ("PUT", "/board/token") => json!({ "sha256": Digest::of(self.tokens["person"].as_bytes()) }),
            ("POST", "/a2a/v1/message:send" | "/a2a/v1/message:stream") => {
                json!({ "message": message(&format!("a-{caller:?}")) })
            }
            ("POST", "/a2a/v1/tasks/{taskId}/pushNotificationConfigs") => {
                json!({ "id": "w-1", "url": "https://192.0.2.1/hook" })
            }
            ("POST", _) => json!({}),
            _ => return None,
        })
    }

    /// What the caller is answered: `a` for anything but 401, 403 and 404; `-` if it can't call.
    async fn outcome(&self, method: &str, path: &str, caller: Caller) -> char {
        let (recipient, base) = match path.split('/').nth(1) {
            Some("registry") => ("registry", self.mesh.url.clone()),
            Some("board") => ("board", self.mesh.url.clone()),
            _ => ("front-01", self.mesh.agents["front-01"].clone()),
        };
        let Some(base) = self.url_for(caller, &base) else { return '-' };
        let (target, body) = (self.target(path), self.body(method, path, caller));
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = match self.signs(caller) {
            Some(signing) => signing.request(method, (&base, &target), recipient, body.as_ref()).await,
            None => {
                let request = client().request(method, format!("{base}{target}"));
                let request = match &body {
                    Some(body) => request.json(body),
                    None => request,
                };
                with_headers(request, &self.headers(caller))
            }
        };
        let response = request.header("a2a-version", "1.0").send().await.unwrap();
        match response.status().as_u16() {
            401 => '1',
            403 => '3',
            404 => '4',
            429 => panic!("{path}: {caller:?} is answered 429"),
            status if status >= 500 => {
                panic!("{path}: {caller:?} is answered {status}: {}", response.text().await.unwrap())
            }
            _ => 'a',
        }
    }
}

fn with_headers(request: RequestBuilder, headers: &[(&'static str, String)]) -> RequestBuilder {
    headers.iter().fold(request, |request, (name, value)| request.header(*name, value))
}

/// Compares a table with what is; prints all that differs. A column that this machine can't try is not compared.
pub(super) fn compare(rows: &[(String, &str, String)]) {
    let same = |(expected, seen): (char, char)| seen == '-' || expected == seen;
    let is_equal = |expected: &str, seen: &str| {
        expected.len() == seen.len() && expected.chars().zip(seen.chars()).all(same)
    };
    let differing: Vec<_> = rows
        .iter()
        .filter(|(_, expected, seen)| !is_equal(expected, seen))
        .map(|(route, expected, seen)| format!("{route}: expected {expected}, seen {seen}"))
        .collect();
    assert!(differing.is_empty(), "columns: {CALLERS:?}\n{}", differing.join("\n"));
}

/// The columns are [`CALLERS`]; `a` is allowed, `1` is 401, `3` is 403, `4` is 404. A row that ends something is the last of it.
const ROUTES: &[(&str, &str, &str)] = &[
    ("GET", "/.well-known/agent-card.json", "aaaaaaaaaaaa"),
    ("GET", "/.well-known/ai-catalog.json", "aaaaaaaaaaaa"),
    ("GET", "/.well-known/jwks.json", "aaaaaaaaaaaa"),
    ("GET", "/a2a/artifacts/{sha256}", "44a44a111111"),
    ("GET", "/a2a/card", "aaaaaa111111"),
    ("GET", "/a2a/conversations/{id}/trace", "44a43a111111"),
    ("GET", "/a2a/costs", "aaaa3a111111"),
    ("GET", "/a2a/contexts", "aaaa3a111111"),
    ("GET", "/a2a/contexts/{id}", "444434111111"),
    ("GET", "/a2a/dead-letters", "33a33a111111"),
    ("GET", "/a2a/dead-letters/{id}", "334334111111"),
    ("GET", "/a2a/inbox", "aaaa3a111111"),
    ("GET", "/a2a/messages/{id}", "44a43a111111"),
    ("GET", "/a2a/messages/{id}/trace", "44a43a111111"),
    ("GET", "/a2a/logins", "333a3a111111"),
    ("POST", "/a2a/logins", "333a3a111111"),
    ("GET", "/a2a/logins/callback", "aaaa3aaaaaaa"),
    ("POST", "/a2a/logins/finish", "333a3a111111"),
    ("POST", "/a2a/logins/forget", "333a3a111111"),
    ("PUT", "/a2a/peer", "333333111111"),
    ("DELETE", "/a2a/contexts/{id}", "444434111111"),
    ("DELETE", "/a2a/contexts/{id}/handover", "444434111111"),
    ("DELETE", "/a2a/peer", "333333111111"),
    ("POST", "/a2a/peer/heartbeat", "333333111111"),
    ("POST", "/a2a/peer/lines", "333333111111"),
    ("GET", "/a2a/peer/turns", "333333111111"),
    ("POST", "/a2a/peer/token", "33333a111111"),
    ("GET", "/a2a/schedules", "aaaa3a111111"),
    ("POST", "/a2a/schedules", "33aa3a111111"),
    ("GET", "/a2a/schedules/{name}", "444434111111"),
    ("DELETE", "/a2a/schedules/{name}", "334434111111"),
    ("POST", "/a2a/schedules/{name}/pause", "334434111111"),
    ("POST", "/a2a/schedules/{name}/resume", "334434111111"),
    ("POST", "/a2a/schedules/{name}/run", "334434111111"),
    ("POST", "/a2a/triggers/{name}", "444434444444"),
    ("GET", "/a2a/spaces/{space}/brief", "3333a3111111"),
    ("GET", "/a2a/tasks", "aaaa3a111111"),
    ("GET", "/a2a/tasks/{id}", "44a43a111111"),
    ("GET", "/a2a/tasks/{id}/award", "444434111111"),
    ("GET", "/a2a/tasks/{id}/session", "443434111111"),
    ("GET", "/a2a/tasks/{id}/model", "44343a111111"),
    ("GET", "/a2a/tasks/{id}/events", "44a43a111111"),
    ("GET", "/a2a/tasks/{id}/trace", "44a43a111111"),
    ("GET", "/a2a/tools", "33333a111111"),
    ("GET", "/a2a/traces/{trace}/reactions", "aaaa3a111111"),
    ("GET", "/a2a/v1/extendedAgentCard", "aa1a31111111"),
    ("GET", "/a2a/v1/tasks", "aaaa3a111111"),
    ("GET", "/a2a/v1/tasks/{id}", "44a43a111111"),
    ("GET", "/a2a/v1/tasks/{id}:subscribe", "44a43a111111"),
    ("GET", "/board/signals", "aaaa3a111111"),
    ("GET", "/board/signals/stream", "aaaa3a111111"),
    ("GET", "/board/spaces", "a41a3a111111"),
    ("GET", "/board/spaces/{space}", "a41a3a111111"),
    ("GET", "/board/spaces/{space}/brief", "a41a3a111111"),
    ("GET", "/board/spaces/{space}/entries", "a41a3a111111"),
    ("GET", "/board/spaces/{space}/entries/stream", "a41a3a111111"),
    ("GET", "/board/spaces/{space}/entries/{entry}", "a41a3a111111"),
    ("GET", "/", "aaaa3aaaaa11"),
    ("GET", "/console/assets/{name}", "444434444411"),
    ("GET", "/console/file", "33aa3a111111"),
    ("GET", "/console/stream", "33aa3a111111"),
    ("GET", "/console/view", "33aa3a111111"),
    ("POST", "/console/answer", "331a3a111111"),
    ("POST", "/console/bulk", "331a3a111111"),
    ("POST", "/console/cancel", "331a3a111111"),
    ("POST", "/console/elsewhere", "331434111111"),
    ("POST", "/console/entry", "331a3a111111"),
    ("POST", "/console/links", "111a3a111111"),
    ("POST", "/console/post", "331a3a111111"),
    ("POST", "/console/redrive", "33133a111111"),
    ("POST", "/console/retry", "331a3a111111"),
    ("POST", "/console/say", "331a3a111111"),
    ("POST", "/console/send", "331a3a111111"),
    ("POST", "/console/session", "333333333311"),
    ("DELETE", "/console/sessions", "111a3a111111"),
    ("POST", "/console/sign-out", "aaaa3a111111"),
    ("POST", "/console/steer", "331a3a111111"),
    ("GET", "/healthz", "aaaaaa111111"),
    ("GET", "/metrics", "aaaa3a111111"),
    ("GET", "/openapi.json", "aaaa3a111111"),
    ("GET", "/readyz", "aaaaaa111111"),
    ("GET", "/registry/agents", "aaaa3a111111"),
    ("GET", "/registry/agents/{id}", "aaaa3a111111"),
    ("GET", "/registry/key-records", "aaaa3a111111"),
    ("GET", "/registry/keys", "aaaa3a111111"),
    ("GET", "/registry/token", "aa3333111111"),
    ("GET", "/registry/watch", "aaaa3a111111"),
    ("GET", "/services", "aaaa3a111111"),
    ("GET", "/state", "aaaa3a111111"),
    ("POST", "/a2a/dead-letters/{id}/redrive", "334334111111"),
    ("POST", "/a2a/hooks/{id}", "444434444444"),
    ("POST", "/a2a/messages", "a3aa3a111111"),
    ("POST", "/a2a/rpc", "aaaa3a111111"),
    ("POST", "/a2a/tasks/{id}/answer", "44a43a111111"),
    ("POST", "/a2a/v1/message:send", "33aa3a111111"),
    ("POST", "/a2a/v1/message:stream", "33aa3a111111"),
    ("POST", "/board/claims/{task}", "aaa43a111111"),
    ("POST", "/board/claims/{task}/complete", "aaa43a111111"),
    ("POST", "/board/claims/{task}/fail", "aaa43a111111"),
    ("POST", "/board/claims/{task}/release", "aaa43a111111"),
    ("POST", "/board/claims/{task}/renew", "aaa43a111111"),
    ("POST", "/board/shares", "a33333111111"),
    ("POST", "/board/signals", "aaaa3a111111"),
    ("POST", "/board/spaces/{space}/curate", "a41a3a111111"),
    ("POST", "/board/spaces/{space}/entries", "a41a3a111111"),
    ("POST", "/board/spaces/{space}/entries/{entry}/accept", "341a3a111111"),
    ("POST", "/board/spaces/{space}/entries/{entry}/archive", "34133a111111"),
    ("POST", "/board/spaces/{space}/entries/{entry}/merge", "34133a111111"),
    ("POST", "/board/spaces/{space}/entries/{entry}/reject", "34133a111111"),
    ("POST", "/board/spaces/{space}/entries/{entry}/supersede", "34133a111111"),
    ("POST", "/board/spaces/{space}/entries/{entry}/withdraw", "34133a111111"),
    ("POST", "/board/spaces/{space}/import", "34133a111111"),
    ("POST", "/board/spaces/{space}/release", "a41333111111"),
    ("POST", "/board/spaces/{space}/withdraw", "34133a111111"),
    ("GET", "/board/spaces/{space}/vault", "34133a111111"),
    ("POST", "/board/spaces/{space}/vault", "34133a111111"),
    ("PUT", "/board/spaces/{space}", "34133a111111"),
    ("POST", "/join", "111111111111"),
    ("POST", "/keys/{id}/rotate", "33333a111111"),
    ("GET", "/mcp", "33aa3a111111"),
    ("POST", "/mcp", "33aa3a111111"),
    ("POST", "/registry/agents", "a33333111111"),
    ("POST", "/registry/agents/{id}/suspicion", "a33333111111"),
    ("POST", "/registry/keys/{id}/change", "a33333111111"),
    ("PUT", "/a2a/artifacts", "aaaaaa111111"),
    ("PUT", "/board/key-records", "3a3333111111"),
    ("PUT", "/board/token", "3a3333111111"),
    ("PUT", "/registry/agents/{id}/heartbeat", "a33333111111"),
    ("GET", "/board/claims/{task}", "aaa43a111111"),
    ("POST", "/a2a/v1/tasks/{taskId}/pushNotificationConfigs", "44a43a111111"),
    ("GET", "/a2a/v1/tasks/{taskId}/pushNotificationConfigs", "44a43a111111"),
    ("GET", "/a2a/v1/tasks/{taskId}/pushNotificationConfigs/{id}", "44a43a111111"),
    ("POST", "/a2a/tasks/{id}/directives", "443434111111"),
    ("POST", "/a2a/tasks/{id}/retry", "44a43a111111"),
    ("POST", "/a2a/tasks/{id}/cancel", "44a43a111111"),
    ("POST", "/a2a/v1/tasks/{id}:cancel", "44a43a111111"),
    ("DELETE", "/a2a/v1/tasks/{taskId}/pushNotificationConfigs/{id}", "44a43a111111"),
    ("DELETE", "/mcp", "33aa3a111111"),
    ("DELETE", "/registry/agents/{id}", "a33333111111"),
    ("POST", "/registry/agents/{id}/forget", "33333a111111"),
    ("POST", "/registry/keys/{id}/reset", "33333a111111"),
];

#[tokio::test]
async fn every_route_answers_every_principal_as_the_table_says() {
    let setup = set_up().await;
    let document = call(Method::GET, &format!("{}/openapi.json", setup.mesh.url), None).await.body;
    let known = document["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().keys();
        methods.map(move |method| (method.to_uppercase(), path.clone()))
    });
    let known: BTreeSet<(String, String)> = known.collect();
    let listed: BTreeSet<(String, String)> =
        ROUTES.iter().map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned())).collect();
    let mut rows = Vec::new();
    for (method, path) in known.difference(&listed) {
        rows.push((format!("{method} {path}"), "", String::new()));
    }
    for (method, path) in listed.difference(&known) {
        rows.push((format!("{method} {path}"), "a row without a route", String::new()));
    }
    let missing: Vec<_> = known.difference(&listed).cloned().collect();
    for (method, path, expected) in
        ROUTES.iter().copied().chain(missing.iter().map(|(method, path)| (&**method, &**path, "")))
    {
        let mut seen = String::new();
        for caller in CALLERS {
            seen.push(setup.outcome(method, path, caller).await);
        }
        rows.push((format!("{method} {path}"), expected, seen));
    }
    compare(&rows);
    let catalog = call(Method::GET, &format!("{}/.well-known/ai-catalog.json", setup.mesh.url), None).await;
    assert_eq!(catalog.headers["content-type"], "application/ai-catalog+json");
    let front = setup.mesh.agent("front-01");
    eventually("the node is well", async || {
        (call(Method::GET, &format!("{}/readyz", front.url), None).await.status == 200).then_some(())
    })
    .await;
}

/// The same for the operations of JSON-RPC.
const OPERATIONS: &[(&str, &str)] = &[
    ("SendMessage", "33aa3a111111"),
    ("SendStreamingMessage", "33aa3a111111"),
    ("GetTask", "44a43a111111"),
    ("ListTasks", "aaaa3a111111"),
    ("CancelTask", "44a43a111111"),
    ("SubscribeToTask", "44a43a111111"),
    ("CreateTaskPushNotificationConfig", "44a43a111111"),
    ("GetTaskPushNotificationConfig", "44a43a111111"),
    ("ListTaskPushNotificationConfigs", "44a43a111111"),
    ("DeleteTaskPushNotificationConfig", "44a43a111111"),
    ("GetExtendedAgentCard", "aa1a31111111"),
];

#[tokio::test]
async fn every_operation_over_json_rpc_answers_every_principal_as_the_table_says() {
    let setup = set_up().await;
    let url = format!("{}/a2a/rpc", setup.mesh.agents["front-01"]);
    let mut rows = Vec::new();
    for operation in A2aOperation::ALL.iter().map(|operation| operation.name()) {
        let expected =
            OPERATIONS.iter().find(|(name, _)| *name == operation).map_or("", |(_, expected)| expected);
        let mut seen = String::new();
        for caller in CALLERS {
            seen.push(over_rpc(&setup, &url, operation, caller).await);
        }
        rows.push((operation.to_owned(), expected, seen));
    }
    compare(&rows);
}

async fn over_rpc(setup: &Setup, url: &str, operation: &str, caller: Caller) -> char {
    let Some(url) = setup.url_for(caller, url) else { return '-' };
    let task = &setup.task;
    let params = match operation {
        "SendMessage" | "SendStreamingMessage" => json!({
            "message": { "messageId": format!("{operation}-{caller:?}"), "role": "ROLE_USER", "parts": [{ "text": "make it" }] },
        }),
        "ListTasks" | "GetExtendedAgentCard" => json!({}),
        "CreateTaskPushNotificationConfig" => {
            json!({ "taskId": task, "id": "w-1", "url": "https://192.0.2.1/hook" })
        }
        "GetTaskPushNotificationConfig" | "DeleteTaskPushNotificationConfig" => {
            json!({ "taskId": task, "id": "w-1" })
        }
        "ListTaskPushNotificationConfigs" => json!({ "taskId": task }),
        _ => json!({ "id": task }),
    };
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": operation, "params": params });
    let request = match setup.signs(caller) {
        Some(signing) => {
            let base = url.strip_suffix("/a2a/rpc").unwrap();
            signing.request(Method::POST, (base, "/a2a/rpc"), "front-01", Some(&body)).await
        }
        None => with_headers(client().post(&url).json(&body), &setup.headers(caller)),
    };
    let response = request.header("a2a-version", "1.0").send().await.unwrap();
    match response.status().as_u16() {
        401 => return '1',
        403 => return '3',
        _ => {}
    }
    let is_json = response.headers()["content-type"].to_str().unwrap().starts_with("application/json");
    if !is_json {
        return 'a';
    }
    let answer: Value = response.json().await.unwrap();
    match answer["error"]["data"][0]["reason"].as_str() {
        Some("UNAUTHENTICATED") => '1',
        Some("FORBIDDEN") => '3',
        Some("TASK_NOT_FOUND") => '4',
        _ => 'a',
    }
}
