use super::*;
use crate::{
    ChunkRange,
    turn::{Progress, TurnEnd},
};
use proptest::prelude::*;
use protocol::{
    artifact::Artifact,
    ids::{Digest, TaskId},
    signal::SignalType,
    time::{NodeTime, WallTime},
};
use serde_json::json;

type What = EventKind;

fn id(text: &str) -> AgentId {
    AgentId::parse(text).unwrap()
}

fn offer() -> Signal {
    Signal {
        id: "s-1".into(),
        kind: SignalType::task_available(),
        from: id("planner"),
        by: None,
        root: None,
        root_proof: None,
        subject: None,
        task_id: Some(TaskId::parse("t-1").unwrap()),
        capability: None,
        refs: serde_json::Map::from_iter([
            ("description".to_owned(), json!("build it")),
            ("input".to_owned(), json!({ "a": 1 })),
        ]),
        to: Vec::new(),
        at: WallTime(0),
    }
}

fn task() -> OpenTask {
    let owner = Principal::Agent(id("planner"));
    let spec = offered(&offer(), TaskRoot::agent(&id("planner"))).unwrap();
    let offer = MessageId::parse("s-1").unwrap();
    OpenTask::new(id("builder"), owner, offer, spec, Duration::from_secs(3), WorkLimits::default())
}

fn event(what: What) -> Event {
    Event { at: NodeTime(1_000), wall: WallTime(1), what }
}

fn claimed(epoch: Epoch) -> What {
    EventKind::Claimed { holder: id("builder"), epoch }
}

fn done(turn: u32) -> What {
    let artifact = Artifact::text("a.rs", "text/plain", "x");
    let updates = vec![Progress::Artifact { artifact, append: false, last_chunk: true }];
    EventKind::TurnEnded { turn, updates, end: TurnEnd::Done { message: Some("built".into()) } }
}

fn working() -> OpenTask {
    let mut task = task();
    task.on(&event(EventKind::Started));
    task.on(&event(claimed(7)));
    task
}

fn ended(effects: &[Effect]) -> Option<TaskState> {
    effects.iter().find_map(|effect| {
        let Effect::Finish(outcome) = effect else { return None };
        Some(outcome.status.state)
    })
}

#[test]
fn an_offer_says_what_to_do_or_is_none() {
    let spec = task().spec.clone();
    assert_eq!((spec.description.as_str(), &spec.input), ("build it", &Some(json!({ "a": 1 }))));
    let mut short = offer();
    short.refs.clear();
    assert_eq!(offered(&short, TaskRoot::person()), None);
    short.subject = Some("build it".into());
    assert_eq!(offered(&short, TaskRoot::person()).unwrap().description, "build it");
    assert_eq!(offered(&Signal { task_id: None, ..offer() }, TaskRoot::person()), None);
}

#[test]
fn it_is_claimed_done_and_ended_on_the_board_before_it_counts() {
    let mut task = task();
    let effects = task.on(&event(EventKind::Started));
    assert!(matches!(effects.as_slice(), [Effect::ClaimOpenTask { .. }]), "{effects:?}");
    let effects = task.on(&event(claimed(7)));
    assert!(matches!(&effects[0], Effect::TrackTask { epoch: 7, .. }));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::RunTurn { turn: 1, .. })));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Publish { .. })), "the board tells of it");
    let effects = task.on(&event(done(1)));
    let of = |is_it: fn(&Effect) -> bool| effects.iter().position(is_it).unwrap();
    let published = of(|effect| matches!(effect, Effect::Publish { .. }));
    let closed = of(|effect| matches!(effect, Effect::CloseOpenTask { epoch: 7, is_done: true, .. }));
    assert!(published < closed, "{effects:?}");
    let Effect::Publish { signal } = &effects[published] else { unreachable!() };
    assert_eq!(signal.kind, SignalType::artifact_produced());
    assert_eq!(signal.produced(), Some(Digest::of(b"x")));
    assert_eq!((&signal.refs["artifactId"], &signal.refs["bytes"]), (&json!("a.rs"), &json!(1)));
    assert_eq!(ended(&effects), None);
    let effects = task.on(&event(EventKind::ClaimEnded { epoch: 7 }));
    let [Effect::Send(report), Effect::Finish(outcome)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(
        (report.to.to_string().as_str(), report.in_reply_to.as_ref().unwrap().as_str()),
        ("planner", "s-1")
    );
    let Payload::TaskResponse(response) = &report.payload else { panic!("{report:?}") };
    assert_eq!(response.state, TaskState::Completed);
    let chunks = ChunkRange { from: 0, to: 1 };
    assert_eq!(report.recorded, Some(RecordedArtifacts { chunks, only: Vec::new() }));
    assert_eq!((outcome.status.state, outcome.chunks), (TaskState::Completed, chunks));
}

#[test]
fn who_comes_second_ends_quietly() {
    let mut task = task();
    task.on(&event(EventKind::Started));
    let effects = task.on(&event(EventKind::ClaimLost { holder: Some(id("other")) }));
    assert!(matches!(effects.as_slice(), [Effect::Finish(_)]), "{effects:?}");
}

#[test]
fn the_lease_is_renewed_while_the_work_runs() {
    let mut task = working();
    let woke = EventKind::TimerFired { timer: Timer::Claim };
    assert!(matches!(task.on(&event(woke.clone())).as_slice(), [Effect::RenewOpenTask { epoch: 7, .. }]));
    let effects = task.on(&event(claimed(7)));
    let [Effect::SetTimer { when, .. }] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(*when, TimerAt::Node(NodeTime(2_000)));
    task.on(&event(done(1)));
    assert!(task.on(&event(woke)).is_empty());
}

