//! The class of a topic, and the checks of a batch that are the same for every backend.

use crate::{Batch, Error, Expectation, Filter, Key, ListEntry, Revision, Write};
use bytes::Bytes;

/// The longest key, bytes.
const MAX_KEY_BYTES: usize = 2048;

/// What the keys of a topic keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicClass {
    /// Every record, until it is trimmed.
    Log,
    /// Only the latest record of a key.
    State,
}

impl TopicClass {
    /// The class that `write` requires of its topic.
    pub fn of(write: &Write) -> Self {
        match write {
            Write::Append(..) | Write::Trim(..) => Self::Log,
            Write::Put(..) | Write::PutListed(..) | Write::PutIndexed(..) | Write::Delete(_) => Self::State,
        }
    }

    /// The refusal of a write of this class to `key`, whose topic has the other class.
    pub fn refusal(self, key: &Key) -> Error {
        let (is, not) = match self {
            Self::Log => ("state", "append to or trim"),
            Self::State => ("log", "put or delete"),
        };
        Error::Refused(format!("{} holds {is} keys: cannot {not} {key}", key.topic()))
    }
}

impl Write {
    /// The key that is written.
    pub fn key(&self) -> &Key {
        match self {
            Self::Append(key, _)
            | Self::Put(key, _)
            | Self::PutListed(key, ..)
            | Self::PutIndexed(key, ..)
            | Self::Delete(key)
            | Self::Trim(key, _) => key,
        }
    }

    /// The record that is written, if any.
    pub fn value(&self) -> Option<&Bytes> {
        match self {
            Self::Append(_, value)
            | Self::Put(_, value)
            | Self::PutListed(_, value, _)
            | Self::PutIndexed(_, value, ..) => Some(value),
            Self::Delete(_) | Self::Trim(..) => None,
        }
    }

    /// The list entries of the record that is written.
    pub fn entries(&self) -> &[ListEntry] {
        match self {
            Self::PutListed(.., entries) | Self::PutIndexed(_, _, entries, _) => entries,
            Self::Append(..) | Self::Put(..) | Self::Delete(_) | Self::Trim(..) => &[],
        }
    }

    /// Bytes of key and value.
    pub fn size(&self) -> usize {
        self.key().as_str().len() + self.value().map_or(0, Bytes::len)
    }
}

impl Expectation {
    /// The key it is about.
    pub fn key(&self) -> &Key {
        match self {
            Self::Absent(key) | Self::At(key, _) => key,
        }
    }

    /// Fails with [`Error::Conflict`] if it does not hold for a key whose latest revision is `actual` (0: there is none).
    pub fn check(&self, actual: Revision) -> Result<(), Error> {
        let holds = match self {
            Self::Absent(_) => actual == 0,
            Self::At(_, revision) => actual == *revision,
        };
        if holds { Ok(()) } else { Err(Error::Conflict { key: self.key().clone(), actual }) }
    }
}

/// Refuses invalid keys, and a batch that uses a topic as both classes.
pub fn check(batch: &Batch) -> Result<(), Error> {
    let mut topics: Vec<(&str, TopicClass)> = Vec::new();
    for write in &batch.writes {
        let key = write.key();
        let text = key.as_str();
        if text.len() > MAX_KEY_BYTES {
            return Err(Error::Refused(format!(
                "a key has at most {MAX_KEY_BYTES} bytes, this one {}",
                text.len()
            )));
        }
        if !has_valid_tokens(text.as_bytes()) {
            return Err(Error::Refused(format!(
                "a key has at least two tokens, none of them empty: {key:?}"
            )));
        }
        let (topic, class) = (key.topic(), TopicClass::of(write));
        match topics.iter().find(|(known, _)| *known == topic) {
            Some((_, known)) if *known != class => return Err(class.refusal(key)),
            Some(_) => {}
            None => topics.push((topic, class)),
        }
    }
    Ok(())
}

/// Whether there are at least two tokens, none of them empty.
fn has_valid_tokens(key: &[u8]) -> bool {
    let has_empty_token = |pair: &[u8]| pair == b"..";
    let (first, last) = (key.first(), key.last());
    key.contains(&b'.') && first != Some(&b'.') && last != Some(&b'.') && !key.windows(2).any(has_empty_token)
}

/// Whether `filter` can admit keys of `topic`.
pub fn may_admit_topic(filter: &Filter, topic: &str) -> bool {
    let prefix = filter.key();
    if prefix.as_str().contains('.') {
        return prefix.topic() == topic;
    }
    match filter {
        Filter::Exactly(_) => false,
        Filter::One(_) | Filter::Below(_) => topic.split('.').next() == Some(prefix.as_str()),
    }
}
