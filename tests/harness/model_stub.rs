//! A provider of language models over real HTTP, played by the test. It speaks the published formats of OpenAI Chat Completions
//! (ollama's compatible endpoint is the same) and of Anthropic Messages, streamed.

use actix_web::{App, HttpRequest, HttpResponse, HttpServer, dev::ServerHandle, web};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    net::TcpListener,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// What the provider does with a request.
#[derive(Clone, Debug)]
pub enum StubAnswer {
    Says(String),
    /// Says something and calls tools, with arguments as text.
    Calls(&'static str, Vec<(String, String)>),
    /// Refuses with this status, these headers and this error: type, code, message.
    Refuses(u16, Vec<(&'static str, String)>, [&'static str; 3]),
    /// Says this, a piece at a time with a pause before each.
    Slowly(Duration, String),
    /// Streams these events; texts stand for themselves, such as `[DONE]`.
    Sends(Vec<Value>),
    /// Answers with this status and this body, and no stream.
    Returns(u16, Value),
    /// Says this, and counts no tokens.
    Uncounted(String),
    /// Says the beginning of an answer with this, and nothing more until the caller goes away.
    HangsAfter(String),
    /// Begins to answer and breaks off.
    BreaksOff,
    /// Answers nothing but pings until the caller goes away.
    Hangs,
    /// Sends nothing, no head of a response either.
    Silent,
}

/// A request in the terms that both formats share.
#[derive(Clone, Debug)]
pub struct StubRequest {
    pub is_anthropic: bool,
    /// Whether it is one of OpenAI's Responses.
    pub is_response: bool,
    pub headers: BTreeMap<String, String>,
    pub body: Value,
    pub system: String,
    /// The texts of the user's messages.
    pub user: Vec<String>,
    /// The results of tools, oldest first.
    pub results: Vec<String>,
    /// The names of the tools.
    pub tools: Vec<String>,
}

type Script = Box<dyn Fn(&StubRequest) -> StubAnswer + Send + Sync>;

struct StubState {
    script: Script,
    requests: Mutex<Vec<StubRequest>>,
    open: AtomicUsize,
}

/// A provider; stops when dropped.
pub struct ModelStub {
    /// The base URL of OpenAI's format; Anthropic's is the same.
    pub url: String,
    state: Arc<StubState>,
    server: ServerHandle,
}

impl Drop for ModelStub {
    fn drop(&mut self) {
        drop(self.server.stop(false));
    }
}

impl ModelStub {
    /// A provider that answers each request as `script` says.
    pub fn start(script: impl Fn(&StubRequest) -> StubAnswer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let state = Arc::new(StubState {
            script: Box::new(script),
            requests: Mutex::default(),
            open: AtomicUsize::new(0),
        });
        let shared = state.clone();
        let server = HttpServer::new(move || {
            App::new()
                .app_data(web::Data::from(shared.clone()))
                .app_data(web::JsonConfig::default().limit(16 << 20))
                .route("/v1/chat/completions", web::post().to(completions))
                .route("/v1/messages", web::post().to(messages))
                .route("/v1/responses", web::post().to(responses))
        })
        .workers(1)
        // On a slow machine it must not close a connection while a request is on its way.
        .keep_alive(Duration::from_secs(600))
        .client_request_timeout(Duration::ZERO)
        .disable_signals()
        .listen(listener)
        .unwrap()
        .run();
        let handle = server.handle();
        tokio::spawn(server);
        Self { url, state, server: handle }
    }

