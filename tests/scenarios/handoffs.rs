//! Chats that an agent hands over to another one (docs/chats.md): the person goes on with that one, and the first stays accountable.

use super::{ask_prompt::Terminal, chats::piped, llm::model};
use crate::harness::{
    Agent, Process, artifact, call, client,
    cluster::Cluster,
    directory, eventually, file, message,
    model_stub::{ModelStub, StubAnswer, StubRequest, calls, says},
    state,
};
use reqwest::Method;
use serde_json::{Value, json};
use std::path::Path;

/// Notes what it is given in `given-AGENT`. What is said decides what it does: `route a=b b=c` hands the chat over, `hold` answers in
/// two pieces with a gate between them, `ask` asks the person. Otherwise it says who it is. `a#2=b` is for its second turn with these
/// words.
const BRAIN: &str = r#"
import json, os, sys, time
turn = json.loads(sys.stdin.readline())
me, said = turn["agent"], turn["task"]["description"]
DIR = os.path.dirname(os.path.abspath(__file__))

def say(**line):
    print(json.dumps(line), flush=True)

with open(os.path.join(DIR, "given-" + me), "a+") as given:
    given.seek(0)
    time_of = 1 + sum(json.loads(line)["said"] == said for line in given)
    context = turn.get("context", {})
    given.write(json.dumps({
        "said": said, "handover": turn.get("handover"), "answers": [answer["text"] for answer in turn.get("answers", [])],
        "history": [[past["description"], past.get("message")] for past in turn.get("history", [])],
        "turns": [[past["asked"], past.get("by"), past.get("message")] for past in context.get("turns", [])],
        "before": context.get("before", ""),
    }) + "\n")
refused = [answer["text"] for answer in turn.get("answers", []) if not answer["ok"]]
routes = dict(pair.split("=") for pair in said.split() if "=" in pair)
if f"{me}#{time_of}" in routes:
    say(type="handoff", to=routes[f"{me}#{time_of}"], reason=f"{me} knows less")
elif refused:
    say(type="done", message=f"{me} goes on itself: {refused[-1]}")
elif turn.get("handover", {}).get("isBack") or turn["turn"] > 1 and "ask" not in said:
    say(type="done", message=f"{me} again")
elif me in routes:
    say(type="handoff", to=routes[me], reason=f"{me} knows less")
elif said.startswith("hold"):
    say(type="artifact", name="text", text="one, ")
    while os.path.isdir(DIR) and not os.path.exists(os.path.join(DIR, "open-" + said.split()[1])):
        time.sleep(0.02)
    say(type="artifact", name="text", text="two", append=True, lastChunk=True)
    say(type="done", message=f"held by {me}")
elif said.startswith("ask") and not turn.get("answers"):
    say(type="question", id="which", text="which one?")
else:
    answers = "".join(f", {answer['text']}" for answer in turn.get("answers", []))
    say(type="done", message=f"{me}: {said}{answers}")
"#;

const TEAM: [&str; 3] = ["front-01", "billing-01", "shipping-01"];

/// An agent with that brain.
fn agent(dir: &Path, id: &str) -> String {
    let brain = file(dir, "brain.py", BRAIN);
    format!("  - {{ agent: {id}, open: true, brain: {{ exec: [python3, '{}'] }} }}\n", brain.display())
}

fn team(dir: &Path) -> String {
    TEAM.iter().fold("agents:\n".to_owned(), |team, id| team + &agent(dir, id))
}

