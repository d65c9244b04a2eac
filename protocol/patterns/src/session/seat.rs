//! The messages that travel in the result of a turn, and what marks a task as the turn of a seat.

use super::{
    graph::SeatRole,
    names::{SESSION, TEAM},
};
use crate::speech::{Directive, SideMode};
use protocol::{
    artifact::Artifact,
    compaction::Compaction,
    ids::{AgentId, StageId, TaskId},
    spaces::{EntryKind, brief::BriefLayer, entry_draft::SealedStage, request::SessionScope},
    task::TaskSpec,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Why something is refused that would tell others of the work in a sealed stage.
pub const SEALED: &str =
    "stage_sealed: what is said in this stage is for all, and is given to them when it ends";

/// The member of another seat in the input of a turn: why a message to it alone is not delivered.
pub const UNREACHABLE: &str = "unreachable";

/// The most messages of one turn.
pub const MAX_SAYS: u32 = 8;

/// The longest message, bytes.
pub const MAX_SAY_BYTES: usize = 16 * 1024;

/// Whether a task is the turn of a seat.
pub fn is_seat_turn(spec: &TaskSpec) -> bool {
    is_seat_input(spec.input.as_ref())
}

/// Whether the input of a task is that of the turn of a seat.
pub fn is_seat_input(input: Option<&Value>) -> bool {
    input.is_some_and(|input| input.get("seat").is_some_and(Value::is_object))
}

/// What the seat is whose turn has this input; `None` if it is no turn of a seat.
pub fn role(input: Option<&Value>) -> Option<SeatRole> {
    let seat = input.filter(|input| is_seat_input(Some(input)))?.get("seat")?;
    let role = seat.get("as").and_then(|role| SeatRole::deserialize(role).ok());
    Some(role.unwrap_or_default())
}

/// The artifacts of a turn that are new to its seat.
pub fn new_artifacts(spec: &TaskSpec) -> impl Iterator<Item = &Artifact> {
    let new = spec.input.as_ref().and_then(|input| input.get("seat")?.get("new")?.as_array());
    let new: BTreeSet<&str> = new.into_iter().flatten().filter_map(Value::as_str).collect();
    spec.artifacts.iter().filter(move |artifact| new.contains(artifact.artifact_id.as_str()))
}

/// How much of its earlier turns a turn with this input is given again, as far as its seat says.
pub fn compaction(input: Option<&Value>) -> Compaction {
    let written = input.and_then(|input| input.get("seat")?.get("compaction"));
    written.and_then(|written| Compaction::deserialize(written).ok()).unwrap_or_default()
}

/// Whether a task is the turn of a seat in a sealed stage.
pub fn is_sealed(spec: &TaskSpec) -> bool {
    is_sealed_input(spec.input.as_ref())
}

/// Whether the input of a task is that of the turn of a seat in a sealed stage.
pub fn is_sealed_input(input: Option<&Value>) -> bool {
    let seat = input.and_then(|input| input.get("seat"));
    seat.is_some_and(|seat| seat.get("sealed") == Some(&Value::Bool(true)))
}

/// What the turn of a seat is told of its space beside the decisions; `None` for all.
pub fn brief_layers(input: Option<&Value>) -> Option<Vec<BriefLayer>> {
    let layers = input?.get("seat")?.get("brief")?;
    serde_json::from_value(layers.clone()).ok()
}

/// The repository that the turn of a seat works in, as its session sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeatWorkspace {
    /// Where the repository of the session is, on this machine, and what proves that the session has said so.
    pub source: String,
    pub key: String,
    pub session: TaskId,
    /// The commit that the turn begins with.
    pub base: String,
    /// Whether what the turn does is committed.
    pub commits: bool,
}

/// The repository that the turn of a seat works in.
pub fn workspace(input: Option<&Value>) -> Option<SeatWorkspace> {
    SeatWorkspace::deserialize(input?.get("seat")?.get("workspace")?).ok()
}

