//! MCP servers as people have them: strict old ones, slow ones, endless lists, bad tools, tools that appear, calls that take long.

use super::llm::{model, team};
use crate::harness::{
    Process, artifact, directory, eventually, file, message,
    model_stub::{ModelStub, calls, says},
    state, stream,
};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use reqwest::Method;
use serde_json::{Value, json};

/// A tool server on standard input and output. Its first argument says what is wrong with it; it writes what it is sent into the
/// file of the second.
const SERVER: &str = r#"
import json, os, sys, time
mode, path = sys.argv[1:]
log = open(path, "a")
log.write("start\n"); log.flush()
begun, unlocked = False, 0
if mode == "slow":
    time.sleep(11)
def write(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def tool(name, **more):
    return {"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}, **more}
for line in sys.stdin:
    request = json.loads(line)
    method, key, params = request.get("method"), request.get("id"), request.get("params", {})
    log.write(method + "\n"); log.flush()
    if method == "initialize":
        begun = True
        result = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": mode, "version": "1"}}
    elif mode == "strict" and not begun:
        sys.exit("expected initialize")
    elif key is None:
        continue
    elif method == "tools/list" and mode == "same":
        result = {"tools": [tool("time")], "nextCursor": "same"}
    elif method == "tools/list" and mode == "endless":
        result = {"tools": [tool("time")], "nextCursor": str(time.time_ns())}
    elif method == "tools/list" and mode == "bad":
        result = {"tools": [{"name": "broken"}, None, tool("time", outputSchema=7)]}
    elif method == "tools/list" and mode == "relist" and unlocked == 1:
        unlocked = 2
        write({"id": key, "error": {"code": -32603, "message": "the list is being made"}})
        continue
    elif method == "tools/list":
        result = {"tools": [tool("time")] + ([tool("secret")] if unlocked else [])}
    elif method == "tools/call":
        if mode in ("unlock", "relist") and params["name"] == "time" and not unlocked:
            unlocked = 1
            write({"method": "notifications/tools/list_changed"})
        if mode == "progress":
            for step in range(8):
                time.sleep(0.4)
                token = params["_meta"]["progressToken"]
                write({"method": "notifications/progress",
                       "params": {"progressToken": token, "progress": step, "message": "step %d" % step}})
        text = json.dumps(dict(os.environ)) if mode == "env" else "result of " + params["name"]
        result = {"content": [{"type": "text", "text": text}]}
    else:
        write({"id": key, "error": {"code": -32601, "message": "no method " + str(method)}})
        continue
    write({"id": key, "result": result})
"#;

struct Tried {
    node: Process,
    stub: ModelStub,
    log: std::path::PathBuf,
    _dir: tempfile::TempDir,
}

/// An agent with a server of this kind, whose model calls `time` and then what is new.
async fn tried(mode: &str, more: &str) -> Tried {
    let dir = directory();
    let (script, log) = (file(dir.path(), "server.py", SERVER), dir.path().join("log"));
    let is_found_late = mode == "relist";
    let stub = ModelStub::start(move |request| match request.results.as_slice() {
        [] => calls(&[("time", json!({}))]),
        [.., last] if last.ends_with("of time") && request.tools.iter().any(|name| name == "secret") => {
            calls(&[("secret", json!({}))])
        }
        [first] if is_found_late => calls(&[("time", json!({ "after": first }))]),
        [.., last] => says(last),
    });
    let command = format!("[python3, '{}', {mode}, '{}']", script.display(), log.display());
    let llm = format!("{}, tools: [{{ mcp: {command}{more} }}]", model(&stub, "openai"));
    let environment =
        ["HTTPS_PROXY=http://me:a-password@proxy.example:3128", "NO_PROXY=inside", "UNRELATED=1"];
    let environment = environment.map(str::to_owned);
    let environment = if mode == "env" { environment.as_slice() } else { &[] };
    let node = Process::up_in(environment, &team(&llm)).await;
    Tried { node, stub, log, _dir: dir }
}

impl Tried {
    async fn ask(&self) -> Value {
        self.node.agent("thinker-01").ask(json!({ "description": "x" })).await
    }

    /// Everything that was to be seen of a task.
    async fn events(&self, task: &Value) -> String {
        let id = task["id"].as_str().unwrap();
        let url = format!("{}/a2a/tasks/{id}/events", self.node.agent("thinker-01").url);
        stream(&url, None).await.iter().map(|(_, event)| event.to_string()).collect()
    }

    /// How often the server got this line.
    fn count(&self, line: &str) -> usize {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter(|logged| *logged == line).count()
    }
}

#[tokio::test]
async fn a_server_that_ends_at_an_unknown_message_is_started_again_and_that_is_learnt() {
    let tried = tried("strict", "").await;
    for _ in 0..2 {
        let task = tried.ask().await;
        assert_eq!(artifact(&task, "answer").as_deref(), Some("result of time"), "{task:#}");
    }
    assert_eq!((tried.count("start"), tried.count("server/discover")), (2, 1));
    // It dies, and is greeted with `initialize` at once.
    let killed = std::process::Command::new("pkill").args(["-f", tried.log.to_str().unwrap()]).status();
    assert!(killed.unwrap().success());
    eventually("the server runs again", async || {
        let task = tried.ask().await;
        (artifact(&task, "answer").as_deref() == Some("result of time")).then_some(())
    })
    .await;
    assert_eq!((tried.count("start"), tried.count("server/discover")), (3, 1));
}

#[tokio::test]
async fn the_late_answer_of_a_server_that_starts_slowly_is_dropped() {
    let tried = tried("slow", "").await;
    let task = tried.ask().await;
    assert_eq!(artifact(&task, "answer").as_deref(), Some("result of time"), "{task:#}");
    assert_eq!(tried.count("start"), 1);
    let log = tried.node.log();
    assert!(log.contains("a late answer to an earlier greeting is dropped"), "{log}");
}

#[tokio::test]
async fn a_list_without_an_end_fails_the_task_with_the_name_of_the_server() {
    for (mode, why) in [("same", "has the same cursor twice"), ("endless", "has more than 100 pages")] {
        let tried = tried(mode, "").await;
        let task = tried.ask().await;
        assert_eq!(state(&task), "failed", "{task:#}");
        let text = message(&task);
        assert!(text.contains("server.py") && text.contains(why), "{text}");
        assert!(tried.count("tools/list") <= 100, "it is listed once");
    }
}

#[tokio::test]
async fn a_tool_that_can_not_be_read_is_left_out_and_named() {
    let tried = tried("bad", "").await;
    let task = tried.ask().await;
    assert_eq!(artifact(&task, "answer").as_deref(), Some("result of time"), "{task:#}");
    let log = tried.node.log();
    for (tool, why) in [("broken", "it has no inputSchema"), ("tool 2", "it is no object")] {
        assert!(log.contains(tool) && log.contains(why), "{log}");
    }
    let events = tried.events(&task).await;
    assert!(events.contains("the tool broken of"), "{events}");
}

#[tokio::test]
async fn a_tool_that_appears_is_offered_to_the_next_call_of_the_model() {
    let tried = tried("unlock", "").await;
    let task = tried.ask().await;
    assert_eq!(artifact(&task, "answer").as_deref(), Some("result of secret"), "{task:#}");
    let requests = tried.stub.requests();
    assert_eq!(requests.len(), 3);
    let has_secret = |at: usize| requests[at].tools.iter().any(|name| name == "secret");
    assert!(!has_secret(0) && has_secret(1) && has_secret(2));
}

#[tokio::test]
async fn a_change_of_the_tools_is_not_lost_with_a_list_that_fails() {
    let tried = tried("relist", "").await;
    let task = tried.ask().await;
    assert_eq!(artifact(&task, "answer").as_deref(), Some("result of secret"), "{task:#}");
    assert_eq!(tried.count("tools/list"), 3, "at the begin, in vain, and after the second call");
    let events = tried.events(&task).await;
    for text in [&events, &tried.node.log()] {
        assert!(text.contains("have changed, but the tool server"), "{text}");
        assert!(text.contains("refuses: the list is being made"), "{text}");
    }
}

#[tokio::test]
async fn a_command_is_told_of_proxies_and_of_nothing_else() {
    let task = tried("env", "").await.ask().await;
    let got: Value = serde_json::from_str(&artifact(&task, "answer").unwrap()).unwrap();
    assert_eq!(got["HTTPS_PROXY"], "http://me:a-password@proxy.example:3128");
    assert_eq!(got["NO_PROXY"], "inside");
    assert_eq!(got["UNRELATED"], Value::Null);
}

#[tokio::test]
async fn a_call_that_reports_its_progress_has_more_time_and_shows_it() {
    let tried = tried("progress", ", timeout: 1s").await;
    let task = tried.ask().await;
    assert_eq!(artifact(&task, "answer").as_deref(), Some("result of time"), "{task:#}");
    assert_eq!(tried.count("tools/call"), 1);
    let events = tried.events(&task).await;
    assert!(events.contains("time: step "), "{events}");
}

#[tokio::test]
async fn a_denied_tool_is_not_shown_and_a_call_of_it_is_refused() {
    let tried = tried("plain", ", deny: ['t*'], allow: [time]").await;
    let task = tried.ask().await;
    let answer = artifact(&task, "answer").unwrap();
    assert!(answer.contains("time was not called") && answer.contains("denies it"), "{task:#}");
    assert_eq!(tried.count("tools/call"), 0);
    assert!(tried.stub.requests().iter().all(|request| request.tools.iter().all(|name| name != "time")));
}

#[tokio::test]
async fn the_person_sees_the_state_of_tool_servers_and_none_is_started_for_that() {
    for (mode, state, why) in [("bad", "connected", ""), ("same", "failed", "has the same cursor twice")] {
        let tried = tried(mode, ", name: clock, deny: ['drop_*']").await;
        let url = format!("{}/a2a/tools", tried.node.agent("thinker-01").url);
        let server =
            async || tried.node.call_as_person(Method::GET, &url, None).await.body["servers"][0].clone();
        let before = server().await;
        assert_eq!(
            (&before["state"], &before["kind"]),
            (&json!("not-started"), &json!("command")),
            "{before}"
        );
        assert_eq!(tried.count("start"), 0, "nothing is started for the list");
        tried.ask().await;
        let after = server().await;
        assert_eq!(after["state"], state, "{after}");
        assert!(after["why"].as_str().unwrap_or_default().contains(why), "{after}");
        let (code, told, errors) = tried.node.as_person(&["tools", "thinker-01"]).await;
        assert_eq!(code, 0, "{errors}");
        assert!(told.contains("clock") && told.contains(state) && told.contains("delegate"), "{told}");
        let (_, found, _) = tried.node.as_person(&["doctor"]).await;
        assert_eq!(found.contains("its tool server clock has failed"), mode == "same", "{found}");
        if mode == "bad" {
            let tool = json!({ "name": "time", "description": "", "permission": "allowed" });
            assert_eq!(after["tools"], json!([tool]), "{after}");
            assert!(after["lastUsed"].is_string() && after["leftOut"][0]["name"] == "broken", "{after}");
        }
    }
}

/// Servers at a URL: `/plain` knows `initialize` only and says so without JSON, `/busy` takes no calls, `/sse` is of 2024.
async fn old_http(request: HttpRequest, body: web::Bytes) -> HttpResponse {
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path = request.path();
    if path == "/sse" {
        return match request.method().as_str() {
            "GET" => HttpResponse::Ok()
                .content_type("text/event-stream")
                .body("event: endpoint\ndata: /messages?session=1\n\n"),
            _ => HttpResponse::MethodNotAllowed().finish(),
        };
    }
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-03-26", "capabilities": { "tools": {} },
            "serverInfo": { "name": "old", "version": "1" },
        }),
        "tools/list" => json!({ "tools": [{ "name": "time", "inputSchema": { "type": "object" } }] }),
        "tools/call" if path == "/busy" => return HttpResponse::ServiceUnavailable().body("busy"),
        "tools/call" => json!({ "content": [{ "type": "text", "text": "result of time" }] }),
        _ if message["id"].is_null() && message.is_object() => return HttpResponse::Accepted().finish(),
        _ => return HttpResponse::BadRequest().body("Bad Request"),
    };
    HttpResponse::Ok().json(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
}

#[tokio::test]
async fn an_old_server_at_a_url_works_or_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = HttpServer::new(|| App::new().default_service(web::to(old_http)));
    tokio::spawn(server.workers(1).disable_signals().listen(listener).unwrap().run());
    for (path, ends, expected) in [
        ("plain", "completed", "result of time"),
        ("busy", "completed", "the call was not made: the server answers with status 503"),
        ("sse", "failed", "speaks HTTP+SSE of MCP 2024-11-05"),
    ] {
        let stub = ModelStub::start(|request| match request.results.as_slice() {
            [] => calls(&[("time", json!({}))]),
            [.., last] => says(last),
        });
        let llm = format!("{}, tools: [{{ mcp: 'http://{address}/{path}' }}]", model(&stub, "openai"));
        let node = Process::up(&team(&llm)).await;
        let task = node.agent("thinker-01").ask(json!({ "description": "x" })).await;
        assert_eq!(state(&task), ends, "{task:#}");
        let text = artifact(&task, "answer").unwrap_or_else(|| message(&task));
        assert!(text.contains(expected), "{path}: {text}");
    }
}
