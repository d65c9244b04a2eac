//! Logins of agents at tool servers by OAuth 2.1.

use super::llm::model;
use crate::harness::{
    Agent, Answer, Process, artifact, client, eventually,
    model_stub::{ModelStub, calls, says},
    oauth_stub::{OAuthStub, OAuthTraits},
    read_answer, refusal, state,
};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
};

const OURS: &str = "urn:agent-mesh:ext:task:v1";
const KEYS: [(&str, &str); 2] = [("alice", "alices-own-key-0001"), ("bob", "bobs-own-key-000001")];

/// A mesh with two agents that use a tool server with a login.
struct LoggingIn {
    node: Process,
    tools: OAuthStub,
    _model: ModelStub,
}

async fn logging_in(login: &str, traits: OAuthTraits) -> LoggingIn {
    let tools = OAuthStub::start(traits);
    let stub = ModelStub::start(|request| match request.results.as_slice() {
        [] => calls(&[("whoami", json!({}))]),
        [.., last] => says(last),
    });
    let llm = format!(
        "{}, tools: [{{ mcp: '{}', name: tools, login: {login} }}]",
        model(&stub, "openai"),
        tools.url
    );
    let agent =
        |id| format!("  - {{ agent: {id}, open: true, skills: [{id}], brain: {{ llm: {{ {llm} }} }} }}\n");
    let callers = KEYS.map(|(user, key)| format!("{{ user: {user}, apiKey: {key} }}")).join(", ");
    let yaml =
        format!("agents:\n{}{}mesh: {{ callers: [{callers}] }}\n", agent("thinker-01"), agent("thinker-02"));
    // What the library logs must hold no token, either.
    let node = Process::up_with(&["RUST_LOG=info,rmcp=trace,oauth2=trace"], &[], Some(&yaml)).await;
    LoggingIn { node, tools, _model: stub }
}

impl LoggingIn {
    fn agent(&self) -> Agent {
        self.node.agent("thinker-01")
    }

    /// A request of a caller with a key.
    async fn call_as(&self, user: &str, method: Method, url: &str, body: &Value) -> Answer {
        let (_, key) = KEYS.into_iter().find(|(name, _)| *name == user).unwrap();
        let request = client().request(method, url).header("x-api-key", key);
        read_answer(request.json(body).send().await.unwrap()).await
    }

    /// Begins a login; returns its page.
    async fn begin_as(&self, user: &str, agent: &Agent, redirect: &str) -> String {
        let body = json!({ "server": "tools", "redirect": redirect });
        let url = format!("{}/a2a/logins", agent.url);
        let begun = match user {
            "person" => self.node.call_as_person(Method::POST, &url, Some(&body)).await,
            user => self.call_as(user, Method::POST, &url, &body).await,
        };
        assert_eq!(begun.status, 201, "{begun:?}");
        begun.body["url"].as_str().unwrap().to_owned()
    }

    /// Logs `user` in by a browser, and with the address at which that ends.
    async fn log_in_as(&self, user: &str, agent: &Agent) {
        let page = self.begin_as(user, agent, &agent.url).await;
        let back = self.tools.browse(&page, user).await;
        assert!(back.starts_with(&agent.url), "{back}");
        let ended = self.finish_as(user, agent, &back).await;
        assert_eq!(ended.status, 200, "{ended:?}");
    }

    async fn finish_as(&self, user: &str, agent: &Agent, back: &str) -> Answer {
        let url = format!("{}/a2a/logins/finish", agent.url);
        self.call_as(user, Method::POST, &url, &json!({ "url": back })).await
    }

    /// The end of a task of a caller with a key, or the first state in which it waits.
    async fn ask_as(&self, user: &str, agent: &Agent) -> Value {
        let request = agent.request(question(agent));
        let sent = self.call_as(user, Method::POST, &format!("{}/a2a/messages", agent.url), &request).await;
        self.waits_as(user, agent, sent.body["taskId"].as_str().unwrap()).await
    }

    async fn waits_as(&self, user: &str, agent: &Agent, id: &str) -> Value {
        eventually("the task ends or waits", async || {
            let url = format!("{}/a2a/tasks/{id}", agent.url);
            let task = self.call_as(user, Method::GET, &url, &Value::Null).await.body;
            ["completed", "failed", "auth_required"].contains(&state(&task).as_str()).then_some(task)
        })
        .await
    }

    /// No token is in what the process has printed or keeps, but in the files of tokens.
    fn assert_no_token_lies_about(&self) {
        let tokens = self.tools.made();
        assert!(!tokens.is_empty());
        let mut files = Vec::new();
        collect(&self.node.data, &mut files);
        assert!(files.iter().any(|file| file.ends_with("log")), "{files:?}");
        for file in files {
            let content = std::fs::read(&file).unwrap_or_default();
            let content = String::from_utf8_lossy(&content);
            for token in &tokens {
                assert!(!content.contains(token), "{token} is in {}", file.display());
            }
        }
    }
}

