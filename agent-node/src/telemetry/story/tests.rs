use super::*;
use crate::telemetry::capture::Level;
use protocol::{
    coordination::{AnyPattern, Effect, Outcome, broadcast::Broadcast, thought::TurnEnd},
    ids::MessageId,
    message::Payload,
    task::{Status, TaskState},
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
fn what_is_asked_and_answered_in_one_step_is_a_span_of_its_own() {
    let thought = |turn, end| (What::Thought { turn, updates: Vec::new(), end }, Some(Place(1, turn - 1)));
    let done = TurnEnd::Done { message: Some("done".to_owned()) };
    let events = vec![(What::Started, None), thought(1, TurnEnd::Waiting), thought(2, done)];
    let mut one = step(1, 10, events, vec![think(1), think(2), finish(TaskState::Completed)]);
    one.opening = Some(Box::new(opening(None)));
    let told = of(&me(), &id(), &[one], &Capture::new(Level::Full, []));
    assert_eq!(told.iter().map(|told| told.complete_in).collect::<Vec<_>>(), [Some(1); 4]);
    for thought in &told[2..] {
        assert_eq!(thought.span.text(n::MESH_SPAN), Some("think"));
        assert!(thought.span.failed.is_none(), "{:#?}", thought.span);
    }
    assert!(told[3].span.attributes.contains_key(n::LANGFUSE_OUTPUT), "{:#?}", told[3].span);
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

#[test]
fn redacted_tells_every_name_that_is_ours_and_none_that_is_not() {
    let artifact = json!({
        "artifactId": "a", "name": "n", "description": "d", "parts": [{ "text": "t", "mediaType": "m", "filename": "f", "metadata": { "x": 1 } },
            { "data": { "x": 1 } }, { "raw": "aa" }, { "url": "u" }], "metadata": { "x": 1 }, "extensions": ["e"],
    });
    let message = json!({
        "messageId": "m", "contextId": "c", "taskId": "t", "role": "ROLE_USER", "parts": [{ "text": "t" }], "metadata": { "x": 1 },
        "extensions": ["e"], "referenceTaskIds": ["r"],
    });
    let spec = json!({
        "taskId": "t", "description": "d", "capability": "c", "input": { "x": 1 }, "artifacts": [artifact], "deadline": "2030-01-01T00:00:00Z",
        "acceptedModes": ["text/*"], "path": ["a"], "parent": "p", "root": "user:local", "contact": { "contextId": "c", "tenant": "t", "message": message },
    });
    let said = [
        (
            "task-request",
            json!({ "description": "d", "taskId": "t", "capability": "c", "input": 1, "artifacts": [{ "name": "n", "sha256": "0".repeat(64), "mediaType": "m" }],
            "inlineArtifacts": [artifact], "deadline": "2030-01-01T00:00:00Z", "acceptedModes": ["text/*"], "replyTo": "r", "onBehalfOf": "user:a", "parentTaskId": "p" }),
        ),
        (
            "task-update",
            json!({ "taskId": "t", "seq": 1, "epoch": 1, "status": { "state": "TASK_STATE_WORKING", "message": "m" }, "artifact": artifact, "append": true, "lastChunk": true }),
        ),
        (
            "task-response",
            json!({ "taskId": "t", "seq": 1, "epoch": 1, "state": "TASK_STATE_FAILED", "artifacts": [artifact], "message": "m" }),
        ),
        ("task-cancel", json!({ "taskId": "t", "reason": "r", "epoch": 1 })),
        (
            "help-request",
            json!({ "question": "q", "capability": "c", "inlineArtifacts": [artifact], "taskId": "t", "onBehalfOf": "user:a" }),
        ),
        ("help-response", json!({ "answer": "a", "declined": "d", "artifacts": [artifact] })),
        (
            "broadcast",
            json!({ "signal": "x.y", "subject": "s", "refs": { "x": 1 }, "taskId": "t", "capability": "c" }),
        ),
        (
            "cfp",
            json!({ "taskId": "t", "capability": "c", "description": "d", "bidBy": "2030-01-01T00:00:00Z", "constraints": { "x": 1 } }),
        ),
        (
            "bid",
            json!({ "taskId": "t", "cost": 1, "eta": 1, "capability_match": 1, "load": 0, "validForMs": 1 }),
        ),
        ("no-bid", json!({ "taskId": "t", "reason": "r" })),
        ("award", json!({ "taskId": "t", "epoch": 1, "leaseMs": 1, "task": spec })),
        ("award-decline", json!({ "taskId": "t", "epoch": 1, "reason": "r" })),
    ];
    let told = |content: &Value| Capture::new(Level::Redacted, []).told(content).unwrap();
    for (kind, members) in said {
        let mut members = members.as_object().unwrap().clone();
        let payload = Payload::parse(Type::parse(kind).unwrap(), members.clone());
        let told_of = told(&content(&payload.unwrap()).unwrap());
        assert!(!told_of.contains("members more"), "{kind}: {told_of}");
        members.insert("nobodys".to_owned(), json!(1));
        let told_of = told(&content(&Payload::parse(Type::parse(kind).unwrap(), members).unwrap()).unwrap());
        assert!(told_of.contains("[1 members more]") && !told_of.contains("nobodys"), "{kind}: {told_of}");
    }
    let signal = json!({ "revision": 1, "id": "i", "type": "x.y", "from": "a", "subject": "s", "taskId": "t", "capability": "c", "refs": { "x": 1 }, "at": "2030-01-01T00:00:00Z" });
    let task = json!({ "task": { "taskId": "t", "description": "d", "capability": "c", "input": 1, "artifacts": [artifact], "deadline": "2030-01-01T00:00:00Z" } });
    let help = json!({ "help": { "question": "q", "capability": "c", "artifacts": [artifact] } });
    for about in [task, help, json!({ "signal": signal })] {
        let mut prompt = json!({ "turn": 1, "produced": [artifact], "answers": [{ "id": "h", "ok": true, "from": "a", "text": "t", "artifacts": [artifact] }], "message": message });
        prompt.as_object_mut().unwrap().extend(about.as_object().unwrap().clone());
        let prompt: protocol::coordination::thought::Prompt = serde_json::from_value(prompt).unwrap();
        assert!(!told(&json!(prompt)).contains("members more"), "{}", told(&json!(prompt)));
    }
    let updates = json!([
        { "type": "status", "message": "m" },
        { "type": "artifact", "artifact": artifact, "append": true, "lastChunk": true },
        { "type": "signal", "signal": "x.y", "subject": "s", "capability": "c", "refs": { "x": 1 } },
        { "type": "help", "id": "h", "capability": "c", "question": "q", "artifacts": ["a"] },
        { "type": "delegate", "id": "d", "to": "a", "capability": "c", "description": "d", "input": 1, "artifacts": ["a"] },
        { "type": "question", "id": "q", "text": "t", "auth": true },
    ]);
    let updates = serde_json::from_value(updates).unwrap();
    let thought =
        said::thought(&What::Thought { turn: 1, updates, end: TurnEnd::Failed { reason: "r".to_owned() } })
            .unwrap();
    assert!(!told(&thought).contains("members more"), "{}", told(&thought));
}
