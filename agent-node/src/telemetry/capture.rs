//! How much of what is said is told: nothing, its shape, or all of it; credentials never.
//!
//! A credential is known by the name it goes under ([`pairs`] and [`tables`] in texts, [`tree`] in structures), by its [`look`] (a bearer
//! token, a private key, a key of a well-known provider), or because this process has it ([`own`]). Texts are read as they
//! come and with every layer of packing undone ([`view`]). A secret that looks like a word and stands in prose with nothing
//! around it can't be known.

mod name;
mod word;

mod pairs;
mod tables;
mod value;

mod look;
mod own;

mod view;

mod text;
mod tree;

mod shape;

pub use own::of_variable;

use own::Own;
use serde_json::Value;

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Level {
    /// Nothing of any content.
    #[default]
    Off,
    /// Which of the mesh's own members there are, how long their texts and how many their items, and no word of them.
    Redacted,
    /// All of it but credentials, up to 16 KiB a span.
    Full,
}

/// What decides what is told of content.
#[derive(Clone, Default)]
pub struct Capture {
    level: Level,
    own: Own,
}

/// The most that is told of one thing, bytes.
const MOST: usize = 16 * 1024;
/// The most that is looked at, bytes: masks are shorter than what they stand for.
const LOOKED_AT: usize = 4 * MOST;
/// How much before the end of what is looked at is not told: a credential could be cut in two there.
const CUT: usize = 8 * 1024;

impl Capture {
    /// Tells `level` and never one of `secrets`.
    pub fn new(level: Level, secrets: impl IntoIterator<Item = String>) -> Self {
        Self { level, own: Own::of(secrets) }
    }

    /// Whether anything is told at all; else nobody need prepare it.
    pub fn is_off(&self) -> bool {
        self.level == Level::Off
    }

    /// What may be told of `content`.
    pub fn told(&self, content: &Value) -> Option<String> {
        let mut walk = tree::Walk { own: &self.own, left: LOOKED_AT };
        let text = match (self.level, content) {
            (Level::Off, _) | (_, Value::Null) => return None,
            (Level::Redacted, content) => shape::of(content).to_string(),
            (Level::Full, Value::String(text)) => walk.text(text),
            (Level::Full, content) => walk.told(content, None).to_string(),
        };
        Some(clipped(text))
    }

    /// A word that is no content, such as an id or a label, but that others may have chosen: without this process's secrets.
    pub fn label(&self, text: &str) -> String {
        text::without(text, &self.own)
    }
}

/// The first `most` bytes of `text`, or a few less: whole characters.
fn head(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    &text[..end]
}

fn clipped(text: String) -> String {
    match text.len() > MOST {
        true => {
            let told = head(&text, MOST);
            format!("{told}… [{} bytes more]", text.len() - told.len())
        }
        false => text,
    }
}

#[cfg(test)]
mod tests;
