//! Sessions with the real program: seats are commands that say what the test tells them, and stop where it wants.

use crate::harness::{
    Answer, Process, artifact, call,
    cluster::Cluster,
    directory,
    documentation::{blocks, shell},
    eventually, file, get, mesh, message,
    model_stub::{ModelStub, calls, says},
    refusal, refusal_text, state,
};
use protocol::task::EXTENSION;
use reqwest::Method;
use serde_json::{Value, json};
use std::path::Path;

/// Takes the lines of a turn from `script.json` beside it, by agent and `stage.iteration.round`, or by agent alone. It notes the
/// prompt in `prompts`, and waits while `hold-AGENT` is there.
const SEAT: &str = r#"
import json, os, sys, time
here = os.path.dirname(os.path.abspath(__file__))
turn = json.loads(sys.stdin.readline())
seat, agent = turn["task"]["input"]["seat"], turn["agent"]
with open(os.path.join(here, "prompts"), "a") as prompts:
    prompts.write(json.dumps(turn) + "\n")
while os.path.isdir(here) and os.path.exists(os.path.join(here, "hold-" + agent)):
    time.sleep(0.02)
script = json.load(open(os.path.join(here, "script.json")))
place = "%s %s.%s.%s" % (agent, seat["stage"], seat["iteration"], seat["round"])
for line in script.get(place, script.get(agent, [])):
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

async fn view(at: &str, id: &str) -> Value {
    get(&format!("{at}/a2a/tasks/{id}/session")).await["session"].clone()
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
async fn the_commands_of_the_page_run_as_shown() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let team = root.join("deploy/examples/round-table/team.yaml");
    let dir = directory();
    let args = ["up", "--port", "0", "--profile", "fast", &team.to_string_lossy()].map(str::to_owned);
    let mesh = Process::run(dir.path().join("data"), args.to_vec(), None).await;
    let page = include_str!("../../docs/sessions.md");
    let outputs: Vec<_> = blocks(page, "sh")
        .into_iter()
        .flat_map(str::lines)
        .map(|line| {
            let output = shell(root, line, &[("MESH_URL", &mesh.url)]);
            assert!(output.status.success(), "{line}: {output:?}");
            String::from_utf8(output.stdout).unwrap()
        })
        .collect();
    assert_eq!(outputs.len(), 2, "{outputs:?}");
    let table = outputs[0].lines().collect::<Vec<_>>();
    assert_eq!(table[0], "[table 1] planner-01: SQLite: one file, nothing to run.", "{outputs:?}");
    assert_eq!(table.len(), 6, "{outputs:?}");
    assert!(outputs[1].contains("[check 1] critic-01: Say what it costs, too."), "{outputs:?}");
    for line in page.lines().filter_map(|line| line.strip_prefix("    [")) {
        assert!(outputs[1].contains(line), "{line}: {outputs:?}");
    }
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
            "planner-01 quiet.1.1": [{ "type": "pass" }],
        }),
    );
    let running = Process::up(&agents(at, &["planner-01", "builder-01"])).await;
    let convene = |args: &[&str]| {
        let args = [&["convene"], args].concat();
        mesh(&args, &[("MESH_URL", running.url.as_str())])
    };
    let (code, said, errors) = convene(&["planner-01", "builder-01", "Which database?", "--verbose"]);
    let expected = "[table 1] planner-01 → builder-01: one\n    two\n[table 1] planner-01: use SQLite\n\
                    [table 1] builder-01: agreed\n[table 2] planner-01: good\n";
    assert_eq!((code, said.as_str()), (0, expected), "{errors}");
    assert!(errors.contains("stage table: done") && errors.contains("used: 3 of 200 turns"), "{errors}");
    let (code, said, errors) = convene(&["planner-01", "builder-01", "Which database?", "--quiet"]);
    assert_eq!((code, said.as_str()), (0, "good\n"), "{errors}");
    let graph = file(at, "quiet.yaml", "stages: [{ id: quiet, order: turns, seats: [planner-01] }]");
    let graph = graph.to_string_lossy();
    let (code, _, errors) = convene(&[&graph, "Say nothing."]);
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains("incomplete: stage quiet: nobody said anything in round 1"), "{errors}");
    let (code, id, errors) = convene(&[&graph, "Say nothing.", "--no-wait"]);
    assert!(code == 0 && id.starts_with("t-"), "{id} {errors}");
    let (code, _, errors) = convene(&["nobody-01", "Which database?"]);
    assert!(code == 6 && errors.contains("seat nobody-01: no such agent"), "{code} {errors}");
    assert_eq!(convene(&["planner-01"]).0, 2, "a goal is needed");
}

