//! The inbox: proposals and failed tasks beside questions, and the webhook that is told of questions.

use super::{Page, SCRIPT, TEAM, alice, link, question};
use crate::harness::{Process, eventually, receive_notification};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;

const HOSTILE: &str = "</div><script>alert(1)</script>\u{202e}";

/// The team's script, with a task that fails and a call with a secret.
fn script() -> String {
    let more = r#"
turns:
  - when: { contains: break it }
    end: { failed: "no way </div><script>alert(1)</script>\u202e" }
  - when: { contains: call it, turn: 1 }
    say: [{ type: question, id: call, text: call it?, kind: approval, call: { name: post, args: { path: /x, apiKey: canary-of-the-call } } }]"#;
    SCRIPT.replace("\nturns:", more)
}

fn waiting(view: &str) -> &str {
    view.split("data-waiting=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default()
}

#[tokio::test]
async fn proposals_are_decided_and_failures_sent_again_in_the_inbox() {
    let mesh = Process::up_beside(TEAM, &[("script.yaml", &script())]).await;
    let (person, alice) = (Page::of_link(&link(&mesh, &[]).await).await, alice(&mesh.url).await);
    let front = mesh.agent("front-01");
    let entries = format!("{}/board/spaces/default/entries", mesh.url);
    let propose = async |slug: &str| {
        let draft = json!({ "kind": "proposal", "type": "learning", "slug": slug, "title": HOSTILE, "content": HOSTILE });
        let posted = mesh.call_as_person(Method::POST, &entries, Some(&draft)).await;
        posted.body["id"].as_str().unwrap_or_else(|| panic!("{posted:?}")).to_owned()
    };
    let (first, second) = (propose("one").await, propose("two").await);
    let (asks, _) = person.send("remove it").await;
    front.task_in(&asks, &["input_required"]).await;
    let (broken, _) = person.send("break it").await;
    front.task_in(&broken, &["failed"]).await;
    let inbox = person.view("view=inbox").await;
    assert_eq!(waiting(&inbox), "3", "a question and two proposals, no failure: {inbox}");
    for part in [&*first, &*second, "value=\"merge\"", "delete it?", "no way", "data-dismissable=\"front-01/"]
    {
        assert!(inbox.contains(part), "{part}: {inbox}");
    }
    assert!(!inbox.contains("<script") && !inbox.contains('\u{202e}'), "{inbox}");
    let place = |part: &str| inbox.find(part).unwrap();
    assert!(
        place("delete it?") < place(&second) && place(&second) < place(&first),
        "the newest first: {inbox}"
    );
    assert_eq!(waiting(&person.view("view=start").await), "3");
    let hers = alice.view("view=inbox").await;
    assert_eq!(waiting(&hers), "0", "a member decides nothing: {hers}");
    assert!(!hers.contains(&first) && !hers.contains("no way"), "{hers}");
    // The terminal shows the same.
    let (code, out, errors) = mesh.as_person(&["inbox", "--json"]).await;
    assert_eq!(code, 0, "{errors}");
    let listed: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&listed["failed"][0]["taskId"], listed["failed"].as_array().map(Vec::len)),
        (&json!(broken), Some(1))
    );
    assert_eq!(listed["proposals"].as_array().map(Vec::len), Some(2), "{listed}");
    let (_, out, _) = mesh.as_person(&["inbox"]).await;
    assert!(out.contains(&broken) && out.contains("no way"), "{out}");
    // In place.
    let decide =
        [("space", "default"), ("entry", &*first), ("version", "1"), ("change", "merge"), ("reason", "")];
    assert_eq!(person.form("entry", &decide).await.status, 204);
    let again = person.form("retry", &[("agent", "front-01"), ("task", &*broken)]).await;
    assert_eq!(again.status, 204, "{again:?}");
    let inbox = eventually("the new task has failed, too", async || {
        let inbox = person.view("view=inbox").await;
        inbox.contains("data-dismissable").then_some(inbox)
    })
    .await;
    assert_eq!(waiting(&inbox), "2", "{inbox}");
    assert!(
        !inbox.contains(&first) && !inbox.contains(&format!("front-01/{broken}")),
        "it was sent again: {inbox}"
    );
}

#[tokio::test]
async fn a_proposal_wakes_a_page_and_counts() {
    let mesh = Process::up_beside(TEAM, &[("script.yaml", &script())]).await;
    let person = Page::of_link(&link(&mesh, &[]).await).await;
    let mut stream = person.request(Method::GET, "console/stream?view=inbox").send().await.unwrap();
    let mut text = String::new();
    let mut posted = false;
    while let Some(bytes) = stream.chunk().await.unwrap() {
        text.push_str(std::str::from_utf8(&bytes).unwrap());
        if !posted && text.contains("\n\n") {
            let draft = json!({ "kind": "proposal", "type": "learning", "slug": "one", "title": "a", "content": "b" });
            let entries = format!("{}/board/spaces/default/entries", mesh.url);
            mesh.call_as_person(Method::POST, &entries, Some(&draft)).await;
            posted = true;
        }
        let events = text.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
        let mut events = events.filter_map(|data| serde_json::from_str::<Value>(data).ok());
        if events.any(|event| event["waiting"] == 1 && event["of"] == json!(["tasks"])) {
            return;
        }
    }
    panic!("the stream has ended: {text}");
}

#[tokio::test]
async fn the_webhook_is_told_when_a_question_opens_and_closes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mesh = format!(
        "mesh:\n  inbox: {{ webhook: 'http://{address}/hook?key=secret-of-the-hook' }}\n  outside: {{ allow: [127.0.0.0/8] }}"
    );
    let mesh = Process::up_beside(&TEAM.replace("mesh:", &mesh), &[("script.yaml", &script())]).await;
    let person = Page::of_link(&link(&mesh, &["front-01"]).await).await;
    let front = mesh.agent("front-01");
    let (task, _) = person.send("call it").await;
    let (head, refused) = receive_notification(&listener, 503).await;
    let (again, opened) = receive_notification(&listener, 204).await;
    assert_eq!(refused, opened, "it is tried again");
    let id_of = |head: &str| head.lines().find(|line| line.starts_with("webhook-id:")).map(str::to_owned);
    assert!(id_of(&head).is_some() && id_of(&head) == id_of(&again), "{head}");
    assert!(head.contains("mesh-outbound: 1") && head.starts_with("post /hook?key="), "{head}");
    let id = question(&front, &task).await;
    assert_eq!(
        (&opened["type"], &opened["agentId"], &opened["taskId"], &opened["id"], &opened["description"]),
        (&json!("question.opened"), &json!("front-01"), &json!(task), &json!(id), &json!("call it"))
    );
    assert_eq!(
        (&opened["requester"], &opened["question"]["text"]),
        (&json!("user:local"), &json!("call it?"))
    );
    assert_eq!(opened["question"]["call"]["args"], json!({ "path": "/x", "apiKey": "***" }));
    let command = opened["answerWith"].as_str().unwrap();
    assert!(
        command.starts_with(&format!("mesh answer {task} --question "))
            && command.ends_with(&format!(" --approve --at {}", front.url)),
        "{opened}"
    );
    assert_eq!(opened["console"], json!(format!("{}/?view=task&id={task}&agent=front-01", front.url)));
    assert!(opened["at"].is_string(), "{opened}");
    let (code, _, errors) = mesh.as_person(&["answer", &task, "--deny"]).await;
    assert_eq!(code, 0, "{errors}");
    let (_, closed) = receive_notification(&listener, 204).await;
    assert_eq!((&closed["type"], &closed["id"]), (&json!("question.closed"), &json!(id)));
}
