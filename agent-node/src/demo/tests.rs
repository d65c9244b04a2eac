use super::*;
use crate::brain::{PeerSummary, tests::first_turn};
use notation::EXAMPLE;
use patterns::turn::PeerQuestion;
use proptest::prelude::*;
use protocol::artifact::{Part, PartContent};
use serde_json::{Value, json};
use std::{
    io::Read,
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

fn artifacts_of(lines: &[OutputLine]) -> Vec<Artifact> {
    let artifact = |line: &OutputLine| {
        let OutputLine::Artifact(line) = line else { return None };
        line.artifact.clone()
    };
    lines.iter().filter_map(artifact).collect()
}

/// The message or the reason at the end of a turn. A turn that waits is an error here.
fn end_of(lines: &[OutputLine]) -> Result<String, String> {
    match lines.last() {
        Some(OutputLine::Done { message, .. }) => Ok(message.clone().unwrap_or_default()),
        Some(OutputLine::Failed { reason, .. }) => Err(reason.clone()),
        other => Err(format!("{other:?}")),
    }
}

/// The last line of a turn, which delegates or asks: its id, recipient and text.
fn question_of(lines: &[OutputLine]) -> (&str, String, &str) {
    match lines.last() {
        Some(OutputLine::Delegate(Delegate { id, to, description, .. })) => (id, to.to_string(), description),
        Some(OutputLine::Question(Question { id, text, .. })) => (id, "owner".to_owned(), text),
        other => panic!("{other:?}"),
    }
}

/// The turn after `request`, with the output `lines` of another turn as the answer to the question `id`.
fn next_turn(request: &TurnRequest, id: &str, lines: &[OutputLine]) -> TurnRequest {
    let mut next = request.clone();
    next.prompt.turn += 1;
    let end = end_of(lines);
    let (ok, text) = (end.is_ok(), end.unwrap_or_else(|reason| reason));
    let artifacts = artifacts_of(lines);
    next.prompt.answers =
        vec![RequestResult { id: id.into(), ok, text, artifacts, ..RequestResult::default() }];
    next
}

fn help(artifacts: Vec<Artifact>) -> TurnRequest {
    let mut request = first_turn("");
    request.prompt.about = TurnSubject::Help(PeerQuestion {
        question: "What is wrong?".to_owned(),
        artifacts,
        ..PeerQuestion::default()
    });
    request
}

/// The output of the builder in its first turn and after a review.
fn draft_and_result(request: &str) -> (Vec<OutputLine>, Vec<OutputLine>) {
    let task = first_turn(request);
    let draft = rest_builder::answer(&task);
    let review = reviewer::answer(&help(artifacts_of(&draft)));
    let result = rest_builder::answer(&next_turn(&task, "review", &review));
    (draft, result)
}

#[test]
fn a_brain_reads_one_line_and_writes_lines() {
    let mut out = Vec::new();
    let question = serde_json::to_string(&first_turn(EXAMPLE)).unwrap();
    turn("planner", question.as_bytes(), &mut out).unwrap();
    let lines: Vec<_> = out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    assert!(lines.len() > 2 && lines.iter().all(|line| crate::brain::json_lines::parse(line).is_ok()));
    let refused = |name, question: &str| turn(name, question.as_bytes(), Vec::new()).unwrap_err();
    assert!(refused("poet", &question).contains("there are planner, rest-builder"));
    assert!(refused("planner", "").contains("one line of JSON"));
    assert!(refused("planner", "{}").contains("missing field"));
}

#[test]
fn every_agent_of_the_team_has_a_brain() {
    let team: Value = serde_saphyr::from_str(TEAM).unwrap();
    for agent in team["agents"].as_array().unwrap() {
        let command: Vec<_> =
            agent["brain"]["exec"].as_array().unwrap().iter().flat_map(Value::as_str).collect();
        let ["mesh", "brain", name] = command[..] else { panic!("{command:?}") };
        assert!(BRAINS.contains(&name) && answer(name, &first_turn("x")).is_some(), "{name}");
    }
}

#[test]
fn the_builder_and_the_planner_ask_until_a_request_names_a_resource() {
    for brain in [planner::answer, rest_builder::answer] {
        let first = first_turn("hm");
        let lines = brain(&first);
        let (id, to, text) = question_of(&lines);
        assert!(to == "owner" && text.contains(EXAMPLE) && text.contains("bool, date"), "{text}");
        let second = next_turn(&first, id, &[done("books, please")]);
        let lines = brain(&second);
        assert_ne!(question_of(&lines).0, id);
        let third = next_turn(&second, question_of(&lines).0, &[done(EXAMPLE)]);
        let lines = brain(&third);
        // The fourth turn has the plan as an artifact, but not the answer.
        let mut fourth = next_turn(&third, "review", &[failed("nobody")]);
        fourth.prompt.produced = artifacts_of(&lines);
        let read = plan(&fourth).unwrap().to_string();
        assert_eq!(read, notation::read(EXAMPLE).unwrap().to_string());
        let error = end_of(&brain(&first_turn("x: a (b:money)"))).unwrap_err();
        assert!(
            error.contains("`money`") && error.contains("bool, date") && error.contains(EXAMPLE),
            "{error}"
        );
    }
}

#[test]
fn the_orchestrator_delegates_by_skill_by_code_and_by_notation() {
    let skills =
        ["plan", "implement-api", "code-review", "monitor"].map(|id| json!({ "id": id, "description": "" }));
    let peers: Vec<PeerSummary> =
        serde_json::from_value(json!([{ "agentId": "peer-01", "skills": skills }])).unwrap();
    for (text, to) in [
        ("please code-review my work", "capability:code-review"),
        ("implement-api: books", "capability:implement-api"),
        ("look:\n```\nfn f() {}\n```", "capability:code-review"),
        (EXAMPLE, "capability:plan"),
        ("monitor this", "owner"),
    ] {
        let request = TurnRequest { peers: peers.clone(), ..first_turn(text) };
        let lines = orchestrator::answer(&request);
        let (id, recipient, description) = question_of(&lines);
        assert_eq!(recipient, to);
        let next = orchestrator::answer(&next_turn(&request, id, &[done(EXAMPLE)]));
        if to == "owner" {
            assert!(description.contains("code-review, implement-api, plan"), "{description}");
            assert_eq!(question_of(&next).2, EXAMPLE);
        } else {
            assert_eq!((description, end_of(&next)), (text, Ok(EXAMPLE.to_owned())));
        }
    }
}

#[test]
fn the_reviewer_reports_each_issue_and_nothing_else() {
    let bad = "use serde::Deserialize;
#[derive(Deserialize)]
pub struct User {
    pub name: String,
    age: u8,
}

/// Documented.
#[inline]
pub fn key() -> String {
    let password = \"hunter2\";
    // std::env::var(\"KEY\").unwrap()
    std::env::var(password).unwrap()
}
fn route(method: &str) -> bool { method == \"GET\" }
";
    let rules = |text: &str| -> Vec<(usize, String)> {
        let found = reviewer::review(&[("a.rs".to_owned(), text.to_owned())]);
        found.into_iter().map(|finding| (finding.line, finding.rule)).collect()
    };
    let expected =
        [(1, "missing-tests"), (1, "missing-not-found"), (3, "missing-docs"), (4, "unchecked-field")];
    let expected = expected.into_iter().chain([(11, "secret"), (13, "panic")]);
    assert_eq!(rules(bad), expected.map(|(line, rule)| (line, rule.to_owned())).collect::<Vec<_>>());
    let good = bad.replace("var(password).unwrap()", "args().collect()").replace("\"hunter2\"", "key");
    let good = good.replace("pub struct", "/// Documented.\npub struct").replace("\"GET\"", "\"get\"");
    let check = "\nimpl User {\n    fn check(&self) -> bool {\n        !self.name.is_empty()\n    }\n}\n";
    let tests = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn f() { panic!() }\n}\n";
    assert_eq!(rules(&format!("{good}{check}{tests}")), []);
    let other = check.replace("self.name.", "self.name_of_other.");
    assert_eq!(rules(&format!("{good}{other}{tests}")), [(5, "unchecked-field".to_owned())]);
}

#[test]
fn the_builder_writes_what_the_review_asks_for() {
    let rules = |lines: &[OutputLine]| {
        let files = artifacts_of(lines).into_iter().filter(|file| name(file).ends_with(".rs"));
        let files: Vec<_> = files.map(|file| (name(&file).to_owned(), file.as_text())).collect();
        reviewer::review(&files).into_iter().map(|finding| finding.rule).collect::<Vec<_>>().join(" ")
    };
    let (draft, result) = draft_and_result(EXAMPLE);
    let found = rules(&draft);
    for (rule, count) in [("missing-tests", 1), ("missing-docs", 3), ("unchecked-field", 4)] {
        assert_eq!(found.matches(rule).count(), count, "{found}");
    }
    assert_eq!((found.split(' ').count(), rules(&result).as_str()), (8, ""));
    let end = end_of(&result).unwrap();
    assert!(
        end.starts_with("agent-01 built A library: books") && end.ends_with("8 issues, 0 are open"),
        "{end}"
    );

    let finding = json!({ "file": "src/main.rs", "line": 1, "rule": "style", "message": "ugly" });
    let part = Part::new(PartContent::Data(json!({ "reviewer": "critic-01", "findings": [finding] })));
    let report = Artifact { parts: vec![part], ..Artifact::text("review.json", "application/json", "") };
    for (review, end) in [
        (vec![artifact(report), done("ugly")], "critic-01 found 1 issues, 1 are open"),
        (vec![failed("nobody")], "it was not reviewed"),
    ] {
        let lines = rest_builder::answer(&next_turn(&first_turn(EXAMPLE), "review", &review));
        assert!(end_of(&lines).unwrap().ends_with(end), "{lines:?}");
    }
}

/// Every type, no field, names that are keywords, and a name of the standard library's types.
const EVERYTHING: &str = "Odd\u{7} */ \"title\": string (title, type, year:int, price:number, sold:bool, day:date), \
                          struct and order_items (count:int)";

/// Writes the artifacts in `lines` to `dir` and runs cargo there, offline with this workspace's versions.
fn cargo(lines: &[OutputLine], dir: &Path, target: &Path, commands: &[&str]) {
    std::fs::create_dir_all(dir.join("src")).unwrap();
    let versions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock");
    std::fs::copy(versions, dir.join("Cargo.lock")).unwrap();
    for file in artifacts_of(lines) {
        std::fs::write(dir.join(name(&file)), file.as_text()).unwrap();
    }
    for command in commands {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args([command, "--offline"]).current_dir(dir);
        let run = cargo.env("CARGO_TARGET_DIR", target).env("CARGO_PROFILE_DEV_DEBUG", "0").output().unwrap();
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success() && !errors.contains("warning"), "cargo {command}: {errors}");
    }
}

struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn call(address: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
}

#[test]
fn the_built_crate_compiles_passes_its_tests_and_serves_its_routes() {
    // target/debug/deps/<this test>
    let own = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().join("demo-api");
    let target = own.join("target");
    let (draft, result) = draft_and_result(EVERYTHING);
    cargo(&draft, &own.join("draft"), &target, &["build"]);
    cargo(&result, &own.join("result"), &target, &["test", "build"]);

    let mut server = Command::new(target.join("debug/rest-api"));
    let mut server = KillOnDrop(server.arg("127.0.0.1:0").stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    std::io::BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on http://").unwrap();
    let book =
        json!({ "title": "T", "type": "b", "year": 1, "price": 2.5, "sold": true, "day": "2023-02-28" });
    let with = |name: &str, value: Value| {
        let mut book = book.clone();
        book[name] = value;
        book
    };
    let post = |book: &Value| call(address, "POST", "/string", &book.to_string());
    let mut answers =
        vec![post(&book), call(address, "GET", "/string?x=y", ""), call(address, "GET", "/books", "")];
    let refused =
        [("title", json!(" ")), ("year", json!("x")), ("day", json!("2023-02-29")), ("other", json!(1))];
    answers.extend(refused.into_iter().map(|(name, value)| post(&with(name, value))));
    let stored = with("id", json!(1));
    assert_eq!(answers[..2], [(201, stored.clone()), (200, json!([stored]))]);
    assert_eq!(answers[2..].iter().map(|(status, _)| *status).collect::<Vec<_>>(), [404, 400, 400, 400, 400]);
    assert_eq!(answers[5].1["error"], "day must be a date, YYYY-MM-DD");
}

proptest! {
    #[test]
    fn no_request_makes_a_brain_panic(text in "\\PC{0,200}", id in "(review|build|delegated|request-1)") {
        let report = artifact(Artifact::text("review.json", "application/json", text.clone()));
        let answered = next_turn(&first_turn(&text), &id, &[report, done(text.clone())]);
        let code = help(vec![Artifact::text("a.rs", "text/x-rust", text.clone())]);
        for (name, request) in BRAINS.into_iter().flat_map(|name| [(name, first_turn(&text)), (name, answered.clone()), (name, code.clone())]) {
            prop_assert!(!answer(name, &request).unwrap().is_empty());
        }
    }
}
