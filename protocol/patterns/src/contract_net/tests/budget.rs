//! A doer may use what is left of the task's budget; a silent one is charged all of it.

use super::fixture::*;
use crate::contract_net::{Auction, Label, Timer};
use protocol::{
    budget::Budget,
    task::{TaskSpec, TaskState},
};
use serde_json::{Value, json};

const BUILDERS: [&str; 2] = ["builder-01", "builder-02"];

fn tokens(tokens: u64) -> Budget {
    Budget { tokens: Some(tokens), cost: None }
}

/// A manager that has awarded a task with this budget; the winner of the award, and its epoch.
fn awarded(budget: Budget) -> (ManagerFixture, String, u64) {
    let spec = TaskSpec { budget, ..task_spec(TASK) };
    let mut fixture = ManagerFixture::with_task(spec, Auction::default(), BUILDERS.map(candidate).to_vec());
    fixture.deliver(EventKind::Started);
    let mut effects = Vec::new();
    for builder in BUILDERS {
        effects.extend(fixture.deliver(bid_received(builder, 0.1, "1m", 1.0)));
    }
    let (winner, award) = awards(&effects).remove(0);
    assert_eq!(award.task.budget, budget);
    (fixture, winner, award.epoch)
}

fn fails(winner: &str, epoch: u64, used: u64) -> EventKind {
    let usage = json!({ "inputTokens": used, "outputTokens": 0, "cost": 0.0 });
    let payload = json!({ "taskId": TASK, "seq": 1, "epoch": epoch, "state": "TASK_STATE_FAILED", "message": "no", "usage": usage });
    message_received(winner, "task-response", payload)
}

fn accepts(winner: &str, epoch: u64) -> EventKind {
    message_received(winner, "award-accept", json!({ "taskId": TASK, "epoch": epoch }))
}

fn lease_ends(fixture: &mut ManagerFixture) -> Vec<super::super::Effect> {
    let lease = Auction::default().lease_ms;
    fixture.advance(lease + 1).deliver(timer_fired(Timer::Lease))
}

#[test]
fn the_next_award_has_what_the_last_one_has_left() {
    let (mut fixture, winner, epoch) = awarded(tokens(1_000));
    fixture.deliver(accepts(&winner, epoch));
    let effects = fixture.deliver(fails(&winner, epoch, 300));
    assert_eq!(awards(&effects)[0].1.task.budget, tokens(700));
    let (next, award) = awards(&effects).remove(0);
    let effects = fixture.deliver(fails(&next, award.epoch, 700));
    assert!(awards(&effects).is_empty());
    let outcome = fixture.outcome().unwrap();
    assert_eq!((outcome.status.state, outcome.usage.tokens()), (TaskState::Failed, 1_000));
    let why = outcome.status.message.clone().unwrap();
    assert!(why.contains("budget.tokens: 1000 used up: 1000 used"), "{why}");
}

#[test]
fn a_winner_that_falls_silent_is_charged_whole_and_nobody_else_gets_the_task() {
    let (mut fixture, winner, epoch) = awarded(tokens(1_000));
    fixture.deliver(accepts(&winner, epoch));
    let effects = lease_ends(&mut fixture);
    assert!(awards(&effects).is_empty());
    let outcome = fixture.outcome().unwrap();
    assert_eq!(outcome.usage.unreported_tokens, 1_000);
    let why = outcome.status.message.clone().unwrap();
    assert!(why.contains("1000 of it charged for agents that fell silent"), "{why}");
    // Without a budget the runner-up is next, as ever.
    let (mut fixture, winner, epoch) = awarded(Budget::default());
    fixture.deliver(accepts(&winner, epoch));
    assert_eq!(awards(&lease_ends(&mut fixture)).len(), 1);
}

#[test]
fn a_winner_without_a_price_ends_a_task_with_a_budget_of_cost() {
    let budget = Budget { tokens: None, cost: protocol::bid::Cost::new(0.5) };
    let (mut fixture, winner, epoch) = awarded(budget);
    fixture.deliver(accepts(&winner, epoch));
    let usage = json!({ "inputTokens": 7, "outputTokens": 0, "cost": 0.0, "unpricedTokens": 7 });
    let payload = json!({ "taskId": TASK, "seq": 1, "epoch": epoch, "state": "TASK_STATE_COMPLETED", "message": "done", "usage": usage });
    let effects = fixture.deliver(message_received(&winner, "task-response", payload));
    assert!(awards(&effects).is_empty(), "the runner-up's cost would be known, but the sum would not");
    let outcome = fixture.outcome().unwrap();
    assert_eq!((outcome.status.state, outcome.usage.unpriced_tokens), (TaskState::Failed, 7));
    let why = outcome.status.message.clone().unwrap();
    let named = format!("the cost of the work of {winner} is unknown (7 tokens without a price)");
    assert!(why.contains("budget.cost: 0.5 can't be kept") && why.contains(&named), "{why}");
}

#[test]
fn an_award_that_was_refused_costs_nothing_and_one_without_an_answer_all() {
    for (reason, is_charged) in [("agent_departed", false), ("recipient_unreachable", true)] {
        let (mut fixture, winner, epoch) = awarded(tokens(1_000));
        let (label, to) = (Label::Award(epoch), agent_id(&winner));
        let undelivered = EventKind::Undelivered { label, to, reason: reason.into(), message: "no".into() };
        let effects = fixture.deliver(undelivered);
        assert_eq!(
            (awards(&effects).is_empty(), fixture.outcome().is_some()),
            (is_charged, is_charged),
            "{reason}"
        );
    }
    let (mut fixture, winner, epoch) = awarded(tokens(1_000));
    let decline = json!({ "taskId": TASK, "epoch": epoch, "reason": "busy" });
    let effects = fixture.deliver(message_received(&winner, "award-decline", decline));
    assert_eq!(awards(&effects)[0].1.task.budget, tokens(1_000));
    let accept = Auction::default().accept_ms;
    let effects = fixture.advance(accept + 1).deliver(timer_fired(Timer::Accept));
    assert!(awards(&effects).is_empty(), "nobody knows whether it works on it");
    assert_eq!(fixture.outcome().unwrap().usage.tokens(), 1_000);
}

#[test]
fn a_cancelled_award_is_charged_whole() {
    let (mut fixture, winner, epoch) = awarded(tokens(1_000));
    fixture.deliver(accepts(&winner, epoch));
    let by = protocol::principal::Principal::local_user();
    fixture.deliver(EventKind::Cancelled { by, reason: "enough".into() });
    assert_eq!(fixture.outcome().unwrap().usage.tokens(), 1_000);
}

#[test]
fn a_winner_that_hands_back_is_charged_what_it_says_and_the_next_bidder_gets_the_rest() {
    for usage in [json!({ "inputTokens": 300, "outputTokens": 0, "cost": 0.0 }), Value::Null] {
        let (mut fixture, winner, epoch) = awarded(tokens(1_000));
        fixture.deliver(accepts(&winner, epoch));
        let mut decline = json!({ "taskId": TASK, "epoch": epoch, "reason": "leaving" });
        if !usage.is_null() {
            decline["usage"] = usage.clone();
        }
        let effects = fixture.deliver(message_received(&winner, "award-decline", decline));
        let next: Vec<_> = awards(&effects).into_iter().map(|(_, award)| award.task.budget).collect();
        let expected = if usage.is_null() { Vec::new() } else { vec![tokens(700)] };
        assert_eq!(next, expected, "one that says nothing is charged whole: {effects:?}");
    }
}
