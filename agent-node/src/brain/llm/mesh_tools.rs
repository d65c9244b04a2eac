//! Tools that every thinking agent has: they ask other agents, people and the board. A request to others is answered in a later
//! turn.
//!
//! The arguments of a tool are a struct: its members are the schema that a model sees, and the docs are the descriptions. What
//! the lines of the brain protocol have, too, is theirs.

use super::{
    loop_tool::LoopSubject,
    model::{ToolCall, ToolSpec},
    prompts::{beginning, readable},
    transcript::ToolResult,
};
use crate::{
    brain::{
        brain_tools::{OfferedTool, ToolPermission},
        json_lines::BrainLine,
    },
    json_schema,
};
use blackboard::board::SignalPage;
use patterns::{
    session::graph::SeatRole,
    turn::{HandoffRequest, Progress, TurnEnd},
};
use protocol::{
    artifact::Artifact,
    budget::Budget,
    fence::fenced,
    file_name,
    ids::{Address, Capability, TaskId},
    question::Question,
    signal::{BAD_CURSOR, Cursor, Selector},
    spaces::{EntryKind, Grade},
};
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};
use wire::line::{
    ArtifactLine, Delegate, DirectiveLine, Find, Handoff, Help, OutputLine, Post, ProposalType, Propose,
    Remember, Say, SignalLine,
};

/// What the mesh offers to a model.
pub(super) struct MeshTool {
    /// What the model sees of it.
    pub(super) spec: ToolSpec,
    run: Box<RunTool>,
}

type RunTool = dyn Fn(&ToolCall, &Artifacts) -> Result<MeshOutcome, String> + Send + Sync;
/// The texts of artifacts by id.
type Artifacts = BTreeMap<String, String>;

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

pub(super) const ASK_PERSON: &str = "ask_person";
pub(super) const READ_ARTIFACT: &str = "read_artifact";
pub(super) const READ_SIGNALS: &str = "read_signals";
pub(super) const WAIT: &str = "wait";
const PUBLISH_SIGNAL: &str = "publish_signal";
pub(super) const DELEGATE: &str = "delegate";
pub(super) const ASK_HELP: &str = "ask_help";
pub(super) const HANDOFF: &str = "handoff";
const SAY: &str = "say";
const PASS: &str = "pass";
const FINISH: &str = "finish";
const DIRECTIVE: &str = "directive";

