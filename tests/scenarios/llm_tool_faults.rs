//! Tool servers that refuse, that are none, or whose answers can't be used: what a task says about them, and which of them it
//! waits for.

use super::llm::{model, team};
use crate::harness::{
    Process, artifact, eventually,
    mcp_stub::{McpAnswer, McpStub},
    message,
    model_stub::{ModelStub, calls, says},
    state,
};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, http::StatusCode, web};
use serde_json::json;
use std::net::TcpListener;

/// Answers `/STATUS` with that status and the credentials of the request, and `/page` with a page. Returns its address.
fn refusing_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = async |request: HttpRequest| {
        let Ok(status) = request.path().trim_start_matches('/').parse() else {
            return HttpResponse::Ok().content_type("text/html").body("<html>a page</html>");
        };
        let credentials = request.headers().get("authorization").unwrap().to_str().unwrap().to_owned();
        let mut response = HttpResponse::build(StatusCode::from_u16(status).unwrap());
        response.insert_header(("location", "/elsewhere"));
        response.body(format!("refused: {credentials}"))
    };
    let server = HttpServer::new(move || App::new().default_service(web::to(answer)));
    tokio::spawn(server.workers(1).disable_signals().listen(listener).unwrap().run());
    address
}

/// A team with an agent for each tool server at `address`.
fn team_of(stub: &ModelStub, address: &str, paths: &[&str]) -> String {
    let agents = paths.iter().map(|path| {
        let tools = format!(
            "{{ mcp: 'http://{address}/{path}?token=querysecret-1', headers: {{ Authorization: Bearer toolsecret-1 }} }}"
        );
        format!(
            "  - agent: a-{path}\n    open: true\n    brain: {{ llm: {{ {}, tools: [{tools}] }} }}\n",
            model(stub, "openai")
        )
    });
    format!("agents:\n{}", agents.collect::<String>())
}

/// Neither a credential nor a name of the code is in `text`.
fn assert_is_for_people(text: &str) {
    for part in ["secret-1", "token=", "rmcp", "::"] {
        assert!(!text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn a_url_that_refuses_or_is_no_tool_server_fails_the_task() {
    let stub = ModelStub::in_order(vec![says("never")]);
    let address = refusing_server();
    let paths = ["302", "400", "401", "403", "404", "page"];
    let node = Process::up(&team_of(&stub, &address, &paths)).await;
    for path in paths {
        let task = node.agent(&format!("a-{path}")).ask(json!({ "description": "x" })).await;
        assert_eq!(state(&task), "failed", "{path}: {task:#}");
        let text = message(&task);
        let expected = match path {
            "page" => "answers with text/html that is no MCP (is its URL right?)".to_owned(),
            "401" | "403" => {
                format!("answers with status {path}: refused: *** (the credentials are those of `headers`")
            }
            _ => format!("answers with status {path}: refused: *** (is its URL right?)"),
        };
        assert!(text.contains(&format!("the tool server http://{address}/{path} {expected}")), "{text}");
        assert_is_for_people(&text);
    }
    assert_is_for_people(&node.log().replace("::", ""));
    assert!(stub.requests().is_empty());
}

#[tokio::test]
async fn a_url_that_is_not_reached_or_is_busy_is_waited_for() {
    let stub = ModelStub::in_order(vec![says("never")]);
    let address = refusing_server();
    // No test listens at a port below 1024, so nobody takes it meanwhile.
    let closed = "127.0.0.1:1".to_owned();
    for (address, paths, expected) in [
        (&address, &["408", "429", "500", "503"][..], "answers with status "),
        (&closed, &["mcp"][..], "gives no answer: "),
    ] {
        let node = Process::up(&team_of(&stub, address, paths)).await;
        for path in paths {
            let agent = node.agent(&format!("a-{path}"));
            let id = agent.send(json!({ "description": "x" })).await;
            let text = eventually("the status says why it waits", async || {
                let task = agent.task(&id).await;
                assert_ne!(state(&task), "failed", "{task:#}");
                Some(message(&task)).filter(|text| text.contains(expected))
            })
            .await;
            assert!(text.contains(&format!("the tool server http://{address}/{path} {expected}")), "{text}");
            assert_is_for_people(&text);
        }
    }
}

#[tokio::test]
async fn a_tool_without_a_name_is_left_out_and_one_without_a_type_takes_an_object() {
    let tools = McpStub::start(
        json!([{ "name": "", "inputSchema": { "type": "object" } }, { "name": "bare", "inputSchema": {} }]),
        |name, _| McpAnswer::Text(format!("this is {name}")),
    );
    let stub = ModelStub::start(|request| match request.results.as_slice() {
        [] => calls(&[("bare", json!({}))]),
        [result, ..] => says(result),
    });
    for format in ["openai", "anthropic"] {
        let llm = format!("{}, tools: [{{ mcp: '{}' }}]", model(&stub, format), tools.url);
        let node = Process::up(&team(&llm)).await;
        let task = node.agent("thinker-01").ask(json!({ "description": "x" })).await;
        assert_eq!(artifact(&task, "answer").as_deref(), Some("this is bare"), "{task:#}");
        assert!(node.log().contains("it has no name"), "{}", node.log());
    }
    for request in stub.requests() {
        assert!(request.tools.iter().all(|name| !name.is_empty()), "{:?}", request.tools);
        let is_bare = |tool: &&serde_json::Value| tool.to_string().contains("\"bare\"");
        let tool = request.body["tools"].as_array().unwrap().iter().find(is_bare).unwrap();
        let schema =
            if request.is_anthropic { &tool["input_schema"] } else { &tool["function"]["parameters"] };
        assert_eq!(schema, &json!({ "type": "object", "properties": {} }));
    }
}

/// A tool server on standard input and output. Its tool answers with half of a character, as Python's `json.dumps` writes it.
const BROKEN: &str = r#"#!/bin/sh
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"broken","version":"1"}}' ;;
    *'"method":"tools/list"'*) result='{"tools":[{"name":"read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}' ;;
    *'"method":"tools/call"'*) echo called >> "$1"; result='{"content":[{"type":"text","text":"half \ud800"}]}' ;;
    *'"id":'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}\n' "$id"; continue ;;
    *) continue ;;
  esac
  printf '%s%s%s%s%s\n' '{"jsonrpc": "2.0", "id": ' "$id" ', "result": ' "$result" '}'
done
"#;

#[tokio::test]
async fn a_result_that_is_no_json_fails_its_call_at_once() {
    let stub = ModelStub::start(|request| match request.results.as_slice() {
        [] => calls(&[("read", json!({}))]),
        [result, ..] => says(result),
    });
    let dir = crate::harness::directory();
    let (script, called) = (crate::harness::file(dir.path(), "broken.sh", BROKEN), dir.path().join("called"));
    let tools = format!("tools: [{{ mcp: [sh, '{}', '{}'] }}]", script.display(), called.display());
    let node = Process::up(&team(&format!("{}, {tools}", model(&stub, "openai")))).await;
    let task = node.agent("thinker-01").ask(json!({ "description": "read it" })).await;
    let text = artifact(&task, "answer").unwrap_or_else(|| panic!("{task:#}"));
    assert!(text.contains("the result was dropped: it is no JSON"), "{text}");
    assert_eq!(std::fs::read_to_string(&called).unwrap().lines().count(), 1);
}
