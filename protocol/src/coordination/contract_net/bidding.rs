//! The bidder's side: a bid made of the card's terms and the load, without a thought (DESIGN §5: bids cost no tokens).

use crate::{
    bid::{Eta, Share},
    card::Card,
    message::{Bid, Cfp, NoBid},
    time::WallTime,
};
use serde_json::Map;

/// How long a bid stands beyond the time its manager takes to decide.
const VALID_MS: u64 = 60_000;

/// What `card`'s agent offers for `cfp` while it does `running` tasks, or why it offers nothing.
pub fn bid(card: &Card, running: u32, cfp: &Cfp, now: WallTime) -> Result<Bid, NoBid> {
    let no = |reason: String| Err(NoBid { task_id: cfp.task_id.clone(), reason, extra: Map::new() });
    let support = card.support(&cfp.capability);
    if support == 0.0 {
        return no(format!("{} is none of its skills", cfp.capability));
    }
    let places = card.terms.max_parallel.max(1);
    if running >= places {
        return no(format!("{running} tasks are running, the limit is {places}"));
    }
    if cfp.bid_by <= now {
        return no("the call for proposals is over".to_owned());
    }
    let deadline = cfp.constraints.get("deadline").and_then(|text| WallTime::parse(text.as_str()?).ok());
    let eta = Eta(card.terms.eta.0.saturating_mul(u64::from(running) + 1));
    if deadline.is_some_and(|deadline| now.plus(eta.duration()) > deadline) {
        return no(format!("it would take {eta}, the deadline is sooner"));
    }
    Ok(Bid {
        task_id: cfp.task_id.clone(),
        cost: card.terms.cost,
        eta,
        capability_match: Share::new(support),
        load: Share::new(f64::from(running) / f64::from(places)),
        valid_for_ms: Some(VALID_MS),
        extra: Map::new(),
    })
}
