//! Sealed stages: what a seat is given, and when the others are.

use super::*;

fn brainstorm(more: Value) -> Table {
    let mut divergent =
        json!({ "id": "divergent", "after": ["framing"], "sealed": true, "seats": ["a", "b", "c"] });
    divergent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut table = Table::new(json!({ "stages": [
        { "id": "framing", "seats": ["f"] },
        divergent,
        { "id": "convergent", "after": ["divergent"], "seats": ["s"], "next": { "too-few": "divergent" }, "loops": 1 },
    ] }));
    table.done("the frame");
    table
}

/// The passing of a turn, with a text.
fn passes(table: &mut Table, turn: &str, text: &str) {
    let at =
        table.open.iter().position(|open| open.id == turn).unwrap_or_else(|| panic!("{:?}", table.turns()));
    table.answer(at, text, SeatEnd { passed: true, ..SeatEnd::default() });
}

#[test]
fn line_46_a_seat_of_a_sealed_stage_is_given_itself_and_people_and_all_is_released_at_once() {
    let mut table = brainstorm(json!({}));
    for turn in table.open.clone() {
        let seat = &turn.input["seat"];
        assert_eq!((&seat["sealed"], &seat["others"]), (&json!(true), &json!([])), "{seat:#}");
        assert_eq!(turn.artifacts, ["framing.1.f.1"]);
    }
    for (seat, text) in [("a", "one"), ("b", "two"), ("c", "three")] {
        passes(&mut table, &format!("divergent.1.{seat}.1"), text);
    }
    table.directs(json!({ "verb": "say", "stage": "divergent", "text": "wilder" })).unwrap();
    let given = |table: &Table, at: usize| table.open[at].artifacts.clone();
    assert_eq!(given(&table, 0), ["framing.1.f.1", "divergent.1.a.1"], "a sees the frame and itself");
    passes(&mut table, "divergent.1.a.2", "four");
    passes(&mut table, "divergent.1.b.2", "five");
    passes(&mut table, "divergent.1.c.2", "six");
    assert_eq!(
        given(&table, 1),
        ["framing.1.f.1", "divergent.1.b.1", "divergent.1.b.2", "divergent.person.1"],
        "b, and what a person said"
    );
    for _ in 0..3 {
        table.done("the last");
    }
    let of = |turn: u32| ["a", "b", "c"].map(|seat| format!("divergent.1.{seat}.{turn}"));
    let all = (1..=3).flat_map(of).collect::<Vec<_>>();
    assert_eq!(table.turns(), ["convergent.1.s.1"]);
    assert_eq!(table.released, [("divergent".to_owned(), 1)], "what was posted there, too");
    let all: Vec<String> = std::iter::once("framing.1.f.1".to_owned()).chain(all).collect();
    assert_eq!(given(&table, 0), all, "what was said to all is released, not the last words alone");
}

#[test]
fn line_46_a_message_to_one_seat_is_refused_in_a_sealed_stage() {
    let mut table = brainstorm(json!({}));
    let at = table.open.iter().position(|open| open.id == "divergent.1.a.1").unwrap();
    let turn = table.open.remove(at);
    let message = crate::session::seat::say(1, &["b".to_owned()], "psst", SideMode::Dialogue).unwrap();
    let end = Some(SeatEnd { passed: true, ..SeatEnd::default() });
    let result = RequestResult {
        id: turn.id,
        ok: true,
        text: "one".into(),
        seat: end,
        artifacts: vec![message],
        ..Default::default()
    };
    table.run(|session, cx| session.turn_ended(cx, result));
    passes(&mut table, "divergent.1.b.1", "two");
    passes(&mut table, "divergent.1.c.1", "three");
    let refused = table.open[0].input["seat"]["refused"][0].as_str().unwrap();
    assert!(refused.contains("stage_sealed"), "{refused}");
    assert!(!table.recorded.iter().any(|artifact| artifact.as_text() == "psst"));
}

#[test]
fn a_sealed_stage_that_is_begun_again_gives_nothing_of_what_came_after() {
    let mut table = brainstorm(json!({}));
    for text in ["one", "two", "three"] {
        table.done(text);
    }
    table.answer(0, "too little", SeatEnd { label: Some("too-few".into()), ..SeatEnd::default() });
    assert_eq!(table.open.len(), 3);
    for (turn, own) in table.open.iter().zip(["divergent.1.a.1", "divergent.1.b.1", "divergent.1.c.1"]) {
        assert_eq!(
            turn.artifacts,
            ["framing.1.f.1", own],
            "itself, and what was there when the stage was begun first"
        );
    }
}

