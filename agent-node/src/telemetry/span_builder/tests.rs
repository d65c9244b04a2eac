use super::*;
use crate::telemetry::capture::CaptureLevel;
use patterns::{
    AnyPattern, Effect, Outcome,
    broadcast::Broadcast,
    turn::{Progress, TurnEnd},
    turn_record::TurnRecord,
};
use protocol::{
    ids::MessageId,
    task::{Status, TaskState},
    time::NodeTime,
};

fn me() -> AgentId {
    AgentId::parse("a-01").unwrap()
}

fn id() -> ConversationId {
    ConversationId::parse("c-1").unwrap()
}

fn origin(trace: Option<TraceContext>) -> Origin {
    let message = serde_json::from_value(json!({ "signal": "x.y" })).unwrap();
    let by = Principal::local_user();
    let pattern = AnyPattern::from(Broadcast::new(message, &by));
    let arrived = OpeningMessage {
        id: MessageId::parse("m-1").unwrap(),
        by,
        from: AgentId::parse("me").unwrap(),
        kind: Type::TaskRequest,
    };
    let telemetry = crate::telemetry::Telemetry::default();
    Origin::new(&me(), &id(), &pattern, Some(arrived), |first| {
        let sampled = telemetry.samples(trace.as_ref().map(|trace| trace.sampled), 7);
        trace.map_or(TraceContext { trace_id: 7, span_id: first, sampled, state: None }, |parent| {
            TraceContext { sampled, ..parent }
        })
    })
}

fn step(step: u64, at: i64, events: Vec<(EventKind, Option<EffectKey>)>, effects: Vec<Effect>) -> Step {
    let (events, closes): (Vec<_>, Vec<_>) = events
        .into_iter()
        .map(|(what, closes)| (Event { at: NodeTime(0), wall: WallTime(at), what }, closes))
        .unzip();
    let closes = closes.into_iter().enumerate().filter_map(|(at, key)| Some((at, key?))).collect();
    Step { step, events, closes, effects, ..Step::default() }
}

fn think(turn: u32) -> Effect {
    let prompt = json!({ "turn": turn, "task": { "taskId": "t-1", "description": "paint it" } });
    Effect::RunTurn {
        turn,
        prompt: Box::new(serde_json::from_value(prompt).unwrap()),
        deadline: None,
        input: Default::default(),
    }
}

fn finish(state: TaskState) -> Effect {
    let status = Status::new(state, "because of a public-word");
    Effect::Finish(Outcome::new(status))
}

/// The steps of a conversation that runs two turns and fails in the second.
fn steps(trace: Option<TraceContext>) -> Vec<Step> {
    let thought = EventKind::TurnEnded { turn: 1, updates: Vec::new(), end: TurnEnd::Waiting };
    let failed = EventKind::TurnFailed { turn: 2, reason: "it said public-word".to_owned() };
    let mut steps = vec![
        step(1, 10, vec![(EventKind::Started, None)], vec![think(1)]),
        step(2, 30, vec![(thought, Some(EffectKey(1, 0)))], vec![think(2)]),
        step(3, 70, vec![(failed, Some(EffectKey(2, 0)))], vec![finish(TaskState::Failed)]),
    ];
    steps[0].origin = Some(Box::new(origin(trace)));
    steps
}

fn spans(steps: &[Step], level: CaptureLevel) -> Vec<Span> {
    build(&me(), &id(), steps, &Capture::new(level, [])).into_iter().map(|built| built.span).collect()
}

#[test]
fn every_span_has_parent_times_and_failure() {
    let spans = spans(&steps(None), CaptureLevel::Off);
    let [arrival, own, first, second] = spans.as_slice() else { panic!("{spans:#?}") };
    assert_eq!(arrival.parent_id, None);
    assert_eq!(own.parent_id.as_ref(), Some(&arrival.span_id));
    assert!([first, second].iter().all(|span| span.parent_id.as_ref() == Some(&own.span_id)));
    let times: Vec<_> = spans.iter().map(|span| (span.start.0, span.end.map(|end| end.0))).collect();
    assert_eq!(times, [(10, Some(10)), (10, Some(70)), (10, Some(30)), (30, Some(70))]);
    let failures: Vec<_> = spans.iter().map(|span| span.failed.as_deref()).collect();
    assert_eq!(failures, [None, Some("failed"), None, Some("thought_failed")]);
}

#[test]
fn an_open_span_has_no_end_and_keeps_its_id() {
    let whole = steps(None);
    let (now, later) = (spans(&whole[..2], CaptureLevel::Off), spans(&whole, CaptureLevel::Off));
    assert_eq!(now.iter().map(|span| span.end.is_some()).collect::<Vec<_>>(), [true, false, true, false]);
    let ids = |spans: &[Span]| spans.iter().map(|span| span.span_id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&now), ids(&later));
}

