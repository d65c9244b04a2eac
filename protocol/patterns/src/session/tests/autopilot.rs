//! An agent answers for the person.

use super::*;

fn choice(id: &str, options: &[&str]) -> Question {
    let options = options.iter().map(|option| (*option).to_owned()).collect();
    Question { kind: QuestionKind::Choice, options, ..Question::new(id, "red or blue?") }
}

/// The open turns ask these questions, and no others.
fn ask(table: &mut Table, asked: &[(&str, Question)]) {
    let asked: Vec<_> = asked.iter().map(|(turn, question)| ((*turn).to_owned(), question.clone())).collect();
    assert!(table.session.has_other_questions(&asked));
    table.run(|session, cx| session.questions(cx, &asked));
    assert!(!table.session.has_other_questions(&asked));
}

#[test]
fn an_autopilot_answers_texts_and_choices_of_other_seats_and_nothing_else() {
    let seats = json!(["a", "b", { "person": "ada" }]);
    let mut table = Table::new(
        json!({ "autopilot": "lead", "cast": { "lead": "boss" }, "stages": [{ "id": "t", "seats": seats }] }),
    );
    let kind = |kind| Question { kind, ..Question::new("q", "may I?") };
    ask(
        &mut table,
        &[
            ("t.1.a.1", Question::new("q-1", "which port?")),
            ("t.1.a.1", Question { id: "q-2".into(), ..kind(QuestionKind::Approval) }),
            ("t.1.a.1", Question { id: "q-3".into(), ..kind(QuestionKind::Credential) }),
            ("t.1.ada.1", Question::new("q-4", "ada, it is your turn")),
            ("t.1.b.1", choice("q-5", &["red", "blue"])),
        ],
    );
    assert_eq!(table.turns()[3..], ["autopilot.1", "autopilot.2"]);
    assert!(table.open[3].to == TurnDoer::Peer(Address::Agent(AgentId::parse("boss").unwrap())));
    assert!(table.open[3].description.contains("which port?"), "{}", table.open[3].description);
    table.answer(3, "8080", SeatEnd::default());
    assert_eq!(table.answered, [("q-1".to_owned(), "8080".to_owned())]);
    assert_eq!(
        table.recorded[0].metadata[names::SESSION],
        json!({ "stage": "t", "from": "autopilot", "to": ["a"], "at": WallTime(0) })
    );
    table.answer(3, "green", SeatEnd::default());
    assert_eq!(table.answered.len(), 1, "that is no option");
    let notes = table.view()["notes"].clone();
    assert!(notes[0].as_str().unwrap().contains("the autopilot has answered for the person (a)"), "{notes}");
    assert!(notes[1].as_str().unwrap().contains("leaves a question to a person"), "{notes}");
    ask(
        &mut table,
        &[("t.1.b.1", choice("q-5", &["red", "blue"])), ("t.1.b.1", Question::new("q-6", "why?"))],
    );
    assert_eq!(table.turns()[3..], ["autopilot.3"], "what it has left open it is not asked again");
    ask(&mut table, &[]);
    assert_eq!(table.turns().len(), 3, "the person was faster");
    assert_eq!(table.view()["autopilot"]["asked"], 3);
}

#[test]
fn an_autopilot_is_off_by_default_silent_about_sealed_stages_and_does_not_ask_itself() {
    let none = json!({ "seats": ["a"] });
    let sealed =
        json!({ "autopilot": "b", "stages": [{ "id": "table", "sealed": true, "seats": ["a", "b"] }] });
    let itself = json!({ "autopilot": "a", "seats": ["a"] });
    for graph in [none, sealed, itself] {
        let mut table = Table::new(graph);
        let before = table.turns().len();
        ask(&mut table, &[("table.1.a.1", Question::new("q-1", "which port?"))]);
        assert_eq!(table.turns().len(), before);
    }
    for (autopilot, why) in [
        (json!("nobody"), "neither the seat of an agent nor a name of the cast"),
        (json!({ "seat": "a", "gates": ["tabel"] }), "is it table?"),
        (json!({ "seat": "a", "gates": ["table"] }), "stage table has no gate"),
        (json!({ "seat": "a", "gate": ["table"] }), "gate: unknown key; did you mean `gates`?"),
    ] {
        let refused = refusal(json!({ "autopilot": autopilot, "seats": ["a"] }));
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn an_autopilot_confirms_the_gates_that_are_named_and_leaves_a_doubt_to_the_person() {
    let gate = json!(["approve", "revise", "decline"]);
    let table = || {
        let mut table = Table::new(json!({
            "autopilot": { "seat": "lead", "gates": ["spec"] },
            "stages": [
                { "id": "spec", "seats": ["lead"], "gate": gate },
                { "id": "build", "after": ["spec"], "seats": ["maker"], "gate": gate },
            ],
        }));
        table.done("a login page");
        assert_eq!((table.turns(), table.asked.len()), (vec!["autopilot.1"], 0));
        assert!(table.open[0].description.contains("a login page"));
        table
    };
    let mut confirmed = table();
    confirmed.done("Approve: it is good");
    assert_eq!(confirmed.turns(), ["build.1.maker.1"]);
    assert_eq!(confirmed.view()["stages"][0]["reason"], "confirmed by the autopilot");
    assert!(!confirmed.session.is_approved(), "no person has");
    confirmed.done("built");
    assert_eq!((confirmed.turns().len(), confirmed.asked.len()), (0, 1), "the other gate is the person's");
    let mut doubtful = table();
    doubtful.done("it has passwords");
    let asked = &doubtful.asked[0].text;
    assert!(
        asked.contains("does not confirm it: it has passwords") && asked.contains("a login page"),
        "{asked}"
    );
    doubtful.decides(Decision::Deny, Some("no passwords"));
    assert_eq!(doubtful.turns(), ["spec.2.lead.1"]);
    let mut skipped = table();
    skipped.directs(json!({ "verb": "skip", "stage": "spec" })).unwrap();
    assert_eq!(skipped.turns(), ["build.1.maker.1"], "its turn is withdrawn with the gate");
}
