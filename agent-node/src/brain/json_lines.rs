//! The output of a brain as JSON lines: reports ([`Progress`]), then one end.

pub mod input_line;
pub(super) mod line_parser;
mod output_line;
pub(super) mod prompt_line;

use patterns::{
    contract_net::bidding::BidAnswer,
    turn::{Progress, TurnEnd},
};
use protocol::json::{MAX_DEPTH, parse as parse_json};
use serde_json::{Value, json};
use wire::{line::OutputLine, prompt::InputLine};

/// One line of a brain's output.
#[derive(Debug, Clone, PartialEq)]
pub enum BrainLine {
    Progress(Progress),
    End(TurnEnd),
    /// The answer to a call for proposals.
    Bid(BidAnswer),
}

/// A line as the turn that runs sees it.
#[derive(Debug, PartialEq)]
pub(super) enum TurnLine {
    Own(BrainLine),
    /// A line that names another turn. It is dropped.
    OfAnother {
        key: String,
    },
}

/// The deepest nesting of a line. Messages to peers contain a line's values at a greater depth.
const MAX_LINE_DEPTH: usize = MAX_DEPTH - 4;

/// The types of lines.
const TYPES: [&str; 26] = [
    "status",
    "artifact",
    "signal",
    "help",
    "delegate",
    "say",
    "directive",
    "question",
    "post",
    "propose",
    "remember",
    "find",
    "checkpoint",
    "usage",
    "tool",
    "log",
    "done",
    "pass",
    "message",
    "failed",
    "rejected",
    "wait",
    "pause",
    "handoff",
    "bid",
    "no-bid",
];

/// Parses a line that names no turn. The error says what is wrong with it.
pub fn parse(line: &[u8]) -> Result<BrainLine, String> {
    from_value(json_of(line)?)
}

pub(super) fn parse_in_turn(line: &[u8], turn: &str) -> Result<TurnLine, String> {
    let mut value = json_of(line)?;
    match value.as_object_mut().and_then(|members| members.remove("key")) {
        Some(Value::String(key)) if key != turn => Ok(TurnLine::OfAnother { key }),
        None | Some(Value::String(_)) => from_value(value).map(TurnLine::Own),
        Some(_) => Err("\"key\" is a text: the key of the turn".to_owned()),
    }
}

/// Parses a line that names its turn; returns the key of that, too.
pub fn parse_with_key(line: &[u8]) -> Result<(String, BrainLine), String> {
    let mut value = json_of(line)?;
    match value.as_object_mut().and_then(|members| members.remove("key")) {
        Some(Value::String(key)) => Ok((key, from_value(value)?)),
        None | Some(_) => Err("\"key\" is needed, a text: the key of the turn".to_owned()),
    }
}

/// What the log says about a line that names another turn.
pub(super) fn dropped(key: &str) -> String {
    format!("a line of another turn is dropped: {:?}", beginning(key.as_bytes()))
}

fn json_of(line: &[u8]) -> Result<Value, String> {
    // .NET and PowerShell begin with a mark of the encoding (RFC 8259 §8.1 lets it be ignored).
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    parse_json(line, MAX_LINE_DEPTH)
        .map_err(|problem| format!("is no JSON: {problem}; it begins {:?}", beginning(line)))
}

/// Converts the JSON of a line. The error says what is wrong with it.
pub fn from_value(value: Value) -> Result<BrainLine, String> {
    let kind = value.get("type").and_then(Value::as_str).map(str::to_owned);
    let kind = kind.ok_or_else(|| format!("is no object with a \"type\" ({})", TYPES.join(", ")))?;
    if !TYPES.contains(&kind.as_str()) {
        return Err(format!("unknown type {:?}; known are {}", beginning(kind.as_bytes()), TYPES.join(", ")));
    }
    let line: OutputLine = serde_json::from_value(value).map_err(|error| format!("{kind:?}: {error}"))?;
    BrainLine::try_from(line).map_err(|error| format!("{kind:?}: {error}"))
}

