//! Observers and supervisors.

use super::*;

fn observed() -> Value {
    json!({ "seats": ["a", { "agent": "w", "as": "observer", "reviews": "each-action" }, "b"] })
}

#[test]
fn an_observer_reviews_each_action_and_sees_messages_to_others() {
    let seats = observed()["seats"].clone();
    let mut table = Table::new(json!({ "stages": [{ "id": "table", "order": "turns", "seats": seats }] }));
    table.sends(vec![says(&["b"], "quietly")], "one", true);
    assert_eq!(table.turns(), ["table.1.w.1"]);
    assert_eq!(news(&table), ["quietly", "one"]);
    assert_eq!(table.open[0].input["seat"]["as"], "observer");
    assert_eq!(table.open[0].input["seat"]["round"], 1);
    table.passes("");
    assert_eq!(table.turns(), ["table.1.b.1"]);
    assert_eq!(table.open[0].input["seat"]["others"][1]["as"], "observer");
    table.passes("two");
    assert_eq!(table.turns(), ["table.1.w.2"]);
    assert_eq!(news(&table), ["two"]);
    table.passes("mind the time");
    assert_eq!(table.turns(), ["table.1.a.2"], "the second round");
    assert_eq!(news(&table), ["two", "mind the time"]);
    table.done("three");
    table.passes("");
    table.done("the result");
    assert_eq!(table.turns(), ["table.1.w.4"], "the last action is reviewed, too");
    table.passes("fine");
    assert_eq!(
        table.ended(),
        (TaskState::Completed, "the result"),
        "what the observer says is not the result"
    );
}

#[test]
fn an_observer_counts_for_no_end_of_a_stage_and_no_round() {
    let mut silent = Table::new(observed());
    for _ in 0..6 {
        silent.passes("");
        silent.passes("nobody says anything");
    }
    assert_eq!(
        silent.ended().1,
        "incomplete: stage table: nobody said or did anything in 3 rounds in a row (`quiet`)"
    );
    let mut same = Table::new(observed());
    for (round, text) in ["x", "y", "x", "y", "x", "y"].iter().enumerate() {
        same.passes(text);
        same.passes(&format!("review {round}"));
    }
    assert_eq!(same.ended().1, "incomplete: stage table: the same was said in 3 rounds in a row (`quiet`)");
    // It is done, and the members go on without it.
    let mut left = Table::new(observed());
    left.passes("one");
    left.done("I leave");
    left.passes("two");
    assert_eq!(left.turns(), ["table.1.a.2"]);
    // Its messages are no findings.
    let mut found = Table::new(json!({ "stages": [
        { "id": "x", "seats": ["a", { "agent": "w", "as": "observer", "reviews": "each-action" }], "atLeast": 2 },
    ] }));
    found.done("one");
    found.passes("no finding");
    assert_eq!(found.ended(), (TaskState::Failed, "incomplete: stage x: 1 of 2 findings"));
}

#[test]
fn an_observer_that_fails_is_missed_by_nobody() {
    let mut table = Table::new(observed());
    table.passes("one");
    table.fails();
    assert_eq!(table.turns(), ["table.1.w.2"], "it is asked again");
    table.fails();
    table.done("two");
    table.done("three");
    assert_eq!(table.ended(), (TaskState::Completed, "three"));
    let mut settled = Table::new(json!({ "stages": [
        { "id": "x", "seats": ["a", { "agent": "w", "as": "observer" }], "needs": "settled", "retries": 0 },
    ] }));
    settled.fails();
    assert_eq!(settled.ended(), (TaskState::Failed, "stage x failed: a: it broke"));
}

