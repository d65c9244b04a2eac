use super::*;
use crate::{
    brain::tests::ask,
    demo::tests::{ended, next_turn, reply, said_artifact, team, with_input},
};

fn delegates(said: &[Said]) -> Vec<(String, String, Spec)> {
    let each = said.iter().filter_map(|said| match said {
        Said::Progress(Progress::Delegate { id, to, input, .. }) => {
            let part = input.as_ref().and_then(spec::from_value).unwrap_or_default();
            Some((id.clone(), to.to_string(), part))
        }
        Said::Progress(_) | Said::End(_) => None,
    });
    each.collect()
}

#[test]
fn a_plan_is_written_and_given_away() {
    let said = answer(&ask("books (title, year:int) and members (name)"));
    assert!(said_artifact(&said, "plan.md").unwrap().as_text().contains("| year | integer | yes |"));
    let [(id, to, part)] = &delegates(&said)[..] else { panic!("{said:?}") };
    assert_eq!((id.as_str(), to.as_str(), part.resources.len()), ("build-1", "capability:implement-api", 2));
    assert_eq!(ended(&said), None);
}

#[test]
fn a_large_plan_is_cut_into_four_and_put_together_again() {
    let text: String = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
        .map(|letter| format!("item{letter}s (title)\n"))
        .concat();
    let request = ask(&text);
    let said = answer(&request);
    let parts = delegates(&said);
    assert!(parts.len() <= PARTS && parts.len() > 1);
    assert_eq!(parts.iter().map(|(_, _, part)| part.resources.len()).sum::<usize>(), 9);

    let built = [artifact(Artifact::text("handler.rs", "text/x-rust", "fn f() {}")), done("built")];
    let replies = |bad: usize| {
        let all = parts.iter().enumerate();
        all.map(
            |(at, (id, ..))| {
                if at < bad { reply(id, "p", &[failed("no time")]) } else { reply(id, "p", &built) }
            },
        )
        .collect::<Vec<_>>()
    };
    let end = answer(&next_turn(&request, &said, replies(0)));
    assert!(ended(&end).unwrap().is_ok());
    assert!(said_artifact(&end, "handler-3.rs").is_some());

    let partial = answer(&next_turn(&request, &said, replies(1)));
    let reason = ended(&partial).unwrap().unwrap_err();
    assert!(reason.contains("not built: part 1: no time"), "{reason}");
    assert!(said_artifact(&partial, "handler-3.rs").is_some());

    let nothing = ended(&answer(&next_turn(&request, &said, replies(9)))).unwrap().unwrap_err();
    assert!(nothing.contains("nobody built it"), "{nothing}");
}

#[test]
fn input_comes_before_words() {
    let said =
        answer(&with_input("please plan this", serde_json::json!({ "resources": { "cars": ["colour"] } })));
    assert_eq!(delegates(&said)[0].2.resources[0].name, "car");
}

#[test]
fn what_is_no_api_is_refused_helpfully_or_goes_to_who_can() {
    let mut lost = ask("How is the weather?");
    lost.peers = team();
    assert!(ended(&answer(&lost)).unwrap().unwrap_err().contains("for example"));

    let mut review = ask("Please review this code: fn main() { books.unwrap() }");
    review.peers = team();
    let said = answer(&review);
    assert!(
        matches!(said.last(), Some(Said::Progress(Progress::Delegate { to, .. })) if to.to_string() == "capability:code-review"),
        "{said:?}"
    );
}
