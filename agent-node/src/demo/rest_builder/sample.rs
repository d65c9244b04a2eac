//! The tests that a thorough builder writes along with its code.

use super::{
    Style,
    names::{Names, ident},
    validation::{needs_store, whole_range},
};
use crate::demo::{
    spec::{Field, Kind, Operation},
    words,
};
use std::fmt::Write;

/// More resources than this are built alike; testing these will do.
const TESTED: usize = 8;

/// A test module for `names`, if there is anything to test.
pub(super) fn tests(out: &mut String, names: &[Names<'_>]) {
    let mut tests = String::new();
    let mut serves = false;
    for name in names.iter().take(TESTED) {
        let resource = name.resource;
        let is_whole = Operation::ALL.iter().all(|operation| resource.can(*operation));
        let needs_store = needs_store(name, names, Style::Thorough);
        let is_sent = resource.can(Operation::Create) || resource.can(Operation::Update);
        let refused =
            resource.fields.iter().find(|field| field.required && is_text(field)).filter(|_| is_sent);
        if !(is_whole && !needs_store || refused.is_some()) {
            continue;
        }
        sample(&mut tests, name);
        if let Some(field) = refused {
            refusal(&mut tests, name, field, needs_store);
        }
        if is_whole && !needs_store {
            round_trip(&mut tests, name);
            serves = true;
        }
    }
    if tests.is_empty() {
        return;
    }
    let http = if serves { "    use actix_web::{App, http::StatusCode, test as http};\n" } else { "" };
    let _ = write!(out, "\n#[cfg(test)]\nmod tests {{\n    use super::*;\n{http}{tests}}}\n");
}

fn is_text(field: &Field) -> bool {
    matches!(field.kind, Kind::String | Kind::Date | Kind::Email | Kind::Url)
}

fn sample(out: &mut String, name: &Names<'_>) {
    let _ = writeln!(out, "\n    fn sample_{}() -> {} {{\n        {} {{", name.one, name.input, name.input);
    for field in &name.resource.fields {
        let _ = writeln!(out, "            {}: {},", ident(&field.name), value(field));
    }
    out.push_str("        }\n    }\n");
}

fn value(field: &Field) -> String {
    let plain = match field.kind {
        Kind::String if field.name == "isbn" => "\"978-0-306-40615-7\".to_owned()".to_owned(),
        Kind::String => format!("{:?}.to_owned()", format!("some {}", words::spoken(&field.name))),
        Kind::Date => "\"2026-01-31\".to_owned()".to_owned(),
        Kind::Email => "\"ada@example.org\".to_owned()".to_owned(),
        Kind::Url => "\"https://example.org\".to_owned()".to_owned(),
        Kind::Integer => {
            if whole_range(&field.name).is_some_and(|(_, max)| max == "9999") { "2001" } else { "3" }
                .to_owned()
        }
        Kind::Decimal => "9.5".to_owned(),
        Kind::Boolean => "true".to_owned(),
        Kind::List => return "vec![\"one\".to_owned()]".to_owned(),
        Kind::Reference => "1".to_owned(),
    };
    if field.required { plain } else { format!("Some({plain})") }
}

fn refusal(out: &mut String, name: &Names<'_>, field: &Field, needs_store: bool) {
    let rest =
        if name.resource.fields.len() > 1 { format!(", ..sample_{}()", name.one) } else { String::new() };
    let store = if needs_store { "&Store::default()" } else { "" };
    let _ = writeln!(
        out,
        "\n    #[test]\n    fn {}_with_an_empty_{}_is_refused() {{\n        let item = {} {{\n            {}: String::new(){}\n        }};\n        \
         assert!(!item.problems({store}).is_empty());\n    }}",
        name.a().replace(' ', "_"),
        field.name,
        name.input,
        ident(&field.name),
        rest.replace(", ..", ",\n            ..")
    );
}

fn round_trip(out: &mut String, name: &Names<'_>) {
    let (one, ty, path) = (name.one, &name.ty, &name.path);
    let spoken = name.a().replace(' ', "_");
    let _ = writeln!(
        out,
        r#"
    #[actix_web::test]
    async fn {spoken}_comes_and_goes() {{
        let store = web::Data::new(Mutex::new(Store::default()));
        let app = http::init_service(App::new().app_data(store).configure(routes)).await;
        let body = sample_{one}();
        let create = http::TestRequest::post().uri("{path}");
        let create = create.set_json(&body).to_request();
        let created: {ty} =
            http::call_and_read_body_json(&app, create).await;
        let uri = format!("{path}/{{}}", created.id);
        for (request, expected) in [
            (http::TestRequest::get().uri(&uri), StatusCode::OK),
            (http::TestRequest::put().uri(&uri).set_json(&body), StatusCode::OK),
            (http::TestRequest::delete().uri(&uri), StatusCode::NO_CONTENT),
            (http::TestRequest::get().uri(&uri), StatusCode::NOT_FOUND),
        ] {{
            let answer = http::call_service(&app, request.to_request()).await;
            assert_eq!(answer.status(), expected);
        }}
    }}"#
    );
}
