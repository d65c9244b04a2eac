//! What work produces, in A2A's shapes (A2A §4.1.6, §4.1.7).

pub mod blob;

use crate::ids::Digest;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{
    Digest as _, Sha256,
    digest::common::hazmat::{SerializableState, SerializedState},
};
use std::borrow::Cow;

pub use blob::BlobRef;
pub use wire::artifact::{Artifact, Part, PartContent};

/// The content of an artifact as bytes, with their media type: those of its parts, one after the other ([`part_bytes`]).
pub fn content(artifact: &Artifact) -> (Vec<u8>, String) {
    let (mut bytes, mut growing) = (Vec::new(), ContentType::default());
    for part in &artifact.parts {
        bytes.extend_from_slice(&part_bytes(part));
        growing.add(part);
    }
    (bytes, growing.media_type())
}

/// The content of a part as bytes: text, decoded base64, or JSON. Of a URL it is the JSON of the part.
pub fn part_bytes(part: &Part) -> Cow<'_, [u8]> {
    match &part.content {
        PartContent::Text(text) => text.as_bytes().into(),
        PartContent::Url(_) => serde_json::to_vec(part).unwrap_or_default().into(),
        PartContent::Raw(raw) => match STANDARD.decode(raw) {
            Ok(bytes) => bytes.into(),
            Err(_) => raw.as_bytes().into(),
        },
        PartContent::Data(data) => data.to_string().into_bytes().into(),
    }
}

/// The media type of content that grows by parts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContentType {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<ContentKind>,
    /// That of the first part that names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    named: Option<String>,
}

/// What the parts of an artifact are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum ContentKind {
    Texts,
    Raw,
    Json,
    Link,
    Mixed,
}

impl ContentType {
    fn add(&mut self, part: &Part) {
        let kind = match (self.kind, &part.content) {
            (None | Some(ContentKind::Texts), PartContent::Text(_)) => ContentKind::Texts,
            (None | Some(ContentKind::Raw), PartContent::Raw(_)) => ContentKind::Raw,
            (None, PartContent::Url(_)) if BlobRef::of(part).is_some() => ContentKind::Raw,
            (None, PartContent::Data(_)) => ContentKind::Json,
            (None, PartContent::Url(_)) => ContentKind::Link,
            _ => ContentKind::Mixed,
        };
        self.kind = Some(kind);
        self.named = self.named.take().or_else(|| part.media_type.clone());
    }

    /// The type that a part names, or else that of the kind. No part names the type of a mixture or of a link.
    fn media_type(&self) -> String {
        let named = |default: &str| self.named.clone().unwrap_or_else(|| default.to_owned());
        match self.kind {
            None | Some(ContentKind::Texts) => named("text/plain"),
            Some(ContentKind::Raw) => named("application/octet-stream"),
            Some(ContentKind::Json) => named("application/json"),
            Some(ContentKind::Link) => "application/json".to_owned(),
            Some(ContentKind::Mixed) => "application/octet-stream".to_owned(),
        }
    }
}

/// The description of an artifact that grows by parts: what [`content`] returns of the whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrowingContent {
    #[serde(flatten)]
    media_type: ContentType,
    #[serde(flatten)]
    digest: GrowingDigest,
    /// The digest and the bytes of the blob that is the whole content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blob: Option<(Digest, u64)>,
}

impl GrowingContent {
    /// Adds a part at the end.
    pub fn add(&mut self, part: &Part) {
        let blob = BlobRef::of(part).filter(|_| self.media_type.kind.is_none());
        self.blob = blob.map(|blob| (blob.digest, blob.bytes));
        self.media_type.add(part);
        self.digest.add(&part_bytes(part));
    }

    /// The media type so far.
    pub fn media_type(&self) -> String {
        self.media_type.media_type()
    }

    /// The digest so far, and the number of bytes.
    pub fn digest(&self) -> (Digest, u64) {
        self.blob.unwrap_or_else(|| self.digest.digest())
    }
}

/// The SHA-256 of content that grows. It is stored as the state of the hash and the number of bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GrowingDigest {
    #[serde(rename = "sha256", default, skip_serializing_if = "String::is_empty")]
    state: String,
    bytes: u64,
}

