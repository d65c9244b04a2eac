//! Sessions with the real program: seats are commands that say what the test tells them, and stop where it wants.

use crate::harness::{
    Answer, Process, artifact, call,
    cluster::Cluster,
    directory, eventually, file, get, mesh, message,
    model_stub::{ModelStub, calls, says},
    refusal, refusal_text, state,
};
use protocol::task::EXTENSION;
use reqwest::Method;
use serde_json::{Value, json};
use std::path::Path;

mod context;
mod directives;
mod examples;
mod examples_with_models;
mod failed_stages;
mod gates;
mod observers;
mod people;
mod privacy;
mod questions;
mod reading;
mod restart;
mod routing;
mod side;
mod tables;
mod workshop;
mod workspaces;

/// Takes the lines of a turn from `script.json` beside it, by agent and number of the turn (`a #2`), by agent and
/// `stage.iteration.round`, or by agent alone. It notes the prompt in `prompts`, and waits while `hold-AGENT` is there.
const SEAT: &str = r#"
import json, os, sys, time
here = os.path.dirname(os.path.abspath(__file__))
turn = json.loads(sys.stdin.readline())
seat, agent = turn["task"]["input"]["seat"], turn["agent"]
with open(os.path.join(here, "prompts"), "a") as prompts:
    prompts.write(json.dumps(turn) + "\n")
with open(os.path.join(here, "prompts")) as prompts:
    known = [json.loads(line) for line in prompts if line.endswith("\n")]
tasks = {one["task"]["taskId"] for one in known if one["agent"] == agent}
while os.path.isdir(here) and os.path.exists(os.path.join(here, "hold-" + agent)):
    time.sleep(0.02)
script = json.load(open(os.path.join(here, "script.json")))
place = "%s %s.%s.%s" % (agent, seat["stage"], seat["iteration"], seat["round"])
number = "%s #%d" % (agent, len(tasks))
for line in script.get(number, script.get(place, script.get(agent, []))):
    print(json.dumps(line))
"#;

fn agents(dir: &Path, names: &[&str]) -> String {
    let script = file(dir, "seat.py", SEAT);
    let one = |name: &&str| {
        let brain = format!("{{ exec: [python3, '{}'] }}", script.display());
        format!("  - {{ agent: {name}, skills: [{name}-work], brain: {brain} }}\n")
    };
    format!("agents:\n{}", names.iter().map(one).collect::<String>())
}

fn script(dir: &Path, turns: Value) {
    file(dir, "script.json", &turns.to_string());
}

/// What was said in a stage, in its order.
fn said(task: &Value, stage: &str) -> Vec<String> {
    let of_stage = |one: &&Value| one["artifactId"].as_str().is_some_and(|id| id.starts_with(stage));
    let texts = task["artifacts"].as_array().into_iter().flatten().filter(of_stage);
    texts.map(|one| one["parts"][0]["text"].as_str().unwrap_or_default().to_owned()).collect()
}

fn pass(text: &str) -> Value {
    json!({ "type": "pass", "message": text })
}

fn done(text: &str) -> Value {
    json!({ "type": "done", "message": text })
}

