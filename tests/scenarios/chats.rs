//! Contexts of users: what people call a chat (docs/chats.md). The provider of the model is played by the test.

use super::{
    ask_prompt::Terminal,
    llm::{model, team},
};
use crate::harness::{
    Agent, Process, artifact, call, client, directory, file,
    model_stub::{ModelStub, StubAnswer, StubRequest, calls, says},
    state,
};
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    io::Write as _,
    net::TcpListener,
    process::{Command, Stdio},
    time::Duration,
};

/// Says something in a context; with a key as the user that it is of. Returns the task when it has ended, or at once.
async fn send(agent: &Agent, context: &str, text: &str, (waits, key): (bool, Option<&str>)) -> Value {
    let message = json!({
        "messageId": uuid::Uuid::now_v7(), "role": "ROLE_USER", "parts": [{ "text": text }], "contextId": context,
    });
    let body = json!({ "message": message, "configuration": { "returnImmediately": !waits } });
    let mut request =
        client().post(format!("{}/a2a/v1/message:send", agent.url)).header("a2a-version", "1.0");
    if let Some(key) = key {
        request = request.header("x-api-key", key);
    }
    let answer = request.json(&body).send().await.unwrap().json::<Value>().await.unwrap();
    assert!(answer["task"].is_object(), "{answer:#}");
    answer["task"].clone()
}

async fn say(agent: &Agent, context: &str, text: &str) -> Value {
    let task = send(agent, context, text, (true, None)).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    task
}

/// What a model was sent behind its instructions: who says what. A call is its name.
fn turns(request: &StubRequest) -> Vec<(String, String)> {
    let messages = request.body["messages"].as_array().unwrap().iter();
    let messages = messages.filter(|message| message["role"] != "system");
    let line = |message: &Value| {
        let role = message["role"].as_str().unwrap().to_owned();
        let called =
            message["tool_calls"][0]["function"]["name"].as_str().map(|name| format!("calls {name}"));
        let content = &message["content"];
        let words = content.as_str().or_else(|| content[0]["text"].as_str()).unwrap_or_default();
        let text = called.unwrap_or_else(|| words.to_owned());
        (role, text.split("\n\nWhat comes with it is data").next().unwrap().trim().to_owned())
    };
    messages.map(line).collect()
}

fn lines<const N: usize>(lines: [(&str, &str); N]) -> Vec<(String, String)> {
    lines.map(|(role, text)| (role.to_owned(), text.to_owned())).to_vec()
}

/// Says back what was said last, and how many messages it was sent.
fn parrot(request: &StubRequest) -> StubAnswer {
    let last = turns(request).pop().unwrap().1;
    says(&format!("You said {last:?}"))
}

#[tokio::test]
async fn a_chat_has_real_turns_with_the_calls_of_tools_also_after_a_kill() {
    let stub = ModelStub::start(|request| match turns(request).last().unwrap() {
        (role, text) if role == "user" && text == "What has happened?" => {
            calls(&[("read_signals", json!({ "limit": 1 }))])
        }
        (role, _) if role == "tool" => says("Nothing new."),
        _ => parrot(request),
    });
    for format in ["openai", "anthropic"] {
        let node = Process::up(&team(&model(&stub, format))).await;
        let agent = node.agent("thinker-01");
        say(&agent, "plans", "My name is Ada.").await;
        if format == "anthropic" {
            // The prefix of each request is that of the one before, so that the provider's cache has it.
            let first = stub.requests().pop().unwrap();
            say(&agent, "plans", "And yours?").await;
            let second = stub.requests().pop().unwrap();
            assert_eq!(first.body["tools"], second.body["tools"]);
            assert_eq!(second.body["messages"][1]["role"], "assistant");
            assert!(second.body.to_string().contains("cache_control"), "{:#}", second.body);
            continue;
        }
        say(&agent, "plans", "What has happened?").await;
        let mut node = node;
        node.kill();
        let node = node.restart().await;
        say(&node.agent("thinker-01"), "plans", "What is my name?").await;
        let expected = lines([
            ("user", "My name is Ada."),
            ("assistant", "You said \"My name is Ada.\""),
            ("user", "What has happened?"),
            ("assistant", "calls read_signals"),
        ]);
        let seen = turns(&stub.requests().pop().unwrap());
        assert_eq!(seen[..4], expected, "{seen:#?}");
        assert_eq!(seen[4].0, "tool");
        assert_eq!(seen[5..], lines([("assistant", "Nothing new."), ("user", "What is my name?")]));
    }
}

