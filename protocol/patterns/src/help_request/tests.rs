//! Late, repeated and reordered events change nothing; it ends once; it survives its stored form at any point. The two
//! small patterns, broadcast and redelivery, are held to the same.

use super::*;
use crate::{
    AnyPattern, Effect, Event, EventKind, Label, Timer,
    broadcast::Broadcast,
    redelivery,
    turn::{MIN_PAUSE, Progress, TurnEnd},
};
use proptest::prelude::*;
use protocol::{
    budget::Budget,
    card::Card,
    envelope::Envelope,
    ids::MessageId,
    principal::Principal,
    time::{NodeTime, WallTime},
    usage::ModelUsage,
};
use serde_json::{Value, json};

const PEERS: [&str; 5] = ["r-1", "r-2", "r-3", "r-4", "stranger"];

fn id(text: &str) -> AgentId {
    AgentId::parse(text).unwrap()
}

fn envelope(from: &str, kind: &str, payload: Value) -> Envelope {
    let body = json!({ "messageId": "m-1", "fromAgentId": from, "toAgentId": "me", "type": kind, "payload": payload });
    Envelope::from_json(body, || MessageId::parse("minted").unwrap()).unwrap()
}

fn request() -> message::HelpRequest {
    let Payload::HelpRequest(request) =
        envelope("asker", "help-request", json!({ "question": "is it good?" })).payload
    else {
        panic!("a help request")
    };
    request
}

fn requester() -> Option<Requester> {
    let message = MessageId::parse("m-0").unwrap();
    Some(Requester { agent: id("asker"), conversation: None, message, epoch: None })
}

fn asked(request: message::HelpRequest) -> AskedQuestion {
    AskedQuestion { request, requester: requester(), path: vec![id("asker")], space: None }
}

fn asking_about(request: message::HelpRequest) -> AnyPattern {
    let review = Capability::parse("review").unwrap();
    HelpRequest::asking(id("me"), asked(request), review, Duration::from_secs(10)).into()
}

fn answering_within(request: message::HelpRequest, limits: WorkLimits) -> AnyPattern {
    HelpRequest::answering(id("me"), asked(request), limits).into()
}

fn asking() -> AnyPattern {
    asking_about(request())
}

fn answering() -> AnyPattern {
    answering_within(request(), WorkLimits::default())
}

fn broadcast() -> AnyPattern {
    let Payload::Broadcast(message) =
        envelope("asker", "broadcast", json!({ "signal": "x.y", "refs": { "a": 1 } })).payload
    else {
        panic!("a broadcast")
    };
    Broadcast::new(message, &Principal::local_user()).into()
}

fn redelivery() -> AnyPattern {
    redelivery::Redelivery::new(envelope("me", "help-response", json!({ "answer": "yes" }))).into()
}

fn found(peers: &[&str]) -> EventKind {
    let card = |peer: &&str| -> Card {
        serde_json::from_value(
            json!({ "agentId": peer, "endpoint": "http://127.0.0.1:1", "skills": [{ "id": "review" }] }),
        )
        .unwrap()
    };
    let capability = Capability::parse("review").unwrap();
    let candidates =
        peers.iter().map(|peer| Candidate { track_record: 0.5, ..Candidate::new(&card(peer), &capability) });
    EventKind::PeersFound { label: Label::Search(0), candidates: candidates.collect(), nearest: None }
}

fn received(from: &str, payload: Value) -> EventKind {
    let envelope = Box::new(envelope(from, "help-response", payload));
    EventKind::MessageReceived { by: Principal::Agent(id(from)), answers: None, envelope }
}

fn undelivered(label: Label, to: &str, reason: &str) -> EventKind {
    EventKind::Undelivered { label, to: id(to), reason: reason.into(), message: "gone".into() }
}

const QUESTION: Label = Label::Question;
const ANSWER: Label = Label::Answer;
const RESEND: Label = Label::Resend;

fn woke() -> EventKind {
    EventKind::TimerFired { timer: Timer::Window }
}

