//! Answers that people wrote, in place of a model: a file of them, served by the stub provider, and the cassette that they give.

use super::{
    Process, directory,
    model_stub::{ModelStub, StubAnswer, StubRequest},
};
use serde_json::{Deserializer, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// The name under which they answer.
const MODEL: &str = "MESH_MODEL=written-answers";

/// Answers by what is asked, in the order of the conversation.
///
/// In the file a section `## NAME` is about a turn of a seat (`STAGE.ITERATION.SEAT.ROUND`, with `.side` behind it in a side
/// conversation), a task (`AGENT: TASK`), a question
/// (`AGENT? QUESTION`) or a request to match (`AGENT matches: REQUEST`). `---` is between two answers of one conversation; a line `> TOOL {…}` is a call of a tool.
pub struct WrittenAnswers(BTreeMap<String, Vec<StubAnswer>>);

impl WrittenAnswers {
    /// Those of a file.
    pub fn parse(text: &str) -> Self {
        let sections = text.split("\n## ").skip(1).map(|section| {
            let (name, answers) = section.split_once('\n').unwrap();
            (name.to_owned(), answers.split("\n---\n").map(answer).collect())
        });
        Self(sections.collect())
    }

    /// What the stand-in for a model says.
    pub fn to(&self, request: &StubRequest) -> StubAnswer {
        let name = name_of(request);
        let messages = request.body["messages"].as_array().unwrap();
        // What comes before is of earlier turns of the seat.
        let begins = messages.iter().rposition(|message| message["content"] == *asked(request));
        let of_turn = &messages[begins.unwrap_or_default()..];
        let at = of_turn.iter().filter(|message| message["role"] == "assistant").count();
        let found = self.0.get(&name).and_then(|answers| answers.get(at));
        found.unwrap_or_else(|| panic!("no answer {at} is written for {name:?}: {}", request.user[0])).clone()
    }
}

fn answer(text: &str) -> StubAnswer {
    let (calls, words): (Vec<_>, Vec<_>) = text.trim().lines().partition(|line| line.starts_with("> "));
    let calls = calls.iter().map(|line| line[2..].split_once(' ').unwrap());
    let calls: Vec<_> = calls.map(|(tool, arguments)| (tool.to_owned(), arguments.to_owned())).collect();
    match calls.is_empty() {
        true => StubAnswer::Says(words.join("\n")),
        false => StubAnswer::Calls("", calls),
    }
}

/// The data of a message that says what a turn is about.
fn content_of(asked: &str) -> Option<Value> {
    let from = asked.find('{')?;
    let content = Deserializer::from_str(&asked[from..]).into_iter::<Value>().next()?.ok()?;
    ["task", "question", "request"].iter().any(|name| content[*name].is_string()).then_some(content)
}

/// The message that says what the turn is about: the last such one.
fn asked(request: &StubRequest) -> &str {
    let found = request.user.iter().rev().find(|text| content_of(text).is_some());
    found.unwrap_or(&request.user[0])
}

/// The section that is about a request.
fn name_of(request: &StubRequest) -> String {
    let agent = request.system.split([' ', ',']).nth(2).unwrap_or_default();
    let asked = asked(request);
    // In a chat they are the words of the person.
    let words = || json!({ "task": asked.split("\n\nWhat comes with it is data").next() });
    let content = content_of(asked).unwrap_or_else(words);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(request) = content["request"].as_str() {
        return format!("{agent} matches: {request}");
    }
    match (&content["input"]["seat"], &content["question"]) {
        (Value::Null, Value::Null) => format!("{agent}: {}", text(&content["task"])),
        (Value::Null, question) => format!("{agent}? {}", text(question)),
        (seat, _) => {
            let (stage, name) = (text(&seat["stage"]), text(&seat["seat"]));
            let side = if seat["side"].is_object() { ".side" } else { "" };
            format!("{stage}.{}.{name}.{}{side}", seat["iteration"], seat["round"])
        }
    }
}

/// Runs `play` with `answers` and with the cassette at `path`, which must be what they give. With `UPDATE_CASSETTE` in the
/// environment it is written again first. `more` are arguments of `mesh`.
pub async fn play_both(answers: &'static str, path: &Path, more: &[&str], play: impl AsyncFn(&Process)) {
    let answers = WrittenAnswers::parse(answers);
    let stub = ModelStub::start(move |request| answers.to(request));
    let dir = directory();
    let recorded = dir.path().join("recorded.jsonl");
    let (url, record) = (format!("MESH_MODEL_URL={}", stub.url), recorded.to_string_lossy());
    let args = [&["--record", &record], more].concat();
    let live = Process::up_with(&[MODEL, &url], &args, None).await;
    play(&live).await;
    drop(live);
    check(path, &std::fs::read_to_string(&recorded).unwrap());
    let replay = path.to_string_lossy();
    let args = [&["--replay", &replay], more].concat();
    play(&Process::up_with(&["MESH_MODEL=", "MESH_MODEL_URL="], &args, None).await).await;
}

/// Fails if the cassette at `path` has other calls than `recorded`; writes them there with `UPDATE_CASSETTE`.
pub fn check(path: &Path, recorded: &str) {
    let header = r#"{"cassette":1,"note":"Written answers. No model gave them."}"#;
    let mut seen = BTreeSet::new();
    let calls: Vec<_> = recorded.lines().skip(1).filter(|line| seen.insert(*line)).collect();
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    let known: BTreeSet<_> = kept.lines().skip(1).collect();
    if kept.lines().next() == Some(header) && known == seen {
        return;
    }
    let (new, gone): (Vec<_>, Vec<_>) =
        (seen.difference(&known).collect(), known.difference(&seen).collect());
    let is_update = std::env::var_os("UPDATE_CASSETTE").is_some();
    assert!(
        is_update,
        "{} is not that of the answers; UPDATE_CASSETTE=1 records it\nnew: {new:#?}\ngone: {gone:#?}",
        path.display()
    );
    std::fs::write(path, format!("{header}\n{}\n", calls.join("\n"))).unwrap();
}
