//! The lines that a node sends to a brain. A prompt is `turn` with the members of [`TurnRequest`]; the others go to a brain whose
//! input stays open, and to an HTTP brain.

use crate::brain::{TurnRequest, bidding::BidRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A line from the node about a turn that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum NodeLine {
    /// Checkpoints of the turn are durable.
    Recorded {
        /// The key of the turn.
        key: String,
        /// How many of the checkpoints that the turn has reported, counted from its first.
        checkpoints: u64,
    },
    /// The turn is stopped. It has two seconds to end with any last line; what it reports counts no more.
    Cancel {
        /// The key of the turn.
        key: String,
    },
}

/// A prompt as it is written.
#[derive(Serialize)]
struct PromptLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    request: &'a TurnRequest,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: Option<&'a str>,
}

impl NodeLine {
    /// The line with its line feed.
    pub fn to_line(&self) -> Result<Vec<u8>, serde_json::Error> {
        line(self)
    }
}

/// The prompt of `request` with its line feed.
pub fn prompt(request: &TurnRequest) -> Result<Vec<u8>, serde_json::Error> {
    let trace = request.trace.as_ref();
    line(&PromptLine {
        kind: "turn",
        request,
        traceparent: trace.map(ToString::to_string),
        tracestate: trace.and_then(|trace| trace.state.as_deref()),
    })
}

/// A call for proposals as it is written.
#[derive(Serialize)]
struct CallLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    request: &'a BidRequest,
}

/// The call for proposals of `request` with its line feed.
pub fn call(request: &BidRequest) -> Result<Vec<u8>, serde_json::Error> {
    line(&CallLine { kind: "cfp", request })
}

fn line(value: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_prompt_and_the_lines_about_its_turn_name_their_type_and_key() {
        let request = crate::brain::tests::first_turn("do it");
        let prompt: serde_json::Value = serde_json::from_slice(&prompt(&request).unwrap()).unwrap();
        assert_eq!((&prompt["type"], &prompt["task"]["description"]), (&json!("turn"), &json!("do it")));
        assert_eq!(prompt["key"], "agent-01:c:1:0");
        let recorded = NodeLine::Recorded { key: request.key.clone(), checkpoints: 2 };
        let recorded: serde_json::Value = serde_json::from_slice(&recorded.to_line().unwrap()).unwrap();
        assert_eq!(recorded, json!({ "type": "recorded", "key": "agent-01:c:1:0", "checkpoints": 2 }));
        let cancel = NodeLine::Cancel { key: request.key }.to_line().unwrap();
        assert!(cancel.starts_with(br#"{"type":"cancel","#) && cancel.ends_with(b"}\n"));
    }
}