fn happenings() -> impl Strategy<Value = Vec<EventKind>> {
    let done = TurnEnd::Done { message: Some("fine".into()) };
    let who = prop::sample::select(PEERS.to_vec());
    let one = prop_oneof![
        3 => (0..5_usize).prop_map(|count| found(&PEERS[..count])),
        6 => who.clone().prop_map(|from| received(from, json!({ "answer": "yes" }))),
        3 => who.clone().prop_map(|from| received(from, json!({ "declined": "busy" }))),
        2 => who.clone().prop_map(|to| undelivered(QUESTION, to, "expired")),
        1 => Just(undelivered(RESEND, "r-1", "expired")),
        1 => Just(undelivered(ANSWER, "asker", "payload_too_large")),
        1 => who.prop_map(|by| EventKind::Delivered { label: QUESTION, by: id(by) }),
        1 => Just(EventKind::PublishRefused { reason: "invalid_field".into(), message: "no".into() }),
        1 => Just(woke()),
        1 => Just(EventKind::TimerFired { timer: Timer::Renew }),
        1 => (1..3_u32).prop_map(move |turn| EventKind::TurnEnded { turn, updates: Vec::new(), end: done.clone() }),
        1 => Just(EventKind::TurnFailed { turn: 1, reason: "it died".into() }),
        1 => Just(EventKind::Published { revision: 7 }),
        1 => Just(EventKind::Cancelled { by: Principal::local_user(), reason: "no more".into() }),
    ];
    prop::collection::vec(one, 0..30)
}

/// What follows from `what`, and that the state is the same after it was stored.
fn on(pattern: &mut AnyPattern, at: u64, what: EventKind) -> Vec<Effect> {
    let wall = WallTime(i64::try_from(at).unwrap());
    let event = Event { at: NodeTime(at), wall, what };
    let event: Event = serde_json::from_slice(&serde_json::to_vec(&event).unwrap()).unwrap();
    let effects = pattern.on(&event);
    let stored = serde_json::to_vec(&(&*pattern, &effects)).unwrap();
    let back: (AnyPattern, Vec<Effect>) = serde_json::from_slice(&stored).unwrap();
    assert_eq!((&back.0, &back.1), (&*pattern, &effects));
    *pattern = back.0;
    effects
}

/// Whether it tells the requester that there is no answer.
fn is_excuse(effect: &Effect) -> bool {
    matches!(effect, Effect::Send(message) if matches!(&message.payload, Payload::HelpResponse(response) if response.answer.is_none()))
}

fn ends(effects: &[Effect]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::Finish(_))).count()
}