fn collect(dir: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true if path.ends_with("logins") => {}
            true => collect(&path, files),
            false => files.push(path),
        }
    }
}

/// The task that an agent does itself.
fn question(agent: &Agent) -> Value {
    json!({ "description": "who am I?", "capability": agent.id })
}

fn message(task: &Value) -> String {
    task["status"]["message"].to_string()
}

#[tokio::test]
async fn the_person_logs_an_agent_in_and_all_its_tasks_use_the_token() {
    let all = logging_in("agent", OAuthTraits::default()).await;
    let agent = all.agent();
    let failed = agent.ask(question(&agent)).await;
    assert!(message(&failed).contains("`mesh login tools --agent thinker-01`"), "{failed:#}");
    assert_eq!(all.tools.seen("bearer"), 0);
    // The command shows the page, and waits until the browser is back.
    let program = env!("CARGO_BIN_EXE_mesh");
    let mut command = Command::new(program);
    command.args(["login", "tools", "--agent", "thinker-01"]).envs(all.node.person());
    let mut command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(command.stdout.take().unwrap()).lines();
    let page = lines.by_ref().map(Result::unwrap).find(|line| line.trim().starts_with("http")).unwrap();
    let back = all.tools.browse(page.trim(), "operator").await;
    // A look at the page does not end it, nor does a browser that a proxy passes on.
    client().head(&back).send().await.unwrap();
    for header in [("x-forwarded-for", "203.0.113.7"), ("x-api-key", KEYS[1].1)] {
        let others = client().get(&back).header(header.0, header.1).send().await.unwrap();
        assert!(others.text().await.unwrap().contains("copy the address of this page"));
    }
    let answer = client().get(&back).send().await.unwrap();
    let headers = answer.headers().clone();
    assert_eq!(
        (answer.status().as_u16(), headers["cache-control"].as_bytes()),
        (200, b"no-store".as_slice())
    );
    assert!(answer.text().await.unwrap().contains("is logged in at tools"));
    assert!(command.wait().unwrap().success());
    let rest: Vec<_> = lines.map(Result::unwrap).collect();
    assert!(rest.join("\n").contains("thinker-01 is logged in at tools, for all its tasks"), "{rest:?}");
    let task = agent.ask(question(&agent)).await;
    assert_eq!(artifact(&task, "answer").as_deref(), Some("you are operator"), "{task:#}");
    // A token of an agent is that agent's only, and nobody but the person may give it one.
    let other = all.node.agent("thinker-02");
    let other = other.ask(question(&other)).await;
    assert_eq!(state(&other), "failed", "{other:#}");
    let url = format!("{}/a2a/logins", agent.url);
    let refused = all.call_as("alice", Method::POST, &url, &json!({ "server": "tools" })).await;
    assert_eq!(refusal(&refused), (403, "forbidden".to_owned()));
    let (code, out, _) = all.node.as_person(&["login"]).await;
    assert!(code == 0 && out.contains("thinker-02") && out.contains("/as"), "{out}");
    all.assert_no_token_lies_about();
    // A token that the server takes no more is renewed; without a login there is none.
    all.tools.revoke();
    let task = agent.ask(question(&agent)).await;
    assert_eq!(artifact(&task, "answer").as_deref(), Some("you are operator"), "{task:#}");
    assert_eq!(all.tools.seen("token refresh_token"), 1);
    let (code, out, errors) = all.node.as_person(&["logout", "tools", "--agent", "thinker-01"]).await;
    assert!(code == 0 && out.contains("is logged out of tools"), "{out} {errors}");
    all.assert_no_token_lies_about();
}

#[tokio::test]
async fn a_user_logs_in_for_its_own_tasks_and_is_asked_to() {
    let all = logging_in("user", OAuthTraits::default()).await;
    let agent = all.agent();
    all.log_in_as("alice", &agent).await;
    let task = all.ask_as("alice", &agent).await;
    assert_eq!(artifact(&task, "answer").as_deref(), Some("you are alice"), "{task:#}");
    // The local user is not proven by an address.
    let unproven = Agent::at(&agent.id, &agent.url);
    let task = unproven.ask(question(&agent)).await;
    assert!(message(&task).contains("the user of this task is not proven"), "{task:#}");
    let task = all.ask_as("bob", &agent).await;
    assert_eq!(state(&task), "auth_required", "{task:#}");
    let question = &task["metadata"][OURS]["questions"][0];
    assert_eq!(question["kind"], "credential", "{task:#}");
    assert!(
        question["text"].as_str().unwrap().contains("`mesh login tools --agent thinker-01`"),
        "{question}"
    );
    all.log_in_as("bob", &agent).await;
    let id = task["id"].as_str().unwrap();
    let answer = json!({ "questionId": question["id"], "text": "done" });
    let url = format!("{}/a2a/tasks/{id}/answer", agent.url);
    let answered = all.call_as("bob", Method::POST, &url, &answer).await;
    assert!(answered.status < 300, "{answered:?}");
    let task = eventually("the task ends", async || {
        let task = all.waits_as("bob", &agent, id).await;
        (state(&task) != "auth_required").then_some(task)
    })
    .await;
    assert_eq!(artifact(&task, "answer").as_deref(), Some("you are bob"), "{task:#}");
    all.assert_no_token_lies_about();
}

