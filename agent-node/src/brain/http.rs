//! A service as a brain: the prompt goes to it by POST, and its answer is a stream of the lines of [`super::json_lines`], as
//! server-sent events or one JSON object a line, or one such object. Acknowledgements of checkpoints go to the same URL.

mod answer;
mod signing;

use super::{
    Brain, BrainError, TurnFuture, TurnHandle, TurnRequest,
    bidding::{BidFuture, BidRequest, BrainEnd},
    exec::access::{BrainAccess, BrainAccessCell},
    json_lines,
};
use crate::{
    outbox::{
        a2a::credentials::SecretString,
        outbound_client::{Error, OutboundClient, OutboundRequest, StreamOrResponse},
        retry_after::retry_after,
    },
    shared_cell::SharedCell,
};
use answer::{AnswerForm, AnswerParser};
use futures_util::StreamExt as _;
use json_lines::{
    BrainLine, TurnLine, input_line,
    prompt_line::{self, PromptText},
};
use patterns::turn::{Progress, TurnEnd};
use protocol::{
    ids::{ConversationId, EffectId},
    trace::TraceContext,
};
use reqwest::{Method, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use signing::{authorization, sign};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};
use tokio::sync::{oneshot, watch};
use wire::prompt::InputLine;

/// The header with the token for content to which a prompt refers.
const BRAIN_TOKEN: &str = "mesh-brain-token";
/// The media types of an answer: an event stream, a JSON object a line, or one line as JSON.
const ACCEPT: [&str; 4] =
    ["text/event-stream", "application/x-ndjson", "application/jsonl", "application/json"];
/// The longest that a turn takes if it has no bound.
const TURN: Duration = Duration::from_secs(24 * 3_600);
/// The largest answer, bytes.
const MAX_ANSWER: usize = 16 << 20;
/// The longest line, bytes.
const MAX_LINE: usize = 1 << 20;
/// The first pause after a failure that may pass; it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest such pause.
const MAX_PAUSE: Duration = Duration::from_secs(300);
/// How many answers may break off or fail within the service without a checkpoint between them.
const MAX_BROKEN: u32 = 5;
/// How much of a refusal is shown, bytes.
const MAX_REFUSAL: usize = 400;

/// A service as a brain.
// The doc comments are descriptions in the published JSON Schema.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpBrainConfig {
    /// Where its turns are sent; `mesh: { outside: { allow: […] } }` names addresses that are not public.
    pub url: String,
    /// Headers of every request, such as `Authorization`; best with `${VARIABLE}`.
    #[serde(default)]
    pub headers: BTreeMap<String, SecretString>,
    /// What every request is signed with, 16 characters at least; best as `${VARIABLE}`. With it a request has a bearer token of its task, too. Without it requests are not signed.
    pub secret: Option<SecretString>,
}

/// Sends the turns of an agent to a service.
pub struct HttpBrain {
    config: SharedCell<HttpBrainConfig>,
    client: OutboundClient,
    /// Its access to the content that prompts refer to.
    access: BrainAccessCell,
    failures: Mutex<BTreeMap<String, ServiceFailures>>,
}

/// How many requests have failed since the last checkpoint, by kind.
#[derive(Default)]
struct ServiceFailures {
    busy: u32,
    broken: u32,
}

/// Why a request has no answer to the end.
enum ServiceFailure {
    /// The service has no room, or can't be reached.
    Busy { reason: String, after: Option<Duration> },
    /// The answer has broken off, or the service has failed.
    Broken(String),
    /// A repeat is of no use.
    Permanent(BrainError),
    /// The service refuses the turn.
    Refused(String),
}

impl HttpBrain {
    /// A brain for the service of `config`.
    pub fn new(config: HttpBrainConfig, client: OutboundClient, access: BrainAccessCell) -> Self {
        Self { config: SharedCell::new(config), client, access, failures: Mutex::default() }
    }

    /// Sends the prompts to `url` from now on.
    pub(super) fn set_url(&self, url: String) {
        self.config.put(HttpBrainConfig { url, ..self.config.get().as_ref().clone() });
    }

    /// Fails if prompts may not go to `url`.
    pub(super) async fn check_url(&self, url: &str) -> Result<(), String> {
        self.client.check_resolved(url).await.map_err(|error| error.to_string())
    }