/// All; [`is_offered`] says which turns have them.
pub(super) static TOOLS: LazyLock<[MeshTool; 17]> = LazyLock::new(|| {
    [
        tool(
            PUBLISH_SIGNAL,
            "Publishes a signal to all agents. It gets no answer.",
            |SignalToPublish { signal, subject, refs }, _, _| {
                outcome(
                    OutputLine::Signal(SignalLine { signal, subject, capability: None, refs }),
                    "published",
                )
            },
        ),
        tool(
            READ_SIGNALS,
            "Reads the signals that agents have published, oldest first: at most 50 and 16 KiB at once. The last line says how to read on.",
            |wanted, _, _| selection(wanted).map(MeshOutcome::Read),
        ),
        tool(
            READ_ARTIFACT,
            "Reads an artifact: of the task, of an answer, or a large result of a tool.",
            |wanted, _, artifacts| read(&wanted, artifacts).map(MeshOutcome::Result),
        ),
        tool(
            DELEGATE,
            "Gives a task to another agent. It sees only what you write here and the artifacts you name.",
            |DelegateTask { to, description, capability, input, artifacts, budget, wait }, id, _| {
                let task =
                    Delegate { capability, input, artifacts, wait, ..Delegate::new(id, to, description) };
                outcome(OutputLine::Delegate(task.budget(budget.unwrap_or_default())), "")
            },
        ),
        tool(
            ASK_HELP,
            "Asks another agent, or agents with a capability, for their view.",
            |AskHelp { to, question, artifacts, budget, wait }, id, _| {
                let help = Help { artifacts, wait, ..Help::new(id, to, question) };
                outcome(OutputLine::Help(help.budget(budget.unwrap_or_default())), "")
            },
        ),
        tool(
            WAIT,
            "Waits until an agent answers that you have asked with wait: false, or until a task of anybody's has ended. You have the answer then.",
            |Awaited { task }, _, _| {
                Ok(MeshOutcome::End(task.map_or(TurnEnd::Waiting, |task| TurnEnd::WaitingFor { task })))
            },
        ),
        tool(
            HANDOFF,
            "Hands the person you talk with over to another agent, which answers this message and those that follow. Use it if that agent should talk with the person itself; to have something done for your own answer, delegate. It ends your turn.",
            |handoff: Handoff, id, _| {
                let asked = HandoffRequest { id: id.to_owned(), ..handoff.into() };
                Ok(MeshOutcome::Ask(Progress::Handoff(asked)))
            },
        ),
        tool(
            ASK_PERSON,
            "Asks the person who gave the task and waits for the answer, which can take days. Use it only if you can't go on without it.",
            |AskPerson { question }, id, _| outcome(OutputLine::Question(Question::new(id, question)), ""),
        ),
        tool(
            "post_finding",
            "Tells the team what you found out. Later briefs have it.",
            |finding: Post, _, _| outcome(OutputLine::Post(finding), "posted"),
        ),
        tool(
            "propose",
            "Proposes something for the team to decide or to remember. A person merges or rejects it.",
            |MakeProposal { entry_type, title, content, slug, importance, tags }, _, _| {
                let proposal = Propose { slug, importance, tags, ..Propose::new(entry_type, title, content) };
                outcome(OutputLine::Propose(proposal), "proposed; a person or a curator decides")
            },
        ),
        tool(
            "remember",
            "Remembers something beyond this task. Later briefs have it.",
            |memory: Remember, _, _| outcome(OutputLine::Remember(memory), "remembered"),
        ),
        tool(
            "find",
            "Searches what the team knows now, and what you remember: decisions, memories, findings, proposals. Give at least one argument.",
            |FindEntries { kind, tag, text }, id, _| {
                outcome(OutputLine::Find(Find { id: id.to_owned(), kind, tag, text, wait: true }), "")
            },
        ),
        tool(
            "make_file",
            "Hands over a file, with its whole content. The same name again replaces it.",
            |MakeFile { name, content, media_type }, _, _| {
                file_name::check(&name)?;
                let bytes = content.len();
                let made = ArtifactLine {
                    filename: Some(name.clone()),
                    media_type: Some(media_type.unwrap_or_else(|| "text/plain".to_owned())),
                    last_chunk: true,
                    ..ArtifactLine::text(name, content)
                };
                outcome(OutputLine::Artifact(Box::new(made)), &format!("made, {bytes} bytes"))
            },
        ),
        tool(
            SAY,
            "Sends a message to other seats of this stage. They get it when your turn ends.",
            |message: Say, _, _| outcome(OutputLine::Say(message), "is sent when your turn ends"),
        ),
        tool(
            PASS,
            "Ends your turn. You have another one in the next round of this stage.",
            |Pass { message }, _, _| outcome(OutputLine::Pass { message }, ""),
        ),
        tool(
            FINISH,
            "Ends your part of this stage with a label, which decides the stage that comes next.",
            |Finish { message, label }, _, _| outcome(OutputLine::Done { message, label }, ""),
        ),
        tool(DIRECTIVE, "Steers the session when your turn ends.", |directive: DirectiveLine, _, _| {
            outcome(OutputLine::Directive(directive), "is followed when your turn ends")
        }),
    ]
});

