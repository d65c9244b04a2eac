//! Signals on the blackboard: short notices that refer to content and never carry it (RFC-005, seed 002).

use crate::{
    ids::{AgentId, Capability, Digest, TaskId},
    principal::{MeshService, Principal, RootProof, SenderProof, TaskRoot},
    problem::{Problem, Reason},
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// A signal's type: one of the closed list, or a custom one in a namespace of its own (`acme.build.started`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SignalType(String);

/// The closed list (DESIGN §6).
pub const SIGNAL_TYPES: [&str; 10] = [
    "agent.joined",
    "agent.left",
    "task.available",
    "task.claimed",
    "task.complete",
    "task.failed",
    "artifact.produced",
    "help.needed",
    "quota.near",
    "quota.reached",
];

const RESERVED: [&str; 6] = ["agent", "task", "artifact", "help", "quota", "board"];

/// A text that is no signal type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no signal type: use one of {list}, or two to six lower-case tokens in a namespace of your own, such as acme.build.started", list = SIGNAL_TYPES.join(", "))]
pub struct BadSignalType(String);

impl SignalType {
    /// The type `text` names.
    pub fn parse(text: &str) -> Result<Self, BadSignalType> {
        let token = |t: &str| {
            !t.is_empty()
                && t.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
        };
        let tokens = text.split('.').count();
        let shaped = text.len() <= 64 && (2..=6).contains(&tokens) && text.split('.').all(token);
        let custom = || !RESERVED.contains(&text.split('.').next().unwrap_or_default());
        if SIGNAL_TYPES.contains(&text) || shaped && custom() {
            return Ok(Self(text.to_owned()));
        }
        Err(BadSignalType(text.chars().take(80).collect()))
    }

    /// The dotted text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is about the course of a task. The accountable agent publishes a few of these for each task.
    pub fn is_of_task(&self) -> bool {
        self.0.starts_with("task.") || self.0 == "artifact.produced"
    }

    /// Whether it tells of the life of an agent, a task or an artifact. Only the mesh publishes these; offers aside.
    pub fn is_lifecycle(&self) -> bool {
        let is_of = |prefix| self.0.starts_with(prefix);
        ["agent.", "task.", "artifact.", "quota."].into_iter().any(is_of) && *self != Self::task_available()
    }

    /// Whether only the registry publishes it.
    pub fn is_registrys(&self) -> bool {
        self.0 == "agent.joined" || self.0 == "agent.left"
    }
}

macro_rules! named {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        impl SignalType { $($(#[$doc])* pub fn $name() -> Self { Self($text.to_owned()) })* }
    };
}

named! {
    /// From the registry: a peer has joined.
    agent_joined = "agent.joined";
    /// From the registry: a peer has left or is lost.
    agent_left = "agent.left";
    /// From anyone: work to claim.
    task_available = "task.available";
    /// From the accountable agent: the task is taken.
    task_claimed = "task.claimed";
    /// From the accountable agent: the task is done.
    task_complete = "task.complete";
    /// From the accountable agent: the task has failed.
    task_failed = "task.failed";
    /// From an agent: new content is available.
    artifact_produced = "artifact.produced";
    /// From an agent: four fifths of a quota are used.
    quota_near = "quota.near";
    /// From an agent: a quota is used up.
    quota_reached = "quota.reached";
    /// From an agent: it asks for help.
    help_needed = "help.needed";
}

impl fmt::Display for SignalType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl TryFrom<String> for SignalType {
    type Error = BadSignalType;
    fn try_from(text: String) -> Result<Self, BadSignalType> {
        Self::parse(&text)
    }
}

impl From<SignalType> for String {
    fn from(signal: SignalType) -> String {
        signal.0
    }
}

/// A signal as it is published. `id` makes a repeat recognisable; the board answers it with the first revision.
///
/// A signal of an earlier version has neither `by` nor `root`. It comes from nobody: no user but the local one sees it if it is
/// about a task, and an agent reacts to it on its own behalf.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Signal {
    /// The publisher's name for it, unique among the publisher's signals.
    pub id: String,
    /// What kind of thing happened.
    #[serde(rename = "type")]
    pub kind: SignalType,
    /// The publisher's name for itself: a label.
    pub from: AgentId,
    /// The principal that published it. The board sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Principal>,
    /// The principal at the root of the task that it is about. Only agents and services name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<Principal>,
    /// How the principal that it [acts for](Signal::acts_for) was proved. Agents say so of `root`, the board of a user that publishes.
    #[serde(default, deserialize_with = "RootProof::known", skip_serializing_if = "Option::is_none")]
    pub root_proof: Option<RootProof>,
    /// What it is about: an agent, an artifact, anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The task it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The capability it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<Capability>,
    /// References to the content.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub refs: Map<String, Value>,
    /// The agents that it is for; all, if empty. Others of the mesh do not see it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<AgentId>,
    /// When it happened, by the publisher's clock; order comes from the revision.
    pub at: WallTime,
}

/// The reference by which the board names the principal that offered an open task, in every signal about the task.
pub const PUBLISHER: &str = "publisher";

/// The reference by which the board names the first offer, by its id, when it offers a task again.
pub const OFFER: &str = "offer";

/// The reference by which the board names the principal whose claim a signal is about.
pub const CLAIMANT: &str = "claimant";

/// The id of the first signal that offered the task that `signal` offers.
pub fn first_offer(signal: &Signal) -> &str {
    let first = signal.refs.get(OFFER).and_then(Value::as_str).filter(|_| signal.is_boards_own());
    first.unwrap_or(&signal.id)
}

/// The reference by which an offer of a brain names the task that it was made for.
pub const PARENT_TASK: &str = "parentTaskId";

/// The reference by which a signal names the thread of its task.
pub const THREAD: &str = "threadId";

/// The principal that offered the open task that `signal` is about.
pub fn publisher(signal: &Signal) -> Option<Principal> {
    Principal::try_from(signal.refs.get(PUBLISHER)?.as_str()?.to_owned()).ok()
}

/// The reference of an `artifact.produced` that is the digest of the content.
pub const SHA256: &str = "sha256";

/// The reference of an `artifact.produced` that is the agent which has the content.
pub const OWNER: &str = "owner";

/// The member of a signal's `refs` by which an agent names the principal that had it published.
pub const ON_BEHALF_OF: &str = "onBehalfOf";

/// The reference of an `agent.joined` that says how many tasks the agent does at once.
pub const MAX_PARALLEL: &str = "maxParallel";

/// What is to be done in the task that a signal with these members offers; `None` if neither says it.
pub fn described_task<'a>(refs: &'a Map<String, Value>, subject: Option<&'a str>) -> Option<&'a str> {
    let described = refs.get("description").and_then(Value::as_str);
    described.or(subject).filter(|text| !text.trim().is_empty())
}

/// The digest of the content that the references of an `artifact.produced` name.
pub fn produced(kind: &SignalType, refs: &Map<String, Value>) -> Option<Digest> {
    let digest = refs.get(SHA256).filter(|_| *kind == SignalType::artifact_produced())?;
    Digest::parse(digest.as_str()?).ok()
}

/// Whether `principal` may see `signal`: whoever sees all; a user, if it is about no task or about the user's own. An agent sees one
/// that is for others only if it has published it.
pub fn may_see(principal: &Principal, signal: &Signal) -> bool {
    if let Principal::Agent(agent) | Principal::Brain(agent) = principal
        && !signal.to.is_empty()
        && !signal.to.contains(agent)
        && !signal.is_caused_by(agent)
    {
        return false;
    }
    let is = |other: Option<&Principal>| other == Some(principal);
    let publisher = || publisher(signal).filter(|_| signal.is_offer() || signal.is_boards_own());
    sees_all(principal)
        || matches!(principal, Principal::User(_))
            && (signal.task_id.is_none()
                || is(signal.by.as_ref())
                || is(signal.acts_for().as_ref())
                || is(publisher().as_ref()))
}

/// Whether `principal` may see every signal of the board: the mesh and the local user may.
pub fn sees_all(principal: &Principal) -> bool {
    principal.is_of_mesh() || *principal == Principal::local_user()
}

/// The prefix of the ids of the board's own signals; reserved for the board.
pub const BOARD_ID_PREFIX: &str = "board:";

impl Signal {
    /// The digest of the content that it refers to, if it is an `artifact.produced` with one.
    pub fn produced(&self) -> Option<Digest> {
        produced(&self.kind, &self.refs)
    }

    /// The principal on whose behalf an agent has published it, if it names one.
    pub fn on_behalf_of(&self) -> Option<Principal> {
        let named =
            self.refs.get(ON_BEHALF_OF).filter(|_| self.by.as_ref().is_some_and(Principal::is_of_mesh));
        Principal::try_from(named?.as_str()?.to_owned()).ok()
    }

    /// Whether `agent` caused it: it has published it, or the board tells of its claim. In a signal of an earlier version its
    /// label decides.
    pub fn is_caused_by(&self, agent: &AgentId) -> bool {
        let claimant = || Principal::try_from(self.refs.get(CLAIMANT)?.as_str()?.to_owned()).ok();
        match &self.by {
            None => self.from == *agent,
            Some(Principal::Service(MeshService::Board)) => {
                claimant().is_some_and(|claimant| claimant.agent() == Some(agent))
            }
            Some(by) => by.agent() == Some(agent),
        }
    }

    /// The principal for whom whoever reacts to it acts: the one that an agent names, else the publisher. `None` if it
    /// is of an earlier version.
    pub fn acts_for(&self) -> Option<Principal> {
        let by = self.by.as_ref()?;
        let root = self.root.clone().filter(|_| by.is_of_mesh());
        root.or_else(|| self.on_behalf_of()).or_else(|| Some(by.clone()))
    }

    /// The root of the work that follows from it: the principal that it acts for, or for a service the person of the mesh. `None` if it
    /// is of an earlier version.
    pub fn task_root(&self) -> Option<TaskRoot> {
        let by = self.by.as_ref()?;
        let principal = self.acts_for()?;
        if matches!(principal, Principal::Service(_)) {
            return Some(TaskRoot::person());
        }
        // The board takes a signal of these with a signature or a credential only.
        let is_signed = principal == *by && *by != Principal::local_user();
        let proof = self.root_proof.or_else(|| is_signed.then(|| RootProof::of(by, SenderProof::Credential)));
        Some(TaskRoot { principal, proof })
    }

    /// Whether it offers an open task.
    pub fn is_offer(&self) -> bool {
        self.kind == SignalType::task_available() && self.task_id.is_some()
    }

    /// Whether the board made it.
    pub fn is_boards_own(&self) -> bool {
        self.id.starts_with(BOARD_ID_PREFIX)
    }
}

/// A signal on the board, with its revision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalRecord {
    /// Its revision on the board.
    pub revision: u64,
    #[serde(flatten)]
    pub signal: Signal,
}

/// A position on the board: everything up to the revision has been read. Revisions count within one generation of the
/// board's store. Its text is `GENERATION-REVISION`; without a generation, it is the revision, and any board takes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "CursorText", into = "CursorText")]
pub struct Cursor {
    /// The generation, if it is known.
    pub generation: Option<String>,
    pub revision: u64,
}

/// A cursor without a generation is a number in JSON.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum CursorText {
    Revision(u64),
    Text(String),
}

