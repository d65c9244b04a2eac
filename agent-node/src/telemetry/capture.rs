//! How much of what is said is told: nothing, its shape, or all of it; credentials never.
//!
//! One rule: what names a credential is withheld whole, and so is what comes after it in its conversation; everything else
//! is told but words that look made by a machine. What names one stands in one table ([`name`]); what a name takes with it in
//! a structure, in [`tree`]; what looks like a credential, in [`look`]. What this process itself has as a secret ([`own`]) is
//! masked wherever it turns up. Texts are read as they come and with every layer of packing undone ([`view`]). A secret that
//! looks like a word, in what names no credential, can't be known.

mod name;

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
        self.told_of(content).map(|(told, _)| told)
    }

    /// What may be told of `content`, and whether something of it was withheld for a name.
    fn told_of(&self, content: &Value) -> Option<(String, bool)> {
        let (told, is_named) = match (self.level, content) {
            (Level::Off, _) | (_, Value::Null) => return None,
            (Level::Redacted, content) => (shape::of(content), false),
            (Level::Full, content) => {
                let seen = tree::seen(content, &mut LOOKED_AT.clone());
                match tree::names(&seen, true) {
                    true => (tree::withheld(&seen, &self.own), true),
                    false => (tree::masked(&seen, &self.own, true), false),
                }
            }
        };
        let text = if let Value::String(text) = told { text } else { told.to_string() };
        Some((clipped(text), is_named))
    }

    /// A word that is no content, such as an id or a label, but that others may have chosen: without this process's secrets.
    pub fn label(&self, text: &str) -> String {
        text::without(text, &self.own)
    }
}

/// What is told of one conversation, in the order in which it was said.
pub struct Telling<'a> {
    capture: &'a Capture,
    has_named: bool,
}

/// What stands in the place of all that was said after something that names a credential.
const AFTER: &str = "[withheld: said after what names a credential]";

impl<'a> Telling<'a> {
    /// Of a conversation that begins.
    pub fn of(capture: &'a Capture) -> Self {
        Self { capture, has_named: false }
    }

    /// What may be told of `content`, which comes next.
    pub fn told(&mut self, content: &Value) -> Option<String> {
        let (told, is_named) = self.capture.told_of(content)?;
        if self.has_named {
            return Some(AFTER.to_owned());
        }
        self.has_named = is_named;
        Some(told)
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
