use super::*;
use proptest::prelude::*;

/// A signal; an offer is of the task `id`.
pub(crate) fn signal(id: &str, kind: &str, from: &str) -> Signal {
    let is_offer = kind == "task.available";
    Signal {
        id: id.into(),
        kind: SignalType::parse(kind).unwrap(),
        from: AgentId::parse(from).unwrap(),
        by: None,
        root: None,
        root_proof: None,
        subject: is_offer.then(|| "dig".to_owned()),
        task_id: TaskId::parse(id).ok().filter(|_| is_offer),
        capability: None,
        refs: Map::new(),
        to: Vec::new(),
        at: WallTime(0),
    }
}

const TYPES: [&str; 7] = [
    "task.available",
    "task.claimed",
    "artifact.produced",
    "help.needed",
    "acme.build",
    "acme.build.started",
    "acme.builds.x",
];
const PATTERNS: [&str; 9] = [
    "*",
    "task.*",
    "task.claimed",
    "acme.*",
    "acme.build",
    "acme.build.*",
    "help.needed",
    "artifact.*",
    "zero.match",
];

proptest! {
    #[test]
    fn the_store_filter_admits_every_signal_of_the_selector(
        types in proptest::collection::vec(proptest::sample::select(&PATTERNS[..]), 0..4),
        kind in proptest::sample::select(&TYPES[..]),
    ) {
        let selector = Selector { types: types.iter().map(|t| t.to_string()).collect(), ..Selector::default() };
        prop_assert!(check_selector(&selector).is_ok());
        let signal = signal("1", kind, "b-1");
        let expected = types.is_empty() || types.iter().any(|pattern| match pattern.strip_suffix(".*") {
            _ if *pattern == "*" => true,
            Some(prefix) => kind.split('.').zip(prefix.split('.')).all(|(a, b)| a == b)
                && kind.split('.').count() > prefix.split('.').count(),
            None => kind == *pattern,
        });
        prop_assert_eq!(selector.admits(&signal), expected);
        let admitted = store_filter(&selector).admits(&log_key(&signal.kind));
        prop_assert!(admitted || !expected);
        if types.len() == 1 {
            prop_assert_eq!(admitted, expected);
        }
    }

    #[test]
    fn a_frame_is_one_event_for_every_signal(subject in any::<String>(), revision in 1u64..) {
        let signal = Signal { subject: Some(subject), ..signal("a:1", "help.needed", "b-1") };
        let record = Record { revision, key: log_key(&signal.kind), value: json(&signal).unwrap().into() };
        let text = String::from_utf8(frame(&record, "g").to_vec()).unwrap();
        let data = text.strip_prefix(&format!("id: g-{revision}\ndata: ")).unwrap().strip_suffix("\n\n").unwrap();
        prop_assert!(!data.contains(['\n', '\r']));
        prop_assert_eq!(serde_json::from_str::<SignalRecord>(data).unwrap(), parse_record(&record).unwrap());
    }
}

#[test]
fn an_invalid_type_is_refused_with_the_valid_ones() {
    for bad in ["", "task", "task.", "tas*", "task.*.x", "TASK.*", "task.nonsense", ".*", "a\n.*"] {
        let selector = Selector { types: vec![bad.into()], ..Selector::default() };
        assert!(check_selector(&selector).unwrap_err().message.contains("task.available"), "{bad:?}");
    }
}

#[test]
fn a_signal_is_measured_in_bytes_of_its_json() {
    let (store, by) = (store_types::MemoryState::default(), Principal::local_user());
    let limit = json(&signal("1", "help.needed", "a")).unwrap().len();
    assert!(prepare_write(&store, &by, &signal("1", "help.needed", "a"), WallTime(0), limit).is_ok());
    let refused =
        prepare_write(&store, &by, &signal("1", "help.needed", "a"), WallTime(0), limit - 1).unwrap_err();
    assert_eq!(
        (refused.reason, refused.metadata),
        (Reason::PayloadTooLarge, vec![("limit", (limit - 1).to_string())])
    );
    let refused =
        prepare_write(&store, &by, &signal("a b", "help.needed", "a"), WallTime(0), limit + 9).unwrap_err();
    assert_eq!(refused.reason, Reason::InvalidField);
}

#[test]
fn an_offer_that_nobody_can_do_is_refused() {
    let store = store_types::MemoryState::default();
    let refused = |offer: Signal| {
        let written = prepare_write(&store, &Principal::local_user(), &offer, WallTime(0), 16 * 1024);
        let problem = written.err()?;
        assert_eq!(problem.reason, Reason::InvalidField);
        problem.metadata.iter().find(|(key, _)| *key == "field").map(|(_, field)| field.clone())
    };
    let offer = || signal("o-1", "task.available", "me");
    assert_eq!(refused(offer()), None);
    assert_eq!(refused(Signal { task_id: None, ..offer() }).as_deref(), Some("taskId"));
    for subject in [None, Some(" ".to_owned())] {
        assert_eq!(refused(Signal { subject, ..offer() }).as_deref(), Some("refs.description"));
    }
    let refs = Map::from_iter([("description".to_owned(), "dig".into())]);
    assert_eq!(refused(Signal { subject: None, refs, ..offer() }), None);
    assert_eq!(refused(Signal { task_id: None, ..signal("n-1", "help.needed", "me") }), None);
}
