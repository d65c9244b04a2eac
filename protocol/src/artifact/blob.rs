//! Files: content that is too large for a record. A part names one by a URL of the mesh's own, which no client sees: what leaves the
//! mesh has the content itself, or a URL under which the agent serves it.

use super::{Part, PartContent};
use crate::ids::Digest;
use serde_json::Value;

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

/// Members that hold any JSON, of which no part is one of a message or an artifact.
const ANY_JSON: [&str; 7] = ["input", "data", "metadata", "values", "schema", "args", "accept"];

/// Calls `each` with the URL of every part of `value`, a message or a record, that is of the scheme. It may be none of a blob.
pub fn urls_of_parts(value: &Value, each: &mut impl FnMut(&str)) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| urls_of_parts(item, each)),
        Value::Object(members) => {
            for (name, member) in members.iter().filter(|(name, _)| !ANY_JSON.contains(&name.as_str())) {
                let parts = member.as_array().filter(|_| name == "parts");
                let urls = parts.into_iter().flatten().filter_map(|part| part.get("url")?.as_str());
                urls.filter(|url| url.starts_with(SCHEME)).for_each(&mut *each);
                urls_of_parts(member, each);
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
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
        let mut named = Vec::new();
        let other = format!("{SCHEME}short");
        named_in(json!([part, other, { "deep": [part] }]).to_string().as_bytes(), |digest| {
            named.push(digest)
        });
        assert_eq!(named, [blob.digest, blob.digest]);
        let message = json!({ "text": SCHEME, "input": { "parts": [part] }, "artifacts": [{ "parts": [
            part, { "url": "mesh-blob:x" }, { "url": "http://a.example" }, { "data": { "parts": [part] } },
        ] }] });
        let mut urls = Vec::new();
        urls_of_parts(&message, &mut |url| urls.push(BlobRef::parse(url)));
        assert_eq!(urls, [Some(blob), None]);
    }
}
