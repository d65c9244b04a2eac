mod claims;
mod failed_steps;
mod group_commit;
mod intercepting_store;
mod storage_full;
mod supervision;

use super::*;
use crate::{
    brain::{Brain, echo::EchoBrain},
    config::MeshConfig,
};
use engine::settings::{AgentSettings, BidSettings};
use protocol::{card::Skill, ids::Capability, limits::Limits, signature::Secret};
use registry::registration_request::RegistrationRequest;
use serde_json::{Value, json};
use store::{
    Batch, Error, Filter, Key, Lane, ListQuery, ListedKey, Record, Revision, Store, StoreFuture, StoreWatch,
};
use transport::key_ring::KeyRing;

/// The keys of all nodes of these tests: an agent keeps its key when its node starts again.
static KEYS: std::sync::LazyLock<tempfile::TempDir> =
    std::sync::LazyLock::new(|| tempfile::tempdir().unwrap());

fn agent_spec(id: &str, skill: &str, cost: f64, eta: u64) -> AgentSpec {
    AgentSpec {
        id: AgentId::parse(id).unwrap(),
        settings: AgentSettings {
            skills: vec![Skill {
                id: Capability::parse(skill).unwrap(),
                name: String::new(),
                description: String::new(),
                examples: Vec::new(),
                tags: Vec::new(),
                output_modes: Vec::new(),
            }],
            bid: BidSettings {
                cost: protocol::bid::Cost::new(cost),
                eta: Some(protocol::bid::Eta(eta)),
                max_parallel: Some(4),
                ..BidSettings::default()
            },
            ..AgentSettings::default()
        },
        brain: Arc::new(EchoBrain),
        acceptance: Default::default(),
        schedules: Default::default(),
        triggers: Default::default(),
        port: None,
        pending_card: None,
        peer: None,
        access: Default::default(),
        workspaces: Default::default(),
    }
}

fn setup(agents: Vec<AgentSpec>) -> NodeSetup {
    let outside = crate::outbox::outbound_client::OutboundClient::new(Default::default(), Default::default());
    let outside = outside.unwrap();
    NodeSetup {
        listen: "127.0.0.1".parse().unwrap(),
        advertise: Default::default(),
        port: 0,
        registry: Some(ServiceLocation::Local),
        board: ServiceLocation::Local,
        agents,
        store: store::memory::new(),
        space_store: None,
        requests: None,
        secret: Secret::new(&[7; 32]).unwrap(),
        mesh: MeshConfig::default(),
        logins: crate::tool_login::ToolLogins::new(KEYS.path().join("logins"), outside.clone()),
        outside,
        keys: crate::signing_keys::SigningKeys::at(Some(KEYS.path().to_owned())),
        hooks: Default::default(),
        telemetry: Default::default(),
        tokens: Default::default(),
        gauge: None,
    }
}

/// A client of the agent manager-01, which is registered from elsewhere.
async fn manager(secret: Secret, running: &RunningNode) -> HttpClient {
    let me = AgentId::parse("manager-01").unwrap();
    let keys = KeyRing::new(secret, None);
    keys.set_own(crate::signing_keys::SigningKeys::at(None).identity(&me).unwrap());
    let signer = Signer { keys: keys.clone(), me: me.clone() };
    let wire = HttpClient::new(Some(signer), HttpClientLimits::default()).unwrap();
    let registry = Registry::remote(&format!("http://{}", running.services.unwrap()), wire.clone());
    let card = agent_spec("manager-01", "manage", 0.0, 1).settings.card(
        me,
        "http://127.0.0.1:1".to_owned(),
        Limits::default(),
    );
    let request = RegistrationRequest { card: Arc::new(card), instance: "1".to_owned() };
    let grant = registry.call(&request.card.agent_id.clone(), request).await.unwrap();
    keys.learn(&grant.certificate.unwrap()).unwrap();
    wire
}

async fn ask(url: &str, body: &Value) -> (u16, Value) {
    let client = transport::http_client::tls::client().no_proxy().build().unwrap();
    let answer = client
        .post(format!("{url}/a2a/messages"))
        .header("prefer", "wait=10")
        .json(body)
        .send()
        .await
        .unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[actix::test]
async fn an_agent_without_the_skill_delegates_to_one_that_has_it() {
    let running = start(setup(vec![
        agent_spec("planner-01", "plan", 0.0, 1_000),
        agent_spec("builder-01", "build", 0.0, 300_000),
        agent_spec("builder-02", "build", 0.02, 120_000),
    ]))
    .await
    .unwrap();
    let url = |id: &str| format!("http://{}", running.agents[&AgentId::parse(id).unwrap()]);
    let request = |to: &str, task: &str, capability: &str| {
        json!({
            "fromAgentId": "me", "toAgentId": to, "type": "task-request",
            "payload": { "taskId": task, "description": "hello", "capability": capability }
        })
    };
    let (status, own) = ask(&url("builder-01"), &request("builder-01", "t-1", "build")).await;
    assert_eq!((status, own["status"]["state"].as_str()), (200, Some("TASK_STATE_COMPLETED")), "{own:#}");
    let (status, task) = ask(&url("planner-01"), &request("planner-01", "t-2", "build")).await;
    assert_eq!((status, task["status"]["state"].as_str()), (200, Some("TASK_STATE_COMPLETED")), "{task:#}");
    assert_eq!(task["metadata"][protocol::task::EXTENSION]["doer"], "builder-02");
    let (status, none) = ask(&url("planner-01"), &request("planner-01", "t-3", "cook")).await;
    assert_eq!((status, none["status"]["state"].as_str()), (200, Some("TASK_STATE_FAILED")), "{none:#}");
    running.stop(Duration::from_secs(1)).await;
}

/// A brain whose turns never end.
struct NeverEnds;

impl Brain for NeverEnds {
    fn think(
        &self,
        _: crate::brain::TurnRequest,
        report: crate::brain::TurnHandle,
    ) -> crate::brain::TurnFuture {
        Box::pin(async move {
            let _open = report;
            std::future::pending().await
        })
    }

    fn name(&self) -> &'static str {
        "never-ends"
    }
}

