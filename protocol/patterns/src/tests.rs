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
