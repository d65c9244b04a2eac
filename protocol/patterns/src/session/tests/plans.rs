//! Work plans: what is read from an answer, in which order it is done, and what happens when some of it fails.

use super::*;
use crate::session::plan::WorkPlan;
use std::collections::BTreeMap;

/// A session with a plan, work, and its assembly.
fn workshop(plan: Value) -> Table {
    let mut stage = json!({ "id": "plan", "seats": ["lead"], "makes": "work-plan" });
    stage.as_object_mut().unwrap().extend(plan.as_object().unwrap().clone());
    Table::new(json!({
        "cast": { "coder": "builder-01" },
        "stages": [stage, { "id": "assemble", "after": ["plan/*"], "seats": ["lead"] }],
    }))
}

fn item(id: &str, after: &[&str]) -> Value {
    json!({ "id": id, "task": format!("Do {id}."), "agent": "coder", "after": after })
}

/// The answer with which the seat of a running turn is done.
fn answer(table: &mut Table, turn: &str, text: &str) {
    let at =
        table.open.iter().position(|open| open.id == turn).unwrap_or_else(|| panic!("{:?}", table.turns()));
    table.answer(at, text, SeatEnd::default());
}

fn fail(table: &mut Table, turn: &str) {
    let at = table.open.iter().position(|open| open.id == turn).unwrap();
    table.open.swap(0, at);
    table.fails();
}

/// Runs the plan `items`, and returns the turns in the order in which they are given if each is answered at once.
fn order(items: &Value) -> Vec<String> {
    let mut table = workshop(json!({}));
    table.done(&items.to_string());
    while !table.open.is_empty() {
        table.done("done");
    }
    table.given
}

#[test]
fn line_34_only_work_whose_dependencies_are_done_is_given_in_the_order_of_the_plan() {
    let plan =
        json!([item("docs", &["api", "ui"]), item("api", &[]), item("ui", &[]), item("last", &["docs"])]);
    let mut table = workshop(json!({}));
    assert!(table.open[0].description.contains("JSON array"), "the seat is told the form of its answer");
    table.done(&format!("My plan [1]:\n```json\n{plan}\n```\n"));
    assert_eq!(
        table.turns(),
        ["plan/api.1.builder-01.1", "plan/ui.1.builder-01.1"],
        "what is independent runs at once"
    );
    assert!(table.open[0].description.contains("Do api."));
    answer(&mut table, "plan/ui.1.builder-01.1", "ui done");
    assert_eq!(table.turns(), ["plan/api.1.builder-01.1"]);
    answer(&mut table, "plan/api.1.builder-01.1", "api done");
    assert_eq!(table.turns(), ["plan/docs.1.builder-01.1"]);
    let given: Vec<String> = table.open[0].artifacts.clone();
    assert_eq!(given.len(), 2, "it is given what its dependencies have made, and not the plan: {given:?}");
    table.done("docs done");
    table.done("last done");
    assert_eq!(table.turns(), ["assemble.1.lead.1"]);
    table.done("whole");
    assert_eq!(table.ended(), (TaskState::Completed, "whole"));
    assert_eq!(order(&plan), order(&plan));
}

#[test]
fn line_37_what_depends_on_failed_work_is_blocked_and_named() {
    let mut table = workshop(json!({ "children": { "retries": 1 } }));
    table.done(&json!([item("api", &[]), item("docs", &["api"]), item("ui", &[])]).to_string());
    fail(&mut table, "plan/api.1.builder-01.1");
    assert!(table.turns().contains(&"plan/api.1.builder-01.2"), "it is tried again");
    let again = table.open.iter().find(|turn| turn.id == "plan/api.1.builder-01.2").unwrap();
    assert_eq!(again.input["seat"]["lastFailure"], json!("it broke"), "with what went wrong");
    fail(&mut table, "plan/api.1.builder-01.2");
    answer(&mut table, "plan/ui.1.builder-01.1", "ui done");
    let (state, why) = table.ended();
    assert_eq!(state, TaskState::Failed);
    for part in [
        "stage plan/api failed: builder-01: it broke",
        "plan/docs is blocked: it needs plan/api, which failed",
        "assemble is blocked: it needs plan/api, which failed",
    ] {
        assert!(why.contains(part), "{why}");
    }
}

