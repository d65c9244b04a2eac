//! A message that is plainly right, read straight into its members: every message passes here, and a tree of values in
//! between costs as much again.

use super::Envelope;
use crate::{
    ids::{Address, AgentId, ConversationId, MessageId},
    json::{
        Strict,
        shape::{Name, Shape},
    },
    message::{Kind, Payload},
    time::WallTime,
};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value, map::Entry};
use std::{borrow::Cow, fmt};

/// A message as it was read, and whether its text would do for a record of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Plainly {
    /// The message.
    pub envelope: Box<Envelope>,
    /// Whether the text says all that the envelope does, where a record has it: read back with serde, it is the envelope.
    pub is_kept_as_it_came: bool,
}

impl Envelope {
    /// The envelope in `bytes`, just as [`json::parse`](crate::json::parse) and [`Envelope::from_json`] read it. `None`
    /// for a message that they refuse, and for one that takes more than a look: they say what there is to say of it.
    pub fn from_plain(bytes: &[u8], max_depth: usize, minted: impl FnOnce() -> MessageId) -> Option<Plainly> {
        // As text, of which no member has to be looked at again for being UTF-8.
        let text = std::str::from_utf8(bytes).ok()?;
        let max = max_depth.checked_sub(1).filter(|left| *left > 0)?;
        let mut source = serde_json::Deserializer::from_str(text);
        let plain = Read { text, max }.deserialize(&mut source).ok()?;
        source.end().ok()?;
        // The kind may stand behind the payload, so that has only been looked at.
        let payload =
            plain.kind?.deserialize(&mut serde_json::Deserializer::from_str(plain.payload?)).ok()?;
        let in_payload = || {
            let known =
                if let Payload::TaskRequest(request) = &payload { request.reply_to.as_deref() } else { None };
            known.or_else(|| payload.extra().get("replyTo")?.as_str()).map(str::to_owned)
        };
        let elsewhere = if matches!(plain.reply_to, Some(Some(_))) { None } else { in_payload() };
        // A record has no member for what was supplied or stood elsewhere, another one for what nobody knows, and no `null`
        // for a list.
        let is_kept_as_it_came = elsewhere.is_none()
            && plain.extra.is_empty()
            && matches!(plain.message_id, Some(Some(_)))
            && !matches!(plain.path, Some(None));
        let envelope = Box::new(Self {
            reply_to: plain.reply_to.flatten().map(Cow::into_owned).or(elsewhere),
            message_id: plain.message_id.flatten().unwrap_or_else(minted),
            from_agent_id: plain.from_agent_id?,
            to_agent_id: plain.to_agent_id?,
            payload,
            timestamp: plain.timestamp.flatten(),
            conversation_id: plain.conversation_id.flatten(),
            in_reply_to: plain.in_reply_to.flatten(),
            reply_conversation_id: plain.reply_conversation_id.flatten(),
            expires_at: plain.expires_at.flatten(),
            path: plain.path.flatten().unwrap_or_default(),
            extra: plain.extra,
        });
        Some(Plainly { envelope, is_kept_as_it_came })
    }
}

/// Members as they stand in a message: each is there once, or not; those that may be `null` say so.
#[derive(Default)]
struct Plain<'de> {
    kind: Option<Kind>,
    /// What begins with it.
    payload: Option<&'de str>,
    from_agent_id: Option<AgentId>,
    to_agent_id: Option<Address>,
    message_id: Option<Option<MessageId>>,
    timestamp: Option<Option<WallTime>>,
    conversation_id: Option<Option<ConversationId>>,
    in_reply_to: Option<Option<MessageId>>,
    reply_conversation_id: Option<Option<ConversationId>>,
    reply_to: Option<Option<Cow<'de, str>>>,
    expires_at: Option<Option<WallTime>>,
    path: Option<Option<Vec<AgentId>>>,
    extra: Map<String, Value>,
}

/// Reads them from `text`, of which a member's value may be nested `max` levels deep.
struct Read<'de> {
    text: &'de str,
    max: usize,
}

