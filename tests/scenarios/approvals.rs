//! Approvals and the person's token between processes: an agent never approves, and the token is shown to nobody (DESIGN §8, §13).

use super::llm::{model, team};
use crate::harness::{
    Process, artifact,
    bidder::Bidder,
    client,
    cluster::Cluster,
    eventually, file,
    mcp_stub::{McpAnswer, McpStub, tool},
    mesh, message,
    model_stub::{ModelStub, calls, says},
    refusal_of_status, state,
};
use protocol::{problem::Reason, task::EXTENSION};
use serde_json::{Value, json};
use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    path::Path,
};
use transport::http_client::ClientRequest;

const FRONT: &str = "agents: [{ agent: front-01, skills: [front], brain: { echo: {} } }]";
const GATE: &str = "agents: [{ agent: gate-01, skills: [gate], brain: { scripted: script.yaml } }]";
const SCRIPT: &str = "
turns:
  - when: { turn: 1 }
    say: [{ type: question, id: rm, text: delete it?, kind: approval, call: { name: rm, args: { path: /x } } }]
  - { end: { done: deleted } }
";

fn question(task: &Value) -> String {
    task["metadata"][EXTENSION]["questions"][0]["id"].as_str().unwrap_or_default().to_owned()
}

/// Two nodes: front-01 has no skill `gate`, so it awards such a task to gate-01 in the other one.
async fn two_nodes(more_of_front: &str, more_of_gate: &str) -> (Cluster, Process, Process) {
    let cluster = Cluster::start().await;
    std::fs::write(cluster.path("script.yaml"), SCRIPT).unwrap();
    let gate = cluster.node("gate", &format!("{GATE}\n{more_of_gate}")).await;
    let front = cluster.node("front", &format!("{FRONT}\n{more_of_front}")).await;
    cluster.wait_for_agents(&["front-01", "gate-01"]).await;
    (cluster, front, gate)
}

#[tokio::test]
async fn an_agent_that_owns_a_task_does_not_approve_its_call() {
    let mesh = Process::up_beside(GATE, &[("script.yaml", SCRIPT)]).await;
    let gate = mesh.agent("gate-01");
    let evil = Bidder::join(&mesh, "evil-01", "evil", json!({})).await;
    let request = json!({ "taskId": "t-1", "description": "x", "capability": "gate" });
    evil.send(&gate, json!({ "type": "task-request", "payload": request })).await.unwrap();
    let url = format!("{}/a2a/tasks/t-1", gate.url);
    let in_state = async |wanted: &str| {
        eventually(wanted, async || {
            let task: Value = evil.wire.json(ClientRequest::get(&url, "gate-01")).await.unwrap();
            (state(&task) == wanted).then_some(task)
        })
        .await
    };
    let id = question(&in_state("input_required").await);
    let approve = async |answer: Value| {
        let payload = json!({ "taskId": "t-1", "questionId": id, "answer": answer });
        evil.send(&gate, json!({ "type": "task-answer", "payload": payload })).await
    };
    let forged = json!({ "question": "0".repeat(64), "signature": "A".repeat(86) });
    for answer in [json!({ "decision": "approve" }), json!({ "decision": "approve", "proof": forged })] {
        let refused = approve(answer).await.unwrap_err();
        assert_eq!(refused.reason, Reason::Forbidden, "{refused}");
        assert!(refused.message.contains("an agent does not approve"), "{refused}");
    }
    in_state("input_required").await;
    approve(json!({ "decision": "deny", "reason": "no" })).await.unwrap();
    in_state("completed").await;
}

#[tokio::test]
async fn a_persons_approval_passes_through_a_manager_in_another_process() {
    let (cluster, front, _gate) = two_nodes("", "").await;
    let front = front.agent("front-01");
    let token_file = cluster.registry.data.join("token").to_string_lossy().into_owned();
    let token = std::fs::read_to_string(&token_file).unwrap();
    for task in ["by-command", "by-token"] {
        front.send(json!({ "taskId": task, "description": "x", "capability": "gate" })).await;
        let id = question(&front.task_in(task, &["input_required"]).await);
        if task == "by-command" {
            let url = cluster.registry.url.as_str();
            let args = ["answer", task, "--question", &id, "--approve", "--url", url, "--token", &token_file];
            let (code, _, errors) = mesh(&args, &[]);
            assert!(code == 0 && errors.contains("call: rm") && errors.contains("/x"), "{code}: {errors}");
            front.task_in(task, &["completed"]).await;
            let said = format!("{id} was approved by user:local at 2");
            for verb in [["tasks", "show"].as_slice(), &["trace"]] {
                let args = [verb, &[task, "--url", url, "--token", &token_file]].concat();
                let (_, shown, _) = mesh(&args, &[]);
                assert!(shown.contains(&said), "{verb:?}: {shown}");
            }
            let (_, _, watched) = mesh(&["tasks", "watch", task, "--url", url, "--token", &token_file], &[]);
            assert!(watched.contains("user:local: approved"), "{watched}");
        } else {
            let url = format!("{}/a2a/tasks/{task}/answer", front.url);
            let body = json!({ "questionId": id, "decision": "approve" });
            let sent = client().post(url).bearer_auth(token.trim()).json(&body).send().await.unwrap();
            assert_eq!(sent.status().as_u16(), 200);
        }
        let task = front.task_in(task, &["completed", "failed"]).await;
        assert_eq!((state(&task), message(&task)), ("completed".into(), "deleted".into()), "{task:#}");
    }
}