proptest! {
    #[test]
    fn whatever_comes_it_ends_once_and_nothing_follows(
        which in 0..4_usize,
        happenings in happenings(),
    ) {
        let mut pattern = [asking, answering, broadcast, redelivery][which]();
        let mut ended = ends(&on(&mut pattern, 0, EventKind::Started));
        let mut excuses = 0;
        let last = [
            woke(),
            EventKind::TurnFailed { turn: 1, reason: "it died".into() },
            EventKind::Published { revision: 8 },
            EventKind::Delivered { label: RESEND, by: id("r-1") },
        ];
        let all = happenings.into_iter().chain([last[which].clone(), last[which].clone()]);
        for (at, what) in all.enumerate() {
            let was_over = ended > 0;
            let effects = on(&mut pattern, at as u64, what);
            let follows = effects.iter().filter(|effect| !is_excuse(effect)).count();
            prop_assert!(!was_over || follows == 0, "after the end: {effects:?}");
            excuses += effects.iter().filter(|effect| was_over && is_excuse(effect)).count();
            prop_assert!(excuses <= 1, "{effects:?}");
            ended += ends(&effects);
        }
        prop_assert_eq!(ended, 1);
    }

    #[test]
    fn a_repeat_changes_nothing(happenings in happenings()) {
        let (mut once, mut twice) = (asking(), asking());
        on(&mut once, 0, EventKind::Started);
        on(&mut twice, 0, EventKind::Started);
        for what in happenings {
            let (first, same) = (on(&mut once, 1, what.clone()), on(&mut twice, 1, what.clone()));
            prop_assert_eq!(first, same);
            prop_assert_eq!(on(&mut twice, 2, what), Vec::new());
        }
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn the_order_of_answers_does_not_show(order in Just(vec!["r-1", "r-2", "r-3"]).prop_shuffle()) {
        let mut pattern = asking();
        on(&mut pattern, 0, EventKind::Started);
        on(&mut pattern, 1, found(&["me", "asker", "r-3", "r-2", "r-1", "r-4"]));
        let answers = order.iter().map(|from| on(&mut pattern, 2, received(from, json!({ "answer": from }))));
        let effects: Vec<_> = answers.flatten().collect();
        let Some(Effect::Finish(outcome)) = effects.last() else { panic!("{effects:?}") };
        prop_assert_eq!(outcome.status.message.as_deref(), Some("r-1: r-1\n\nr-2: r-2\n\nr-3: r-3"));
    }
}

#[test]
fn what_is_not_answered_expires_visibly_with_what_there_is() {
    let mut pattern = asking();
    on(&mut pattern, 0, EventKind::Started);
    let asked = on(&mut pattern, 1, found(&["r-1", "r-2"]));
    assert_eq!(asked.len(), 2);
    assert!(on(&mut pattern, 2, received("r-2", json!({ "declined": "busy" }))).is_empty());
    let effects = on(&mut pattern, 3, woke());
    let [Effect::Send(message), Effect::Finish(outcome)] = effects.as_slice() else { panic!("{effects:?}") };
    assert!(matches!(&message.payload, Payload::HelpResponse(response) if response.answer.is_none()));
    assert_eq!(outcome.status.message.as_deref(), Some("r-1: no answer in time; r-2: busy"));
}

#[test]
fn a_refused_answer_becomes_one_empty_answer() {
    let mut pattern = answering();
    on(&mut pattern, 0, EventKind::Started);
    let end = TurnEnd::Done { message: Some("fine".into()) };
    on(&mut pattern, 1, EventKind::TurnEnded { turn: 1, updates: Vec::new(), end });
    assert!(
        on(&mut pattern, 2, undelivered(ANSWER, "asker", "agent_not_found")).is_empty(),
        "nobody is there"
    );
    let effects = on(&mut pattern, 3, undelivered(ANSWER, "asker", "payload_too_large"));
    assert!(effects.len() == 1 && is_excuse(&effects[0]), "{effects:?}");
    assert!(on(&mut pattern, 4, undelivered(ANSWER, "asker", "payload_too_large")).is_empty());
}

fn sent(effects: &[Effect]) -> impl Iterator<Item = &Payload> {
    effects
        .iter()
        .filter_map(|effect| if let Effect::Send(sent) = effect { Some(&sent.payload) } else { None })
}

#[test]
fn a_budget_is_shared_among_the_peers_that_are_asked_and_the_silent_ones_are_charged_whole() {
    use protocol::budget::Budget;
    let request = message::HelpRequest { budget: Budget { tokens: Some(100), cost: None }, ..request() };
    let mut asking = asking_about(request.clone());
    let event = |what| Event { at: NodeTime(1), wall: WallTime(1), what };
    asking.on(&event(EventKind::Started));
    let effects = asking.on(&event(found(&["r-1", "r-2"])));
    let budgets = sent(&effects).filter_map(|payload| {
        if let Payload::HelpRequest(request) = payload { request.budget.tokens } else { None }
    });
    assert_eq!(budgets.collect::<Vec<_>>(), [50, 50]);
    let answer = json!({ "answer": "yes", "usage": { "inputTokens": 7, "outputTokens": 0, "cost": 0.0 } });
    let by = Principal::Agent(id("r-1"));
    let envelope = Box::new(envelope("r-1", "help-response", answer));
    asking.on(&event(EventKind::MessageReceived { by, answers: None, envelope }));
    let label = Timer::Window;
    let usage = |effects: &[Effect]| sent(effects).find_map(|payload| payload.usage().copied());
    let used = usage(&asking.on(&event(EventKind::TimerFired { timer: label }))).unwrap();
    assert_eq!((used.tokens(), used.unreported_tokens), (57, 50));

    let mut answering = answering_within(request, WorkLimits::default());
    answering.on(&event(EventKind::Started));
    let call = protocol::usage::ModelUsage { input_tokens: 100, ..Default::default() };
    let updates = vec![Progress::Usage(call.clone()), Progress::Usage(call)];
    let effects = answering.on(&event(EventKind::TurnProgress { turn: 1, updates }));
    assert!(effects.contains(&Effect::StopTurn), "{effects:?}");
    assert_eq!(usage(&effects).unwrap().tokens(), 200);
}

#[test]
fn a_peer_without_a_price_ends_a_question_with_a_budget_of_cost() {
    let budget = protocol::budget::Budget { tokens: None, cost: protocol::bid::Cost::new(1.0) };
    let request = message::HelpRequest { budget, ..request() };
    let mut asking = asking_about(request);
    let event = |what| Event { at: NodeTime(1), wall: WallTime(1), what };
    asking.on(&event(EventKind::Started));
    asking.on(&event(found(&["r-1", "r-2"])));
    let mut answers = |from: &str, unpriced: u64| {
        let usage = json!({ "inputTokens": 7, "outputTokens": 0, "cost": 0.1, "unpricedTokens": unpriced });
        let envelope = Box::new(envelope(from, "help-response", json!({ "answer": "yes", "usage": usage })));
        let by = Principal::Agent(id(from));
        asking.on(&event(EventKind::MessageReceived { by, answers: None, envelope }))
    };
    answers("r-1", 0);
    let effects = answers("r-2", 7);
    let response = sent(&effects)
        .find_map(|payload| if let Payload::HelpResponse(response) = payload { Some(response) } else { None })
        .unwrap();
    let why = response.declined.as_deref().unwrap();
    assert!(response.answer.is_none(), "{response:?}");
    assert!(why.starts_with("budget.cost: 1 can't be kept: the cost of the work of r-2 is unknown"), "{why}");
}

/// After a kill or a pause the turn is given what it has produced, and no pause is shorter than the least one.
#[test]
fn an_answer_that_begins_again_is_given_what_it_has_produced() {
    let mut pattern = answering();
    on(&mut pattern, 0, EventKind::Started);
    let artifact = Artifact::text("a", "text/plain", "x");
    let report = Progress::Artifact { artifact: artifact.clone(), append: false, last_chunk: true };
    on(&mut pattern, 1, EventKind::TurnProgress { turn: 1, updates: vec![report] });
    assert_eq!(pattern.view().turn.artifacts, std::slice::from_ref(&artifact));
    let end = TurnEnd::Pause { after_ms: 0, reason: "429".into() };
    let effects = on(&mut pattern, 2, EventKind::TurnEnded { turn: 1, updates: Vec::new(), end });
    let resume = Timer::Resume;
    let when = TimerAt::Wall(WallTime(2).plus(MIN_PAUSE));
    assert_eq!(effects, [Effect::SetTimer { timer: resume, when }]);
    let effects = on(&mut pattern, 3, EventKind::TimerFired { timer: resume });
    assert!(matches!(effects.as_slice(), [Effect::RunTurn { turn: 1, .. }]), "{effects:?}");
    assert_eq!(pattern.view().turn.artifacts, [artifact]);
}

/// Whether its last words come with the end of the turn or before makes no difference.
#[test]
fn an_answer_that_a_bound_ends_has_no_artifacts() {
    let bounds = TaskBounds { tokens: Some(100), ..TaskBounds::default() };
    let artifacts = |input_tokens, is_batched: bool| {
        let limits = WorkLimits { bounds, ..WorkLimits::default() };
        let mut pattern = answering_within(request(), limits);
        on(&mut pattern, 0, EventKind::Started);
        let artifact = Artifact::text("a", "text/plain", "x");
        let call = ModelUsage { input_tokens, model: "m".into(), ..Default::default() };
        let said =
            vec![Progress::Artifact { artifact, append: false, last_chunk: true }, Progress::Usage(call)];
        let (early, late) = if is_batched { (Vec::new(), said) } else { (said, Vec::new()) };
        let mut effects = on(&mut pattern, 1, EventKind::TurnProgress { turn: 1, updates: early });
        let end = TurnEnd::Failed { reason: "no".into() };
        effects.extend(on(&mut pattern, 2, EventKind::TurnEnded { turn: 1, updates: late, end }));
        let response = sent(&effects).find_map(|payload| match payload {
            Payload::HelpResponse(response) => Some(response.artifacts.len()),
            _ => None,
        });
        response.unwrap()
    };
    for is_batched in [true, false] {
        assert_eq!((artifacts(50, is_batched), artifacts(101, is_batched)), (1, 0), "{is_batched}");
    }
}

#[test]
fn an_answer_keeps_the_bounds_of_its_agent() {
    let cost = protocol::bid::Cost::new(1.0);
    let bounds = TaskBounds { turns: Some(1), tokens: Some(100), cost };
    let limits = WorkLimits { bounds, ..WorkLimits::default() };
    let declined = |budget: Budget, call: ModelUsage| {
        let request = message::HelpRequest { budget, ..request() };
        let mut pattern = answering_within(request, limits);
        on(&mut pattern, 0, EventKind::Started);
        let one_more = ModelUsage { cost: call.cost.map(|_| Default::default()), ..Default::default() };
        let updates = vec![Progress::Usage(call), Progress::Usage(one_more)];
        let effects = on(&mut pattern, 1, EventKind::TurnProgress { turn: 1, updates });
        let declined = sent(&effects).find_map(|payload| {
            if let Payload::HelpResponse(response) = payload { response.declined.clone() } else { None }
        });
        (declined, pattern.view().turn.remaining)
    };
    let call =
        |input_tokens, cost| ModelUsage { input_tokens, cost, model: "m".into(), ..Default::default() };
    let (why, left) = declined(Budget::default(), call(40, cost.map(|_| Default::default())));
    assert_eq!((why, left.tokens, left.turns), (None, Some(60), Some(0)));
    let (why, _) = declined(Budget::default(), call(100, cost.map(|_| Default::default())));
    assert_eq!(why.as_deref(), Some("bounds.tokens: 100 used up: 100 used"));
    let (why, _) = declined(Budget::default(), call(1, None));
    assert!(why.unwrap().starts_with("bounds.cost: 1 can't be kept: the cost of m at me is unknown"));
    let given = Budget { tokens: Some(30), cost: None };
    let (why, _) = declined(given, call(40, cost.map(|_| Default::default())));
    assert_eq!(why.as_deref(), Some("budget.tokens: 30 used up: 40 used"));
}

/// The effects of a turn of an answer that ends by waiting for what it has asked.
fn waits(pattern: &mut AnyPattern, asks: Vec<Progress>) -> Vec<Effect> {
    on(pattern, 1, EventKind::TurnEnded { turn: 1, updates: asks, end: TurnEnd::Waiting })
}

fn line(json: Value) -> Progress {
    serde_json::from_value(json).unwrap()
}

#[test]
fn who_answers_asks_peers_and_goes_on_with_what_came_back() {
    let mut pattern = answering();
    on(&mut pattern, 0, EventKind::Started);
    let help = line(json!({ "type": "help", "id": "h", "to": "expert", "question": "sure?" }));
    let effects = waits(&mut pattern, vec![help]);
    let asked = effects.iter().find_map(|effect| match effect {
        Effect::Send(message) if matches!(message.payload, Payload::HelpRequest(_)) => Some(message),
        _ => None,
    });
    let message = asked.unwrap();
    assert_eq!(message.path, [id("asker")], "the path of the question");
    let lives = sent(&effects).filter(|payload| matches!(payload, Payload::TaskUpdate(_))).count();
    assert_eq!(lives, 1, "a sign of life: {effects:?}");
    let envelope = Box::new(envelope("expert", "help-response", json!({ "answer": "yes" })));
    let by = Principal::Agent(id("expert"));
    let what = EventKind::MessageReceived { by, answers: Some(message.label), envelope };
    let effects = on(&mut pattern, 2, what);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::RunTurn { turn: 2, .. })), "{effects:?}");
    let end = TurnEnd::Done { message: Some("it is good".into()) };
    let effects = on(&mut pattern, 3, EventKind::TurnEnded { turn: 2, updates: Vec::new(), end });
    assert!(sent(&effects).any(|payload| matches!(payload, Payload::HelpResponse(answer) if answer.answer.as_deref() == Some("it is good"))));
}

