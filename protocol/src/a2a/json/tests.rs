use super::*;
use crate::a2a::{
    card::AgentCard,
    event::StreamResponse,
    message::Message,
    part::{Artifact, Part, PartContent},
    request::{A2aOperation, ListTasks, Request},
    task::{A2aTask, TaskState},
};
use proptest::prelude::*;
use serde_json::json;

fn part(value: Value) -> Result<Part, InvalidField> {
    Part::from_proto(value)
}

#[test]
fn both_names_of_a_member_are_read_and_never_both_at_once() {
    let camel = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "a", "mediaType": "text/plain" }], "referenceTaskIds": ["t"] });
    let snake = json!({ "message_id": "m", "role": 1, "parts": [{ "text": "a", "media_type": "text/plain" }], "reference_task_ids": ["t"] });
    let read = Message::from_proto(camel).unwrap();
    assert_eq!(Message::from_proto(snake).unwrap(), read);
    let both = json!({ "messageId": "m", "message_id": "m", "role": 1, "parts": [{ "text": "a" }] });
    assert_eq!(Message::from_proto(both).unwrap_err().field, "messageId");
}

#[test]
fn what_is_wrong_is_named_by_its_path() {
    for (message, field) in [
        (json!([]), ""),
        (json!({ "role": "ROLE_USER", "parts": [{ "text": "a" }] }), "messageId"),
        (json!({ "messageId": "", "role": "ROLE_USER", "parts": [{ "text": "a" }] }), "messageId"),
        (json!({ "messageId": 7, "role": "ROLE_USER", "parts": [{ "text": "a" }] }), "messageId"),
        (json!({ "messageId": "m", "parts": [{ "text": "a" }] }), "role"),
        (json!({ "messageId": "m", "role": "user", "parts": [{ "text": "a" }] }), "role"),
        (json!({ "messageId": "m", "role": 0, "parts": [{ "text": "a" }] }), "role"),
        (json!({ "messageId": "m", "role": 3, "parts": [{ "text": "a" }] }), "role"),
        (json!({ "messageId": "m", "role": 1, "parts": [] }), "parts"),
        (json!({ "messageId": "m", "role": 1, "parts": {} }), "parts"),
        (json!({ "messageId": "m", "role": 1, "parts": [{ "text": "a" }, {}] }), "parts[1]"),
        (json!({ "messageId": "m", "role": 1, "parts": [{ "text": "a", "url": "b" }] }), "parts[0]"),
        (json!({ "messageId": "m", "role": 1, "parts": [{ "text": 1 }] }), "parts[0].text"),
        (json!({ "messageId": "m", "role": 1, "parts": [{ "raw": "%" }] }), "parts[0].raw"),
        (json!({ "messageId": "m", "role": 1, "parts": [{ "text": "a" }], "metadata": [] }), "metadata"),
        (
            json!({ "messageId": "m", "role": 1, "parts": [{ "text": "a" }], "extensions": [1] }),
            "extensions[0]",
        ),
    ] {
        assert_eq!(Message::from_proto(message.clone()).unwrap_err().field, field, "{message}");
    }
    let request =
        json!({ "message": { "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "text": "a" }] } });
    assert_eq!(Request::read(A2aOperation::SendMessage, request).unwrap_err().field, "message.role");
}

#[test]
fn null_is_unset_except_where_any_value_may_stand() {
    assert_eq!(
        part(json!({ "text": "a", "url": null, "metadata": null })).unwrap(),
        Part::new(PartContent::Text("a".into()))
    );
    assert_eq!(part(json!({ "data": null })).unwrap(), Part::new(PartContent::Data(Value::Null)));
    assert!(part(json!({ "text": null })).is_err());
    assert_eq!(part(json!({ "text": "" })).unwrap(), Part::new(PartContent::Text(String::new())));
}

#[test]
fn a_list_is_asked_for_within_its_bounds() {
    let asked = |params: Value| ListTasks::from_proto(params);
    for (size, is_good) in [
        (json!(1), true),
        (json!(100), true),
        (json!("50"), true),
        (json!(5.0), true),
        (json!(null), true),
        (json!(0), false),
        (json!(101), false),
        (json!(-1), false),
        (json!(1.5), false),
        (json!("x"), false),
        (json!(true), false),
        (json!(4_294_967_297_i64), false),
    ] {
        assert_eq!(asked(json!({ "pageSize": size })).is_ok(), is_good, "{size}");
    }
    assert_eq!(asked(json!({ "status": 6 })).unwrap().status, Some(TaskState::InputRequired));
    assert_eq!(asked(json!({ "status": "TASK_STATE_UNSPECIFIED" })).unwrap().status, None);
    for (params, field) in [
        (json!({ "status": "working" }), "status"),
        (json!({ "historyLength": -1 }), "historyLength"),
        (json!({ "statusTimestampAfter": "yesterday" }), "statusTimestampAfter"),
        (json!({ "includeArtifacts": "yes" }), "includeArtifacts"),
    ] {
        assert_eq!(asked(params).unwrap_err().field, field);
    }
    for digits in ["", ".1", ".123456789"] {
        let time = format!("2026-01-02T03:04:05{digits}Z");
        assert!(asked(json!({ "statusTimestampAfter": time })).is_ok(), "{time}");
    }
}

#[test]
fn a_list_after_a_part_of_a_millisecond_begins_with_the_next() {
    for (digits, millis) in [("", 0), (".001", 1), (".0010", 1), (".001000001", 2), (".0019", 2)] {
        let time = format!("1970-01-01T00:00:00{digits}Z");
        let asked = ListTasks::from_proto(json!({ "statusTimestampAfter": time })).unwrap();
        assert_eq!(asked.status_timestamp_after.map(|time| time.0), Some(millis), "{time}");
    }
}

#[test]
fn a_stream_response_has_exactly_one_member() {
    let message = json!({ "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "text": "a" }] });
    assert!(StreamResponse::from_proto(json!({ "message": message })).is_ok());
    assert!(StreamResponse::from_proto(json!({})).is_err());
    let task = json!({ "id": "t", "status": { "state": "TASK_STATE_WORKING" } });
    assert!(StreamResponse::from_proto(json!({ "message": message, "task": task })).is_err());
}

#[test]
fn a_card_without_what_is_required_is_refused_by_name() {
    let card = json!({
        "name": "n", "description": "d", "version": "1", "capabilities": {},
        "supportedInterfaces": [{ "url": "http://x/a2a/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{ "id": "s", "name": "s", "description": "s", "tags": ["t"] }],
        "securitySchemes": { "key": { "apiKeySecurityScheme": { "location": "header", "name": "X-Key" } } },
        "securityRequirements": [{ "schemes": { "key": { "list": [] } } }],
    });
    let read = AgentCard::from_proto(card.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), card);
    for member in [
        "name",
        "description",
        "version",
        "capabilities",
        "supportedInterfaces",
        "defaultInputModes",
        "skills",
    ] {
        let mut without = card.clone();
        without.as_object_mut().unwrap().remove(member);
        assert_eq!(AgentCard::from_proto(without).unwrap_err().field, member);
    }
    let mut tagless = card;
    tagless["skills"][0]["tags"] = json!([]);
    assert_eq!(AgentCard::from_proto(tagless).unwrap_err().field, "skills[0].tags");
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ -~]{0,8}".prop_map(Value::from),
        Just(json!("ROLE_USER")),
        Just(json!("TASK_STATE_WORKING")),
    ];
    let name = prop::sample::select(vec![
        "messageId",
        "message_id",
        "role",
        "parts",
        "text",
        "raw",
        "url",
        "data",
        "metadata",
        "message",
        "task",
        "id",
        "status",
        "state",
        "timestamp",
        "configuration",
        "historyLength",
        "pageSize",
        "artifacts",
        "artifactId",
        "extensions",
        "statusUpdate",
        "taskId",
        "contextId",
        "capabilities",
        "skills",
        "securitySchemes",
        "schemes",
    ]);
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name.clone(), inner, 0..6).prop_map(|members| members
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v))
                .collect::<Map<_, _>>()
                .into()),
        ]
    })
}