#[tokio::test]
async fn a_callers_approval_elsewhere_counts_if_the_process_that_asks_trusts_the_manager() {
    let callers = "mesh: { callers: [{ user: alice, apiKey: alices-own-key-0001 }] }";
    let (_cluster, front, gate) = two_nodes(callers, "mesh: { approvers: [front-01] }").await;
    approve_as_alice(&front, "t-1").await;
    let front = front.agent("front-01");
    let task = alices(&front.url, "t-1", "completed").await;
    assert_eq!(message(&task), "deleted", "{task:#}");
    drop(gate);
}

#[tokio::test]
async fn a_callers_approval_that_is_not_trusted_is_refused_and_the_question_opens_again() {
    let callers = "mesh: { callers: [{ user: alice, apiKey: alices-own-key-0001 }] }";
    let (_cluster, front, _gate) = two_nodes(callers, "").await;
    approve_as_alice(&front, "t-1").await;
    let front = front.agent("front-01");
    let task = eventually("the refusal in the task", async || {
        let task = alices(&front.url, "t-1", "input_required").await;
        message(&task).contains("approvers").then_some(task)
    })
    .await;
    assert!(!question(&task).is_empty(), "{task:#}");
}

async fn approve_as_alice(front: &Process, task: &str) {
    let front = front.agent("front-01");
    let request = front.request(json!({ "taskId": task, "description": "x", "capability": "gate" }));
    let send = |path: &str, body: &Value| {
        client()
            .post(format!("{}{path}", front.url))
            .header("x-api-key", "alices-own-key-0001")
            .json(body)
            .send()
    };
    assert_eq!(send("/a2a/messages", &request).await.unwrap().status().as_u16(), 202);
    let id = question(&alices(&front.url, task, "input_required").await);
    let body = json!({ "questionId": id, "decision": "approve" });
    let sent = send(&format!("/a2a/tasks/{task}/answer"), &body).await.unwrap();
    assert_eq!(sent.status().as_u16(), 200);
}

async fn alices(url: &str, task: &str, wanted: &str) -> Value {
    eventually(&format!("{task} is {wanted}"), async || {
        let read = client().get(format!("{url}/a2a/tasks/{task}")).header("x-api-key", "alices-own-key-0001");
        let task: Value = read.send().await.unwrap().json().await.unwrap();
        (state(&task) == wanted).then_some(task)
    })
    .await
}

/// Answers one request with 404, and returns it.
fn catch(listener: TcpListener) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 8_192];
        let read = stream.read(&mut buffer).unwrap();
        stream
            .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .unwrap();
        String::from_utf8_lossy(&buffer[..read]).into_owned()
    })
}

#[tokio::test]
async fn a_process_that_a_command_calls_learns_nothing_that_is_good_elsewhere() {
    let running = Process::up("agents: [{ agent: echo-01, open: true, brain: { echo: {} } }]").await;
    let token_file = running.data.join("token");
    let token = std::fs::read_to_string(&token_file).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let hostile = listener.local_addr().unwrap();
    let caught = catch(listener);
    let url = format!("http://{hostile}");
    let (code, _, _) = mesh(&["inbox", "--url", &url, "--token", &token_file.to_string_lossy()], &[]);
    assert_ne!(code, 0);
    let caught = caught.join().unwrap();
    let ticket = caught.lines().find_map(|line| line.strip_prefix("authorization: Bearer ")).unwrap().trim();
    assert!(ticket.starts_with("mesh-ticket-") && !caught.contains(token.trim()), "{caught}");
    // It passes the ticket on, under its own name and under the right one.
    let right = Path::new(&running.url).file_name().unwrap().to_string_lossy().into_owned();
    for host in [hostile.to_string(), right] {
        let call = client().get(format!("{}/healthz", running.url)).header("host", &host).bearer_auth(ticket);
        let refused = refusal_of_status(call.send().await.unwrap()).await;
        assert_eq!(refused, (401, "unauthenticated".to_owned()), "{host}");
    }
}

/// Denies what goes to `all`.
const NOT_TO_ALL: &str = r#"
read -r line
case "$line" in *'"to":"all"'*) echo '{"decision":"deny","reason":"not to all"}' ;; esac
"#;

