use super::*;
use crate::brain::echo::Echo;
use protocol::ids::Capability;
use serde_json::{Value, json};

fn seat(id: &str, skill: &str, cost: f64, eta: u64) -> Seat {
    Seat {
        id: AgentId::parse(id).unwrap(),
        description: String::new(),
        skills: vec![Skill {
            id: Capability::parse(skill).unwrap(),
            description: String::new(),
            tags: Vec::new(),
            output_modes: Vec::new(),
        }],
        open: false,
        a2a: Default::default(),
        terms: Terms {
            cost: protocol::bid::Cost::new(cost).unwrap(),
            eta: protocol::bid::Eta(eta),
            max_parallel: 4,
        },
        subscribe: Vec::new(),
        brain: Arc::new(Echo),
        port: 0,
    }
}

fn setup(seats: Vec<Seat>) -> Setup {
    Setup {
        listen: "127.0.0.1".parse().unwrap(),
        reach: Default::default(),
        port: 0,
        registry: Some(Service::Here),
        board: Service::Here,
        seats,
        store: blackboard::store::memory::new(),
        secret: Secret::new(&[7; 32]).unwrap(),
        limits: Limits::default(),
        auction: Auction::default(),
        patience: Patience::default(),
        registry_config: RegistryConfig::default(),
        board_config: BoardConfig::default(),
        outside: Default::default(),
        keys: Default::default(),
        telemetry: Default::default(),
        callers: Vec::new(),
        gauge: None,
    }
}

async fn ask(url: &str, body: &Value) -> (u16, Value) {
    let client = blackboard::wire::tls::client().no_proxy().build().unwrap();
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
async fn an_agent_that_lacks_the_skill_finds_who_has_it() {
    let running = start(setup(vec![
        seat("planner-01", "plan", 0.0, 1_000),
        seat("builder-01", "build", 0.0, 300_000),
        seat("builder-02", "build", 0.02, 120_000),
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

#[actix::test]
async fn a_rule_that_panics_ends_its_task_visibly_and_the_agent_lives_on() {
    let running = start(setup(vec![seat("builder-01", "build", 0.0, 1_000)])).await.unwrap();
    let url = format!("http://{}", running.agents[&AgentId::parse("builder-01").unwrap()]);
    let request = |task: &str| {
        json!({
            "fromAgentId": "me", "toAgentId": "builder-01", "type": "task-request",
            "payload": { "taskId": task, "description": "hello", "capability": "build" }
        })
    };
    crate::conversation::tests::panic_on_thoughts(1);
    let (status, broken) = ask(&url, &request("t-1")).await;
    assert_eq!(
        (status, broken["status"]["state"].as_str()),
        (200, Some("TASK_STATE_CANCELED")),
        "{broken:#}"
    );
    assert!(broken["status"]["message"]["parts"][0]["text"].as_str().unwrap().contains("an internal fault"));
    let (status, next) = ask(&url, &request("t-2")).await;
    assert_eq!((status, next["status"]["state"].as_str()), (200, Some("TASK_STATE_COMPLETED")), "{next:#}");
    running.stop(Duration::from_secs(1)).await;
}
