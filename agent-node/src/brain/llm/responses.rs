//! OpenAI Responses, streamed and stateless: nothing is stored there, and reasoning goes back encrypted.

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

/// The body of a request.
pub(super) fn body(form: RequestForm<'_>, request: &ModelRequest) -> Value {
    let conversation = form.messages(request);
    let ids = form.call_ids(&conversation);
    let id = |ours: &String| ids.get(ours).unwrap_or(ours).clone();
    let mut input: Vec<Value> = Vec::new();
    for message in conversation.iter() {
        match message {
            ModelMessage::User(text) => {
                let content = [text_part(text.clone())];
                input.push(json!({ "type": "message", "role": "user", "content": content }));
            }
            ModelMessage::Media(media) => {
                let content = form.media_parts(media, request, text_part, media_part);
                input.push(json!({ "type": "message", "role": "user", "content": content }));
            }
            ModelMessage::Assistant { text, calls, kept } => {
                let has_ids = calls.iter().all(|call| call.provider_id.is_some());
                let kept = form.parts(kept).and_then(Value::as_array).filter(|_| has_ids);
                if let Some(items) = kept {
                    input.extend(items.iter().cloned());
                    continue;
                }
                // A list of texts of the model needs the ids that its server has given.
                if !text.is_empty() {
                    input.push(json!({ "type": "message", "role": "assistant", "content": text }));
                }
                input.extend(calls.iter().map(|call| {
                    let arguments = Value::Object(call.arguments.clone()).to_string();
                    json!({ "type": "function_call", "call_id": id(&call.id), "name": call.name, "arguments": arguments })
                }));
            }
            ModelMessage::Results(results) => {
                input.extend(results.iter().map(|(ours, ToolText { text, is_error })| {
                    let output = if *is_error { format!("ERROR: {text}") } else { text.clone() };
                    json!({ "type": "function_call_output", "call_id": id(ours), "output": output })
                }));
            }
        }
    }
    let mut body = json!({
        "model": form.config.name, "instructions": request.system, "input": input, "stream": true,
        "store": false, "include": ["reasoning.encrypted_content"],
    });
    let tools: Vec<Value> = form.tools(request).map(|(tool, schema)| json!({
        "type": "function", "name": tool.name, "description": tool.description, "parameters": schema, "strict": false,
    })).collect();
    if !tools.is_empty() {
        body["tools"] = json!(tools);
    }
    if let Some(schema) = form.output_schema(request) {
        body["text"] = json!({ "format": { "type": "json_schema", "name": "answer", "schema": schema, "strict": false } });
    }
    if let Some(most) = form.config.settings.max_tokens {
        body["max_output_tokens"] = json!(most);
    }
    form.finish(body, ("reasoning", |effort| json!({ "effort": effort })), "stop")
}

fn text_part(text: String) -> Value {
    json!({ "type": "input_text", "text": text })
}

fn media_part(medium: &MediaRef, content: &str) -> Value {
    let url = format!("data:{};base64,{content}", medium.media_type);
    match medium.kind() {
        MediaKind::Image => json!({ "type": "input_image", "detail": "auto", "image_url": url }),
        MediaKind::Pdf => {
            let name = medium.name.as_deref().unwrap_or("document.pdf");
            json!({ "type": "input_file", "filename": name, "file_data": url })
        }
    }
}

/// The members of messages, calls and texts that are made again, or that say nothing to the model.
const MADE_AGAIN: [&str; 12] = [
    "type",
    "id",
    "status",
    "role",
    "content",
    "call_id",
    "name",
    "arguments",
    "text",
    "refusal",
    "annotations",
    "logprobs",
];

/// Whether an item, made again, would lack something: reasoning, or a member such as `phase`.
fn has_more(item: &Value) -> bool {
    let is_known = matches!(item["type"].as_str(), Some("message" | "function_call"));
    let parts = item["content"].as_array().into_iter().flatten();
    let members = parts.chain([item]).filter_map(Value::as_object).flatten();
    let is_more = |(name, value): (&String, &Value)| !value.is_null() && !MADE_AGAIN.contains(&name.as_str());
    !is_known || members.into_iter().any(is_more)
}

/// Reads the events of an answer.
#[derive(Debug, Default)]
pub(super) struct ResponseDecoder {
    /// The items that are whole, by their place.
    items: BTreeMap<u64, Value>,
    usage: Option<TokenUsage>,
}

