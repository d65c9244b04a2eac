//! Sealed stages with the real program: nothing that a seat has said can be read before its stage ends (SEEDS §9, line 46).

use crate::harness::{Process, client, directory, eventually, file, get, mesh, state};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// Says a secret of its own in its first turn, and in the second one waits while `hold` is there. Notes its prompts and its token.
const IDEATOR: &str = r#"
import json, os, sys, time
here = os.path.dirname(os.path.abspath(__file__))
turn = json.loads(sys.stdin.readline())
agent, seat = turn["agent"], (turn["task"].get("input") or {}).get("seat", {"stage": "end"})
ideas = int(open(os.path.join(here, "ideas")).read())
open(os.path.join(here, "token-" + agent), "w").write(os.environ["MESH_BRAIN_TOKEN"])
with open(os.path.join(here, "prompts-" + agent), "a") as prompts:
    prompts.write(json.dumps(turn) + "\n")
def tell(**line):
    print(json.dumps(line), flush=True)
if seat["stage"] == "end":
    tell(type="done", message="the end")
elif seat["round"] == 1:
    for finding in range(1 if agent == "a-01" else ideas):
        tell(type="say", to=["team"], text="secret said by " + agent + " again" * finding)
    tell(type="say", to=["b-01"], text="secret whispered by " + agent)
    tell(type="post", content="secret posted by " + agent)
    tell(type="remember", content="secret remembered by " + agent, scope="own")
    tell(type="signal", signal="secret.found", subject="secret-signal-" + agent)
    tell(type="artifact", name="idea", text="secret file of " + agent)
    tell(type="pass", message="secret last words of " + agent)
elif not turn.get("answers"):
    tell(type="help", id="h", to="a-01", question="secret question of " + agent)
    tell(type="find", id="f", text="secret posted")
else:
    tell(type="status", message="was told: " + turn["answers"][-1]["text"])
    while os.path.exists(os.path.join(here, "hold")):
        time.sleep(0.02)
    tell(type="done", message="nothing more")
"#;

fn prompts(dir: &Path, agent: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(dir.join(format!("prompts-{agent}"))).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Every GET route of a server, with `ids` in place of each name in it.
async fn routes(url: &str, ids: &[String]) -> BTreeSet<String> {
    let api = get(&format!("{url}/openapi.json")).await;
    let mut found = BTreeSet::new();
    for (path, verbs) in api["paths"].as_object().unwrap() {
        if verbs.get("get").is_none()
            || path.ends_with("/stream")
            || path.ends_with("/watch")
            || path.contains("events")
        {
            continue;
        }
        match path.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?.1))) {
            Some((head, tail)) => {
                found.extend(ids.iter().map(|id| format!("{head}{id}{}", tail.replace("{id}", id))))
            }
            None => drop(found.insert(path.clone())),
        }
    }
    found
}

