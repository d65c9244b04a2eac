//! One auction after the other, each going one way that auctions go.

use super::fixture::*;
use crate::{
    ChunkRange, Pattern, Update,
    contract_net::{Auction, Effect, Label, Strategy, Timer, record::CandidateResult},
};
use protocol::{
    artifact,
    ids::AgentId,
    message::{BUSY, Payload},
    principal::Principal,
    problem::Reason,
    question::Answer,
    task::TaskState,
    time::WallTime,
};
use serde_json::json;

fn with(strategy: Strategy) -> Auction {
    Auction { strategy, ..Auction::default() }
}

pub(super) fn accept(from: &str, epoch: u64) -> EventKind {
    message_received(from, "award-accept", json!({ "taskId": TASK, "epoch": epoch }))
}

fn chunk(from: &str, epoch: u64, seq: u64, text: &str) -> EventKind {
    let artifact = json!({ "artifactId": "a", "parts": [{ "text": text }] });
    let payload = json!({ "taskId": TASK, "seq": seq, "epoch": epoch, "artifact": artifact, "append": true });
    message_received(from, "task-update", payload)
}

/// Two have bid, the first has the award; its name and epoch.
fn awarded(fixture: &mut ManagerFixture) -> (String, u64) {
    fixture.deliver(bid_received("b-1", 0.0, "1min", 1.0));
    let (winner, award) = awards(&fixture.deliver(bid_received("b-2", 1.0, "2min", 1.0))).remove(0);
    (winner, award.epoch)
}

#[test]
fn the_seeds_example_goes_to_the_better_bid_or_to_the_cheaper_one() {
    for (strategy, winner) in [
        (Strategy::Weighted, "builder-02"),
        (Strategy::Cheapest, "builder-01"),
        (Strategy::Fastest, "builder-02"),
        (Strategy::BestMatch, "builder-02"),
        (Strategy::FirstClaim, "builder-01"),
    ] {
        let mut fixture = ManagerFixture::with_open_round(with(strategy), &["builder-01", "builder-02"]);
        fixture.deliver(bid_received("builder-01", 0.0, "5min", 0.9));
        fixture.deliver(bid_received("builder-02", 0.02, "2min", 0.95));
        assert_eq!(awards(&fixture.effects)[0].0, winner, "{strategy:?}");
        assert_eq!(awards(&fixture.effects).len(), 1);
    }
}

#[test]
fn with_nobody_who_can_it_ends_at_once_and_says_why() {
    let mut lacking = candidate("b-1");
    lacking.support = 0.0;
    let mut fixture = ManagerFixture::new(Auction::default(), vec![lacking]);
    fixture.deliver(EventKind::Started);
    assert_eq!(fixture.end_state(), Some(TaskState::Failed));
    let message = fixture.outcome().unwrap().status.message.clone().unwrap();
    assert!(
        message.contains("no bids") && message.contains(CAPABILITY) && message.contains("b-1"),
        "{message}"
    );
}

#[test]
fn who_is_dead_the_manager_or_on_the_path_is_not_asked() {
    let mut spec = task_spec(TASK);
    spec.path = vec![AgentId::parse("caller").unwrap()];
    let mut dead = candidate("dead");
    dead.is_alive = false;
    let all = vec![dead, candidate("planner-01"), candidate("caller"), candidate("free")];
    let mut fixture = ManagerFixture::with_task(spec, Auction::default(), all);
    fixture.deliver(EventKind::Started);
    assert_eq!(recipients_of(&fixture.effects, "cfp"), ["free"]);
    assert_eq!(fixture.result_of("dead"), CandidateResult::NotEligible);
}

#[test]
fn a_refusal_says_that_the_capable_agent_is_on_the_path() {
    let mut spec = task_spec(TASK);
    spec.path = vec![agent_id("caller")];
    let mut fixture = ManagerFixture::with_task(spec, Auction::default(), vec![candidate("caller")]);
    fixture.deliver(EventKind::Started);
    let message = fixture.outcome().unwrap().status.message.clone().unwrap();
    assert!(message.contains("is on the path") && !message.contains("nobody"), "{message}");
}