#[test]
fn line_38_the_assembly_runs_once_and_never_with_a_part() {
    let plan = json!([item("api", &[]), item("ui", &[])]).to_string();
    for first in ["plan/api.1.builder-01.1", "plan/ui.1.builder-01.1"] {
        let mut table = workshop(json!({ "children": { "retries": 0 } }));
        table.done(&plan);
        answer(&mut table, first, "done");
        let rest = table.turns()[0].to_owned();
        fail(&mut table, &rest);
        assert_eq!(table.ended().0, TaskState::Failed);
        assert!(!table.given.iter().any(|turn| turn.starts_with("assemble")), "{:?}", table.given);
    }
    assert_eq!(
        order(&serde_json::from_str(&plan).unwrap())
            .iter()
            .filter(|turn| turn.starts_with("assemble"))
            .count(),
        1
    );
}

#[test]
fn line_39_changes_begin_the_named_work_and_what_depends_on_it_again() {
    let review = || {
        let mut api = item("api", &[]);
        api["files"] = json!(["src/api.rs"]);
        let mut table = Table::new(json!({ "stages": [
            { "id": "plan", "seats": ["lead"], "makes": "work-plan" },
            { "id": "assemble", "after": ["plan/*"], "seats": ["lead"] },
            { "id": "review", "after": ["assemble"], "seats": ["critic"], "gate": ["approve", "changes", "decline"] },
        ] }));
        table.done(&json!([api, item("docs", &["api"]), item("ui", &[])]).to_string());
        while table.asked.is_empty() {
            table.done("done");
        }
        table
    };
    let again = |text: &str| {
        let mut table = review();
        let before = table.given.len();
        table.decides(Decision::Deny, Some(text));
        let first = table.open[0].artifacts.clone();
        let mut judged = Vec::new();
        while table.asked.is_empty() {
            judged.clone_from(&table.open[0].artifacts);
            table.done("done again");
        }
        let wish = table.recorded.iter().find(|artifact| artifact.as_text() == text).unwrap();
        assert!(
            judged.contains(&wish.artifact_id),
            "who judges next knows what was to be changed: {judged:?}"
        );
        table.decides(Decision::Approve, None);
        assert_eq!(
            table.ended(),
            (TaskState::Completed, "done again\n\nPlanned, but not made: src/api.rs"),
            "its end is what was put together"
        );
        (table.given[before..].to_vec(), first)
    };
    let (given, first) = again("`src/api.rs` needs tests.");
    let (coder, two) = ("coder", "2");
    let turn = |stage: &str, seat: &str| format!("{stage}.{two}.{seat}.1");
    let tail = [turn("assemble", "lead"), turn("review", "critic")];
    let work =
        |names: &[&str]| names.iter().map(|name| turn(name, coder)).chain(tail.clone()).collect::<Vec<_>>();
    assert_eq!(given, work(&["plan/api", "plan/docs"]));
    assert!(
        first.iter().any(|name| name.starts_with("review.")),
        "it is given what is to be changed: {first:?}"
    );
    assert_eq!(again("docs: say more").0, work(&["plan/docs"]));
    assert_eq!(
        again("I don't like it").0,
        work(&["plan/api", "plan/ui", "plan/docs"]),
        "all, if nothing is named"
    );
}

#[test]
fn a_plan_that_can_not_be_read_is_asked_for_again_with_the_reason() {
    let mut table = workshop(json!({}));
    table.done("I would first think about it.");
    assert_eq!(table.turns(), ["plan.1.lead.2"]);
    assert_eq!(
        table.open[0].input["seat"]["lastFailure"],
        json!("the answer has no JSON array of items of work")
    );
    table.done("[{\"task\": \"x\"}]");
    let (state, why) = table.ended();
    assert_eq!(state, TaskState::Failed);
    assert!(why.contains("item 1 is left out: it names neither `agent` nor `capability`"), "{why}");
}

