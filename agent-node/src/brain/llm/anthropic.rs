//! Anthropic Messages, streamed.

use super::{
    dialect::{AnswerDecoder, provider_error},
    model::{
        ModelAnswer, ModelDelta, ModelError, ModelMessage, ModelRequest, StopReason, TokenUsage, ToolCall,
        ToolText,
    },
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The body of a request. The system prompt and the tools are the same in every call of a task and marked for the cache.
pub(super) fn body(model: &str, request: &ModelRequest, max_tokens: u32) -> Value {
    let mut messages: Vec<Value> = Vec::new();
    for message in &request.messages {
        let (role, content) = match message {
            ModelMessage::User(text) => ("user", vec![json!({ "type": "text", "text": text })]),
            ModelMessage::Assistant { text, calls } => {
                let text = Some(text).filter(|text| !text.trim().is_empty());
                let text = text.map(|text| json!({ "type": "text", "text": text }));
                let calls = calls.iter().map(|call| {
                    json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments })
                });
                ("assistant", text.into_iter().chain(calls).collect())
            }
            ModelMessage::Results(results) => {
                let result = |(id, ToolText { text, is_error }): &(String, ToolText)| json!({ "type": "tool_result", "tool_use_id": id, "content": text, "is_error": is_error });
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
    let system =
        json!([{ "type": "text", "text": request.system, "cache_control": { "type": "ephemeral" } }]);
    let mut body = json!({
        "model": model, "max_tokens": max_tokens, "system": system, "messages": messages, "stream": true,
    });
    if !request.tools.is_empty() {
        let tool = |tool: &super::model::ToolSpec| json!({ "name": tool.name, "description": tool.description, "input_schema": tool.schema });
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    body
}

/// A content block as it arrives.
#[derive(Debug)]
enum PartialBlock {
    Text,
    Call { id: String, name: String, arguments: String },
    Other,
}

/// Reads the events of an answer.
#[derive(Debug, Default)]
pub(super) struct EventDecoder {
    text: String,
    blocks: BTreeMap<u64, PartialBlock>,
    stop: Option<String>,
    /// 0 is no count.
    usage: TokenUsage,
    is_stopped: bool,
}

impl EventDecoder {
    fn add_usage(&mut self, usage: &Value) -> Vec<ModelDelta> {
        let names = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
        let input: u64 = names.iter().filter_map(|name| usage[name].as_u64()).sum();
        // The last event repeats the input at some servers and leaves it out at others.
        self.usage.input = self.usage.input.max(input);
        self.usage.output = usage["output_tokens"].as_u64().unwrap_or(self.usage.output);
        vec![ModelDelta::Counted(self.usage)]
    }

    fn begin(&mut self, index: u64, block: &Value) -> Vec<ModelDelta> {
        let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
        let begun = match block["type"].as_str() {
            Some("text") => PartialBlock::Text,
            Some("tool_use") => {
                let (id, name) = (text("id"), text("name"));
                PartialBlock::Call { id, name, arguments: String::new() }
            }
            _ => PartialBlock::Other,
        };
        self.blocks.insert(index, begun);
        self.text(text("text"))
    }

    fn text(&mut self, text: String) -> Vec<ModelDelta> {
        self.text.push_str(&text);
        if text.is_empty() { Vec::new() } else { vec![ModelDelta::Text(text)] }
    }

    fn add(&mut self, index: u64, delta: &Value) -> Vec<ModelDelta> {
        let text = |name: &str| delta[name].as_str().unwrap_or_default();
        match self.blocks.get_mut(&index) {
            Some(PartialBlock::Text) => self.text(text("text").to_owned()),
            Some(PartialBlock::Call { arguments, .. }) => {
                arguments.push_str(text("partial_json"));
                vec![ModelDelta::Hidden(text("partial_json").len())]
            }
            Some(PartialBlock::Other) => vec![ModelDelta::Hidden(text("thinking").len())],
            None => Vec::new(),
        }
    }
}

impl AnswerDecoder for EventDecoder {
    fn on_event(&mut self, _event: &str, data: &str) -> Result<Vec<ModelDelta>, ModelError> {
        let event: Value = serde_json::from_str(data)
            .map_err(|error| ModelError::transient(format!("an event of the answer is no JSON: {error}")))?;
        let index = event["index"].as_u64().unwrap_or(0);
        Ok(match event["type"].as_str() {
            Some("message_start") => self.add_usage(&event["message"]["usage"]),
            Some("content_block_start") => self.begin(index, &event["content_block"]),
            Some("content_block_delta") => self.add(index, &event["delta"]),
            Some("message_delta") => {
                if let Some(reason) = event["delta"]["stop_reason"].as_str() {
                    self.stop = Some(reason.to_owned());
                }
                self.add_usage(&event["usage"])
            }
            Some("message_stop") => {
                self.is_stopped = true;
                vec![ModelDelta::Answer(self.on_end()?)]
            }
            Some("error") => return Err(provider_error(None, &event)),
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
        let calls = std::mem::take(&mut self.blocks).into_values().filter_map(|block| match block {
            PartialBlock::Call { id, name, arguments } => Some(ToolCall::parse(id, name, &arguments, None)),
            PartialBlock::Text | PartialBlock::Other => None,
        });
        let (text, calls) = (std::mem::take(&mut self.text), calls.collect());
        let usage = Some(self.usage).filter(|usage| *usage != TokenUsage::default());
        Ok(ModelAnswer { text, calls, stop, usage })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brain::llm::model::ModelErrorKind;

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
        assert_eq!(answer.usage, Some(TokenUsage { input: 9, output: 9 }));
    }

    #[test]
    fn counts_arrive_with_the_first_event_and_missing_ones_are_unknown() {
        let mut decoder = EventDecoder::default();
        let first = decoder.on_event("", &events()[0].to_string()).unwrap();
        assert_eq!(first, [ModelDelta::Counted(TokenUsage { input: 9, output: 1 })]);
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
    fn results_and_a_note_become_one_message_of_the_user() {
        let result = ("c".to_owned(), ToolText { text: "r".into(), is_error: true });
        let request = ModelRequest {
            system: "s".into(),
            messages: vec![
                ModelMessage::User("u".into()),
                ModelMessage::Assistant { text: String::new(), calls: Vec::new() },
                ModelMessage::Results(vec![result]),
                ModelMessage::User("note".into()),
            ],
            tools: Vec::new(),
            output_schema: None,
            repeatable: (0, "u".into()),
            has_budget_note: false,
            silence: None,
        };
        let body = body("m", &request, 1);
        assert_eq!(body["messages"].as_array().unwrap().len(), 1);
        assert_eq!(body["messages"][0]["content"].as_array().unwrap().len(), 3);
    }
}