#[tokio::test]
async fn a_round_table_takes_turns_and_each_seat_hears_what_is_for_it() {
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
    let graph = json!({ "seats": ["planner-01", "builder-01", "tester-01"] });
    let task = host.ask(session("t-1", graph)).await;
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
    let shown = view(&host.url, "t-1").await;
    assert_eq!(shown["stages"][0]["label"], "done", "{shown:#}");
    assert_eq!(shown["budget"]["turns"], json!({ "used": 5, "limit": 200 }));
    let said: Vec<_> = task["artifacts"].as_array().unwrap().iter().collect();
    assert_eq!(said.last().unwrap()["artifactId"], "session");
    assert_eq!(said.len(), 7, "six messages and the record: {task:#}");
    let none = call(Method::GET, &format!("{}/a2a/tasks/t-2/session", host.url), None).await;
    assert_eq!(refusal(&none).0, 404);
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
    let stub = ModelStub::start(|request| match request.user[0].contains("\"round\": 1") {
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
    let graph = json!({ "seats": ["python-01", "javascript-01", "thinker-01"] });
    let task = mesh.agent("python-01").ask(session("t-1", graph)).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    let said = |n: u32| artifact(&task, &format!("table.{n}")).unwrap_or_default();
    assert_eq!([said(1), said(2)], ["for you", "from python"], "{task:#}");
    assert_eq!([said(3), said(4)], ["for you, from python", "quietly"], "{task:#}");
    assert_eq!(said(5), "from a model", "{task:#}");
    assert!(said(7).ends_with("from a model, end"), "{task:#}");
    let requests = stub.requests();
    assert!(requests[0].user[0].contains("said by python-01"), "{:?}", requests[0].user);
    assert!(["say", "pass", "finish"].iter().all(|tool| requests[0].tools.iter().any(|name| name == tool)));
    assert_eq!(view(&mesh.agent("python-01").url, "t-1").await["stages"][0]["label"], "good");
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
    let shown = view(&host.url, "t-1").await;
    assert!(shown["notes"].to_string().contains("2 of 2 times"), "{shown:#}");
    assert_eq!(shown["stages"][1]["seats"][0]["agent"], "builder-01", "{shown:#}");
}

#[tokio::test]
async fn a_silent_round_and_a_budget_end_a_session_as_incomplete() {
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
    assert!(message(&task).contains("nobody said anything in round 1"), "{task:#}");
    let talk = json!({ "id": "talk", "order": "turns", "seats": ["planner-01", "builder-01"] });
    let graph = json!({ "budget": { "turns": 3 }, "stages": [talk] });
    let task = host.ask(session("t-2", graph)).await;
    assert_eq!(state(&task), "failed", "{task:#}");
    assert!(message(&task).contains("budget.turns: 3 used up"), "{task:#}");
    assert_eq!(artifact(&task, "talk.3").as_deref(), Some("three"), "what was said is kept: {task:#}");
}

#[tokio::test]
async fn a_session_that_can_not_work_is_refused_before_it_begins() {
    let dir = directory();
    let mesh = Process::up(&agents(dir.path(), &["planner-01", "builder-01"])).await;
    let host = mesh.agent("planner-01");
    let post = async |graph: Value| -> Answer { host.post(&host.request(session("t-1", graph))).await };
    for (graph, part) in [
        (json!({ "seats": ["nobody-01"] }), "seat nobody-01: no such agent is registered"),
        (json!({ "seets": ["planner-01"] }), "unknown field `seets`"),
        (json!({}), "a session needs `seats`, or `stages`"),
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
    let shown = view(&host.url, "t-1").await;
    assert_eq!(shown["stages"][0]["working"], json!(["builder-01"]), "{shown:#}");
    let turn = prompts(at)[0]["task"]["taskId"].as_str().unwrap().to_owned();
    let answer = call(
        Method::POST,
        &format!("{}/a2a/tasks/t-1/cancel", host.url),
        Some(&json!({ "reason": "enough" })),
    )
    .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    host.task_in("t-1", &["canceled"]).await;
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
    let before = turns(at).len();
    release(at, "seat-02");
    two.revive().await;
    let task = host.agent("host-01").task_in("t-1", &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "six"), "{task:#}");
    let said: Vec<_> = (1..=6).filter_map(|n| artifact(&task, &format!("table.{n}"))).collect();
    assert_eq!(said, ["one", "two", "three", "four", "five", "six"], "{task:#}");
    let prompts = prompts(at);
    let again = &prompts[before];
    assert_eq!(again["key"], prompts[before - 1]["key"], "the turn that was cut begins under its own key");
    let tasks: std::collections::BTreeSet<_> =
        prompts.iter().map(|prompt| prompt["task"]["taskId"].as_str().unwrap().to_owned()).collect();
    assert_eq!((tasks.len(), prompts.len()), (6, 7), "{:?}", turns(at));
    drop(one);
}

#[tokio::test]
async fn line_52_a_gate_holds_what_follows_until_a_person_approves() {
    let dir = directory();
    let at = dir.path();
    script(
        at,
        json!({
            "lead-01 spec.1.1": [done("a page with passwords")],
            "lead-01 spec.2.1": [done("a page with passkeys")],
            "maker-01": [done("built")],
        }),
    );
    let mut running = Process::up(&agents(at, &["lead-01", "maker-01"])).await;
    let graph = json!({ "stages": [
        { "id": "spec", "seats": ["lead-01"], "gate": ["approve", "revise", "decline"] },
        { "id": "build", "after": ["spec"], "seats": ["maker-01"] },
    ] });
    let lead = running.agent("lead-01");
    lead.send(session("t-1", graph.clone())).await;
    let task = lead.task_in("t-1", &["input_required"]).await;
    assert!(message(&task).contains("a page with passwords"), "{task:#}");
    let shown = view(&lead.url, "t-1").await;
    assert_eq!(shown["stages"][0]["state"], "gated", "{shown:#}");
    // Neither words nor a loopback caller without the person's token get past it.
    let answer = format!("{}/a2a/tasks/t-1/answer", lead.url);
    let asked = &task["metadata"][EXTENSION]["questions"][0];
    let question = asked["id"].as_str().unwrap().to_owned();
    let words = call(Method::POST, &answer, Some(&json!({ "text": "approve" }))).await;
    assert_eq!(words.status, 409, "{words:?}");
    let decision = json!({ "questionId": question, "decision": "approve" });
    let nobody = call(Method::POST, &answer, Some(&decision)).await;
    assert_eq!(nobody.status, 403, "{nobody:?}");
    running.kill();
    let running = running.restart().await;
    let token = running.data.join("token");
    let person = |args: &[&str]| {
        let envs = [("MESH_URL", running.url.as_str()), ("MESH_TOKEN_FILE", token.to_str().unwrap())];
        mesh(args, &envs)
    };
    let (code, _, errors) = person(&["answer", "t-1", "--deny", "--reason", "no passwords"]);
    assert_eq!(code, 0, "{errors}");
    let lead = running.agent("lead-01");
    let task = eventually("the revised page", async || {
        let task = lead.task_in("t-1", &["input_required"]).await;
        message(&task).contains("passkeys").then_some(task)
    })
    .await;
    assert_eq!(heard(&prompts(at)[1]), ["a page with passwords", "no passwords"], "{task:#}");
    assert_eq!(turns(at), ["lead-01 spec.1.1", "lead-01 spec.2.1"], "nothing is built yet");
    let (code, _, errors) = person(&["answer", "t-1", "--approve"]);
    assert_eq!(code, 0, "{errors}");
    let task = lead.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "built"), "{task:#}");
    lead.send(session("t-2", graph)).await;
    lead.task_in("t-2", &["input_required"]).await;
    assert_eq!(person(&["answer", "t-2", "--deny"]).0, 0);
    let task = lead.task_in("t-2", &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("failed", "declined at stage spec"));
}

