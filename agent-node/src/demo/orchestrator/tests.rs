use super::*;
use crate::{
    brain::tests::ask,
    demo::tests::{ended, next_turn, reply, team},
};

fn asked(text: &str) -> Vec<Said> {
    let mut ask = ask(text);
    ask.peers = team();
    answer(&ask)
}

fn handed_to(text: &str) -> Option<String> {
    match asked(text).last()? {
        Said::Progress(Progress::Delegate { to, .. }) => Some(to.to_string()),
        Said::Progress(_) | Said::End(_) => None,
    }
}

#[test]
fn a_request_goes_to_whom_its_words_fit() {
    for (text, to) in [
        ("Build a REST API for a library: books (title)", "capability:plan"),
        ("Please review this code: fn main() {}", "capability:code-review"),
        ("Implement the endpoints from this plan", "capability:implement-api"),
        ("I would like to have an API designed", "capability:plan"),
        ("cinema: movies (title, year:int), tickets with seat and price", "capability:plan"),
    ] {
        assert_eq!(handed_to(text).as_deref(), Some(to), "{text}");
    }
}

#[test]
fn a_choice_explains_itself() {
    let said = asked("Build a REST API for books");
    let Some(Said::Progress(Progress::Status { message })) = said.first() else { panic!("{said:?}") };
    assert!(
        message.contains("handing it on for plan (\"api\", \"build\" and \"rest\" of planner-01"),
        "{message}"
    );
    assert!(message.contains("rather than implement-api"), "{message}");
}

#[test]
fn stop_words_are_no_match_and_a_refusal_says_what_there_is() {
    for text in ["the for and with a from of its", "tell me a joke", "", "?"] {
        let reason = ended(&asked(text)).unwrap().unwrap_err();
        assert!(reason.contains("The mesh can do: code-review"), "{text}: {reason}");
        assert_eq!(reason.matches("implement-api").count(), 1, "{reason}");
    }
    assert!(ended(&answer(&ask("build an api"))).unwrap().unwrap_err().contains("Nobody else is here"));
}

#[test]
fn the_result_is_passed_on() {
    let request = ask("Build a REST API for books");
    let work = [super::artifact(Artifact::text("a.rs", "text/x-rust", "fn f() {}")), done("built")];
    let good = answer(&next_turn(&request, &[], vec![reply("handed-on:plan", "planner-01", &work)]));
    assert_eq!(ended(&good).unwrap().unwrap(), "Handed on for plan. built");
    assert_eq!(good.len(), 2);
    let bad =
        answer(&next_turn(&request, &[], vec![reply("handed-on:plan", "planner-01", &[failed("no time")])]));
    assert!(ended(&bad).unwrap().unwrap_err().contains("came to nothing: no time"));
}