#[tokio::test]
async fn what_is_said_to_a_busy_agent_joins_the_chat_in_its_order() {
    let stub = ModelStub::start(|request| match turns(request).len() {
        1 => StubAnswer::Slowly(Duration::from_millis(100), "The first answer.".into()),
        _ => parrot(request),
    });
    let node = Process::up(&team(&model(&stub, "openai"))).await;
    let agent = node.agent("thinker-01");
    let mut tasks = Vec::new();
    for text in ["one", "two", "three"] {
        let task = send(&agent, "c", text, (false, None)).await;
        tasks.push(task["id"].as_str().unwrap().to_owned());
    }
    for task in &tasks {
        assert_eq!(state(&agent.task_in(task, &["completed", "failed"]).await), "completed");
    }
    let seen = turns(&stub.requests().pop().unwrap());
    let expected = lines([
        ("user", "one"),
        ("assistant", "The first answer."),
        ("user", "two"),
        ("assistant", "You said \"two\""),
        ("user", "three"),
    ]);
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn two_users_who_name_their_chats_alike_have_two() {
    let stub = ModelStub::start(parrot);
    let callers = "\nmesh: { callers: [{ user: alice, apiKey: alices-own-key-0001 }, { user: bob, apiKey: bobs-own-key-000001 }] }\n";
    let node = Process::up(&format!("{}{callers}", team(&model(&stub, "openai")))).await;
    let agent = node.agent("thinker-01");
    for (text, key) in [("I am Alice.", "alices-own-key-0001"), ("Who am I?", "bobs-own-key-000001")] {
        let task = send(&agent, "c", text, (true, Some(key))).await;
        assert_eq!(state(&task), "completed", "{task:#}");
    }
    assert_eq!(turns(&stub.requests().pop().unwrap()), lines([("user", "Who am I?")]));
    let of = async |key: &str, path: &str| {
        let url = format!("{}/a2a/contexts{path}", agent.url);
        let answer = client().get(url).header("x-api-key", key).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let (_, bobs) = of("bobs-own-key-000001", "/c").await;
    assert_eq!(bobs["turns"][0]["asked"], "Who am I?", "{bobs:#}");
    assert_eq!(bobs["turns"].as_array().unwrap().len(), 1);
    assert_eq!(of("alices-own-key-0001", "").await.1["contexts"][0]["contextId"], "c");
    let nobodys = call(Method::GET, &format!("{}/a2a/contexts/c", agent.url), None).await;
    assert_eq!(nobodys.status, 404, "{nobodys:?}");
}

#[tokio::test]
async fn contexts_are_listed_shown_and_forgotten() {
    let stub = ModelStub::start(parrot);
    let node = Process::up(&team(&model(&stub, "openai"))).await;
    let agent = node.agent("thinker-01");
    for (context, text) in [("a/b c", "one"), ("d", "two"), ("a/b c", "three")] {
        say(&agent, context, text).await;
    }
    let at = |path: &str| format!("{}/a2a/contexts{path}", agent.url);
    let listed = call(Method::GET, &at(""), None).await.body;
    let ids: Vec<_> = listed["contexts"].as_array().unwrap().iter().map(|one| &one["contextId"]).collect();
    assert_eq!(ids, ["a/b c", "d"], "the one that was used last is first: {listed:#}");
    assert!(listed["contexts"][0].get("turns").is_none(), "{listed:#}");
    let path = "/a%2Fb%20c";
    let shown = call(Method::GET, &at(path), None).await.body;
    let turns_of = |shown: &Value| {
        let turns = shown["turns"].as_array().unwrap().iter();
        turns.map(|turn| turn["asked"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(turns_of(&shown), ["one", "three"], "{shown:#}");
    assert_eq!(
        artifact(&json!({ "artifacts": shown["turns"][0]["produced"] }), "answer").unwrap(),
        "You said \"one\""
    );
    assert_eq!(call(Method::DELETE, &at(path), None).await.status, 204);
    for method in [Method::GET, Method::DELETE] {
        let gone = call(method, &at(path), None).await;
        assert_eq!((gone.status, &gone.body["reasonCode"]), (404, &json!("context_not_found")));
    }
    say(&agent, "a/b c", "four").await;
    assert_eq!(turns(&stub.requests().pop().unwrap()), lines([("user", "four")]), "it begins anew");
    assert_eq!(turns_of(&call(Method::GET, &at(path), None).await.body), ["four"]);
    let unnamed = call(Method::GET, &at("?limit=0"), None).await;
    assert_eq!(unnamed.status, 400);
}

#[tokio::test]
async fn a_context_that_the_client_does_not_name_goes_on_under_the_id_that_it_is_given() {
    let stub = ModelStub::start(parrot);
    let node = Process::up(&team(&model(&stub, "openai"))).await;
    let agent = node.agent("thinker-01");
    let message = json!({ "messageId": "m-1", "role": "ROLE_USER", "parts": [{ "text": "one" }] });
    let sent = client().post(format!("{}/a2a/v1/message:send", agent.url)).header("a2a-version", "1.0");
    let sent = sent.json(&json!({ "message": message })).send().await.unwrap().json::<Value>().await.unwrap();
    let context = sent["task"]["contextId"].as_str().unwrap_or_else(|| panic!("{sent:#}"));
    say(&agent, context, "two").await;
    let seen = turns(&stub.requests().pop().unwrap());
    assert_eq!(seen, lines([("user", "one"), ("assistant", "You said \"one\""), ("user", "two")]));
}

/// Says how many messages of the person it was sent, or sums up if it is asked to.
fn sums_up(request: &StubRequest) -> StubAnswer {
    let said = turns(request);
    let (_, last) = said.last().unwrap();
    match last.contains("Write a summary") {
        true => says(&format!("SUMMARY of {} messages", said.len() - 1)),
        false => says(&format!("{last}: {}", "word ".repeat(60))),
    }
}

#[tokio::test]
async fn a_chat_of_forty_turns_is_summed_up_by_the_model_and_survives_kills() {
    let stub = ModelStub::start(sums_up);
    let mut node = Process::up(&team(&format!("{}, context: 3000", model(&stub, "openai")))).await;
    for number in 1..=40 {
        say(&node.agent("thinker-01"), "long", &format!("number {number}")).await;
        if number % 10 == 0 {
            node.kill();
            node = node.restart().await;
        }
    }
    let requests = stub.requests();
    let summaries =
        requests.iter().filter(|request| turns(request).last().unwrap().1.contains("Write a summary"));
    let summaries = summaries.count();
    assert!((2..10).contains(&summaries), "{summaries}");
    assert_eq!(requests.len(), 40 + summaries, "nothing is asked twice");
    let last = turns(requests.last().unwrap());
    let all: String = last.iter().map(|(_, text)| text.as_str()).collect();
    assert!(all.contains("SUMMARY of") && !all.contains("number 1:"), "{all}");
    assert_eq!(last.last().unwrap().1, "number 40");
    let largest = requests.iter().map(|request| request.body["messages"].to_string().len()).max().unwrap();
    assert!(largest < 20_000, "{largest} bytes");
    let url = format!("{}/a2a/contexts/long", node.agent("thinker-01").url);
    let shown = call(Method::GET, &url, None).await.body;
    assert!(shown["turns"][0]["summary"].as_str().unwrap().starts_with("SUMMARY of"), "{shown:#}");
}

/// Runs `mesh` with this standard input.
pub(super) fn piped(args: &[&str], input: &str, envs: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mesh"));
    command.args(args).envs(envs.iter().copied()).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn mesh_chat_takes_lines_of_a_pipe_and_mesh_context_shows_and_forgets_them() {
    let stub = ModelStub::start(parrot);
    let node = Process::up(&team(&model(&stub, "openai"))).await;
    let token = node.data.join("token").to_string_lossy().into_owned();
    let envs = [("MESH_URL", node.url.as_str()), ("MESH_TOKEN_FILE", token.as_str())];
    let note = file(node.dir(), "note.txt", "the code is 7411");
    let lines = format!("one\n\n/file {}\ntwo\n//three\n/cost\n/history\n", note.display());
    let (code, output, errors) = piped(&["chat", "thinker-01", "--context", "plans"], &lines, &envs);
    assert_eq!(code, 0, "{output}{errors}");
    assert!(output.starts_with("You said \"one\"\nnote.txt goes with the next message\n"), "{output}");
    assert!(
        output.contains("You said \"/three\"") && output.contains("in the newest 3 messages"),
        "{output}"
    );
    assert!(output.contains("**you:** one\n\n**thinker-01:** You said \"one\""), "{output}");
    let with_file = stub.requests()[1].user.join("\n");
    assert!(with_file.contains("two") && with_file.contains("the code is 7411"), "{with_file}");
    let (code, output, errors) =
        piped(&["ask", "--to", "thinker-01", "--context", "plans", "four"], "", &envs);
    assert_eq!((code, output.trim()), (0, "You said \"four\""), "{errors}");
    assert_eq!(turns(&stub.requests().pop().unwrap()).len(), 7, "it is the same chat");
    // What is behind an unknown command is taken, and the exit code tells of it.
    let (code, output, errors) = piped(&["chat", "thinker-01", "--continue"], "five\n/nothing\nsix\n", &envs);
    assert_eq!((code, output.as_str()), (2, "You said \"five\"\nYou said \"six\"\n"), "{errors}");
    assert!(errors.contains("there is no /nothing; /help lists the commands"), "{errors}");
    assert!(piped(&["context"], "", &envs).1.contains("plans"));
    for name in ["plans", "pl", "-"] {
        let shown = piped(&["context", "show", name], "", &envs).1;
        assert!(shown.starts_with("**you:** one\n\n**thinker-01:** You said \"one\""), "{shown}");
    }
    let exported = piped(&["context", "export", "plans"], "", &envs).1;
    assert!(exported.starts_with("# plans with thinker-01\n\n**you:** one"), "{exported}");
    assert_eq!(piped(&["context", "forget", "plans"], "", &envs).1, "thinker-01 has forgotten plans\n");
    let (code, _, errors) = piped(&["context", "show", "plans"], "", &envs);
    assert!(code != 0 && errors.contains("no chat plans of yours"), "{errors}");
}

#[tokio::test]
async fn a_chat_on_a_terminal_shows_text_as_it_arrives_and_ctrl_c_stops_the_answer_alone() {
    let stub = ModelStub::start(|request| match turns(request).last().unwrap().1.as_str() {
        "never" => StubAnswer::Slowly(Duration::from_millis(400), "It begins well. ".repeat(60)),
        "look" => calls(&[("read_signals", json!({ "limit": 1 }))]),
        _ => says("All is well."),
    });
    let node = Process::up(&team(&model(&stub, "openai"))).await;
    let token = node.data.join("token").to_string_lossy().into_owned();
    let args = ["--url", &node.url, "--token", &token, "chat", "thinker-01", "--context", "c"];
    let mut chat = Terminal::start(&args);
    chat.shows("chat c with thinker-01").await;
    chat.types("never\n");
    chat.shows("It begins").await;
    chat.types("\u{3}");
    chat.shows("stopped").await;
    chat.shows("> ").await;
    chat.types("look\n");
    chat.shows("All is well.").await;
    chat.types("/tasks\n");
    chat.shows("canceled").await;
    chat.types("\u{4}");
    let (code, last) = chat.ends().await;
    assert!(code == 0 && last.contains("mesh chat thinker-01 --context c"), "{code}: {last}");
    // It begins with what was said last.
    let again = Terminal::start(&args);
    again.shows("**you:** look").await;
}

#[tokio::test]
async fn an_answer_that_the_agent_sends_again_as_a_whole_is_printed_once() {
    // The agent sends what it has as soon as that is 240 bytes; the provider sends seven at a time. So nothing is left at the end.
    let text = "Q".repeat(245);
    let said = text.clone();
    let stub = ModelStub::start(move |_| says(&said));
    let node = Process::up(&team(&model(&stub, "openai"))).await;
    let person = node.person();
    let envs = person.each_ref().map(|(name, value)| (*name, value.as_str()));
    let (code, output, errors) = piped(&["chat", "thinker-01"], "hi\n", &envs);
    assert_eq!((code, output), (0, format!("{text}\n")), "{errors}");
    let flags = ["--url", &person[0].1, "--token", &person[1].1];
    for verb in [&["ask", "--to", "thinker-01", "hi"][..], &["say", "@thinker-01", "hi"]] {
        let terminal = Terminal::start(&[&flags[..], verb].concat());
        let (code, shown) = terminal.ends().await;
        assert!(code == 0 && shown.matches('Q').count() == 245, "{verb:?}: {code}: {shown}");
    }
}

#[tokio::test]
async fn a_chat_says_what_its_task_waits_for_and_for_how_long_it_waits_is_given() {
    let provider = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", provider.local_addr().unwrap());
    // Nobody listens there.
    drop(provider);
    let node = Process::up(&team(&format!("model: openai/stub-1, url: '{url}', key: none"))).await;
    let person = node.person();
    let envs = person.each_ref().map(|(name, value)| (*name, value.as_str()));
    for verb in [&["chat", "thinker-01"][..], &["say", "@thinker-01", "hi"]] {
        let (code, output, errors) = piped(&[verb, &["--timeout", "6s"]].concat(), "hi\n", &envs);
        assert_eq!((code, output.as_str()), (4, ""), "{errors}");
        assert!(errors.contains("the task is working: "), "{verb:?}: {errors}");
    }
    let args = ["--url", &person[0].1, "--token", &person[1].1, "chat", "thinker-01"];
    let mut chat = Terminal::start(&args);
    chat.shows("> ").await;
    chat.types("hi\n");
    chat.shows("  · working: ").await;
}

#[tokio::test]
async fn a_chat_in_json_has_the_events_of_each_task_and_the_results_of_commands() {
    let stub = ModelStub::start(parrot);
    let node = Process::up(&team(&model(&stub, "openai"))).await;
    let person = node.person();
    let envs = person.each_ref().map(|(name, value)| (*name, value.as_str()));
    let lines = "one\n/help\n/cost\n/tasks\n/history\n";
    let (code, output, errors) = piped(&["chat", "thinker-01", "--json"], lines, &envs);
    assert_eq!(code, 0, "{output}{errors}");
    let objects: Vec<Value> =
        output.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    let has =
        |pointer: &str, value: Value| objects.iter().any(|object| object.pointer(pointer) == Some(&value));
    for (pointer, value) in [
        ("/artifactUpdate/artifact/parts/0/text", json!("You said \"one\"")),
        ("/statusUpdate/status/state", json!("TASK_STATE_COMPLETED")),
        ("/messages", json!(1)),
        ("/tasks/0/status/state", json!("TASK_STATE_COMPLETED")),
        ("/turns/0/asked", json!("one")),
    ] {
        assert!(has(pointer, value), "{pointer}: {output}");
    }
    assert!(errors.contains("/quit"), "{errors}");
}

/// Writes what it is given of the context into a file.
const BRAIN: &str = r#"
import json, os, sys
turn = json.loads(sys.stdin.readline())
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "context"), "w") as context:
    json.dump(turn["context"], context)
print(json.dumps({"type": "checkpoint", "data": "noted"}), flush=True)
print(json.dumps({"type": "done", "message": "it is " + turn["task"]["description"]}), flush=True)
"#;

#[tokio::test]
async fn a_command_is_given_the_turns_of_a_chat_as_data() {
    let dir = directory();
    let brain = file(dir.path(), "brain.py", BRAIN);
    let team = format!(
        "agents: [{{ agent: solo-01, open: true, brain: {{ exec: [python3, '{}'] }} }}]",
        brain.display()
    );
    let node = Process::up(&team).await;
    for text in ["seven", "eight"] {
        say(&node.agent("solo-01"), "c", text).await;
    }
    let given = std::fs::read_to_string(dir.path().join("context")).unwrap();
    let given: Value = serde_json::from_str(&given).unwrap();
    let turn = &given["turns"][0];
    assert_eq!(
        (&turn["asked"], &turn["message"], &turn["checkpoints"], given["turns"].as_array().unwrap().len()),
        (&json!("seven"), &json!("it is seven"), &json!(["noted"]), 1),
        "{given:#}"
    );
}
