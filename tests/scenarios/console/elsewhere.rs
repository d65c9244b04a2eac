//! The console of the registry shows what waits and runs at agents of other processes, answers there, and leads there.

use super::{Page, with_form};
use crate::harness::{Process, call, cluster::Cluster, eventually, mesh, read_answer, state};
use reqwest::Method;
use serde_json::json;

const CALLERS: &str = "mesh: { callers: [{ user: alice, apiKey: alices-own-key-0001 }] }";
const GATE: &str =
    "agents: [{ agent: gate-01, open: true, skills: [gate], brain: { scripted: script.yaml } }]";
const SCRIPT: &str = "
turns:
  - when: { contains: remove it, turn: 1 }
    say: [{ type: question, id: rm, text: delete it?, kind: approval, call: { name: rm, args: { path: /x } } }]
  - { end: { done: deleted } }
";

pub(super) async fn processes() -> (Cluster, Process) {
    let cluster = Cluster::start_with(Some(CALLERS)).await;
    std::fs::write(cluster.path("script.yaml"), SCRIPT).unwrap();
    let gate = cluster.node("gate", &format!("{GATE}\n{CALLERS}")).await;
    cluster.wait_for_agents(&["gate-01"]).await;
    (cluster, gate)
}

/// The page of the registry that the link of `mesh console` opens.
pub(super) async fn page_of_registry(cluster: &Cluster) -> Page {
    let token = cluster.registry.data.join("token").to_string_lossy().into_owned();
    let args = ["console", "--no-open", "--url", &cluster.registry.url, "--token", &token];
    let (code, link, errors) = mesh(&args, &[]);
    assert_eq!(code, 0, "{errors}");
    Page::of_link(link.trim()).await
}

#[tokio::test]
async fn the_registry_shows_and_answers_what_waits_in_another_process_and_leads_there() {
    let (cluster, gate) = processes().await;
    let agent = gate.agent("gate-01");
    let task = agent.send(json!({ "description": "remove it", "capability": "gate" })).await;
    agent.task_in(&task, &["input_required"]).await;
    let page = page_of_registry(&cluster).await;

    // Its question is in the inbox and its task in the list; the filters count there, too.
    let inbox = page.view("view=inbox").await;
    assert!(inbox.contains("delete it?") && inbox.contains("data-waiting=\"1\""), "{inbox}");
    for (query, is_there) in
        [("state=open", true), ("state=ended", false), ("waiting_for=person", true), ("text=nothing", false)]
    {
        let list = page.view(&format!("view=tasks&{query}")).await;
        assert_eq!(list.contains(&task), is_there, "{query}: {list}");
    }

    // The approval counts, though no process is an approver of another.
    let asked = agent.task(&task).await;
    let id = asked["metadata"][protocol::task::EXTENSION]["questions"][0]["id"].as_str().unwrap().to_owned();
    let unseen = [("agent", "gate-01"), ("task", &*task), ("question", &*id), ("decision", "approve")];
    assert_eq!(page.form("answer", &unseen).await.status, 409, "not what was shown");
    let seen = super::shown(&inbox);
    let fields = [&unseen[..], &[("shown", &*seen)]].concat();
    assert_eq!(page.form("answer", &fields).await.status, 204);
    let done = agent.task_in(&task, &["completed", "failed"]).await;
    assert_eq!(state(&done), "completed", "{done:#}");
    let again = page.form("answer", &fields).await;
    assert!(again.status >= 400, "answered before: {again:?}");

    // Its page is in its own console, where the registry signs the person in, once.
    let view = page.view(&format!("view=task&agent=gate-01&id={task}")).await;
    assert!(view.contains("runs in another process") && !view.contains("deleted"), "{view}");
    let to = format!("view=task&id={task}&agent=gate-01");
    let gone = page.form("elsewhere", &[("agent", "gate-01"), ("to", &to)]).await;
    let link = gone.headers["mesh-console-go"].to_str().unwrap().to_owned();
    let (address, code) = link.split_once("#code=").unwrap();
    assert_eq!(address, format!("{}/?{to}", agent.url.trim_end_matches('/')));
    let there = Page::of_link(&format!("{}/#code={code}", agent.url.trim_end_matches('/'))).await;
    let view = there.view(&to).await;
    assert!(view.contains("deleted"), "{view}");
    assert_eq!(super::redeem(&agent.url, code).await.status, 401, "the link is void");
}

