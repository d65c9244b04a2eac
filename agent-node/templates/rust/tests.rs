//! Turns of the brain without a mesh: `cargo test`.

use super::work;
use mesh_agent::{OutputLine, PeerQuestion, Subject, testing::TestTurn};

#[test]
fn a_task_without_a_text_asks_a_person() {
    let lines = TestTurn::new("Count").play(&mut work);
    assert!(matches!(&lines[..], [OutputLine::Question(_), OutputLine::Wait { .. }]), "{lines:?}");
}

#[test]
fn a_text_is_delegated_for_a_check() {
    let lines = TestTurn::new("Count: one two three").play(&mut work);
    let [OutputLine::Status { message }, OutputLine::Delegate(request), OutputLine::Wait { .. }] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert_eq!(message, "counting 13 characters");
    let (to, description) = (request.to.to_string(), request.description.as_str());
    assert_eq!((to.as_str(), description), ("capability:proofread", "one two three"));
}

#[test]
fn a_checked_text_is_counted() {
    let lines = TestTurn::new("Count").answer("text", "one two").answer("check", "no faults").play(&mut work);
    let [.., OutputLine::Artifact(report), OutputLine::Done { message, .. }] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert_eq!(report.text.as_deref(), Some("# 2 words\n\nno faults\n"));
    assert_eq!(message.as_deref(), Some("2 words"));
}

#[test]
fn a_peer_that_asks_gets_an_answer() {
    let question = PeerQuestion { question: "How do you count?".into(), ..PeerQuestion::default() };
    let lines = TestTurn::about(Subject::Help(question)).play(&mut work);
    let answer = "I count words: text.split_whitespace().".to_owned();
    assert_eq!(lines, [OutputLine::Done { message: Some(answer), label: None }]);
}
