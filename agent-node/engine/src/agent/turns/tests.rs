use super::*;
use crate::{
    Input, Output, TurnStart, content,
    records::{Step, keys},
    replay,
    testing::{TestAgent, me},
    turn_end::SIGNAL_FRAME,
};
use patterns::{OutgoingSignal, turn::Checkpoint};
use protocol::{
    ids::{AgentId, Capability, TaskId},
    principal::Principal,
    signal::{ON_BEHALF_OF, PARENT_TASK, SignalType},
    trace::{TRACEPARENT, TraceContext},
    usage::ModelUsage,
};
use serde_json::{Value, json};
use store_types::Snapshot;

fn checkpoint(data: Value, replace: bool) -> Progress {
    Progress::Checkpoint(Checkpoint { data, replace, summary: None })
}

/// The acknowledged checkpoints of a turn.
fn acknowledged(agent: &mut TestAgent, turn: &TurnKey) -> Option<usize> {
    agent.take(|output| {
        if let Output::CheckpointsRecorded(key, count) = output {
            (key == turn).then_some(*count)
        } else {
            None
        }
    })
}

/// Starts again from the store, and returns the turn that begins.
fn restart(agent: &mut TestAgent) -> Option<Box<TurnStart>> {
    agent.restart();
    agent.take(|output| if let Output::StartTurn(turn) = output { Some(turn.clone()) } else { None })
}

#[test]
fn a_checkpoint_is_acknowledged_when_it_is_durable_and_given_to_the_turn_after_a_crash() {
    let mut agent = TestAgent::new(&[]);
    let (_, turn) = agent.begin_task("t-1");
    agent.handle(Input::TurnProgress(turn.clone(), vec![checkpoint(json!({ "step": 1 }), false)]));
    assert_eq!(acknowledged(&mut agent, &turn), None, "it is not committed");
    agent.commit_all();
    assert_eq!(acknowledged(&mut agent, &turn), Some(1));
    let two = vec![checkpoint(json!("second"), false), checkpoint(json!("third"), false)];
    agent.handle(Input::TurnProgress(turn.clone(), two));
    agent.refuse_commit(store_types::Error::Full);
    assert_eq!(acknowledged(&mut agent, &turn), None);
    agent.fire_timer(std::time::Duration::from_millis(500));
    agent.commit_all();
    assert_eq!(acknowledged(&mut agent, &turn), Some(2), "the step was repeated");
    let again = restart(&mut agent).unwrap();
    assert_eq!(again.key, turn);
    assert_eq!(again.prompt.checkpoints, [json!({ "step": 1 }), json!("second"), json!("third")]);
    agent.handle(Input::TurnProgress(turn.clone(), vec![checkpoint(json!("all"), true)]));
    agent.commit_all();
    assert_eq!(restart(&mut agent).unwrap().prompt.checkpoints, [json!("all")]);
}

#[test]
fn a_turn_that_begins_again_begins_without_the_requests_of_the_run_that_died() {
    let ask = |id: &str, description: &str, wait: bool| -> Progress {
        serde_json::from_value(
            json!({ "type": "delegate", "id": id, "to": "peer", "description": description,
            "wait": wait }),
        )
        .unwrap()
    };
    let question = || Progress::Question(protocol::question::Question::new("q", "of the first run"));
    let mut agent = TestAgent::new(&[]);
    let (id, turn) = agent.begin_task("t-1");
    agent.handle(Input::TurnProgress(turn.clone(), vec![ask("a", "first", true), question()]));
    agent.handle(Input::TurnProgress(turn.clone(), vec![ask("now", "sent at once", false)]));
    agent.commit_all();
    assert_eq!(restart(&mut agent).unwrap().key, turn);
    agent.handle(Input::TurnProgress(turn.clone(), vec![ask("a", "second", true)]));
    agent.handle(Input::TurnEnded(turn, vec![ask("b", "third", true)], Ok(TurnEnd::Waiting)));
    agent.commit_all();
    let journal = agent.store.read(&store_types::Filter::Exactly(keys::journal(&me(), &id)), 0, 20).unwrap();
    let steps = journal.iter().map(|line| content::decode::<Step>(&me(), &agent.store, &line.value).unwrap());
    let mut sent = Vec::new();
    for effect in steps.flat_map(|step| step.effects) {
        let patterns::Effect::Send(message) = effect else { continue };
        let protocol::message::Payload::TaskRequest(request) = message.payload else { continue };
        sent.push(request.terms.description);
    }
    assert_eq!(sent, ["sent at once", "second", "third"]);
    let (task, by) = (TaskId::parse("t-1").unwrap(), Principal::local_user());
    let row = crate::tasks::find(&agent.store, &me(), &task, &by).unwrap().unwrap();
    assert!(row.task.status.questions.is_empty(), "{:?}", row.task.status);
}

