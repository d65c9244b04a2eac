//! Slugs: the names of proposals, unique in a space.
//!
//! The first author of a slug has it. Another author who asks for it gets `slug--author`, then `slug--author--2` and so on. An
//! author who proposes the same slug again means its own proposal.

use super::EntryState;
use crate::{
    principal::Principal,
    problem::{Problem, Reason},
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The most bytes of a slug that an author asks for. Suffixes are longer.
pub const MAX_REQUESTED: usize = 64;
/// The most bytes of a slug with its suffix.
const MAX_SLUG: usize = 192;

/// The name of a proposal: lower-case words of letters and digits, joined by `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slug(String);

impl Slug {
    /// The slug that an author asks for: `[a-z0-9]+(-[a-z0-9]+)*`, up to [`MAX_REQUESTED`] bytes. `--` belongs to suffixes.
    pub fn requested(text: &str) -> Result<Self, Problem> {
        let slug = Self::try_from(text.to_owned()).ok();
        slug.filter(|_| text.len() <= MAX_REQUESTED && !text.contains("--")).ok_or_else(|| {
            let shown: String = text.chars().take(80).collect();
            let suggested = Self::suggested(text).map_or(String::new(), |slug| format!(", for instance {slug}"));
            let message = format!(
                "slug: must be lower-case words joined by `-`, at most {MAX_REQUESTED} characters{suggested}; got {shown:?}"
            );
            Problem::new(Reason::InvalidField, message).with("field", "slug")
        })
    }

    /// A slug made of the letters and digits of `text`; `None` if it has none.
    pub fn suggested(text: &str) -> Option<Self> {
        let mut slug = kebab(text);
        slug.truncate(MAX_REQUESTED);
        let slug = slug.trim_end_matches('-');
        (!slug.is_empty()).then(|| Self(slug.to_owned()))
    }

    /// The slugs to try, in order, for `author`, who asks for this one.
    pub fn candidates(&self, author: &Principal) -> impl Iterator<Item = Slug> {
        let own = match kebab(author.id()) {
            id if id.is_empty() => "author".to_owned(),
            id => id,
        };
        let suffixed = format!("{self}--{own}");
        let numbered = {
            let suffixed = suffixed.clone();
            (2_u64..).map(move |number| Self(format!("{suffixed}--{number}")))
        };
        [self.clone(), Self(suffixed)].into_iter().chain(numbered)
    }

    /// The slug's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Lower case; what is no letter or digit becomes `-`.
fn kebab(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}

/// The proposal that a slug names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlugHolder<'a> {
    pub author: &'a Principal,
    pub state: EntryState,
}

/// What a proposal by one author under one candidate slug is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlugUse {
    /// A new entry with this slug.
    New,
    /// A new version of the author's pending proposal.
    Revision,
    /// The slug is another author's: the next candidate is tried.
    NextCandidate,
}

/// Decides what a proposal by `author` under `slug` is, which `holder` has, if anybody. Fails with `slug_closed` for the author's
/// own proposal that was merged or rejected.
pub fn slug_use(slug: &Slug, author: &Principal, holder: Option<SlugHolder<'_>>) -> Result<SlugUse, Problem> {
    match holder {
        None => Ok(SlugUse::New),
        Some(holder) if holder.author != author => Ok(SlugUse::NextCandidate),
        Some(holder) if holder.state == EntryState::Pending => Ok(SlugUse::Revision),
        Some(holder) => {
            let message = format!(
                "slug: your proposal {slug} is {} and stays so; propose under another slug",
                holder.state
            );
            Err(Problem::new(Reason::SlugClosed, message).with("slug", slug).with("state", holder.state))
        }
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that is no slug.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a slug is lower-case words of letters and digits joined by `-`, got {0:?}")]
pub struct BadSlug(String);

impl TryFrom<String> for Slug {
    type Error = BadSlug;
    fn try_from(text: String) -> Result<Self, BadSlug> {
        let is_word = |word: &str| word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let has_ends = !text.starts_with('-') && !text.ends_with('-') && !text.contains("---");
        match !text.is_empty() && text.len() <= MAX_SLUG && has_ends && text.split('-').all(is_word) {
            true => Ok(Self(text)),
            false => Err(BadSlug(text.chars().take(80).collect())),
        }
    }
}

impl From<Slug> for String {
    fn from(slug: Slug) -> String {
        slug.0
    }
}