/// The prompts of all turns so far.
fn prompts(dir: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(dir.join("prompts")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The agents of the turns so far with `stage.iteration.round`.
fn turns(dir: &Path) -> Vec<String> {
    let one = |prompt: Value| {
        let seat = &prompt["task"]["input"]["seat"];
        let place = ["iteration", "round"].map(|name| seat[name].to_string()).join(".");
        format!("{} {}.{place}", prompt["agent"].as_str().unwrap(), seat["stage"].as_str().unwrap())
    };
    prompts(dir).into_iter().map(one).collect()
}

/// The texts that a turn was given.
fn heard(prompt: &Value) -> Vec<&str> {
    let artifacts = prompt["task"]["artifacts"].as_array();
    artifacts.into_iter().flatten().filter_map(|artifact| artifact["parts"][0]["text"].as_str()).collect()
}

fn session(id: &str, graph: Value) -> Value {
    json!({ "taskId": id, "description": "a plan", "capability": "session", "input": graph })
}

async fn view(mesh: &Process, host: &str, id: &str) -> Value {
    let url = format!("{}/a2a/tasks/{id}/session", mesh.agents[host]);
    mesh.call_as_person(Method::GET, &url, None).await.body["session"].clone()
}

/// Waits for the turn of a seat.
async fn at_turn(dir: &Path, turn: &str) {
    eventually(&format!("the turn {turn}"), async || turns(dir).iter().any(|at| at == turn).then_some(()))
        .await;
}

fn hold(dir: &Path, agent: &str) {
    file(dir, &format!("hold-{agent}"), "");
}

fn release(dir: &Path, agent: &str) {
    std::fs::remove_file(dir.join(format!("hold-{agent}"))).unwrap();
}

#[tokio::test]
async fn convene_shows_what_is_said_and_says_how_it_ended() {
    let dir = directory();
    let at = dir.path();
    script(
        at,
        json!({
            "planner-01 table.1.1": [
                { "type": "say", "to": ["builder-01"], "text": "one\ntwo" }, pass("use SQLite")
            ],
            "builder-01 table.1.1": [done("agreed")],
            "planner-01 table.1.2": [done("good")],
            "planner-01 quiet.1.1": [{ "type": "pass" }], "planner-01 quiet.1.2": [{ "type": "pass" }],
            "planner-01 quiet.1.3": [{ "type": "pass" }],
            "builder-01 led.1.1": [done("led")],
        }),
    );
    let running = Process::up(&agents(at, &["planner-01", "builder-01"])).await;
    let token = running.data.join("token").to_string_lossy().into_owned();
    let envs = [("MESH_URL", running.url.as_str()), ("MESH_TOKEN_FILE", token.as_str())];
    let convene = |args: &[&str]| {
        let args = [&["convene"], args].concat();
        mesh(&args, &envs)
    };
    let verbose =
        ["convene", "planner-01", "builder-01", "Which database?", "--verbose", "--task-id", "t-shown"];
    let (code, _, errors) = mesh(&verbose, &envs[..1]);
    assert!(code == 2 && errors.contains("only with the person's token"), "{errors}");
    let (code, said, errors) = convene(&verbose[1..]);
    let expected = "[table 1] planner-01 → builder-01: one\n    two\n[table 1] planner-01: use SQLite\n\
                    [table 1] builder-01: agreed\n[table 1] builder-01: agreed\n[table 2] planner-01: good\n";
    assert_eq!((code, said.as_str()), (0, expected), "{errors}");
    assert!(errors.contains("stage table: done") && errors.contains("used: 4 of 200 turns"), "{errors}");
    let seen = |args: &[&str]| {
        let (code, said, errors) = mesh(args, &envs);
        assert_eq!(code, 0, "{args:?}: {said}{errors}");
        (said, errors)
    };
    let (watched, progress) = seen(&["tasks", "watch", "t-shown"]);
    assert!(watched == expected && progress.contains("used: 4 of 200 turns"), "{watched}{progress}");
    let (shown, summary) = seen(&["tasks", "show", "t-shown"]);
    assert!(shown.ends_with(expected) && summary.contains("used: 4 of 200 turns"), "{shown}{summary}");
    let out = at.join("out");
    seen(&["tasks", "show", "t-shown", "--out", &out.to_string_lossy()]);
    assert_eq!(std::fs::read_to_string(out.join("transcript.txt")).unwrap(), expected);
    assert_eq!(std::fs::read_to_string(out.join("table.1.planner-01.2")).unwrap(), "good");
    let (trace, _) = seen(&["trace", "t-shown"]);
    let turns = ["stage table  4 turns", "1 planner-01  planner-01  completed", "2 planner-01  planner-01"];
    assert!(turns.iter().all(|line| trace.contains(line)) && !trace.contains("tell"), "{trace}");
    assert!(seen(&["trace", "t-shown", "--spans"]).0.contains("tell task-request"));
    let (all, tasks) = (seen(&["tasks", "--all"]).0, seen(&["tasks"]).0);
    assert!(all.contains("table 2 planner-01: Which") && !tasks.contains("table 2"), "{all}{tasks}");
    assert!(tasks.contains("t-shown"), "{tasks}");
    let (code, said, errors) = convene(&["planner-01", "builder-01", "Which database?", "--quiet"]);
    assert_eq!((code, said.as_str()), (0, "good\n"), "{errors}");
    let graph = file(at, "quiet.yaml", "stages: [{ id: quiet, order: turns, seats: [planner-01] }]");
    let graph = graph.to_string_lossy();
    assert_eq!(seen(&["validate", &graph]).0, format!("valid: {graph} is a session\n"));
    let bad = file(at, "bad.yaml", "stages: [{ id: a, order: turn, seats: [x] }]");
    let (code, _, errors) = mesh(&["validate", &bad.to_string_lossy()], &[]);
    assert!(
        code != 0
            && errors.contains("bad.yaml:1: stages[0].order: must be `parallel` or `turns`, not `turn`"),
        "{code} {errors}"
    );
    let typo = file(at, "typo.yaml", "stage: [{ id: a, seats: [x] }]");
    let (code, _, errors) = mesh(&["validate", &typo.to_string_lossy()], &[]);
    assert!(code != 0 && errors.contains("stage: unknown key; did you mean `stages`?"), "{code} {errors}");
    let (code, _, errors) = mesh(&["up", &graph], &[]);
    assert!(code != 0 && errors.contains("describes a session, not agents"), "{code} {errors}");
    let (code, _, errors) = convene(&[&graph, "Say nothing."]);
    assert_eq!(code, 1, "{errors}");
    assert!(
        errors.contains("incomplete: stage quiet: nobody said or did anything in 3 rounds in a row"),
        "{errors}"
    );
    let (code, id, errors) = convene(&[&graph, "Say nothing.", "--no-wait"]);
    assert!(code == 0 && id.starts_with("t-"), "{id} {errors}");
    let led = file(at, "led.yaml", "cast: { lead: builder-01 }\nstages: [{ id: led, seats: [lead] }]");
    let led = led.to_string_lossy();
    let (code, _, errors) = convene(&[&led, "Lead.", "--verbose"]);
    assert!(code == 0 && errors.contains("hosted by builder-01"), "{code} {errors}");
    let (code, _, errors) = convene(&[&led, "Lead.", "--verbose", "--host", "planner-01"]);
    assert!(code == 0 && errors.contains("hosted by planner-01"), "{code} {errors}");
    let (code, _, errors) = convene(&["nobody-01", "Which database?"]);
    assert!(code == 6 && errors.contains("seat nobody-01: no such agent"), "{code} {errors}");
    assert_eq!(convene(&["planner-01"]).0, 2, "a goal is needed");
}

#[tokio::test]
async fn line_23_and_26_a_round_table_takes_turns_and_each_seat_hears_what_is_for_it() {
    let dir = directory();
    let at = dir.path();
    script(
        at,
        json!({
            "planner-01 table.1.1": [{ "type": "say", "to": ["builder-01"], "text": "only for you" }, pass("use SQLite")],
            "builder-01 table.1.1": [pass("too slow")],
            "tester-01 table.1.1": [done("fine with me")],
            "planner-01 table.1.2": [done("then Postgres")],
            "builder-01 table.1.2": [done("agreed")],
        }),
    );
    let mesh = Process::up(&agents(at, &["planner-01", "builder-01", "tester-01"])).await;
    let host = mesh.agent("planner-01");
    let stage =
        json!({ "id": "table", "order": "turns", "seats": ["planner-01", "builder-01", "tester-01"] });
    let task = host.ask(session("t-1", json!({ "stages": [stage] }))).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "agreed"), "{task:#}");
    let expected = [
        "planner-01 table.1.1",
        "builder-01 table.1.1",
        "tester-01 table.1.1",
        "planner-01 table.1.2",
        "builder-01 table.1.2",
    ];
    assert_eq!(turns(at), expected);
    let prompts = prompts(at);
    assert_eq!(heard(&prompts[1]), ["only for you", "use SQLite"], "{:#}", prompts[1]);
    assert_eq!(heard(&prompts[2]), ["use SQLite", "too slow"], "the message was for another seat");
    let new = &prompts[3]["task"]["input"]["seat"]["new"];
    assert_eq!(new.as_array().map(Vec::len), Some(2), "{new}");
    let shown = view(&mesh, "planner-01", "t-1").await;
    assert_eq!(shown["stages"][0]["label"], "done", "{shown:#}");
    assert_eq!(shown["budget"]["turns"], json!({ "used": 5, "limit": 200 }));
    let said: Vec<_> = task["artifacts"].as_array().unwrap().iter().collect();
    assert_eq!(said.last().unwrap()["artifactId"], "session");
    assert_eq!(said.len(), 8, "six messages, the summary and the record: {task:#}");
    let summary = said[6]["parts"][0]["text"].as_str().unwrap();
    let expected = [
        "The session is completed.",
        "table: done, 2 rounds",
        "- planner-01: ",
        "- builder-01: ",
        "- tester-01: ",
    ];
    assert!(
        expected.iter().all(|part| summary.contains(part)) && !summary.contains("only for you"),
        "{summary}"
    );
    let view_of = |id: &str| format!("{}/a2a/tasks/{id}/session", host.url);
    let none = mesh.call_as_person(Method::GET, &view_of("t-2"), None).await;
    assert_eq!(refusal(&none).0, 404);
    let unproven = call(Method::GET, &view_of("t-1"), None).await;
    assert_eq!(refusal(&unproven).0, 404, "anything on the machine could ask");
}

