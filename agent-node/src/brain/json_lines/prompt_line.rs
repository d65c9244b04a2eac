//! The line of a prompt, which is bounded: large texts are stored by digest and the line refers to them, and if it is still too
//! large, the oldest history and messages are left out.

use super::input_line;
use crate::{
    artifacts::UploadedContent,
    brain::{TurnRequest, agent_access::AgentAccess},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use protocol::{
    artifact::{Artifact, BlobRef, PartContent, blob},
    ids::Digest,
    problem::Problem,
    routes,
};
use serde_json::{Map, Value, json};
use std::{collections::BTreeSet, fmt};

/// The longest text that a prompt contains, bytes; a longer one is referred to.
const MAX_TEXT: usize = 16 << 10;
/// The same in a prompt that would be too large otherwise.
const MAX_TEXT_OF_LARGE: usize = 1 << 10;
/// How much of a text that is referred to the prompt contains, bytes.
const HEAD: usize = 512;
/// The largest prompt without its checkpoints, which have a limit of their own, bytes.
const MAX_PROMPT: usize = 1 << 20;

/// Members that contain any JSON. It is referred to as a whole.
const ANY_JSON: [&str; 4] = ["input", "values", "metadata", "schema"];

/// A prompt as a brain is given it.
#[derive(Debug, PartialEq)]
pub(in crate::brain) struct PromptText {
    /// The line with its line feed.
    pub(in crate::brain) line: Vec<u8>,
    /// The content to which it refers.
    pub(in crate::brain) references: BTreeSet<Digest>,
}

/// Why there is no prompt.
#[derive(Debug)]
pub(in crate::brain) enum PromptError {
    /// It has this many bytes without all that can be left out.
    TooLarge(usize),
    /// What it refers to can't be stored.
    NotStored(String),
    /// It can't be written as JSON.
    NotSerializable(serde_json::Error),
}

impl fmt::Display for PromptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge(bytes) => write!(
                f,
                "the prompt of the turn has {bytes} bytes without history and messages; a prompt has at most {MAX_PROMPT}: \
                 delegate less at once, or hand back fewer and larger artifacts"
            ),
            Self::NotStored(why) => write!(f, "a large text of the prompt can't be stored: {why}"),
            Self::NotSerializable(error) => write!(f, "the prompt can't be written as JSON: {error}"),
        }
    }
}

impl From<serde_json::Error> for PromptError {
    fn from(error: serde_json::Error) -> Self {
        Self::NotSerializable(error)
    }
}

/// The prompt of `request`. Large texts are stored with `access` and referred to at `node`, the URL of the node; without both
/// they stay in the prompt.
pub(in crate::brain) async fn prompt_text(
    request: &TurnRequest,
    access: Option<&AgentAccess>,
    node: Option<&str>,
) -> Result<PromptText, PromptError> {
    let line = input_line::prompt(request)?;
    let mut names_files = false;
    blob::named_in(&line, |_| names_files = true);
    if line.len() <= MAX_TEXT && !names_files {
        return Ok(PromptText { line, references: BTreeSet::new() });
    }
    let mut prompt: Value = serde_json::from_slice(&line)?;
    let mut stored = Vec::new();
    let mut references = BTreeSet::new();
    if let Some((access, node)) = access.zip(node) {
        for limit in [MAX_TEXT, MAX_TEXT_OF_LARGE] {
            refer(&mut prompt, limit, node, &mut stored);
            if size(&prompt) <= MAX_PROMPT {
                break;
            }
        }
        let not_stored = |problem: Problem| PromptError::NotStored(problem.to_string());
        for referred in &stored {
            let digest = match referred {
                Referred::Text { media_type, content } => {
                    access.keep_content(media_type, content.clone()).await.map_err(not_stored)?
                }
                Referred::File(digest) => {
                    if !access.adopt_file(*digest).await.map_err(not_stored)? {
                        tracing::warn!(agent = %access.agent, %digest, "a file of a prompt is not here any more");
                    }
                    *digest
                }
            };
            references.insert(digest);
        }
    }
    if !references.is_empty() {
        // Others can't add to it: a brain follows no reference that a task brings with it.
        prompt["references"] = json!(references);
    }
    leave_out(&mut prompt)?;
    let mut line = serde_json::to_vec(&prompt)?;
    line.push(b'\n');
    Ok(PromptText { line, references })
}

