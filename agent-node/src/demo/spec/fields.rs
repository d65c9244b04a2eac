//! What a field's words say of its type.

use super::{Field, Kind, ties::OPTIONALLY};
use crate::demo::words;

const ARTICLES: [&str; 17] = [
    "a", "an", "the", "its", "their", "his", "her", "some", "one", "own", "and", "also", "with", "has",
    "have", "having", "or",
];

/// Where a field's name has ended and prose goes on.
const CUTS: [&str; 22] = [
    "who", "that", "which", "so", "to", "for", "where", "when", "can", "must", "should", "is", "are", "in",
    "on", "per", "they", "as", "from", "may", "will", "by",
];

/// The type that `word` names.
pub(super) fn kind_named(word: &str) -> Option<Kind> {
    Some(match word.to_lowercase().trim_end_matches('?') {
        "string" | "str" | "text" | "varchar" | "char" | "uuid" | "markdown" => Kind::String,
        "int" | "integer" | "number" | "long" | "i32" | "i64" | "u32" | "u64" | "bigint" | "numeric" => {
            Kind::Integer
        }
        "float" | "decimal" | "double" | "money" | "f32" | "f64" | "currency" | "real" => Kind::Decimal,
        "bool" | "boolean" | "flag" => Kind::Boolean,
        "date" | "datetime" | "timestamp" | "time" => Kind::Date,
        "email" => Kind::Email,
        "url" | "uri" | "link" => Kind::Url,
        "list" | "array" | "string[]" | "strings" => Kind::List,
        "reference" | "ref" | "foreign" => Kind::Reference,
        _ => return None,
    })
}

/// Whether a colon before `text` stands between a field and its type.
pub(super) fn begins_with_kind(text: &str) -> bool {
    let first = text.split(|c: char| !(c.is_alphanumeric() || c == '?')).next().unwrap_or_default();
    kind_named(first).is_some()
}

/// Whether `word` says how a field is, not what it is called.
fn is_note(word: &str) -> bool {
    matches!(word, "required" | "optional" | "unique" | "nullable" | "mandatory" | "pk" | "primary" | "key")
}

/// Whether `text` is nothing but a type or a note, as in `price (decimal, required)`.
pub(super) fn is_annotation(text: &str) -> bool {
    let mut parts = words::words(text).into_iter().peekable();
    parts.peek().is_some() && parts.all(|word| kind_named(&word).is_some() || is_note(&word))
}

/// The type that a field's name suggests.
fn kind_suggested(name: &str) -> Kind {
    let last = name.rsplit('_').next().unwrap_or(name);
    let first = name.split('_').next().unwrap_or(name);
    match last {
        "id" if name != "id" => Kind::Reference,
        "email" | "mail" => Kind::Email,
        "url" | "website" | "link" | "homepage" => Kind::Url,
        "date" | "at" | "on" | "day" | "birthday" | "deadline" | "datetime" | "timestamp" | "due" => {
            Kind::Date
        }
        "year" | "count" | "quantity" | "age" | "stock" | "pages" | "number" | "priority" | "size"
        | "rank" | "stars" | "duration" | "minutes" | "seconds" | "hours" | "capacity" | "votes"
        | "points" | "level" | "servings" => Kind::Integer,
        "price" | "amount" | "total" | "cost" | "rate" | "salary" | "balance" | "weight" | "height"
        | "budget" | "distance" | "length" | "width" | "latitude" | "longitude" | "rating" | "score"
        | "discount" | "fee" => Kind::Decimal,
        "done" | "completed" | "active" | "enabled" | "archived" | "published" | "available" | "paid"
        | "flag" | "verified" | "deleted" | "public" | "finished" => Kind::Boolean,
        _ if matches!(first, "is" | "has" | "can") && first != name => Kind::Boolean,
        _ if words::is_plural(last)
            && !matches!(last, "notes" | "address" | "status" | "details" | "contents") =>
        {
            Kind::List
        }
        _ => Kind::String,
    }
}

/// A required field of that name.
pub(super) fn field(name: &str) -> Field {
    let kind = kind_suggested(name);
    Field { name: name.to_owned(), kind, required: true, refers_to: None, is_typed: false }
}

