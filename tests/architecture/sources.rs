//! The sources of the workspace's crates, parsed.

use std::path::{Path, PathBuf};
use syn::Item;

/// The folder of the library for other people's brains.
pub(crate) const LIBRARY: &str = "agent-node/mesh-agent";

/// The folders of our crates, from the root of the workspace.
pub(crate) const CRATES: &[&str] = &[
    "protocol",
    "protocol/patterns",
    "protocol/transport",
    "blackboard/store-types",
    "blackboard/store",
    "blackboard/supervisor",
    "blackboard",
    "registry",
    "agent-node/engine",
    "agent-node/child-process",
    "agent-node/console",
    LIBRARY,
    "agent-node",
];

/// One file of a crate.
pub(crate) struct SourceFile {
    /// From the root of the workspace.
    pub(crate) path: String,
    /// The names of the modules down to this one; none for the crate's root.
    pub(crate) module: Vec<String>,
    /// Whether it begins with docs of its own.
    pub(crate) has_docs: bool,
    /// What it holds, without items that are built for tests only.
    pub(crate) items: Vec<Item>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The files of a crate, those of its tests left out.
pub(crate) fn files(folder: &str) -> Vec<SourceFile> {
    let src = root().join(folder).join("src");
    let (mut folders, mut files) = (vec![src.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            let is_for_tests = name == "tests" || name.ends_with("_tests");
            if path.is_dir() && !is_for_tests {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !is_for_tests {
                let inside = path.strip_prefix(&src).unwrap().with_extension("");
                let module = inside.iter().map(|part| part.to_str().unwrap().to_owned());
                let module = module.filter(|part| part != "lib" && part != "main").collect();
                let text = std::fs::read_to_string(&path).unwrap();
                let parsed =
                    syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                let has_docs = parsed.attrs.iter().any(|attribute| attribute.path().is_ident("doc"));
                let items = parsed.items.into_iter().filter(|item| !is_for_tests_only(item)).collect();
                let path = path.strip_prefix(root()).unwrap().display().to_string();
                files.push(SourceFile { path, module, has_docs, items });
            }
        }
    }
    assert!(!files.is_empty(), "no sources in {folder}");
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn is_for_tests_only(item: &Item) -> bool {
    let attributes = match item {
        Item::Mod(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => return false,
    };
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"))
    })
}