impl GrowingDigest {
    fn hash(&self) -> Sha256 {
        let state = STANDARD.decode(&self.state).ok();
        let state = state.and_then(|state| SerializedState::<Sha256>::try_from(state.as_slice()).ok());
        state.and_then(|state| Sha256::deserialize(&state).ok()).unwrap_or_default()
    }

    /// Adds bytes at the end.
    pub fn add(&mut self, bytes: &[u8]) {
        self.state = STANDARD.encode(self.hash().chain_update(bytes).serialize());
        self.bytes += bytes.len() as u64;
    }

    /// The digest so far, and the number of bytes.
    pub fn digest(&self) -> (Digest, u64) {
        (Digest::from(<[u8; 32]>::from(self.hash().finalize())), self.bytes)
    }
}

/// An artifact of a task, or a piece of one (A2A §4.2.2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactChunk {
    /// The artifact, or the parts to add to it.
    pub artifact: Artifact,
    /// Whether the parts are added to the artifact of the same id.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub append: bool,
    /// Whether no piece follows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub last_chunk: bool,
}

impl ArtifactChunk {
    /// A whole artifact in one piece.
    pub fn whole(artifact: Artifact) -> Self {
        Self { artifact, append: false, last_chunk: true }
    }
}

/// The artifacts that `chunks` make. A text that is appended to a text is one part with it.
pub fn assemble(chunks: impl IntoIterator<Item = ArtifactChunk>) -> Vec<Artifact> {
    let mut artifacts = Vec::new();
    for ArtifactChunk { artifact, append, .. } in chunks {
        merge_joined(&mut artifacts, artifact, append);
    }
    artifacts
}

/// As [`merge`], but a text that is appended to a text is one part with it. The content is the same.
pub fn merge_joined(artifacts: &mut Vec<Artifact>, chunk: Artifact, append: bool) {
    let id = chunk.artifact_id.clone();
    let known = artifacts.iter().position(|artifact| artifact.artifact_id == id);
    let seam = known.filter(|_| append).map(|at| (at, artifacts[at].parts.len()));
    merge(artifacts, chunk, append);
    if let Some((at, seam)) = seam {
        let appended = artifacts[at].parts.split_off(seam);
        push_parts(&mut artifacts[at].parts, appended);
    }
}

/// The artifact with neighbouring texts as one part: equal for the same content, however it was cut.
pub fn joined(artifact: &Artifact) -> Artifact {
    let mut parts = Vec::new();
    artifact.parts.iter().for_each(|part| push_parts(&mut parts, vec![part.clone()]));
    Artifact { parts, ..artifact.clone() }
}

/// Adds `new` to `parts`. The first is joined to the last one there, if both are texts with the same properties.
fn push_parts(parts: &mut Vec<Part>, new: Vec<Part>) {
    let mut new = new.into_iter().peekable();
    if let (Some(last), Some(first)) = (parts.last_mut(), new.peek())
        && (&last.media_type, &last.filename, &last.metadata)
            == (&first.media_type, &first.filename, &first.metadata)
        && let (PartContent::Text(text), PartContent::Text(more)) = (&mut last.content, &first.content)
    {
        text.push_str(more);
        new.next();
    }
    parts.extend(new);
}

/// Adds a chunk to a task's artifacts: `append` joins the parts to the artifact of the same id, else it replaces
/// or is new (A2A §4.2.2).
pub fn merge(artifacts: &mut Vec<Artifact>, chunk: Artifact, append: bool) {
    match artifacts.iter_mut().find(|artifact| artifact.artifact_id == chunk.artifact_id) {
        Some(artifact) if append => {
            artifact.name = chunk.name.or_else(|| artifact.name.take());
            artifact.description = chunk.description.or_else(|| artifact.description.take());
            artifact.metadata.extend(chunk.metadata);
            artifact.extensions.extend(
                chunk
                    .extensions
                    .into_iter()
                    .filter(|uri| !artifact.extensions.contains(uri))
                    .collect::<Vec<_>>(),
            );
            artifact.parts.extend(chunk.parts);
        }
        Some(artifact) => *artifact = chunk,
        None => artifacts.push(chunk),
    }
}