/// A field in words: `year`, `year:int`, `year int`, `int year`, `year (int, optional)`, `a done flag`, `due date?`.
pub(super) fn read(phrase: &str) -> Option<Field> {
    let (is_wished, phrase) = wish(phrase).unwrap_or((true, phrase));
    let mut required = is_wished && !phrase.contains('?');
    let (mut kind, mut taken, mut cut) = (None, Vec::new(), false);
    let named_after_colon = phrase.contains([':', '(']);
    for (at, part) in phrase.split([':', '(', ')', '=', ',']).enumerate() {
        let last = part.split_whitespace().last().unwrap_or_default();
        for word in part.split(|c: char| c.is_whitespace() || c == '"' || c == '`' || c == '?') {
            let lower = word.to_lowercase();
            match lower.as_str() {
                "" => {}
                "optional" | "nullable" => required = false,
                "etc" | "etc." | "…" | "..." => {}
                _ if is_note(&lower) => {}
                // After a colon or in parentheses stands the type.
                _ if at > 0 => kind = kind.or_else(|| kind_named(&lower)),
                _ if cut => {}
                // "released on" is a name.
                _ if CUTS.contains(&lower.as_str()) && !taken.is_empty() && word != last => cut = true,
                _ if taken.is_empty() && ARTICLES.contains(&lower.as_str()) => {}
                _ => taken.push(word),
            }
        }
    }
    // `done flag`, `year int`: a type beside a name. `due date`, `email` and `text` are names themselves.
    if !named_after_colon && taken.len() == 2 {
        let is_bare_type = |word: &str| kind_named(word).is_some() && !is_also_a_name(word);
        if let Some(at) = taken.iter().position(|word| is_bare_type(word)) {
            kind = kind_named(taken.remove(at));
        }
    }
    let denies = taken.first().is_some_and(|word| matches!(word.to_lowercase().as_str(), "no" | "not"));
    if taken.is_empty() || taken.len() > 4 || denies {
        return None;
    }
    let name = words::snake(&taken.join(" "))?;
    let suggested = field(&name);
    Some(Field { kind: kind.unwrap_or(suggested.kind), required, is_typed: kind.is_some(), ..suggested })
}

/// What a thing "must have" or "may have", or "may" do, and whether it must.
fn wish(phrase: &str) -> Option<(bool, &str)> {
    let may = |word: &str| OPTIONALLY.contains(&word);
    let must = |word: &str| matches!(word, "must" | "should" | "shall" | "will");
    let is_beside = |word: &str| matches!(word, "also" | "always" | "it" | "they" | "each");
    let (mut said, mut rest) = (Vec::new(), phrase.trim_start());
    while let Some((word, after)) = rest.split_once(' ')
        && [may(word), must(word), is_beside(word)].contains(&true)
    {
        said.push(word);
        rest = after.trim_start();
    }
    let has = rest.strip_prefix("have ");
    if has.is_none() && kind_named(rest).is_some() {
        // A field of that name, and its type: "will text".
        return None;
    }
    // "can swim" is whether it can.
    let is_wish = said.iter().any(|word| may(word) && *word != "can" || must(word));
    let is_wish = is_wish || has.is_some() && said.contains(&"can");
    is_wish.then(|| (!said.iter().any(|word| may(word)), has.unwrap_or(rest)))
}

/// Whether there is more in `phrase` than the name and the type of a field: "a name that must be unique".
pub(super) fn says_more(phrase: &str) -> bool {
    let said = words::words(phrase);
    let said = said.iter().skip_while(|word| ARTICLES.contains(&word.as_str())).skip(1);
    let turns =
        ["who", "that", "which", "where", "when", "if", "unless", "must", "should", "can", "may", "will"];
    let says = |(word, next): (&String, &String)| {
        CUTS.contains(&word.as_str()) && matches!(next.as_str(), "a" | "an" | "the" | "its" | "their")
    };
    said.clone().any(|word| turns.contains(&word.as_str())) || said.clone().zip(said.skip(1)).any(says)
}

/// Whether it takes a long name to say it, such as one that prose would have.
pub(super) fn is_wordy(phrase: &str) -> bool {
    let name = phrase.split([':', '(', ',']).next().unwrap_or_default();
    let said: Vec<String> = name.split_whitespace().map(str::to_lowercase).collect();
    let is_cut = said.iter().any(|word| word == "of" || CUTS.contains(&word.as_str()));
    let counts = |word: &&String| {
        !ARTICLES.contains(&word.as_str())
            && !is_note(word)
            && (kind_named(word).is_none() || is_also_a_name(word))
    };
    !is_cut && said.iter().filter(counts).count() > 2
}

fn is_also_a_name(word: &str) -> bool {
    matches!(
        word.to_lowercase().as_str(),
        "date" | "email" | "url" | "text" | "time" | "link" | "number" | "list" | "uri" | "timestamp"
    )
}

/// Makes a field that names a known resource a reference to it, unless its type is said.
pub(super) fn refer(field: &mut Field, resources: &[String]) {
    let stem = field.name.strip_suffix("_id").unwrap_or(&field.name).to_owned();
    let known = |name: &String| *name == stem || *name == words::singular(&stem);
    match resources.iter().find(|name| known(name)) {
        Some(target)
            if field.kind == Kind::Reference
                || field.name == *target && field.kind == Kind::String && !field.is_typed =>
        {
            field.refers_to = Some(target.clone());
            field.kind = Kind::Reference;
            field.name = format!("{stem}_id");
        }
        // `user_id` without users is a number like any other.
        None if field.kind == Kind::Reference && field.refers_to.is_none() => field.kind = Kind::Integer,
        Some(_) | None => {}
    }
}
