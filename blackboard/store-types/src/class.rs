//! What a batch must be like before any backend looks at it, and which of the two classes a write belongs to.

use crate::{Batch, Error, Expectation, Filter, Key, Revision, Write};

/// The longest key, in bytes.
const LONGEST_KEY: usize = 2048;

/// What a topic holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Every record stays until trimmed.
    Log,
    /// Only the latest record of a key.
    State,
}

impl Class {
    /// The class that `write` needs its topic to be of.
    pub fn of(write: &Write) -> Self {
        match write {
            Write::Append(..) => Self::Log,
            Write::Put(..) | Write::Delete(_) => Self::State,
        }
    }

    /// The refusal of a write of this class under `key`, whose topic is of the other.
    pub fn refusal(self, key: &Key) -> Error {
        let (is, not) = match self {
            Self::Log => ("state", "append to"),
            Self::State => ("log", "put or delete"),
        };
        Error::Refused(format!("{} holds {is} keys: cannot {not} {key}", key.topic()))
    }
}

impl Write {
    /// The key that is written.
    pub fn key(&self) -> &Key {
        match self {
            Self::Append(key, _) | Self::Put(key, _) | Self::Delete(key) => key,
        }
    }

    /// How many bytes it carries, key and value.
    pub fn size(&self) -> usize {
        match self {
            Self::Append(key, value) | Self::Put(key, value) => key.as_str().len() + value.len(),
            Self::Delete(key) => key.as_str().len(),
        }
    }
}

impl Expectation {
    /// The key it is about.
    pub fn key(&self) -> &Key {
        match self {
            Self::Absent(key) | Self::At(key, _) => key,
        }
    }

    /// Whether it holds for a key whose latest record has revision `actual` (0: there is none).
    pub fn check(&self, actual: Revision) -> Result<(), Error> {
        let holds = match self {
            Self::Absent(_) => actual == 0,
            Self::At(_, revision) => actual == *revision,
        };
        if holds { Ok(()) } else { Err(Error::Conflict { key: self.key().clone(), actual }) }
    }
}

/// Refuses keys that no store takes, and a topic that is used as both classes at once.
pub fn check(batch: &Batch) -> Result<(), Error> {
    let mut topics: Vec<(&str, Class)> = Vec::new();
    for write in &batch.writes {
        let key = write.key();
        let text = key.as_str();
        if text.len() > LONGEST_KEY {
            return Err(Error::Refused(format!(
                "a key has at most {LONGEST_KEY} bytes, this one {}",
                text.len()
            )));
        }
        if !is_made_of_tokens(text.as_bytes()) {
            return Err(Error::Refused(format!(
                "a key has at least two tokens, none of them empty: {key:?}"
            )));
        }
        let (topic, class) = (key.topic(), Class::of(write));
        match topics.iter().find(|(known, _)| *known == topic) {
            Some((_, known)) if *known != class => return Err(class.refusal(key)),
            Some(_) => {}
            None => topics.push((topic, class)),
        }
    }
    Ok(())
}

/// Whether there are at least two tokens, none of them empty.
fn is_made_of_tokens(key: &[u8]) -> bool {
    let is_empty = |ends: &[u8]| ends == b"..";
    let (first, last) = (key.first(), key.last());
    key.contains(&b'.') && first != Some(&b'.') && last != Some(&b'.') && !key.windows(2).any(is_empty)
}

/// Whether keys of `topic` can pass `filter`.
pub fn touches(filter: &Filter, topic: &str) -> bool {
    let prefix = filter.key();
    if prefix.as_str().contains('.') {
        return prefix.topic() == topic;
    }
    match filter {
        Filter::Exactly(_) => false,
        Filter::One(_) | Filter::Below(_) => topic.split('.').next() == Some(prefix.as_str()),
    }
}
