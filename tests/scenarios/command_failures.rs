//! What `mesh` reports when the mesh or a brain fails.

use crate::harness::{DEADLINE, Process, eventually, mesh as program, message, state};
use serde_json::json;
use std::{
    io::Read,
    process::{Command, Stdio},
};

#[tokio::test]
async fn an_ask_whose_mesh_is_killed_says_what_happens_to_the_task() {
    let team = "agents: [{ agent: slow-01, skills: [slow], brain: { scripted: script.yaml } }]";
    let mut mesh = Process::up_beside(team, &[("script.yaml", "turns: [{ hang: true }]")]).await;
    let agent = mesh.agent("slow-01");
    let ask = Command::new(env!("CARGO_BIN_EXE_mesh"))
        .args(["ask", "do it", "--at", &agent.url, "--url", &mesh.url, "--capability", "slow"])
        .args(["--task-id", "t-1"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    agent.task_in("t-1", &["working"]).await;
    stream_is_open(&agent.url, true).await;
    mesh.kill();
    let output = tokio::time::timeout(DEADLINE, tokio::task::spawn_blocking(move || ask.wait_with_output()));
    let output = output.await.expect("it ends").unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(
        said.contains(&agent.url) && said.contains(&format!("mesh tasks watch t-1 --at {}", agent.url)),
        "{said}"
    );

    let mesh = mesh.restart().await;
    mesh.agent("slow-01").task_in("t-1", &["working"]).await;
    let (code, _, said) = program(&["tasks", "cancel", "t-1", "--url", &mesh.url], &[]);
    assert_eq!(code, 0, "{said}");
}

#[tokio::test]
async fn a_stopped_ask_says_which_task_continues_and_how_to_end_it() {
    let team = "agents: [{ agent: slow-01, skills: [slow], brain: { scripted: script.yaml } }]";
    let mesh = Process::up_beside(team, &[("script.yaml", "turns: [{ hang: true }]")]).await;
    let agent = mesh.agent("slow-01");
    let (named, registered) = (["--at", &agent.url], ["--url", &mesh.url]);
    for (signal, code, task, whom, again) in
        [("INT", 130, "t-1", named, named), ("TERM", 143, "t-2", ["--to", "slow-01"], registered)]
    {
        let ask = Command::new(env!("CARGO_BIN_EXE_mesh"))
            .args(["ask", "do it", "--url", &mesh.url, "--capability", "slow", "--task-id", task])
            .args(whom)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        agent.task_in(task, &["working"]).await;
        // Before it follows the task, it would say that nothing has answered yet.
        stream_is_open(&agent.url, true).await;
        let kill = Command::new("kill").arg(format!("-{signal}")).arg(ask.id().to_string()).status();
        assert!(kill.unwrap().success());
        let ended = tokio::task::spawn_blocking(move || ask.wait_with_output());
        let output = tokio::time::timeout(DEADLINE, ended).await.expect("it ends").unwrap().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(code), &[][..]), "{said}");
        says_how_to_go_on(&said, task, &again);
        agent.task_in(task, &["working"]).await;
        let (code, _, said) = program(&["tasks", "watch", task, "--timeout", "1ms", again[0], again[1]], &[]);
        assert_eq!(code, 4, "{said}");
        says_how_to_go_on(&said, task, &again);
        let (code, _, said) = program(&["tasks", "cancel", task, again[0], again[1]], &[]);
        assert_eq!(code, 0, "what it said can be done: {said}");
        agent.task_in(task, &["canceled"]).await;
        stream_is_open(&agent.url, false).await;
    }
}

/// Waits until a user at this machine follows a task of the agent at `url`, or until none does.
async fn stream_is_open(url: &str, is_open: bool) {
    eventually("the stream", async || {
        let readers = crate::harness::get(&format!("{url}/state")).await["readers"].clone();
        (readers["user:local"].as_u64().unwrap_or(0) == u64::from(is_open)).then_some(())
    })
    .await;
}

/// Whether the text names the commands that follow and end `task`, with the same address flags.
fn says_how_to_go_on(said: &str, task: &str, again: &[&str]) {
    for verb in ["watch", "cancel"] {
        let command = format!("`mesh tasks {verb} {task} {}`", again.join(" "));
        assert!(said.contains(&command), "{command} is not in: {said}");
    }
}