#[test]
fn who_is_on_the_path_of_a_question_asks_no_agent() {
    let question = AskedQuestion { path: vec![id("me"), id("asker")], ..asked(request()) };
    let mut pattern: AnyPattern = HelpRequest::answering(id("me"), question, WorkLimits::default()).into();
    on(&mut pattern, 0, EventKind::Started);
    let help = line(json!({ "type": "help", "id": "h", "to": "expert", "question": "sure?" }));
    let effects = waits(&mut pattern, vec![help]);
    assert!(!sent(&effects).any(|payload| matches!(payload, Payload::HelpRequest(_))), "{effects:?}");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::RunTurn { turn: 2, .. })), "{effects:?}");
}

#[test]
fn a_question_of_who_answers_reaches_the_asker_and_its_answer_comes_back() {
    let mut pattern = answering();
    on(&mut pattern, 0, EventKind::Started);
    let question = line(json!({ "type": "question", "id": "q", "text": "which branch?" }));
    let effects = waits(&mut pattern, vec![question]);
    let questions: Vec<_> = sent(&effects)
        .filter_map(
            |payload| if let Payload::TaskUpdate(update) = payload { update.status.as_ref() } else { None },
        )
        .flat_map(|status| status.questions.clone())
        .collect();
    let [asked] = questions.as_slice() else { panic!("{effects:?}") };
    assert_eq!(pattern.view().questions, questions, "an approval is checked against it");
    assert!(asked.expires_at.is_some(), "the asker may end, and its owner with it");
    let answer = json!({ "taskId": "answer-x", "questionId": asked.id, "answer": "main" });
    let said = |from: &str| {
        let envelope = Box::new(envelope(from, "task-answer", answer.clone()));
        EventKind::MessageReceived { by: Principal::Agent(id(from)), answers: None, envelope }
    };
    assert_eq!(on(&mut pattern, 2, said("stranger")), []);
    let effects = on(&mut pattern, 3, said("asker"));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::RunTurn { turn: 2, .. })), "{effects:?}");
}

