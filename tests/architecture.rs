//! Checks the architecture of DESIGN §3: which crates may depend on which, and what pure code must not use.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod architecture {
    mod docs;
    mod faults;
    mod imports;
    mod message_kinds;
    mod sources;
    mod type_names;
}

use std::{collections::BTreeSet, path::Path, process::Command};

fn cargo_metadata() -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The direct dependencies of a package of the workspace, without dev- and build-dependencies.
fn dependencies(package_name: &str) -> BTreeSet<String> {
    let metadata = cargo_metadata();
    let package = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .find(|package| package["name"] == package_name)
        .unwrap()
        .clone();
    let dependencies =
        package["dependencies"].as_array().unwrap().iter().filter(|dependency| dependency["kind"].is_null());
    dependencies.map(|dependency| dependency["name"].as_str().unwrap().to_owned()).collect()
}

/// The path and the text of every Rust file below `folder`.
fn read_sources(folder: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(folder);
    let mut folders = vec![root];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(!files.is_empty(), "no sources in {folder}");
    files
}

/// The direct dependencies that are packages of the workspace, too.
fn workspace_dependencies(package_name: &str) -> BTreeSet<String> {
    let workspace = [
        "wire",
        "protocol",
        "patterns",
        "transport",
        "store-types",
        "store",
        "supervisor",
        "blackboard",
        "registry",
        "engine",
        "child-process",
        "console",
        "mesh-agent",
        "agent-node",
    ]
    .map(str::to_owned);
    dependencies(package_name).into_iter().filter(|name| workspace.contains(name)).collect()
}

fn string_set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn crates_depend_only_on_those_that_the_design_allows() {
    // Other people's programs are built with it, too.
    assert_eq!(dependencies("wire"), string_set(&["schemars", "serde", "serde_json"]));
    assert_eq!(workspace_dependencies("protocol"), string_set(&["wire"]));
    assert_eq!(workspace_dependencies("patterns"), string_set(&["protocol", "wire"]));
    assert_eq!(workspace_dependencies("store-types"), string_set(&["protocol"]));
    assert_eq!(workspace_dependencies("store"), string_set(&["protocol", "store-types"]));
    assert_eq!(workspace_dependencies("transport"), string_set(&["protocol"]));
    assert_eq!(workspace_dependencies("supervisor"), string_set(&["protocol"]));
    let of_services = string_set(&["protocol", "store", "supervisor", "transport"]);
    assert_eq!(workspace_dependencies("registry"), of_services);
    assert_eq!(workspace_dependencies("blackboard"), of_services);
    assert_eq!(workspace_dependencies("engine"), string_set(&["patterns", "protocol", "store-types"]));
    assert_eq!(
        workspace_dependencies("agent-node"),
        string_set(&[
            "wire",
            "patterns",
            "protocol",
            "transport",
            "store",
            "blackboard",
            "registry",
            "engine",
            "child-process",
            "console",
            "mesh-agent"
        ])
    );
    assert_eq!(workspace_dependencies("child-process"), string_set(&[]));
    assert_eq!(workspace_dependencies("console"), string_set(&["patterns", "protocol"]));
    // A library for other people's programs: it brings little along.
    assert_eq!(dependencies("mesh-agent"), string_set(&["base64", "serde", "serde_json", "ureq", "wire"]));
}

#[test]
fn pure_crates_use_no_runtime_no_actors_no_clock_and_no_randomness() {
    let banned = [
        "tokio",
        "actix",
        "actix-web",
        "actix-rt",
        "reqwest",
        "rand",
        "uuid",
        "getrandom",
        "rusqlite",
        "futures-util",
        "tracing",
    ];
    for package in ["protocol", "patterns"] {
        let found: Vec<_> =
            dependencies(package).into_iter().filter(|name| banned.contains(&name.as_str())).collect();
        assert!(found.is_empty(), "{package} depends on {found:?}");
    }
    for folder in
        ["protocol/src", "protocol/patterns/src", "blackboard/store-types/src", "agent-node/engine/src"]
    {
        assert_pure(folder);
    }
}

