//! The agent's own results, checked before they count.

use super::*;
use crate::turn::{Delegate, TurnSubject};
use protocol::acceptance::{AcceptanceTerms, CheckVerdict, ResultRevision};

fn terms() -> AcceptanceTerms {
    AcceptanceTerms { is_checked_here: true, ..AcceptanceTerms::default() }
}

fn artifact(text: &str) -> Progress {
    Progress::Artifact {
        artifact: Artifact::text("a.rs", "text/plain", text),
        append: false,
        last_chunk: true,
    }
}

/// A doer whose first result is checked, and the effects of that.
fn checked(doer: Doing) -> (Doing, Vec<Effect>) {
    let mut doer = doer.with_acceptance(terms());
    doer.on(&event(0, EventKind::Started));
    let effects = doer.on(&event(1, thought(1, vec![artifact("fn f() {}")], done("built"))));
    (doer, effects)
}

fn check_ended(end: TurnEnd) -> What {
    EventKind::TurnEnded { turn: 0, updates: Vec::new(), end }
}

fn refused(findings: &str) -> What {
    check_ended(TurnEnd::Rejected { reason: findings.into() })
}

fn turn_of(effects: &[Effect]) -> Option<(&turn::Prompt, ChunkRange)> {
    effects.iter().find_map(|effect| {
        let Effect::RunTurn { prompt, input, .. } = effect else { return None };
        Some((prompt.as_ref(), input.refused))
    })
}

#[test]
fn a_result_that_is_accepted_ends_the_task_with_the_doers_summary() {
    let (mut doer, effects) = checked(doer(None));
    let (prompt, _) = turn_of(&effects).expect("a check");
    assert!(matches!(prompt.about, TurnSubject::Check { .. }), "{prompt:?}");
    assert_eq!(doer.view().turn.produced, ChunkRange { from: 0, to: 1 });
    assert_eq!(doer.view().work, Some(WorkPhase::Active), "the check takes the place");
    assert!(finishes(&effects).is_empty());
    let effects = doer.on(&event(2, check_ended(TurnEnd::Done { message: None })));
    assert_eq!(finishes(&effects), [TaskState::Completed]);
    let Some(Effect::Finish(outcome)) = effects.last() else { panic!("{effects:?}") };
    assert_eq!(outcome.status.message.as_deref(), Some("built"));
}

#[test]
fn what_is_said_during_the_check_has_a_turn_before_the_task_ends() {
    let (mut doer, _) = checked(doer(None));
    doer.on(&event(2, said("in blue")));
    let effects = doer.on(&event(3, check_ended(TurnEnd::Done { message: None })));
    let (prompt, _) = turn_of(&effects).expect("another turn");
    let keeps = !doer.view().turn.produced.is_empty();
    assert_eq!((prompt.turn, keeps, finishes(&effects).len()), (2, true, 0));
    let effects = doer.on(&event(4, thought(2, vec![artifact("fn blue() {}")], done("in blue"))));
    assert!(matches!(turn_of(&effects).unwrap().0.about, TurnSubject::Check { .. }), "{effects:?}");
    assert_eq!(finishes(&doer.on(&event(5, check_ended(TurnEnd::Done { message: None })))).len(), 1);
}

#[test]
fn a_refused_result_is_made_again_once_and_then_the_task_fails_with_the_findings() {
    let (mut doer, _) = checked(doer(None));
    let effects = doer.on(&event(2, refused("no test")));
    let (prompt, refused_chunks) = turn_of(&effects).expect("another turn");
    assert_eq!((prompt.turn, doer.view().turn.produced.is_empty()), (2, true), "it begins afresh");
    assert_eq!(prompt.revision.as_ref().map(|revision| revision.findings.as_str()), Some("no test"));
    assert_eq!(refused_chunks, ChunkRange { from: 0, to: 1 });
    doer.on(&event(3, thought(2, vec![artifact("fn f() { }")], done("built"))));
    let effects = doer.on(&event(4, refused("still none")));
    assert_eq!(finishes(&effects), [TaskState::Failed]);
    let Some(Effect::Finish(outcome)) = effects.last() else { panic!("{effects:?}") };
    assert!(outcome.status.message.as_ref().unwrap().contains("refused twice: still none"));
    let verdicts = |effects: &[Effect]| {
        let checks = effects.iter().filter_map(|effect| {
            let Effect::Update(Update::Checked(check)) = effect else { return None };
            Some(check.verdict)
        });
        checks.collect::<Vec<_>>()
    };
    assert_eq!(verdicts(&effects), [CheckVerdict::Refused]);
}

#[test]
fn an_awarded_task_that_was_refused_tells_its_brain_in_every_turn() {
    let revision = Some(Box::new(ResultRevision { findings: "too slow".into(), artifacts: Vec::new() }));
    let mut doer = doer(Some(7)).revising(revision.clone());
    let effects = doer.on(&event(0, EventKind::Started));
    assert_eq!(turn_of(&effects).unwrap().0.revision, revision);
}

#[test]
fn what_was_asked_and_not_answered_is_withdrawn_before_the_check() {
    let mut doer = doer(None).with_acceptance(terms());
    doer.on(&event(0, EventKind::Started));
    let Progress::Delegate(Delegate { id, to, capability, description, input, artifacts, .. }) =
        delegate("d")
    else {
        panic!()
    };
    let ask = Progress::Delegate(Delegate {
        id,
        to,
        capability,
        description,
        input,
        artifacts,
        budget: Default::default(),
        hand_on: false,
        wait: false,
    });
    doer.on(&event(1, EventKind::TurnProgress { turn: 1, updates: vec![ask] }));
    let effects = doer.on(&event(2, thought(1, vec![artifact("x")], done("built"))));
    let kinds: Vec<_> = sent_messages(&effects).iter().map(|message| message.payload.kind()).collect();
    assert!(kinds.contains(&MessageKind::TaskCancel), "{kinds:?}");
}

#[test]
fn a_cancel_or_the_deadline_stops_the_check() {
    for what in [
        EventKind::Cancelled { by: Principal::local_user(), reason: "enough".into() },
        EventKind::TimerFired { timer: Timer::Deadline },
    ] {
        let (mut doer, _) = checked(doer(None));
        let effects = doer.on(&event(2, what));
        let stops = effects.iter().filter(|effect| matches!(effect, Effect::StopTurn)).count();
        assert_eq!((stops, finishes(&effects).len()), (1, 1), "{effects:?}");
        assert!(doer.on(&event(3, check_ended(TurnEnd::Done { message: None }))).is_empty());
    }
}
