use super::*;
use crate::a2a::{
    card::AgentCard,
    card_signature::{self, SigningKey},
    event::StreamResponse,
    json::FromProtoJson,
    request::{A2aOperation, Request},
};
use proptest::prelude::*;
use serde_json::json;

const FORMS: [V03Form; 2] = [V03Form::Schema, V03Form::Proto];

fn part() -> impl Strategy<Value = Value> {
    let content = prop_oneof![
        "[a-z ]{0,8}".prop_map(|text| json!({ "text": text })),
        any::<i32>().prop_map(|number| json!({ "data": { "n": number } })),
        any::<i32>().prop_map(|number| json!({ "data": [number, null] })),
        Just(json!({ "data": null })),
        Just(json!({ "data": { "data": { "x": 1 } } })),
        Just(json!({ "raw": "AAEC", "mediaType": "image/png", "filename": "a.png" })),
        Just(json!({ "url": "https://x.example/a", "mediaType": "image/png" })),
        Just(json!({ "url": "https://x.example/a" })),
    ];
    (content, any::<bool>()).prop_map(|(mut part, has_metadata)| {
        if has_metadata {
            part["metadata"] = json!({ "k": 1 });
        }
        part
    })
}

fn message(has_references: bool) -> impl Strategy<Value = Value> {
    (prop::collection::vec(part(), 1..4), any::<bool>(), any::<bool>()).prop_map(
        move |(parts, is_user, more)| {
            let role = if is_user { "ROLE_USER" } else { "ROLE_AGENT" };
            let mut message = json!({ "messageId": "m", "role": role, "parts": parts });
            if more {
                message["contextId"] = json!("c");
                message["taskId"] = json!("t");
                message["metadata"] = json!({ "urn:x": [1] });
                message["extensions"] = json!(["urn:x"]);
                if has_references {
                    message["referenceTaskIds"] = json!(["t-0"]);
                }
            }
            message
        },
    )
}

fn state() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "TASK_STATE_SUBMITTED",
        "TASK_STATE_WORKING",
        "TASK_STATE_COMPLETED",
        "TASK_STATE_FAILED",
        "TASK_STATE_CANCELED",
        "TASK_STATE_INPUT_REQUIRED",
        "TASK_STATE_REJECTED",
        "TASK_STATE_AUTH_REQUIRED",
    ])
}

fn event() -> impl Strategy<Value = Value> {
    let status = (state(), message(false)).prop_map(|(state, message)| {
        json!({ "state": state, "message": message, "timestamp": "2026-11-29T03:00:00.000Z" })
    });
    let artifact = prop::collection::vec(part(), 1..3)
        .prop_map(|parts| json!({ "artifactId": "a", "name": "n", "parts": parts }));
    (0..4, status, artifact, message(false)).prop_map(|(which, status, artifact, message)| match which {
        0 => json!({ "task": {
            "id": "t", "contextId": "c", "status": status, "artifacts": [artifact], "history": [message], "metadata": { "k": 1 },
        }}),
        1 => json!({ "message": message }),
        2 => json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": status } }),
        _ => json!({ "artifactUpdate": {
            "taskId": "t", "contextId": "c", "artifact": artifact, "append": true, "lastChunk": true,
        }}),
    })
}

proptest! {
    #[test]
    fn an_event_comes_back_as_it_was(event in event(), form in prop::sample::select(FORMS.to_vec())) {
        let legacy = event_to_v03(event.clone(), form);
        prop_assert_eq!(&event_to_v1(legacy.clone()), &event);
        // And so does the one of 0.3.
        prop_assert_eq!(event_to_v03(event_to_v1(legacy.clone()), form), legacy);
        prop_assert!(StreamResponse::from_proto(event).is_ok());
    }

    #[test]
    fn a_message_to_send_comes_back_as_it_was(
        message in message(true),
        returns in any::<bool>(),
        length in prop::option::of(1..9),
        form in prop::sample::select(FORMS.to_vec()),
    ) {
        let mut asked = json!({ "message": super::within(message, |m| drop(m.insert("role".into(), "ROLE_USER".into()))), "configuration": {
            "acceptedOutputModes": ["text/plain"], "returnImmediately": returns,
            "taskPushNotificationConfig": {
                "id": "w", "url": "https://x.example/hook", "token": "t", "authentication": { "scheme": "Bearer", "credentials": "s" },
            },
        }});
        if let Some(length) = length {
            asked["configuration"]["historyLength"] = json!(length);
        }
        let operation = A2aOperation::SendMessage;
        let legacy = params_to_v03(operation, asked.clone(), form);
        if form == V03Form::Proto {
            asked["message"].as_object_mut().unwrap().remove("referenceTaskIds");
        }
        let back = params_to_v1(operation, legacy);
        prop_assert_eq!(&back, &asked);
        prop_assert!(Request::read(operation, back).is_ok());
    }

    #[test]
    fn nothing_that_comes_from_outside_panics(value in value(), at in 0..METHODS) {
        let operation = A2aOperation::ALL[at];
        for form in FORMS {
            let _ = params_to_v03(operation, params_to_v1(operation, value.clone()), form);
            let _ = event_to_v03(event_to_v1(value.clone()), form);
            let _ = result_to_v03(operation, value.clone(), form, true);
        }
        let _ = to_hybrid_card(to_v1_card(value.clone()));
        let _ = (without_v03_members(&value), to_v03_signed(&value), is_v1_message(&value));
    }
}

