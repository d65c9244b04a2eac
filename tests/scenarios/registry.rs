//! Membership: joining, leaving, falling silent, being found, and two processes with one agent id (SEEDS §9, 10-12).

use crate::harness::{
    Process,
    bidder::{self, Bidder},
    call,
    cluster::{Cluster, SECRET},
    eventually, get, state, test_identity,
};
use protocol::problem::Reason;
use reqwest::Method;
use serde_json::{Value, json};

const TEAM: &str = "
agents:
  - agent: echo-01
    skills: [echo]
    brain: { echo: {} }
";

async fn left(mesh: &Process, agent: &str) -> Value {
    mesh.signal_where("agent.left", |signal| signal["subject"] == agent).await
}

async fn found(mesh: &Process, query: &str) -> Vec<String> {
    let answer = get(&format!("{}/registry/agents?{query}", mesh.url)).await;
    let agents = answer["agents"].as_array().unwrap_or_else(|| panic!("{answer:#}"));
    agents.iter().map(|entry| entry["card"]["agentId"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_join_is_announced_and_a_deregistered_agent_is_gone_at_once() {
    let mesh = Process::up(TEAM).await;
    let mut guest = Bidder::join(&mesh, "guest-01", "paint", json!({})).await;
    let joined = mesh.signal_where("agent.joined", |signal| signal["subject"] == "guest-01").await;
    assert_eq!((&joined["from"], &joined["refs"]["endpoint"]), (&json!("registry"), &json!(guest.endpoint)));
    assert_eq!(found(&mesh, "capability=paint").await, ["guest-01"]);
    guest.leave().await;
    assert_eq!(found(&mesh, "capability=paint").await, Vec::<String>::new());
    assert_eq!(left(&mesh, "guest-01").await["refs"]["reason"], "deregistered");
    assert_eq!(found(&mesh, "capability=paint&includeDead=true").await, ["guest-01"]);
    let echo = mesh.agent("echo-01");
    let refused = eventually("the departure known to peers", async || {
        let mut request = echo.request(json!({ "description": "paint" }));
        request["toAgentId"] = json!("guest-01");
        let answer = echo.post(&request).await;
        (answer.status != 421).then_some(answer)
    })
    .await;
    assert_eq!((refused.status, &refused.body["reasonCode"]), (410, &json!("agent_departed")), "{refused:?}");
}

#[tokio::test]
async fn the_catalog_and_its_entries_have_the_media_types_of_the_format() {
    let mesh = Process::up(TEAM).await;
    mesh.entry_where("echo-01", |entry| entry["state"] == "alive").await;
    let answer = call(Method::GET, &format!("{}/.well-known/ai-catalog.json", mesh.url), None).await;
    assert_eq!(answer.headers["content-type"], "application/ai-catalog+json");
    let entry = &answer.body["entries"][0];
    assert_eq!(entry["mediaType"], "application/a2a-agent-card+json", "{answer:?}");
    assert_eq!(entry["url"], format!("{}/.well-known/agent-card.json", mesh.agent("echo-01").url));
}

#[tokio::test]
async fn a_silent_agent_is_suspected_then_expired_and_must_register_again() {
    let mesh = Process::up(TEAM).await;
    let mut silent = Bidder::join(&mesh, "silent-01", "paint", json!({})).await;
    let lively = Bidder::join(&mesh, "lively-01", "paint", json!({})).await;
    mesh.entry_where("silent-01", |entry| entry["state"] == "alive").await;
    silent.stop_heartbeats();
    mesh.entry_where("silent-01", |entry| entry["state"] == "suspect").await;
    assert_eq!(found(&mesh, "capability=paint").await, ["lively-01", "silent-01"], "suspects last");
    mesh.entry_where("silent-01", |entry| entry["state"] == "dead").await;
    assert_eq!(left(&mesh, "silent-01").await["refs"]["reason"], "expired");
    assert_eq!(found(&mesh, "capability=paint").await, ["lively-01"]);
    mesh.entry_where("lively-01", |entry| entry["state"] == "alive").await;
    assert_eq!(lively.send_heartbeat().await, Ok(()), "heartbeats kept it for longer than a lease");
    let told = silent.send_heartbeat().await.unwrap_err();
    assert_eq!(told.reason, Reason::AgentNotFound, "{told:?}");
    assert!(told.message.contains("register"), "{}", told.message);
    let again = Bidder::join(&mesh, "silent-01", "paint", json!({})).await;
    assert!(again.incarnation > silent.incarnation);
    mesh.entry_where("silent-01", |entry| entry["state"] == "alive").await;
}

#[tokio::test]
async fn a_stopped_node_that_expired_registers_again() {
    let cluster = Cluster::start().await;
    let node = cluster.node("node", TEAM).await;
    cluster.wait_for_agents(&["echo-01"]).await;
    let first = cluster.registry.entry_where("echo-01", |entry| entry["state"] == "alive").await;
    node.signal("STOP");
    assert_eq!(left(&cluster.board, "echo-01").await["refs"]["reason"], "expired");
    node.signal("CONT");
    let second = cluster.registry.entry_where("echo-01", |entry| entry["state"] == "alive").await;
    assert!(second["incarnation"].as_u64() > first["incarnation"].as_u64(), "{first} {second}");
    assert_eq!(
        state(&node.agent("echo-01").ask(json!({ "description": "hello", "capability": "echo" })).await),
        "completed"
    );
}

#[tokio::test]
async fn agents_are_found_by_capability_in_the_requested_order() {
    let mesh = Process::up(TEAM).await;
    let terms = |cost: f64, places: u32| json!({ "cost": cost, "maxParallel": places });
    let mut dear = Bidder::join(&mesh, "a-dear", "paint", terms(3.0, 4)).await;
    let mut middle = Bidder::join(&mesh, "b-middle", "paint", terms(2.0, 4)).await;
    let mut cheap = Bidder::join(&mesh, "c-cheap", "paint", terms(1.0, 1)).await;
    let _other = Bidder::join(&mesh, "d-other", "cook", terms(0.0, 1)).await;
    assert_eq!(found(&mesh, "capability=paint").await, ["a-dear", "b-middle", "c-cheap"]);
    assert_eq!(found(&mesh, "capability=paint&prefer=cheapest").await, ["c-cheap", "b-middle", "a-dear"]);
    for (peer, running) in [(&mut dear, 1), (&mut middle, 0), (&mut cheap, 1)] {
        peer.stop_heartbeats();
        eventually("the load told", async || {
            bidder::send_heartbeat(
                &mesh.url,
                &bidder::wire(&peer.id, &bidder::secret_of(&mesh)),
                &peer.id,
                peer.incarnation,
                running,
            )
            .await
            .unwrap();
            let entry = get(&format!("{}/registry/agents/{}", mesh.url, peer.id)).await;
            (entry["running"] == running).then_some(())
        })
        .await;
    }
    assert_eq!(
        found(&mesh, "capability=paint&prefer=least-loaded").await,
        ["b-middle", "a-dear", "c-cheap"],
        "by the share in use"
    );
    assert_eq!(found(&mesh, "capability=paint&capability=cook&match=any").await.len(), 4);
    assert_eq!(found(&mesh, "capability=paint&capability=cook&match=all").await, Vec::<String>::new());
    assert_eq!(found(&mesh, "capability=nothing").await, Vec::<String>::new());
    let busy = json!({ "incarnation": dear.incarnation, "running": 0, "accepting": false });
    let wire = bidder::wire("a-dear", &bidder::secret_of(&mesh));
    let url = format!("{}/registry/agents/a-dear/heartbeat", mesh.url);
    let body = bytes::Bytes::from(busy.to_string());
    wire.bytes(transport::http_client::ClientRequest::new(Method::PUT, &url, "registry").body(body))
        .await
        .unwrap();
    assert_eq!(
        found(&mesh, "capability=paint").await.last().unwrap(),
        "a-dear",
        "who takes no more comes last"
    );
    let refused = call(Method::GET, &format!("{}/registry/agents?prefer=prettiest", mesh.url), None).await;
    assert_eq!(refused.status, 400);
    assert!(refused.body["error"]["message"].as_str().unwrap().contains("least-loaded"), "{refused:?}");
}

#[tokio::test]
async fn the_same_agent_in_a_second_process_supersedes_the_first_whose_exit_changes_nothing() {
    let cluster = Cluster::start().await;
    let mut old = cluster.node("old", TEAM).await;
    let first = cluster.registry.entry_where("echo-01", |entry| entry["state"] == "alive").await;
    cluster.copy_keys("old", "new");
    let new = cluster.node("new", TEAM).await;
    let endpoint = json!(new.agents["echo-01"]);
    let is_new = |entry: &Value| entry["card"]["endpoint"] == endpoint && entry["state"] == "alive";
    let second = cluster.registry.entry_where("echo-01", is_new).await;
    assert!(second["incarnation"].as_u64() > first["incarnation"].as_u64());
    assert_eq!(left(&cluster.board, "echo-01").await["refs"]["reason"], "superseded");
    let superseded = old.agent("echo-01");
    let refused = eventually("the old one takes nothing new", async || {
        let answer = superseded
            .post(&superseded.request(json!({ "description": "hello", "capability": "echo" })))
            .await;
        (answer.status == 503).then_some(answer)
    })
    .await;
    assert_eq!(refused.body["reasonCode"], "draining", "{refused:?}");
    old.signal("TERM");
    assert_eq!(old.ended().await, 0);
    let entry = cluster.registry.entry_where("echo-01", is_new).await;
    assert_eq!(entry["incarnation"], second["incarnation"], "the new one stays");
    let lefts = cluster.board.signals("agent.left").await;
    assert_eq!(lefts.len(), 1, "nothing but the takeover is told: {lefts:#?}");
    assert_eq!(
        state(&new.agent("echo-01").ask(json!({ "description": "hello", "capability": "echo" })).await),
        "completed"
    );
}

#[tokio::test]
async fn a_taken_agent_id_cannot_be_registered_by_another() {
    let cluster = Cluster::start().await;
    let node = cluster.node("node", TEAM).await;
    cluster.wait_for_agents(&["echo-01"]).await;
    let card = bidder::card("echo-01", "http://127.0.0.1:1", "echo", &json!({}));
    let url = &cluster.registry.url;
    let forger = bidder::wire("echo-01", "another secret of the same length, not this mesh's");
    let forged = bidder::register(url, &forger, &card, "x").await.unwrap_err();
    assert_eq!(forged.reason, Reason::Unauthenticated, "{forged:?}");
    let colleague = bidder::wire("colleague-01", SECRET);
    let foreign = bidder::register(url, &colleague, &card, "x").await.unwrap_err();
    assert_eq!(foreign.reason, Reason::AgentIdTaken, "{foreign:?}");
    let unsigned = call(
        Method::POST,
        &format!("{url}/registry/agents"),
        Some(&json!({ "card": card, "instance": "x" })),
    )
    .await;
    assert_eq!(unsigned.status, 403, "{unsigned:?}");
    let incarnation =
        cluster.registry.entry_where("echo-01", |entry| entry["state"] == "alive").await["incarnation"]
            .as_u64()
            .unwrap();
    let goodbye = bidder::deregister(url, &colleague, "echo-01", incarnation).await.unwrap_err();
    assert_eq!(goodbye.reason, Reason::AgentIdTaken, "{goodbye:?}");
    let stolen = bidder::register(url, &bidder::wire("echo-01", SECRET), &card, "x").await.unwrap_err();
    assert_eq!(stolen.reason, Reason::KeyMismatch, "{stolen:?}");
    let own = bidder::wire_with(test_identity(&node.data, "echo-01"), SECRET);
    let old = bidder::deregister(url, &own, "echo-01", incarnation - 1).await.unwrap_err();
    assert_eq!(old.reason, Reason::StaleIncarnation, "{old:?}");
    let entry = cluster.registry.entry_where("echo-01", |entry| entry["state"] == "alive").await;
    assert_eq!(entry["card"]["endpoint"], json!(node.agents["echo-01"]));
}

#[tokio::test]
async fn nodes_that_start_before_registry_and_board_join_later() {
    let mut cluster = Cluster::start().await;
    cluster.registry.kill();
    cluster.board.kill();
    let node = cluster.node("node", TEAM).await;
    let agent = node.agent("echo-01");
    let ready = call(Method::GET, &format!("{}/readyz", agent.url), None).await;
    assert_eq!(ready.status, 503, "{ready:?}");
    assert_eq!(ready.body["checks"]["registry"]["ok"], false, "it names what is broken: {ready:?}");
    assert_eq!(ready.body["checks"]["blackboard"]["ok"], false, "{ready:?}");
    let task = agent.ask(json!({ "taskId": "t-1", "description": "hello", "capability": "echo" })).await;
    assert_eq!(state(&task), "completed", "its own work needs neither: {task:#}");
    cluster.registry.revive().await;
    cluster.board.revive().await;
    cluster.wait_for_agents(&["echo-01"]).await;
    cluster.board.signal_where("agent.joined", |signal| signal["subject"] == "echo-01").await;
    cluster.board.signal_where("task.complete", |signal| signal["taskId"] == "t-1").await;
    eventually("readiness", async || {
        (call(Method::GET, &format!("{}/readyz", agent.url), None).await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_registry_that_lost_its_data_learns_every_live_agent_again_and_no_dead_one() {
    let mut cluster = Cluster::start().await;
    let node = cluster.node("node", TEAM).await;
    let mut other = cluster.node("other", &TEAM.replace("echo-01", "echo-02")).await;
    cluster.wait_for_agents(&["echo-01", "echo-02"]).await;
    let first = cluster.registry.entry_where("echo-01", |entry| entry["state"] == "alive").await;
    let echo = node.agent("echo-01");
    let to_the_other = async || {
        let mut request = echo.request(json!({ "description": "hello" }));
        request["toAgentId"] = json!("echo-02");
        echo.post(&request).await
    };
    eventually("both known to each other", async || (to_the_other().await.status == 421).then_some(())).await;
    cluster.registry.kill();
    other.kill();
    // All but its key: with another key, it is another registry.
    for entry in std::fs::read_dir(&cluster.registry.data).unwrap().map(Result::unwrap) {
        match entry.file_name() == "keys" {
            true => {}
            false if entry.path().is_dir() => std::fs::remove_dir_all(entry.path()).unwrap(),
            false => std::fs::remove_file(entry.path()).unwrap(),
        }
    }
    cluster.registry.revive().await;
    let again = cluster.registry.entry_where("echo-01", |entry| entry["state"] == "alive").await;
    assert!(again["incarnation"].as_u64() > first["incarnation"].as_u64(), "{first} {again}");
    let is_again = |signal: &Value| {
        signal["subject"] == "echo-01" && signal["refs"]["incarnation"] == again["incarnation"]
    };
    cluster.board.signal_where("agent.joined", is_again).await;
    // An agent that does not register again counts as alive for one lease.
    let gone = eventually("the other's end", async || {
        let answer = to_the_other().await;
        (answer.status != 421).then_some(answer)
    })
    .await;
    assert_eq!((gone.status, &gone.body["reasonCode"]), (503, &json!("agent_away")), "{gone:?}");
}
