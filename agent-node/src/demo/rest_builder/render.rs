//! Renders the crate for a plan. It depends on serde only.

use super::super::notation::{ApiField, ApiPlan, ApiResource, FieldType};
use std::fmt::Write;

pub(super) const CARGO: &str = include_str!("template/Cargo.toml.txt");
pub(super) const SERVER: &str = include_str!("template/server.rs");

/// The parts that a review may ask for. A draft has none of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ReviewFixes {
    pub(super) docs: bool,
    pub(super) checks: bool,
    pub(super) tests: bool,
}

/// `src/main.rs`.
pub(super) fn main_rs(plan: &ApiPlan, fixes: ReviewFixes) -> String {
    let resources = &plan.resources;
    let mut out = format!("//! {}\n//!\n", plan.title);
    for resource in resources {
        let name = &resource.name;
        let _ = writeln!(out, "//! - `/{name}`: GET, POST; `/{name}/{{id}}`: GET, PUT, DELETE. {resource}");
    }
    out += "\nmod server;\n\nuse serde::{Deserialize, Serialize};\n";
    out += "use server::{Record, Request, Response, Table, error};\nuse std::sync::{Mutex, PoisonError};\n";
    for resource in resources {
        record(&mut out, resource, fixes);
    }
    if fixes.checks && fields(plan).any(|field| field.kind == FieldType::Date) {
        out += IS_DATE;
    }
    let doc = if fixes.docs { "/// All records.\n" } else { "" };
    let tables = lines(resources, |resource| {
        format!("    {}: Table<{}>,\n", ident(&resource.name), type_name(&resource.name))
    });
    let routes = lines(resources, |resource| {
        format!("        {:?} => store.{}.answer(request),\n", resource.name, ident(&resource.name))
    });
    let _ = write!(
        out,
        "
{doc}#[derive(Default)]
struct Store {{
{tables}}}

fn answer(store: &mut Store, request: &Request) -> Response {{
    match request.resource() {{
{routes}        other => error(404, format!(\"there is no resource {{other:?}}\")),
    }}
}}

fn main() -> std::io::Result<()> {{
    let address = std::env::args().nth(1).unwrap_or_else(|| \"127.0.0.1:8080\".to_owned());
    let store = Mutex::new(Store::default());
    server::serve(&address, |request| {{
        let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
        answer(&mut store, request)
    }})
}}
"
    );
    if fixes.tests {
        let tests = lines(resources, |resource| test(resource, fixes.checks));
        let _ = write!(out, "\n#[cfg(test)]\nmod tests {{\n    use super::*;\n{tests}}}\n");
    }
    out
}

fn record(out: &mut String, resource: &ApiResource, fixes: ReviewFixes) {
    let name = type_name(&resource.name);
    let doc = if fixes.docs { format!("/// A record of `{}`.\n", resource.name) } else { String::new() };
    let members =
        lines(&resource.fields, |field| format!("    {}: {},\n", ident(&field.name), rust_type(field.kind)));
    let checks = lines(&resource.fields, check);
    let check = if fixes.checks && !checks.is_empty() {
        format!("{{\n    fn check(&self) -> Result<(), String> {{\n{checks}        Ok(())\n    }}\n}}")
    } else {
        "{}".to_owned()
    };
    let _ = write!(
        out,
        "\n{doc}#[derive(Debug, Deserialize, Serialize)]\n#[serde(deny_unknown_fields)]\nstruct {name} {{\n{members}}}\n\nimpl Record for {name} {check}\n"
    );
}

/// The code that checks a field; empty if every value of its Rust type is valid.
fn check(field: &ApiField) -> String {
    let (name, ident) = (&field.name, ident(&field.name));
    let (is_wrong, expected) = match field.kind {
        FieldType::Text => (format!("self.{ident}.trim().is_empty()"), "must not be empty"),
        FieldType::Date => (format!("!is_date(&self.{ident})"), "must be a date, YYYY-MM-DD"),
        FieldType::Int | FieldType::Float | FieldType::Bool => return String::new(),
    };
    format!(
        "        if {is_wrong} {{\n            return Err(\"{name} {expected}\".to_owned());\n        }}\n"
    )
}

const IS_DATE: &str = r#"
fn is_date(text: &str) -> bool {
    let parts: Vec<u32> = text.split('-').filter_map(|part| part.parse().ok()).collect();
    let [year, month, day] = parts[..] else { return false };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    text == format!("{year:04}-{month:02}-{day:02}") && (1..=days).contains(&day)
}
"#;

fn test(resource: &ApiResource, has_checks: bool) -> String {
    let name = &resource.name;
    let sample = sample(resource, None);
    let refused = resource.fields.iter().find(|field| has_checks && !check(field).is_empty());
    let refused = refused.map(|field| {
        let invalid = self::sample(resource, Some(&field.name));
        format!("        let invalid = r#\"{invalid}\"#;\n        assert_eq!(call(\"POST\", \"/{name}\", invalid).0, 400);\n")
    });
    format!(
        "
    #[test]
    fn {name}_are_created_shown_and_deleted() {{
        let mut store = Store::default();
        let mut call = |method, path: &str, body| answer(&mut store, &Request::new(method, path, body));
        let record = r#\"{sample}\"#;
        let (status, created) = call(\"POST\", \"/{name}\", record);
        assert_eq!(status, 201, \"{{created}}\");
        let path = format!(\"/{name}/{{}}\", created[\"id\"]);
        assert_eq!(call(\"GET\", &path, \"\"), (200, created));
        assert_eq!(call(\"PUT\", &path, record).0, 200);
        assert_eq!(call(\"DELETE\", &path, \"\").0, 204);
        assert_eq!(call(\"GET\", &path, \"\").0, 404);
{}    }}
",
        refused.unwrap_or_default()
    )
}

/// A sample record as JSON; the field `empty` is an empty text.
fn sample(resource: &ApiResource, empty: Option<&str>) -> String {
    let value = |field: &ApiField| match field.kind {
        _ if empty == Some(field.name.as_str()) => "\"\"",
        FieldType::Text => "\"text\"",
        FieldType::Int => "1",
        FieldType::Float => "1.5",
        FieldType::Bool => "true",
        FieldType::Date => "\"2024-02-29\"",
    };
    let members: Vec<_> =
        resource.fields.iter().map(|field| format!("\"{}\":{}", field.name, value(field))).collect();
    format!("{{{}}}", members.join(","))
}

fn rust_type(kind: FieldType) -> &'static str {
    match kind {
        FieldType::Text | FieldType::Date => "String",
        FieldType::Int => "i64",
        FieldType::Float => "f64",
        FieldType::Bool => "bool",
    }
}

/// The type for a resource: `OrderItemsRecord` for `order_items`. The suffix avoids names of the standard library.
fn type_name(name: &str) -> String {
    let capital = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    name.split('_').map(capital).chain(["Record".to_owned()]).collect()
}

fn ident(name: &str) -> String {
    const KEYWORDS: &str = " abstract as async await become box break const continue do dyn else enum extern \
        false final fn for gen if impl in let loop macro match mod move mut override priv pub ref return static struct \
        trait true try type typeof unsafe unsized use virtual where while yield ";
    if KEYWORDS.contains(&format!(" {name} ")) { format!("r#{name}") } else { name.to_owned() }
}

fn fields(plan: &ApiPlan) -> impl Iterator<Item = &ApiField> {
    plan.resources.iter().flat_map(|resource| &resource.fields)
}

fn lines<T>(of: &[T], line: impl Fn(&T) -> String) -> String {
    of.iter().map(line).collect()
}
