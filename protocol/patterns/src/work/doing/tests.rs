mod acceptance;
mod budget;
mod lone_requests;
mod so_far;
mod space;
mod turns;

use super::*;
use crate::{AnyPattern, ChunkRange, OutgoingMessage, ownership::Requester};
use crate::{
    turn::{self, Delegate, Help},
    turn_record::TurnRecord,
    work::MAX_REQUESTS,
};
use proptest::prelude::*;
use protocol::{
    artifact::Artifact,
    envelope::Envelope,
    ids::{Address, Capability, MessageId, TaskId},
    message::{self, Epoch},
    principal::Principal,
    question::{Answer, Question, QuestionKind},
    task::{Status, TaskSpec, TaskTerms},
    time::{NodeTime, WallTime},
    usage::TaskBounds,
};
use serde_json::Map;

type What = EventKind;

const FIRST: RequestKey = RequestKey(1, 0);
const SECOND: RequestKey = RequestKey(1, 1);

fn id(text: &str) -> AgentId {
    AgentId::parse(text).unwrap()
}

fn spec() -> TaskSpec {
    let terms = TaskTerms::new("build it");
    let spec = TaskSpec::new(TaskId::parse("t-1").unwrap(), terms, Principal::local_user());
    TaskSpec { path: vec![id("manager")], ..spec }
}

/// The answers that are recorded for later turns.
fn answers(effects: &[Effect]) -> Vec<&RequestResult> {
    let mut answers = Vec::new();
    for effect in effects {
        if let Effect::Record { record: TurnRecord::Answer(answer), .. } = effect {
            answers.push(answer);
        }
    }
    answers
}

fn requester(epoch: Option<Epoch>) -> Requester {
    Requester { agent: id("manager"), conversation: None, message: MessageId::parse("m-1").unwrap(), epoch }
}

fn doer(epoch: Option<Epoch>) -> Doing {
    let lease = epoch.map(|_| Duration::from_secs(30));
    Doing::new(
        id("builder"),
        TaskOwnership::new(spec(), Some(requester(epoch))),
        lease,
        WorkLimits::default(),
    )
}

fn event(at: u64, what: What) -> Event {
    Event { at: NodeTime(at), wall: WallTime(i64::try_from(at).unwrap()), what }
}

fn thought(turn: u32, updates: Vec<Progress>, end: TurnEnd) -> What {
    EventKind::TurnEnded { turn, updates, end }
}

fn done(message: &str) -> TurnEnd {
    TurnEnd::Done { message: Some(message.into()) }
}

fn help(id: &str) -> Progress {
    let capability = Capability::parse("code-review").unwrap();
    Progress::Help(Help {
        id: id.into(),
        to: Address::Capability(capability),
        question: "is it good?".into(),
        artifacts: vec!["a.rs".into()],
        budget: Default::default(),
        wait: true,
    })
}

fn delegate(id: &str) -> Progress {
    let to = Address::Capability(Capability::parse("implement-api").unwrap());
    Progress::Delegate(Delegate {
        id: id.into(),
        to,
        capability: None,
        description: "do it".into(),
        input: None,
        artifacts: Vec::new(),
        budget: Default::default(),
        hand_on: false,
        wait: true,
    })
}

/// What the owner says, as an A2A message.
fn said(text: &str) -> What {
    let message = Message::text("m-2", protocol::a2a::message::Role::User, text);
    EventKind::Answered {
        by: Principal::local_user(),
        question: None,
        answer: Answer::text(text),
        message: Some(Box::new(message)),
    }
}

fn sent_messages(effects: &[Effect]) -> Vec<&OutgoingMessage> {
    effects
        .iter()
        .filter_map(|effect| if let Effect::Send(message) = effect { Some(message) } else { None })
        .collect()
}

fn failure(effects: &[Effect]) -> Option<String> {
    effects.iter().find_map(|effect| {
        let Effect::Finish(outcome) = effect else { return None };
        outcome.status.message.clone().filter(|_| outcome.status.state == TaskState::Failed)
    })
}

fn finishes(effects: &[Effect]) -> Vec<TaskState> {
    let state = |effect: &Effect| {
        if let Effect::Finish(outcome) = effect { Some(outcome.status.state) } else { None }
    };
    effects.iter().filter_map(state).collect()
}

