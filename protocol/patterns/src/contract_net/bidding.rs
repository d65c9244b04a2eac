//! The bidder's side: a bid computed from the card's terms and the load, without a turn (DESIGN §5: bids cost no tokens). A brain
//! may answer in its place.

use crate::Label;
use protocol::{
    bid::{Cost, Eta, Fraction},
    card::Card,
    message::{BUSY, Bid, Cfp, NoBid},
    time::WallTime,
};
use serde_json::Map;
use std::time::Duration;

/// How long a bid is valid after the manager's decision time.
const VALID_MS: u64 = 60_000;

/// The bid of `card`'s agent for `cfp` while `taken` of its places are taken, or why it does not bid. `free_in` is when a
/// place is expected to be free if all are taken.
pub fn bid(card: &Card, taken: u32, free_in: Duration, cfp: &Cfp, now: WallTime) -> Result<Bid, NoBid> {
    let task_id = || cfp.task_id.clone();
    let no = |reason| {
        Err(NoBid { task_id: task_id(), reason, free_in_ms: None, waits_for: None, extra: Map::new() })
    };
    let support = card.support(&cfp.capability);
    if support == 0.0 {
        return no(format!("{} is none of its skills", cfp.capability));
    }
    if let Some(why) = &card.waits_for {
        return no(format!("it takes no work: {why}"));
    }
    let places = card.terms.max_parallel.max(1);
    if cfp.bid_by <= now {
        return no("the call for proposals is over".to_owned());
    }
    let modes: Vec<String> = cfp
        .constraints
        .get("acceptedModes")
        .and_then(|modes| serde_json::from_value(modes.clone()).ok())
        .unwrap_or_default();
    if !card.answers_in(&cfp.capability, &modes) {
        return no(format!("it does not answer in {}", modes.join(", ")));
    }
    let most = cfp.constraints.get("maxCost").and_then(serde_json::Value::as_f64);
    if most.is_some_and(|most| card.terms.cost.get() > most) {
        return no(format!("it costs {}", card.terms.cost.get()));
    }
    let deadline = cfp.constraints.get("deadline").and_then(|text| WallTime::parse(text.as_str()?).ok());
    let eta = Eta(card.terms.eta.0.saturating_mul(u64::from(taken) + 1));
    if deadline.is_some_and(|deadline| now.plus(eta.duration()) > deadline) {
        return no(format!("it would take {eta}, the deadline is sooner"));
    }
    // Last, so that only a bidder that would bid otherwise is waited for.
    if taken >= places {
        let free_in_ms = u64::try_from(free_in.as_millis()).ok();
        return Err(NoBid {
            task_id: task_id(),
            reason: BUSY.to_owned(),
            free_in_ms,
            waits_for: None,
            extra: Map::new(),
        });
    }
    Ok(Bid {
        task_id: task_id(),
        cost: card.terms.cost,
        eta,
        capability_match: Fraction::new(support),
        load: Fraction::new(f64::from(taken) / f64::from(places)),
        valid_for_ms: Some(VALID_MS),
        starts_in_ms: None,
        extra: Map::new(),
    })
}

/// The label of a bid that is sent as a message. No pattern of the bidder is told of its delivery.
pub fn label() -> Label {
    Label::Cfp
}

/// What a brain answers to a call for proposals.
#[derive(Debug, Clone, PartialEq)]
pub enum BidAnswer {
    /// It bids; what it does not say is as in the computed bid.
    Bid {
        /// The cost of the task.
        cost: Option<Cost>,
        /// The duration of the task.
        eta: Option<Eta>,
        /// How well it fits. It can lower, never raise, what the card supports.
        capability_match: Option<Fraction>,
    },
    /// It does not bid.
    NoBid { reason: String },
}