impl<'de> Read<'de> {
    /// What follows a member's name that lies in the text.
    fn behind(&self, name: &Cow<'de, str>) -> Option<&'de str> {
        let Cow::Borrowed(name) = name else { return None };
        let end = (name.as_ptr() as usize + name.len()).checked_sub(self.text.as_ptr() as usize)?;
        Some(self.text.get(end..)?.split_once(':')?.1)
    }
}

impl<'de> DeserializeSeed<'de> for Read<'de> {
    type Value = Plain<'de>;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Plain<'de>, D::Error> {
        source.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Read<'de> {
    type Value = Plain<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Plain<'de>, A::Error> {
        let mut plain = Plain::default();
        while let Some(name) = members.next_key_seed(Name)? {
            let is_first = match name.as_ref() {
                "type" => {
                    let kind = Kind::parse(&members.next_value_seed(Name)?).map_err(A::Error::custom)?;
                    plain.kind.replace(kind).is_none()
                }
                "payload" => {
                    members.next_value_seed(Shape { left: self.max })?;
                    let is_first = plain.payload.is_none();
                    plain.payload = self.behind(&name);
                    is_first && plain.payload.is_some()
                }
                "fromAgentId" => plain.from_agent_id.replace(members.next_value()?).is_none(),
                "toAgentId" => plain.to_agent_id.replace(members.next_value()?).is_none(),
                "messageId" => plain.message_id.replace(members.next_value()?).is_none(),
                "timestamp" => plain.timestamp.replace(members.next_value()?).is_none(),
                "conversationId" => plain.conversation_id.replace(members.next_value()?).is_none(),
                "inReplyTo" => plain.in_reply_to.replace(members.next_value()?).is_none(),
                "replyConversationId" => plain.reply_conversation_id.replace(members.next_value()?).is_none(),
                "replyTo" => {
                    let text: Option<Cow<'de, str>> = members.next_value()?;
                    let is_plain = text.as_ref().is_none_or(|text| !text.as_bytes().contains(&0));
                    plain.reply_to.replace(text).is_none() && is_plain
                }
                "expiresAt" => plain.expires_at.replace(members.next_value()?).is_none(),
                "path" => plain.path.replace(members.next_value()?).is_none(),
                super::PAYLOAD_REF => false,
                _ => match plain.extra.entry(name.into_owned()) {
                    Entry::Vacant(place) => {
                        place.insert(members.next_value_seed(Strict { left: self.max, max: self.max })?);
                        true
                    }
                    Entry::Occupied(_) => false,
                },
            };
            if !is_first {
                return Err(A::Error::custom("a member twice, or one that takes more than a look"));
            }
        }
        Ok(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        coordination::{Event, What},
        json,
        principal::Principal,
        problem::Problem,
    };
    use proptest::prelude::*;
    use serde_json::json;

    fn minted() -> MessageId {
        MessageId::parse("minted").unwrap()
    }

    /// What is read at once; if its text would do for a record, a record of it is read as well.
    fn plain(text: &[u8]) -> Option<Envelope> {
        let Plainly { envelope, is_kept_as_it_came } = Envelope::from_plain(text, json::MAX_DEPTH, minted)?;
        if is_kept_as_it_came {
            let record = [br#"{"at":1,"wall":"2026-11-21T08:00:00.000Z","what":{"event":"heard","by":"user:local","envelope":"#, text, b"}}"].concat();
            let event: Event = serde_json::from_slice(&record).unwrap();
            let by = Principal::local_user();
            assert_eq!(event.what, What::Heard { by, answers: None, envelope: envelope.clone() });
        }
        Some(*envelope)
    }

    fn by_value(text: &[u8]) -> Result<Envelope, Problem> {
        Envelope::from_json(json::parse(text, json::MAX_DEPTH)?, minted)
    }

    fn bodies() -> Vec<Value> {
        let task = json!({
            "taskId": "t-1", "description": "d", "capability": "c", "input": { "a": [1, 2.5, null] },
            "deadline": "2026-11-21T09:00:00Z", "replyTo": "http://127.0.0.1:1/a2a/messages", "x-more": { "a": "b" },
        });
        let update = json!({
            "taskId": "t-1", "seq": 2, "epoch": 7, "status": { "state": "TASK_STATE_WORKING", "message": "half" },
            "artifact": { "artifactId": "r-1", "name": "a.txt", "parts": [{ "text": "x" }] }, "append": true,
        });
        let bid = json!({ "taskId": "t-1", "cost": 1, "eta": "30m", "capability_match": 0.5, "load": 0, "replyTo": "x" });
        let answer = json!({ "answer": "yes", "replyTo": 7 });
        [("task-request", task), ("task-update", update), ("bid", bid), ("help-response", answer)]
            .map(|(kind, payload)| {
                json!({
                    "messageId": "m-1", "fromAgentId": "a-1", "toAgentId": "b-1", "type": kind, "payload": payload,
                    "timestamp": "2026-11-21T08:00:00.000Z", "conversationId": "c-1", "inReplyTo": "m-0",
                    "replyConversationId": null, "expiresAt": "2026-11-21T09:00:00.000Z", "path": ["a-0"],
                    "x-trace": { "deep": [null] },
                })
            })
            .into()
    }

    #[test]
    fn what_is_plainly_right_is_read_at_once() {
        for body in bodies() {
            let text = serde_json::to_vec(&body).unwrap();
            let read = by_value(&text);
            assert!(read.is_ok(), "{read:?}");
            assert_eq!(plain(&text), read.ok());
        }
    }

    #[test]
    fn however_it_is_written_a_record_of_it_reads_the_same() {
        for whole in bodies() {
            let whole = whole.as_object().unwrap().clone();
            let mut known: Map<_, _> = whole.into_iter().filter(|(name, _)| name != "x-trace").collect();
            known["payload"]["more"] =
                json!({ "$content": "x", "what": { "event": "heard" }, "n": [1e300, -0.0, u64::MAX, 1.0] });
            for name in ["timestamp", "conversationId", "inReplyTo", "expiresAt", "replyTo"] {
                let without = Map::from_iter(
                    known.clone().into_iter().map(|(n, v)| if n == name { (n, Value::Null) } else { (n, v) }),
                );
                let (whole, without) = (Value::Object(known.clone()), Value::Object(without));
                for text in [whole.to_string(), without.to_string(), format!(" \n{whole:#}\t")] {
                    let escaped = text
                        .replace("m-1", "m\\u002d1")
                        .replace("messageId", "message\\u0049d")
                        .replace("1.0", "10e-1");
                    for text in [text, escaped] {
                        let read = Envelope::from_plain(text.as_bytes(), json::MAX_DEPTH, minted);
                        assert!(
                            read.is_some_and(|read| read.is_kept_as_it_came || text.contains("replyTo")),
                            "{text}"
                        );
                        assert_eq!(plain(text.as_bytes()), by_value(text.as_bytes()).ok(), "{text}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_takes_more_than_a_look_is_left() {
        let whole = bodies().remove(0);
        let mut held = whole.clone();
        held["payload"] = Value::String(whole["payload"].to_string());
        let mut elsewhere = whole;
        elsewhere["payloadRef"] = json!("0".repeat(64));
        for body in [held, elsewhere] {
            let text = serde_json::to_vec(&body).unwrap();
            assert!(by_value(&text).is_ok() && plain(&text).is_none(), "{body}");
        }
    }

    #[test]
    fn which_content_a_part_has_hangs_on_no_order() {
        for (part, is_right) in [
            (r#"{"text":"x"}"#, true),
            (r#"{"data":null}"#, true),
            (r#"{"text":"x","raw":"eA=="}"#, false),
            (r#"{"raw":1,"text":"x"}"#, false),
            (r#"{"url":"x","data":1}"#, false),
            (r#"{"mediaType":"text/plain"}"#, false),
        ] {
            let payload =
                format!(r#"{{"taskId":"t","seq":1,"artifact":{{"artifactId":"r","parts":[{part}]}}}}"#);
            let text =
                format!(r#"{{"fromAgentId":"a","toAgentId":"b","type":"task-update","payload":{payload}}}"#);
            assert_eq!(by_value(text.as_bytes()).is_ok(), is_right, "{part}");
            assert_eq!(plain(text.as_bytes()), by_value(text.as_bytes()).ok(), "{part}");
        }
    }

    #[test]
    fn what_is_refused_is_left() {
        let whole = bodies().remove(0).to_string();
        assert!(plain(whole.as_bytes()).is_some());
        let nested = format!("\"x-trace\":{}{}", "[".repeat(32), "]".repeat(32));
        for (there, instead) in [
            ("\"messageId\":\"m-1\"", "\"messageId\":\"m-1\",\"messageId\":\"m-1\""),
            ("\"messageId\":\"m-1\"", "\"messageId\":null,\"messageId\":null"),
            ("\"x-trace\":", "\"x-trace\":1,\"x-trace\":"),
            ("\"payload\":{", "\"payload\":{},\"payload\":{"),
            ("\"payload\":{", "\"payload\":{\"x\":1,\"x\":1,"),
            ("\"payload\":{", "\"p\\u0061yload\":{},\"payload\":{"),
            ("\"payload\":{", "\"payload\":{\"x\":{\"y\":\"\\u0000\"},"),
            ("\"x-trace\":{\"deep\":[null]}", nested.as_str()),
            ("\"x-trace\":", "\"replyTo\":\"\\u0000\",\"x-trace\":"),
            ("\"x-trace\":", "\"x\\u0000\":1,\"x-trace\":"),
            ("\"x-trace\":", "\"x\":\"\\u0000\",\"x-trace\":"),
        ] {
            let text = whole.replacen(there, instead, 1);
            assert_ne!(text, whole, "{there}");
            assert!(by_value(text.as_bytes()).is_err() && plain(text.as_bytes()).is_none(), "{text}");
        }
        let spaced = whole.replace("\"payload\":{", "\"payload\" \n:\t {");
        assert_eq!(plain(spaced.as_bytes()), by_value(spaced.as_bytes()).ok());
    }

    fn value() -> impl Strategy<Value = Value> {
        prop::sample::select(vec![
            json!(null),
            json!(true),
            json!(0),
            json!(-1),
            json!(1.0),
            json!(2.5),
            json!(1e300),
            json!(u64::MAX),
            json!(""),
            json!("x y"),
            json!("a-9"),
            json!("tab\t\u{7f}ü"),
            json!("\u{0}"),
            json!("TASK_STATE_WORKING"),
            json!("2026-11-21T08:00:00+01:00"),
            json!([]),
            json!(["TASK_STATE_WORKING", "x"]),
            json!({}),
            json!({ "state": "TASK_STATE_WORKING" }),
            json!({ "a": { "b": "\u{0}" } }),
        ])
    }

    const NAMES: &[&str] = &[
        "messageId",
        "fromAgentId",
        "toAgentId",
        "type",
        "payload",
        "timestamp",
        "conversationId",
        "inReplyTo",
        "replyConversationId",
        "replyTo",
        "expiresAt",
        "path",
        "x-trace",
        "$extra",
        "extra",
        "",
    ];
    const INSIDE: &[&str] = &[
        "taskId",
        "seq",
        "epoch",
        "status",
        "artifact",
        "append",
        "description",
        "input",
        "deadline",
        "replyTo",
        "cost",
        "eta",
        "capability_match",
        "capabilityMatch",
        "answer",
        "artifacts",
        "x",
        "$extra",
        "extra",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn it_reads_what_the_long_way_reads_and_nothing_else(
            which in 0usize..4,
            changes in prop::collection::vec((prop::sample::select(NAMES), value()), 0..2),
            inside in prop::collection::vec((prop::sample::select(INSIDE), value()), 0..3),
            gone in prop::option::of(prop::sample::select(NAMES)),
        ) {
            let mut body = bodies().remove(which);
            for (name, value) in inside {
                body["payload"][name] = value;
            }
            for (name, value) in changes {
                body[name] = value;
            }
            if let Some(name) = gone {
                body.as_object_mut().unwrap().remove(name);
            }
            let text = serde_json::to_vec(&body).unwrap();
            prop_assert_eq!(plain(&text), by_value(&text).ok());
        }

        #[test]
        fn of_damaged_text_too(which in 0usize..4, at in 0usize..400, put in prop::option::of(any::<char>())) {
            let mut text: Vec<char> = bodies().remove(which).to_string().chars().collect();
            let at = at % text.len();
            match put {
                Some(put) => text[at] = put,
                None => drop(text.remove(at)),
            }
            let text: String = text.into_iter().collect();
            prop_assert_eq!(plain(text.as_bytes()), by_value(text.as_bytes()).ok());
        }
    }
}
