//! Failures that neither waiting nor another try changes.

use super::fixture::*;
use crate::contract_net::{Auction, Effect, Label};
use protocol::{message::Payload, task::TaskState};
use serde_json::json;

const REFUSED: &str = "the provider answered 401";

/// `from` fails under `epoch`, for good if it says so.
fn fails(from: &str, epoch: u64, why: &str, lasting: bool) -> EventKind {
    let state = "TASK_STATE_FAILED";
    let mut payload = json!({ "taskId": TASK, "seq": 1, "epoch": epoch, "state": state, "message": why });
    if lasting {
        payload["lasting"] = json!(true);
    }
    message_received(from, "task-response", payload)
}

/// The next round finds `agents`.
fn found(round: u32, agents: &[&str]) -> EventKind {
    let candidates = agents.iter().map(|agent| candidate(agent)).collect();
    EventKind::PeersFound { label: Label::Search(round), candidates, nearest: None }
}

fn message(fixture: &ManagerFixture) -> String {
    fixture.outcome().unwrap().status.message.clone().unwrap()
}

/// `agent` bids, and is awarded the task; the epoch of the award.
fn award_to(fixture: &mut ManagerFixture, agent: &str) -> u64 {
    let (winner, award) = awards(&fixture.deliver(bid_received(agent, 0.0, "1min", 1.0))).remove(0);
    assert_eq!(winner, agent);
    award.epoch
}

#[test]
fn the_only_agent_is_not_asked_again_and_its_reason_is_all_that_is_said() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1"]);
    let epoch = award_to(&mut fixture, "b-1");
    let effects = fixture.deliver(fails("b-1", epoch, REFUSED, true));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::FindPeers { .. })), "at once: {effects:?}");
    let effects = fixture.deliver(found(2, &["b-1"]));
    assert!(recipients_of(&effects, "cfp").is_empty(), "{effects:?}");
    assert_eq!(fixture.end_state(), Some(TaskState::Failed));
    assert_eq!(message(&fixture), format!("b-1 did not manage: {REFUSED}"));
}

#[test]
fn an_ordinary_failure_is_tried_again_by_the_same_agent() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1"]);
    let epoch = award_to(&mut fixture, "b-1");
    fixture.deliver(fails("b-1", epoch, "no idea", false));
    assert_eq!(recipients_of(&fixture.deliver(found(2, &["b-1"])), "cfp"), ["b-1"]);
}

#[test]
fn other_agents_are_still_asked_and_may_do_it() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1"]);
    let epoch = award_to(&mut fixture, "b-1");
    fixture.deliver(fails("b-1", epoch, REFUSED, true));
    assert_eq!(recipients_of(&fixture.deliver(found(2, &["b-1", "b-2"])), "cfp"), ["b-2"]);
    let epoch = award_to(&mut fixture, "b-2");
    fixture.deliver(task_completed("b-2", epoch, "done"));
    assert_eq!(fixture.end_state(), Some(TaskState::Completed));
}

#[test]
fn the_lasting_failure_is_said_before_the_rounds_that_others_have_failed() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1"]);
    let epoch = award_to(&mut fixture, "b-1");
    fixture.deliver(fails("b-1", epoch, REFUSED, true));
    for round in [2, 3] {
        assert_eq!(recipients_of(&fixture.deliver(found(round, &["b-1", "b-2"])), "cfp"), ["b-2"]);
        let epoch = award_to(&mut fixture, "b-2");
        fixture.deliver(fails("b-2", epoch, "no idea", false));
    }
    assert_eq!(fixture.end_state(), Some(TaskState::Failed));
    let expected =
        format!("b-1 did not manage: {REFUSED}; unassigned after 3 rounds: b-2 did not manage: no idea");
    assert_eq!(message(&fixture), expected);
}

#[test]
fn the_last_round_says_it_as_the_first_does() {
    let auction = Auction { rounds: 1, ..Auction::default() };
    let mut fixture = ManagerFixture::with_open_round(auction, &["b-1"]);
    let epoch = award_to(&mut fixture, "b-1");
    fixture.deliver(fails("b-1", epoch, REFUSED, true));
    assert_eq!(message(&fixture), format!("b-1 did not manage: {REFUSED}"));
}

#[test]
fn several_lasting_failures_and_rejections_are_all_named() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1", "b-2", "b-3"]);
    fixture.deliver(bid_received("b-1", 0.0, "1min", 1.0));
    fixture.deliver(bid_received("b-2", 1.0, "2min", 1.0));
    let (winner, award) = awards(&fixture.deliver(bid_received("b-3", 2.0, "3min", 1.0))).remove(0);
    let effects = fixture.deliver(fails(&winner, award.epoch, REFUSED, true));
    let (winner, award) = awards(&effects).remove(0);
    let rejected = json!({ "taskId": TASK, "seq": 1, "epoch": award.epoch, "state": "TASK_STATE_REJECTED", "message": "too big" });
    let effects = fixture.deliver(message_received(&winner, "task-response", rejected));
    let (winner, award) = awards(&effects).remove(0);
    fixture.deliver(fails(&winner, award.epoch, "no such model", true));
    assert_eq!(fixture.end_state(), None, "somebody else may have come");
    fixture.deliver(found(2, &["b-1", "b-2", "b-3"]));
    assert_eq!(fixture.end_state(), Some(TaskState::Failed));
    let said = message(&fixture);
    let expected = format!(
        "b-1 did not manage: {REFUSED}; b-3 did not manage: no such model; unassigned: b-2 rejected it: too big"
    );
    assert_eq!(said, expected);
}

#[test]
fn what_is_completed_or_rejected_is_no_lasting_failure() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1"]);
    let epoch = award_to(&mut fixture, "b-1");
    let empty =
        json!({ "taskId": TASK, "seq": 1, "epoch": epoch, "state": "TASK_STATE_COMPLETED", "lasting": true });
    fixture.deliver(message_received("b-1", "task-response", empty));
    assert_eq!(recipients_of(&fixture.deliver(found(2, &["b-1"])), "cfp"), ["b-1"]);
}

#[test]
fn the_requester_of_the_manager_is_told_that_the_failure_is_lasting() {
    for lasting in [true, false] {
        let mut fixture = ManagerFixture::requested_by("caller", Auction { rounds: 1, ..Auction::default() });
        let epoch = award_to(&mut fixture, "b-1");
        let effects = fixture.deliver(fails("b-1", epoch, REFUSED, lasting));
        let said = effects.iter().find_map(|effect| match effect {
            Effect::Send(message) => match &message.payload {
                Payload::TaskResponse(response) => Some(response.lasting),
                _ => None,
            },
            _ => None,
        });
        assert_eq!(said, Some(lasting), "{effects:?}");
    }
}