const METHODS: usize = A2aOperation::ALL.len();

/// Any value with the members that are looked at.
fn value() -> impl Strategy<Value = Value> {
    let names = vec![
        "kind",
        "parts",
        "content",
        "status",
        "state",
        "message",
        "task",
        "artifact",
        "file",
        "data",
        "metadata",
        "role",
        "value",
        "configuration",
        "authentication",
        "schemes",
        "scheme",
        "pushNotificationConfig",
        "config",
        "configs",
        "url",
        "security",
        "securitySchemes",
        "type",
        "flows",
        "skills",
        "tags",
        "capabilities",
        "supportedInterfaces",
        "additionalInterfaces",
        "securityRequirements",
        "apiKeySecurityScheme",
        "blocking",
        "historyLength",
        "timestamp",
        "data_part_compat",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        prop::sample::select(vec!["", "text", "task", "apiKey", "x"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(names.clone()), inner, 0..5).prop_map(
                |members| members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            ),
        ]
    })
}

#[test]
fn a_request_is_read_in_either_form() {
    let schema = json!({
        "message": { "kind": "message", "messageId": "m", "role": "user", "parts": [
            { "kind": "text", "text": "hi" },
            { "kind": "file", "file": { "bytes": "AAEC", "mimeType": "image/png", "name": "a.png" } },
            { "kind": "data", "data": { "data": 1 } },
        ]},
        "configuration": { "blocking": false, "historyLength": 0 },
    });
    let read = params_to_v1(A2aOperation::SendMessage, schema.clone());
    assert_eq!(
        read,
        json!({
            "message": { "messageId": "m", "role": "ROLE_USER", "parts": [
                { "text": "hi" }, { "raw": "AAEC", "mediaType": "image/png", "filename": "a.png" }, { "data": { "data": 1 } },
            ]},
            "configuration": { "returnImmediately": true },
        })
    );
    let proto = json!({
        "request": { "messageId": "m", "role": "ROLE_USER", "content": [
            { "text": "hi" }, { "file": { "fileWithUri": "https://x", "mimeType": "image/png" } }, { "data": { "data": { "a": 1 } } },
        ]},
        "configuration": {},
    });
    let read = params_to_v1(A2aOperation::SendMessage, proto.clone());
    assert_eq!(read["message"]["parts"][1], json!({ "url": "https://x", "mediaType": "image/png" }));
    assert_eq!(read["message"]["parts"][2], json!({ "data": { "a": 1 } }));
    assert_eq!(read["configuration"]["returnImmediately"], true, "a member that is missing is false");
    assert!(!is_v1_message(&schema) && !is_v1_message(&proto));
    assert!(is_v1_message(&json!({ "message": { "parts": [{ "text": "hi" }] } })));
}

#[test]
fn a_file_over_http_json_is_encoded_twice_and_read_either_way() {
    let new = json!({ "message": { "parts": [{ "raw": "AAEC" }] } });
    let old = params_to_v03(A2aOperation::SendMessage, new.clone(), V03Form::Proto);
    assert_eq!(old["message"]["content"][0]["file"]["fileWithBytes"], "QUFFQw==");
    assert_eq!(params_to_v1(A2aOperation::SendMessage, old), new);
    let once = json!({ "message": { "content": [{ "file": { "fileWithBytes": "AAEC" } }] } });
    assert_eq!(params_to_v1(A2aOperation::SendMessage, once), new);
}