#[test]
fn when_all_have_bid_the_award_goes_out_before_the_window_ends() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1", "b-2"]);
    let (winner, epoch) = awarded(&mut fixture);
    assert_eq!((winner.as_str(), epoch), ("b-1", fixture.epoch));
    let (_, award) = awards(&fixture.effects).remove(0);
    assert_eq!(award.task.path, [AgentId::parse("planner-01").unwrap()]);
}

#[test]
fn three_silent_rounds_end_unassigned() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1"]);
    for (round, window) in [(2, 5_000), (3, 10_000)] {
        fixture.advance(window).deliver(timer_fired(Timer::Bids));
        let candidates = vec![candidate("b-1")];
        fixture.deliver(EventKind::PeersFound { label: Label::Search(round), candidates, nearest: None });
    }
    assert_eq!(fixture.end_state(), None);
    fixture.advance(20_000).deliver(timer_fired(Timer::Bids));
    assert_eq!(fixture.end_state(), Some(TaskState::Failed));
    assert!(
        fixture.outcome().unwrap().status.message.as_ref().unwrap().contains("unassigned after 3 rounds")
    );
}

#[test]
fn when_all_decline_to_bid_the_next_round_waits_for_the_window() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1"]);
    let effects =
        fixture.deliver(message_received("b-1", "no-bid", json!({ "taskId": TASK, "reason": "no" })));
    assert!(effects.iter().all(|effect| !matches!(effect, Effect::FindPeers { .. })));
    let effects = fixture.advance(5_000).deliver(timer_fired(Timer::Round));
    assert!(matches!(effects[..], [Effect::FindPeers { .. }]));
}

#[test]
fn foreign_and_late_messages_are_noted_and_change_nothing() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1", "b-2"]);
    assert!(fixture.deliver(bid_received("stranger", 0.0, "1ms", 1.0)).is_empty());
    let user = Principal::local_user();
    let bid = envelope("b-1", "bid", json!({ "taskId": TASK, "cost": 0, "eta": 1 }));
    assert!(
        fixture
            .deliver(EventKind::MessageReceived { by: user, answers: None, envelope: Box::new(bid) })
            .is_empty()
    );
    assert!(
        fixture
            .deliver(message_received("b-1", "bid", json!({ "taskId": "t-2", "cost": 0, "eta": 1 })))
            .is_empty()
    );
    let (winner, epoch) = awarded(&mut fixture);
    assert!(fixture.deliver(bid_received("b-2", 0.0, "1ms", 1.0)).is_empty());
    assert!(fixture.deliver(accept("b-2", epoch)).is_empty());
    assert!(fixture.deliver(accept(&winner, epoch - 1)).is_empty());
    assert!(fixture.deliver(task_completed("b-2", epoch, "mine")).is_empty());
    let record = &fixture.contract_net.record;
    assert_eq!(record.ignored.len(), 7);
    assert!(record.ignored.iter().any(|ignored| ignored.why.contains("fenced")));
    assert_eq!(fixture.end_state(), None);
}

#[test]
fn ignored_messages_stay_bounded() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1"]);
    (0..10_000).for_each(|_| {
        drop(fixture.contract_net.on(&crate::Event {
            at: Default::default(),
            wall: WallTime(0),
            what: bid_received("stranger", 0.0, "1ms", 1.0),
        }))
    });
    assert!(serde_json::to_string(&fixture.contract_net.record).unwrap().len() < 16_384);
}

/// The text of the artifact that a manager has shown.
fn shown(fixture: &ManagerFixture) -> String {
    let chunks = fixture.effects.iter().filter_map(|effect| {
        if let Effect::Update(Update::Artifact { chunk, .. }) = effect { Some(chunk.clone()) } else { None }
    });
    artifact::assemble(chunks)[0].as_text()
}

