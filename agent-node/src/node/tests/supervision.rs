//! An agent that panics outside of a pattern starts again from its store.

use super::{intercepting_store::InterceptingStore, *};
use serde_json::Value;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The panics of the agent that a test plans. They happen in reads of its store.
#[derive(Default)]
struct PlannedPanics {
    messages: AtomicU32,
    recoveries: AtomicU32,
    /// How often it has panicked over the offer of the task `poison`.
    poison: AtomicU32,
}

impl PlannedPanics {
    fn on_read(&self, key: &Key) {
        let take = |left: &AtomicU32| left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        let key = key.as_str();
        assert!(!(key.starts_with("builder-01.receipt.") && take(&self.messages)), "over a message");
        assert!(!(key == "builder-01.record" && take(&self.recoveries)), "while it recovers");
        if key.starts_with("builder-01.task.poison.") {
            self.poison.fetch_add(1, Relaxed);
            panic!("over a signal");
        }
    }
}

struct Mesh {
    running: RunningNode,
    url: String,
    panics: Arc<PlannedPanics>,
}

impl Mesh {
    async fn start() -> Self {
        Self::start_with(PlannedPanics::default()).await
    }

    async fn start_with(panics: PlannedPanics) -> Self {
        let mut builder = agent_spec("builder-01", "build", 0.0, 1_000);
        builder.settings.subscribe = vec!["task.available".into()];
        let agents = vec![builder, agent_spec("planner-01", "plan", 0.0, 1_000)];
        let panics = Arc::new(panics);
        let planned = panics.clone();
        let store = InterceptingStore::reading(store::memory::new(), move |key| planned.on_read(key));
        let running = start(NodeSetup { store, ..setup(agents) }).await.unwrap();
        let url = format!("http://{}", running.agents[&AgentId::parse("builder-01").unwrap()]);
        Self { running, url, panics }
    }

    /// Has another agent offer `task` on the board.
    async fn offer(&self, task: &str) {
        let refs = json!({ "description": "hello" });
        let payload =
            json!({ "signal": "task.available", "taskId": task, "capability": "build", "refs": refs });
        let broadcast = json!({
            "messageId": task, "fromAgentId": "me", "toAgentId": "planner-01", "type": "broadcast", "payload": payload
        });
        let planner = self.running.agents[&AgentId::parse("planner-01").unwrap()];
        let client = transport::http_client::tls::client().no_proxy().build().unwrap();
        let sent = client.post(format!("http://{planner}/a2a/messages")).json(&broadcast).send().await;
        assert!(sent.unwrap().status().is_success());
    }

    /// Has the agent panic over its next message.
    fn panic_over_message(&self) {
        self.panics.messages.store(1, Relaxed);
    }

    /// Waits until the state of the agent is as expected.
    async fn wait_for_state(&self, is_expected: impl Fn(&Value) -> bool) {
        let client = transport::http_client::tls::client().no_proxy().build().unwrap();
        let wait = async {
            loop {
                let answer = client.get(format!("{}/state", self.url)).send().await.unwrap();
                let state: Value = answer.json().await.unwrap();
                if is_expected(&state["agents"]["builder-01"]) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), wait).await.expect("the expected state");
    }

    /// Sends a task-request with the message id `id`.
    async fn ask(&self, id: &str) -> (u16, Value) {
        let payload = json!({ "taskId": format!("t-{id}"), "description": "hello", "capability": "build" });
        let request = json!({
            "messageId": id, "fromAgentId": "me", "toAgentId": "builder-01", "type": "task-request", "payload": payload
        });
        ask(&self.url, &request).await
    }

    /// Repeats the request until the agent has restarted.
    async fn ask_until_restarted(&self, id: &str) -> (u16, Value) {
        let back = async {
            loop {
                let (status, answer) = self.ask(id).await;
                if !answer["error"]["message"].to_string().contains("starting again") {
                    return (status, answer);
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), back).await.expect("the agent restarts")
    }

    async fn ready(&self) -> (u16, Value) {
        let client = transport::http_client::tls::client().no_proxy().build().unwrap();
        let answer = client.get(format!("{}/readyz", self.url)).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }
}

fn is_completed((status, task): &(u16, Value)) -> bool {
    *status == 200 && task["status"]["state"] == "TASK_STATE_COMPLETED"
}

#[actix::test]
async fn an_agent_that_panics_restarts_from_its_store() {
    let mesh = Mesh::start().await;
    let before = mesh.ask("m-1").await;
    assert!(is_completed(&before), "{before:?}");
    mesh.panic_over_message();
    let (status, refused) = mesh.ask("m-2").await;
    assert_eq!((status, refused["reasonCode"].as_str()), (503, Some("store_unavailable")), "{refused:#}");
    let after = mesh.ask_until_restarted("m-2").await;
    assert!(is_completed(&after), "{after:?}");
    let again = mesh.ask("m-1").await;
    assert_eq!(again.1["contextId"], before.1["contextId"], "what was recorded is known");
    assert_eq!(mesh.ready().await.0, 200);
    mesh.running.stop(Duration::from_secs(1)).await;
}

#[actix::test]
async fn a_message_in_hand_at_two_panics_is_refused_permanently_and_others_are_not() {
    let mesh = Mesh::start().await;
    for _ in 0..2 {
        mesh.panic_over_message();
        let (status, refused) = mesh.ask_until_restarted("m-1").await;
        assert_eq!(status, 503, "{refused:#}");
    }
    let (status, refused) = mesh.ask_until_restarted("m-1").await;
    assert_eq!((status, refused["reasonCode"].as_str()), (500, Some("message_failed")), "{refused:#}");
    let other = mesh.ask_until_restarted("m-2").await;
    assert!(is_completed(&other), "{other:?}");
    mesh.running.stop(Duration::from_secs(1)).await;
}

#[actix::test]
async fn an_agent_that_panics_too_often_stays_down_and_readyz_reports_it() {
    let mesh = Mesh::start().await;
    for at in 0..6 {
        mesh.panic_over_message();
        let (status, refused) = mesh.ask_until_restarted(&format!("m-{at}")).await;
        assert_eq!(status, 503, "{refused:#}");
    }
    let (status, ready) = mesh.ready().await;
    assert_eq!(status, 503, "{ready:#}");
    assert!(ready["checks"]["agent builder-01"]["why"].to_string().contains("failed 5 times"), "{ready:#}");
    mesh.running.stop(Duration::from_secs(1)).await;
}

#[actix::test]
async fn an_agent_that_panics_while_it_recovers_restarts() {
    let mesh = Mesh::start_with(PlannedPanics { recoveries: 2.into(), ..Default::default() }).await;
    let answer = mesh.ask_until_restarted("m-1").await;
    assert!(is_completed(&answer), "{answer:?}");
    mesh.running.stop(Duration::from_secs(1)).await;
}

#[actix::test]
async fn a_signal_in_hand_at_two_panics_is_passed_over_and_the_next_is_reacted_to() {
    let mesh = Mesh::start().await;
    mesh.wait_for_state(|state| state["followed"].is_u64()).await;
    mesh.offer("poison").await;
    mesh.offer("harmless").await;
    mesh.wait_for_state(|state| state["counts"]["reactions"] == 1).await;
    assert_eq!(mesh.panics.poison.load(Relaxed), 2);
    assert_eq!(mesh.ready().await.0, 200);
    mesh.running.stop(Duration::from_secs(1)).await;
}
