//! The faults of `tests/faults`: `tests/faults/run` puts each into a copy of the sources and expects that the test it names fails.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

#[test]
fn every_fault_applies_and_names_a_test() {
    let metadata = crate::cargo_metadata();
    let mut wrong = Vec::new();
    let mut faults = 0;
    for entry in std::fs::read_dir(root().join("tests/faults")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "patch") {
            continue;
        }
        faults += 1;
        let applied = Command::new("git").args(["apply", "--check"]).arg(&path).current_dir(root()).output();
        let why = String::from_utf8(applied.unwrap().stderr).unwrap();
        if !why.is_empty() {
            wrong.push(format!("{}: {why}", path.display()));
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let named = text.lines().find_map(|line| line.strip_prefix("Fails: ")).unwrap_or_default();
        if !is_test(named, &metadata) {
            wrong.push(format!("{}: there is no test {named:?}", path.display()));
        }
    }
    assert!(faults > 0 && wrong.is_empty(), "{wrong:#?}");
}

/// Whether there is a test, named by its package, its file and its function.
fn is_test(named: &str, metadata: &serde_json::Value) -> bool {
    let [package, file, function] = named.split(' ').collect::<Vec<_>>()[..] else { return false };
    let packages = metadata["packages"].as_array().unwrap();
    let targets =
        packages.iter().filter(|one| one["name"] == package).flat_map(|one| one["targets"].as_array());
    let mut sources = targets
        .flatten()
        .filter(|target| target["name"] == file && target["kind"][0] == "test")
        .map(|target| std::fs::read_to_string(target["src_path"].as_str().unwrap()).unwrap());
    sources.any(|source| source.contains(&format!("fn {function}()")))
}
