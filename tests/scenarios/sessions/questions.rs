//! Questions of turns: they surface at the task of the session, a person or the autopilot answers them, and only whoever asks is
//! told.

use super::*;
use protocol::time::WallTime;

/// Seats of the stage `work` ask, and say what they were told. In other stages and as the autopilot they say something fixed.
const ASKS: &str = r#"
import json, os, sys
here = os.path.dirname(os.path.abspath(__file__))
turn = json.loads(sys.stdin.readline())
agent, seat = turn["agent"], turn["task"]["input"]["seat"]
with open(os.path.join(here, "prompts"), "a") as prompts:
    prompts.write(json.dumps(turn) + "\n")
def tell(**line):
    print(json.dumps(line), flush=True)
if seat["stage"] == "autopilot":
    text = turn["task"]["description"]
    tell(type="done", message="approve" if "confirm the result" in text else "blue, says " + agent)
elif seat["stage"] != "work":
    tell(type="done", message="a spec")
elif turn.get("answers"):
    last = turn["answers"][-1]
    tell(type="done", message="%s was told: %s (%s)" % (agent, last["text"], last["ok"]))
else:
    more = json.load(open(os.path.join(here, "question-" + agent)))
    tell(type="question", id="q", text="which colour, asks " + agent, **more)
"#;

fn team(dir: &Path, names: &[&str]) -> String {
    let script = file(dir, "asks.py", ASKS);
    let one = |name: &&str| {
        format!(
            "  - {{ agent: {name}, skills: [{name}], brain: {{ exec: [python3, '{}'] }} }}\n",
            script.display()
        )
    };
    format!("agents:\n{}", names.iter().map(one).collect::<String>())
}

fn questions(task: &Value) -> Vec<Value> {
    task["metadata"][EXTENSION]["questions"].as_array().cloned().unwrap_or_default()
}

#[tokio::test]
async fn line_36_a_question_of_a_turn_is_asked_at_the_session_and_its_answer_reaches_that_turn_only() {
    let dir = directory();
    let at = dir.path();
    let running = Process::up(&team(at, &["host-01", "one-01", "two-01"])).await;
    file(at, "question-one-01", "{}");
    let soon = WallTime(chrono::Utc::now().timestamp_millis() + 20_000);
    file(at, "question-two-01", &json!({ "expiresAt": soon.to_string() }).to_string());
    let host = running.agent("host-01");
    let graph = json!({ "stages": [{ "id": "work", "seats": ["one-01", "two-01"] }] });
    host.send(session("t-1", graph)).await;
    let task = eventually("both questions", async || {
        let task = host.task_in("t-1", &["input_required", "working"]).await;
        (questions(&task).len() == 2).then_some(task)
    })
    .await;
    let asked = questions(&task).into_iter().find(|one| one["text"] == "which colour, asks one-01").unwrap();
    let token = running.data.join("token");
    let person = |args: &[&str]| {
        let envs = [("MESH_URL", running.url.as_str()), ("MESH_TOKEN_FILE", token.to_str().unwrap())];
        mesh(args, &envs)
    };
    let (code, inbox, errors) = person(&["inbox"]);
    let expected = "? one-01 in stage work asks: which colour, asks one-01";
    assert!(code == 0 && inbox.contains(expected), "{inbox} {errors}");
    let by = json!({ "agent": "one-01", "stage": "work", "seat": "one-01" });
    assert_eq!(asked["askedBy"], by, "{task:#}");
    assert!(person(&["tasks", "show", "t-1"]).1.contains("two-01 in stage work asks: which"), "{task:#}");
    let (code, _, errors) = person(&["answer", "t-1", "red", "--question", asked["id"].as_str().unwrap()]);
    assert_eq!(code, 0, "{errors}");
    let task = host.task_in("t-1", &["completed", "failed"]).await;
    let mut told = said(&task, "work.");
    told.sort();
    let expected = ["one-01 was told: red (True)", "two-01 was told: no answer in time (False)"];
    assert_eq!(told, expected, "{task:#}");
}

#[tokio::test]
async fn an_autopilot_answers_questions_and_confirms_the_gate_that_is_named() {
    let dir = directory();
    let at = dir.path();
    let running = Process::up(&team(at, &["lead-01", "one-01", "two-01"])).await;
    file(at, "question-one-01", "{}");
    let graph = json!({
        "autopilot": { "seat": "lead-01", "gates": ["spec"] },
        "stages": [
            { "id": "spec", "seats": ["lead-01"], "gate": ["approve", "decline"] },
            { "id": "work", "after": ["spec"], "seats": ["one-01"], "gate": ["approve", "decline"] },
        ],
    });
    let host = running.agent("two-01");
    host.send(session("t-1", graph)).await;
    let task = host.task_in("t-1", &["input_required", "completed", "failed"]).await;
    let asked = questions(&task);
    assert!(asked[0]["text"].as_str().unwrap().starts_with("stage work ended"), "the other gate: {task:#}");
    assert_eq!(
        artifact(&task, "work.1.one-01.1").as_deref(),
        Some("one-01 was told: blue, says lead-01 (True)"),
        "{task:#}"
    );
    let shown = view(&running, "two-01", "t-1").await;
    let notes = shown["notes"].to_string();
    assert!(notes.contains("the autopilot has answered for the person (one-01)"), "{shown:#}");
    assert_eq!(shown["stages"][0]["reason"], "confirmed by the autopilot", "{shown:#}");
    let record = artifact(&task, "autopilot.3").unwrap();
    assert!(record.contains("asks one-01\n→ blue, says lead-01"), "{record}");
    let url = format!("{}/a2a/tasks/t-1/answer", host.url);
    let decision = json!({ "questionId": asked[0]["id"], "decision": "approve" });
    let by_person = running.call_as_person(Method::POST, &url, Some(&decision)).await;
    assert_eq!(by_person.status, 200, "{by_person:?}");
    host.task_in("t-1", &["completed"]).await;
}

#[tokio::test]
async fn line_51_a_candidate_that_a_person_drops_is_not_given_to_later_stages() {
    let dir = directory();
    let at = dir.path();
    script(
        at,
        json!({ "one-01": [done("a pond")], "two-01": [done("a bath")], "end-01": [done("the end")] }),
    );
    let running = Process::up(&agents(at, &["one-01", "two-01", "end-01"])).await;
    let graph = json!({ "stages": [
        { "id": "ideas", "seats": ["one-01", "two-01"], "gate": ["approve", "kill", "decline"] },
        { "id": "end", "after": ["ideas"], "seats": ["end-01"] },
    ] });
    let host = running.agent("end-01");
    host.send(session("t-1", graph)).await;
    let task = host.task_in("t-1", &["input_required"]).await;
    let text = questions(&task)[0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("Candidates:\n1. one-01: a pond\n2. two-01: a bath"), "{text}");
    let token = running.data.join("token");
    let person = |args: &[&str]| {
        let envs = [("MESH_URL", running.url.as_str()), ("MESH_TOKEN_FILE", token.to_str().unwrap())];
        mesh(args, &envs)
    };
    assert_eq!(person(&["answer", "t-1", "--deny", "--reason", "kill 2"]).0, 0);
    eventually("the next question", async || {
        let task = host.task_in("t-1", &["input_required"]).await;
        let asked = questions(&task);
        (!asked.is_empty() && !asked[0]["text"].as_str().unwrap().contains("(two-01)")).then_some(())
    })
    .await;
    assert_eq!(person(&["answer", "t-1", "--approve"]).0, 0);
    host.task_in("t-1", &["completed"]).await;
    assert_eq!(heard(prompts(at).last().unwrap()), ["a pond"]);
}
