//! Tools that every thinking agent has: they ask other agents, people and the board. A request to others is answered in a later
//! turn.

use super::{
    agent_loop::LoopSubject,
    model::{ToolCall, ToolSpec},
    prompts::{beginning, fenced, readable},
    transcript::ToolResult,
};
use crate::brain::json_lines::{self, BrainLine};
use blackboard::board::SignalPage;
use patterns::{
    session::graph::SeatRole,
    turn::{Progress, TurnEnd},
};
use protocol::{
    artifact::Artifact,
    ids::Capability,
    signal::{BAD_CURSOR, Cursor, Selector},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What the mesh offers to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MeshTool {
    Delegate,
    AskHelp,
    AskPerson,
    PublishSignal,
    ReadSignals,
    ReadArtifact,
    PostFinding,
    Propose,
    Remember,
    Find,
    Say,
    Pass,
    Finish,
    Direct,
}

/// What follows from a call of a mesh tool.
#[derive(Debug, PartialEq)]
pub(super) enum MeshOutcome {
    /// A request to others, whose answer comes with a later turn.
    Ask(Progress),
    Report(Progress, ToolResult),
    /// Signals to read, whose page is the result.
    Read(SignalSelection),
    Result(ToolResult),
    End(TurnEnd),
}

/// Which signals a model wants.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SignalSelection {
    pub(super) selector: Selector,
    pub(super) after: Option<Cursor>,
    pub(super) limit: usize,
}

