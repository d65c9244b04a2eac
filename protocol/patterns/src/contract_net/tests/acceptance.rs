//! Results that are checked before they count.

use super::{fixture::*, random_events::review_ended};
use crate::{
    ChunkRange, EventKind, OutgoingMessage, Pattern as _,
    contract_net::{Auction, Effect, Label, Timer, record::CandidateResult},
    turn::{ResultToCheck, TurnEnd, TurnSubject},
};
use protocol::{
    acceptance::{AcceptanceTerms, CheckVerdict},
    ids::{Address, Capability},
    message::Payload,
    task::TaskState,
};
use serde_json::json;

fn reviewed() -> AcceptanceTerms {
    AcceptanceTerms { reviewers: vec![Capability::parse("review").unwrap()], ..AcceptanceTerms::default() }
}

fn checked_here() -> AcceptanceTerms {
    AcceptanceTerms { is_checked_here: true, ..AcceptanceTerms::default() }
}

/// Two have bid, the first has the award and has reported its result; the effects, and the epoch of the award.
fn with_result(terms: AcceptanceTerms) -> (ManagerFixture, Vec<Effect>) {
    let candidates = ["b-1", "b-2"].map(candidate).to_vec();
    let mut fixture = ManagerFixture::new(Auction::default(), candidates);
    fixture.contract_net = fixture.contract_net.with_acceptance(terms);
    fixture.deliver(EventKind::Started);
    fixture.deliver(bid_received("b-1", 0.0, "1min", 1.0));
    fixture.deliver(bid_received("b-2", 1.0, "2min", 1.0));
    let effects = fixture.deliver(task_completed("b-1", fixture.epoch, "first try"));
    (fixture, effects)
}

fn check_ended(end: TurnEnd) -> EventKind {
    EventKind::TurnEnded { turn: 0, updates: Vec::new(), end }
}

fn refused(findings: &str) -> EventKind {
    check_ended(TurnEnd::Rejected { reason: findings.into() })
}

fn accepted() -> EventKind {
    check_ended(TurnEnd::Done { message: Some("./check.sh".into()) })
}

fn sent(effects: &[Effect]) -> Vec<&OutgoingMessage> {
    let sent = effects.iter().filter_map(|effect| match effect {
        Effect::Send(message) => Some(message),
        _ => None,
    });
    sent.collect()
}

fn review_of(effects: &[Effect]) -> (String, &OutgoingMessage) {
    let review = sent(effects).into_iter().find_map(|message| match &message.payload {
        Payload::TaskRequest(request) => Some((request.task_id.clone()?.to_string(), message)),
        _ => None,
    });
    review.expect("a review is asked for")
}

#[test]
fn a_result_counts_when_the_check_accepts_it() {
    let (mut fixture, effects) = with_result(checked_here());
    let check = effects.iter().find_map(|effect| match effect {
        Effect::RunTurn { prompt, .. } => Some(prompt),
        _ => None,
    });
    let prompt = check.expect("a check");
    assert_eq!(fixture.contract_net.view().turn.produced, ChunkRange { from: 0, to: 1 });
    let TurnSubject::Check(ResultToCheck { doer, .. }) = &prompt.about else { panic!("{prompt:?}") };
    assert_eq!(doer.as_str(), "b-1");
    assert_eq!(fixture.end_state(), None);
    fixture.deliver(accepted());
    assert_eq!(fixture.end_state(), Some(TaskState::Completed));
    assert_eq!(fixture.outcome().unwrap().fulfilments[&agent_id("b-1")], [true]);
    let [check] = fixture.contract_net.record.checks.as_slice() else { panic!() };
    assert_eq!((check.verdict, check.by.as_str()), (CheckVerdict::Accepted, "node"));
    assert_eq!(check.findings, "./check.sh");
}

#[test]
fn a_refused_result_goes_back_once_with_the_findings_then_to_the_runner_up() {
    let (mut fixture, _) = with_result(checked_here());
    let first = fixture.epoch;
    let effects = fixture.deliver(refused("no test"));
    let again = awards(&effects);
    assert_eq!(again.len(), 1);
    let (winner, award) = &again[0];
    assert_eq!((winner.as_str(), award.epoch > first), ("b-1", true));
    assert_eq!(award.revision.as_ref().unwrap().findings, "no test");
    let message =
        sent(&effects).into_iter().find(|message| matches!(message.payload, Payload::Award(_))).unwrap();
    assert_eq!(message.recorded.as_ref().unwrap().chunks, ChunkRange { from: 0, to: 1 });
    let digest = fixture.contract_net.record.checks[0].sha256;

    fixture.deliver(task_completed("b-1", fixture.epoch, "second try"));
    let effects = fixture.deliver(refused("still no test"));
    let (winner, award) = awards(&effects).remove(0);
    assert_eq!((winner.as_str(), award.revision), ("b-2", None), "the runner-up starts afresh");
    assert_eq!(fixture.result_of("b-1"), CandidateResult::Refused);
    assert_ne!(fixture.contract_net.record.checks[1].sha256, digest, "each result has its own digest");

    fixture.deliver(task_completed("b-2", fixture.epoch, "mine"));
    fixture.deliver(accepted());
    assert_eq!(fixture.end_state(), Some(TaskState::Completed));
    let fulfilments = &fixture.outcome().unwrap().fulfilments;
    assert_eq!((&fulfilments[&agent_id("b-1")], &fulfilments[&agent_id("b-2")]), (&vec![false], &vec![true]));
}

