//! A structure without its credentials: those under a name that says so, and those within its texts.

use super::{
    name::{self, Says},
    own::Own,
    text::{MASK, masked},
    word,
};
use serde_json::{Map, Value};

/// Members whose text names what stands under `value` beside them.
const NAMES: [&str; 4] = ["name", "key", "header", "field"];

/// What the item at `at` goes by: the option before it (`["--password", "x"]`), or the first of two (`["Authorization", "x"]`).
fn named_before(items: &[Value], at: usize) -> Option<&str> {
    let before = items.get(at.checked_sub(1)?)?.as_str()?;
    (items.len() == 2 || before.starts_with('-')).then_some(before)
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
            Value::Array(items) => {
                let mut told = Vec::new();
                for (at, item) in items.iter().enumerate() {
                    if !self.has_room(8) {
                        told.push("…".into());
                        break;
                    }
                    let named = || named_before(items, at).and_then(|name| name::says(name.as_bytes()));
                    told.push(self.told(item, under.or_else(named)));
                }
                told.into()
            }
            Value::Object(members) => self.members(members, under),
            Value::Null | Value::Bool(_) | Value::Number(_) => content.clone(),
        }
    }

    fn members(&mut self, members: &Map<String, Value>, under: Option<Says>) -> Value {
        let mut told = Map::new();
        let is_name = |member: &str| NAMES.iter().any(|name| member.eq_ignore_ascii_case(name));
        let named =
            members.iter().filter(|(member, _)| is_name(member)).filter_map(|(_, name)| name.as_str());
        let beside = named.filter_map(|name| name::says(name.as_bytes())).next();
        for (name, value) in members {
            if !self.has_room(8 + name.len()) {
                told.insert("…".to_owned(), "…".into());
                break;
            }
            let says = match name.eq_ignore_ascii_case("value") {
                true => under.or(beside),
                false => under.or_else(|| name::says(name.as_bytes())),
            };
            let is_secret = under.is_some() && word::is_mixed(name.as_bytes());
            let name = if is_secret { MASK.to_owned() } else { masked(name, self.own) };
            let value = self.told(value, says);
            told.insert(name, value);
        }
        told.into()
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