/// A package and all its direct and indirect dependencies, without dev- and build-dependencies.
fn resolved_dependencies(package_name: &str) -> BTreeSet<String> {
    let arguments = ["tree", "--offline", "--package", package_name, "--edges", "normal", "--prefix", "none"];
    let output = Command::new(env!("CARGO")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn the_engine_depends_on_no_crate_that_does_io() {
    let banned = string_set(&[
        "tokio",
        "actix",
        "actix-rt",
        "actix-web",
        "reqwest",
        "rusqlite",
        "uuid",
        "rand",
        "futures-util",
    ]);
    for package in ["engine", "store-types"] {
        let found: Vec<_> = resolved_dependencies(package).intersection(&banned).cloned().collect();
        assert!(found.is_empty(), "{package} is built with {found:?}");
    }
}

/// A fault of the world is a wrapper of its seam in a test, a fault of a rule a patch in `tests/faults`. What only tests need is
/// behind `cfg(test)` alone.
#[test]
fn product_code_has_no_planted_fault() {
    for folder in ["protocol/src", "blackboard", "registry/src", "agent-node/src", "agent-node/engine/src"] {
        for (path, text) in read_sources(folder) {
            let has_fault = text.to_lowercase().contains("planted") || text.contains("cfg(any(test");
            assert!(!has_fault, "{path} has a planted fault");
        }
    }
}

/// Fails if the files that name the actor of an agent grow to 2,400 lines in all: other code must not know the actor.
#[test]
fn files_that_name_the_actor_of_an_agent_stay_small() {
    let mut lines = 0;
    for (path, text) in read_sources("agent-node/src") {
        if text.contains("AgentActor") && !path.contains("/tests") {
            lines += text.lines().count();
        }
    }
    assert!(lines < 2_400, "{lines} lines in files that name the actor");
}

/// Asserts that the code of a folder, without its tests, has no clock, no I/O and no `.await`.
fn assert_pure(folder: &str) {
    let forbidden = [
        "SystemTime::now",
        "Instant::now",
        "Utc::now",
        "Local::now",
        "std::fs::",
        "std::net::",
        "std::thread::",
        "std::env::",
        ".await",
        "async fn",
    ];
    for (path, text) in read_sources(folder) {
        let is_for_tests = ["tests.rs", "/testing.rs"].iter().any(|name| path.ends_with(name));
        if is_for_tests || path.contains("/tests/") {
            continue;
        }
        let before_tests = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code = before_tests.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            let found = forbidden.iter().find(|word| line.contains(**word));
            assert!(found.is_none(), "{path} uses {found:?}: {line}");
        }
    }
}

#[test]
fn only_the_composition_root_names_the_registrys_actor() {
    for (path, text) in read_sources("agent-node/src") {
        let is_root = path.contains("/node.rs") || path.contains("/node/") || path.contains("/cli");
        assert!(is_root || !text.contains("RegistryActor"), "{path} names the registry's actor");
    }
}

#[test]
fn do_send_is_not_used() {
    for folder in ["protocol/src", "blackboard/src", "registry/src", "agent-node/src"] {
        for (path, text) in read_sources(folder) {
            assert!(!text.contains(".do_send("), "{path} uses do_send");
        }
    }
}

#[test]
fn the_top_level_has_only_allowed_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let output =
        Command::new("git").args(["ls-tree", "--name-only", "HEAD"]).current_dir(root).output().unwrap();
    let allowed = string_set(&[
        "Cargo.toml",
        "Cargo.lock",
        "agent-node",
        "registry",
        "blackboard",
        "protocol",
        "deploy",
        "docs",
        "tests",
        "README.md",
        "LICENSE",
        "clippy.toml",
        "rustfmt.toml",
        "rust-toolchain.toml",
    ]);
    let names = String::from_utf8(output.stdout).unwrap();
    let not_hidden = names.lines().filter(|name| !name.starts_with('.')).map(str::to_owned);
    let unexpected: Vec<_> = not_hidden.filter(|name| !allowed.contains(name)).collect();
    assert!(unexpected.is_empty(), "the top level has {unexpected:?}");
}
