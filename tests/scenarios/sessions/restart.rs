//! A session that begins again in a new one.

use super::*;

#[tokio::test]
async fn a_session_begins_again_with_its_graph_and_what_was_said_in_it() {
    let dir = directory();
    let at = dir.path();
    script(
        at,
        json!({
            "one-01": [done("SQLite, then")], "two-01": [done("agreed")],
            "one-01 #1": [{ "type": "say", "to": ["two-01"], "text": "between us" }, pass("use SQLite")], "two-01 #1": [{ "type": "failed", "reason": "no" }],
            "two-01 #2": [{ "type": "failed", "reason": "no" }],
        }),
    );
    let running = Process::up(&agents(at, &["one-01", "two-01"])).await;
    let token = running.data.join("token");
    let person = |args: &[&str]| {
        let envs = [("MESH_URL", running.url.as_str()), ("MESH_TOKEN_FILE", token.to_str().unwrap())];
        mesh(args, &envs)
    };
    let host = running.agent("one-01");
    let graph =
        json!({ "stages": [{ "id": "t", "order": "turns", "rounds": 3, "seats": ["one-01", "two-01"] }] });
    let failed = host.ask(session("t-1", graph)).await;
    assert_eq!(state(&failed), "failed", "{failed:#}");
    let before = prompts(at).len();
    let args = ["convene", "--from", "t-1", "--task-id", "t-2", "--host", "two-01"];
    let (code, said, errors) = person(&args);
    assert_eq!((code, said.lines().last()), (0, Some("[t 1] two-01: agreed")), "{said} {errors}");
    let prompt = &prompts(at)[before];
    assert!(heard(prompt)[0].starts_with("[t 1] one-01: use SQLite"), "{prompt:#}");
    assert!(!prompt.to_string().contains("between us"), "it was for one seat: {prompt:#}");
    assert!(prompt["task"]["description"].as_str().unwrap().starts_with("a plan"), "{prompt:#}");
    let shown = view(&running, "two-01", "t-2").await;
    assert_eq!(
        (&shown["restartedFrom"], &shown["stages"][0]["rounds"]),
        (&json!("t-1"), &json!(3)),
        "{shown:#}"
    );
    let (code, _, errors) = person(&["convene", "--from", "t-9", "again"]);
    assert!(code != 0 && errors.contains("t-9"), "{errors}");
    let (code, _, errors) = person(&["convene", "--from", "t-1", "one-01", "again"]);
    assert_eq!(code, 2, "a graph is named once: {errors}");
}
