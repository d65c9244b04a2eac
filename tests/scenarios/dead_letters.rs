//! Messages that were given up: stored with their reason, listed, sent again.

use super::console::{Page, link};
use crate::harness::{
    Process, bidder, call, eventually, get, mesh,
    peer::{NO_ANSWER, Peer, now},
    refusal, state,
};
use protocol::time::WallTime;
use reqwest::Method;
use serde_json::{Value, json};

const TEAM: &str = "
mesh: { limits: { messageLifeMs: 4000 } }
agents:
  - { agent: asker-01, open: true, bid: { maxParallel: 4 }, brain: { scripted: script.yaml } }
";

const SCRIPT: &str = "
turns:
  - { when: { contains: many, turn: 1 }, say: [
      { type: delegate, id: a, to: peer-01, description: one }, { type: delegate, id: b, to: peer-01, description: two },
      { type: delegate, id: c, to: peer-01, description: three } ] }
  - { when: { turn: 1 }, say: [{ type: delegate, id: d, to: peer-01, description: dig }] }
  - { end: { done: went on without } }
";

async fn letters(mesh: &Process) -> Vec<Value> {
    let all = get(&format!("{}/a2a/dead-letters", mesh.agent("asker-01").url)).await;
    all["deadLetters"].as_array().unwrap().clone()
}

/// A peer that has left and an expired message to it; returns the mesh and the task.
async fn with_a_dead_letter() -> (Process, Value) {
    let mesh = Process::up_beside(TEAM, &[("script.yaml", SCRIPT)]).await;
    Peer::join(&mesh, "peer-01", "dig").await.leave(&mesh).await;
    let task = mesh.agent("asker-01").ask(json!({ "description": "dig" })).await;
    assert_eq!(state(&task), "completed", "the requester gets the reason and goes on: {task:#}");
    let letters = letters(&mesh).await;
    assert_eq!(letters.len(), 1, "{letters:#?}");
    (mesh, letters[0].clone())
}

#[tokio::test]
async fn a_message_to_a_departed_peer_becomes_a_dead_letter_with_its_reason() {
    let (mesh, letter) = with_a_dead_letter().await;
    let agent = mesh.agent("asker-01");
    for (member, value) in
        [("from", "asker-01"), ("to", "peer-01"), ("type", "task-request"), ("reason", "agent_departed")]
    {
        assert_eq!(letter[member], value, "{letter:#}");
    }
    let id = letter["messageId"].as_str().unwrap();
    let whole = get(&format!("{}/a2a/dead-letters/{id}", agent.url)).await;
    assert_eq!(whole["letter"]["payload"]["description"], "dig", "{whole:#}");
    assert_eq!(whole["letter"]["messageId"], id);

    let missing = call(Method::GET, &format!("{}/a2a/dead-letters/nothing", agent.url), None).await;
    assert_eq!(refusal(&missing), (404, "message_not_found".into()));
    let by_agent = mesh.client_as("peer-02").get(&agent, "/a2a/dead-letters").await;
    assert_eq!(refusal(&by_agent), (403, "forbidden".into()));
}

#[tokio::test]
async fn a_dead_letter_is_delivered_once_the_peer_is_back() {
    let (mesh, letter) = with_a_dead_letter().await;
    let agent = mesh.agent("asker-01");
    let id = letter["messageId"].as_str().unwrap();
    let redrive = format!("{}/a2a/dead-letters/{id}/redrive", agent.url);

    let too_soon = call(Method::POST, &redrive, None).await;
    assert_eq!((too_soon.status, &too_soon.body["messageId"]), (202, &json!(id)), "{too_soon:?}");
    eventually("the redelivery to fail", async || {
        agent.state().await["conversations"]["redelivery"].is_null().then_some(())
    })
    .await;
    assert_eq!(letters(&mesh).await.len(), 1, "it stays until it is delivered");

    let peer = Peer::join(&mesh, "peer-01", "dig").await;
    assert_eq!(call(Method::POST, &redrive, None).await.status, 202);
    let heard = peer.wait_for("task-request").await;
    assert_eq!((&heard["messageId"], &heard["payload"]["description"]), (&json!(id), &json!("dig")));
    eventually("no dead letter", async || letters(&mesh).await.is_empty().then_some(())).await;
}

