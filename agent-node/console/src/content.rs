//! The content of artifacts. Nothing of it runs: text and JSON are escaped, images are data of an `img`, all else is named.

use crate::{
    json_view,
    visible_text::{VisibleText, brief},
};
use maud::{Markup, html};
use protocol::artifact::{Artifact, Part, PartContent};

/// Images that browsers show without running anything in them.
const IMAGES: [&str; 5] = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"];
/// A longer text scrolls in a box of its own.
const MAX_PROSE: usize = 20_000;
/// The most base64 of an image that is put on a page.
const MAX_IMAGE: usize = 2_000_000;

/// An artifact with its parts.
pub fn artifact(artifact: &Artifact) -> Markup {
    let name = artifact.name.as_deref().unwrap_or(&artifact.artifact_id);
    html! {
        section.card data-key={ "artifact-" (artifact.artifact_id) } {
            header {
                h3 { (VisibleText(name)) }
                @if let Some(kind) = artifact.parts.first().and_then(|part| part.media_type.as_deref()) {
                    span.muted.small { (VisibleText(kind)) }
                }
            }
            div.body {
                @if let Some(description) = &artifact.description { p.muted { (VisibleText(description)) } }
                @for piece in &artifact.parts { (part(name, piece)) }
            }
        }
    }
}

/// One part of a message or an artifact.
pub fn part(name: &str, part: &Part) -> Markup {
    let kind = part.media_type.as_deref().unwrap_or_default();
    let name = part.filename.as_deref().unwrap_or(name);
    match &part.content {
        PartContent::Text(text) if (kind.is_empty() || kind == "text/plain") && text.len() <= MAX_PROSE => {
            html! { div.prose { (VisibleText(text)) } }
        }
        PartContent::Text(text) => json_view::text_block(name, text),
        PartContent::Data(value) => json_view::block(name, value),
        PartContent::Raw(base64)
            if IMAGES.contains(&kind) && base64.len() <= MAX_IMAGE && is_base64(base64) =>
        {
            html! { img.image src={ "data:" (kind) ";base64," (base64) } alt=(VisibleText(name)); }
        }
        PartContent::Raw(base64) => {
            html! { p.muted { (VisibleText(name)) ": " (crate::times::count(base64.len() as u64 / 4 * 3)) " bytes" } }
        }
        PartContent::Url(url) => {
            html! { p.muted { (VisibleText(name)) " is at " code { (brief(url, 300)) } } }
        }
    }
}

fn is_base64(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_artifact_runs_anything() {
        for (content, media_type) in [
            (PartContent::Text("<script>x</script>".into()), "text/html"),
            (PartContent::Text("<script>x</script>".into()), "text/plain"),
            (PartContent::Data(json!({ "<script>": "<img onerror=x>" })), "application/json"),
            (PartContent::Raw("\"><script>".into()), "image/png"),
            (PartContent::Raw("PHN2Zz4=".into()), "image/svg+xml"),
            (PartContent::Url("javascript:alert(1)".into()), "text/html"),
        ] {
            let part = Part {
                media_type: Some(media_type.into()),
                filename: Some("<b>".into()),
                ..Part::new(content)
            };
            let shown = artifact(&Artifact {
                artifact_id: "\"><script>".into(),
                parts: vec![part],
                ..Artifact::default()
            });
            let shown = shown.into_string();
            for code in ["<script", "<b>", "<img onerror", "href", "data:image/svg"] {
                assert!(!shown.contains(code), "{shown}");
            }
        }
    }
}