#[test]
fn questions_of_peers_pass_through_the_agent_that_has_asked_them() {
    let mut pattern = asking();
    on(&mut pattern, 0, EventKind::Started);
    on(&mut pattern, 1, found(&["r-1", "r-2"]));
    let status = json!({ "state": "TASK_STATE_INPUT_REQUIRED",
        "questions": [{ "id": "q-1", "text": "which?" }] });
    let update = json!({ "taskId": "answer-x", "seq": 1, "status": status });
    let report = |from: &str| {
        let mut envelope = Box::new(envelope(from, "task-update", update.clone()));
        envelope.reply_conversation_id = protocol::ids::ConversationId::parse("c-9").ok();
        EventKind::MessageReceived { by: Principal::Agent(id(from)), answers: None, envelope }
    };
    assert_eq!(on(&mut pattern, 2, report("stranger")), []);
    let effects = on(&mut pattern, 2, report("r-1"));
    let shown = sent(&effects).any(|payload| match payload {
        Payload::TaskUpdate(update) => update.status.as_ref().unwrap().questions[0].id == "q-1",
        _ => false,
    });
    let is_extended = |effect: &Effect| matches!(effect, Effect::SetTimer { timer: Timer::Window, .. });
    assert!(shown && effects.iter().any(is_extended), "{effects:?}");
    let answer = json!({ "taskId": "answer-y", "questionId": "q-1", "answer": "main" });
    let envelope = Box::new(envelope("asker", "task-answer", answer));
    let by = Principal::Agent(id("asker"));
    let effects = on(&mut pattern, 3, EventKind::MessageReceived { by, answers: None, envelope });
    let [Effect::Send(passed)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(passed.to, Address::Agent(id("r-1")));
    assert_eq!(passed.conversation.as_ref().map(ToString::to_string).as_deref(), Some("c-9"));
    assert!(matches!(&passed.payload, Payload::TaskAnswer(answer) if answer.task_id.as_str() == "answer-x"));
}
