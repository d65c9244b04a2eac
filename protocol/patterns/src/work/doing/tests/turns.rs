//! Checkpoints, pauses, budgets and questions of turns.

use super::*;
use crate::{ChunkRange, effect::Update, turn::Checkpoint};
use protocol::{
    message::TaskUpdate,
    question::{Decision, OnTimeout},
    usage::{ModelUsage, TaskBounds, Usage},
};

const HOUR_MS: u64 = 3_600_000;

fn started(spec: TaskSpec, bounds: TaskBounds) -> Doing {
    let work_limits = WorkLimits { bounds, ..WorkLimits::default() };
    let ownership = TaskOwnership::new(spec, Some(requester(None)));
    let mut doer = Doing::new(id("builder"), ownership, None, work_limits);
    doer.on(&event(1, EventKind::Started));
    doer
}

fn doer_of(spec: TaskSpec) -> Doing {
    started(spec, TaskBounds::default())
}

fn due_spec() -> TaskSpec {
    let mut spec = spec();
    spec.terms.deadline = Some(WallTime(1_000));
    spec
}

fn progress(update: Progress) -> Event {
    event(2, EventKind::TurnProgress { turn: 1, updates: vec![update] })
}

fn pause(after_ms: u64) -> TurnEnd {
    TurnEnd::Pause { after_ms, reason: "429".into() }
}

fn resumes() -> What {
    EventKind::TimerFired { timer: Timer::Resume }
}

/// The last status that is shown, with its message and its open questions.
fn status(effects: &[Effect]) -> Status {
    let status = |effect: &Effect| {
        if let Effect::Update(Update::Status(status)) = effect { Some(status.clone()) } else { None }
    };
    effects.iter().rev().find_map(status).expect("a status")
}

fn begins_turn(effects: &[Effect]) -> Option<(u32, TurnInput)> {
    effects.iter().find_map(|effect| {
        if let Effect::RunTurn { turn, input, .. } = effect { Some((*turn, *input)) } else { None }
    })
}

fn answered(question: &str, answer: Answer) -> What {
    let question = Some(QuestionId::parse(question).unwrap());
    EventKind::Answered { by: Principal::local_user(), question, answer, message: None }
}

fn decided(question: &str, decision: Decision) -> What {
    answered(question, Answer::decide(decision, None))
}

#[test]
fn a_checkpoint_that_replaces_makes_earlier_ones_obsolete() {
    let mut doer = doer_of(spec());
    let mut checkpoint = |data: &str, replace| {
        let checkpoint = Checkpoint { data: data.into(), replace, summary: None };
        let effects = doer.on(&progress(Progress::Checkpoint(checkpoint)));
        (effects, doer.view().turn.checkpoints)
    };
    let (effects, range) = checkpoint("a", false);
    assert!(matches!(&effects[..], [Effect::Record { number: 0, .. }]), "{effects:?}");
    assert_eq!(range, ChunkRange { from: 0, to: 1 });
    checkpoint("b", false);
    assert_eq!(checkpoint("c", true).1, ChunkRange { from: 2, to: 3 });
    let large = "x".repeat(turn::MAX_CHECKPOINT_BYTES / 2);
    assert_eq!(failure(&checkpoint(&large, false).0), None);
    assert_eq!(failure(&checkpoint(&large, true).0), None, "the earlier ones no longer count");
    let why = failure(&checkpoint(&large, false).0).unwrap();
    assert!(why.contains("`replace`"), "{why}");
}

#[test]
fn a_paused_turn_takes_no_place_and_goes_on_with_what_has_come_since() {
    let mut doer = doer_of(spec());
    let effects = doer.on(&event(1_000, thought(1, Vec::new(), pause(30_000))));
    let when = TimerAt::Wall(WallTime(31_000));
    assert!(effects.contains(&Effect::SetTimer { timer: Timer::Resume, when }));
    let shown = status(&effects);
    assert!(shown.state == TaskState::Working && shown.message.unwrap().ends_with("429"));
    assert_eq!(doer.view().work, Some(WorkPhase::Paused));
    assert_eq!(begins_turn(&doer.on(&event(2_000, said("and in blue")))), None, "it is still paused");
    let effects = doer.on(&event(31_000, resumes()));
    let messages = ChunkRange { from: 0, to: 1 };
    assert_eq!(
        begins_turn(&effects),
        Some((1, TurnInput { messages, ..TurnInput::default() })),
        "the same turn"
    );
    assert_eq!(doer.view().work, Some(WorkPhase::Active));
    assert!(doer.on(&event(31_001, resumes())).is_empty(), "once");
}

