//! Names for the generated code: unique, and none that Rust or the file itself has taken.

use crate::demo::{
    spec::{Resource, Spec},
    words,
};
use std::collections::BTreeSet;

const TYPES: [&str; 22] = [
    "Store",
    "String",
    "Vec",
    "Option",
    "Result",
    "Self",
    "Box",
    "Some",
    "None",
    "Ok",
    "Err",
    "Mutex",
    "BTreeMap",
    "Serialize",
    "Deserialize",
    "HttpResponse",
    "Shared",
    "Default",
    "App",
    "Debug",
    "Clone",
    "PoisonError",
];

const KEYWORDS: &str = " abstract as async await become box break const continue do dyn else enum extern false final fn for gen if impl in \
let loop macro match mod move mut override priv pub ref return static struct trait true try type typeof unsafe unsized use virtual \
where while yield ";

/// What a resource is called in the code.
pub(super) struct Names<'a> {
    pub(super) resource: &'a Resource,
    pub(super) one: &'a str,
    pub(super) many: String,
    pub(super) ty: String,
    pub(super) input: String,
    pub(super) path: String,
}

impl Names<'_> {
    pub(super) fn of(spec: &Spec) -> Vec<Names<'_>> {
        let mut types: BTreeSet<String> = TYPES.into_iter().map(str::to_owned).collect();
        let mut manies = BTreeSet::new();
        let names = spec.resources.iter().map(|resource| {
            let mut ty = words::pascal(&resource.name);
            while types.contains(&ty) || types.contains(&format!("{ty}Input")) {
                ty.push_str("Record");
            }
            let input = format!("{ty}Input");
            types.extend([ty.clone(), input.clone()]);
            let mut many = words::plural(&resource.name);
            while manies.contains(&many) {
                many.push_str("_list");
            }
            manies.insert(many.clone());
            let path = format!("/{}", many.replace('_', "-"));
            Names { resource, one: &resource.name, many, ty, input, path }
        });
        names.collect()
    }

    /// "a book", "an order".
    pub(super) fn a(&self) -> String {
        words::a(&words::spoken(self.one))
    }
}

/// A field's name as an identifier.
pub(super) fn ident(name: &str) -> String {
    match name {
        "self" | "super" | "crate" => format!("{name}_value"),
        _ if KEYWORDS.contains(&format!(" {name} ")) => format!("r#{name}"),
        _ => name.to_owned(),
    }
}
