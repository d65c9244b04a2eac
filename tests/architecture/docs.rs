//! Every module, public type and public function says what it is. Fields and variants may be silent: their names say it.

use crate::architecture::sources::{CRATES, files};
use syn::{Attribute, ImplItem, Item, Visibility};

fn has_docs(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident("doc"))
}

/// The public items of `item` without docs, itself included.
fn without_docs(item: &Item) -> Vec<String> {
    let (attributes, visibility, name) = match item {
        Item::Struct(item) => (&item.attrs, &item.vis, &item.ident),
        Item::Enum(item) => (&item.attrs, &item.vis, &item.ident),
        Item::Trait(item) => (&item.attrs, &item.vis, &item.ident),
        Item::Type(item) => (&item.attrs, &item.vis, &item.ident),
        Item::Const(item) => (&item.attrs, &item.vis, &item.ident),
        Item::Fn(item) => (&item.attrs, &item.vis, &item.sig.ident),
        Item::Impl(item) if item.trait_.is_none() => {
            let silent = item.items.iter().filter_map(|item| match item {
                ImplItem::Fn(function)
                    if matches!(function.vis, Visibility::Public(_)) && !has_docs(&function.attrs) =>
                {
                    Some(function.sig.ident.to_string())
                }
                _ => None,
            });
            return silent.collect();
        }
        _ => return Vec::new(),
    };
    let is_silent = matches!(visibility, Visibility::Public(_)) && !has_docs(attributes);
    is_silent.then(|| name.to_string()).into_iter().collect()
}

#[test]
fn a_module_a_public_type_and_a_public_function_have_docs() {
    let mut silent = Vec::new();
    for file in CRATES.iter().flat_map(|folder| files(folder)) {
        if !file.has_docs {
            silent.push(file.path.clone());
        }
        silent.extend(file.items.iter().flat_map(without_docs).map(|name| format!("{}: {name}", file.path)));
    }
    assert!(silent.is_empty(), "without docs: {silent:#?}");
}
