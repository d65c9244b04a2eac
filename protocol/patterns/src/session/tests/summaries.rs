//! What a session leaves at its end, whatever ends it.

use super::*;

/// "A budget that ends in the middle of a round leaves a summary": of each stage, and of the last words of each seat to all.
#[test]
fn a_budget_that_ends_in_the_middle_of_a_round_leaves_a_summary() {
    let mut table = Table::new(json!({
        "budget": { "turns": 4 },
        "stages": [
            { "id": "draft", "seats": ["a"] },
            { "id": "table", "after": ["draft"], "order": "turns", "seats": ["a", "b"] },
            { "id": "final", "after": ["table"], "seats": ["b"] },
        ],
    }));
    table.done("A first draft.");
    table.passes("It is fine.");
    table.sends(vec![says(&["a"], "only for you")], "Use\nPostgres.", true);
    table.passes(&format!("Use SQLite. {}", "x".repeat(500)));
    assert_eq!(
        table.end,
        Some((TaskState::Failed, "incomplete: budget.turns: 4 used up".to_owned())),
        "{:?}",
        table.given
    );
    let cut = format!("Use SQLite. {}…", "x".repeat(388));
    let expected = format!(
        "The session failed: incomplete: budget.turns: 4 used up.\n\n\
         draft: done\n- a: A first draft.\n\n\
         table: incomplete (budget.turns: 4 used up), 2 rounds\n- a: {cut}\n- b: Use Postgres.\n\n\
         final: not begun\n"
    );
    assert_eq!(table.summary, Some(expected));
}

/// Row 1.29: the completing stage has the summary of every seat's work, and all that was said to all.
#[test]
fn a_stage_that_follows_a_table_is_given_a_summary_and_the_discussion() {
    let mut table = Table::new(json!({ "phases": { "default": ["a", "b"], "complete": ["closer"] } }));
    table.passes("First: use\nPostgres.");
    table.sends(vec![Artifact::text("plan.md", "text/markdown", "# The plan")], "I plan.", true);
    table.sends(vec![says(&["b"], "only for you")], "Second.", true);
    table.passes("");
    table.passes("");
    assert_eq!(table.turns(), ["default.1.a.3"], "{:?}", table.given);
    table.done("agreed");
    table.done("done");
    assert_eq!(table.turns(), ["complete.1.closer.1"]);
    let given = &table.open[0].artifacts;
    for name in ["default.1.summary", "default.1.discussion", "default.1.a.3", "default.1.b.4"] {
        assert!(given.contains(&name.to_owned()), "{name}: {given:?}");
    }
    let text = |name: &str| table.recorded.iter().find(|made| made.artifact_id == name).unwrap().as_text();
    assert_eq!(
        text("default.1.summary"),
        "Stage default: what each seat has done. All that was said is the artifact default.1.discussion.\n\
         \na\n- last words: agreed\n- round 1: First: use Postgres.\n- round 2: Second.\n\
         \nb\n- last words: done\n- artifact plan.md, round 1: 10 bytes\n- round 1: I plan.\n"
    );
    let all = text("default.1.discussion");
    assert!(all.contains("[round 1, a]\nFirst: use\nPostgres.\n"), "{all}");
    assert!(all.contains("[round 1, b, artifact plan.md]\n# The plan\n"), "{all}");
    assert!(!all.contains("only for you"), "what was said to one seat stays with it: {all}");
    table.done("the end");
    assert_eq!(table.ended(), (TaskState::Completed, "the end"));
    let mut short = Table::new(json!({ "phases": { "start": ["a"], "complete": ["closer"] } }));
    short.done("all that there is");
    assert_eq!(short.open[0].artifacts, ["start.1.a.1"], "nothing more was said");
}

/// A session of which nobody has said anything has no summary; one that a person stops has one of what was said.
#[test]
fn a_stop_leaves_a_summary_of_what_was_said() {
    let mut table = Table::new(json!({ "seats": ["a", "b"] }));
    table.directs(json!({ "verb": "stop", "text": "enough" })).unwrap();
    assert!(table.recorded.is_empty() && table.end.is_some());
    let mut table = Table::new(json!({ "seats": ["a", "b"] }));
    table.passes("Use SQLite.");
    table.directs(json!({ "verb": "stop", "text": "enough" })).unwrap();
    let expected = "The session failed: stopped by a person: enough.\n\ntable: stopped\n- a: Use SQLite.\n";
    assert_eq!(table.summary.as_deref(), Some(expected));
}

/// A directive that comes while the summary is made is refused, and the view does not say that the session is over.
#[test]
fn a_session_is_not_over_before_its_summary_is_made() {
    let mut table = Table::new(json!({ "seats": ["a"] }));
    let turn = table.open.remove(0);
    let result = RequestResult {
        id: turn.id,
        ok: true,
        text: "Use SQLite.".into(),
        seat: Some(SeatEnd::default()),
        ..Default::default()
    };
    table.run_once(|session, cx| session.turn_ended(cx, result));
    assert_eq!((table.open.len(), table.view()["over"].clone()), (1, json!(false)));
    assert_eq!(table.directs(json!({ "verb": "stop" })).unwrap_err(), "the session has ended");
    assert_eq!(
        (table.end.clone().unwrap().0, table.view()["over"].clone()),
        (TaskState::Completed, json!(true))
    );
}