/// What a prompt refers to.
enum Referred {
    /// A text that is to be stored.
    Text { media_type: String, content: Bytes },
    /// A file that the agent has.
    File(Digest),
}

/// The bytes of a prompt without its checkpoints.
fn size(prompt: &Value) -> usize {
    let members = prompt.as_object().into_iter().flatten().filter(|(name, _)| *name != "checkpoints");
    members.map(|(name, value)| name.len() + bytes(value) + 4).sum()
}

fn bytes(value: &Value) -> usize {
    serde_json::to_vec(value).map_or(0, |json| json.len())
}

/// Leaves out the oldest history, then the oldest messages, then the oldest turns of the context, until the prompt fits, and says how
/// many.
fn leave_out(prompt: &mut Value) -> Result<(), PromptError> {
    let mut size = size(prompt);
    let mut omitted = Map::new();
    for (name, at) in [("history", "/history"), ("messages", "/messages"), ("context", "/context/turns")] {
        let Some(items) = prompt.pointer_mut(at).and_then(Value::as_array_mut) else { continue };
        let sizes = items.iter().map(|item| bytes(item) + 1);
        let mut count = 0;
        for item in sizes {
            if size <= MAX_PROMPT {
                break;
            }
            size -= item.min(size);
            count += 1;
        }
        items.drain(..count);
        if count > 0 {
            omitted.insert(name.to_owned(), json!(count));
        }
    }
    if size > MAX_PROMPT {
        return Err(PromptError::TooLarge(size));
    }
    if !omitted.is_empty() {
        prompt["omitted"] = Value::Object(omitted);
    }
    Ok(())
}

