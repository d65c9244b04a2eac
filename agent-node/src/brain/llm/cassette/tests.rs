use super::*;
use crate::{
    brain::llm::model::{
        ModelAnswer, ModelDelta, ModelError, ModelErrorKind, ModelMessage, ModelRequest, ModelStream,
        StopReason, TokenUsage, ToolCall, ToolSpec, ToolText,
    },
    telemetry::capture::CaptureLevel,
};
use futures_util::{StreamExt, stream};
use serde_json::json;
use std::{path::Path, sync::Mutex};

/// A model that gives these outcomes in their order.
struct ScriptedModel(Mutex<Vec<Result<ModelAnswer, ModelError>>>);

impl ModelClient for ScriptedModel {
    fn ask(&self, _request: Arc<ModelRequest>) -> ModelStream {
        let outcome = self.0.lock().unwrap().remove(0);
        stream::iter([Ok(ModelDelta::Hidden(1)), outcome.map(ModelDelta::Answer)]).boxed()
    }

    fn name(&self) -> &str {
        "openai/one"
    }
}

fn says(text: &str) -> ModelAnswer {
    let usage = Some(TokenUsage { input: 7, output: 2, ..TokenUsage::default() });
    ModelAnswer { text: text.into(), calls: Vec::new(), stop: StopReason::Complete, usage, kept: None }
}

fn request(first: &str) -> ModelRequest {
    ModelRequest {
        system: "You are a.".into(),
        messages: vec![ModelMessage::User(format!("{first} deadline"))],
        tools: vec![ToolSpec {
            name: "log".into(),
            description: "d".into(),
            schema: json!({ "type": "object" }),
        }],
        output_schema: None,
        repeatable: (0, first.into()),
        has_budget_note: false,
        media: std::collections::BTreeMap::new(),
        silence: None,
    }
}

async fn ask(model: &dyn ModelClient, request: &ModelRequest) -> (String, Result<ModelAnswer, ModelError>) {
    let deltas: Vec<_> = model.ask(Arc::new(request.clone())).collect().await;
    let mut text = String::new();
    for delta in deltas {
        match delta {
            Ok(ModelDelta::Text(piece)) => text.push_str(&piece),
            Ok(ModelDelta::Answer(answer)) => return (text, Ok(answer)),
            Ok(_) => {}
            Err(error) => return (text, Err(error)),
        }
    }
    panic!("the stream has no end")
}

/// Records the outcomes of one request after the other.
async fn record(path: &Path, calls: Vec<(ModelRequest, Result<ModelAnswer, ModelError>)>) {
    let secrets = Capture::new(CaptureLevel::Off, ["canary-secret".to_owned()]);
    let cassette = Cassette::open(&CassetteMode::Record(path.into()), secrets).unwrap().unwrap();
    let (requests, outcomes): (Vec<_>, Vec<_>) = calls.into_iter().unzip();
    let model = cassette.wrap(Arc::new(ScriptedModel(Mutex::new(outcomes.clone()))));
    for (request, outcome) in requests.iter().zip(outcomes) {
        assert_eq!(ask(model.as_ref(), request).await.1, outcome, "a recorded call is given on as it is");
    }
}

fn replay(path: &Path, secrets: &[&str]) -> Arc<dyn ModelClient> {
    let capture = Capture::new(CaptureLevel::Off, secrets.iter().map(|secret| (*secret).to_owned()));
    let cassette = Cassette::open(&CassetteMode::Replay(path.into()), capture).unwrap().unwrap();
    cassette.wrap(Arc::new(ScriptedModel(Mutex::default())))
}

#[tokio::test]
async fn equal_requests_get_their_answers_in_order_and_the_last_one_from_then_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("team.jsonl");
    let call = ToolCall::parse("p1".into(), "log".into(), r#"{"n":1}"#, Some(json!("signature")));
    let calls = ModelAnswer { calls: vec![call], ..says("I look.") };
    let gone = Err(ModelError { kind: ModelErrorKind::Permanent, ..ModelError::transient("no such model") });
    record(
        &path,
        vec![
            (request("a"), Err(ModelError::transient("busy"))),
            (request("a"), Ok(calls.clone())),
            (request("a"), Ok(says(&"second ".repeat(20)))),
            (request("b"), gone.clone()),
        ],
    )
    .await;
    let model = replay(&path, &[]);
    // What a provider wants back is not recorded.
    let mut expected = calls;
    expected.calls[0] = ToolCall { id: String::new(), extra: None, ..expected.calls[0].clone() };
    assert_eq!(ask(model.as_ref(), &request("a")).await.1, Ok(expected));
    for _ in 0..2 {
        let (text, answer) = ask(model.as_ref(), &request("a")).await;
        assert_eq!((text.as_str(), answer), ("second ".repeat(20).as_str(), Ok(says(&text))));
    }
    assert_eq!(ask(model.as_ref(), &request("b")).await.1, gone);
}

