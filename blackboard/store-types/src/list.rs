//! Lists: orders of state records that the store keeps beside them, so that a page of a list costs its own rows.

use crate::{Key, Revision};

/// The most characters of a word that are compared.
const MAX_WORD_CHARS: usize = 64;

/// The words of a text, in lower case: its runs of letters and digits, of each the first 64.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(|word| word.to_lowercase().chars().take(MAX_WORD_CHARS).collect())
}

/// A record's entry in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListEntry {
    /// The list. Its name begins with its owner, like a key.
    pub list: Key,
    /// The part of the list. Queries name the parts they read.
    pub part: u8,
    /// Entries are ordered by this number, then by the number of their record.
    pub at: i64,
    /// A number that queries may ask for.
    pub group: u64,
}

/// A position in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListPosition {
    pub at: i64,
    /// The number of the record, which the store gives it. Each record has another; of two records that were listed when
    /// they were first written, the later has the higher.
    pub record: u64,
}

/// The direction in which a list is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListOrder {
    OldestFirst,
    NewestFirst,
}

/// Selects entries of a list.
#[derive(Debug, Clone)]
pub struct ListQuery {
    pub list: Key,
    /// Its parts, each once; their entries are merged.
    pub parts: Vec<u8>,
    /// Only entries of this group.
    pub group: Option<u64>,
    /// Only entries at this number or above.
    pub from: Option<i64>,
    /// Only entries at this number or below.
    pub until: Option<i64>,
    pub order: ListOrder,
    /// Only entries whose record has a text with all words of this one, or words that begin so. A text without words matches
    /// nothing. A page costs the entries up to its last one, matching or not; all other pages cost their own entries.
    pub text: Option<String>,
    /// Only entries behind this position, in the direction of reading. Does not affect counts.
    pub after: Option<ListPosition>,
}

/// One entry of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedKey {
    pub position: ListPosition,
    /// The key of its record.
    pub key: Key,
}

impl ListQuery {
    /// All entries of part 0 of `list`, the oldest first.
    pub fn oldest(list: Key) -> Self {
        let order = ListOrder::OldestFirst;
        Self { list, parts: vec![0], group: None, from: None, until: None, order, text: None, after: None }
    }

    /// Whether an entry at `at` in `group` matches; its list and part are not compared.
    pub fn admits(&self, at: i64, group: u64) -> bool {
        self.group.is_none_or(|wanted| wanted == group)
            && self.from.is_none_or(|from| at >= from)
            && self.until.is_none_or(|until| at <= until)
    }

    /// The lowest and the highest position of a page, both excluded.
    pub fn bounds(&self) -> (ListPosition, ListPosition) {
        let lowest = ListPosition { at: self.from.unwrap_or(i64::MIN), record: 0 };
        let highest = ListPosition { at: self.until.unwrap_or(i64::MAX), record: Revision::MAX };
        match (self.order, self.after) {
            (_, None) => (lowest, highest),
            (ListOrder::OldestFirst, Some(after)) => (lowest.max(after), highest),
            (ListOrder::NewestFirst, Some(after)) => (lowest, highest.min(after)),
        }
    }

    /// Sorts `entries` in the order of reading and keeps the first `limit`.
    pub fn first<T>(&self, mut entries: Vec<(ListPosition, T)>, limit: usize) -> Vec<(ListPosition, T)> {
        match self.order {
            ListOrder::OldestFirst => entries.sort_by_key(|(position, _)| *position),
            ListOrder::NewestFirst => {
                entries.sort_by_key(|(position, _)| std::cmp::Reverse(*position));
            }
        }
        entries.truncate(limit);
        entries
    }
}
