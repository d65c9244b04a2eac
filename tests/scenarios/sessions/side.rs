//! Side conversations, as commands.

use super::*;

fn say(to: &str, text: &str) -> Value {
    json!({ "type": "say", "to": [to], "text": text })
}

fn graph(side: Value) -> Value {
    let seats = ["planner-01", "builder-01", "tester-01"];
    json!({ "stages": [{ "id": "table", "order": "turns", "side": side, "seats": seats }] })
}

fn order(at: &Path) -> Vec<String> {
    prompts(at).iter().map(|prompt| prompt["agent"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn line_28_a_message_to_one_seat_pauses_the_table_until_either_ends_it() {
    let dir = directory();
    let at = dir.path();
    script(
        at,
        json!({
            "planner-01 #1": [say("builder-01", "which index?"), pass("use SQLite")],
            "builder-01 #1": [say("tester-01", "psst"), pass("by date")],
            "planner-01 #2": [done("we index by date")],
            "builder-01 #2": [pass("two")],
            "tester-01 #1": [say("builder-01", "who tests?"), pass("three")],
            "builder-01 #3": [done("the tester does")],
            "planner-01 #3": [done("four")], "builder-01 #4": [done("five")], "tester-01 #2": [done("six")],
        }),
    );
    let mesh = Process::up(&agents(at, &["planner-01", "builder-01", "tester-01"])).await;
    let host = mesh.agent("planner-01");
    hold(at, "planner-01");
    host.send(session("t-1", graph(json!({ "max": 4 })))).await;
    at_turn(at, "planner-01 table.1.1").await;
    hold(at, "builder-01");
    release(at, "planner-01");
    at_turn(at, "builder-01 table.1.1").await;
    let shown = view(&mesh, "planner-01", "t-1").await;
    let expected = json!({ "between": ["planner-01", "builder-01"], "messages": 1, "max": 4 });
    assert_eq!(shown["stages"][0]["side"], expected, "{shown:#}");
    release(at, "builder-01");
    let task = host.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "six"), "{task:#}");
    let (planner, builder, tester) = ("planner-01", "builder-01", "tester-01");
    let talk = [planner, builder, planner];
    let expected = [&talk[..], &[builder], &[tester, builder], &[planner, builder, tester]].concat();
    assert_eq!(order(at), expected, "the partner has its turn in the same round");
    let prompts = prompts(at);
    let seat = |at: usize| &prompts[at]["task"]["input"]["seat"];
    assert_eq!(seat(1)["side"], json!({ "with": "planner-01", "messages": 1, "max": 4 }));
    assert_eq!(
        heard(&prompts[2]),
        ["which index?", "use SQLite", "by date"],
        "its own words, and what is new"
    );
    assert_eq!(heard(&prompts[4]), ["use SQLite", "we index by date", "two"], "the others are told its end");
    assert_eq!((seat(3).get("side"), &seat(3)["round"]), (None, &json!(1)));
    assert!(
        seat(3)["refused"][0].as_str().unwrap().contains("you talk with planner-01 alone"),
        "{}",
        seat(3)
    );
    assert_eq!(
        heard(&prompts[6]),
        ["which index?", "use SQLite", "by date", "we index by date", "two", "three", "the tester does"]
    );
    assert_eq!(view(&mesh, "planner-01", "t-1").await["budget"]["turns"]["used"], 9);
}

#[tokio::test]
async fn a_seat_that_does_not_answer_in_a_side_conversation_ends_it_by_its_time() {
    let dir = directory();
    let at = dir.path();
    script(
        at,
        json!({
            "planner-01 #1": [say("builder-01", "which index?"), pass("use SQLite")],
            "planner-01 #2": [done("the end")], "builder-01": [done("two")], "tester-01": [done("three")],
        }),
    );
    let mesh = Process::up(&agents(at, &["planner-01", "builder-01", "tester-01"])).await;
    let host = mesh.agent("planner-01");
    hold(at, "builder-01");
    host.send(session("t-1", graph(json!({ "time": "1s" })))).await;
    let note = eventually("the note about its end", async || {
        view(&mesh, "planner-01", "t-1").await["notes"][0].as_str().map(str::to_owned)
    })
    .await;
    assert!(note.contains("its time of 1s is over, and builder-01 has not answered"), "{note}");
    release(at, "builder-01");
    let task = host.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "the end"), "{task:#}");
    let prompts = prompts(at);
    let tester = prompts.iter().find(|prompt| prompt["agent"] == "tester-01").unwrap();
    let told = heard(tester).into_iter().find(|text| text.contains("have talked alone")).unwrap_or_default();
    assert!(
        told.contains("and builder-01 has not answered") && told.contains("planner-01: which index?"),
        "{told}"
    );
    let all = task["artifacts"].as_array().unwrap();
    let summary = all.iter().find(|one| one["parts"][0]["text"] == told).unwrap();
    let about = &summary["metadata"]["urn:agent-mesh:ext:session:v1"];
    assert_eq!((&about["from"], &about["to"]), (&json!("session"), &json!(["tester-01"])), "{summary:#}");
}

