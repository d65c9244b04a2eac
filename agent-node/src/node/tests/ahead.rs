//! What comes while a step is being written: the next step, answered after its own commit, and gone if the first fails.

use super::{between::Between, *};
use crate::{agent::IsPending, inbox::TakeMessage};
use blackboard::store::Expectation;
use engine::{Ack, IncomingMessage};
use protocol::problem::Problem;
use std::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A commit that waits to be let through, or to be refused.
struct Held {
    batch: Batch,
    verdict: tokio::sync::oneshot::Sender<Option<Error>>,
}

impl Held {
    fn receipts(&self) -> usize {
        let keys = self.batch.writes.iter().map(|write| write.key().to_string());
        keys.filter(|key| key.starts_with("holder-01.receipt.")).count()
    }

    /// The journal's head that the batch expects.
    fn expects(&self) -> Revision {
        let expected = self.batch.expectations.iter().find_map(|expectation| match expectation {
            Expectation::At(_, revision) => Some(*revision),
            Expectation::Absent(_) => None,
        });
        expected.unwrap_or_default()
    }
}

/// Where commits are held, while they are.
type Gate = Arc<Mutex<Option<UnboundedSender<Held>>>>;

/// A store whose commits go through at once until they are to be held.
fn holding(kept: Shared) -> (Arc<Between>, Gate) {
    let gate = Gate::default();
    let to = gate.clone();
    let store = Between::new(kept, move |store, lane, batch| {
        let Some(to) = to.lock().unwrap().clone() else { return store.commit(lane, batch) };
        let (verdict, decided) = tokio::sync::oneshot::channel();
        let store = store.clone();
        Box::pin(async move {
            to.send(Held { batch: batch.clone(), verdict }).map_err(|_| Error::Full)?;
            match decided.await {
                Ok(Some(error)) => Err(error),
                Ok(None) | Err(_) => store.commit(lane, batch).await,
            }
        })
    });
    (store, gate)
}

/// What a message is answered with.
type Told = tokio::task::JoinHandle<Result<Ack, Problem>>;

struct Scene {
    running: Running,
    conversation: String,
    held: UnboundedReceiver<Held>,
    gate: Gate,
}