#[test]
fn a_turn_has_what_it_was_answered_and_its_pieces_joined() {
    let answer = json!({ "id": "colour", "ok": true, "text": "blue", "forTurn": 1 });
    let record = TurnRecord::Answer(serde_json::from_value(answer).unwrap());
    let piece = |text: &str, append: bool| {
        let artifact = json!({ "artifactId": "x", "parts": [{ "text": text }] });
        let artifact = serde_json::from_value(artifact).unwrap();
        vec![Progress::Artifact { artifact, append, last_chunk: append }]
    };
    let begun = EventKind::TurnProgress { turn: 1, updates: piece("the sky ", false) };
    let end = TurnEnd::Done { message: None };
    let ended = EventKind::TurnEnded { turn: 1, updates: piece("is blue", true), end };
    let given = vec![Effect::Record { number: 0, record }, think(1)];
    let mut steps = vec![
        step(1, 10, vec![(EventKind::Started, None)], given),
        step(2, 20, vec![(begun, None)], Vec::new()),
        step(3, 30, vec![(ended, Some(EffectKey(1, 1)))], vec![finish(TaskState::Completed)]),
    ];
    steps[0].origin = Some(Box::new(origin(None)));
    let spans = spans(&steps, CaptureLevel::Full);
    let turn = spans.iter().find(|span| span.text(n::MESH_SPAN) == Some("think")).unwrap();
    let side = |name: &str| serde_json::from_str::<Value>(turn.text(name).unwrap()).unwrap();
    assert_eq!(side(n::LANGFUSE_INPUT)["answers"][0]["text"], "blue");
    assert_eq!(side(n::LANGFUSE_OUTPUT)["artifacts"][0]["parts"], json!([{ "text": "the sky is blue" }]));
}

#[test]
fn each_span_is_complete_in_one_step() {
    let spans = build(&me(), &id(), &steps(None), &Capture::default());
    assert_eq!(
        spans.iter().map(|built| built.complete_in).collect::<Vec<_>>(),
        [Some(1), Some(3), Some(2), Some(3)]
    );
}

#[test]
fn an_effect_with_its_result_in_one_step_has_a_span() {
    let thought =
        |turn, end| (EventKind::TurnEnded { turn, updates: Vec::new(), end }, Some(EffectKey(1, turn - 1)));
    let done = TurnEnd::Done { message: Some("done".to_owned()) };
    let events = vec![(EventKind::Started, None), thought(1, TurnEnd::Waiting), thought(2, done)];
    let mut one = step(1, 10, events, vec![think(1), think(2), finish(TaskState::Completed)]);
    one.origin = Some(Box::new(origin(None)));
    let spans = build(&me(), &id(), &[one], &Capture::new(CaptureLevel::Full, []));
    assert_eq!(spans.iter().map(|built| built.complete_in).collect::<Vec<_>>(), [Some(1); 4]);
    for thought in &spans[2..] {
        assert_eq!(thought.span.text(n::MESH_SPAN), Some("think"));
        assert!(thought.span.failed.is_none(), "{:#?}", thought.span);
    }
    assert!(spans[3].span.attributes.contains_key(n::LANGFUSE_OUTPUT), "{:#?}", spans[3].span);
}

#[test]
fn a_callers_trace_is_continued() {
    let caller = TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap();
    let spans = spans(&steps(Some(caller)), CaptureLevel::Off);
    assert!(spans.iter().all(|span| span.trace_id == "0af7651916cd43dd8448eb211c80319c"));
    assert_eq!(spans[0].parent_id.as_deref(), Some("b7ad6b7169203331"));
    assert!(spans[0].is_parent_remote && !spans[1].is_parent_remote);
}

#[test]
fn spans_have_content_only_if_it_is_captured() {
    let text = |level| format!("{:?}", spans(&steps(None), level));
    for level in [CaptureLevel::Off, CaptureLevel::Redacted] {
        let text = text(level);
        assert!(!text.contains("paint it") && !text.contains("public-word"), "{text}");
    }
    let full = spans(&steps(None), CaptureLevel::Full);
    assert!(full[1].text(n::LANGFUSE_TRACE_INPUT).is_some_and(|input| input.contains("paint it")));
    assert!(full[1].text(n::LANGFUSE_TRACE_OUTPUT).is_some_and(|output| output.contains("public-word")));
}

#[test]
fn a_journal_without_its_first_step_has_no_spans() {
    assert!(spans(&steps(None)[1..], CaptureLevel::Off).is_empty());
}