#[tokio::test]
async fn seats_in_python_in_javascript_and_with_a_model_speak_to_each_other() {
    let dir = directory();
    let at = dir.path();
    file(at, "mesh_agent.py", include_str!("../../agent-node/templates/python/mesh_agent.py"));
    file(at, "mesh-agent.mjs", include_str!("../../agent-node/templates/node/mesh-agent.mjs"));
    let python = "
import mesh_agent as agent
@agent.turn
def work(turn):
    if turn.seat['round'] == 1:
        turn.say('javascript-01', 'for you')
        turn.pass_('from python')
    turn.done('end', label='good')
agent.run()
";
    let javascript = "
import { run } from './mesh-agent.mjs';
run(import.meta.url, (turn) => {
  const heard = turn.task.artifacts.map((artifact) => artifact.parts[0].text).join(', ');
  if (turn.seat.round === 1) turn.pass(heard);
  turn.done(heard);
});
";
    let (python, javascript) = (file(at, "brain.py", python), file(at, "brain.mjs", javascript));
    let stub = ModelStub::start(|request| match request.user.last().unwrap().contains("\"round\": 1") {
        true => calls(&[
            ("say", json!({ "to": ["python-01"], "text": "quietly" })),
            ("pass", json!({ "message": "from a model" })),
        ]),
        false => says("a model ends"),
    });
    let team = format!(
        "
agents:
  - {{ agent: python-01, skills: [a], brain: {{ exec: {{ command: [python3, '{}'], worker: true }} }} }}
  - {{ agent: javascript-01, skills: [b], brain: {{ exec: {{ command: [node, '{}'], worker: true }} }} }}
  - {{ agent: thinker-01, skills: [c], brain: {{ llm: {{ {} }} }} }}
",
        python.display(),
        javascript.display(),
        super::llm::model(&stub, "openai"),
    );
    let mesh = Process::up(&team).await;
    let stage =
        json!({ "id": "table", "order": "turns", "seats": ["python-01", "javascript-01", "thinker-01"] });
    let task = mesh.agent("python-01").ask(session("t-1", json!({ "stages": [stage] }))).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    let said = said(&task, "table.");
    let first = ["for you", "from python", "for you, from python", "quietly", "from a model"];
    assert_eq!(said[..5], first, "{task:#}");
    assert!(said[6].ends_with("from a model, end"), "{task:#}");
    assert_eq!(said[7..], ["a model ends"], "the last words of a model are no artifact beside: {task:#}");
    let requests = stub.requests();
    assert!(requests[0].user[0].contains("said by python-01"), "{:?}", requests[0].user);
    assert!(["say", "pass", "finish"].iter().all(|tool| requests[0].tools.iter().any(|name| name == tool)));
    assert_eq!(view(&mesh, "python-01", "t-1").await["stages"][0]["label"], "good");
    let plain = mesh.agent("thinker-01").ask(json!({ "description": "say hi", "capability": "c" })).await;
    assert_eq!(artifact(&plain, "answer").as_deref(), Some("a model ends"));
    assert!(!stub.requests().last().unwrap().tools.contains(&"pass".to_owned()));
}