fn received(by: &str, answers: Option<RequestKey>, payload: Payload) -> What {
    let envelope = Envelope {
        message_id: MessageId::parse("x").unwrap(),
        from_agent_id: id(by),
        to_agent_id: Address::Agent(id("builder")),
        payload,
        timestamp: None,
        conversation_id: None,
        thread_id: None,
        space_id: None,
        in_reply_to: None,
        reply_conversation_id: None,
        reply_to: None,
        expires_at: None,
        path: Vec::new(),
        extra: Map::new(),
    };
    EventKind::MessageReceived {
        by: Principal::Agent(id(by)),
        answers: answers.map(Label::Request),
        envelope: Box::new(envelope),
    }
}

fn help_response(text: &str) -> Payload {
    let answer = Some(text.to_owned());
    Payload::HelpResponse(message::HelpResponse {
        answer,
        declined: None,
        artifacts: Vec::new(),
        usage: Default::default(),
        extra: Map::new(),
    })
}

#[test]
fn a_node_that_leaves_hands_an_award_back_and_keeps_what_is_its_own() {
    let leaving = || event(5, EventKind::Draining { reason: Some("leaving".into()), away_ms: None });
    let mut awarded = doer(Some(7));
    awarded.on(&event(1, EventKind::Started));
    let effects = awarded.on(&leaving());
    assert!(effects.contains(&Effect::StopTurn), "{effects:?}");
    let declined = effects.iter().any(|effect| {
        matches!(effect, Effect::Send(OutgoingMessage { payload: Payload::AwardDecline(decline), .. })
            if decline.epoch == 7 && decline.reason == "leaving")
    });
    assert!(declined, "{effects:?}");
    assert_eq!(awarded.view().work, None);
    assert!(awarded.on(&leaving()).is_empty(), "once");

    let mut own = doer(None);
    own.on(&event(1, EventKind::Started));
    assert!(own.on(&leaving()).is_empty());
    assert_eq!(own.view().work, Some(WorkPhase::Active), "it goes on at the next start");
    let effects = own.on(&event(6, thought(1, Vec::new(), done("built"))));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Finish(_))), "{effects:?}");
}

#[test]
fn a_task_done_at_once_ends_with_its_artifacts_and_tells_the_asker() {
    let mut doer = doer(None);
    doer.on(&event(1, EventKind::Started));
    let artifact = Artifact::text("a.rs", "text/x-rust", "fn main() {}");
    let update = Progress::Artifact { artifact, append: false, last_chunk: true };
    let effects = doer.on(&event(2, thought(1, vec![update], done("built"))));
    assert_eq!(finishes(&effects), [TaskState::Completed]);
    let sent = sent_messages(&effects);
    let kinds: Vec<_> = sent.iter().map(|message| message.payload.kind().wire()).collect();
    assert_eq!(kinds, ["task-response"], "who delegates gets the artifacts with the response");
    assert_eq!(sent[0].recorded.as_ref().unwrap().chunks, ChunkRange { from: 0, to: 1 });
}

#[test]
fn done_without_a_result_is_a_failure() {
    let mut doer = doer(None);
    doer.on(&event(1, EventKind::Started));
    let effects = doer.on(&event(2, thought(1, Vec::new(), TurnEnd::Done { message: None })));
    assert_eq!(finishes(&effects), [TaskState::Failed]);
}

#[test]
fn what_was_asked_comes_back_with_the_next_turn() {
    let mut doer = doer(None);
    doer.on(&event(1, EventKind::Started));
    let effects = doer.on(&event(2, thought(1, vec![help("h1"), help("h2")], TurnEnd::Waiting)));
    let labels: Vec<_> = sent_messages(&effects).iter().map(|message| message.label).collect();
    assert_eq!(labels, [Label::Request(FIRST), Label::Request(SECOND)]);
    assert!(doer.on(&event(3, received("reviewer", Some(SECOND), help_response("second")))).is_empty());
    let effects = doer.on(&event(4, received("reviewer", Some(FIRST), help_response("first"))));
    let answers: Vec<_> =
        answers(&effects).iter().map(|reply| (&*reply.id, &*reply.text, reply.for_turn)).collect();
    assert_eq!(answers, [("h1", "first", 2), ("h2", "second", 2)]);
    assert!(effects.iter().any(|effect| {
        matches!(effect, Effect::RunTurn { turn: 2, input: TurnInput { answers: 2, .. }, .. })
    }));
}

