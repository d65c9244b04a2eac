//! One auction after the other, each going one way that auctions go.

use super::bench::*;
use crate::{
    ids::{AgentId, Capability},
    message::Payload,
    patterns::{
        Pattern,
        contract_net::{
            Auction, ContractNetEffect, ContractNetLabel, ContractNetTimer, Strategy, record::CandidateResult,
        },
    },
    principal::Principal,
    task::TaskState,
    time::WallTime,
};
use serde_json::json;

fn with(strategy: Strategy) -> Auction {
    Auction { strategy, ..Auction::default() }
}

fn accept(from: &str, epoch: u64) -> EventKind {
    received(from, "award-accept", json!({ "taskId": TASK, "epoch": epoch }))
}

fn chunk(from: &str, epoch: u64, seq: u64, text: &str) -> EventKind {
    let artifact = json!({ "artifactId": "a", "parts": [{ "text": text }] });
    let payload = json!({ "taskId": TASK, "seq": seq, "epoch": epoch, "artifact": artifact, "append": true });
    received(from, "task-update", payload)
}

/// Two have bid, the first has the award; its name and epoch.
fn awarded(bench: &mut Bench) -> (String, u64) {
    bench.on(offer("b-1", 0.0, "1min", 1.0));
    let (winner, award) = awards(&bench.on(offer("b-2", 1.0, "2min", 1.0))).remove(0);
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
        let mut bench = Bench::called(with(strategy), &["builder-01", "builder-02"]);
        bench.on(offer("builder-01", 0.0, "5min", 0.9));
        bench.on(offer("builder-02", 0.02, "2min", 0.95));
        assert_eq!(awards(&bench.effects)[0].0, winner, "{strategy:?}");
        assert_eq!(awards(&bench.effects).len(), 1);
    }
}

#[test]
fn with_nobody_who_can_it_ends_at_once_and_says_why() {
    let mut lacking = peer("b-1");
    lacking.card.skills.clear();
    let mut bench = Bench::new(Auction::default(), vec![lacking]);
    bench.on(EventKind::Started);
    assert_eq!(bench.ended(), Some(TaskState::Failed));
    let message = bench.outcome().unwrap().status.message.clone().unwrap();
    assert!(message.contains("no bids") && message.contains(WORK) && message.contains("b-1"), "{message}");
}

#[test]
fn who_is_busy_dead_the_manager_or_on_the_path_is_not_asked() {
    let mut spec = spec(TASK);
    spec.path = vec![AgentId::parse("caller").unwrap()];
    let (mut busy, mut dead) = (peer("busy"), peer("dead"));
    busy.running = 2;
    dead.is_alive = false;
    let all = vec![busy, dead, peer("planner-01"), peer("caller"), peer("free")];
    let mut bench = Bench::of(spec, Auction::default(), all);
    bench.on(EventKind::Started);
    assert_eq!(recipients_of(&bench.effects, "cfp"), ["free"]);
    assert_eq!(bench.fate("busy"), CandidateResult::NotEligible);
}

#[test]
fn whoever_is_merely_busy_is_asked_in_a_later_round() {
    let mut busy = peer("b-1");
    busy.running = 2;
    let mut bench = Bench::new(Auction::default(), vec![busy]);
    bench.on(EventKind::Started);
    assert_eq!(bench.ended(), None);
    bench.later(5_000).on(woke(ContractNetTimer::Round));
    bench.on(EventKind::PeersFound { label: ContractNetLabel::Search(2), candidates: vec![peer("b-1")] });
    assert_eq!(recipients_of(&bench.effects, "cfp"), ["b-1"]);
}

#[test]
fn when_all_have_bid_the_award_goes_out_before_the_window_ends() {
    let mut bench = Bench::called(Auction::default(), &["b-1", "b-2"]);
    let (winner, epoch) = awarded(&mut bench);
    assert_eq!((winner.as_str(), epoch), ("b-1", bench.epoch));
    let (_, award) = awards(&bench.effects).remove(0);
    assert_eq!(award.task.path, [AgentId::parse("planner-01").unwrap()]);
}

