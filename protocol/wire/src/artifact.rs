//! What work produces, in A2A's shapes (A2A §4.1.6, §4.1.7).

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// A result of this task, given with it, or of another agent, as A2A has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Its id, unique within its task.
    pub artifact_id: String,
    /// Its name, usually a file name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its content; at least one part.
    pub parts: Vec<Part>,
    /// Metadata of the producer.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// URIs of A2A extensions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
}

impl Artifact {
    /// An artifact of one text part whose id is its name.
    pub fn text(name: &str, media_type: &str, text: impl Into<String>) -> Self {
        let part = Part { media_type: Some(media_type.into()), ..Part::new(PartContent::Text(text.into())) };
        Self { artifact_id: name.into(), name: Some(name.into()), parts: vec![part], ..Self::default() }
    }

    /// All its text parts, one after the other.
    pub fn as_text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match &part.content {
            PartContent::Text(text) => Some(text.as_str()),
            PartContent::Data(_) | PartContent::Raw(_) | PartContent::Url(_) => None,
        });
        texts.collect()
    }

    /// The first JSON value of its parts.
    pub fn data(&self) -> Option<&Value> {
        self.parts.iter().find_map(|part| match &part.content {
            PartContent::Data(data) => Some(data),
            PartContent::Text(_) | PartContent::Raw(_) | PartContent::Url(_) => None,
        })
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| match &part.content {
            PartContent::Text(text) | PartContent::Raw(text) | PartContent::Url(text) => text.is_empty(),
            PartContent::Data(data) => data.is_null(),
        })
    }

    /// The bytes of its content.
    pub fn weight(&self) -> usize {
        let weights = self.parts.iter().map(|part| match &part.content {
            PartContent::Text(text) | PartContent::Raw(text) | PartContent::Url(text) => text.len(),
            PartContent::Data(data) => data.to_string().len(),
        });
        weights.sum()
    }

    /// The bytes it takes in a message.
    pub fn size(&self) -> usize {
        serde_json::to_vec(self).map_or(0, |json| json.len())
    }
}

/// A piece of content with its type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "AnyPart", rename_all = "camelCase")]
pub struct Part {
    /// Exactly one kind.
    #[serde(flatten)]
    pub content: PartContent,
    /// The media type of the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The name of its file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// Metadata of the producer.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// The four kinds of content (A2A §4.1.6).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PartContent {
    /// Text.
    Text(String),
    /// Any JSON value.
    Data(Value),
    /// Base64.
    Raw(String),
    /// Where the content is.
    Url(String),
}

impl Part {
    /// A part with nothing but content.
    pub fn new(content: PartContent) -> Self {
        Self { content, media_type: None, filename: None, metadata: Map::new() }
    }
}

/// A part of an artifact: one of `text`, `data`, `raw` and `url`.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Part"))]
#[serde(rename_all = "camelCase")]
struct AnyPart {
    /// Text.
    text: Option<String>,
    /// Any JSON value.
    #[serde(default, deserialize_with = "given")]
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "Option::is_none"))]
    data: Option<Value>,
    /// Base64.
    raw: Option<String>,
    /// Where the content is.
    url: Option<String>,
    /// The media type of the content.
    media_type: Option<String>,
    /// The name of its file.
    filename: Option<String>,
    /// Metadata of the producer.
    #[serde(default)]
    metadata: Map<String, Value>,
}

/// A member that is given, also as `null`.
pub(crate) fn given<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

impl TryFrom<AnyPart> for Part {
    type Error = &'static str;

    fn try_from(part: AnyPart) -> Result<Self, Self::Error> {
        let AnyPart { text, data, raw, url, media_type, filename, metadata } = part;
        let content = match (text, data, raw, url) {
            (Some(text), None, None, None) => PartContent::Text(text),
            (None, Some(data), None, None) => PartContent::Data(data),
            (None, None, Some(raw), None) => PartContent::Raw(raw),
            (None, None, None, Some(url)) => PartContent::Url(url),
            _ => return Err("a part has exactly one of text, data, raw and url"),
        };
        Ok(Self { content, media_type, filename, metadata })
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Part {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        AnyPart::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        AnyPart::json_schema(generator)
    }
}