impl ResponseDecoder {
    fn ended(&mut self, response: &Value) -> Result<ModelAnswer, ModelError> {
        let usage = &response["usage"];
        if usage.is_object() {
            let tokens = |value: &Value| value.as_u64().unwrap_or_default();
            let counted = TokenUsage {
                input: tokens(&usage["input_tokens"]),
                output: tokens(&usage["output_tokens"]),
                cached: tokens(&usage["input_tokens_details"]["cached_tokens"]),
                cache_write: tokens(&usage["input_tokens_details"]["cache_write_tokens"]),
            };
            self.usage = Some(counted).filter(|usage| *usage != TokenUsage::default());
        }
        let stop = match (response["status"].as_str(), response["incomplete_details"]["reason"].as_str()) {
            (Some("failed"), _) => return Err(provider_error(None, &json!({ "error": response["error"] }))),
            (Some("cancelled"), _) => {
                return Err(ModelError::transient("the answer was cancelled by the server"));
            }
            (_, Some("content_filter")) => StopReason::Refused,
            (Some("incomplete"), _) => StopReason::Length,
            _ => StopReason::Complete,
        };
        // Some servers repeat all items at the end, others have sent each before.
        let items = match response["output"].as_array() {
            Some(items) if !items.is_empty() => items.clone(),
            _ => std::mem::take(&mut self.items).into_values().collect(),
        };
        let mut text = String::new();
        let mut calls = Vec::new();
        let mut is_refused = false;
        for item in &items {
            let member = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
            match item["type"].as_str() {
                Some("message") => {
                    for part in item["content"].as_array().into_iter().flatten() {
                        is_refused |= part["type"] == "refusal";
                        text.extend(part["text"].as_str().or(part["refusal"].as_str()));
                    }
                }
                Some("function_call") => {
                    let id = [member("call_id"), member("id")].into_iter().find(|id| !id.is_empty());
                    let call = ToolCall::parse(
                        id.clone().unwrap_or_default(),
                        member("name"),
                        &member("arguments"),
                        None,
                    );
                    calls.push(ToolCall { provider_id: id, ..call });
                }
                _ => {}
            }
        }
        let stop = if is_refused { StopReason::Refused } else { stop };
        let kept = if items.iter().any(has_more) { unnamed(json!(items)) } else { None };
        Ok(ModelAnswer { text, calls, stop, usage: self.usage, kept })
    }
}