#[tokio::test]
async fn an_ask_with_an_unread_pipe_can_be_stopped() {
    let mesh = Process::up("agents: [{ agent: echo-01, skills: [echo], brain: { echo: {} } }]").await;
    let agent = mesh.agent("echo-01");
    let mut ask = Command::new(env!("CARGO_BIN_EXE_mesh"))
        .args(["ask", &"more than a pipe holds ".repeat(5_000), "--at", &agent.url, "--capability", "echo"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // It has started to write, and the pipe is full.
    let mut result = ask.stdout.take().unwrap();
    let (mut result, begun) = tokio::task::spawn_blocking(move || {
        let begun = result.read(&mut [0]).unwrap();
        (result, begun)
    })
    .await
    .unwrap();
    assert_eq!(begun, 1);
    let kill = Command::new("kill").arg(ask.id().to_string()).status();
    assert!(kill.unwrap().success());
    let ended = tokio::task::spawn_blocking(move || ask.wait());
    let status = tokio::time::timeout(DEADLINE, ended).await.expect("it ends").unwrap().unwrap();
    assert_eq!(status.code(), Some(143));
    drop(result.read(&mut [0]));
}

#[tokio::test]
async fn a_brain_that_always_delegates_ends_visibly_at_its_last_turn() {
    let team = "
agents:
  - { agent: echo-01, skills: [echo], brain: { echo: {} }, bid: { maxParallel: 8 } }
  - { agent: loop-01, skills: [loop], brain: { exec: [sh, ./loop.sh] } }
";
    let brain = r#"read -r ask
turn=$(printf '%s' "$ask" | sed -E 's/.*"turn":([0-9]+).*/\1/')
echo "{\"type\":\"delegate\",\"id\":\"d$turn\",\"to\":\"echo-01\",\"description\":\"again $turn\"}"
"#;
    let mesh = Process::up_beside(team, &[("loop.sh", brain)]).await;
    let task = mesh.agent("loop-01").ask(json!({ "description": "go", "capability": "loop" })).await;
    assert_eq!(state(&task), "failed", "{task:#}");
    assert!(message(&task).contains("64 turns"), "{}", message(&task));
}

#[tokio::test]
async fn a_brain_cannot_publish_signals_of_the_registry() {
    let team = "agents: [{ agent: liar-01, skills: [lie], brain: { exec: [sh, ./liar.sh] } }]";
    let brain = r#"echo '{"type":"status","message":"at it"}'
echo '{"type":"signal","signal":"agent.left","subject":"liar-01"}'
echo '{"type":"done","message":"ok"}'
"#;
    let mesh = Process::up_beside(team, &[("liar.sh", brain)]).await;
    let task = mesh.agent("liar-01").ask(json!({ "description": "go", "capability": "lie" })).await;
    assert_eq!(state(&task), "failed", "{task:#}");
    let said = message(&task);
    assert!(said.contains("line 2 of the brain's output") && said.contains("only the registry"), "{said}");
    assert_eq!(mesh.signals("agent.left").await.len(), 0);
}

/// Says its secrets in every way in which a failure is reported.
const LEAKS: &str = r#"read -r line
case "$line" in
*case-1*) env >&2; exit 1 ;;
*case-2*) env >&2; exit 0 ;;
*case-3*) env | grep TOKEN ;;
*case-4*) echo "{\"type\":\"status\",\"message\":\"x\",\"$MESH_BRAIN_TOKEN\":1}" ;;
*case-5*) echo "{\"type\":\"status\",\"message\":\"with $API_KEY\"}"; echo "{\"type\":\"failed\",\"reason\":\"$API_KEY is refused, $MESH_BRAIN_TOKEN\"}" ;;
esac
"#;

#[tokio::test]
async fn what_is_reported_of_a_failed_brain_has_no_secret() {
    let team = "agents:\n  - agent: leak-01\n    open: true\n    env: { API_KEY: nightingale-7 }\n    brain: { exec: [sh, ./leak.sh] }\n";
    let mut mesh = Process::up_beside(team, &[("leak.sh", LEAKS)]).await;
    let agent = mesh.agent("leak-01");
    for (case, part) in [
        ("case-1", "exit code 1"),
        ("case-2", "without a result"),
        ("case-3", "is no JSON"),
        ("case-4", "unknown field"),
        ("case-5", "*** is refused, mesh-brain-***"),
    ] {
        let task = agent.ask(json!({ "description": case })).await;
        assert_eq!(state(&task), "failed", "{task:#}");
        let said = task.to_string();
        assert!(message(&task).contains(part) && said.contains("***"), "{case}: {said}");
        assert!(!said.contains("nightingale"), "{case}: {said}");
        let token = said.split("mesh-brain-").skip(1).find(|rest| !rest.starts_with("***"));
        assert_eq!(token, None, "{case}");
    }
    mesh.signal("TERM");
    assert_eq!(mesh.ended().await, 0);
    let log = std::fs::read_to_string(mesh.data.join("log")).unwrap();
    assert!(log.contains("API_KEY=***") && log.contains("MESH_BRAIN_TOKEN=mesh-brain-***"), "{log}");
    assert!(!log.contains("nightingale"), "{log}");
}
