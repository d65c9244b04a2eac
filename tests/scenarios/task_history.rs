//! The vault remembers the tasks of its agent by itself: in spaces with a name, the last fifty, also over kill -9.

use crate::harness::{Process, directory, eventually, file};
use protocol::spaces::task_history::KEPT;
use reqwest::Method;
use std::path::Path;

/// Notes what each turn is told of its space.
const BRAIN: &str = r#"
import json, os, sys
here = os.path.dirname(os.path.abspath(__file__))
turn = json.loads(sys.stdin.readline())
with open(os.path.join(here, "briefs"), "a") as briefs:
    briefs.write(json.dumps(turn.get("brief", {}).get("text", "")) + "\n")
print(json.dumps({"type": "artifact", "name": "notes.md", "text": "n"}))
print(json.dumps({"type": "done", "message": "did " + turn["task"]["description"]}))
"#;

async fn up(at: &Path) -> Process {
    let brain = file(at, "brain.py", BRAIN);
    Process::up(&format!(
        "
mesh: {{ spaces: {{ shop: {{ members: {{ scout-01: member, echo-01: member }} }} }} }}
agents:
  - {{ agent: scout-01, open: true, skills: [scout], brain: {{ exec: [python3, '{}'] }} }}
  - {{ agent: echo-01, open: true, skills: [echo], brain: {{ echo: {{}} }} }}
",
        brain.display()
    ))
    .await
}

async fn ask(running: &Process, agent: &str, space: &str, text: &str) {
    let (code, said, errors) = running.as_person(&["ask", "--to", agent, "--space", space, text]).await;
    assert_eq!(code, 0, "{said}{errors}");
}

/// Waits until the vault of an agent has so many memories.
async fn vault_has(running: &Process, space: &str, agent: &str, count: u64) {
    eventually(&format!("{count} memories of {agent} in {space}"), async || {
        let url = format!("{}/board/spaces/{space}/brief?for={agent}", running.url);
        let brief = running.call_as_person(Method::GET, &url, None).await.body;
        (brief["vaultEntries"].as_u64()? == count).then_some(())
    })
    .await;
}

fn last_brief(at: &Path) -> String {
    let text = std::fs::read_to_string(at.join("briefs")).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[tokio::test]
async fn tasks_of_a_named_space_are_remembered_once_and_told_to_the_next_turns() {
    let dir = directory();
    let mut running = up(dir.path()).await;
    ask(&running, "scout-01", "default", "look at the sea").await;
    for (number, place) in (1..).zip(["gate", "wall", "well"]) {
        ask(&running, "scout-01", "shop", &format!("look at the {place}\nall of it")).await;
        // It has ended; what it posts may still be under way.
        running = running.restart().await;
        vault_has(&running, "shop", "scout-01", number).await;
    }
    ask(&running, "scout-01", "shop", "look again").await;
    let brief = last_brief(dir.path());
    let (_, tasks) = brief.split_once("Your last tasks here, the newest last.\n").unwrap();
    let titles: Vec<_> =
        ["gate", "wall", "well"].map(|place| tasks.find(&format!("look at the {place} ("))).into();
    assert!(titles.is_sorted() && titles[0].is_some(), "{brief}");
    assert!(tasks.contains("completed: did look at the well\n  Artifacts: notes.md"), "{brief}");
    assert!(!brief.contains("all of it") && !brief.contains("the sea"), "{brief}");
    vault_has(&running, "default", "scout-01", 0).await;
    vault_has(&running, "shop", "scout-01", 4).await;
    ask(&running, "echo-01", "shop", "hi").await;
    vault_has(&running, "shop", "echo-01", 1).await;
}

#[tokio::test]
async fn the_oldest_task_is_dropped_behind_the_fiftieth() {
    let dir = directory();
    let running = up(dir.path()).await;
    for number in 0..KEPT + 2 {
        ask(&running, "echo-01", "shop", &format!("task {number}.")).await;
    }
    vault_has(&running, "shop", "echo-01", u64::try_from(KEPT).unwrap()).await;
    let (_, entries, _) = running.as_person(&["space", "entries", "--space", "shop"]).await;
    assert!(!entries.contains("task"), "nobody else reads a vault: {entries}");
}
