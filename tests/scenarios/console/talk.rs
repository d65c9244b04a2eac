//! What is said: with the model of an agent, and in a chat, with files and in pieces.

use super::{Page, SCRIPT, TEAM, alice, link, question};
use crate::harness::{
    Process, call, eventually,
    mcp_stub::{McpAnswer, McpStub, tool},
    model_stub::{ModelStub, calls, says},
};
use reqwest::{Method, Response, header::CONTENT_TYPE};
use serde_json::{Value, json};

const HOSTILE: &str = "</pre><script>alert(1)</script>\u{202e}";

#[tokio::test]
async fn what_is_said_with_a_model_is_shown_to_the_person_alone() {
    let tools =
        McpStub::start(json!([tool("deploy", json!({}))]), |_, _| McpAnswer::Text(HOSTILE.to_owned()));
    let stub = ModelStub::start(|request| match request.results.len() {
        0 => calls(&[("deploy", json!({ "to": "production", "apiKey": "canary-of-the-call" }))]),
        _ => says("It is deployed."),
    });
    let model = crate::scenarios::llm::model(&stub, "anthropic");
    let brain = format!("{{ llm: {{ {model}, tools: [{{ mcp: '{}', approve: [deploy] }}] }} }}", tools.url);
    let yaml = TEAM.replace("{ scripted: script.yaml }", &brain);
    let mesh = Process::up(&yaml).await;
    let (person, front) = (Page::of_link(&link(&mesh, &[]).await).await, mesh.agent("front-01"));
    let (id, query) = person.send("deploy it").await;
    front.task_in(&id, &["input_required"]).await;
    let asked = question(&front, &id).await;
    let shown = person.view(&query).await;
    let digest = super::shown(&shown);
    let edited = json!({ "to": "staging" }).to_string();
    let fields = [
        ("agent", "front-01"),
        ("task", &id),
        ("question", &asked),
        ("shown", &digest),
        ("decision", "approve"),
        ("arguments", &edited),
    ];
    let answered = person.form("answer", &fields).await;
    assert_eq!(answered.status, 204, "{answered:?}");
    front.task_in(&id, &["completed"]).await;
    let url = format!("{}/a2a/tasks/{id}/model", front.url);
    let talk = mesh.call_as_person(Method::GET, &url, None).await;
    let lines = talk.body["lines"].as_array().unwrap_or_else(|| panic!("{talk:?}"));
    assert_eq!((&lines[0]["kind"], &lines[0]["turn"]), (&json!("told"), &json!(1)), "{talk:?}");
    assert!(lines[0]["text"].as_str().unwrap().contains("deploy it"), "{talk:?}");
    let replies: Vec<_> = lines.iter().filter(|line| line["kind"] == "answered").collect();
    let made = &replies[0]["calls"][0];
    assert_eq!(
        (&made["name"], &made["arguments"]["to"]),
        (&json!("deploy"), &json!("production")),
        "{talk:?}"
    );
    assert_eq!(made["madeWith"], json!({ "to": "staging" }), "{talk:?}");
    assert!(made["result"].as_str().unwrap().contains(HOSTILE), "{talk:?}");
    assert!(!talk.body.to_string().contains("canary-of-the-call"), "{talk:?}");
    assert_eq!(replies[1]["text"], "It is deployed.", "{talk:?}");
    assert!(replies.iter().all(|reply| reply["usage"]["model"] != Value::Null), "{talk:?}");
    // Neither a local program nor a caller is shown it, in whatever way they ask.
    assert_eq!(call(Method::GET, &url, None).await.status, 403);
    let view = person.view(&query).await;
    for part in ["Said with the model", "It is deployed.", "Made with", "staging", "U+202E"] {
        assert!(view.contains(part), "{part}: {view}");
    }
    assert!(!view.contains("<script") && !view.contains('\u{202e}'), "{view}");
    let hers = alice(&mesh.url).await;
    let (_, query) = hers.send("say it").await;
    let view = eventually("her task waits for an approval", async || {
        let view = hers.view(&query).await;
        view.contains("value=\"approve\"").then_some(view)
    })
    .await;
    assert!(!view.contains("Said with the model"), "{view}");
    let (code, out, errors) = mesh.as_person(&["tasks", "show", &id, "--model"]).await;
    assert_eq!(code, 0, "{errors}");
    assert!(out.contains("calls deploy") && !out.contains('\u{202e}'), "{out}");
}