impl Cursor {
    /// The cursor that `text` names.
    pub fn parse(text: &str) -> Option<Self> {
        let (generation, revision) = match text.rsplit_once('-') {
            Some((generation, revision)) if is_token(generation) => (Some(generation.to_owned()), revision),
            Some(_) => return None,
            None => (None, text),
        };
        let is_number = revision.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| Some(Self { generation, revision: revision.parse().ok()? })).flatten()
    }

    /// Refuses a cursor that `board` can't continue from.
    pub fn check(&self, board: &BoardPosition) -> Result<(), Problem> {
        let BoardPosition { generation, floor, head } = board;
        let refused = |reason, message| {
            Err(Problem::new(reason, message).with("generation", generation).with("floor", floor))
        };
        if self.generation.as_ref().is_some_and(|of| of != generation) {
            let message = format!(
                "{self} is of another board than this one, which is generation {generation}: read again from {floor}"
            );
            return refused(Reason::GenerationChanged, message);
        }
        if self.revision > *head {
            let revision = self.revision;
            let message = format!(
                "revision {revision} is not of this board, whose last is {head}: read again from {floor}"
            );
            return refused(Reason::Trimmed, message);
        }
        Ok(())
    }
}

/// The generation of a board's store, and what it holds.
#[derive(Debug, Clone)]
pub struct BoardPosition {
    pub generation: String,
    /// All signals after this revision are kept.
    pub floor: u64,
    pub head: u64,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.generation.iter().try_for_each(|generation| write!(f, "{generation}-"))?;
        write!(f, "{}", self.revision)
    }
}

