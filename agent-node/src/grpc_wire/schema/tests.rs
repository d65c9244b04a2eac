//! Tests that JSON survives the conversion to protobuf and back, and that operations map to gRPC methods.

use super::*;
use serde_json::json;

fn descriptor(full_name: &str) -> MessageDescriptor {
    POOL.get_message_by_name(full_name).unwrap()
}

fn message(full_name: &str, value: Value) -> DynamicMessage {
    DynamicMessage::deserialize(descriptor(full_name), value).unwrap()
}

/// Encodes the JSON `value` as the protobuf message `lf.a2a.v1.{name}`, decodes it, and asserts that it gives the same JSON.
fn assert_round_trip(name: &str, value: Value) {
    let full_name = format!("lf.a2a.v1.{name}");
    let bytes = deterministic::encode(&message(&full_name, value.clone()));
    let decoded = DynamicMessage::decode(descriptor(&full_name), &*bytes).unwrap();
    assert_eq!(json(&decoded).unwrap(), value);
}

fn sample_message() -> Value {
    json!({
        "messageId": "m", "contextId": "c", "taskId": "t", "role": "ROLE_USER",
        "parts": [
            { "text": "hello", "filename": "h.txt", "mediaType": "text/plain", "metadata": { "a": [1, "x", null] } },
            { "text": "" },
            { "raw": "AP+A", "mediaType": "application/octet-stream" },
            { "url": "https://example.com/x" },
            { "data": { "n": 42, "half": 0.5, "deep": { "list": [true, {}] } } },
            { "data": null },
            { "data": [] },
        ],
        "metadata": { "urn:x": { "y": -1 } }, "extensions": ["urn:x"], "referenceTaskIds": ["r"],
    })
}

fn sample_task() -> Value {
    json!({
        "id": "t", "contextId": "c",
        "status": { "state": "TASK_STATE_COMPLETED", "message": sample_message(), "timestamp": "2026-11-22T09:00:00.123Z" },
        "artifacts": [{ "artifactId": "a", "name": "n", "description": "d", "parts": [{ "text": "x" }],
                        "metadata": { "k": "v" }, "extensions": ["urn:y"] }],
        "history": [sample_message()], "metadata": { "big": 9_007_199_254_740_991_i64 },
    })
}

#[test]
fn every_operation_is_a_grpc_method_that_streams_if_a2a_says_so() {
    for operation in A2aOperation::ALL {
        let should_stream =
            [A2aOperation::SendStreamingMessage, A2aOperation::SubscribeToTask].contains(operation);
        assert_eq!(is_streaming(*operation), should_stream, "{}", operation.name());
        assert_eq!(path(*operation), format!("/lf.a2a.v1.A2AService/{}", operation.name()));
    }
}

#[test]
fn tasks_messages_and_events_survive_a_round_trip() {
    assert_round_trip("Task", sample_task());
    for event in [
        json!({ "task": sample_task() }),
        json!({ "message": sample_message() }),
        json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": sample_task()["status"], "metadata": { "k": 1 } } }),
        json!({ "artifactUpdate": { "taskId": "t", "contextId": "c", "artifact": sample_task()["artifacts"][0],
                                    "append": true, "lastChunk": true, "metadata": { "k": 1 } } }),
    ] {
        assert_round_trip("StreamResponse", event);
    }
}

#[test]
fn a_request_and_a_card_keep_exactly_the_members_that_are_set() {
    let webhook = json!({ "id": "w", "taskId": "t", "url": "https://example.com/hook", "token": "k", "tenant": "x",
                          "authentication": { "scheme": "Bearer", "credentials": "s" } });
    let configuration = json!({ "acceptedOutputModes": ["text/plain"], "historyLength": 0, "returnImmediately": true,
                                "taskPushNotificationConfig": webhook });
    assert_round_trip(
        "SendMessageRequest",
        json!({ "tenant": "x", "message": sample_message(), "configuration": configuration }),
    );
    assert_round_trip("SendMessageRequest", json!({ "message": sample_message(), "configuration": {} }));
    assert_round_trip(
        "AgentCard",
        json!({
            "name": "n", "description": "d", "version": "1", "documentationUrl": "",
            "capabilities": { "streaming": false, "extensions": [{ "uri": "urn:x", "params": { "k": 1 } }] },
            "securitySchemes": { "tls": { "mtlsSecurityScheme": {} } },
            "securityRequirements": [{ "schemes": { "key": { "list": ["s"] } } }],
            "signatures": [{ "protected": "p", "signature": "s", "header": { "h": "v" } }],
        }),
    );
}

#[test]
fn whole_numbers_become_json_integers_and_infinity_is_refused() {
    let to_json = |number: f64| {
        let value = prost_reflect::Value::F64(number);
        let mut message = DynamicMessage::new(descriptor("google.protobuf.Value"));
        message.set_field_by_name("number_value", value);
        json(&message)
    };
    assert_eq!(to_json(42.0).unwrap().to_string(), "42");
    assert_eq!(to_json(-0.5).unwrap().to_string(), "-0.5");
    assert_eq!(to_json(1e300).unwrap().as_f64(), Some(1e300));
    assert!(to_json(f64::INFINITY).is_err());
}

#[test]
fn times_keep_nanoseconds_and_are_limited_to_the_year_9999() {
    let to_json = |seconds: i64, nanos: i32| {
        let mut status = message("lf.a2a.v1.TaskStatus", json!({ "timestamp": "1970-01-01T00:00:00Z" }));
        let mut time = DynamicMessage::new(descriptor("google.protobuf.Timestamp"));
        time.set_field_by_name("seconds", prost_reflect::Value::I64(seconds));
        time.set_field_by_name("nanos", prost_reflect::Value::I32(nanos));
        status.set_field_by_name("timestamp", prost_reflect::Value::Message(time));
        json(&status)
    };
    assert_eq!(to_json(0, 1).unwrap()["timestamp"], "1970-01-01T00:00:00.000000001Z");
    assert_eq!(to_json(253_402_300_800, 0).unwrap_err().field, "timestamp");
}

#[test]
fn equal_messages_have_equal_bytes() {
    let members: serde_json::Map<_, _> =
        (0..50).map(|n| (format!("k{n}"), json!({ "b": n, "a": n }))).collect();
    let task = json!({ "id": "t", "metadata": members });
    let encoded = || deterministic::encode(&message("lf.a2a.v1.Task", task.clone()));
    let first = encoded();
    assert!((0..10).all(|_| encoded() == first));
}