/// All, for people.
pub(super) fn all() -> Vec<OfferedTool> {
    let offered = |MeshTool { spec, .. }: &MeshTool| OfferedTool {
        name: spec.name.clone(),
        description: spec.description.clone(),
        permission: ToolPermission::Allowed,
    };
    TOOLS.iter().map(offered).collect()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SignalToPublish {
    /// Its type: two to six lower-case words with dots between them, such as acme.build.started.
    signal: String,
    /// What it is about.
    subject: Option<String>,
    /// Members with references to the content.
    #[serde(default)]
    refs: Map<String, Value>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WantedSignals {
    /// Only signals of this type; task.* means all whose type begins with task.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Only signals about this capability.
    capability: Option<Capability>,
    /// Only signals behind this cursor, which the last line of an earlier result names. Without it from the oldest one on.
    after: Option<String>,
    /// How many at most; 20 if not given.
    #[schemars(range(min = 1, max = MAX_SIGNALS))]
    limit: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WantedPiece {
    /// Its id.
    artifact: String,
    /// The byte to begin at; 0 if not given.
    #[serde(default)]
    offset: usize,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DelegateTask {
    /// capability:NAME for the best agent with that capability, or an agent's id.
    to: Address,
    /// The whole task, in words.
    description: String,
    /// Which of the agent's capabilities is meant, if you name an agent.
    capability: Option<Capability>,
    /// JSON that goes with the task.
    input: Option<Value>,
    /// Ids of artifacts that go with it: of your task, or that you have produced.
    #[serde(default)]
    artifacts: Vec<String>,
    /// What it may use at most of your own budget; a share of that if not given.
    budget: Option<Budget>,
    /// Whether you wait for the answer; with false you go on, and its answer comes later, if you still work then.
    #[serde(default = "yes")]
    wait: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AskHelp {
    /// capability:NAME for agents with that capability, or an agent's id.
    to: Address,
    /// The question.
    question: String,
    /// Ids of artifacts that go with it: of your task, or that you have produced.
    #[serde(default)]
    artifacts: Vec<String>,
    /// What it may use at most of your own budget; a share of that if not given.
    budget: Option<Budget>,
    /// Whether you wait for the answer; with false you go on, and its answer comes later, if you still work then.
    #[serde(default = "yes")]
    wait: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Awaited {
    /// The id of a task of anybody's.
    #[serde(default)]
    task: Option<TaskId>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AskPerson {
    /// The question.
    question: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct MakeProposal {
    /// What it becomes: a decision (the first four), or a memory of the team.
    entry_type: ProposalType,
    /// A title.
    title: String,
    /// What you propose, and why.
    content: String,
    /// Its name, lower-case words joined by -. The same name again is a new version.
    slug: Option<String>,
    /// How important it is.
    importance: Option<Grade>,
    /// Words it is found by, without spaces.
    #[serde(default)]
    tags: BTreeSet<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FindEntries {
    /// Only entries of this kind.
    #[schemars(extend("enum" = ["decision", "memory", "finding", "proposal", "message", "artifact"]))]
    kind: Option<EntryKind>,
    /// Only entries with this tag.
    tag: Option<String>,
    /// Only entries with these words.
    text: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct MakeFile {
    /// Its name, a relative path such as src/page.html.
    name: String,
    /// The whole content.
    content: String,
    /// Its media type; text/plain if not given.
    media_type: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Pass {
    /// What you say to all seats; nothing if not given.
    message: Option<String>,
}

/// A model is told to give both; what it leaves out is no fault.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Finish {
    /// What you say to all seats.
    #[schemars(required)]
    message: Option<String>,
    /// The label; input.seat.labels has those that lead somewhere.
    #[schemars(required)]
    label: Option<String>,
}

/// A tool with the arguments `T`. `run` is given them, the id of the call and the artifacts.
fn tool<T: DeserializeOwned + JsonSchema>(
    name: &str,
    description: &str,
    run: impl Fn(T, &str, &Artifacts) -> Result<MeshOutcome, String> + Send + Sync + 'static,
) -> MeshTool {
    let (name, description) = (name.to_owned(), description.to_owned());
    let spec = ToolSpec { name, description, schema: json_schema::of_arguments::<T>() };
    let run = move |call: &ToolCall, artifacts: &Artifacts| {
        let arguments = Value::Object(call.arguments.clone());
        let arguments = serde_path_to_error::deserialize(arguments).map_err(|error| error.to_string())?;
        run(arguments, &call.id, artifacts)
    };
    MeshTool { spec, run: Box::new(run) }
}

/// What follows from a line of the brain protocol. `done` is the result of a report.
fn outcome(line: OutputLine, done: &str) -> Result<MeshOutcome, String> {
    match BrainLine::try_from(line)? {
        BrainLine::Progress(request) if request.waits().is_some() => Ok(MeshOutcome::Ask(request)),
        BrainLine::Progress(report) => Ok(MeshOutcome::Report(report, ToolResult::text(done))),
        BrainLine::End(end) => Ok(MeshOutcome::End(end)),
        BrainLine::Bid(_) => Err("a turn makes no bid".to_owned()),
    }
}

impl MeshTool {
    /// Those of a turn.
    pub(super) fn offered(subject: LoopSubject) -> impl Iterator<Item = &'static Self> {
        TOOLS.iter().filter(move |tool| is_offered(&tool.spec.name, subject))
    }

    pub(super) fn named(name: &str) -> Option<&'static Self> {
        TOOLS.iter().find(|tool| tool.spec.name == name)
    }

    /// Whether it sends something to other seats of a session.
    pub(super) fn is_message(&self) -> bool {
        [SAY, DIRECTIVE].contains(&self.spec.name.as_str())
    }

    /// What follows from `call`. A request keeps the id of the call.
    pub(super) fn run(&self, call: &ToolCall, artifacts: &Artifacts) -> MeshOutcome {
        (self.run)(call, artifacts).unwrap_or_else(|problem| MeshOutcome::Result(ToolResult::error(problem)))
    }
}

/// Whether a turn has this tool. One that it lacks is one whose line would be refused there.
fn is_offered(tool: &str, subject: LoopSubject) -> bool {
    use LoopSubject::{Help, Seat, Signal};
    match tool {
        HANDOFF => subject == LoopSubject::Chat,
        SAY | PASS | FINISH => matches!(subject, Seat { .. }),
        DIRECTIVE => matches!(subject, Seat { role: SeatRole::Supervisor, .. }),
        // A signal has no owner.
        ASK_PERSON => subject != Signal,
        DELEGATE | ASK_HELP | WAIT => {
            !matches!(subject, Seat { is_sealed: true, .. } | Help { asks_agents: false })
        }
        PUBLISH_SIGNAL | READ_SIGNALS => !matches!(subject, Seat { is_sealed: true, .. }),
        _ => true,
    }
}

fn yes() -> bool {
    true
}

fn selection(wanted: WantedSignals) -> Result<SignalSelection, String> {
    let WantedSignals { kind, capability, after, limit } = wanted;
    let limit = limit.unwrap_or(20);
    if !(1..=MAX_SIGNALS).contains(&limit) {
        return Err(format!("limit: {limit} is not from 1 to {MAX_SIGNALS}"));
    }
    let after = after.map(|text| Cursor::parse(&text).ok_or_else(|| format!("after: {text:?} {BAD_CURSOR}")));
    let (types, capabilities) = (kind.into_iter().collect(), capability.into_iter().collect());
    Ok(SignalSelection {
        selector: Selector { types, capabilities, task_id: None },
        after: after.transpose()?,
        limit,
    })
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
        // Its cursor moves with signals of others, which are no news.
        None => "[No signal. Read on with the same `after`.]".to_owned(),
    })
}

fn read(wanted: &WantedPiece, artifacts: &Artifacts) -> Result<ToolResult, String> {
    let WantedPiece { artifact, offset } = wanted;
    let known = || artifacts.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let text = artifacts.get(artifact);
    let text = text.ok_or_else(|| format!("there is no artifact {artifact:?}; there are: {}", known()))?;
    let rest = text.get(*offset..).ok_or_else(|| {
        format!("offset {offset} is not within its {} bytes, or within a character", text.len())
    })?;
    let piece = beginning(rest, MAX_PIECE);
    if piece.len() == rest.len() {
        return Ok(ToolResult::text(piece));
    }
    let next = offset + piece.len();
    Ok(ToolResult::text(format!("{piece}\n[{} bytes in all; read on at offset {next}]", text.len())))
}

/// The texts of artifacts by id; of several with one id, the last.
pub(super) fn texts<'a>(artifacts: impl Iterator<Item = &'a Artifact>) -> Artifacts {
    artifacts.map(|artifact| (artifact.artifact_id.clone(), readable(artifact))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::signal::SignalRecord;
    use serde_json::json;

    fn run(tool: &str, arguments: Value) -> MeshOutcome {
        let call = ToolCall::parse("c1_0".into(), tool.into(), &arguments.to_string(), None);
        let artifacts = BTreeMap::from([("a".to_owned(), "é".repeat(MAX_PIECE))]);
        MeshTool::named(tool).unwrap().run(&call, &artifacts)
    }

    #[test]
    fn requests_have_the_id_of_their_call() {
        for (tool, arguments) in [
            ("delegate", json!({ "to": "capability:plan", "description": "d", "input": { "a": 1 } })),
            ("ask_help", json!({ "to": "capability:review", "question": "ok?", "budget": { "tokens": 9 } })),
            (ASK_PERSON, json!({ "question": "which?" })),
            ("find", json!({ "kind": "decision", "text": "port" })),
            (HANDOFF, json!({ "to": "billing-01", "reason": "an invoice" })),
        ] {
            let MeshOutcome::Ask(progress) = run(tool, arguments) else { panic!("{tool}") };
            assert_eq!(serde_json::to_value(progress).unwrap()["id"], "c1_0");
        }
    }

    #[test]
    fn what_is_posted_to_the_space_is_a_report() {
        for (tool, arguments, kind) in [
            ("post_finding", json!({ "content": "c", "severity": "high" }), "finding"),
            ("propose", json!({ "entryType": "scope", "title": "No mail", "content": "c" }), "proposal"),
            ("remember", json!({ "content": "c", "scope": "own" }), "memory"),
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
        let said = run(SAY, json!({ "to": ["critic"], "text": "why?" }));
        assert!(matches!(said, MeshOutcome::Report(Progress::Say { .. }, result) if !result.is_error));
        for (tool, arguments, passed, label) in [
            ("pass", json!({}), true, None),
            ("pass", json!({ "message": "too slow" }), true, None),
            ("finish", json!({ "message": "no", "label": "again" }), false, Some("again")),
        ] {
            let MeshOutcome::End(TurnEnd::Seat { message, seat }) = run(tool, arguments.clone()) else {
                panic!("{arguments}")
            };
            assert_eq!(message.as_deref(), arguments["message"].as_str());
            assert_eq!((seat.passed, seat.label.as_deref()), (passed, label));
        }
        let offered = |subject| MeshTool::offered(subject).count();
        let seat = |role, is_sealed| offered(LoopSubject::Seat { role, is_sealed });
        let member = seat(SeatRole::Member, false);
        assert_eq!(offered(LoopSubject::Task) + 1, offered(LoopSubject::Chat), "a chat can be handed over");
        assert_eq!(offered(LoopSubject::Task) + 3, member);
        assert_eq!(member + 1, seat(SeatRole::Supervisor, false));
        assert_eq!(member - 5, seat(SeatRole::Member, true), "no signals, and nobody is asked");
        assert_eq!(offered(LoopSubject::Help { asks_agents: true }), offered(LoopSubject::Task));
        assert_eq!(offered(LoopSubject::Help { asks_agents: false }) + 3, offered(LoopSubject::Task));
        assert_eq!(offered(LoopSubject::Signal) + 1, offered(LoopSubject::Task));
        let directed = run(DIRECTIVE, json!({ "verb": "amend", "text": "only passkeys" }));
        assert!(matches!(directed, MeshOutcome::Report(Progress::Directive(_), result) if !result.is_error));
    }

    #[test]
    fn what_is_no_valid_request_is_refused_with_the_cause() {
        for (tool, arguments, part) in [
            ("delegate", json!({ "to": "capability:", "description": "d" }), "capability must match"),
            ("delegate", json!({ "to": "capability:plan" }), "missing field `description`"),
            (
                "delegate",
                json!({ "to": "a", "description": "d", "budget": { "cost": -1 } }),
                "budget.cost: a cost is",
            ),
            (
                "ask_help",
                json!({ "to": "a", "question": "q", "budget": { "turns": 1 } }),
                "unknown field `turns`",
            ),
            ("publish_signal", json!({ "signal": "task.complete" }), "only the mesh publishes"),
            ("publish_signal", json!({ "signal": "agent.left" }), "only the registry publishes"),
            (ASK_PERSON, json!({ "question": "q", "kind": "approval" }), "unknown field `kind`"),
            (READ_SIGNALS, json!({ "limit": 51 }), "limit: 51 is not from 1 to 50"),
            (READ_SIGNALS, json!({ "after": "newest" }), "after: \"newest\" must be a revision"),
            (READ_SIGNALS, json!({ "capability": "" }), "capability: "),
            ("find", json!({}), "at least one of"),
            ("remember", json!({ "content": "c", "entryType": "scope" }), "expected one of `core-context`"),
            (READ_ARTIFACT, json!({ "artifact": "b" }), "no artifact \"b\"; there are: a"),
            (READ_ARTIFACT, json!({ "artifact": "a", "offset": 1 }), "within a character"),
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
        assert_eq!(empty.text, "[No signal. Read on with the same `after`.]");
        let MeshOutcome::Read(query) = run(READ_SIGNALS, json!({ "type": "acme.*", "after": "g1-3" })) else {
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
            let MeshOutcome::Result(piece) = run(READ_ARTIFACT, json!({ "artifact": "a", "offset": offset }))
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