impl From<u64> for Cursor {
    fn from(revision: u64) -> Self {
        Self { generation: None, revision }
    }
}

impl From<Cursor> for CursorText {
    fn from(cursor: Cursor) -> Self {
        match cursor.generation {
            None => Self::Revision(cursor.revision),
            Some(_) => Self::Text(cursor.to_string()),
        }
    }
}

impl TryFrom<CursorText> for Cursor {
    type Error = &'static str;
    fn try_from(text: CursorText) -> Result<Self, &'static str> {
        match text {
            CursorText::Revision(revision) => Ok(revision.into()),
            CursorText::Text(text) => Self::parse(&text).ok_or(BAD_CURSOR),
        }
    }
}

/// The rule of a cursor's text.
pub const BAD_CURSOR: &str = "must be a revision, a whole number, or GENERATION-REVISION";

fn is_token(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Which signals a reader wants. All conditions hold at once; an empty one holds always.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Selector {
    /// Types, each exact or with a `*` as its last token (`task.*`); any of them.
    pub types: Vec<String>,
    /// Capabilities; any of them. A signal that names none does not pass.
    pub capabilities: Vec<Capability>,
    pub task_id: Option<TaskId>,
}

/// Whether signals of the type `kind` are meant by `pattern`, which is a type or has a `*` as its last token.
pub fn fits(pattern: &str, kind: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => kind.starts_with(prefix),
        None => kind == pattern,
    }
}