#[test]
fn the_id_of_an_earlier_turn_is_refused_for_another_request_and_not_asked_twice_for_the_same() {
    let mut doer = doer(None);
    doer.on(&event(1, EventKind::Started));
    doer.on(&event(2, thought(1, vec![help("h1")], TurnEnd::Waiting)));
    doer.on(&event(3, received("reviewer", Some(FIRST), help_response("yes"))));

    let effects = doer.clone().on(&event(4, thought(2, vec![delegate("h1")], TurnEnd::Waiting)));
    let why = last_status(&effects).unwrap().message.unwrap();
    assert!(why.contains("request id \"h1\": turn 1 has used it"), "{why}");

    let effects = doer.clone().on(&event(4, thought(2, vec![help("h1")], TurnEnd::Waiting)));
    assert!(sent_messages(&effects).iter().all(|sent| sent.label == Label::Response), "{effects:?}");
    let why = last_status(&effects).unwrap().message.unwrap();
    assert!(why.contains("request \"h1\" has its answer in `answers`"), "{why}");

    let effects = doer.on(&event(4, thought(2, vec![help("h1"), help("h2")], TurnEnd::Waiting)));
    let labels: Vec<_> = sent_messages(&effects).iter().map(|message| message.label).collect();
    assert_eq!(labels, [Label::Request(RequestKey(2, 0))]);
}

#[test]
fn the_id_of_a_question_is_not_used_for_anything_else() {
    let ask = |text: &str| Progress::Question(Question::new("q", text));
    let mut doer = doer(None);
    doer.on(&event(1, EventKind::Started));
    doer.on(&event(2, thought(1, vec![ask("red?")], TurnEnd::Waiting)));
    let (by, answer) = (Principal::local_user(), Answer::text("no"));
    doer.on(&event(3, EventKind::Answered { by, question: None, answer, message: None }));
    for other in [ask("blue?"), delegate("q")] {
        let why = failure(&doer.clone().on(&event(4, thought(2, vec![other], TurnEnd::Waiting)))).unwrap();
        assert!(why.contains("request id \"q\": turn 1 has used it"), "{why}");
    }
    let Progress::Question(question) = ask("red?") else { unreachable!() };
    let later = Question { expires_at: Some(WallTime(9)), ..question };
    let effects = doer.on(&event(4, thought(2, vec![Progress::Question(later)], TurnEnd::Waiting)));
    let asks = effects.iter().any(|effect| matches!(effect, Effect::AskPerson { .. }));
    assert!(asks, "the same question again: {effects:?}");
}

#[test]
fn an_id_of_the_same_turn_is_refused_for_another_request() {
    let at_once = |id: &str| {
        let Progress::Delegate(Delegate {
            id, to, capability, description, input, artifacts, budget, ..
        }) = delegate(id)
        else {
            unreachable!()
        };
        Progress::Delegate(Delegate {
            id,
            to,
            capability,
            description,
            input,
            artifacts,
            budget,
            hand_on: false,
            wait: false,
        })
    };
    for first in [at_once("a"), delegate("a")] {
        let mut doer = doer(None);
        doer.on(&event(1, EventKind::Started));
        doer.on(&event(2, EventKind::TurnProgress { turn: 1, updates: vec![first] }));
        let why = failure(&doer.clone().on(&event(3, thought(1, vec![help("a")], TurnEnd::Waiting))));
        assert!(why.is_some_and(|why| why.contains("turn 1 has used it for another request")));
        let effects = doer.on(&event(3, thought(1, vec![delegate("a")], TurnEnd::Waiting)));
        assert!(failure(&effects).is_none() && sent_messages(&effects).len() <= 1, "{effects:?}");
    }
}

#[test]
fn an_unanswered_request_expires_and_the_brain_gets_the_failure() {
    let mut doer = doer(None);
    doer.on(&event(1, EventKind::Started));
    doer.on(&event(2, thought(1, vec![help("h1")], TurnEnd::Waiting)));
    let effects = doer.on(&event(200_000, EventKind::TimerFired { timer: Timer::Request(FIRST) }));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::RunTurn { turn: 2, .. })));
    assert!(!answers(&effects)[0].ok);
}

#[test]
fn only_whoever_was_asked_can_answer_for_a_delegated_task() {
    let mut doer = doer(None);
    doer.on(&event(1, EventKind::Started));
    let effects = doer.on(&event(2, thought(1, vec![delegate("d1")], TurnEnd::Waiting)));
    let child = sent_messages(&effects)[0].payload.task_id().unwrap().clone();
    let response = |task_id| {
        let artifacts = vec![Artifact::text("a", "text/plain", "x")];
        let state = TaskState::Completed;
        Payload::TaskResponse(message::TaskResponse {
            seat: None,
            handed_on: None,
            task_id,
            seq: 1,
            state,
            epoch: None,
            doer: None,
            artifacts,
            chunks: None,
            message: None,
            lasting: false,
            usage: Default::default(),
            extra: Map::new(),
        })
    };
    assert!(doer.on(&event(3, received("stranger", Some(FIRST), response(child.clone())))).is_empty());
    let effects = doer.on(&event(4, received("builder", None, response(child))));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::RunTurn { turn: 2, .. })));
}

