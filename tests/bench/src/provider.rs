//! A provider of a model in OpenAI's format and an MCP server, over HTTP/1.1 in a thread of their own. The answers are
//! prepared, so that they take little of the machine.

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// Calls of a tool in each task.
pub(crate) const CALLS: usize = 10;
/// The tool of the tool server.
pub(crate) const TOOL: &str = "step";
/// How a result of a tool stands in a request.
const RESULT: &[u8] = br#""role":"tool""#;

/// The running servers; they end with the process.
pub(crate) struct Provider {
    pub(crate) url: String,
    state: Arc<State>,
}

struct State {
    answers: AtomicUsize,
    calls: Vec<u8>,
    ends: Vec<u8>,
}

impl Provider {
    /// Starts them. The model calls the tool of the tool server, or else one of the mesh.
    pub(crate) fn start(has_tool_server: bool) -> anyhow::Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let url = format!("http://{}", listener.local_addr()?);
        let call = match has_tool_server {
            true => (TOOL, json!({ "n": 1 })),
            false => ("read_artifact", json!({ "artifact": "none" })),
        };
        let state =
            Arc::new(State { answers: AtomicUsize::new(0), calls: answer(Some(call)), ends: answer(None) });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = state.clone();
        std::thread::spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                while let Ok((stream, _)) = listener.accept().await {
                    let state = shared.clone();
                    tokio::spawn(async move { drop(serve(stream, &state).await) });
                }
            });
        });
        Ok(Self { url, state })
    }

    /// The answers of the model so far.
    pub(crate) fn answers(&self) -> usize {
        self.state.answers.load(Ordering::SeqCst)
    }
}

/// The whole response of the model: a few words, and a call or the end.
fn answer(call: Option<(&str, Value)>) -> Vec<u8> {
    let chunk = |choices: Value, usage: Value| {
        let chunk = json!({
            "id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "m",
            "choices": choices, "usage": usage,
        });
        format!("data: {chunk}\n\n")
    };
    let delta = |delta: Value, finish: Value| {
        chunk(json!([{ "index": 0, "delta": delta, "finish_reason": finish }]), Value::Null)
    };
    let mut events = delta(json!({ "role": "assistant", "content": "" }), Value::Null);
    for piece in ["I take ", "the next ", "step, ", "as I ", "was told."] {
        events += &delta(json!({ "content": piece }), Value::Null);
    }
    let finish = if call.is_some() { "tool_calls" } else { "stop" };
    if let Some((name, arguments)) = call {
        let function = json!({ "name": name, "arguments": "" });
        let begun = json!({ "index": 0, "id": "call_0", "type": "function", "function": function });
        events += &delta(json!({ "tool_calls": [begun] }), Value::Null);
        let more = json!({ "index": 0, "function": { "arguments": arguments.to_string() } });
        events += &delta(json!({ "tool_calls": [more] }), Value::Null);
    }
    events += &delta(json!({}), json!(finish));
    events +=
        &chunk(json!([]), json!({ "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120 }));
    events += "data: [DONE]\n\n";
    response("200 OK", "text/event-stream", &events)
}

fn response(status: &str, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// Answers the requests of one connection.
async fn serve(mut stream: TcpStream, state: &State) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            read(&mut stream, &mut buffer).await?;
        };
        let head = String::from_utf8_lossy(buffer.get(..end).unwrap_or_default()).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let whole = end + length.unwrap_or(0);
        while buffer.len() < whole {
            read(&mut stream, &mut buffer).await?;
        }
        let body = buffer.get(end..whole).unwrap_or_default();
        if head.starts_with("post /v1/chat/completions ") {
            let results = body.windows(RESULT.len()).filter(|part| *part == RESULT).count();
            state.answers.fetch_add(1, Ordering::SeqCst);
            stream.write_all(if results < CALLS { &state.calls } else { &state.ends }).await?;
        } else if head.starts_with("post /mcp ") {
            stream.write_all(&mcp(&serde_json::from_slice(body)?)).await?;
        } else {
            stream.write_all(&response("405 Method Not Allowed", "text/plain", "")).await?;
        }
        buffer.drain(..whole);
    }
}

async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> anyhow::Result<()> {
    let read = tokio::time::timeout(Duration::from_secs(600), stream.read_buf(buffer)).await;
    match read.context("the benchmark hangs")?? {
        0 => bail!("the connection has ended"),
        _ => Ok(()),
    }
}

/// The answer of the tool server.
fn mcp(message: &Value) -> Vec<u8> {
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
            "serverInfo": { "name": "bench", "version": "1" },
        }),
        "tools/list" => {
            let hint = json!({ "readOnlyHint": true });
            json!({ "tools": [{ "name": TOOL, "inputSchema": { "type": "object" }, "annotations": hint }] })
        }
        "tools/call" => json!({ "content": [{ "type": "text", "text": "a step was made" }] }),
        _ if message["id"].is_null() => return response("202 Accepted", "text/plain", ""),
        _ => {
            let error = json!({ "code": -32601, "message": "no such method" });
            let body = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
            return response("200 OK", "application/json", &body.to_string());
        }
    };
    let body = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    response("200 OK", "application/json", &body.to_string())
}
