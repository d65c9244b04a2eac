//! Parts and artifacts (A2A §4.1.6, §4.1.7): the mesh's own, read as ProtoJSON has them.

use super::json::{Fields, FromProtoJson, InvalidField, base64_of_any_kind};
pub use crate::artifact::{Artifact, Part, PartContent};
use serde_json::Value;

impl FromProtoJson for Part {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        let text = |fields: &mut Fields, name: &str| match fields.any(name)? {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(InvalidField::new(name, "must be a string")),
        };
        let raw = text(&mut fields, "raw")?.map(base64_of_any_kind).transpose();
        let contents = [
            text(&mut fields, "text")?.map(PartContent::Text),
            raw.map_err(|invalid| invalid.under("raw"))?.map(PartContent::Raw),
            text(&mut fields, "url")?.map(PartContent::Url),
            // `null` is a value of its own where any value may stand.
            fields.present("data")?.map(PartContent::Data),
        ];
        let mut contents = contents.into_iter().flatten();
        let content = match (contents.next(), contents.next()) {
            (Some(content), None) => content,
            (None, _) => return Err(InvalidField::new("", "needs one of text, raw, url, data")),
            (Some(_), Some(_)) => {
                return Err(InvalidField::new("", "may have only one of text, raw, url, data"));
            }
        };
        Ok(Self {
            content,
            media_type: fields.text("mediaType")?,
            filename: fields.text("filename")?,
            metadata: fields.object("metadata")?,
        })
    }
}

impl FromProtoJson for Artifact {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
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