#[tokio::test]
async fn a_graph_goes_where_labels_lead_and_its_guard_ends_a_loop() {
    let dir = directory();
    let at = dir.path();
    let again = json!([{ "type": "done", "message": "more, please", "label": "again" }]);
    script(
        at,
        json!({
            "planner-01": [done("a draft")], "builder-01": [done("built")], "tester-01": again,
        }),
    );
    let mesh = Process::up(&agents(at, &["planner-01", "builder-01", "tester-01"])).await;
    let graph = json!({ "stages": [
        { "id": "draft", "seats": ["planner-01"] },
        { "id": "build", "after": ["draft"], "seats": [{ "capability": "builder-01-work", "name": "builder" }] },
        { "id": "check", "after": ["build"], "seats": ["tester-01"], "next": { "again": "build" }, "loops": 2 },
    ] });
    let host = mesh.agent("planner-01");
    let task = host.ask(session("t-1", graph)).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    let expected = [
        "planner-01 draft.1.1",
        "builder-01 build.1.1",
        "tester-01 check.1.1",
        "builder-01 build.2.1",
        "tester-01 check.2.1",
        "builder-01 build.3.1",
        "tester-01 check.3.1",
    ];
    assert_eq!(turns(at), expected);
    assert!(heard(&prompts(at)[1]).contains(&"a draft"), "a stage is given what the one before made");
    assert!(heard(&prompts(at)[3]).contains(&"more, please"), "a stage that begins again is told why");
    let shown = view(&mesh, "planner-01", "t-1").await;
    assert!(shown["notes"].to_string().contains("2 of 2 times"), "{shown:#}");
    assert_eq!(shown["stages"][1]["seats"][0]["agent"], "builder-01", "{shown:#}");
}