#[tokio::test]
async fn line_46_nothing_of_a_sealed_stage_can_be_read_before_it_ends() {
    let dir = directory();
    let at = dir.path();
    let script = file(at, "ideator.py", IDEATOR);
    let agent = |name: &&str| {
        let brain = format!("{{ exec: [python3, '{}'] }}", script.display());
        format!("  - {{ agent: {name}, open: true, skills: [{name}], brain: {brain} }}\n")
    };
    let names = ["a-01", "b-01", "c-01"];
    let running = Process::up(&format!("agents:\n{}", names.iter().map(agent).collect::<String>())).await;
    file(at, "hold", "");
    file(at, "ideas", "1");
    let token = running.data.join("token");
    let person = std::fs::read_to_string(&token).unwrap();
    let graph = json!({ "stages": [
        { "id": "ideas", "sealed": true, "seats": names },
        { "id": "end", "after": ["ideas"], "seats": ["a-01"] },
    ] });
    let host = running.agent("a-01");
    let task = json!({ "taskId": "t-1", "description": "ideas", "capability": "session", "input": graph });
    host.send(task).await;
    eventually("the second turns", async || {
        names.iter().all(|name| prompts(at, name).len() >= 3).then_some(())
    })
    .await;
    // What each seat was given: itself, and not that there are others.
    for name in names {
        for prompt in prompts(at, name) {
            let text = prompt["task"].to_string() + &prompt["brief"].to_string();
            assert_eq!(prompt["task"]["input"]["seat"]["others"], json!([]));
            assert_eq!(prompt["peers"], json!([]), "nothing names the other seats");
            for other in names.iter().filter(|other| **other != name) {
                assert!(
                    !text.contains(&format!("by {other}")) && !text.contains(&format!("of {other}")),
                    "{name}: {text}"
                );
            }
        }
        let answers = prompts(at, name).pop().unwrap()["answers"].to_string();
        assert!(answers.contains("stage_sealed"), "{answers}");
        let own = format!("secret posted by {name}");
        assert!(answers.contains(&own), "it finds what it has posted: {answers}");
        assert_eq!(answers.matches("secret posted by").count(), 1, "{answers}");
    }
    let children: Vec<String> = names
        .iter()
        .flat_map(|name| prompts(at, name))
        .map(|prompt| prompt["task"]["taskId"].as_str().unwrap().to_owned())
        .collect();
    let mut ids = vec!["t-1".to_owned(), "default".to_owned()];
    ids.extend(names.iter().map(|name| (*name).to_owned()));
    ids.extend(children.iter().cloned());
    let bearers = names.map(|name| Some(std::fs::read_to_string(at.join(format!("token-{name}"))).unwrap()));
    let servers: BTreeSet<String> =
        std::iter::once(running.url.clone()).chain(names.map(|name| running.agent(name).url)).collect();
    let mut read = 0;
    for (place, bearer) in bearers.iter().chain([&None]).enumerate() {
        let others: Vec<&str> =
            names.iter().enumerate().filter(|(at, _)| *at != place).map(|(_, name)| *name).collect();
        for server in &servers {
            for route in routes(server, &ids).await {
                let request = client().get(format!("{server}{route}")).header("a2a-version", "1.0");
                let request = match bearer {
                    Some(bearer) => request.bearer_auth(bearer.trim()),
                    None => request,
                };
                let answer = request.send().await.unwrap();
                read += usize::from(answer.status().is_success());
                let body = answer.text().await.unwrap();
                let tells_of = |name: &&str| {
                    [
                        "said by",
                        "whispered by",
                        "posted by",
                        "remembered by",
                        "file of",
                        "words of",
                        "question of",
                    ]
                    .iter()
                    .any(|what| body.contains(&format!("{what} {name}")))
                };
                let told = others
                    .iter()
                    .find(|name| tells_of(name) || body.contains(&format!("secret-signal-{name}")));
                assert_eq!(told, None, "{server}{route} with {bearer:?}: {body}");
            }
        }
    }
    assert!(read > 40, "{read} routes have told something");
    let envs = [("MESH_URL", running.url.as_str()), ("MESH_TOKEN_FILE", token.to_str().unwrap())];
    for args in [
        vec!["board", "tail", "--no-follow"],
        vec!["space", "entries"],
        vec!["space", "entries", "--kind", "finding"],
    ] {
        let (_, said, _) = mesh(&args, &envs);
        assert!(!said.contains("secret") && !said.contains("sub-"), "{args:?}: {said}");
    }
    // The person sees it all along.
    let shown =
        client().get(format!("{}/a2a/tasks/t-1", host.url)).bearer_auth(person.trim()).send().await.unwrap();
    assert!(shown.text().await.unwrap().contains("secret said by b-01"));
    std::fs::remove_file(at.join("hold")).unwrap();
    let task = host.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    let last = prompts(at, "a-01").pop().unwrap();
    let given = last["task"]["artifacts"].to_string();
    for name in names {
        for what in ["secret said by", "secret file of", "secret last words of"] {
            assert!(given.contains(&format!("{what} {name}")), "{what} {name}: {given}");
        }
    }
    assert!(!given.contains("whispered"), "{given}");
    // What was posted is released to all before the next stage begins, and belongs to the session.
    let brief = last["brief"]["text"].as_str().unwrap();
    for name in names {
        assert!(brief.contains(&format!("secret posted by {name}")), "{brief}");
    }
    let (_, found, _) = mesh(&["space", "entries", "--kind", "finding", "--json"], &envs);
    let found: Value = serde_json::from_str(&found).unwrap();
    let found = found["entries"].as_array().unwrap();
    let released: BTreeSet<&str> = found.iter().map(|entry| entry["at"].as_str().unwrap()).collect();
    assert_eq!((found.len(), released.len()), (3, 1), "in one commit: {found:#?}");
    assert!(found.iter().all(|entry| entry["session"] == "t-1"), "{found:#?}");
    // A task outside of the session starts without its findings.
    let task = json!({ "taskId": "t-2", "description": "x", "capability": "b-01" });
    running.agent("b-01").ask(task).await;
    let outside = prompts(at, "b-01").pop().unwrap();
    assert!(!outside["brief"].to_string().contains("secret posted"), "{outside:#}");
}

/// What differs in every run: ids, times, ports, directories, keys, when an agent was heard of last, revisions and cursors of signals,
/// which count all commits of a process (docs/security.md), and ids of the agent without a seat, which count its steps.
fn own_of_a_run() -> regex::Regex {
    let patterns = [
        r"r-01:[0-9a-f-]{36}:\d+:\d+",
        r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        r"[0-9a-f]{16,}",
        r"\d{4}-\d\d-\d\dT[0-9:.]+Z",
        r"\d{10,}",
        r"127\.0\.0\.1:\d+",
        r"/tmp/[.\w]+",
        r#""(lastSeenMs|running|revision)":\d+"#,
        r#""(ed25519|x25519|signature)":"[^"]+""#,
        r#""next":"[0-9a-f]+-\d+"#,
    ];
    regex::Regex::new(&patterns.join("|")).unwrap()
}

