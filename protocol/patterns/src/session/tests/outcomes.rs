//! What a workshop is to reach, what it has made, and what its children are told.

use super::*;

const SPEC: &str = r#"{"goal": "a login page", "outcome": ["one logs in", "no mail is sent"], "scope": "the page", "openQuestions": ["which database?"]}"#;

/// A workshop after its confirmed spec.
fn workshop() -> Table {
    let mut table = Table::new(json!({
        "preset": "workshop", "cast": { "lead": "lead-01", "curator": "critic-01" },
        "autopilot": { "seat": "lead" },
    }));
    table.done(SPEC);
    table.decides(Decision::Approve, None);
    table
}

fn plan() -> String {
    let item = |id: &str, more: Value| {
        let mut item = json!({ "id": id, "task": format!("Do {id}."), "agent": format!("{id}-01") });
        item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        item
    };
    let api = item("api", json!({ "outcomes": [1], "files": ["api.py"] }));
    let page = item("page", json!({ "files": ["page.html"] }));
    json!([api, page]).to_string()
}

fn file(name: &str, content: &str) -> Artifact {
    let mut file = Artifact::text(name, "text/plain", content);
    file.parts[0].filename = Some(name.to_owned());
    file
}

const VERDICTS: &str = r#"[{"outcome": 1, "met": true, "by": "page.html"}, {"outcome": 2, "met": false, "by": "api.py sends one"}] Approve it."#;

#[test]
fn the_outcome_spec_has_fields_and_each_child_is_told_the_part_that_it_serves() {
    let mut table = workshop();
    assert_eq!(table.turns(), ["plan.1.lead.1"]);
    let spec = &table.open[0].input["seat"]["spec"];
    assert_eq!(
        (&spec["goal"], &spec["outcome"][1]["text"]),
        (&json!("a login page"), &json!("no mail is sent"))
    );
    let shown = table.recorded[0].as_text();
    assert!(shown.starts_with("Goal: a login page\n\nOutcome:\n1. one logs in"), "{shown}");
    table.done(&plan());
    let part = |at: usize| table.open[at].input["seat"]["spec"]["outcome"].clone();
    assert_eq!(part(0), json!([{ "number": 1, "text": "one logs in" }]), "it serves one");
    assert_eq!(part(1).as_array().unwrap().len(), 2, "it names none");
    assert_eq!(table.view()["spec"]["scope"], json!(["the page"]));
    let so_far = table.open[0].input["seat"]["soFar"].as_str().unwrap();
    for part in ["Focus: a login page", "- which database?", "spec: approve", "plan: done"] {
        assert!(so_far.contains(part), "{so_far}");
    }
}

