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

/// Whether there is a test, named by its package, its file (`lib` for a unit test) and its function.
fn is_test(named: &str, metadata: &serde_json::Value) -> bool {
    let [package, file, function] = named.split(' ').collect::<Vec<_>>()[..] else { return false };
    let packages = metadata["packages"].as_array().unwrap();
    let targets =
        packages.iter().filter(|one| one["name"] == package).flat_map(|one| one["targets"].as_array());
    let mut sources = targets
        .flatten()
        .filter(|target| target["kind"][0] == if file == "lib" { "lib" } else { "test" })
        .filter(|target| file == "lib" || target["name"] == file)
        .map(|target| Path::new(target["src_path"].as_str().unwrap()).to_owned());
    let modules: Vec<_> = function.split("::").collect();
    let Some((function, modules)) = modules.split_last() else { return false };
    sources.any(|source| {
        let file = source.with_file_name(modules.join("/")).with_extension("rs");
        let file = if modules.is_empty() { source } else { file };
        std::fs::read_to_string(file).is_ok_and(|source| source.contains(&format!("fn {function}()")))
    })
}
