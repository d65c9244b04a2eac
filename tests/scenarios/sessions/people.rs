//! People in seats: a turn is a question of the session's task.

use super::*;

fn asked(task: &Value) -> String {
    task["metadata"][EXTENSION]["questions"][0]["text"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_person_has_turns_at_a_table_and_kill_9_loses_none() {
    let dir = directory();
    let at = dir.path();
    script(
        at,
        json!({
            "planner-01 #1": [pass("use SQLite")], "builder-01 #1": [pass("too slow")],
            "planner-01 #2": [done("then Postgres")], "builder-01 #2": [done("agreed")],
        }),
    );
    let mut running = Process::up(&agents(at, &["planner-01", "builder-01"])).await;
    let ada = json!({ "person": "ada", "task": "Say what users want." });
    let graph = json!({ "seats": ["planner-01", ada, "builder-01"] });
    running.agent("planner-01").send(session("t-1", graph)).await;
    let task = running.agent("planner-01").task_in("t-1", &["input_required"]).await;
    for part in ["ada, it is your turn", "a plan", "Say what users want.", "planner-01: use SQLite"] {
        assert!(asked(&task).contains(part), "{part}: {task:#}");
    }
    let shown = view(&running, "planner-01", "t-1").await;
    assert_eq!(shown["stages"][0]["seats"][1]["state"], "asked", "{shown:#}");
    running.kill();
    let running = running.restart().await;
    let token = running.data.join("token");
    let person = |args: &[&str]| {
        let envs = [("MESH_URL", running.url.as_str()), ("MESH_TOKEN_FILE", token.to_str().unwrap())];
        mesh(args, &envs)
    };
    let (code, inbox, errors) = person(&["inbox"]);
    assert!(code == 0 && inbox.contains("ada, it is your turn"), "{inbox} {errors}");
    let (code, _, errors) = person(&["answer", "t-1", "we have two writers"]);
    assert_eq!(code, 0, "{errors}");
    let host = running.agent("planner-01");
    let task = eventually("the second question", async || {
        let task = host.task_in("t-1", &["input_required", "failed", "completed"]).await;
        asked(&task).contains("then Postgres").then_some(task)
    })
    .await;
    assert!(!asked(&task).contains("use SQLite"), "only what is new: {}", asked(&task));
    assert_eq!(person(&["answer", "t-1", "done: good"]).0, 0);
    let task = host.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "agreed"), "{task:#}");
    let expected = ["use SQLite", "we have two writers", "too slow", "then Postgres", "good", "agreed"];
    assert_eq!(said(&task, "table."), expected, "{task:#}");
    assert_eq!(turns(at).len(), 4, "no turn is given twice");
}

#[tokio::test]
async fn a_person_that_does_not_answer_passes_and_all_are_told() {
    let dir = directory();
    let at = dir.path();
    script(at, json!({ "planner-01": [done("one")], "end-01": [done("the end")] }));
    let running = Process::up(&agents(at, &["planner-01", "end-01"])).await;
    let graph = json!({ "stages": [
        { "id": "views", "seats": ["planner-01", { "person": "ada", "timeout": "1s" }] },
        { "id": "end", "after": ["views"], "seats": ["end-01"] },
    ] });
    let host = running.agent("planner-01");
    host.send(session("t-1", graph)).await;
    let task = host.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "the end"), "{task:#}");
    let note = view(&running, "planner-01", "t-1").await["notes"][0].to_string();
    assert!(note.contains("ada gave no answer within 1s; the turn is a pass"), "{note}");
    let all = task["artifacts"].as_array().unwrap();
    let told = all.iter().find(|one| one.to_string().contains("the turn is a pass")).unwrap();
    assert_eq!(told["metadata"]["urn:agent-mesh:ext:session:v1"]["from"], "session", "{told:#}");
    assert_eq!(heard(&prompts(at)[1]), ["one"], "it is no answer");
}
