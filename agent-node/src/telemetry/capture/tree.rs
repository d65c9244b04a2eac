//! A structure without its credentials: those under a name that says so, in a column that does ([`columns`]), and those
//! within its texts.

mod columns;

use super::{
    name::{self, Says},
    own::Own,
    text::{MASK, masked},
    word,
};
use columns::Columns;
use serde_json::{Map, Value};

/// Members whose text names what stands beside them.
const NAMES: &[&str] =
    &["name", "key", "header", "field", "id", "label", "property", "variable", "title", "question", "prompt"];

/// Members that hold what is named beside them.
const VALUES: &[&str] = &["value", "val", "values", "default", "secret"];

/// Members that hold it if it is a word: else they are a text about it.
const TEXTS: &[&str] = &["text", "content", "raw", "answer", "parts", "data"];

/// What the item at `at` goes by: the option before it (`["--password", "x"]`), or the first of two (`["Authorization", "x"]`).
fn named_before(items: &[Value], at: usize) -> Option<&str> {
    let before = items.get(at.checked_sub(1)?)?.as_str()?;
    (items.len() == 2 || before.starts_with('-')).then_some(before)
}

/// The command that the item at `at` ends as one of its arguments, and how much of that stands before it.
fn command(items: &[Value], at: usize) -> Option<(String, usize)> {
    let (item, option) = (items[at].as_str()?, items.get(at.checked_sub(1)?)?.as_str()?);
    let before = format!("{} {option} ", items[0].as_str()?);
    (option.starts_with('-') && before.len() < 128).then(|| (format!("{before}{item}"), before.len()))
}

/// Whether all texts in `value` are words.
fn is_word(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.trim().contains(char::is_whitespace),
        Value::Array(items) => items.iter().all(is_word),
        Value::Object(members) => members.values().all(is_word),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

/// Goes through a structure; what is beyond its reach is not told.
pub(super) struct Walk<'a> {
    pub(super) own: &'a Own,
    /// How many bytes are looked at.
    pub(super) left: usize,
}

impl Walk<'_> {
    /// `content` without its credentials; `under` says what the name says that it stands under.
    pub(super) fn told(&mut self, content: &Value, under: Option<Says>) -> Value {
        match content {
            Value::String(text) => match under {
                Some(_) if !word::is_harmless(text.as_bytes()) => MASK.into(),
                Some(_) | None => self.text(text).into(),
            },
            Value::Number(_) if under.is_some_and(|says| says != Says::Several) => MASK.into(),
            Value::Array(items) => self.items(items, under, None),
            Value::Object(members) => self.members(members, under),
            Value::Null | Value::Bool(_) | Value::Number(_) => content.clone(),
        }
    }

    /// The items of a list, of which each goes by its column if it is a row.
    fn items(&mut self, items: &[Value], under: Option<Says>, row_of: Option<&Columns>) -> Value {
        let (mut told, rows) = (Vec::new(), Columns::of_rows(items));
        for (at, item) in items.iter().enumerate() {
            if !self.has_room(8) {
                told.push("…".into());
                break;
            }
            let column = row_of.and_then(|columns| columns.says(at));
            let named = || named_before(items, at).and_then(|name| name::says(name.as_bytes()));
            let says = under.or(column).or_else(named);
            told.push(match (item, &rows, command(items, at)) {
                (Value::Array(cells), Some(rows), _) if at > 0 => self.items(cells, says, Some(rows)),
                (_, _, Some((command, from))) if says.is_none() => {
                    let shown = self.text(&command);
                    shown.get(from..).filter(|_| shown.starts_with(&command[..from])).unwrap_or(MASK).into()
                }
                _ => self.told(item, says),
            });
        }
        told.into()
    }

    fn members(&mut self, members: &Map<String, Value>, under: Option<Says>) -> Value {
        let mut told = Map::new();
        let is_in = |list: &[&str], member: &str| list.iter().any(|name| member.eq_ignore_ascii_case(name));
        let named =
            members.iter().filter(|(member, _)| is_in(NAMES, member)).filter_map(|(_, name)| name.as_str());
        let beside = named.filter_map(|name| name::says(name.as_bytes())).next();
        let is_secret = members.get("kind").and_then(Value::as_str) == Some("Secret");
        let columns = Columns::of_head(members);
        for (name, value) in members {
            if !self.has_room(8 + name.len()) {
                told.insert("…".to_owned(), "…".into());
                break;
            }
            let says = match name.as_str() {
                "data" | "stringData" if is_secret => Some(Says::Credential),
                name if is_in(VALUES, name) => beside.or_else(|| name::says(name.as_bytes())),
                name if is_in(TEXTS, name) && is_word(value) => beside,
                name => name::says(name.as_bytes()),
            };
            let is_about =
                under.is_some() && (name::is_about(name.as_bytes()) || name::is_otherwise(name.as_bytes()));
            let is_small = match value {
                Value::String(text) => word::is_plain(text.as_bytes()) || text.contains('/'),
                Value::Number(number) => number.as_u64().is_some_and(|number| number < 10_000),
                Value::Array(_) | Value::Object(_) | Value::Null | Value::Bool(_) => false,
            };
            let says = if is_about && is_small { None } else { under.or(says) };
            let is_mixed = under.is_some() && word::is_mixed(name.as_bytes());
            let name = if is_mixed { MASK.to_owned() } else { masked(name, self.own) };
            let value = match (value, &columns) {
                (Value::Array(rows), Some(columns)) if says.is_none() => self.rows(rows, columns),
                _ => self.told(value, says),
            };
            told.insert(name, value);
        }
        told.into()
    }

    /// Lists of which each is a row, if they are.
    fn rows(&mut self, rows: &[Value], columns: &Columns) -> Value {
        let told = rows.iter().map_while(|row| {
            self.has_room(8).then(|| match row.as_array() {
                Some(cells) => self.items(cells, None, Some(columns)),
                None => self.told(row, None),
            })
        });
        told.collect()
    }

    fn has_room(&mut self, bytes: usize) -> bool {
        self.left = self.left.saturating_sub(bytes);
        self.left > 0
    }

    /// A text without its credentials, as far as there is room. What the end of the room may have cut in two is not told.
    pub(super) fn text(&mut self, text: &str) -> String {
        if text.len() <= self.left {
            self.left -= text.len();
            return masked(text, self.own);
        }
        let room = std::mem::take(&mut self.left);
        let mut told = masked(super::head(text, room), self.own);
        told.truncate(super::head(&told, told.len().saturating_sub(super::CUT)).len());
        told.push('…');
        told
    }
}
