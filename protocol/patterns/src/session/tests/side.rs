//! Side conversations.

use super::*;

/// The table of `seats` with side conversations.
fn talking(side: Value, seats: Value) -> Table {
    Table::new(json!({ "stages": [{ "id": "t", "order": "turns", "side": side, "seats": seats }] }))
}

/// The names of the seats of an artifact's addressees, and its text.
fn last_recorded(table: &Table) -> (Value, String) {
    let last = table.recorded.last().unwrap();
    (last.metadata[names::SESSION]["to"].clone(), last.as_text())
}

#[test]
fn a_message_to_one_seat_pauses_the_table_and_its_end_is_told_to_all() {
    let watcher = json!({ "agent": "w", "as": "observer", "reviews": "each-action" });
    let mut table = talking(json!({}), json!(["a", "b", "c", watcher]));
    table.sends(vec![says(&["b"], "why?")], "one", true);
    assert_eq!(table.turns(), ["t.1.w.1"], "the turn that opens it is reviewed");
    table.passes("");
    assert_eq!(table.turns(), ["t.1.b.1"]);
    assert_eq!(table.open[0].input["seat"]["side"], json!({ "with": "a", "messages": 1, "max": 20 }));
    assert_eq!(news(&table), ["why?", "one"]);
    table.passes("because");
    assert_eq!(table.turns(), ["t.1.a.2"], "the table waits");
    assert_eq!(
        (news(&table), &table.open[0].input["seat"]["round"]),
        (vec!["because".to_owned()], &json!(1))
    );
    let shown = table.view();
    let side = &shown["stages"][0]["side"];
    assert_eq!(*side, json!({ "between": ["a", "b"], "messages": 2, "max": 20 }), "{shown:#}");
    table.sends(vec![says(&["b"], "I see"), says(&["c"], "psst"), says(&["team"], "all")], "and?", true);
    table.done("a and b agree");
    assert_eq!(table.turns(), ["t.1.w.2"], "it is reviewed once");
    assert_eq!(news(&table), ["because", "I see", "and?", "a and b agree"]);
    table.passes("");
    assert_eq!(table.turns(), ["t.1.b.3"], "the partner has its turn in the same round");
    assert_eq!(table.open[0].input["seat"].get("side"), None);
    table.passes("two");
    table.passes("");
    assert_eq!(table.turns(), ["t.1.c.1"]);
    assert_eq!(news(&table), ["one", "a and b agree", "two"], "the others are told how it ended");
    table.done("three");
    table.passes("");
    assert_eq!(table.turns(), ["t.1.a.3"], "`done` ended the conversation, not the part of the seat");
    let refused = table.open[0].input["seat"]["refused"].clone();
    assert_eq!(refused.as_array().map(Vec::len), Some(2), "{refused}");
    assert!(refused[0].as_str().unwrap().contains("you talk with b alone"), "{refused}");
    table.done("four");
    table.passes("");
    table.done("the result");
    table.passes("");
    assert_eq!(table.ended(), (TaskState::Completed, "the result"));
}

#[test]
fn a_side_conversation_ends_by_silence_by_its_limit_and_by_its_time() {
    let seats = || json!(["a", "b", "c"]);
    let mut silent = talking(json!({}), seats());
    silent.sends(vec![says(&["b"], "why?")], "", true);
    silent.passes("");
    assert_eq!(silent.turns(), ["t.1.b.2"], "the partner has its turn");
    let (to, text) = last_recorded(&silent);
    assert_eq!(to, json!(["c"]));
    assert_eq!(
        text,
        "a and b have talked alone, messages: 2; b has nothing more to say. Their last messages:\na: why?"
    );
    let mut long = talking(json!({ "max": 3 }), seats());
    long.sends(vec![says(&["c"], "why?")], "", true);
    long.passes("because");
    long.passes(&"x".repeat(500));
    assert_eq!(long.turns(), ["t.1.b.1"]);
    let (to, text) = last_recorded(&long);
    assert_eq!(to, json!(["b"]));
    assert!(text.contains("3 messages are the limit") && text.contains("\nc: because"), "{text}");
    assert!(text.contains(&format!("{}…", "x".repeat(400))), "the last messages are cut: {text}");
    let mut late = talking(json!({ "time": "1min" }), seats());
    late.now = 1_000;
    late.sends(vec![says(&["b"], "why?")], "one", true);
    let (timer, at) = late.sides[0];
    assert_eq!(at, WallTime(61_000));
    late.run(|session, cx| session.timer(cx, SessionTimer::Side(0, 7)));
    assert_eq!(late.turns(), ["t.1.b.1"], "the time of another conversation changes nothing");
    late.run(|session, cx| session.timer(cx, timer));
    assert_eq!(late.turns(), ["t.1.b.2"], "its turn is withdrawn, and it has its turn in the round");
    assert!(last_recorded(&late).1.contains("its time of 1m is over, and b has not answered"));
    assert!(late.view()["notes"][0].as_str().unwrap().contains("b has not answered"));
    late.passes("two");
    late.run(|session, cx| session.timer(cx, timer));
    assert_eq!(late.turns(), ["t.1.c.1"], "it ends once");
}

