//! What is posted to a space, before it is an entry.

use super::{EntryKind, EntryLink, EntryType, Grade, MemberId, MemoryScope, Slug};
use crate::{
    ids::{AgentId, EntryId, StageId, TaskId},
    principal::{Principal, RootProof, TaskRoot},
    problem::{Problem, Reason},
    run_root::RunRoot,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The tag of a memory that concerns the whole team.
pub const CROSS_TEAM: &str = "cross-team";
/// The most bytes of an entry's content; more goes by artifact.
pub const MAX_CONTENT_BYTES: usize = 16 * 1024;
/// The most bytes of a title or a reason.
pub const MAX_TITLE_BYTES: usize = 512;
/// The most tags of an entry.
pub const MAX_TAGS: usize = 32;
/// The most bytes of a tag.
pub const MAX_TAG_BYTES: usize = 64;
/// The most areas of expertise of an agent in a space.
pub const MAX_AREAS: usize = 64;
/// The most files of one memory.
pub const MAX_POSTED_FILES: usize = 100;
/// The most addressees of a message.
pub const MAX_ADDRESSEES: usize = 100;
/// The most bytes of a poster's own id for an entry.
const MAX_OWN_ID_BYTES: usize = 96;

/// Which sealed stage an entry is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SealedStage {
    /// The agent that hosts the session, and releases the entry.
    pub host: AgentId,
    pub session: TaskId,
    pub stage: StageId,
    /// How often the stage was begun.
    pub iteration: u32,
}

/// What is posted to a space: the body of `POST /board/spaces/{id}/entries`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EntryDraft {
    /// The poster's own id, for instance `TASK:ORDINAL`. The entry's id is the poster, `:` and this; a repeat keeps the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub kind: EntryKind,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    pub content: String,
    /// The type of a proposal, a decision or a memory.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub entry_type: Option<EntryType>,
    /// The name of a proposal; made from the title if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slug: Option<String>,
    /// The importance of a proposal or a memory; medium if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub importance: Option<Grade>,
    /// Who reads a memory; the team if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<MemoryScope>,
    /// The severity of a finding; medium if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Grade>,
    /// Words it is found by.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
    /// Areas in which the author of a memory knows more now, and how much more.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub expertise: BTreeMap<String, u32>,
    /// Files that the author of a memory has analysed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub files: BTreeSet<String>,
    /// Other entries that it refers to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<EntryLink, EntryId>,
    /// The task it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The session it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<TaskId>,
    /// The run that its task is a part of: who answers for that may decide about a proposal when it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunRoot>,
    /// For whom an agent posts it. Only an agent says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<Principal>,
    /// How that principal was proved.
    #[serde(default, deserialize_with = "RootProof::known", skip_serializing_if = "Option::is_none")]
    pub root_proof: Option<RootProof>,
    /// The session's stage it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<StageId>,
    /// The addressees of a message.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub to: BTreeSet<MemberId>,
    /// The sealed stage that it is of. An agent says so of a turn that it has there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Box<SealedStage>>,
}

impl EntryDraft {
    /// A draft of `kind` with `content` and nothing else.
    pub fn new(kind: EntryKind, content: impl Into<String>) -> Self {
        Self {
            id: None,
            kind,
            title: String::new(),
            content: content.into(),
            entry_type: None,
            slug: None,
            importance: None,
            scope: None,
            severity: None,
            tags: BTreeSet::new(),
            expertise: BTreeMap::new(),
            files: BTreeSet::new(),
            links: BTreeMap::new(),
            task: None,
            session: None,
            run: None,
            root: None,
            root_proof: None,
            stage: None,
            to: BTreeSet::new(),
            sealed: None,
        }
    }

    /// Refuses a draft that is too large, lacks what its kind needs or has what its kind does not have. The refusal names the
    /// field and what is valid.
    pub fn check(&self) -> Result<(), Problem> {
        if self.links.keys().any(|link| *link != EntryLink::RetriedFrom) {
            return Err(invalid("links", "only retriedFrom can be posted; the board makes the others"));
        }
        if self.scope == Some(MemoryScope::Own) && self.tags.contains(CROSS_TEAM) {
            return Err(invalid(
                "tags",
                "cross-team is for the team; a memory of scope own is read by its author alone",
            ));
        }
        self.check_content()?;
        self.slug().map(drop)
    }

