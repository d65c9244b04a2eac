//! Amendments, and directives of supervisors.

use super::*;

/// What the open turn is newly given, by name.
fn new(turn: &SeatTurn) -> Vec<&str> {
    turn.input["seat"]["new"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect()
}

#[test]
fn line_44_an_amendment_holds_for_all_stages_from_the_next_turn_on() {
    let mut table = Table::new(json!({ "stages": [
        { "id": "one", "order": "turns", "seats": ["a", "b"] },
        { "id": "two", "after": ["one"], "sealed": true, "seats": ["c"] },
        { "id": "three", "after": ["two"], "seats": ["d"], "gate": ["approve", "revise"] },
    ] }));
    let amend = |text: &str| json!({ "verb": "amend", "text": text });
    assert_eq!(table.directs(amend("only passkeys")), Ok(DirectiveOutcome::Delivered));
    assert!(table.open[0].artifacts.is_empty(), "a turn that runs is not interrupted");
    table.passes("one");
    assert_eq!(new(&table.open[0]), ["amendment.1", "one.1.a.1"]);
    table.done("two");
    assert_eq!(new(&table.open[0]), ["amendment.1", "one.1.b.1"], "it is new to each seat once");
    table.done("three");
    assert!(new(&table.open[0]) == ["amendment.1"], "a later stage is given it, a sealed one, too");
    table.done("four");
    table.done("five");
    assert_eq!(table.directs(amend("and no mail")), Ok(DirectiveOutcome::Queued), "a person is asked");
    table.decides(Decision::Deny, Some("shorter"));
    assert!(["amendment.1", "amendment.2"].iter().all(|id| table.open[0].artifacts.contains(&(*id).into())));
    assert_eq!(table.view()["amendments"], json!(["amendment.1", "amendment.2"]));
    for (bad, why) in [
        (amend(" "), "amend: needs its `text`"),
        (json!({ "verb": "amend", "stage": "two", "text": "x" }), "stage two has ended"),
        (json!({ "verb": "redirect", "stage": "three", "seat": "d" }), "are for a stage"),
        (json!({ "verb": "skip", "stage": "three", "seat": "d" }), "are for a stage"),
        (json!({ "verb": "stop", "seat": "d" }), "seat: needs its `stage`"),
        (json!({ "verb": "stop", "stage": "three", "seat": "x" }), "has no seat \"x\""),
        (amend(&"x".repeat(5_000)), "the limit of an amendment"),
    ] {
        let refused = table.directs(bad).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
    for _ in 2..16 {
        table.directs(amend("more")).unwrap();
    }
    assert!(table.directs(amend("one too many")).unwrap_err().contains("at most 16"));
    assert!(Directive::read(json!({ "verb": "pause" })).unwrap_err().contains("can't be paused"));
}

fn wants(directive: Value) -> Artifact {
    seat::directive(1, &serde_json::from_value(directive).unwrap()).unwrap()
}

#[test]
fn a_supervisor_steers_in_its_turn_and_nobody_else_does() {
    let lead = json!({ "agent": "lead", "as": "supervisor" });
    let mut table = Table::new(json!({ "stages": [
        { "id": "draft", "seats": ["w"] },
        { "id": "t", "after": ["draft"], "order": "turns", "seats": ["a", "b", lead] },
    ] }));
    table.done("a draft");
    table.sends(vec![wants(json!({ "verb": "amend", "text": "no" }))], "one", true);
    assert_eq!(table.turns(), ["t.1.lead.1"]);
    let say = json!({ "verb": "say", "stage": "t", "seat": "b", "text": "be brief" });
    let stop = json!({ "verb": "stop", "text": "enough" });
    table.sends(
        vec![wants(say), wants(json!({ "verb": "amend", "text": "only passkeys" })), wants(stop)],
        "",
        true,
    );
    assert_eq!(table.turns(), ["t.1.b.1"]);
    assert_eq!(news(&table), ["only passkeys", "one", "be brief"], "an amendment comes first");
    let said = table.recorded.iter().find(|said| said.as_text() == "be brief").unwrap();
    assert_eq!(said.metadata[names::SESSION]["from"], "lead", "{said:?}");
    table.passes("two");
    let refused = table.open[0].input["seat"]["refused"].to_string();
    assert!(refused.contains("a supervisor may say, redirect and amend"), "{refused}");
    table.sends(vec![wants(json!({ "verb": "redirect", "stage": "draft", "text": "shorter" }))], "", true);
    assert_eq!(table.turns(), ["draft.2.w.1"], "it begins again, and the table with it");
    assert!(table.view()["notes"].to_string().contains("by a directive (lead): shorter"));
    table.done("a shorter draft");
    assert_eq!(table.turns(), ["t.2.a.1"]);
    assert!(table.end.is_none() && table.view()["amendments"].as_array().unwrap().len() == 1);
}

#[test]
fn words_for_a_stage_that_is_about_to_end_are_refused_except_for_one_that_reviews() {
    let watcher = json!({ "agent": "w", "as": "observer" });
    let mut table = Table::new(json!({ "stages": [
        { "id": "x", "seats": ["a", "b", watcher], "until": { "findings": 1 } },
        { "id": "y", "after": ["x"], "seats": ["c"] },
    ] }));
    let say = |seat: Option<&str>| json!({ "verb": "say", "stage": "x", "seat": seat, "text": "wait" });
    assert_eq!(table.directs(say(Some("a"))), Ok(DirectiveOutcome::Delivered));
    table.done("enough");
    assert_eq!(table.turns(), ["x.1.b.1"], "the turn that runs may end");
    for seat in [Some("a"), Some("b"), None] {
        let refused = table.directs(say(seat)).unwrap_err();
        assert!(refused.contains("stage x is about to end"), "{refused}");
    }
    let refused = table.directs(json!({ "verb": "say", "text": "wait" })).unwrap_err();
    assert!(refused.contains("no stage has another turn"), "{refused}");
    assert_eq!(table.directs(say(Some("w"))), Ok(DirectiveOutcome::Delivered));
    table.done("and more");
    assert_eq!((table.turns(), news(&table).contains(&"wait".to_owned())), (vec!["x.1.w.1"], true));
}

/// What a person says while all seats have their turns is heard in another one, also by a seat that is done then; queued words for
/// one seat are given to that seat alone, as new.
#[test]
fn words_of_a_person_reach_a_turn() {
    let mut table = Table::new(json!({ "stages": [
        { "id": "s", "seats": ["a", "b"] },
        { "id": "t", "after": ["s"], "seats": ["a", "b"] },
    ] }));
    let say = |stage: &str, text: &str| json!({ "verb": "say", "stage": stage, "seat": "a", "text": text });
    assert_eq!(table.directs(say("s", "be kind")), Ok(DirectiveOutcome::Delivered));
    assert_eq!(table.directs(say("t", "be brief")), Ok(DirectiveOutcome::Queued));
    table.done("one");
    table.done("two");
    assert_eq!(table.turns(), ["s.1.a.2"], "only the one that was addressed has another turn");
    assert!(news(&table).contains(&"be kind".to_owned()), "{:?}", news(&table));
    table.done("three");
    assert_eq!(table.turns(), ["t.1.a.1", "t.1.b.1"]);
    assert_eq!(news(&table), ["be brief"]);
    assert!(!format!("{:?}", table.open[1].artifacts).contains("t.person"), "{:?}", table.open[1].artifacts);
}

#[test]
fn stopping_a_stage_ends_that_alone_and_what_needs_it_is_blocked() {
    let mut table = Table::new(json!({ "stages": [
        { "id": "a", "seats": ["x"] },
        { "id": "b", "seats": ["y"] },
        { "id": "both", "after": ["a", "b"], "seats": ["z"] },
        { "id": "some", "after": ["a", "b"], "needs": "settled", "seats": ["z"] },
    ] }));
    let stop = json!({ "verb": "stop", "stage": "a", "text": "enough" });
    assert_eq!(table.directs(stop.clone()), Ok(DirectiveOutcome::Delivered));
    assert_eq!(table.turns(), ["b.1.y.1"], "the other one is not touched");
    assert!(table.directs(stop).unwrap_err().contains("stage a has ended"));
    let view = table.view();
    assert_eq!(
        (&view["stages"][0]["state"], &view["stages"][0]["label"]),
        (&json!("failed"), &json!("stopped"))
    );
    assert!(view["stages"][0]["reason"].as_str().unwrap().contains("stopped by a person: enough"), "{view}");
    table.done("here");
    assert_eq!(table.turns(), ["some.1.z.1"], "what needs some goes on, what needs all is blocked");
    table.done("all there is");
    assert!(table.end.is_some());
}

#[test]
fn people_are_asked_about_a_stage_that_was_stopped() {
    let mut table = Table::new(json!({ "stages": [
        { "id": "a", "seats": ["x"] },
        { "id": "b", "after": ["a"], "seats": ["y"], "gate": ["approve"] },
    ] }));
    table.directs(json!({ "verb": "stop", "stage": "a" })).unwrap();
    assert_eq!(table.asked.len(), 1);
    assert!(table.asked[0].text.contains("stage a failed: stopped by a person"), "{:?}", table.asked);
}

#[test]
fn a_seat_that_is_stopped_has_no_further_turn_and_the_others_go_on() {
    let mut table =
        Table::new(json!({ "stages": [{ "id": "t", "order": "turns", "seats": ["a", "b", "c"] }] }));
    table.passes("one");
    let stop = |seat: &str| json!({ "verb": "stop", "stage": "t", "seat": seat });
    assert_eq!(table.directs(stop("b")), Ok(DirectiveOutcome::Delivered));
    assert_eq!(table.turns(), ["t.1.c.1"], "its turn is withdrawn, and the next one has it");
    assert!(table.directs(stop("b")).unwrap_err().contains("has no turn to stop"));
    table.passes("three");
    assert_eq!(table.turns(), ["t.1.a.2"]);
    table.passes("four");
    assert_eq!(table.turns(), ["t.1.c.2"], "no turn of b");
}

#[test]
fn an_amendment_of_a_stage_or_a_seat_is_given_to_that_alone() {
    let mut table = Table::new(json!({ "stages": [
        { "id": "one", "seats": ["a", "b"] },
        { "id": "two", "after": ["one"], "seats": ["a", "b"] },
    ] }));
    let amend = |more: Value| {
        let mut wanted = json!({ "verb": "amend", "text": "only passkeys", "stage": "two" });
        wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        wanted
    };
    assert_eq!(table.directs(amend(json!({}))), Ok(DirectiveOutcome::Queued));
    table.directs(amend(json!({ "seat": "b" }))).unwrap();
    table.directs(amend(json!({ "stage": "one", "seat": "b" }))).unwrap();
    table.done("x");
    table.done("y");
    let given = |turn: &SeatTurn| -> Vec<String> {
        turn.artifacts.iter().filter(|id| id.starts_with("amendment")).cloned().collect()
    };
    assert_eq!(table.turns(), ["two.1.a.1", "two.1.b.1"]);
    assert_eq!(given(&table.open[0]), ["amendment.1"]);
    assert_eq!(given(&table.open[1]), ["amendment.1", "amendment.2"]);
    let about = &table.recorded[0].metadata[names::SESSION];
    assert_eq!((&about["stage"], &about["to"]), (&json!("two"), &json!(["team"])));
}