/// The JSON Schema of a line of output, and in `$defs` that of a line of input (`mesh validate --brain-schema`, `deploy/config/brain.schema.json`).
pub fn schema() -> Value {
    let mut schema = crate::json_schema::of::<OutputLine>();
    schema["title"] = json!("Agent Mesh: a line of a brain's output");
    for line in schema["oneOf"].as_array_mut().into_iter().flatten() {
        line["properties"]["key"] = json!({
            "description": "The key of the turn. A line that names another turn is dropped.",
            "type": "string",
        });
    }
    let mut from_node = crate::json_schema::of::<InputLine>();
    if let Some(members) = from_node.as_object_mut() {
        members.remove("$schema");
    }
    schema["$defs"]["InputLine"] = from_node;
    schema
}

/// Whether a report expects an answer in a later turn.
pub fn expects_answer(progress: &Progress) -> bool {
    progress.waits().is_some()
}

fn beginning(line: &[u8]) -> String {
    super::excerpt::beginning(&String::from_utf8_lossy(line), 80).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use protocol::artifact::Artifact;

    fn parsed(line: &str) -> Result<BrainLine, String> {
        parse(line.as_bytes())
    }

    #[test]
    fn both_forms_of_an_artifact_give_the_same_report() {
        let short =
            parsed(r#"{"type":"artifact","name":"handler.rs","mediaType":"text/x-rust","text":"fn f() {}"}"#);
        let full = parsed(
            r#"{"type":"artifact","artifact":{"artifactId":"handler.rs","name":"handler.rs","parts":[{"text":"fn f() {}","mediaType":"text/x-rust"}]}}"#,
        );
        assert_eq!(short, full);
        let artifact = Artifact::text("handler.rs", "text/x-rust", "fn f() {}");
        let expected = Progress::Artifact { artifact, append: false, last_chunk: false };
        assert_eq!(short, Ok(BrainLine::Progress(expected)));
    }

    #[test]
    fn an_error_names_the_cause() {
        for (line, part) in [
            ("hello", "is no JSON"),
            (&format!("{{TOKEN={}", "7".repeat(400)), "it begins \"\""),
            ("[1]", "no object with a \"type\""),
            (r#"{"type":"shout"}"#, "unknown type \"shout\"; known are status"),
            (r#"{"type":"failed"}"#, "missing field `reason`"),
            (r#"{"type":"artifact","name":"x"}"#, "exactly one of text"),
            (r#"{"type":"artifact","name":"x","text":"a","txet":"b"}"#, "unknown field `txet`"),
            (
                r#"{"type":"status","message":"x","mesage":"y"}"#,
                "\"status\": unknown field `mesage`, expected `message`",
            ),
            (r#"{"type":"done","summary":"x"}"#, "\"done\": unknown field `summary`, expected `message`"),
            (
                r#"{"type":"question","id":"q","text":"?","auth":true}"#,
                "unknown field `auth`, expected one of `id`, `kind`",
            ),
            (r#"{"type":"question","id":"q","text":"?","kind":"choice"}"#, "a choice needs \"options\""),
            (r#"{"type":"help","id":"h","question":"?"}"#, "exactly one of \"capability\" and \"to\""),
            (
                r#"{"type":"usage","model":"m","inputTokens":1,"outputTokens":2,"error":"no such key"}"#,
                "\"usage\": \"error\" is a code",
            ),
            (r#"{"type":"tool","id":"c","name":"a tool"}"#, "\"tool\": \"name\" is a code"),
            (r#"{"type":"post","content":" "}"#, "\"post\": content: must not be empty"),
            (r#"{"type":"propose","content":"c","entryType":"learning"}"#, "a proposal needs a slug"),
            (r#"{"type":"remember","content":"c","entryType":"scope"}"#, "expected one of `core-context`"),
            (r#"{"type":"find","id":"f"}"#, "at least one of"),
            (r#"{"type":"wait","for":"h"}"#, "unknown field `for`"),
            (r#"{"type":"artifact","name":"x","raw":"no base64!"}"#, "\"raw\": "),
            (r#"{"type":"signal","signal":"agent.left"}"#, "only the registry publishes agent.left"),
            (
                r#"{"type":"signal","signal":"task.available","capability":"dig"}"#,
                "\"subject\": an offer says",
            ),
            (r#"{"type":"signal","signal":"agent.gone"}"#, "\"agent.gone\" is no signal type"),
            (
                r#"{"type":"delegate","id":"a","to":"capability:","description":"d"}"#,
                "a capability must match",
            ),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn every_report_is_the_same_after_a_round_trip() {
        for line in [
            r#"{"type":"status","message":"half way"}"#,
            r#"{"type":"signal","signal":"help.needed"}"#,
            r#"{"type":"help","id":"h1","capability":"code-review","question":"ok?","artifacts":["a"]}"#,
            r#"{"type":"delegate","id":"d1","to":"capability:plan","description":"plan it","input":{"a":1}}"#,
            r#"{"type":"help","id":"h2","to":"reviewer-01","question":"ok?","wait":false}"#,
            r#"{"type":"question","id":"q1","text":"which one?"}"#,
            r#"{"type":"question","id":"q2","kind":"choice","text":"which?","options":["a","b"],"expiresAt":"2027-01-01T00:00:00Z","onTimeout":{"answer":"a"},"wait":false}"#,
            r#"{"type":"checkpoint","data":[1,{"a":null}],"replace":true}"#,
            r#"{"type":"usage","model":"m","inputTokens":1,"outputTokens":2,"cost":0.5}"#,
            r#"{"type":"usage","model":"m","inputTokens":0,"outputTokens":0,"provider":"openai","finishReason":"stop","durationMs":9,"error":"429"}"#,
            r#"{"type":"tool","id":"c1_0","name":"git_log","durationMs":12,"error":"tool_error"}"#,
            r#"{"type":"log","message":"hm"}"#,
            r#"{"type":"post","content":"port 80 is taken","severity":"high","tags":["net"]}"#,
            r#"{"type":"propose","entryType":"architectural","slug":"use-sqlite","title":"Use SQLite","content":"c"}"#,
            r#"{"type":"remember","content":"c","entryType":"core-context","importance":"high","scope":"own","expertise":{"rust":2}}"#,
            r#"{"type":"find","id":"f1","kind":"decision","tag":"net","text":"port","wait":false}"#,
            r#"{"type":"wait"}"#,
            r#"{"type":"handoff","to":"billing-01","reason":"an invoice"}"#,
            r#"{"type":"pause","afterMs":5,"reason":"429"}"#,
        ] {
            let read = parsed(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            let written: OutputLine = serde_json::from_str(line).unwrap();
            assert_eq!(parsed(&serde_json::to_string(&written).unwrap()), Ok(read));
        }
    }

    #[test]
    fn a_line_may_name_its_turn_and_one_that_names_another_is_not_even_checked() {
        let read = |line: &str| parse_in_turn(line.as_bytes(), "a");
        let own = TurnLine::Own(BrainLine::End(TurnEnd::Waiting));
        assert_eq!(read(r#"{"type":"wait"}"#).unwrap(), own);
        assert_eq!(read(r#"{"type":"wait","key":"a"}"#).unwrap(), own);
        assert_eq!(
            read(r#"{"type":"wait","for":"h","key":"b"}"#),
            Ok(TurnLine::OfAnother { key: "b".into() })
        );
        assert!(read(r#"{"type":"wait","key":1}"#).unwrap_err().contains("\"key\" is a text"));
    }

    #[test]
    fn the_committed_schema_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/config/brain.schema.json");
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        let current = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
        assert!(committed == current, "run: mesh validate --brain-schema > deploy/config/brain.schema.json");
    }

    #[test]
    fn the_docs_have_a_valid_example_of_every_line_of_the_schema() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/brain-protocol.md");
        let docs = std::fs::read_to_string(docs).unwrap();
        let examples = docs.split('`').filter(|text| text.starts_with("{\"type\":"));
        let mut shown = std::collections::BTreeSet::new();
        for example in examples {
            if serde_json::from_str::<InputLine>(example).is_ok() {
                continue;
            }
            let mut line: Value = serde_json::from_str(example).unwrap();
            line.as_object_mut().unwrap().remove("key");
            from_value(line.clone())
                .unwrap_or_else(|error| panic!("docs/brain-protocol.md: {example}: {error}"));
            shown.insert(line["type"].as_str().unwrap_or_default().to_owned());
        }
        let schema = schema();
        let lines = schema["oneOf"].as_array().unwrap();
        let types = lines.iter().map(|line| line["properties"]["type"]["const"].as_str().unwrap_or_default());
        let types: std::collections::BTreeSet<_> = types.map(str::to_owned).collect();
        assert_eq!(types, TYPES.map(str::to_owned).into());
        assert_eq!(shown, types, "docs/brain-protocol.md has no example of some line");
    }

    proptest! {
        #[test]
        fn no_line_panics(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&line);
        }
    }
}