/// The longest piece of an artifact that is read at once, bytes.
const MAX_PIECE: usize = 16 << 10;
/// The most signals that are read at once.
const MAX_SIGNALS: usize = 50;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    artifact: String,
    #[serde(default)]
    offset: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignalArguments {
    #[serde(rename = "type")]
    kind: Option<String>,
    capability: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

impl MeshTool {
    /// All: first those of every turn, then those of a task, then those of a seat in a session, then those of a supervisor.
    pub(super) const ALL: [Self; 14] = [
        Self::PublishSignal,
        Self::ReadSignals,
        Self::ReadArtifact,
        Self::Delegate,
        Self::AskHelp,
        Self::AskPerson,
        Self::PostFinding,
        Self::Propose,
        Self::Remember,
        Self::Find,
        Self::Say,
        Self::Pass,
        Self::Finish,
        Self::Direct,
    ];

    /// Those of a turn. Only a turn about a task can ask others, and only that of a seat can speak to other seats.
    pub(super) fn offered(subject: LoopSubject) -> &'static [Self] {
        match subject {
            LoopSubject::Seat(SeatRole::Supervisor) => &Self::ALL,
            LoopSubject::Seat(SeatRole::Member | SeatRole::Observer) => &Self::ALL[..13],
            LoopSubject::Task => &Self::ALL[..10],
            LoopSubject::Help | LoopSubject::Signal => &Self::ALL[..3],
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Delegate => "delegate",
            Self::AskHelp => "ask_help",
            Self::AskPerson => "ask_person",
            Self::PublishSignal => "publish_signal",
            Self::ReadSignals => "read_signals",
            Self::ReadArtifact => "read_artifact",
            Self::PostFinding => "post_finding",
            Self::Propose => "propose",
            Self::Remember => "remember",
            Self::Find => "find",
            Self::Say => "say",
            Self::Pass => "pass",
            Self::Finish => "finish",
            Self::Direct => "directive",
        }
    }

    /// What the model sees of it.
    pub(super) fn spec(self) -> ToolSpec {
        let text = |what: &str| json!({ "type": "string", "description": what });
        let artifacts = json!({
            "type": "array", "items": { "type": "string" },
            "description": "Ids of artifacts that go with it: of your task, or that you have produced.",
        });
        let tags = json!({
            "type": "array", "items": { "type": "string" },
            "description": "Words it is found by, without spaces.",
        });
        let one_of =
            |words: &[&str], what: &str| json!({ "type": "string", "enum": words, "description": what });
        let budget = json!({
            "type": "object",
            "properties": { "tokens": { "type": "integer", "minimum": 1 }, "cost": { "type": "number", "minimum": 0 } },
            "description": "What it may use at most of your own budget; a share of that if not given.",
        });
        let (description, members, required) = match self {
            Self::Delegate => (
                "Gives a task to another agent and waits for its result. It sees only what you write here and the artifacts you name.",
                json!({
                    "to": text("capability:NAME for the best agent with that capability, or an agent's id."),
                    "description": text("The whole task, in words."),
                    "capability": text("Which of the agent's capabilities is meant, if you name an agent."),
                    "input": { "description": "JSON that goes with the task." },
                    "artifacts": artifacts,
                    "budget": budget,
                }),
                vec!["to", "description"],
            ),
            Self::AskHelp => (
                "Asks another agent, or agents with a capability, for their view and waits for the answer.",
                json!({
                    "to": text("capability:NAME for agents with that capability, or an agent's id."),
                    "question": text("The question."),
                    "artifacts": artifacts,
                    "budget": budget,
                }),
                vec!["to", "question"],
            ),
            Self::AskPerson => (
                "Asks the person who gave the task and waits for the answer, which can take days. Use it only if you can't go on without it.",
                json!({ "question": text("The question.") }),
                vec!["question"],
            ),
            Self::PublishSignal => (
                "Publishes a signal to all agents. It gets no answer.",
                json!({
                    "signal": text("Its type: two to six lower-case words with dots between them, such as acme.build.started."),
                    "subject": text("What it is about."),
                    "refs": { "type": "object", "description": "Members with references to the content." },
                }),
                vec!["signal"],
            ),
            Self::ReadSignals => (
                "Reads the signals that agents have published, oldest first: at most 50 and 16 KiB at once. The last line says how to read on.",
                json!({
                    "type": text("Only signals of this type; task.* means all whose type begins with task."),
                    "capability": text("Only signals about this capability."),
                    "after": text("Only signals behind this cursor, which the last line of an earlier result names. Without it from the oldest one on."),
                    "limit": { "type": "integer", "minimum": 1, "maximum": MAX_SIGNALS, "description": "How many at most; 20 if not given." },
                }),
                vec![],
            ),
            Self::PostFinding => (
                "Tells the team what you found out. Later briefs have it.",
                json!({
                    "content": text("What you found out."),
                    "title": text("A title."),
                    "severity": one_of(&["low", "medium", "high"], "How much it matters."),
                    "tags": tags,
                }),
                vec!["content"],
            ),
            Self::Propose => (
                "Proposes something for the team to decide or to remember. A person merges or rejects it.",
                json!({
                    "entryType": one_of(
                        &["architectural", "scope", "process", "technical", "learning", "pattern", "update"],
                        "What it becomes: a decision (the first four), or a memory of the team.",
                    ),
                    "title": text("A title."),
                    "content": text("What you propose, and why."),
                    "slug": text("Its name, lower-case words joined by -. The same name again is a new version."),
                    "importance": one_of(&["low", "medium", "high"], "How important it is."),
                    "tags": tags,
                }),
                vec!["entryType", "title", "content"],
            ),
            Self::Remember => (
                "Remembers something beyond this task. Later briefs have it.",
                json!({
                    "content": text("What to remember."),
                    "title": text("A title."),
                    "entryType": one_of(&["core-context", "learning", "pattern", "update"], "What it is; learning if not given."),
                    "importance": one_of(&["low", "medium", "high"], "How important it is."),
                    "scope": one_of(&["own", "team"], "Who reads it: only you, or the team (if not given)."),
                    "expertise": {
                        "type": "object", "additionalProperties": { "type": "integer", "minimum": 1 },
                        "description": "Areas in which you know more now, and how much more, such as {\"rust\": 1}.",
                    },
                    "tags": tags,
                }),
                vec!["content"],
            ),
            Self::Find => (
                "Searches what the team knows now, and what you remember: decisions, memories, findings, proposals. Give at least one argument.",
                json!({
                    "kind": one_of(&["decision", "memory", "finding", "proposal", "message", "artifact"], "Only entries of this kind."),
                    "tag": text("Only entries with this tag."),
                    "text": text("Only entries with these words."),
                }),
                vec![],
            ),
            Self::Say => (
                "Sends a message to other seats of this stage. They get it when your turn ends.",
                json!({
                    "to": {
                        "type": "array", "items": { "type": "string" }, "minItems": 1,
                        "description": "The names of the seats, or [\"team\"] for all.",
                    },
                    "text": text("The message."),
                    "mode": one_of(
                        &["dialogue", "delegation"],
                        "If it is for one seat and you `pass`: you talk alone (if not given), or it works on this and you have your turn again.",
                    ),
                }),
                vec!["to", "text"],
            ),
            Self::Direct => (
                "Steers the session when your turn ends.",
                json!({
                    "verb": one_of(
                        &["say", "redirect", "amend"],
                        "Words for a stage or a seat, a stage to begin again, or a constraint for all stages from now on.",
                    ),
                    "text": text("What you say, and why."),
                    "stage": text("The stage; if not given, all that run. A redirect needs it."),
                    "seat": text("The only seat of the stage that the words are for."),
                }),
                vec!["verb", "text"],
            ),
            Self::Pass => (
                "Ends your turn. You have another one in the next round of this stage.",
                json!({ "message": text("What you say to all seats; nothing if not given.") }),
                vec![],
            ),
            Self::Finish => (
                "Ends your part of this stage with a label, which decides the stage that comes next.",
                json!({
                    "message": text("What you say to all seats."),
                    "label": text("The label; input.seat.labels has those that lead somewhere."),
                }),
                vec!["message", "label"],
            ),
            Self::ReadArtifact => (
                "Reads an artifact: of the task, of an answer, or a large result of a tool.",
                json!({
                    "artifact": text("Its id."),
                    "offset": { "type": "integer", "minimum": 0, "description": "The byte to begin at; 0 if not given." },
                }),
                vec!["artifact"],
            ),
        };
        let schema = json!({ "type": "object", "properties": members, "required": required });
        ToolSpec { name: self.name().to_owned(), description: description.to_owned(), schema }
    }

    /// Whether it sends something to other seats of a session.
    pub(super) fn is_message(self) -> bool {
        [Self::Say, Self::Direct].contains(&self)
    }

    /// What follows from `call`. A request keeps the id of the call.
    pub(super) fn run(self, call: &ToolCall, artifacts: &BTreeMap<String, String>) -> MeshOutcome {
        let schema = self.spec().schema;
        if let Some(unknown) = call.arguments.keys().find(|name| schema["properties"].get(name).is_none()) {
            return MeshOutcome::Result(ToolResult::error(format!(
                "{} has no argument {unknown:?}",
                self.name()
            )));
        }
        let parsed = |kind: &str, renamed: &[(&str, &str)]| {
            let mut members = call.arguments.clone();
            for (from, to) in renamed {
                if let Some(value) = members.remove(*from) {
                    members.insert((*to).to_owned(), value);
                }
            }
            if kind_has_id(kind) {
                members.insert("id".to_owned(), json!(call.id));
            }
            members.insert("type".to_owned(), json!(kind));
            json_lines::from_value(Value::Object(members))
        };
        let line = |kind: &str, renamed: &[(&str, &str)]| match parsed(kind, renamed) {
            Ok(BrainLine::Progress(progress)) => Ok(progress),
            Ok(BrainLine::End(_) | BrainLine::Bid(_)) => Err("is no request".to_owned()),
            Err(problem) => Err(problem),
        };
        let invalid = |problem| MeshOutcome::Result(ToolResult::error(problem));
        let ask = |progress: Result<Progress, String>| progress.map_or_else(invalid, MeshOutcome::Ask);
        let report = |progress: Result<Progress, String>, done: &str| match progress {
            Ok(progress) => MeshOutcome::Report(progress, ToolResult::text(done)),
            Err(problem) => invalid(problem),
        };
        let end = |line: Result<BrainLine, String>| match line {
            Ok(BrainLine::End(end)) => MeshOutcome::End(end),
            Ok(BrainLine::Progress(_) | BrainLine::Bid(_)) => invalid("is no end".to_owned()),
            Err(problem) => invalid(problem),
        };
        match self {
            Self::Delegate => ask(line("delegate", &[])),
            Self::AskHelp => ask(line("help", &[])),
            Self::AskPerson => ask(line("question", &[("question", "text")])),
            Self::PublishSignal => report(line("signal", &[]), "published"),
            Self::ReadSignals => match arguments(call).and_then(query) {
                Ok(query) => MeshOutcome::Read(query),
                Err(problem) => invalid(problem),
            },
            Self::PostFinding => report(line("post", &[]), "posted"),
            Self::Propose => report(line("propose", &[]), "proposed; a person or a curator decides"),
            Self::Remember => report(line("remember", &[]), "remembered"),
            Self::Find => ask(line("find", &[])),
            Self::Say => report(line("say", &[]), "is sent when your turn ends"),
            Self::Direct => report(line("directive", &[]), "is followed when your turn ends"),
            Self::Pass => end(parsed("pass", &[])),
            Self::Finish => end(parsed("done", &[])),
            Self::ReadArtifact => match arguments::<ReadArguments>(call) {
                Ok(wanted) => MeshOutcome::Result(read(&wanted, artifacts)),
                Err(problem) => invalid(problem),
            },
        }
    }
}