#[tokio::test]
async fn a_dead_letter_is_shown_and_sent_again_on_a_page() {
    let (mesh, letter) = with_a_dead_letter().await;
    let id = letter["messageId"].as_str().unwrap();
    let page = Page::of_link(&link(&mesh, &["asker-01"]).await).await;
    let health = page.view("view=health").await;
    assert!(
        health.contains("Dead letters") && health.contains(id) && health.contains("agent_departed"),
        "{health}"
    );
    let peer = Peer::join(&mesh, "peer-01", "dig").await;
    let sent = page.form("redrive", &[("agent", "asker-01"), ("message", id)]).await;
    assert_eq!(sent.status, 204, "{sent:?}");
    assert_eq!(peer.wait_for("task-request").await["messageId"], id);
    eventually("no dead letter", async || {
        (!page.view("view=health").await.contains("Dead letters")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_expired_dead_letter_is_sent_with_a_new_expiry() {
    let team = TEAM.replace("mesh: { limits: { messageLifeMs: 4000 } }", "");
    let mesh = Process::up_beside(&team, &[("script.yaml", SCRIPT)]).await;
    let peer = Peer::join(&mesh, "peer-01", "dig").await;
    peer.answer_with(503);
    let agent = mesh.agent("asker-01");
    let soon = WallTime(i64::try_from(now()).unwrap() * 1_000 + 10_000).to_string();
    let task = agent.send(json!({ "description": "dig", "deadline": soon })).await;
    agent.task_in(&task, &["failed"]).await;
    let letter = eventually("a dead letter", async || {
        letters(&mesh).await.into_iter().find(|letter| letter["type"] == "task-request")
    })
    .await;
    let id = letter["messageId"].as_str().unwrap();
    peer.answer_with(202);
    let attempts = peer.received().len();
    let redrive = format!("{}/a2a/dead-letters/{id}/redrive", agent.url);
    eventually("it to be late for peers", async || (now() > before(&soon)).then_some(())).await;
    assert_eq!(call(Method::POST, &redrive, None).await.status, 202);
    eventually("it is delivered", async || {
        letters(&mesh).await.iter().all(|letter| letter["messageId"] != id).then_some(())
    })
    .await;
    let heard = peer.received().split_off(attempts);
    let of_letter: Vec<_> = heard.iter().filter(|message| message["messageId"] == id).collect();
    assert_eq!(of_letter.len(), 2, "as it was, then with a new life: {heard:#?}");
    assert_eq!((&of_letter[0]["expiresAt"], &of_letter[1]["expiresAt"]), (&json!(soon), &Value::Null));
}

fn before(at: &str) -> u64 {
    u64::try_from(WallTime::parse(at).unwrap().0 / 1_000).unwrap()
}

#[tokio::test]
async fn the_command_lists_shows_and_redrives_dead_letters() {
    let (mesh_process, letter) = with_a_dead_letter().await;
    let id = letter["messageId"].as_str().unwrap().to_owned();
    let url = mesh_process.url.clone();
    let dlq = async |args: &[&str]| {
        let (args, url) =
            (["dlq"].iter().chain(args).map(|arg| (*arg).to_owned()).collect::<Vec<_>>(), url.clone());
        let run = move || {
            let args: Vec<_> = args.iter().map(String::as_str).collect();
            mesh(&args, &[("MESH_URL", &url)])
        };
        tokio::task::spawn_blocking(run).await.unwrap()
    };
    let (code, listed, errors) = dlq(&["ls"]).await;
    assert_eq!(code, 0, "{errors}");
    assert!(listed.contains(&id) && listed.contains("agent_departed"), "{listed}");
    let (code, listed, _) = dlq(&["ls", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((code, &listed["deadLetters"][0]["messageId"]), (0, &json!(id)), "{listed:#}");
    let (code, shown, errors) = dlq(&["show", &id]).await;
    assert!(code == 0 && shown.contains("\"dig\""), "{code}: {shown} {errors}");
    let peer = Peer::join(&mesh_process, "peer-01", "dig").await;
    let (code, _, errors) = dlq(&["redrive", &id]).await;
    assert_eq!(code, 0, "{errors}");
    assert_eq!(peer.wait_for("task-request").await["messageId"], json!(id));
    eventually("no dead letter", async || letters(&mesh_process).await.is_empty().then_some(())).await;
    let (code, _, errors) = dlq(&["show", &id]).await;
    assert!(code != 0 && errors.contains(&id), "{code} {errors}");
}

#[tokio::test]
async fn a_refused_message_becomes_a_dead_letter_at_once_with_the_peers_reason() {
    let mesh = Process::up_beside(TEAM, &[("script.yaml", SCRIPT)]).await;
    let peer = Peer::join(&mesh, "peer-01", "dig").await;
    peer.answer_with(422);
    let task = mesh.agent("asker-01").ask(json!({ "description": "dig" })).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    let letters = letters(&mesh).await;
    assert_eq!((letters.len(), &letters[0]["message"]), (1, &json!("the test says so")), "{letters:#?}");
    assert_eq!(peer.received().len(), 1, "a refusal is not tried again");
}

#[tokio::test]
async fn an_overloaded_peer_does_not_fill_the_outbox() {
    let team = TEAM.replace("messageLifeMs: 4000", "maxOutboxPerPeer: 2");
    let mesh = Process::up_beside(&team, &[("script.yaml", SCRIPT)]).await;
    let peer = Peer::join(&mesh, "peer-01", "dig").await;
    peer.answer_with(NO_ANSWER);
    mesh.agent("asker-01").send(json!({ "description": "many" })).await;
    let dead = eventually("a dead letter", async || letters(&mesh).await.into_iter().next()).await;
    assert_eq!(dead["reason"], "overloaded", "{dead:#}");
    assert!(dead["message"].as_str().unwrap().contains("the limit is 2"), "{dead:#}");
}

#[tokio::test]
async fn a_peer_that_refuses_connections_is_not_called_overloaded() {
    let mesh = Process::up_beside(TEAM, &[("script.yaml", SCRIPT)]).await;
    let signer = bidder::wire("gone-01", &bidder::secret_of(&mesh));
    let card = bidder::card("gone-01", "http://127.0.0.1:1", "dig", &json!({}));
    bidder::register(&mesh.url, &signer, &card, "gone-01").await.unwrap();
    mesh.agent("asker-01").send(json!({ "description": "x", "capability": "dig" })).await;
    let line = eventually("the line", async || {
        let log = mesh.log();
        log.lines().find(|line| line.contains("given up") && line.contains("cfp")).map(str::to_owned)
    })
    .await;
    assert!(line.contains("recipient_unreachable") && !line.contains("overloaded"), "{line}");
}
