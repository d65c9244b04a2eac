//! Spaces and entries with the real program: the commands of the page, who is who, restarts and kill -9 (SEEDS §9, lines 40, 45).

use crate::harness::{
    Answer, Process, client, directory,
    documentation::{blocks, success},
    eventually, mesh, read_answer, refusal, refusal_text,
};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    path::Path,
    sync::{
        Arc, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::Mutex;

const PAGE: &str = include_str!("../../docs/spaces.md");
const TEAM: &str = "
agents: [{ agent: echo-01, open: true, skills: [echo], brain: { echo: {} } }]
mesh:
  callers: [{ user: anna, apiKey: annas-own-key-0001 }, { user: bert, apiKey: berts-own-key-0001 }]
  spaces:
    team: { members: { 'user:anna': curator, echo-01: observer }, autoMerge: [learning] }
";

/// Who calls.
enum SpaceUser<'a> {
    Person(&'a Path),
    Key(&'a str),
    Nobody,
}

impl SpaceUser<'_> {
    async fn call(&self, method: Method, url: &str, body: Option<&Value>) -> Answer {
        let mut request = client().request(method, url);
        request = match self {
            Self::Person(data) => {
                request.bearer_auth(std::fs::read_to_string(data.join("token")).unwrap().trim())
            }
            Self::Key(key) => request.header("x-api-key", *key),
            Self::Nobody => request,
        };
        if let Some(body) = body {
            request = request.json(body);
        }
        read_answer(request.send().await.unwrap()).await
    }
}

#[tokio::test]
async fn the_commands_of_the_page_run_as_shown() {
    let (dir, running) = (directory(), Process::up(TEAM).await);
    let token = running.data.join("token").to_string_lossy().into_owned();
    let envs = [("MESH_URL", running.url.as_str()), ("MESH_TOKEN_FILE", token.as_str())];
    let commands = blocks(PAGE, "sh").into_iter().flat_map(str::lines);
    let outputs: Vec<_> = commands.map(|line| (line, success(dir.path(), line, &envs))).collect();
    let output = |command: &str| {
        let found = outputs.iter().find(|(line, _)| *line == command);
        &found.unwrap_or_else(|| panic!("{command}: {outputs:?}")).1
    };
    assert!(output("mesh space entries").contains("no rate limit"), "{outputs:?}");
    let decisions = output("mesh space entries --kind decision --status active");
    assert!(decisions.contains("signed tokens") && decisions.contains("architectural"), "{decisions}");
    assert!(output("mesh space entries --text 'signed token'").contains("use-jwt"), "{outputs:?}");
    let shop = output("mesh space show --space shop");
    assert!(shop.contains("planner-01") && shop.contains("curator"), "{shop}");
    assert!(output("mesh space import shop.jsonl").contains("1 were there"), "{outputs:?}");
    // Into another mesh: the same file comes out.
    let other = Process::up(TEAM).await;
    let token = other.data.join("token").to_string_lossy().into_owned();
    let envs = [("MESH_URL", other.url.as_str()), ("MESH_TOKEN_FILE", token.as_str())];
    success(dir.path(), "mesh space import shop.jsonl", &envs);
    success(dir.path(), "mesh space export again.jsonl --space shop", &envs);
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    assert_eq!(read("again.jsonl"), read("shop.jsonl"));
    let url = format!("{}/board/spaces/shop", other.url);
    let (code, _, errors) =
        mesh(&["space", "show", "--space", "shop"], &[("MESH_URL", &other.url), ("HOME", "/nonexistent")]);
    assert!(code != 0 && errors.contains("mesh token"), "{url}: {errors}");
}

#[tokio::test]
async fn content_needs_a_credential_and_a_vault_its_owner() {
    let running = Process::up(TEAM).await;
    let entries = format!("{}/board/spaces/default/entries", running.url);
    let (person, anna, bert) = (
        SpaceUser::Person(&running.data),
        SpaceUser::Key("annas-own-key-0001"),
        SpaceUser::Key("berts-own-key-0001"),
    );
    let refused = SpaceUser::Nobody.call(Method::GET, &entries, None).await;
    assert_eq!(refusal(&refused), (401, "unauthenticated".to_owned()));
    assert!(refusal_text(&refused).contains("mesh token"), "{refused:?}");
    let vault = json!({ "kind": "memory", "type": "learning", "scope": "own", "content": "annas secret" });
    let posted = anna.call(Method::POST, &entries, Some(&vault)).await;
    assert_eq!(posted.status, 201, "{posted:?}");
    let entry = format!("{entries}/{}", posted.body["id"].as_str().unwrap());
    assert_eq!(anna.call(Method::GET, &entry, None).await.body["content"], "annas secret");
    for other in [&bert, &person] {
        let refused = other.call(Method::GET, &entry, None).await;
        assert_eq!(refusal(&refused), (404, "entry_not_found".to_owned()));
        for query in ["", "?text=secret", "?kind=memory", "?author=user:anna", "?order=importance"] {
            let page = other.call(Method::GET, &format!("{entries}{query}"), None).await;
            assert_eq!(page.body["entries"], json!([]), "{query}: {page:?}");
        }
    }
    let refused = anna.call(Method::POST, &format!("{entry}/merge"), None).await;
    assert_eq!(refusal(&refused), (403, "forbidden".to_owned()));
    for (body, named) in [
        (json!({ "kind": "note", "content": "x" }), "kind"),
        (json!({ "kind": "finding", "content": "x", "slug": "x" }), "slug"),
        (json!({ "kind": "proposal", "content": "x", "slug": "x" }), "type"),
    ] {
        let refused = anna.call(Method::POST, &entries, Some(&body)).await;
        assert_eq!(refusal(&refused).0, 400, "{refused:?}");
        assert!(refusal_text(&refused).contains(named), "{named}: {refused:?}");
    }
    let large = json!({ "kind": "finding", "content": "x".repeat(16 * 1024 + 1) });
    assert_eq!(refusal(&anna.call(Method::POST, &entries, Some(&large)).await).0, 413);
}

#[tokio::test]
async fn a_team_file_makes_spaces_and_their_roles_hold() {
    let running = Process::up(TEAM).await;
    let space = |of: &Process| format!("{}/board/spaces/team", of.url);
    let (anna, bert) = (SpaceUser::Key("annas-own-key-0001"), SpaceUser::Key("berts-own-key-0001"));
    let shown = anna.call(Method::GET, &space(&running), None).await.body;
    assert_eq!((&shown["version"], &shown["autoMerge"]), (&json!(1), &json!(["learning"])), "{shown}");
    assert_eq!(refusal(&bert.call(Method::GET, &space(&running), None).await).1, "space_not_found");
    let decision = json!({ "kind": "decision", "type": "scope", "content": "no coupons" });
    let decided = anna.call(Method::POST, &format!("{}/entries", space(&running)), Some(&decision)).await;
    assert_eq!(decided.status, 201, "{decided:?}");
    let change = json!({ "members": {} });
    assert_eq!(refusal(&anna.call(Method::PUT, &space(&running), Some(&change)).await).1, "forbidden");
    let person = SpaceUser::Person(&running.data);
    assert_eq!(person.call(Method::PUT, &space(&running), Some(&change)).await.body["version"], 2);
    assert_eq!(refusal(&anna.call(Method::GET, &space(&running), None).await).1, "space_not_found");
    let running = running.restart().await;
    let shown = anna.call(Method::GET, &space(&running), None).await.body;
    assert_eq!(shown["members"], json!({ "echo-01": "observer", "user:anna": "curator" }), "the file wins");
    for (yaml, named) in [
        ("shop: { members: { a-1: boss } }", "boss"),
        ("shop: { autoMerge: [scope] }", "scope"),
        ("'a b': {}", "space id"),
    ] {
        let dir = directory();
        let file =
            crate::harness::file(dir.path(), "team.yaml", &format!("mesh: {{ spaces: {{ {yaml} }} }}"));
        let (code, _, errors) = mesh(&["validate", &file.to_string_lossy()], &[]);
        assert!(code != 0 && errors.contains(named), "{yaml}: {errors}");
    }
}

#[tokio::test]
async fn an_author_is_refused_beyond_the_configured_number_of_entries() {
    let limited = format!("{TEAM}  limits: {{ maxEntriesPerAuthor: 2 }}\n");
    let running = Process::up(&limited).await;
    let entries = |of: &Process| format!("{}/board/spaces/default/entries", of.url);
    let anna = SpaceUser::Key("annas-own-key-0001");
    let finding = json!({ "kind": "finding", "content": "x" });
    for status in [201, 201, 409] {
        let posted = anna.call(Method::POST, &entries(&running), Some(&finding)).await;
        assert_eq!(posted.status, status, "{posted:?}");
        if status == 409 {
            let text = refusal_text(&posted);
            assert_eq!(refusal(&posted).1, "entry_quota");
            assert!(
                text.contains("user:anna has 2 entries") && text.contains("maxEntriesPerAuthor"),
                "{text}"
            );
        }
    }
    let bert = SpaceUser::Key("berts-own-key-0001");
    assert_eq!(bert.call(Method::POST, &entries(&running), Some(&finding)).await.status, 201);
    let running = running.restart().await;
    let refused = anna.call(Method::POST, &entries(&running), Some(&finding)).await;
    assert_eq!(refusal(&refused).0, 409, "they are counted again after a restart");
}

#[tokio::test]
async fn members_that_several_commands_add_at_once_are_all_there() {
    let running = Process::up(TEAM).await;
    let token = running.data.join("token").to_string_lossy().into_owned();
    let added = (0..6).map(|number| {
        let (url, token) = (running.url.clone(), token.clone());
        tokio::task::spawn_blocking(move || {
            let member = format!("agent-{number}=member");
            let args = ["space", "set", "--space", "new", "--member", &member];
            mesh(&args, &[("MESH_URL", url.as_str()), ("MESH_TOKEN_FILE", token.as_str())])
        })
    });
    for added in join_all(added).await {
        let (code, _, errors) = added.unwrap();
        assert_eq!(code, 0, "{errors}");
    }
    let person = SpaceUser::Person(&running.data);
    let url = format!("{}/board/spaces/new", running.url);
    let shown = person.call(Method::GET, &url, None).await.body;
    assert_eq!((shown["members"].as_object().unwrap().len(), &shown["version"]), (6, &json!(6)), "{shown}");
    // Of two that make it, the second is told so.
    let again = person.call(Method::PUT, &url, Some(&json!({ "version": 0 }))).await;
    assert_eq!(refusal(&again), (409, "space_changed".to_owned()));
}

#[tokio::test]
async fn an_import_names_the_lines_that_it_refuses_and_writes_the_others() {
    let running = Process::up(TEAM).await;
    let person = SpaceUser::Person(&running.data);
    let entries = format!("{}/board/spaces/default/entries", running.url);
    let posted = json!({ "kind": "finding", "content": "good" });
    let posted = person.call(Method::POST, &entries, Some(&posted)).await;
    let entry = format!("{entries}/{}", posted.body["id"].as_str().unwrap());
    let entry = person.call(Method::GET, &entry, None).await.body;
    let with = |id: &str, field: &str, value: Value| {
        let entry = crate::harness::with(entry.clone(), json!({ "id": id, field: value }));
        json!({ "entry": entry }).to_string()
    };
    let lines = [
        with("e-1", "content", json!("new")),
        with("e-2", "content", json!("x".repeat(16 * 1024 + 1))),
        with("e-3", "state", json!("pending")),
        with("e-4", "kind", json!("note")),
        with("e-5", "author", json!("service:board")),
        with("e-6", "content", json!("also new")),
    ];
    let dir = directory();
    let file = crate::harness::file(dir.path(), "entries.jsonl", &lines.join("\n"));
    let token = running.data.join("token").to_string_lossy().into_owned();
    let envs = [("MESH_URL", running.url.as_str()), ("MESH_TOKEN_FILE", token.as_str())];
    let (code, output, errors) = mesh(&["space", "import", &file.to_string_lossy()], &envs);
    assert!(code != 0 && output.contains("2 entries imported"), "{output}{errors}");
    for (line, field) in [(2, "content:"), (3, "state:"), (4, "kind:"), (5, "author:")] {
        assert!(errors.contains(&format!("line {line}: {field}")), "{line}: {errors}");
    }
    assert!(errors.contains("4 entries were refused"), "{errors}");
    let found = person.call(Method::GET, &format!("{entries}?kind=finding"), None).await.body;
    assert_eq!(found["entries"].as_array().unwrap().len(), 3, "{found}");
}

/// Line 40: the inbox is idempotent, slugs are told apart, what is closed stays closed, what is rejected is kept, and a merge links
/// both ways in one commit. It survives a restart.
#[tokio::test]
async fn line_40_the_inbox() {
    let running = Process::up(TEAM).await;
    let entries = |of: &Process| format!("{}/board/spaces/default/entries", of.url);
    let proposal =
        |id: &str| json!({ "id": id, "kind": "proposal", "type": "pattern", "slug": "retry", "content": id });
    let (anna, bert) = (SpaceUser::Key("annas-own-key-0001"), SpaceUser::Key("berts-own-key-0001"));
    let post = async |user: &SpaceUser<'_>, id: &str| {
        user.call(Method::POST, &entries(&running), Some(&proposal(id))).await
    };
    let first = post(&anna, "t:0").await;
    assert_eq!((first.status, &first.body["slug"]), (201, &json!("retry")), "{first:?}");
    let again = post(&anna, "t:0").await;
    assert_eq!(
        (again.status, &again.body["version"], &again.body["duplicate"]),
        (200, &json!(1), &json!(true))
    );
    assert_eq!(post(&anna, "t:1").await.body["version"], 2);
    let other = post(&bert, "t:0").await;
    assert_eq!(other.body["slug"], "retry--bert", "{other:?}");
    let person = SpaceUser::Person(&running.data);
    let act = async |answer: &Answer, action: &str, body: Value| {
        let url = format!("{}/{}/{action}", entries(&running), answer.body["id"].as_str().unwrap());
        person.call(Method::POST, &url, Some(&body)).await
    };
    // Who decides on what a proposal said before is told that it has changed.
    let early = act(&first, "merge", json!({ "version": 1 })).await;
    assert_eq!(refusal(&early), (409, "space_changed".to_owned()));
    let slug = ["space", "merge", "retry", "--if-version"];
    let (code, _, errors) = running.as_person(&[&slug[..], &["1"]].concat()).await;
    assert!(code == 6 && errors.contains("has version 2, you decided on 1"), "{code} {errors}");
    let (_, inbox, _) = running.as_person(&["inbox"]).await;
    let row = inbox.lines().find(|line| line.contains("user:anna")).unwrap_or_default();
    assert_eq!(row.split_whitespace().nth(2), Some("2"), "{inbox}");
    let merged = act(&first, "merge", json!({ "version": 2 })).await;
    assert_eq!((merged.status, &merged.body["state"]), (200, &json!("merged")), "{merged:?}");
    let refused = act(&first, "reject", json!({ "reason": "late" })).await;
    assert_eq!(refusal(&refused), (409, "entry_state".to_owned()));
    assert!(refusal_text(&refused).contains("merged"), "{refused:?}");
    assert_eq!(act(&other, "reject", json!({ "reason": "twice" })).await.status, 200);
    assert_eq!(refusal(&post(&anna, "t:2").await), (409, "slug_closed".to_owned()));
    let became = merged.body["became"].as_str().unwrap().to_owned();
    let running = running.restart().await;
    let person = SpaceUser::Person(&running.data);
    let result = person.call(Method::GET, &format!("{}/{became}", entries(&running)), None).await.body;
    assert_eq!((&result["kind"], &result["links"]["mergedFrom"]), (&json!("memory"), &first.body["id"]));
    let proposals =
        person.call(Method::GET, &format!("{}?kind=proposal&order=oldest", entries(&running)), None).await;
    let seen: Vec<_> = proposals.body["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["state"].clone(), entry["content"].clone(), entry["reason"].clone()))
        .collect();
    assert_eq!(
        seen,
        [(json!("merged"), json!("t:1"), Value::Null), (json!("rejected"), json!("t:0"), json!("twice")),]
    );
}

#[tokio::test]
async fn a_slug_names_the_decision_that_its_proposal_became() {
    let running = Process::up(TEAM).await;
    let space = async |args: &[&str]| {
        let (code, said, errors) = running.as_person(&[&["space"], args].concat()).await;
        (code, format!("{said}{errors}"))
    };
    for slug in ["use-mail", "use-jwt"] {
        assert_eq!(space(&["propose", slug, slug, "--type", "technical"]).await.0, 0);
        let early = space(&["archive", slug]).await;
        assert!(early.0 == 6 && early.1.contains("pending"), "nothing is decided yet: {early:?}");
        assert_eq!(space(&["merge", slug]).await.0, 0);
    }
    let (code, said) = space(&["supersede", "use-mail", "--by", "use-jwt"]).await;
    assert!(code == 0 && said.contains("is superseded"), "{code} {said}");
    let (_, decisions) = space(&["entries", "--kind", "decision", "--status", "active"]).await;
    assert!(decisions.contains("  use-jwt") && !decisions.contains("  use-mail"), "{decisions}");
    let (code, said) = space(&["archive", "use-jwt"]).await;
    assert!(code == 0 && said.contains("is archived"), "{code} {said}");
    let (code, said) = space(&["supersede", "nothing", "--by", "nobody"]).await;
    assert!(code == 6 && said.contains("entry_not_found"), "{code} {said}");
}

/// Line 45: a finding gets an id and a time, and others see it. A stream that is cut goes on from its cursor.
#[tokio::test]
async fn line_45_findings_and_their_stream() {
    let running = Process::up(TEAM).await;
    let entries = format!("{}/board/spaces/default/entries", running.url);
    let (anna, bert) = (SpaceUser::Key("annas-own-key-0001"), SpaceUser::Key("berts-own-key-0001"));
    let cursor = bert.call(Method::GET, &entries, None).await.body["cursor"].as_str().unwrap().to_owned();
    for number in 0..20 {
        let finding = json!({ "kind": "finding", "severity": "high", "content": format!("number {number}") });
        let posted = anna.call(Method::POST, &entries, Some(&finding)).await;
        assert!(posted.body["id"].is_string(), "{posted:?}");
    }
    let last = bert.call(Method::GET, &format!("{entries}?kind=finding&limit=15"), None).await.body;
    let contents: Vec<_> = last["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            assert!(
                entry["at"].as_str().unwrap().ends_with('Z') && entry["author"] == "user:anna",
                "{entry}"
            );
            entry["content"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(contents, (5..20).rev().map(|number| format!("number {number}")).collect::<Vec<_>>());
    let mut seen = Vec::new();
    let mut after = cursor;
    while seen.len() < 20 {
        // Each connection is dropped after a few events.
        let mut response = client()
            .get(format!("{entries}/stream?after={after}"))
            .header("x-api-key", "berts-own-key-0001")
            .send()
            .await
            .unwrap();
        let mut text = String::new();
        let whole =
            |text: &str| text.rsplit_once("\n\n").map_or(String::new(), |(whole, _)| whole.to_owned());
        let count = |text: &str| whole(text).matches("\ndata: ").count();
        while count(&text) < 7 && seen.len() + count(&text) < 20 {
            text += std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap();
        }
        for event in whole(&text).split("\n\n").filter(|event| event.contains("\ndata: ")) {
            let (id, data) = event.split_once("\ndata: ").unwrap();
            let entry: Value = serde_json::from_str(data).unwrap();
            seen.push(entry["content"].as_str().unwrap().to_owned());
            after = id.strip_prefix("id: ").unwrap().to_owned();
        }
    }
    assert_eq!(seen, (0..20).map(|number| format!("number {number}")).collect::<Vec<_>>());
}

/// Fifty authors propose one slug twenty times each at once, while the process is killed (SIGKILL) and started again.
#[tokio::test]
async fn fifty_authors_of_one_slug_lose_nothing_over_kill_9() {
    let callers: Vec<_> = (0..50)
        .map(|author| json!({ "user": format!("author-{author}"), "apiKey": key_of(author) }))
        .collect();
    let team =
        format!("mesh: {}\n", json!({ "callers": callers, "limits": { "maxRatePerSecond": 100_000 } }));
    let running = Arc::new(Mutex::new(Some(Process::up(&team).await)));
    let url = Arc::new(RwLock::new(url_of(&running).await));
    let recorded = Arc::new(AtomicUsize::new(0));
    let authors =
        join_all((0..50).map(|author| propose_until_recorded(url.clone(), recorded.clone(), author)));
    let kills = async {
        for count in [100, 400, 800] {
            let what = format!("{count} proposals are recorded");
            eventually(&what, async || (recorded.load(Ordering::Relaxed) >= count).then_some(())).await;
            let mut process = running.lock().await;
            let restarted = process.take().unwrap().restart().await;
            *url.write().unwrap() = restarted.url.clone();
            *process = Some(restarted);
        }
    };
    futures_util::future::join(authors, kills).await;
    let process = running.lock().await;
    let process = process.as_ref().unwrap();
    let person = SpaceUser::Person(&process.data);
    let entries = format!("{}/board/spaces/default/entries?kind=proposal&limit=1000", process.url);
    let page = person.call(Method::GET, &entries, None).await.body;
    let found = page["entries"].as_array().unwrap();
    assert_eq!(found.len(), 50, "{page}");
    for entry in found {
        assert_eq!((&entry["version"], &entry["content"]), (&json!(20), &json!("19")), "{entry}");
    }
}

fn key_of(author: usize) -> String {
    format!("the-own-key-of-author-{author:04}")
}

async fn url_of(process: &Mutex<Option<Process>>) -> String {
    process.lock().await.as_ref().unwrap().url.clone()
}

/// Proposes twenty times, each until it is answered with success.
async fn propose_until_recorded(url: Arc<RwLock<String>>, recorded: Arc<AtomicUsize>, author: usize) {
    let client = client();
    for version in 0..20 {
        let what = format!("version {version} of author {author}");
        eventually(&what, async || {
            let entries = format!("{}/board/spaces/default/entries", url.read().unwrap().clone());
            let proposal = json!({
                "id": format!("v:{version}"), "kind": "proposal", "type": "learning", "slug": "the-one",
                "content": version.to_string(),
            });
            let posted =
                client.post(entries).header("x-api-key", key_of(author)).json(&proposal).send().await;
            posted.ok().filter(|answer| answer.status().is_success()).map(drop)
        })
        .await;
        recorded.fetch_add(1, Ordering::Relaxed);
    }
}
