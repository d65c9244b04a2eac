//! Commands that stay for many turns: kept processes, acknowledged checkpoints, cancels and kills.

use crate::harness::{Process, artifact, call, eventually, message, state};
use reqwest::Method;
use serde_json::{Value, json};
use std::path::Path;

/// Counts its turns; the word of the task says what else it does.
const BRAIN: &str = r#"
import os, threading, time
import mesh_agent as agent

turns = 0
begun, told = threading.Event(), threading.Event()

@agent.turn
def work(turn):
    global turns
    turns += 1
    word = turn.task.description
    with open("pids", "a") as pids:
        pids.write(f"{os.getpid()}\n")
    if word == "die":
        os._exit(7)
    if word == "hang":
        turn.status("hangs")
        time.sleep(600)
    if word == "leave":
        def late():
            begun.wait(60)
            turn.artifact("late.txt", "of the turn before")
            told.set()
        threading.Thread(target=late, daemon=True).start()
    if word == "follow":
        begun.set()
        told.wait(60)
    if word == "calls":
        for n in range(3):
            turn.once(f"call {n}", lambda: open("calls", "a").write(f"{n}\n"))
            # The note is durable, so the call is made once even if the node is killed here.
            if n == 1 and not os.path.exists("gate"):
                turn.status("waits")
                time.sleep(600)
    return f"{os.getpid()} {turns}"

agent.run()
"#;

const MODULE: &str = include_str!("../../agent-node/templates/python/mesh_agent.py");

/// Bids by the word of the call.
const BIDDER: &str = r#"
import time
import mesh_agent as agent

@agent.bid
def bid(call):
    if call.description == "no":
        return "not my field"
    if call.description == "slow":
        time.sleep(600)
    if call.description == "dies":
        raise SystemExit(3)
    return agent.Bid(cost=call.cost * 2, eta="3s", match=0.5)

@agent.turn
def work(turn):
    return "done by " + turn.agent

agent.run()
"#;

#[tokio::test]
async fn a_brain_bids_itself_and_the_computed_bid_stands_in_for_it() {
    let bidder = |id: &str, members: &str| {
        format!(
            "{{ agent: {id}, skills: [dig], bid: {{ cost: 1, eta: 1s{members} }}, brain: {{ exec: {{ command: [python3, bidder.py], worker: true }} }} }}"
        )
    };
    let asked = bidder("asked-01", ", ask: brain, within: 5s");
    let team = format!(
        "mesh: {{ auction: {{ bidWindowMs: 600000 }} }}\nagents: [{{ agent: manager-01, brain: {{ echo: {{}} }} }}, {asked}, {}]",
        bidder("computed-01", "")
    );
    let mesh = Process::up_beside(&team, &[("bidder.py", BIDDER), ("mesh_agent.py", MODULE)]).await;
    let manager = mesh.agent("manager-01");
    let candidate = async |task: &str| {
        let award = manager.award(task).await;
        let candidates = award["rounds"][0]["candidates"].as_array().unwrap().clone();
        candidates.into_iter().find(|candidate| candidate["agent"] == "asked-01").unwrap()
    };
    let work = |word: &str| json!({ "taskId": word, "capability": "dig", "description": word });
    // The first answer starts the interpreter, which may take longer than the brain has.
    eventually("the brain bids", async || {
        let task = manager.ask(json!({ "capability": "dig", "description": "warm" })).await;
        let id = task["id"].as_str().unwrap().to_owned();
        (candidate(&id).await["bid"]["cost"] == 2.0).then_some(())
    })
    .await;
    let task = manager.ask(work("yes")).await;
    assert_eq!(message(&task), "done by computed-01", "{task:#}");
    let bid = candidate("yes").await["bid"].clone();
    assert_eq!(
        (&bid["cost"], &bid["eta"], &bid["capabilityMatch"]),
        (&json!(2.0), &json!(3_000), &json!(0.5))
    );
    manager.ask(work("no")).await;
    let passed = candidate("no").await;
    assert_eq!((&passed["bid"], &passed["why"]), (&Value::Null, &json!("not my field")), "{passed:#}");
    for word in ["slow", "dies"] {
        manager.ask(work(word)).await;
        let computed = candidate(word).await;
        assert_eq!(computed["bid"]["cost"], 1.0, "{word}: {computed:#}");
    }
    let log = mesh.log();
    assert!(log.contains("did not answer within") && log.contains("the computed one is sent"), "{log}");
}

/// The same template in JavaScript; a result must have the word "good".
const BRAIN_JS: &str = r#"
import { writeFileSync } from "node:fs";
import { run } from "./mesh-agent.mjs";

let turns = 0;

