//! A stage that has failed, in a session with people.

use super::*;

fn gated() -> Table {
    Table::new(json!({ "stages": [
        { "id": "spec", "seats": ["a"], "retries": 0 },
        { "id": "end", "after": ["spec"], "seats": ["b"], "retries": 0, "gate": ["approve", "decline"] },
    ] }))
}

fn choose(table: &mut Table, ok: bool, text: &str) {
    let question = table.asked.remove(0);
    let options = ["retry", "skip", "stop"].map(str::to_owned);
    assert_eq!((question.kind, question.options.as_slice()), (QuestionKind::Choice, options.as_slice()));
    assert!(question.asked_by.is_some());
    let result = RequestResult { id: question.id, ok, text: text.to_owned(), ..Default::default() };
    table.run(|session, cx| session.turn_ended(cx, result));
}

/// `retry` begins the stage again, as often as a person wants.
#[test]
fn a_person_has_a_failed_stage_begun_again() {
    let mut table = gated();
    for _ in 0..2 {
        table.fails();
        assert_eq!((table.end.clone(), table.open.len()), (None, 0));
        assert!(table.asked[0].text.contains("stage spec failed: a: it broke"), "{:?}", table.asked);
        choose(&mut table, true, "retry");
    }
    table.done("the spec");
    table.done("the end");
    table.decides(Decision::Approve, None);
    let summary = table.summary.clone().unwrap();
    assert!(summary.contains("\nend: approve\n"), "an approval has no reason: {summary}");
    assert_eq!(table.given, ["spec.1.a.1", "spec.2.a.1", "spec.3.a.1", "end.1.b.1"]);
    assert_eq!(table.end.unwrap().0, TaskState::Completed);
}

/// `skip` goes on without it: what was blocked is begun, and told that something is missing.
#[test]
fn a_person_goes_on_without_a_failed_stage() {
    let mut table = gated();
    table.fails();
    choose(&mut table, true, "skip");
    assert_eq!(table.open[0].input["seat"]["partial"], json!(true));
    // A stage with a gate is not skipped: nobody has seen what it lets through.
    table.fails();
    assert_eq!(table.asked[0].options, ["retry", "stop"]);
    let (id, text) = (table.asked.remove(0).id, "skip".to_owned());
    let result = RequestResult { id, ok: true, text, ..Default::default() };
    table.run(|session, cx| session.turn_ended(cx, result));
    assert_eq!(table.end.unwrap().0, TaskState::Failed);
}

/// `stop`, a denial and a question that nobody answers fail the session with the reason of the stage.
#[test]
fn nobody_wants_the_session_to_go_on() {
    for (ok, text) in [(true, "stop"), (false, "denied"), (false, "expired")] {
        let mut table = gated();
        table.fails();
        choose(&mut table, ok, text);
        let why = "stage spec failed: a: it broke; end is blocked: it needs spec, which failed";
        assert_eq!(table.end, Some((TaskState::Failed, why.to_owned())));
    }
}

/// The time that the person takes is none of the session's; a directive that begins something again takes the question back.
#[test]
fn a_directive_takes_the_question_back() {
    let mut table = gated();
    table.fails();
    table.now = 10 * 3_600_000;
    table.run(|session, cx| session.timer(cx, SessionTimer::Budget));
    assert_eq!(table.end, None);
    table.directs(json!({ "verb": "redirect", "stage": "spec", "text": "shorter" })).unwrap();
    assert_eq!((table.asked.len(), table.open.len()), (0, 1));
    assert!(table.budget_ends > WallTime(10 * 3_600_000));
}

/// Without people the session fails at once. When a seat has failed for good nobody else of the stage is asked, turns that
/// run have a while to end, and words for the stage are refused.
#[test]
fn a_seat_that_fails_for_good_ends_its_stage() {
    let graph = |order: &str| json!({ "stages": [{ "id": "s", "retries": 0, "order": order, "seats": ["a", "b", "c"] }] });
    let mut table = Table::new(graph("turns"));
    table.fails();
    assert_eq!(
        (table.given.as_slice(), table.end.unwrap().0),
        (["s.1.a.1".to_owned()].as_slice(), TaskState::Failed)
    );
    let mut table = Table::new(graph("parallel"));
    table.fails();
    table.passes("one");
    assert_eq!(table.end, None, "a turn that runs may end");
    table.passes("two");
    assert_eq!((table.given.len(), table.end.unwrap().0), (3, TaskState::Failed));
    let mut table = Table::new(json!({ "stages": [
        { "id": "s", "retries": 0, "seats": ["a", { "person": "ada" }] },
    ] }));
    table.fails();
    let refused = table.directs(json!({ "verb": "say", "stage": "s", "text": "go on" })).unwrap_err();
    assert!(refused.contains("about to end"), "{refused}");
    assert_eq!((table.open.len(), table.asked.len()), (1, 0));
    table.run(|session, cx| session.timer(cx, SessionTimer::Grace(0, 1)));
    assert!(table.open.is_empty() && table.asked.len() == 1, "{:?}", table.open);
}
