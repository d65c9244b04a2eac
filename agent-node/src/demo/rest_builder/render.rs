//! Fills the files of `templates/demo` for a plan. In them, a line with a mark such as `%name%` stands for each of the items that
//! the mark is of.

use super::super::notation::{ApiField, ApiPlan, ApiResource, FieldType};

macro_rules! template {
    ($name:literal) => {
        include_str!(concat!("../../../templates/demo/", $name, ".txt"))
    };
}

pub(super) const CARGO: &str = template!("Cargo.toml");
pub(super) const SERVER: &str = template!("server.rs");

/// The parts that a review may ask for. A draft has none of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ReviewFixes {
    pub(super) docs: bool,
    pub(super) checks: bool,
    pub(super) tests: bool,
}

pub(super) fn main_rs(plan: &ApiPlan, fixes: ReviewFixes) -> String {
    let resources = &plan.resources;
    let mut fields = resources.iter().flat_map(|resource| &resource.fields);
    let has_dates = fixes.checks && fields.any(|field| field.kind == FieldType::Date);
    let date = has_dates.then(|| [block(template!("date.rs"))]);
    let tests = resources.iter().map(|resource| [block(&test(resource, fixes.checks))]);
    let tests = fixes.tests.then(|| [block(&repeat(template!("tests.rs"), ["%test%"], tests))]);
    let of_resource = resources.iter().map(|resource| {
        let (ident, name) = (ident(&resource.name), resource.name.clone());
        let record = block(&record(resource, fixes.checks));
        [ident, type_name(&name), name, resource.to_string(), record]
    });
    let marks = ["%ident%", "%type%", "%name%", "%resource%", "%record%"];
    let text = repeat(template!("main.rs"), marks, of_resource);
    let text = repeat(&text, ["%is_date%"], date.into_iter());
    let text = repeat(&text, ["%tests%"], tests.into_iter());
    let is_kept = |line: &&str| fixes.docs || !line.starts_with("///");
    let text: String = text.split_inclusive('\n').filter(is_kept).collect();
    // Last: it is any text.
    text.replace("%title%", &plan.title)
}

/// The lines of `template`. One with a mark is there once for each item, with the item's text for the mark.
fn repeat<const N: usize>(
    template: &str,
    marks: [&str; N],
    items: impl Iterator<Item = [String; N]> + Clone,
) -> String {
    let lines = template.split_inclusive('\n').flat_map(|line| -> Vec<String> {
        if !marks.iter().any(|mark| line.contains(mark)) {
            return vec![line.to_owned()];
        }
        let filled = |texts: [String; N]| {
            marks.iter().zip(&texts).fold(line.to_owned(), |line, (mark, text)| line.replace(mark, text))
        };
        items.clone().map(filled).collect()
    });
    lines.collect()
}

/// `text` for a line of its own.
fn block(text: &str) -> String {
    text.strip_suffix('\n').unwrap_or(text).to_owned()
}

fn record(resource: &ApiResource, has_checks: bool) -> String {
    let fields = resource.fields.iter().map(|field| [ident(&field.name), rust_type(field.kind).to_owned()]);
    let checks: String = resource.fields.iter().filter(|_| has_checks).map(check).collect();
    let check = match checks.as_str() {
        "" => checks,
        _ => format!("\n    fn check(&self) -> Result<(), String> {{\n{checks}        Ok(())\n    }}\n"),
    };
    let text = repeat(template!("record.rs"), ["%field%", "%rust%"], fields);
    let of_record = [resource.name.clone(), type_name(&resource.name), check];
    repeat(&text, ["%name%", "%type%", "%check%"], std::iter::once(of_record))
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

fn test(resource: &ApiResource, has_checks: bool) -> String {
    let name = &resource.name;
    let refused = resource.fields.iter().find(|field| has_checks && !check(field).is_empty());
    let refused = refused.map(|field| [name.clone(), sample(resource, Some(&field.name))]);
    let text = repeat(template!("test.rs"), ["%refusing%", "%invalid%"], refused.into_iter());
    repeat(&text, ["%name%", "%sample%"], std::iter::once([name.clone(), sample(resource, None)]))
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