#[test]
fn losers_are_rejected_when_the_winner_accepts_and_the_result_ends_the_task() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1", "b-2"]);
    let (winner, epoch) = awarded(&mut fixture);
    let effects = fixture.deliver(accept(&winner, epoch));
    assert_eq!(recipients_of(&effects, "reject"), ["b-2"]);
    let claimed = effects.iter().any(|effect| matches!(effect, Effect::Publish { signal } if signal.kind.as_str() == "task.claimed" && signal.subject.as_deref() == Some("b-1")));
    assert!(claimed);
    assert!(fixture.deliver(accept(&winner, epoch)).is_empty(), "a repeated acceptance changes nothing");
    fixture.deliver(task_completed(&winner, epoch, "done"));
    assert_eq!(fixture.end_state(), Some(TaskState::Completed));
    let outcome = fixture.outcome().unwrap();
    assert_eq!((outcome.chunks, shown(&fixture)), (ChunkRange { from: 0, to: 1 }, "done".to_owned()));
    assert_eq!(outcome.fulfilments[&AgentId::parse("b-1").unwrap()], [true]);
    assert!(fixture.deliver(task_completed(&winner, epoch, "again")).is_empty());
}

#[test]
fn a_winner_that_never_accepts_declines_fails_or_falls_silent_gives_way_to_the_runner_up() {
    type Failure = fn(&mut ManagerFixture, &str, u64) -> Vec<Effect>;
    let failures: [(Failure, CandidateResult); 6] = [
        (
            |fixture, _, _| fixture.advance(10_000).deliver(timer_fired(Timer::Accept)),
            CandidateResult::AcceptTimeout,
        ),
        (
            |fixture, winner, epoch| {
                fixture.deliver(message_received(
                    winner,
                    "award-decline",
                    json!({ "taskId": TASK, "epoch": epoch, "reason": "no" }),
                ))
            },
            CandidateResult::Declined,
        ),
        (
            |fixture, winner, epoch| {
                let (label, to) = (Label::Award(epoch), agent_id(winner));
                fixture.deliver(EventKind::Undelivered {
                    label,
                    to,
                    reason: "agent_not_found".into(),
                    message: "gone".into(),
                })
            },
            CandidateResult::Unreachable,
        ),
        (
            |fixture, winner, epoch| {
                fixture.deliver(accept(winner, epoch));
                fixture.advance(30_000).deliver(timer_fired(Timer::Lease))
            },
            CandidateResult::LeaseExpired,
        ),
        (
            |fixture, winner, epoch| {
                fixture.deliver(accept(winner, epoch));
                fixture.deliver(message_received(winner, "task-response", json!({ "taskId": TASK, "seq": 1, "epoch": epoch, "state": "TASK_STATE_FAILED", "message": "broke" })))
            },
            CandidateResult::Failed,
        ),
        (
            |fixture, winner, epoch| {
                fixture.deliver(accept(winner, epoch));
                fixture.deliver(task_completed(winner, epoch, ""))
            },
            CandidateResult::Failed,
        ),
    ];
    for (fails, expected) in failures {
        let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1", "b-2"]);
        let (winner, epoch) = awarded(&mut fixture);
        let effects = fails(&mut fixture, &winner, epoch);
        assert_eq!(fixture.result_of(&winner), expected);
        assert_eq!(recipients_of(&effects, "task-cancel"), [winner.as_str()], "{expected:?}");
        assert!(
            effects
                .iter()
                .any(|effect| matches!(effect, Effect::Release { epoch: freed, .. } if *freed == epoch))
        );
        let (next, award) = awards(&effects).remove(0);
        assert_eq!(next, "b-2", "{expected:?}");
        assert!(award.epoch > epoch);
        assert!(fixture.deliver(task_completed(&winner, epoch, "late")).is_empty(), "fenced");
        fixture.deliver(accept("b-2", award.epoch));
        fixture.deliver(task_completed("b-2", award.epoch, "done"));
        assert_eq!(fixture.end_state(), Some(TaskState::Completed), "{expected:?}");
        assert_eq!(fixture.outcome().unwrap().fulfilments[&AgentId::parse("b-1").unwrap()], [false]);
    }
}