/// A form with a file, as browsers send it.
async fn form_with_file(page: &Page, path: &str, fields: &[(&str, &str)], file: &[u8]) -> Response {
    let mut body = Vec::new();
    for (name, value) in fields {
        let part = format!("--edge\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        body.extend_from_slice(part.as_bytes());
    }
    let head = "--edge\r\nContent-Disposition: form-data; name=\"file\"; filename=\"list <b>.txt\"\r\nContent-Type: text/plain\r\n\r\n";
    body.extend_from_slice(head.as_bytes());
    body.extend_from_slice(file);
    body.extend_from_slice(b"\r\n--edge--\r\n");
    let request = page.request(Method::POST, &format!("console/{path}")).header("origin", &page.origin);
    let request = request.header(CONTENT_TYPE, "multipart/form-data; boundary=edge").body(body);
    request.send().await.unwrap()
}

#[tokio::test]
async fn files_go_with_a_task_and_into_a_chat() {
    let mesh = Process::up_beside(TEAM, &[("script.yaml", SCRIPT)]).await;
    let (page, front) = (Page::of_link(&link(&mesh, &["front-01"]).await).await, mesh.agent("front-01"));
    let large = "a line of the list\n".repeat(20_000);
    for (path, fields, file) in [
        ("send", [("description", "read it"), ("capability", "")], large.as_bytes()),
        ("say", [("text", "read it"), ("context", "chat-1")], b"short"),
    ] {
        assert_eq!(form_with_file(&page, path, &fields, file).await.status(), 204, "{path}");
    }
    let tasks = eventually("both are done", async || {
        let listed = call(Method::GET, &format!("{}/a2a/tasks", front.url), None).await;
        let tasks = listed.body["tasks"].as_array()?.clone();
        (tasks.len() == 2 && tasks.iter().all(|task| task["status"]["state"] == "TASK_STATE_COMPLETED"))
            .then_some(tasks)
    })
    .await;
    for task in &tasks {
        let view = page.view(&format!("view=task&agent=front-01&id={}", task["id"].as_str().unwrap())).await;
        assert!(view.contains("list &lt;b&gt;.txt") && !view.contains("list <b>"), "{view}");
        assert!(!view.contains("is at <code>mesh-blob"), "a name inside of the mesh: {view}");
    }
    assert!(page.view("view=chat&agent=front-01&id=chat-1").await.contains("list &lt;b&gt;.txt"));
    let too_large = vec![b'x'; 20 << 20];
    let refused = form_with_file(&page, "say", &[("text", "x"), ("context", "chat-1")], &too_large).await;
    assert_eq!(refused.status(), 413);
    let refused = form_with_file(&page, "answer", &[("text", "x")], b"x").await;
    assert_eq!(refused.status(), 415, "no other form has files");
}

#[tokio::test]
async fn an_answer_at_once_to_a_task_with_a_file_is_shown() {
    let team = TEAM.replace("open: true", "open: true, a2a: { direct: true }");
    let script = "turns: [{ end: { message: The gate is open. } }]";
    let mesh = Process::up_beside(&team, &[("script.yaml", script)]).await;
    let page = Page::of_link(&link(&mesh, &["front-01"]).await).await;
    let sent = form_with_file(&page, "send", &[("description", "open?"), ("capability", "")], b"x").await;
    assert_eq!(sent.status(), 204);
    let to = sent.headers()["mesh-console-go"].to_str().unwrap().strip_prefix('?').unwrap().to_owned();
    assert!(page.view(&to).await.contains("The gate is open."), "{to}");
}

#[tokio::test]
async fn an_answer_of_a_chat_is_shown_in_pieces() {
    let more = "
turns:
  - when: { contains: slowly, turn: 1 }
    say:
      - { type: artifact, artifactId: answer, name: answer, text: 'the first piece' }
      - { type: question, id: go, text: shall I go on? }";
    let mesh = Process::up_beside(TEAM, &[("script.yaml", &SCRIPT.replace("\nturns:", more))]).await;
    let page = Page::of_link(&link(&mesh, &["front-01"]).await).await;
    let mut stream =
        page.request(Method::GET, "console/stream?view=chat&agent=front-01&id=chat-1").send().await.unwrap();
    let mut seen = String::new();
    let mut is_said = false;
    while let Some(bytes) = stream.chunk().await.unwrap() {
        seen.push_str(std::str::from_utf8(&bytes).unwrap());
        if !is_said && seen.contains("\n\n") {
            is_said = true;
            let said = page
                .form("say", &[("text", "say it slowly"), ("context", "chat-1"), ("agent", "front-01")])
                .await;
            assert_eq!(said.status, 204, "{said:?}");
        }
        if seen.contains("\"task\"") {
            break;
        }
    }
    let view = page.view("view=chat&agent=front-01&id=chat-1").await;
    assert!(view.contains("the first piece"), "{view}");
}