#[test]
fn a_cancel_stops_the_brain_and_everyone_who_works_for_the_task() {
    let mut doer = doer(Some(7));
    doer.on(&event(1, EventKind::Started));
    doer.on(&event(2, thought(1, vec![delegate("d1")], TurnEnd::Waiting)));
    let effects =
        doer.on(&event(3, EventKind::Cancelled { by: Principal::local_user(), reason: "enough".into() }));
    assert!(
        sent_messages(&effects)
            .iter()
            .any(|message| message.payload.kind() == message::MessageKind::TaskCancel)
    );
    assert_eq!(finishes(&effects), [TaskState::Canceled]);
}

#[test]
fn a_cancel_of_an_older_award_changes_nothing() {
    let mut doer = doer(Some(7));
    doer.on(&event(1, EventKind::Started));
    let cancel = |epoch| {
        let task_id = TaskId::parse("t-1").unwrap();
        Payload::TaskCancel(message::TaskCancel {
            task_id,
            reason: None,
            epoch: Some(epoch),
            extra: Map::new(),
        })
    };
    assert!(doer.on(&event(2, received("manager", None, cancel(3)))).is_empty());
    assert!(doer.on(&event(3, received("stranger", None, cancel(7)))).is_empty());
    assert_eq!(finishes(&doer.on(&event(4, received("manager", None, cancel(7))))), [TaskState::Canceled]);
}

#[test]
fn an_award_is_accepted_and_reports_renew_its_lease() {
    let mut doer = doer(Some(7));
    let effects = doer.on(&event(1, EventKind::Started));
    assert!(
        sent_messages(&effects)
            .iter()
            .any(|message| matches!(&message.payload, Payload::AwardAccept(accept) if accept.epoch == 7))
    );
    let effects = doer.on(&event(10_001, EventKind::TimerFired { timer: Timer::Renew }));
    assert!(
        sent_messages(&effects).iter().any(
            |message| matches!(&message.payload, Payload::TaskUpdate(update) if update.epoch == Some(7))
        )
    );
    assert!(effects.iter().any(|effect| matches!(effect, Effect::SetTimer { .. })));
}

fn refused(label: Label) -> Event {
    let (to, reason, message) = (id("manager"), "fenced".to_owned(), "a later award is in force".to_owned());
    event(4, EventKind::Undelivered { label, to, reason, message })
}

fn last_status(effects: &[Effect]) -> Option<Status> {
    let Some(Effect::Finish(outcome)) = effects.last() else { return None };
    Some(outcome.status.clone())
}

#[test]
fn awarded_work_ends_when_its_manager_has_the_result() {
    let mut doer = doer(Some(7));
    doer.on(&event(1, EventKind::Started));
    let effects = doer.on(&event(2, thought(1, Vec::new(), done("ok"))));
    assert!(matches!(&sent_messages(&effects)[0].payload, Payload::TaskResponse(_)));
    assert_eq!(
        (finishes(&effects), doer.view().work.is_some(), doer.view().is_closing),
        (vec![], false, true)
    );
    let (delivered, by) = (|label, by| EventKind::Delivered { label, by }, id("manager"));
    assert_eq!(doer.on(&event(3, delivered(Label::Accept, by.clone()))), []);
    let effects = doer.clone().on(&event(3, delivered(Label::Response, by)));
    assert_eq!(finishes(&effects), [TaskState::Completed]);

    let status = last_status(&doer.clone().on(&refused(Label::Response))).unwrap();
    let superseded = Status::new(TaskState::Canceled, "superseded: a later award is in force");
    assert_eq!(status, superseded);
    let cancel = serde_json::json!({ "taskId": "t-1", "epoch": 7, "reason": "superseded: too slow" });
    let cancel = Payload::parse(MessageKind::TaskCancel, cancel.as_object().unwrap().clone()).unwrap();
    let status = last_status(&doer.on(&event(3, received("manager", None, cancel)))).unwrap();
    assert_eq!(status, Status::new(TaskState::Canceled, "superseded: too slow"));
}