/// What the brain of an agent was given, turn by turn.
fn given(dir: &Path, agent: &str) -> Vec<Value> {
    let given = std::fs::read_to_string(dir.join(format!("given-{agent}"))).unwrap_or_default();
    given.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Says something in a context as the person. Returns the task when it has ended or asks, or at once.
async fn send(agent: &Agent, context: &str, text: &str, waits: bool) -> Value {
    send_parts(agent, context, json!([{ "text": text }]), waits).await
}

async fn send_parts(agent: &Agent, context: &str, parts: Value, waits: bool) -> Value {
    let message = json!({
        "messageId": uuid::Uuid::now_v7(), "role": "ROLE_USER", "parts": parts, "contextId": context,
    });
    let body = json!({ "message": message, "configuration": { "returnImmediately": !waits } });
    let request = client().post(format!("{}/a2a/v1/message:send", agent.url)).header("a2a-version", "1.0");
    let request = request.bearer_auth(agent.token.as_ref().unwrap());
    let answer = request.json(&body).send().await.unwrap().json::<Value>().await.unwrap();
    assert!(answer["task"]["id"].is_string(), "{answer:#}");
    answer["task"].clone()
}

async fn say(agent: &Agent, context: &str, text: &str) -> String {
    let task = send(agent, context, text, true).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    message(&task)
}

async fn begin(agent: &Agent, context: &str, text: &str) -> String {
    send(agent, context, text, false).await["id"].as_str().unwrap().to_owned()
}

/// The context as its agent shows it.
async fn context(node: &Process, agent: &Agent, name: &str) -> Value {
    let url = format!("{}/a2a/contexts/{name}", agent.url);
    node.call_as_person(Method::GET, &url, None).await.body
}

#[tokio::test]
async fn a_chat_goes_on_with_the_agent_that_it_is_handed_to_until_it_comes_back() {
    let dir = directory();
    let node = Process::up(&team(dir.path())).await;
    let front = node.agent("front-01");
    assert_eq!(say(&front, "c", "hello").await, "front-01: hello");
    let handed = send(&front, "c", "route front-01=billing-01", true).await;
    assert_eq!(message(&handed), "billing-01: route front-01=billing-01");
    assert_eq!(handed["metadata"]["urn:agent-mesh:ext:task:v1"]["doer"], "billing-01", "{handed:#}");
    // The newest task is the one that the person has requested, no part of it.
    let (code, shown, errors) = node.as_person(&["tasks", "show", "-", "--json"]).await;
    assert_eq!(code, 0, "{errors}");
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["id"], handed["id"], "{shown}");
    // Words come with it, and no more.
    let first = &given(dir.path(), "billing-01")[0];
    assert_eq!(first["history"], json!([["hello", "front-01: hello"]]));
    assert_eq!(first["handover"], json!({ "by": "front-01", "reason": "front-01 knows less" }));
    let shown = context(&node, &front, "c").await;
    assert_eq!(
        (&shown["handover"]["to"], &shown["handover"]["by"]),
        (&json!("billing-01"), &json!("front-01"))
    );
    assert_eq!(shown["turns"][1]["by"], "billing-01", "{shown:#}");

    // The person goes on with that one, in a chat of its own: the first has no turn.
    assert_eq!(say(&front, "c", "and then?").await, "billing-01: and then?");
    let turns = given(dir.path(), "billing-01");
    assert_eq!(turns[1]["turns"], json!([["route front-01=billing-01", null, message(&handed)]]));
    assert_eq!(turns[1]["history"], json!([]), "it has had a turn of this chat");
    assert_eq!(
        turns[1]["before"], "The user: hello\nThe answer: front-01: hello\n",
        "and knows what was before"
    );
    assert_eq!(given(dir.path(), "front-01").len(), 2);

    // Handed on to a third, it goes there directly.
    assert_eq!(
        say(&front, "c", "route billing-01=shipping-01").await,
        "shipping-01: route billing-01=shipping-01"
    );
    assert_eq!(say(&front, "c", "where is it?").await, "shipping-01: where is it?");
    assert_eq!(given(dir.path(), "billing-01").len(), 3);
    let shown = context(&node, &front, "c").await;
    assert_eq!(
        (&shown["handover"]["to"], &shown["handover"]["by"]),
        (&json!("shipping-01"), &json!("billing-01"))
    );
    let history = &given(dir.path(), "shipping-01")[0]["history"];
    assert_eq!(history[2], json!(["and then?", "billing-01: and then?"]), "{history:#}");

    // Given back, the first answers, and knows what was said.
    assert_eq!(say(&front, "c", "route shipping-01=front-01").await, "front-01 again");
    assert_eq!(say(&front, "c", "thanks").await, "front-01: thanks");
    let last = given(dir.path(), "front-01").pop().unwrap();
    assert_eq!(
        last["turns"][4],
        json!(["where is it?", "shipping-01", "shipping-01: where is it?"]),
        "{last:#}"
    );
    let shown = context(&node, &front, "c").await;
    assert!(shown.get("handover").is_none(), "{shown:#}");
}

