//! A model behind HTTP: sends the request, and decodes the events of the answer as they arrive.

use super::{
    chat,
    dialect::{AnswerDecoder, is_error, provider_error},
    messages,
    model::{Kept, ModelClient, ModelDelta, ModelError, ModelErrorKind, ModelRequest, ModelStream},
    prompts,
    provider::{Dialect, ModelConfig},
    request_form::{Learned, RequestForm},
    responses,
    server_memory::{self, MAX_CHANGES},
};
use crate::outbox::{
    environment_proxy::{ProxiedClients, proxy_of},
    retry_after::retry_after,
};
use eventsource_stream::Eventsource;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use patterns::turn::MAX_CHECKPOINT_BYTES;
use protocol::address_policy::OUTBOUND;
use reqwest::{
    Client, Response, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::Value;
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};
use transport::http_client::redact_url;

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

#[derive(Debug, Clone)]
pub(super) struct HttpModel {
    config: Arc<ModelConfig>,
    client: Client,
}

impl HttpModel {
    /// The model of `config`, called through one of `clients`.
    pub(super) fn new(config: ModelConfig, clients: &ProxiedClients) -> Self {
        Self { client: clients.for_url(&config.url).clone(), config: Arc::new(config) }
    }

    /// The clients for providers and tool servers. They follow no redirect: a key goes to the configured host only. Their calls are
    /// marked as outbound, so that a node of the mesh behind such a URL does not take them for the local user's.
    pub(super) fn clients() -> Result<ProxiedClients, reqwest::Error> {
        ProxiedClients::new(|| {
            transport::http_client::tls::client()
                .default_headers(
                    [(HeaderName::from_static(OUTBOUND), HeaderValue::from_static("1"))]
                        .into_iter()
                        .collect(),
                )
                .redirect(reqwest::redirect::Policy::none())
                .referer(false)
                .user_agent(concat!("agent-mesh/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(CONNECT)
        })
    }

    /// The request with its body, and what reads the answer.
    fn request(
        &self,
        request: &ModelRequest,
        learned: &Learned,
    ) -> (reqwest::RequestBuilder, Value, Box<dyn AnswerDecoder>) {
        let (config, base) = (&self.config, self.config.url.as_str());
        let form = RequestForm { config, learned };
        type Sent = (String, Value, Box<dyn AnswerDecoder>);
        let (url, body, decoder): Sent = match learned.dialect.unwrap_or(config.dialect) {
            Dialect::Chat => {
                let decoder = Box::<chat::ChunkDecoder>::default();
                (format!("{base}/chat/completions"), chat::body(form, request), decoder)
            }
            Dialect::Responses => {
                let decoder = Box::<responses::ResponseDecoder>::default();
                (format!("{base}/responses"), responses::body(form, request), decoder)
            }
            Dialect::Messages => {
                let path = if base.ends_with("/v1") { "/messages" } else { "/v1/messages" };
                let decoder = Box::<messages::EventDecoder>::default();
                (format!("{base}{path}"), messages::body(form, request), decoder)
            }
        };
        (self.with_headers(self.client.post(url)).json(&body), body, decoder)
    }

    /// The request with the headers that a person has set, which take precedence, and ours.
    fn with_headers(&self, mut sent: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        let config = &self.config;
        let headers = &config.settings.headers;
        let is_set = |name: &str| headers.keys().any(|set| set.eq_ignore_ascii_case(name));
        for (name, value) in headers {
            sent = sent.header(name, value.expose());
        }
        if config.dialect == Dialect::Messages && !is_set("anthropic-version") {
            sent = sent.header("anthropic-version", ANTHROPIC_VERSION);
        }
        match &config.key {
            Some(key) if !is_set(&config.key_header) => match config.key_header.as_str() {
                "authorization" => sent.bearer_auth(key.expose()),
                header => sent.header(header, key.expose()),
            },
            _ => sent,
        }
    }

    /// The answer to a request, or what the provider says in its place. A refusal that names what nobody has set is answered by
    /// another request; what has helped is remembered, and noted for people.
    async fn open(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        let (config, mut notices, mut first) = (&self.config, Vec::new(), None);
        let mut learned = server_memory::recall(&config.url, &config.name);
        loop {
            let (sent, body, decoder) = self.request(request, &learned);
            let response = sent.send().await.map_err(|error| unreachable(&error))?;
            if response.status().is_success() {
                if !notices.is_empty() {
                    server_memory::remember(&config.url, &config.name, &learned);
                }
                let keeper = RequestForm { config, learned: &learned }.keeper();
                let notices = notices
                    .into_iter()
                    .map(|notice: String| Ok(ModelDelta::Notice(format!("{}: {notice}", config.model))));
                let answer = answer_of(response, decoder).await?;
                let answer = answer.map(move |delta| delta.and_then(|delta| keep(delta, &keeper)));
                return Ok(stream::iter(notices.collect::<Vec<_>>()).chain(answer).boxed());
            }
            let error = refusal(response).await;
            let before = learned.clone();
            let form = RequestForm { config, learned: &before };
            let is_mendable = notices.len() < MAX_CHANGES;
            let change =
                is_mendable.then(|| learned.mend(&error, &body, request, (form, config.is_dialect_set)));
            match change.flatten() {
                Some(change) => {
                    notices.push(change);
                    first.get_or_insert(error);
                }
                // What was refused at first says more than what its mend was refused for.
                None => return Err(first.unwrap_or(error)),
            }
        }
    }
}

/// Notes for whom an answer is kept. Fails if it is too long to be recorded with what goes back to the provider.
fn keep(delta: ModelDelta, keeper: &str) -> Result<ModelDelta, ModelError> {
    let ModelDelta::Answer(mut answer) = delta else { return Ok(delta) };
    let parts = answer.kept.take().map_or(Value::Null, |kept| kept.parts);
    if answer.bytes() + parts.to_string().len() > MAX_ANSWER {
        return Err(too_long("answer", MAX_ANSWER));
    }
    answer.kept = Some(Kept { by: keeper.to_owned(), parts });
    Ok(ModelDelta::Answer(answer))
}

impl ModelClient for HttpModel {
    fn ask(&self, request: Arc<ModelRequest>) -> ModelStream {
        let (this, silence) = (self.clone(), request.silence);
        let opened = async move { this.open(&request).await };
        let config = self.config.clone();
        let named = move |error: ModelError| ModelError { message: explained(&config, &error), ..error };
        let deltas = stream::once(opened).try_flatten().boxed();
        until_silent(deltas, silence).map_err(named).boxed()
    }

    #[expect(clippy::misnamed_getters, reason = "the name in the configuration, not that at the provider")]
    fn name(&self) -> &str {
        &self.config.model
    }
}

/// Reads a successful response.
async fn answer_of(
    response: Response,
    mut decoder: Box<dyn AnswerDecoder>,
) -> Result<ModelStream, ModelError> {
    match media_type(&response) {
        Some(media_type) if media_type != "text/event-stream" => {
            let is_json = media_type == "application/json";
            let body = beginning_of(response, if is_json { MAX_RESPONSE } else { MAX_REFUSAL }).await;
            match serde_json::from_slice::<Value>(&body) {
                Ok(read) if is_json && is_error(&read) => Err(provider_error(None, &read)),
                // A server that does not stream.
                Ok(read) if is_json && decoder.takes_whole() && read.get("choices").is_some() => {
                    let mut deltas = decoder.on_event("", &read.to_string())?;
                    deltas.push(ModelDelta::Answer(decoder.on_end()?));
                    Ok(stream::iter(deltas.into_iter().map(Ok)).boxed())
                }
                _ => Err(no_stream(&media_type, &body)),
            }
        }
        _ => Ok(deltas(response, decoder).boxed()),
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
        _ if error.said.contains("reasoning_effort") && config.settings.effort.is_none() => {
            " (`effort` sets it)".to_owned()
        }
        // Proxies answer with these, too.
        (Some(407 | 502..=504), _, _) => {
            Url::parse(&config.url).map(|url| through_proxy(&url)).unwrap_or_default()
        }
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
        }
        .map_err(|error| ModelError { has_begun: true, ..error });
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

/// The error of a successful response that is no answer: what is at the URL is no model.
fn no_stream(media_type: &str, body: &[u8]) -> ModelError {
    let text = String::from_utf8_lossy(body);
    let message = format!(
        "the answer is {media_type} and no event stream; is the url right? It begins: {}",
        prompts::beginning(text.trim(), MAX_SHOWN)
    );
    ModelError { kind: ModelErrorKind::Permanent, ..ModelError::transient(message) }
}

/// The body of a response as far as it comes, up to about `most` bytes.
async fn beginning_of(mut response: Response, most: usize) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < most {
        // A body that breaks off is worth as much as what has arrived of it.
        let Ok(Some(chunk)) = response.chunk().await else { break };
        body.extend_from_slice(&chunk);
    }
    body
}

/// What a provider says instead of an answer.
async fn refusal(response: Response) -> ModelError {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let body = beginning_of(response, MAX_REFUSAL).await;
    let text = || Value::String(String::from_utf8_lossy(&body).into_owned());
    let body = serde_json::from_slice(&body).unwrap_or_else(|_| text());
    ModelError { retry_after: pause(&headers), ..provider_error(Some(status), &body) }
}

/// `retry-after-ms` of OpenAI, the standard header, or what LiteLLM makes of that.
fn pause(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    let millis = text("retry-after-ms").and_then(|text| text.parse().ok()).map(Duration::from_millis);
    let standard = || text("retry-after").or_else(|| text("llm_provider-retry-after"));
    millis.or_else(|| retry_after(standard()?, SystemTime::now()))
}

fn unreachable(error: &reqwest::Error) -> ModelError {
    ModelError::transient(format!("no answer: {}", cause_of(error)))
}

/// The innermost cause, and the proxy that the call went through. Without the URL, which may hold a token.
pub(super) fn cause_of(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |error| error.source());
    let cause = causes.last().map_or_else(|| "no answer".to_owned(), ToString::to_string);
    cause + &error.url().map(through_proxy).unwrap_or_default()
}

fn through_proxy(url: &Url) -> String {
    proxy_of(url).map(|proxy| format!(" (through the proxy {proxy})")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::a2a::credentials::SecretString;

    #[test]
    fn headers_of_a_person_take_the_place_of_ours() {
        let secret = |text: &str| SecretString::new(text.to_owned());
        let mut config = crate::brain::llm::request_form::tests::model("anthropic/m");
        config.key = Some(secret("k"));
        config.key_header = "x-api-key".to_owned();
        let set = [("Anthropic-Version", "2026-10-21"), ("X-Api-Key", "mine"), ("Content-Type", "text/json")];
        config.settings.headers = set.map(|(name, value)| (name.to_owned(), secret(value))).into();
        let model = HttpModel::new(config, &HttpModel::clients().unwrap());
        let sent = model.with_headers(model.client.post("http://m")).json(&0);
        let headers = sent.build().unwrap().headers().clone();
        for (name, value) in set {
            let values: Vec<_> = headers.get_all(name).iter().collect();
            assert_eq!(values, [value], "{name}");
        }
    }

    #[test]
    fn the_pause_is_read_from_the_headers_of_each_provider() {
        let pause_of = |headers: &[(&'static str, &'static str)]| {
            let header = |(name, value): &(&'static str, &'static str)| {
                (HeaderName::from_static(name), HeaderValue::from_static(value))
            };
            pause(&headers.iter().map(header).collect())
        };
        let (standard, renamed) = (("retry-after", "7"), ("llm_provider-retry-after", "5"));
        assert_eq!(pause_of(&[standard, renamed]), Some(Duration::from_secs(7)));
        assert_eq!(pause_of(&[renamed]), Some(Duration::from_secs(5)));
        assert_eq!(pause_of(&[("retry-after-ms", "1500"), standard]), Some(Duration::from_millis(1_500)));
        assert_eq!(pause_of(&[]), None);
    }

    #[test]
    fn a_failure_names_the_url_and_for_a_refused_key_its_variable() {
        let mut config = ModelConfig {
            url: "https://models.example/v1".to_owned(),
            key: Some(SecretString::new("sk-secret".to_owned())),
            key_variable: Some("MY_KEY".to_owned()),
            ..crate::brain::llm::request_form::tests::model("openai/m")
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