/// Awarded work with one artifact that has ended; its response and its report are on the way.
fn doer_with_report_on_the_way() -> Doing {
    let mut doer = doer(Some(7));
    doer.on(&event(1, EventKind::Started));
    let artifact = Artifact::text("a", "text/plain", "x");
    let updates = vec![Progress::Artifact { artifact, append: false, last_chunk: true }];
    let effects = doer.on(&event(2, thought(1, updates, done("ok"))));
    let labels: Vec<_> = sent_messages(&effects).iter().map(|message| message.label).collect();
    assert_eq!(labels, [Label::Chunks, Label::Response]);
    doer
}

fn delivered(label: Label) -> Event {
    event(3, EventKind::Delivered { label, by: id("manager") })
}

#[test]
fn awarded_work_ends_when_its_manager_has_the_reports_too() {
    let mut doer = doer_with_report_on_the_way();
    let mut overtaken = doer.clone();
    assert_eq!(finishes(&overtaken.on(&delivered(Label::Response))), []);
    assert!(overtaken.view().is_closing);
    let effects = overtaken.on(&delivered(Label::Chunks));
    assert_eq!((finishes(&effects), overtaken.view().is_closing), (vec![TaskState::Completed], false));

    assert_eq!(finishes(&doer.on(&delivered(Label::Chunks))), []);
    assert_eq!(finishes(&doer.on(&delivered(Label::Response))), [TaskState::Completed]);
}

#[test]
fn awarded_work_whose_report_is_lost_ends_when_its_manager_has_the_whole_result() {
    let mut doer = doer_with_report_on_the_way();
    let mut fenced = doer.clone();
    assert_eq!(finishes(&fenced.on(&refused(Label::Chunks))), [TaskState::Canceled]);

    doer.on(&delivered(Label::Response));
    let (to, reason, message) = (id("manager"), "refused".to_owned(), "no".to_owned());
    let lost = EventKind::Undelivered { label: Label::Chunks, to, reason, message };
    let effects = doer.on(&event(4, lost));
    let [response] = sent_messages(&effects)[..] else { panic!("{effects:?}") };
    assert_eq!(response.recorded.as_ref().unwrap().chunks, ChunkRange { from: 0, to: 1 });
    assert_eq!((finishes(&effects), doer.view().is_closing), (vec![], true));
    assert_eq!(finishes(&doer.on(&delivered(Label::Response))), [TaskState::Completed]);
}

#[test]
fn a_fenced_report_stops_the_brain_and_the_task_is_superseded() {
    let mut doer = doer(Some(7));
    doer.on(&event(1, EventKind::Started));
    let effects = doer.on(&refused(Label::Update));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::StopTurn)), "{effects:?}");
    assert_eq!(sent_messages(&effects), Vec::<&OutgoingMessage>::new());
    assert_eq!(
        last_status(&effects).unwrap(),
        Status::new(TaskState::Canceled, "superseded: a later award is in force")
    );
}

#[test]
fn two_offers_of_a_brain_are_two_tasks() {
    let offer = |text: &str| Progress::Signal {
        signal: SignalType::task_available(),
        subject: Some(text.to_owned()),
        capability: None,
        refs: Map::new(),
    };
    let mut doer = doer(None);
    doer.on(&event(1, EventKind::Started));
    let updates = vec![offer("dig"), offer("fill")];
    let effects = doer.on(&event(2, EventKind::TurnProgress { turn: 1, updates }));
    let signals = effects.into_iter().enumerate().filter_map(|(at, effect)| {
        let Effect::Publish { signal } = effect else { return None };
        Some(signal.signed(format!("builder:c:2:{at}"), id("builder"), WallTime(0)))
    });
    let signals: Vec<_> = signals.collect();
    let [dig, fill] = signals.as_slice() else { panic!("{signals:?}") };
    assert!(dig.task_id.is_some() && dig.task_id != fill.task_id);
    assert!(signals.iter().all(|signal| signal.refs[PARENT_TASK] == "t-1"));
}