#[test]
fn nothing_else_opens_a_side_conversation() {
    let w = json!({ "agent": "w", "as": "observer" });
    let mut table = talking(json!({}), json!(["a", "b", { "agent": "c", "approachable": false }, w]));
    table.sends(vec![says(&["b", "w"], "you two")], "", true);
    assert_eq!(table.turns(), ["t.1.w.1"], "an observer has the turn that it always has");
    table.sends(vec![says(&["b"], "an observer says something")], "", true);
    assert_eq!((table.turns(), news(&table).len()), (vec!["t.1.b.1"], 2));
    assert_eq!(table.open[0].input["seat"].get("side"), None);
    table.sends(vec![says(&["c"], "not approachable")], "two", true);
    assert_eq!(table.turns(), ["t.1.c.1"]);
    table.sends(vec![says(&["a"], "a last word")], "three", false);
    assert_eq!(table.turns(), ["t.1.a.2"], "a seat that is done waits for no answer");
    assert_eq!(table.open[0].input["seat"].get("side"), None);
    table.done("four");
    table.sends(vec![says(&["a"], "again?")], "five", true);
    assert_eq!(table.open[0].input["seat"]["side"]["with"], "b", "it opens a seat again");
    table.done("we are through");
    table.sends(vec![], "six", false);
    assert_eq!(table.turns(), ["t.1.b.3"], "{:?}", table.given);
    table.sends(vec![says(&["a"], "and again?")], "seven", true);
    assert_eq!(table.turns(), ["t.1.b.4"], "a seat that is done and was opened again does not answer");
    table.done("end");
    assert_eq!(table.ended(), (TaskState::Completed, "end"));
    let mut off =
        Table::new(json!({ "stages": [{ "id": "t", "order": "turns", "seats": ["a", "b", "c"] }] }));
    off.sends(vec![says(&["c"], "why?")], "one", true);
    assert_eq!(off.turns(), ["t.1.b.1"], "without `side` the table does not wait");
}

#[test]
fn a_seat_that_fails_in_a_side_conversation_ends_it() {
    let mut table = talking(json!({}), json!(["a", "b", "c"]));
    table.graph.stages[0].needs = graph::StageNeeds::Settled;
    table.sends(vec![says(&["b"], "why?")], "one", true);
    table.fails();
    assert_eq!(table.turns(), ["t.1.b.2"], "it is asked again");
    table.fails();
    assert_eq!(table.turns(), ["t.1.c.1"]);
    assert!(news(&table)[1].contains("b has failed: it broke"), "{:?}", news(&table));
    table.done("two");
    table.done("three");
    assert_eq!(table.ended(), (TaskState::Completed, "three"));
}

#[test]
fn a_stage_that_ends_in_a_side_conversation_tells_nothing_of_it() {
    let mut table = Table::new(json!({ "stages": [
        { "id": "t", "order": "turns", "side": {}, "seats": ["a", "b"], "until": { "time": "1min" }, "next": { "x": "u" } },
        { "id": "u", "after": ["t"], "seats": ["c"] },
    ] }));
    table.sends(vec![says(&["b"], "a secret")], "one", true);
    assert_eq!(table.open[0].input["seat"].get("labels"), None, "the end of a conversation is no label");
    table.run(|session, cx| session.timer(cx, SessionTimer::Stage(0, 1)));
    table.answer(0, "no secret", SeatEnd { label: Some("y".into()), passed: true, ..SeatEnd::default() });
    assert_eq!(table.turns(), ["u.1.c.1"]);
    assert_eq!(table.open[0].artifacts, ["t.1.a.1"], "what a said to all");
    assert_eq!(table.view()["stages"][0]["label"], "done");
    assert_eq!(table.view()["stages"][0].get("side"), None);
    table.directs(json!({ "verb": "redirect", "stage": "t" })).unwrap();
    assert_eq!(table.turns(), ["t.2.a.1"], "and begins without one");
    assert_eq!(table.open[0].input["seat"].get("side"), None);
}

/// A side conversation of twenty messages in every turn of a table: the state stays small.
#[test]
fn a_long_table_of_side_conversations_stays_small() {
    let mut table = Table::new(json!({ "budget": { "turns": 5000 }, "stages": [
        { "id": "t", "order": "turns", "rounds": 4, "side": {}, "seats": ["a", "b", "c", "d", "e", "f"] },
    ] }));
    let mut count = 0;
    while table.end.is_none() {
        count += 1;
        let text = format!("{count:0>1000}");
        let seat = &table.open[0].input["seat"];
        match seat.get("side").is_some() {
            true => table.passes(&text),
            false => {
                let partner = seat["others"][0]["seat"].as_str().unwrap().to_owned();
                table.sends(vec![says(&[&partner], "why?")], &text, true);
            }
        }
        let state = serde_json::to_string(&table.session).unwrap().len();
        assert!(state < 64 * 1024, "{state}");
    }
    assert_eq!(count, 4 * 6 * 20);
    assert!(table.ended().1.contains("4 rounds are used up"));
}