#[test]
fn if_all_results_are_refused_the_task_fails_with_the_findings() {
    let (mut fixture, _) = with_result(checked_here());
    fixture.deliver(refused("no test"));
    fixture.deliver(task_completed("b-1", fixture.epoch, "again"));
    fixture.deliver(refused("no test"));
    for _ in 0..2 {
        fixture.deliver(task_completed("b-2", fixture.epoch, "mine"));
        fixture.deliver(refused("worse"));
    }
    // The next round has nobody left: both were refused twice.
    let candidates = ["b-1", "b-2"].map(candidate).to_vec();
    fixture.deliver(EventKind::PeersFound { label: Label::Search(2), candidates, nearest: None });
    assert_eq!(fixture.end_state(), Some(TaskState::Failed));
    let message = fixture.outcome().unwrap().status.message.clone().unwrap();
    assert!(
        message.contains("refused twice: worse") && message.contains("its result was refused"),
        "{message}"
    );
}

#[test]
fn a_check_that_fails_ends_the_task_visibly_and_is_not_the_doers_fault() {
    let (mut fixture, _) = with_result(checked_here());
    fixture.deliver(EventKind::TurnFailed { turn: 0, reason: "given up".into() });
    assert_eq!(fixture.end_state(), Some(TaskState::Failed));
    let outcome = fixture.outcome().unwrap();
    let message = outcome.status.message.clone().unwrap();
    assert!(message.contains("could not be checked by node: given up"), "{message}");
    assert!(outcome.fulfilments.is_empty());
}

#[test]
fn a_reviewer_is_asked_by_contract_net_and_is_not_the_doer() {
    let (mut fixture, effects) = with_result(reviewed());
    let (task, message) = review_of(&effects);
    assert_eq!(message.to, Address::Capability(Capability::parse("review").unwrap()));
    assert!(message.path.contains(&agent_id("b-1")), "the doer is on the path");
    assert!(message.recorded.is_some(), "the result goes with it");
    // A stranger's word is none.
    let foreign = json!({ "taskId": task, "seq": 1, "state": "TASK_STATE_COMPLETED", "message": "{\"accepted\":true}" });
    fixture.deliver(message_received("b-1", "task-response", foreign));
    assert_eq!(fixture.end_state(), None);
    fixture.deliver(review_ended(&task, CheckVerdict::Accepted));
    assert_eq!(fixture.end_state(), Some(TaskState::Completed));
    assert_eq!(fixture.contract_net.record.checks[0].by, "capability:review");
}

#[test]
fn a_review_without_a_verdict_is_asked_for_again_once() {
    let (mut fixture, effects) = with_result(reviewed());
    let (first, _) = review_of(&effects);
    let words = |task: &str| {
        let payload =
            json!({ "taskId": task, "seq": 1, "state": "TASK_STATE_COMPLETED", "message": "looks good" });
        message_received("planner-01", "task-response", payload)
    };
    let effects = fixture.deliver(words(&first));
    let (second, _) = review_of(&effects);
    assert_ne!(first, second);
    fixture.deliver(words(&second));
    assert_eq!(fixture.end_state(), Some(TaskState::Failed));
}

#[test]
fn a_cancel_or_a_late_review_ends_the_check() {
    let (mut fixture, _) = with_result(checked_here());
    let by = protocol::principal::Principal::local_user();
    let effects = fixture.deliver(EventKind::Cancelled { by, reason: "enough".into() });
    assert!(effects.contains(&Effect::StopTurn), "{effects:?}");
    assert_eq!(fixture.end_state(), Some(TaskState::Canceled));

    let (mut fixture, effects) = with_result(reviewed());
    review_of(&effects);
    let effects = fixture.deliver(timer_fired(Timer::Review));
    assert!(sent(&effects).iter().any(|message| matches!(message.payload, Payload::TaskCancel(_))));
    assert_eq!(fixture.end_state(), Some(TaskState::Failed));
}
