//! Hooks of an agent's calls of tools: commands that deny or replace a call, withhold or replace a result, and deny the end of a
//! turn; and the token that tells a tool server whom a call is for.

use super::llm::{model, team};
use crate::harness::{
    Agent, Process, artifact, client, directory, file, get,
    mcp_stub::{McpAnswer, McpStub, tool},
    mesh, message,
    model_stub::{ModelStub, calls, says},
    state,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use protocol::a2a::card_signature::PublicKey;
use serde_json::{Value, json};

/// Keeps what it reads, denies what deletes, and sends a mail to another address.
const BEFORE: &str = r#"
read -r line
printf '%s\n' "$line" >> "$1"
case "$line" in
  *'"tool":"delete"'*) echo '{"decision":"deny","reason":"nothing is deleted on Sundays"}' ;;
  *'"tool":"mail"'*) echo '{"arguments":{"to":"test@example.com"}}' ;;
esac
"#;
/// Puts stars in the place of a number, and withholds what is about salaries.
const AFTER: &str = r#"
read -r line
case "$line" in
  *salary*) echo '{"decision":"deny","reason":"salaries stay here"}' ;;
  *4711*) echo '{"result":"the number is ****"}' ;;
esac
"#;
/// Allows an end that says that the tests pass.
const END: &str = r#"
read -r line
case "$line" in
  *'tests pass'*) ;;
  *) echo '{"decision":"deny","reason":"say whether the tests pass"}' ;;
esac
"#;

fn tools() -> McpStub {
    let names = ["delete", "mail", "read"].map(|name| tool(name, json!({ "readOnlyHint": name == "read" })));
    McpStub::start(Value::Array(names.into()), |name, arguments| {
        McpAnswer::Text(match (name, arguments["what"].as_str()) {
            ("read", Some("card")) => "the number is 4711".to_owned(),
            ("read", Some(what)) => format!("the {what} of Ada"),
            (name, _) => format!("{name} done: {arguments}"),
        })
    })
}

#[tokio::test]
async fn hooks_deny_and_replace_calls_results_and_the_end_of_a_turn() {
    let (dir, tools) = (directory(), tools());
    let path = |name: &str, text: &str| file(dir.path(), name, text).display().to_string();
    let (before, after, end) = (path("before.sh", BEFORE), path("after.sh", AFTER), path("end.sh", END));
    let seen = dir.path().join("seen");
    let stub = ModelStub::start(|request| match request.results.len() {
        0 => calls(&[
            ("delete", json!({ "path": "all" })),
            ("mail", json!({ "to": "everybody@example.com" })),
            ("read", json!({ "what": "card" })),
            ("read", json!({ "what": "salary" })),
        ]),
        _ if request.user.len() == 1 => says("all is done"),
        _ => says("all is done, and the tests pass"),
    });
    let hooks = format!(
        "toolHooks: {{ before: [sh, '{before}', '{}'], after: [sh, '{after}'], end: [sh, '{end}'] }}",
        seen.display()
    );
    let llm =
        format!("{}, tools: [{{ mcp: '{}', name: office }}], {hooks}", model(&stub, "openai"), tools.url);
    let node = Process::up(&team(&llm)).await;
    let task = node.agent("thinker-01").ask(json!({ "description": "work" })).await;
    assert_eq!(artifact(&task, "answer").as_deref(), Some("all is done, and the tests pass"), "{task:#}");
    let made = tools.calls();
    assert!(made.iter().all(|(name, _)| name != "delete"), "{made:?}");
    let mail = made.iter().find(|(name, _)| name == "mail").unwrap();
    assert_eq!(mail.1, json!({ "to": "test@example.com" }));
    let results = &stub.requests()[1].results;
    assert!(results[0].contains("nothing is deleted on Sundays"), "{results:?}");
    assert!(results[2].contains("the number is ****") && !results[2].contains("4711"), "{results:?}");
    assert!(results[3].contains("salaries stay here") && !results[3].contains("Ada"), "{results:?}");
    assert!(stub.requests()[2].user.last().unwrap().contains("say whether the tests pass"));
    assert_eq!(stub.requests().len(), 3);
    assert!(!task.to_string().contains("4711"), "{task:#}");
    let first = std::fs::read_to_string(&seen).unwrap();
    let first: Value =
        serde_json::from_str(first.lines().find(|line| line.contains("delete")).unwrap()).unwrap();
    assert_eq!(first["event"], "before_tool_call");
    assert_eq!((&first["agent"], &first["server"]), (&json!("thinker-01"), &json!("office")));
    assert!(first["task"].as_str().unwrap().starts_with("task-"), "{first}");
    assert_eq!(first["arguments"], json!({ "path": "all" }));
}