#[tokio::test]
async fn silent_rounds_and_a_budget_end_a_session_as_incomplete() {
    let dir = directory();
    let at = dir.path();
    script(
        at,
        json!({
            "planner-01": [{ "type": "pass" }], "builder-01": [{ "type": "pass" }],
            "planner-01 talk.1.1": [pass("one")], "builder-01 talk.1.1": [pass("two")],
            "planner-01 talk.1.2": [pass("three")],
        }),
    );
    let mesh = Process::up(&agents(at, &["planner-01", "builder-01"])).await;
    let host = mesh.agent("planner-01");
    let task = host.ask(session("t-1", json!({ "seats": ["planner-01", "builder-01"] }))).await;
    assert_eq!(state(&task), "failed", "{task:#}");
    assert!(message(&task).starts_with("incomplete: "), "{task:#}");
    assert!(message(&task).contains("nobody said or did anything in 3 rounds in a row"), "{task:#}");
    let talk = json!({ "id": "talk", "order": "turns", "seats": ["planner-01", "builder-01"] });
    let graph = json!({ "budget": { "turns": 3 }, "stages": [talk] });
    let task = host.ask(session("t-2", graph)).await;
    assert_eq!(state(&task), "failed", "{task:#}");
    assert!(message(&task).contains("budget.turns: 3 used up"), "{task:#}");
    assert_eq!(
        artifact(&task, "talk.1.planner-01.2").as_deref(),
        Some("three"),
        "what was said is kept: {task:#}"
    );
}

