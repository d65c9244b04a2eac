//! What the formats of all providers have in common: a decoder of server-sent events, and the kinds of errors.

use super::model::{ModelAnswer, ModelDelta, ModelError, ModelErrorKind};
use serde_json::Value;

/// Reads the events of one answer.
pub(super) trait AnswerDecoder: Send {
    /// Takes an event with its name and data.
    fn on_event(&mut self, event: &str, data: &str) -> Result<Vec<ModelDelta>, ModelError>;

    /// The stream has ended; an error if the answer is not complete.
    fn on_end(&mut self) -> Result<ModelAnswer, ModelError>;
}

/// The longest text of a provider that goes into a message, bytes.
const MAX_MESSAGE: usize = 500;

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

/// The status of a request that is too large.
const TOO_LARGE: u16 = 413;

/// How providers say that the conversation is too long.
const TOO_LONG: [&str; 11] = [
    // OpenAI, vLLM, Mistral, DeepSeek and others.
    "context_length_exceeded",
    "maximum context length",
    "context window",
    // OpenAI, of the tokens in a minute.
    "request too large",
    // Anthropic.
    "prompt is too long",
    "exceed context limit",
    "request_too_large",
    // Gemini.
    "exceeds the maximum number of tokens",
    // xAI.
    "maximum prompt length",
    // llama.cpp.
    "exceeds the available context size",
    // Bedrock, behind a gateway.
    "input is too long",
];

/// The error in the body of a refusal, or in an event of a stream: `{"error": {"type", "code", "message"}}`.
pub(super) fn provider_error(status: Option<u16>, body: &Value) -> ModelError {
    // Gemini wraps it in a list.
    let error = if body.is_array() { &body[0]["error"] } else { &body["error"] };
    let words = ["type", "code", "status"].map(|name| error[name].as_str().unwrap_or_default());
    let text = error["message"].as_str().or(error.as_str()).or(body.as_str()).unwrap_or_default();
    let text: String = text.chars().take(MAX_MESSAGE).collect();
    let lower = format!("{} {text}", words.join(" ")).to_lowercase();
    let is_client_error = status.is_none_or(|status| (400..500).contains(&status));
    let is_too_long =
        status == Some(TOO_LARGE) || is_client_error && TOO_LONG.iter().any(|words| lower.contains(words));
    let kind = if is_too_long {
        ModelErrorKind::ContextTooLong
    } else if lower.contains("insufficient_quota") {
        // Waiting does not help: a person has to pay.
        ModelErrorKind::Permanent
    } else if status.is_some_and(|status| matches!(status, 408 | 425 | 429) || status >= 500)
        || words.iter().any(|word| TRANSIENT.contains(word))
    {
        ModelErrorKind::Transient
    } else {
        ModelErrorKind::Permanent
    };
    let said = if text.is_empty() { String::new() } else { format!(": {text}") };
    let message = match status {
        Some(status) => format!("status {status}{said}"),
        None => format!("an error within the answer{said}"),
    };
    ModelError { kind, status, retry_after: None, message }
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
        ] {
            assert_eq!(provider_error(status, &body).kind, ModelErrorKind::ContextTooLong, "{body}");
        }
    }
}