async function work(turn) {
  turns += 1;
  const word = turn.task.description;
  if (word === "hang") {
    turn.status("hangs");
    await new Promise((stop) => turn.cancelled.addEventListener("abort", stop));
    writeFileSync("stopped", String(process.pid));
    throw new Error("stopped");
  }
  await turn.once("begun", () => 1);
  const text = turn.revision ? `good: ${turn.revision.findings.trim()}` : word === "bad" ? "bad" : "good";
  turn.artifact("a.txt", text);
  return `${process.pid} ${turns}`;
}

const bid = ({ cfp, computed }) =>
  cfp.description === "no" ? "not my field" : { cost: computed.cost * 2, eta: "3s", match: 0.5 };

run(import.meta.url, work, { bid });
"#;
const MODULE_JS: &str = include_str!("../../agent-node/templates/node/mesh-agent.mjs");
const CHECK: &str = "grep -q good || { echo 'say good'; exit 1; }";

#[tokio::test]
async fn a_worker_in_javascript_bids_stops_and_corrects_its_result() {
    if std::process::Command::new("node").arg("--version").output().is_err() {
        eprintln!("skipped: node is not installed");
        return;
    }
    let team = "
mesh: { auction: { bidWindowMs: 600000 } }
agents:
  - { agent: manager-01, brain: { echo: {} } }
  - agent: js-01
    open: true
    skills: [dig]
    bid: { cost: 1, eta: 1s, ask: brain, within: 5s }
    brain: { exec: { command: [node, brain.mjs], worker: true } }
    accept: { exec: [sh, check.sh] }
";
    let files = [("brain.mjs", BRAIN_JS), ("mesh-agent.mjs", MODULE_JS), ("check.sh", CHECK)];
    let mesh = Process::up_beside(team, &files).await;
    let (manager, js) = (mesh.agent("manager-01"), mesh.agent("js-01"));
    let dig = |word: &str| json!({ "taskId": word, "capability": "dig", "description": word });
    let first = message(&manager.ask(dig("first")).await);
    let (pid, _) = first.split_once(' ').unwrap();
    let bid = manager.award("first").await["rounds"][0]["candidates"][0]["bid"].clone();
    assert_eq!(
        (&bid["cost"], &bid["eta"], &bid["capabilityMatch"]),
        (&json!(2.0), &json!(3_000), &json!(0.5)),
        "{bid:#}"
    );
    manager.send(dig("no")).await;
    let why = eventually("it declines", async || {
        let award = manager.award("no").await;
        award["rounds"][0]["candidates"][0]["why"].as_str().map(str::to_owned)
    });
    assert_eq!(why.await, "not my field");

    let corrected = js.ask(work("t-bad", "bad")).await;
    assert_eq!(
        artifact(&corrected, "a.txt").as_deref(),
        Some("good: sh check.sh (exit code 1): say good"),
        "{corrected:#}"
    );
    assert_eq!(message(&corrected), format!("{pid} 3"), "one process for all turns");

    js.send(work("t-hang", "hang")).await;
    eventually("it hangs", async || (message(&js.task("t-hang").await) == "hangs").then_some(())).await;
    call(Method::POST, &format!("{}/a2a/tasks/t-hang/cancel", js.url), Some(&json!({}))).await;
    // While a turn is cancelled, another process takes the next one.
    message(&js.ask(work("t-next", "next")).await);
    let stopped = mesh.dir().join("stopped");
    eventually("the cancelled turn ends itself", async || {
        std::fs::read_to_string(&stopped).is_ok_and(|by| by == pid).then_some(())
    })
    .await;
}

async fn up(members: &str) -> Process {
    let team = format!(
        "agents: [{{ agent: solo-01, open: true, brain: {{ exec: {{ command: [python3, brain.py], worker: true }} }}{members} }}]"
    );
    Process::up_beside(&team, &[("brain.py", BRAIN), ("mesh_agent.py", MODULE)]).await
}

fn work(id: &str, word: &str) -> Value {
    json!({ "taskId": id, "description": word })
}

/// Whether a process runs and is no zombie.
fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with(['Z', 'X']))
}

/// The process that has begun last, once there is one.
async fn last_pid(mesh: &Process) -> String {
    eventually("a process has begun", async || {
        let pids = std::fs::read_to_string(mesh.dir().join("pids")).ok()?;
        pids.lines().last().map(str::to_owned)
    })
    .await
}

async fn has_ended(pid: &str) {
    eventually("the process ends", async || (!is_running(pid)).then_some(())).await;
}