#[tokio::test]
async fn a_session_that_can_not_work_is_refused_before_it_begins() {
    let dir = directory();
    let mesh = Process::up(&agents(dir.path(), &["planner-01", "builder-01"])).await;
    let host = mesh.agent("planner-01");
    let post = async |graph: Value| -> Answer { host.post(&host.request(session("t-1", graph))).await };
    for (graph, part) in [
        (json!({ "seats": ["nobody-01"] }), "seat nobody-01: no such agent is registered"),
        (json!({ "seets": ["planner-01"] }), "payload.input: seets: unknown key; did you mean `seats`?"),
        (json!({}), "a session needs `seats`, `phases`, `stages`, or a `preset`"),
    ] {
        let refused = post(graph).await;
        assert_eq!(refusal(&refused).0, 400, "{refused:?}");
        assert!(refusal_text(&refused).contains(part), "{refused:?}");
    }
    assert!(turns(dir.path()).is_empty());
}

#[tokio::test]
async fn a_session_that_is_canceled_ends_the_turn_that_runs() {
    let dir = directory();
    let at = dir.path();
    script(at, json!({}));
    let mesh = Process::up(&agents(at, &["planner-01", "builder-01"])).await;
    let host = mesh.agent("planner-01");
    hold(at, "builder-01");
    host.send(session("t-1", json!({ "seats": ["builder-01", "planner-01"] }))).await;
    at_turn(at, "builder-01 table.1.1").await;
    let shown = view(&mesh, "planner-01", "t-1").await;
    assert_eq!(shown["stages"][0]["working"], json!(["builder-01"]), "{shown:#}");
    let turn = prompts(at)[0]["task"]["taskId"].as_str().unwrap().to_owned();
    let reason = json!({ "reason": "enough" });
    let answer = host.call_on_task(Method::POST, "t-1", "/cancel", Some(&reason)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    host.task_in("t-1", &["canceled"]).await;
    let shown = view(&mesh, "planner-01", "t-1").await;
    assert_eq!(
        (&shown["over"], &shown["stages"][0]["state"]),
        (&json!(true), &json!("stopped")),
        "{shown:#}"
    );
    mesh.agent("builder-01").task_in(&turn, &["canceled"]).await;
    assert_eq!(turns(at), ["builder-01 table.1.1"]);
}

#[tokio::test]
async fn a_killed_host_and_a_killed_seat_lose_no_turn_and_repeat_none() {
    let cluster = Cluster::start().await;
    let at = cluster.dir.path();
    let lines = |text: &str| json!([pass(text)]);
    script(
        at,
        json!({
            "seat-01 table.1.1": lines("one"), "seat-02 table.1.1": lines("two"),
            "seat-01 table.1.2": lines("three"), "seat-02 table.1.2": lines("four"),
            "seat-01 table.1.3": [done("five")], "seat-02 table.1.3": [done("six")],
        }),
    );
    let (hosts, first, second) =
        (agents(at, &["host-01"]), agents(at, &["seat-01"]), agents(at, &["seat-02"]));
    let (mut host, one, mut two) =
        tokio::join!(cluster.node("host", &hosts), cluster.node("one", &first), cluster.node("two", &second));
    cluster.wait_for_agents(&["host-01", "seat-01", "seat-02"]).await;
    eventually("the host knows the seats", async || {
        let state = get(&format!("{}/state", host.agents["host-01"])).await;
        let peers = state["peers"].as_array()?;
        ["seat-01", "seat-02"].iter().all(|id| peers.contains(&json!(id))).then_some(())
    })
    .await;
    hold(at, "seat-02");
    host.agent("host-01").send(session("t-1", json!({ "seats": ["seat-01", "seat-02"] }))).await;
    at_turn(at, "seat-02 table.1.1").await;
    // The host dies while a seat works; the seat ends its turn before the host is back.
    host.kill();
    hold(at, "seat-01");
    release(at, "seat-02");
    host.revive().await;
    at_turn(at, "seat-01 table.1.2").await;
    // A seat dies in its turn: the same turn begins again.
    hold(at, "seat-02");
    release(at, "seat-01");
    at_turn(at, "seat-02 table.1.2").await;
    two.kill();
    let watching = host.agent("host-01").seen_by_the_person_of(&cluster.registry);
    eventually("that the seat is not reachable", async || {
        let view = watching.call_on_task(Method::GET, "t-1", "/session", None).await.body;
        let seats = &view["session"]["stages"][0]["seats"];
        (seats[1]["reachable"] == false && seats[0].get("reachable").is_none()).then_some(())
    })
    .await;
    let before = turns(at).len();
    release(at, "seat-02");
    two.revive().await;
    let seen = host.agent("host-01").seen_by_the_person_of(&cluster.registry);
    let task = seen.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "six"), "{task:#}");
    assert_eq!(said(&task, "table."), ["one", "two", "three", "four", "five", "six"], "{task:#}");
    let prompts = prompts(at);
    let again = &prompts[before];
    assert_eq!(again["key"], prompts[before - 1]["key"], "the turn that was cut begins under its own key");
    let tasks: std::collections::BTreeSet<_> =
        prompts.iter().map(|prompt| prompt["task"]["taskId"].as_str().unwrap().to_owned()).collect();
    assert_eq!((tasks.len(), prompts.len()), (6, 7), "{:?}", turns(at));
    drop(one);
}

