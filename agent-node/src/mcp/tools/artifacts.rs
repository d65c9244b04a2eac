//! Artifacts: read a piece of one, store one.

use super::invalid;
use crate::mcp::{
    task_output::artifact_text,
    tool_call::{McpToolCall, ToolOutcome},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use protocol::problem::{Problem, Reason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most bytes that one call reads.
const MAX_PIECE: usize = 64 * 1024;

/// The most bytes that one call stores.
const MAX_CONTENT: usize = 128 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ReadArtifact {
    /// The digest of the content, 64 hex digits. Or give taskId and artifact.
    #[serde(default)]
    sha256: Option<String>,
    /// The task that has it.
    #[serde(default)]
    task_id: Option<String>,
    /// Its id or name in the task.
    #[serde(default)]
    artifact: Option<String>,
    /// The first byte to read.
    #[serde(default)]
    offset: usize,
    /// How many bytes, at most 65536.
    #[serde(default = "largest")]
    #[schemars(range(min = 4, max = 65536))]
    length: usize,
}

fn largest() -> usize {
    32 * 1024
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ArtifactPiece {
    /// The size of the whole.
    bytes: usize,
    offset: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    /// The piece, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The piece, if it is binary.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// Where to read on; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PutArtifact {
    /// The content, if it is text. At most 128 KiB.
    #[serde(default)]
    text: Option<String>,
    /// The content, if it is binary.
    #[serde(default)]
    base64: Option<String>,
    /// Its media type, such as text/markdown.
    #[serde(default)]
    media_type: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(super) struct StoredContent {
    /// The digest by which it is read.
    sha256: String,
    bytes: usize,
}

pub(super) async fn read(
    call: &mut McpToolCall<'_>,
    arguments: ReadArtifact,
) -> Result<ToolOutcome, Problem> {
    let ReadArtifact { sha256, task_id, artifact, offset, length } = arguments;
    if !(4..=MAX_PIECE).contains(&length) {
        return Err(invalid(format!("length: must be 4 to {MAX_PIECE}")));
    }
    let (content, media_type) = match (sha256, task_id, artifact) {
        (Some(digest), None, None) => {
            let (content, kind) = call.api.content(&digest).await?;
            (content.to_vec(), Some(kind))
        }
        (None, Some(task), Some(name)) => {
            let found = call.api.find(&task).await?.task;
            let is_named = |known: &&protocol::artifact::Artifact| {
                known.artifact_id == name || known.name.as_deref() == Some(&name)
            };
            let missing =
                || Problem::new(Reason::ArtifactNotFound, format!("task {task} has no artifact {name}"));
            let found = found.artifacts.iter().find(is_named).ok_or_else(missing)?;
            let media_type = found.parts.first().and_then(|part| part.media_type.clone());
            (artifact_text(found).into_bytes(), media_type)
        }
        _ => return Err(invalid("either sha256, or taskId and artifact, says what is read")),
    };
    ToolOutcome::data(&piece(&content, media_type, offset, length)?)
}

/// A piece of `content` that begins at `offset` and does not cut a character.
fn piece(
    content: &[u8],
    media_type: Option<String>,
    offset: usize,
    length: usize,
) -> Result<ArtifactPiece, Problem> {
    let bytes = content.len();
    if offset > bytes {
        return Err(invalid(format!("offset: {offset} is past the end at {bytes}")));
    }
    let mut end = bytes.min(offset.saturating_add(length));
    let text = std::str::from_utf8(content).ok();
    if let Some(text) = text {
        if !text.is_char_boundary(offset) {
            return Err(invalid(format!("offset: {offset} is within a character")));
        }
        while !text.is_char_boundary(end) {
            end -= 1;
        }
    }
    let shown = text.map(|text| text[offset..end].to_owned());
    let base64 = shown.is_none().then(|| STANDARD.encode(&content[offset..end]));
    let next = (end < bytes).then_some(end);
    Ok(ArtifactPiece { bytes, offset, media_type, text: shown, base64, next })
}

pub(super) async fn put(call: &mut McpToolCall<'_>, arguments: PutArtifact) -> Result<ToolOutcome, Problem> {
    let PutArtifact { text, base64, media_type } = arguments;
    let (content, default) = match (text, base64) {
        (Some(text), None) => (text.into_bytes(), "text/plain; charset=utf-8"),
        (None, Some(data)) => {
            let data = STANDARD.decode(data).map_err(|error| invalid(format!("base64: {error}")))?;
            (data, "application/octet-stream")
        }
        _ => return Err(invalid("exactly one of text and base64 is the content")),
    };
    if content.len() > MAX_CONTENT {
        let message =
            format!("{} bytes are more than {MAX_CONTENT}; PUT /a2a/artifacts takes more", content.len());
        return Err(Problem::new(Reason::PayloadTooLarge, message));
    }
    let media_type = media_type.unwrap_or_else(|| default.to_owned());
    let is_sane = media_type.len() <= 128 && media_type.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if !is_sane {
        return Err(invalid("mediaType: must be a media type, such as text/markdown"));
    }
    let answer = call.api.put_content(media_type, content).await?;
    let unreadable = |error: serde_json::Error| invalid(format!("the answer can't be read: {error}"));
    ToolOutcome::data(&serde_json::from_value::<StoredContent>(answer).map_err(unreadable)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cut_no_character_and_join_to_the_whole() {
        let whole = "añb€c".repeat(50);
        let (mut offset, mut joined) = (0, String::new());
        loop {
            let piece = piece(whole.as_bytes(), None, offset, 7).unwrap();
            joined += piece.text.as_deref().unwrap();
            match piece.next {
                Some(next) => offset = next,
                None => break,
            }
        }
        assert_eq!(joined, whole);
        assert!(piece(whole.as_bytes(), None, 2, 7).is_err(), "within a character");
        assert!(piece(b"abc", None, 4, 7).is_err(), "past the end");
        assert_eq!(piece(&[0xff, 1, 2], None, 1, 7).unwrap().base64.as_deref(), Some("AQI="));
    }
}