#[test]
fn a_plan_is_never_made_twice_and_one_that_is_revised_replaces_the_first() {
    let mut table = workshop(json!({ "gate": ["approve", "revise"] }));
    let plan = json!([item("api", &[]), item("ui", &["api"])]).to_string();
    table.done(&plan);
    assert!(table.turns().is_empty(), "no work before a person approves");
    table.decides(Decision::Deny, Some("smaller"));
    assert_eq!(table.turns(), ["plan.2.lead.1"]);
    table.done(&plan);
    table.decides(Decision::Approve, None);
    assert_eq!(table.turns(), ["plan/api.1.builder-01.1"]);
    table.directs(json!({ "verb": "redirect", "stage": "plan", "text": "once more" })).unwrap();
    assert_eq!(table.turns(), ["plan.3.lead.1"], "work of the plan is withdrawn");
    table.done(&plan);
    table.decides(Decision::Approve, None);
    assert_eq!(table.turns(), ["plan/api-2.1.builder-01.1"]);
    table.done("api");
    table.done("ui");
    table.done("whole");
    assert_eq!(table.ended(), (TaskState::Completed, "whole"));
}

#[test]
fn changes_name_the_work_of_a_revised_plan_as_the_plan_does() {
    let mut table = Table::new(json!({ "stages": [
        { "id": "plan", "seats": ["lead"], "makes": "work-plan" },
        { "id": "review", "after": ["plan/*"], "seats": ["critic"], "gate": ["approve", "changes"] },
    ] }));
    let plan = json!([item("i0", &[]), item("i1", &[])]).to_string();
    table.done(&plan);
    table.directs(json!({ "verb": "redirect", "stage": "plan" })).unwrap();
    table.done(&plan);
    assert_eq!(table.turns(), ["plan/i0-2.1.coder.1", "plan/i1-2.1.coder.1"]);
    while table.asked.is_empty() {
        table.done("done");
    }
    table.decides(Decision::Deny, Some("i0 needs tests"));
    assert_eq!(table.turns(), ["plan/i0-2.2.coder.1"]);
}

#[test]
fn a_plan_that_is_skipped_at_its_gate_is_done() {
    let mut table = workshop(json!({ "gate": ["approve", "revise"] }));
    table.done(&json!([item("api", &[])]).to_string());
    table.directs(json!({ "verb": "skip", "stage": "plan" })).unwrap();
    assert!(table.asked.is_empty(), "the question is taken back");
    assert_eq!(table.turns(), ["plan/api.1.builder-01.1"]);
    assert!(!table.session.is_approved());
    table.done("api");
    assert_eq!(table.turns(), ["assemble.1.lead.1"]);
    let mut table = workshop(json!({}));
    table.directs(json!({ "verb": "skip", "stage": "plan" })).unwrap();
    assert_eq!(table.turns(), ["assemble.1.lead.1"], "there is no plan yet");
}

#[test]
fn work_that_reports_nothing_is_ended_unless_it_waits_in_a_queue_or_for_a_person() {
    let mut table = workshop(json!({ "children": { "stall": "1min", "retries": 1 } }));
    table.done(&json!([item("api", &[])]).to_string());
    let fire = |table: &mut Table| {
        let (timer, at) = table.stalls.pop().unwrap();
        table.now = at.0;
        table.run(|session, cx| session.timer(cx, timer));
    };
    let turn = |number: u32| format!("plan/api.1.builder-01.{number}");
    let report = |table: &mut Table, number, works| {
        let now = WallTime(table.now);
        table.session.reported(&turn(number), works, now);
    };
    fire(&mut table);
    assert_eq!(table.turns(), [turn(1)], "nobody works on it yet");
    report(&mut table, 1, true);
    table.now += 59_000;
    report(&mut table, 1, true);
    fire(&mut table);
    assert_eq!(table.turns(), [turn(1)], "it has reported in time");
    report(&mut table, 1, false);
    fire(&mut table);
    assert_eq!(table.turns(), [turn(1)], "it asks a person");
    report(&mut table, 1, true);
    fire(&mut table);
    assert_eq!(table.turns(), [turn(2)], "it is withdrawn and tried again");
    assert_eq!(table.open[0].input["seat"]["lastFailure"], json!("it has reported nothing for 1m"));
    report(&mut table, 2, true);
    fire(&mut table);
    let (state, why) = table.ended();
    assert!(state == TaskState::Failed && why.contains("reported nothing"), "{why}");
}

