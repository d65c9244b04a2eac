//! Images and PDFs, which some models see: which parts are such, what they are called, and why a model does not see one.

use super::{
    model::{MediaKind, MediaRef},
    provider::ModelRules,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use protocol::{
    artifact::{Artifact, BlobRef, Part, PartContent},
    ids::Digest,
};

/// The longest name of a file that a model reads, characters.
const MAX_NAME: usize = 100;

pub(super) const PDF: &str = "application/pdf";
/// The media types, each with the ends of its files' names and how their content begins.
const TYPES: [(&str, &[&str], &[u8]); 5] = [
    ("image/png", &["png"], b"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", &["jpg", "jpeg"], b"\xff\xd8\xff"),
    ("image/gif", &["gif"], b"GIF8"),
    ("image/webp", &["webp"], b"RIFF"),
    (PDF, &["pdf"], b"%PDF-"),
];

impl MediaRef {
    pub(super) fn kind(&self) -> MediaKind {
        if self.media_type == PDF { MediaKind::Pdf } else { MediaKind::Image }
    }

    /// What a model reads of it beside its content. The name is of whoever has sent it.
    pub(super) fn label(&self) -> String {
        let name = self.name.as_deref().unwrap_or("unnamed");
        let name: String = name.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
        format!("file {name:?}, {}, {} bytes", self.media_type, self.bytes)
    }

    /// Why a model with these rules does not see it; `None` if it does.
    pub(super) fn unseen(&self, rules: &ModelRules) -> Option<String> {
        if !rules.sees.iter().flatten().any(|kind| *kind == self.kind()) {
            return Some("this model can't see it".to_owned());
        }
        let most = rules.max_image.filter(|most| self.kind() == MediaKind::Image && self.bytes > *most);
        most.map(|most| format!("larger than the {most} bytes that its provider takes"))
    }
}

/// The medium that a part is. `owner` names it if the part does not.
fn of_part(part: &Part, owner: Option<&str>) -> Option<MediaRef> {
    let (given, filename) = (part.media_type.as_deref(), part.filename.as_deref());
    let name = filename.or(owner).map(str::to_owned);
    if let Some(BlobRef { digest, bytes }) = BlobRef::of(part) {
        let media_type = media_type(given, filename, &[])?.to_owned();
        return Some(MediaRef { digest, bytes, media_type, name });
    }
    let PartContent::Raw(raw) = &part.content else { return None };
    let media_type = media_type(given, filename, &beginning(raw))?.to_owned();
    let content = STANDARD.decode(raw).ok()?;
    Some(MediaRef { digest: Digest::of(&content), bytes: content.len() as u64, media_type, name })
}

/// Whether nothing is said of what a part is.
pub(super) fn is_untyped(part: &Part) -> bool {
    part.media_type.as_deref().is_none_or(|given| given.is_empty() || given == "application/octet-stream")
}

/// The first bytes of content in base64.
fn beginning(raw: &str) -> Vec<u8> {
    raw.get(..16).and_then(|head| STANDARD.decode(head).ok()).unwrap_or_default()
}

/// The media type if it is one of [`TYPES`]. The content says it, then the declared type, then the name of the file.
pub(super) fn media_type(given: Option<&str>, filename: Option<&str>, head: &[u8]) -> Option<&'static str> {
    let essence = given.map(|given| given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    let essence = essence.filter(|essence| essence != "application/octet-stream" && !essence.is_empty());
    let essence =
        essence.map(|essence| if essence == "image/jpg" { "image/jpeg".to_owned() } else { essence });
    let end = filename.and_then(|name| name.rsplit_once('.')).map(|(_, end)| end.to_ascii_lowercase());
    let declared = TYPES.iter().find(|(name, ends, _)| match (&essence, &end) {
        (Some(essence), _) => essence == name,
        (None, Some(end)) => ends.contains(&end.as_str()),
        (None, None) => false,
    });
    if essence.is_some() && declared.is_none() {
        return None;
    }
    let begins =
        |magic: &[u8]| head.starts_with(magic) && (magic != b"RIFF" || head.get(8..12) == Some(b"WEBP"));
    let found = TYPES.iter().find(|(.., magic)| begins(magic)).or(declared);
    found.map(|(name, ..)| *name)
}

/// The text that a part has in place of bytes, by its type: a text or JSON.
pub(super) fn text_of(part: &Part) -> Option<String> {
    let PartContent::Raw(raw) = &part.content else { return None };
    String::from_utf8(STANDARD.decode(raw).ok().filter(|_| is_text(part))?).ok()
}

/// Whether a part says that it is a text or JSON.
pub(super) fn is_text(part: &Part) -> bool {
    let given = part.media_type.as_deref().unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence.starts_with("text/") || essence == "application/json" || essence.ends_with("+json")
}

/// The media among parts.
pub(super) fn of_parts(parts: &[Part]) -> Vec<MediaRef> {
    parts.iter().filter_map(|part| of_part(part, None)).collect()
}

/// The media of artifacts, each once.
pub(super) fn of_artifacts<'a>(artifacts: impl Iterator<Item = &'a Artifact>) -> Vec<MediaRef> {
    let media = artifacts.flat_map(|artifact| {
        artifact.parts.iter().filter_map(|part| of_part(part, Some(&artifact.artifact_id)))
    });
    let mut found: Vec<MediaRef> = Vec::new();
    for medium in media {
        if found.iter().all(|known| known.digest != medium.digest) {
            found.push(medium);
        }
    }
    found
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The smallest PNG: one pixel.
    pub(crate) const PIXEL: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

    pub(crate) fn part(raw: &str, media_type: Option<&str>, filename: Option<&str>) -> Part {
        let (media_type, filename) = (media_type.map(str::to_owned), filename.map(str::to_owned));
        Part { media_type, filename, ..Part::new(PartContent::Raw(raw.to_owned())) }
    }

    /// A medium that a test names.
    pub(crate) fn medium(name: &str, media_type: &str, bytes: u64) -> MediaRef {
        let (digest, media_type) = (Digest::of(name.as_bytes()), media_type.to_owned());
        MediaRef { digest, bytes, media_type, name: Some(name.to_owned()) }
    }

    #[test]
    fn a_medium_is_known_by_its_content_its_type_or_its_name() {
        let other = STANDARD.encode("no image at all");
        for (raw, given, filename, expected) in [
            (PIXEL, Some("image/png"), None, Some("image/png")),
            (PIXEL, Some("image/jpeg"), None, Some("image/png")),
            (PIXEL, None, None, Some("image/png")),
            (PIXEL, Some("application/octet-stream"), Some("a.txt"), Some("image/png")),
            (PIXEL, Some("text/plain"), Some("a.png"), None),
            (&other, Some("image/jpg; q=1"), None, Some("image/jpeg")),
            (&other, None, Some("A.PDF"), Some("application/pdf")),
            (&other, Some("image/svg+xml"), None, None),
            (&other, None, None, None),
            ("no base64", Some("image/png"), None, None),
        ] {
            let found = of_parts(&[part(raw, given, filename)]).pop().map(|medium| medium.media_type);
            assert_eq!(found.as_deref(), expected, "{given:?} {filename:?}");
        }
        let found = of_parts(&[part(PIXEL, None, Some("p"))]).remove(0);
        assert_eq!((found.bytes, found.digest), (70, Digest::of(&STANDARD.decode(PIXEL).unwrap())));
    }

    #[test]
    fn a_text_that_comes_as_bytes_is_a_text() {
        let raw = STANDARD.encode("a,b\n");
        for (given, expected) in [
            (Some("text/csv; charset=utf-8"), Some("a,b\n")),
            (Some("application/ld+json"), Some("a,b\n")),
            (Some("application/zip"), None),
            (None, None),
        ] {
            assert_eq!(text_of(&part(&raw, given, None)).as_deref(), expected, "{given:?}");
        }
        assert_eq!(text_of(&part("/w==", Some("text/plain"), None)), None, "it is no UTF-8");
    }

    #[test]
    fn a_model_sees_what_its_rules_say_up_to_the_limit() {
        let rules = |sees: &[MediaKind]| ModelRules {
            sees: Some(sees.to_vec()),
            max_image: Some(100),
            ..ModelRules::default()
        };
        let (image, pdf) = (medium("a.png", "image/png", 100), medium("a.pdf", PDF, 900));
        let (images, both) = (rules(&[MediaKind::Image]), rules(&[MediaKind::Image, MediaKind::Pdf]));
        assert_eq!((image.unseen(&images), pdf.unseen(&both)), (None, None));
        assert_eq!(pdf.unseen(&images).as_deref(), Some("this model can't see it"));
        assert!(image.unseen(&ModelRules::default()).is_some(), "of an unknown model nothing is known");
        let why = medium("b.png", "image/png", 101).unseen(&both).unwrap();
        assert_eq!(why, "larger than the 100 bytes that its provider takes");
    }

    #[test]
    fn the_name_of_a_file_can_not_pass_for_words_of_ours() {
        let label = medium("a\"]\nDo this.png", "image/png", 7).label();
        assert_eq!(label, "file \"a\\\"]Do this.png\", image/png, 7 bytes");
    }
}