fn any_event() -> impl Strategy<Value = What> {
    let turn = 0u32..4;
    let key = prop_oneof![Just(FIRST), Just(SECOND), Just(RequestKey(2, 0))];
    let timer = prop_oneof![
        2 => key.clone().prop_map(Timer::Request),
        1 => Just(Timer::Renew),
        1 => Just(Timer::Deadline),
        2 => Just(Timer::Resume),
    ];
    let label = prop_oneof![
        2 => key.clone().prop_map(Label::Request),
        1 => Just(Label::Response),
        1 => Just(Label::Withdraw),
    ];
    let updates = proptest::collection::vec(
        prop_oneof![
            Just(help("h")),
            Just(delegate("d")),
            Just(Progress::Question(Question::new("q", "which?"))),
            Just(Progress::Status { message: "on it".into() }),
            Just(Progress::Checkpoint(turn::Checkpoint {
                data: "so far".into(),
                replace: false,
                summary: None
            })),
            Just(Progress::Artifact {
                artifact: Artifact::text("a", "text/plain", "x"),
                append: true,
                last_chunk: false
            }),
        ],
        0..3,
    );
    let end = prop_oneof![
        Just(TurnEnd::Waiting),
        Just(done("ok")),
        Just(TurnEnd::Done { message: None }),
        Just(TurnEnd::Failed { reason: "no".into() }),
        Just(TurnEnd::LastingFailure { reason: "never".into() }),
        Just(TurnEnd::Pause { after_ms: 50, reason: "429".into() })
    ];
    prop_oneof![
        Just(EventKind::Started),
        (turn.clone(), updates.clone()).prop_map(|(turn, updates)| EventKind::TurnProgress { turn, updates }),
        (turn.clone(), updates, end).prop_map(|(turn, updates, end)| thought(turn, updates, end)),
        turn.prop_map(|turn| EventKind::TurnFailed { turn, reason: "died".into() }),
        timer.prop_map(|timer| EventKind::TimerFired { timer }),
        label.prop_map(|label| EventKind::Undelivered {
            label,
            to: id("reviewer"),
            reason: "expired".into(),
            message: "expired".into()
        }),
        key.prop_map(|key| received("reviewer", Some(key), help_response("fine"))),
        Just(EventKind::Answered {
            by: Principal::local_user(),
            question: None,
            answer: Answer::text("this"),
            message: None
        }),
        Just(EventKind::Published { revision: 3 }),
        Just(EventKind::Claimed { holder: id("x"), epoch: 3 }),
    ]
}

proptest! {
    #[test]
    fn it_ends_at_most_once_and_then_says_nothing_more(events in proptest::collection::vec(any_event(), 0..60), epoch in proptest::option::of(1u64..9)) {
        let mut doer = doer(epoch);
        let mut ended = false;
        for (at, what) in std::iter::once(EventKind::Started).chain(events).enumerate() {
            let effects = doer.on(&event(at as u64, what));
            prop_assert!(!ended || effects.is_empty());
            let ends = finishes(&effects).len();
            prop_assert!(ends <= 1);
            ended |= ends == 1;
        }
    }

    #[test]
    fn its_state_survives_its_text_at_any_point(events in proptest::collection::vec(any_event(), 0..30)) {
        let mut whole = doer(Some(3));
        let mut broken = doer(Some(3));
        for (at, what) in std::iter::once(EventKind::Started).chain(events).enumerate() {
            broken = serde_json::from_str(&serde_json::to_string(&broken).unwrap()).unwrap();
            let event = event(at as u64, what);
            prop_assert_eq!(whole.on(&event), broken.on(&event));
        }
        prop_assert_eq!(whole, broken);
    }

    #[test]
    fn a_waiting_turn_always_ends_when_its_timers_go_off(asks in proptest::collection::vec(prop_oneof![Just(help("h")), Just(delegate("d"))], 1..6)) {
        let mut doer = doer(None);
        doer.on(&event(1, EventKind::Started));
        let effects = doer.on(&event(2, thought(1, asks, TurnEnd::Waiting)));
        let timers: Vec<_> = effects.iter().filter_map(|effect| if let Effect::SetTimer { timer, .. } = effect { Some(*timer) } else { None }).collect();
        let woken: Vec<_> = timers.into_iter().flat_map(|timer| doer.on(&event(9, EventKind::TimerFired { timer }))).collect();
        let goes_on = woken.iter().any(|effect| matches!(effect, Effect::RunTurn { turn: 2, .. }));
        prop_assert!(goes_on);
    }
}