/// A message that gives one seat work.
fn gives(to: &str, text: &str) -> Artifact {
    seat::say(1, &[to.to_owned()], text, SideMode::Delegation).unwrap()
}

#[test]
fn line_29_a_seat_that_gives_work_away_keeps_its_turn_and_the_others_are_told() {
    let mut table = talking(json!({}), json!(["a", "b", "c"]));
    table.sends(vec![gives("b", "measure it")], "one", true);
    assert_eq!(table.turns(), ["t.1.b.1"]);
    let side = json!({ "with": "a", "messages": 1, "max": 20, "mode": "delegation" });
    assert_eq!(table.open[0].input["seat"]["side"], side);
    table.sends(vec![says(&["c"], "psst")], "40 ms", false);
    assert_eq!(table.turns(), ["t.1.a.2"], "a has its turn again, in the same round");
    assert_eq!((news(&table), &table.open[0].input["seat"]["round"]), (vec!["40 ms".to_owned()], &json!(1)));
    assert_eq!(table.open[0].input["seat"].get("side"), None);
    table.passes("it takes 40 ms");
    assert_eq!(table.turns(), ["t.1.b.2"], "whoever worked has its own turn");
    assert!(table.open[0].input["seat"]["refused"][0].as_str().unwrap().contains("with a alone"));
    table.passes("two");
    let told = news(&table);
    assert!(told[1].starts_with("a has had b work alone") && told[1].contains("b: 40 ms"), "{told:?}");
    assert_eq!((told.len(), told[0].as_str(), told[2].as_str()), (4, "one", "it takes 40 ms"), "{told:?}");
}

#[test]
fn a_seat_has_its_turn_back_only_so_often_in_a_round() {
    let mut table = talking(json!({ "max": 2 }), json!(["a", "b"]));
    for (round, first) in [(1, "t.1.a.1"), (2, "t.1.a.3")] {
        assert_eq!(table.turns(), [first]);
        table.sends(vec![gives("b", "measure it")], &format!("one of {round}"), true);
        table.sends(vec![], &format!("40 ms in {round}"), false);
        table.sends(vec![gives("b", "again")], &format!("two of {round}"), true);
        table.sends(vec![], &format!("50 ms in {round}"), false);
        assert!(table.turns()[0].starts_with("t.1.b."), "the table goes on: {:?}", table.turns());
        assert_eq!(table.open[0].input["seat"]["round"], round);
        table.passes("go on");
    }
}

/// Defect A6: what the others are told keeps words and artifacts apart.
#[test]
fn the_others_are_told_the_words_and_the_artifacts_of_work_each_for_itself() {
    let mut table = talking(json!({}), json!(["a", "b", "c"]));
    table.sends(vec![gives("b", "measure it")], "one", true);
    table.sends(vec![Artifact::text("found.md", "text/markdown", "# found\n")], "40 ms", false);
    table.passes("it takes 40 ms");
    table.passes("two");
    let told = news(&table);
    assert!(told[1].ends_with("\nb: 40 ms\n[artifact found.md] # found"), "{told:?}");
}

/// Row 1.16: the short form is the round table of the preset.
#[test]
fn the_short_form_opens_side_conversations_as_the_preset_does() {
    for graph in
        [json!({ "seats": ["zoe", "adam"] }), json!({ "preset": "round-table", "seats": ["zoe", "adam"] })]
    {
        let mut table = Table::new(graph);
        assert_eq!(table.turns(), ["table.1.zoe.1"], "the order given");
        table.sends(vec![says(&["adam"], "a word alone")], "", true);
        assert_eq!(table.open[0].input["seat"]["side"]["with"], "zoe");
    }
}

#[test]
fn work_that_is_not_done_is_told_to_who_gave_it_and_its_turn_comes_back() {
    let mut table = talking(json!({}), json!(["a", "b"]));
    table.graph.stages[0].needs = graph::StageNeeds::Settled;
    table.sends(vec![gives("b", "measure it")], "one", true);
    let (timer, at) = table.sides[0];
    table.now = at.0;
    table.run(|session, cx| session.timer(cx, timer));
    assert_eq!(table.turns(), ["t.1.a.2"]);
    assert!(news(&table)[0].contains("b has not answered"), "{:?}", news(&table));
    table.sends(vec![gives("b", "try again")], "", true);
    table.fails();
    table.fails();
    assert_eq!(table.turns(), ["t.1.a.3"]);
    assert!(news(&table)[0].contains("b has failed"), "{:?}", news(&table));
    let mut table = Table::new(json!({ "stages": [{ "id": "t", "order": "turns", "seats": ["a", "b"] }] }));
    table.sends(vec![gives("b", "measure it")], "one", true);
    assert_eq!(news(&table), ["one"], "without `side` nobody works alone");
    table.passes("two");
    let refused = table.open[0].input["seat"]["refused"][0].as_str().unwrap().to_owned();
    assert!(refused.contains("in a stage with `side`"), "{refused}");
}
