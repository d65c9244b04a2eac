//! Answers that must be JSON: the schema of a skill's output.

use jsonschema::Validator;
use protocol::{
    artifact::{Artifact, Part, PartContent},
    patterns::turn::Progress,
};
use serde_json::{Map, Value};
use std::sync::Arc;

/// A JSON Schema, ready to check answers.
#[derive(Debug, Clone)]
pub struct OutputSchema {
    schema: Value,
    validator: Arc<Validator>,
}

impl PartialEq for OutputSchema {
    fn eq(&self, other: &Self) -> bool {
        self.schema == other.schema
    }
}

/// The most faults that are named.
const MAX_FAULTS: usize = 5;

impl OutputSchema {
    /// Checks the schema itself. References to other documents are refused.
    pub fn new(schema: Value) -> Result<Self, String> {
        let validator = jsonschema::validator_for(&schema).map_err(|error| error.to_string())?;
        Ok(Self { schema, validator: Arc::new(validator) })
    }

    /// The schema.
    pub(super) fn schema(&self) -> &Value {
        &self.schema
    }

    /// The JSON of an answer, or what is wrong with it. A code fence around it is taken off.
    pub(super) fn check(&self, text: &str) -> Result<Value, String> {
        let value = protocol::json::parse(unfenced(text).as_bytes(), protocol::json::MAX_DEPTH - 4)
            .map_err(|error| format!("it is no JSON: {error}"))?;
        self.check_value(&value)?;
        Ok(value)
    }

    /// What is wrong with a value.
    pub(crate) fn check_value(&self, value: &Value) -> Result<(), String> {
        let faults: Vec<_> = self
            .validator
            .iter_errors(value)
            .take(MAX_FAULTS)
            .map(|error| match error.instance_path().as_str() {
                "" => error.to_string(),
                path => format!("at {path}: {error}"),
            })
            .collect();
        if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
    }
}

/// The answer as an artifact.
pub(super) fn artifact(id: &str, data: Value) -> Progress {
    let part = Part { media_type: Some("application/json".to_owned()), ..Part::new(PartContent::Data(data)) };
    let artifact = Artifact {
        artifact_id: id.to_owned(),
        name: Some(id.to_owned()),
        description: None,
        parts: vec![part],
        metadata: Map::new(),
        extensions: Vec::new(),
    };
    Progress::Artifact { artifact, append: false, last_chunk: true }
}

fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    inner.and_then(|inner| inner.split_once('\n')).map_or(text, |(_, body)| body.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_is_checked_against_the_schema() {
        let schema =
            json!({ "type": "object", "required": ["n"], "properties": { "n": { "type": "integer" } } });
        let output = OutputSchema::new(schema).unwrap();
        for text in ["{\"n\":1}", " {\"n\":1}\n", "```json\n{\"n\":1}\n```"] {
            assert_eq!(output.check(text), Ok(json!({ "n": 1 })), "{text}");
        }
        for (text, part) in [("no", "no JSON"), ("{}", "required"), ("{\"n\":\"x\"}", "at /n: ")] {
            let problem = output.check(text).unwrap_err();
            assert!(problem.contains(part), "{problem}");
        }
    }

    #[test]
    fn a_schema_that_is_none_is_refused() {
        assert!(OutputSchema::new(json!({ "type": "nothing" })).is_err());
        assert!(OutputSchema::new(json!({ "$ref": "https://example.com/schema" })).is_err());
    }
}