#[tokio::test]
async fn a_hook_that_fails_is_late_or_says_nothing_sensible_denies() {
    let (dir, tools) = (directory(), tools());
    let stub = ModelStub::start(|request| match request.results.as_slice() {
        [] => calls(&[("delete", json!({}))]),
        [result, ..] => says(result),
    });
    for (script, why) in [
        ("exit 3", "exit code 3"),
        ("sleep 60", "did not answer within 500 ms"),
        ("echo yes", "wrote no verdict"),
        ("echo '{\"decison\":\"allow\"}'", "wrote no verdict"),
    ] {
        let hook = file(dir.path(), "hook.sh", script);
        let hooks = format!("toolHooks: {{ before: [sh, '{}'], within: 500ms }}", hook.display());
        let llm = format!("{}, tools: [{{ mcp: '{}' }}], {hooks}", model(&stub, "openai"), tools.url);
        let node = Process::up(&team(&llm)).await;
        let task = node.agent("thinker-01").ask(json!({ "description": "work" })).await;
        assert!(artifact(&task, "answer").unwrap().contains(why), "{script}: {task:#}");
        assert_eq!(tools.calls(), [], "{script}");
    }
    let hook = file(dir.path(), "hook.sh", "exit 1");
    let hooks = format!("toolHooks: {{ end: [sh, '{}'] }}", hook.display());
    let node = Process::up(&team(&format!("{}, {hooks}", model(&stub, "openai")))).await;
    let task = node.agent("thinker-01").ask(json!({ "description": "work" })).await;
    assert_eq!(state(&task), "failed", "{task:#}");
    assert!(message(&task).contains("denied the end of the turn 3 times"), "{task:#}");
}

#[test]
fn hooks_that_can_not_run_are_faults_of_the_file() {
    for (hooks, why) in [
        ("{}", "names no hook"),
        ("{ before: [./not-there.sh] }", "toolHooks.before: there is no"),
        ("{ before: [sh], within: 0 }", "toolHooks.within: must be more than 0"),
        ("{ befor: [sh] }", "befor"),
    ] {
        let dir = directory();
        let llm = format!("model: ollama/x, toolHooks: {hooks}");
        let team = file(dir.path(), "team.yaml", &team(&llm)).to_string_lossy().into_owned();
        let (code, _, said) = mesh(&["validate", &team], &[]);
        assert!(code != 0 && said.contains(why), "{hooks}: {said}");
    }
}

#[tokio::test]
async fn a_tool_server_is_told_whom_a_call_is_for_by_a_token_that_the_agents_key_signs() {
    let tools = tools();
    let stub = ModelStub::start(|request| match request.results.as_slice() {
        [] => calls(&[("read", json!({ "what": "card" }))]),
        [result, ..] => says(result),
    });
    let llm = format!("{}, tools: [{{ mcp: '{}', forward: user }}]", model(&stub, "openai"), tools.url);
    let callers = "\nmesh: { callers: [{ user: alice, apiKey: alices-own-key-0001 }] }\n";
    let node = Process::up(&format!("{}{callers}", team(&llm))).await;
    let agent = node.agent("thinker-01");
    let unproven = Agent::at("thinker-01", &agent.url);
    unproven.ask(json!({ "description": "for nobody in particular" })).await;
    let send =
        json!({ "message": { "messageId": "m-1", "role": "ROLE_USER", "parts": [{ "text": "read" }] } });
    let asked = client().post(format!("{}/a2a/v1/message:send", agent.url)).header("a2a-version", "1.0");
    let asked = asked.header("x-api-key", "alices-own-key-0001").json(&send).send().await.unwrap();
    assert!(asked.status().is_success(), "{asked:?}");
    let told = tools.metas();
    let parts = |meta: &Value| {
        let token = meta["agent-mesh/on-behalf-of"].as_str().unwrap().to_owned();
        let part = |at: usize| URL_SAFE_NO_PAD.decode(token.split('.').nth(at).unwrap()).unwrap();
        let signed = token.rsplit_once('.').unwrap().0.to_owned();
        let json = |at: usize| serde_json::from_slice::<Value>(&part(at)).unwrap();
        (json(0), json(1), signed, part(2))
    };
    for (meta, sub, proven) in [(&told[0], "user:local", false), (&told[1], "user:alice", true)] {
        let (header, claims, signed, signature) = parts(meta);
        assert_eq!((&claims["sub"], &claims["proven"]), (&json!(sub), &json!(proven)), "{claims}");
        assert_eq!((&claims["aud"], &claims["agent"]), (&json!(tools.url), &json!("thinker-01")));
        let life = claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap();
        assert!(life == 60 && claims["task"].is_string() && claims["jti"].is_string(), "{claims}");
        let jwks = get(&format!("{}/.well-known/jwks.json", claims["iss"].as_str().unwrap())).await;
        let keys = jwks["keys"].as_array().unwrap();
        let key = keys.iter().find(|key| key["kid"] == header["kid"]).unwrap();
        let key = PublicKey::from_jwk(key).unwrap();
        assert!(key.verifies("EdDSA", signed.as_bytes(), &signature), "{header}");
    }
    assert_ne!(parts(&told[0]).1["jti"], parts(&told[1]).1["jti"]);
}