    /// A request about the turn `key`. `id` is the same if it is repeated.
    fn request(&self, key: &str, id: &str, body: Vec<u8>) -> OutboundRequest {
        let config = self.config.get();
        let mut request = OutboundRequest::new(Method::POST, &config.url).header("idempotency-key", id);
        for (name, value) in &config.headers {
            request = request.secret_header(name, value.expose());
        }
        if let Some(secret) = &config.secret {
            request = sign(request, secret, id, SystemTime::now(), &body);
            if !config.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
                request = request.secret_header("authorization", &authorization(secret, key));
            }
        }
        request.body("application/json", body)
    }

    pub(super) async fn turn(
        &self,
        request: &TurnRequest,
        report: &TurnHandle,
    ) -> Result<TurnEnd, BrainError> {
        let conversation = conversation(&request.key);
        let node = self.access.get().map(BrainAccess::url);
        let prompt = match prompt_line::prompt_text(request, report.access(), node).await {
            Ok(prompt) => prompt,
            Err(error) => return Ok(TurnEnd::Failed { reason: error.to_string() }),
        };
        let report = report.clone().with_references(prompt.references.clone());
        let failure = match self.ask(&request.key, prompt, request.trace.as_ref(), &report).await {
            Ok(end) => {
                self.failures().remove(&conversation);
                return end.into_turn();
            }
            Err(failure) => failure,
        };
        let (reason, after, is_broken) = match failure {
            ServiceFailure::Permanent(error) => return Err(error),
            ServiceFailure::Refused(reason) => return Ok(TurnEnd::Failed { reason }),
            ServiceFailure::Busy { reason, after } => (reason, after, false),
            ServiceFailure::Broken(reason) => (reason, None, true),
        };
        let count = {
            let mut failures = self.failures();
            let counts = failures.entry(conversation.clone()).or_default();
            let count = if is_broken { &mut counts.broken } else { &mut counts.busy };
            *count += 1;
            *count
        };
        if is_broken && count >= MAX_BROKEN {
            self.failures().remove(&conversation);
            let reason = format!("{reason}; given up after {count} such failures");
            return Ok(TurnEnd::Failed { reason });
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << (count - 1).min(16)).min(MAX_PAUSE);
        let after_ms = u64::try_from(after.unwrap_or(pause).as_millis()).unwrap_or(u64::MAX);
        Ok(TurnEnd::Pause { after_ms, reason })
    }

    /// Forgets the failures of a conversation that has ended.
    pub(super) fn release(&self, ended: &ConversationId) {
        let is_ended = |conversation: &String| {
            EffectId::parse(&format!("{conversation}:0:0"))
                .is_some_and(|effect| effect.conversation == *ended)
        };
        self.failures().retain(|conversation, _| !is_ended(conversation));
    }

    fn failures(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, ServiceFailures>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the prompt, and reports the lines of the answer up to its end.
    async fn ask(
        &self,
        key: &str,
        prompt: PromptText,
        trace: Option<&TraceContext>,
        report: &TurnHandle,
    ) -> Result<BrainEnd, ServiceFailure> {
        let mut sent = self.request(key, key, prompt.line);
        if let Some(access) = self.access.get().filter(|_| !prompt.references.is_empty()) {
            sent = sent.secret_header(BRAIN_TOKEN, access.token());
        }
        if let Some(trace) = trace {
            sent = sent.header("traceparent", &trace.to_string());
            if let Some(state) = &trace.state {
                sent = sent.header("tracestate", state);
            }
        }
        // The agent's own bounds are shorter: a silent service is cut by `idle`.
        let opened = self.client.stream_as(sent.with_timeout(TURN), &ACCEPT, TURN, MAX_ANSWER).await;
        let (media_type, stream) = match opened.map_err(unanswered)? {
            StreamOrResponse::Stream(stream) => stream,
            StreamOrResponse::Response(response) => {
                let (after, body) = (response.header("retry-after"), &response.body);
                let after = after.and_then(|text| retry_after(text, SystemTime::now()));
                return Err(refusal(response.status, after, response.header("content-type"), body));
            }
        };
        let mut stream = std::pin::pin!(stream);
        let mut parser = AnswerParser::new(AnswerForm::of(&media_type), key, MAX_LINE, MAX_ANSWER);
        let (mut is_waiting, mut recorded) = (false, 0);
        let mut checkpoints: VecDeque<oneshot::Receiver<()>> = VecDeque::new();
        let (count, counts) = watch::channel(0);
        let mut acknowledging = std::pin::pin!(self.acknowledge(key, counts, report));
        loop {
            let piece = tokio::select! {
                biased;
                is_recorded = async { checkpoints.front_mut()?.await.ok() }, if !checkpoints.is_empty() => {
                    checkpoints.pop_front();
                    if is_recorded.is_some() {
                        recorded += 1;
                        let _ = count.send(recorded);
                    }
                    continue;
                }
                () = &mut acknowledging => continue,
                piece = stream.next() => piece,
            };
            let lines = match piece {
                Some(Ok(bytes)) => parser.push(&bytes),
                Some(Err(error)) => return Err(broken_off(error)),
                None => parser.end(),
            };
            for (_, line) in lines.map_err(ServiceFailure::Permanent)? {
                let line = match line {
                    TurnLine::Own(line) => line,
                    TurnLine::OfAnother { key } => {
                        report.log_stderr(json_lines::dropped(&key)).await;
                        continue;
                    }
                };
                match line {
                    BrainLine::End(end) => return Ok(BrainEnd::Turn(end)),
                    BrainLine::Bid(answer) => return Ok(BrainEnd::Bid(answer)),
                    BrainLine::Progress(Progress::Checkpoint(checkpoint)) => {
                        self.failures().remove(&conversation(key));
                        checkpoints.push_back(report.begin_checkpoint(checkpoint).await);
                    }
                    BrainLine::Progress(progress) => {
                        is_waiting |= json_lines::expects_answer(&progress);
                        report.send(progress).await;
                    }
                }
            }
            if parser.has_ended() {
                return match is_waiting {
                    true => Ok(BrainEnd::Turn(TurnEnd::Waiting)),
                    false => Err(ServiceFailure::Broken("the answer broke off before its end".to_owned())),
                };
            }
        }
    }

    /// Tells the service how many checkpoints are durable, each time the number in `counts` grows. Never returns.
    async fn acknowledge(&self, key: &str, mut counts: watch::Receiver<u64>, report: &TurnHandle) {
        while counts.changed().await.is_ok() {
            let mut pause = FIRST_PAUSE;
            loop {
                let checkpoints = *counts.borrow_and_update();
                let line = InputLine::Recorded { key: key.to_owned(), checkpoints };
                let Ok(body) = input_line::about_turn(&line) else { break };
                let id = format!("{key}:recorded:{checkpoints}");
                let why = match self.client.send(self.request(key, &id, body)).await {
                    Ok(response) if response.status.is_success() => break,
                    Ok(response) => format!("it answered {}", response.status),
                    Err(error) => error.to_string(),
                };
                let text =
                    format!("the service was not told that {checkpoints} checkpoints are recorded: {why}");
                report.log(text).await;
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(MAX_PAUSE);
            }
        }
        std::future::pending().await
    }
}