#[tokio::test]
async fn what_can_not_be_handed_over_is_refused_while_the_task_goes_on() {
    let dir = directory();
    let node = Process::up(&team(dir.path())).await;
    let front = node.agent("front-01");
    for (text, why) in [
        ("route front-01=nobody-01", "the chat is not handed over to nobody-01: there is no such agent"),
        ("route front-01=front-01", "you are front-01, with whom the chat is"),
    ] {
        let said = say(&front, "c", text).await;
        assert_eq!(said, format!("front-01 goes on itself: {why}"));
    }
    let task = front.ask(json!({ "description": "route front-01=billing-01" })).await;
    assert!(message(&task).contains("no message of a chat with a person"), "{task:#}");
    assert!(context(&node, &front, "c").await.get("handover").is_none());
    // Whoever has the chat is refused alike.
    say(&front, "c", "route front-01=billing-01").await;
    let said = say(&front, "c", "route billing-01=nobody-01").await;
    assert!(
        said.starts_with("billing-01 goes on itself: the chat is not handed over to nobody-01"),
        "{said}"
    );
}

#[tokio::test]
async fn agents_that_hand_a_message_to_each_other_end_in_a_failure_that_says_so() {
    let dir = directory();
    let node = Process::up(&team(dir.path())).await;
    let front = node.agent("front-01");
    let circle = "route front-01=billing-01 billing-01=shipping-01 shipping-01=billing-01";
    let task = send(&front, "c", circle, true).await;
    assert_eq!(state(&task), "failed", "{task:#}");
    assert!(message(&task).contains("handed on 6 times"), "{}", message(&task));
    assert_eq!(given(dir.path(), "billing-01").len() + given(dir.path(), "shipping-01").len(), 7);
    // The chat goes on with whoever had it last, or is taken back.
    let (code, output, errors) = node.as_person(&["context", "take-back", "c"]).await;
    assert_eq!((code, output.trim()), (0, "c goes on with front-01"), "{errors}");
    assert_eq!(say(&front, "c", "hello").await, "front-01: hello");
    let (code, _, errors) = node.as_person(&["context", "take-back", "c"]).await;
    assert!(code != 0 && errors.contains("has handed over no context"), "{errors}");
}

#[tokio::test]
async fn a_message_that_comes_back_can_go_to_the_same_agent_again() {
    let dir = directory();
    let node = Process::up(&team(dir.path())).await;
    let front = node.agent("front-01");
    let round =
        "route front-01#1=billing-01 billing-01#1=shipping-01 shipping-01#1=front-01 front-01#2=billing-01";
    assert_eq!(say(&front, "c", round).await, format!("billing-01: {round}"));
    assert_eq!(given(dir.path(), "front-01").len(), 2);
}

