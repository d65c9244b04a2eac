//! OpenAI Chat Completions, streamed, as most servers speak it.

use super::{
    dialect::{AnswerDecoder, is_error, provider_error, read_event},
    model::{
        MediaKind, MediaRef, ModelAnswer, ModelDelta, ModelError, ModelMessage, ModelRequest, StopReason,
        TokenUsage, ToolCall, ToolText,
    },
    request_form::RequestForm,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The members of an answer that are reasoning.
const REASONING: [&str; 2] = ["reasoning_content", "reasoning"];
/// The members with reasoning in blocks, whose pieces are joined: of OpenRouter, and of LiteLLM for Anthropic.
const BLOCKS: [&str; 2] = ["reasoning_details", "thinking_blocks"];
/// The members of a block whose pieces are parts of one text.
const JOINED: [&str; 4] = ["text", "summary", "data", "thinking"];
/// Where models write reasoning within their text.
const THINK: (&str, &str) = ("<think>", "</think>");

/// The body of a request.
pub(super) fn body(form: RequestForm<'_>, request: &ModelRequest) -> Value {
    let conversation = form.messages(request);
    let ids = form.call_ids(&conversation);
    let mut messages = vec![json!({ "role": "system", "content": request.system })];
    for message in conversation.iter() {
        match message {
            ModelMessage::User(text) if follows_media(&form, &messages) => {
                add_parts(&form, &mut messages, vec![text_part(text.clone())]);
            }
            ModelMessage::User(text) => messages.push(json!({ "role": "user", "content": text })),
            ModelMessage::Media(media) => {
                add_parts(&form, &mut messages, form.media_parts(media, request, text_part, media_part));
            }
            ModelMessage::Assistant { text, calls, kept } => {
                let mut message = assistant(text, calls, &ids, form.own(kept).is_some());
                for (name, value) in form.parts(kept).and_then(Value::as_object).into_iter().flatten() {
                    if form.goes_back(name) {
                        message[name] = sent_back(name, value);
                    }
                }
                messages.push(message);
            }
            ModelMessage::Results(results) => {
                messages.extend(results.iter().map(|(id, ToolText { text, is_error })| {
                    let content = if *is_error { format!("ERROR: {text}") } else { text.clone() };
                    json!({ "role": "tool", "tool_call_id": ids.get(id).unwrap_or(id), "content": content })
                }));
            }
        }
    }
    let mut body = json!({
        "model": form.config.name, "messages": messages, "stream": true,
        "stream_options": { "include_usage": true },
    });
    let tools: Vec<Value> = form
        .tools(request)
        .map(|(tool, schema)| {
            json!({ "type": "function", "function": {
            "name": tool.name, "description": tool.description, "parameters": schema,
        } })
        })
        .collect();
    if !tools.is_empty() {
        body["tools"] = json!(tools);
    }
    if let Some(schema) = form.output_schema(request) {
        body["response_format"] = json!({
            "type": "json_schema", "json_schema": { "name": "answer", "schema": schema, "strict": false },
        });
    }
    let settings = &form.config.settings;
    if let Some(most) = settings.max_tokens.or(form.config.rules.most_tokens) {
        let name = form.learned.max_tokens.as_ref().or(form.config.rules.max_tokens.as_ref());
        body[name.map_or("max_tokens", String::as_str)] = json!(most);
    }
    form.finish(body, ("reasoning_effort", |effort| json!(effort)), "stop")
}

fn text_part(text: String) -> Value {
    json!({ "type": "text", "text": text })
}

fn media_part(medium: &MediaRef, content: &str) -> Value {
    let url = format!("data:{};base64,{content}", medium.media_type);
    match medium.kind() {
        MediaKind::Image => json!({ "type": "image_url", "image_url": { "url": url } }),
        MediaKind::Pdf => {
            let name = medium.name.as_deref().unwrap_or("document.pdf");
            json!({ "type": "file", "file": { "filename": name, "file_data": url } })
        }
    }
}

/// Whether the message before has parts to which what follows is joined.
fn follows_media(form: &RequestForm<'_>, messages: &[Value]) -> bool {
    form.is_alternating() && messages.last().is_some_and(|last| last["content"].is_array())
}

/// Adds what the user shows: as a message, or to the message before where roles alternate.
fn add_parts(form: &RequestForm<'_>, messages: &mut Vec<Value>, parts: Vec<Value>) {
    let before = messages.last_mut().filter(|last| last["role"] == "user" || last["role"] == "tool");
    match before.filter(|_| form.is_alternating()) {
        Some(before) => {
            if let Some(text) = before["content"].as_str() {
                before["content"] = json!([text_part(text.to_owned())]);
            }
            before["content"]
                .as_array_mut()
                .into_iter()
                .for_each(|content| content.extend(parts.iter().cloned()));
        }
        None => messages.push(json!({ "role": "user", "content": parts })),
    }
}

/// What was kept as it goes back: of the blocks of LiteLLM, the index is of the stream only.
fn sent_back(name: &str, kept: &Value) -> Value {
    let mut sent = kept.clone();
    if name == BLOCKS[1] {
        let blocks = sent.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
        blocks.for_each(|block| drop(block.remove("index")));
    }
    sent
}

fn assistant(text: &str, calls: &[ToolCall], ids: &BTreeMap<String, String>, is_own: bool) -> Value {
    let mut message = json!({ "role": "assistant", "content": text });
    if !calls.is_empty() {
        let calls = calls.iter().map(|call| {
            let arguments = Value::Object(call.arguments.clone()).to_string();
            let mut sent = json!({
                "id": ids.get(&call.id).unwrap_or(&call.id), "type": "function",
                "function": { "name": call.name, "arguments": arguments },
            });
            if let Some(extra) = call.extra.as_ref().filter(|_| is_own) {
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
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    extra: Option<Value>,
}

/// Reads the chunks of an answer.
#[derive(Debug, Default)]
pub(super) struct ChunkDecoder {
    /// All text, with the reasoning that a model writes before it.
    text: String,
    /// How much of it is reasoning; `None` while that is open.
    hidden: Option<usize>,
    /// Why the model does not answer.
    refusal: String,
    calls: Vec<PartialCall>,
    finish: Option<String>,
    usage: Option<TokenUsage>,
    /// What may have to go back.
    kept: Map<String, Value>,
}

impl ChunkDecoder {
    fn add_call(&mut self, delta: &Value) -> usize {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (index, id) = (delta["index"].as_u64(), text(&delta["id"]));
        // Some servers number all calls 0, or none, and send each in one piece: another id is another call.
        let known = self.calls.iter().rposition(|call| {
            (index.is_none() || call.index == index) && (id.is_empty() || call.id.is_empty() || call.id == id)
        });
        let at = known.unwrap_or_else(|| {
            let (name, arguments) = (String::new(), String::new());
            self.calls.push(PartialCall { index, id: String::new(), name, arguments, extra: None });
            self.calls.len() - 1
        });
        let Some(call) = self.calls.get_mut(at) else { return 0 };
        if !id.is_empty() {
            call.id = id;
        }
        // Some repeat the name in each piece, others send it in pieces.
        let name = text(&delta["function"]["name"]);
        if call.name != name && (call.arguments.is_empty() || call.name.is_empty()) {
            call.name.push_str(&name);
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

    /// Takes reasoning; returns its bytes.
    fn add_reasoning(&mut self, delta: &Value) -> usize {
        let mut hidden = 0;
        for name in REASONING {
            let Some(piece) = delta[name].as_str() else { continue };
            hidden = hidden.max(piece.len());
            match self.kept.get_mut(name) {
                Some(Value::String(text)) => text.push_str(piece),
                _ => drop(self.kept.insert(name.to_owned(), json!(piece))),
            }
        }
        for name in BLOCKS {
            let Some(items) = delta[name].as_array() else { continue };
            let kept = self.kept.entry(name).or_insert_with(|| json!([]));
            let mut bytes = 0;
            for item in items {
                bytes += item.to_string().len();
                add_block(kept, item);
            }
            // The same reasoning comes as text, too.
            hidden = hidden.max(bytes);
        }
        hidden
    }

    /// Takes text, or a list of texts and thoughts. Returns what is shown and the bytes of what is not.
    fn add_content(&mut self, content: &Value) -> (String, usize) {
        match content {
            Value::String(text) => self.add_text(text),
            Value::Array(parts) => {
                let (mut shown, mut hidden) = (String::new(), 0);
                for part in parts {
                    let is_text =
                        part.is_string() || matches!(part["type"].as_str(), Some("text" | "output_text"));
                    match part.as_str().or(part["text"].as_str()).filter(|_| is_text) {
                        Some(text) => {
                            let (more, more_hidden) = self.add_text(text);
                            shown.push_str(&more);
                            hidden += more_hidden;
                        }
                        None => hidden += part.to_string().len(),
                    }
                }
                (shown, hidden)
            }
            _ => (String::new(), 0),
        }
    }

    fn add_text(&mut self, text: &str) -> (String, usize) {
        let before = self.text.len();
        self.text.push_str(text);
        if let Some(at) = self.hidden {
            return (self.text[at.max(before)..].to_owned(), 0);
        }
        let begun = self.text.trim_start();
        match begun.strip_prefix(THINK.0) {
            // Too short to say.
            None if THINK.0.starts_with(begun) => (String::new(), text.len()),
            None => {
                self.hidden = Some(0);
                (self.text.clone(), 0)
            }
            Some(_) => match self.text.find(THINK.1) {
                None => (String::new(), text.len()),
                Some(at) => {
                    let end = at + THINK.1.len();
                    let end = end + self.text[end..].len() - self.text[end..].trim_start().len();
                    self.hidden = Some(end);
                    (self.text[end..].to_owned(), end.saturating_sub(before))
                }
            },
        }
    }

    fn count(&mut self, usage: &Map<String, Value>) -> Option<TokenUsage> {
        // A count that is missing is 0, which is no count.
        let tokens = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
        let details = usage.get("prompt_tokens_details");
        let detail = |name: &str| details.and_then(|details| details[name].as_u64());
        let counted = TokenUsage {
            input: tokens("prompt_tokens"),
            output: tokens("completion_tokens"),
            cached: detail("cached_tokens").unwrap_or_else(|| tokens("prompt_cache_hit_tokens")),
            cache_write: detail("cache_write_tokens").unwrap_or_default(),
        };
        self.usage = Some(counted).filter(|usage| *usage != TokenUsage::default()).or(self.usage);
        self.usage
    }

    /// The answer as far as it has come. `is_whole` is whether the server has said that it is.
    fn end(&mut self, is_whole: bool) -> Result<ModelAnswer, ModelError> {
        let refusal = std::mem::take(&mut self.refusal);
        let has_content =
            !self.text.trim().is_empty() || !self.calls.is_empty() || !refusal.trim().is_empty();
        let stop = match self.finish.take().as_deref() {
            None if !is_whole || !has_content => return Err(ModelError::transient("the answer broke off")),
            _ if !refusal.is_empty() => StopReason::Refused,
            None => StopReason::Complete,
            Some("length") => StopReason::Length,
            // Mistral, of an answer that reached the end of the context.
            Some("model_length") => return Err(ModelError::context_is_full()),
            Some("content_filter") => StopReason::Refused,
            Some("error") => return Err(ModelError::transient("the answer ended with an error")),
            Some(_) => StopReason::Complete,
        };
        let calls = std::mem::take(&mut self.calls).into_iter();
        let calls = calls.map(|call| {
            let id = Some(call.id.clone()).filter(|id| !id.is_empty());
            ToolCall { provider_id: id, ..ToolCall::parse(call.id, call.name, &call.arguments, call.extra) }
        });
        let mut text = std::mem::take(&mut self.text);
        // What never came to its end is no reasoning.
        text.drain(..self.hidden.unwrap_or_default());
        text.push_str(&refusal);
        Ok(ModelAnswer {
            text,
            calls: calls.collect(),
            stop,
            usage: self.usage,
            kept: super::dialect::unnamed(Value::Object(std::mem::take(&mut self.kept))),
        })
    }
}

/// Adds a piece of a block to the piece before it, if that is of the same one. A signature is the end of a block without an index.
fn add_block(kept: &mut Value, item: &Value) {
    let Some(items) = kept.as_array_mut() else { return };
    let is_same = |last: &&mut Value| {
        let is_numbered = !item["index"].is_null();
        let is_open = item["type"] == "thinking" && last["signature"].as_str().is_none_or(str::is_empty);
        let same = |name: &str| last[name] == item[name];
        ["type", "index", "id"].into_iter().all(same) && (is_numbered || is_open)
    };
    let (Some(last), Some(members)) = (items.last_mut().filter(is_same), item.as_object()) else {
        return items.push(item.clone());
    };
    for (name, value) in members {
        match (&mut last[name], value) {
            (Value::String(text), Value::String(piece)) if JOINED.contains(&name.as_str()) => {
                text.push_str(piece);
            }
            (known, value) if !value.is_null() => *known = value.clone(),
            _ => {}
        }
    }
}

impl AnswerDecoder for ChunkDecoder {
    fn on_event(&mut self, _event: &str, data: &str) -> Result<Vec<ModelDelta>, ModelError> {
        if data.trim() == "[DONE]" {
            return self.end(true).map(|answer| vec![ModelDelta::Answer(answer)]);
        }
        let chunk = read_event(data)?;
        if is_error(&chunk) {
            return Err(provider_error(None, &chunk));
        }
        let mut deltas = Vec::new();
        let choice = &chunk["choices"][0];
        for usage in [&chunk["usage"], &chunk["x_groq"]["usage"], &choice["usage"]] {
            if let Some(usage) = usage.as_object() {
                deltas.extend(self.count(usage).map(ModelDelta::Counted));
            }
        }
        if choice["error"].is_object() {
            return Err(provider_error(None, choice));
        }
        // A server that does not stream sends the whole message.
        let delta = if choice["delta"].is_object() { &choice["delta"] } else { &choice["message"] };
        let mut hidden = self.add_reasoning(delta);
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            hidden += self.add_call(call);
        }
        let (text, more) = self.add_content(&delta["content"]);
        hidden += more;
        if !text.is_empty() {
            deltas.push(ModelDelta::Text(text));
        }
        // It is no part of a result.
        let refusal = delta["refusal"].as_str().unwrap_or_default();
        self.refusal.push_str(refusal);
        hidden += refusal.len();
        if hidden > 0 {
            deltas.push(ModelDelta::Hidden(hidden));
        }
        if let Some(finish) = choice["finish_reason"].as_str().filter(|finish| !finish.is_empty()) {
            self.finish = Some(finish.to_owned());
        }
        Ok(deltas)
    }

    /// Servers differ in whether `[DONE]` follows; an answer with a reason for its end is complete.
    fn on_end(&mut self) -> Result<ModelAnswer, ModelError> {
        self.end(false)
    }

    fn takes_whole(&self) -> bool {
        true
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
        let usage = Some(TokenUsage { input: 7, output: 2, ..TokenUsage::default() });
        let (calls, stop) = (Vec::new(), StopReason::Complete);
        let expected = ModelAnswer { text: "Hello".into(), calls, stop, usage, kept: None };
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
        let begun = json!({ "choices": [{ "delta": { "content": "Hel" }, "finish_reason": null }] });
        assert_eq!(answer(&[begun.clone(), json!("[DONE]")]).text, "Hel", "the server says that it is whole");
        assert!(decode(&[json!("[DONE]")]).unwrap_err().message.contains("broke off"));
        let mut decoder = ChunkDecoder::default();
        decoder.on_event("", &begun.to_string()).unwrap();
        assert!(decoder.on_end().is_err());
    }

    #[test]
    fn content_comes_as_a_list_with_thoughts() {
        let chunks = [
            json!({ "choices": [{ "delta": { "content": [{ "type": "thinking", "thinking": [{ "type": "text", "text": "hm" }] }] } }] }),
            json!({ "choices": [{ "delta": { "content": [{ "type": "text", "text": "Hi" }] } }] }),
            json!({ "choices": [{ "delta": { "content": " there" }, "finish_reason": "stop" }] }),
            json!("[DONE]"),
        ];
        let deltas = decode(&chunks).unwrap();
        assert!(matches!(deltas[0], ModelDelta::Hidden(_)), "{deltas:?}");
        assert_eq!(answer(&chunks).text, "Hi there");
    }

    #[test]
    fn reasoning_before_the_text_is_not_shown() {
        for pieces in [
            &["<think>hm", "m</think>\n\nYes", "."][..],
            &["<th", "ink>", "a</think>Yes."],
            &["\n<think></think>", "Yes."],
        ] {
            let mut chunks: Vec<_> =
                pieces.iter().map(|text| json!({ "choices": [{ "delta": { "content": text } }] })).collect();
            chunks.push(json!("[DONE]"));
            let shown: String = decode(&chunks)
                .unwrap()
                .into_iter()
                .filter_map(|delta| match delta {
                    ModelDelta::Text(text) => Some(text),
                    _ => None,
                })
                .collect();
            assert_eq!((shown.as_str(), answer(&chunks).text.as_str()), ("Yes.", "Yes."), "{pieces:?}");
        }
        let open = [
            json!({ "choices": [{ "delta": { "content": "<thin" }, "finish_reason": "stop" }] }),
            json!("[DONE]"),
        ];
        assert_eq!(answer(&open).text, "<thin");
    }

    #[test]
    fn calls_come_in_every_form() {
        let piece = |call: Value| json!({ "choices": [{ "delta": { "tool_calls": [call] } }] });
        let done = json!("[DONE]");
        for chunks in [
            vec![
                piece(json!({ "index": 0, "id": "a", "function": { "name": "get_" } })),
                piece(json!({ "index": 0, "function": { "name": "weather", "arguments": "" } })),
                piece(json!({ "index": 0, "function": { "arguments": "{}" } })),
                done.clone(),
            ],
            vec![
                piece(json!({ "id": "a", "function": { "name": "get_weather", "arguments": null } })),
                piece(json!({ "function": { "name": "get_weather", "arguments": "{" } })),
                piece(json!({ "function": { "name": "get_weather", "arguments": "}" } })),
                done.clone(),
            ],
            vec![
                piece(json!({ "id": "a", "function": { "name": "get_weather", "arguments": "null" } })),
                done.clone(),
            ],
            vec![
                piece(json!({ "id": "a", "function": { "name": "get_weather", "arguments": "\"{}\"" } })),
                done,
            ],
            vec![
                json!({ "choices": [{ "finish_reason": "stop", "message": { "content": null, "tool_calls": [
                { "id": "a", "function": { "name": "get_weather", "arguments": {} } },
            ] } }] }),
                json!("[DONE]"),
            ],
        ] {
            let calls = answer(&chunks).calls;
            assert_eq!(calls.len(), 1, "{chunks:?}");
            assert_eq!((calls[0].name.as_str(), &calls[0].invalid), ("get_weather", &None), "{chunks:?}");
            assert_eq!(calls[0].provider_id.as_deref(), Some("a"));
        }
    }

    #[test]
    fn errors_within_a_stream_show_their_text() {
        for event in [
            json!({ "error": "upstream overloaded" }),
            json!({ "object": "error", "message": "upstream overloaded" }),
        ] {
            let error = decode(&[event]).unwrap_err();
            assert!(error.message.contains("upstream overloaded"), "{error}");
        }
        assert!(decode(&[json!("upstream overloaded")]).unwrap_err().message.contains("upstream overloaded"));
    }

    #[test]
    fn reasoning_goes_back_to_those_who_want_it_and_to_no_other() {
        use crate::brain::llm::{
            model::Kept,
            request_form::Learned,
            request_form::tests::{call, model, request},
        };
        let parts = json!({ "reasoning_content": "r", "reasoning": "r", "reasoning_details": [{ "a": 1 }] });
        let sent = |name: &str, by: Option<&str>| {
            let (config, learned) = (model(name), Learned::default());
            let form = RequestForm { config: &config, learned: &learned };
            let by = by.map_or_else(|| form.keeper(), str::to_owned);
            let kept = Some(Kept { by, parts: parts.clone() });
            let calls = vec![call("c1_0", Some("abc"))];
            let asked = request(vec![ModelMessage::Assistant { text: String::new(), calls, kept }]);
            let message = body(form, &asked)["messages"][1].clone();
            let back = parts.as_object().unwrap().keys().filter(|name| message.get(name).is_some());
            (back.cloned().collect::<Vec<_>>(), message["tool_calls"][0]["id"].as_str().unwrap().to_owned())
        };
        for (name, by, back, id) in [
            ("deepseek/deepseek-v4", None, vec!["reasoning_content"], "abc"),
            ("deepseek/deepseek-reasoner", None, vec![], "abc"),
            ("openrouter/x/y", None, vec!["reasoning_details"], "abc"),
            ("m", None, vec!["reasoning_details"], "abc"),
            ("deepseek/deepseek-v4", Some("chat http://other/v1"), vec![], "c1_0"),
        ] {
            let (seen, sent_id) = sent(name, by);
            assert_eq!(
                (seen, sent_id.as_str()),
                (back.iter().map(|&n| n.to_owned()).collect(), id),
                "{name}"
            );
        }
    }

    #[test]
    fn a_refusal_is_no_answer() {
        let chunks = [
            json!({ "choices": [{ "delta": { "content": "", "refusal": null } }] }),
            json!({ "choices": [{ "delta": { "refusal": "This is not " } }] }),
            json!({ "choices": [{ "delta": { "refusal": "for me." }, "finish_reason": "stop" }] }),
            json!("[DONE]"),
        ];
        let refused = answer(&chunks);
        assert_eq!((refused.text.as_str(), refused.stop), ("This is not for me.", StopReason::Refused));
        let is_shown = |delta: &ModelDelta| matches!(delta, ModelDelta::Text(_));
        assert!(!decode(&chunks).unwrap().iter().any(is_shown), "it is streamed into no artifact");
    }

    #[test]
    fn what_was_written_to_the_cache_is_counted() {
        let usage = json!({ "prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": { "cached_tokens": 4, "cache_write_tokens": 3 } });
        let chunks = [
            json!({ "choices": [{ "delta": { "content": "x" }, "finish_reason": "stop" }], "usage": usage }),
            json!("[DONE]"),
        ];
        let expected = TokenUsage { input: 9, output: 2, cached: 4, cache_write: 3 };
        assert_eq!(answer(&chunks).usage, Some(expected));
    }

    #[test]
    fn thoughts_in_blocks_are_joined_and_go_back_without_their_index() {
        use crate::brain::llm::{
            model::Kept,
            request_form::Learned,
            request_form::tests::{model, request},
        };
        let piece = |mut block: Value, index: Option<u64>| {
            if let Some(index) = index {
                block["index"] = json!(index);
            }
            json!({ "choices": [{ "delta": { "thinking_blocks": [block], "content": "x" } }] })
        };
        let thought = |text: &str| json!({ "type": "thinking", "thinking": text });
        let signed = |by: &str| json!({ "type": "thinking", "thinking": "", "signature": by });
        let sealed = json!({ "type": "redacted_thinking", "data": "d" });
        let expected = json!([
            { "type": "thinking", "thinking": "ab", "signature": "s" }, { "type": "redacted_thinking", "data": "d" },
            { "type": "thinking", "thinking": "c", "signature": "t" },
        ]);
        for index in [Some, |_| None] {
            let chunks = [
                piece(thought("a"), index(0)),
                piece(thought("b"), index(0)),
                piece(signed("s"), index(0)),
                piece(sealed.clone(), index(1)),
                piece(thought("c"), index(2)),
                piece(signed("t"), index(2)),
                json!("[DONE]"),
            ];
            let (config, learned) = (model("litellm/claude"), Learned::default());
            let form = RequestForm { config: &config, learned: &learned };
            let answer = answer(&chunks);
            let sent = |by: String| {
                let kept = answer.kept.clone().map(|kept| Kept { by, ..kept });
                let message = ModelMessage::Assistant { text: "x".into(), calls: Vec::new(), kept };
                body(form, &request(vec![message]))["messages"][1]["thinking_blocks"].clone()
            };
            assert_eq!(sent(form.keeper()), expected);
            assert!(sent("chat http://other/v1".into()).is_null());
        }
    }

    #[test]
    fn details_of_reasoning_are_joined() {
        let piece = |details: Value| json!({ "choices": [{ "delta": { "reasoning_details": details, "content": "x" } }] });
        let chunks = [
            piece(json!([{ "type": "reasoning.text", "index": 0, "text": "a" }])),
            piece(json!([{ "type": "reasoning.text", "index": 0, "text": "b", "signature": null }])),
            piece(
                json!([{ "type": "reasoning.text", "index": 0, "signature": "s" }, { "type": "reasoning.encrypted", "index": 1, "data": "d" }]),
            ),
            json!("[DONE]"),
        ];
        let expected = json!({ "reasoning_details": [
            { "type": "reasoning.text", "index": 0, "text": "ab", "signature": "s" },
            { "type": "reasoning.encrypted", "index": 1, "data": "d" },
        ] });
        assert_eq!(answer(&chunks).kept.unwrap().parts, expected);
    }
}