    /// A provider whose answers depend on how many results of tools the conversation has: the first without any.
    pub fn in_order(answers: Vec<StubAnswer>) -> Self {
        Self::start(move |request| answers[request.results.len().min(answers.len() - 1)].clone())
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<StubRequest> {
        self.state.requests.lock().unwrap().clone()
    }

    /// Requests whose answers are under way.
    pub fn open(&self) -> usize {
        self.state.open.load(Ordering::SeqCst)
    }
}

/// A call of a tool.
pub fn calls(calls: &[(&str, Value)]) -> StubAnswer {
    StubAnswer::Calls(
        "",
        calls.iter().map(|(name, arguments)| ((*name).to_owned(), arguments.to_string())).collect(),
    )
}

/// An answer.
pub fn says(text: &str) -> StubAnswer {
    StubAnswer::Says(text.to_owned())
}

async fn completions(state: web::Data<StubState>, head: HttpRequest, body: web::Json<Value>) -> HttpResponse {
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let of = |role: &str| {
        let found = messages.iter().filter(|message| message["role"] == role);
        found.map(|message| text_of(&message["content"])).collect::<Vec<_>>()
    };
    let tools = body["tools"].as_array().into_iter().flatten();
    let tools = tools.map(|tool| tool["function"]["name"].as_str().unwrap_or_default().to_owned()).collect();
    let (system, user, results) = (of("system").concat(), of("user"), of("tool"));
    answer(&state, request(&head, &body, system, user, results, tools)).await
}

/// A text, or the texts among parts.
fn text_of(content: &Value) -> String {
    let parts = content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    content.as_str().map_or_else(|| parts.collect::<Vec<_>>().join("\n"), str::to_owned)
}

async fn responses(state: web::Data<StubState>, head: HttpRequest, body: web::Json<Value>) -> HttpResponse {
    let items = body["input"].as_array().cloned().unwrap_or_default();
    let of = |is_wanted: &dyn Fn(&Value) -> bool, place: &str| {
        let found = items.iter().filter(|item| is_wanted(item)).filter_map(|item| item.pointer(place));
        found.map(text_of).collect::<Vec<_>>()
    };
    let user = of(&|item| item["role"] == "user", "/content");
    let results = of(&|item| item["type"] == "function_call_output", "/output");
    let tools = body["tools"].as_array().into_iter().flatten();
    let tools = tools.map(|tool| tool["name"].as_str().unwrap_or_default().to_owned()).collect();
    let system = body["instructions"].as_str().unwrap_or_default().to_owned();
    answer(&state, request(&head, &body, system, user, results, tools)).await
}

async fn messages(state: web::Data<StubState>, head: HttpRequest, body: web::Json<Value>) -> HttpResponse {
    let blocks =
        body["messages"].as_array().into_iter().flatten().filter(|message| message["role"] == "user");
    let blocks: Vec<_> = blocks
        .flat_map(|message| match message["content"].as_str() {
            Some(text) => vec![json!({ "type": "text", "text": text })],
            None => message["content"].as_array().cloned().unwrap_or_default(),
        })
        .collect();
    let of = |kind: &str, member: &str| {
        let found = blocks.iter().filter(|block| block["type"] == kind);
        found.map(|block| block[member].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let tools = body["tools"].as_array().into_iter().flatten();
    let tools = tools.map(|tool| tool["name"].as_str().unwrap_or_default().to_owned()).collect();
    let system =
        body["system"][0]["text"].as_str().or(body["system"].as_str()).unwrap_or_default().to_owned();
    answer(&state, request(&head, &body, system, of("text", "text"), of("tool_result", "content"), tools))
        .await
}

fn request(
    head: &HttpRequest,
    body: &Value,
    system: String,
    user: Vec<String>,
    results: Vec<String>,
    tools: Vec<String>,
) -> StubRequest {
    let headers = head.headers().iter();
    let headers = headers
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()))
        .collect();
    let (is_anthropic, is_response) = (head.path().ends_with("messages"), head.path().ends_with("responses"));
    StubRequest { is_anthropic, is_response, headers, body: body.clone(), system, user, results, tools }
}

/// Counts an answer that is under way.
struct OpenAnswer(web::Data<StubState>);

impl OpenAnswer {
    fn new(state: &web::Data<StubState>) -> Self {
        state.open.fetch_add(1, Ordering::SeqCst);
        Self(state.clone())
    }
}

impl Drop for OpenAnswer {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn answer(state: &web::Data<StubState>, request: StubRequest) -> HttpResponse {
    let (is_anthropic, is_response) = (request.is_anthropic, request.is_response);
    let model = request.body["model"].as_str().unwrap_or_default().to_owned();
    let answer = (state.script)(&request);
    state.requests.lock().unwrap().push(request);
    // Without a response, the server does not notice that the caller goes away.
    let open = (!matches!(answer, StubAnswer::Silent)).then(|| OpenAnswer::new(state));
    let events = |text: &str, calls: &[(String, String)]| match is_anthropic {
        true => anthropic_events(&model, text, calls),
        false if is_response => responses_events(text, calls),
        false => openai_events(&model, text, calls),
    };
    let chunks: Vec<Result<Bytes, std::io::Error>> = match answer {
        StubAnswer::Says(text) => events(&text, &[]).into_iter().map(Ok).collect(),
        StubAnswer::Sends(sent) => {
            let data = |event: &Value| event.as_str().map_or_else(|| event.to_string(), str::to_owned);
            sent.iter().map(|event| Ok(Bytes::from(format!("data: {}\n\n", data(event))))).collect()
        }
        StubAnswer::Returns(status, body) => {
            let status = actix_web::http::StatusCode::from_u16(status).unwrap();
            return HttpResponse::build(status).json(body);
        }
        StubAnswer::Uncounted(text) => events(&text, &[]).iter().map(without_usage).map(Ok).collect(),
        StubAnswer::HangsAfter(text) => {
            let mut events = events(&text, &[]);
            let is_text = |event: &Bytes| {
                let event = String::from_utf8_lossy(event);
                event.contains("text_delta")
                    || event.contains("\"content\":\"") && !event.contains("\"role\"")
            };
            events.truncate(events.iter().rposition(is_text).map_or(0, |at| at + 1));
            let chunks = stream::iter(events.into_iter().map(Ok::<_, std::io::Error>))
                .chain(stream::pending())
                .map(move |chunk| {
                    let _ = &open;
                    chunk
                });
            return HttpResponse::Ok().content_type("text/event-stream").streaming(chunks);
        }
        StubAnswer::Calls(text, calls) => events(text, &calls).into_iter().map(Ok).collect(),
        StubAnswer::Refuses(status, headers, [kind, code, message]) => {
            let mut response = HttpResponse::build(actix_web::http::StatusCode::from_u16(status).unwrap());
            headers.iter().for_each(|(name, value)| {
                response.insert_header((*name, value.as_str()));
            });
            return response.json(match is_anthropic {
                true => json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": "req_1" }),
                false => json!({ "error": { "message": message, "type": kind, "param": null, "code": code } }),
            });
        }
        StubAnswer::Slowly(pause, text) => {
            let chunks = stream::iter(events(&text, &[])).then(move |chunk| {
                let _ = &open;
                async move {
                    actix_web::rt::time::sleep(pause).await;
                    Ok::<_, std::io::Error>(chunk)
                }
            });
            return HttpResponse::Ok().content_type("text/event-stream").streaming(chunks);
        }
        StubAnswer::Silent => return std::future::pending().await,
        StubAnswer::BreaksOff => {
            let mut begun: Vec<_> = events("This will never be whole.", &[]).into_iter().map(Ok).collect();
            begun.truncate(4);
            begun.push(Err(std::io::Error::other("broken on purpose")));
            begun
        }
        StubAnswer::Hangs => {
            let ping =
                if is_anthropic { "event: ping\ndata: {\"type\": \"ping\"}\n\n" } else { ": ping\n\n" };
            let pings = stream::unfold(open, move |open| async move {
                actix_web::rt::time::sleep(Duration::from_millis(20)).await;
                Some((Ok::<_, std::io::Error>(Bytes::from_static(ping.as_bytes())), open))
            });
            return HttpResponse::Ok().content_type("text/event-stream").streaming(pings);
        }
    };
    // The guard goes with the stream.
    let chunks = stream::iter(chunks).map(move |chunk| {
        let _ = &open;
        chunk
    });
    HttpResponse::Ok().content_type("text/event-stream").streaming(chunks)
}

/// An event without what it counts.
fn without_usage(event: &Bytes) -> Bytes {
    let text = String::from_utf8_lossy(event);
    let (head, data) = text.split_once("data: ").unwrap();
    let Ok(mut data) = serde_json::from_str::<Value>(data) else { return event.clone() };
    data.as_object_mut().unwrap().remove("usage");
    if let Some(message) = data.get_mut("message").and_then(Value::as_object_mut) {
        message.remove("usage");
    }
    Bytes::from(format!("{head}data: {data}\n\n"))
}

/// The text in pieces of a few characters; a long one in about a thousand.
fn pieces(text: &str) -> Vec<String> {
    let letters: Vec<_> = text.chars().collect();
    letters.chunks((letters.len() / 1_000).max(7)).map(|piece| piece.iter().collect()).collect()
}

/// About four bytes are a token.
fn tokens(text: &str) -> usize {
    text.len() / 4 + 1
}

fn openai_events(model: &str, text: &str, calls: &[(String, String)]) -> Vec<Bytes> {
    let chunk = |choices: Value, usage: Value| {
        let chunk = json!({
            "id": "chatcmpl-stub", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": model,
            "system_fingerprint": "fp_stub", "choices": choices, "usage": usage,
        });
        Bytes::from(format!("data: {chunk}\n\n"))
    };
    let delta = |delta: Value, finish: Value| {
        chunk(json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }]), Value::Null)
    };
    let mut events = vec![delta(json!({ "role": "assistant", "content": "", "refusal": null }), Value::Null)];
    events.extend(pieces(text).into_iter().map(|piece| delta(json!({ "content": piece }), Value::Null)));
    for (at, (name, arguments)) in calls.iter().enumerate() {
        let function = json!({ "name": name, "arguments": "" });
        let begun =
            json!({ "index": at, "id": format!("call_{at}"), "type": "function", "function": function });
        events.push(delta(json!({ "tool_calls": [begun] }), Value::Null));
        for piece in pieces(arguments) {
            let more = json!({ "index": at, "function": { "arguments": piece } });
            events.push(delta(json!({ "tool_calls": [more] }), Value::Null));
        }
    }
    events.push(delta(json!({}), json!(if calls.is_empty() { "stop" } else { "tool_calls" })));
    let output = tokens(text) + calls.iter().map(|(_, arguments)| tokens(arguments)).sum::<usize>();
    events.push(chunk(
        json!([]),
        json!({ "prompt_tokens": 100, "completion_tokens": output, "total_tokens": 100 + output }),
    ));
    events.push(Bytes::from_static(b"data: [DONE]\n\n"));
    events
}