#[tokio::test]
async fn pieces_and_questions_of_the_other_agent_come_through_and_its_task_is_cancelled_with_the_first() {
    let dir = directory();
    let node = Process::up(&team(dir.path())).await;
    let front = node.agent("front-01");
    say(&front, "c", "route front-01=billing-01").await;
    let task = begin(&front, "c", "hold a").await;
    eventually("the first piece", async || {
        (artifact(&front.task(&task).await, "text")? == "one, ").then_some(())
    })
    .await;
    file(dir.path(), "open-a", "");
    let done = front.task_in(&task, &["completed", "failed"]).await;
    assert_eq!(
        (artifact(&done, "text").as_deref(), message(&done).as_str()),
        (Some("one, two"), "held by billing-01")
    );

    let asked = send(&front, "c", "ask", true).await;
    assert_eq!(
        (state(&asked).as_str(), message(&asked).as_str()),
        ("input_required", "which one?"),
        "{asked:#}"
    );
    let id = asked["id"].as_str().unwrap();
    // Beside a question the chat goes on, with the other agent, too.
    assert_eq!(say(&front, "c", "meanwhile").await, "billing-01: meanwhile");
    let answer = json!({ "text": "the blue one" });
    assert_eq!(front.call_on_task(Method::POST, id, "/answer", Some(&answer)).await.status, 200);
    let done = front.task_in(id, &["completed", "failed"]).await;
    assert_eq!(message(&done), "billing-01: ask, the blue one");

    let task = begin(&front, "c", "hold never").await;
    front.task_in(&task, &["working"]).await;
    let stopped = json!({ "reason": "enough" });
    assert_eq!(front.call_on_task(Method::POST, &task, "/cancel", Some(&stopped)).await.status, 200);
    front.task_in(&task, &["canceled"]).await;
    eventually("the other agent has stopped", async || {
        (node.agent("billing-01").state().await["running"] == 0).then_some(())
    })
    .await;
    assert_eq!(say(&front, "c", "still there?").await, "billing-01: still there?");
}

#[tokio::test]
async fn a_chat_that_was_handed_over_survives_the_kill_of_either_agent_and_waits_for_one_that_is_away() {
    let cluster = Cluster::start().await;
    let dir = cluster.dir.path();
    let mut first = cluster.node("front", &format!("agents:\n{}", agent(dir, "front-01"))).await;
    let mut other = cluster.node("billing", &format!("agents:\n{}", agent(dir, "billing-01"))).await;
    cluster.wait_for_agents(&["front-01", "billing-01"]).await;
    // While the chat is handed over.
    let task = begin(
        &first.agent("front-01").seen_by_the_person_of(&cluster.registry),
        "c",
        "hold a front-01=billing-01",
    )
    .await;
    eventually("the other agent works", async || (!given(dir, "billing-01").is_empty()).then_some(())).await;
    first.revive().await;
    file(dir, "open-a", "");
    let front = first.agent("front-01").seen_by_the_person_of(&cluster.registry);
    let done = front.task_in(&task, &["completed", "failed"]).await;
    assert_eq!(message(&done), "held by billing-01", "{done:#}");
    assert_eq!(given(dir, "billing-01").len(), 1, "nothing is done twice");
    // While a later message is there.
    let task = begin(&front, "c", "hold b").await;
    eventually("it works", async || (given(dir, "billing-01").len() == 2).then_some(())).await;
    other.revive().await;
    file(dir, "open-b", "");
    let done = front.task_in(&task, &["completed", "failed"]).await;
    assert_eq!(
        (message(&done).as_str(), artifact(&done, "text").as_deref()),
        ("held by billing-01", Some("one, two"))
    );
    assert_eq!(given(dir, "front-01").len(), 1, "the first agent has no turn");
    // Away: the message waits, and says for whom.
    other.kill();
    cluster.registry.entry_where("billing-01", |entry| entry["state"] != "alive").await;
    let task = begin(&front, "c", "are you back?").await;
    eventually("it waits for the one that is away", async || {
        message(&front.task(&task).await).contains("waits for billing-01, which is away").then_some(())
    })
    .await;
    other.revive().await;
    let done = front.task_in(&task, &["completed", "failed"]).await;
    assert_eq!(message(&done), "billing-01: are you back?");
}

