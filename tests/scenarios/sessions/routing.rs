//! Who may speak to whom, with real requests.

use super::*;

/// Asks its siblings in every way that there is, and says what came of it.
const ASKS: &str = r#"
import json, sys
turn = json.loads(sys.stdin.readline())
def tell(**line):
    print(json.dumps(line), flush=True)
if "help" in turn or turn["task"].get("description") == "help me":
    tell(type="done", message="at your service")
elif turn["agent"] != "one-01":
    tell(type="done", message=turn["agent"])
elif not turn.get("answers"):
    tell(type="say", to=["two-01"], text="psst")
    tell(type="help", id="h", to="two-01", question="help?")
    tell(type="help", id="hc", capability="work", question="help?")
    tell(type="delegate", id="d", to="two-01", description="help me")
    tell(type="delegate", id="dc", to="capability:work", description="help me")
    tell(type="help", id="up", to="lead-01", question="help?")
else:
    tell(type="done", message=json.dumps([[a["id"], a["ok"], a["text"]] for a in turn["answers"]]))
"#;

#[tokio::test]
async fn line_35_siblings_are_refused_on_every_way_and_the_lead_is_reached() {
    let dir = directory();
    let script = file(dir.path(), "asks.py", ASKS);
    let agent = |name: &str, skill: &str| {
        format!(
            "  - {{ agent: {name}, skills: [{skill}], brain: {{ exec: [python3, '{}'] }} }}\n",
            script.display()
        )
    };
    let team = [("one-01", "ask"), ("two-01", "work"), ("lead-01", "lead"), ("other-01", "work")];
    let yaml: String = team.iter().map(|(name, skill)| agent(name, skill)).collect();
    let mesh = Process::up(&format!("agents:\n{yaml}")).await;
    let graph = |routing: &str| {
        json!({
            "routing": routing, "cast": { "lead": "lead-01" },
            "stages": [{ "id": "work", "order": "turns", "seats": ["one-01", "two-01"] }],
        })
    };
    let task = mesh.agent("lead-01").ask(session("t-1", graph("up-down"))).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    let answers: Vec<(String, bool, String)> =
        serde_json::from_str(&artifact(&task, "work.1.one-01.1").unwrap()).unwrap();
    let of = |id: &str| answers.iter().find(|(known, ..)| known == id).unwrap();
    for id in ["h", "d"] {
        assert!(!of(id).1 && of(id).2.starts_with("sibling_refused: two-01"), "{answers:#?}");
    }
    assert!(of("hc").1 && !of("hc").2.contains("two-01"), "only the other one is asked: {answers:#?}");
    assert!(of("dc").1 && of("up").1, "{answers:#?}");
    let dc = mesh.agent("other-01");
    let tasks = get(&format!("{}/a2a/tasks?limit=50", dc.url)).await.to_string();
    assert!(tasks.contains("help me"), "the auction went to the agent without a seat: {tasks}");
    let shown = view(&mesh, "lead-01", "t-1").await;
    assert_eq!(shown["routing"], "up-down", "{shown:#}");
    let task = mesh.agent("lead-01").ask(session("t-2", graph("mediated"))).await;
    assert_eq!(
        artifact(&task, "work.1.one-01.1.say.1").as_deref(),
        Some("psst"),
        "the host hands it on: {task:#}"
    );
    let answers = artifact(&task, "work.1.one-01.1").unwrap();
    assert!(answers.matches("sibling_refused").count() == 2, "{answers}");
}