#[test]
fn a_spec_without_a_goal_is_made_again_and_one_in_prose_is_noted() {
    let mut table = Table::new(json!({
        "preset": "workshop", "cast": { "lead": "lead-01", "curator": "critic-01" },
    }));
    table.done(r#"{"outcome": ["x"]}"#);
    assert_eq!(table.turns(), ["spec.1.lead.2"]);
    assert!(table.open[0].input["seat"]["lastFailure"].as_str().unwrap().contains("goal: is needed"));
    table.done("a login page, without mail");
    assert_eq!(table.asked.len(), 1);
    assert!(table.view()["notes"].to_string().contains("its outcome spec is prose"));
}

#[test]
fn a_review_answers_each_outcome_and_the_session_ends_with_what_was_made() {
    let mut table = workshop();
    table.done(&plan());
    table.speaks(0, vec![file("api.py", "code")], "the endpoint", SeatEnd::default());
    table.speaks(0, vec![file("page.html", "<form>")], "the page", SeatEnd::default());
    assert_eq!(table.turns(), ["assemble.1.lead.1"]);
    assert_eq!(
        table.open[0].input["seat"]["files"],
        json!({ "api.py": "plan/api.1.api-01.1.api.py", "page.html": "plan/page.1.page-01.1.page.html" })
    );
    table.done("A page and its endpoint.");
    table.done("Looks good.");
    assert_eq!(table.turns(), ["review.1.curator.2"], "a review without verdicts is no review");
    table.done(VERDICTS);
    let asked = &table.asked[0].text;
    assert!(
        asked.contains("2. no mail is sent: not met, api.py sends one") && asked.contains("Approve it."),
        "{asked}"
    );
    table.decides(Decision::Approve, None);
    assert_eq!(
        table.ended(),
        (
            TaskState::Completed,
            "A page and its endpoint.\n\nFiles: api.py, page.html\n\n1. one logs in: met, page.html\n2. no mail is sent: not met, api.py sends one"
        ),
        "not the words of the reviewer"
    );
    let made: Vec<&str> = table.recorded.iter().rev().take(2).map(|made| made.artifact_id.as_str()).collect();
    assert_eq!(made, ["page.html", "api.py"], "files come under their own names");
    assert_eq!(table.view()["verdicts"][1]["met"], json!(false));
}

#[test]
fn two_files_of_one_name_are_a_question_before_what_comes_after_them() {
    let plan = json!([
        { "id": "a", "task": "a", "agent": "a-01" },
        { "id": "b", "task": "b", "agent": "b-01" },
    ]);
    let table = || {
        let mut table = workshop();
        table.done(&plan.to_string());
        table.speaks(0, vec![file("x.txt", "one")], "", SeatEnd::default());
        table.speaks(0, vec![file("x.txt", "two")], "", SeatEnd::default());
        assert!(table.turns().is_empty(), "the assembly waits");
        assert_eq!(table.asked[0].options, ["plan/a", "plan/b"]);
        table
    };
    let answered = |table: &mut Table, ok: bool, text: &str| {
        let question = table.asked.remove(0);
        let result = RequestResult { id: question.id, ok, text: text.to_owned(), ..Default::default() };
        table.run(|session, cx| session.turn_ended(cx, result));
    };
    let mut chosen = table();
    answered(&mut chosen, true, "plan/b");
    assert_eq!(chosen.turns(), ["assemble.1.lead.1"]);
    assert_eq!(chosen.open[0].input["seat"]["files"], json!({ "x.txt": "plan/b.1.b-01.1.x.txt" }));
    let mut unanswered = table();
    answered(&mut unanswered, false, "nobody has answered");
    assert_eq!(unanswered.open[0].input["seat"]["files"], json!({ "x.txt": "plan/a.1.a-01.1.x.txt" }));
    assert!(
        unanswered.view()["notes"]
            .to_string()
            .contains("file x.txt: nobody has chosen: it is that of plan/a")
    );
    let mut again = table();
    again.directs(json!({ "verb": "redirect", "stage": "plan/b" })).unwrap();
    assert!(again.asked.is_empty(), "it is made again");
    again.speaks(0, vec![file("x.txt", "one")], "", SeatEnd::default());
    assert_eq!(again.turns(), ["assemble.1.lead.1"], "equal files are one");
}

#[test]
fn a_later_file_replaces_an_earlier_one_and_what_is_missing_is_named() {
    let mut table = workshop();
    table.done(
        &json!([
            { "id": "a", "task": "a", "agent": "a-01", "files": ["x.txt", "y.txt"] },
            { "id": "b", "task": "b", "agent": "b-01", "files": ["x.txt"] },
        ])
        .to_string(),
    );
    table.speaks(0, vec![file("x.txt", "one")], "", SeatEnd::default());
    table.speaks(0, vec![file("x.txt", "two")], "", SeatEnd::default());
    assert_eq!(table.turns(), ["assemble.1.lead.1"], "one was made after the other");
    table.done("All.");
    table.done(VERDICTS);
    table.decides(Decision::Approve, None);
    let (_, message) = table.ended();
    assert!(message.contains("Files: x.txt\n\nPlanned, but not made: y.txt"), "{message}");
    assert_eq!(table.recorded.last().unwrap().as_text(), "two");
}

#[test]
fn the_autopilot_knows_the_spec_the_plan_the_item_and_what_the_asker_has_said() {
    let mut table = workshop();
    table.done(&plan());
    table.directs(json!({ "verb": "amend", "text": "only passkeys" })).unwrap();
    let turn = table.turns()[0].to_owned();
    let asked = [(turn, Question::new("q-1", "which port?"))];
    table.run(|session, cx| session.questions(cx, &asked));
    let pilot = table.open.iter().find(|turn| turn.id == "autopilot.1").unwrap();
    for part in ["Do api.", "which port?"] {
        assert!(pilot.description.contains(part), "{}", pilot.description);
    }
    assert_eq!(pilot.artifacts, ["amendment.1", "spec.1.lead.1", "plan.1.lead.1"]);
    assert!(!pilot.chunks.is_empty());
    assert_eq!(pilot.input["seat"]["spec"]["goal"], "a login page");
}

#[test]
fn signals_of_a_child_are_for_the_host_and_the_lead() {
    let mut table = workshop();
    assert!(table.open[0].input["seat"].get("signalsTo").is_none(), "the lead's are for all");
    table.done(&plan());
    assert_eq!(table.open[0].input["seat"]["signalsTo"], json!(["host", "lead-01"]));
    let spec = |seat: &Value| -> TaskSpec {
        let spec =
            json!({ "taskId": "t-1", "description": "d", "root": "user:local", "input": { "seat": seat } });
        serde_json::from_value(spec).unwrap()
    };
    let to = crate::session::routing::signals_to(&spec(&table.open[0].input["seat"]));
    assert_eq!(to.iter().map(AgentId::as_str).collect::<Vec<_>>(), ["host", "lead-01"]);
}