#[tokio::test]
async fn a_chat_that_was_handed_over_is_shown_taken_back_and_forgotten() {
    let dir = directory();
    let node = Process::up(&team(dir.path())).await;
    let front = node.agent("front-01");
    let person = node.person();
    let args = ["--url", &person[0].1, "--token", &person[1].1, "chat", "front-01", "--context", "plans"];
    let mut chat = Terminal::start(&args);
    chat.shows("chat plans with front-01").await;
    chat.types("route front-01=billing-01\n");
    chat.shows("now with agent billing-01: front-01 knows less").await;
    chat.shows("billing-01: route").await;
    chat.types("\u{4}");
    chat.ends().await;
    // In a pipe standard error says it, and what comes through the first agent is printed once.
    let handed = "now with agent billing-01: front-01 knows less\n";
    let ask = ["ask", "--to", "front-01", "--context", "asked", "route front-01=billing-01"];
    let (code, _, errors) = node.as_person(&ask).await;
    assert!(code == 0 && errors.contains(handed), "{code}: {errors}");
    file(dir.path(), "open-1", "");
    let envs = person.each_ref().map(|(name, value)| (*name, value.as_str()));
    let lines = "route front-01=billing-01\nhold 1\n";
    let (code, said, errors) = piped(&["chat", "front-01"], lines, &envs);
    assert!(code == 0 && errors.contains(handed), "{code}: {errors}");
    assert_eq!(said, "billing-01: route front-01=billing-01\none, two\n");
    let again = Terminal::start(&args);
    again.shows("now with agent billing-01: front-01 knows less").await;
    drop(again);
    let (_, listed, _) = node.as_person(&["context", "ls"]).await;
    assert!(listed.contains("NOW WITH") && listed.contains("billing-01"), "{listed}");
    let (_, shown, _) = node.as_person(&["context", "show", "plans"]).await;
    assert!(shown.contains("**billing-01:** billing-01: route"), "{shown}");
    assert_eq!(node.as_person(&["context", "forget", "plans"]).await.0, 0);
    assert_eq!(say(&front, "plans", "hello").await, "front-01: hello", "it begins anew with the first");
    // What was forgotten is given to no later message, whoever has the chat.
    say(&front, "plans", "route front-01=billing-01").await;
    let last = given(dir.path(), "billing-01").pop().unwrap();
    assert_eq!((&last["turns"], &last["history"]), (&json!([]), &json!([["hello", "front-01: hello"]])));
    let path = "/a2a/contexts/plans/handover";
    let taken = node.call_as_person(Method::DELETE, &format!("{}{path}", front.url), None).await;
    assert_eq!(taken.status, 204);
    assert_eq!(say(&front, "plans", "back").await, "front-01: back");
    let nobodys = call(Method::DELETE, &format!("{}{path}", front.url), None).await;
    assert_eq!(nobodys.status, 404, "{nobodys:?}");
}