fn rejects(from: &str, epoch: u64, why: &str) -> EventKind {
    let payload =
        json!({ "taskId": TASK, "seq": 1, "epoch": epoch, "state": "TASK_STATE_REJECTED", "message": why });
    message_received(from, "task-response", payload)
}

#[test]
fn what_all_reject_is_rejected_and_every_reason_is_named() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1", "b-2"]);
    let (winner, epoch) = awarded(&mut fixture);
    fixture.deliver(accept(&winner, epoch));
    let effects = fixture.deliver(rejects(&winner, epoch, "not on a Sunday"));
    assert_eq!(fixture.result_of(&winner), CandidateResult::Declined);
    let (next, award) = awards(&effects).remove(0);
    fixture.deliver(accept(&next, award.epoch));
    fixture.deliver(rejects(&next, award.epoch, "too big"));
    assert_eq!(fixture.end_state(), None, "somebody else may have come");
    let candidates = vec![candidate("b-1"), candidate("b-2")];
    fixture.deliver(EventKind::PeersFound { label: Label::Search(2), candidates, nearest: None });
    assert_eq!(fixture.end_state(), Some(TaskState::Rejected));
    let said = fixture.outcome().unwrap().status.message.clone().unwrap();
    for part in ["unassigned", "b-1 rejected it: not on a Sunday", "b-2 rejected it: too big"] {
        assert_eq!(said.matches(part).count(), 1, "{part}: {said}");
    }
}

#[test]
fn what_one_rejects_and_another_fails_has_failed_and_what_another_does_is_done() {
    for fails in [true, false] {
        let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1", "b-2"]);
        let (winner, epoch) = awarded(&mut fixture);
        let (next, award) = awards(&fixture.deliver(rejects(&winner, epoch, "not on a Sunday"))).remove(0);
        if !fails {
            fixture.deliver(task_completed(&next, award.epoch, "done"));
            assert_eq!(fixture.end_state(), Some(TaskState::Completed));
            continue;
        }
        let broke = json!({ "taskId": TASK, "seq": 1, "epoch": award.epoch, "state": "TASK_STATE_FAILED", "message": "broke" });
        fixture.deliver(message_received(&next, "task-response", broke));
        fixture.deliver(EventKind::PeersFound { label: Label::Search(2), candidates: vec![], nearest: None });
        assert_eq!(fixture.end_state(), Some(TaskState::Failed));
        let said = fixture.outcome().unwrap().status.message.clone().unwrap();
        assert!(
            said.contains("rejected it: not on a Sunday") && said.contains("did not manage: broke"),
            "{said}"
        );
    }
}

#[test]
fn an_offer_that_stands_no_longer_is_not_taken() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1", "b-2"]);
    fixture.deliver(message_received(
        "b-2",
        "bid",
        json!({ "taskId": TASK, "cost": 1, "eta": 60_000, "validForMs": 500 }),
    ));
    fixture.deliver(bid_received("b-1", 0.0, "1min", 1.0));
    let effects = fixture.advance(10_000).deliver(timer_fired(Timer::Accept));
    assert!(awards(&effects).is_empty());
    assert!(effects.iter().any(|effect| matches!(effect, Effect::FindPeers { .. })));
    assert_eq!(recipients_of(&effects, "reject"), ["b-2"]);
}

#[test]
fn chunks_are_shown_in_order_however_they_come() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1", "b-2"]);
    let (winner, epoch) = awarded(&mut fixture);
    fixture.deliver(accept(&winner, epoch));
    for seq in (2..=90).rev() {
        fixture.deliver(chunk(&winner, epoch, seq, &format!("{seq},")));
    }
    fixture.deliver(chunk(&winner, epoch, 1, "1,"));
    for seq in 2..=90 {
        fixture.deliver(chunk(&winner, epoch, seq, &format!("{seq},")));
    }
    let expected: String = (1..=90).map(|seq| format!("{seq},")).collect();
    assert_eq!(shown(&fixture), expected);
}

