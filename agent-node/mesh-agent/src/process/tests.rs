use super::*;
use crate::{BidCall, BidLine, Cost, Question, TurnResult};
use serde_json::{Value, json};
use std::{
    io::{BufReader, PipeReader, PipeWriter, pipe},
    sync::atomic::{AtomicBool, Ordering},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// A process of a brain without a process.
struct Worker {
    to: Option<PipeWriter>,
    from: BufReader<PipeReader>,
    is_abandoned: Arc<AtomicBool>,
    ended: Option<JoinHandle<io::Result<()>>>,
    /// That of the last prompt.
    key: String,
}

impl Worker {
    fn start(brain: impl Brain + Send + 'static) -> Self {
        let (input, to) = pipe().unwrap();
        let (from, output) = pipe().unwrap();
        let is_abandoned = Arc::new(AtomicBool::new(false));
        let abandoned = is_abandoned.clone();
        let abandon = move || abandoned.store(true, Ordering::SeqCst);
        let ended = std::thread::spawn(move || run_many(brain, BufReader::new(input), output, abandon));
        Self {
            to: Some(to),
            from: BufReader::new(from),
            is_abandoned,
            ended: Some(ended),
            key: String::new(),
        }
    }

    fn send(&mut self, line: &Value) {
        writeln!(self.to.as_ref().unwrap(), "{line}").unwrap();
    }

    fn turn(&mut self, key: &str, description: &str) {
        self.key = key.to_owned();
        let task = json!({ "taskId": "t-1", "description": description });
        self.send(&json!({ "type": "turn", "agent": "me", "key": key, "turn": 1, "task": task }));
    }

    fn line(&mut self) -> Value {
        let mut text = String::new();
        self.from.read_line(&mut text).unwrap();
        let mut line: Value = serde_json::from_str(&text).unwrap();
        let key = line.as_object_mut().unwrap().remove("key");
        assert_eq!(key, Some(json!(self.key)), "{text}");
        line
    }

    fn end_input(&mut self) -> std::thread::Result<io::Result<()>> {
        self.to = None;
        self.ended.take().unwrap().join()
    }
}

fn done(message: &str) -> Value {
    json!({ "type": "done", "message": message })
}

#[test]
fn a_worker_takes_turns_and_calls_until_its_input_ends() {
    struct Counting(u32);
    impl Brain for Counting {
        fn turn(&mut self, turn: &Turn) -> TurnResult {
            self.0 += 1;
            Ok(format!("{} {}", turn.task()?.description, self.0))
        }

        fn bid(&mut self, call: &BidCall) -> Result<BidLine, String> {
            match call.cfp.description.as_str() {
                "dig" => {
                    Ok(BidLine { cost: Cost::new(call.computed.cost.get() * 2.0), ..BidLine::default() })
                }
                other => Err(format!("I do not {other}")),
            }
        }
    }
    let mut worker = Worker::start(Counting(0));
    worker.turn("a", "first");
    assert_eq!(worker.line(), done("first 1"));
    for (description, answer) in [
        ("dig", json!({ "type": "bid", "cost": 0.04 })),
        ("fly", json!({ "type": "no-bid", "reason": "I do not fly" })),
    ] {
        let cfp = json!({ "taskId": "t", "capability": "c", "description": description, "bidBy": "2027-01-01T00:00:00Z" });
        let computed = json!({ "cost": 0.02, "eta": 1000, "match": 1.0, "load": 0.0 });
        worker.key = "b".to_owned();
        worker.send(
            &json!({ "type": "cfp", "agent": "me", "key": "b", "withinMs": 9, "cfp": cfp, "computed": computed }),
        );
        assert_eq!(worker.line(), answer);
    }
    worker.turn("c", "second");
    assert_eq!(worker.line(), done("second 2"));
    worker.end_input().unwrap().unwrap();
    assert!(!worker.is_abandoned.load(Ordering::SeqCst));
}

#[test]
fn a_checkpoint_of_a_worker_returns_when_it_is_recorded_and_a_cancel_ends_the_wait() {
    let mut worker = Worker::start(|turn: &Turn| {
        let drafted: String = turn.once("draft", || Ok("a draft".to_owned()))?;
        turn.checkpoint(json!({ "step": 2 }))?;
        assert_eq!(turn.checkpoints().len(), 2);
        turn.status("sent");
        let answer = turn.ask(Question::choice("go", "Go on?", ["yes", "no"]))?;
        Ok(format!("{drafted}: {}", answer.text))
    });
    worker.turn("a", "x");
    assert_eq!(
        worker.line(),
        json!({ "type": "checkpoint", "data": { "once": "draft", "result": "a draft" } })
    );
    worker.send(&json!({ "type": "recorded", "key": "other", "checkpoints": 9 }));
    worker.send(&json!({ "type": "recorded", "key": "a", "checkpoints": 1 }));
    assert_eq!(worker.line()["data"], json!({ "step": 2 }));
    worker.send(&json!({ "type": "recorded", "key": "a", "checkpoints": 2 }));
    assert_eq!(worker.line()["type"], "status");
    assert_eq!(worker.line()["options"], json!(["yes", "no"]));
    assert_eq!(worker.line(), json!({ "type": "wait" }));

    worker.turn("b", "x");
    assert_eq!(worker.line()["type"], "checkpoint");
    worker.send(&json!({ "type": "cancel", "key": "b" }));
    assert_eq!(worker.line(), json!({ "type": "failed", "reason": "cancelled" }));
    worker.end_input().unwrap().unwrap();
}

#[test]
fn the_end_of_the_input_abandons_a_turn_that_runs_and_a_panic_fails_one() {
    let mut worker = Worker::start(|turn: &Turn| {
        let end = Instant::now() + Duration::from_secs(20);
        while !turn.is_cancelled() && Instant::now() < end {
            std::thread::yield_now();
        }
        panic!("what a {}", turn.task()?.description)
    });
    worker.turn("a", "day");
    worker.send(&json!({ "type": "cancel", "key": "a" }));
    assert_eq!(worker.line(), json!({ "type": "failed", "reason": "the brain panicked: what a day" }));
    assert!(worker.end_input().is_err(), "the process ends");

    let mut worker = Worker::start(|_: &Turn| {
        std::thread::park();
        Ok(String::new())
    });
    worker.turn("a", "x");
    worker.to = None;
    let end = Instant::now() + Duration::from_secs(20);
    while !worker.is_abandoned.load(Ordering::SeqCst) {
        assert!(Instant::now() < end, "the turn goes on without a node");
        std::thread::yield_now();
    }
}

#[test]
fn what_is_no_line_of_the_protocol_ends_the_process_with_the_cause() {
    let mut worker = Worker::start(|_: &Turn| Ok(String::new()));
    worker.send(&json!({ "type": "dance" }));
    let error = worker.end_input().unwrap().unwrap_err().to_string();
    assert!(error.contains("no line of the brain protocol") && error.contains("dance"), "{error}");
}
