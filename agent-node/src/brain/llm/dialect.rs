//! What the formats of all providers have in common: a decoder of server-sent events, and the kinds of errors.

use super::model::{Kept, ModelAnswer, ModelDelta, ModelError, ModelErrorKind};
use serde_json::{Map, Value};

/// Reads the events of one answer.
pub(super) trait AnswerDecoder: Send {
    /// Takes an event with its name and data.
    fn on_event(&mut self, event: &str, data: &str) -> Result<Vec<ModelDelta>, ModelError>;

    /// The stream has ended; an error if the answer is not complete.
    fn on_end(&mut self) -> Result<ModelAnswer, ModelError>;

    /// Whether an answer that is not streamed can be read as one event.
    fn takes_whole(&self) -> bool {
        false
    }
}

/// What is kept with an answer, before it is known for whom; `None` if there is nothing.
pub(super) fn unnamed(parts: Value) -> Option<Kept> {
    let is_empty =
        parts.as_object().is_some_and(Map::is_empty) || parts.as_array().is_some_and(Vec::is_empty);
    (!is_empty && !parts.is_null()).then(|| Kept { by: String::new(), parts })
}

/// The longest text of a provider that goes into a message, characters.
const MAX_MESSAGE: usize = 500;
/// The longest text of a provider that is searched for the names of members and tools, characters.
const MAX_SAID: usize = 8_192;

/// Error codes and types after which the same call may succeed.
const TRANSIENT: [&str; 7] = [
    "rate_limit_error",
    "overloaded_error",
    "api_error",
    "timeout_error",
    "server_error",
    "rate_limit_exceeded",
    "internal_server_error",
];

/// Error types within an answer after which the same call fails again.
const LASTING: [&str; 7] = [
    "invalid_request_error",
    "invalid_request",
    "invalid_prompt",
    "authentication_error",
    "permission_error",
    "not_found_error",
    "billing_error",
];

/// The status of a request that is too large.
const TOO_LARGE: u16 = 413;

/// How providers say that the conversation is too long.
const TOO_LONG: [&str; 22] = [
    // OpenAI, vLLM, Mistral, DeepSeek and others.
    "context_length_exceeded",
    "maximum context length",
    "context window",
    "maximum model length",
    "reduce the length",
    // OpenAI, of the tokens in a minute.
    "request too large",
    // Anthropic.
    "prompt is too long",
    "exceed context limit",
    "request_too_large",
    // Gemini.
    "exceeds the maximum number of tokens",
    "token count exceeds",
    // xAI.
    "maximum prompt length",
    // llama.cpp, Ollama.
    "exceeds the available context size",
    "exceed_context_size",
    "exceeds the context length",
    // LM Studio.
    "context length of only",
    "greater than the context length",
    "context the overflows",
    // Bedrock and Databricks, behind a gateway.
    "input is too long",
    "exceeds maximum allowed content length",
    // Text Generation Inference, Together.
    "inputs tokens + max_new_tokens",
    "must be less than or equal to the context",
];

