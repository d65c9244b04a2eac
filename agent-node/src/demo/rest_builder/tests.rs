use super::*;
use crate::{
    brain::tests::ask,
    demo::{
        reviewer,
        tests::{ended, help, next_turn, reply, said_artifact},
    },
};
use proptest::prelude::*;

/// What the thorough builder makes of the library: compiled and tested with us.
#[rustfmt::skip]
#[path = "golden/library.rs"]
#[expect(unreachable_pub, reason = "it is a file of its own where it is used")]
mod library;

const LIBRARY: &str = "A REST API for a library: books (title, isbn, year:int, tags, website?) and members with name and email; members borrow books";

/// Draft, review, end.
fn built(text: &str, style: Style) -> (String, Vec<Finding>, Vec<Said>) {
    let task = ask(text);
    let drafted = answer(&task, style);
    let draft = said_artifact(&drafted, HANDLER).unwrap();
    let reviewed = reviewer::answer(&help("?", vec![draft.clone()]));
    let found = findings(&reply(REVIEW, "reviewer-01", &reviewed)).unwrap();
    let end = answer(&next_turn(&task, &drafted, vec![reply(REVIEW, "reviewer-01", &reviewed)]), style);
    (draft.as_text(), found, end)
}

fn handler(said: &[Said]) -> String {
    said_artifact(said, HANDLER).unwrap().as_text()
}

#[test]
fn the_library_is_what_we_compile() {
    let (_, _, end) = built(LIBRARY, Style::Thorough);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/demo/rest_builder/golden/library.rs");
    if std::env::var_os("MESH_BLESS").is_some() {
        std::fs::write(path, handler(&end)).unwrap();
    }
    assert_eq!(handler(&end), std::fs::read_to_string(path).unwrap(), "run once with MESH_BLESS=1 to accept");
}

#[test]
fn a_review_finds_something_and_nothing_is_left_after_it() {
    for style in [Style::Thorough, Style::Quick] {
        let (_, found, end) = built(LIBRARY, style);
        assert!(!found.is_empty());
        assert_eq!(reviewer::review(HANDLER, &handler(&end)), Vec::new());
        let summary = ended(&end).unwrap().unwrap();
        assert!(summary.contains("reviewer-01 found") && summary.contains("all mended"), "{summary}");
        assert!(said_artifact(&end, "review.md").unwrap().as_text().contains("| mended |"));
    }
}

#[test]
fn who_won_shows_in_the_code() {
    let (thorough, ..) = built(LIBRARY, Style::Thorough);
    let (quick, ..) = built(LIBRARY, Style::Quick);
    assert!(thorough.contains("mod tests") && thorough.contains("check_email(&mut problems"));
    assert!(!quick.contains("mod tests") && !quick.contains("check_email"));
}

#[test]
fn a_reviewer_is_named_whose_answer_comes_through_the_builders_own_hands() {
    let task = ask(LIBRARY);
    let drafted = answer(&task, Style::Quick);
    let mut question = help("?", vec![said_artifact(&drafted, HANDLER).unwrap()]);
    question.agent = protocol::ids::AgentId::parse("reviewer-07").unwrap();
    let reviewed = reviewer::answer(&question);
    let end = answer(
        &next_turn(&task, &drafted, vec![reply(REVIEW, task.agent.as_str(), &reviewed)]),
        Style::Quick,
    );
    let summary = ended(&end).unwrap().unwrap();
    assert!(summary.contains("reviewer-07 found"), "{summary}");
}

#[test]
fn without_a_review_the_work_is_finished_and_says_so() {
    let task = ask(LIBRARY);
    let drafted = answer(&task, Style::Quick);
    let nobody = Reply {
        id: REVIEW.into(),
        ok: false,
        from: None,
        text: "no answer in time".into(),
        artifacts: Vec::new(),
        task_id: None,
    };
    let end = answer(&next_turn(&task, &drafted, vec![nobody]), Style::Quick);
    let summary = ended(&end).unwrap().unwrap();
    assert!(summary.contains("it was not reviewed: no answer in time"), "{summary}");
    assert_eq!(handler(&end), handler(&drafted));
}

#[test]
fn without_a_resource_there_is_nothing_to_build() {
    let reason = ended(&answer(&ask("Build something nice"), Style::Quick)).unwrap().unwrap_err();
    assert!(reason.contains("no resource"), "{reason}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_built_is_rust(names in proptest::collection::vec(
        prop_oneof!["[a-z]{1,12}", Just("store".into()), Just("type".into()), Just("self".into()), Just("news".into()), Just("new".into()),
            Just("option".into()), Just("match".into()), Just("book".into()), Just("book_input".into()), Just("x".repeat(40))], 1..6),
        fields in proptest::collection::vec(prop_oneof!["[a-z]{1,12}", "[a-z]{2,30}_(id|date|year|price|tags|email|url)\\??", Just("type".into()), Just("self".into())], 0..12),
        quick in any::<bool>()) {
        let resources: Vec<_> = names.iter().map(|name| json!({ "name": name, "fields": fields })).collect();
        let Some(spec) = spec::from_value(&json!({ "resources": resources })) else { return Ok(()) };
        let style = if quick { Style::Quick } else { Style::Thorough };
        let draft = draft::file(&spec, style, "builder-01");
        prop_assert!(syn::parse_file(&draft).is_ok(), "{:?}\n{draft}", syn::parse_file(&draft).err());
        let mended = mend::mend(&draft, &reviewer::review(HANDLER, &draft));
        prop_assert!(syn::parse_file(&mended.text).is_ok(), "{}", mended.text);
        prop_assert_eq!(mended.left, Vec::new());
        prop_assert_eq!(reviewer::review(HANDLER, &mended.text), Vec::new());
    }
}

#[test]
fn an_api_is_told_as_it_is_where_payloads_are_captured() {
    use crate::telemetry::capture::{Capture, Level};
    let capture = Capture::new(Level::Full, []);
    let greenhouse = "A REST API for a greenhouse: plants (name, species) and sensors (kind, reading:float)";
    for (text, style) in
        [(greenhouse, Style::Quick), (greenhouse, Style::Thorough), (LIBRARY, Style::Thorough)]
    {
        let (draft, _, said) = built(text, style);
        let notes = said_artifact(&said, "NOTES.md").map(|notes| notes.as_text()).unwrap_or_default();
        for text in [text.to_owned(), draft, handler(&said), notes] {
            let told = capture.told(&json!(text)).unwrap();
            let whole = text.split_at(text.floor_char_boundary(15_000)).0;
            assert!(told.starts_with(whole), "{told}");
        }
    }
}