#[tokio::test]
async fn a_person_steers_a_session_while_it_runs() {
    let dir = directory();
    let at = dir.path();
    script(
        at,
        json!({
            "one-01 table.1.1": [pass("one")], "two-01 table.1.1": [pass("two")],
            "one-01 table.1.2": [pass("three")], "end-01": [done("the end")],
        }),
    );
    let running = Process::up(&agents(at, &["one-01", "two-01", "end-01"])).await;
    let host = running.agent("one-01");
    let graph = json!({ "stages": [
        { "id": "table", "order": "turns", "seats": ["one-01", "two-01"] },
        { "id": "end", "after": ["table"], "seats": ["end-01"] },
    ] });
    hold(at, "two-01");
    host.send(session("t-1", graph.clone())).await;
    at_turn(at, "two-01 table.1.1").await;
    let token = running.data.join("token");
    let steer = |args: &[&str]| {
        let envs = [("MESH_URL", running.url.as_str()), ("MESH_TOKEN_FILE", token.to_str().unwrap())];
        mesh(&[&["steer", "t-1"], args].concat(), &envs)
    };
    let directives = format!("{}/a2a/tasks/t-1/directives", host.url);
    let anybody = call(Method::POST, &directives, Some(&json!({ "verb": "stop" }))).await;
    assert_eq!(anybody.status, 403, "it needs the person's token: {anybody:?}");
    assert_eq!(steer(&["say", "be quick"]).1, "t-1 delivered\n");
    assert_eq!(steer(&["say", "be kind", "--stage", "end"]).1, "t-1 queued\n");
    let (code, _, errors) = steer(&["redirect", "--stage", "end"]);
    assert!(code != 0 && errors.contains("has not begun"), "{code} {errors}");
    hold(at, "one-01");
    release(at, "two-01");
    at_turn(at, "one-01 table.1.2").await;
    let prompt = prompts(at).pop().unwrap();
    assert_eq!(heard(&prompt), ["be quick", "two"], "{prompt:#}");
    assert_eq!(steer(&["skip", "we know enough", "--stage", "table"]).1, "t-1 delivered\n");
    let task = host.task_in("t-1", &["completed", "failed"]).await;
    release(at, "one-01");
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "the end"), "{task:#}");
    let prompt = prompts(at).pop().unwrap();
    assert!(heard(&prompt).contains(&"be kind") && heard(&prompt).contains(&"two"), "{prompt:#}");
    let (code, _, errors) = steer(&["stop"]);
    assert!(code != 0 && errors.contains("t-1 has ended"), "{code} {errors}");
}