#[tokio::test]
async fn line_42_planned_work_is_given_the_decisions_only_and_line_69_goes_on_after_kill_9() {
    let dir = directory();
    let at = dir.path();
    let plan = json!([
        { "id": "api", "task": "Write it.", "agent": "maker-01" },
        { "id": "docs", "task": "Explain it.", "agent": "maker-01", "after": ["api"] },
    ]);
    script(
        at,
        json!({
            "lead-01 plan.1.1": [done(&plan.to_string())], "lead-01": [done("whole")], "maker-01": [done("made")],
        }),
    );
    let mut running = Process::up(&agents(at, &["lead-01", "maker-01"])).await;
    let token = running.data.join("token");
    for entry in [["decision", "Use SQLite."], ["memory", "The build is slow."]] {
        let envs = [("MESH_URL", running.url.as_str()), ("MESH_TOKEN_FILE", token.to_str().unwrap())];
        let (code, _, errors) = match entry[0] {
            "decision" => mesh(&["space", "post", "decision", entry[1], "--type", "architectural"], &envs),
            _ => mesh(&["space", "post", "memory", entry[1], "--type", "learning", "--scope", "team"], &envs),
        };
        assert_eq!(code, 0, "{entry:?}: {errors}");
    }
    let graph = json!({ "stages": [
        { "id": "plan", "seats": ["lead-01"], "makes": "work-plan", "children": { "brief": ["decisions"] } },
        { "id": "end", "after": ["plan/*"], "seats": ["lead-01"] },
    ] });
    hold(at, "maker-01");
    running.agent("lead-01").send(session("t-1", graph)).await;
    at_turn(at, "maker-01 plan/api.1.1").await;
    running.kill();
    let running = running.restart().await;
    release(at, "maker-01");
    let task = running.agent("lead-01").task_in("t-1", &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "whole"), "{task:#}");
    let mut given = turns(at);
    given.dedup();
    let expected = ["lead-01 plan.1.1", "maker-01 plan/api.1.1", "maker-01 plan/docs.1.1", "lead-01 end.1.1"];
    assert_eq!(given, expected, "only the turn that was under way is begun again");
    for prompt in prompts(at) {
        let brief = prompt["brief"]["text"].as_str().unwrap();
        let is_lead = prompt["agent"] == "lead-01";
        assert!(
            brief.contains("Use SQLite.") && brief.contains("The build is slow.") == is_lead,
            "{prompt:#}"
        );
    }
}