/// The text of an error, wherever a server has put it.
fn text_of(body: &Value) -> String {
    let own = ["message", "detail", "details", "error", "errors", "title", "reason", "msg"];
    match body {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            items.iter().map(text_of).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ")
        }
        Value::Object(members) => {
            let place = members.get("loc").or(members.get("param")).filter(|place| !place.is_null());
            let place = place.map(|place| place.as_str().map_or_else(|| place.to_string(), str::to_owned));
            let text =
                own.iter().filter_map(|name| members.get(*name)).map(text_of).find(|text| !text.is_empty());
            // What a gateway passes on of the server behind it.
            let raw = members.get("metadata").and_then(|metadata| metadata.get("raw")).map(text_of);
            let parts = text.into_iter().chain(raw).chain(place.map(|place| format!("({place})")));
            parts.collect::<Vec<_>>().join(" ")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// Whether an event of a stream, or a body, is an error: `{"error": …}`, `{"object": "error", …}` or `{"detail": …}`.
pub(super) fn is_error(body: &Value) -> bool {
    let has_error = body.get("error").is_some_and(|error| !matches!(error, Value::Null | Value::Bool(false)));
    let says_error = ["object", "type"].iter().any(|name| body[*name] == "error");
    has_error || says_error || body.get("choices").is_none() && body.get("detail").is_some()
}

/// The error in the body of a refusal, or in an event of a stream, in whatever shape.
pub(super) fn provider_error(status: Option<u16>, body: &Value) -> ModelError {
    // Gemini wraps it in a list.
    let body = if body.is_array() { &body[0] } else { body };
    let error = if body["error"].is_object() { &body["error"] } else { body };
    let words = ["type", "code", "status"].map(|name| error[name].as_str().unwrap_or_default());
    let status = status.or_else(|| {
        let code = [&error["code"], &error["status"], &body["status"]]
            .into_iter()
            .find_map(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
        u16::try_from(code?).ok().filter(|code| (400..600).contains(code))
    });
    let whole = text_of(body);
    let text: String = whole.chars().take(MAX_MESSAGE).collect();
    let said: String = format!("{} {whole}", words.join(" ")).to_lowercase().replace('`', "");
    let said: String = said.chars().take(MAX_SAID).collect();
    let is_client_error = status.is_none_or(|status| (400..500).contains(&status));
    let is_too_long =
        status == Some(TOO_LARGE) || is_client_error && TOO_LONG.iter().any(|words| said.contains(words));
    let is_lasting = words.iter().any(|word| LASTING.contains(word));
    let kind = if is_too_long {
        ModelErrorKind::ContextTooLong
    } else if said.contains("insufficient_quota") {
        // Waiting does not help: a person has to pay.
        ModelErrorKind::Permanent
    } else if status.is_some_and(|status| matches!(status, 408 | 425 | 429) || status >= 500)
        || words.iter().any(|word| TRANSIENT.contains(word))
        // What comes within an answer says seldom what it is. How often the answer is asked for again is bounded.
        || status.is_none() && !is_lasting
    {
        ModelErrorKind::Transient
    } else {
        ModelErrorKind::Permanent
    };
    let shown = if text.is_empty() { String::new() } else { format!(": {text}") };
    let message = match status {
        Some(status) => format!("status {status}{shown}"),
        None => format!("an error within the answer{shown}"),
    };
    ModelError { kind, status, message, said, ..ModelError::transient("") }
}

/// `text` as JSON; what is no JSON is an error that shows how it begins.
pub(super) fn read_event(data: &str) -> Result<Value, ModelError> {
    serde_json::from_str(data).map_err(|error| {
        let begins: String = data.chars().take(MAX_MESSAGE).collect();
        ModelError::transient(format!("an event of the answer is no JSON ({error}): {begins}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn errors_of_all_providers_have_the_right_kind() {
        use ModelErrorKind::{Permanent, Transient};
        let error = |kind: &str, code: Value, message: &str| json!({ "error": { "type": kind, "code": code, "message": message } });
        for (status, body, expected) in [
            (429, error("requests", json!("rate_limit_exceeded"), "slow down"), Transient),
            (429, error("insufficient_quota", json!("insufficient_quota"), "pay"), Permanent),
            (529, error("overloaded_error", Value::Null, "Overloaded"), Transient),
            (503, json!("<html>bad gateway</html>"), Transient),
            (401, error("authentication_error", Value::Null, "invalid x-api-key"), Permanent),
            (404, error("not_found_error", Value::Null, "model: x"), Permanent),
            (400, json!([{ "error": { "code": 400, "message": "bad" } }]), Permanent),
            (500, error("api_error", Value::Null, "the context window service is down"), Transient),
            (422, json!({ "detail": [{ "loc": ["body", "stream_options"], "msg": "extra" }] }), Permanent),
        ] {
            assert_eq!(provider_error(Some(status), &body).kind, expected, "{body}");
        }
    }

    #[test]
    fn a_conversation_that_is_too_long_is_recognised_at_each_provider() {
        let error = |kind: &str, code: &str, message: &str| json!({ "error": { "type": kind, "code": code, "message": message } });
        let invalid = |message: &str| error("invalid_request_error", "", message);
        for (status, body) in [
            (Some(400), error("invalid_request_error", "context_length_exceeded", "too many")),
            (Some(400), invalid("This model's maximum context length is 8 tokens.")),
            (Some(400), invalid("Your input exceeds the context window of this model.")),
            (Some(429), error("tokens", "rate_limit_exceeded", "Request too large for gpt-4o: Limit 8")),
            (Some(400), invalid("prompt is too long: 9 tokens > 8 maximum")),
            (
                Some(400),
                invalid("input length and `max_tokens` exceed context limit: 199211 + 8192 > 200000"),
            ),
            (Some(413), error("request_too_large", "", "Request exceeds the maximum size")),
            (Some(413), json!("<html>413 Request Entity Too Large</html>")),
            (None, error("request_too_large", "", "Request exceeds the maximum size")),
            (
                Some(400),
                json!([{ "error": { "code": 400, "message": "The input token count (9) exceeds the maximum number of tokens allowed (8)." } }]),
            ),
            (
                Some(400),
                json!({ "code": "invalid", "error": "This model's maximum prompt length is 8 but the request contains 9 tokens." }),
            ),
            (Some(400), invalid("the request exceeds the available context size")),
            (Some(400), invalid("Input is too long for requested model.")),
            (
                Some(400),
                json!({ "object": "error", "message": "This model's maximum context length is 2048 tokens.", "code": 400 }),
            ),
            (
                Some(400),
                json!({ "error": "The number of tokens to keep from the initial prompt is greater than the context length." }),
            ),
            (
                None,
                json!({ "error": { "code": "400", "message": "the request exceeds the available context size" } }),
            ),
            (
                Some(400),
                json!({ "error": { "message": "Provider returned error", "metadata": { "raw": "{\"message\":\"prompt is too long: 9\"}" } } }),
            ),
        ] {
            assert_eq!(provider_error(status, &body).kind, ModelErrorKind::ContextTooLong, "{body}");
        }
    }

    #[test]
    fn the_text_of_an_error_is_found_in_every_shape() {
        for (body, shown) in [
            (json!({ "object": "error", "message": "bad", "type": "x", "code": 400 }), "status 400: bad"),
            (json!({ "detail": "not here" }), "status 400: not here"),
            (
                json!({ "detail": [{ "loc": ["body", "stream_options"], "msg": "Extra inputs" }] }),
                "status 400: Extra inputs ([\"body\",\"stream_options\"])",
            ),
            (json!({ "error": "upstream overloaded" }), "status 400: upstream overloaded"),
            (
                json!({ "error": { "message": "no", "param": "reasoning_effort" } }),
                "status 400: no (reasoning_effort)",
            ),
            (json!({ "object": "error", "message": { "detail": [{ "msg": "m" }] } }), "status 400: m"),
            (json!({ "message": "gateway" }), "status 400: gateway"),
            (
                json!({ "error": { "message": "outer", "metadata": { "raw": "inner" } } }),
                "status 400: outer inner",
            ),
            (json!("plain"), "status 400: plain"),
        ] {
            assert_eq!(provider_error(Some(400), &body).message, shown, "{body}");
        }
    }

    #[test]
    fn errors_within_a_stream_are_told_from_answers() {
        for (event, expected) in [
            (json!({ "error": "upstream overloaded" }), true),
            (json!({ "error": { "code": 502 } }), true),
            (json!({ "object": "error", "message": "m" }), true),
            (json!({ "detail": "m" }), true),
            (json!({ "choices": [], "error": null }), false),
            (json!({ "choices": [{ "delta": {} }] }), false),
        ] {
            assert_eq!(is_error(&event), expected, "{event}");
        }
        let error = provider_error(None, &json!({ "error": { "code": 502, "message": "m" } }));
        assert_eq!((error.kind, error.status), (ModelErrorKind::Transient, Some(502)));
    }
}
