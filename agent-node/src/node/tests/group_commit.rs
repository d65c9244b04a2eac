//! Messages that arrive while a step is being committed share the next step and are answered after its commit.

use super::{intercepting_store::InterceptingStore, *};
use crate::{agent::IsPending, inbox::TakeMessage};
use engine::{Ack, IncomingMessage};
use protocol::problem::Problem;
use std::sync::Mutex;
use store::Expectation;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A commit that waits until the test lets it through or refuses it.
struct HeldCommit {
    batch: Batch,
    verdict: tokio::sync::oneshot::Sender<Option<Error>>,
}

impl HeldCommit {
    fn receipts(&self) -> usize {
        let keys = self.batch.writes.iter().map(|write| write.key().to_string());
        keys.filter(|key| key.starts_with("holder-01.receipt.")).count()
    }

    /// The journal head that the batch expects.
    fn expected_head(&self) -> Revision {
        let expected = self.batch.expectations.iter().find_map(|expectation| match expectation {
            Expectation::At(_, revision) => Some(*revision),
            Expectation::Absent(_) => None,
        });
        expected.unwrap_or_default()
    }
}

/// The receiver of held commits; `None` lets commits through.
type Gate = Arc<Mutex<Option<UnboundedSender<HeldCommit>>>>;

/// A store whose commits go through until its gate holds them.
fn gated_store(kept: SharedStore) -> (Arc<InterceptingStore>, Gate) {
    let gate = Gate::default();
    let to = gate.clone();
    let store = InterceptingStore::new(kept, move |store, lane, batch| {
        let Some(to) = to.lock().unwrap().clone() else { return store.commit(lane, batch) };
        let (verdict, decided) = tokio::sync::oneshot::channel();
        let store = store.clone();
        Box::pin(async move {
            to.send(HeldCommit { batch: batch.clone(), verdict }).map_err(|_| Error::Full)?;
            match decided.await {
                Ok(Some(error)) => Err(error),
                Ok(None) | Err(_) => store.commit(lane, batch).await,
            }
        })
    });
    (store, gate)
}

/// The pending answer to a message.
type PendingAnswer = tokio::task::JoinHandle<Result<Ack, Problem>>;

struct Fixture {
    running: RunningNode,
    conversation: String,
    held: UnboundedReceiver<HeldCommit>,
    gate: Gate,
}

impl Fixture {
    /// An agent in a turn for a task of manager-01, whose further commits are held.
    async fn start() -> Self {
        let kept = store::memory::new();
        let (store, gate) = gated_store(kept);
        let busy = AgentSpec { brain: Arc::new(NeverEnds), ..agent_spec("holder-01", "hold", 0.0, 1_000) };
        let running = start(NodeSetup { store, ..setup(vec![busy]) }).await.unwrap();
        let request = json!({ "taskId": "t-1", "description": "x", "capability": "hold" });
        let ack = deliver(&running, "m-0", "task-request", request, None).await.unwrap();
        // The turn's attempt and the signals are committed before commits are held.
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

    /// Sends an update of the task.
    fn update(&self, id: &str) -> PendingAnswer {
        let (actor, conversation) = (self.running.actors[0].clone(), self.conversation.clone());
        let status =
            json!({ "taskId": "t-1", "seq": 1, "status": { "state": "TASK_STATE_WORKING", "message": id } });
        let admit = admit(id, "task-update", status, Some(&conversation));
        actix::spawn(async move { actor.send(admit).await.unwrap() })
    }

    /// The next held commit with a receipt.
    async fn commit(&mut self) -> HeldCommit {
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
        proof: protocol::principal::SenderProof::Credential,
        digest: protocol::ids::Digest::of(id.as_bytes()),
        trace: None,
        contact: None,
        origin: None,
        approval: None,
    })
}

async fn deliver(
    running: &RunningNode,
    id: &str,
    kind: &str,
    payload: Value,
    conversation: Option<&str>,
) -> Result<Ack, Problem> {
    running.actors[0].send(admit(id, kind, payload, conversation)).await.unwrap()
}

#[actix::test]
async fn messages_that_arrive_during_a_commit_share_the_next_step() {
    let mut fixture = Fixture::start().await;
    let first = fixture.update("m-1");
    let first_commit = fixture.commit().await;
    assert_eq!(first_commit.receipts(), 1);
    let (second, third) = (fixture.update("m-2"), fixture.update("m-3"));
    while fixture.running.actors[0]
        .send(crate::agent::GetAgentSnapshot)
        .await
        .unwrap()
        .unwrap()
        .counts
        .admitted
        < 4
    {
        tokio::task::yield_now().await;
    }
    assert!(!first.is_finished() && !second.is_finished());
    let before = first_commit.expected_head();
    first_commit.verdict.send(None).unwrap();
    assert!(first.await.unwrap().is_ok());
    let next = fixture.commit().await;
    assert_eq!(next.receipts(), 2, "both share a step");
    assert!(next.expected_head() > before, "it follows the one before");
    assert!(!second.is_finished() && !third.is_finished(), "answered before it is durable");
    next.verdict.send(None).unwrap();
    assert!(second.await.unwrap().is_ok() && third.await.unwrap().is_ok());
    *fixture.gate.lock().unwrap() = None;
    drop(fixture.held);
    fixture.running.stop(Duration::ZERO).await;
}

#[actix::test]
async fn a_pending_message_is_found_by_id_sender_and_sent_as() {
    let mut fixture = Fixture::start().await;
    let answer = fixture.update("m-1");
    let first_commit = fixture.commit().await;
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
        let described = format!("{pending:?}");
        assert_eq!(fixture.running.actors[0].send(pending).await.unwrap(), expected, "{described}");
    }
    drop(first_commit);
    answer.await.unwrap().unwrap();
}

#[actix::test]
async fn a_failed_commit_refuses_its_message_and_the_waiting_ones_are_committed_later() {
    let mut fixture = Fixture::start().await;
    let first = fixture.update("m-1");
    let first_commit = fixture.commit().await;
    let second = fixture.update("m-2");
    while fixture.running.actors[0]
        .send(crate::agent::GetAgentSnapshot)
        .await
        .unwrap()
        .unwrap()
        .counts
        .admitted
        < 3
    {
        tokio::task::yield_now().await;
    }
    *fixture.gate.lock().unwrap() = None;
    first_commit.verdict.send(Some(Error::StorageFull)).unwrap();
    assert_eq!(first.await.unwrap().unwrap_err().reason, Reason::StorageFull);
    assert!(!second.await.unwrap().unwrap().duplicate);
    assert!(!fixture.update("m-1").await.unwrap().unwrap().duplicate, "m-1 was never recorded");
    for id in ["m-1", "m-2"] {
        assert!(fixture.update(id).await.unwrap().unwrap().duplicate, "{id} is recorded");
    }
    drop(fixture.held);
    fixture.running.stop(Duration::ZERO).await;
}