#[tokio::test]
async fn a_host_that_is_killed_in_a_side_conversation_goes_on_with_it() {
    let dir = directory();
    let at = dir.path();
    script(
        at,
        json!({
            "planner-01 #1": [say("builder-01", "which index?"), pass("use SQLite")],
            "builder-01 #1": [pass("by date")], "planner-01 #2": [pass("why?")],
            "builder-01 #2": [done("it is asked for")], "builder-01 #3": [done("two")],
            "tester-01": [done("three")], "planner-01 #3": [done("the end")],
        }),
    );
    let mut running = Process::up(&agents(at, &["planner-01", "builder-01", "tester-01"])).await;
    hold(at, "builder-01");
    running.agent("planner-01").send(session("t-1", graph(json!({})))).await;
    at_turn(at, "builder-01 table.1.1").await;
    running.kill();
    release(at, "builder-01");
    let running = running.restart().await;
    let host = running.agent("planner-01");
    let task = host.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "the end"), "{task:#}");
    let mut order = order(at);
    order.dedup();
    assert_eq!(
        order,
        ["planner-01", "builder-01", "planner-01", "builder-01", "tester-01", "planner-01"],
        "the turn that was cut begins again, and no other"
    );
    let expected =
        ["which index?", "use SQLite", "by date", "why?", "it is asked for", "two", "three", "the end"];
    assert_eq!(said(&task, "table."), expected, "{task:#}");
}

#[tokio::test]
async fn line_29_a_seat_that_gives_work_away_keeps_its_turn() {
    let dir = directory();
    let at = dir.path();
    let gives = json!({ "type": "say", "to": ["builder-01"], "text": "measure it", "mode": "delegation" });
    script(
        at,
        json!({
            "planner-01 #1": [gives, pass("")], "builder-01 #1": [done("40 ms")],
            "planner-01 #2": [done("40 ms will do")], "builder-01 #2": [done("two")], "tester-01": [done("three")],
        }),
    );
    let mesh = Process::up(&agents(at, &["planner-01", "builder-01", "tester-01"])).await;
    let host = mesh.agent("planner-01");
    let task = host.ask(session("t-1", graph(json!({})))).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "three"), "{task:#}");
    let (planner, builder) = ("planner-01", "builder-01");
    assert_eq!(order(at), [planner, builder, planner, builder, "tester-01"]);
    let prompts = prompts(at);
    assert_eq!(prompts[1]["task"]["input"]["seat"]["side"]["mode"], "delegation");
    assert_eq!(heard(&prompts[2]), ["measure it", "40 ms"]);
    assert_eq!(prompts[2]["task"]["input"]["seat"]["round"], 1, "it is the same cycle");
    let told = heard(&prompts[4]);
    assert!(told[0].starts_with("planner-01 has had builder-01 work alone"), "{told:?}");
    assert!(!told.contains(&"40 ms") && told.contains(&"40 ms will do"), "{told:?}");
}
