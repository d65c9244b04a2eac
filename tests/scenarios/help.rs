//! An agent that is asked for help acts as in any turn: seed 003, "Complete Agent Interaction Cycle".

use crate::harness::{Process, call, client, directory, eventually, file, mesh, message, state};
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    path::Path,
    process::{Child, Command, Stdio},
};

/// Notes its prompts. Asked for help it does what its role says; its own tasks do what their description says.
const BRAIN: &str = r#"
import json, os, sys
here = os.path.dirname(os.path.abspath(__file__))
turn = json.loads(sys.stdin.readline())
agent, answers = turn["agent"], turn.get("answers", [])
with open(os.path.join(here, "prompts-" + agent), "a") as prompts:
    prompts.write(json.dumps(turn) + "\n")
def tell(**line):
    print(json.dumps(line), flush=True)
asked = turn.get("help")
if asked and agent in asked.get("path", []):
    if not answers:
        tell(type="help", id="loop", to="oracle-01", question="and you?")
        tell(type="wait")
    else:
        tell(type="done", message="I ask nobody: " + answers[0]["text"])
elif asked and asked["question"] == "which branch?":
    if not answers:
        tell(type="question", id="q", text="Which branch shall it be?")
        tell(type="wait")
    else:
        tell(type="done", message="take " + answers[0]["text"])
elif asked and asked["question"] == "psst":
    tell(type="say", to=["team"], text="hello")
    tell(type="done", message="said")
elif asked and agent == "guardian-01":
    if not answers:
        tell(type="post", content="Added regression test for reconnect race condition", severity="medium")
        tell(type="remember", scope="own", content="WebSocket reconnect has a 2s fixed delay", expertise={"networking": 1})
        tell(type="propose", entryType="learning", title="Test reconnects", content="With a clock of one's own.")
        tell(type="signal", signal="acme.test.added", subject="reconnect")
        tell(type="find", id="f", text="race")
        tell(type="help", id="h", to="sage-01", question="is one test enough?")
        tell(type="wait")
    else:
        tell(type="done", message="Tested. " + " / ".join(answer["text"] for answer in answers))
elif asked:
    if not answers:
        tell(type="help", id="back", to="guardian-01", question="what do you think?")
        tell(type="wait")
    else:
        tell(type="done", message="The guardian says: " + answers[0]["text"])
elif turn["task"]["description"] == "find bugs":
    tell(type="post", content="Race condition in reconnect logic", severity="high")
    tell(type="help", id="h", to="guardian-01", question="Can you write a test for the reconnect race condition?", wait=False)
    tell(type="done", message="found one")
elif not answers:
    tell(type="help", id="h", to="guardian-01", question=turn["task"]["description"])
    tell(type="wait")
else:
    tell(type="done", message=answers[0]["text"])
"#;

async fn team(dir: &Path) -> Process {
    let brain = file(dir, "brain.py", BRAIN);
    let agent = |id: &str| {
        let brain = format!("{{ exec: [python3, '{}'] }}", brain.display());
        format!("  - {{ agent: {id}, open: true, skills: [{id}], brain: {brain} }}\n")
    };
    let agents: String = ["oracle-01", "guardian-01", "sage-01"].map(agent).concat();
    Process::up(&format!("agents:\n{agents}")).await
}

