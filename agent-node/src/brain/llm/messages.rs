//! Anthropic Messages, streamed.

use super::{
    dialect::{AnswerDecoder, is_error, provider_error, read_event, unnamed},
    model::{
        MediaKind, MediaRef, ModelAnswer, ModelDelta, ModelError, ModelMessage, ModelRequest, StopReason,
        TokenUsage, ToolCall, ToolText,
    },
    request_form::RequestForm,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The most tokens of an answer if no rule says it; a number is required.
const MAX_TOKENS: u32 = 8_192;

/// The body of a request. The tools with the system prompt, which are the same in every call of a task, and the whole conversation are
/// marked for the cache, so that each call reads what the one before has written.
pub(super) fn body(form: RequestForm<'_>, request: &ModelRequest) -> Value {
    let conversation = form.messages(request);
    let ids = form.call_ids(&conversation);
    let id = |ours: &String| ids.get(ours).unwrap_or(ours).clone();
    let mut messages: Vec<Value> = Vec::new();
    for message in conversation.iter() {
        let (role, content) = match message {
            ModelMessage::User(text) => ("user", vec![text_block(text.clone())]),
            ModelMessage::Media(media) => ("user", form.media_parts(media, request, text_block, media_block)),
            ModelMessage::Assistant { text, calls, kept } => {
                let has_ids = calls.iter().all(|call| call.provider_id.is_some());
                let kept = form.parts(kept).and_then(Value::as_array).filter(|_| has_ids);
                let content = kept.cloned().unwrap_or_else(|| {
                    let text = Some(text).filter(|text| !text.trim().is_empty());
                    let text = text.map(|text| json!({ "type": "text", "text": text }));
                    let calls = calls.iter().map(|call| {
                        json!({ "type": "tool_use", "id": id(&call.id), "name": call.name, "input": call.arguments })
                    });
                    text.into_iter().chain(calls).collect()
                });
                ("assistant", content)
            }
            ModelMessage::Results(results) => {
                let result = |(ours, ToolText { text, is_error }): &(String, ToolText)| json!({ "type": "tool_result", "tool_use_id": id(ours), "content": text, "is_error": is_error });
                ("user", results.iter().map(result).collect())
            }
        };
        // An empty message is refused, and so are two of one role in a row at some servers.
        match messages.last_mut() {
            _ if content.is_empty() => {}
            Some(last) if last["role"] == role => {
                if let Some(blocks) = last["content"].as_array_mut() {
                    blocks.extend(content);
                }
            }
            _ => messages.push(json!({ "role": role, "content": content })),
        }
    }
    let mut system = json!([{ "type": "text", "text": request.system }]);
    if form.is_marked() {
        let mark = json!({ "type": "ephemeral" });
        system[0]["cache_control"] = mark.clone();
        let last = messages.last_mut().and_then(|message| message["content"].as_array_mut()?.last_mut());
        if let Some(block) = last {
            block["cache_control"] = mark;
        }
    }
    let settings = &form.config.settings;
    let most = settings.max_tokens.or(form.config.rules.most_tokens).unwrap_or(MAX_TOKENS);
    let mut body = json!({
        "model": form.config.name, "max_tokens": most, "system": system, "messages": messages, "stream": true,
    });
    let tools: Vec<Value> = form.tools(request).map(|(tool, schema)| json!({ "name": tool.name, "description": tool.description, "input_schema": schema })).collect();
    if !tools.is_empty() {
        body["tools"] = json!(tools);
    }
    form.finish(body, ("output_config", |effort| json!({ "effort": effort })), "stop_sequences")
}

fn text_block(text: String) -> Value {
    json!({ "type": "text", "text": text })
}

fn media_block(medium: &MediaRef, content: &str) -> Value {
    let kind = match medium.kind() {
        MediaKind::Image => "image",
        MediaKind::Pdf => "document",
    };
    json!({ "type": kind, "source": { "type": "base64", "media_type": medium.media_type, "data": content } })
}

/// A content block as it arrives.
#[derive(Debug)]
enum PartialBlock {
    Text(String),
    Call {
        id: String,
        name: String,
        arguments: String,
    },
    /// Reasoning, and whatever else there is: it goes back as it came.
    Other(Value),
}

impl PartialBlock {
    /// As it goes back.
    fn whole(&self) -> Option<Value> {
        match self {
            Self::Text(text) if text.trim().is_empty() => None,
            Self::Text(text) => Some(json!({ "type": "text", "text": text })),
            Self::Call { id, name, arguments } => {
                let call = ToolCall::parse(id.clone(), name.clone(), arguments, None);
                Some(json!({ "type": "tool_use", "id": id, "name": name, "input": call.arguments }))
            }
            Self::Other(block) => Some(block.clone()),
        }
    }
}

/// Reads the events of an answer.
#[derive(Debug, Default)]
pub(super) struct EventDecoder {
    text: String,
    blocks: BTreeMap<u64, PartialBlock>,
    stop: Option<String>,
    /// Why the model does not answer.
    refusal: String,
    /// 0 is no count.
    usage: TokenUsage,
    is_stopped: bool,
}

impl EventDecoder {
    fn add_usage(&mut self, usage: &Value) -> Vec<ModelDelta> {
        let of = |name: &str| usage[name].as_u64().unwrap_or_default();
        let (cached, written) = (of("cache_read_input_tokens"), of("cache_creation_input_tokens"));
        let input = of("input_tokens") + cached + written;
        // The last event repeats the input at some servers and leaves it out at others.
        self.usage.input = self.usage.input.max(input);
        self.usage.cached = self.usage.cached.max(cached);
        self.usage.cache_write = self.usage.cache_write.max(written);
        self.usage.output = usage["output_tokens"].as_u64().unwrap_or(self.usage.output);
        vec![ModelDelta::Counted(self.usage)]
    }

    fn begin(&mut self, index: u64, block: &Value) -> Vec<ModelDelta> {
        let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
        let begun = match block["type"].as_str() {
            Some("text") => PartialBlock::Text(String::new()),
            Some("tool_use") => {
                let (id, name) = (text("id"), text("name"));
                PartialBlock::Call { id, name, arguments: String::new() }
            }
            _ => PartialBlock::Other(block.clone()),
        };
        self.blocks.insert(index, begun);
        if block["type"] == "text" { self.add(index, block) } else { Vec::new() }
    }

    fn add(&mut self, index: u64, delta: &Value) -> Vec<ModelDelta> {
        let text = |name: &str| delta[name].as_str().unwrap_or_default();
        match self.blocks.get_mut(&index) {
            Some(PartialBlock::Text(whole)) => {
                let text = text("text");
                whole.push_str(text);
                self.text.push_str(text);
                if text.is_empty() { Vec::new() } else { vec![ModelDelta::Text(text.to_owned())] }
            }
            Some(PartialBlock::Call { arguments, .. }) => {
                arguments.push_str(text("partial_json"));
                vec![ModelDelta::Hidden(text("partial_json").len())]
            }
            Some(PartialBlock::Other(block)) => {
                for name in ["thinking", "signature", "data"] {
                    let known = block[name].as_str().unwrap_or_default();
                    if !text(name).is_empty() {
                        block[name] = json!(format!("{known}{}", text(name)));
                    }
                }
                vec![ModelDelta::Hidden(text("thinking").len())]
            }
            None => Vec::new(),
        }
    }
}

impl AnswerDecoder for EventDecoder {
    fn on_event(&mut self, _event: &str, data: &str) -> Result<Vec<ModelDelta>, ModelError> {
        let event = read_event(data)?;
        let index = event["index"].as_u64().unwrap_or(0);
        Ok(match event["type"].as_str() {
            Some("message_start") => self.add_usage(&event["message"]["usage"]),
            Some("content_block_start") => self.begin(index, &event["content_block"]),
            Some("content_block_delta") => self.add(index, &event["delta"]),
            Some("message_delta") => {
                if let Some(reason) = event["delta"]["stop_reason"].as_str() {
                    self.stop = Some(reason.to_owned());
                }
                if let Some(why) = event["delta"]["stop_details"]["explanation"].as_str() {
                    why.clone_into(&mut self.refusal);
                }
                self.add_usage(&event["usage"])
            }
            Some("message_stop") => {
                self.is_stopped = true;
                vec![ModelDelta::Answer(self.on_end()?)]
            }
            _ if is_error(&event) => return Err(provider_error(None, &event)),
            _ => Vec::new(),
        })
    }

    fn on_end(&mut self) -> Result<ModelAnswer, ModelError> {
        let stop = match self.stop.take().as_deref() {
            Some("max_tokens") if self.is_stopped => StopReason::Length,
            Some("model_context_window_exceeded") if self.is_stopped => {
                return Err(ModelError::context_is_full());
            }
            Some("refusal") if self.is_stopped => StopReason::Refused,
            Some(_) if self.is_stopped => StopReason::Complete,
            _ => return Err(ModelError::transient("the answer broke off")),
        };
        let blocks: Vec<_> = std::mem::take(&mut self.blocks).into_values().collect();
        // Without reasoning there is nothing that could not be made again.
        let has_other = blocks.iter().any(|block| matches!(block, PartialBlock::Other(_)));
        let kept: Vec<_> = blocks.iter().filter(|_| has_other).filter_map(PartialBlock::whole).collect();
        let calls = blocks.into_iter().filter_map(|block| match block {
            PartialBlock::Call { id, name, arguments } => {
                let provider_id = Some(id.clone()).filter(|id| !id.is_empty());
                Some(ToolCall { provider_id, ..ToolCall::parse(id, name, &arguments, None) })
            }
            PartialBlock::Text(_) | PartialBlock::Other(_) => None,
        });
        let (mut text, calls) = (std::mem::take(&mut self.text), calls.collect());
        if stop == StopReason::Refused {
            text.extend((!text.is_empty()).then_some('\n'));
            text.push_str(&self.refusal);
        }
        let usage = Some(self.usage).filter(|usage| *usage != TokenUsage::default());
        Ok(ModelAnswer { text, calls, stop, usage, kept: unnamed(json!(kept)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brain::llm::{
        model::{Kept, ModelErrorKind},
        provider::{ModelConfig, ModelSettings},
        request_form::Learned,
        request_form::tests::{model, request, result},
    };

    fn events() -> Vec<Value> {
        vec![
            json!({ "type": "message_start", "message": { "usage": { "input_tokens": 5, "cache_read_input_tokens": 4, "output_tokens": 1 } } }),
            json!({ "type": "ping" }),
            json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
            json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "Hi" } }),
            json!({ "type": "content_block_stop", "index": 0 }),
            json!({ "type": "content_block_start", "index": 1, "content_block": { "type": "tool_use", "id": "t", "name": "log", "input": {} } }),
            json!({ "type": "content_block_delta", "index": 1, "delta": { "type": "input_json_delta", "partial_json": "{\"n\"" } }),
            json!({ "type": "content_block_delta", "index": 1, "delta": { "type": "input_json_delta", "partial_json": ":3}" } }),
            json!({ "type": "content_block_stop", "index": 1 }),
            json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 9 } }),
            json!({ "type": "message_stop" }),
        ]
    }

    #[test]
    fn text_calls_and_usage_are_gathered() {
        let mut decoder = EventDecoder::default();
        let mut last = None;
        for event in events() {
            last = decoder.on_event("", &event.to_string()).unwrap().pop().or(last);
        }
        let Some(ModelDelta::Answer(answer)) = last else { panic!("{last:?}") };
        assert_eq!((answer.text.as_str(), answer.calls.len()), ("Hi", 1));
        assert_eq!((&answer.calls[0].name, &answer.calls[0].arguments["n"]), (&"log".to_owned(), &json!(3)));
        let expected = TokenUsage { input: 9, output: 9, cached: 4, cache_write: 0 };
        assert_eq!((answer.usage, answer.kept), (Some(expected), None));
    }

    #[test]
    fn counts_arrive_with_the_first_event_and_missing_ones_are_unknown() {
        let mut decoder = EventDecoder::default();
        let first = decoder.on_event("", &events()[0].to_string()).unwrap();
        assert_eq!(
            first,
            [ModelDelta::Counted(TokenUsage { input: 9, output: 1, cached: 4, cache_write: 0 })]
        );
        let mut decoder = EventDecoder::default();
        for mut event in events() {
            if let Some(event) = event.as_object_mut() {
                event.remove("usage");
                event.remove("message");
            }
            decoder.on_event("", &event.to_string()).unwrap();
        }
        decoder.stop = Some("end_turn".to_owned());
        assert_eq!(decoder.on_end().unwrap().usage, None);
    }

    #[test]
    fn an_answer_that_ends_at_any_event_before_the_last_is_broken() {
        let events = events();
        for cut in 0..events.len() {
            let mut decoder = EventDecoder::default();
            for event in &events[..cut] {
                decoder.on_event("", &event.to_string()).unwrap();
            }
            assert!(decoder.on_end().is_err(), "after {cut} events");
        }
    }

    #[test]
    fn an_answer_that_reached_the_end_of_the_context_is_an_error() {
        let mut decoder = EventDecoder::default();
        let end =
            json!({ "type": "message_delta", "delta": { "stop_reason": "model_context_window_exceeded" } });
        decoder.on_event("", &end.to_string()).unwrap();
        let error = decoder.on_event("", &json!({ "type": "message_stop" }).to_string()).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::ContextTooLong);
    }

    #[test]
    fn a_refusal_says_why() {
        for (said, expected) in [("", "It is a weapon."), ("Well", "Well\nIt is a weapon.")] {
            let mut decoder = EventDecoder::default();
            let details = json!({ "type": "refusal", "category": "cyber", "explanation": "It is a weapon." });
            let delta = json!({ "stop_reason": "refusal", "stop_details": details });
            let block = json!({ "type": "text", "text": said });
            let mut last = None;
            for event in [
                json!({ "type": "content_block_start", "index": 0, "content_block": block }),
                json!({ "type": "message_delta", "delta": delta }),
                json!({ "type": "message_stop" }),
            ] {
                last = decoder.on_event("", &event.to_string()).unwrap().pop();
            }
            let Some(ModelDelta::Answer(answer)) = last else { panic!("{last:?}") };
            assert_eq!((answer.text.as_str(), answer.stop), (expected, StopReason::Refused));
        }
    }

    #[test]
    fn an_error_within_the_stream_says_whether_to_try_again() {
        for (kind, expected) in [
            ("overloaded_error", ModelErrorKind::Transient),
            ("api_error", ModelErrorKind::Transient),
            ("invalid_request_error", ModelErrorKind::Permanent),
        ] {
            let event = json!({ "type": "error", "error": { "type": kind, "message": "m" } });
            let error = EventDecoder::default().on_event("error", &event.to_string()).unwrap_err();
            assert_eq!(error.kind, expected, "{kind}");
        }
    }

    #[test]
    fn results_and_a_note_become_one_message_of_the_user_whose_end_is_marked() {
        let (config, learned) = (model("anthropic/claude-x"), Learned::default());
        let form = RequestForm { config: &config, learned: &learned };
        let asked = request(vec![
            ModelMessage::User("u".into()),
            ModelMessage::Assistant { text: String::new(), calls: Vec::new(), kept: None },
            ModelMessage::Results(vec![result("c", "r")]),
            ModelMessage::User("note".into()),
        ]);
        let body = body(form, &asked);
        assert_eq!(body["messages"].as_array().unwrap().len(), 1);
        let content = body["messages"][0]["content"].as_array().unwrap();
        let marked: Vec<_> = content.iter().map(|block| block.get("cache_control").is_some()).collect();
        assert_eq!(marked, [false, false, true]);
        assert!(body["system"][0].get("cache_control").is_some());
        let config =
            ModelConfig { settings: ModelSettings { cache: Some(false), ..Default::default() }, ..config };
        let form = RequestForm { config: &config, learned: &learned };
        assert!(!super::body(form, &asked).to_string().contains("cache_control"));
    }

    #[test]
    fn thoughts_go_back_as_they_came_in_their_order() {
        let block = |index: u64, block: Value| json!({ "type": "content_block_start", "index": index, "content_block": block });
        let delta = |index: u64, delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
        let mut decoder = EventDecoder::default();
        let mut last = None;
        for event in [
            block(0, json!({ "type": "thinking", "thinking": "", "signature": "" })),
            delta(0, json!({ "type": "thinking_delta", "thinking": "hm" })),
            delta(0, json!({ "type": "signature_delta", "signature": "sig" })),
            block(1, json!({ "type": "redacted_thinking", "data": "xyz" })),
            block(2, json!({ "type": "tool_use", "id": "t", "name": "log" })),
            json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 9 } }),
            json!({ "type": "message_stop" }),
        ] {
            last = decoder.on_event("", &event.to_string()).unwrap().pop().or(last);
        }
        let Some(ModelDelta::Answer(answer)) = last else { panic!("{last:?}") };
        let expected = json!([
            { "type": "thinking", "thinking": "hm", "signature": "sig" },
            { "type": "redacted_thinking", "data": "xyz" },
            { "type": "tool_use", "id": "t", "name": "log", "input": {} },
        ]);
        let kept = answer.kept.unwrap();
        assert_eq!(kept.parts, expected);
        let (config, mut learned) = (model("anthropic/claude-x"), Learned::default());
        let content = |learned: &Learned, by: &str| {
            let form = RequestForm { config: &config, learned };
            let by = if by.is_empty() { form.keeper() } else { by.to_owned() };
            let kept = Some(Kept { by, ..kept.clone() });
            let calls = vec![ToolCall { id: "c1_0".into(), ..answer.calls[0].clone() }];
            let asked = request(vec![
                ModelMessage::Assistant { text: String::new(), calls, kept },
                ModelMessage::Results(vec![result("c1_0", "r")]),
            ]);
            let body = body(form, &asked);
            (body["messages"][0]["content"].clone(), body["messages"][1]["content"][0]["tool_use_id"].clone())
        };
        assert_eq!(content(&learned, ""), (expected.clone(), json!("t")));
        assert_eq!(content(&learned, "another").0.as_array().unwrap().len(), 1);
        learned.drops_kept = true;
        assert_eq!(content(&learned, ""), (json!([expected[2]]), json!("t")));
    }
}
