//! Winners and bidders that are away.

use super::{
    fixture::{
        EventKind, ManagerFixture, TASK, agent_id, awards, bid_received, candidate, message_received,
        recipients_of, task_completed, timer_fired,
    },
    scenarios::accept,
};
use crate::{
    AuctionPhase, Candidate, Effect, Label, Pattern, Timer, Update,
    contract_net::{Auction, record::CandidateResult},
};
use protocol::{task::TaskState, time::WallTime};
use serde_json::json;

fn gone(agent: &str, epoch: u64) -> EventKind {
    EventKind::Undelivered {
        label: Label::Award(epoch),
        to: agent_id(agent),
        reason: "recipient_unreachable".into(),
        message: "refused".into(),
    }
}

fn update(agent: &str, epoch: u64, seq: u64, more: serde_json::Value) -> EventKind {
    let mut payload = json!({ "taskId": TASK, "seq": seq, "epoch": epoch });
    payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    message_received(agent, "task-update", payload)
}

fn statuses(effects: &[Effect]) -> Vec<String> {
    let statuses = effects.iter().filter_map(|effect| match effect {
        Effect::Update(Update::Status(status)) => status.message.clone(),
        _ => None,
    });
    statuses.collect()
}

fn working(agents: &[&str]) -> (ManagerFixture, String, u64) {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), agents);
    let bids = agents.iter().zip(0_u8..);
    let effects =
        bids.flat_map(|(agent, cost)| fixture.deliver(bid_received(agent, cost.into(), "1min", 1.0)));
    let (winner, award) = awards(&effects.collect::<Vec<_>>()).remove(0);
    fixture.deliver(accept(&winner, award.epoch));
    (fixture, winner, award.epoch)
}

#[test]
fn a_winner_that_is_gone_goes_on_under_its_award_if_it_is_back_before_another_has_it() {
    let (mut fixture, winner, epoch) = working(&["b-1"]);
    let effects = fixture.deliver(gone(&winner, epoch));
    assert!(recipients_of(&effects, "task-cancel").is_empty(), "it keeps the award for now");
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Release { .. })));
    let peers = vec![candidate("b-1"), candidate("b-3")];
    fixture.deliver(EventKind::PeersFound { label: Label::Search(2), candidates: peers, nearest: None });
    let effects = fixture.deliver(update(&winner, epoch, 1, json!({ "awayMs": 0 })));
    let mut told = recipients_of(&effects, "reject");
    told.sort();
    assert_eq!(told, ["b-1", "b-3"], "who was asked for a bid is told");
    assert_eq!(fixture.result_of("b-1"), CandidateResult::Accepted);
    assert!(fixture.deliver(bid_received("b-3", 0.0, "1s", 1.0)).is_empty(), "the round is over");
    fixture.deliver(task_completed(&winner, epoch, "done"));
    assert_eq!(fixture.end_state(), Some(TaskState::Completed));
    assert_eq!(fixture.outcome().unwrap().fulfilments[&agent_id("b-1")], [true]);
}

#[test]
fn a_winner_that_is_gone_is_told_as_soon_as_another_has_the_task() {
    let (mut fixture, winner, epoch) = working(&["b-1", "b-2"]);
    let effects = fixture.deliver(gone(&winner, epoch));
    assert_eq!(recipients_of(&effects, "task-cancel"), [winner.as_str()]);
    let (next, award) = awards(&effects).remove(0);
    assert!(next == "b-2" && award.epoch > epoch);
    assert!(fixture.deliver(update(&winner, epoch, 1, json!({ "awayMs": 0 }))).is_empty(), "fenced");
}

#[test]
fn a_task_that_ends_while_its_winner_is_gone_is_taken_back_from_it() {
    let (mut fixture, winner, epoch) = working(&["b-1"]);
    fixture.deliver(gone(&winner, epoch));
    let by = protocol::principal::Principal::local_user();
    let effects = fixture.deliver(EventKind::Cancelled { by, reason: "enough".into() });
    assert_eq!(recipients_of(&effects, "task-cancel"), [winner]);
    assert_eq!(fixture.end_state(), Some(TaskState::Canceled));
}

