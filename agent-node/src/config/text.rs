//! A text value of the YAML.

use crate::outbox::a2a::credentials::SecretString;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;
use std::borrow::Cow;

/// Text; a number or truth value stands for how it is written.
#[derive(Debug, Default, JsonSchema)]
#[schemars(with = "TextForms")]
pub(super) struct YamlText(pub(super) String);

#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum TextForms {
    Text(String),
    Number(f64),
    Bool(bool),
}

impl YamlText {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The texts of the words of a command.
pub(super) fn texts(words: &[YamlText]) -> Vec<String> {
    words.iter().map(|word| word.0.clone()).collect()
}

impl<'de> Deserialize<'de> for YamlText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self(text)),
            Value::Number(number) => Ok(Self(number.to_string())),
            Value::Bool(bool) => Ok(Self(bool.to_string())),
            Value::Null => Err(D::Error::custom("expected text, got nothing")),
            Value::Array(_) => Err(D::Error::custom("expected text, got a list")),
            Value::Object(_) => Err(D::Error::custom("expected text, got a map; quote it if it has a colon")),
        }
    }
}

impl<'de> Deserialize<'de> for SecretString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        YamlText::deserialize(deserializer).map(|YamlText(text)| Self::new(text))
    }
}

impl JsonSchema for SecretString {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        YamlText::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        YamlText::json_schema(generator)
    }
}