fn read(plan: Value) -> WorkPlan {
    let cast = BTreeMap::from([("coder".to_owned(), "builder-01".to_owned())]);
    WorkPlan::read(&plan.to_string(), &[], &cast).unwrap()
}

#[test]
fn cycles_are_dropped_in_stable_order_and_items_of_one_file_wait_for_each_other() {
    let plan = read(json!([item("a", &["b", "a", "x"]), item("b", &["a"]), item("c", &[])]));
    let (edges, notes) = (plan.edges(), plan.notes);
    let edge =
        |id: &str, after: &[&str]| (id.to_owned(), after.iter().map(|&id| id.to_owned()).collect::<Vec<_>>());
    assert_eq!(edges, [edge("a", &["b"]), edge("b", &[]), edge("c", &[])]);
    assert_eq!(
        notes,
        [
            "item a: `after` \"a\" is dropped: an item can't wait for itself",
            "item a: `after` \"x\" is dropped: there is no such item",
            "item b: `after` \"a\" is dropped: the two would wait for each other",
        ]
    );
    let file = |id: &str, file: &str| json!({ "id": id, "task": "x", "capability": "code", "files": [file] });
    let plan = read(json!([file("a", "x.rs"), file("b", "y.rs"), file("c", "x.rs")]));
    let (edges, notes) = (plan.edges(), plan.notes);
    assert_eq!(edges, [edge("a", &[]), edge("b", &[]), edge("c", &["a"])]);
    assert_eq!(notes, ["item c waits for a: both write x.rs"]);
}

#[test]
fn items_without_names_or_with_the_same_one_get_their_own_and_bad_ones_are_left_out() {
    let plain = |title: &str| json!({ "title": title, "agent": "coder" });
    let both = json!({ "task": "x", "agent": "coder", "capability": "code" });
    let plan = read(
        json!([plain("REST API"), plain("REST API"), plain("Ü"), 7, both, { "task": "x", "agent": "no agent" }]),
    );
    let (edges, notes) = (plan.edges(), plan.notes);
    let names: Vec<_> = edges.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(names, ["rest-api", "rest-api-2", "item-3"]);
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(notes[0].contains("item 4 is left out: it is no object"));
    let many: Vec<Value> = (0..40).map(|at| item(&format!("i{at}"), &[])).collect();
    let plan = read(Value::Array(many));
    let (edges, notes) = (plan.edges(), plan.notes);
    assert_eq!((edges.len(), notes.len()), (32, 8), "{notes:?}");
}

proptest! {
    /// Whatever a model answers, a plan has no cycle, and every item that is done waits for items of the plan only.
    #[test]
    fn a_plan_can_always_be_done(edges in proptest::collection::vec((0..8usize, 0..8usize), 0..30), files in proptest::collection::vec(0..4usize, 8)) {
        let items = (0..8).map(|at| {
            let after: Vec<String> = edges.iter().filter(|(to, _)| *to == at).map(|(_, from)| format!("i{from}")).collect();
            json!({ "id": format!("i{at}"), "task": "x", "agent": "coder", "after": after, "files": [format!("f{}", files[at])] })
        });
        let given = order(&Value::Array(items.collect()));
        prop_assert_eq!(given.len(), 10);
        prop_assert!(given.last().is_some_and(|turn| turn.starts_with("assemble")));
    }
}
