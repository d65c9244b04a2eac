//! Files of different folders do not import each other in a circle, and of one folder only those that `docs/architecture.md` names.
//! `name.rs` belongs to the folder `name` beside it.

use crate::architecture::sources::{CRATES, SourceFile, files};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};
use syn::{UseTree, visit::Visit};

/// The paths of modules and items that a file names.
struct NamedPaths<'a> {
    module: &'a [String],
    paths: BTreeSet<Vec<String>>,
}

impl NamedPaths<'_> {
    /// `path` from the crate's root on; none for one of another crate, or of the file itself.
    fn insert(&mut self, path: &[String]) {
        let (mut base, mut rest) = (self.module.to_vec(), path);
        match path.first().map(String::as_str) {
            Some("crate") => (base, rest) = (Vec::new(), &path[1..]),
            Some("self") => rest = &path[1..],
            Some("super") => {
                while let Some(("super", after)) =
                    rest.split_first().map(|(first, after)| (first.as_str(), after))
                {
                    base.pop();
                    rest = after;
                }
            }
            _ => {}
        }
        base.extend_from_slice(rest);
        self.paths.insert(base);
    }

    fn insert_tree(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.insert_tree(&with(&path.ident), &path.tree),
            UseTree::Name(name) => self.insert(&with(&name.ident)),
            UseTree::Rename(name) => self.insert(&with(&name.ident)),
            UseTree::Glob(_) => self.insert(before),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.insert_tree(before, tree)),
        }
    }
}

impl<'ast> Visit<'ast> for NamedPaths<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // A module hands on what its own parts define: no import of the parts' concern.
        if matches!(item.vis, syn::Visibility::Inherited) {
            self.insert_tree(&[], &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if names.len() > 1 {
            self.insert(&names);
        }
        syn::visit::visit_path(self, path);
    }
}

/// The paths that `file` names, each from the crate's root on.
fn named_paths(file: &SourceFile) -> BTreeSet<Vec<String>> {
    let mut named = NamedPaths { module: &file.module, paths: BTreeSet::new() };
    file.items.iter().for_each(|item| named.visit_item(item));
    named.paths
}

/// Which file imports which, by their positions in `files`.
fn imports(files: &[SourceFile]) -> Vec<BTreeSet<usize>> {
    let position: BTreeMap<_, _> =
        files.iter().enumerate().map(|(at, file)| (file.module.clone(), at)).collect();
    let imported = |at: usize, file: &SourceFile| {
        let target = |path: &Vec<String>| {
            let longest = (1..=path.len()).rev().find_map(|length| position.get(&path[..length]));
            longest.copied().filter(|target| *target != at)
        };
        named_paths(file).iter().filter_map(target).collect()
    };
    files.iter().enumerate().map(|(at, file)| imported(at, file)).collect()
}

fn reachable(from: usize, imports: &[BTreeSet<usize>]) -> BTreeSet<usize> {
    let (mut found, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(at) = next.pop() {
        next.extend(imports[at].iter().copied().filter(|target| found.insert(*target)));
    }
    found
}

/// The folder directly under `src` that a file belongs to, if any.
fn folder<'a>(file: &'a SourceFile, files: &[SourceFile]) -> Option<&'a String> {
    let first = file.module.first()?;
    files.iter().any(|other| other.module.len() > 1 && other.module[0] == *first).then_some(first)
}

/// The groups of files that import each other in a circle.
fn circles(imports: &[BTreeSet<usize>]) -> BTreeSet<Vec<usize>> {
    let reach: Vec<_> = (0..imports.len()).map(|at| reachable(at, imports)).collect();
    let circle = |at: usize| reach[at].iter().copied().filter(|other| reach[*other].contains(&at)).collect();
    (0..imports.len()).map(circle).filter(|circle: &Vec<_>| !circle.is_empty()).collect()
}

#[test]
fn folders_do_not_import_each_other_in_circles() {
    let mut found = Vec::new();
    for files in CRATES.iter().map(|folder| files(folder)) {
        for circle in circles(&imports(&files)) {
            let folders: BTreeSet<_> = circle.iter().map(|at| folder(&files[*at], &files)).collect();
            if folders.len() > 1 {
                found.push(circle.iter().map(|at| files[*at].path.clone()).collect::<Vec<_>>());
            }
        }
    }
    assert!(found.is_empty(), "files of several folders import each other: {found:#?}");
}