#[test]
fn three_silent_rounds_end_unassigned() {
    let mut bench = Bench::called(Auction::default(), &["b-1"]);
    for (round, window) in [(2, 5_000), (3, 10_000)] {
        bench.later(window).on(woke(ContractNetTimer::Bids));
        let candidates = vec![peer("b-1")];
        bench.on(EventKind::PeersFound { label: ContractNetLabel::Search(round), candidates });
    }
    assert_eq!(bench.ended(), None);
    bench.later(20_000).on(woke(ContractNetTimer::Bids));
    assert_eq!(bench.ended(), Some(TaskState::Failed));
    assert!(bench.outcome().unwrap().status.message.as_ref().unwrap().contains("unassigned after 3 rounds"));
}

#[test]
fn when_all_decline_to_bid_the_next_round_waits_for_the_window() {
    let mut bench = Bench::called(Auction::default(), &["b-1"]);
    let effects = bench.on(received("b-1", "no-bid", json!({ "taskId": TASK, "reason": "busy" })));
    assert!(effects.iter().all(|effect| !matches!(effect, ContractNetEffect::FindPeers { .. })));
    let effects = bench.later(5_000).on(woke(ContractNetTimer::Round));
    assert!(matches!(effects[..], [ContractNetEffect::FindPeers { .. }]));
}

#[test]
fn foreign_and_late_messages_are_noted_and_change_nothing() {
    let mut bench = Bench::called(Auction::default(), &["b-1", "b-2"]);
    assert!(bench.on(offer("stranger", 0.0, "1ms", 1.0)).is_empty());
    let user = Principal::local_user();
    let bid = envelope("b-1", "bid", json!({ "taskId": TASK, "cost": 0, "eta": 1 }));
    assert!(
        bench.on(EventKind::MessageReceived { by: user, answers: None, envelope: Box::new(bid) }).is_empty()
    );
    assert!(bench.on(received("b-1", "bid", json!({ "taskId": "t-2", "cost": 0, "eta": 1 }))).is_empty());
    let (winner, epoch) = awarded(&mut bench);
    assert!(bench.on(offer("b-2", 0.0, "1ms", 1.0)).is_empty());
    assert!(bench.on(accept("b-2", epoch)).is_empty());
    assert!(bench.on(accept(&winner, epoch - 1)).is_empty());
    assert!(bench.on(result("b-2", epoch, "mine")).is_empty());
    let record = &bench.net.record;
    assert_eq!(record.ignored.len(), 7);
    assert!(record.ignored.iter().any(|ignored| ignored.why.contains("fenced")));
    assert_eq!(bench.ended(), None);
}

#[test]
fn ignored_messages_stay_bounded() {
    let mut bench = Bench::called(Auction::default(), &["b-1"]);
    (0..10_000).for_each(|_| {
        drop(bench.net.on(&crate::patterns::Event {
            at: Default::default(),
            wall: WallTime(0),
            what: offer("stranger", 0.0, "1ms", 1.0),
        }))
    });
    assert!(serde_json::to_string(&bench.net.record).unwrap().len() < 16_384);
}

#[test]
fn losers_are_rejected_when_the_winner_accepts_and_the_result_ends_the_task() {
    let mut bench = Bench::called(Auction::default(), &["b-1", "b-2"]);
    let (winner, epoch) = awarded(&mut bench);
    let effects = bench.on(accept(&winner, epoch));
    assert_eq!(recipients_of(&effects, "reject"), ["b-2"]);
    let claimed = effects.iter().any(|effect| matches!(effect, ContractNetEffect::Publish { signal } if signal.kind.as_str() == "task.claimed" && signal.subject.as_deref() == Some("b-1")));
    assert!(claimed);
    assert!(bench.on(accept(&winner, epoch)).is_empty(), "a repeated acceptance changes nothing");
    bench.on(result(&winner, epoch, "done"));
    assert_eq!(bench.ended(), Some(TaskState::Completed));
    let outcome = bench.outcome().unwrap();
    assert_eq!(outcome.artifacts[0].as_text(), "done");
    assert_eq!(outcome.fulfilments[&AgentId::parse("b-1").unwrap()], [true]);
    assert!(bench.on(result(&winner, epoch, "again")).is_empty());
}