#[test]
fn what_the_owner_says_to_a_working_task_has_a_turn_before_the_task_ends() {
    let ends = [done("built"), TurnEnd::Message { text: "built".into() }, TurnEnd::Done { message: None }];
    for end in ends {
        let mut doer = doer_of(spec());
        doer.on(&event(2, said("in blue")));
        doer.on(&event(3, said("and small")));
        let effects = doer.on(&event(4, thought(1, Vec::new(), end.clone())));
        assert!(finishes(&effects).is_empty(), "{end:?}: {effects:?}");
        let messages = ChunkRange { from: 0, to: 2 };
        assert_eq!(begins_turn(&effects), Some((2, TurnInput { messages, ..TurnInput::default() })));
        let effects = doer.on(&event(5, thought(2, Vec::new(), done("built in blue"))));
        assert_eq!(finishes(&effects), [TaskState::Completed], "one turn for both");
    }
}

#[test]
fn the_last_turn_ends_the_task_whatever_was_said() {
    let mut doer = started(spec(), TaskBounds { turns: Some(1), ..TaskBounds::default() });
    doer.on(&event(2, said("in blue")));
    assert_eq!(finishes(&doer.on(&event(3, thought(1, Vec::new(), done("built"))))), [TaskState::Completed]);
}

#[test]
fn the_pause_of_a_doer_is_shown_by_a_task_that_only_waits_for_it() {
    let ask = |wait| {
        Progress::Delegate(Delegate {
            id: "d".into(),
            to: Address::Agent(id("digger")),
            capability: None,
            description: "dig".into(),
            input: None,
            artifacts: Vec::new(),
            budget: Default::default(),
            hand_on: false,
            wait,
        })
    };
    let report = |effects: &[Effect], message: &str, is_pause: bool| {
        let task = sent_messages(effects).into_iter().find_map(|message| message.payload.task_id().cloned());
        let status = Status { is_pause, ..Status::new(TaskState::Working, message) };
        let update = TaskUpdate { status: Some(status), ..TaskUpdate::new(task.unwrap(), 1, None) };
        event(4, received("digger", None, Payload::TaskUpdate(update)))
    };
    let mut waits = doer_of(spec());
    let effects = waits.on(&event(2, thought(1, vec![ask(true)], TurnEnd::Waiting)));
    let shown = status(&waits.on(&report(&effects, "half way", false)));
    assert_eq!((shown.message.as_deref(), shown.is_pause), (Some("digger: half way"), false));
    let shown = status(&waits.on(&report(&effects, "digger pauses", true)));
    assert_eq!((shown.message.as_deref(), shown.is_pause), (Some("digger pauses"), true));

    let mut works = doer_of(spec());
    let effects = works.on(&progress(ask(false)));
    let shown = status(&works.on(&report(&effects, "digger pauses", true)));
    assert_eq!(
        (shown.message.as_deref(), shown.is_pause),
        (Some("digger pauses"), false),
        "its own turn goes on"
    );
}

#[test]
fn what_a_paused_turn_has_asked_is_asked_again() {
    let mut doer = doer_of(spec());
    let effects = doer.on(&event(2, thought(1, vec![help("h")], pause(1_000))));
    assert_eq!(doer.view().work, Some(WorkPhase::Paused), "{effects:?}");
    doer.on(&event(1_002, resumes()));
    let effects = doer.on(&event(1_003, thought(1, vec![help("h2")], TurnEnd::Waiting)));
    let sent = effects.iter().filter(|effect| matches!(effect, Effect::Send(_))).count();
    assert_eq!(sent, 1, "{effects:?}");
}

#[test]
fn pauses_end_at_the_deadline_or_else_after_a_day() {
    let mut doer = doer_of(spec());
    for hour in 0..24 {
        let effects = doer.on(&event(hour * HOUR_MS, thought(1, Vec::new(), pause(HOUR_MS))));
        assert_eq!(failure(&effects), None, "hour {hour}");
        doer.on(&event((hour + 1) * HOUR_MS, resumes()));
    }
    let why = failure(&doer.on(&event(25 * HOUR_MS, thought(1, Vec::new(), pause(1))))).unwrap();
    assert!(why.contains("24 h in all: 429"), "{why}");

    let mut doer = doer_of(due_spec());
    assert_eq!(failure(&doer.on(&event(2, thought(1, Vec::new(), pause(100 * HOUR_MS))))), None);
    let deadline = EventKind::TimerFired { timer: Timer::Deadline };
    let why = failure(&doer.on(&event(1_000, deadline))).unwrap();
    assert_eq!(why, "its deadline passed while it paused: 429");
}