fn prompts(dir: &Path, agent: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(dir.join(format!("prompts-{agent}"))).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The entries that the person sees, the oldest first.
async fn entries(mesh: &Process) -> Vec<Value> {
    let token = std::fs::read_to_string(mesh.data.join("token")).unwrap();
    let url = format!("{}/board/spaces/default/entries?order=oldest", mesh.url);
    let page: Value = client().get(url).bearer_auth(token.trim()).send().await.unwrap().json().await.unwrap();
    page["entries"].as_array().unwrap().clone()
}

/// The oracle posts, asks and ends; the guardian reads the board, posts, learns, proposes, signals and asks a third one. All see it.
#[tokio::test]
async fn who_is_asked_for_help_posts_and_learns_also_when_its_asker_has_ended() {
    let dir = directory();
    let running = team(dir.path()).await;
    let task = json!({ "taskId": "t-1", "description": "find bugs" });
    let done = running.agent("oracle-01").ask(task).await;
    assert_eq!(state(&done), "completed", "{done:#}");
    assert_eq!(message(&done), "found one", "it does not wait");
    let all = eventually("what the guardian has posted", async || {
        let all = entries(&running).await;
        (all.len() >= 3).then_some(all)
    })
    .await;
    let of = |kind: &str, author: &str| {
        let found = all.iter().find(|entry| entry["kind"] == kind && entry["author"] == author);
        found.unwrap_or_else(|| panic!("{kind} of {author}: {all:#?}"))
    };
    assert_eq!(of("finding", "agent:oracle-01")["severity"], "high");
    let test = of("finding", "agent:guardian-01");
    assert_eq!(test["content"], "Added regression test for reconnect race condition");
    assert_eq!(test["task"], "t-1", "it belongs to the work that it helps with");
    assert_eq!(of("proposal", "agent:guardian-01")["slug"], "test-reconnects");
    eventually("the signal", async || {
        let heard = running.signals("acme.test.added").await;
        heard.iter().any(|signal| signal.to_string().contains("reconnect")).then_some(())
    })
    .await;
    // It has read the board, has an answer of the third one, and ends although nobody waits.
    let second = eventually("the guardian's second turn", async || {
        prompts(dir.path(), "guardian-01").into_iter().find(|prompt| {
            prompt["turn"] == 2 && prompt["help"]["question"].to_string().contains("write a test")
        })
    })
    .await;
    let turns = prompts(dir.path(), "guardian-01");
    let first = &turns[0];
    // A turn begins without a brief if the board is slow.
    let is_told = |turn: &Value| turn["brief"]["text"].to_string().contains("Race condition");
    assert!(turns.iter().any(is_told), "{turns:#?}");
    assert_eq!(
        (&first["help"]["from"], &first["help"]["path"]),
        (&json!("oracle-01"), &json!(["oracle-01"]))
    );
    let answers = second["answers"].to_string();
    assert!(answers.contains("Race condition in reconnect logic"), "found: {answers}");
    // The third one asks back: who is on the path answers, and asks nobody.
    assert!(answers.contains("I ask nobody: on_path:"), "{answers}");
    let asked = prompts(dir.path(), "sage-01");
    assert_eq!(asked[0]["help"]["path"], json!(["oracle-01", "guardian-01"]), "{asked:#?}");
    // Its vault is its own: only its own brief has it.
    let again = running.agent("oracle-01").ask(json!({ "description": "and then?" })).await;
    assert_eq!(state(&again), "completed", "{again:#}");
    let brief = |agent: &str| prompts(dir.path(), agent).last().unwrap()["brief"]["text"].to_string();
    assert!(
        brief("guardian-01").contains("2s fixed delay") && !brief("oracle-01").contains("2s fixed delay")
    );
    assert!(brief("oracle-01").contains("Added regression test"), "{}", brief("oracle-01"));
}

/// `mesh follow --json`, which ends with the test.
struct Follow(Child, std::path::PathBuf);

impl Follow {
    fn start(dir: &Path, args: &[&str], envs: &[(&str, &str)]) -> Self {
        let file = dir.join(format!("log-{}", args.len()));
        let output = std::fs::File::create(&file).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_mesh"));
        command.arg("follow").args(args).arg("--json").envs(envs.iter().copied());
        Self(command.stdout(Stdio::from(output)).spawn().unwrap(), file)
    }

    /// What it has printed: who did what, and the text.
    fn lines(&self) -> Vec<(String, String, String)> {
        let text = std::fs::read_to_string(&self.1).unwrap();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let word = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
        lines.map(|line| (word(&line, "who"), word(&line, "what"), word(&line, "text"))).collect()
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn one_log_has_who_found_asked_and_said_and_the_person_reads_and_mends_a_vault() {
    let dir = directory();
    let running = team(dir.path()).await;
    let token = running.data.join("token").to_string_lossy().into_owned();
    let envs = [("MESH_URL", running.url.as_str()), ("MESH_TOKEN_FILE", token.as_str())];
    let log = Follow::start(dir.path(), &[], &envs);
    // It follows from where it begins.
    eventually("the log has begun", async || {
        let said = mesh(&["space", "post", "finding", "hello"], &envs);
        assert_eq!(said.0, 0, "{said:?}");
        log.lines().iter().any(|(_, what, text)| what == "found" && text == "hello").then_some(())
    })
    .await;
    let said = mesh(&["say", "--no-wait", "please @oracle-01 find bugs"], &envs);
    assert!(said.1.contains("delivered to oracle-01"), "{said:?}");
    let task = json!({ "taskId": "t-1", "description": "find bugs" });
    running.agent("oracle-01").ask(task).await;
    let is_in = |who: &str, what: &str, part: &str| {
        log.lines().iter().any(|(by, did, text)| by == who && did == what && text.contains(part))
    };
    eventually("who found, asked and proposed", async || {
        let all = is_in("oracle-01", "found", "Race condition")
            && is_in("guardian-01", "found", "Added regression test")
            && is_in("guardian-01", "proposed", "clock of one's own")
            && is_in("oracle-01", "asked", "Can you write a test");
        all.then_some(())
    })
    .await;
    let shown = eventually("the vault", async || {
        let (code, shown, _) = mesh(&["vault", "guardian-01"], &envs);
        (code == 0 && shown.contains("2s fixed delay")).then_some(shown)
    })
    .await;
    assert!(shown.contains("networking "), "{shown}");
    let id = shown
        .lines()
        .find(|line| line.contains("2s fixed delay"))
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap();
    let (code, edited, errors) = mesh(&["vault", "guardian-01", "edit", id, "The delay is 3s."], &envs);
    assert!(
        code == 0 && edited.contains("3s.") && edited.contains("changed by user:local"),
        "{edited}{errors}"
    );
    let (_, again, _) = mesh(&["vault", "guardian-01", "expertise", "networking=7"], &envs);
    assert!(again.contains("networking 7"), "{again}");
    let url = format!("{}/board/spaces/default/vault?of=guardian-01", running.url);
    let refused = call(Method::GET, &url, None).await;
    assert_eq!(refused.status, 401, "only the person with the token: {refused:?}");
    running.agent("oracle-01").ask(json!({ "description": "and then?" })).await;
    // What it learns in its first turn is in the brief of the second.
    let turns = prompts(dir.path(), "guardian-01");
    let first = turns.iter().rfind(|turn| turn["turn"] == 1).unwrap();
    let brief = first["brief"]["text"].to_string();
    assert!(brief.contains("The delay is 3s."), "{brief}");
    // A finding that does not hold is taken back, by the short id of a brief.
    let (_, entries, _) = mesh(&["space", "entries", "--kind", "finding", "--text", "race", "--json"], &envs);
    let entries: Value = serde_json::from_str(&entries).unwrap();
    let id = entries["entries"][0]["id"].as_str().unwrap().to_owned();
    let (code, withdrawn, errors) = mesh(&["space", "withdraw", &id, "--reason", "fixed"], &envs);
    assert!(code == 0 && withdrawn.contains("withdrawn"), "{withdrawn}{errors}");
    let (_, brief, _) = mesh(&["brief", "sage-01", "--json"], &envs);
    assert!(!brief.contains(&id), "{brief}");
}

#[tokio::test]
async fn the_owner_of_the_asker_answers_what_its_helper_asks() {
    let dir = directory();
    let running = team(dir.path()).await;
    let oracle = running.agent("oracle-01");
    let id = oracle.send(json!({ "taskId": "t-1", "description": "which branch?" })).await;
    let task = oracle.task_in(&id, &["input_required", "failed"]).await;
    assert!(message(&task).contains("Which branch shall it be?"), "{task:#}");
    let url = format!("{}/a2a/tasks/{id}/answer", oracle.url);
    let answered = call(Method::POST, &url, Some(&json!({ "text": "main" }))).await;
    assert!(answered.status < 300, "{answered:?}");
    let task = oracle.task_in(&id, &["completed", "failed"]).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    assert_eq!(message(&task), "take main");
}

#[tokio::test]
async fn a_line_that_is_not_for_answers_is_refused_with_the_reason() {
    let dir = directory();
    let running = team(dir.path()).await;
    let task = running.agent("oracle-01").ask(json!({ "description": "psst" })).await;
    assert_eq!(message(&task), "say: the task is no turn of a session", "{task:#}");
}