#[test]
fn a_winner_that_never_accepts_declines_fails_or_falls_silent_gives_way_to_the_runner_up() {
    type Failure = fn(&mut Bench, &str, u64) -> Vec<ContractNetEffect>;
    let failures: [(Failure, CandidateResult); 6] = [
        (
            |bench, _, _| bench.later(10_000).on(woke(ContractNetTimer::Accept)),
            CandidateResult::AcceptTimeout,
        ),
        (
            |bench, winner, epoch| {
                bench.on(received(
                    winner,
                    "award-decline",
                    json!({ "taskId": TASK, "epoch": epoch, "reason": "no" }),
                ))
            },
            CandidateResult::Declined,
        ),
        (
            |bench, winner, epoch| {
                let (label, to) = (ContractNetLabel::Award(epoch), id(winner));
                bench.on(EventKind::Undelivered {
                    label,
                    to,
                    reason: "agent_not_found".into(),
                    message: "gone".into(),
                })
            },
            CandidateResult::Unreachable,
        ),
        (
            |bench, winner, epoch| {
                bench.on(accept(winner, epoch));
                bench.later(30_000).on(woke(ContractNetTimer::Lease))
            },
            CandidateResult::LeaseExpired,
        ),
        (
            |bench, winner, epoch| {
                bench.on(accept(winner, epoch));
                bench.on(received(winner, "task-response", json!({ "taskId": TASK, "seq": 1, "epoch": epoch, "state": "TASK_STATE_FAILED", "message": "broke" })))
            },
            CandidateResult::Failed,
        ),
        (
            |bench, winner, epoch| {
                bench.on(accept(winner, epoch));
                bench.on(result(winner, epoch, ""))
            },
            CandidateResult::Failed,
        ),
    ];
    for (fails, fate) in failures {
        let mut bench = Bench::called(Auction::default(), &["b-1", "b-2"]);
        let (winner, epoch) = awarded(&mut bench);
        let effects = fails(&mut bench, &winner, epoch);
        assert_eq!(bench.fate(&winner), fate);
        assert_eq!(recipients_of(&effects, "task-cancel"), [winner.as_str()], "{fate:?}");
        assert!(effects.iter().any(
            |effect| matches!(effect, ContractNetEffect::Release { epoch: freed, .. } if *freed == epoch)
        ));
        let (next, award) = awards(&effects).remove(0);
        assert_eq!(next, "b-2", "{fate:?}");
        assert!(award.epoch > epoch);
        assert!(bench.on(result(&winner, epoch, "late")).is_empty(), "fenced");
        bench.on(accept("b-2", award.epoch));
        bench.on(result("b-2", award.epoch, "done"));
        assert_eq!(bench.ended(), Some(TaskState::Completed), "{fate:?}");
        assert_eq!(bench.outcome().unwrap().fulfilments[&AgentId::parse("b-1").unwrap()], [false]);
    }
}

fn rejects(from: &str, epoch: u64, why: &str) -> EventKind {
    let payload =
        json!({ "taskId": TASK, "seq": 1, "epoch": epoch, "state": "TASK_STATE_REJECTED", "message": why });
    received(from, "task-response", payload)
}

#[test]
fn what_all_reject_is_rejected_and_every_reason_is_named() {
    let mut bench = Bench::called(Auction::default(), &["b-1", "b-2"]);
    let (winner, epoch) = awarded(&mut bench);
    bench.on(accept(&winner, epoch));
    let effects = bench.on(rejects(&winner, epoch, "not on a Sunday"));
    assert_eq!(bench.fate(&winner), CandidateResult::Declined);
    let (next, award) = awards(&effects).remove(0);
    bench.on(accept(&next, award.epoch));
    bench.on(rejects(&next, award.epoch, "too big"));
    assert_eq!(bench.ended(), None, "somebody else may have come");
    let candidates = vec![peer("b-1"), peer("b-2")];
    bench.on(EventKind::PeersFound { label: ContractNetLabel::Search(2), candidates });
    assert_eq!(bench.ended(), Some(TaskState::Rejected));
    let said = bench.outcome().unwrap().status.message.clone().unwrap();
    for part in ["unassigned", "b-1 rejected it: not on a Sunday", "b-2 rejected it: too big"] {
        assert_eq!(said.matches(part).count(), 1, "{part}: {said}");
    }
}

