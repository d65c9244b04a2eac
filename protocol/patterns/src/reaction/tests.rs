use super::*;
use crate::{
    EventKind, RequestKey, Timer, Update,
    turn::{Help, Progress, TurnEnd},
    turn_record::TurnRecord,
};
use proptest::prelude::*;
use protocol::{
    artifact::Artifact,
    ids::{Address, Capability},
    principal::Principal,
    question::Question,
    signal::SignalType,
    task::TaskState,
    time::{NodeTime, WallTime},
};

type What = EventKind;

fn posted() -> SignalRecord {
    let signal = Signal {
        id: "s-1".into(),
        kind: SignalType::artifact_produced(),
        from: AgentId::parse("builder").unwrap(),
        by: None,
        root: None,
        root_proof: None,
        subject: Some("a.rs".into()),
        task_id: Some(TaskId::parse("t-1").unwrap()),
        capability: None,
        refs: serde_json::Map::from_iter([(HOPS.to_owned(), json!(2))]),
        to: Vec::new(),
        at: WallTime(0),
    };
    SignalRecord { revision: 7, signal }
}

fn reaction() -> Reaction {
    Reaction::new(AgentId::parse("watcher").unwrap(), posted(), WorkLimits::default())
}

#[test]
fn a_reaction_to_a_signal_of_an_earlier_version_acts_for_the_agent() {
    let root = |reaction: &Reaction| {
        serde_json::to_value(reaction).unwrap().to_string().contains("\"root\":\"agent:watcher\"")
    };
    assert!(root(&reaction()));
    let mut signed = posted();
    signed.signal.by = Some(Principal::Agent(AgentId::parse("builder").unwrap()));
    assert!(!root(&Reaction::new(AgentId::parse("watcher").unwrap(), signed, WorkLimits::default())));
}

fn event(what: What) -> Event {
    Event { at: NodeTime(1), wall: WallTime(1), what }
}

fn thought(turn: u32, updates: Vec<Progress>, end: TurnEnd) -> What {
    EventKind::TurnEnded { turn, updates, end }
}

fn seen() -> Progress {
    let signal = SignalType::parse("acme.seen").unwrap();
    Progress::Signal { signal, subject: None, capability: None, refs: Default::default() }
}

fn question() -> Progress {
    Progress::Question(Question::new("q", "which?"))
}

fn help() -> Progress {
    Progress::Help(Help {
        id: "h".into(),
        to: Address::Capability(Capability::parse("code-review").unwrap()),
        question: "is it good?".into(),
        artifacts: Vec::new(),
        budget: Default::default(),
        wait: true,
    })
}

fn ended(effects: &[Effect]) -> Option<TaskState> {
    effects.iter().find_map(|effect| {
        let Effect::Finish(outcome) = effect else { return None };
        Some(outcome.status.state)
    })
}

#[test]
fn the_brain_is_asked_about_the_signal_and_what_it_says_goes_to_the_board() {
    let mut reaction = reaction();
    let effects = reaction.on(&event(EventKind::Started));
    let [Effect::RunTurn { turn: 1, prompt, .. }] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(prompt.about, TurnSubject::Signal(Box::new(posted())));
    let json = serde_json::to_value(prompt).unwrap();
    assert_eq!(
        (json["signal"]["type"].as_str(), json["signal"]["revision"].as_u64()),
        (Some("artifact.produced"), Some(7))
    );
    let effects = reaction.on(&event(thought(1, vec![seen()], TurnEnd::Done { message: None })));
    let [Effect::Publish { signal }, Effect::Finish(outcome)] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    assert_eq!((signal.kind.as_str(), &signal.task_id), ("acme.seen", &posted().signal.task_id));
    assert_eq!(signal.refs[HOPS], 3);
    assert_eq!(outcome.status.state, TaskState::Completed);
    assert!(reaction.on(&event(thought(1, vec![seen()], TurnEnd::Done { message: None }))).is_empty());
}

#[test]
fn a_brain_that_has_nothing_to_say_is_done() {
    let mut reaction = reaction();
    reaction.on(&event(EventKind::Started));
    let effects = reaction.on(&event(thought(1, Vec::new(), TurnEnd::Done { message: None })));
    assert_eq!(ended(&effects), Some(TaskState::Completed));
}

