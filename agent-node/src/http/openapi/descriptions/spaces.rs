//! What the routes of spaces take and answer.

use super::{Description, id};
use protocol::spaces::{EntryKind, EntryState, EntryType};
use serde_json::{Value, json};

pub(super) fn describe(method: &str, path: &str) -> Option<Description> {
    let of = Description::new;
    let outcome = ["id", "version", "state"];
    Some(match (method, path.strip_prefix(protocol::routes::SPACES)?) {
        ("GET", "") => of("Lists the spaces that the caller is a member of.").answers(200, &["spaces"]),
        ("GET", "/{space}") => of("Shows a space.").answers(200, &["id", "members", "version"]),
        ("PUT", "/{space}") => of("Creates or changes a space.")
            .takes(json!({ "type": "object", "properties": {
                "members": { "type": "object", "additionalProperties": { "enum": ["owner", "curator", "member", "observer"] } },
                "routing": { "enum": ["open", "same-stage", "up-down", "mediated"] },
                "autoMerge": { "type": "array", "items": { "enum": ["learning", "pattern", "update"] } },
                "version": { "type": "integer", "minimum": 0 },
            } }))
            .answers(200, &["id", "members", "version"]),
        ("GET", "/{space}/brief") => of("Shows the brief of an agent; a person sees it without the agent's vault.")
            .query("for", id())
            .query("session", id())
            .query("root", json!({ "type": "string" }))
            .query("rootProof", json!({ "enum": ["credential", "token", "local", "signature"] }))
            .answers(200, &["space", "text", "included", "tokens"]),
        ("GET", "/{space}/vault") => of("Shows the vault of an agent, to the person.")
            .query("of", id())
            .answers(200, &["agent", "space", "areas", "entries"]),
        ("POST", "/{space}/vault") => of("Mends the vault of an agent, for the person.")
            .query("of", id())
            .takes(json!({ "type": "object", "required": ["change"], "properties": {
                "change": { "enum": ["edit", "archive", "expertise", "files"] },
                "id": id(), "content": { "type": "string" }, "reason": { "type": "string" },
                "areas": { "type": "object", "additionalProperties": { "type": "integer", "minimum": 0 } },
                "forget": { "type": "array", "items": { "type": "string" } },
            } }))
            .answers(200, &["agent", "space", "areas", "entries"]),
        ("POST", "/{space}/release") => of("Releases what is sealed in a session that the caller hosts.")
            .takes(json!({ "type": "object", "required": ["session"], "properties": {
                "session": id(), "stage": id(), "iteration": { "type": "integer", "minimum": 0 },
            } }))
            .answers(200, &["answer", "count"]),
        ("POST", "/{space}/curate") => of("Merges the caller's proposals of a task or a session that need no person.")
            .takes(json!({ "type": "object", "required": ["task"], "properties": {
                "task": id(), "session": { "type": "boolean" },
            } }))
            .answers(200, &["merged", "waiting"]),
        ("POST", "/{space}/withdraw") => of("Takes out of use all that a principal has caused, for the person.")
            .takes(json!({ "type": "object", "required": ["principal"], "properties": {
                "principal": { "type": "string" }, "reason": { "type": "string" },
            } }))
            .answers(200, &["withdrawn"]),
        ("POST", "/{space}/import") => of("Writes entries as they are, for an owner of the space.")
            .takes(json!({ "type": "object", "required": ["entries"], "properties": {
                "entries": { "type": "array", "maxItems": 100, "items": { "type": "object" } },
            } }))
            .answers(200, &["imported", "present", "different"]),
        ("GET", "/{space}/entries") => selection(of("Lists entries that the caller may see."))
            .query("text", json!({ "type": "string" }))
            .query("session", id())
            .query("order", json!({ "enum": ["newest", "oldest", "importance"] }))
            .query("limit", json!({ "type": "integer", "minimum": 1 }))
            .answers(200, &["entries", "cursor"]),
        ("POST", "/{space}/entries") => of("Posts an entry.")
            .takes(draft())
            .answers(201, &outcome)
            .answers(200, &outcome),
        ("GET", "/{space}/entries/stream") => selection(of("Follows the changes of entries.")).streams(),
        ("GET", "/{space}/entries/{entry}") => {
            of("Shows an entry.").answers(200, &["id", "kind", "state", "version", "author", "content"])
        }
        ("POST", "/{space}/entries/{entry}/merge") => {
            of("Makes a proposal a decision or a memory.").takes(merge()).answers(200, &outcome)
        }
        ("POST", "/{space}/entries/{entry}/reject") => {
            of("Refuses a proposal.").takes(reason(&["reason"])).answers(200, &outcome)
        }
        ("POST", "/{space}/entries/{entry}/supersede") => {
            of("Replaces a decision by another one.").takes(reason(&["by"])).answers(200, &outcome)
        }
        ("POST", "/{space}/entries/{entry}/archive") => {
            of("Takes a decision or a memory out of use.").takes(reason(&[])).answers(200, &outcome)
        }
        ("POST", "/{space}/entries/{entry}/withdraw") => {
            of("Takes a finding back.").takes(reason(&[])).answers(200, &outcome)
        }
        ("POST", "/{space}/entries/{entry}/accept") => of("Lets an entry into briefs that comes from below member.")
            .takes(reason(&[]))
            .answers(200, &outcome),
        _ => return None,
    })
}

fn selection(description: Description) -> Description {
    let list = |values: Vec<String>| json!({ "type": "array", "items": { "enum": values } });
    description
        .query("kind", list(EntryKind::ALL.iter().map(ToString::to_string).collect()))
        .query("status", list(EntryState::ALL.iter().map(ToString::to_string).collect()))
        .query("type", list(EntryType::ALL.iter().map(ToString::to_string).collect()))
        .query("author", json!({ "type": "string" }))
        .query("tag", json!({ "type": "array", "items": { "type": "string" } }))
        .query("after", json!({ "type": "string" }))
}

fn draft() -> Value {
    let kinds: Vec<_> = EntryKind::ALL.iter().map(ToString::to_string).collect();
    json!({
        "type": "object",
        "required": ["kind", "content"],
        "properties": {
            "id": { "type": "string" },
            "kind": { "enum": kinds },
            "content": { "type": "string", "minLength": 1, "maxLength": 16384 },
            "title": { "type": "string" },
            "type": { "enum": EntryType::ALL.iter().map(ToString::to_string).collect::<Vec<_>>() },
            "slug": { "type": "string" },
            "importance": { "enum": ["low", "medium", "high"] },
            "scope": { "enum": ["own", "team"] },
            "severity": { "enum": ["low", "medium", "high"] },
            "tags": { "type": "array", "items": { "type": "string" } },
            "expertise": { "type": "object", "additionalProperties": { "type": "integer", "minimum": 0 } },
            "links": { "type": "object" },
            "task": id(),
            "session": id(),
            "stage": id(),
            "to": { "type": "array", "items": { "type": "string" } },
        },
    })
}

/// The body of a decision.
fn reason(required: &[&str]) -> Value {
    let properties = json!({ "reason": { "type": "string" }, "by": { "type": "string" } });
    json!({ "type": "object", "required": required, "properties": properties })
}

/// The body of a merge.
fn merge() -> Value {
    let version = json!({ "type": "integer", "minimum": 1 });
    json!({ "type": "object", "properties": { "reason": { "type": "string" }, "version": version } })
}