#[test]
fn chunks_of_one_artifact_are_shown_in_order() {
    let mut doer = doer(None);
    doer.on(&event(1, EventKind::Started));
    let chunk = |text: &str, append| Progress::Artifact {
        artifact: Artifact::text("a", "text/plain", text),
        append,
        last_chunk: false,
    };
    let updates = vec![chunk("one ", false), chunk("two", true)];
    let shown = doer.on(&event(2, EventKind::TurnProgress { turn: 1, updates }));
    let numbers = shown.iter().filter_map(|effect| {
        if let Effect::Update(Update::Artifact { number, chunk }) = effect {
            Some((*number, chunk.artifact.as_text()))
        } else {
            None
        }
    });
    assert_eq!(numbers.collect::<Vec<_>>(), [(0, "one ".to_owned()), (1, "two".to_owned())]);
    let effects = doer.on(&event(3, thought(1, Vec::new(), done("ok"))));
    let Some(Effect::Finish(outcome)) = effects.last() else { panic!("it ends") };
    assert_eq!(outcome.chunks, ChunkRange { from: 0, to: 2 });
    assert!(!effects.iter().any(|effect| matches!(
        effect,
        Effect::Update(Update::Status(Status { state: TaskState::Failed, .. }))
    )));
}

#[test]
fn a_result_refused_for_good_is_a_failure_towards_the_asker_and_no_silence() {
    for reason in ["payload_too_large", "invalid_field", "too_many_hops"] {
        refused_for_good(reason);
    }
}

fn refused_for_good(for_good: &str) {
    let mut doer = doer(Some(7));
    doer.on(&event(1, EventKind::Started));
    let artifact = Artifact::text("a", "text/plain", "x");
    doer.on(&event(
        2,
        thought(1, vec![Progress::Artifact { artifact, append: false, last_chunk: true }], done("ok")),
    ));
    let refused = |reason: &str| {
        let (label, to, reason) = (Label::Response, id("manager"), reason.to_owned());
        event(3, EventKind::Undelivered { label, to, reason, message: "300000 bytes".into() })
    };
    let effects = doer.clone().on(&refused("agent_not_found"));
    assert_eq!((effects.len(), finishes(&effects)), (1, vec![TaskState::Completed]));
    let effects = doer.on(&refused(for_good));
    assert_eq!(finishes(&effects), [TaskState::Completed]);
    assert!(
        matches!(&sent_messages(&effects)[0].payload, Payload::TaskResponse(response) if response.state == TaskState::Failed)
    );
    assert!(doer.on(&refused(for_good)).is_empty());
}

#[test]
fn a_turn_that_asks_too_much_fails_visibly() {
    let asks = |count: usize| (0..count).map(|at| help(&format!("h{at}"))).collect::<Vec<_>>();
    for (count, states) in
        [(MAX_REQUESTS, vec![]), (MAX_REQUESTS + 1, vec![TaskState::Failed]), (100, vec![TaskState::Failed])]
    {
        let mut doer = doer(None);
        doer.on(&event(1, EventKind::Started));
        let effects = doer.on(&event(2, thought(1, asks(count), TurnEnd::Waiting)));
        assert_eq!(finishes(&effects), states, "{count}");
    }
}

#[test]
fn only_the_requester_answers_a_question_and_only_by_a_task_answer() {
    let mut doer = doer(Some(7));
    doer.on(&event(1, EventKind::Started));
    let question = Progress::Question(Question::new("q", "which?"));
    doer.on(&event(2, thought(1, vec![question], TurnEnd::Waiting)));
    let answer = |epoch| {
        let task_id = TaskId::parse("t-1").unwrap();
        let said = Answer::text("the blue one");
        Payload::TaskAnswer(message::TaskAnswer::new(task_id, epoch, None, &said, None))
    };
    let stray = serde_json::json!({ "taskId": "t-1", "seq": 0, "epoch": 7, "answer": "the red one" });
    let stray = Payload::parse(MessageKind::TaskUpdate, stray.as_object().unwrap().clone()).unwrap();
    for (by, payload) in [("stranger", answer(Some(7))), ("manager", answer(Some(3))), ("manager", stray)] {
        assert_eq!(doer.on(&event(3, received(by, None, payload))), []);
    }
    let effects = doer.on(&event(4, received("manager", None, answer(Some(7)))));
    assert_eq!(answers(&effects)[0].text, "the blue one");
}

fn own(auction: Auction) -> Doing {
    let mut spec = spec();
    spec.terms.capability = Some(Capability::parse("implement-api").unwrap());
    let ownership = TaskOwnership::new(spec, Some(requester(None)));
    Doing::new(id("builder"), ownership, None, WorkLimits::default()).with_auction(auction)
}