/// Takes the commit of a turn, and the files that it changes, out of what the turn has produced: its node has added it.
pub(super) fn take_commit(produced: &mut Vec<Artifact>) -> Option<(String, Vec<String>)> {
    let is_commit = |artifact: &Artifact| named_commit(artifact).is_some();
    let found = produced
        .iter()
        .rev()
        .find_map(|artifact| Some((named_commit(artifact)?.to_owned(), artifact.as_text())));
    produced.retain(|artifact| !is_commit(artifact));
    found.map(|(commit, text)| (commit, text.lines().skip(1).map(str::to_owned).collect()))
}

/// The commit that an artifact names.
pub fn named_commit(artifact: &Artifact) -> Option<&str> {
    artifact.metadata.get(SESSION)?.get("commit")?.as_str()
}

/// How far the session of a turn is, if the turn is told.
pub fn so_far(input: Option<&Value>) -> Option<&str> {
    let is_told = brief_layers(input).is_none_or(|layers| layers.contains(&BriefLayer::Session));
    input?.get("seat")?.get("soFar")?.as_str().filter(|_| is_told)
}

/// What a turn may read of its space beside decisions and what its agent has posted; `None` for all. In a sealed stage that is
/// nothing.
pub fn readable_layers(input: Option<&Value>) -> Option<Vec<BriefLayer>> {
    if is_sealed_input(input) { Some(Vec::new()) } else { brief_layers(input) }
}

/// The layers of the brief of a turn; `None` for all. In a sealed stage nothing names other agents that work, and the findings are
/// its own.
pub fn turn_layers(input: Option<&Value>) -> Option<Vec<BriefLayer>> {
    let layers = brief_layers(input);
    match is_sealed_input(input) {
        true => {
            let mut layers = layers.unwrap_or_else(|| vec![BriefLayer::Memory]);
            layers.retain(|layer| *layer != BriefLayer::Roster);
            layers.push(BriefLayer::Findings);
            Some(layers)
        }
        false => layers,
    }
}

/// The place of a turn in its session, and what came before it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SeatPlace {
    pub session: TaskId,
    pub seat: String,
    /// The tasks before it in the A2A context of the session.
    #[serde(default)]
    pub earlier: Vec<TaskId>,
}

/// Reads the place of a turn in its session.
pub fn place(input: Option<&Value>) -> Option<SeatPlace> {
    SeatPlace::deserialize(input?.get("seat")?).ok()
}

/// The session to whose findings those of a task belong. The turn of a seat belongs to its own, unless that shares its findings
/// with the space.
pub fn session_of_findings(spec: &TaskSpec) -> Option<TaskId> {
    match seat_of(spec.input.as_ref()) {
        Some(seat) if seat.get("findings").is_some() => None,
        Some(seat) => TaskId::deserialize(seat.get("session")?).ok(),
        None => spec.session.clone(),
    }
}

/// What a turn sees of sessions: the findings of `session`, and in a sealed stage its own sealed entries.
pub fn scope(session: Option<TaskId>, input: Option<&Value>) -> SessionScope {
    let sealed = seat_of(input).filter(|_| is_sealed_input(input));
    let sealed = sealed.and_then(|seat| TaskId::deserialize(seat.get("session")?).ok());
    SessionScope { session, sealed }
}

/// The sealed stage of a turn that `host` has given, if it is one there.
pub fn sealed_stage(spec: &TaskSpec, host: &AgentId) -> Option<SealedStage> {
    let seat = seat_of(spec.input.as_ref()).filter(|_| is_sealed(spec))?;
    Some(SealedStage {
        host: host.clone(),
        session: TaskId::deserialize(seat.get("session")?).ok()?,
        stage: StageId::deserialize(seat.get("stage")?).ok()?,
        iteration: seat.get("iteration").and_then(|count| u32::deserialize(count).ok()).unwrap_or_default(),
    })
}

fn seat_of(input: Option<&Value>) -> Option<&Map<String, Value>> {
    input?.get("seat")?.as_object()
}

/// The kinds of the entries of others that a turn may search for; `None` for all.
pub fn kinds_of_others(input: Option<&Value>) -> Option<BTreeSet<EntryKind>> {
    let kinds = readable_layers(input)?.into_iter().filter_map(|layer| match layer {
        BriefLayer::Memory => Some(EntryKind::Memory),
        BriefLayer::Findings => Some(EntryKind::Finding),
        BriefLayer::Decisions | BriefLayer::Roster | BriefLayer::Session => None,
    });
    Some(kinds.chain([EntryKind::Decision]).collect())
}