#[test]
fn what_one_rejects_and_another_fails_has_failed_and_what_another_does_is_done() {
    for fails in [true, false] {
        let mut bench = Bench::called(Auction::default(), &["b-1", "b-2"]);
        let (winner, epoch) = awarded(&mut bench);
        let (next, award) = awards(&bench.on(rejects(&winner, epoch, "not on a Sunday"))).remove(0);
        if !fails {
            bench.on(result(&next, award.epoch, "done"));
            assert_eq!(bench.ended(), Some(TaskState::Completed));
            continue;
        }
        let broke = json!({ "taskId": TASK, "seq": 1, "epoch": award.epoch, "state": "TASK_STATE_FAILED", "message": "broke" });
        bench.on(received(&next, "task-response", broke));
        bench.on(EventKind::PeersFound { label: ContractNetLabel::Search(2), candidates: vec![] });
        assert_eq!(bench.ended(), Some(TaskState::Failed));
        let said = bench.outcome().unwrap().status.message.clone().unwrap();
        assert!(
            said.contains("rejected it: not on a Sunday") && said.contains("did not manage: broke"),
            "{said}"
        );
    }
}

#[test]
fn an_offer_that_stands_no_longer_is_not_taken() {
    let mut bench = Bench::called(Auction::default(), &["b-1", "b-2"]);
    bench.on(received("b-2", "bid", json!({ "taskId": TASK, "cost": 1, "eta": 60_000, "validForMs": 500 })));
    bench.on(offer("b-1", 0.0, "1min", 1.0));
    let effects = bench.later(10_000).on(woke(ContractNetTimer::Accept));
    assert!(awards(&effects).is_empty());
    assert!(effects.iter().any(|effect| matches!(effect, ContractNetEffect::FindPeers { .. })));
    assert_eq!(recipients_of(&effects, "reject"), ["b-2"]);
}

#[test]
fn chunks_are_shown_in_order_however_they_come() {
    let mut bench = Bench::called(Auction::default(), &["b-1", "b-2"]);
    let (winner, epoch) = awarded(&mut bench);
    bench.on(accept(&winner, epoch));
    for seq in (2..=90).rev() {
        bench.on(chunk(&winner, epoch, seq, &format!("{seq},")));
    }
    bench.on(chunk(&winner, epoch, 1, "1,"));
    for seq in 2..=90 {
        bench.on(chunk(&winner, epoch, seq, &format!("{seq},")));
    }
    let expected: String = (1..=90).map(|seq| format!("{seq},")).collect();
    assert_eq!(bench.net.ownership.artifacts()[0].as_text(), expected);
}

#[test]
fn a_sign_of_life_keeps_the_award_and_a_repeated_one_does_not() {
    let mut bench = Bench::called(Auction::default(), &["b-1", "b-2"]);
    let (winner, epoch) = awarded(&mut bench);
    bench.on(accept(&winner, epoch));
    bench.later(20_000).on(chunk(&winner, epoch, 1, "x"));
    bench.later(20_000).on(woke(ContractNetTimer::Lease));
    assert_eq!(bench.fate(&winner), CandidateResult::Accepted, "a stale timer changes nothing");
    assert!(bench.on(chunk(&winner, epoch, 1, "x")).is_empty());
    bench.later(10_000).on(woke(ContractNetTimer::Lease));
    assert_eq!(bench.fate(&winner), CandidateResult::LeaseExpired);
}

#[test]
fn a_cancel_ends_it_wherever_it_stands_and_frees_what_is_claimed() {
    let cancel = || EventKind::Cancelled { by: Principal::local_user(), reason: "enough".into() };
    let mut bidding = Bench::called(Auction::default(), &["b-1", "b-2"]);
    assert_eq!(recipients_of(&bidding.on(cancel()), "reject"), ["b-1", "b-2"]);
    assert_eq!(bidding.ended(), Some(TaskState::Canceled));

    let mut claiming = Bench::called(Auction::default(), &["b-1"]);
    claiming.raw(offer("b-1", 0.0, "1min", 1.0));
    assert!(claiming.raw(cancel()).is_empty(), "the claim must come back first");
    let effects = claiming.raw(EventKind::Claimed { holder: id("b-1"), epoch: 5 });
    assert!(matches!(effects[0], ContractNetEffect::Release { epoch: 5, .. }) && awards(&effects).is_empty());
    assert_eq!(claiming.ended(), Some(TaskState::Canceled));

    let mut working = Bench::called(Auction::default(), &["b-1", "b-2"]);
    let (winner, epoch) = awarded(&mut working);
    working.on(accept(&winner, epoch));
    assert_eq!(recipients_of(&working.on(cancel()), "task-cancel"), ["b-1"]);
    assert_eq!(working.ended(), Some(TaskState::Canceled));
    assert!(working.on(result(&winner, epoch, "late")).is_empty());
}

