//! The tools of a turn, by names that providers accept and that are unique.

use super::{
    loop_tool::{LoopSubject, LoopTool, LoopToolKind},
    mesh_tools::{MeshTool, TOOLS},
    model::ToolSpec,
    tool_server::ToolServerConfig,
};
use protocol::ids::Digest;
use rmcp::model::Tool;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The longest name that all providers accept.
const MAX_NAME: usize = 64;
/// The digits of a digest in a name.
const DIGITS: usize = 8;

/// The mesh's tools, and those of `servers` with what each offers. A server's tool whose name is taken twice has the name of its
/// server before its own. The order of servers and tools changes no name: a call that is recorded goes to the same tool after a
/// restart.
pub(super) fn tools_of(subject: LoopSubject, servers: &[(ToolServerConfig, Vec<Tool>)]) -> Vec<LoopTool> {
    let mesh =
        MeshTool::offered(subject).map(|tool| LoopTool { spec: tool.spec.clone(), kind: LoopToolKind::Mesh });
    let mut tools: Vec<_> = mesh.collect();
    // Also those that this turn does not offer: a tool has one name in all turns of a task.
    let mut count: BTreeMap<String, usize> = TOOLS.iter().map(|tool| (tool.spec.name.clone(), 1)).collect();
    for (_, offered) in servers {
        for name in offered.iter().map(|tool| accepted(&tool.name)).collect::<BTreeSet<_>>() {
            *count.entry(name).or_default() += 1;
        }
    }
    let count = &count;
    let offered = servers.iter().enumerate().flat_map(|(server, (config, offered))| {
        offered.iter().map(move |tool| {
            let own = accepted(&tool.name);
            let is_unique = count.get(&own) == Some(&1);
            (if is_unique { own } else { accepted(&format!("{}_{own}", config.name)) }, server, config, tool)
        })
    });
    let offered: Vec<_> = offered.collect();
    let mut users: BTreeMap<&str, usize> = TOOLS.iter().map(|tool| (tool.spec.name.as_str(), 1)).collect();
    for (name, ..) in &offered {
        *users.entry(name).or_default() += 1;
    }
    for (name, server, config, tool) in &offered {
        // Of names that differ only in what is replaced or cut, the one that is whole is kept.
        let is_kept = users.get(name.as_str()) == Some(&1) || *name == *tool.name;
        let name = if is_kept { name.clone() } else { with_digest(name, config, tool) };
        tools.push(LoopTool { spec: spec(name, tool), kind: kind(*server, config, tool) });
    }
    tools
}

/// `tools` by their names, of which those that were `known` keep theirs, and no other gets one of those.
pub(super) fn keep_names(
    known: &BTreeMap<String, LoopTool>,
    tools: Vec<LoopTool>,
) -> BTreeMap<String, LoopTool> {
    let (mut kept, mut fresh) = (BTreeMap::new(), Vec::new());
    for mut tool in tools {
        let is_same =
            |(_, other): &(&String, &LoopTool)| place(other).is_some() && place(other) == place(&tool);
        match known.iter().find(is_same) {
            Some((name, _)) => {
                tool.spec.name.clone_from(name);
                kept.insert(name.clone(), tool);
            }
            None if place(&tool).is_none() => drop(kept.insert(tool.spec.name.clone(), tool)),
            None => fresh.push(tool),
        }
    }
    for mut tool in fresh {
        let own = tool.spec.name.clone();
        let mut number = 2;
        while known.contains_key(&tool.spec.name) || kept.contains_key(&tool.spec.name) {
            let end = format!("_{number}");
            tool.spec.name = format!("{}{end}", &own[..own.len().min(MAX_NAME - end.len())]);
            number += 1;
        }
        kept.insert(tool.spec.name.clone(), tool);
    }
    kept
}

/// The server of a tool and its name there.
fn place(tool: &LoopTool) -> Option<(usize, &str)> {
    match &tool.kind {
        LoopToolKind::Server { server, name, .. } => Some((*server, name)),
        LoopToolKind::Mesh => None,
    }
}

/// `name` with a part of the digest of the full name.
fn with_digest(name: &str, config: &ToolServerConfig, tool: &Tool) -> String {
    let digest = Digest::of(format!("{}\n{}", config.name, tool.name).as_bytes()).to_string();
    format!("{}_{}", &name[..name.len().min(MAX_NAME - DIGITS - 1)], &digest[..DIGITS])
}

fn spec(name: String, tool: &Tool) -> ToolSpec {
    let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default().to_owned();
    let mut schema = Value::Object((*tool.input_schema).clone());
    // Providers refuse arguments that are not said to be an object, and OpenAI an object without members.
    schema["type"] = "object".into();
    if !schema["properties"].is_object() {
        schema["properties"] = Value::Object(serde_json::Map::new());
    }
    ToolSpec { name, description, schema }
}

