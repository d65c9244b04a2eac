//! Steering by a person and by a supervisor.

use super::*;

#[tokio::test]
async fn line_44_stop_acts_at_once_amend_and_redirect_at_the_next_turn_and_pause_is_refused() {
    let dir = directory();
    let at = dir.path();
    let directive = |verb: &str, text: &str| json!({ "type": "directive", "verb": verb, "text": text });
    script(
        at,
        json!({
            "one-01 table.1.1": [pass("one")], "two-01 table.1.1": [pass("two")],
            "lead-01 #1": [directive("amend", "no mail"), pass("")], "lead-01": [pass("")],
        }),
    );
    let running = Process::up(&agents(at, &["one-01", "two-01", "lead-01"])).await;
    let host = running.agent("one-01");
    let lead = json!({ "agent": "lead-01", "as": "supervisor" });
    let graph = json!({ "stages": [
        { "id": "table", "order": "turns", "seats": ["one-01", "two-01", lead] },
    ] });
    hold(at, "two-01");
    host.send(session("t-1", graph.clone())).await;
    at_turn(at, "two-01 table.1.1").await;
    let token = running.data.join("token");
    let steer = |args: &[&str]| {
        let envs = [("MESH_URL", running.url.as_str()), ("MESH_TOKEN_FILE", token.to_str().unwrap())];
        mesh(&[&["steer", "t-1"], args].concat(), &envs)
    };
    assert_eq!(steer(&["amend", "only passkeys"]).1, "t-1 delivered\n");
    let url = format!("{}/a2a/tasks/t-1/directives", host.url);
    let direct = async |body: Value| running.call_as_person(Method::POST, &url, Some(&body)).await;
    let pause = direct(json!({ "verb": "pause" })).await;
    assert_eq!(refusal(&pause).0, 400, "{pause:?}");
    assert!(refusal_text(&pause).contains("a session can't be paused"), "{pause:?}");
    hold(at, "one-01");
    release(at, "two-01");
    at_turn(at, "one-01 table.1.2").await;
    let all = prompts(at);
    let of_two = all.iter().find(|prompt| prompt["agent"] == "two-01").unwrap();
    assert_eq!(heard(of_two), ["one", "no mail"], "the turn that ran is given what was there when it began");
    assert_eq!(heard(all.last().unwrap()), ["one", "no mail", "only passkeys", "two"]);
    assert_eq!(steer(&["redirect", "shorter", "--stage", "table"]).1, "t-1 delivered\n");
    release(at, "one-01");
    hold(at, "one-01");
    at_turn(at, "one-01 table.2.1").await;
    let again = prompts(at).pop().unwrap();
    for part in ["no mail", "only passkeys", "shorter"] {
        assert!(heard(&again).contains(&part), "{part}: {again:#}");
    }
    assert_eq!(steer(&["stop", "enough"]).1, "t-1 delivered\n");
    let task = host.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("failed", "stopped by a person: enough"));
    release(at, "one-01");
    let late = eventually("the end is written", || async {
        Some(direct(json!({ "verb": "amend", "text": "too late" })).await).filter(|late| late.status != 503)
    });
    let late = late.await;
    assert_eq!(refusal(&late).0, 409, "{late:?}");
    assert!(refusal_text(&late).contains("failed"), "the state is named: {late:?}");
    let (code, _, errors) = steer(&["amend", "too late"]);
    assert!(code != 0 && errors.contains("t-1 has ended"), "{code} {errors}");
}

#[tokio::test]
async fn a_person_steers_a_session_while_it_runs() {
    let dir = directory();
    let at = dir.path();
    script(
        at,
        json!({
            "one-01 table.1.1": [pass("one")], "two-01 table.1.1": [pass("two")],
            "one-01 table.1.2": [pass("three")], "end-01": [done("the end")],
        }),
    );
    let running = Process::up(&agents(at, &["one-01", "two-01", "end-01"])).await;
    let host = running.agent("one-01");
    let graph = json!({ "stages": [
        { "id": "table", "order": "turns", "seats": ["one-01", "two-01"] },
        { "id": "end", "after": ["table"], "seats": ["end-01"] },
    ] });
    hold(at, "two-01");
    host.send(session("t-1", graph.clone())).await;
    at_turn(at, "two-01 table.1.1").await;
    let token = running.data.join("token");
    let steer = |args: &[&str]| {
        let envs = [("MESH_URL", running.url.as_str()), ("MESH_TOKEN_FILE", token.to_str().unwrap())];
        mesh(&[&["steer", "t-1"], args].concat(), &envs)
    };
    let directives = format!("{}/a2a/tasks/t-1/directives", host.url);
    let anybody = call(Method::POST, &directives, Some(&json!({ "verb": "stop" }))).await;
    assert_eq!(anybody.status, 404, "it needs the person's token: {anybody:?}");
    assert_eq!(steer(&["say", "be quick"]).1, "t-1 delivered\n");
    assert_eq!(steer(&["say", "be kind", "--stage", "end"]).1, "t-1 queued\n");
    let (code, _, errors) = steer(&["redirect", "--stage", "end"]);
    assert!(code != 0 && errors.contains("has not begun"), "{code} {errors}");
    hold(at, "one-01");
    release(at, "two-01");
    at_turn(at, "one-01 table.1.2").await;
    let prompt = prompts(at).pop().unwrap();
    assert_eq!(heard(&prompt), ["one", "be quick", "two"], "{prompt:#}");
    assert_eq!(steer(&["skip", "we know enough", "--stage", "table"]).1, "t-1 delivered\n");
    let task = host.task_in("t-1", &["completed", "failed"]).await;
    release(at, "one-01");
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "the end"), "{task:#}");
    let prompt = prompts(at).pop().unwrap();
    assert!(heard(&prompt).contains(&"be kind") && heard(&prompt).contains(&"two"), "{prompt:#}");
    let (code, _, errors) = steer(&["stop"]);
    assert!(code != 0 && errors.contains("t-1 has ended"), "{code} {errors}");
}