/// The agent and the conversation of a turn: its key without the step and the index.
fn conversation(key: &str) -> String {
    key.rsplitn(3, ':').last().unwrap_or(key).to_owned()
}

fn not_serializable(error: serde_json::Error) -> BrainError {
    BrainError::NotStarted { what: error.to_string(), source: None }
}

fn unanswered(error: Error) -> ServiceFailure {
    match error {
        Error::BadUrl(what) | Error::AddressRefused(what) => {
            ServiceFailure::Permanent(BrainError::NotStarted { what, source: None })
        }
        Error::Unreachable(why) => {
            ServiceFailure::Busy { reason: format!("the service can't be reached: {why}"), after: None }
        }
        Error::TooLarge(most) => too_large(most),
    }
}

fn broken_off(error: Error) -> ServiceFailure {
    match error {
        Error::TooLarge(most) => too_large(most),
        Error::BadUrl(why) | Error::AddressRefused(why) | Error::Unreachable(why) => {
            ServiceFailure::Broken(format!("the answer broke off: {why}"))
        }
    }
}

fn too_large(most: usize) -> ServiceFailure {
    ServiceFailure::Refused(format!("the service's answer exceeds {most} bytes"))
}

/// What an answer without a stream means.
fn refusal(
    status: StatusCode,
    after: Option<Duration>,
    media_type: Option<&str>,
    body: &[u8],
) -> ServiceFailure {
    if status.is_success() {
        let got = media_type.unwrap_or("none");
        let what = format!(
            "the service answered {status} with the media type {got}; text/event-stream, application/x-ndjson or application/json is needed"
        );
        return ServiceFailure::Refused(what);
    }
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    let said = &text[..text.floor_char_boundary(MAX_REFUSAL)];
    let reason = match said {
        "" => format!("the service answered {status}"),
        said => format!("the service answered {status}: {said}"),
    };
    match status.as_u16() {
        429 | 503 => ServiceFailure::Busy { reason, after },
        408 | 500..=599 => ServiceFailure::Broken(reason),
        _ => ServiceFailure::Refused(reason),
    }
}

impl Brain for Arc<HttpBrain> {
    fn think(&self, request: TurnRequest, report: TurnHandle) -> TurnFuture {
        let this = self.clone();
        Box::pin(async move { this.turn(&request, &report).await })
    }

    fn bid(&self, request: BidRequest, report: TurnHandle) -> BidFuture {
        let this = self.clone();
        Box::pin(async move {
            let line = input_line::call(&request).map_err(not_serializable)?;
            let prompt = PromptText { line, references: BTreeSet::new() };
            match this.ask(&request.key, prompt, None, &report).await {
                Ok(end) => end.into_bid(),
                Err(ServiceFailure::Permanent(error)) => Err(error),
                Err(
                    ServiceFailure::Busy { reason: what, .. }
                    | ServiceFailure::Broken(what)
                    | ServiceFailure::Refused(what),
                ) => Err(BrainError::NotStarted { what, source: None }),
            }
        })
    }

    fn release(&self, ended: &ConversationId) {
        HttpBrain::release(self, ended);
    }

    fn name(&self) -> &'static str {
        "http"
    }
}
