//! A type's name says what it is without its module, so it is defined once in the workspace. Other people's programs use
//! the library `mesh-agent` and its crate `wire`, whose types have the names of the brain protocol.

use crate::architecture::sources::{CRATES, LIBRARY, files};
use std::collections::BTreeMap;
use syn::Item;

/// Names that each module may have of its own, by convention.
const PER_MODULE: &[&str] = &["Error", "Result", "Message", "Args", "Config"];

fn defined(item: &Item) -> Option<String> {
    let name = match item {
        Item::Struct(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

#[test]
fn a_type_name_is_defined_once_in_the_workspace() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in CRATES.iter().filter(|folder| **folder != LIBRARY).flat_map(|folder| files(folder)) {
        for name in file.items.iter().filter_map(defined) {
            places.entry(name).or_default().push(file.path.clone());
        }
    }
    places.retain(|name, paths| paths.len() > 1 && !PER_MODULE.contains(&name.as_str()));
    assert!(places.is_empty(), "{} names stand for several types: {places:#?}", places.len());
}