impl Scene {
    /// An agent that ponders over a task of manager-01's, and whose commits are held from here on.
    async fn begin() -> Self {
        let kept = blackboard::store::memory::new();
        let (store, gate) = holding(kept);
        let pondering = Seat { brain: Arc::new(Pondering), ..seat("holder-01", "hold", 0.0, 1_000) };
        let running = start(Setup { store, ..setup(vec![pondering]) }).await.unwrap();
        let request = json!({ "taskId": "t-1", "description": "x", "capability": "hold" });
        let ack = said(&running, "m-0", "task-request", request, None).await.unwrap();
        // The thought's attempt is on record and the board has heard before commits are held.
        let is_quiet = async {
            while !running.actors[0].send(crate::agent::IsIdle).await.unwrap() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), is_quiet).await.unwrap();
        let (to, held) = unbounded_channel();
        *gate.lock().unwrap() = Some(to);
        Self { running, conversation: ack.conversation_id.unwrap().to_string(), held, gate }
    }

    /// An update of the task, on its way in.
    fn update(&self, id: &str) -> Told {
        let (actor, conversation) = (self.running.actors[0].clone(), self.conversation.clone());
        let status =
            json!({ "taskId": "t-1", "seq": 1, "status": { "state": "TASK_STATE_WORKING", "message": id } });
        let admit = admit(id, "task-update", status, Some(&conversation));
        actix::spawn(async move { actor.send(admit).await.unwrap() })
    }

    /// The next commit of the agent's.
    async fn commit(&mut self) -> Held {
        let next = async {
            loop {
                let held = self.held.recv().await.unwrap();
                match held.receipts() {
                    0 => drop(held),
                    _ => return held,
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(10), next).await.expect("a commit")
    }
}

fn admit(id: &str, kind: &str, payload: Value, conversation: Option<&str>) -> TakeMessage {
    let mut body = json!({ "messageId": id, "fromAgentId": "manager-01", "toAgentId": "holder-01", "type": kind, "payload": payload });
    if let Some(conversation) = conversation {
        body["conversationId"] = json!(conversation);
    }
    TakeMessage(IncomingMessage {
        envelope: Box::new(
            protocol::envelope::Envelope::from_json(body, || unreachable!("it has an id")).unwrap(),
        ),
        by: Principal::Agent(AgentId::parse("manager-01").unwrap()),
        digest: protocol::ids::Digest::of(id.as_bytes()),
        trace: None,
        contact: None,
    })
}

async fn said(
    running: &Running,
    id: &str,
    kind: &str,
    payload: Value,
    conversation: Option<&str>,
) -> Result<Ack, Problem> {
    running.actors[0].send(admit(id, kind, payload, conversation)).await.unwrap()
}

#[actix::test]
async fn what_comes_while_a_step_is_written_is_the_next_step_and_answered_after_it() {
    let mut scene = Scene::begin().await;
    let first = scene.update("m-1");
    let writing = scene.commit().await;
    assert_eq!(writing.receipts(), 1);
    let (second, third) = (scene.update("m-2"), scene.update("m-3"));
    while scene.running.actors[0].send(crate::agent::GetAgentSnapshot).await.unwrap().unwrap().counts.admitted
        < 4
    {
        tokio::task::yield_now().await;
    }
    assert!(!first.is_finished() && !second.is_finished());
    let before = writing.expects();
    writing.verdict.send(None).unwrap();
    assert!(first.await.unwrap().is_ok());
    let next = scene.commit().await;
    assert_eq!(next.receipts(), 2, "both share a step");
    assert!(next.expects() > before, "it follows the one before");
    assert!(!second.is_finished() && !third.is_finished(), "answered before it is durable");
    next.verdict.send(None).unwrap();
    assert!(second.await.unwrap().is_ok() && third.await.unwrap().is_ok());
    *scene.gate.lock().unwrap() = None;
    drop(scene.held);
    scene.running.stop(Duration::ZERO).await;
}

#[actix::test]
async fn a_message_on_its_way_is_known_by_the_name_that_it_was_sent_under() {
    let mut scene = Scene::begin().await;
    let told = scene.update("m-1");
    let writing = scene.commit().await;
    let by = |name: &str| Principal::Agent(AgentId::parse(name).unwrap());
    for (message, by, sent_as, expected) in [
        ("m-1", by("manager-01"), None, true),
        ("m-1", by("manager-01"), Some("manager-01"), true),
        ("m-1", by("manager-01"), Some("manager-02"), false),
        ("m-1", by("manager-02"), None, false),
        ("m-2", by("manager-01"), None, false),
    ] {
        let (message, sent_as) = (
            protocol::ids::MessageId::parse(message).unwrap(),
            sent_as.map(|name| AgentId::parse(name).unwrap()),
        );
        let pending = IsPending { message, by, sent_as };
        let said = format!("{pending:?}");
        assert_eq!(scene.running.actors[0].send(pending).await.unwrap(), expected, "{said}");
    }
    drop(writing);
    told.await.unwrap().unwrap();
}

#[actix::test]
async fn a_step_that_is_not_written_is_refused_and_what_waited_for_it_is_recorded_later() {
    let mut scene = Scene::begin().await;
    let first = scene.update("m-1");
    let writing = scene.commit().await;
    let second = scene.update("m-2");
    while scene.running.actors[0].send(crate::agent::GetAgentSnapshot).await.unwrap().unwrap().counts.admitted
        < 3
    {
        tokio::task::yield_now().await;
    }
    *scene.gate.lock().unwrap() = None;
    writing.verdict.send(Some(Error::StorageFull)).unwrap();
    assert_eq!(first.await.unwrap().unwrap_err().reason, Reason::StorageFull);
    assert!(!second.await.unwrap().unwrap().duplicate);
    assert!(!scene.update("m-1").await.unwrap().unwrap().duplicate, "m-1 was never recorded");
    for id in ["m-1", "m-2"] {
        assert!(scene.update(id).await.unwrap().unwrap().duplicate, "{id} is recorded");
    }
    drop(scene.held);
    scene.running.stop(Duration::ZERO).await;
}