#[tokio::test]
async fn what_differs_between_runs_does_not_change_the_digest_and_all_else_does() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("team.jsonl");
    let result = |text: &str| vec![("c1_0".to_owned(), ToolText { text: text.to_owned(), is_error: false })];
    let with_result = |text: &str, extra: Option<serde_json::Value>| {
        let call = ToolCall::parse("c1_0".into(), "log".into(), "{}", extra);
        let mut asked = request("a");
        asked.messages.push(ModelMessage::Assistant {
            text: "I look.".into(),
            calls: vec![call],
            kept: None,
        });
        asked.messages.push(ModelMessage::Results(result(text)));
        asked
    };
    let recorded = with_result("task 0198c9b1-7e7a-7cc3-9b1a-0a1b2c3d4e5f is done", Some(json!("one")));
    record(&path, vec![(recorded, Ok(says("fine")))]).await;
    let model = replay(&path, &[]);
    let mut same = with_result("task 0198c9b1-7e7a-7cc3-9b1a-ffffffffffff is done", Some(json!("two")));
    same.messages[0] = ModelMessage::User("a, until tomorrow".into());
    same.messages.push(ModelMessage::User("Only 3 tokens are left.".into()));
    same.has_budget_note = true;
    assert_eq!(ask(model.as_ref(), &same).await.1, Ok(says("fine")));

    let mut other_tool = same.clone();
    other_tool.tools[0].name = "read".into();
    let mut other_system = same.clone();
    other_system.system = "You are b.".into();
    let long = format!("{}x", "the same for a while ".repeat(3));
    for (asked, difference) in [
        (
            with_result("task 1 is done", None),
            r#"messages[2].results[0].text: recorded "task [uuid] is done", now "task 1 is done""#,
        ),
        (other_tool, "tools.log: recorded {\"description\""),
        (other_system, r#"system: recorded "You are a.", now "You are b.""#),
        (request("a"), r#"messages[1]: recorded {"assistant"#),
        (request(&long), "messages[0].user: recorded \"a\", now \"the same"),
    ] {
        let error = ask(model.as_ref(), &asked).await.1.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Cassette);
        let message = error.message.replace("\\\"", "\"");
        assert!(message.contains("line 2") && message.contains(difference), "{message}");
    }
}

#[tokio::test]
async fn the_nearest_request_is_that_with_the_longest_equal_beginning() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("team.jsonl");
    let with = |texts: &[&str]| {
        let mut asked = request("a");
        asked.messages.extend(texts.iter().map(|text| ModelMessage::User((*text).to_owned())));
        asked
    };
    let calls = [with(&["x"]), with(&["one", "two"]), with(&["one"])];
    record(&path, calls.map(|asked| (asked, Ok(says("fine")))).to_vec()).await;
    let error = ask(replay(&path, &[]).as_ref(), &with(&["one", "three"])).await.1.unwrap_err();
    let text = "the nearest one, line 3, differs at messages[2].user: recorded \"two\", now \"three\"";
    assert!(error.message.contains(text), "{}", error.message);
}

#[tokio::test]
async fn a_secret_of_the_process_is_not_in_the_file_and_its_request_is_found_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("team.jsonl");
    let call = ToolCall::parse(String::new(), "log".into(), r#"{"key":["canary-secret"]}"#, None);
    let answer = ModelAnswer { calls: vec![call], ..says("it is canary-secret") };
    let failure =
        ModelError { kind: ModelErrorKind::Permanent, ..ModelError::transient("canary-secret is bad") };
    record(&path, vec![(request("use canary-secret"), Ok(answer)), (request("b"), Err(failure))]).await;
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("canary-secret") && text.matches("***").count() == 4, "{text}");
    let asked = request("use canary-secret");
    assert_eq!(ask(replay(&path, &["canary-secret"]).as_ref(), &asked).await.1.unwrap().text, "it is ***");
    let miss = ask(replay(&path, &[]).as_ref(), &asked).await.1.unwrap_err().message;
    assert!(miss.contains("recorded \"use ***\""), "{miss}");
}

#[tokio::test]
async fn a_line_that_broke_off_is_left_out_and_recorded_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("team.jsonl");
    record(&path, vec![(request("a"), Ok(says("one"))), (request("b"), Ok(says("two")))]).await;
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &text[..text.len() - 9]).unwrap();
    assert_eq!(ask(replay(&path, &[]).as_ref(), &request("a")).await.1, Ok(says("one")));
    assert!(ask(replay(&path, &[]).as_ref(), &request("b")).await.1.is_err());
    record(&path, vec![(request("b"), Ok(says("two")))]).await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn one_process_records_at_a_time_and_a_missing_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("team.jsonl");
    let mode = CassetteMode::Record(path.clone());
    let first = Cassette::open(&mode, Capture::default()).unwrap();
    let second = Cassette::open(&mode, Capture::default()).err().unwrap().to_string();
    assert!(second.contains("is being recorded by another process"), "{second}");
    drop(first);
    assert!(Cassette::open(&mode, Capture::default()).is_ok());
    let missing = CassetteMode::Replay(dir.path().join("none.jsonl"));
    let missing = Cassette::open(&missing, Capture::default()).err().unwrap().to_string();
    assert!(missing.contains("can't be read") && missing.contains("--record"), "{missing}");
}