/// A reference to content by digest, by name, or both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "AnyRef", rename_all = "camelCase")]
pub struct ArtifactRef {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The digest under which `GET /a2a/artifacts/{sha256}` has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "must be a name or a digest, or an object with one as `name` or `sha256`, a digest of 64 hex digits"
)]
enum AnyRef {
    Name(String),
    Full {
        name: Option<String>,
        sha256: Option<Digest>,
        #[serde(rename = "mediaType")]
        media_type: Option<String>,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
}

impl From<AnyRef> for ArtifactRef {
    fn from(any: AnyRef) -> Self {
        match any {
            AnyRef::Name(text) => match Digest::parse(&text) {
                Ok(digest) => Self { name: None, sha256: Some(digest), media_type: None, extra: Map::new() },
                Err(_) => Self { name: Some(text), sha256: None, media_type: None, extra: Map::new() },
            },
            AnyRef::Full { name, sha256, media_type, extra } => Self { name, sha256, media_type, extra },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_grows_with_the_content_and_survives_storage() {
        let text = "abc".repeat(100);
        for size in [1, 7, 64, 65, 300] {
            let mut growing = GrowingDigest::default();
            for piece in text.as_bytes().chunks(size) {
                growing.add(piece);
                let stored = serde_json::to_string(&growing).unwrap();
                growing = serde_json::from_str(&stored).unwrap();
            }
            assert_eq!(growing.digest(), (Digest::of(text.as_bytes()), 300));
        }
        assert_eq!(GrowingDigest::default().digest(), (Digest::of(b""), 0));
    }

    #[test]
    fn an_appended_text_is_one_part_with_the_text_before() {
        let text = |media: &str, text: &str| Artifact::text("a", media, text);
        let chunk = |artifact, append| ArtifactChunk { artifact, append, last_chunk: false };
        let pieces = [
            text("text/plain", "hel"),
            text("text/plain", "lo"),
            text("text/html", "<b>"),
            text("text/html", "</b>"),
        ];
        let chunks = pieces.iter().enumerate().map(|(at, piece)| chunk(piece.clone(), at > 0));
        let [whole] = assemble(chunks).try_into().unwrap();
        let parts: Vec<_> = whole.parts.iter().map(|part| part.content.clone()).collect();
        assert_eq!(parts, [PartContent::Text("hello".into()), PartContent::Text("<b></b>".into())]);
        let mut as_sent = Vec::new();
        pieces.into_iter().enumerate().for_each(|(at, piece)| merge(&mut as_sent, piece, at > 0));
        assert_eq!((as_sent[0].parts.len(), content(&as_sent[0]).0), (4, content(&whole).0));
        assert_eq!(joined(&as_sent[0]), whole);
        // Texts that came together, or with a name of their own, stay apart.
        let mut two = text("text/plain", "one");
        two.parts.push(Part { filename: Some("b.txt".into()), ..two.parts[0].clone() });
        assert_eq!(assemble([chunk(two.clone(), false)]), std::slice::from_ref(&two));
        assert_eq!(joined(&two), two);
        let empty = Artifact { parts: Vec::new(), ..text("text/plain", "") };
        let [filled] =
            assemble([chunk(empty, false), chunk(text("text/plain", "x"), true)]).try_into().unwrap();
        assert_eq!(filled.parts, text("text/plain", "x").parts);
    }

    #[test]
    fn growing_content_is_described_like_the_whole() {
        let part = |content| Part { media_type: Some("x/y".into()), ..Part::new(content) };
        let text = || part(PartContent::Text("a".into()));
        let raw = || Part::new(PartContent::Raw(STANDARD.encode([0, 255])));
        let json = || Part::new(PartContent::Data(serde_json::json!({ "a": 1 })));
        let url = || part(PartContent::Url("http://a.example".into()));
        for (parts, media_type) in [
            (vec![], "text/plain"),
            (vec![text(), text()], "x/y"),
            (vec![raw(), raw()], "application/octet-stream"),
            (vec![json()], "application/json"),
            (vec![json(), json()], "application/octet-stream"),
            (vec![url()], "application/json"),
            (vec![text(), raw(), url()], "application/octet-stream"),
        ] {
            let mut growing = GrowingContent::default();
            parts.iter().for_each(|part| growing.add(part));
            let (content, named) = content(&Artifact { parts, ..Artifact::default() });
            assert_eq!((named.as_str(), growing.media_type().as_str()), (media_type, media_type));
            assert_eq!(growing.digest(), (Digest::of(&content), content.len() as u64));
        }
    }
}