fn kind(server: usize, config: &ToolServerConfig, tool: &Tool) -> LoopToolKind {
    let hints = tool.annotations.as_ref();
    let says = |hint: Option<bool>| hint.unwrap_or(false);
    let is_repeatable = config.idempotent
        || hints.is_some_and(|hints| says(hints.read_only_hint) || says(hints.idempotent_hint));
    let permission = config.permissions.of(&tool.name);
    let is_poll = config.poll.iter().any(|name| *name == tool.name);
    LoopToolKind::Server { server, name: tool.name.to_string(), is_repeatable, permission, is_poll }
}

/// `name` with what providers refuse replaced.
fn accepted(name: &str) -> String {
    let accepted = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    name.chars().map(accepted).take(MAX_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brain::llm::{tool_permission::ToolPermission, tool_server::tests::server};
    use rmcp::model::ToolAnnotations;
    use std::sync::Arc;

    fn tool(name: &str) -> Tool {
        Tool::new(name.to_owned(), "d", Arc::new(serde_json::Map::new()))
    }

    #[test]
    fn names_are_unique_and_accepted_by_all_providers() {
        let (one, mut two) = (server("one"), server("two"));
        two.permissions.ask = vec!["delegate".into()];
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
            matches!(&asks.kind, LoopToolKind::Server { permission: ToolPermission::Asked, name, .. } if name == "delegate")
        );
    }

    #[test]
    fn a_name_does_not_depend_on_the_order_of_tools_and_servers_nor_on_other_tools() {
        let names = |offered: &[(ToolServerConfig, Vec<Tool>)]| {
            let tools = tools_of(LoopSubject::Task, offered).into_iter().filter_map(|tool| match tool.kind {
                LoopToolKind::Server { server, name, .. } => {
                    Some(((offered[server].0.name.clone(), name), tool.spec.name))
                }
                LoopToolKind::Mesh => None,
            });
            tools.collect::<BTreeMap<_, _>>()
        };
        let first = [
            (server("one"), vec![tool("a.b"), tool("a_b"), tool("a/b"), tool("c.d")]),
            (server("two"), vec![tool("c_d"), tool("only")]),
            (server("post"), vec![tool("finding"), tool("delegate")]),
        ];
        let second = [
            (server("post"), vec![tool("delegate"), tool("finding")]),
            (server("two"), vec![tool("only"), tool("c_d")]),
            (server("one"), vec![tool("c.d"), tool("a/b"), tool("a_b"), tool("a.b")]),
        ];
        let all = names(&first);
        assert_eq!(all, names(&second));
        let of = |server: &str, tool: &str| all[&(server.to_owned(), tool.to_owned())].as_str();
        assert_eq!((of("one", "a_b"), of("two", "only"), of("two", "c_d")), ("a_b", "only", "two_c_d"));
        assert!(of("one", "a.b").starts_with("a_b_") && of("one", "a.b") != of("one", "a/b"), "{all:?}");
        let fewer = names(&[(server("one"), vec![tool("a.b"), tool("a_b")])]);
        assert_eq!(fewer[&("one".to_owned(), "a.b".to_owned())], of("one", "a.b"), "without a/b");
        let unique: BTreeSet<_> = all.values().collect();
        assert!(unique.len() == all.len() && unique.iter().all(|name| name.len() <= MAX_NAME), "{all:?}");
    }

    #[test]
    fn a_tool_that_appears_takes_no_name_and_changes_none() {
        let by_name = |tools: Vec<LoopTool>| -> BTreeMap<String, LoopTool> {
            tools.into_iter().map(|tool| (tool.spec.name.clone(), tool)).collect()
        };
        let (one, two) = (server("one"), server("two"));
        let before =
            tools_of(LoopSubject::Task, &[(one.clone(), vec![tool("search")]), (two.clone(), vec![])]);
        let known = by_name(before);
        let after = [(one, vec![tool("search"), tool("more")]), (two, vec![tool("search")])];
        let tools = keep_names(&known, tools_of(LoopSubject::Task, &after));
        let at = |name: &str| place(&tools[name]).map(|(server, name)| (server, name.to_owned())).unwrap();
        assert_eq!(at("search"), (0, "search".to_owned()));
        assert_eq!(at("more"), (0, "more".to_owned()));
        assert_eq!(at("two_search"), (1, "search".to_owned()));
        assert_eq!(tools.len(), known.len() + 2);
    }

    #[test]
    fn the_schema_of_a_tool_is_that_of_an_object() {
        let expected = serde_json::json!({ "type": "object", "properties": {} });
        for schema in ["{}", r#"{"type":"object"}"#, r#"{"type":["object","null"],"properties":null}"#] {
            let tool = Tool::new("t", "d", Arc::new(serde_json::from_str(schema).unwrap()));
            assert_eq!(spec("t".to_owned(), &tool).schema, expected, "{schema}");
        }
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