/// What lies directly in `src` of the node, a folder with the file beside it or a file, imports only what is below it.
#[test]
fn the_parts_of_the_node_do_not_import_each_other_in_circles() {
    let files = files("agent-node");
    let names: BTreeSet<_> = files.iter().filter_map(|file| file.module.first()).collect();
    let names: Vec<_> = names.into_iter().collect();
    let part = |file: usize| names.iter().position(|name| Some(*name) == files[file].module.first());
    let mut parts = vec![BTreeSet::new(); names.len()];
    for (file, imported) in imports(&files).iter().enumerate() {
        let Some(own) = part(file) else { continue };
        parts[own].extend(imported.iter().filter_map(|other| part(*other)).filter(|other| *other != own));
    }
    let of_names = |circle: Vec<usize>| circle.iter().map(|at| names[*at].clone()).collect::<Vec<_>>();
    let found: Vec<_> = circles(&parts).into_iter().map(of_names).collect();
    assert!(found.is_empty(), "parts of the node import each other: {found:#?}");
}

/// As [`imports`], without those between a file and the files of its own folder.
fn imports_beside(files: &[SourceFile]) -> Vec<BTreeSet<usize>> {
    let mut imports = imports(files);
    for (at, imported) in imports.iter_mut().enumerate() {
        let own = &files[at].module;
        imported.retain(|other| {
            let other = &files[*other].module;
            !own.starts_with(other) && !other.starts_with(own)
        });
    }
    imports
}

/// Each machine of the engine is given what it needs of the others. A file and those in its folder count as one.
#[test]
fn the_machines_of_the_engine_do_not_import_each_other_in_circles() {
    let files = files("agent-node/engine");
    let paths = |circle: Vec<usize>| circle.iter().map(|at| files[*at].path.clone()).collect::<Vec<_>>();
    let found: Vec<_> = circles(&imports_beside(&files)).into_iter().map(paths).collect();
    assert!(found.is_empty(), "files of the engine import each other: {found:#?}");
}

/// The files that may import each other in a circle: paths, or a folder. The architecture says why.
const CIRCLES: &[&[&str]] = &[
    &["agent-node/src/config/"],
    &["agent-node/src/http/routes/traces/collect.rs", "agent-node/src/http/routes/traces/reactions.rs"],
    &[
        "protocol/patterns/src/session/host_work.rs",
        "protocol/patterns/src/session/discussion.rs",
        "protocol/patterns/src/session/summary.rs",
        "protocol/patterns/src/session/workspace.rs",
    ],
    &["protocol/patterns/src/view.rs", "protocol/patterns/src/work/hosting.rs"],
];
const _: () = assert!(CIRCLES.len() <= 6);

#[test]
fn only_files_that_the_architecture_names_import_each_other_in_circles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let architecture = std::fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    for path in CIRCLES.iter().flat_map(|circle| circle.iter()) {
        assert!(architecture.contains(&format!("`{path}`")), "docs/architecture.md does not name {path}");
    }
    let mut found = Vec::new();
    for files in CRATES.iter().map(|folder| files(folder)) {
        for circle in circles(&imports_beside(&files)) {
            let paths: Vec<_> = circle.iter().map(|at| files[*at].path.clone()).collect();
            let is_in =
                |named: &&[&str]| paths.iter().all(|path| named.iter().any(|part| path.starts_with(part)));
            if !CIRCLES.iter().any(is_in) {
                found.push(paths);
            }
        }
    }
    assert!(found.is_empty(), "files import each other in a circle: {found:#?}");
}

/// Modules of the crate `patterns`, each with the only parts of a session that it may import.
const BELOW_SESSIONS: &[(&str, &[&str])] = &[
    ("chunk", &[]),
    ("effect", &[]),
    ("speech", &[]),
    ("turn", &[]),
    ("turn_log", &[]),
    ("turn_record", &[]),
    ("session::names", &[]),
    ("session::graph", &["graph", "names"]),
];

#[test]
fn what_a_session_is_built_on_imports_none_of_its_rules() {
    let files = files("protocol/patterns");
    for (module, allowed) in BELOW_SESSIONS {
        let mut below = files.iter().filter(|file| file.module.join("::").starts_with(module)).peekable();
        assert!(below.peek().is_some(), "there is no {module}");
        for (file, path) in below.flat_map(|file| named_paths(file).into_iter().map(move |path| (file, path)))
        {
            let part = path.strip_prefix(&["session".to_owned()]);
            let is_rule =
                part.is_some_and(|part| part.first().is_none_or(|part| !allowed.contains(&part.as_str())));
            assert!(!is_rule, "{} imports {}", file.path, path.join("::"));
        }
    }
}