#[test]
fn a_pause_beyond_the_deadline_lasts_until_the_deadline() {
    for after_ms in [1_000, 1 << 63, u64::MAX] {
        let mut doer = doer_of(due_spec());
        let effects = doer.on(&event(2, thought(1, Vec::new(), pause(after_ms))));
        assert_eq!(status(&effects).message.unwrap(), "builder pauses until its deadline: 429", "{after_ms}");
        assert_eq!(doer.view().work, Some(WorkPhase::Paused));
        let is_timer = |effect: &Effect| matches!(effect, Effect::SetTimer { .. });
        assert!(!effects.iter().any(is_timer), "{effects:?}");
    }
}

#[test]
fn a_budget_is_announced_and_then_ends_the_task_with_its_figures() {
    let usage = |tokens, cost| {
        let cost = protocol::bid::Cost::new(cost);
        Progress::Usage(ModelUsage {
            model: "m".into(),
            input_tokens: tokens,
            output_tokens: 0,
            cost,
            ..ModelUsage::default()
        })
    };
    let bounds = TaskBounds { tokens: Some(100), ..TaskBounds::default() };
    let mut doer = started(spec(), bounds);
    let effects = doer.on(&progress(usage(85, 0.5)));
    assert_eq!(status(&effects).message.unwrap(), "bounds.tokens: 85 of 100 used");
    assert_eq!(doer.view().turn.remaining.tokens, Some(15));
    let effects = doer.on(&progress(usage(20, 0.5)));
    assert_eq!(status(&effects).message.unwrap(), "over budget: bounds.tokens: 100 used up: 105 used");
    let effects = doer.on(&progress(usage(20, 0.5)));
    assert_eq!(failure(&effects).unwrap(), "bounds.tokens: 100 used up: 125 used");
    assert!(effects.contains(&Effect::StopTurn));
    let response = sent_messages(&effects).into_iter().find_map(|message| message.payload.usage());
    assert_eq!(response.map(Usage::tokens), Some(125), "the requester is told");

    let bounds = TaskBounds { cost: protocol::bid::Cost::new(1.0), ..TaskBounds::default() };
    let mut doer = started(spec(), bounds);
    let unpriced = ModelUsage {
        model: "m".into(),
        input_tokens: 1,
        output_tokens: 1,
        cost: None,
        ..ModelUsage::default()
    };
    let why = failure(&doer.on(&progress(Progress::Usage(unpriced)))).unwrap();
    assert!(why.contains("bounds.cost: 1 can't be kept: the cost of m at builder is unknown"), "{why}");
}

#[test]
fn what_a_child_used_is_charged_to_the_parent() {
    let mut doer = started(spec(), TaskBounds { tokens: Some(10), ..TaskBounds::default() });
    let effects = doer.on(&event(2, thought(1, vec![delegate("d")], TurnEnd::Waiting)));
    let child = sent_messages(&effects)[0].payload.task_id().unwrap().clone();
    let response = serde_json::json!({ "taskId": child, "seq": 1, "state": "TASK_STATE_COMPLETED",
        "usage": { "inputTokens": 9, "outputTokens": 1, "cost": 0.0 } });
    let response = Payload::parse(MessageKind::TaskResponse, response.as_object().unwrap().clone()).unwrap();
    let effects = doer.on(&event(3, received("builder", Some(FIRST), response)));
    assert_eq!(failure(&effects).unwrap(), "bounds.tokens: 10 used up: 10 used");
    assert_eq!(begins_turn(&effects), None);
}