#[test]
fn what_a_winner_produced_before_it_says_busy_is_discarded() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1", "b-2"]);
    let (winner, epoch) = awarded(&mut fixture);
    fixture.deliver(accept(&winner, epoch));
    fixture.deliver(chunk(&winner, epoch, 1, "half"));
    let busy = json!({ "taskId": TASK, "epoch": epoch, "reason": BUSY });
    let effects = fixture.deliver(message_received(&winner, "award-decline", busy));
    assert_eq!(awards(&effects).len(), 1, "the next bid follows");
    assert!(fixture.contract_net.ownership.produced().is_empty());
}

/// A response that counts the pieces of the result instead of holding them.
fn counting(from: &str, epoch: u64, chunks: u64) -> EventKind {
    let payload = json!({ "taskId": TASK, "seq": 9, "epoch": epoch, "state": "TASK_STATE_COMPLETED", "chunks": chunks });
    message_received(from, "task-response", payload)
}

#[test]
fn a_response_that_overtakes_reports_is_kept_until_they_arrive() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1", "b-2"]);
    let (winner, epoch) = awarded(&mut fixture);
    fixture.deliver(accept(&winner, epoch));
    fixture.deliver(chunk(&winner, epoch, 1, "a"));
    fixture.deliver(counting(&winner, epoch, 3));
    fixture.deliver(chunk(&winner, epoch, 3, "c"));
    assert_eq!(fixture.end_state(), None, "the second report is missing");
    fixture.deliver(chunk(&winner, epoch, 2, "b"));
    assert_eq!(fixture.end_state(), Some(TaskState::Completed));
    assert_eq!(shown(&fixture), "abc");
    assert_eq!(fixture.outcome().unwrap().chunks, ChunkRange { from: 0, to: 3 });
}

#[test]
fn a_response_that_overtakes_everything_shows_the_acceptance() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1", "b-2"]);
    let (winner, epoch) = awarded(&mut fixture);
    let effects = fixture.deliver(counting(&winner, epoch, 1));
    assert_eq!((recipients_of(&effects, "reject"), fixture.end_state()), (vec!["b-2".to_owned()], None));
    fixture.deliver(chunk(&winner, epoch, 1, "a"));
    assert_eq!((fixture.end_state(), shown(&fixture)), (Some(TaskState::Completed), "a".to_owned()));
}

#[test]
fn a_whole_response_replaces_a_kept_one() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1", "b-2"]);
    let (winner, epoch) = awarded(&mut fixture);
    fixture.deliver(accept(&winner, epoch));
    fixture.deliver(chunk(&winner, epoch, 1, "lost half, "));
    fixture.deliver(counting(&winner, epoch, 2));
    fixture.deliver(task_completed(&winner, epoch, "everything"));
    assert_eq!((fixture.end_state(), shown(&fixture)), (Some(TaskState::Completed), "everything".to_owned()));
    assert_eq!(fixture.outcome().unwrap().chunks, ChunkRange { from: 1, to: 2 });
}

#[test]
fn a_sign_of_life_keeps_the_award_and_a_repeated_one_does_not() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1", "b-2"]);
    let (winner, epoch) = awarded(&mut fixture);
    fixture.deliver(accept(&winner, epoch));
    fixture.advance(20_000).deliver(chunk(&winner, epoch, 1, "x"));
    fixture.advance(20_000).deliver(timer_fired(Timer::Lease));
    assert_eq!(fixture.result_of(&winner), CandidateResult::Accepted, "a stale timer changes nothing");
    assert!(fixture.deliver(chunk(&winner, epoch, 1, "x")).is_empty());
    fixture.advance(10_000).deliver(timer_fired(Timer::Lease));
    assert_eq!(fixture.result_of(&winner), CandidateResult::LeaseExpired);
}

