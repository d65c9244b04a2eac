//! A brain whose answer follows from the question alone: one commit holds the message, the question and the answer.

use super::{between::Between, *};
use crate::{
    brain::{Ask, Said, Turn},
    conversation::record::{Place, State},
};
use protocol::{
    coordination::{
        Effect, What,
        thought::{Progress, Prompt, TurnEnd},
    },
    ids::ConversationId,
};
use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};

/// Echoes at once, counts how often it is asked, and panics when it is told to.
#[derive(Default)]
struct Ready {
    asked: AtomicU32,
    panics: bool,
}

impl Brain for Ready {
    fn think(&self, ask: Ask, report: tokio::sync::mpsc::Sender<Progress>) -> Turn {
        self.asked.fetch_add(1, Relaxed);
        Echo.think(ask, report)
    }

    fn at_once(&self, prompt: &Prompt) -> Option<Said> {
        self.asked.fetch_add(1, Relaxed);
        assert!(!self.panics, "it can't take that");
        Echo.at_once(prompt)
    }

    fn name(&self) -> &'static str {
        "ready"
    }
}

fn ready(brain: &Arc<Ready>) -> Seat {
    Seat { brain: brain.clone(), ..seat("builder-01", "build", 0.0, 1_000) }
}

fn request(task: &str) -> Value {
    json!({
        "messageId": format!("m-{task}"), "fromAgentId": "me", "toAgentId": "builder-01", "type": "task-request",
        "payload": { "taskId": task, "description": "hello", "capability": "build" }
    })
}

fn url(running: &Running) -> String {
    format!("http://{}", running.agents[&AgentId::parse("builder-01").unwrap()])
}

fn state(task: &Value) -> Option<&str> {
    task["status"]["state"].as_str()
}

/// The keys of every batch of the agent's own that has been given to the store, oldest first.
type Batches = Arc<Mutex<Vec<Batch>>>;

/// A store that remembers what it is given, and refuses while it is told to.
fn remembering(kept: Shared) -> (Arc<Between>, Batches, Arc<AtomicBool>) {
    let (batches, refuses) = (Batches::default(), Arc::new(AtomicBool::default()));
    let (to, refuse) = (batches.clone(), refuses.clone());
    let store = Between::new(kept, move |store, lane, batch| {
        let is_own =
            |write: &blackboard::store::Write| write.key().as_str().starts_with("builder-01.journal.");
        if !batch.writes.iter().any(is_own) {
            return store.commit(lane, batch);
        }
        to.lock().unwrap().push(batch.clone());
        match refuse.load(Relaxed) {
            true => Box::pin(std::future::ready(Err(Error::StorageFull))),
            false => store.commit(lane, batch),
        }
    });
    (store, batches, refuses)
}

#[actix::test]
async fn a_message_its_thought_and_its_end_are_one_step_and_one_commit() {
    let kept = blackboard::store::memory::new();
    let (store, batches, _) = remembering(kept.clone());
    let brain = Arc::new(Ready::default());
    let running = start(Setup { store, ..setup(vec![ready(&brain)]) }).await.unwrap();
    let (status, task) = ask(&url(&running), &request("t-1")).await;
    assert_eq!((status, state(&task)), (200, Some("TASK_STATE_COMPLETED")), "{task:#}");
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "hello");
    assert_eq!(brain.asked.load(Relaxed), 1);

    let first = batches.lock().unwrap()[0].clone();
    let kinds: Vec<_> = first.writes.iter().map(|write| write.key().tokens()[1].to_string()).collect();
    assert_eq!(kinds, ["receipt", "task", "state", "journal"]);
    let me = AgentId::parse("builder-01").unwrap();
    let conversation = ConversationId::parse(task["contextId"].as_str().unwrap()).unwrap();
    let steps = crate::agent::steps(kept.as_ref(), &me, &conversation).unwrap();
    let [What::Started, What::Thought { turn: 1, end: TurnEnd::Done { .. }, .. }] =
        [&steps[0].events[0].what, &steps[0].events[1].what]
    else {
        panic!("{steps:#?}");
    };
    let asked = steps[0].effects.iter().position(|effect| matches!(effect, Effect::Think { .. })).unwrap();
    assert_eq!(steps[0].closes, [(1, Place(1, u32::try_from(asked).unwrap()))]);
    let blackboard::store::Write::Put(_, bytes) = &first.writes[2] else { panic!("a state") };
    let state: State = serde_json::from_slice(bytes).unwrap();
    let waits = |effect: &Effect| matches!(effect, Effect::Publish { .. });
    assert!(state.has_ended && state.open.values().all(|open| waits(&open.effect)), "{state:#?}");
    running.stop(Duration::from_secs(1)).await;
}