#[test]
fn a_deadline_ends_it_and_bids_past_it_do_not_count() {
    let mut spec = spec(TASK);
    spec.deadline = Some(WallTime(1_000_000 + 31_000));
    let mut bench = Bench::of(spec, Auction::default(), vec![peer("b-1"), peer("b-2")]);
    bench.on(EventKind::Started);
    bench.on(offer("b-1", 0.0, "1h", 1.0));
    assert_eq!(bench.fate("b-1"), CandidateResult::NoBid);
    assert_eq!(awards(&bench.on(offer("b-2", 0.0, "1s", 1.0)))[0].0, "b-2");
    bench.later(30_000).on(woke(ContractNetTimer::Deadline));
    assert_eq!(bench.ended(), Some(TaskState::Failed));
}

#[test]
fn a_lost_claim_leads_to_another_round_and_never_to_silence() {
    let mut bench = Bench::called(Auction { rounds: 2, ..Auction::default() }, &["b-1"]);
    bench.raw(offer("b-1", 0.0, "1min", 1.0));
    bench.raw(EventKind::ClaimLost { holder: None });
    bench.later(5_000).raw(woke(ContractNetTimer::Round));
    bench.raw(EventKind::PeersFound { label: ContractNetLabel::Search(2), candidates: vec![peer("b-1")] });
    bench.raw(offer("b-1", 0.0, "1min", 1.0));
    bench.raw(EventKind::ClaimLost { holder: None });
    assert_eq!(bench.ended(), Some(TaskState::Failed));
}

#[test]
fn an_old_claims_news_does_not_name_a_new_award() {
    let mut bench = Bench::called(Auction::default(), &["b-1"]);
    bench.raw(offer("b-1", 0.0, "1min", 1.0));
    let first = EventKind::Claimed { holder: id("b-1"), epoch: 5 };
    bench.raw(first.clone());
    bench.later(10_000).raw(woke(ContractNetTimer::Accept));
    bench.raw(EventKind::PeersFound { label: ContractNetLabel::Search(2), candidates: vec![peer("b-1")] });
    bench.raw(offer("b-1", 0.0, "1min", 1.0));
    assert!(bench.raw(first).is_empty());
    assert_eq!(awards(&bench.raw(EventKind::Claimed { holder: id("b-1"), epoch: 9 }))[0].1.epoch, 9);
}

#[test]
fn at_most_k_are_asked_and_a_thousand_candidates_leave_a_small_state() {
    let candidates = (0..1_000).map(|n| peer(&format!("b-{n}"))).collect();
    let mut bench = Bench::new(Auction::default(), candidates);
    bench.on(EventKind::Started);
    assert_eq!(recipients_of(&bench.effects, "cfp").len(), 16);
    let record = &bench.net.record;
    assert_eq!(record.rounds[0].candidates.len() + record.rounds[0].not_listed, 1_000);
    assert!(serde_json::to_string(&bench.net).unwrap().len() < 24_576);
}

#[test]
fn a_tag_is_worth_less_than_a_skill_whatever_the_bidder_says() {
    let mut tagged = peer("b-1");
    tagged.card.skills[0].id = Capability::parse("other").unwrap();
    tagged.card.skills[0].tags = vec![Capability::parse(WORK).unwrap()];
    let mut bench = Bench::new(with(Strategy::BestMatch), vec![tagged, peer("b-2")]);
    bench.on(EventKind::Started);
    bench.on(offer("b-1", 0.0, "1min", 1.0));
    assert_eq!(awards(&bench.on(offer("b-2", 0.0, "1min", 0.9)))[0].0, "b-2");
}

#[test]
fn the_owners_answer_goes_to_the_winner_under_its_award() {
    let mut bench = Bench::called(Auction::default(), &["b-1", "b-2"]);
    let (winner, epoch) = awarded(&mut bench);
    bench.on(accept(&winner, epoch));
    let by = Principal::local_user();
    let effects = bench.on(EventKind::Answered { by, text: "the blue one".into(), message: None });
    let answers: Vec<_> = effects
        .iter()
        .filter_map(|effect| match effect {
            ContractNetEffect::Send(told) => Some((told.to.to_string(), &told.payload)),
            _ => None,
        })
        .collect();
    let [(to, Payload::TaskAnswer(answer))] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((to, answer.epoch, answer.words().as_str()), (&winner, Some(epoch), "the blue one"));
}
