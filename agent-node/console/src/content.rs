//! The content of artifacts. Nothing of it runs: text and JSON are escaped, images are data of an `img`, all else is named.

use crate::{
    json_view,
    visible_text::{VisibleText, brief, is_deceptive},
};
use maud::{Markup, html};
use protocol::artifact::{Artifact, Part, PartContent};

/// Images that browsers show without running anything in them.
const IMAGES: [&str; 5] = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"];
/// A longer text scrolls in a box of its own.
const MAX_PROSE: usize = 20_000;
/// The most base64 of an image that is put on a page.
const MAX_IMAGE: usize = 2_000_000;

/// The task whose artifacts can be saved as files.
#[derive(Debug, Clone, Copy)]
pub struct SavedFrom<'a> {
    pub agent: &'a str,
    pub task: &'a str,
}

impl SavedFrom<'_> {
    fn button(self, artifact: &Artifact, at: usize, part: &Part) -> Markup {
        let query = [
            ("agent", self.agent),
            ("task", self.task),
            ("artifact", &artifact.artifact_id),
            ("part", &at.to_string()),
        ];
        let query = serde_html_form::to_string(query).unwrap_or_default();
        let name = part.filename.as_deref().or(artifact.name.as_deref()).unwrap_or(&artifact.artifact_id);
        // A name of a file, wherever the browser puts it.
        let name: String = name
            .chars()
            .map(|char| if "/\\:".contains(char) || is_deceptive(char) { '_' } else { char })
            .collect();
        html! { div.row { button.plain type="button" data-save={ "console/file?" (query) } data-name=(name) aria-label={ "Save " (brief(&name, 60)) } { "Save" } } }
    }
}

/// An artifact with its parts.
pub fn artifact(artifact: &Artifact, from: SavedFrom<'_>) -> Markup {
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
                @for (at, piece) in artifact.parts.iter().enumerate() {
                    (part(name, piece))
                    (from.button(artifact, at, piece))
                }
            }
        }
    }
}

/// One part of a message or an artifact.
pub fn part(name: &str, part: &Part) -> Markup {
    let kind = part.media_type.as_deref().unwrap_or_default();
    let name = part.filename.as_deref().unwrap_or(name);
    match &part.content {
        PartContent::Text(text)
            if ["", "text/plain", "text/markdown"].contains(&kind) && text.len() <= MAX_PROSE =>
        {
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
            html! { p.muted { (VisibleText(name)) ": " (crate::times::count(decoded_len(base64) as u64)) " bytes" } }
        }
        PartContent::Url(url) => {
            html! { p.muted { (VisibleText(name)) " is at " code { (brief(url, 300)) } } }
        }
    }
}

/// How many bytes a text in base64 stands for.
fn decoded_len(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
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
            let hostile =
                Artifact { artifact_id: "\"><script>".into(), parts: vec![part], ..Artifact::default() };
            let shown = artifact(&hostile, SavedFrom { agent: "a-1", task: "t-1" }).into_string();
            for code in ["<script", "<b>", "<img onerror", "href", "data:image/svg"] {
                assert!(!shown.contains(code), "{shown}");
            }
        }
    }
}
