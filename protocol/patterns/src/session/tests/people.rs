//! People in seats.

use super::*;
use crate::{session::host_work::HostWork, turn::TurnEnd};

/// The turn of a person that is open at place `at`.
fn asked(table: &Table, at: usize) -> person::PersonTurn {
    let TurnDoer::Host(HostWork::Ask(turn)) = &table.open[at].to else { panic!("{:?}", table.open[at]) };
    turn.clone()
}

/// The text of the question of the open turn `at`.
fn question(table: &Table, at: usize) -> Question {
    let turn = &table.open[at];
    let given = table.recorded.iter().filter(|one| turn.artifacts.contains(&one.artifact_id));
    let given: Vec<Artifact> = given.cloned().collect();
    let question = asked(table, at).question(&turn.description, Some(&turn.input), &given);
    question.validate().unwrap();
    question
}

/// The person at place `at` answers.
fn answers(table: &mut Table, at: usize, text: &str) {
    let answer = RequestResult { ok: true, text: text.to_owned(), ..RequestResult::default() };
    let TurnEnd::Seat { message, seat } = asked(table, at).end(&answer) else { panic!("{answer:?}") };
    table.answer(at, &message.unwrap_or("passes".into()), seat);
}

#[test]
fn a_person_at_a_table_is_asked_each_round_until_it_is_done() {
    let ada = json!({ "person": "ada", "task": "Say what users want.", "timeout": "10min" });
    let short = Graph::read(Some(&json!({ "seats": ["person:ada", "capability:plan"] }))).unwrap();
    let long = json!({ "seats": [{ "person": "ada" }, { "capability": "plan" }] });
    assert_eq!(short, Graph::read(Some(&long)).unwrap());
    let stage = json!({ "id": "table", "order": "turns", "seats": ["a", ada, "b"] });
    let mut table = Table::new(json!({ "stages": [stage] }));
    table.sends(vec![says(&["ada"], "for you")], "use SQLite", true);
    let asks = question(&table, 0);
    assert_eq!((asks.kind, asks.expires_at), (QuestionKind::Text, Some(WallTime(600_000))));
    for part in ["the goal", "Say what users want.", "a to you: for you", "a: use SQLite", "`done`"] {
        assert!(asks.text.contains(part), "{part}: {}", asks.text);
    }
    assert_eq!(table.view()["stages"][0]["seats"][1]["state"], "asked");
    answers(&mut table, 0, "why not Postgres?");
    assert_eq!(news(&table), ["use SQLite", "why not Postgres?"]);
    assert_eq!(table.open[0].input["seat"]["others"][1]["person"], true);
    table.done("two");
    table.done("three");
    assert!(question(&table, 0).text.contains("three") && !question(&table, 0).text.contains("SQLite"));
    answers(&mut table, 0, "Pass");
    assert_eq!(table.turns(), ["table.1.ada.3"]);
    answers(&mut table, 0, "pass");
    assert_eq!(table.ended().0, TaskState::Completed, "a round in which only people pass ends the table");
    let mut table = Table::new(json!({ "seats": ["a", "b", json!({ "person": "ada" })] }));
    table.done("one");
    table.done("two");
    answers(&mut table, 0, "Done: it is fine");
    assert_eq!(table.ended(), (TaskState::Completed, "it is fine"));
    let mut table = Table::new(json!({ "seats": ["a", json!({ "person": "ada" })] }));
    table.done("one");
    answers(&mut table, 0, "done");
    assert_eq!(table.ended().0, TaskState::Completed);
    assert_eq!(table.recorded.len(), 1, "a person that has nothing to say says nothing");
}

#[test]
fn a_person_beside_others_is_done_after_one_answer_and_its_time_is_not_of_the_budget() {
    let mut table = Table::new(json!({ "stages": [
        { "id": "views", "seats": [{ "person": "ada" }, { "person": "bob" }, "a"] },
        { "id": "end", "after": ["views"], "seats": ["b"] },
    ] }));
    assert_eq!(table.turns(), ["views.1.ada.1", "views.1.bob.1", "views.1.a.1"]);
    answers(&mut table, 0, "blue");
    table.now = 7_200_000;
    table.run(|session, cx| session.timer(cx, SessionTimer::Budget));
    assert!(table.end.is_none(), "a person is asked");
    answers(&mut table, 0, "pass");
    assert_eq!(table.budget_ends, WallTime(3_600_000 + 7_200_000), "its time goes on");
    table.done("green");
    assert_eq!(table.turns(), ["end.1.b.1"]);
    assert_eq!(table.open[0].artifacts, ["views.1.ada.1", "views.1.a.1"], "a pass is no answer");
}