fn message() -> impl Strategy<Value = Value> {
    let content = prop_oneof![
        ".{0,12}".prop_map(|text| json!({ "text": text })),
        prop::collection::vec(any::<u8>(), 0..24)
            .prop_map(|bytes| json!({ "raw": base64::engine::general_purpose::STANDARD.encode(bytes) })),
        anything().prop_map(|data| json!({ "data": data })),
        "[a-z]{1,8}".prop_map(|url| json!({ "url": url, "filename": url, "mediaType": "text/plain" })),
    ];
    (prop::collection::vec(content, 1..4), "[!-~]{1,12}", prop::option::of("[!-~]{1,12}")).prop_map(
        |(parts, id, context)| {
            let mut message = json!({ "messageId": id, "role": "ROLE_USER", "parts": parts });
            if let Some(context) = context {
                message["contextId"] = context.into();
            }
            message
        },
    )
}

proptest! {
    #[test]
    fn nothing_that_may_come_makes_a_reader_panic(value in anything()) {
        let _ = (Message::from_proto(value.clone()), A2aTask::from_proto(value.clone()), AgentCard::from_proto(value.clone()));
        let _ = (StreamResponse::from_proto(value.clone()), Artifact::from_proto(value.clone()));
        for operation in A2aOperation::ALL {
            let _ = Request::read(*operation, value.clone());
        }
    }

    #[test]
    fn a_message_is_written_as_it_was_read(message in message()) {
        let read = Message::from_proto(message.clone()).unwrap();
        prop_assert_eq!(serde_json::to_value(&read).unwrap(), message.clone());
        prop_assert_eq!(Message::from_proto(message.clone()).unwrap(), serde_json::from_value::<Message>(message).unwrap());
    }

    #[test]
    fn unknown_members_and_nulls_change_nothing(message in message(), unknown in anything()) {
        let mut more = message.clone();
        more["somethingElse"] = unknown;
        more["taskId"] = Value::Null;
        prop_assert_eq!(Message::from_proto(more).unwrap(), Message::from_proto(message).unwrap());
    }

    #[test]
    fn bytes_survive_every_way_to_write_them(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
        let standard = STANDARD.encode(&bytes);
        for text in [standard.clone(), STANDARD_NO_PAD.encode(&bytes), URL_SAFE.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            prop_assert_eq!(base64_of_any_kind(text), Ok(standard.clone()));
        }
        prop_assert_eq!(bytes_of(&standard), Some(bytes));
    }
}