#[test]
fn a_cancelled_task_is_charged_the_call_of_a_model_that_is_cut() {
    let mut agent = TestAgent::new(&[]);
    let (_, turn) = agent.begin_task("t-1");
    let call = ModelUsage { model: "m".into(), input_tokens: 70, estimated: true, ..ModelUsage::default() };
    let other = TurnKey { effect: EffectKey(99, 0), ..turn.clone() };
    agent.cancel_with("t-1", vec![(turn.clone(), call.clone()), (other, call.clone())]);
    agent.commit_all();
    let stopped =
        agent.take(|output| if let Output::StopTurn(key) = output { Some(key.clone()) } else { None });
    assert_eq!(stopped, Some(turn.clone()));
    let (task, by) = (TaskId::parse("t-1").unwrap(), Principal::local_user());
    let row = |agent: &TestAgent| crate::tasks::find(&agent.store, &me(), &task, &by).unwrap().unwrap().task;
    let (state, usage) = (row(&agent).status.state, row(&agent).usage);
    assert_eq!((state, usage.tokens(), usage.estimated_tokens), (TaskState::Canceled, 70, 70));
    // A task that has ended is charged nothing more.
    agent.cancel_with("t-1", vec![(turn, call)]);
    agent.commit_all();
    assert_eq!(row(&agent).usage.tokens(), 70);
}

#[test]
fn attempts_count_since_the_last_checkpoint() {
    let mut agent = TestAgent::new(&[]);
    let (_, turn) = agent.begin_task("t-1");
    for round in 0..3 {
        for _ in 0..4 {
            assert!(restart(&mut agent).is_some(), "round {round}");
        }
        agent.handle(Input::TurnProgress(turn.clone(), vec![checkpoint(json!(round), false)]));
        agent.commit_all();
    }
    let begun = (0..5).filter(|_| restart(&mut agent).is_some()).count();
    assert_eq!(begun, 4, "without a checkpoint it is given up");
}

#[test]
fn a_large_checkpoint_is_recorded_once_and_its_journal_replays() {
    let mut agent = TestAgent::new(&[]);
    let (id, turn) = agent.begin_task("t-1");
    let data =
        json!({ "messages": (0..200).map(|n| format!("message {n} of the model")).collect::<Vec<_>>() });
    agent.handle(Input::TurnProgress(turn, vec![checkpoint(data.clone(), false)]));
    agent.commit_all();
    let line = agent.store.latest(&keys::journal(&me(), &id)).unwrap().unwrap();
    let (bytes, size) = (line.value.len(), data.to_string().len());
    assert!(bytes < 1_500, "the journal has {bytes} bytes for a checkpoint of {size}");
    let journal = agent.store.read(&store_types::Filter::Exactly(keys::journal(&me(), &id)), 0, 10).unwrap();
    let steps: Vec<Step> =
        journal.iter().map(|line| content::decode(&me(), &agent.store, &line.value).unwrap()).collect();
    let is_whole = |update: &Progress| *update == checkpoint(data.clone(), false);
    assert!(steps.iter().flat_map(|step| &step.events).any(|event| {
        matches!(&event.what, EventKind::TurnProgress { updates, .. } if updates.iter().any(is_whole))
    }));
    replay::audit(&steps).unwrap();
}

#[test]
fn usage_is_shown_in_the_row_and_in_a_turn_that_begins_again() {
    let mut agent = TestAgent::new(&[]);
    let (_, turn) = agent.begin_task("t-1");
    let call = ModelUsage {
        model: "m".into(),
        input_tokens: 7,
        output_tokens: 2,
        cost: None,
        ..ModelUsage::default()
    };
    agent.handle(Input::TurnProgress(turn, vec![Progress::Usage(call)]));
    agent.commit_all();
    let by = protocol::principal::Principal::local_user();
    let task = protocol::ids::TaskId::parse("t-1").unwrap();
    let row = crate::tasks::find(&agent.store, &me(), &task, &by).unwrap().unwrap();
    assert_eq!((row.task.usage.tokens(), row.task.usage.unpriced_tokens), (9, 9));
    assert_eq!(restart(&mut agent).unwrap().prompt.used, row.task.usage);
}

#[test]
fn a_signal_is_never_larger_on_the_board_than_assumed() {
    let name = "n".repeat(64);
    let (me, task) = (AgentId::parse(&name).unwrap(), TaskId::parse(&name).unwrap());
    let conversation = ConversationId::parse("00000000-0000-0000-0000-000000000000").unwrap();
    let id = EffectId { agent: me.clone(), conversation, step: u64::MAX, index: u32::MAX };
    let trace = TraceContext { trace_id: u128::MAX, span_id: u64::MAX, sampled: true, state: None };
    let own = json!({ "url": "x" });
    let own = own.as_object().unwrap();
    for kind in [SignalType::task_available(), SignalType::parse("acme.news").unwrap()] {
        let capability = Some(Capability::parse(&name).unwrap());
        let subject = Some("s".to_owned());
        let update = Progress::Signal {
            signal: kind.clone(),
            subject: subject.clone(),
            capability: capability.clone(),
            refs: own.clone(),
        };
        let mut refs = own.clone();
        refs.extend([
            (PARENT_TASK.to_owned(), json!(task)),
            (TRACEPARENT.to_owned(), json!(trace.to_string())),
            ("hops".to_owned(), json!(u32::MAX)),
        ]);
        refs.remove(ON_BEHALF_OF);
        let signal = OutgoingSignal {
            kind,
            subject,
            task_id: Some(task.clone()),
            capability,
            refs,
            to: Vec::new(),
            root_proof: None,
        };
        let mut signal = signal.signed(id.to_string(), me.clone(), WallTime(0));
        signal.root = Some(Principal::Agent(me.clone()));
        let (assumed, sent) = (
            serde_json::to_vec(&update).unwrap().len() + SIGNAL_FRAME,
            serde_json::to_vec(&signal).unwrap().len(),
        );
        assert!(sent <= assumed && assumed - sent < 150, "{sent} of {assumed}: {signal:?}");
    }
}