fn responses_events(text: &str, calls: &[(String, String)]) -> Vec<Bytes> {
    let event = |data: Value| Bytes::from(format!("data: {data}\n\n"));
    let mut events = vec![event(
        json!({ "type": "response.created", "response": { "status": "in_progress", "error": null } }),
    )];
    let reasoning =
        json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed" });
    let mut items = vec![reasoning];
    if !text.is_empty() {
        events.extend(
            pieces(text)
                .into_iter()
                .map(|piece| event(json!({ "type": "response.output_text.delta", "delta": piece }))),
        );
        items.push(json!({ "type": "message", "id": "msg_1", "role": "assistant", "content": [{ "type": "output_text", "text": text }] }));
    }
    items.extend(calls.iter().enumerate().map(|(at, (name, arguments))| json!({
        "type": "function_call", "id": format!("fc_{at}"), "call_id": format!("call_{at}"), "name": name, "arguments": arguments,
    })));
    events.extend(items.iter().enumerate().map(|(at, item)| {
        event(json!({ "type": "response.output_item.done", "output_index": at, "item": item }))
    }));
    events.push(event(json!({ "type": "response.completed", "response": {
        "status": "completed", "output": items, "usage": { "input_tokens": 100, "output_tokens": tokens(text) },
    } })));
    events
}

