//! A model behind HTTP: sends the request, and decodes the events of the answer as they arrive.

use super::{
    anthropic,
    dialect::{AnswerDecoder, provider_error},
    model::{ModelClient, ModelDelta, ModelError, ModelErrorKind, ModelRequest, ModelStream},
    openai, prompts,
    provider::{ModelConfig, Provider},
};
use crate::outbox::retry_after::retry_after;
use blackboard::http_client::redact_url;
use eventsource_stream::Eventsource;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use patterns::turn::MAX_CHECKPOINT_BYTES;
use protocol::address_policy::OUTBOUND;
use reqwest::{
    Client, Response,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::Value;
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

/// How long a connection to a provider may take. The time to the first byte of an answer is limited by the agent's bounds.
const CONNECT: Duration = Duration::from_secs(10);
/// The largest response, bytes: an answer with the frames of its events.
const MAX_RESPONSE: usize = 16 << 20;
/// The longest answer, bytes. It is recorded in a checkpoint, beside the two before it, which compaction leaves whole.
const MAX_ANSWER: usize = MAX_CHECKPOINT_BYTES / 4;
/// The longest text of a refusal that is read, bytes.
const MAX_REFUSAL: usize = 64 << 10;
/// How much is shown of an answer that is no stream, bytes.
const MAX_SHOWN: usize = 300;
const ANTHROPIC_VERSION: &str = "2023-06-01";
/// The most tokens of an answer; Anthropic requires a number.
const ANTHROPIC_MAX_TOKENS: u32 = 8_192;

#[derive(Debug, Clone)]
pub(super) struct HttpModel {
    config: Arc<ModelConfig>,
    model: String,
    client: Client,
}

impl HttpModel {
    /// The model of `config`, called through `client`.
    pub(super) fn new(config: ModelConfig, client: Client) -> Self {
        let name = Provider::of_model(&config.model, true).map_or("", |(_, name)| name);
        Self { model: name.to_owned(), config: Arc::new(config), client }
    }

    /// A client for providers and tool servers. It follows no redirect: a key goes to the configured host only. Its calls are
    /// marked as outbound, so that a node of the mesh behind such a URL does not take them for the local user's.
    pub(super) fn client() -> Result<Client, reqwest::Error> {
        blackboard::http_client::tls::client()
            .default_headers(
                [(HeaderName::from_static(OUTBOUND), HeaderValue::from_static("1"))].into_iter().collect(),
            )
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .user_agent(concat!("agent-mesh/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .build()
    }

    fn request(&self, request: &ModelRequest) -> (reqwest::RequestBuilder, Box<dyn AnswerDecoder>) {
        let (base, most) = (self.config.url.as_str(), self.config.max_tokens);
        if self.config.provider == Provider::Anthropic {
            let path = if base.ends_with("/v1") { "/messages" } else { "/v1/messages" };
            let body = anthropic::body(&self.model, request, most.unwrap_or(ANTHROPIC_MAX_TOKENS));
            let mut sent = self.client.post(format!("{base}{path}")).json(&body);
            sent = sent.header("anthropic-version", ANTHROPIC_VERSION);
            if let Some(key) = &self.config.key {
                sent = sent.header("x-api-key", key.expose());
            }
            return (sent, Box::<anthropic::EventDecoder>::default());
        }
        let limit =
            if self.config.provider == Provider::OpenAi { "max_completion_tokens" } else { "max_tokens" };
        let body = openai::body(&self.model, request, most.map(|most| (limit, most)));
        let mut sent = self.client.post(format!("{base}/chat/completions")).json(&body);
        if let Some(key) = &self.config.key {
            sent = sent.bearer_auth(key.expose());
        }
        (sent, Box::<openai::ChunkDecoder>::default())
    }
}

impl ModelClient for HttpModel {
    fn ask(&self, request: Arc<ModelRequest>) -> ModelStream {
        let (this, silence) = (self.clone(), request.silence);
        let opened = async move {
            let (request, decoder) = this.request(&request);
            let response = request.send().await.map_err(|error| unreachable(&error))?;
            if !response.status().is_success() {
                return Err(refusal(response).await);
            }
            let media_type = media_type(&response);
            if media_type.as_ref().is_some_and(|media_type| media_type != "text/event-stream") {
                return Err(no_stream(media_type.unwrap_or_default(), response).await);
            }
            Ok(deltas(response, decoder))
        };
        let config = self.config.clone();
        let named = move |error: ModelError| ModelError { message: explained(&config, &error), ..error };
        let deltas = stream::once(opened).try_flatten().boxed();
        until_silent(deltas, silence).map_err(named).boxed()
    }

    fn name(&self) -> &str {
        &self.config.model
    }
}

/// The deltas, and an error in place of a silence that is longer than `limit`.
fn until_silent(deltas: ModelStream, limit: Option<Duration>) -> ModelStream {
    let Some(limit) = limit else { return deltas };
    let limited = stream::unfold(Some(deltas), move |deltas| async move {
        let mut deltas = deltas?;
        match tokio::time::timeout(limit, deltas.next()).await {
            Ok(delta) => Some((delta?, Some(deltas))),
            Err(_) => Some((Err(ModelError::transient(format!("it sent nothing for {limit:?}"))), None)),
        }
    });
    limited.boxed()
}

/// What has failed: the model, where it is, the cause; and which key was refused.
fn explained(config: &ModelConfig, error: &ModelError) -> String {
    let key = match (error.status, &config.key, &config.key_variable) {
        (Some(401 | 403), None, _) => " (no key was sent: `key` gives one)".to_owned(),
        (Some(401 | 403), Some(_), Some(variable)) => format!(" (the key is that of {variable})"),
        (Some(401 | 403), Some(_), None) => " (the key is that of `key`)".to_owned(),
        _ => String::new(),
    };
    format!("{} at {}: {}{key}", config.model, redact_url(&config.url), error.message)
}

/// The deltas of an answer, until its end or its first error.
fn deltas(
    response: Response,
    decoder: Box<dyn AnswerDecoder>,
) -> impl Stream<Item = Result<ModelDelta, ModelError>> + Send {
    let mut received = 0;
    let bytes = response.bytes_stream().map(move |bytes| {
        let bytes = bytes.map_err(|error| unreachable(&error))?;
        received += bytes.len();
        if received > MAX_RESPONSE { Err(too_long("response", MAX_RESPONSE)) } else { Ok(bytes) }
    });
    let events = Box::pin(bytes.eventsource());
    let open = Some((events, decoder, 0));
    let pieces = stream::unfold(open, |open| async move {
        let (mut events, mut decoder, mut said) = open?;
        let mut pieces = match events.next().await {
            Some(Ok(event)) => decoder.on_event(&event.event, &event.data),
            Some(Err(eventsource_stream::EventStreamError::Transport(error))) => Err(error),
            Some(Err(error)) => Err(ModelError::transient(format!("the answer is no event stream: {error}"))),
            None => decoder.on_end().map(|answer| vec![ModelDelta::Answer(answer)]),
        };
        said += pieces.iter().flatten().map(ModelDelta::bytes).sum::<usize>();
        if said > MAX_ANSWER {
            pieces = Err(too_long("answer", MAX_ANSWER));
        }
        let is_last = |pieces: &Vec<ModelDelta>| matches!(pieces.last(), Some(ModelDelta::Answer(_)));
        let next = match &pieces {
            Ok(pieces) if !is_last(pieces) => Some((events, decoder, said)),
            Ok(_) | Err(_) => None,
        };
        Some((pieces, next))
    });
    pieces.map_ok(|pieces| stream::iter(pieces.into_iter().map(Ok))).try_flatten()
}

fn too_long(what: &str, most: usize) -> ModelError {
    let message = format!("its {what} is longer than {most} bytes");
    ModelError { kind: ModelErrorKind::Permanent, ..ModelError::transient(message) }
}

/// The media type of a response, without parameters and in lower case; `None` if it does not say.
fn media_type(response: &Response) -> Option<String> {
    let value = response.headers().get(CONTENT_TYPE)?.to_str().unwrap_or_default();
    Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// The error of a successful response that is no stream: what is at the URL is no model, or does not stream.
async fn no_stream(media_type: String, response: Response) -> ModelError {
    let body = beginning_of(response).await;
    let text = String::from_utf8_lossy(&body);
    let message = format!(
        "the answer is {media_type} and no event stream; is the url right? It begins: {}",
        prompts::beginning(text.trim(), MAX_SHOWN)
    );
    ModelError { kind: ModelErrorKind::Permanent, ..ModelError::transient(message) }
}

/// The body of a response as far as it comes, up to [`MAX_REFUSAL`].
async fn beginning_of(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < MAX_REFUSAL {
        // A body that breaks off is worth as much as what has arrived of it.
        let Ok(Some(chunk)) = response.chunk().await else { break };
        body.extend_from_slice(&chunk);
    }
    body
}

/// What a provider says instead of an answer.
async fn refusal(response: Response) -> ModelError {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let body = beginning_of(response).await;
    let text = || Value::String(String::from_utf8_lossy(&body).into_owned());
    let body = serde_json::from_slice(&body).unwrap_or_else(|_| text());
    ModelError { retry_after: pause(&headers), ..provider_error(Some(status), &body) }
}

/// `retry-after-ms` of OpenAI, or the standard header.
fn pause(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    let millis = text("retry-after-ms").and_then(|text| text.parse().ok()).map(Duration::from_millis);
    millis.or_else(|| retry_after(text("retry-after")?, SystemTime::now()))
}

fn unreachable(error: &reqwest::Error) -> ModelError {
    ModelError::transient(format!("no answer: {}", cause_of(error)))
}

/// The innermost cause, without the URL, which may hold a token.
pub(super) fn cause_of(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |error| error.source());
    causes.last().map_or_else(|| "no answer".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::a2a::credentials::SecretString;

    #[test]
    fn a_failure_names_the_url_and_for_a_refused_key_its_variable() {
        let mut config = ModelConfig {
            model: "openai/m".to_owned(),
            provider: Provider::OpenAi,
            url: "https://models.example/v1".to_owned(),
            key: Some(SecretString::new("sk-secret".to_owned())),
            key_variable: Some("MY_KEY".to_owned()),
            max_tokens: None,
            price: None,
        };
        let refused = |status| ModelError { status: Some(status), ..ModelError::transient("no") };
        let prefix = "openai/m at https://models.example/v1: no";
        assert_eq!(explained(&config, &refused(500)), prefix);
        assert_eq!(explained(&config, &refused(401)), format!("{prefix} (the key is that of MY_KEY)"));
        config.key_variable = None;
        assert_eq!(explained(&config, &refused(403)), format!("{prefix} (the key is that of `key`)"));
        config.key = None;
        assert!(explained(&config, &refused(401)).ends_with("(no key was sent: `key` gives one)"));
    }
}