#[actix::test]
async fn a_new_award_begins_when_the_end_of_the_older_one_is_recorded() {
    let batches: Arc<std::sync::Mutex<Vec<Vec<String>>>> = Arc::default();
    let recorded = batches.clone();
    let store =
        intercepting_store::InterceptingStore::new(store::memory::new(), move |store, lane, batch| {
            let keys = batch.writes.iter().map(|write| write.key().to_string()).collect();
            recorded.lock().unwrap().push(keys);
            store.commit(lane, batch)
        });
    let mut busy = AgentSpec { brain: Arc::new(NeverEnds), ..agent_spec("builder-01", "build", 0.0, 1_000) };
    busy.settings.bid.max_parallel = Some(1);
    let setup = NodeSetup { store, ..setup(vec![busy]) };
    let secret = setup.secret.clone();
    let running = start(setup).await.unwrap();
    let url = format!("http://{}/a2a/messages", running.agents[&AgentId::parse("builder-01").unwrap()]);
    let wire = manager(secret, &running).await;
    let award = async |epoch: u64| {
        let id = format!("award-{epoch}");
        let body = json!({
            "messageId": id, "fromAgentId": "manager-01", "toAgentId": "builder-01", "type": "award",
            "payload": { "taskId": "t-1", "epoch": epoch, "leaseMs": 60_000,
                "task": { "taskId": "t-1", "description": "x", "root": "user:local" } }
        });
        let call = || {
            transport::http_client::ClientRequest::post(&url, "builder-01", body.to_string().into())
                .message_id(&id)
        };
        loop {
            match wire.json::<Value>(call()).await {
                Ok(ack) => break ack["conversationId"].as_str().unwrap().to_owned(),
                Err(problem) => assert_eq!(problem.reason, Reason::Overloaded, "{problem}"),
            }
        }
    };
    let (older, newer) = (award(3).await, award(7).await);
    let batches = batches.lock().unwrap().clone();
    let writes_row = |keys: &Vec<String>, of: &str| {
        let journal = format!("builder-01.journal.{of}");
        keys.contains(&journal) && keys.iter().any(|key| key.starts_with("builder-01.task."))
    };
    let end = batches.iter().rposition(|keys| writes_row(keys, &older)).unwrap();
    let begin = batches.iter().position(|keys| writes_row(keys, &newer)).unwrap();
    assert!(end < begin, "{batches:#?}");
    running.stop(Duration::ZERO).await;
}

/// An award of `task` whose task specification names `inner`.
fn award_of(task: &str, inner: &str) -> crate::inbox::TakeMessage {
    let body = json!({
        "messageId": format!("award-{task}"), "fromAgentId": "manager-01", "toAgentId": "builder-01", "type": "award",
        "payload": { "taskId": task, "epoch": 1, "leaseMs": 60_000,
            "task": { "taskId": inner, "description": "x", "root": "user:local" } }
    });
    crate::inbox::TakeMessage(engine::IncomingMessage {
        envelope: Box::new(
            protocol::envelope::Envelope::from_json(body, || unreachable!("it has an id")).unwrap(),
        ),
        by: Principal::Agent(AgentId::parse("manager-01").unwrap()),
        proof: protocol::principal::SenderProof::Credential,
        digest: protocol::ids::Digest::of(task.as_bytes()),
        trace: None,
        contact: None,
        origin: None,
        approval: None,
    })
}

#[actix::test]
async fn an_award_that_names_two_tasks_is_refused_with_the_member_named() {
    let running = start(setup(vec![agent_spec("builder-01", "build", 0.0, 1_000)])).await.unwrap();
    let refused = running.actors[0].send(award_of("t-1", "t-2")).await.unwrap().unwrap_err();
    assert_eq!(
        (refused.reason, refused.metadata),
        (Reason::InvalidField, vec![("field", "payload.task.taskId".into())])
    );
    assert!(refused.message.contains("t-1") && refused.message.contains("t-2"), "{}", refused.message);
    running.stop(Duration::ZERO).await;
}

#[actix::test]
async fn concurrent_awards_do_not_exceed_max_parallel() {
    let mut busy = AgentSpec { brain: Arc::new(NeverEnds), ..agent_spec("builder-01", "build", 0.0, 1_000) };
    busy.settings.bid.max_parallel = Some(1);
    let running = start(setup(vec![busy])).await.unwrap();
    let award = |task: &str| award_of(task, task);
    let actor = running.actors[0].clone();
    // Both are in the mailbox before either is recorded.
    let (first, second) =
        futures_util::future::join(actor.send(award("t-1")), actor.send(award("t-2"))).await;
    first.unwrap().unwrap();
    second.unwrap().unwrap();
    let seen = actor.send(crate::agent::GetAgentSnapshot).await.unwrap().unwrap();
    assert_eq!(seen.running, 1, "{seen:?}");
    running.stop(Duration::ZERO).await;
}
