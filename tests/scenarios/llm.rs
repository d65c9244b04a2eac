//! Agents with a language model (docs/models-and-tools.md). The provider is played by the test; all else is the code that calls
//! the real ones.

use crate::harness::{
    Process, artifact, client, eventually, mesh, message,
    model_stub::{ModelStub, StubAnswer, calls, says},
    state, stream,
};
use serde_json::{Value, json};
use std::time::Duration;

/// A team of one agent whose brain is `llm`, written as members of a YAML map.
pub(super) fn team(llm: &str) -> String {
    format!(
        "
agents:
  - agent: thinker-01
    description: Answers questions
    open: true
    skills:
      - id: research
      - id: count
        outputSchema: {{ type: object, required: [number], properties: {{ number: {{ type: integer }} }} }}
    brain:
      llm: {{ {llm} }}
"
    )
}

/// The members of a model behind `stub`, in OpenAI's or Anthropic's format.
pub(super) fn model(stub: &ModelStub, format: &str) -> String {
    format!("model: {format}/stub-1, url: '{}', key: secret-of-the-provider", stub.url)
}

async fn ask(node: &Process, description: &str) -> Value {
    node.agent("thinker-01").ask(json!({ "description": description })).await
}

#[tokio::test]
async fn a_model_of_either_format_answers_a_task_and_its_text_arrives_whole() {
    let text = "The answer is 42, and here is why: ".repeat(40);
    let said = text.clone();
    let stub = ModelStub::start(move |_| says(&said));
    for format in ["openai", "anthropic", "ollama", "gemini"] {
        let node = Process::up(&team(&model(&stub, format))).await;
        let task = ask(&node, "What is the answer?").await;
        assert_eq!(state(&task), "completed", "{task:#}");
        assert_eq!(artifact(&task, "answer").as_deref().map(str::trim), Some(text.trim()), "{format}");
    }
    let requests = stub.requests();
    assert_eq!(requests.len(), 4, "one call a task");
    let key = |at: usize, name: &str| requests[at].headers.get(name).cloned();
    assert_eq!(key(0, "authorization").as_deref(), Some("Bearer secret-of-the-provider"));
    assert_eq!(key(1, "x-api-key").as_deref(), Some("secret-of-the-provider"));
    assert!(requests[1].is_anthropic && requests[1].headers.contains_key("anthropic-version"));
    for request in requests {
        assert_eq!(request.body["model"], "stub-1");
        assert_eq!(request.headers.get("mesh-outbound").map(String::as_str), Some("1"));
        assert!(
            request.system.contains("You are thinker-01") && !request.system.contains("What is the answer?")
        );
        let fenced =
            request.user[0].split_once("BEGIN DATA").map(|(_, data)| data.contains("What is the answer?"));
        assert_eq!(fenced, Some(true), "{}", request.user[0]);
    }
}

#[tokio::test]
async fn instructions_come_from_the_file_and_a_result_keeps_to_its_schema() {
    let stub = ModelStub::start(|request| match request.user.len() {
        1 => says("It is about seven."),
        _ => says("```json\n{\"number\": 7}\n```"),
    });
    let yaml = team(&format!("{}, instructions: ./thinker.md", model(&stub, "openai")));
    let node = Process::up_beside(&yaml, &[("thinker.md", "Count without mercy.")]).await;
    let agent = node.agent("thinker-01");
    let task = agent.ask(json!({ "description": "How many?", "capability": "count" })).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    assert_eq!(task["artifacts"][0]["parts"][0]["data"], json!({ "number": 7 }), "{task:#}");
    let requests = stub.requests();
    assert!(requests[0].system.contains("Count without mercy."), "{}", requests[0].system);
    assert!(requests[0].system.contains("\"number\"") && requests[0].body["response_format"].is_object());
    assert!(requests[1].user[1].contains("not valid"), "{:?}", requests[1].user);
}

#[tokio::test]
async fn a_streamed_answer_is_one_text_at_its_end() {
    let text = "one two three four ".repeat(8);
    let said = text.clone();
    let stub = ModelStub::start(move |_| StubAnswer::Slowly(Duration::from_millis(400), said.clone()));
    let node = Process::up(&team(&model(&stub, "openai"))).await;
    let agent = node.agent("thinker-01");
    let asked = agent.ask(json!({ "description": "Count." })).await;
    let id = asked["id"].as_str().unwrap();
    let events = stream(&format!("{}/a2a/tasks/{id}/events", agent.url), None).await;
    let chunks = events.iter().filter(|(_, event)| event["artifactUpdate"].is_object()).count();
    assert!(chunks > 1, "the answer was no stream: {events:#?}");
    let get = json!({ "jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": { "id": id } });
    let list =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": { "includeArtifacts": true } });
    let rpc = async |body: &Value| {
        let sent = client()
            .post(format!("{}/a2a/rpc", agent.url))
            .header("a2a-version", "1.0")
            .json(body)
            .send()
            .await;
        sent.unwrap().json::<Value>().await.unwrap()["result"].clone()
    };
    for task in [asked.clone(), agent.task(id).await, rpc(&get).await, rpc(&list).await["tasks"][0].clone()] {
        let parts = task["artifacts"][0]["parts"].as_array().unwrap();
        assert_eq!(
            (parts.len(), parts[0]["text"].as_str().map(str::trim)),
            (1, Some(text.trim())),
            "{task:#}"
        );
    }
}