#[test]
fn an_observer_without_reviews_is_silent_until_it_is_addressed() {
    let mut table = Table::new(json!({ "seats": [
        { "agent": "w", "as": "observer" }, "a", { "agent": "v", "as": "observer", "reviews": "each-action" },
    ] }));
    table.passes("one");
    table.sends(vec![says(&["w"], "what do you think?")], "", true);
    assert_eq!(table.turns(), ["table.1.a.2"], "an observer does not start another one");
    table.sends(vec![says(&["w"], "a question")], "two", true);
    assert_eq!(table.turns(), ["table.1.w.1"]);
    assert_eq!(news(&table), ["one", "what do you think?", "a question", "two"]);
    table.passes("an answer");
    assert_eq!(table.turns(), ["table.1.v.2"], "the turn of an observer is reviewed by none");
    table.passes("");
    assert_eq!(table.turns(), ["table.1.a.3"]);
    table.directs(json!({ "verb": "say", "stage": "table", "seat": "w", "text": "and you?" })).unwrap();
    table.done("three");
    assert_eq!(table.turns(), ["table.1.w.2"], "a person addresses it");
    table.passes("");
    table.passes("");
    assert_eq!(table.ended(), (TaskState::Completed, "three"));
}

#[test]
fn a_supervisor_addresses_any_seat_and_is_addressed_by_none() {
    let mut table = Table::new(json!({ "seats": [
        { "agent": "a", "approachable": false }, "b", { "agent": "boss", "as": "supervisor" },
    ], "budget": { "turns": 5 } }));
    table.sends(vec![says(&["boss"], "may I?")], "one", false);
    assert_eq!(table.turns(), ["table.1.boss.1"]);
    assert_eq!(news(&table), ["one"], "the message to it was not delivered");
    table.sends(vec![says(&["a"], "say it differently")], "", true);
    assert_eq!(table.turns(), ["table.1.b.1"]);
    assert_eq!(news(&table), ["one"], "it was for a");
    table.done("two");
    table.passes("");
    assert_eq!(table.turns(), ["table.1.a.2"], "a was done, and is open again");
    assert_eq!(news(&table), ["say it differently", "two"]);
    let refused = table.open[0].input["seat"]["refused"][0].as_str().unwrap().to_owned();
    assert!(refused.contains("to boss was not delivered"), "{refused}");
    table.passes("three");
    assert_eq!(table.ended(), (TaskState::Failed, "incomplete: budget.turns: 5 used up"), "its turns count");
}

#[test]
fn seats_that_work_at_once_are_reviewed_while_others_work() {
    let mut table = Table::new(json!({ "stages": [
        { "id": "x", "seats": ["a", "b", { "agent": "w", "as": "observer", "reviews": "each-action" }],
          "until": { "findings": 2 } },
        { "id": "y", "after": ["x"], "seats": ["c"] },
    ] }));
    table.done("one");
    assert_eq!(table.turns(), ["x.1.b.1", "x.1.w.1"]);
    table.done("two");
    assert_eq!(table.turns(), ["x.1.w.1"], "it has one turn at a time");
    table.passes("a review");
    assert_eq!(table.turns(), ["x.1.w.2"], "the stage ends when what was done is reviewed");
    assert_eq!(news(&table), ["two"]);
    table.passes("");
    assert_eq!(table.turns(), ["y.1.c.1"]);
    table.done("end");
    assert_eq!(table.ended(), (TaskState::Completed, "end"));
}

/// The observer has a review of 180 turns; what it is given does not grow, nor does the state.
#[test]
fn a_long_table_with_observers_costs_the_same_at_its_end() {
    let mut table = Table::new(json!({ "budget": { "turns": 1000 }, "seats": [
        "a", "b", "c", "d", "e", "f", { "agent": "w", "as": "observer", "reviews": "each-action" },
        { "agent": "v", "as": "observer" },
    ] }));
    let mut sizes = Vec::new();
    while table.end.is_none() {
        sizes.push(table.open[0].artifacts.len());
        let text = format!("{:0>1000}", table.given.len());
        table.passes(&text);
        let state = serde_json::to_string(&table.session).unwrap().len();
        assert!(state < 64 * 1024, "{state}");
    }
    assert_eq!((sizes.len(), sizes[30], sizes[358]), (360, 12, 12));
}
