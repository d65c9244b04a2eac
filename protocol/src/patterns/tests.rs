use super::*;
use std::collections::BTreeSet;

#[test]
fn every_message_is_taken_by_a_pattern_or_answered_without_one() {
    let taken = AnyPattern::ALL.iter().flat_map(|pattern| pattern.opened_by.iter().chain(pattern.receives));
    let taken: BTreeSet<_> = taken.copied().collect();
    let left: Vec<_> = MessageKind::ALL.iter().filter(|kind| !taken.contains(kind)).collect();
    assert_eq!(left, [&MessageKind::Cfp, &MessageKind::Reject]);
}

#[test]
fn pattern_names_are_unique() {
    let names: BTreeSet<_> = AnyPattern::ALL.iter().map(|pattern| pattern.name).collect();
    assert_eq!(names.len(), AnyPattern::ALL.len());
}

#[test]
fn labels_and_timers_are_written_with_their_pattern() {
    let key = delegation::RequestKey(2, 0);
    for (label, written) in [
        (
            AnyLabel::Delegation(delegation::DelegationLabel::Request(key)),
            r#"{"delegation":{"request":[2,0]}}"#,
        ),
        (AnyLabel::ContractNet(contract_net::ContractNetLabel::Cfp), r#"{"contractNet":"cfp"}"#),
    ] {
        assert_eq!(serde_json::to_string(&label).unwrap(), written);
        assert_eq!(serde_json::from_str::<AnyLabel>(written).unwrap(), label);
    }
    let timer = AnyTimer::OpenTask(open_task::OpenTaskTimer::Work(delegation::DelegationTimer::Renew));
    assert_eq!(serde_json::to_string(&timer).unwrap(), r#"{"openTask":{"work":"renew"}}"#);
}
