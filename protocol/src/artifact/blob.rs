//! Files: content that is too large for a record. A part names one by a URL of the mesh's own, which no client sees: what leaves the
//! mesh has the content itself, or a URL under which the agent serves it.

use super::{Artifact, Part, PartContent};
use crate::ids::Digest;

/// The scheme of the URLs.
pub const SCHEME: &str = "mesh-blob:";

/// Content of more bytes is kept as a blob.
pub const MIN_BYTES: usize = 32 << 10;

/// A blob, as a part names it: `mesh-blob:{sha256}/{bytes}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobRef {
    pub digest: Digest,
    pub bytes: u64,
}

impl BlobRef {
    /// The blob at a URL; `None` if it is no such URL.
    pub fn parse(url: &str) -> Option<Self> {
        let (digest, bytes) = url.strip_prefix(SCHEME)?.split_once('/')?;
        Some(Self { digest: Digest::parse(digest).ok()?, bytes: bytes.parse().ok()? })
    }

    /// The blob that is the content of a part.
    pub fn of(part: &Part) -> Option<Self> {
        match &part.content {
            PartContent::Url(url) => Self::parse(url),
            PartContent::Text(_) | PartContent::Data(_) | PartContent::Raw(_) => None,
        }
    }

    /// The blob that is all of an artifact.
    pub fn of_whole(artifact: &Artifact) -> Option<Self> {
        match artifact.parts.as_slice() {
            [part] => Self::of(part),
            _ => None,
        }
    }

    /// The content of a part that names it.
    pub fn content(&self) -> PartContent {
        PartContent::Url(format!("{SCHEME}{}/{}", self.digest, self.bytes))
    }
}

/// Calls `each` with the digest of every blob that JSON names.
pub fn named_in(json: &[u8], mut each: impl FnMut(Digest)) {
    let mut rest = std::str::from_utf8(json).unwrap_or_default();
    while let Some((_, after)) = rest.split_once(SCHEME) {
        rest = after;
        rest.get(..64).and_then(|digits| Digest::parse(digits).ok()).into_iter().for_each(&mut each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_blob_is_named_by_its_url_only() {
        let blob = BlobRef { digest: Digest::of(b"x"), bytes: 70_000 };
        let part = Part::new(blob.content());
        assert_eq!(BlobRef::of(&part), Some(blob));
        for url in
            ["https://a.example/x", "mesh-blob:", "mesh-blob:00/1", &format!("mesh-blob:{}", blob.digest)]
        {
            assert_eq!(BlobRef::parse(url), None, "{url}");
        }
        let two = Artifact { parts: vec![part.clone(), part.clone()], ..Artifact::default() };
        assert_eq!(BlobRef::of_whole(&two), None);
        let mut named = Vec::new();
        let other = format!("{SCHEME}short");
        named_in(json!([part, other, { "deep": [part] }]).to_string().as_bytes(), |digest| {
            named.push(digest)
        });
        assert_eq!(named, [blob.digest, blob.digest]);
    }
}
