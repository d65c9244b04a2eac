//! OpenAI Chat Completions, streamed. Ollama, Gemini and most local servers speak it as well.

use super::{
    dialect::{AnswerDecoder, provider_error},
    model::{
        ModelAnswer, ModelDelta, ModelError, ModelMessage, ModelRequest, StopReason, TokenUsage, ToolCall,
        ToolText,
    },
};
use serde_json::{Value, json};

pub(super) fn body(model: &str, request: &ModelRequest, max_tokens: Option<(&str, u32)>) -> Value {
    let mut messages = vec![json!({ "role": "system", "content": request.system })];
    for message in &request.messages {
        match message {
            ModelMessage::User(text) => messages.push(json!({ "role": "user", "content": text })),
            ModelMessage::Assistant { text, calls } => messages.push(assistant(text, calls)),
            ModelMessage::Results(results) => {
                messages.extend(results.iter().map(|(id, ToolText { text, is_error })| {
                    let content = if *is_error { format!("ERROR: {text}") } else { text.clone() };
                    json!({ "role": "tool", "tool_call_id": id, "content": content })
                }));
            }
        }
    }
    let mut body = json!({
        "model": model, "messages": messages, "stream": true, "stream_options": { "include_usage": true },
    });
    if !request.tools.is_empty() {
        let tool = |tool: &super::model::ToolSpec| {
            json!({ "type": "function", "function": {
                "name": tool.name, "description": tool.description, "parameters": tool.schema,
            } })
        };
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    if let Some(schema) = &request.output_schema {
        body["response_format"] = json!({
            "type": "json_schema", "json_schema": { "name": "answer", "schema": schema, "strict": false },
        });
    }
    if let Some((name, most)) = max_tokens {
        body[name] = json!(most);
    }
    body
}

fn assistant(text: &str, calls: &[ToolCall]) -> Value {
    let mut message = json!({ "role": "assistant", "content": text });
    if !calls.is_empty() {
        let calls = calls.iter().map(|call| {
            let arguments = Value::Object(call.arguments.clone()).to_string();
            let mut sent = json!({
                "id": call.id, "type": "function", "function": { "name": call.name, "arguments": arguments },
            });
            if let Some(extra) = &call.extra {
                sent["extra_content"] = extra.clone();
            }
            sent
        });
        message["tool_calls"] = calls.collect();
    }
    message
}

/// A call whose arguments arrive in pieces.
#[derive(Debug)]
struct PartialCall {
    index: u64,
    id: String,
    name: String,
    arguments: String,
    extra: Option<Value>,
}

/// Reads the chunks of an answer.
#[derive(Debug, Default)]
pub(super) struct ChunkDecoder {
    text: String,
    calls: Vec<PartialCall>,
    finish: Option<String>,
    usage: Option<TokenUsage>,
}

impl ChunkDecoder {
    fn add_call(&mut self, delta: &Value) -> usize {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (index, id) = (delta["index"].as_u64().unwrap_or(0), text(&delta["id"]));
        // Some servers number all calls 0 and send each in one piece: another id is another call.
        let known = self
            .calls
            .iter()
            .rposition(|call| call.index == index && (id.is_empty() || call.id.is_empty() || call.id == id));
        let at = known.unwrap_or_else(|| {
            let (name, arguments) = (String::new(), String::new());
            self.calls.push(PartialCall { index, id: String::new(), name, arguments, extra: None });
            self.calls.len() - 1
        });
        let Some(call) = self.calls.get_mut(at) else { return 0 };
        if !id.is_empty() {
            call.id = id;
        }
        if call.name.is_empty() {
            call.name = text(&delta["function"]["name"]);
        }
        if delta["extra_content"].is_object() {
            call.extra = Some(delta["extra_content"].clone());
        }
        let piece = &delta["function"]["arguments"];
        // Ollama's older versions send an object.
        let piece = if piece.is_object() { piece.to_string() } else { text(piece) };
        call.arguments.push_str(&piece);
        piece.len()
    }
}

impl AnswerDecoder for ChunkDecoder {
    fn on_event(&mut self, _event: &str, data: &str) -> Result<Vec<ModelDelta>, ModelError> {
        if data.trim() == "[DONE]" {
            return self.on_end().map(|answer| vec![ModelDelta::Answer(answer)]);
        }
        let chunk: Value = serde_json::from_str(data)
            .map_err(|error| ModelError::transient(format!("a chunk of the answer is no JSON: {error}")))?;
        if chunk["error"].is_object() {
            let status = chunk["error"]["code"].as_u64().and_then(|code| u16::try_from(code).ok());
            return Err(provider_error(status, &chunk));
        }
        let mut deltas = Vec::new();
        if let Some(usage) = chunk["usage"].as_object() {
            // A count that is missing is 0, which is no count.
            let tokens = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
            let usage = TokenUsage { input: tokens("prompt_tokens"), output: tokens("completion_tokens") };
            self.usage = Some(usage).filter(|usage| *usage != TokenUsage::default());
            deltas.extend(self.usage.map(ModelDelta::Counted));
        }
        let choice = &chunk["choices"][0];
        let delta = &choice["delta"];
        let mut hidden = 0;
        for name in ["reasoning_content", "reasoning"] {
            hidden += delta[name].as_str().map_or(0, str::len);
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            hidden += self.add_call(call);
        }
        if hidden > 0 {
            deltas.push(ModelDelta::Hidden(hidden));
        }
        for name in ["content", "refusal"] {
            if let Some(text) = delta[name].as_str().filter(|text| !text.is_empty()) {
                self.text.push_str(text);
                deltas.push(ModelDelta::Text(text.to_owned()));
            }
        }
        if let Some(finish) = choice["finish_reason"].as_str() {
            self.finish = Some(finish.to_owned());
        }
        Ok(deltas)
    }

    /// Servers differ in whether `[DONE]` follows; an answer with a reason for its end is complete.
    fn on_end(&mut self) -> Result<ModelAnswer, ModelError> {
        let stop = match self.finish.take().as_deref() {
            None => return Err(ModelError::transient("the answer broke off")),
            Some("length") => StopReason::Length,
            // Mistral, of an answer that reached the end of the context.
            Some("model_length") => return Err(ModelError::context_is_full()),
            Some("content_filter") => StopReason::Refused,
            Some(_) => StopReason::Complete,
        };
        let calls = std::mem::take(&mut self.calls).into_iter();
        let calls = calls.map(|call| ToolCall::parse(call.id, call.name, &call.arguments, call.extra));
        Ok(ModelAnswer {
            text: std::mem::take(&mut self.text),
            calls: calls.collect(),
            stop,
            usage: self.usage,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(chunks: &[Value]) -> Result<Vec<ModelDelta>, ModelError> {
        let mut decoder = ChunkDecoder::default();
        let mut deltas = Vec::new();
        for chunk in chunks {
            let data = chunk.as_str().map_or_else(|| chunk.to_string(), str::to_owned);
            deltas.extend(decoder.on_event("", &data)?);
        }
        Ok(deltas)
    }

    fn answer(chunks: &[Value]) -> ModelAnswer {
        match decode(chunks).unwrap().pop() {
            Some(ModelDelta::Answer(answer)) => answer,
            other => panic!("{other:?}"),
        }
    }

    fn call(index: u64, id: &str, name: &str, arguments: &str) -> Value {
        let function = json!({ "name": name, "arguments": arguments });
        json!({ "choices": [{ "delta": { "tool_calls": [{ "index": index, "id": id, "function": function }] } }] })
    }

    #[test]
    fn text_and_usage_are_gathered() {
        let chunks = [
            json!({ "choices": [{ "delta": { "role": "assistant", "content": "" } }] }),
            json!({ "choices": [{ "delta": { "content": "Hel" } }] }),
            json!({ "choices": [{ "delta": { "content": "lo" }, "finish_reason": "stop" }] }),
            json!({ "choices": [], "usage": { "prompt_tokens": 7, "completion_tokens": 2 } }),
            json!("[DONE]"),
        ];
        assert_eq!(decode(&chunks).unwrap().len(), 4);
        let usage = Some(TokenUsage { input: 7, output: 2 });
        let expected =
            ModelAnswer { text: "Hello".into(), calls: Vec::new(), stop: StopReason::Complete, usage };
        assert_eq!(answer(&chunks), expected);
    }

    #[test]
    fn calls_in_pieces_and_calls_with_the_same_index_are_told_apart() {
        let end = json!({ "choices": [{ "delta": {}, "finish_reason": "tool_calls" }] });
        let pieces = [
            call(0, "a", "one", "{\"x\""),
            call(1, "b", "two", "{}"),
            call(0, "", "", ":1}"),
            end.clone(),
            json!("[DONE]"),
        ];
        let same = [call(0, "a", "one", "{\"x\":1}"), call(0, "b", "two", "{}"), end, json!("[DONE]")];
        for chunks in [&pieces[..], &same[..]] {
            let calls = answer(chunks).calls;
            let seen: Vec<_> = calls.iter().map(|call| (call.name.as_str(), call.arguments.len())).collect();
            assert_eq!(seen, [("one", 1), ("two", 0)]);
        }
    }

    #[test]
    fn an_answer_without_its_end_is_broken() {
        let begun = json!({ "choices": [{ "delta": { "content": "Hel" } }] });
        assert!(decode(&[begun.clone(), json!("[DONE]")]).unwrap_err().message.contains("broke off"));
        let mut decoder = ChunkDecoder::default();
        decoder.on_event("", &begun.to_string()).unwrap();
        assert!(decoder.on_end().is_err());
    }
}
