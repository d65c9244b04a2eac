//! Ranks bids: a pure function.

use super::{
    auction::{Auction, Strategy},
    eligible::{EligiblePeer, order, tie_break},
    record::{BidScore, ScoredOffer},
};
use protocol::{ids::AgentId, time::NodeTime};
use serde::{Deserialize, Serialize};

/// A valid bid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ValidBid {
    pub offer: ScoredOffer,
    pub valid_until: NodeTime,
}

/// The bids, best first.
pub(super) fn rank(
    auction: &Auction,
    task: &str,
    bids: Vec<(AgentId, EligiblePeer, ValidBid)>,
) -> Vec<(AgentId, ValidBid, BidScore)> {
    let range = |value: fn(&ScoredOffer) -> f64| {
        let all = bids.iter().map(|(_, _, bid)| value(&bid.offer));
        all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
    };
    let cost_of = |offer: &ScoredOffer| offer.cost.get();
    #[expect(clippy::cast_precision_loss, reason = "an eta is at most 31 days")]
    let eta_of = |offer: &ScoredOffer| offer.eta.0 as f64;
    let (costs, etas) = (range(cost_of), range(eta_of));
    let mut scored: Vec<_> = bids
        .into_iter()
        .map(|(agent, peer, bid)| {
            let mut score = BidScore {
                total: 0.0,
                fit: bid.offer.capability_match,
                track_record: peer.track_record,
                eta: lowest_is_best(eta_of(&bid.offer), etas),
                cost: lowest_is_best(cost_of(&bid.offer), costs),
                load: 1.0 - bid.offer.load,
            };
            if auction.strategy == Strategy::Weighted {
                // The bid's terms are weighted by the track record, so that a peer that never delivers can't win by good terms.
                score.eta *= peer.track_record;
                score.cost *= peer.track_record;
                score.load *= peer.track_record;
            }
            score.total = total(auction, &score);
            (agent, bid, score)
        })
        .collect();
    scored.sort_by_cached_key(|(agent, bid, score)| {
        (order(-score.total), order(bid.offer.load), tie_break(task, agent))
    });
    scored
}

/// 1 for the lowest at hand, 0 for the highest; 1 for all when they are equal.
fn lowest_is_best(value: f64, (low, high): (f64, f64)) -> f64 {
    if high > low { (high - value) / (high - low) } else { 1.0 }
}

fn total(auction: &Auction, score: &BidScore) -> f64 {
    match auction.strategy {
        Strategy::Weighted => {
            let weights = &auction.weights;
            let positive = |weight: f64| if weight.is_finite() { weight.max(0.0) } else { 0.0 };
            let parts = [
                (positive(weights.fit), score.fit),
                (positive(weights.track_record), score.track_record),
                (positive(weights.eta), score.eta),
                (positive(weights.cost), score.cost),
                (positive(weights.load), score.load),
            ];
            let all: f64 = parts.iter().map(|(weight, _)| weight).sum();
            let sum: f64 = parts.iter().map(|(weight, value)| weight * value).sum();
            if all > 0.0 { sum / all } else { 0.0 }
        }
        Strategy::Cheapest => score.cost,
        Strategy::Fastest => score.eta,
        Strategy::BestMatch => score.fit,
        Strategy::FirstClaim => 1.0,
    }
}
