//! A call of a tool that a server has left in the text of an answer, because it has no parser for the calls of its model.

use super::{loop_tool::LoopTool, model::ToolCall, output::OutputSchema};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What models write around a call.
const AROUND: [(&str, &str); 8] = [
    ("<tool_call>", "</tool_call>"),
    ("<function_call>", "</function_call>"),
    ("<|tool_call|>", ""),
    ("<|python_tag|>", ""),
    ("[TOOL_CALLS]", ""),
    ("```json", "```"),
    ("```tool_call", "```"),
    ("```", "```"),
];

/// The call that is the whole of `text`: one of a tool that is offered, with arguments that fit its schema.
pub(super) fn call_in(text: &str, tools: &BTreeMap<String, LoopTool>) -> Option<ToolCall> {
    let inner = unwrapped(text.trim());
    let (name, arguments) = named(inner)
        .or_else(|| of_parameters(inner, tools))
        .or_else(|| of_json(&serde_json::from_str(inner).ok()?))?;
    let schema = OutputSchema::new(tools.get(&name)?.spec.schema.clone()).ok()?;
    let whole = Value::Object(arguments).to_string();
    schema.check(&whole).ok()?;
    Some(ToolCall::parse(String::new(), name, &whole, None))
}

fn unwrapped(text: &str) -> &str {
    let mut inner = text;
    for (before, after) in AROUND {
        if let Some(rest) = inner.strip_prefix(before) {
            inner = rest.strip_suffix(after).unwrap_or(rest).trim();
        }
    }
    inner
}

/// `<function=name>{…}</function>`, or Mistral's `name{…}`.
fn named(text: &str) -> Option<(String, Map<String, Value>)> {
    let text =
        text.strip_prefix("<function=").map_or(text, |rest| rest.strip_suffix("</function>").unwrap_or(rest));
    let (name, arguments) = text.split_at(text.find('{')?);
    let name = name.trim().trim_end_matches('>').trim_end_matches("[ARGS]");
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let arguments = serde_json::from_str(arguments.trim()).ok()?;
    (!name.is_empty() && name.chars().all(is_name)).then(|| (name.to_owned(), arguments))
}

/// Qwen-Coder's `<function=name><parameter=key>value</parameter>…</function>`. A value is text where the schema says so, else JSON.
fn of_parameters(text: &str, tools: &BTreeMap<String, LoopTool>) -> Option<(String, Map<String, Value>)> {
    let rest = text.strip_prefix("<function=")?;
    let rest = rest.strip_suffix("</tool_call>").unwrap_or(rest).trim_end();
    let (name, rest) = rest.strip_suffix("</function>").unwrap_or(rest).split_once('>')?;
    let types = &tools.get(name)?.spec.schema["properties"];
    let (mut arguments, mut rest) = (Map::new(), rest.trim());
    while !rest.is_empty() {
        let (key, after) = rest.strip_prefix("<parameter=")?.split_once('>')?;
        let (value, after) = after.split_once("</parameter>")?;
        let value = value.strip_prefix('\n').unwrap_or(value);
        let value = value.strip_suffix('\n').unwrap_or(value);
        let parsed = serde_json::from_str(value).ok().filter(|_| types[key]["type"] != "string");
        arguments.insert(key.to_owned(), parsed.unwrap_or_else(|| value.into()));
        rest = after.trim_start();
    }
    Some((name.to_owned(), arguments))
}

