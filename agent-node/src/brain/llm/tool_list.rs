//! The tools of a turn, by names that providers accept and that are unique.

use super::{
    agent_loop::{LoopSubject, LoopTool, LoopToolKind},
    mesh_tools::MeshTool,
    model::ToolSpec,
    tool_server::ToolServerConfig,
};
use rmcp::model::Tool;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The longest name that all providers accept.
const MAX_NAME: usize = 64;

/// The mesh's tools, and those of `servers` with what each offers. A server's tool whose name is taken twice has the name of its
/// server before its own.
pub(super) fn tools_of(subject: LoopSubject, servers: &[(ToolServerConfig, Vec<Tool>)]) -> Vec<LoopTool> {
    let mesh = MeshTool::offered(subject)
        .iter()
        .map(|tool| LoopTool { spec: tool.spec(), kind: LoopToolKind::Mesh(*tool) });
    let mut tools: Vec<_> = mesh.collect();
    // Also those that this turn does not offer: a tool has one name in all turns of a task.
    let mut count: BTreeMap<String, usize> =
        MeshTool::ALL.iter().map(|tool| (tool.name().to_owned(), 1)).collect();
    for (_, offered) in servers {
        for name in offered.iter().map(|tool| accepted(&tool.name)).collect::<BTreeSet<_>>() {
            *count.entry(name).or_default() += 1;
        }
    }
    let mut taken = BTreeSet::new();
    for (server, (config, offered)) in servers.iter().enumerate() {
        for tool in offered {
            let own = accepted(&tool.name);
            let mut name = match count.get(&own) {
                Some(1) => own,
                _ => accepted(&format!("{}_{own}", config.name)),
            };
            // Names that differ only in what is replaced or cut.
            let mut number = 1;
            while !taken.insert(name.clone()) {
                number += 1;
                name.truncate(MAX_NAME - 4);
                name = format!("{name}_{number}");
            }
            tools.push(LoopTool { spec: spec(name, tool), kind: kind(server, config, tool) });
        }
    }
    tools
}

fn spec(name: String, tool: &Tool) -> ToolSpec {
    let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default().to_owned();
    let mut schema = Value::Object((*tool.input_schema).clone());
    // OpenAI refuses an object without members.
    if schema.get("properties").is_none() {
        schema["properties"] = Value::Object(serde_json::Map::new());
    }
    ToolSpec { name, description, schema }
}

fn kind(server: usize, config: &ToolServerConfig, tool: &Tool) -> LoopToolKind {
    let hints = tool.annotations.as_ref();
    let says = |hint: Option<bool>| hint.unwrap_or(false);
    let is_repeatable = config.idempotent
        || hints.is_some_and(|hints| says(hints.read_only_hint) || says(hints.idempotent_hint));
    let needs_approval = config.approve.iter().any(|name| *name == tool.name);
    LoopToolKind::Server { server, name: tool.name.to_string(), is_repeatable, needs_approval }
}

/// `name` with what providers refuse replaced.
fn accepted(name: &str) -> String {
    let accepted = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    name.chars().map(accepted).take(MAX_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brain::llm::tool_server::tests::server;
    use rmcp::model::ToolAnnotations;
    use std::sync::Arc;

    fn tool(name: &str) -> Tool {
        Tool::new(name.to_owned(), "d", Arc::new(serde_json::Map::new()))
    }

    #[test]
    fn names_are_unique_and_accepted_by_all_providers() {
        let (one, mut two) = (server("one"), server("two"));
        two.approve = vec!["delegate".into()];
        let long = "x".repeat(100);
        let offered = [
            (one, vec![tool("search"), tool("a.b/c"), tool(&long)]),
            (two, vec![tool("search"), tool("delegate"), tool("only")]),
        ];
        let tools = tools_of(LoopSubject::Task, &offered);
        let names: Vec<_> = tools.iter().map(|tool| tool.spec.name.as_str()).collect();
        for name in ["one_search", "two_search", "a_b_c", "two_delegate", "only", "delegate"] {
            assert!(names.contains(&name), "{name} in {names:?}");
        }
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert!(names.iter().all(|name| name.len() <= MAX_NAME));
        let asks = tools.iter().find(|tool| tool.spec.name == "two_delegate").unwrap();
        assert!(
            matches!(&asks.kind, LoopToolKind::Server { needs_approval: true, name, .. } if name == "delegate")
        );
    }

    #[test]
    fn a_call_may_be_repeated_if_the_tool_or_the_configuration_says_so() {
        let repeatable = |annotations: Option<ToolAnnotations>, idempotent| {
            let mut tool = tool("t");
            tool.annotations = annotations;
            let config = ToolServerConfig { idempotent, ..server("s") };
            let LoopToolKind::Server { is_repeatable, .. } = kind(0, &config, &tool) else {
                panic!("server")
            };
            is_repeatable
        };
        assert!(!repeatable(None, false));
        assert!(!repeatable(Some(ToolAnnotations::new().read_only(false)), false));
        assert!(repeatable(Some(ToolAnnotations::new().read_only(true)), false));
        assert!(repeatable(Some(ToolAnnotations::new().idempotent(true)), false));
        assert!(repeatable(None, true));
    }
}