/// Whether a line of this type names a request.
fn kind_has_id(kind: &str) -> bool {
    matches!(kind, "delegate" | "help" | "question" | "find")
}

fn arguments<T: DeserializeOwned>(call: &ToolCall) -> Result<T, String> {
    serde_json::from_value(Value::Object(call.arguments.clone())).map_err(|error| error.to_string())
}

fn query(wanted: SignalArguments) -> Result<SignalSelection, String> {
    let SignalArguments { kind, capability, after, limit } = wanted;
    let limit = limit.unwrap_or(20);
    if !(1..=MAX_SIGNALS).contains(&limit) {
        return Err(format!("limit: {limit} is not from 1 to {MAX_SIGNALS}"));
    }
    let after = after.map(|text| Cursor::parse(&text).ok_or_else(|| format!("after: {text:?} {BAD_CURSOR}")));
    let capability =
        capability.map(|name| Capability::parse(&name).map_err(|error| format!("capability: {error}")));
    let capabilities = capability.transpose()?.into_iter().collect();
    let selector = Selector { types: kind.into_iter().collect(), capabilities, task_id: None };
    Ok(SignalSelection { selector, after: after.transpose()?, limit })
}

/// A page as the model reads it: a line of JSON a signal, as many as fit, and where to read on.
pub(super) fn signals(page: SignalPage) -> ToolResult {
    let SignalPage { signals, mut next } = page;
    let mut lines = String::new();
    let mut last = None;
    for record in &signals {
        let line = serde_json::to_string(record).unwrap_or_default();
        if let Some(last) = last.filter(|_| lines.len() + line.len() > MAX_PIECE) {
            next.revision = last;
            break;
        }
        lines.push_str(&line);
        lines.push('\n');
        last = Some(record.revision);
    }
    let note = format!("[Read on with after {next}.]");
    ToolResult::text(match last {
        Some(_) => format!("{}\n{note}", fenced(&lines)),
        None => format!("[No signal.]\n{note}"),
    })
}