/// Replaces what is longer than `limit` in `value` by references to `node`, and adds it to `stored`.
fn refer(value: &mut Value, limit: usize, node: &str, stored: &mut Vec<Referred>) {
    match value {
        Value::Object(members) => {
            let mut references = Vec::new();
            for (name, member) in members.iter_mut() {
                match (name.as_str(), member) {
                    ("checkpoints" | "peers", _) => {}
                    ("parts", Value::Array(parts)) => {
                        parts.iter_mut().for_each(|part| refer_part(part, limit, node, stored));
                    }
                    (name, Value::String(text)) if text.len() > limit => {
                        let (whole, bytes) = (std::mem::take(text), text.len());
                        let reference = reference("text/plain", whole.clone().into(), node, stored);
                        let head = &whole[..whole.floor_char_boundary(HEAD)];
                        *text = format!(
                            "{head}\n[{bytes} bytes in all: GET {}]",
                            reference["url"].as_str().unwrap_or_default()
                        );
                        references.push((name.to_owned(), reference));
                    }
                    (name, member) if ANY_JSON.contains(&name) => {
                        if bytes(member) > limit {
                            let content = member.take().to_string().into();
                            references.push((
                                name.to_owned(),
                                reference("application/json", content, node, stored),
                            ));
                        }
                    }
                    (_, member) => refer(member, limit, node, stored),
                }
            }
            for (name, reference) in references {
                members.retain(|member, value| *member != name || !value.is_null());
                members.insert(format!("{name}Ref"), reference);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| refer(item, limit, node, stored)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Makes a part that is longer than `limit` one with a URL.
fn refer_part(part: &mut Value, limit: usize, node: &str, stored: &mut Vec<Referred>) {
    let Some(members) = part.as_object_mut() else { return };
    if let Some(blob) = members.get("url").and_then(Value::as_str).and_then(BlobRef::parse) {
        let BlobRef { digest, bytes } = blob;
        members.insert("url".to_owned(), json!(format!("{node}{}/{digest}", routes::ARTIFACTS)));
        let metadata = members.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("sha256".to_owned(), json!(digest));
            metadata.insert("size".to_owned(), json!(bytes));
            metadata.insert(CONTENT_KIND.to_owned(), json!("raw"));
        }
        return stored.push(Referred::File(digest));
    }
    let (name, kind, content) = match members {
        _ if members.get("text").and_then(Value::as_str).is_some_and(|text| text.len() > limit) => {
            let text = members["text"].as_str().unwrap_or_default();
            ("text", "text/plain", Bytes::from(text.to_owned()))
        }
        _ if members.get("raw").and_then(Value::as_str).is_some_and(|raw| raw.len() > limit) => {
            // What is no base64 stays as it is.
            let Ok(decoded) = STANDARD.decode(members["raw"].as_str().unwrap_or_default()) else { return };
            ("raw", "application/octet-stream", Bytes::from(decoded))
        }
        _ if members.get("data").is_some_and(|data| bytes(data) > limit) => {
            ("data", "application/json", Bytes::from(members["data"].to_string()))
        }
        _ => return,
    };
    let named = members.get("mediaType").and_then(Value::as_str).unwrap_or(kind).to_owned();
    let reference = reference(&named, content, node, stored);
    members.remove(name);
    members.insert("url".to_owned(), reference["url"].clone());
    members.insert("mediaType".to_owned(), json!(named));
    let metadata = members.entry("metadata").or_insert_with(|| json!({}));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("sha256".to_owned(), reference["sha256"].clone());
        metadata.insert("size".to_owned(), reference["size"].clone());
        metadata.insert(CONTENT_KIND.to_owned(), json!(name));
    }
}

/// Which member of a part the content was.
const CONTENT_KIND: &str = "content";

/// Puts content back where a brain hands on parts that refer to it, because nobody else can read those URLs. `references` are
/// those of its prompt.
pub(in crate::brain) fn restore(
    artifact: &mut Artifact,
    references: &BTreeSet<Digest>,
    access: &AgentAccess,
) {
    for part in &mut artifact.parts {
        let PartContent::Url(url) = &part.content else { continue };
        let named = |name: &str| part.metadata.get(name).and_then(Value::as_str);
        let Some(digest) = named("sha256").and_then(|text| Digest::parse(text).ok()) else { continue };
        if !references.contains(&digest) || !url.ends_with(&format!("{}/{digest}", routes::ARTIFACTS)) {
            continue;
        }
        if access.has_file(&digest) {
            // Its name stands in the place of the URL, and not its content.
            continue;
        }
        let Some(stored) = access.content(&digest) else {
            tracing::warn!(
                agent = %access.agent,
                %digest,
                artifact = artifact.artifact_id,
                "content that a brain hands on can't be read: the result has the node's own URL"
            );
            continue;
        };
        let content = match (stored.content, named(CONTENT_KIND)) {
            (UploadedContent::Blob(_), _) => None,
            (UploadedContent::Here(content), Some("data")) => {
                serde_json::from_slice(&content).ok().map(PartContent::Data)
            }
            (UploadedContent::Here(content), Some("raw")) => {
                Some(PartContent::Raw(STANDARD.encode(&content)))
            }
            (UploadedContent::Here(content), _) => {
                String::from_utf8(content.to_vec()).ok().map(PartContent::Text)
            }
        };
        let Some(content) = content else { continue };
        part.content = content;
        for name in ["sha256", "size", CONTENT_KIND] {
            part.metadata.remove(name);
        }
    }
}

fn reference(media_type: &str, content: Bytes, node: &str, stored: &mut Vec<Referred>) -> Value {
    let digest = Digest::of(&content);
    let url = format!("{node}{}/{digest}", routes::ARTIFACTS);
    let reference = json!({ "sha256": digest, "size": content.len(), "mediaType": media_type, "url": url });
    stored.push(Referred::Text { media_type: media_type.to_owned(), content });
    reference
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = "http://127.0.0.1:8001";

    fn referred(mut prompt: Value, limit: usize) -> (Value, Vec<Referred>) {
        let mut stored = Vec::new();
        refer(&mut prompt, limit, NODE, &mut stored);
        (prompt, stored)
    }

    #[test]
    fn long_texts_are_referred_to_and_short_ones_stay() {
        let (long, short) = ("é".repeat(10_000), "s".repeat(MAX_TEXT));
        let raw = STANDARD.encode([7; 20_000]);
        let list: Vec<_> = (0..9_000).collect();
        let prompt = json!({
            "task": { "description": long, "input": { "deep": list } },
            "answers": [{ "id": "a", "text": long, "artifacts": [{ "artifactId": "x", "parts": [
                { "text": long, "mediaType": "text/x-rust" }, { "raw": raw }, { "data": list }, { "text": short },
            ] }] }],
            "messages": [{ "messageId": "m", "parts": [{ "text": "short" }] }],
            "checkpoints": [long],
        });
        let (prompt, stored) = referred(prompt, MAX_TEXT);
        let json = json!(list).to_string();
        let digest = |content: &[u8]| json!(Digest::of(content));
        assert!(prompt["task"]["description"].as_str().unwrap().len() < MAX_TEXT_OF_LARGE);
        assert_eq!(prompt["task"]["descriptionRef"]["sha256"], digest(long.as_bytes()));
        assert_eq!(prompt["task"].get("input"), None);
        assert_eq!(prompt["task"]["inputRef"]["mediaType"], "application/json");
        assert_eq!(prompt["answers"][0]["textRef"]["size"], 20_000);
        let parts = &prompt["answers"][0]["artifacts"][0]["parts"];
        let kinds =
            [("text", "text/x-rust"), ("raw", "application/octet-stream"), ("data", "application/json")];
        let contents = [long.as_bytes(), &[7; 20_000], json.as_bytes()];
        for (at, ((kind, media_type), content)) in kinds.into_iter().zip(contents).enumerate() {
            let part = &parts[at];
            let url = format!("{NODE}/a2a/artifacts/{}", Digest::of(content));
            assert_eq!((&part["url"], &part["mediaType"]), (&json!(url), &json!(media_type)));
            assert_eq!(
                part["metadata"],
                json!({ "sha256": Digest::of(content), "size": content.len(), "content": kind })
            );
            let is_it = |stored: &Referred| matches!(stored, Referred::Text { media_type: named, content: text } if text == content && named == media_type);
            assert!(stored.iter().any(is_it));
        }
        assert_eq!(parts[3]["text"], short);
        assert_eq!(prompt["messages"][0]["parts"][0]["text"], "short");
        assert_eq!(prompt["checkpoints"][0], long, "checkpoints have a limit of their own");
        let again = referred(prompt.clone(), MAX_TEXT_OF_LARGE).0;
        assert_eq!(again["task"]["descriptionRef"], prompt["task"]["descriptionRef"]);
    }

    #[test]
    fn the_oldest_history_and_messages_are_left_out_and_the_rest_fails() {
        let item = |at: usize| json!({ "n": at, "text": "x".repeat(200_000) });
        let items = |count: usize| (0..count).map(item).collect::<Vec<_>>();
        let mut prompt = json!({ "task": {}, "history": items(2), "messages": items(6) });
        leave_out(&mut prompt).unwrap();
        assert_eq!(prompt["omitted"], json!({ "history": 2, "messages": 1 }));
        assert_eq!(
            (prompt["history"].as_array().unwrap().len(), &prompt["messages"][0]["n"]),
            (0, &json!(1))
        );
        assert!(bytes(&prompt) <= MAX_PROMPT + 100);
        let mut prompt = json!({ "task": {}, "messages": items(1) });
        leave_out(&mut prompt).unwrap();
        assert_eq!(prompt.get("omitted"), None);
        let mut prompt = json!({ "answers": items(6), "messages": items(1) });
        let error = leave_out(&mut prompt).unwrap_err().to_string();
        assert!(error.contains("1048576") && error.contains("12001"), "{error}");
        let mut prompt = json!({ "task": {}, "checkpoints": items(10) });
        leave_out(&mut prompt).unwrap();
    }
}