#[test]
fn a_question_is_answered_at_once_that_there_is_nobody_to_answer() {
    let mut reaction = reaction();
    reaction.on(&event(EventKind::Started));
    let effects = reaction.on(&event(thought(1, vec![question()], TurnEnd::Waiting)));
    let [Effect::Record { record: TurnRecord::Answer(answer), .. }, Effect::RunTurn { turn: 2, .. }] =
        effects.as_slice()
    else {
        panic!("{effects:?}")
    };
    assert!(answer.text.contains("no owner") && !answer.ok);
}

#[test]
fn help_may_be_asked_for() {
    let mut reaction = reaction();
    reaction.on(&event(EventKind::Started));
    let effects = reaction.on(&event(thought(1, vec![help(), question()], TurnEnd::Waiting)));
    let asks = effects.iter().filter(
        |effect| matches!(effect, Effect::Send(message) if matches!(message.to, Address::Capability(_))),
    );
    assert_eq!(asks.count(), 1);
    assert!(ended(&effects).is_none(), "{effects:?}");
}

fn any_what() -> impl Strategy<Value = What> {
    let artifact = Artifact::text("a", "text/plain", "x");
    let updates = prop_oneof![
        Just(Vec::new()),
        Just(vec![seen()]),
        Just(vec![question()]),
        Just(vec![help()]),
        Just(vec![Progress::Artifact { artifact, append: false, last_chunk: true }]),
        Just(vec![Progress::Status { message: "hm".into() }]),
    ];
    let end = prop_oneof![
        Just(TurnEnd::Waiting),
        Just(TurnEnd::Done { message: None }),
        Just(TurnEnd::Failed { reason: "no".into() })
    ];
    prop_oneof![
        Just(EventKind::Started),
        (1..4u32, updates.clone(), end).prop_map(|(turn, updates, end)| thought(turn, updates, end)),
        (1..4u32, updates).prop_map(|(turn, updates)| EventKind::TurnProgress { turn, updates }),
        (1..4u32).prop_map(|turn| EventKind::TurnFailed { turn, reason: "died".into() }),
        Just(EventKind::Published { revision: 9 }),
        (0..3u32).prop_map(|index| EventKind::TimerFired { timer: Timer::Request(RequestKey(1, index)) }),
    ]
}

proptest! {
    #[test]
    fn it_ends_at_most_once_and_shows_nothing_of_a_task(whats in proptest::collection::vec(any_what(), 0..40)) {
        let mut reaction = reaction();
        let mut has_ended = false;
        for what in whats {
            let effects = reaction.on(&event(what));
            prop_assert!(!has_ended || effects.is_empty());
            let shows = effects.iter().any(|e| matches!(e, Effect::Update(Update::Status(_)) | Effect::AskPerson { .. }));
            prop_assert!(!shows);
            has_ended |= ended(&effects).is_some();
            let stored = serde_json::to_string(&reaction).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Reaction>(&stored).unwrap(), &reaction);
        }
    }
}

/// A brain that pauses has the same turn again after the pause.
#[test]
fn a_reaction_goes_on_after_a_pause() {
    let mut reaction = reaction();
    let effects = reaction.on(&event(EventKind::Started));
    let turn = effects.iter().find_map(|effect| {
        let Effect::RunTurn { turn, .. } = effect else { return None };
        Some(*turn)
    });
    let pause = TurnEnd::Pause { after_ms: 500, reason: "429".into() };
    let effects = reaction.on(&event(thought(turn.unwrap(), Vec::new(), pause)));
    let is_timer = |effect: &Effect| matches!(effect, Effect::SetTimer { timer: Timer::Resume, .. });
    assert!(effects.iter().any(is_timer), "{effects:?}");
    let effects = reaction.on(&event(EventKind::TimerFired { timer: Timer::Resume }));
    let runs = |effect: &Effect| matches!(effect, Effect::RunTurn { .. });
    assert!(effects.iter().any(runs), "{effects:?}");
}
