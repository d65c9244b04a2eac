//! `deploy/config/mesh.yaml` lists every key of a team file with its default and a description.

use super::{AgentDefinition, MeshConfig, Team, TimingPreset, schema};
use serde_json::Value;
use std::{collections::BTreeSet, path::PathBuf};

fn path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/config/mesh.yaml"))
}

/// Collects the key paths of `schema` below `at`; the keys of list items are below the list.
fn keys(schema: &Value, at: &str, found: &mut BTreeSet<String>) {
    let shapes = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|word| schema[word].as_array()).flatten();
    shapes.for_each(|shape| keys(shape, at, found));
    if schema["items"].is_object() {
        keys(&schema["items"], at, found);
    }
    // Of these the reference shows the members under names of its own.
    let members = &schema["additionalProperties"];
    if members.is_object() && ["agents.schedules", "agents.triggers"].contains(&at) {
        keys(members, at, found);
    }
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        keys(member, &path, found);
        found.insert(path);
    }
}

/// Every key of the file's text with its comment, commented-out keys included.
fn documented_keys(text: &str) -> Vec<(String, String)> {
    let mut above: Vec<(usize, String)> = Vec::new();
    let mut documented = Vec::new();
    for line in text.lines() {
        let shown = if line.starts_with("  # ") { line.replacen("# ", "", 1) } else { line.to_owned() };
        let line = shown.replace("- ", "  ");
        let Some((name, rest)) = line.split_once(':') else { continue };
        let (indent, name) = (name.len() - name.trim_start().len(), name.trim());
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            continue;
        }
        above.retain(|(outer, _)| *outer < indent);
        let names = above.iter().map(|(_, name)| name.as_str()).chain([name]);
        let path = names.collect::<Vec<_>>().join(".");
        documented
            .push((path, rest.split_once('#').map_or(String::new(), |(_, what)| what.trim().to_owned())));
        above.push((indent, name.to_owned()));
    }
    documented
}

#[test]
fn the_reference_holds_the_defaults() {
    let text = std::fs::read_to_string(path()).unwrap();
    let team = Team::load(&[path()], TimingPreset::Fast).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(team.mesh, MeshConfig::default(), "a default has changed: say so in deploy/config/mesh.yaml");
    let agent = Team::parse("alone", "agent: a\nbrain: { echo: {} }\n", None).unwrap().agents.remove(0);
    let echo = team.agents.iter().find(|agent| agent.id.as_str() == "echo-01").unwrap();
    let facts = |agent: &AgentDefinition| (agent.settings.bid.terms(), agent.settings.open);
    assert_eq!(facts(echo), facts(&agent));
    assert_eq!(facts(&team.agents[0]), facts(&agent), "{text}");
}

#[test]
fn the_reference_describes_every_key() {
    let documented = documented_keys(&std::fs::read_to_string(path()).unwrap());
    let mut known = BTreeSet::new();
    keys(&schema::of::<super::file::TeamFile>(), "", &mut known);
    assert!(known.contains("agents.bid.cost") && known.contains("mesh.limits.maxBodyBytes"), "{known:?}");
    for key in &known {
        let lines: Vec<_> = documented.iter().filter(|(path, _)| path == key).collect();
        assert!(!lines.is_empty(), "deploy/config/mesh.yaml lacks {key}: its default, and # what it does");
        let top = ["agents", "mesh"].contains(&key.as_str());
        assert!(
            top || lines.iter().any(|(_, what)| what.len() > 5),
            "deploy/config/mesh.yaml does not say what {key} does"
        );
    }
    let unknown: Vec<_> = documented.iter().filter(|(path, _)| !known.contains(path)).collect();
    assert!(unknown.iter().all(|(path, _)| path.starts_with("agents.env.")), "{unknown:?}");
}

#[test]
fn the_agents_of_the_compose_file_are_valid() {
    for name in ["planner", "builder-fast", "builder", "reviewer", "orchestrator"] {
        let path = path().with_file_name("../agents").join(format!("{name}.yaml"));
        let team = Team::load(&[path], TimingPreset::Default).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(team.agents.len(), 1);
    }
}