#[test]
fn a_cancel_ends_it_wherever_it_stands_and_frees_what_is_claimed() {
    let cancel = || EventKind::Cancelled { by: Principal::local_user(), reason: "enough".into() };
    let mut bidding = ManagerFixture::with_open_round(Auction::default(), &["b-1", "b-2"]);
    assert_eq!(recipients_of(&bidding.deliver(cancel()), "reject"), ["b-1", "b-2"]);
    assert_eq!(bidding.end_state(), Some(TaskState::Canceled));

    let mut claiming = ManagerFixture::with_open_round(Auction::default(), &["b-1"]);
    claiming.deliver_only(bid_received("b-1", 0.0, "1min", 1.0));
    assert!(claiming.deliver_only(cancel()).is_empty(), "the claim must come back first");
    let effects = claiming.deliver_only(EventKind::Claimed { holder: agent_id("b-1"), epoch: 5 });
    assert!(matches!(effects[0], Effect::Release { epoch: 5, .. }) && awards(&effects).is_empty());
    assert_eq!(claiming.end_state(), Some(TaskState::Canceled));

    let mut working = ManagerFixture::with_open_round(Auction::default(), &["b-1", "b-2"]);
    let (winner, epoch) = awarded(&mut working);
    working.deliver(accept(&winner, epoch));
    assert_eq!(recipients_of(&working.deliver(cancel()), "task-cancel"), ["b-1"]);
    assert_eq!(working.end_state(), Some(TaskState::Canceled));
    assert!(working.deliver(task_completed(&winner, epoch, "late")).is_empty());
}

#[test]
fn a_deadline_ends_it_and_bids_past_it_do_not_count() {
    let mut spec = task_spec(TASK);
    spec.terms.deadline = Some(WallTime(1_000_000 + 31_000));
    let mut fixture =
        ManagerFixture::with_task(spec, Auction::default(), vec![candidate("b-1"), candidate("b-2")]);
    fixture.deliver(EventKind::Started);
    fixture.deliver(bid_received("b-1", 0.0, "1h", 1.0));
    assert_eq!(fixture.result_of("b-1"), CandidateResult::NoBid);
    assert_eq!(awards(&fixture.deliver(bid_received("b-2", 0.0, "1s", 1.0)))[0].0, "b-2");
    fixture.advance(30_000).deliver(timer_fired(Timer::Deadline));
    assert_eq!(fixture.end_state(), Some(TaskState::Failed));
}

#[test]
fn a_lost_claim_leads_to_another_round_and_never_to_silence() {
    let mut fixture = ManagerFixture::with_open_round(Auction { rounds: 2, ..Auction::default() }, &["b-1"]);
    fixture.deliver_only(bid_received("b-1", 0.0, "1min", 1.0));
    fixture.deliver_only(EventKind::ClaimLost { holder: None });
    fixture.advance(5_000).deliver_only(timer_fired(Timer::Round));
    fixture.deliver_only(EventKind::PeersFound {
        label: Label::Search(2),
        candidates: vec![candidate("b-1")],
        nearest: None,
    });
    fixture.deliver_only(bid_received("b-1", 0.0, "1min", 1.0));
    fixture.deliver_only(EventKind::ClaimLost { holder: None });
    assert_eq!(fixture.end_state(), Some(TaskState::Failed));
}

#[test]
fn a_winner_that_has_accepted_keeps_its_award_until_it_is_gone() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1", "b-2"]);
    let (winner, epoch) = awarded(&mut fixture);
    fixture.deliver(accept(&winner, epoch));
    let undelivered = |reason: Reason| EventKind::Undelivered {
        label: Label::Award(epoch),
        to: agent_id(&winner),
        reason: reason.code().into(),
        message: "no answer".into(),
    };
    let effects = fixture.deliver(undelivered(Reason::Expired));
    assert!(effects.is_empty(), "the award's acknowledgement was lost: {effects:?}");
    let effects = fixture.deliver(undelivered(Reason::RecipientUnreachable));
    assert!(
        !effects.is_empty()
            && fixture.contract_net.view().awarded.is_none_or(|(to, _)| to.as_str() != winner)
    );
}