#[tokio::test]
async fn instructions_may_be_several_files_and_a_skill_is_read_when_it_is_needed() {
    let stub = ModelStub::start(|request| match request.results.as_slice() {
        [] => calls(&[("read_skill", json!({ "skill": "tea" }))]),
        [_] => calls(&[("read_skill", json!({ "skill": "tea", "file": "kinds.md" }))]),
        results => says(&results.join(" / ")),
    });
    let more = "instructions: [thinker.md, AGENTS.md, 'Be brief.'], skillsFolder: skills";
    let files = [
        ("thinker.md", "Count without mercy.\n"),
        ("AGENTS.md", "Use metric units."),
        (
            "skills/tea/SKILL.md",
            "---\nname: tea\ndescription: Makes tea. Use it for drinks.\n---\nBoil water.\n",
        ),
        ("skills/tea/kinds.md", "green"),
    ];
    let node = Process::up_beside(&team(&format!("{}, {more}", model(&stub, "openai"))), &files).await;
    let task = ask(&node, "Make tea").await;
    assert_eq!(artifact(&task, "answer").as_deref(), Some("Boil water. / green"), "{task:#}");
    let request = &stub.requests()[0];
    let system = &request.system;
    assert!(system.contains("Count without mercy.\n\nUse metric units.\n\nBe brief."), "{system}");
    assert!(system.contains("- tea: Makes tea. Use it for drinks.") && !system.contains("Boil"), "{system}");
    assert!(request.tools.iter().any(|tool| tool == "read_skill"));
}

#[tokio::test]
async fn the_next_model_is_asked_while_one_fails_for_good() {
    let first = ModelStub::start(|_| {
        StubAnswer::Refuses(401, Vec::new(), ["authentication_error", "invalid_api_key", "no such key"])
    });
    let second = ModelStub::start(|_| says("from the second"));
    let fallback = format!("fallback: [{{ model: anthropic/stub-2, url: '{}', key: other }}]", second.url);
    let node = Process::up(&team(&format!("{}, {fallback}", model(&first, "openai")))).await;
    assert_eq!(artifact(&ask(&node, "x").await, "answer").as_deref(), Some("from the second"));
    assert_eq!((first.requests().len(), second.requests().len()), (1, 1));
    drop(node);

    let node = Process::up(&team(&model(&first, "openai"))).await;
    let task = ask(&node, "x").await;
    assert_eq!(state(&task), "failed", "{task:#}");
    let text = message(&task);
    assert!(
        text.contains(&format!("openai/stub-1 at {}", first.url))
            && text.contains(": status 401: no such key (the key is that of `key`)"),
        "{text}"
    );
    assert!(!node.log().contains("secret-of-the-provider") && !text.contains("secret-of-the-provider"));
}

#[tokio::test]
async fn a_canceled_task_closes_its_request_at_the_provider() {
    let stub = ModelStub::start(|_| StubAnswer::Hangs);
    for format in ["openai", "anthropic"] {
        let node = Process::up(&team(&model(&stub, format))).await;
        let agent = node.agent("thinker-01");
        let id = agent.send(json!({ "description": "think" })).await;
        eventually("the request is open", async || (stub.open() == 1).then_some(())).await;
        let url = format!("{}/a2a/tasks/{id}/cancel", agent.url);
        crate::harness::call(reqwest::Method::POST, &url, Some(&json!({}))).await;
        agent.task_in(&id, &["canceled"]).await;
        eventually("the request is closed", async || (stub.open() == 0).then_some(())).await;
    }
}

#[tokio::test]
async fn an_answer_that_no_checkpoint_takes_is_refused_with_its_limit() {
    let stub = ModelStub::start(|request| match request.user[0].contains("too much") {
        true => says(&"word ".repeat(500_000)),
        false => says(&"word ".repeat(400_000)),
    });
    let node = Process::up(&team(&model(&stub, "openai"))).await;
    let task = ask(&node, "write much").await;
    assert_eq!(
        artifact(&task, "answer").map(|text| text.trim().len()),
        Some(1_999_999),
        "{}",
        message(&task)
    );
    let task = ask(&node, "write too much").await;
    assert_eq!(state(&task), "failed");
    assert!(message(&task).ends_with(": its answer is longer than 2097152 bytes"), "{}", message(&task));
}