fn of_json(value: &Value) -> Option<(String, Map<String, Value>)> {
    let value = match value {
        Value::Array(calls) if calls.len() == 1 => &calls[0],
        value => value,
    };
    if let Some(calls) = value.get("tool_calls") {
        return of_json(calls.as_array().filter(|calls| calls.len() == 1)?.first()?);
    }
    let call = value.get("function").filter(|function| function.is_object()).unwrap_or(value);
    let name = call.get("name")?.as_str()?.to_owned();
    let arguments = ["arguments", "parameters", "input", "args"].iter().find_map(|key| call.get(*key))?;
    let arguments = match arguments {
        Value::String(text) => serde_json::from_str(text).ok()?,
        Value::Object(members) => members.clone(),
        _ => return None,
    };
    Some((name, arguments))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brain::llm::{loop_tool::LoopToolKind, model::ToolSpec};
    use serde_json::json;

    fn tools() -> BTreeMap<String, LoopTool> {
        let schema =
            json!({ "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"] });
        let spec = ToolSpec { name: "read_file".into(), description: String::new(), schema };
        [("read_file".to_owned(), LoopTool { spec, kind: LoopToolKind::Mesh })].into()
    }

    #[test]
    fn a_whole_answer_that_is_a_call_is_found() {
        for text in [
            r#"{"name":"read_file","arguments":{"path":"a"}}"#,
            r#"{"name":"read_file","parameters":{"path":"a"}}"#,
            r#"{"type":"function","function":{"name":"read_file","arguments":"{\"path\":\"a\"}"}}"#,
            r#"[{"name":"read_file","arguments":{"path":"a"}}]"#,
            r#"{"tool_calls":[{"name":"read_file","arguments":{"path":"a"}}]}"#,
            "<tool_call>\n{\"name\":\"read_file\",\"arguments\":{\"path\":\"a\"}}\n</tool_call>",
            "```json\n{\"name\":\"read_file\",\"arguments\":{\"path\":\"a\"}}\n```",
            r#"[TOOL_CALLS][{"name":"read_file","arguments":{"path":"a"}}]"#,
            r#"[TOOL_CALLS]read_file[ARGS]{"path":"a"}"#,
            r#"<function=read_file>{"path":"a"}</function>"#,
            "<tool_call>\n<function=read_file>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>",
            "<function=read_file><parameter=path>a</parameter></function>",
            "<function=read_file>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>",
        ] {
            let call = call_in(text, &tools()).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((call.name.as_str(), &call.arguments["path"]), ("read_file", &json!("a")), "{text}");
        }
    }

    #[test]
    fn values_of_parameters_have_the_types_of_the_schema() {
        let schema = json!({ "type": "object", "properties": { "text": { "type": "string" }, "count": { "type": "integer" },
            "tags": { "type": "array" }, "any": {} }, "required": ["text"] });
        let mut tools = tools();
        tools.get_mut("read_file").unwrap().spec.schema = schema;
        let text = "<tool_call><function=read_file><parameter=text>\n7\n  {x} </b>\n</parameter><parameter=count>7</parameter>\
            <parameter=tags>[\"a\"]</parameter><parameter=any>words</parameter></function></tool_call>";
        let arguments = json!({ "text": "7\n  {x} </b>", "count": 7, "tags": ["a"], "any": "words" });
        assert_eq!(json!(call_in(text, &tools).unwrap().arguments), arguments);
        assert_eq!(call_in(&text.replace(">7<", ">many<"), &tools), None, "not of its type");
    }

    #[test]
    fn other_text_is_text() {
        for text in [
            "I call read_file now.",
            r#"Use {"name":"read_file","arguments":{"path":"a"}}"#,
            r#"{"name":"write_file","arguments":{"path":"a"}}"#,
            r#"{"name":"read_file","arguments":{}}"#,
            r#"{"name":"read_file"}"#,
            "<function=read_file></function>",
            "<function=write_file><parameter=path>a</parameter></function>",
            "<function=read_file><parameter=path>a",
            "<function=read_file><parameter=path>a</parameter>and more</function>",
            "<tool_call><function=read_file><parameter=path>a</parameter></function></tool_call> Done.",
            r#"[{"name":"read_file","arguments":{"path":"a"}},{"name":"read_file","arguments":{"path":"b"}}]"#,
            "{}",
            "",
        ] {
            assert_eq!(call_in(text, &tools()), None, "{text}");
        }
    }
}
