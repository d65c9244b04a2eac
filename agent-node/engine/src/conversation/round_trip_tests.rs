//! Every admitted message, and the state and the step that follow from it, are read from the store as they were written,
//! with long texts stored by digest.

use crate::{
    content,
    records::{ConversationState, EffectKey, OpenEffect, Step},
};
use patterns::{
    AnyPattern, Event, EventKind, Label, RequestKey,
    broadcast::Broadcast,
    contract_net::{Auction, ContractNet},
    help_request::{AskedQuestion, HelpRequest},
    ownership::{Requester, TaskOwnership},
    redelivery::Redelivery,
    work::{Doing, WorkLimits},
};
use proptest::prelude::*;
use protocol::{
    envelope::Envelope,
    ids::{AgentId, MessageId},
    message::{MessageKind, Payload},
    principal::Principal,
    task::TaskSpec,
    time::{NodeTime, WallTime},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, fmt::Debug};
use store_types::{Batch, MemoryState};

fn me() -> AgentId {
    AgentId::parse("a").unwrap()
}

/// The required members of each kind.
fn required(kind: MessageKind) -> Value {
    let task = json!({ "taskId": "t-1", "description": "x", "root": "user:local" });
    match kind {
        MessageKind::TaskRequest => json!({ "description": "x" }),
        MessageKind::TaskUpdate => json!({ "taskId": "t-1", "seq": 1 }),
        MessageKind::TaskResponse => json!({ "taskId": "t-1", "seq": 1, "state": "TASK_STATE_COMPLETED" }),
        MessageKind::TaskCancel => json!({ "taskId": "t-1" }),
        MessageKind::TaskAnswer => json!({ "taskId": "t-1", "answer": "x" }),
        MessageKind::HelpRequest => json!({ "question": "x" }),
        MessageKind::HelpResponse => json!({ "answer": "x" }),
        MessageKind::Broadcast => json!({ "signal": "x.y" }),
        MessageKind::Cfp => {
            json!({ "taskId": "t-1", "capability": "c", "description": "x", "bidBy": "2026-01-01T00:00:00Z" })
        }
        MessageKind::Bid => json!({ "taskId": "t-1", "cost": 1, "eta": "5min" }),
        MessageKind::NoBid | MessageKind::Reject => json!({ "taskId": "t-1", "reason": "x" }),
        MessageKind::Award => json!({ "taskId": "t-1", "epoch": 1, "leaseMs": 1, "task": task }),
        MessageKind::AwardAccept => json!({ "taskId": "t-1", "epoch": 1 }),
        MessageKind::AwardDecline => json!({ "taskId": "t-1", "epoch": 1, "reason": "x" }),
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![4 => ".{0,12}", 1 => Just("\"\\\u{0}é".repeat(700)), 1 => Just("long ".repeat(300))]
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("JSON has no such number", |n| serde_json::Number::from_f64(n)
            .map(Value::Number)),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let name = prop_oneof![Just("$content".to_owned()), Just("literally".to_owned()), ".{0,6}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..3)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

fn artifact() -> impl Strategy<Value = Value> {
    (text(), anything()).prop_map(|(text, data)| {
        json!({ "artifactId": "r", "parts": [{ "text": text, "mediaType": "text/plain" }, { "data": data }], "metadata": { "m": data } })
    })
}

/// Known members with valid values, and unknown members.
fn member() -> impl Strategy<Value = (String, Value)> {
    let named = |names: &'static [&'static str]| prop::sample::select(names).prop_map(str::to_owned);
    prop_oneof![
        (
            named(&["description", "reason", "message", "question", "answer", "subject", "declined"]),
            text().prop_map(Value::from)
        ),
        (named(&["input", "constraints", "x", "$extra", "payload", "type"]), anything()),
        (
            named(&["artifacts", "inlineArtifacts"]),
            prop::collection::vec(artifact(), 0..2).prop_map(Value::from)
        ),
        (named(&["artifact"]), artifact()),
        (named(&["artifacts"]), Just(json!(["art-1", { "name": "n", "sha256": "0".repeat(64), "more": 1 }]))),
        (named(&["append", "lastChunk"]), any::<bool>().prop_map(Value::from)),
        (named(&["seq", "epoch", "leaseMs", "validForMs"]), any::<u64>().prop_map(Value::from)),
        (named(&["cost", "load", "capability_match"]), (0.0..1.0_f64).prop_map(Value::from)),
        (named(&["eta"]), prop_oneof![any::<u32>().prop_map(Value::from), Just(json!("5min"))]),
        (named(&["deadline", "bidBy"]), Just(json!("2026-01-01T00:00:00.123Z"))),
        (
            named(&["status"]),
            text().prop_map(|text| json!({ "state": "TASK_STATE_WORKING", "message": text }))
        ),
        (
            named(&["refs"]),
            prop::collection::btree_map(".{0,6}", anything(), 0..2).prop_map(|refs| json!(refs))
        ),
        (".{0,8}".prop_map(String::from), anything()),
    ]
}

/// Any message that is admitted.
fn message() -> impl Strategy<Value = Envelope> {
    let members = || prop::collection::vec(member(), 0..5);
    (prop::sample::select(MessageKind::ALL), members(), members()).prop_filter_map("not admitted", |(kind, inside, outside)| {
        let mut body: Map<_, _> = outside.into_iter().collect();
        let mut payload: Map<_, _> = inside.into_iter().collect();
        payload.extend(required(kind).as_object().unwrap().clone());
        let head = json!({ "messageId": "m-1", "fromAgentId": "b", "toAgentId": "a", "type": kind.wire(), "payload": payload,
            "conversationId": "c", "inReplyTo": "r", "expiresAt": "2026-01-01T00:00:00Z", "path": ["b", "d"] });
        body.extend(head.as_object().unwrap().clone());
        // As it comes over the wire.
        let (text, minted) = (serde_json::to_vec(&body).ok()?, || MessageId::parse("m").unwrap());
        Envelope::from_json(protocol::json::parse(&text, 32).ok()?, minted).ok()
    })
}

/// Every pattern that a message opens or that receives it.
fn patterns(envelope: &Envelope) -> Vec<AnyPattern> {
    let by = Principal::Agent(AgentId::parse("b").unwrap());
    let requester = Some(Requester {
        agent: AgentId::parse("b").unwrap(),
        conversation: envelope.conversation_id.clone(),
        message: envelope.message_id.clone(),
        epoch: Some(1),
    });
    let mut all: Vec<AnyPattern> = vec![Redelivery::new(envelope.clone()).into()];
    if let Payload::HelpRequest(request) = &envelope.payload {
        let (request, requester) = (request.clone(), requester.clone());
        let asked = AskedQuestion { request, requester, path: Vec::new(), space: None };
        all.push(HelpRequest::answering(me(), asked, WorkLimits::default()).into());
    }
    if let Payload::Broadcast(broadcast) = &envelope.payload {
        all.push(Broadcast::new(broadcast.clone(), &by).into());
    }
    let spec: TaskSpec = if let Payload::Award(award) = &envelope.payload {
        award.task.clone()
    } else {
        let spec = json!({ "taskId": "t-1", "description": "x", "root": "user:local", "capability": "c" });
        serde_json::from_value(spec).unwrap()
    };
    let ownership = TaskOwnership::new(spec, requester);
    let doer = Doing::new(me(), ownership.clone(), None, WorkLimits::default());
    let net = ContractNet::new(me(), ownership, Auction::default(), Vec::new());
    all.extend([doer.into(), net.into()]);
    all
}

fn round_trips<T: Serialize + DeserializeOwned + PartialEq + Debug>(record: &T) -> Result<(), TestCaseError> {
    let mut store = MemoryState::default();
    let mut writes = Vec::new();
    let bytes = content::encode(&me(), record, &mut writes, &mut Default::default()).unwrap();
    store.commit(Batch { writes, expectations: Vec::new() }).unwrap();
    let back: T = content::decode(&me(), &store, &bytes).unwrap();
    prop_assert_eq!(&back, record);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    #[test]
    fn every_message_with_its_steps_and_states_round_trips_through_the_store(envelope in message()) {
        round_trips(&envelope)?;
        let asked = Label::Request(RequestKey(1, 0));
        for mut pattern in patterns(&envelope) {
            let by = Principal::Agent(AgentId::parse("b").unwrap());
            let heard = EventKind::MessageReceived { by, answers: Some(asked), envelope: Box::new(envelope.clone()) };
            let mut open = BTreeMap::new();
            for (step, what) in [(1, EventKind::Started), (2, heard)] {
                let event = Event { at: NodeTime(7), wall: WallTime(1_767_225_600_123), what };
                let effects = pattern.on(&event);
                for (index, effect) in (0..).zip(&effects) {
                    open.insert(EffectKey(step, index), OpenEffect { effect: effect.clone(), attempts: 1, at: event.wall });
                }
                round_trips(&event)?;
                round_trips(&effects)?;
                let (closes, events) = (vec![(0, EffectKey(step, 0))], vec![event.clone(), event]);
                let step = Step { step, events, closes, effects, ..Step::default() };
                round_trips(&step)?;
            }
            round_trips(&ConversationState {
                rules: AnyPattern::RULES,
                pattern,
                open,
                labels: BTreeMap::from([(EffectKey(1, 0), asked)]),
                task: None,
                trace: None,
                thread: None,
                principal: None,
                has_ended: false,
            })?;
        }
    }
}