#[test]
fn faults_of_the_configuration_are_named() {
    let dir = crate::harness::directory();
    for (llm, expected) in [
        ("model: gpt-5", "brain.llm.model: \"gpt-5\" names no known provider"),
        ("model: anthropic/claude-sonnet-4-5", "brain.llm.key: is missing: `key: ${ANTHROPIC_API_KEY}`"),
        ("model: ollama/qwen3, instructions: ./none.md", "brain.llm.instructions: "),
        ("model: ollama/qwen3, fallback: [nobody/x]", "brain.llm.fallback[0].model: "),
        ("model: ollama/qwen3, tools: [{ mcp: [] }]", "brain.llm.tools[0].mcp: names no command"),
        ("model: ollama/qwen3, tools: [{ mcp: ftp://x }]", "brain.llm.tools[0].mcp: must be a list"),
        (
            "model: ollama/qwen3, tools: [{ mcp: [no-such-server] }]",
            "brain.llm.tools[0].mcp: there is no command no-such-server in PATH=",
        ),
        ("model: ollama/qwen3, tools: [{ mcp: [./none.sh] }]", "none.sh"),
        ("model: ollama/qwen3, tools: [{ mcp: [./team.yaml] }]", "brain.llm.tools[0].mcp: "),
        (
            "model: ollama/qwen3, fallback: [{ model: ollama/x, maxTokens: y }]",
            "brain.llm.fallback[0].maxTokens: invalid type: string \"y\", expected u32",
        ),
        ("model: ollama/qwen3, toolz: []", "brain.llm.toolz: unknown key; did you mean `tools`?"),
    ] {
        let file = crate::harness::file(dir.path(), "team.yaml", &team(llm));
        let environment = [("ANTHROPIC_API_KEY", ""), ("OPENAI_API_KEY", "")];
        let (code, _, errors) = mesh(&["validate", &file.to_string_lossy()], &environment);
        assert!(code != 0 && errors.contains(expected), "{llm}: {errors}");
    }
    let file = crate::harness::file(
        dir.path(),
        "team.yaml",
        &format!("{}    bounds: {{ cost: 1 }}\n", team("model: ollama/qwen3")),
    );
    let (code, _, errors) = mesh(&["validate", &file.to_string_lossy()], &[]);
    assert!(code != 0 && errors.contains("bounds.cost: needs the `price` of every model"), "{errors}");
    let bad = team("model: ollama/qwen3").replace("type: object", "type: nothing");
    let file = crate::harness::file(dir.path(), "team.yaml", &bad);
    let (code, _, errors) = mesh(&["validate", &file.to_string_lossy()], &[]);
    assert!(code != 0 && errors.contains("skills[1].outputSchema"), "{errors}");
}

/// The task of an agent's prompt, or the text of a message that an SDK sent.
fn wanted(user: &str) -> String {
    let fenced = user.split_once("BEGIN DATA").and_then(|(_, data)| data.split_once('\n'));
    let json = fenced.and_then(|(_, data)| data.rsplit_once("\nEND DATA")).map(|(json, _)| json);
    let task = json.and_then(|json| serde_json::from_str::<Value>(json).ok());
    task.and_then(|task| task["task"].as_str().map(str::to_owned)).unwrap_or_else(|| user.to_owned())
}

/// What the task says: `say: TEXT`, `call: TOOL ARGUMENTS` and then the result, `refuse: STATUS`, `break off`,
/// `hang`, `silent`.
fn obedient(request: &crate::harness::model_stub::StubRequest) -> StubAnswer {
    if let Some(result) = request.results.last() {
        return says(result);
    }
    let text = wanted(&request.user[0]);
    match text.split_once(": ") {
        Some(("say", text)) => says(text),
        Some(("call", call)) => {
            let (name, arguments) = call.split_once(' ').unwrap();
            StubAnswer::Calls("I call it.", vec![(name.to_owned(), arguments.to_owned())])
        }
        Some(("refuse", status)) => {
            let status = status.parse().unwrap();
            let error = match status {
                400 => {
                    ["invalid_request_error", "context_length_exceeded", "maximum context length is 8 tokens"]
                }
                401 => ["authentication_error", "invalid_api_key", "no such key"],
                429 => ["rate_limit_error", "rate_limit_exceeded", "slow down"],
                _ => ["overloaded_error", "server_error", "overloaded"],
            };
            StubAnswer::Refuses(status, vec![("retry-after", "7".to_owned())], error)
        }
        _ if text == "hang" => StubAnswer::Hangs,
        _ if text == "silent" => StubAnswer::Silent,
        _ => StubAnswer::BreaksOff,
    }
}

/// Serves the stub provider until it is killed, for `tests/world/providers`.
#[tokio::test]
#[ignore = "serves without end"]
async fn serves_the_stub_provider() {
    let stub = ModelStub::start(obedient);
    std::fs::write(std::env::var("STUB_URL_FILE").unwrap(), &stub.url).unwrap();
    std::future::pending::<()>().await;
}
