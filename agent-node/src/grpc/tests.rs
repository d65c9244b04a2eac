//! What goes out as protobuf and is read again is what it was: between the two lies the wire.

use super::{read::Read, wire};
use prost::Message;
use protocol::a2a::{
    card::AgentCard,
    event::{SendMessageResponse, StreamResponse},
    json::FromProto,
    push::PushConfig,
    request::SendMessage,
    task::Task,
};
use serde_json::{Value, json};

/// `value` as our type, over the wire, as JSON again, as our type again.
fn there_and_back<T, W>(value: Value)
where
    T: FromProto + Clone + PartialEq + std::fmt::Debug,
    W: From<T> + Message + Default + Read,
{
    let ours = T::from_proto(value).unwrap();
    let bytes = W::from(ours.clone()).encode_to_vec();
    let back = W::decode(&*bytes).unwrap().read().unwrap();
    assert_eq!(T::from_proto(back).unwrap(), ours);
}

fn message() -> Value {
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

fn task() -> Value {
    let answer = json!({ "messageId": "n", "role": "ROLE_AGENT", "parts": [{ "text": "done" }] });
    json!({
        "id": "t", "contextId": "c",
        "status": { "state": "TASK_STATE_COMPLETED", "message": answer, "timestamp": "2026-11-22T09:00:00.123Z" },
        "artifacts": [{ "artifactId": "a", "name": "n", "description": "d", "parts": [{ "text": "x" }],
                        "metadata": { "k": "v" }, "extensions": ["urn:y"] }],
        "history": [message()], "metadata": { "big": 9_007_199_254_740_991_i64 },
    })
}

#[test]
fn tasks_messages_and_events_come_through() {
    there_and_back::<Task, wire::Task>(task());
    for state in ["SUBMITTED", "WORKING", "FAILED", "CANCELED", "INPUT_REQUIRED", "REJECTED", "AUTH_REQUIRED"]
    {
        let status = json!({ "state": format!("TASK_STATE_{state}") });
        there_and_back::<Task, wire::Task>(json!({ "id": "t", "status": status }));
    }
    for event in [
        json!({ "task": task() }),
        json!({ "message": message() }),
        json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": task()["status"], "metadata": { "k": 1 } } }),
        json!({ "artifactUpdate": { "taskId": "t", "contextId": "c", "artifact": task()["artifacts"][0],
                                    "append": true, "lastChunk": true, "metadata": { "k": 1 } } }),
    ] {
        there_and_back::<StreamResponse, wire::StreamResponse>(event);
    }
    there_and_back::<SendMessageResponse, wire::SendMessageResponse>(json!({ "task": task() }));
    there_and_back::<SendMessageResponse, wire::SendMessageResponse>(json!({ "message": message() }));
}

#[test]
fn what_is_asked_comes_through() {
    let webhook = json!({ "id": "w", "taskId": "t", "url": "https://example.com/hook", "token": "k", "tenant": "x",
                          "authentication": { "scheme": "Bearer", "credentials": "s" } });
    there_and_back::<PushConfig, wire::TaskPushNotificationConfig>(webhook.clone());
    for length in [json!(0), json!(7), Value::Null] {
        let configuration = json!({ "acceptedOutputModes": ["text/plain"], "historyLength": length,
                                    "returnImmediately": true, "taskPushNotificationConfig": webhook });
        there_and_back::<SendMessage, wire::SendMessageRequest>(
            json!({ "tenant": "x", "message": message(), "configuration": configuration, "metadata": { "k": [] } }),
        );
    }
}

#[test]
fn a_card_keeps_what_its_signature_depends_on() {
    let flows = json!({ "authorizationCode": { "authorizationUrl": "https://a", "tokenUrl": "https://t", "scopes": { "s": "d" } } });
    let card = json!({
        "name": "n", "description": "d", "version": "1",
        "supportedInterfaces": [{ "url": "h:1", "protocolBinding": "GRPC", "protocolVersion": "1.0", "tenant": "t" }],
        "capabilities": { "streaming": false, "extensions": [{ "uri": "urn:x", "required": true, "params": { "k": 1 } }] },
        "securitySchemes": {
            "key": { "apiKeySecurityScheme": { "location": "header", "name": "x-key" } },
            "oauth": { "oauth2SecurityScheme": { "flows": flows } },
            "tls": { "mtlsSecurityScheme": {} },
        },
        "securityRequirements": [{ "schemes": { "key": { "list": ["s"] } } }],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "documentationUrl": "",
        "skills": [{ "id": "s", "name": "S", "description": "d", "tags": ["t"], "examples": ["e"] }],
        "signatures": [{ "protected": "p", "signature": "s", "header": { "h": "v" } }],
    });
    let written = wire::AgentCard::from(AgentCard::from_proto(card).unwrap());
    let can = written.capabilities.as_ref().unwrap();
    assert_eq!((can.streaming, can.push_notifications, can.extended_agent_card), (Some(false), None, None));
    assert_eq!(
        (can.extensions[0].required, can.extensions[0].params.as_ref().unwrap().fields.len()),
        (true, 1)
    );
    assert_eq!(written.icon_url, None);
    assert_eq!(written.supported_interfaces[0].tenant, "t");
    assert_eq!(written.security_requirements[0].schemes["key"].list, ["s"]);
    let scheme = |name: &str| written.security_schemes[name].scheme.clone().unwrap();
    let wire::security_scheme::Scheme::Oauth2SecurityScheme(oauth) = scheme("oauth") else {
        panic!("no OAuth")
    };
    let Some(wire::o_auth_flows::Flow::AuthorizationCode(code)) = oauth.flows.unwrap().flow else {
        panic!("no code")
    };
    assert_eq!((code.token_url.as_str(), code.scopes["s"].as_str()), ("https://t", "d"));
    assert!(
        matches!(scheme("key"), wire::security_scheme::Scheme::ApiKeySecurityScheme(key) if key.name == "x-key")
    );
    assert!(matches!(scheme("tls"), wire::security_scheme::Scheme::MtlsSecurityScheme(_)));
    assert_eq!(written.signatures[0].header.as_ref().unwrap().fields.len(), 1);
}