#[test]
fn the_webhooks_of_a_task_are_set_and_shown_in_either_form() {
    let webhook = json!({ "url": "https://x", "id": "w", "authentication": { "schemes": ["Bearer"], "credentials": "c" } });
    let flat = json!({
        "taskId": "t", "url": "https://x", "id": "w", "authentication": { "scheme": "Bearer", "credentials": "c" },
    });
    let set = A2aOperation::CreateTaskPushNotificationConfig;
    let schema = json!({ "taskId": "t", "pushNotificationConfig": webhook });
    assert_eq!(params_to_v1(set, schema.clone()), flat);
    let mut named = webhook.clone();
    named.as_object_mut().unwrap().remove("id");
    let proto = json!({
        "taskId": "t", "parent": "tasks/t", "configId": "w",
        "config": { "name": "tasks/t/pushNotificationConfigs/w", "pushNotificationConfig": named },
    });
    assert_eq!(params_to_v1(set, proto), flat);

    let shown = |operation, result, form, is_first| result_to_v03(operation, result, form, is_first);
    assert_eq!(shown(set, flat.clone(), V03Form::Schema, false).unwrap(), schema);
    let name = "tasks/t/pushNotificationConfigs/w";
    let of_proto = json!({ "name": name, "pushNotificationConfig": webhook });
    assert_eq!(shown(set, flat.clone(), V03Form::Proto, false).unwrap(), of_proto);
    let list = A2aOperation::ListTaskPushNotificationConfigs;
    let page = json!({ "configs": [flat], "nextPageToken": "" });
    assert_eq!(shown(list, page.clone(), V03Form::Schema, false).unwrap(), json!([schema]));
    assert_eq!(shown(list, page.clone(), V03Form::Proto, false).unwrap(), json!({ "configs": [of_proto] }));
    assert_eq!(shown(list, page, V03Form::Schema, true).unwrap(), schema);
    assert!(shown(list, json!({ "configs": [] }), V03Form::Schema, true).is_err());
    let get = A2aOperation::GetTaskPushNotificationConfig;
    assert_eq!(
        params_to_v1(get, json!({ "id": "t", "pushNotificationConfigId": "w" })),
        json!({ "taskId": "t", "id": "w" })
    );
    assert!(takes_first_config(get, &json!({ "id": "t" })));
    assert!(!takes_first_config(get, &json!({ "id": "w", "taskId": "t" })));
}

#[test]
fn every_method_and_path_of_0_3_leads_to_its_operation() {
    for operation in A2aOperation::ALL {
        let Some(method) = method(*operation) else {
            assert_eq!(*operation, A2aOperation::ListTasks);
            continue;
        };
        assert_eq!(super::operation(method), Some(*operation));
        let (verb, path) = path(*operation, "t-1");
        let found = find_route(verb, path.strip_prefix("v1").unwrap()).unwrap();
        assert_eq!(found.operation, *operation, "{path}");
    }
    assert!(find_route("GET", "/tasks").is_err());
    assert!(find_route("GET", "/extendedAgentCard").is_err());
}

#[test]
fn answers_without_a_kind_are_known_by_their_members() {
    for (bare, name) in [
        (json!({ "id": "t", "status": { "state": "completed" } }), "task"),
        (json!({ "messageId": "m", "role": "agent", "parts": [] }), "message"),
        (json!({ "taskId": "t", "status": { "state": "working" }, "final": false }), "statusUpdate"),
        (json!({ "taskId": "t", "artifact": { "artifactId": "a", "parts": [] } }), "artifactUpdate"),
    ] {
        assert!(event_to_v1(bare.clone()).get(name).is_some(), "{bare}");
    }
    let task = |time: &str| json!({ "id": "t", "kind": "task", "status": { "state": "input-required", "timestamp": time } });
    let read = |time: &str| event_to_v1(task(time))["task"]["status"].clone();
    assert_eq!(read("2026-01-02T03:04:05.123456")["timestamp"], "2026-01-02T03:04:05.123456Z");
    assert_eq!(read("yesterday"), json!({ "state": "TASK_STATE_INPUT_REQUIRED" }));
}

#[test]
fn the_last_status_of_a_stream_says_that_it_is_final() {
    for (state, is_final) in [("WORKING", false), ("INPUT_REQUIRED", true), ("CANCELED", true)] {
        let update = json!({ "statusUpdate": { "taskId": "t", "status": { "state": format!("TASK_STATE_{state}") } } });
        assert_eq!(event_to_v03(update.clone(), V03Form::Schema)["final"], is_final);
        assert_eq!(event_to_v03(update, V03Form::Proto)["statusUpdate"]["final"], is_final);
    }
}

