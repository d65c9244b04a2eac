//! Observers and supervisors, as commands.

use super::*;

#[tokio::test]
async fn line_30_an_observer_reviews_each_action_and_a_supervisor_addresses_any_seat() {
    let dir = directory();
    let at = dir.path();
    let say = |to: &str, text: &str| json!({ "type": "say", "to": [to], "text": text });
    script(
        at,
        json!({
            "planner-01 #1": [say("builder-01", "quietly"), pass("use SQLite")],
            "planner-01 #2": [done("the plan")],
            "builder-01 #1": [say("lead-01", "may I?"), pass("too slow")],
            "builder-01 #2": [done("agreed")],
            "watcher-01": [pass("")], "watcher-01 #2": [pass("name a number")],
            "lead-01": [pass("")], "lead-01 #1": [say("builder-01", "be brief"), pass("")],
        }),
    );
    let mesh = Process::up(&agents(at, &["planner-01", "builder-01", "watcher-01", "lead-01"])).await;
    let host = mesh.agent("planner-01");
    let graph = json!({ "seats": [
        "planner-01", { "agent": "builder-01", "approachable": false },
        { "agent": "watcher-01", "as": "observer", "reviews": "each-action" },
        { "agent": "lead-01", "as": "supervisor" },
    ] });
    let bad = json!({ "seats": ["planner-01", { "agent": "builder-01", "reviews": "each-action" }] });
    let refused = host.post(&host.request(session("t-0", bad))).await;
    assert!(refusal(&refused).0 == 400 && refusal_text(&refused).contains("`reviews` is for"), "{refused:?}");
    host.send(session("t-1", graph)).await;
    let task = host.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "agreed"), "{task:#}");
    let prompts = prompts(at);
    let order: Vec<_> = prompts.iter().map(|prompt| prompt["agent"].as_str().unwrap()).collect();
    let reviews = ["watcher-01", "lead-01"];
    let expected: Vec<_> = ["planner-01", "builder-01", "planner-01", "builder-01"]
        .into_iter()
        .flat_map(|member| [member, reviews[0], reviews[1]])
        .collect();
    assert_eq!(order, expected);
    // planner-01 may not address builder-01 alone, the supervisor may; nobody addresses the supervisor.
    assert_eq!(heard(&prompts[1]), ["use SQLite"]);
    assert_eq!(heard(&prompts[3]), ["use SQLite", "be brief"]);
    assert_eq!(heard(&prompts[4]), ["use SQLite", "be brief", "too slow"], "it sees messages to others");
    assert_eq!(
        heard(&prompts[6]),
        ["use SQLite", "too slow", "name a number"],
        "the message was for another"
    );
    let refused = |at: usize| prompts[at]["task"]["input"]["seat"]["refused"][0].as_str().unwrap().to_owned();
    assert!(refused(6).contains("to builder-01 was not delivered"), "{}", refused(6));
    assert!(refused(9).contains("to lead-01 was not delivered"), "{}", refused(9));
    let shown = view(&mesh, "planner-01", "t-1").await;
    assert_eq!(shown["budget"]["turns"]["used"], 12, "{shown:#}");
    let seats = &shown["stages"][0]["seats"];
    assert_eq!(
        (&seats[2]["as"], &seats[2]["reviews"]),
        (&json!("observer"), &json!("each-action")),
        "{shown:#}"
    );
    assert_eq!(
        (&seats[3]["as"], &seats[3]["approachable"]),
        (&json!("supervisor"), &json!(false)),
        "{shown:#}"
    );
    assert_eq!((&shown["stages"][0]["round"], &shown["stages"][0]["label"]), (&json!(2), &json!("done")));
}