#[tokio::test]
async fn a_login_is_ended_once_by_who_began_it() {
    let all = logging_in("user", OAuthTraits::default()).await;
    let agent = all.agent();
    // Whoever approves bob's page does not give bob a login: the browser that comes back ends nothing.
    let page = all.begin_as("bob", &agent, &agent.url).await;
    let back = all.tools.browse(&page, "alice").await;
    for request in [client().get(&back), client().get(&back).header("x-api-key", KEYS[1].1)] {
        let text = request.send().await.unwrap().text().await.unwrap();
        assert!(text.contains("copy the address of this page"), "{text}");
    }
    assert_eq!(state(&all.ask_as("bob", &agent).await), "auth_required");
    // Codes are sent to a port of this machine or to a public URL of the node, and nowhere else.
    for elsewhere in [
        "https://evil.example",
        "http://192.0.2.1:8001",
        "https://127.0.0.1:1@evil.example",
        "http:\\\\127.0.0.1:80\\@evil.example",
    ] {
        let page = all.begin_as("alice", &agent, elsewhere).await;
        let sent_to = reqwest::Url::parse(&page).unwrap();
        let (_, redirect) = sent_to.query_pairs().find(|(name, _)| name == "redirect_uri").unwrap();
        assert!(redirect.starts_with("http://127.0.0.1"), "{redirect}");
    }
    let page = all.begin_as("alice", &agent, &agent.url).await;
    let back = all.tools.browse(&page, "alice").await;
    let others = all.finish_as("bob", &agent, &back).await;
    assert_eq!(refusal(&others), (409, "not_awaiting_answer".to_owned()));
    let own = all.finish_as("alice", &agent, &back).await;
    assert_eq!((own.status, own.body["whose"].as_str()), (200, Some("user:alice")), "{own:?}");
    assert_eq!(all.finish_as("alice", &agent, &back).await.status, 409);
    // An answer of another issuer, or one that says no, ends a login without a token.
    let (page, wrong) = (all.begin_as("bob", &agent, &agent.url).await, "iss=https%3A%2F%2Fevil.example");
    let back = all.tools.browse(&page, "bob").await;
    let back = format!("{}&{wrong}", back.split("&iss=").next().unwrap());
    assert_eq!(all.finish_as("bob", &agent, &back).await.status, 400);
    let page = all.begin_as("bob", &agent, &agent.url).await;
    let denied = format!("{}/a2a/logins/callback?error=access_denied&state={}", agent.url, state_of(&page));
    let said = all.finish_as("bob", &agent, &denied).await;
    assert!(said.body.to_string().contains("does not log in: access_denied"), "{said:?}");
    let known = all.call_as("bob", Method::GET, &format!("{}/a2a/logins", agent.url), &Value::Null).await;
    assert_eq!(known.body["servers"][0]["isLoggedIn"], false, "{known:?}");
    assert_eq!(known.body["logins"][0]["state"], "failed", "{known:?}");
    // The page of this node repeats nothing that a foreign server says.
    let page = all.begin_as("person", &agent, &agent.url).await;
    let denied = format!("{}/a2a/logins/callback?error=call+me&state={}", agent.url, state_of(&page));
    let answer = client().get(&denied).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 400);
    let text = answer.text().await.unwrap();
    assert!(text.contains("`mesh login` says why") && !text.contains("call me"), "{text}");
}

fn state_of(page: &str) -> &str {
    page.split("state=").nth(1).unwrap().split('&').next().unwrap()
}