#[actix::test]
async fn a_commit_that_fails_answers_nothing_and_leaves_nothing() {
    let kept = blackboard::store::memory::new();
    let (store, _, refuses) = remembering(kept.clone());
    let brain = Arc::new(Ready::default());
    let running = start(Setup { store, ..setup(vec![ready(&brain)]) }).await.unwrap();
    refuses.store(true, Relaxed);
    let (status, refused) = ask(&url(&running), &request("t-1")).await;
    assert_eq!((status, refused["reasonCode"].as_str()), (507, Some("storage_full")), "{refused:#}");
    let all = Filter::Below(Key::new(&["builder-01"]));
    let left: Vec<_> = kept.read(&all, 0, 100).unwrap();
    let of_task =
        |record: &&Record| ["receipt", "task", "state", "journal"].contains(&record.key.tokens()[1].as_ref());
    assert_eq!(left.iter().filter(of_task).count(), 0, "{left:#?}");
    let seen = running.actors[0].send(crate::agent::Look).await.unwrap();
    assert_eq!((seen.running, seen.conversations.len()), (0, 0), "{seen:#?}");

    refuses.store(false, Relaxed);
    let (status, again) = ask(&url(&running), &request("t-1")).await;
    assert_eq!((status, state(&again)), (200, Some("TASK_STATE_COMPLETED")), "{again:#}");
    assert_eq!(brain.asked.load(Relaxed), 2, "once for each that was said");
    running.stop(Duration::from_secs(1)).await;
}

#[actix::test]
async fn what_was_answered_is_not_asked_again_by_a_restart() {
    let store = blackboard::store::memory::new();
    let brain = Arc::new(Ready::default());
    let begin = || start(Setup { store: store.clone(), ..setup(vec![ready(&brain)]) });
    let running = begin().await.unwrap();
    let (_, task) = ask(&url(&running), &request("t-1")).await;
    assert_eq!(state(&task), Some("TASK_STATE_COMPLETED"), "{task:#}");
    running.stop(Duration::ZERO).await;
    let running = begin().await.unwrap();
    let (status, again) = ask(&url(&running), &request("t-1")).await;
    assert_eq!((status, state(&again)), (200, Some("TASK_STATE_COMPLETED")), "{again:#}");
    assert_eq!(again["contextId"], task["contextId"]);
    assert_eq!(brain.asked.load(Relaxed), 1);
    running.stop(Duration::from_secs(1)).await;
}

#[actix::test]
async fn a_brain_that_panics_fails_its_task() {
    let brain = Arc::new(Ready { panics: true, ..Ready::default() });
    let running = start(setup(vec![ready(&brain)])).await.unwrap();
    let (status, task) = ask(&url(&running), &request("t-1")).await;
    assert_eq!((status, state(&task)), (200, Some("TASK_STATE_FAILED")), "{task:#}");
    assert!(task["status"]["message"].to_string().contains("the brain panicked"), "{task:#}");
    running.stop(Duration::from_secs(1)).await;
}

/// A brain that takes its time, and then panics.
struct Breaks;

impl Brain for Breaks {
    fn think(&self, _: Ask, _: tokio::sync::mpsc::Sender<Progress>) -> Turn {
        Box::pin(async move {
            tokio::task::yield_now().await;
            panic!("it can't take that")
        })
    }

    fn name(&self) -> &'static str {
        "breaks"
    }
}

#[actix::test]
async fn a_brain_that_panics_while_it_is_waited_for_fails_its_task() {
    let running =
        start(setup(vec![Seat { brain: Arc::new(Breaks), ..seat("builder-01", "build", 0.0, 1_000) }]));
    let running = running.await.unwrap();
    let (status, task) = ask(&url(&running), &request("t-1")).await;
    assert_eq!((status, state(&task)), (200, Some("TASK_STATE_FAILED")), "{task:#}");
    running.stop(Duration::from_secs(1)).await;
}

/// The journals that a batch writes to.
fn journals(batch: &Batch) -> usize {
    batch.writes.iter().filter(|write| write.key().as_str().starts_with("builder-01.journal.")).count()
}

#[actix::test]
async fn what_closes_after_tasks_shares_a_commit_and_is_recorded_alone_where_that_fails() {
    for is_refused in [false, true] {
        let kept = blackboard::store::memory::new();
        let shared = Arc::new(AtomicU32::default());
        let count = shared.clone();
        let store = Between::new(kept.clone(), move |store, lane, batch| {
            let is_shared = journals(&batch) > 1;
            count.fetch_add(u32::from(is_shared), Relaxed);
            match is_shared && is_refused {
                true => Box::pin(std::future::ready(Err(Error::Full))),
                false => store.commit(lane, batch),
            }
        });
        let setup = Setup { store, ..setup(vec![ready(&Arc::new(Ready::default()))]) };
        let running = start(setup).await.unwrap();
        let (at, requests) = (url(&running), ["t-1", "t-2", "t-3", "t-4"].map(request));
        let done = futures_util::future::join_all(requests.iter().map(|request| ask(&at, request))).await;
        assert!(done.iter().all(|(_, task)| state(task) == Some("TASK_STATE_COMPLETED")), "{done:#?}");
        let open = || kept.read(&Filter::Below(Key::new(&["builder-01", "state"])), 0, 10).unwrap().len();
        let all_closed = async {
            while open() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), all_closed).await.expect("nothing is left open");
        assert!(shared.load(Relaxed) > 0, "refused: {is_refused}");
        let me = AgentId::parse("builder-01").unwrap();
        for (_, task) in done {
            let conversation = ConversationId::parse(task["contextId"].as_str().unwrap()).unwrap();
            let steps = crate::agent::steps(kept.as_ref(), &me, &conversation).unwrap();
            let published = steps.iter().flat_map(|step| &step.events);
            let published = published.filter(|event| matches!(event.what, What::Published { .. })).count();
            assert_eq!(published, 2, "{steps:#?}");
        }
        running.stop(Duration::from_secs(1)).await;
    }
}
