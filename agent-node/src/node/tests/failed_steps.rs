//! Brains that panic, and a commit that fails.

use super::{intercepting_store::InterceptingStore, *};
use crate::brain::{TurnFuture, TurnHandle, TurnRequest};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// Echoes its input and counts its turns.
#[derive(Default)]
struct CountingBrain {
    turns: AtomicU32,
}

impl Brain for CountingBrain {
    fn think(&self, ask: TurnRequest, report: TurnHandle) -> TurnFuture {
        self.turns.fetch_add(1, Relaxed);
        EchoBrain.think(ask, report)
    }

    fn name(&self) -> &'static str {
        "counting"
    }
}

fn counting_agent(brain: &Arc<CountingBrain>) -> AgentSpec {
    AgentSpec { brain: brain.clone(), ..agent_spec("builder-01", "build", 0.0, 1_000) }
}

fn request(task: &str) -> Value {
    json!({
        "messageId": format!("m-{task}"), "fromAgentId": "me", "toAgentId": "builder-01", "type": "task-request",
        "payload": { "taskId": task, "description": "hello", "capability": "build" }
    })
}

fn url(running: &RunningNode) -> String {
    format!("http://{}", running.agents[&AgentId::parse("builder-01").unwrap()])
}

fn state(task: &Value) -> Option<&str> {
    task["status"]["state"].as_str()
}

/// A store that refuses the agent's steps while the flag is set.
fn refusing_store(kept: SharedStore) -> (Arc<InterceptingStore>, Arc<AtomicBool>) {
    let refuses = Arc::new(AtomicBool::default());
    let refuse = refuses.clone();
    let store = InterceptingStore::new(kept, move |store, lane, batch| {
        let is_own = |write: &store::Write| write.key().as_str().starts_with("builder-01.journal.");
        match refuse.load(Relaxed) && batch.writes.iter().any(is_own) {
            true => Box::pin(std::future::ready(Err(Error::StorageFull))),
            false => store.commit(lane, batch),
        }
    });
    (store, refuses)
}

#[actix::test]
async fn a_failed_commit_refuses_its_message_and_writes_nothing() {
    let kept = store::memory::new();
    let (store, refuses) = refusing_store(kept.clone());
    let brain = Arc::new(CountingBrain::default());
    let running = start(NodeSetup { store, ..setup(vec![counting_agent(&brain)]) }).await.unwrap();
    refuses.store(true, Relaxed);
    let (status, refused) = ask(&url(&running), &request("t-1")).await;
    assert_eq!((status, refused["reasonCode"].as_str()), (507, Some("storage_full")), "{refused:#}");
    let all = Filter::Below(Key::new(&["builder-01"]));
    let left: Vec<_> = kept.read(&all, 0, 100).unwrap();
    let of_task =
        |record: &&Record| ["receipt", "task", "state", "journal"].contains(&record.key.tokens()[1].as_ref());
    assert_eq!(left.iter().filter(of_task).count(), 0, "{left:#?}");
    let seen = running.actors[0].send(crate::agent::GetAgentSnapshot).await.unwrap().unwrap();
    assert_eq!((seen.running, seen.conversations.len()), (0, 0), "{seen:#?}");

    refuses.store(false, Relaxed);
    let (status, again) = ask(&url(&running), &request("t-1")).await;
    assert_eq!((status, state(&again)), (200, Some("TASK_STATE_COMPLETED")), "{again:#}");
    assert_eq!(brain.turns.load(Relaxed), 1, "nothing is performed before its commit");
    running.stop(Duration::from_secs(1)).await;
}

#[actix::test]
async fn a_restart_does_not_repeat_a_finished_turn() {
    let store = store::memory::new();
    let brain = Arc::new(CountingBrain::default());
    let start_node = || start(NodeSetup { store: store.clone(), ..setup(vec![counting_agent(&brain)]) });
    let running = start_node().await.unwrap();
    let (_, task) = ask(&url(&running), &request("t-1")).await;
    assert_eq!(state(&task), Some("TASK_STATE_COMPLETED"), "{task:#}");
    running.stop(Duration::ZERO).await;
    let running = start_node().await.unwrap();
    let (status, again) = ask(&url(&running), &request("t-1")).await;
    assert_eq!((status, state(&again)), (200, Some("TASK_STATE_COMPLETED")), "{again:#}");
    assert_eq!(again["contextId"], task["contextId"]);
    assert_eq!(brain.turns.load(Relaxed), 1);
    running.stop(Duration::from_secs(1)).await;
}

#[actix::test]
async fn a_signal_whose_first_step_is_refused_is_handled_later() {
    let (store, refuses) = refusing_store(store::memory::new());
    let brain = Arc::new(CountingBrain::default());
    let mut builder = counting_agent(&brain);
    builder.settings.subscribe = vec!["build.failed".into()];
    let agents = vec![builder, agent_spec("planner-01", "plan", 0.0, 1_000)];
    let running = start(NodeSetup { store, ..setup(agents) }).await.unwrap();
    let planner = format!("http://{}", running.agents[&AgentId::parse("planner-01").unwrap()]);
    let publish = async |subject: &str| {
        let payload = json!({ "signal": "build.failed", "subject": subject });
        let broadcast = json!({
            "fromAgentId": "me", "toAgentId": "planner-01", "type": "broadcast", "payload": payload
        });
        let (status, answer) = ask(&planner, &broadcast).await;
        assert!(status < 300, "{answer:#}");
    };
    let until = async |is_so: &dyn Fn(&crate::agent::ActorSnapshot) -> bool| {
        let polled = async {
            while !is_so(&running.actors[0].send(crate::agent::GetAgentSnapshot).await.unwrap().unwrap()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), polled).await.expect("the expected state");
    };
    until(&|seen| seen.followed.is_some()).await;
    refuses.store(true, Relaxed);
    publish("first").await;
    until(&|seen| seen.counts.reactions >= 1).await;
    refuses.store(false, Relaxed);
    publish("second").await;
    until(&|_| brain.turns.load(Relaxed) == 2).await;
    running.stop(Duration::from_secs(1)).await;
}

/// A brain that yields once and then panics.
struct PanickingBrain;

impl Brain for PanickingBrain {
    fn think(&self, _: TurnRequest, _: TurnHandle) -> TurnFuture {
        Box::pin(async move {
            tokio::task::yield_now().await;
            panic!("on purpose")
        })
    }

    fn name(&self) -> &'static str {
        "panicking"
    }
}

#[actix::test]
async fn a_brain_that_panics_fails_its_task() {
    let running = start(setup(vec![AgentSpec {
        brain: Arc::new(PanickingBrain),
        ..agent_spec("builder-01", "build", 0.0, 1_000)
    }]));
    let running = running.await.unwrap();
    let (status, task) = ask(&url(&running), &request("t-1")).await;
    assert_eq!((status, state(&task)), (200, Some("TASK_STATE_FAILED")), "{task:#}");
    running.stop(Duration::from_secs(1)).await;
}
