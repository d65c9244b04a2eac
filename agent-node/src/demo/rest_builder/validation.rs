//! What the generated code checks of what it is sent.

use super::{
    Style,
    names::{Names, ident},
};
use crate::demo::spec::{Field, Kind, Operation};
use std::fmt::Write;

/// Whether callers can send one at all.
fn is_sent(name: &Names<'_>) -> bool {
    name.resource.can(Operation::Create) || name.resource.can(Operation::Update)
}

/// The resource of this file that `field` refers to.
fn target<'a>(field: &Field, names: &'a [Names<'a>]) -> Option<&'a Names<'a>> {
    let target = field.refers_to.as_ref()?;
    names.iter().find(|name| name.one == target)
}

/// Whether checking one takes a look at the others.
pub(super) fn needs_store(name: &Names<'_>, names: &[Names<'_>], style: Style) -> bool {
    style == Style::Thorough && name.resource.fields.iter().any(|field| target(field, names).is_some())
}

/// The statement by which a handler checks what it got.
pub(super) fn call(name: &Names<'_>, names: &[Names<'_>], style: Style) -> String {
    let store = if needs_store(name, names, style) { "&store" } else { "" };
    format!("let problems = content.problems({store});")
}

/// The method that finds what is wrong with one.
pub(super) fn method(out: &mut String, name: &Names<'_>, names: &[Names<'_>], style: Style) {
    if !is_sent(name) {
        return;
    }
    let checks: Vec<_> = name.resource.fields.iter().filter_map(|field| check(field, names, style)).collect();
    let store = if needs_store(name, names, style) { ", store: &Store" } else { "" };
    let _ = writeln!(out, "impl {} {{\n    fn problems(&self{store}) -> Vec<String> {{", name.input);
    if checks.is_empty() {
        out.push_str("        Vec::new()\n");
    } else {
        out.push_str("        let mut problems = Vec::new();\n");
        checks.iter().for_each(|check| out.push_str(check));
        out.push_str("        problems\n");
    }
    out.push_str("    }\n}\n\n");
}

fn check(field: &Field, names: &[Names<'_>], style: Style) -> Option<String> {
    let value = format!("self.{}", ident(&field.name));
    let text = if field.required { format!("Some({value}.as_str())") } else { format!("{value}.as_deref()") };
    let number = if field.required { format!("Some({value})") } else { value.clone() };
    let is_thorough = style == Style::Thorough;
    let (helper, args) = match field.kind {
        Kind::String | Kind::Date | Kind::Email | Kind::Url if !is_thorough => {
            if !field.required {
                return None;
            }
            ("check_text", vec![text])
        }
        Kind::String if field.name == "isbn" => ("check_isbn", vec![text]),
        Kind::String => ("check_text", vec![text]),
        Kind::Date => ("check_date", vec![text]),
        Kind::Email => ("check_email", vec![text]),
        Kind::Url => ("check_url", vec![text]),
        Kind::Integer if is_thorough => {
            let (min, max) = whole_range(&field.name)?;
            ("check_whole", vec![number, min.to_owned(), max.to_owned()])
        }
        Kind::Decimal if is_thorough && is_positive(&field.name) => ("check_amount", vec![number]),
        Kind::List if is_thorough => ("check_list", vec![format!("&{value}")]),
        Kind::Reference if is_thorough => {
            let many = ident(&target(field, names)?.many);
            let is_known = match field.required {
                true => format!("store.{many}.contains_key(&{value})"),
                false => format!("{value}.is_none_or(|id| store.{many}.contains_key(&id))"),
            };
            ("check_known", vec![is_known])
        }
        Kind::Integer | Kind::Decimal | Kind::Boolean | Kind::List | Kind::Reference => return None,
    };
    let mut all = vec!["&mut problems".to_owned(), format!("{:?}", field.name)];
    all.extend(args);
    let line = format!("        {helper}({});\n", all.join(", "));
    Some(if line.len() <= 100 {
        line
    } else {
        format!("        {helper}(\n            {},\n        );\n", all.join(",\n            "))
    })
}

pub(super) fn whole_range(name: &str) -> Option<(&'static str, &'static str)> {
    Some(match name.rsplit('_').next()? {
        "year" => ("0", "9999"),
        "age" => ("0", "150"),
        "count" | "quantity" | "stock" | "pages" | "size" | "capacity" | "votes" | "points" | "stars"
        | "servings" | "minutes" | "seconds" | "hours" | "duration" => ("0", "1_000_000_000"),
        _ => return None,
    })
}

fn is_positive(name: &str) -> bool {
    let last = name.rsplit('_').next().unwrap_or(name);
    matches!(
        last,
        "price" | "amount" | "total" | "cost" | "rate" | "salary" | "weight" | "height" | "fee" | "discount"
    )
}

/// The functions that the checks call, as far as the file calls them.
pub(super) fn helpers(out: &mut String, style: Style) {
    let text = match style {
        Style::Thorough => include_str!("helpers/text.txt"),
        Style::Quick => include_str!("helpers/text_quick.txt"),
    };
    let all = [
        ("check_isbn(", include_str!("helpers/isbn.txt")),
        ("check_date(", include_str!("helpers/date.txt")),
        ("check_email(", include_str!("helpers/email.txt")),
        ("check_url(", include_str!("helpers/url.txt")),
        ("check_whole(", include_str!("helpers/whole.txt")),
        ("check_amount(", include_str!("helpers/amount.txt")),
        ("check_list(", include_str!("helpers/list.txt")),
        ("check_known(", include_str!("helpers/known.txt")),
        ("check_text(", text),
    ];
    for (call, code) in all {
        if out.contains(call) {
            out.push('\n');
            out.push_str(code);
        }
    }
}