#[tokio::test]
async fn a_call_is_approved_with_other_arguments_which_are_checked_again() {
    let dir = crate::harness::directory();
    let mut mail = tool("mail", json!({}));
    mail["inputSchema"]["properties"] = json!({ "to": { "type": "string" }, "copies": { "maximum": 3 } });
    let tools = McpStub::start(json!([mail]), |_, arguments| McpAnswer::Text(format!("sent: {arguments}")));
    let stub = ModelStub::start(|request| match request.results.as_slice() {
        [] => calls(&[("mail", json!({ "to": "everybody" }))]),
        results => says(&results.join("\n")),
    });
    let hook = file(dir.path(), "hook.sh", NOT_TO_ALL).display().to_string();
    let llm = format!(
        "{}, tools: [{{ mcp: '{}', ask: [mail] }}], toolHooks: {{ before: [sh, '{hook}'] }}",
        model(&stub, "openai"),
        tools.url
    );
    let node = Process::up(&team(&llm)).await;
    let agent = node.agent("thinker-01");
    let asked = async || {
        let task = agent.send(json!({ "description": "mail them" })).await;
        let asked = agent.task_in(&task, &["input_required"]).await;
        let question = asked["metadata"][EXTENSION]["questions"][0].clone();
        assert_eq!(question["editable"], true, "{question:#}");
        (task, question["id"].as_str().unwrap().to_owned())
    };
    let answer = async |task: &str, question: &str, values: &str| {
        let args = ["answer", task, "--question", question, "--approve", "--values", values];
        node.as_person(&args).await
    };

    // What the person has written is called, and the model is told.
    let (task, question) = asked().await;
    let (code, _, errors) = answer(&task, &question, r#"{"to":7}"#).await;
    assert!(code != 0 && errors.contains("to must be of type"), "{code}: {errors}");
    let (code, _, errors) = answer(&task, &question, r#"{"to":"ada"}"#).await;
    assert_eq!(code, 0, "{errors}");
    let done = agent.task_in(&task, &["completed", "failed"]).await;
    let text = artifact(&done, "answer").unwrap_or_else(|| panic!("{done:#}"));
    assert!(text.contains(r#"approved with the arguments {"to":"ada"}"#) && text.contains("sent:"), "{text}");
    assert_eq!(tools.calls(), [("mail".to_owned(), json!({ "to": "ada" }))]);

    // A hook of the agent and the tool's whole schema have the last word.
    for (values, why) in
        [(r#"{"to":"all"}"#, "not to all"), (r#"{"to":"ada","copies":4}"#, "do not fit the tool")]
    {
        let (task, question) = asked().await;
        let (code, _, errors) = answer(&task, &question, values).await;
        assert_eq!(code, 0, "{errors}");
        let done = agent.task_in(&task, &["completed", "failed"]).await;
        let text = artifact(&done, "answer").unwrap_or_else(|| panic!("{done:#}"));
        assert!(text.contains(why), "{text}");
    }
    assert_eq!(tools.calls().len(), 1);
}

#[tokio::test]
async fn a_brain_that_says_so_is_given_the_arguments_of_a_person_also_in_another_process() {
    let (cluster, front, _gate) = {
        let script = SCRIPT.replace("kind: approval", "kind: approval, editable: true");
        let cluster = Cluster::start().await;
        std::fs::write(cluster.path("script.yaml"), script).unwrap();
        let gate = cluster.node("gate", GATE).await;
        let front = cluster.node("front", FRONT).await;
        cluster.wait_for_agents(&["front-01", "gate-01"]).await;
        (cluster, front, gate)
    };
    let front = front.agent("front-01");
    let token = cluster.registry.data.join("token").to_string_lossy().into_owned();
    front.send(json!({ "taskId": "t-1", "description": "x", "capability": "gate" })).await;
    let id = question(&front.task_in("t-1", &["input_required"]).await);
    let url = format!("{}/a2a/tasks/t-1/answer", front.url);
    let answer = async |body: Value| {
        let token = std::fs::read_to_string(&token).unwrap();
        client().post(&url).bearer_auth(token.trim()).json(&body).send().await.unwrap().status().as_u16()
    };
    let denied = json!({ "questionId": id, "decision": "deny", "values": { "path": "/y" } });
    assert_eq!(answer(denied).await, 400, "what is denied has no values");
    let values = r#"{"path":"/y"}"#;
    let registry = cluster.registry.url.as_str();
    let args = ["answer", "t-1", "--question", &id, "--approve", "--values", values, "--url", registry];
    let (code, _, errors) = mesh(&[args.as_slice(), &["--token", &token]].concat(), &[]);
    assert_eq!(code, 0, "{errors}");
    let task = front.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!((state(&task), message(&task)), ("completed".into(), "deleted".into()), "{task:#}");
}
