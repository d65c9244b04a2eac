//! Entries of spaces.

use super::invalid;
use crate::mcp::{
    api::encoded,
    tool_call::{McpToolCall, ToolOutcome},
};
use protocol::{problem::Problem, routes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

const MAX_ENTRIES: usize = 50;

/// The most bytes of an entry's content in a list.
const MAX_LISTED_CONTENT: usize = 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListEntries {
    /// The space.
    #[serde(default = "default_space")]
    space: String,
    /// Only of these kinds: finding, proposal, decision, memory; several with commas between.
    #[serde(default)]
    kind: Option<String>,
    /// Only in these states: open, withdrawn, pending, merged, rejected, active, superseded, archived.
    #[serde(default)]
    status: Option<String>,
    /// Only of these types, such as architectural or learning.
    #[serde(default, rename = "type")]
    entry_type: Option<String>,
    /// Only of this author: an agent's id or user:NAME.
    #[serde(default)]
    author: Option<String>,
    /// Only with these tags.
    #[serde(default)]
    tag: Option<String>,
    /// Only with these words in title or content.
    #[serde(default)]
    text: Option<String>,
    /// The next of an earlier result: reads on.
    #[serde(default)]
    after: Option<String>,
    /// How many, at most 50.
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 50))]
    limit: usize,
}

fn default_space() -> String {
    "default".to_owned()
}

fn twenty() -> usize {
    20
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(super) struct EntryListOutput {
    /// The entries, the newest first. Of a long content only its beginning, with cut: true.
    entries: Vec<Map<String, Value>>,
    /// Reads on, as after; absent if there are no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadEntry {
    /// The space.
    #[serde(default = "default_space")]
    space: String,
    /// The entry's id.
    id: String,
}

/// What a tool may post. Its arguments are a model's, and what a model writes binds nobody.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum PostableKind {
    Finding,
    Memory,
    Proposal,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct EntryOutput {
    /// The entry.
    entry: Map<String, Value>,
}

/// What is posted. Without the space it is the body of the request; the board checks it.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PostEntry {
    /// The space.
    #[serde(default = "default_space", skip_serializing)]
    space: String,
    /// What it is. Decisions are a person's: propose.
    kind: PostableKind,
    /// Its text, at most 16 KiB.
    content: String,
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// Of a proposal or memory: architectural, scope, process, technical, core-context, learning, pattern or update.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    entry_type: Option<String>,
    /// The name of a proposal. The same again is a new version while it is pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    slug: Option<String>,
    /// Of a proposal or memory: low, medium or high.
    #[serde(skip_serializing_if = "Option::is_none")]
    importance: Option<String>,
    /// Of a memory: own if only you may read it, or team.
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    /// Of a finding: low, medium or high.
    #[serde(skip_serializing_if = "Option::is_none")]
    severity: Option<String>,
    /// Words it is found by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    /// An id of your own. The same again is posted once.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(super) struct PostedEntryOutput {
    /// The entry's id.
    id: String,
    /// Its version.
    version: u64,
    /// Its state.
    state: String,
    /// The name a proposal got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    slug: Option<String>,
    /// Whether it was there.
    #[serde(default)]
    duplicate: bool,
}

/// The path of a space's entries.
fn entries(space: &str) -> String {
    format!("{}/{}/entries", routes::SPACES, encoded(space))
}

pub(super) async fn list(call: &mut McpToolCall<'_>, arguments: ListEntries) -> Result<ToolOutcome, Problem> {
    let ListEntries { space, kind, status, entry_type, author, tag, text, after, limit } = arguments;
    if !(1..=MAX_ENTRIES).contains(&limit) {
        return Err(invalid(format!("limit must be 1 to {MAX_ENTRIES}")));
    }
    let filters = [
        ("kind", kind),
        ("status", status),
        ("type", entry_type),
        ("author", author),
        ("tag", tag),
        ("text", text),
        ("after", after),
    ];
    let filters = filters.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let query: String = filters.map(|(name, value)| format!("&{name}={}", encoded(&value))).collect();
    let board = call.api.board().await?;
    let path = format!("{}?limit={limit}{query}", entries(&space));
    let mut page: EntryListOutput = call.api.get(&board, &path).await?;
    page.entries.iter_mut().for_each(cut);
    ToolOutcome::data(&page)
}

/// Keeps the beginning of a long content, and says so.
fn cut(entry: &mut Map<String, Value>) {
    let Some(Value::String(content)) = entry.get_mut("content") else { return };
    if content.len() > MAX_LISTED_CONTENT {
        content.truncate(content.floor_char_boundary(MAX_LISTED_CONTENT));
        entry.insert("cut".to_owned(), true.into());
    }
}

pub(super) async fn read(call: &mut McpToolCall<'_>, arguments: ReadEntry) -> Result<ToolOutcome, Problem> {
    let board = call.api.board().await?;
    let path = format!("{}/{}", entries(&arguments.space), encoded(&arguments.id));
    ToolOutcome::data(&EntryOutput { entry: call.api.get(&board, &path).await? })
}

pub(super) async fn post(call: &mut McpToolCall<'_>, arguments: PostEntry) -> Result<ToolOutcome, Problem> {
    let unreadable = |error: serde_json::Error| invalid(format!("an entry can't be read: {error}"));
    let body = serde_json::to_value(&arguments).map_err(unreadable)?;
    let board = call.api.board().await?;
    let answer = call.api.post(&board, &entries(&arguments.space), &body).await?;
    ToolOutcome::data(&serde_json::from_value::<PostedEntryOutput>(answer).map_err(unreadable)?)
}