#[test]
fn each_question_is_answered_by_its_id() {
    let mut doer = doer_of(spec());
    let approval = Question { kind: QuestionKind::Approval, ..Question::new("rm", "delete it?") };
    let asked = vec![
        Progress::Question(Question::new("color", "which color?")),
        Progress::Question(approval),
        Progress::Question(Question::new("size", "which size?")),
    ];
    let shown = status(&doer.on(&event(2, thought(1, asked, TurnEnd::Waiting))));
    let ids: Vec<_> = shown.questions.iter().map(|question| question.id.clone()).collect();
    assert_eq!((shown.state, ids.len()), (TaskState::InputRequired, 3));
    assert!(ids[0].starts_with("color-") && ids[1].starts_with("rm-"), "{ids:?}");
    let unnamed = || EventKind::Answered {
        by: Principal::local_user(),
        question: None,
        answer: Answer::text("blue"),
        message: None,
    };
    assert!(doer.on(&event(3, unnamed())).is_empty(), "two take a text");
    let left = status(&doer.on(&event(4, answered(&ids[0], Answer::text("blue")))));
    assert_eq!((left.state, left.questions.len()), (TaskState::InputRequired, 2));
    assert!(doer.on(&event(5, answered(&ids[1], Answer::text("yes")))).is_empty(), "a text approves nothing");
    status(&doer.on(&event(6, unnamed())));
    let effects = doer.on(&event(7, decided(&ids[1], Decision::Approve)));
    let results: Vec<_> =
        answers(&effects).iter().map(|answer| (&*answer.id, answer.ok, &*answer.text)).collect();
    assert_eq!(results, [("color", true, "blue"), ("rm", true, "approved"), ("size", true, "blue")]);
    assert_eq!(begins_turn(&effects).map(|(turn, input)| (turn, input.answers)), Some((2, 3)));
}

#[test]
fn a_question_that_expires_never_approves() {
    let expired = |kind, on_timeout| {
        let mut doer = doer_of(spec());
        let expires_at = Some(WallTime(5_000));
        let question = Question { kind, expires_at, on_timeout, ..Question::new("q", "may I?") };
        let effects = doer.on(&event(2, thought(1, vec![Progress::Question(question)], TurnEnd::Waiting)));
        let (timer, when) = (Timer::Request(FIRST), TimerAt::Wall(WallTime(5_000)));
        assert!(effects.contains(&Effect::SetTimer { timer, when }), "{effects:?}");
        doer.on(&event(5_000, EventKind::TimerFired { timer }))
    };
    let effects = expired(QuestionKind::Approval, None);
    let answer = answers(&effects)[0];
    assert_eq!((answer.ok, answer.decision), (false, Some(Decision::Deny)));
    let effects = expired(QuestionKind::Text, Some(OnTimeout::Answer("later".into())));
    assert_eq!((answers(&effects)[0].ok, &*answers(&effects)[0].text), (true, "later"));
    let effects = expired(QuestionKind::Text, Some(OnTimeout::Fail));
    assert!(failure(&effects).unwrap().contains("may I?"));
}

#[test]
fn the_question_of_a_child_is_shown_and_its_answer_goes_to_the_child() {
    let mut doer = doer_of(spec());
    let effects = doer.on(&event(2, thought(1, vec![delegate("d")], TurnEnd::Waiting)));
    let child = sent_messages(&effects)[0].payload.task_id().unwrap().clone();
    let question = Question::new("q-1", "which color?");
    let asks = Status { questions: vec![question], ..Status::new(TaskState::InputRequired, "which color?") };
    let update =
        |update: &message::TaskUpdate| received("builder", None, Payload::TaskUpdate(update.clone()));
    let mut told = message::TaskUpdate::new(child.clone(), 1, None);
    told.status = Some(asks);
    let shown = status(&doer.on(&event(3, update(&told))));
    assert_eq!((shown.state, &*shown.questions[0].id), (TaskState::InputRequired, "q-1"));
    assert!(doer.on(&event(4, update(&told))).is_empty(), "nothing has changed");
    let effects = doer.on(&event(5, answered("q-1", Answer::text("blue"))));
    let Payload::TaskAnswer(passed_on) = &sent_messages(&effects)[0].payload else { panic!("{effects:?}") };
    assert_eq!(
        (&passed_on.task_id, passed_on.question_id.as_ref().map(QuestionId::as_str)),
        (&child, Some("q-1"))
    );
    assert_eq!(status(&effects).questions, []);
}

fn without_waiting(id: &str) -> Progress {
    let Progress::Help(Help { id, to, question, artifacts, .. }) = help(id) else { unreachable!() };
    Progress::Help(Help { id, to, question, artifacts, budget: Default::default(), wait: false })
}

