//! The handler file as it first comes to mind.

use super::{
    Style,
    names::{Names, ident},
    sample, validation,
};
use crate::demo::spec::{Field, Kind, Operation, Spec};
use std::fmt::Write;

/// The file for `spec`. Writing to a text does not fail, so its results are not looked at.
pub(super) fn file(spec: &Spec, style: Style, author: &str) -> String {
    let names = Names::of(spec);
    let creates = spec.resources.iter().any(|resource| resource.can(Operation::Create));
    let mut out = String::new();
    let subject = format!("REST handlers for the {} API: {}.", spec.title, spec.names());
    for line in wrapped(&subject, 92) {
        let _ = writeln!(out, "//! {line}");
    }
    let _ = writeln!(
        out,
        "//!\n//! Written by {author} ({}). Data lives in memory and goes with the process.\n",
        style.word()
    );
    out.push_str("use actix_web::{HttpResponse, web};\nuse serde::{Deserialize, Serialize};\n");
    out.push_str("use std::{collections::BTreeMap, sync::Mutex};\n\n");
    out.push_str(
        "pub type Shared = web::Data<Mutex<Store>>;\n\n#[derive(Debug, Default)]\npub struct Store {\n",
    );
    if creates {
        out.push_str("    next_id: u64,\n");
    }
    for name in &names {
        let _ = writeln!(out, "    {}: BTreeMap<u64, {}>,", ident(&name.many), name.ty);
    }
    out.push_str("}\n\n");
    if creates {
        out.push_str("impl Store {\n    fn new_id(&mut self) -> u64 {\n        self.next_id += 1;\n        self.next_id\n    }\n}\n\n");
    }
    for name in &names {
        types(&mut out, name);
        validation::method(&mut out, name, &names, style);
        handlers(&mut out, name, &names, style);
        routes(&mut out, name);
    }
    out.push_str("pub fn routes(cfg: &mut web::ServiceConfig) {\n");
    for name in &names {
        let _ = writeln!(out, "    {}_routes(cfg);", name.one);
    }
    out.push_str("}\n");
    validation::helpers(&mut out, style);
    if style == Style::Thorough {
        sample::tests(&mut out, &names);
    }
    out
}

/// `text` in lines of at most `width`, broken at blanks.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A field's type in Rust.
pub(super) fn rust_type(field: &Field) -> String {
    let plain = match field.kind {
        Kind::String | Kind::Date | Kind::Email | Kind::Url => "String",
        Kind::Integer => "i64",
        Kind::Decimal => "f64",
        Kind::Boolean => "bool",
        Kind::List => return "Vec<String>".to_owned(),
        Kind::Reference => "u64",
    };
    if field.required { plain.to_owned() } else { format!("Option<{plain}>") }
}

fn types(out: &mut String, name: &Names<'_>) {
    let _ = writeln!(out, "#[derive(Debug, Clone, Serialize, Deserialize)]\npub struct {} {{", name.input);
    for field in &name.resource.fields {
        if !field.required {
            out.push_str("    #[serde(default)]\n");
        }
        let _ = writeln!(out, "    pub {}: {},", ident(&field.name), rust_type(field));
    }
    let _ = writeln!(out, "}}\n\n#[derive(Debug, Clone, Serialize, Deserialize)]\npub struct {} {{", name.ty);
    let _ = writeln!(out, "    pub id: u64,\n    #[serde(flatten)]\n    pub content: {},\n}}\n", name.input);
}

const CHECKED: &str = "    if !problems.is_empty() {\n        return HttpResponse::UnprocessableEntity().json(problems);\n    }\n";

fn handlers(out: &mut String, name: &Names<'_>, names: &[Names<'_>], style: Style) {
    let (one, many, ty, input) = (name.one, ident(&name.many), &name.ty, &name.input);
    let problems = validation::call(name, names, style);
    for operation in Operation::ALL.into_iter().filter(|operation| name.resource.can(*operation)) {
        let _ = match operation {
            Operation::List => writeln!(
                out,
                "pub async fn list_{}(store: Shared) -> HttpResponse {{\n    let store = store.lock().unwrap();\n    \
                 HttpResponse::Ok().json(store.{many}.values().collect::<Vec<_>>())\n}}\n",
                name.many
            ),
            Operation::Get => writeln!(
                out,
                "pub async fn get_{one}(store: Shared, id: web::Path<u64>) -> HttpResponse {{\n    let store = store.lock().unwrap();\n    \
                 match store.{many}.get(&id.into_inner()) {{\n        Some(item) => HttpResponse::Ok().json(item),\n        \
                 None => HttpResponse::NotFound().finish(),\n    }}\n}}\n"
            ),
            Operation::Create => writeln!(
                out,
                "pub async fn create_{one}(store: Shared, body: web::Json<{input}>) -> HttpResponse {{\n    \
                 let mut store = store.lock().unwrap();\n    let content = body.into_inner();\n    {problems}\n{CHECKED}    \
                 let item = {ty} {{ id: store.new_id(), content }};\n    store.{many}.insert(item.id, item.clone());\n    \
                 HttpResponse::Created().json(item)\n}}\n"
            ),
            Operation::Update => writeln!(
                out,
                "pub async fn update_{one}(store: Shared, id: web::Path<u64>, body: web::Json<{input}>) -> HttpResponse {{\n    \
                 let mut store = store.lock().unwrap();\n    let content = body.into_inner();\n    {problems}\n{CHECKED}    \
                 match store.{many}.get_mut(&id.into_inner()) {{\n        Some(item) => {{\n            item.content = content;\n            \
                 HttpResponse::Ok().json(item)\n        }}\n        None => HttpResponse::NotFound().finish(),\n    }}\n}}\n"
            ),
            Operation::Delete => writeln!(
                out,
                "pub async fn delete_{one}(store: Shared, id: web::Path<u64>) -> HttpResponse {{\n    \
                 let mut store = store.lock().unwrap();\n    match store.{many}.remove(&id.into_inner()) {{\n        \
                 Some(_) => HttpResponse::NoContent().finish(),\n        None => HttpResponse::NotFound().finish(),\n    }}\n}}\n"
            ),
        };
    }
}

fn routes(out: &mut String, name: &Names<'_>) {
    let can = |operation| name.resource.can(operation);
    let service = |path: String, routes: [Option<String>; 3]| {
        let routes: Vec<_> = routes.into_iter().flatten().collect();
        let lines = routes.iter().map(|route| format!("\n            .route({route})")).collect::<String>();
        if routes.is_empty() {
            return String::new();
        }
        format!("    cfg.service(\n        web::resource(\"{path}\"){lines},\n    );\n")
    };
    let route = |operation, method: &str, function: String| {
        can(operation).then(|| format!("web::{method}().to({function})"))
    };
    let one = name.one;
    let all = service(
        name.path.clone(),
        [
            route(Operation::List, "get", format!("list_{}", name.many)),
            route(Operation::Create, "post", format!("create_{one}")),
            None,
        ],
    );
    let each = service(
        format!("{}/{{id}}", name.path),
        [
            route(Operation::Get, "get", format!("get_{one}")),
            route(Operation::Update, "put", format!("update_{one}")),
            route(Operation::Delete, "delete", format!("delete_{one}")),
        ],
    );
    let _ = writeln!(out, "fn {one}_routes(cfg: &mut web::ServiceConfig) {{\n{all}{each}}}\n");
}
