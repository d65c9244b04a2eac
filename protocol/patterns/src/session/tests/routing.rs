//! Who may speak to whom.

use super::*;

fn refused(turn: &SeatTurn) -> String {
    turn.input["seat"]["refused"][0].as_str().unwrap_or_default().to_owned()
}

#[test]
fn line_35_with_up_down_siblings_are_not_spoken_to_and_not_heard() {
    let table = |routing: &str| {
        Table::new(json!({
            "routing": routing, "cast": { "lead": "boss" },
            "stages": [{ "id": "t", "order": "turns", "seats": ["a", "b", "lead"] }, { "id": "u", "seats": ["c"] }],
        }))
    };
    let mut up_down = table("up-down");
    let seat = up_down.open[0].input["seat"].clone();
    assert_eq!((&seat["routing"], &seat["siblings"]), (&json!("up-down"), &json!(["b", "c"])), "{seat:#}");
    up_down.sends(vec![says(&["b"], "psst"), says(&["lead"], "for the lead")], "one", true);
    let at = up_down.open.iter().position(|turn| turn.id == "t.1.b.1").unwrap();
    assert!(up_down.open[at].artifacts.is_empty(), "b hears nothing of a: {:?}", up_down.open[at]);
    up_down.answer(at, "two", SeatEnd { passed: true, ..SeatEnd::default() });
    let at = up_down.open.iter().position(|turn| turn.id == "t.1.lead.1").unwrap();
    assert_eq!(up_down.open[at].artifacts, ["t.1.a.1.say.2", "t.1.a.1", "t.1.b.1"], "the lead hears all");
    assert_eq!(up_down.open[at].input["seat"].get("siblings"), None);
    up_down.speaks(at, vec![says(&["b"], "down")], "three", SeatEnd { passed: true, ..SeatEnd::default() });
    let at = up_down.open.iter().position(|turn| turn.id == "t.1.a.2").unwrap();
    assert!(refused(&up_down.open[at]).contains("to b was not delivered: with routing up-down"));
    assert_eq!(up_down.open[at].artifacts, ["t.1.a.1.say.2", "t.1.a.1", "t.1.lead.1"]);
    let mut mediated = table("mediated");
    assert_eq!(mediated.open[0].input["seat"]["siblings"], json!(["b", "boss", "c"]));
    mediated.sends(vec![says(&["b"], "psst")], "one", true);
    let at = mediated.open.iter().position(|turn| turn.id == "t.1.b.1").unwrap();
    assert_eq!(mediated.open[at].artifacts, ["t.1.a.1.say.1", "t.1.a.1"], "the host hands it on");
    let mut open = table("same-stage");
    let seat = open.open[0].input["seat"].clone();
    assert_eq!((seat.get("routing"), seat.get("siblings")), (None, None), "{seat:#}");
    open.passes("one");
    let workshop = json!({ "preset": "workshop", "cast": { "lead": "l", "curator": "c" } });
    assert_eq!(Table::new(workshop).view()["routing"], "up-down");
    assert_eq!(
        refusal(json!({ "seats": ["a"], "routing": "open" })),
        "routing: must be one of `same-stage`, `up-down`, `mediated`, not `open`"
    );
}
