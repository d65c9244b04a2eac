//! What a tool of an MCP server returns, as the model and the task get it.

use crate::brain::llm::{loop_tool::CallOutcome, transcript::ToolResult};
use protocol::artifact::{Artifact, Part, PartContent};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Map;

pub(super) fn failed(message: String) -> CallOutcome {
    CallOutcome::Answered(ToolResult::error(message), Vec::new())
}

/// The texts of a result for the model, and its images and files as artifacts.
pub(super) fn read(result: CallToolResult) -> CallOutcome {
    let mut texts = Vec::new();
    let mut files = Vec::new();
    for block in result.content {
        match block {
            ContentBlock::Text(text) => texts.push(text.text),
            ContentBlock::Image(image) => {
                push_file(&mut files, &mut texts, image.data, Some(image.mime_type))
            }
            ContentBlock::Audio(audio) => {
                push_file(&mut files, &mut texts, audio.data, Some(audio.mime_type))
            }
            ContentBlock::Resource(embedded) => match embedded.resource {
                ResourceContents::TextResourceContents { text, .. } => texts.push(text),
                ResourceContents::BlobResourceContents { blob, mime_type, .. } => {
                    push_file(&mut files, &mut texts, blob, mime_type);
                }
                other => texts.push(as_json(&other)),
            },
            ContentBlock::ResourceLink(link) => texts.push(format!("[{}: {}]", link.name, link.uri)),
            other => texts.push(as_json(&other)),
        }
    }
    if let (true, Some(data)) = (texts.is_empty(), result.structured_content) {
        texts.push(data.to_string());
    }
    let text = texts.join("\n");
    let is_error = result.is_error.unwrap_or(false);
    CallOutcome::Answered(ToolResult { is_error, ..ToolResult::text(text) }, files)
}

/// A kind of content that this version does not know.
fn as_json(content: &impl serde::Serialize) -> String {
    serde_json::to_string(content).unwrap_or_default()
}

fn push_file(files: &mut Vec<Artifact>, texts: &mut Vec<String>, data: String, media_type: Option<String>) {
    let id = format!("file-{}", files.len() + 1);
    let kind = media_type.as_deref().unwrap_or("binary data");
    texts.push(format!("[{} bytes of {kind}, kept as an artifact]", data.len() / 4 * 3));
    let part = Part { media_type, ..Part::new(PartContent::Raw(data)) };
    files.push(Artifact {
        artifact_id: id.clone(),
        name: Some(id),
        description: None,
        parts: vec![part],
        metadata: Map::new(),
        extensions: Vec::new(),
    });
}
