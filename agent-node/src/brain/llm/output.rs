//! Answers that must be JSON: the schema of a skill's output.

use crate::brain::schema_size::{PATTERN_SIZE, expanded, values_in};
use jsonschema::{PatternOptions, Validator, error::ValidationErrorKind};
use patterns::turn::Progress;
use protocol::artifact::{Artifact, Part, PartContent};
use serde_json::{Map, Value};
use std::sync::Arc;

/// A JSON Schema, ready to check answers.
#[derive(Debug, Clone)]
pub struct OutputSchema {
    schema: Value,
    /// How large it is ([`expanded`]); without what its references lead to, if it refers to itself.
    size: usize,
    validator: Arc<Validator>,
}

impl PartialEq for OutputSchema {
    fn eq(&self, other: &Self) -> bool {
        self.schema == other.schema
    }
}

/// The most faults that are named.
const MAX_FAULTS: usize = 5;
/// The largest product of the sizes of a schema and a value for which faults are named: each fault that is found takes memory.
const MAX_COMPARISONS: usize = 1 << 20;
/// The largest schema of a request ([`expanded`]).
const MAX_REQUEST_SIZE: usize = 2_000;
/// The largest compiled pattern of an agent's own schema, bytes.
const MAX_PATTERN: usize = 8 << 20;
/// The largest compiled pattern of a request's schema, bytes.
const MAX_REQUEST_PATTERN: usize = 256 * 1024;

impl OutputSchema {
    /// Checks the schema itself. References to other documents are refused, and so are patterns that take more than linear time:
    /// look-around and back references.
    pub fn new(schema: Value) -> Result<Self, String> {
        let size = expanded(&schema).unwrap_or_else(|_| values_in(&schema));
        Self::compile(schema, size, MAX_PATTERN)
    }

    fn compile(schema: Value, size: usize, max_pattern: usize) -> Result<Self, String> {
        let patterns = PatternOptions::regex().size_limit(max_pattern);
        let validator = jsonschema::options().with_pattern_options(patterns).build(&schema);
        let validator = validator.map_err(|error| {
            match matches!(error.kind(), ValidationErrorKind::Format { format } if format == "regex") {
                true => format!(
                    "the pattern {} is invalid, or larger than {max_pattern} bytes when it is compiled; look-around and back references are not possible",
                    error.instance()
                ),
                false => error.to_string(),
            }
        })?;
        Ok(Self { schema, size, validator: Arc::new(validator) })
    }

    /// The schema of a request, whose author may want to spend this node's time: it has no references to itself, and is small when
    /// its references are followed.
    pub fn of_request(schema: Value) -> Result<Self, String> {
        let size = expanded(&schema)?;
        if size > MAX_REQUEST_SIZE {
            return Err(format!(
                "it has {size} values when its references are followed and a pattern counts as {PATTERN_SIZE}; at most {MAX_REQUEST_SIZE} are allowed"
            ));
        }
        Self::compile(schema, size, MAX_REQUEST_PATTERN)
    }

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

    pub(crate) fn check_value(&self, value: &Value) -> Result<(), String> {
        if self.validator.is_valid(value) {
            return Ok(());
        }
        if self.size.saturating_mul(values_in(value)) > MAX_COMPARISONS {
            return Err("it does not fit, and is too large to say where".to_owned());
        }
        let faults: Vec<_> = self
            .validator
            .iter_errors(value)
            .take(MAX_FAULTS)
            .map(|error| match error.instance_path().as_str() {
                "" => error.to_string(),
                path => format!("at {path}: {error}"),
            })
            .collect();
        Err(faults.join("; "))
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
    fn a_schema_of_a_request_is_small_when_its_references_are_followed() {
        let mut schema = json!({ "$ref": "#/$defs/a0", "$defs": { "a20": { "type": "object" } } });
        for level in 0..20 {
            let next = json!({ "$ref": format!("#/$defs/a{}", level + 1) });
            schema["$defs"][format!("a{level}")] = json!({ "allOf": [next, next] });
        }
        let why = OutputSchema::of_request(schema).unwrap_err();
        assert!(why.contains("at most 2000 are allowed"), "{why}");
        let recursive = json!({ "properties": { "next": { "$ref": "#" } } });
        assert!(OutputSchema::of_request(recursive.clone()).unwrap_err().contains("refers to itself"));
        let own = OutputSchema::new(recursive).unwrap();
        assert!(own.check_value(&json!({ "next": { "next": {} } })).is_ok(), "the agent's own may");
    }

    #[test]
    fn the_faults_of_a_large_value_are_not_searched_for() {
        let types = vec![json!({ "type": "string" }); 60];
        let schema = OutputSchema::of_request(json!({ "items": { "allOf": types } })).unwrap();
        let few = schema.check_value(&json!([1, 2])).unwrap_err();
        assert!(few.contains("at /0: "), "{few}");
        let many: Value = (0..50_000).collect();
        assert_eq!(
            schema.check_value(&many),
            Err("it does not fit, and is too large to say where".to_owned())
        );
    }

    #[test]
    fn a_schema_that_is_none_is_refused() {
        assert!(OutputSchema::new(json!({ "type": "nothing" })).is_err());
        assert!(OutputSchema::new(json!({ "$ref": "https://example.com/schema" })).is_err());
        let of_request = |pattern| OutputSchema::of_request(json!({ "items": { "pattern": pattern } }));
        for pattern in ["^(?=(a+)+1)x", "(a)\\1", "(?<!b)x"] {
            let why = OutputSchema::new(json!({ "items": { "pattern": pattern } })).unwrap_err();
            assert!(why.contains(&json!(pattern).to_string()) && why.contains("look-around"), "{why}");
            assert_eq!(of_request(pattern).map(|_| ()).map_err(|why| why.contains("look-around")), Err(true));
        }
        assert!(of_request("(.{1,30}){1,30}").unwrap_err().contains("262144 bytes when it is compiled"));
    }
}
