//! Busy bidders: the auction waits for a place, and nobody is blamed.

use super::fixture::*;
use crate::{
    AuctionPhase, Candidate, Pattern, Update,
    contract_net::{Auction, ContractNet, Effect, Label, Timer, record::CandidateResult},
    ownership::TaskOwnership,
};
use protocol::{
    principal::Principal,
    task::{Status, TaskState},
    time::{NodeTime, WallTime},
};
use serde_json::json;

fn busy(from: &str, free_in_ms: u64) -> EventKind {
    let payload = json!({ "taskId": TASK, "reason": "busy", "freeInMs": free_in_ms });
    message_received(from, "no-bid", payload)
}

fn call_due(agents: &[&str]) -> EventKind {
    EventKind::CallDue { candidates: agents.iter().map(|agent| candidate(agent)).collect() }
}

fn phase(fixture: &ManagerFixture) -> Option<AuctionPhase<'_>> {
    fixture.contract_net.view().auction.map(|auction| auction.phase)
}

fn statuses(effects: &[Effect]) -> Vec<Status> {
    let status = |effect: &Effect| match effect {
        Effect::Update(Update::Status(status)) => Some(status.clone()),
        _ => None,
    };
    effects.iter().filter_map(status).collect()
}

/// A manager whose two bidders are busy.
fn waiting() -> ManagerFixture {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1", "b-2"]);
    fixture.deliver(busy("b-1", 900));
    fixture.deliver(busy("b-2", 400));
    fixture
}

#[test]
fn an_auction_whose_bidders_are_busy_waits_however_often_it_calls() {
    let mut fixture = waiting();
    assert_eq!(phase(&fixture), Some(AuctionPhase::Waiting { until: NodeTime(1_400) }), "the smallest");
    let shown = statuses(&fixture.effects).pop().unwrap();
    assert_eq!(shown, Status::new(TaskState::Submitted, "waiting for a bidder"));
    for _ in 0..50 {
        let effects = fixture.advance(400).deliver(call_due(&["b-1", "b-2"]));
        assert_eq!(recipients_of(&effects, "cfp"), ["b-1", "b-2"]);
        assert_eq!(phase(&fixture), Some(AuctionPhase::Calling));
        fixture.deliver(busy("b-1", 400));
        fixture.deliver(busy("b-2", 400));
        assert!(matches!(phase(&fixture), Some(AuctionPhase::Waiting { .. })));
    }
    assert_eq!(fixture.contract_net.record.rounds.len(), 1, "the record does not grow");
    assert_eq!(statuses(&fixture.effects).len(), 2, "it is said once");
    fixture.deliver(call_due(&["b-1"]));
    let (winner, award) = awards(&fixture.deliver(bid_received("b-1", 0.0, "1min", 1.0))).remove(0);
    let accepted = message_received(&winner, "award-accept", json!({ "taskId": TASK, "epoch": award.epoch }));
    fixture.deliver(accepted);
    assert_eq!(phase(&fixture), Some(AuctionPhase::Placed));
    fixture.deliver(task_completed(&winner, award.epoch, "done"));
    assert_eq!((fixture.end_state(), phase(&fixture)), (Some(TaskState::Completed), None));
}

#[test]
fn an_award_that_finds_no_place_is_nobodys_failure() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1"]);
    let (_, award) = awards(&fixture.deliver(bid_received("b-1", 0.0, "1min", 1.0))).remove(0);
    let decline = json!({ "taskId": TASK, "epoch": award.epoch, "reason": "busy", "freeInMs": 700 });
    let effects = fixture.deliver(message_received("b-1", "award-decline", decline));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Release { .. })));
    assert_eq!(fixture.result_of("b-1"), CandidateResult::Declined);
    assert_eq!(phase(&fixture), Some(AuctionPhase::Waiting { until: NodeTime(1_700) }));
    fixture.deliver(call_due(&["b-1"]));
    let (_, award) = awards(&fixture.deliver(bid_received("b-1", 0.0, "1min", 1.0))).remove(0);
    fixture.deliver(task_completed("b-1", award.epoch, "done"));
    assert_eq!(fixture.outcome().unwrap().fulfilments[&agent_id("b-1")], [true]);
}

#[test]
fn what_fails_at_one_does_not_wait_for_ever_for_another_that_is_busy() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1", "b-2"]);
    for round in 1..=3 {
        fixture.deliver(busy("b-2", 400));
        let (_, award) = awards(&fixture.deliver(bid_received("b-1", 0.0, "1min", 1.0))).remove(0);
        let failed = json!({ "taskId": TASK, "seq": 1, "epoch": award.epoch, "state": "TASK_STATE_FAILED", "message": "broke" });
        fixture.deliver(message_received("b-1", "task-response", failed));
        assert_eq!(fixture.end_state().is_some(), round == 3);
        fixture.deliver(call_due(&["b-1", "b-2"]));
    }
    assert_eq!(fixture.end_state(), Some(TaskState::Failed));
}

#[test]
fn an_overloaded_bidder_counts_as_busy() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1"]);
    let (label, to) = (Label::Cfp, agent_id("b-1"));
    let (reason, message) = ("overloaded".to_owned(), "full".to_owned());
    fixture.deliver(EventKind::Undelivered { label, to, reason, message });
    assert!(matches!(phase(&fixture), Some(AuctionPhase::Waiting { .. })));
}

