//! What an agent does with requests that name no capability.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::Error as _};

/// What an agent does with a request that is addressed to it and names no capability. An agent with one skill is asked for that
/// skill, unless it delegates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Openness {
    /// It does it: `true`.
    #[default]
    Open,
    /// It refuses it, and names its skills: `false`.
    Closed,
    /// It gives it to a peer with the capability `orchestrate`: `delegate`.
    Delegate,
}

/// The forms of [`Openness`] in a file.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum Forms {
    Bool(bool),
    #[schemars(with = "DelegateWord")]
    Word(String),
}

#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[expect(dead_code, reason = "only its schema is used")]
enum DelegateWord {
    Delegate,
}

impl<'de> Deserialize<'de> for Openness {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Forms::deserialize(from) {
            Ok(Forms::Bool(true)) => Ok(Self::Open),
            Ok(Forms::Bool(false)) => Ok(Self::Closed),
            Ok(Forms::Word(word)) if word == "delegate" => Ok(Self::Delegate),
            _ => Err(D::Error::custom("expected true, false or delegate")),
        }
    }
}

impl JsonSchema for Openness {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Openness".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Forms::json_schema(generator)
    }
}
