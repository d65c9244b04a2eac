//! Over many auctions: equals share, and promises that are not kept stop winning.

use super::fixture::*;
use crate::contract_net::{
    Auction, Strategy,
    eligible::EligiblePeer,
    record::ScoredOffer,
    score::{ValidBid, rank},
    track_record::TrackRecord,
};
use protocol::{
    bid::{Cost, Eta},
    ids::AgentId,
    time::NodeTime,
};
use std::collections::BTreeMap;

fn bid(agent: &str, record: f64, cost: f64, eta: u64, load: f64) -> (AgentId, EligiblePeer, ValidBid) {
    let offer = ScoredOffer { cost: Cost::new(cost).unwrap(), eta: Eta(eta), capability_match: 1.0, load };
    let peer = EligiblePeer { support: 1.0, track_record: record, load: 0.0 };
    (agent_id(agent), peer, ValidBid { offer, valid_until: NodeTime(1) })
}

#[test]
fn equals_win_equally_often_and_always_the_same_task() {
    let mut wins: BTreeMap<AgentId, u32> = BTreeMap::new();
    for task in 0..5_000 {
        let mut bids: Vec<_> = (1..=5).map(|n| bid(&format!("b-{n}"), 0.5, 1.0, 60_000, 0.0)).collect();
        let task = format!("task-{task}");
        let winner = rank(&Auction::default(), &task, bids.clone()).remove(0).0;
        bids.reverse();
        assert_eq!(rank(&Auction::default(), &task, bids).remove(0).0, winner, "never who came first");
        *wins.entry(winner).or_default() += 1;
    }
    assert!(wins.len() == 5 && wins.values().all(|count| (850..=1_150).contains(count)), "{wins:?}");
}

#[test]
fn of_equal_bids_the_least_loaded_is_first_and_minus_zero_is_zero() {
    let auction = Auction { strategy: Strategy::Cheapest, ..Auction::default() };
    for task in 0..50 {
        let task = format!("task-{task}");
        let bids = vec![bid("a", 0.5, 1.0, 1, 0.5), bid("b", 0.5, 1.0, 1, 0.0)];
        assert_eq!(rank(&auction, &task, bids).remove(0).0, agent_id("b"));
        let plain = rank(&auction, &task, vec![bid("a", 0.5, 1.0, 1, 0.0), bid("b", 0.5, 1.0, 1, 0.0)]);
        let tricky = rank(&auction, &task, vec![bid("a", 0.5, 1.0, 1, -0.0), bid("b", 0.5, 1.0, 1, 0.0)]);
        assert_eq!(plain[0].0, tricky[0].0);
    }
}

#[test]
fn who_bids_best_and_never_delivers_soon_wins_no_more() {
    let mut records: BTreeMap<&str, TrackRecord> = BTreeMap::new();
    let (mut failures, mut late_awards, mut late_wins) = (0, 0, 0);
    for task in 0..50 {
        let value = |agent| records.get(agent).cloned().unwrap_or_default().value();
        let bids = vec![
            bid("liar", value("liar"), 0.0, 1, 0.0),
            bid("b-1", value("b-1"), 1.0, 300_000, 0.5),
            bid("b-2", value("b-2"), 1.0, 300_000, 0.5),
        ];
        for (agent, _, _) in rank(&Auction::default(), &format!("task-{task}"), bids) {
            let name = if agent == agent_id("liar") {
                "liar"
            } else if agent == agent_id("b-1") {
                "b-1"
            } else {
                "b-2"
            };
            let keeps = name != "liar";
            late_awards += u32::from(failures >= 20 || task >= 20);
            late_wins += u32::from((failures >= 20 || task >= 20) && !keeps);
            failures += u32::from(!keeps);
            let record = records.entry(name).or_default();
            *record = record.clone().after(keeps);
            if keeps {
                break;
            }
        }
    }
    assert!(failures <= 20, "{failures} awards to the liar");
    assert!(late_wins * 10 <= late_awards, "{late_wins} of {late_awards}");
}