fn read(wanted: &ReadArguments, artifacts: &BTreeMap<String, String>) -> ToolResult {
    let Some(text) = artifacts.get(&wanted.artifact) else {
        let known: Vec<_> = artifacts.keys().map(String::as_str).collect();
        return ToolResult::error(format!(
            "there is no artifact {:?}; there are: {}",
            wanted.artifact,
            known.join(", ")
        ));
    };
    let Some(rest) = text.get(wanted.offset..) else {
        return ToolResult::error(format!(
            "offset {} is not within its {} bytes, or within a character",
            wanted.offset,
            text.len()
        ));
    };
    let piece = beginning(rest, MAX_PIECE);
    if piece.len() == rest.len() {
        return ToolResult::text(piece);
    }
    let next = wanted.offset + piece.len();
    ToolResult::text(format!("{piece}\n[{} bytes in all; read on at offset {next}]", text.len()))
}

/// The texts of artifacts by id; of several with one id, the last.
pub(super) fn texts<'a>(artifacts: impl Iterator<Item = &'a Artifact>) -> BTreeMap<String, String> {
    artifacts.map(|artifact| (artifact.artifact_id.clone(), readable(artifact))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::signal::SignalRecord;

    fn run(tool: MeshTool, arguments: Value) -> MeshOutcome {
        let call = ToolCall::parse("c1_0".into(), tool.name().into(), &arguments.to_string(), None);
        let artifacts = BTreeMap::from([("a".to_owned(), "é".repeat(MAX_PIECE))]);
        tool.run(&call, &artifacts)
    }

    #[test]
    fn requests_have_the_id_of_their_call() {
        for (tool, arguments) in [
            (MeshTool::Delegate, json!({ "to": "capability:plan", "description": "d", "input": { "a": 1 } })),
            (
                MeshTool::AskHelp,
                json!({ "to": "capability:review", "question": "ok?", "budget": { "tokens": 9 } }),
            ),
            (MeshTool::AskPerson, json!({ "question": "which?" })),
            (MeshTool::Find, json!({ "kind": "decision", "text": "port" })),
        ] {
            let MeshOutcome::Ask(progress) = run(tool, arguments) else { panic!("{}", tool.name()) };
            assert_eq!(serde_json::to_value(progress).unwrap()["id"], "c1_0");
        }
    }

    #[test]
    fn what_is_posted_to_the_space_is_a_report() {
        for (tool, arguments, kind) in [
            (MeshTool::PostFinding, json!({ "content": "c", "severity": "high" }), "finding"),
            (
                MeshTool::Propose,
                json!({ "entryType": "scope", "title": "No mail", "content": "c" }),
                "proposal",
            ),
            (MeshTool::Remember, json!({ "content": "c", "scope": "own" }), "memory"),
        ] {
            match run(tool, arguments) {
                MeshOutcome::Report(Progress::Post { entry }, result) if !result.is_error => {
                    assert_eq!(entry.kind.to_string(), kind);
                }
                other @ (MeshOutcome::Ask(_)
                | MeshOutcome::Report(..)
                | MeshOutcome::Result(_)
                | MeshOutcome::End(_)
                | MeshOutcome::Read(_)) => {
                    panic!("{other:?}")
                }
            }
        }
    }

    #[test]
    fn a_seat_speaks_and_ends_its_turn_with_a_message_or_a_label() {
        let said = run(MeshTool::Say, json!({ "to": ["critic"], "text": "why?" }));
        assert!(matches!(said, MeshOutcome::Report(Progress::Say { .. }, result) if !result.is_error));
        for (tool, arguments, passed, label) in [
            (MeshTool::Pass, json!({}), true, None),
            (MeshTool::Pass, json!({ "message": "too slow" }), true, None),
            (MeshTool::Finish, json!({ "message": "no", "label": "again" }), false, Some("again")),
        ] {
            let MeshOutcome::End(TurnEnd::Seat { message, seat }) = run(tool, arguments.clone()) else {
                panic!("{arguments}")
            };
            assert_eq!(message.as_deref(), arguments["message"].as_str());
            assert_eq!((seat.passed, seat.label.as_deref()), (passed, label));
        }
        let offered = |subject| MeshTool::offered(subject).len();
        let member = offered(LoopSubject::Seat(SeatRole::Member));
        assert_eq!(offered(LoopSubject::Task) + 3, member);
        assert_eq!(member + 1, offered(LoopSubject::Seat(SeatRole::Supervisor)));
        let directed = run(MeshTool::Direct, json!({ "verb": "amend", "text": "only passkeys" }));
        assert!(matches!(directed, MeshOutcome::Report(Progress::Directive(_), result) if !result.is_error));
    }

    #[test]
    fn what_is_no_valid_request_is_refused_with_the_cause() {
        for (tool, arguments, part) in [
            (MeshTool::Delegate, json!({ "to": "capability:", "description": "d" }), "capability must match"),
            (MeshTool::Delegate, json!({ "to": "capability:plan" }), "missing field `description`"),
            (
                MeshTool::Delegate,
                json!({ "to": "a", "description": "d", "budget": { "cost": -1 } }),
                "\"budget.cost\": a cost is",
            ),
            (
                MeshTool::AskHelp,
                json!({ "to": "a", "question": "q", "budget": { "turns": 1 } }),
                "unknown field `turns`",
            ),
            (MeshTool::PublishSignal, json!({ "signal": "task.complete" }), "only the mesh publishes"),
            (MeshTool::PublishSignal, json!({ "signal": "agent.left" }), "only the registry publishes"),
            (MeshTool::AskPerson, json!({ "question": "q", "kind": "approval" }), "no argument \"kind\""),
            (MeshTool::ReadSignals, json!({ "limit": 51 }), "limit: 51 is not from 1 to 50"),
            (MeshTool::ReadSignals, json!({ "after": "newest" }), "after: \"newest\" must be a revision"),
            (MeshTool::ReadSignals, json!({ "capability": "" }), "capability: "),
            (MeshTool::Find, json!({}), "at least one of"),
            (
                MeshTool::Remember,
                json!({ "content": "c", "entryType": "scope" }),
                "expected one of `core-context`",
            ),
            (MeshTool::ReadArtifact, json!({ "artifact": "b" }), "no artifact \"b\"; there are: a"),
            (MeshTool::ReadArtifact, json!({ "artifact": "a", "offset": 1 }), "within a character"),
        ] {
            match run(tool, arguments) {
                MeshOutcome::Result(result) => {
                    assert!(result.is_error && result.text.contains(part), "{result:?}")
                }
                other @ (MeshOutcome::Ask(_)
                | MeshOutcome::Report(..)
                | MeshOutcome::End(_)
                | MeshOutcome::Read(_)) => {
                    panic!("{other:?}")
                }
            }
        }
    }

    #[test]
    fn signals_are_read_in_bounded_pieces_without_a_gap() {
        let signal = |revision: u64, bytes: usize| -> SignalRecord {
            serde_json::from_value(json!({
                "revision": revision, "id": format!("s-{revision}"), "type": "acme.noted", "from": "agent-02",
                "subject": "x".repeat(bytes), "at": "2026-11-25T00:00:00Z",
            }))
            .unwrap()
        };
        let all: Vec<_> = [10, 9_000, 9_000, 20_000, 10]
            .into_iter()
            .zip(1..)
            .map(|(bytes, at)| signal(at, bytes))
            .collect();
        let (mut after, mut read, mut calls) = (0, Vec::new(), 0);
        while after < 7 {
            let rest = all.iter().filter(|record| record.revision > after).cloned().collect();
            let page =
                SignalPage { signals: rest, next: Cursor { generation: Some("g1".into()), revision: 7 } };
            let text = signals(page).text;
            let found = all.iter().filter(|record| text.contains(&format!("\"s-{}\"", record.revision)));
            read.extend(found.map(|record| record.revision));
            let (_, next) = text.rsplit_once("after g1-").unwrap();
            after = next.trim_end_matches(".]").parse().unwrap();
            calls += 1;
            assert!(text.len() < MAX_PIECE + 5_000, "{}", text.len());
        }
        assert_eq!((read, calls), (vec![1, 2, 3, 4, 5], 4));
        let next = Cursor { generation: None, revision: 3 };
        let empty = signals(SignalPage { signals: Vec::new(), next });
        assert_eq!(empty.text, "[No signal.]\n[Read on with after 3.]");
        let MeshOutcome::Read(query) =
            run(MeshTool::ReadSignals, json!({ "type": "acme.*", "after": "g1-3" }))
        else {
            panic!("no query")
        };
        assert_eq!((query.selector.types, query.limit), (vec!["acme.*".to_owned()], 20));
        assert_eq!(query.after.unwrap().revision, 3);
    }

    #[test]
    fn a_long_artifact_is_read_in_pieces() {
        let mut offset = 0;
        let mut bytes = 0;
        loop {
            let MeshOutcome::Result(piece) =
                run(MeshTool::ReadArtifact, json!({ "artifact": "a", "offset": offset }))
            else {
                panic!("no result")
            };
            bytes += piece.text.matches('é').count() * 2;
            let Some((_, next)) = piece.text.split_once("at offset ") else { break };
            offset = next.trim_end_matches(']').parse().unwrap();
        }
        assert_eq!(bytes, MAX_PIECE * 2);
    }
}
