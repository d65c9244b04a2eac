//! A process that dies between the record of a firing and the acceptance of its task.

use super::*;
use actix::{Actor, Context, Handler, ResponseFuture};
use engine::Ack;
use protocol::message::Payload;
use serde_json::json;
use std::{
    sync::{Mutex as SyncMutex, PoisonError},
    time::Instant,
};

/// The inbox of an agent that takes tasks, or is silent.
struct InboxStub {
    requested: Arc<SyncMutex<Vec<TaskId>>>,
    answers: bool,
}

impl Actor for InboxStub {
    type Context = Context<Self>;
}

impl Handler<TakeMessage> for InboxStub {
    type Result = ResponseFuture<Result<Ack, Problem>>;

    fn handle(&mut self, TakeMessage(message): TakeMessage, _: &mut Context<Self>) -> Self::Result {
        let Payload::TaskRequest(request) = message.envelope.payload else { unreachable!() };
        self.requested.lock().unwrap_or_else(PoisonError::into_inner).extend(request.task_id.clone());
        let ack = Ack {
            message_id: message.envelope.message_id,
            task_id: request.task_id,
            conversation_id: None,
            duplicate: false,
            bid: None,
        };
        let answers = self.answers;
        Box::pin(async move { if answers { Ok(ack) } else { std::future::pending().await } })
    }
}

/// One life of the schedules of an agent: what was requested in it, and what ends it.
async fn life(
    store: &SharedStore,
    answers: bool,
) -> (Schedules, Arc<SyncMutex<Vec<TaskId>>>, Arc<AgentStatus>) {
    let requested = Arc::new(SyncMutex::new(Vec::new()));
    let inbox = InboxStub { requested: requested.clone(), answers }.start();
    let status = Arc::new(AgentStatus::default());
    let parts = ScheduleParts {
        me: AgentId::parse("a").unwrap(),
        store: store.clone(),
        inbox: inbox.recipient(),
        status: status.clone(),
        clock: NodeClock::starting_at(Default::default()),
        callers: Callers::default(),
        ack: Duration::from_millis(20),
    };
    let tick = json!({ "every": "1s", "task": "x", "overlap": "allow", "missed": "all" });
    let of_file = BTreeMap::from([("tick".to_owned(), serde_json::from_value(tick).unwrap())]);
    (Schedules::start(parts, &of_file).await.unwrap(), requested, status)
}

async fn wait_for(requested: &SyncMutex<Vec<TaskId>>, count: usize) -> Vec<TaskId> {
    let started = Instant::now();
    loop {
        let seen = requested.lock().unwrap().clone();
        if seen.len() >= count {
            return seen;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{seen:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[actix::test]
async fn a_firing_that_is_recorded_and_not_taken_is_requested_again_under_the_same_id() {
    let store = store::memory::new();
    let (schedules, requested, status) = life(&store, false).await;
    let first = wait_for(&requested, 2).await;
    assert_eq!(first[0], first[1], "the agent does not answer: the same is requested again");
    let view = schedules.get(&Principal::local_user(), "tick").await.unwrap();
    assert!(view.problem.unwrap().contains("did not answer") && !view.waiting.is_empty());
    // The life ends here; only the store remains.
    status.drain();
    let (schedules, requested, _) = life(&store, true).await;
    let after = wait_for(&requested, 3).await;
    assert_eq!(after[0], first[0]);
    let due: Vec<_> = after.iter().map(|task| task.as_str().to_owned()).collect();
    assert!(due.windows(2).all(|pair| pair[0] < pair[1]), "each once, in order: {due:?}");
    let view = schedules.get(&Principal::local_user(), "tick").await.unwrap();
    assert!(view.last_run.unwrap().run.task_id.is_some() && view.skips == 0);
}