/// The computed `bid` with the answer of the brain.
pub fn with_answer(bid: Bid, cfp: &Cfp, answer: BidAnswer) -> Result<Bid, NoBid> {
    let no = |reason| {
        Err(NoBid {
            task_id: cfp.task_id.clone(),
            reason,
            free_in_ms: None,
            waits_for: None,
            extra: Map::new(),
        })
    };
    match answer {
        // Only a full agent is waited for.
        BidAnswer::NoBid { reason } if reason == BUSY => no("its brain says that it is busy".to_owned()),
        BidAnswer::NoBid { reason } => no(reason),
        BidAnswer::Bid { cost, eta, capability_match } => {
            let cost = cost.unwrap_or(bid.cost);
            let most = cfp.constraints.get("maxCost").and_then(serde_json::Value::as_f64);
            if most.is_some_and(|most| cost.get() > most) {
                return no(format!("it costs {}", cost.get()));
            }
            let support = bid.capability_match.map_or(1.0, Fraction::get);
            let lowered = capability_match.and_then(|own| Fraction::new(own.get().min(support)));
            Ok(Bid {
                cost,
                eta: eta.unwrap_or(bid.eta),
                capability_match: lowered.or(bid.capability_match),
                ..bid
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{
        card::BidTerms,
        ids::{AgentId, Capability, TaskId},
    };
    use serde_json::{Value, json};

    fn card() -> Card {
        let card = json!({
            "agentId": "b-1", "endpoint": "http://127.0.0.1:1",
            "skills": [{ "id": "build", "tags": ["rest"], "outputModes": ["text/plain"] }],
            "terms": { "cost": 0.5, "eta": "1min", "maxParallel": 2 },
        });
        serde_json::from_value(card).unwrap()
    }

    fn cfp(capability: &str, constraints: Value) -> Cfp {
        Cfp {
            task_id: TaskId::parse("t-1").unwrap(),
            capability: Capability::parse(capability).unwrap(),
            description: "do it".into(),
            bid_by: WallTime(10_000),
            constraints: constraints.as_object().cloned().unwrap_or_default(),
            extra: Map::new(),
        }
    }

    #[test]
    fn a_bid_is_made_of_terms_and_load() {
        let offer = bid(&card(), 1, Duration::ZERO, &cfp("rest", json!({})), WallTime(0)).unwrap();
        assert_eq!((offer.cost, offer.eta), (Cost::new(0.5).unwrap(), Eta(120_000)));
        assert_eq!((offer.load, offer.capability_match), (Fraction::new(0.5), Fraction::new(0.8)));
        assert_eq!(card().agent_id, AgentId::parse("b-1").unwrap());
    }

    #[test]
    fn a_brain_may_set_cost_and_eta_and_lower_the_match() {
        let offer = || bid(&card(), 1, Duration::ZERO, &cfp("rest", json!({})), WallTime(0)).unwrap();
        let answer = |capability_match| BidAnswer::Bid {
            cost: Cost::new(2.0),
            eta: Some(Eta(7)),
            capability_match: Fraction::new(capability_match),
        };
        let open = cfp("rest", json!({}));
        let lower = with_answer(offer(), &open, answer(0.3)).unwrap();
        assert_eq!((lower.cost, lower.eta), (Cost::new(2.0).unwrap(), Eta(7)));
        assert_eq!((lower.capability_match, lower.load), (Fraction::new(0.3), Fraction::new(0.5)));
        let higher = with_answer(offer(), &open, answer(1.0)).unwrap();
        assert_eq!(higher.capability_match, Fraction::new(0.8), "the card supports no more");
        let silent = BidAnswer::Bid { cost: None, eta: None, capability_match: None };
        assert_eq!(with_answer(offer(), &open, silent), Ok(offer()));
        let poor = cfp("rest", json!({ "maxCost": 1.0 }));
        assert_eq!(with_answer(offer(), &poor, answer(0.3)).unwrap_err().reason, "it costs 2");
        let no = |reason: &str| with_answer(offer(), &open, BidAnswer::NoBid { reason: reason.into() });
        assert_eq!(no("not my field").unwrap_err().reason, "not my field");
        assert_ne!(no(BUSY).unwrap_err().reason, BUSY, "a place is free");
    }

    #[test]
    fn who_cannot_says_no_and_why() {
        let late = json!({ "deadline": WallTime(30_000) });
        for (capability, taken, constraints, now, why) in [
            ("paint", 0, json!({}), 0, "none of its skills"),
            ("build", 2, json!({}), 0, "busy"),
            ("build", 2, json!({ "maxCost": 0.1 }), 0, "costs 0.5"),
            ("build", 0, json!({}), 10_000, "is over"),
            ("build", 0, late, 0, "the deadline is sooner"),
            ("build", 0, json!({ "acceptedModes": ["image/png"] }), 0, "does not answer in image/png"),
            ("build", 0, json!({ "maxCost": 0.1 }), 0, "costs 0.5"),
        ] {
            let no = bid(&card(), taken, Duration::ZERO, &cfp(capability, constraints), WallTime(now))
                .unwrap_err();
            assert!(no.reason.contains(why), "{}", no.reason);
        }
        let one = Card { terms: BidTerms { max_parallel: 1, ..card().terms }, ..card() };
        let no = bid(&one, 1, Duration::from_secs(2), &cfp("build", json!({})), WallTime(0)).unwrap_err();
        assert_eq!((no.reason.as_str(), no.free_in_ms), (BUSY, Some(2_000)));
    }
}
