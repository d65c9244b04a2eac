//! A seat has its earlier turns in every later one: what it was told, noted, made and said.

use super::*;

fn rounds(text: &[&str]) -> Vec<Value> {
    let one = |text: &&str| {
        let note = json!({ "type": "checkpoint", "data": { "noted": text } });
        let made = json!({ "type": "artifact", "name": "notes", "text": format!("made {text}") });
        json!([note, made, pass(text)])
    };
    text.iter().map(one).collect()
}

/// Turn `#1`, `#2`, … of an agent.
fn turns_of(agent: &str, turns: Vec<Value>) -> serde_json::Map<String, Value> {
    turns.into_iter().zip(1..).map(|(lines, number)| (format!("{agent} #{number}"), lines)).collect()
}

/// The prompts of an agent.
fn of(dir: &Path, agent: &str) -> Vec<Value> {
    prompts(dir).into_iter().filter(|prompt| prompt["agent"] == agent).collect()
}

#[tokio::test]
async fn a_seat_has_its_earlier_turns_in_round_nine_and_the_same_after_kill_9() {
    let dir = directory();
    let at = dir.path();
    let said = ["one", "two", "three", "four", "five", "six", "seven", "eight"];
    let mut lines = turns_of("planner-01", rounds(&said));
    lines.extend(turns_of(
        "builder-01",
        said.iter().map(|text| json!([pass(&format!("re {text}"))])).collect(),
    ));
    lines.insert("planner-01".to_owned(), json!([done("planned")]));
    lines.insert("builder-01".to_owned(), json!([done("built")]));
    script(at, json!(lines));
    let mut mesh = Process::up(&agents(at, &["planner-01", "builder-01"])).await;
    let short = json!({ "agent": "builder-01", "compaction": { "table": "last 2" } });
    mesh.agent("planner-01").send(session("t-1", json!({ "seats": ["planner-01", short] }))).await;
    at_turn(at, "builder-01 table.1.8").await;
    hold(at, "planner-01");
    at_turn(at, "planner-01 table.1.9").await;
    mesh.kill();
    let mesh = mesh.restart().await;
    eventually("the turn begins again", async || (of(at, "planner-01").len() == 10).then_some(())).await;
    release(at, "planner-01");
    let task = mesh.agent("planner-01").task_in("t-1", &["completed", "failed"]).await;
    assert_eq!(state(&task), "completed", "{task:#}");

    let planner = of(at, "planner-01");
    assert_eq!(planner[0]["context"], json!({}), "{:#}", planner[0]);
    let (ninth, again) = (&planner[8], &planner[9]);
    assert_eq!((&ninth["key"], &ninth["context"]), (&again["key"], &again["context"]), "the same bytes");
    let turns = ninth["context"]["turns"].as_array().unwrap();
    assert_eq!((turns.len(), ninth["context"].get("summary")), (8, None), "{ninth:#}");
    for (turn, text) in turns.iter().zip(said) {
        assert_eq!(turn["checkpoints"], json!([{ "noted": text }]), "{turn:#}");
        assert_eq!(turn["message"], text, "{turn:#}");
        assert_eq!(turn["produced"][0]["parts"][0]["text"], format!("made {text}"), "{turn:#}");
    }
    assert_eq!(turns[1]["place"], "stage table, round 2");
    assert_eq!(turns[1]["new"][0]["parts"][0]["text"], "re one", "what others said stands between them");

    let builder = of(at, "builder-01");
    let context = &builder[8]["context"];
    assert_eq!(context["turns"].as_array().map(Vec::len), Some(2), "{context:#}");
    let summary = context["summary"].as_str().unwrap();
    assert!(
        summary.starts_with("- stage table, round 1: re one\n") && summary.contains("round 6: re six"),
        "{summary}"
    );
}

#[tokio::test]
async fn a_model_goes_on_with_its_calls_and_results_and_sums_up_what_becomes_too_long() {
    let long = "a long result. ".repeat(600);
    let stub = ModelStub::start(move |request| {
        let last = request.user.last().unwrap();
        match () {
            () if last.contains("Write a summary of all before this message") => {
                says("SUMMARY: the port is 8080.")
            }
            () if last.contains("\"round\": 1,") && request.results.is_empty() => calls(&[
                ("read_signals", json!({ "type": "acme.*" })),
                ("say", json!({ "to": ["nobody", "other-01"], "text": "hi" })),
            ]),
            () if last.contains("\"round\": 6,") => says("the end"),
            () => calls(&[(
                "pass",
                json!({ "message": format!("I go on, {}. {long}", request.user.len() + request.results.len()) }),
            )]),
        }
    });
    let dir = directory();
    let at = dir.path();
    let seat = file(at, "seat.py", SEAT);
    script(at, json!({ "other-01": [done("heard")], "other-01 #1": [pass("first")] }));
    let team = format!(
        "agents:\n  - {{ agent: thinker-01, brain: {{ llm: {{ {}, context: 12000 }} }} }}\n  - {{ agent: other-01, brain: {{ exec: [python3, '{}'] }} }}\n",
        super::super::llm::model(&stub, "openai"),
        seat.display()
    );
    let mesh = Process::up(&team).await;
    let stage = json!({ "id": "table", "order": "turns", "seats": ["thinker-01", "other-01"] });
    let task = mesh.agent("thinker-01").ask(session("t-1", json!({ "stages": [stage] }))).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    let requests = stub.requests();
    let told = requests[1].results[1].as_str();
    assert!(
        told.starts_with("to other-01: is sent") && told.contains("Not to nobody: no such seat here"),
        "{told}"
    );
    let second = requests.iter().find(|one| one.user.last().unwrap().contains("\"round\": 2,")).unwrap();
    assert!(second.results[0].contains("[No signal."), "the result of round 1: {:?}", second.results);
    assert_eq!(second.user.len(), 2, "a turn each: {:?}", second.user);
    assert!(second.user[0].contains("\"round\": 1,"), "{}", second.user[0]);
    let heard = of(at, "other-01");
    assert_eq!(super::heard(&heard[0])[0], "hi", "who can be reached is reached: {:#}", heard[0]);
    let last = requests.last().unwrap();
    assert!(last.user[0].contains("SUMMARY: the port is 8080."), "{:?}", last.user[0]);
    assert!(last.user.iter().all(|text| !text.contains("\"round\": 1,")), "the summary stands for it");
}
