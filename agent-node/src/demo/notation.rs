//! The notation of requests to the demo team:
//!
//! ```text
//! A library: books (title, isbn, year:int) and members (name, email)
//! ```
//!
//! - The text before the first colon is the title.
//! - After it follow the names of resources, separated by commas or `and`, each with its fields in brackets if it has any.
//! - Fields are separated in the same way. A field is `name` or `name:type`; the types are those of [`FieldType`].
//! - A name is lower-case words of letters and digits, joined by `_`; the first character is a letter.
//!
//! Everything else is an error that says what was expected.

use std::{collections::BTreeSet, fmt, iter::Peekable, str::SplitWhitespace};

pub(super) const EXAMPLE: &str = "A library: books (title, isbn, year:int) and members (name, email)";
/// The first name of a type is the one that is printed.
const TYPES: [(&str, FieldType); 6] = [
    ("text", FieldType::Text),
    ("int", FieldType::Int),
    ("float", FieldType::Float),
    ("number", FieldType::Float),
    ("bool", FieldType::Bool),
    ("date", FieldType::Date),
];
const MAX_TITLE_CHARS: usize = 100;
/// Identifiers that Rust does not accept, even as `r#…`.
const RESERVED: [&str; 3] = ["crate", "self", "super"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApiPlan {
    pub(super) title: String,
    pub(super) resources: Vec<ApiResource>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApiResource {
    pub(super) name: String,
    pub(super) fields: Vec<ApiField>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApiField {
    pub(super) name: String,
    pub(super) kind: FieldType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldType {
    Text,
    Int,
    Float,
    Bool,
    Date,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotationError {
    /// There is no colon, or no name after it.
    NothingNamed,
    /// Something is not in the notation: what, and what was expected.
    Invalid(String),
}

/// A description of the notation for error messages and questions.
pub(super) fn usage() -> String {
    format!(
        "Name the resources after a colon, separated by commas or `and`, each with its fields in brackets, \
         for example \"{EXAMPLE}\". A field's type follows its name after a colon: {}.",
        types()
    )
}

fn types() -> String {
    let names = TYPES.map(|(name, _)| name).join(", ");
    format!("{names}; text if there is none")
}

pub(super) fn read(text: &str) -> Result<ApiPlan, NotationError> {
    let (title, rest) = text.split_once(':').ok_or(NotationError::NothingNamed)?;
    let rest = rest.trim_end().trim_end_matches('.').to_owned();
    let rest = ["(", ")", ",", ":"].iter().fold(rest, |text, mark| text.replace(mark, &format!(" {mark} ")));
    let mut tokens = rest.split_whitespace().peekable();
    let resources = list(&mut tokens, resource)?;
    if tokens.next().is_some() {
        return Err(invalid("a closing bracket has no opening one"));
    }
    if resources.is_empty() {
        return Err(NotationError::NothingNamed);
    }
    // `a_1` and `a1` would be the same Rust type.
    unique("resource", resources.iter().map(|resource| resource.name.replace('_', "")))?;
    Ok(ApiPlan { title: printable(title), resources })
}

/// `title` for a comment in generated code: one line without control characters.
fn printable(title: &str) -> String {
    let words: Vec<_> = title.split_whitespace().collect();
    let is_plain = |c: &char| c.is_alphanumeric() || c.is_ascii_graphic() || *c == ' ';
    let title: String = words.join(" ").chars().filter(is_plain).take(MAX_TITLE_CHARS).collect();
    if title.is_empty() { "An API".to_owned() } else { title }
}

fn invalid(problem: impl Into<String>) -> NotationError {
    NotationError::Invalid(problem.into())
}

fn unique(what: &str, names: impl Iterator<Item = String>) -> Result<(), NotationError> {
    let mut known = BTreeSet::new();
    for name in names {
        if !known.insert(name.clone()) {
            return Err(invalid(format!("the {what} `{name}` is named twice")));
        }
    }
    Ok(())
}

type Tokens<'a> = Peekable<SplitWhitespace<'a>>;

fn take(tokens: &mut Tokens<'_>, token: &str) -> bool {
    tokens.next_if_eq(&token).is_some()
}

/// Items up to a closing bracket or the end.
fn list<T>(
    tokens: &mut Tokens<'_>,
    item: impl Fn(&mut Tokens<'_>) -> Result<T, NotationError>,
) -> Result<Vec<T>, NotationError> {
    let mut items = Vec::new();
    let mut is_separated = true;
    loop {
        while take(tokens, ",") || take(tokens, "and") {
            is_separated = true;
        }
        match tokens.peek() {
            None | Some(&")") => return Ok(items),
            Some(_) if is_separated => items.push(item(tokens)?),
            Some(token) => return Err(invalid(format!("expected a comma or `and` before `{token}`"))),
        }
        is_separated = false;
    }
}

fn resource(tokens: &mut Tokens<'_>) -> Result<ApiResource, NotationError> {
    let name = name(tokens)?;
    let mut fields = Vec::new();
    if take(tokens, "(") {
        fields = list(tokens, field)?;
        if !take(tokens, ")") {
            return Err(invalid(format!("the bracket after `{name}` is not closed")));
        }
    }
    unique("field", fields.iter().map(|field| field.name.clone()))?;
    Ok(ApiResource { name, fields })
}

fn field(tokens: &mut Tokens<'_>) -> Result<ApiField, NotationError> {
    let name = name(tokens)?;
    if name == "id" {
        return Err(invalid("every record has an `id`, which the server assigns: leave the field out"));
    }
    let kind = if take(tokens, ":") { tokens.next().unwrap_or_default() } else { "text" };
    let unknown = || invalid(format!("`{name}` has the unknown type `{kind}`; the types are {}", types()));
    let (_, kind) = *TYPES.iter().find(|(word, _)| *word == kind).ok_or_else(unknown)?;
    Ok(ApiField { name, kind })
}

fn name(tokens: &mut Tokens<'_>) -> Result<String, NotationError> {
    let name = tokens.next().unwrap_or_default();
    let is_word =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.split('_').all(is_word) {
        let expected = "lower-case letters, digits and single `_`, beginning with a letter";
        return Err(invalid(format!("`{name}` is not a name: use {expected}")));
    }
    if RESERVED.contains(&name) {
        return Err(invalid(format!("`{name}` cannot be a name in Rust")));
    }
    Ok(name.to_owned())
}

/// The plan in its notation.
impl fmt::Display for ApiPlan {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resources: Vec<_> = self.resources.iter().map(ToString::to_string).collect();
        write!(to, "{}: {}", self.title, resources.join(", "))
    }
}

impl fmt::Display for ApiResource {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let type_of = |field: &ApiField| TYPES.iter().find(|(_, kind)| *kind == field.kind);
        let fields = self.fields.iter().map(|field| match type_of(field) {
            Some((word, kind)) if *kind != FieldType::Text => format!("{}:{word}", field.name),
            Some(_) | None => field.name.clone(),
        });
        let fields: Vec<_> = fields.collect();
        if fields.is_empty() {
            return to.write_str(&self.name);
        }
        write!(to, "{} ({})", self.name, fields.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_fields_follow_the_first_colon() {
        let plan = read(EXAMPLE).unwrap();
        assert_eq!(plan.title, "A library");
        assert_eq!(plan.to_string(), "A library: books (title, isbn, year:int), members (name, email)");
        for (text, plan) in [
            ("x:a", "x: a"),
            (": a, and b and c.\n", "An API: a, b, c"),
            (
                "A\n zoo\u{202e}: a (b:text,c:number, d:float and e:bool, type:date)",
                "A zoo: a (b, c:float, d:float, e:bool, type:date)",
            ),
        ] {
            assert_eq!(read(text).unwrap().to_string(), plan, "{text}");
            assert_eq!(read(plan).unwrap().to_string(), plan);
        }
    }

    #[test]
    fn a_text_without_a_name_is_an_error_of_its_own() {
        for text in ["", "hm", "a library with books", "books (title)", "x:", "x: and ,."] {
            assert_eq!(read(text), Err(NotationError::NothingNamed), "{text}");
        }
    }

    #[test]
    fn an_error_says_what_was_expected() {
        for (text, part) in [
            ("x: a (b:money)", "`b` has the unknown type `money`; the types are text, int,"),
            ("x: a (b:)", "`b` has the unknown type `)`"),
            ("x: a b", "a comma or `and` before `b`"),
            ("x: a (b c)", "a comma or `and` before `c`"),
            ("x: a (b", "the bracket after `a` is not closed"),
            ("x: a)", "no opening"),
            ("x: a-b", "`a-b` is not a name: use lower-case"),
            ("x: a (startsAt)", "`startsAt` is not a name"),
            ("x: a__b", "`a__b` is not a name"),
            ("x: 1a", "`1a` is not a name"),
            ("x: self", "`self` cannot be a name"),
            ("x: a_1, a1", "the resource `a1` is named twice"),
            ("x: a (b, b:int)", "the field `b` is named twice"),
            ("x: a (id)", "leave the field out"),
        ] {
            let Err(NotationError::Invalid(problem)) = read(text) else { panic!("{text}: {:?}", read(text)) };
            assert!(problem.contains(part), "{text}: {problem}");
        }
    }
}
