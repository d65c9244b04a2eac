//! Log lines of a full store while commits are retried.

use super::{intercepting_store::InterceptingStore, *};
use crate::brain::scripted::ScriptedBrain;
use std::{
    io::Write,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
};
use tracing::subscriber::set_default;

/// A log that a test can read.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lines(&self, part: &str) -> usize {
        let text = String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned();
        text.lines().filter(|line| line.contains(part)).count()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[actix::test]
async fn a_full_store_is_logged_once_and_its_recovery_once() {
    let log = Log::default();
    let writer = log.clone();
    let _logging =
        set_default(tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish());
    // With one subscriber alone, tracing would ask the thread that logs a line first whether it is wanted, and that may be one of
    // another test, which has no subscriber.
    let _other = tracing::Dispatch::new(tracing_subscriber::registry());
    let (is_full, refused) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::default()));
    let (full, count) = (is_full.clone(), refused.clone());
    let begun = AtomicBool::new(false);
    let store = InterceptingStore::new(store::memory::new(), move |store, lane, batch| {
        let is_step =
            batch.writes.iter().any(|write| write.key().to_string().starts_with("builder-01.journal."));
        // The first step is committed; later ones find the store full.
        if is_step && begun.swap(true, SeqCst) && full.load(SeqCst) {
            count.fetch_add(1, SeqCst);
            return Box::pin(std::future::ready(Err(Error::StorageFull)));
        }
        store.commit(lane, batch)
    });
    // A turn with a pause ends in a separate step.
    let brain = Arc::new(ScriptedBrain::parse("turns: [{ end: { done: built }, holdMs: 1 }]").unwrap());
    let builder = AgentSpec { brain, ..agent_spec("builder-01", "build", 0.0, 1_000) };
    let running = start(NodeSetup { store, ..setup(vec![builder]) }).await.unwrap();
    let url = format!("http://{}", running.agents[&AgentId::parse("builder-01").unwrap()]);
    let payload = json!({ "taskId": "t-1", "description": "hello", "capability": "build" });
    let request =
        json!({ "fromAgentId": "me", "toAgentId": "builder-01", "type": "task-request", "payload": payload });
    let asked = actix::spawn(async move { ask(&url, &request).await });
    while refused.load(SeqCst) < 4 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!((log.lines("was not recorded"), log.lines("recorded again")), (1, 0));
    is_full.store(false, SeqCst);
    let (status, task) = asked.await.unwrap();
    assert_eq!((status, task["status"]["state"].as_str()), (200, Some("TASK_STATE_COMPLETED")), "{task:#}");
    // The task is answered when its record is durable, the line may follow.
    let is_logged = async {
        while log.lines("recorded again") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), is_logged).await.unwrap();
    assert_eq!((log.lines("was not recorded"), log.lines("recorded again")), (1, 1));
    running.stop(Duration::from_secs(1)).await;
}