#[test]
fn no_answer_in_time_is_a_pass_that_is_told_and_no_answer() {
    for sealed in [false, true] {
        let seats = json!([{ "person": "ada", "timeout": "10min" }, "a"]);
        let mut table = Table::new(json!({ "stages": [{ "id": "s", "sealed": sealed, "seats": seats }] }));
        let none = RequestResult { text: "no answer in time".to_owned(), ..RequestResult::default() };
        let TurnEnd::Failed { reason } = asked(&table, 0).end(&none) else { panic!("it is no answer") };
        assert_eq!(reason, "ada gave no answer within 10m");
        table.ends(false, &reason, Vec::new());
        let said = table.recorded.last().unwrap();
        let told = if sealed { json!(["ada"]) } else { json!(["team"]) };
        assert_eq!(
            (&said.metadata[names::SESSION]["to"], said.as_text().contains("is a pass")),
            (&told, true)
        );
        assert_eq!(said.metadata[names::SESSION]["from"], "session");
        let view = table.view();
        assert!(view["notes"][0].as_str().unwrap().contains("ada gave no answer within 10m"), "{view:#}");
        assert_eq!((&view["stages"][0]["findings"], table.turns()), (&json!(0), vec!["s.1.a.1"]));
        table.done("one");
        assert_eq!(table.ended(), (TaskState::Completed, "one"), "it is not asked again");
    }
}

#[test]
fn a_person_in_a_sealed_stage_is_shown_nothing_of_others() {
    let seats = json!(["a", { "person": "ada" }]);
    let mut table =
        Table::new(json!({ "stages": [{ "id": "s", "sealed": true, "seats": seats, "rounds": 3 }] }));
    table.sends(Vec::new(), "a secret", true);
    assert!(!question(&table, 0).text.contains("secret") && table.open[0].artifacts.is_empty());
    assert_eq!(table.open[0].input["seat"]["others"], json!([]));
}

#[test]
fn a_long_question_is_cut_and_says_so() {
    let mut table = Table::new(json!({ "seats": ["a", "b", "c", "d", "e", "f", "g", { "person": "ada" }] }));
    for name in 0..7 {
        table.passes(&format!("{name} {}", "x".repeat(3_000)));
    }
    let text = question(&table, 0).text;
    assert!(text.chars().count() < 14_000 && text.contains("… [cut]") && text.contains("g: 6 x"), "{text}");
    assert!(text.contains("earlier messages are not shown") && !text.contains("a: 0 x"), "{text}");
}

#[test]
fn a_seat_of_a_person_that_can_not_be_is_refused() {
    for (seat, why) in [
        (
            json!({ "person": "ada", "agent": "a" }),
            "exactly one of `agent`, `capability`, `card` and `person`",
        ),
        (json!({ "person": "ada", "as": "observer" }), "one of a member"),
        (json!({ "agent": "a", "timeout": "1min" }), "`timeout` is of a seat with a `person`"),
        (json!({ "person": "ada", "timeout": "0s" }), "timeout: more than 0"),
        (json!({ "person": " ", "name": "x" }), "person: a name"),
    ] {
        let refused = refusal(json!({ "seats": [seat] }));
        assert!(refused.contains(why), "{refused}");
    }
}

/// A person that only passes keeps no table open whose other seats are done, and has no last words.
#[test]
fn a_person_that_passes_does_not_make_a_table_incomplete() {
    let mut table = Table::new(json!({ "seats": ["a", { "person": "ada" }] }));
    table.done("SQLite");
    table.passes("");
    table.passes("");
    assert_eq!(table.ended().0, TaskState::Completed);
    let mut table = Table::new(json!({ "seats": ["a", { "person": "ada" }] }));
    table.done("SQLite");
    table.done(names::PASSES);
    assert_eq!(table.ended(), (TaskState::Completed, "the session is done"));
}

/// The reason of a denial is said.
#[test]
fn the_reason_of_a_denial_is_heard() {
    let mut table = Table::new(json!({ "seats": [{ "person": "ada" }, "a"] }));
    let TurnDoer::Host(HostWork::Ask(turn)) = table.open[0].to.clone() else { panic!() };
    let denied = |text: &str| {
        let decision = Some(Decision::Deny);
        turn.end(&RequestResult { text: text.into(), decision, ..RequestResult::default() })
    };
    assert!(matches!(denied("denied"), TurnEnd::Seat { message: None, .. }));
    assert!(matches!(denied("too slow"), TurnEnd::Seat { message: Some(said), .. } if said == "too slow"));
    table.passes("x");
}
