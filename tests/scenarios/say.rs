//! What a person says to one agent, and help that an agent asks of another without waiting (SEEDS §4.3, §9 lines 47 and 48).

use crate::harness::{
    Process, directory,
    documentation::{blocks, success},
    eventually, file, mesh, message, state,
};
use reqwest::Method;
use serde_json::{Value, json};
use std::path::Path;

/// Notes its prompt in `prompts`, waits while `hold-AGENT` is there, and writes the lines `input[TURN]` of its task, or ends with
/// what it was told.
const BRAIN: &str = r#"
import json, os, sys, time
here = os.path.dirname(os.path.abspath(__file__))
turn = json.loads(sys.stdin.readline())
with open(os.path.join(here, "prompts"), "a") as prompts:
    prompts.write(json.dumps(turn) + "\n")
def tell(**line):
    print(json.dumps(line), flush=True)
while os.path.isdir(here) and os.path.exists(os.path.join(here, "hold-" + turn["agent"])):
    time.sleep(0.02)
if "help" in turn:
    tell(type="done", message="answer to " + turn["help"]["question"])
    sys.exit()
lines = (turn["task"].get("input") or {}).get("lines", [])
answers = turn.get("answers", [])
if turn["turn"] == 1 and lines:
    for line in lines:
        tell(**line)
    tell(type="wait")
elif len(answers) < len([line for line in lines if line["type"] == "help"]):
    tell(type="status", message="has %d answers" % len(answers))
    tell(type="wait")
else:
    tell(type="artifact", name="answers", data=answers)
    tell(type="done", message="heard " + turn["task"]["description"])
"#;

async fn team(dir: &Path) -> Process {
    let brain = file(dir, "brain.py", BRAIN);
    let agent = |id: &str, more: &str| {
        let brain = format!("{{ exec: [python3, '{}'] }}", brain.display());
        format!("  - {{ agent: {id}, bid: {{ maxParallel: 1 }}, brain: {brain}, {more} }}\n")
    };
    let (lead, builder) =
        (agent("lead-01", "open: true, skills: [orchestrate]"), agent("builder-01", "skills: [build]"));
    Process::up(&format!("agents:\n{lead}{builder}")).await
}