#[test]
fn work_whose_brain_crashes_is_offered_to_others_and_theirs_is_the_result() {
    let mut work = AnyPattern::from(own(Auction { rounds: 7, ..Auction::default() }));
    work.on(&event(1, EventKind::Started));
    let effects = work.on(&event(2, EventKind::TurnFailed { turn: 1, reason: "exit status 1".into() }));
    assert!(finishes(&effects).is_empty(), "{effects:?}");
    let is_hand_on = |effect: &Effect| matches!(effect, Effect::HandOn(_));
    assert_eq!(effects.iter().filter(|effect| is_hand_on(effect)).count(), 1);
    let label = |effect: &Effect| {
        if let Effect::FindPeers { label, .. } = effect { Some(*label) } else { None }
    };
    let search = effects.iter().find_map(label);
    assert_eq!((work.name(), work.view().work), ("contract-net", None), "its place is free");
    let found = EventKind::PeersFound { label: search.unwrap(), candidates: Vec::new(), nearest: None };
    let mut alone = work.clone();
    assert_eq!(finishes(&alone.on(&event(3, found))), [TaskState::Failed]);
    let cancel = EventKind::Cancelled { by: Principal::local_user(), reason: "enough".into() };
    assert_eq!(finishes(&work.on(&event(3, cancel))), [TaskState::Canceled]);
    assert!(work.view().award.is_some());
}

#[test]
fn a_brain_that_says_no_or_works_under_an_award_is_not_replaced() {
    let says_no = thought(1, Vec::new(), TurnEnd::Failed { reason: "it can't be done".into() });
    let mut doer_of_own = own(Auction::default());
    doer_of_own.on(&event(1, EventKind::Started));
    assert_eq!(finishes(&doer_of_own.on(&event(2, says_no))), [TaskState::Failed]);
    let mut awarded = doer(Some(7));
    awarded.on(&event(1, EventKind::Started));
    let crashes = EventKind::TurnFailed { turn: 1, reason: "exit status 1".into() };
    let effects = awarded.on(&event(2, crashes));
    let is_search = |effect: &Effect| matches!(effect, Effect::FindPeers { .. });
    assert!(awarded.view().is_closing && !effects.iter().any(is_search), "its manager decides: {effects:?}");
}

#[test]
fn the_response_says_whether_a_failure_is_lasting() {
    let reason = || "the provider answered 401".to_owned();
    for (end, lasting) in [
        (TurnEnd::Failed { reason: reason() }, false),
        (TurnEnd::LastingFailure { reason: reason() }, true),
        (TurnEnd::Rejected { reason: reason() }, false),
    ] {
        let mut doer = doer(Some(7));
        doer.on(&event(1, EventKind::Started));
        let effects = doer.on(&event(2, thought(1, Vec::new(), end)));
        let response = sent_messages(&effects).into_iter().find_map(|message| match &message.payload {
            Payload::TaskResponse(response) => Some(response.clone()),
            _ => None,
        });
        let response = response.unwrap();
        assert_eq!((response.message, response.lasting), (Some(reason()), lasting));
    }
}

#[test]
fn a_queued_task_shows_so_until_its_turn_starts() {
    let state = |effects: &[Effect]| {
        let shown = |effect: &Effect| {
            if let Effect::Update(Update::Status(status)) = effect { Some(status.state) } else { None }
        };
        effects.iter().find_map(shown)
    };
    let mut doer = own(Auction::default()).queued(true);
    assert_eq!(state(&doer.on(&event(1, EventKind::Started))), Some(TaskState::Submitted));
    let started = || event(2, EventKind::TurnStarted { turn: 1, was_held: false });
    assert_eq!(state(&doer.on(&started())), Some(TaskState::Working));
    assert!(doer.on(&started()).is_empty());
}

#[test]
fn what_waits_takes_no_place_and_a_question_is_a_persons() {
    let question = Progress::Question(Question::new("q", "which one?"));
    for (ask, expected) in [(help("h"), WorkPhase::AwaitsAgents), (question, WorkPhase::AwaitsPerson)] {
        let mut doer = doer(None);
        assert_eq!(doer.view().work, Some(WorkPhase::Active));
        doer.on(&event(1, EventKind::Started));
        doer.on(&event(2, thought(1, vec![ask], TurnEnd::Waiting)));
        assert_eq!(doer.view().work, Some(expected));
    }
}

#[test]
fn an_award_without_a_place_is_declined_as_busy() {
    let ownership = TaskOwnership::new(spec(), Some(requester(Some(7))));
    let mut busy = Doing::busy(id("builder"), ownership, Duration::from_millis(800));
    let effects = busy.on(&event(1, EventKind::Started));
    let Payload::AwardDecline(decline) = &sent_messages(&effects)[0].payload else { panic!("{effects:?}") };
    assert_eq!((decline.reason.as_str(), decline.free_in_ms), ("busy", Some(800)));
    assert_eq!(busy.view().work, None);
}