#[test]
fn a_lost_lease_stops_the_brain_and_the_task_is_superseded() {
    let mut task = working();
    assert!(task.on(&event(EventKind::ClaimExpired { epoch: 6 })).is_empty());
    let effects = task.on(&event(EventKind::ClaimExpired { epoch: 7 }));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::StopTurn)));
    assert_eq!(ended(&effects), Some(TaskState::Canceled));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::CloseOpenTask { .. })));

    let mut late = working();
    late.on(&event(done(1)));
    let effects = late.on(&event(EventKind::ClaimExpired { epoch: 7 }));
    let [Effect::Finish(outcome)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!((outcome.status.state, outcome.chunks), (TaskState::Canceled, ChunkRange::default()));
    assert!(outcome.status.message.as_ref().unwrap().starts_with("superseded: "), "{outcome:?}");
}

#[test]
fn a_claim_that_is_granted_after_a_cancel_is_released() {
    let cancelled = EventKind::Cancelled { by: Principal::local_user(), reason: "enough".into() };
    let mut task = task();
    task.on(&event(EventKind::Started));
    assert_eq!(task.on(&event(cancelled.clone())), [], "the board may have granted the claim");
    let effects = task.on(&event(claimed(7)));
    assert!(matches!(effects.as_slice(), [Effect::ReleaseOpenTask { epoch: 7, .. }]), "{effects:?}");
    assert_eq!(ended(&task.on(&event(EventKind::ClaimEnded { epoch: 7 }))), Some(TaskState::Canceled));

    let mut refused = self::task();
    refused.on(&event(EventKind::Started));
    refused.on(&event(cancelled));
    let effects = refused.on(&event(EventKind::ClaimLost { holder: None }));
    assert_eq!(ended(&effects), Some(TaskState::Canceled));
}

#[test]
fn work_that_comes_to_nothing_ends_failed_on_the_board() {
    for what in [
        EventKind::TurnFailed { turn: 1, reason: "died".into() },
        EventKind::Cancelled { by: Principal::local_user(), reason: "enough".into() },
    ] {
        let effects = working().on(&event(what));
        assert!(
            effects.iter().any(|e| matches!(e, Effect::CloseOpenTask { is_done: false, .. })),
            "{effects:?}"
        );
    }
}

#[test]
fn a_node_that_leaves_gives_the_claim_back_instead_of_failing_the_task() {
    let mut task = working();
    let effects = task.on(&event(EventKind::Draining { reason: Some("leaving".into()), away_ms: None }));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::StopTurn)), "{effects:?}");
    assert!(
        effects.iter().any(|effect| matches!(effect, Effect::ReleaseOpenTask { epoch: 7, .. })),
        "{effects:?}"
    );
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::CloseOpenTask { .. })), "{effects:?}");
    assert_eq!(ended(&effects), None, "not before the board has it back");
    let effects = task.on(&event(EventKind::ClaimEnded { epoch: 7 }));
    assert_eq!(ended(&effects), Some(TaskState::Rejected));
}

fn any_what() -> impl Strategy<Value = What> {
    prop_oneof![
        Just(EventKind::Started),
        (6..9u64).prop_map(claimed),
        Just(EventKind::ClaimLost { holder: None }),
        (6..9u64).prop_map(|epoch| EventKind::ClaimExpired { epoch }),
        (6..9u64).prop_map(|epoch| EventKind::ClaimEnded { epoch }),
        (1..3u32).prop_map(done),
        (1..3u32).prop_map(|turn| EventKind::TurnFailed { turn, reason: "died".into() }),
        Just(EventKind::TimerFired { timer: Timer::Claim }),
        Just(EventKind::Cancelled { by: Principal::local_user(), reason: "enough".into() }),
        Just(EventKind::Draining { reason: Some("leaving".into()), away_ms: None }),
        Just(EventKind::Published { revision: 9 }),
    ]
}

proptest! {
    #[test]
    fn it_is_taken_on_and_ended_once_and_done_only_if_the_board_agrees(
        whats in proptest::collection::vec(any_what(), 0..40)
    ) {
        let mut task = task();
        let (mut taken, mut closed, mut finished) = (0, 0, 0);
        for what in std::iter::once(EventKind::Started).chain(whats) {
            let confirmed = matches!(&what, EventKind::ClaimEnded { epoch } if task.epoch() == Some(*epoch));
            let effects = task.on(&event(what));
            prop_assert!(finished == 0 || effects.is_empty());
            taken += effects.iter().filter(|effect| matches!(effect, Effect::TrackTask { .. })).count();
            let closes = |effect: &&Effect| matches!(effect, Effect::CloseOpenTask { .. } | Effect::ReleaseOpenTask { .. });
            closed += effects.iter().filter(closes).count();
            finished += effects.iter().filter(|effect| matches!(effect, Effect::Finish(_))).count();
            let is_done = ended(&effects) == Some(TaskState::Completed);
            prop_assert!(!is_done || confirmed && taken == 1);
            prop_assert!(taken <= 1 && closed <= 1 && finished <= 1);
            let stored = serde_json::to_string(&task).unwrap();
            prop_assert_eq!(&serde_json::from_str::<OpenTask>(&stored).unwrap(), &task);
        }
    }
}