#[test]
fn reports_under_an_older_award_are_fenced() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1", "b-2"]);
    let (winner, epoch) = awarded(&mut fixture);
    let is_fenced = |fixture: &ManagerFixture, epoch: u64| {
        let EventKind::MessageReceived { envelope, .. } = accept(&winner, epoch) else { unreachable!() };
        let fence = fixture.contract_net.view().fence.unwrap();
        fence.why_fenced(&agent_id(&winner), &envelope.payload).is_some()
    };
    assert!(is_fenced(&fixture, epoch - 1) && !is_fenced(&fixture, epoch) && !is_fenced(&fixture, epoch + 1));
    fixture.advance(10_000).deliver(timer_fired(Timer::Accept));
    assert!(is_fenced(&fixture, epoch));
}

#[test]
fn an_old_claims_news_does_not_name_a_new_award() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1"]);
    fixture.deliver_only(bid_received("b-1", 0.0, "1min", 1.0));
    let first = EventKind::Claimed { holder: agent_id("b-1"), epoch: 5 };
    fixture.deliver_only(first.clone());
    fixture.advance(10_000).deliver_only(timer_fired(Timer::Accept));
    fixture.deliver_only(EventKind::PeersFound {
        label: Label::Search(2),
        candidates: vec![candidate("b-1")],
        nearest: None,
    });
    fixture.deliver_only(bid_received("b-1", 0.0, "1min", 1.0));
    assert!(fixture.deliver_only(first).is_empty());
    assert_eq!(
        awards(&fixture.deliver_only(EventKind::Claimed { holder: agent_id("b-1"), epoch: 9 }))[0].1.epoch,
        9
    );
}

#[test]
fn at_most_k_are_asked_and_a_thousand_candidates_leave_a_small_state() {
    let candidates = (0..1_000).map(|n| candidate(&format!("b-{n}"))).collect();
    let mut fixture = ManagerFixture::new(Auction::default(), candidates);
    fixture.deliver(EventKind::Started);
    assert_eq!(recipients_of(&fixture.effects, "cfp").len(), 16);
    let record = &fixture.contract_net.record;
    assert_eq!(record.rounds[0].candidates.len() + record.rounds[0].not_listed, 1_000);
    assert!(serde_json::to_string(&fixture.contract_net).unwrap().len() < 24_576);
}

#[test]
fn a_tag_is_worth_less_than_a_skill_whatever_the_bidder_says() {
    let mut tagged = candidate("b-1");
    tagged.support = 0.8;
    let mut fixture = ManagerFixture::new(with(Strategy::BestMatch), vec![tagged, candidate("b-2")]);
    fixture.deliver(EventKind::Started);
    fixture.deliver(bid_received("b-1", 0.0, "1min", 1.0));
    assert_eq!(awards(&fixture.deliver(bid_received("b-2", 0.0, "1min", 0.9)))[0].0, "b-2");
}

#[test]
fn the_owners_answer_goes_to_the_winner_under_its_award() {
    let mut fixture = ManagerFixture::with_open_round(Auction::default(), &["b-1", "b-2"]);
    let (winner, epoch) = awarded(&mut fixture);
    fixture.deliver(accept(&winner, epoch));
    let by = Principal::local_user();
    let effects = fixture.deliver(EventKind::Answered {
        by,
        question: None,
        answer: Answer::text("the blue one"),
        message: None,
    });
    let answers: Vec<_> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send(message) => Some((message.to.to_string(), &message.payload)),
            _ => None,
        })
        .collect();
    let [(to, Payload::TaskAnswer(answer))] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((to, answer.epoch, answer.answer.as_str()), (&winner, Some(epoch), Some("the blue one")));
}
