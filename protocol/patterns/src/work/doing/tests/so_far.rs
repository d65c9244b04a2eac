//! Work goes on behind its records under a later award.

use super::*;
use crate::turn::Checkpoint;

fn checkpoint(step: u64) -> Progress {
    Progress::Checkpoint(Checkpoint { data: json!({ "step": step }), replace: false, summary: None })
}

fn piece(text: &str) -> Progress {
    let artifact = Artifact::text("a.txt", "text/plain", text);
    Progress::Artifact { artifact, append: true, last_chunk: false }
}

fn progress(turn: u32, updates: Vec<Progress>) -> What {
    EventKind::TurnProgress { turn, updates }
}

fn so_far(effects: &[Effect]) -> Option<Box<WorkSoFar>> {
    effects.iter().find_map(|effect| match effect {
        Effect::Finish(outcome) => outcome.so_far.clone(),
        _ => None,
    })
}

fn fenced() -> What {
    let (reason, message) = (Reason::Fenced.code().into(), "a later award is in force".into());
    EventKind::Undelivered { label: Label::CheckIn, to: id("manager"), reason, message }
}

fn turn_of(effects: &[Effect]) -> Option<u32> {
    effects.iter().find_map(|effect| match effect {
        Effect::RunTurn { turn, .. } => Some(*turn),
        _ => None,
    })
}

/// Round trips through JSON, as the row of the task holds it.
fn awarded_again(so_far: Option<Box<WorkSoFar>>) -> Doing {
    let json = serde_json::to_string(&so_far).unwrap();
    doer(Some(9)).behind(serde_json::from_str(&json).unwrap())
}

#[test]
fn superseded_work_goes_on_with_its_turn_behind_its_checkpoints() {
    let mut first = doer(Some(7));
    first.on(&event(1, EventKind::Started));
    first.on(&event(2, progress(1, vec![checkpoint(1), piece("one"), checkpoint(2)])));
    let restarted = first.on(&event(3, EventKind::Restarted));
    let sent = sent_messages(&restarted);
    assert!(
        matches!(&sent[0].payload, Payload::TaskUpdate(update) if update.away_ms == Some(0)),
        "it says that it is back: {restarted:?}"
    );
    let kept = so_far(&first.on(&event(4, fenced())));
    let mut again = awarded_again(kept);
    let effects = again.on(&event(5, EventKind::Started));
    assert_eq!(turn_of(&effects), Some(1), "the turn that had not ended");
    let given = again.view().turn;
    assert_eq!(given.checkpoints, ChunkRange { from: 0, to: 2 });
    assert_eq!(given.produced, ChunkRange { from: 0, to: 1 });
    let effects = again.on(&event(6, thought(1, vec![piece("two")], done("built"))));
    let response = sent_messages(&effects).into_iter().find(|sent| sent.label == Label::Response).unwrap();
    assert_eq!(response.recorded.as_ref().unwrap().chunks, ChunkRange { from: 0, to: 2 }, "all of it");
}

#[test]
fn what_was_asked_of_agents_is_told_as_withdrawn_and_a_question_to_a_person_stays_open() {
    let question = Question::new("q", "which?");
    for (ask, waits) in [(help("h"), false), (Progress::Question(question), true)] {
        let mut first = doer(Some(7));
        first.on(&event(1, EventKind::Started));
        first.on(&event(2, thought(1, vec![checkpoint(1), ask], TurnEnd::Waiting)));
        let kept = so_far(&first.on(&event(4, fenced())));
        let mut again = awarded_again(kept);
        let effects = again.on(&event(5, EventKind::Started));
        match waits {
            true => assert_eq!((turn_of(&effects), again.view().work), (None, Some(WorkPhase::AwaitsPerson))),
            false => {
                assert_eq!(turn_of(&effects), Some(2));
                let told = answers(&effects);
                assert!(!told[0].ok && told[0].text.contains("withdrawn"), "{told:?}");
            }
        }
    }
}

#[test]
fn a_result_that_the_manager_has_not_taken_is_not_made_again() {
    let mut first = doer(Some(7));
    first.on(&event(1, EventKind::Started));
    first.on(&event(2, thought(1, vec![piece("one")], done("built"))));
    let (reason, message) = (Reason::Fenced.code().into(), "late".into());
    let late = EventKind::Undelivered { label: Label::Response, to: id("manager"), reason, message };
    let kept = so_far(&first.on(&event(3, late)));
    let mut again = awarded_again(kept);
    let effects = again.on(&event(4, EventKind::Started));
    assert_eq!(turn_of(&effects), None);
    let response = sent_messages(&effects).into_iter().find(|sent| sent.label == Label::Response).unwrap();
    let Payload::TaskResponse(said) = &response.payload else { panic!() };
    assert_eq!((said.state, said.message.as_deref()), (TaskState::Completed, Some("built")));
}

#[test]
fn a_result_that_was_taken_and_work_without_records_leave_nothing() {
    let mut taken = doer(Some(7));
    taken.on(&event(1, EventKind::Started));
    taken.on(&event(2, thought(1, vec![piece("one")], done("built"))));
    taken.on(&event(3, EventKind::Delivered { label: Label::Chunks, by: id("manager") }));
    let effects = taken.on(&event(3, EventKind::Delivered { label: Label::Response, by: id("manager") }));
    assert_eq!(finishes(&effects), [TaskState::Completed]);
    assert_eq!(so_far(&effects), None);
    let mut fresh = doer(Some(7));
    fresh.on(&event(1, EventKind::Started));
    assert_eq!(so_far(&fresh.on(&event(4, fenced()))), None);
}

#[test]
fn a_node_that_leaves_keeps_work_with_records_and_says_for_how_long_it_is_away() {
    let mut awarded = doer(Some(7));
    awarded.on(&event(1, EventKind::Started));
    awarded.on(&event(2, progress(1, vec![checkpoint(1)])));
    let leaving = EventKind::Draining { reason: Some("leaving".into()), away_ms: Some(120_000) };
    let effects = awarded.on(&event(3, leaving));
    let sent = sent_messages(&effects);
    assert!(
        matches!(&sent[..], [OutgoingMessage { payload: Payload::TaskUpdate(update), .. }] if update.away_ms == Some(120_000)),
        "{effects:?}"
    );
    assert_eq!(awarded.view().work, Some(WorkPhase::Active));
}