fn card() -> Value {
    json!({
        "name": "A", "description": "d", "version": "1", "capabilities": { "streaming": true, "extendedAgentCard": true },
        "supportedInterfaces": [
            { "url": "https://a.example/x/a2a/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" },
            { "url": "https://a.example/x/a2a/v1", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0" },
            { "url": "a.example:443", "protocolBinding": "GRPC", "protocolVersion": "1.0" },
        ],
        "securitySchemes": {
            "key": { "apiKeySecurityScheme": { "location": "header", "name": "X-Key" } },
            "bearer": { "httpAuthSecurityScheme": { "scheme": "Bearer" } },
        },
        "securityRequirements": [{ "schemes": { "key": { "list": [] } } }],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{
            "id": "s", "name": "S", "description": "d", "tags": ["t"],
            "securityRequirements": [{ "schemes": { "bearer": { "list": ["a"] } } }],
        }],
    })
}

#[test]
fn a_hybrid_card_has_both_and_its_signature_holds() {
    let key = SigningKey::from_seed(&[3; 32]);
    let mut signed = card();
    signed["signatures"] = json!([card_signature::sign(&signed, &key, None)]);
    let hybrid = to_hybrid_card(signed.clone());
    assert_eq!(hybrid["url"], "https://a.example/x/a2a/rpc");
    assert_eq!(
        (&hybrid["preferredTransport"], &hybrid["protocolVersion"]),
        (&json!("JSONRPC"), &json!("0.3.0"))
    );
    assert_eq!(
        hybrid["additionalInterfaces"],
        json!([
            { "url": "https://a.example/x/a2a/rpc", "transport": "JSONRPC" },
            { "url": "https://a.example/x/a2a", "transport": "HTTP+JSON" },
        ])
    );
    assert_eq!(hybrid["supportsAuthenticatedExtendedCard"], true);
    assert_eq!(hybrid["security"], json!([{ "key": [] }]));
    assert_eq!(hybrid["skills"][0]["security"], json!([{ "bearer": ["a"] }]));
    let scheme = &hybrid["securitySchemes"]["key"];
    assert_eq!(
        (&scheme["type"], &scheme["in"], &scheme["name"]),
        (&json!("apiKey"), &json!("header"), &json!("X-Key"))
    );
    assert!(scheme["apiKeySecurityScheme"].is_object());

    assert_eq!(without_v03_members(&hybrid), signed);
    assert!(card_signature::verify(&hybrid, &[key.public().clone()]).is_ok());
    let mut changed = hybrid.clone();
    changed["description"] = json!("another");
    assert!(card_signature::verify(&changed, &[key.public().clone()]).is_err());
    assert!(AgentCard::from_proto(without_v03_members(&hybrid)).is_ok());
}

#[test]
fn a_card_of_0_3_says_the_same_as_the_hybrid_it_is_in() {
    let mut old = to_hybrid_card(card());
    for name in ["supportedInterfaces", "securityRequirements"] {
        old.as_object_mut().unwrap().remove(name);
    }
    old["securitySchemes"] = json!({
        "key": { "type": "apiKey", "in": "header", "name": "X-Key" }, "bearer": { "type": "http", "scheme": "Bearer" },
    });
    old["skills"][0].as_object_mut().unwrap().remove("securityRequirements");
    old["capabilities"] = json!({ "streaming": true, "stateTransitionHistory": true });
    assert!(is_v03_card(&old));
    let mut expected = card();
    expected["supportedInterfaces"] = json!([
        { "url": "https://a.example/x/a2a/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "0.3.0" },
        { "url": "https://a.example/x/a2a", "protocolBinding": "HTTP+JSON", "protocolVersion": "0.3.0" },
    ]);
    assert_eq!(to_v1_card(old), expected);
}

#[test]
fn a_signature_of_a_0_3_card_holds_with_and_without_its_defaults() {
    let key = SigningKey::from_seed(&[4; 32]);
    let card = json!({
        "name": "A", "url": "https://a.example", "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0", "provider": null,
        "skills": [], "securitySchemes": { "k": { "type": "http", "scheme": "Bearer" } },
    });
    let signed_of = |payload: &Value| {
        let mut signed = card.clone();
        signed["signatures"] = json!([card_signature::sign(payload, &key, None)]);
        signed
    };
    let lean = json!({ "name": "A", "url": "https://a.example", "securitySchemes": { "k": { "scheme": "Bearer" } } });
    assert!(card_signature::verify(&signed_of(&lean), &[key.public().clone()]).is_ok());
    let other = json!({ "name": "B", "url": "https://a.example" });
    assert!(card_signature::verify(&signed_of(&other), &[key.public().clone()]).is_err());
}
