//! A workshop: what one child is told, says and learns, and what becomes of it (seed 000).

use super::{examples::as_person, *};

#[tokio::test]
async fn stopping_one_child_touches_that_child_only() {
    let dir = directory();
    let at = dir.path();
    script(at, json!({ "one-01": [done("one")], "two-01": [done("two")], "lead-01": [done("all")] }));
    let running = Process::up(&agents(at, &["one-01", "two-01", "lead-01"])).await;
    let host = running.agent("lead-01");
    let graph = json!({ "stages": [
        { "id": "a", "seats": ["one-01"] },
        { "id": "b", "seats": ["two-01"] },
        { "id": "end", "after": ["a", "b"], "needs": "settled", "seats": ["lead-01"] },
    ] });
    hold(at, "one-01");
    hold(at, "two-01");
    host.send(session("t-1", graph)).await;
    at_turn(at, "one-01 a.1.1").await;
    at_turn(at, "two-01 b.1.1").await;
    let steer = |args: &[&str]| as_person(&running, &[&["steer", "t-1"], args].concat());
    assert_eq!(steer(&["amend", "be brief", "--stage", "end"]), "t-1 queued\n");
    assert_eq!(steer(&["stop", "enough", "--stage", "a"]), "t-1 delivered\n");
    let shown = view(&running, "lead-01", "t-1").await;
    assert_eq!(
        (&shown["stages"][0]["label"], &shown["stages"][1]["state"]),
        (&json!("stopped"), &json!("running"))
    );
    release(at, "two-01");
    let task = host.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "all"), "{task:#}");
    let last = prompts(at).pop().unwrap();
    assert_eq!(heard(&last), ["be brief", "two"], "the other child has gone on");
    release(at, "one-01");
}

/// Publishes in its turn, notes what it hears, and is done.
const HEARS: &str = r#"
import json, os, sys
here = os.path.dirname(os.path.abspath(__file__))
turn = json.loads(sys.stdin.readline())
if "signal" in turn:
    with open(os.path.join(here, "heard"), "a") as heard:
        heard.write("%s %s\n" % (turn["agent"], turn["signal"]["subject"]))
elif turn["agent"] == "one-01":
    print(json.dumps({"type": "signal", "signal": "acme.note", "subject": "use port 99, sibling"}))
print(json.dumps({"type": "done", "message": turn["agent"]}))
"#;

#[tokio::test]
async fn a_signal_of_a_child_reaches_the_host_and_the_lead_and_no_sibling() {
    let dir = directory();
    let hears = file(dir.path(), "hears.py", HEARS);
    let agent = |name: &&str| {
        let brain = format!("{{ exec: [python3, '{}'] }}", hears.display());
        format!("  - {{ agent: {name}, skills: [{name}-work], subscribe: [acme.*], brain: {brain} }}\n")
    };
    let team: String = ["lead-01", "one-01", "two-01"].iter().map(agent).collect();
    let mesh = Process::up(&format!("agents:\n{team}")).await;
    let graph = json!({ "routing": "up-down", "cast": { "lead": "lead-01" }, "stages": [
        { "id": "a", "seats": ["one-01"] }, { "id": "b", "after": ["a"], "seats": ["two-01"] },
    ] });
    let task = mesh.agent("lead-01").ask(session("t-1", graph)).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    let heard = || std::fs::read_to_string(dir.path().join("heard")).unwrap_or_default();
    eventually("the lead hears it", async || heard().contains("lead-01 use port 99").then_some(())).await;
    // What is for all comes after it, to everybody.
    let signal = json!({ "id": "s-1", "type": "acme.note", "from": "me", "subject": "the end", "at": "2026-01-01T00:00:00Z" });
    mesh.call_as_person(Method::POST, &format!("{}/board/signals", mesh.url), Some(&signal)).await;
    eventually("two-01 hears that", async || heard().contains("two-01 the end").then_some(())).await;
    assert!(!heard().contains("two-01 use port"), "{}", heard());
    let read =
        mesh.call_as_person(Method::GET, &format!("{}/board/signals?type=acme.*", mesh.url), None).await;
    assert!(read.body.to_string().contains("use port 99"), "people see all: {read:?}");
}

/// The seats of a workshop: the children propose what they have learnt.
fn workshop_script() -> Value {
    let learnt =
        |title: &str| json!({ "type": "propose", "entryType": "learning", "title": title, "content": title });
    let plan = json!([
        { "id": "a", "task": "a", "agent": "one-01" }, { "id": "b", "task": "b", "agent": "two-01", "after": ["a"] },
    ]);
    json!({
        "lead-01 spec.1.1": [done(r#"{"goal": "g", "outcome": ["it works"]}"#)],
        "lead-01 plan.1.1": [done(&plan.to_string())],
        "lead-01 assemble.1.1": [done("all of it")],
        "one-01": [learnt("of one"), done("one")],
        "two-01": [learnt("of two"), done("two")],
        "critic-01": [done(r#"[{"outcome": 1, "met": true, "by": "all"}]"#)],
    })
}

#[tokio::test]
async fn what_children_propose_waits_for_the_review_of_the_whole() {
    for is_declined in [true, false] {
        let dir = directory();
        let at = dir.path();
        script(at, workshop_script());
        let team = agents(at, &["lead-01", "one-01", "two-01", "critic-01"]);
        let members = "{ lead-01: member, one-01: member, two-01: member, critic-01: member }";
        let space = format!("mesh:\n  spaces:\n    shop: {{ members: {members}, autoMerge: [learning] }}\n");
        let running = Process::up(&format!("{space}{team}")).await;
        let graph = json!({ "preset": "workshop", "space": "shop", "cast": { "lead": "lead-01", "curator": "critic-01" } });
        let graph = file(at, "workshop.json", &graph.to_string());
        let person = |args: &[&str]| as_person(&running, args);
        let id = person(&["convene", &graph.to_string_lossy(), "g", "--no-wait"]);
        let (id, lead) = (id.trim(), running.agent("lead-01"));
        lead.task_in(id, &["input_required"]).await;
        person(&["answer", id, "--approve"]);
        eventually("the review", async || {
            let shown = view(&running, "lead-01", id).await;
            (shown["stages"][3]["state"] == "gated").then_some(())
        })
        .await;
        let entries = |more: &[&str]| person(&[&["space", "entries", "--space", "shop"], more].concat());
        let pending = entries(&["--kind", "proposal", "--status", "pending"]);
        assert!(pending.contains("of one") && pending.contains("of two"), "{pending}");
        assert!(!entries(&["--kind", "memory", "--tag", "x"]).contains("of one"));
        match is_declined {
            true => person(&["answer", id, "--deny"]),
            false => person(&["answer", id, "--approve"]),
        };
        lead.task_in(id, &["completed", "failed"]).await;
        let (status, other) = if is_declined { ("rejected", "merged") } else { ("merged", "rejected") };
        let decided = eventually("the curator", async || {
            let decided = entries(&["--kind", "proposal", "--status", status]);
            (decided.contains("of one") && decided.contains("of two")).then_some(decided)
        })
        .await;
        assert!(!entries(&["--kind", "proposal", "--status", other]).contains("of one"), "{decided}");
        if is_declined {
            let json = person(&["space", "entries", "--space", "shop", "--kind", "proposal", "--json"]);
            assert!(json.contains("declined at stage review"), "{json}");
        }
    }
}