#[tokio::test]
async fn a_worker_keeps_its_memory_and_its_death_fails_one_task() {
    let mut mesh = up("").await;
    let solo = mesh.agent("solo-01");
    let first = message(&solo.ask(work("t-1", "x")).await);
    let second = message(&solo.ask(work("t-2", "x")).await);
    let (pid, _) = first.split_once(' ').unwrap();
    assert_eq!((first.as_str(), second), (format!("{pid} 1").as_str(), format!("{pid} 2")));
    let died = solo.ask(work("t-3", "die")).await;
    assert_eq!(state(&died), "failed", "{died:#}");
    assert!(message(&died).contains("the brain died: exit code 7"), "{died:#}");
    let third = message(&solo.ask(work("t-4", "x")).await);
    assert!(third.ends_with(" 1") && !third.starts_with(pid), "{third}");
    // A cancelled turn ends in the process, which goes on.
    solo.send(work("t-5", "hang")).await;
    eventually("it hangs", async || (message(&solo.task("t-5").await) == "hangs").then_some(())).await;
    let pid = last_pid(&mesh).await;
    call(Method::POST, &format!("{}/a2a/tasks/t-5/cancel", solo.url), Some(&json!({}))).await;
    assert_eq!(state(&solo.task_in("t-5", &["canceled", "completed", "failed"]).await), "canceled");
    let fourth = eventually("the same process", async || {
        let done = message(&solo.ask(json!({ "description": "x" })).await);
        done.starts_with(&pid).then_some(done)
    });
    fourth.await;
    mesh.signal("TERM");
    assert_eq!(mesh.ended().await, 0);
    assert!(!is_running(&pid), "a worker ends with its node");
}

#[tokio::test]
async fn a_kill_of_the_node_ends_its_worker_and_repeats_no_acknowledged_call() {
    let mut mesh = up("").await;
    mesh.agent("solo-01").send(work("t-1", "calls")).await;
    let solo = mesh.agent("solo-01");
    eventually("it waits", async || (message(&solo.task("t-1").await) == "waits").then_some(())).await;
    let pid = last_pid(&mesh).await;
    mesh.kill();
    has_ended(&pid).await;
    std::fs::write(mesh.dir().join("gate"), "").unwrap();
    let mesh = mesh.restart().await;
    let task = mesh.agent("solo-01").task_in("t-1", &["completed", "failed"]).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    assert_eq!(std::fs::read_to_string(mesh.dir().join("calls")).unwrap(), "0\n1\n2\n");
}

/// Reads its prompt and then nothing more.
const DEAF: &str = r#"
import os, sys, time

sys.stdin.readline()
with open("pids", "a") as pids:
    pids.write(f"{os.getpid()}\n")
print('{"type":"status","message":"deaf"}', flush=True)
time.sleep(600)
"#;

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_command_that_ignores_the_end_of_its_input_ends_with_a_killed_node() {
    for members in ["", ", worker: true"] {
        let team = format!(
            "agents: [{{ agent: solo-01, open: true, brain: {{ exec: {{ command: [python3, brain.py]{members} }} }} }}]"
        );
        let mut mesh = Process::up_beside(&team, &[("brain.py", DEAF)]).await;
        let solo = mesh.agent("solo-01");
        solo.send(work("t-1", "x")).await;
        eventually("it is deaf", async || (message(&solo.task("t-1").await) == "deaf").then_some(())).await;
        let pid = last_pid(&mesh).await;
        assert!(is_running(&pid));
        mesh.kill();
        has_ended(&pid).await;
    }
}

#[tokio::test]
async fn a_silent_worker_is_cut_by_idle_and_takes_the_next_turn() {
    let mesh = up(", bounds: { idle: 5s }").await;
    let solo = mesh.agent("solo-01");
    let task = solo.ask(work("t-1", "hang")).await;
    assert!(message(&task).contains("reported nothing for 5000 ms"), "{task:#}");
    let pid = last_pid(&mesh).await;
    eventually("the same process", async || {
        message(&solo.ask(json!({ "description": "x" })).await).starts_with(&pid).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_agent_whose_processes_have_failed_starts_another_within_idle() {
    for member in ["worker", "duplex"] {
        let team = format!(
            "agents: [{{ agent: solo-01, open: true, brain: {{ exec: {{ command: [python3, brain.py], {member}: true }} }}, bounds: {{ idle: 6s }} }}]"
        );
        let mesh = Process::up_beside(&team, &[("brain.py", BRAIN), ("mesh_agent.py", MODULE)]).await;
        let solo = mesh.agent("solo-01");
        for turn in 0..6 {
            let died = solo.ask(work(&format!("t-{turn}"), "die")).await;
            assert!(message(&died).contains("the brain died"), "{member} {turn}: {died:#}");
        }
        let next = solo.ask(work("t-next", "x")).await;
        assert!(message(&next).ends_with(" 1"), "{member}: {next:#}");
    }
}

#[tokio::test]
async fn a_thread_that_outlives_its_turn_adds_nothing_to_the_next_one() {
    let mesh = up("").await;
    let solo = mesh.agent("solo-01");
    let first = message(&solo.ask(work("t-1", "leave")).await);
    let next = solo.ask(work("t-2", "follow")).await;
    assert_eq!(message(&next), first.replace(" 1", " 2"), "the same process: {next:#}");
    assert_eq!(artifact(&next, "late.txt"), None, "{next:#}");
    assert!(!mesh.log().contains("another turn"), "the module drops it: {}", mesh.log());
}