#[test]
fn a_request_without_waiting_is_sent_at_once_and_its_answer_comes_with_a_later_turn() {
    let mut doer = doer_of(spec());
    let effects = doer.on(&progress(without_waiting("h1")));
    assert_eq!(sent_messages(&effects)[0].label, Label::Request(FIRST));
    doer.on(&progress(without_waiting("h2")));
    assert!(
        doer.on(&event(3, received("reviewer", Some(FIRST), help_response("one")))).is_empty(),
        "it thinks"
    );
    let effects = doer.on(&event(4, thought(1, Vec::new(), TurnEnd::Waiting)));
    assert_eq!(begins_turn(&effects).map(|(turn, _)| turn), Some(2), "an answer is there");
    assert_eq!(answers(&effects)[0].text, "one");
    let effects = doer.on(&event(5, thought(2, vec![help("h3")], TurnEnd::Waiting)));
    assert_eq!(sent_messages(&effects)[0].label, Label::Request(RequestKey(2, 0)));
    assert_eq!(
        begins_turn(&doer.on(&event(6, received("reviewer", Some(SECOND), help_response("two"))))),
        None
    );
    let third = RequestKey(2, 0);
    let effects = doer.on(&event(7, received("reviewer", Some(third), help_response("three"))));
    let texts: Vec<_> = answers(&effects).iter().map(|answer| &*answer.text).collect();
    assert_eq!((begins_turn(&effects).map(|(turn, _)| turn), texts), (Some(3), vec!["two", "three"]));
}

#[test]
fn the_end_of_a_task_withdraws_what_it_did_not_wait_for() {
    let mut doer = doer_of(spec());
    let Progress::Delegate(Delegate { id, to, capability, description, input, artifacts, .. }) =
        delegate("d")
    else {
        unreachable!()
    };
    let ask = Progress::Delegate(Delegate {
        id,
        to,
        capability,
        description,
        input,
        artifacts,
        budget: Default::default(),
        hand_on: false,
        wait: false,
    });
    doer.on(&progress(ask));
    let shown =
        doer.on(&progress(Progress::Question(Question { wait: false, ..Question::new("q", "which?") })));
    assert_eq!((status(&shown).state, status(&shown).questions.len()), (TaskState::Working, 1));
    let effects = doer.on(&event(4, thought(1, Vec::new(), done("enough"))));
    let withdrawn = sent_messages(&effects).iter().any(|message| message.label == Label::Withdraw);
    assert!(withdrawn && finishes(&effects) == [TaskState::Completed], "{effects:?}");
}

#[test]
fn a_brain_that_asks_for_no_pause_is_not_called_without_a_break() {
    let mut doer = doer_of(spec());
    let effects = doer.on(&event(2_000, thought(1, Vec::new(), pause(0))));
    let when = TimerAt::Wall(WallTime(2_000).plus(turn::MIN_PAUSE));
    assert!(effects.contains(&Effect::SetTimer { timer: Timer::Resume, when }));
}

#[test]
fn a_turn_that_begins_again_is_given_what_it_has_produced() {
    let mut doer = doer_of(spec());
    let artifact = Artifact::text("a", "text/plain", "half of it");
    doer.on(&progress(Progress::Artifact { artifact, append: false, last_chunk: true }));
    assert_eq!(doer.view().turn.produced, ChunkRange { from: 0, to: 1 });
}

#[test]
fn the_progress_of_a_child_is_shown_under_its_name_once_a_second() {
    let mut doer = doer_of(spec());
    let effects = doer.on(&event(2, thought(1, vec![delegate("d")], TurnEnd::Waiting)));
    let child = sent_messages(&effects)[0].payload.task_id().unwrap().clone();
    let mut says = |at, by: Option<&str>, text: &str| {
        let mut told = message::TaskUpdate::new(child.clone(), 1, None);
        told.status = Some(Status { by: by.map(id), ..Status::new(TaskState::Working, text) });
        let update = doer.on(&event(at, received("builder", None, Payload::TaskUpdate(told))));
        (update, doer.clone())
    };
    let shown = |effects: &[Effect]| status(effects).message.unwrap();
    assert_eq!(shown(&says(3, Some("digger"), "one").0), "digger: one");
    let (timer, _) = says(4, Some("digger"), "two");
    let due = TimerAt::Node(NodeTime(1_003));
    assert_eq!(timer, [Effect::SetTimer { timer: Timer::Progress, when: due }]);
    let (nothing, mut doer) = says(5, Some("digger"), "three");
    assert_eq!(nothing, [], "one timer is enough");
    let effects = doer.on(&event(1_003, EventKind::TimerFired { timer: Timer::Progress }));
    assert_eq!(shown(&effects), "digger: three", "the last one counts");
    let long = "x".repeat(500);
    let mut told = message::TaskUpdate::new(child.clone(), 1, None);
    told.status = Some(Status::new(TaskState::Working, long));
    let effects = doer.on(&event(9_000, received("builder", None, Payload::TaskUpdate(told.clone()))));
    assert_eq!(shown(&effects).chars().count(), 241, "it is cut");
    told.task_id = TaskId::parse("other").unwrap();
    assert_eq!(doer.on(&event(20_000, received("builder", None, Payload::TaskUpdate(told)))), []);
}