#[test]
fn a_winner_that_says_so_may_be_away_for_that_long() {
    for is_back in [true, false] {
        let (mut fixture, winner, epoch) = working(&["b-1", "b-2"]);
        let effects = fixture.deliver(update(&winner, epoch, 1, json!({ "awayMs": 50_000 })));
        assert!(statuses(&effects)[0].starts_with("waits for b-1, which is away"), "{effects:?}");
        assert!(fixture.contract_net.view().awarded.is_none(), "it is not probed");
        assert!(fixture.deliver(gone(&winner, epoch)).is_empty(), "that is known");
        fixture.deliver(update(&winner, epoch, 2, json!({})));
        let effects = fixture.advance(25_000).deliver(timer_fired(Timer::Lease));
        assert!(awards(&effects).is_empty());
        if is_back {
            let effects = fixture.deliver(update(&winner, epoch, 3, json!({ "awayMs": 0 })));
            assert_eq!(statuses(&effects), ["b-1 is back"]);
            fixture.deliver(task_completed(&winner, epoch, "done"));
            assert_eq!(fixture.end_state(), Some(TaskState::Completed));
        } else {
            let effects = fixture.advance(25_000).deliver(timer_fired(Timer::Lease));
            assert_eq!(awards(&effects)[0].0, "b-2");
            assert_eq!(recipients_of(&effects, "task-cancel"), [winner]);
        }
    }
}

fn absent(agent: &str) -> Candidate {
    Candidate { is_alive: false, away_since: Some(WallTime(0)), ..candidate(agent) }
}

#[test]
fn a_task_waits_for_an_agent_that_is_away_and_calls_when_it_is_there() {
    let mut fixture = ManagerFixture::new(Auction::default(), vec![absent("b-1")]);
    let effects = fixture.deliver(EventKind::Started);
    let said = statuses(&effects).remove(0);
    assert!(said.starts_with("waiting for a bidder: no bids") && said.contains("b-1: it is away"), "{said}");
    let phase = fixture.contract_net.view().auction.unwrap().phase;
    assert!(matches!(phase, AuctionPhase::Absent { passed_over } if passed_over.is_empty()), "{phase:?}");
    fixture.advance(3_600_000);
    let effects = fixture.deliver(EventKind::CallDue { candidates: vec![candidate("b-1")] });
    assert_eq!(recipients_of(&effects, "cfp"), ["b-1"]);
    assert_eq!(fixture.end_state(), None);

    let mut fixture = ManagerFixture::new(Auction::default(), vec![absent("b-1")]);
    fixture.deliver(EventKind::Started);
    let longest = Auction::default().max_queue_ms;
    fixture.advance(longest).deliver(timer_fired(Timer::Queue));
    assert_eq!(fixture.end_state(), Some(TaskState::Failed));

    let at_once = Auction { max_queue_ms: 0, ..Auction::default() };
    let mut fixture = ManagerFixture::new(at_once, vec![absent("b-1")]);
    fixture.deliver(EventKind::Started);
    assert_eq!(fixture.end_state(), Some(TaskState::Failed));
}

#[test]
fn a_bidder_that_can_not_be_reached_is_called_again_after_pauses_that_grow() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1"]);
    let mut pauses = Vec::new();
    for _ in 0..6 {
        let what = EventKind::Undelivered {
            label: Label::Cfp,
            to: agent_id("b-1"),
            reason: "recipient_unreachable".into(),
            message: "refused".into(),
        };
        fixture.deliver(what);
        let phase = fixture.contract_net.view().auction.unwrap().phase;
        let AuctionPhase::Waiting { until } = phase else { panic!("{phase:?}") };
        pauses.push(until.0 - fixture.now_ms);
        fixture.now_ms = until.0;
        fixture.deliver(EventKind::CallDue { candidates: vec![candidate("b-1")] });
    }
    assert_eq!(pauses, [1_000, 2_000, 4_000, 8_000, 8_000, 8_000]);
    assert_eq!(fixture.end_state(), None);
}