#[tokio::test]
async fn refresh_tokens_that_are_good_once_are_used_once_by_agents_that_work_at_the_same_time() {
    let all = logging_in("user", OAuthTraits { expires_in: Some(1), ..OAuthTraits::default() }).await;
    let agents = ["thinker-01", "thinker-02"].map(|id| all.node.agent(id));
    for agent in &agents {
        all.log_in_as("alice", agent).await;
    }
    eventually("tokens that are over are renewed", async || {
        let asked = (0..8).map(|at| all.ask_as("alice", &agents[at % 2]));
        for task in join_all(asked).await {
            assert_eq!(artifact(&task, "answer").as_deref(), Some("you are alice"), "{task:#}");
        }
        (all.tools.seen("token refresh_token") >= 2).then_some(())
    })
    .await;
    assert_eq!(all.tools.seen("reused"), 0);
    all.assert_no_token_lies_about();
}

#[tokio::test]
async fn a_token_is_not_sent_once_the_server_names_another_issuer() {
    let all = logging_in("user", OAuthTraits::default()).await;
    let agent = all.agent();
    all.log_in_as("alice", &agent).await;
    assert_eq!(state(&all.ask_as("alice", &agent).await), "completed");
    let sent = all.tools.seen("bearer");
    all.tools.change(|traits| traits.issuer = "other");
    let task = all.ask_as("alice", &agent).await;
    assert!(message(&task).contains("names another authorization server"), "{task:#}");
    assert_eq!(all.tools.seen("bearer"), sent);
    // A login there is a new one.
    all.log_in_as("alice", &agent).await;
    assert_eq!(state(&all.ask_as("alice", &agent).await), "completed");
}

#[tokio::test]
async fn an_agent_with_a_secret_logs_in_without_a_person() {
    let grants = json!({ "grant_types_supported": ["client_credentials"] });
    let login =
        "{ whose: agent, clientId: machine-1, clientSecret: the-secret-of-the-client, scopes: [tools] }";
    let traits = OAuthTraits { more: grants, expires_in: Some(1), ..OAuthTraits::default() };
    let all = logging_in(login, traits).await;
    eventually("a token that is over is replaced", async || {
        let task = all.agent().ask(question(&all.agent())).await;
        assert_eq!(artifact(&task, "answer").as_deref(), Some("you are machine"), "{task:#}");
        (all.tools.seen("token client_credentials") >= 2).then_some(())
    })
    .await;
    assert_eq!(all.tools.seen("register"), 0);
    // One that the server takes no more is replaced, too.
    all.tools.change(|traits| traits.expires_in = None);
    assert_eq!(state(&all.agent().ask(question(&all.agent())).await), "completed");
    all.tools.revoke();
    eventually("another token is got", async || {
        let task = all.agent().ask(question(&all.agent())).await;
        (artifact(&task, "answer").as_deref() == Some("you are machine")).then_some(())
    })
    .await;
    all.assert_no_token_lies_about();
    assert!(!all.node.log().contains("the-secret-of-the-client"));
}

#[tokio::test]
async fn servers_that_differ_in_what_they_publish_are_found() {
    for traits in [
        OAuthTraits { is_challenging: false, ..OAuthTraits::default() },
        OAuthTraits { metadata: "openid-configuration", ..OAuthTraits::default() },
        OAuthTraits { expires_in: None, ..OAuthTraits::default() },
        OAuthTraits { resource: "", ..OAuthTraits::default() },
        OAuthTraits { issuer: "", ..OAuthTraits::default() },
    ] {
        let all = logging_in("user", traits.clone()).await;
        all.log_in_as("alice", &all.agent()).await;
        let task = all.ask_as("alice", &all.agent()).await;
        assert_eq!(artifact(&task, "answer").as_deref(), Some("you are alice"), "{traits:?}: {task:#}");
    }
}

#[tokio::test]
async fn a_login_that_can_not_be_begun_says_why() {
    let outside = json!({ "registration_endpoint": "http://192.0.2.1/register" });
    let page = json!({ "authorization_endpoint": "http://192.0.2.1/authorize" });
    let other = json!({ "issuer": "https://evil.example" });
    let plain = json!({ "code_challenge_methods_supported": ["plain"] });
    let with = |more: Value| OAuthTraits { more, ..OAuthTraits::default() };
    for (traits, why) in [
        (OAuthTraits { is_open: false, ..OAuthTraits::default() }, "give the `clientId`"),
        (with(outside), "mesh.outside.allow"),
        (with(page), "no https: page"),
        (with(other), "issuer mismatch"),
        (with(plain), "PKCE"),
        (OAuthTraits { resource: "/other", ..OAuthTraits::default() }, "resource mismatch"),
        (OAuthTraits { metadata: "nothing", ..OAuthTraits::default() }, "authorization servers"),
    ] {
        let all = logging_in("user", traits.clone()).await;
        let url = format!("{}/a2a/logins", all.agent().url);
        let refused = all.call_as("alice", Method::POST, &url, &json!({ "server": "tools" })).await;
        let said = refused.body.to_string();
        assert!(refused.status == 400 && said.contains(why), "{traits:?}: {refused:?}");
    }
}
