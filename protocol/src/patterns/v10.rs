//! Reads what rules 10 have recorded.

use serde_json::{Value, json};

/// The patterns and their parts in whose names rules 10 wrote a label or a timer.
const WRAPPERS: [&str; 8] =
    ["delegation", "helpRequest", "contractNet", "redelivery", "reaction", "openTask", "offer", "auction"];

/// A label or a timer without the names of the patterns that rules 10 put around it.
pub(super) fn plain_name(written: Value) -> Value {
    let Value::Object(members) = &written else { return written };
    let Some((wrapper, inner)) = members.iter().next() else { return written };
    match (wrapper.as_str(), inner.as_str()) {
        ("helpRequest", Some("search")) => json!({ "search": 0 }),
        ("openTask", Some("renew")) => json!("claim"),
        ("work", _) => inner.clone(),
        (wrapper, _) if WRAPPERS.contains(&wrapper) => plain_name(inner.clone()),
        _ => written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::{Label, RequestKey, SessionTimer, Timer};

    #[test]
    fn labels_and_timers_of_rules_10_are_read() {
        let label = |written: Value| serde_json::from_value::<Label>(written).unwrap();
        assert_eq!(label(json!({ "delegation": { "request": [1, 2] } })), Label::Request(RequestKey(1, 2)));
        assert_eq!(label(json!({ "delegation": { "auction": { "award": 7 } } })), Label::Award(7));
        assert_eq!(label(json!({ "contractNet": { "search": 2 } })), Label::Search(2));
        assert_eq!(label(json!({ "helpRequest": "search" })), Label::Search(0));
        assert_eq!(label(json!({ "reaction": "space" })), Label::Space);
        assert_eq!(label(json!({ "redelivery": "resend" })), Label::Resend);
        let timer = |written: Value| serde_json::from_value::<Timer>(written).unwrap();
        let side = SessionTimer::Side(1, 4);
        assert_eq!(timer(json!({ "delegation": { "session": { "side": [1, 4] } } })), Timer::Session(side));
        assert_eq!(timer(json!({ "delegation": { "auction": "queue" } })), Timer::Queue);
        assert_eq!(timer(json!({ "openTask": "renew" })), Timer::Claim);
        assert_eq!(timer(json!({ "openTask": { "work": "review" } })), Timer::Review);
        assert_eq!(
            timer(json!({ "openTask": { "work": { "request": [1, 0] } } })),
            Timer::Request(RequestKey(1, 0))
        );
        assert_eq!(timer(json!({ "offer": "giveUp" })), Timer::GiveUp);
    }

    #[test]
    fn labels_and_timers_are_read_as_they_are_written() {
        for label in [Label::Search(3), Label::Award(1), Label::Request(RequestKey(2, 0)), Label::Cfp] {
            let written = serde_json::to_value(label).unwrap();
            assert_eq!(serde_json::from_value::<Label>(written).unwrap(), label);
        }
        let timer = Timer::Session(SessionTimer::Stall(1, 2, 3));
        assert_eq!(serde_json::from_str::<Timer>(&serde_json::to_string(&timer).unwrap()).unwrap(), timer);
    }
}
