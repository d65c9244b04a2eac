use super::*;
use crate::telemetry::capture::Level;
use protocol::{
    coordination::{AnyPattern, broadcast::Broadcast, thought::TurnEnd},
    ids::MessageId,
    task::Status,
    time::NodeTime,
};

fn me() -> AgentId {
    AgentId::parse("a-01").unwrap()
}

fn id() -> ConversationId {
    ConversationId::parse("c-1").unwrap()
}

fn opening(trace: Option<TraceContext>) -> Opening {
    let message = serde_json::from_value(json!({ "signal": "x.y" })).unwrap();
    let by = Principal::local_user();
    let pattern = AnyPattern::Broadcast(Broadcast::new(message, &by));
    let arrived = Arrived {
        id: MessageId::parse("m-1").unwrap(),
        by,
        from: AgentId::parse("me").unwrap(),
        kind: Type::TaskRequest,
    };
    let telemetry = crate::telemetry::Telemetry::default();
    Opening::new(&me(), &id(), &pattern, Some(arrived), |first| telemetry.join(trace, first, || 7))
}

fn step(step: u64, at: i64, events: Vec<(What, Option<Place>)>, effects: Vec<Effect>) -> Step {
    let (events, closes): (Vec<_>, Vec<_>) = events
        .into_iter()
        .map(|(what, closes)| (Event { at: NodeTime(0), wall: WallTime(at), what }, closes))
        .unzip();
    let closes = closes.into_iter().enumerate().filter_map(|(at, place)| Some((at, place?))).collect();
    Step { step, opening: None, events, closes, effects }
}

fn think(turn: u32) -> Effect {
    let prompt = json!({ "turn": turn, "task": { "taskId": "t-1", "description": "paint it" } });
    Effect::Think { turn, prompt: Box::new(serde_json::from_value(prompt).unwrap()), deadline: None }
}

fn finish(state: TaskState) -> Effect {
    let status = Status { state, message: Some("because of a public-word".to_owned()) };
    Effect::Finish(Outcome { status, artifacts: Vec::new(), kept_word: BTreeMap::new(), is_message: false })
}

/// Thinks twice, is killed or not in between, and fails in its second turn.
fn steps(trace: Option<TraceContext>) -> Vec<Step> {
    let thought = What::Thought { turn: 1, updates: Vec::new(), end: TurnEnd::Waiting };
    let failed = What::ThoughtFailed { turn: 2, reason: "it said public-word".to_owned() };
    let mut steps = vec![
        step(1, 10, vec![(What::Started, None)], vec![think(1)]),
        step(2, 30, vec![(thought, Some(Place(1, 0)))], vec![think(2)]),
        step(3, 70, vec![(failed, Some(Place(2, 0)))], vec![finish(TaskState::Failed)]),
    ];
    steps[0].opening = Some(Box::new(opening(trace)));
    steps
}

fn spans(steps: &[Step], level: Level) -> Vec<Span> {
    of(&me(), &id(), steps, &Capture::new(level, [])).into_iter().map(|told| told.span).collect()
}

#[test]
fn every_span_has_its_place_its_time_and_its_fate() {
    let spans = spans(&steps(None), Level::Off);
    let [arrival, own, first, second] = spans.as_slice() else { panic!("{spans:#?}") };
    assert_eq!(arrival.parent_id, None);
    assert_eq!(own.parent_id.as_ref(), Some(&arrival.span_id));
    assert!([first, second].iter().all(|span| span.parent_id.as_ref() == Some(&own.span_id)));
    let times: Vec<_> = spans.iter().map(|span| (span.start.0, span.end.map(|end| end.0))).collect();
    assert_eq!(times, [(10, Some(10)), (10, Some(70)), (10, Some(30)), (30, Some(70))]);
    let fates: Vec<_> = spans.iter().map(|span| span.failed.as_deref()).collect();
    assert_eq!(fates, [None, Some("failed"), None, Some("thought_failed")]);
}

#[test]
fn what_goes_on_has_no_end_and_the_same_ids_as_when_it_has_ended() {
    let whole = steps(None);
    let (now, later) = (spans(&whole[..2], Level::Off), spans(&whole, Level::Off));
    assert_eq!(now.iter().map(|span| span.end.is_some()).collect::<Vec<_>>(), [true, false, true, false]);
    let ids = |spans: &[Span]| spans.iter().map(|span| span.span_id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&now), ids(&later));
}

#[test]
fn each_span_is_complete_in_one_step_so_that_it_is_told_once() {
    let told = of(&me(), &id(), &steps(None), &Capture::default());
    assert_eq!(
        told.iter().map(|told| told.complete_in).collect::<Vec<_>>(),
        [Some(1), Some(3), Some(2), Some(3)]
    );
}

#[test]
fn a_callers_trace_is_gone_on_with() {
    let caller = TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap();
    let spans = spans(&steps(Some(caller)), Level::Off);
    assert!(spans.iter().all(|span| span.trace_id == "0af7651916cd43dd8448eb211c80319c"));
    assert_eq!(spans[0].parent_id.as_deref(), Some("b7ad6b7169203331"));
    assert!(spans[0].is_parent_remote && !spans[1].is_parent_remote);
}

#[test]
fn content_is_told_to_those_who_ask_for_it_only() {
    let text = |level| format!("{:?}", spans(&steps(None), level));
    for level in [Level::Off, Level::Redacted] {
        let told = text(level);
        assert!(!told.contains("paint it") && !told.contains("public-word"), "{told}");
    }
    let full = spans(&steps(None), Level::Full);
    assert!(full[1].text(n::LANGFUSE_TRACE_INPUT).is_some_and(|input| input.contains("paint it")));
    assert!(full[1].text(n::LANGFUSE_TRACE_OUTPUT).is_some_and(|output| output.contains("public-word")));
}

#[test]
fn a_journal_without_its_beginning_tells_nothing() {
    assert!(spans(&steps(None)[1..], Level::Off).is_empty());
}