/// The text of the last message that a model was sent.
fn last_text(request: &StubRequest) -> String {
    let messages = request.body["messages"].as_array().unwrap();
    let content = &messages.last().unwrap()["content"];
    content.as_str().or_else(|| content[0]["text"].as_str()).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_model_hands_a_chat_over_with_a_tool_and_is_given_what_the_other_has_answered() {
    let stub = ModelStub::start(|request| -> StubAnswer {
        let (system, last) = (request.body["messages"][0].to_string(), last_text(request));
        let hands = |to: &str| calls(&[("handoff", json!({ "to": to, "reason": "it is about money" }))]);
        match system.contains("You are front-01") {
            true if last.contains("bill") => hands("billing-01"),
            true if last.contains("unknown") && !last.contains("no such agent") => hands("nobody-01"),
            true => says("Front speaking."),
            false if last.contains("bye") => hands("front-01"),
            false => says("Your bill is 7."),
        }
    });
    let model = model(&stub, "openai");
    let agent = |id: &str| format!("  - {{ agent: {id}, open: true, brain: {{ llm: {{ {model} }} }} }}\n");
    let node = Process::up(&format!("agents:\n{}{}", agent("front-01"), agent("billing-01"))).await;
    let front = node.agent("front-01");
    let answer = async |text: &str| {
        let task = send(&front, "c", text, true).await;
        assert_eq!(state(&task), "completed", "{task:#}");
        artifact(&task, "answer").unwrap_or_default()
    };
    assert_eq!(answer("My name is Ada.").await, "Front speaking.");
    assert_eq!(answer("unknown, please").await, "Front speaking.");
    assert!(last_text(&stub.requests().pop().unwrap()).contains("there is no such agent"));
    assert_eq!(answer("What is my bill?").await, "Your bill is 7.");
    let asked = last_text(&stub.requests().pop().unwrap());
    assert!(
        asked.contains("front-01 has handed over to you") && asked.contains("My name is Ada."),
        "{asked}"
    );
    assert!(asked.contains("BEGIN DATA") && !asked.contains("\"calls\""), "{asked}");
    assert_eq!(answer("And in euro?").await, "Your bill is 7.");
    let seen = stub.requests().pop().unwrap().body["messages"].to_string();
    assert_eq!(seen.matches("My name is Ada.").count(), 1, "{seen}");
    assert_eq!(answer("bye").await, "Front speaking.");
    answer("Who are you?").await;
    let seen = stub.requests().pop().unwrap().body["messages"].to_string();
    assert!(seen.contains("billing-01 has answered it") && seen.contains("Your bill is 7."), "{seen}");
    assert!(seen.contains("And in euro?"), "{seen}");
}

#[tokio::test]
async fn a_handover_beside_other_calls_is_one_and_what_comes_with_the_message_goes_with_it() {
    let stub = ModelStub::start(|request| -> StubAnswer {
        let (system, last) = (request.body["messages"][0].to_string(), last_text(request));
        let to = |agent: &str| ("handoff", json!({ "to": agent, "reason": "it is about money" }));
        match system.contains("You are front-01") {
            true if last.contains("both") => calls(&[to("billing-01"), to("shipping-01")]),
            true if last.contains("bill") => calls(&[
                ("post_finding", json!({ "content": "they ask for the bill" })),
                to("billing-01"),
                to("billing-01"),
            ]),
            true => says("Front speaking."),
            false => says("I have seen it."),
        }
    });
    let model = model(&stub, "openai");
    let agent = |id: &str| format!("  - {{ agent: {id}, open: true, brain: {{ llm: {{ {model} }} }} }}\n");
    let node = Process::up(&TEAM.iter().fold("agents:\n".to_owned(), |team, id| team + &agent(id))).await;
    let front = node.agent("front-01");
    let task = send(&front, "c", "both, please", true).await;
    assert_eq!(artifact(&task, "answer").as_deref(), Some("Front speaking."), "{task:#}");
    assert!(last_text(&stub.requests().pop().unwrap()).contains("a chat goes on with one agent"));
    let note =
        json!({ "raw": "dGhlIGNvZGUgaXMgNzQxMQ==", "filename": "note.txt", "mediaType": "text/plain" });
    let task = send_parts(&front, "c", json!([{ "text": "my bill" }, note]), true).await;
    assert_eq!(artifact(&task, "answer").as_deref(), Some("I have seen it."), "{task:#}");
    let asked = last_text(&stub.requests().pop().unwrap());
    assert!(asked.contains("my bill") && asked.contains("the code is 7411"), "{asked}");
}

#[tokio::test]
async fn two_people_who_name_their_chats_alike_hand_over_their_own() {
    let dir = directory();
    let callers = "mesh: { callers: [{ user: alice, apiKey: alices-own-key-0001 }, { user: bob, apiKey: bobs-own-key-000001 }] }\n";
    let node = Process::up(&(team(dir.path()) + callers)).await;
    let front = node.agent("front-01");
    let say = async |key: &str, text: &str| {
        let said = json!({
            "messageId": uuid::Uuid::now_v7(), "role": "ROLE_USER", "parts": [{ "text": text }], "contextId": "c",
        });
        let request =
            client().post(format!("{}/a2a/v1/message:send", front.url)).header("a2a-version", "1.0");
        let request = request.header("x-api-key", key).json(&json!({ "message": said }));
        message(&request.send().await.unwrap().json::<Value>().await.unwrap()["task"])
    };
    let (alice, bob) = ("alices-own-key-0001", "bobs-own-key-000001");
    assert_eq!(say(alice, "route front-01=billing-01").await, "billing-01: route front-01=billing-01");
    assert_eq!(say(bob, "hello").await, "front-01: hello", "his chat was not handed over");
    assert_eq!(say(bob, "route front-01=billing-01").await, "billing-01: route front-01=billing-01");
    let last = given(dir.path(), "billing-01").pop().unwrap();
    assert_eq!((&last["turns"], &last["history"]), (&json!([]), &json!([["hello", "front-01: hello"]])));
}
