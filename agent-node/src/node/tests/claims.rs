//! Claims and cancels without a matching row or task.

use super::*;
use patterns::contract_net::Auction;
use store::Write;
use transport::http_client::ClientRequest;

/// A store that writes commits of claims and never answers them, as in a crash.
fn unanswered_claims(kept: SharedStore) -> SharedStore {
    intercepting_store::InterceptingStore::new(kept, |store, lane, batch| {
        let claims =
            batch.writes.iter().any(|write| write.key().to_string().starts_with("manager-01.claim."));
        let committed = store.commit(lane, batch);
        match claims {
            true => Box::pin(async move {
                committed.await?;
                std::future::pending().await
            }),
            false => committed,
        }
    })
}

fn below(topic: &str) -> Filter {
    let (owner, topic) = topic.split_once('.').unwrap();
    Filter::Below(Key::new(&[owner, topic]))
}

#[actix::test]
async fn a_claim_without_a_row_after_a_restart_is_given_up_and_awarded_again() {
    let kept = store::memory::new();
    let auction = Auction { bid_window_ms: 200, ..Auction::default() };
    let start_node = |store: SharedStore| {
        let agents = vec![
            agent_spec("builder-01", "build", 0.0, 1_000),
            agent_spec("manager-01", "manage", 0.0, 1_000),
        ];
        let mesh = MeshConfig { auction: auction.clone(), ..MeshConfig::default() };
        start(NodeSetup { store, mesh, ..setup(agents) })
    };
    let running = start_node(unanswered_claims(kept.clone())).await.unwrap();
    let url =
        |running: &RunningNode| format!("http://{}", running.agents[&AgentId::parse("manager-01").unwrap()]);
    let client = transport::http_client::tls::client().no_proxy().build().unwrap();
    let request = json!({ "fromAgentId": "me", "toAgentId": "manager-01", "type": "task-request",
        "payload": { "taskId": "t-1", "description": "hello", "capability": "build" } });
    client.post(format!("{}/a2a/messages", url(&running))).json(&request).send().await.unwrap();
    let claimed = async {
        loop {
            let rows = kept.read(&below("manager-01.claim"), 0, 10).unwrap();
            if let Some(row) = rows.first() {
                return row.key.clone();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let claim = tokio::time::timeout(Duration::from_secs(20), claimed).await.unwrap();
    running.stop(Duration::ZERO).await;
    let deletion = Batch { writes: vec![Write::Delete(claim)], expectations: Vec::new() };
    kept.commit(Lane::Progress, deletion).await.unwrap();
    let running = start_node(kept.clone()).await.unwrap();
    let done = async {
        loop {
            let task: Value = client
                .get(format!("{}/a2a/tasks/t-1", url(&running)))
                .send()
                .await
                .unwrap()
                .json()
                .await
                .unwrap();
            if task["status"]["state"] == "TASK_STATE_COMPLETED" {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), done).await.expect("it is awarded in another round");
    running.stop(Duration::ZERO).await;
}

#[actix::test]
async fn a_cancel_without_an_epoch_declines_every_later_award() {
    let setup = setup(vec![agent_spec("builder-01", "build", 0.0, 1_000)]);
    let (store, secret) = (setup.store.clone(), setup.secret.clone());
    let running = start(setup).await.unwrap();
    let url = format!("http://{}/a2a/messages", running.agents[&AgentId::parse("builder-01").unwrap()]);
    let wire = manager(secret, &running).await;
    let post = async |id: &str, kind: &str, payload: Value| -> Value {
        let body = json!({ "messageId": id, "fromAgentId": "manager-01", "toAgentId": "builder-01", "type": kind, "payload": payload });
        wire.json(ClientRequest::post(&url, "builder-01", body.to_string().into()).message_id(id))
            .await
            .unwrap()
    };
    post("m-1", "task-cancel", json!({ "taskId": "t-1" })).await;
    let spec = json!({ "taskId": "t-1", "description": "x", "root": "user:local" });
    for epoch in [5, u64::MAX / 2] {
        let award = json!({ "taskId": "t-1", "epoch": epoch, "leaseMs": 60_000, "task": spec });
        let ack = post(&format!("award-{epoch}"), "award", award).await;
        let journal = Key::new(&["builder-01", "journal", ack["conversationId"].as_str().unwrap()]);
        let step = store.latest(&journal).unwrap().unwrap();
        let step = String::from_utf8(step.value.to_vec()).unwrap();
        assert!(step.contains("award-decline") && step.contains("cancelled before it came"), "{step}");
    }
    assert!(store.read(&below("builder-01.task"), 0, 10).unwrap().is_empty(), "no task was begun");
    running.stop(Duration::ZERO).await;
}