#[tokio::test]
async fn a_caller_sees_its_own_of_other_processes_and_who_gives_no_answer_is_named() {
    let (cluster, mut gate) = processes().await;
    let agent = gate.agent("gate-01");
    let task = agent.send(json!({ "description": "remove it", "capability": "gate" })).await;
    agent.task_in(&task, &["input_required"]).await;
    let alice = super::alice(&cluster.registry.url).await;
    assert!(!alice.view("view=inbox").await.contains("delete it?"), "it is the person's");
    assert!(!alice.view("view=tasks").await.contains(&task));
    let stranger = Page::signed_out(&cluster.registry.url);
    assert!(!stranger.view("view=inbox").await.contains("delete it?"), "no credential");
    let fields = [("agent", "gate-01")];
    let request = stranger.request(Method::POST, "console/elsewhere").header("origin", &cluster.registry.url);
    assert!(read_answer(with_form(request, &fields).send().await.unwrap()).await.status >= 400);

    let page = page_of_registry(&cluster).await;
    assert!(page.view("view=inbox").await.contains("delete it?"));
    gate.kill();
    eventually("the page says who is silent, or that it is gone", async || {
        let inbox = page.view("view=inbox").await;
        (!inbox.contains("delete it?")).then_some(())
    })
    .await;
    // Also once its lease is over: its question waits until it is back.
    eventually("the agent is away", async || {
        let url = format!("{}/registry/agents?includeDead=true", cluster.registry.url);
        let listed = call(Method::GET, &url, None).await;
        let mut agents = listed.body["agents"].as_array()?.iter();
        agents.any(|entry| entry["card"]["agentId"] == "gate-01" && entry["state"] == "dead").then_some(())
    })
    .await;
    for query in ["view=inbox", "view=tasks", "view=sessions"] {
        let shown = page.view(query).await;
        assert!(shown.contains("gate-01 is not shown: no answer from there"), "{query}: {shown}");
    }
    let path = format!("console/view?view=task&agent=gate-01&id={task}");
    let request = page.request(Method::GET, &path).header("accept", "text/html");
    let shown = request.send().await.unwrap().text().await.unwrap();
    assert!(shown.contains("gate-01 is away"), "{shown}");
}

#[tokio::test]
async fn the_map_shows_the_person_which_agents_of_all_processes_send_messages_to_which() {
    let (cluster, gate) = processes().await;
    let digger =
        "agents: [{ agent: dig-01, open: true, skills: [dig], brain: { exec: [sh, -c, 'exit 3'] } }]";
    let _digger = cluster.node("dig", digger).await;
    cluster.wait_for_agents(&["gate-01", "dig-01"]).await;
    let (page, alice) = (page_of_registry(&cluster).await, super::alice(&cluster.registry.url).await);
    assert!(!page.view("view=mesh").await.contains("class=\"edge\""), "nothing was sent");
    let task = gate.agent("gate-01").ask(json!({ "description": "x", "capability": "dig" })).await;
    assert_eq!(state(&task), "failed", "{task:#}");
    eventually("heartbeats tell of the messages", async || {
        let map = page.view("view=mesh").await;
        let ways = ["gate-01 \u{2192} dig-01: ", "dig-01 \u{2192} gate-01: "];
        ways.iter().all(|way| map.contains(way)).then_some(())
    })
    .await;
    let token = cluster.registry.data.join("token").to_string_lossy().into_owned();
    let (_, told, _) = mesh(&["ls", "--sent", "--url", &cluster.registry.url, "--token", &token], &[]);
    assert!(told.lines().any(|line| line.contains("gate-01") && line.contains("dig-01")), "{told}");

    // Counts tell of work that others may not see.
    assert!(!alice.view("view=mesh").await.contains("class=\"edge\""));
    let all = crate::harness::text(&format!("{}/registry/agents", cluster.registry.url)).await;
    assert!(all.contains("gate-01") && !all.contains("\"sent\""), "{all}");

    // What has failed last is told where it is hosted.
    let url = gate.agent("gate-01").url;
    let (code, link, errors) = mesh(&["console", "--no-open", "--at", &url, "--token", &token], &[]);
    assert_eq!(code, 0, "{errors}");
    let own = Page::of_link(link.trim()).await;
    for query in ["view=mesh", "view=agent&agent=gate-01"] {
        let shown = own.view(query).await;
        assert!(shown.contains("last failure") && shown.contains("code 3"), "{query}: {shown}");
    }
}
