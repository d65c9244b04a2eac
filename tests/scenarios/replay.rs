//! The journals of a real run replay. Every other scenario checks the same of the processes that it started.

use crate::harness::{Process, audit::replay_journals, state};
use engine::{
    content,
    records::{Step, keys},
};
use protocol::ids::AgentId;
use serde_json::json;
use store::{
    Batch, Lane, Write,
    embedded::{self, StoreOptions},
};

const TEAM: &str = "agents:
  - { agent: manager-01, skills: [manage], brain: { echo: {} } }
  - { agent: worker-01, skills: [work], brain: { echo: {} } }
  - { agent: worker-02, skills: [work], brain: { echo: {} } }
";

#[tokio::test]
async fn the_journals_of_manager_and_winner_replay_after_kill_9() {
    let mut process = Process::up(TEAM).await;
    let task = process.agent("manager-01").ask(json!({ "description": "do it", "capability": "work" })).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    process.kill();
    let replayed = replay_journals(&process.data, process.agents.keys()).unwrap();
    assert!(replayed >= 2, "{replayed} journals replayed");
}

#[tokio::test]
async fn a_journal_with_an_effect_that_no_event_caused_does_not_replay() {
    let mut process = Process::up(TEAM).await;
    let me = AgentId::parse("worker-01").unwrap();
    let task = process.agent(me.as_str()).ask(json!({ "description": "do it", "capability": "work" })).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    process.kill();
    let store = embedded::open(&process.data, StoreOptions::default()).unwrap();
    let journal = store.read(&keys::all(&me, "journal"), 0, 256).unwrap();
    let last = journal.last().unwrap();
    let step: Step = content::decode(&me, store.as_ref(), &last.value).unwrap();
    let forged = Step { step: step.step + 1, effects: step.effects, ..Step::default() };
    let bytes = serde_json::to_vec(&forged).unwrap();
    let batch =
        Batch { writes: vec![Write::Append(last.key.clone(), bytes.into())], expectations: Vec::new() };
    store.commit(Lane::Progress, batch).await.unwrap();
    drop(store);
    let refused = replay_journals(&process.data, process.agents.keys()).unwrap_err();
    assert!(refused.contains("the replay gives None"), "{refused}");
    process.agents.clear();
}
