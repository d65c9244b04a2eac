//! The board of another process in the console of the registry, with the rights of the viewer.

use super::{
    Page,
    elsewhere::{page_of_registry, processes},
};
use crate::harness::{Answer, client, cluster::Cluster, eventually, read_answer, refusal};
use reqwest::Method;
use serde_json::{Value, json};

/// Calls the board as the person.
async fn at_board(cluster: &Cluster, method: Method, path: &str, body: Option<&Value>) -> Answer {
    let url = format!("{}/board/spaces/default/{path}", cluster.board.url);
    let request = client().request(method, url).bearer_auth(cluster.registry.token().unwrap());
    let request = match body {
        Some(body) => request.json(body),
        None => request,
    };
    read_answer(request.send().await.unwrap()).await
}

/// Posts a proposal as the person, and returns its id.
async fn propose(cluster: &Cluster, slug: &str) -> String {
    let draft =
        json!({ "kind": "proposal", "type": "technical", "slug": slug, "title": slug, "content": slug });
    let posted = eventually("the board takes the person's token", async || {
        let posted = at_board(cluster, Method::POST, "entries", Some(&draft)).await;
        (posted.status < 300).then_some(posted)
    });
    posted.await.body["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_registrys_console_reads_and_decides_at_the_board_of_another_process() {
    let (cluster, gate) = processes().await;
    let first = propose(&cluster, "first").await;
    let page = page_of_registry(&cluster).await;
    // Signals, the space and the brief.
    let board = page.view("view=board").await;
    assert!(board.contains("agent.joined") && board.contains("view=space&amp;id=default"), "{board}");
    let space = page.view("view=space").await;
    assert!(space.contains(&first) && space.contains("value=\"merge\""), "{space}");
    let post =
        [("space", "default"), ("what", "decision/scope"), ("title", ""), ("content", "We send mail.")];
    assert_eq!(page.form("post", &post).await.status, 204);
    let brief = page.view("view=brief&id=default&agent=gate-01").await;
    assert!(brief.contains("We send mail.") && brief.contains("in force of type scope"), "{brief}");
    // The proposal waits in the inbox, and is merged there.
    let inbox = page.view("view=inbox").await;
    assert!(inbox.contains(&first) && inbox.contains("data-waiting=\"1\""), "{inbox}");
    let merge =
        [("space", "default"), ("entry", &*first), ("version", "1"), ("change", "merge"), ("reason", "")];
    let merged = page.form("entry", &merge).await;
    assert_eq!(merged.status, 204, "{merged:?}");
    assert!(page.view("view=inbox").await.contains("data-waiting=\"0\""));
    let entry = at_board(&cluster, Method::GET, &format!("entries/{first}"), None).await.body;
    assert_eq!((&entry["state"], &entry["changedBy"]), (&json!("merged"), &json!("user:local")), "{entry}");

    // A page of the space is told of what is posted there.
    let mut stream = page.request(Method::GET, "console/stream?view=space").send().await.unwrap();
    let told = tokio::time::timeout(std::time::Duration::from_secs(30), async {
        let (mut text, mut second) = (String::new(), None);
        while !text.contains("\"entries\"") {
            text.push_str(&String::from_utf8_lossy(&stream.chunk().await.unwrap().unwrap()));
            if second.is_none() && text.contains("\n\n") {
                second = Some(propose(&cluster, "second").await);
            }
        }
        second.unwrap()
    });
    let second = told.await.expect("the page is told");

    // A caller has its own rights at the board, not those of the registry.
    let alice = super::alice(&cluster.registry.url).await;
    let hers = alice.view("view=space").await;
    assert!(hers.contains(&second) && !hers.contains("value=\"merge\""), "{hers}");
    let decide = [("space", "default"), ("entry", &*second), ("version", "1"), ("change", "merge")];
    assert_eq!(refusal(&alice.form("entry", &decide).await), (403, "forbidden".to_owned()));
    let finding = [("space", "default"), ("what", "finding"), ("title", ""), ("content", "It is slow.")];
    assert_eq!(alice.form("post", &finding).await.status, 204);
    let found = at_board(&cluster, Method::GET, "entries?kind=finding", None).await.body;
    assert_eq!(found["entries"][0]["author"], "user:alice", "{found}");
    let task = gate.agent("gate-01").send(json!({ "description": "remove it", "capability": "gate" })).await;
    eventually("a signal tells of the task", async || {
        page.view(&format!("view=board&id={task}")).await.contains("data-key=\"signal-").then_some(())
    })
    .await;
    let hers = alice.view(&format!("view=board&id={task}")).await;
    assert!(!hers.contains("data-key=\"signal-"), "it is not her task: {hers}");

    // Who has not signed in, and an agent's own console, are led to the board.
    let own = Page::of_link(&link_of_gate(&cluster, &gate).await).await;
    for other in [&Page::signed_out(&cluster.registry.url), &own] {
        let board = other.view("view=board").await;
        assert!(board.contains("is in another process") && !board.contains("agent.joined"), "{board}");
        for query in ["view=space", "view=brief&agent=gate-01"] {
            let refused = other.get(&format!("console/view?{query}")).await;
            assert_eq!(refusal(&refused), (400, "invalid_field".to_owned()), "{query}");
        }
    }
    let refused = own.form("post", &finding).await;
    assert_eq!(refusal(&refused), (400, "invalid_field".to_owned()), "{refused:?}");
}

/// A link to the console of the gate, which the registry makes for the person.
async fn link_of_gate(cluster: &Cluster, gate: &crate::harness::Process) -> String {
    let token = cluster.registry.data.join("token").to_string_lossy().into_owned();
    let url = cluster.registry.url.clone();
    let run = move || {
        let args = ["console", "gate-01", "--no-open", "--url", &url, "--token", &token];
        crate::harness::mesh(&args, &[])
    };
    let (code, link, errors) = tokio::task::spawn_blocking(run).await.unwrap();
    assert_eq!(code, 0, "{errors}");
    assert!(link.starts_with(&gate.agent("gate-01").url), "{link}");
    link
}

#[tokio::test]
async fn a_board_that_gives_no_answer_is_named_and_the_rest_is_shown() {
    let (mut cluster, _gate) = processes().await;
    propose(&cluster, "first").await;
    let page = page_of_registry(&cluster).await;
    assert!(page.view("view=inbox").await.contains("data-waiting=\"1\""));
    cluster.board.kill();
    let inbox = eventually("the board is named", async || {
        let inbox = page.view("view=inbox").await;
        inbox.contains("the board is not shown").then_some(inbox)
    })
    .await;
    assert!(inbox.contains("data-waiting=\"0\""), "{inbox}");
    let board = page.get("console/view?view=board").await;
    assert_eq!(refusal(&board), (503, "blackboard_unavailable".to_owned()), "{board:?}");
}

#[tokio::test]
async fn a_link_to_a_task_without_an_agent_leads_to_the_agent_that_has_it() {
    let (cluster, gate) = processes().await;
    let agent = gate.agent("gate-01");
    let task = agent.send(json!({ "description": "remove it", "capability": "gate" })).await;
    agent.task_in(&task, &["input_required"]).await;
    let page = page_of_registry(&cluster).await;
    let shown = page.view(&format!("view=task&id={task}")).await;
    assert!(shown.contains("gate-01 runs in another process"), "{shown}");
    assert!(shown.contains(&format!("value=\"view=task&amp;id={task}&amp;agent=gate-01\"")), "{shown}");
    // An agent answers for others of its process; the one is named that has it.
    let pair = "agents: [{ agent: a-01, skills: [a], brain: { echo: {} } }, { agent: b-01, skills: [b], brain: { echo: {} } }]";
    let pair = cluster.node("pair", pair).await;
    cluster.wait_for_agents(&["a-01", "b-01"]).await;
    pair.agent("b-01").ask(json!({ "taskId": "t-of-b", "description": "hi", "capability": "b" })).await;
    let shown = page.view("view=task&id=t-of-b").await;
    assert!(shown.contains("b-01 runs in another process"), "{shown}");
    // It is not alice's.
    let alice = super::alice(&cluster.registry.url).await;
    for (page, id) in [(&page, "t-nowhere"), (&alice, &*task)] {
        let nowhere = page.get(&format!("console/view?view=task&id={id}")).await;
        assert_eq!(refusal(&nowhere), (404, "task_not_found".to_owned()));
        let text = format!("{:?}", nowhere.body);
        assert!(text.contains("no agent that answers has") && !text.contains("no answer came"), "{text}");
    }
}