impl AnswerDecoder for ResponseDecoder {
    fn on_event(&mut self, event: &str, data: &str) -> Result<Vec<ModelDelta>, ModelError> {
        if data.trim() == "[DONE]" {
            return Ok(Vec::new());
        }
        let read = read_event(data)?;
        let kind = read["type"].as_str().unwrap_or(event);
        let delta = || read["delta"].as_str().unwrap_or_default();
        Ok(match kind {
            "response.output_text.delta" => vec![ModelDelta::Text(delta().to_owned())],
            "response.output_item.done" => {
                let place = read["output_index"].as_u64().unwrap_or(self.items.len() as u64);
                self.items.insert(place, read["item"].clone());
                Vec::new()
            }
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                let answer = self.ended(&read["response"])?;
                answer
                    .usage
                    .map(ModelDelta::Counted)
                    .into_iter()
                    .chain([ModelDelta::Answer(answer)])
                    .collect()
            }
            _ if kind == "error" || is_error(&read) && read.get("response").is_none() => {
                return Err(provider_error(None, &read));
            }
            _ if kind.ends_with(".delta") && !delta().is_empty() => vec![ModelDelta::Hidden(delta().len())],
            _ => Vec::new(),
        })
    }

    fn on_end(&mut self) -> Result<ModelAnswer, ModelError> {
        Err(ModelError::transient("the answer broke off"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brain::llm::{
        model::{Kept, ModelErrorKind},
        request_form::Learned,
        request_form::tests::{model, request, result},
    };

    fn decode(events: &[Value]) -> Result<ModelAnswer, ModelError> {
        let mut decoder = ResponseDecoder::default();
        for event in events {
            if let Some(ModelDelta::Answer(answer)) = decoder.on_event("", &event.to_string())?.pop() {
                return Ok(answer);
            }
        }
        decoder.on_end()
    }

    fn items() -> Vec<Value> {
        vec![
            json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "enc" }),
            json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "Hi" }] }),
            json!({ "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "log", "arguments": "{\"n\":3}" }),
        ]
    }

    #[test]
    fn text_calls_and_usage_are_gathered_and_reasoning_goes_back() {
        let done = |at: usize| json!({ "type": "response.output_item.done", "output_index": at, "item": items()[at] });
        let usage = json!({ "input_tokens": 7, "output_tokens": 2, "input_tokens_details": { "cached_tokens": 5, "cache_write_tokens": 1 } });
        let end = |output: Value| json!({ "type": "response.completed", "response": { "status": "completed", "output": output, "usage": usage } });
        for events in [
            vec![done(0), done(1), done(2), end(json!([]))],
            vec![done(2), done(0), done(1), end(Value::Null)],
            vec![end(json!(items()))],
        ] {
            let answer = decode(&events).unwrap();
            assert_eq!((answer.text.as_str(), &answer.calls[0].arguments["n"]), ("Hi", &json!(3)));
            assert_eq!(answer.usage, Some(TokenUsage { input: 7, output: 2, cached: 5, cache_write: 1 }));
            let (config, learned) = (model("openai/m"), Learned::default());
            let form = RequestForm { config: &config, learned: &learned };
            let kept = answer.kept.map(|kept| Kept { by: form.keeper(), ..kept });
            let calls = vec![ToolCall { id: "c1_0".into(), ..answer.calls[0].clone() }];
            let asked = request(vec![
                ModelMessage::User("u".into()),
                ModelMessage::Assistant { text: answer.text, calls: calls.clone(), kept },
                ModelMessage::Results(vec![result("c1_0", "r")]),
            ]);
            let body = body(form, &asked);
            assert_eq!(body["input"].as_array().unwrap()[1..4], items()[..]);
            assert_eq!(
                body["input"][4],
                json!({ "type": "function_call_output", "call_id": "call_1", "output": "r" })
            );
            assert_eq!((&body["store"], &body["instructions"]), (&json!(false), &json!("s")));
            let kept = Some(Kept { by: "chat http://other".into(), parts: json!(items()) });
            let asked = request(vec![ModelMessage::Assistant { text: "Hi".into(), calls, kept }]);
            assert_eq!(super::body(form, &asked)["input"][1]["call_id"], "c1_0", "of another provider");
        }
    }

    #[test]
    fn items_are_kept_if_they_have_more_than_is_made_again() {
        let part = json!({ "type": "output_text", "text": "Hi", "annotations": [], "logprobs": [] });
        let message = json!({ "type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [part] });
        let call = items()[2].clone();
        let with = |item: &Value, name: &str, value: Value| {
            let mut item = item.clone();
            item[name] = value;
            item
        };
        for (item, is_kept) in [
            (message.clone(), false),
            (with(&message, "phase", Value::Null), false),
            (with(&message, "phase", json!("commentary")), true),
            (call.clone(), false),
            (with(&call, "namespace", json!("tools")), true),
        ] {
            let response = json!({ "status": "completed", "output": [item] });
            let end = json!({ "type": "response.completed", "response": response });
            let kept = decode(&[end]).unwrap().kept.map(|kept| kept.parts);
            assert_eq!(kept, is_kept.then(|| json!([item])), "{item}");
        }
    }

    #[test]
    fn an_answer_made_anew_is_a_plain_text() {
        let (config, learned) = (model("openai/m"), Learned::default());
        let form = RequestForm { config: &config, learned: &learned };
        let said = ModelMessage::Assistant { text: "Hi".into(), calls: Vec::new(), kept: None };
        let expected = json!([{ "type": "message", "role": "assistant", "content": "Hi" }]);
        assert_eq!(body(form, &request(vec![said]))["input"], expected);
    }

    #[test]
    fn how_an_answer_ends() {
        let end = |kind: &str, response: Value| {
            vec![json!({ "type": format!("response.{kind}"), "response": response })]
        };
        let stop = |events: Vec<Value>| decode(&events).map(|answer| answer.stop);
        let incomplete = |reason: &str| {
            end("incomplete", json!({ "status": "incomplete", "incomplete_details": { "reason": reason } }))
        };
        assert_eq!(stop(incomplete("max_output_tokens")), Ok(StopReason::Length));
        assert_eq!(stop(incomplete("content_filter")), Ok(StopReason::Refused));
        let part = json!({ "type": "refusal", "refusal": "not for me" });
        let output = json!([{ "type": "message", "role": "assistant", "content": [part] }]);
        let refused = decode(&end("completed", json!({ "status": "completed", "output": output }))).unwrap();
        assert_eq!((refused.text.as_str(), refused.stop), ("not for me", StopReason::Refused));
        let failed = end(
            "failed",
            json!({ "status": "failed", "error": { "code": "rate_limit_exceeded", "message": "slow" } }),
        );
        let error = stop(failed).unwrap_err();
        assert!(error.kind == ModelErrorKind::Transient && error.message.contains("slow"), "{error:?}");
        let error =
            decode(&[json!({ "type": "error", "code": "server_error", "message": "oh" })]).unwrap_err();
        assert!(error.message.contains("oh"), "{error}");
        assert!(decode(&[]).unwrap_err().message.contains("broke off"));
        let begun = json!({ "type": "response.created", "response": { "error": null } });
        assert!(decode(&[begun]).unwrap_err().message.contains("broke off"));
    }
}
