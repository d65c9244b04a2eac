//! An MCP server over streamable HTTP, played by the test. It records every call, and lives on when the node is killed.

use actix_web::{App, HttpResponse, HttpServer, dev::ServerHandle, web};
use serde_json::{Value, json};
use std::{
    net::TcpListener,
    sync::{Arc, Mutex},
    time::Duration,
};

type Answer = Box<dyn Fn(&str, &Value) -> McpAnswer + Send + Sync>;

/// What a tool returns.
pub enum McpAnswer {
    Text(String),
    /// This text, as an event stream.
    Event(String),
    /// This text, after a pause.
    Late(Duration, String),
    Never,
    /// An image, by its media type and its content as base64.
    Image(&'static str, String),
}

struct McpState {
    tools: Value,
    answer: Answer,
    calls: Mutex<Vec<(String, Value)>>,
    metas: Mutex<Vec<Value>>,
}

/// A tool server; stops when dropped.
pub struct McpStub {
    pub url: String,
    state: Arc<McpState>,
    server: ServerHandle,
}

impl Drop for McpStub {
    fn drop(&mut self) {
        drop(self.server.stop(false));
    }
}

/// A tool with any arguments; `annotations` as MCP defines them.
pub fn tool(name: &str, annotations: Value) -> Value {
    json!({ "name": name, "description": format!("Does {name}."), "inputSchema": { "type": "object" }, "annotations": annotations })
}

impl McpStub {
    /// A server with `tools`, whose calls `answer` answers.
    pub fn start(tools: Value, answer: impl Fn(&str, &Value) -> McpAnswer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let state = Arc::new(McpState {
            tools,
            answer: Box::new(answer),
            calls: Mutex::default(),
            metas: Mutex::default(),
        });
        let shared = state.clone();
        let server = HttpServer::new(move || {
            App::new().app_data(web::Data::from(shared.clone())).route("/mcp", web::post().to(serve))
        })
        .workers(1)
        .disable_signals()
        .listen(listener)
        .unwrap()
        .run();
        let handle = server.handle();
        tokio::spawn(server);
        Self { url, state, server: handle }
    }

    /// The calls so far: name and arguments.
    pub fn calls(&self) -> Vec<(String, Value)> {
        self.state.calls.lock().unwrap().clone()
    }

    /// The `_meta` of each call so far.
    pub fn metas(&self) -> Vec<Value> {
        self.state.metas.lock().unwrap().clone()
    }
}

async fn serve(state: web::Data<McpState>, message: web::Json<Value>) -> HttpResponse {
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
            "serverInfo": { "name": "stub", "version": "1" },
        }),
        "tools/list" => json!({ "tools": state.tools }),
        "tools/call" => {
            let name = message["params"]["name"].as_str().unwrap_or_default().to_owned();
            let arguments = message["params"]["arguments"].clone();
            state.calls.lock().unwrap().push((name.clone(), arguments.clone()));
            state.metas.lock().unwrap().push(message["params"]["_meta"].clone());
            let text = match (state.answer)(&name, &arguments) {
                McpAnswer::Text(text) => text,
                McpAnswer::Event(text) => {
                    let result = json!({ "content": [{ "type": "text", "text": text }] });
                    let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
                    let event = format!("event: message\ndata: {answer}\n\n");
                    return HttpResponse::Ok().content_type("text/event-stream").body(event);
                }
                McpAnswer::Late(pause, text) => {
                    actix_web::rt::time::sleep(pause).await;
                    text
                }
                McpAnswer::Never => std::future::pending().await,
                McpAnswer::Image(media_type, data) => {
                    let content = json!([{ "type": "image", "data": data, "mimeType": media_type }]);
                    let answer =
                        json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "content": content } });
                    return HttpResponse::Ok().json(answer);
                }
            };
            json!({ "content": [{ "type": "text", "text": text }] })
        }
        _ if message["id"].is_null() => return HttpResponse::Accepted().finish(),
        method => {
            let error = json!({ "code": -32601, "message": format!("there is no method {method}") });
            return HttpResponse::Ok().json(json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }));
        }
    };
    HttpResponse::Ok().json(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
}
