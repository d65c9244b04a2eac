//! The console: who signs in how, what a page may do, and that nothing of agents and people runs in it.

use crate::harness::{Answer, Process, call, client, directory, eventually, file, read_answer, refusal};
use reqwest::{Method, RequestBuilder, header::CONTENT_TYPE};
use serde_json::{Value, json};

mod board_elsewhere;
mod bulk;
mod elsewhere;
mod inbox;
mod spaces;
mod talk;
mod views;

const TEAM: &str = "
agents:
  - { agent: front-01, open: true, skills: [front], brain: { scripted: script.yaml } }
mesh:
  callers: [{ user: alice, apiKey: alices-own-key-0001 }]
";
const SCRIPT: &str = "
turns:
  - when: { contains: remove it, turn: 1 }
    say: [{ type: question, id: rm, text: delete it?, kind: approval, call: { name: rm, args: { path: /x } } }]
  - when: { contains: which size, turn: 1 }
    say: [{ type: question, id: size, text: which?, kind: choice, options: [small, large] }]
  - say: [{ type: artifact, name: '<img src=x onerror=alert(1)>.html', text: '<script>alert(1)</script>' }]
    end: { done: \"done \\u202e<script>alert(2)</script>\" }
";

/// A page of the console of one origin.
pub(super) struct Page {
    origin: String,
    cookie: String,
    key: String,
}

impl Page {
    /// A page at `origin` that nobody has signed in.
    fn signed_out(origin: &str) -> Self {
        Self { origin: origin.to_owned(), cookie: String::new(), key: String::new() }
    }

    /// The page that the link of `mesh console` opens.
    pub(super) async fn of_link(link: &str) -> Self {
        let (origin, code) = link.trim().split_once("/#code=").unwrap_or_else(|| panic!("{link}"));
        let answer = redeem(origin, code).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        Self::signed_in(origin, &answer)
    }

    fn signed_in(origin: &str, answer: &Answer) -> Self {
        let cookie = answer.headers["set-cookie"].to_str().unwrap();
        for part in ["HttpOnly", "SameSite=Strict", "Max-Age=43200"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        let port = origin.rsplit_once(':').unwrap().1;
        assert!(cookie.starts_with(&format!("mesh-console-{port}=")), "{cookie}");
        let cookie = cookie.split(';').next().unwrap().to_owned();
        let key = answer.body["key"].as_str().unwrap().to_owned();
        assert!(!cookie.contains(&key), "the cookie tells nothing of the key");
        Self { origin: origin.to_owned(), cookie, key }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = client().request(method, format!("{}/{path}", self.origin));
        let request = if self.cookie.is_empty() { request } else { request.header("cookie", &self.cookie) };
        if self.key.is_empty() { request } else { request.header("mesh-console-key", &self.key) }
    }

    async fn get(&self, path: &str) -> Answer {
        read_answer(self.request(Method::GET, path).send().await.unwrap()).await
    }

    /// The view at `query`.
    pub(super) async fn view(&self, query: &str) -> String {
        let answer = self.get(&format!("console/view?{query}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body.as_str().unwrap().to_owned()
    }

    /// Sends a form, with the page's own origin.
    pub(super) async fn form(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let request = self.request(Method::POST, &format!("console/{path}")).header("origin", &self.origin);
        read_answer(with_form(request, fields).send().await.unwrap()).await
    }

    /// Sends a task, and returns its id and the query of its view.
    async fn send(&self, description: &str) -> (String, String) {
        let sent = self.form("send", &[("description", description)]).await;
        assert_eq!(sent.status, 204, "{sent:?}");
        let go = sent.headers["mesh-console-go"].to_str().unwrap().strip_prefix('?').unwrap().to_owned();
        let id = go.split('&').find_map(|part| part.strip_prefix("id=")).unwrap().to_owned();
        (id, go)
    }
}

fn with_form(request: RequestBuilder, fields: &[(&str, &str)]) -> RequestBuilder {
    let body = serde_html_form::to_string(fields).unwrap();
    request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(body)
}

async fn redeem(origin: &str, code: &str) -> Answer {
    let request = client().post(format!("{origin}/console/session")).header("origin", origin);
    read_answer(request.json(&json!({ "code": code })).send().await.unwrap()).await
}

/// Signs in with a key at `url`.
async fn sign_in(url: &str, key: &str) -> Answer {
    let request = client().post(format!("{url}/console/session")).header("origin", url);
    read_answer(request.header("x-api-key", key).json(&json!({})).send().await.unwrap()).await
}

/// A page of alice.
async fn alice(url: &str) -> Page {
    let answer = sign_in(url, "alices-own-key-0001").await;
    assert_eq!(answer.body["who"], "user:alice");
    Page::signed_in(url, &answer)
}

async fn up() -> Process {
    Process::up_beside(TEAM, &[("script.yaml", SCRIPT)]).await
}

pub(super) async fn link(mesh: &Process, args: &[&str]) -> String {
    let (code, out, errors) = mesh.as_person(&[&["console", "--no-open"], args].concat()).await;
    assert_eq!(code, 0, "{errors}");
    out
}

#[tokio::test]
async fn a_link_signs_one_browser_in_once_and_at_its_port_only() {
    let mesh = up().await;
    let front = mesh.agent("front-01");
    let opened = link(&mesh, &["front-01"]).await;
    let page = Page::of_link(&opened).await;
    assert_eq!(page.origin, front.url);
    assert!(page.view("view=start").await.contains("data-signed-in=\"true\""));
    let code = opened.trim().split_once("#code=").unwrap().1;
    assert_eq!(refusal(&redeem(&front.url, code).await), (401, "unauthenticated".to_owned()), "once");
    // Each half proves nothing.
    let with_cookie = Page { key: String::new(), ..Page::signed_in_as(&page) };
    let view = with_cookie.view("view=start").await;
    assert!(view.contains("data-signed-in=\"false\"") && !view.contains("<form hx-post"), "{view}");
    let refused = with_cookie.form("send", &[("description", "x")]).await;
    assert_eq!(refused.status, 401, "{refused:?}");
    let with_key = Page { cookie: String::new(), ..Page::signed_in_as(&page) };
    assert_eq!(with_key.get("console/view").await.status, 401);
    // The cookie of this port goes to every server of the host.
    let elsewhere = Page { origin: mesh.url.clone(), ..Page::signed_in_as(&page) };
    assert_eq!(elsewhere.get("console/view").await.status, 401);
    let other = link(&mesh, &[]).await;
    assert!(other.starts_with(&mesh.url), "{other}");
    let at_front = redeem(&front.url, other.trim().split_once("#code=").unwrap().1).await;
    assert_eq!(at_front.status, 401, "{at_front:?}");
    // The key opens nothing but the console.
    let tasks = page.get("a2a/dead-letters").await;
    let without = call(Method::GET, &format!("{}/a2a/dead-letters", front.url), None).await;
    assert_eq!((tasks.status, tasks.body), (without.status, without.body));
    assert_eq!(page.form("sign-out", &[]).await.status, 204);
    assert_eq!(page.get("console/view").await.status, 401);
    let again = Page::of_link(&link(&mesh, &["front-01"]).await).await;
    let (code, out, errors) = mesh.as_person(&["console", "front-01", "--sign-out"]).await;
    assert_eq!((code, out.as_str()), (0, "1 sessions ended\n"), "{errors}");
    assert_eq!(again.get("console/view").await.status, 401);
}

impl Page {
    fn signed_in_as(page: &Page) -> Self {
        Self { origin: page.origin.clone(), cookie: page.cookie.clone(), key: page.key.clone() }
    }
}

#[tokio::test]
async fn changes_come_from_the_page_itself_and_no_get_changes_anything() {
    let team = up_with_origin().await;
    let page = Page::of_link(&link(&team, &["front-01"]).await).await;
    for origin in ["http://127.0.0.1:1", "null", "https://app.example", "http://localhost:1"] {
        let request = page.request(Method::POST, "console/send").header("origin", origin);
        let refused = read_answer(with_form(request, &[("description", "x")]).send().await.unwrap()).await;
        assert_eq!(refusal(&refused), (403, "foreign_origin".to_owned()), "{origin}");
        let request = page.request(Method::GET, "console/view").header("origin", origin);
        assert_eq!(request.send().await.unwrap().status().as_u16(), 403, "{origin}");
        let code = client().post(format!("{}/console/session", page.origin)).header("origin", origin);
        assert_eq!(
            code.json(&json!({ "code": "x" })).send().await.unwrap().status().as_u16(),
            403,
            "{origin}"
        );
    }
    let request = page.request(Method::POST, "console/send");
    let refused = read_answer(with_form(request, &[("description", "x")]).send().await.unwrap()).await;
    assert_eq!(refusal(&refused), (403, "foreign_origin".to_owned()), "a change has an Origin");
    for path in [
        "send", "say", "answer", "bulk", "cancel", "retry", "entry", "post", "steer", "sign-out", "session",
        "links",
    ] {
        assert_eq!(page.get(&format!("console/{path}?description=x")).await.status, 405, "{path}");
    }
    assert_eq!(page.view("view=tasks").await.matches("<tr data-key").count(), 0, "nothing was sent");
    // No other route takes a form.
    let message = client().post(format!("{}/a2a/messages", page.origin));
    assert_eq!(with_form(message, &[("type", "x")]).send().await.unwrap().status().as_u16(), 415);
}

async fn up_with_origin() -> Process {
    let dir = directory();
    file(dir.path(), "script.yaml", SCRIPT);
    let team = file(dir.path(), "team.yaml", TEAM).to_string_lossy().into_owned();
    let args = ["MESH_ORIGINS=https://app.example", "up", "--port", "0", "--profile", "fast", &team];
    let args = args.map(str::to_owned).to_vec();
    Process::run(dir.path().join("data"), args, Some(dir)).await
}

#[tokio::test]
async fn a_browser_is_shown_a_page_that_runs_and_frames_nothing_and_a_program_ten_lines() {
    let mesh = up().await;
    let front = mesh.agent("front-01");
    let page = client().get(&front.url).header("accept", "text/html,*/*;q=0.8").send().await.unwrap();
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    let page = page.text().await.unwrap();
    for file in page.split('"').filter(|part| part.starts_with("console/assets/")) {
        let answer = client().get(format!("{}/{file}", front.url)).send().await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["x-content-type-options"]),
            (200, &"nosniff".parse().unwrap())
        );
    }
    let text = call(Method::GET, &front.url, None).await.body;
    let text = text.as_str().unwrap();
    assert_eq!(text.lines().count(), 10, "{text}");
    assert!(text.contains("front-01") && text.contains("mesh console"), "{text}");
}

#[tokio::test]
async fn a_person_sends_answers_cancels_and_retries_and_nothing_hostile_runs() {
    let mesh = up().await;
    let page = Page::of_link(&link(&mesh, &["front-01"]).await).await;
    let front = mesh.agent("front-01");
    let (task, view) = page.send("</textarea><script>alert(0)</script>\u{202e}").await;
    front.task_in(&task, &["completed"]).await;
    for query in ["view=start", "view=tasks", "view=tasks&text=%3Cscript%3E", view.as_str()] {
        let shown = page.view(query).await;
        assert!(shown.contains("&lt;script&gt;"), "{query}: {shown}");
        for code in ["<script", "<img src=x", "\u{202e}", " onerror=alert(1)>.html\"", " style="] {
            assert!(!shown.contains(code), "{query}: {code}: {shown}");
        }
    }
    // An approval is denied with a reason, a choice is made.
    let (task, view) = page.send("remove it").await;
    front.task_in(&task, &["input_required"]).await;
    let inbox = page.view("view=inbox").await;
    assert!(inbox.contains("data-waiting=\"1\"") && inbox.contains("delete it?"), "{inbox}");
    let id = question(&front, &task).await;
    let seen = shown(&inbox);
    let unseen = [("task", &*task), ("question", &*id), ("decision", "deny"), ("shown", "another")];
    assert_eq!(refusal(&page.form("answer", &unseen).await), (409, "not_awaiting_answer".to_owned()));
    let answer = [
        ("shown", &*seen),
        ("agent", "front-01"),
        ("task", &*task),
        ("question", &*id),
        ("decision", "deny"),
        ("reason", "keep it"),
    ];
    let denied = page.form("answer", &answer).await;
    assert_eq!(denied.status, 204, "{denied:?}");
    front.task_in(&task, &["completed"]).await;
    assert!(page.view(&view).await.contains("keep it"), "the reason is among the events");
    let late = page.form("answer", &answer).await;
    assert_eq!(refusal(&late), (400, "invalid_field".to_owned()));
    let (task, _) = page.send("which size").await;
    front.task_in(&task, &["input_required"]).await;
    let id = question(&front, &task).await;
    let seen = shown(&page.view("view=inbox").await);
    let choice = [("task", &*task), ("question", &*id), ("choice", "1"), ("shown", &*seen)];
    let chosen = page.form("answer", &choice).await;
    assert_eq!(chosen.status, 204, "{chosen:?}");
    front.task_in(&task, &["completed"]).await;
    let (task, _) = page.send("which size").await;
    front.task_in(&task, &["input_required"]).await;
    assert_eq!(page.form("cancel", &[("task", &*task)]).await.status, 204);
    front.task_in(&task, &["canceled"]).await;
    let again = page.form("retry", &[("task", &*task)]).await;
    let go = again.headers["mesh-console-go"].to_str().unwrap();
    assert!(again.status == 204 && !go.contains(&task), "{again:?}");
}

/// What a page says of the first question that it shows.
fn shown(view: &str) -> String {
    let digest = view.split("name=\"shown\" value=\"").nth(1).unwrap_or_else(|| panic!("{view}"));
    digest.split('"').next().unwrap().to_owned()
}

async fn question(agent: &crate::harness::Agent, task: &str) -> String {
    let task = agent.task(task).await;
    task["metadata"]["urn:agent-mesh:ext:task:v1"]["questions"][0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn callers_sign_in_with_their_credential_and_see_their_own() {
    let mesh = up().await;
    let front = mesh.agent("front-01");
    let person = Page::of_link(&link(&mesh, &["front-01"]).await).await;
    let (task, view) = person.send("of the person").await;
    front.task_in(&task, &["completed"]).await;
    let wrong = sign_in(&front.url, "somebodys-own-key-1").await;
    assert_eq!(refusal(&wrong), (401, "unauthenticated".to_owned()));
    let alice = alice(&front.url).await;
    assert!(!alice.view("view=tasks").await.contains("of the person"));
    assert_eq!(alice.get(&format!("console/view?{view}")).await.status, 404);
    let cancel = alice.form("cancel", &[("task", &*task)]).await;
    assert_eq!(cancel.status, 404, "{cancel:?}");
    let (hers, _) = alice.send("of alice").await;
    eventually("alice sees her own", async || {
        let page = alice.view("view=tasks&state=completed").await;
        page.contains(&hers).then_some(())
    })
    .await;
    assert!(!person.view("view=tasks").await.contains("of alice"));
    // Nobody signs in by nothing.
    let nothing = client().post(format!("{}/console/session", front.url)).header("origin", &front.url);
    let nothing = read_answer(nothing.json(&json!({})).send().await.unwrap()).await;
    assert_eq!(refusal(&nothing), (401, "unauthenticated".to_owned()));
}

#[tokio::test]
async fn a_page_is_told_what_has_changed() {
    let mesh = up().await;
    let page = Page::of_link(&link(&mesh, &["front-01"]).await).await;
    let mut stream = page.request(Method::GET, "console/stream?view=inbox").send().await.unwrap();
    let mut text = String::new();
    let mut sent = false;
    while let Some(bytes) = stream.chunk().await.unwrap() {
        text.push_str(std::str::from_utf8(&bytes).unwrap());
        if !sent && text.contains("\n\n") {
            page.send("remove it").await;
            sent = true;
        }
        let events = text.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
        let mut events = events.filter_map(|data| serde_json::from_str::<Value>(data).ok());
        if events.any(|event| event["waiting"] == 1 && event["of"] == json!(["tasks"])) {
            return;
        }
    }
    panic!("the stream has ended: {text}");
}

#[tokio::test]
async fn without_a_credential_a_page_reads_and_changes_nothing() {
    let mesh = up().await;
    let front = mesh.agent("front-01");
    let page = Page::signed_out(&front.url);
    for view in ["start", "inbox", "tasks", "chat", "sessions", "board", "agents", "mesh", "cost", "health"] {
        let shown = page.view(&format!("view={view}")).await;
        assert!(shown.contains("mesh console") && !shown.contains("hx-post"), "{view}: {shown}");
    }
    let sent = page.form("send", &[("description", "x")]).await;
    assert_eq!(sent.status, 401, "{sent:?}");
    assert_eq!(page.get("console/view?view=nowhere").await.status, 400);
}