#[test]
fn what_a_seat_posts_counts_as_findings() {
    let mut table = brainstorm(json!({ "until": { "findings": 4 } }));
    table.answer(0, "", SeatEnd { passed: true, findings: 2, ..SeatEnd::default() });
    table.answer(0, "posted", SeatEnd { passed: true, findings: 1, ..SeatEnd::default() });
    passes(&mut table, "divergent.1.c.1", "");
    assert_eq!(table.open.len(), 3, "three so far: {:?}", table.turns());
    table.answer(0, "", SeatEnd { passed: true, findings: 1, ..SeatEnd::default() });
    assert_eq!(table.open.len(), 2, "the rest may end its turn: {:?}", table.turns());
}

#[test]
fn line_51_a_stage_that_gathers_ends_with_its_findings_and_has_a_limit() {
    let mut table = brainstorm(json!({ "until": { "findings": 4 } }));
    passes(&mut table, "divergent.1.a.1", "one");
    passes(&mut table, "divergent.1.b.1", "two");
    passes(&mut table, "divergent.1.c.1", "three");
    passes(&mut table, "divergent.1.a.2", "four");
    assert_eq!(table.turns(), ["divergent.1.b.2", "divergent.1.c.2"], "the rest may end its turn");
    table.done("five");
    table.done("six");
    assert_eq!(table.open[0].artifacts.len(), 7, "and the frame");
    for (more, part) in [
        (json!({ "until": { "findings": 257 } }), "at most 256 findings"),
        (json!({ "sealed": true, "order": "turns", "side": {} }), "can't address each other"),
    ] {
        let mut stage = json!({ "id": "x", "seats": ["a", "b"] });
        stage.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let why = refusal(json!({ "stages": [stage] }));
        assert!(why.contains(part), "{why}");
    }
}

#[test]
fn line_50_stages_that_do_not_wait_for_each_other_overlap_and_the_next_one_waits_for_both() {
    let mut table = Table::new(json!({ "stages": [
        { "id": "framing", "seats": ["f"] },
        { "id": "divergent", "after": ["framing"], "sealed": true, "seats": ["a"] },
        { "id": "research", "after": ["framing"], "seats": ["r"] },
        { "id": "convergent", "after": ["divergent", "research"], "seats": ["s"] },
    ] }));
    table.done("the frame");
    assert_eq!(table.turns(), ["divergent.1.a.1", "research.1.r.1"], "both run at once");
    table.done("an idea");
    assert_eq!(table.turns(), ["research.1.r.1"], "the next stage waits for both");
    table.done("a precedent");
    assert_eq!(table.turns(), ["convergent.1.s.1"]);
    let made = ["framing.1.f.1", "divergent.1.a.1", "research.1.r.1"];
    assert_eq!(table.open[0].artifacts, made, "of all stages that it follows, directly or not");
    let task = &table.open[0].description;
    assert!(task.contains("Stage 4 of 4: convergent."), "{task}");
}

#[test]
fn a_turn_is_given_the_same_whoever_of_a_stage_speaks_first() {
    let given = |order: [&str; 3]| {
        let mut table = Table::new(json!({ "stages": [
            { "id": "facts", "seats": ["a", "b"] },
            { "id": "doubts", "seats": ["c"] },
            { "id": "end", "after": ["facts", "doubts"], "seats": ["d"] },
        ] }));
        for round in 1..=2 {
            for turn in order {
                passes(&mut table, &format!("{turn}.{round}"), &format!("{turn} {round}"));
            }
        }
        let third = table.open.iter().find(|turn| turn.id == "facts.1.b.3").unwrap().clone();
        for _ in order {
            table.done("the end");
        }
        [(third.input, third.artifacts), (table.open[0].input.clone(), table.open[0].artifacts.clone())]
    };
    let first = given(["facts.1.a", "facts.1.b", "doubts.1.c"]);
    assert_eq!(first[0].1, ["facts.1.a.1", "facts.1.b.1", "facts.1.a.2", "facts.1.b.2"]);
    assert_eq!(given(["doubts.1.c", "facts.1.b", "facts.1.a"]), first);
}