/// The names among `to` that no message of a turn with this input reaches, each with the reason. Only the host knows for sure: a
/// seat may end or fail before the turn does.
pub fn unreached(input: Option<&Value>, to: &[String]) -> Vec<(String, String)> {
    let seat = input.and_then(|input| input.get("seat")).unwrap_or(&Value::Null);
    let Some(others) = seat["others"].as_array() else { return Vec::new() };
    let why = |name: &str| {
        if let Some(with) = seat["side"]["with"].as_str() {
            return (name != with).then(|| format!("you talk with {with} alone"));
        }
        if to.iter().any(|name| name == TEAM) {
            return None;
        }
        if is_sealed_input(input) {
            return Some(SEALED.to_owned());
        }
        match others.iter().find(|other| other["seat"] == name) {
            Some(other) => other[UNREACHABLE].as_str().map(str::to_owned),
            None if seat["seat"] == name => Some("that is you".to_owned()),
            None => {
                let known: Vec<_> = others.iter().filter_map(|other| other["seat"].as_str()).collect();
                Some(format!("no such seat here; there are {}", known.join(", ")))
            }
        }
    };
    to.iter().filter_map(|name| Some((name.clone(), why(name)?))).collect()
}

/// A message, as the artifact in which it travels; `None` without addressees or if it is too long.
pub fn say(number: u32, to: &[String], text: &str, mode: SideMode) -> Option<Artifact> {
    if to.is_empty() {
        return None;
    }
    let say = match mode {
        SideMode::Dialogue => json!({ "to": to }),
        SideMode::Delegation => json!({ "to": to, "mode": mode }),
    };
    message(&format!("say.{number}"), text, json!({ "say": say }))
}

/// A directive of a supervisor, as the artifact in which it travels; `None` without a text or if that is too long.
pub fn directive(number: u32, directive: &Directive) -> Option<Artifact> {
    let text = directive.text.as_deref().unwrap_or_default();
    message(&format!("directive.{number}"), text, json!({ "directive": directive }))
}

fn message(id: &str, text: &str, about: Value) -> Option<Artifact> {
    let has_text = !text.trim().is_empty() && text.len() <= MAX_SAY_BYTES;
    let mut artifact = Artifact::text(id, "text/plain", text);
    artifact.metadata.insert(SESSION.to_owned(), about);
    has_text.then_some(artifact)
}

/// Whether an artifact is a message of a turn, or a directive.
pub fn is_message(artifact: &Artifact) -> bool {
    let about = artifact.metadata.get(SESSION);
    about.is_some_and(|about| about.get("say").is_some() || about.get("directive").is_some())
}

/// What a message opens, if the artifact is one.
pub(super) fn mode(artifact: &Artifact) -> SideMode {
    let mode = artifact.metadata.get(SESSION).and_then(|about| about.get("say")?.get("mode"));
    mode.and_then(|mode| SideMode::deserialize(mode).ok()).unwrap_or_default()
}

/// Takes the directives out of what a turn has produced.
pub(super) fn take_directives(produced: &mut Vec<Artifact>) -> Vec<Directive> {
    let read = |artifact: &Artifact| {
        let directive = artifact.metadata.get(SESSION)?.get("directive")?;
        Directive::deserialize(directive).ok()
    };
    let found = produced.iter().filter_map(read).collect();
    produced.retain(|artifact| read(artifact).is_none());
    found
}

/// The messages to other seats among what a turn has produced, and the rest.
pub(super) fn messages_and_results(produced: Vec<Artifact>) -> (Vec<Artifact>, Vec<Artifact>) {
    produced.into_iter().partition(|artifact| addressees(artifact).is_some())
}

/// The addressees of a message, if the artifact is one.
pub fn addressees(artifact: &Artifact) -> Option<Vec<String>> {
    let to = artifact.metadata.get(SESSION)?.get("say")?.get("to")?.as_array()?;
    Some(to.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}