fn prompts(dir: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(dir.join("prompts")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn hold(dir: &Path, agent: &str) {
    file(dir, &format!("hold-{agent}"), "");
}

fn release(dir: &Path, agent: &str) {
    std::fs::remove_file(dir.join(format!("hold-{agent}"))).unwrap();
}

/// Waits until `agent` was given so many prompts; returns what they ask.
async fn asked(dir: &Path, agent: &str, count: usize) -> Vec<String> {
    eventually(&format!("{count} prompts of {agent}"), async || {
        let of_agent = prompts(dir).into_iter().filter(|prompt| prompt["agent"] == agent);
        let asked = of_agent.map(|prompt| {
            let text = prompt["help"]["question"].as_str().or(prompt["task"]["description"].as_str());
            text.unwrap_or_default().to_owned()
        });
        let asked: Vec<_> = asked.collect();
        (asked.len() >= count).then_some(asked)
    })
    .await
}

/// Line 47: an idle agent answers a question at once, a busy one in the order in which it was asked. The asker goes on meanwhile,
/// each answer names its question, and an unknown agent is refused.
#[tokio::test]
async fn line_47_help_of_a_named_agent_without_waiting() {
    let dir = directory();
    let at = dir.path();
    let running = team(at).await;
    let lead = running.agent("lead-01");
    let help =
        |id: &str, to: &str| json!({ "type": "help", "id": id, "to": to, "question": id, "wait": false });
    hold(at, "builder-01");
    let lines = json!([
        help("first", "builder-01"), help("second", "builder-01"), help("third", "builder-01"),
        help("lost", "nobody-01"), { "type": "status", "message": "goes on" },
    ]);
    lead.send(json!({ "taskId": "t-1", "description": "ask", "input": { "lines": lines } })).await;
    assert_eq!(asked(at, "builder-01", 1).await, ["first"], "an idle agent takes it at once");
    // Its own turn has ended, and one that has the refusal has begun, while the helper still works on the first.
    let second = eventually("a turn with the refusal", async || {
        let latest = prompts(at).into_iter().rfind(|prompt| prompt["agent"] == "lead-01");
        latest.filter(|prompt| prompt["turn"] == 2)
    })
    .await;
    let refused = second["answers"].as_array().unwrap();
    assert_eq!(refused.len(), 1, "{second:#}");
    assert_eq!((&refused[0]["id"], &refused[0]["ok"]), (&json!("lost"), &json!(false)), "{second:#}");
    assert!(refused[0]["text"].as_str().unwrap().contains("nobody-01"), "{second:#}");
    assert_eq!(asked(at, "builder-01", 1).await, ["first"], "a busy one has the others wait");
    release(at, "builder-01");
    let task = lead.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    assert_eq!(asked(at, "builder-01", 3).await, ["first", "second", "third"]);
    let answers: Value = serde_json::from_str(&data(&task, "answers")).unwrap();
    for id in ["first", "second", "third"] {
        let answer = answers.as_array().unwrap().iter().find(|answer| answer["id"] == id);
        let answer = answer.unwrap_or_else(|| panic!("{answers:#}"));
        assert_eq!(
            (&answer["ok"], &answer["from"], &answer["text"]),
            (&json!(true), &json!("builder-01"), &json!(format!("answer to {id}"))),
            "{answers:#}"
        );
    }
}

/// The JSON of an artifact.
fn data(task: &Value, name: &str) -> String {
    let mut artifacts = task["artifacts"].as_array().into_iter().flatten();
    let found = artifacts.rfind(|artifact| artifact["artifactId"] == name);
    found.unwrap_or_else(|| panic!("{task:#}"))["parts"][0]["data"].to_string()
}

/// Line 48: what a person says reaches the agent that it names, else the focus, else the one addressed last. It goes before other
/// work of the person, the answer says whether it is queued, and the agent is told of what was said before.
#[tokio::test]
async fn line_48_a_person_speaks_to_one_agent() {
    let dir = directory();
    let at = dir.path();
    let running = team(at).await;
    let token = running.data.join("token").to_string_lossy().into_owned();
    let envs = [("MESH_URL", running.url.as_str()), ("MESH_TOKEN_FILE", token.as_str())];
    let say = |words: &[&str]| {
        let args: Vec<_> = ["say", "--no-wait"].iter().chain(words).copied().collect();
        mesh(&args, &envs)
    };
    let said = |words: &[&str]| {
        let (code, output, errors) = say(words);
        assert_eq!(code, 0, "{words:?}: {output}{errors}");
        output.trim().to_owned()
    };
    let idle = async |agent: &str| {
        eventually(&format!("{agent} is idle"), async || {
            let url = format!("{}/a2a/tasks", running.agents[agent]);
            let tasks = running.call_as_person(Method::GET, &url, None).await.body["tasks"].clone();
            tasks.as_array()?.iter().all(|task| state(task) == "completed").then_some(())
        })
        .await;
    };
    let (code, _, errors) = say(&["hello"]);
    assert!(code != 0 && errors.contains("nobody was addressed yet: say @NAME TEXT"), "{errors}");
    let (code, _, errors) = say(&["@bilder-01", "hello"]);
    assert!(code != 0 && errors.contains("no agent bilder-01") && errors.contains("builder-01?"), "{errors}");

    // To the named agent, although it takes no open requests and another one does.
    assert_eq!(said(&["@builder-01", "use", "tabs"]), "delivered to builder-01");
    assert_eq!(asked(at, "builder-01", 1).await, ["use tabs"]);
    idle("builder-01").await;
    assert_eq!(said(&["and no spaces"]), "delivered to builder-01", "the one addressed last");
    assert_eq!(asked(at, "builder-01", 2).await[1], "and no spaces");
    let history = prompts(at).last().unwrap()["history"].clone();
    assert_eq!(
        (&history[0]["description"], &history[0]["message"]),
        (&json!("use tabs"), &json!("heard use tabs")),
        "{history:#}"
    );
    assert_eq!(said(&["@lead-01 who are you?"]), "delivered to lead-01");
    idle("lead-01").await;
    assert_eq!(said(&["and you?"]), "delivered to lead-01");
    asked(at, "lead-01", 2).await;
    assert!(
        prompts(at).iter().all(|prompt| prompt["agent"] != "lead-01" || !prompt.to_string().contains("tabs"))
    );

    assert_eq!(said(&["--focus", "builder-01"]), "the focus is builder-01");
    idle("builder-01").await;
    hold(at, "builder-01");
    assert_eq!(said(&["third"]), "delivered to builder-01");
    asked(at, "builder-01", 3).await;
    let other = json!({ "description": "other work", "capability": "build" });
    running.agent("builder-01").send(other).await;
    let (code, queued, errors) = say(&["fourth", "--json"]);
    assert_eq!(code, 0, "{errors}");
    let queued: Value = serde_json::from_str(&queued).unwrap();
    assert_eq!(
        (&queued["agent"], &queued["outcome"], &queued["message"]),
        (
            &json!("builder-01"),
            &json!("queued"),
            &json!("queued: builder-01 is busy with what was said before in this context")
        )
    );
    assert_eq!(said(&["fifth"]), "queued: builder-01 is busy and takes it next");
    release(at, "builder-01");
    let order = asked(at, "builder-01", 6).await;
    assert_eq!(order[2..], ["third", "fourth", "fifth", "other work"], "in order, before other work");

    idle("lead-01").await;
    idle("builder-01").await;
    assert_eq!(said(&["@lead-01", "hi"]), "delivered to lead-01");
    assert_eq!(said(&["sixth"]), "delivered to builder-01", "the focus goes before the one addressed last");
    let cleared = "no focus: a text without a name is for the agent addressed last";
    idle("lead-01").await;
    assert_eq!(said(&["@lead-01", "hi", "--focus"]), "delivered to lead-01");
    assert_eq!(said(&["--focus"]), cleared);
    idle("lead-01").await;
    assert_eq!(said(&["seventh"]), "delivered to lead-01");
    let (code, _, errors) = say(&["--focus", "nobody-01"]);
    assert!(code != 0 && errors.contains("no agent nobody-01"), "{errors}");
    idle("lead-01").await;
    assert_eq!(said(&["eighth"]), "delivered to lead-01", "it is as it was");
}

#[tokio::test]
async fn the_bridge_example_runs_as_its_page_shows() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let team = root.join("deploy/examples/bridge/team.yaml");
    let dir = directory();
    let args = ["up", "--port", "0", "--profile", "fast", &team.to_string_lossy()].map(str::to_owned);
    let running = Process::run(dir.path().join("data"), args.to_vec(), None).await;
    let token = running.data.join("token").to_string_lossy().into_owned();
    let envs = [("MESH_URL", running.url.as_str()), ("MESH_TOKEN_FILE", token.as_str())];
    let page = include_str!("../../deploy/examples/bridge/README.md");
    assert!(page.lines().count() <= 22, "it is short");
    // What a brain posts reaches the board a moment later.
    let vault_has = async |agent: &str, count: u64| {
        eventually(&format!("{count} memories of {agent}"), async || {
            let url = format!("{}/board/spaces/default/brief?for={agent}", running.url);
            let brief = running.call_as_person(Method::GET, &url, None).await.body;
            (brief["vaultEntries"].as_u64()? == count).then_some(())
        })
        .await;
    };
    let mut outputs = Vec::new();
    for line in blocks(page, "sh").into_iter().flat_map(str::lines) {
        outputs.push(success(root, line, &envs));
        if line.ends_with("mend the bell") {
            vault_has("scout-01", 1).await;
            vault_has("smith-01", 1).await;
        }
    }
    assert!(outputs[0].starts_with("Done: go to the north gate."), "{outputs:?}");
    assert!(outputs[2].starts_with("Done: mend the bell."), "{outputs:?}");
    assert!(outputs[3].contains("go to the north gate: looked at its walls."), "{outputs:?}");
    assert!(
        outputs[4].contains("mend the bell: looked at its iron.") && outputs[4].contains("of its vault"),
        "{outputs:?}"
    );
    let finished = async |agent: &str, count: usize| {
        eventually(&format!("{count} tasks of {agent}"), async || {
            let url = format!("{}/a2a/tasks", running.agents[agent]);
            let tasks = running.call_as_person(Method::GET, &url, None).await.body["tasks"].clone();
            let done: Vec<_> =
                tasks.as_array()?.iter().filter(|task| state(task) == "completed").map(message).collect();
            (done.len() == count).then_some(done)
        })
        .await
    };
    let scout = finished("scout-01", 1).await;
    let said = "Done: go to the north gate. sage-01 says: I know 0 things of stories";
    assert!(scout[0].starts_with(said), "{scout:?}");
    // The vault and the context of the person: it knows what it was sent to.
    success(root, "mesh say @scout-01 go to the south gate", &envs);
    let scout = finished("scout-01", 2).await;
    let later = scout.iter().find(|said| said.starts_with("Done: go to the south gate.")).unwrap();
    assert!(later.contains("Before that: go to the north gate."), "{scout:?}");
    vault_has("scout-01", 2).await;
    success(root, "mesh say @sage-01 tell of the gates", &envs);
    let sage = finished("sage-01", 1).await;
    assert!(sage[0].contains("scout-01 says: I know 2 things of walls"), "{sage:?}");
}