impl Selector {
    /// Whether the reader wants `signal`.
    pub fn admits(&self, signal: &Signal) -> bool {
        let type_fits = |pattern: &String| fits(pattern, signal.kind.as_str());
        let capability_fits = || signal.capability.as_ref().is_some_and(|c| self.capabilities.contains(c));
        (self.types.is_empty() || self.types.iter().any(type_fits))
            && (self.capabilities.is_empty() || capability_fits())
            && self.task_id.as_ref().is_none_or(|task| signal.task_id.as_ref() == Some(task))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_a_revision_or_a_generation_and_a_revision() {
        for text in ["0", "17", "0a1f-17"] {
            assert_eq!(Cursor::parse(text).unwrap().to_string(), text);
        }
        for bad in ["", "-1", "x", "0a1f-", "0a-1f-x", "a b-1", "+1", "18446744073709551616"] {
            assert_eq!(Cursor::parse(bad), None, "{bad}");
        }
        let known = Cursor { generation: Some("0a1f".into()), revision: 17 };
        for (cursor, json) in [(known, "\"0a1f-17\""), (Cursor::from(3), "3")] {
            assert_eq!(serde_json::to_string(&cursor).unwrap(), json);
            assert_eq!(serde_json::from_str::<Cursor>(json).unwrap(), cursor);
        }
    }

    #[test]
    fn a_signal_of_an_earlier_version_comes_from_nobody() {
        let old = |more: Value| {
            let mut signal = serde_json::json!({
                "id": "1", "type": "help.needed", "from": "planner-01", "taskId": "t-1", "at": "2026-01-01T00:00:00Z",
            });
            signal.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value::<Signal>(signal).unwrap()
        };
        let user = |name: &str| Principal::User(AgentId::parse(name).unwrap());
        let labelled =
            old(serde_json::json!({ "refs": { ON_BEHALF_OF: "user:anna", PUBLISHER: "user:anna" } }));
        assert_eq!((&labelled.by, labelled.acts_for(), labelled.on_behalf_of()), (&None, None, None));
        assert!(!may_see(&user("anna"), &labelled), "a label gives no right");
        assert!(may_see(&Principal::local_user(), &labelled));
        let offer = old(serde_json::json!({ "type": "task.available", "refs": { PUBLISHER: "user:anna" } }));
        assert!(may_see(&user("anna"), &offer), "the board has always named the publisher of an offer");
        assert!(!may_see(&user("bert"), &offer));
        let text = serde_json::to_string(&offer).unwrap();
        assert!(!text.contains("\"by\"") && !text.contains("\"root\""), "it is written as it was: {text}");
    }

    #[test]
    fn whoever_acts_on_a_signal_acts_for_the_principal_that_an_agent_names_or_for_the_publisher() {
        let signal = |by: &str, root: Option<&str>, on_behalf_of: Option<&str>| {
            let principal = |text: &str| Principal::try_from(text.to_owned()).unwrap();
            let mut signal: Signal = serde_json::from_value(serde_json::json!({
                "id": "1", "type": "help.needed", "from": "x", "at": "2026-01-01T00:00:00Z",
            }))
            .unwrap();
            (signal.by, signal.root) = (Some(principal(by)), root.map(principal));
            signal.refs.extend(on_behalf_of.map(|named| (ON_BEHALF_OF.to_owned(), named.into())));
            signal.acts_for().unwrap().to_string()
        };
        assert_eq!(signal("agent:a", Some("user:anna"), Some("user:bert")), "user:anna");
        assert_eq!(signal("agent:a", None, Some("user:bert")), "user:bert");
        assert_eq!(signal("agent:a", None, None), "agent:a");
        assert_eq!(
            signal("user:eve", Some("user:anna"), Some("user:bert")),
            "user:eve",
            "a user acts for itself"
        );
        assert_eq!(signal("brain:a", Some("user:anna"), None), "brain:a");
    }

    #[test]
    fn a_board_refuses_a_cursor_of_another_generation_even_below_its_head() {
        let board = BoardPosition { generation: "b".into(), floor: 2, head: 9 };
        let refused =
            |text: &str| Cursor::parse(text).unwrap().check(&board).err().map(|problem| problem.reason);
        assert_eq!((refused("5"), refused("b-5"), refused("b-9")), (None, None, None));
        assert_eq!(refused("a-5"), Some(Reason::GenerationChanged));
        assert_eq!((refused("10"), refused("b-10")), (Some(Reason::Trimmed), Some(Reason::Trimmed)));
    }
}