#[test]
fn it_waits_until_its_deadline_or_the_limit_or_its_end() {
    let mut fixture = waiting();
    fixture.deliver(timer_fired(Timer::Queue));
    assert_eq!(fixture.end_state(), Some(TaskState::Failed));
    let mut fixture = waiting();
    fixture.deliver(timer_fired(Timer::Deadline));
    let message = fixture.outcome().unwrap().status.message.clone().unwrap();
    assert_eq!(message, "its deadline passed while it waited for a bidder");
    let mut fixture = waiting();
    fixture.deliver(EventKind::Cancelled { by: Principal::local_user(), reason: "enough".into() });
    assert_eq!((fixture.end_state(), phase(&fixture)), (Some(TaskState::Canceled), None));
}

#[test]
fn with_no_time_to_wait_a_busy_bidder_is_no_bidder() {
    let auction = Auction { max_queue_ms: 0, rounds: 1, ..Auction::default() };
    let mut fixture = ManagerFixture::with_open_round(auction, &["b-1"]);
    fixture.deliver(busy("b-1", 400));
    assert_eq!(fixture.end_state(), Some(TaskState::Failed));
}

/// A manager that has the skill itself, and does `running` of two tasks.
fn capable(running: u32) -> ManagerFixture {
    let ownership = TaskOwnership::new(task_spec(TASK), None);
    let own = Candidate { running, ..candidate("planner-01") };
    let candidates = vec![own, candidate("b-1")];
    let contract_net = ContractNet::new(agent_id("planner-01"), ownership, Auction::default(), candidates);
    let mut fixture = ManagerFixture {
        contract_net: contract_net.with_own_bid(),
        now_ms: 1_000,
        epoch: 100,
        effects: Vec::new(),
    };
    fixture.deliver(EventKind::Started);
    fixture
}

#[test]
fn a_full_manager_asks_others_and_takes_the_task_when_it_has_a_place() {
    let mut fixture = capable(2);
    assert_eq!(recipients_of(&fixture.effects, "cfp"), ["b-1"]);
    fixture.deliver(message_received("b-1", "no-bid", json!({ "taskId": TASK, "reason": "no" })));
    assert!(matches!(phase(&fixture), Some(AuctionPhase::Waiting { .. })), "it is busy itself");
    let effects = fixture.deliver(call_due(&["b-1", "planner-01"]));
    assert!(recipients_of(&effects, "cfp").is_empty());
    let (winner, award) = awards(&effects).remove(0);
    assert_eq!(winner, "planner-01");
    let failed = json!({ "taskId": TASK, "seq": 1, "epoch": award.epoch, "state": "TASK_STATE_FAILED", "message": "broke" });
    fixture.deliver(message_received("planner-01", "task-response", failed));
    let candidates = vec![candidate("b-1"), candidate("planner-01")];
    let effects =
        fixture.deliver(EventKind::PeersFound { label: Label::Search(2), candidates, nearest: None });
    assert_eq!(recipients_of(&effects, "cfp"), ["b-1"], "what it failed goes to others");
}

#[test]
fn an_auction_that_finds_others_waiting_calls_after_them() {
    let ownership = TaskOwnership::new(task_spec(TASK), None);
    let contract_net =
        ContractNet::new(agent_id("planner-01"), ownership, Auction::default(), Vec::new()).queued();
    let mut fixture = ManagerFixture { contract_net, now_ms: 1_000, epoch: 100, effects: Vec::new() };
    fixture.deliver(EventKind::Started);
    assert_eq!(phase(&fixture), Some(AuctionPhase::Waiting { until: NodeTime(1_000) }));
    assert_eq!(statuses(&fixture.effects)[0].message.as_deref(), Some("waiting for a bidder"));
    fixture.deliver(call_due(&["b-1"]));
    assert_eq!(fixture.contract_net.record.rounds[0].round, 1);
}

#[test]
fn after_its_own_failure_it_asks_others_or_ends_with_that_failure() {
    let own = |candidates| {
        let (me, ownership) = (agent_id("planner-01"), TaskOwnership::new(task_spec(TASK), None));
        let contract_net = ContractNet::after_own_failure(
            me,
            ownership,
            (Auction::default(), Default::default()),
            "exit status 1".into(),
            WallTime(0),
        );
        let mut fixture = ManagerFixture { contract_net, now_ms: 1_000, epoch: 100, effects: Vec::new() };
        fixture.deliver(EventKind::Started);
        fixture.deliver(EventKind::PeersFound { label: Label::Search(1), candidates, nearest: None });
        fixture
    };
    let alone = own(vec![candidate("planner-01")]);
    assert_eq!(alone.outcome().unwrap().status, Status::new(TaskState::Failed, "exit status 1"));
    let helped = own(vec![candidate("planner-01"), candidate("b-1")]);
    assert_eq!(recipients_of(&helped.effects, "cfp"), ["b-1"]);
    assert_eq!(helped.contract_net.record.rounds[0].candidates[0].fate, CandidateResult::Failed);
}
