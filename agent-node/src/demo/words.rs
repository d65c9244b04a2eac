//! English, as far as requests for an API need it.

/// Words that say nothing about what is wanted.
const STOP: &str = " a about above after again all also always am an and any are as at be because been before being below between both but by \
can could did do does doing down during each every few for from further get give had has have having he her here hers him his how i \
if in into is it its just let like make may me many more most multiple must my need no nor not now of off often on once one only optionally or other our out over \
own please same she should several so some sometimes such than that the their them then there these they thing things this those through to too under \
until various up use using usually very want was we were what when where which while who whom why will with would you your ";

/// Words of a request that name no resource of their own.
const FRAME: &str = " api apis app apps application backend build building create crud data database design develop description \
endpoint endpoints field fields following generate handle handler handlers http implement implementation json list manage managing \
model models new objects plan program attribute attributes properties resource resources rest restful \
rust server service simple small software spec specification store storing support system table tables track tracking web \
website write yaml entity entities schema crate operations operation interface demo example basic code test tests documentation docs validation pagination \
authentication auth errors error request requests response responses route routes sqlite postgres the ";

/// Whether `word` says nothing.
pub(super) fn is_stop(word: &str) -> bool {
    STOP.contains(&format!(" {} ", word.to_lowercase()))
}

/// Whether `word` belongs to the request rather than to what it is about.
pub(super) fn is_frame(word: &str) -> bool {
    FRAME.contains(&format!(" {} ", word.to_lowercase()))
}

/// The words of `text`, lower case, letters and digits only.
pub(super) fn words(text: &str) -> Vec<String> {
    let split = text.split(|c: char| !c.is_alphanumeric());
    split.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// Whether `word` looks like more than one of something.
pub(super) fn is_plural(word: &str) -> bool {
    let word = word.to_lowercase();
    let tail = word.rsplit('_').next().unwrap_or_default();
    matches!(tail, "people" | "children" | "men" | "women" | "data")
        || tail.len() > 2
            && tail.ends_with('s')
            && !["ss", "us", "is", "as"].iter().any(|end| tail.ends_with(end))
            && !matches!(tail, "series" | "species" | "news" | "chaos" | "pos")
}

/// Words whose plural has `ves` for `f` or `fe`; other words in `ves` are olives and sleeves.
const IN_F: [(&str, &str); 11] = [
    ("calf", "calves"),
    ("half", "halves"),
    ("knife", "knives"),
    ("leaf", "leaves"),
    ("life", "lives"),
    ("loaf", "loaves"),
    ("scarf", "scarves"),
    ("shelf", "shelves"),
    ("thief", "thieves"),
    ("wife", "wives"),
    ("wolf", "wolves"),
];

/// One of `word`.
pub(super) fn singular(word: &str) -> String {
    let (head, tail) = split_last(word);
    let in_f = IN_F.iter().find(|(_, many)| *many == tail);
    let one = match tail {
        _ if in_f.is_some() => in_f.map_or(tail, |(one, _)| one).to_owned(),
        "people" => "person".to_owned(),
        "children" => "child".to_owned(),
        "men" => "man".to_owned(),
        "women" => "woman".to_owned(),
        "movies" => "movie".to_owned(),
        _ if !is_plural(tail) => tail.to_owned(),
        _ if tail.len() > 4 && tail.ends_with("ies") => format!("{}y", &tail[..tail.len() - 3]),
        _ if ["sses", "xes", "ches", "shes"].iter().any(|end| tail.ends_with(end))
            || ["buses", "statuses", "bonuses", "campuses", "viruses", "menuses"].contains(&tail) =>
        {
            tail[..tail.len() - 2].to_owned()
        }
        _ => tail[..tail.len() - 1].to_owned(),
    };
    format!("{head}{one}")
}

/// Many of `word`, which is one.
pub(super) fn plural(word: &str) -> String {
    let (head, tail) = split_last(word);
    let vowel_before_y = || tail.chars().rev().nth(1).is_some_and(|c| "aeiou".contains(c));
    let in_f = IN_F.iter().find(|(one, _)| *one == tail);
    let many = match tail {
        _ if in_f.is_some() => in_f.map_or(tail, |(_, many)| many).to_owned(),
        "person" => "people".to_owned(),
        "child" => "children".to_owned(),
        "man" => "men".to_owned(),
        "woman" => "women".to_owned(),
        "series" | "species" | "news" | "data" => tail.to_owned(),
        _ if tail.ends_with('y') && tail.len() > 1 && !vowel_before_y() => {
            format!("{}ies", &tail[..tail.len() - 1])
        }
        _ if ["s", "x", "ch", "sh"].iter().any(|end| tail.ends_with(end)) => format!("{tail}es"),
        _ => format!("{tail}s"),
    };
    format!("{head}{many}")
}

fn split_last(word: &str) -> (&str, &str) {
    word.split_at(word.rfind('_').map_or(0, |at| at + 1))
}

/// The most characters of a name.
const NAME: usize = 28;

/// `text` as an identifier in snake case, or nothing if there is nothing to take.
pub(super) fn snake(text: &str) -> Option<String> {
    let mut name = String::new();
    let mut before = '_';
    for c in text.trim().chars() {
        let plain = match c.to_lowercase().next() {
            Some('ä' | 'æ') => "ae",
            Some('ö' | 'ø') => "oe",
            Some('ü') => "ue",
            Some('ß') => "ss",
            Some('à' | 'á' | 'â' | 'ã' | 'å') => "a",
            Some('è' | 'é' | 'ê' | 'ë') => "e",
            Some('ì' | 'í' | 'î' | 'ï') => "i",
            Some('ò' | 'ó' | 'ô' | 'õ') => "o",
            Some('ù' | 'ú' | 'û') => "u",
            Some('ç') => "c",
            Some('ñ') => "n",
            Some(_) | None => "",
        };
        if !plain.is_empty() {
            name.push_str(plain);
        } else if c.is_ascii_alphanumeric() {
            if c.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit()) {
                name.push('_');
            }
            name.push(c.to_ascii_lowercase());
        } else if c != '\'' && !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
        before = c;
    }
    name.truncate(NAME);
    let name = name.trim_matches('_').to_owned();
    name.starts_with(|c: char| c.is_ascii_alphabetic()).then_some(name)
}

