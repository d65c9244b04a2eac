//! Parts and artifacts (A2A §4.1.6, §4.1.7): the mesh's own, read as ProtoJSON has them.

use super::json::{Fields, FromProto, Invalid, base64_of_any_kind};
pub use crate::artifact::{Artifact, Content, Part};
use serde_json::Value;

impl FromProto for Part {
    fn from_proto(value: Value) -> Result<Self, Invalid> {
        let mut fields = Fields::of(value)?;
        let text = |fields: &mut Fields, name: &str| match fields.any(name)? {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Invalid::new(name, "must be a string")),
        };
        let raw = text(&mut fields, "raw")?.map(base64_of_any_kind).transpose();
        let contents = [
            text(&mut fields, "text")?.map(Content::Text),
            raw.map_err(|invalid| invalid.under("raw"))?.map(Content::Raw),
            text(&mut fields, "url")?.map(Content::Url),
            // `null` is a value of its own where any value may stand.
            fields.present("data")?.map(Content::Data),
        ];
        let mut contents = contents.into_iter().flatten();
        let content = match (contents.next(), contents.next()) {
            (Some(content), None) => content,
            (None, _) => return Err(Invalid::new("", "needs one of text, raw, url, data")),
            (Some(_), Some(_)) => return Err(Invalid::new("", "may have only one of text, raw, url, data")),
        };
        Ok(Self {
            content,
            media_type: fields.text("mediaType")?,
            filename: fields.text("filename")?,
            metadata: fields.object("metadata")?,
        })
    }
}

impl FromProto for Artifact {
    fn from_proto(value: Value) -> Result<Self, Invalid> {
        let mut fields = Fields::of(value)?;
        Ok(Self {
            artifact_id: fields.required_text("artifactId")?,
            name: fields.text("name")?,
            description: fields.text("description")?,
            parts: fields.some("parts")?,
            metadata: fields.object("metadata")?,
            extensions: fields.texts("extensions")?,
        })
    }
}
