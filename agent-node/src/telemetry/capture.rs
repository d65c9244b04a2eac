//! How much of what is said is told: nothing, its shape, or all of it; credentials never.
//!
//! One rule: a passage that names a credential is withheld whole, and everything else is told but words that look made by a
//! machine. What names one stands in one table ([`name`]); what goes with a name, in [`passage`] for texts and in [`tree`]
//! for structures; what looks like a credential, in [`look`]. What this process itself has as a secret ([`own`]) is masked
//! wherever it turns up. Texts are read as they come and with every layer of packing undone ([`view`]). A secret that looks
//! like a word, in a passage that names no credential, can't be known.

mod name;

mod look;
mod own;

mod passage;
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
/// The most that is looked at, bytes: marks are shorter than what they stand for.
const LOOKED_AT: usize = 4 * MOST;

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
        let mut walk = tree::Walk { own: &self.own, left: LOOKED_AT, has_named: false };
        let text = match (self.level, content) {
            (Level::Off, _) | (_, Value::Null) => return None,
            (Level::Redacted, content) => shape::of(content).to_string(),
            (Level::Full, Value::String(text)) => walk.text(text),
            (Level::Full, content) => walk.told(content, true).to_string(),
        };
        Some(clipped(text))
    }

    /// A word that is no content, such as an id or a label, but that others may have chosen: without this process's secrets.
    pub fn label(&self, text: &str) -> String {
        text::without(text, &self.own)
    }
}

/// What is told of one conversation, in the order in which it was said.
pub struct Telling<'a> {
    capture: &'a Capture,
    has_asked: bool,
}

/// What stands in the place of what was said after something was asked that names a credential.
const ANSWER: &str = "[withheld: may answer what names a credential]";

impl<'a> Telling<'a> {
    /// Of a conversation that begins.
    pub fn of(capture: &'a Capture) -> Self {
        Self { capture, has_asked: false }
    }

    /// What may be told of `content`, which comes next and, if `may_answer`, may be what was asked for.
    pub fn told(&mut self, content: &Value, may_answer: bool) -> Option<String> {
        if self.capture.level != Level::Full {
            return self.capture.told(content);
        }
        let is_answer = may_answer && self.has_asked && !content.is_null();
        self.has_asked |= tree::asks(content);
        if is_answer { Some(ANSWER.to_owned()) } else { self.capture.told(content) }
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