/// A snake-case name as a type's.
pub(super) fn pascal(name: &str) -> String {
    let parts = name.split('_').map(|part| {
        let mut chars = part.chars();
        chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect::<String>()
    });
    parts.collect()
}

/// A snake-case name for people.
pub(super) fn spoken(name: &str) -> String {
    name.replace('_', " ")
}

/// "a book", "an order".
pub(super) fn a(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {noun}")
}

/// `book`, `a and b`, `a, b and c`.
pub(super) fn listed<S: AsRef<str>>(names: &[S]) -> String {
    match names {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [firsts @ .., last] => {
            let firsts: Vec<_> = firsts.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", firsts.join(", "), last.as_ref())
        }
    }
}

/// `1 book`, `2 books`.
pub(super) fn counted(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {}", plural(one)) }
}

/// At most `max` characters of `text`.
pub(super) fn shortened(text: &str, max: usize) -> String {
    let text = text.trim();
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(max.saturating_sub(1)).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_and_many() {
        for (one, many) in [
            ("book", "books"),
            ("category", "categories"),
            ("person", "people"),
            ("box", "boxes"),
            ("day", "days"),
            ("order_item", "order_items"),
            ("address", "addresses"),
            ("bus", "buses"),
            ("movie", "movies"),
            ("warehouse", "warehouses"),
            ("loaf", "loaves"),
            ("book_shelf", "book_shelves"),
            ("hive", "hives"),
        ] {
            assert_eq!(plural(one), many);
            assert_eq!(singular(many), one);
            assert_eq!(singular(one), one);
        }
    }

    proptest! {
        #[test]
        fn a_name_is_an_identifier_whatever_it_is_made_from(text in ".{0,60}") {
            if let Some(name) = snake(&text) {
                prop_assert!(name.len() <= NAME);
                prop_assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'));
                let ident = format!("x{name}");
                prop_assert!(syn::parse_str::<syn::Ident>(&ident).is_ok());
                let _ = (singular(&name), plural(&name), pascal(&name));
            }
        }
    }
}