/// Routes of keys and signatures, of the numbers of a whole process, which docs/security.md tells of, and the trace of a task that has
/// ended before the session: it has a span of the claim if it took longer than a second.
const NOT_COMPARED: [&str; 7] =
    ["jwks.json", "agent-card.json", "key-records", "/registry/keys", "/metrics", "/state", "t-0/trace"];

/// What everybody can read while ten seats of a sealed stage have had their first turns, by reader and route: a seat that says the
/// same in every run, an agent without a seat, and nobody. The other seats have `ideas` findings each.
async fn readings(ideas: usize) -> BTreeMap<String, String> {
    let dir = directory();
    let at = dir.path();
    let script = file(at, "ideator.py", IDEATOR);
    file(at, "ideas", &ideas.to_string());
    file(at, "hold", "");
    let names: Vec<String> = (1..=10).map(|number| format!("a-{number:02}")).collect();
    let agent = |name: &str| {
        let brain = format!("{{ exec: [python3, '{}'] }}", script.display());
        format!("  - {{ agent: {name}, open: true, skills: [{name}], brain: {brain} }}\n")
    };
    let agents: String = names.iter().map(String::as_str).chain(["r-01"]).map(agent).collect();
    let running = Process::up(&format!("agents:\n{agents}")).await;
    eventually("all have joined", async || {
        (running.signals("agent.joined").await.len() == names.len() + 1).then_some(())
    })
    .await;
    running.agent("r-01").ask(json!({ "description": "x", "taskId": "t-0", "capability": "r-01" })).await;
    let host = running.agent("a-02");
    let graph = json!({ "stages": [{ "id": "ideas", "sealed": true, "seats": names }] });
    host.send(json!({ "taskId": "t-1", "description": "ideas", "capability": "session", "input": graph }))
        .await;
    eventually("the second turns", async || {
        names.iter().all(|name| prompts(at, name).len() >= 3).then_some(())
    })
    .await;
    let own = prompts(at, "a-01");
    let own = own.iter().map(|prompt| prompt["task"]["taskId"].as_str().unwrap().to_owned());
    let known = ["t-0", "t-1", "default", "r-01", "a-01", "a-02"].map(str::to_owned);
    let ids: Vec<String> = known.into_iter().chain(own).collect();
    let (mut read, client, own_of_a_run) = (BTreeMap::new(), client(), own_of_a_run());
    // Only of a task that takes longer than a second.
    let claimed = r#"\{"revision":\d+,"id":"[^"]*","type":"task\.claimed"[^{}]*(\{[^{}]*\})?[^{}]*\},?"#;
    let claimed = regex::Regex::new(claimed).unwrap();
    let same = |text: String| own_of_a_run.replace_all(&claimed.replace_all(&text, ""), "*").into_owned();
    // A brain's token is good at its own node alone.
    for (reader, server) in [("a-01", "a-01"), ("r-01", "r-01"), ("nobody", "a-02")] {
        let bearer = std::fs::read_to_string(at.join(format!("token-{reader}"))).ok();
        let url = running.agent(server).url;
        let is_compared = |route: &String| !NOT_COMPARED.iter().any(|own| route.ends_with(own));
        for route in routes(&url, &ids).await.into_iter().filter(is_compared) {
            let request = client.get(format!("{url}{route}")).header("a2a-version", "1.0");
            let request = match &bearer {
                Some(bearer) => request.bearer_auth(bearer.trim()),
                None => request,
            };
            let answer = request.send().await.unwrap();
            let (status, body) = (answer.status(), answer.text().await.unwrap());
            read.insert(same(format!("{reader} {route}")), same(format!("{status} {body}")));
        }
    }
    std::fs::remove_file(at.join("hold")).unwrap();
    host.task_in("t-1", &["completed", "failed"]).await;
    read
}

#[tokio::test]
async fn line_46_runs_that_differ_only_in_sealed_findings_read_alike() {
    let (few, many) = (readings(1).await, readings(3).await);
    assert!(few.len() > 200 && few.keys().eq(many.keys()), "{} {}", few.len(), many.len());
    let shown = few.values().filter(|answer| answer.starts_with("200")).count();
    assert!(shown > 20, "{shown} routes have told something");
    for (route, answer) in &few {
        let differs = answer.bytes().zip(many[route].bytes()).take_while(|(one, other)| one == other).count();
        let part = |text: &str| {
            let bytes: Vec<u8> = text.bytes().skip(differs.saturating_sub(100)).take(200).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        assert!(answer == &many[route], "{route}: {}\n{}", part(answer), part(&many[route]));
    }
}