/// Line 41: a completed session at whose gate a person has approved decides what its host has proposed in it. What another seat
/// has proposed waits for a person, and so does everything after a session without an approval, and after one that failed.
#[tokio::test]
async fn line_41_a_session_that_a_person_approves_merges_the_decisions_that_its_host_has_proposed() {
    let dir = directory();
    let at = dir.path();
    let mesh = Process::up(&agents(at, &["planner-01", "builder-01"])).await;
    let propose = |of_type: &str, title: &str| json!({ "type": "propose", "entryType": of_type, "title": title, "content": title });
    let host = mesh.agent("planner-01");
    let graph = json!({ "seats": ["planner-01", "builder-01"] });
    let token = mesh.data.join("token");
    let as_person = |args: &[&str]| {
        let envs = [("MESH_URL", mesh.url.as_str()), ("MESH_TOKEN_FILE", token.to_str().unwrap())];
        let (code, said, errors) = crate::harness::mesh(args, &envs);
        assert_eq!(code, 0, "{args:?}: {errors}");
        said
    };
    let entries = async |query: &str| {
        let url = format!("{}/board/spaces/default/entries?{query}", mesh.url);
        let page = mesh.call_as_person(Method::GET, &url, None).await;
        let entries = page.body["entries"].as_array().unwrap_or_else(|| panic!("{page:?}")).clone();
        let mut titles: Vec<_> =
            entries.iter().map(|entry| entry["title"].as_str().unwrap().to_owned()).collect();
        titles.sort();
        titles
    };
    let failing = json!([propose("scope", "of-a-failed-session"), { "type": "failed", "reason": "no" }]);
    script(at, json!({ "planner-01": failing, "builder-01": [done("b")] }));
    assert_eq!(state(&host.ask(session("t-1", graph.clone())).await), "failed");
    script(
        at,
        json!({
            "planner-01": [
                propose("architectural", "use-sqlite"), propose("scope", "no-mail"), propose("process", "review-twice"),
                done("a"),
            ],
            "builder-01": [propose("architectural", "use-postgres"), done("b")],
        }),
    );
    assert_eq!(state(&host.ask(session("t-2", graph.clone())).await), "completed");
    let waiting = ["no-mail", "of-a-failed-session", "review-twice", "use-postgres", "use-sqlite"];
    // The posts of a turn reach the board on their own; a session may end before the last of them is there.
    eventually("the proposals", async || {
        (entries("kind=proposal&status=pending").await == waiting).then_some(())
    })
    .await;
    assert_eq!(entries("kind=decision").await, [""; 0], "no person has approved");
    let inbox = as_person(&["inbox"]);
    assert!(inbox.contains("use-sqlite"), "{inbox}");
    for slug in ["no-mail", "use-sqlite"] {
        as_person(&["space", "reject", slug, "not now"]);
    }
    let propose = |of_type: &str, title: &str| propose(of_type, &format!("{title}-again"));
    let of_host = json!([propose("architectural", "use-sqlite"), propose("scope", "no-mail"), done("a")]);
    script(at, json!({ "planner-01": of_host, "builder-01": [propose("scope", "use-postgres"), done("b")] }));
    let gated = json!({ "stages": [
        { "id": "all", "seats": ["planner-01", "builder-01"], "gate": ["approve", "decline"] },
    ] });
    host.send(session("t-3", gated)).await;
    host.task_in("t-3", &["input_required"]).await;
    assert_eq!(entries("kind=decision").await, [""; 0]);
    as_person(&["answer", "t-3", "--approve"]);
    eventually("the decisions", async || {
        (entries("kind=decision&status=active").await == ["no-mail-again", "use-sqlite-again"]).then_some(())
    })
    .await;
    let waiting = ["of-a-failed-session", "review-twice", "use-postgres", "use-postgres-again"];
    eventually("the other proposals", async || {
        (entries("kind=proposal&status=pending").await == waiting).then_some(())
    })
    .await;
    let merged = format!("{}/board/spaces/default/entries?kind=proposal&status=merged", mesh.url);
    let merged = mesh.call_as_person(Method::GET, &merged, None).await.body["entries"][0].clone();
    assert_eq!(
        (&merged["changedBy"], &merged["session"], &merged["author"]),
        (&json!("service:board"), &json!("t-3"), &json!("agent:planner-01")),
        "{merged:#}"
    );
    assert!(merged["reason"].as_str().unwrap().contains("the session t-3"), "{merged:#}");
}
