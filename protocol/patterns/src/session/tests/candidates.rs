//! Candidates that a person drops at a gate.

use super::*;

fn table(gate: Value) -> Table {
    let mut table = Table::new(json!({ "stages": [
        { "id": "ideas", "sealed": true, "seats": ["a", "b", "c"], "gate": gate, "next": { "killed": "ideas" }, "loops": 1 },
        { "id": "end", "after": ["ideas"], "seats": ["d"] },
    ] }));
    ["one", "two", "three"].iter().for_each(|idea| table.done(idea));
    table
}

#[test]
fn a_person_drops_candidates_at_a_gate_and_later_stages_are_not_given_them() {
    let mut table = table(json!(["approve", "revise", "kill"]));
    let first = table.asked[0].clone();
    assert!(first.text.contains("Candidates:\n1. a: one\n2. b: two\n3. c: three\n"), "{}", first.text);
    table.decides(Decision::Deny, Some("kill 2"));
    assert_ne!(table.asked[0].id, first.id, "an old answer is of an old question");
    assert!(table.asked[0].text.contains("Candidates:\n1. a: one\n2. c: three\n"), "{}", table.asked[0].text);
    assert!(table.asked[0].text.contains("three"), "the last words are there still");
    table.decides(Decision::Deny, Some("kill 7"));
    assert!(table.asked[0].text.contains("numbers from 1 to 2"), "{}", table.asked[0].text);
    table.decides(Decision::Approve, None);
    assert_eq!(table.turns(), ["end.1.d.1"]);
    assert_eq!(table.open[0].artifacts, ["ideas.1.a.1", "ideas.1.c.1"]);
}

#[test]
fn words_that_are_dropped_are_neither_asked_about_again_nor_the_end() {
    let stage = json!({ "id": "ideas", "seats": ["a", "b"], "gate": ["approve", "kill", "decline"] });
    let mut table = Table::new(json!({ "stages": [stage] }));
    ["one", "two"].iter().for_each(|idea| table.done(idea));
    table.decides(Decision::Deny, Some("kill 2, 2"));
    assert!(!table.asked[0].text.contains("two"), "{}", table.asked[0].text);
    table.decides(Decision::Approve, None);
    assert_eq!(table.ended().0, TaskState::Completed);
    assert!(!table.ended().1.contains("two"), "{}", table.ended().1);
}

#[test]
fn line_51_without_a_candidate_the_stage_begins_again_as_often_as_it_may() {
    let mut table = table(json!(["approve", "kill", "decline"]));
    table.decides(Decision::Deny, Some("kil 2"));
    assert!(table.end.is_none(), "a slip drops nothing and ends nothing");
    table.decides(Decision::Deny, Some("Kill 1, 2 3"));
    assert_eq!(table.turns(), ["ideas.2.a.1", "ideas.2.b.1", "ideas.2.c.1"]);
    ["one", "two", "three"].iter().for_each(|idea| table.done(idea));
    table.decides(Decision::Deny, None);
    assert_eq!(table.ended(), (TaskState::Failed, "declined at stage ideas"));
}
