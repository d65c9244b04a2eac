//! A structure without its credentials: those under a name that says so, and those within its texts.

use super::{
    name::{self, Says},
    own::Own,
    text::{MASK, masked},
    word,
};
use serde_json::{Map, Value};

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
                for item in items {
                    if !self.has_room(8) {
                        told.push("…".into());
                        break;
                    }
                    told.push(self.told(item, under));
                }
                told.into()
            }
            Value::Object(members) => self.members(members, under),
            Value::Null | Value::Bool(_) | Value::Number(_) => content.clone(),
        }
    }

    fn members(&mut self, members: &Map<String, Value>, under: Option<Says>) -> Value {
        let mut told = Map::new();
        let named = ["name", "key", "header"].iter().find_map(|word| members.get(*word)?.as_str());
        let beside = named.and_then(|name| name::says(name.as_bytes()));
        for (name, value) in members {
            if !self.has_room(8 + name.len()) {
                told.insert("…".to_owned(), "…".into());
                break;
            }
            let says = match name.as_str() {
                "value" => under.or(beside),
                name => under.or_else(|| name::says(name.as_bytes())),
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