fn anthropic_events(model: &str, text: &str, calls: &[(String, String)]) -> Vec<Bytes> {
    let event = |data: Value| {
        let kind = data["type"].as_str().unwrap_or_default();
        Bytes::from(format!("event: {kind}\ndata: {data}\n\n"))
    };
    let mut events = vec![event(json!({ "type": "message_start", "message": {
        "id": "msg_stub", "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": { "input_tokens": 40, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 60, "output_tokens": 1 },
    } }))];
    let mut index = 0;
    let mut block = |start: Value, deltas: Vec<Value>, events: &mut Vec<Bytes>| {
        events.push(event(json!({ "type": "content_block_start", "index": index, "content_block": start })));
        for delta in deltas {
            events.push(event(json!({ "type": "content_block_delta", "index": index, "delta": delta })));
        }
        events.push(event(json!({ "type": "content_block_stop", "index": index })));
        index += 1;
    };
    if !text.is_empty() {
        let deltas = pieces(text).into_iter().map(|piece| json!({ "type": "text_delta", "text": piece }));
        block(json!({ "type": "text", "text": "" }), deltas.collect(), &mut events);
        events.push(event(json!({ "type": "ping" })));
    }
    for (at, (name, arguments)) in calls.iter().enumerate() {
        let deltas = pieces(arguments).into_iter();
        let deltas = deltas.map(|piece| json!({ "type": "input_json_delta", "partial_json": piece }));
        let start = json!({ "type": "tool_use", "id": format!("toolu_{at}"), "name": name, "input": {} });
        block(start, deltas.collect(), &mut events);
    }
    let reason = if calls.is_empty() { "end_turn" } else { "tool_use" };
    let output = tokens(text) + calls.iter().map(|(_, arguments)| tokens(arguments)).sum::<usize>();
    events.push(event(json!({
        "type": "message_delta", "delta": { "stop_reason": reason, "stop_sequence": null },
        "usage": { "output_tokens": output },
    })));
    events.push(event(json!({ "type": "message_stop" })));
    events
}