    /// The same, but for what the board makes: links and slugs.
    pub(super) fn check_content(&self) -> Result<(), Problem> {
        if self.content.trim().is_empty() {
            return Err(invalid("content", "must not be empty"));
        }
        for (field, bytes, limit) in
            [("content", self.content.len(), MAX_CONTENT_BYTES), ("title", self.title.len(), MAX_TITLE_BYTES)]
        {
            if bytes > limit {
                let message = format!(
                    "{field}: {bytes} bytes, the limit is {limit}; put more as an artifact (PUT /a2a/artifacts) and name it here"
                );
                let problem = Problem::new(Reason::PayloadTooLarge, message).with("field", field);
                return Err(problem.with("limit", limit));
            }
        }
        if self.tags.len() > MAX_TAGS || self.tags.iter().any(|tag| !is_tag(tag)) {
            return Err(invalid(
                "tags",
                format!("at most {MAX_TAGS}, each 1 to {MAX_TAG_BYTES} bytes without spaces and commas"),
            ));
        }
        if self.expertise.len() > MAX_AREAS || self.expertise.keys().any(|area| !is_tag(area)) {
            let why = format!(
                "at most {MAX_AREAS} areas, each 1 to {MAX_TAG_BYTES} bytes without spaces and commas"
            );
            return Err(invalid("expertise", why));
        }
        if self.files.len() > MAX_POSTED_FILES || self.files.iter().any(|file| file.len() > MAX_TITLE_BYTES) {
            let why = format!("at most {MAX_POSTED_FILES} paths of at most {MAX_TITLE_BYTES} bytes");
            return Err(invalid("files", why));
        }
        if self.to.len() > MAX_ADDRESSEES {
            return Err(invalid("to", format!("at most {MAX_ADDRESSEES} members")));
        }
        self.check_members()?;
        self.check_type()
    }

    /// Refuses members that other kinds have.
    fn check_members(&self) -> Result<(), Problem> {
        use EntryKind::{Finding, Memory, Message, Proposal};
        let kinds: [(&str, bool, &[EntryKind]); 7] = [
            ("expertise", !self.expertise.is_empty(), &[Memory]),
            ("files", !self.files.is_empty(), &[Memory]),
            ("severity", self.severity.is_some(), &[Finding]),
            ("slug", self.slug.is_some(), &[Proposal]),
            ("importance", self.importance.is_some(), &[Proposal, Memory]),
            ("scope", self.scope.is_some(), &[Memory]),
            ("to", !self.to.is_empty(), &[Message]),
        ];
        for (field, is_there, of) in kinds {
            if is_there && !of.contains(&self.kind) {
                let of: Vec<String> = of.iter().map(ToString::to_string).collect();
                let message = format!("a {} has none, only a {} has", self.kind, of.join(" or a "));
                return Err(invalid(field, message));
            }
        }
        Ok(())
    }

    fn check_type(&self) -> Result<(), Problem> {
        let valid: Vec<String> = EntryType::ALL
            .iter()
            .filter(|kind| kind.belongs_to(self.kind))
            .map(ToString::to_string)
            .collect();
        match self.entry_type {
            None if valid.is_empty() => Ok(()),
            Some(kind) if kind.belongs_to(self.kind) => Ok(()),
            Some(kind) if valid.is_empty() => {
                Err(invalid("type", format!("a {} has none, got {kind}", self.kind)))
            }
            given => {
                let got = given.map_or("none".to_owned(), |kind| kind.to_string());
                Err(invalid("type", format!("a {} has one of {}, got {got}", self.kind, valid.join(", "))))
            }
        }
    }

    /// The same, posted by the agent `me` for `root`. What it does on its own behalf nobody else has caused.
    #[must_use]
    pub fn caused_by(self, me: &AgentId, root: TaskRoot) -> Self {
        match root.principal.agent() == Some(me) {
            true => self,
            false => Self { root: Some(root.principal), root_proof: root.proof, ..self },
        }
    }

    /// The slug that a proposal asks for; `None` for other kinds.
    pub fn slug(&self) -> Result<Option<Slug>, Problem> {
        match (self.kind, &self.slug) {
            (EntryKind::Proposal, Some(slug)) => Slug::requested(slug).map(Some),
            (EntryKind::Proposal, None) => Slug::suggested(&self.title)
                .map(Some)
                .ok_or_else(|| invalid("slug", "a proposal needs a slug, or a title to make one from")),
            _ => Ok(None),
        }
    }

    /// The entry's id that [`Self::id`] gives it if `author` posts it; `None` if the board makes one.
    pub fn entry_id(&self, author: &Principal) -> Result<Option<EntryId>, Problem> {
        let Some(own) = &self.id else { return Ok(None) };
        let grammar = || invalid("id", format!("must match [A-Za-z0-9._:-]{{1,{MAX_OWN_ID_BYTES}}}"));
        if own.is_empty() || own.len() > MAX_OWN_ID_BYTES {
            return Err(grammar());
        }
        EntryId::parse(&format!("{author}:{own}")).map(Some).map_err(|_| grammar())
    }
}

fn is_tag(tag: &str) -> bool {
    !tag.is_empty()
        && tag.len() <= MAX_TAG_BYTES
        && !tag.contains(|c: char| c.is_whitespace() || c.is_control() || c == ',')
}

fn invalid(field: &'static str, why: impl std::fmt::Display) -> Problem {
    Problem::new(Reason::InvalidField, format!("{field}: {why}")).with("field", field)
}
