//! Large texts are stored once, by digest, and records refer to them (DESIGN §4): those over [`INLINE_CONTENT_BYTES`], and of
//! chunks those over [`INLINE_CHUNK_BYTES`]. Patterns do not see the difference.

use crate::records::{Step, keys};
use bytes::Bytes;
use protocol::{
    artifact::{ArtifactChunk, blob},
    ids::{AgentId, Digest},
    limits::{INLINE_CHUNK_BYTES, INLINE_CONTENT_BYTES},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use store_types::{Error, Key, Snapshot, Write};

const MARK: &str = "$content";

/// The member of a mark that is the key of a chunk's record.
const CHUNK: &str = "chunk";

/// The member of a checkpoint that its record holds.
const DATA: &str = "data";

/// The first byte of a record that refers to content elsewhere; any other is plain JSON and begins with `{`.
const REFERRING: u8 = b'@';

/// Encodes `record`. Texts that are too large for the record are added to `writes`, unless `kept` contains their digests.
///
/// The sweep of unreferenced content relies on three things: the record goes under a topic of [`keys::REFERRING`]; its
/// content is written in the same batch; `kept` names only content to which the journal of this open conversation refers,
/// which is not trimmed before the conversation ends.
pub fn encode<T: Serialize>(
    me: &AgentId,
    record: &T,
    writes: &mut Vec<Write>,
    kept: &mut BTreeSet<Digest>,
) -> Result<Bytes, Error> {
    let json = serde_json::to_vec(record).map_err(refused)?;
    encode_json(me, json, &BTreeMap::new(), writes, kept)
}

/// Encodes a step. Artifacts and checkpoints whose JSON is in `chunks` are not repeated: the step refers to their records.
pub(crate) fn encode_step(
    me: &AgentId,
    step: &Step,
    chunks: &BTreeMap<String, Key>,
    writes: &mut Vec<Write>,
    kept: &mut BTreeSet<Digest>,
) -> Result<Bytes, Error> {
    encode_json(me, serde_json::to_vec(step).map_err(refused)?, chunks, writes, kept)
}

/// Encodes the record with this JSON.
pub(crate) fn encode_json(
    me: &AgentId,
    bytes: Vec<u8>,
    chunks: &BTreeMap<String, Key>,
    writes: &mut Vec<Write>,
    kept: &mut BTreeSet<Digest>,
) -> Result<Bytes, Error> {
    encode_over(me, bytes, INLINE_CONTENT_BYTES, chunks, writes, kept)
}

/// Encodes a chunk or another record of a task's log. Its content is written with it even if the conversation has written the same before: the journal, which
/// is trimmed earlier, does not refer to it.
pub(crate) fn encode_chunk(
    me: &AgentId,
    chunk: &impl Serialize,
    writes: &mut Vec<Write>,
) -> Result<Bytes, Error> {
    let json = serde_json::to_vec(chunk).map_err(refused)?;
    encode_over(me, json, INLINE_CHUNK_BYTES, &BTreeMap::new(), writes, &mut BTreeSet::new())
}

fn encode_over(
    me: &AgentId,
    bytes: Vec<u8>,
    limit: usize,
    chunks: &BTreeMap<String, Key>,
    writes: &mut Vec<Write>,
    kept: &mut BTreeSet<Digest>,
) -> Result<Bytes, Error> {
    if chunks.is_empty() && !may_hold_long_text(&bytes, limit) {
        return Ok(bytes.into());
    }
    let mut value: Value = serde_json::from_slice(&bytes).map_err(refused)?;
    if !take_out(me, &mut value, limit, chunks, writes, kept) {
        return Ok(bytes.into());
    }
    let mut referring = vec![REFERRING];
    serde_json::to_writer(&mut referring, &value).map_err(refused)?;
    Ok(referring.into())
}

fn refused(error: serde_json::Error) -> Error {
    Error::Refused(format!("a record can't be written: {error}"))
}

/// Whether two quotation marks are so far apart in `json` that there may be a large text between them. It spares most
/// records a second parse.
fn may_hold_long_text(json: &[u8], limit: usize) -> bool {
    let is_quote = |at: usize| {
        json[at] == b'"' && json[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 0
    };
    let mut from = 0;
    while from + limit < json.len() {
        let Some(quote) = (from..=from + limit).rev().find(|at| is_quote(*at)) else {
            return true;
        };
        from = quote + 1;
    }
    false
}

/// Replaces large texts by references; returns whether there were any.
fn take_out(
    me: &AgentId,
    value: &mut Value,
    limit: usize,
    chunks: &BTreeMap<String, Key>,
    writes: &mut Vec<Write>,
    kept: &mut BTreeSet<Digest>,
) -> bool {
    if let Some(key) = chunk_of(value, chunks) {
        *value = json!({ MARK: { CHUNK: key.as_str() } });
        return true;
    }
    match value {
        Value::String(text) if text.len() > limit => {
            let digest = Digest::of(text.as_bytes());
            let content = Bytes::from(std::mem::take(text).into_bytes());
            if kept.insert(digest) {
                writes.push(Write::Put(keys::content(me, &digest), content));
            }
            *value = json!({ MARK: digest });
            true
        }
        Value::Array(items) => {
            let mut taken = false;
            items.iter_mut().for_each(|item| taken |= take_out(me, item, limit, chunks, writes, kept));
            taken
        }
        Value::Object(members) => {
            let has_reference = take_out_data(members, chunks);
            let mut taken = has_reference;
            members
                .iter_mut()
                .filter(|(name, _)| !has_reference || *name != DATA)
                .for_each(|(_, member)| taken |= take_out(me, member, limit, chunks, writes, kept));
            let looks_taken = members.len() == 1 && members.contains_key(MARK);
            if looks_taken {
                *value = json!({ MARK: { "literally": value.take() } });
            }
            taken || looks_taken
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Replaces the data of a checkpoint by a reference to its record; returns whether it was one.
fn take_out_data(members: &mut Map<String, Value>, chunks: &BTreeMap<String, Key>) -> bool {
    let Some(data) = members.get_mut(DATA).filter(|_| !chunks.is_empty()) else { return false };
    let Some(key) = chunks.get(&data.to_string()).filter(|key| keys::is_checkpoint(key)) else {
        return false;
    };
    *data = json!({ MARK: { CHUNK: key.as_str() } });
    true
}

/// The key of the chunk whose artifact `value` is.
fn chunk_of<'a>(value: &Value, chunks: &'a BTreeMap<String, Key>) -> Option<&'a Key> {
    if chunks.is_empty() || !value.as_object()?.contains_key("artifactId") {
        return None;
    }
    chunks.get(&value.to_string())
}

/// Calls `each` with the digest of all content and blobs that the record in `bytes` refers to; an unreadable record refers to none.
pub fn refers_to(bytes: &[u8], each: &mut impl FnMut(Digest)) {
    blob::named_in(bytes, &mut *each);
    if let Some((&REFERRING, referring)) = bytes.split_first()
        && let Ok(value) = serde_json::from_slice(referring)
    {
        visit(&value, each);
    }
}

fn visit(value: &Value, each: &mut impl FnMut(Digest)) {
    match value {
        Value::Object(members) => {
            let marked = members.get(MARK).filter(|_| members.len() == 1);
            if let Some(digest) = marked.and_then(|marked| Digest::parse(marked.as_str()?).ok()) {
                return each(digest);
            }
            // A literal that looks like a mark is visited like any other value.
            let literal = marked.and_then(|marked| marked.get("literally")?.as_object());
            literal.unwrap_or(members).values().for_each(|member| visit(member, each));
        }
        Value::Array(items) => items.iter().for_each(|item| visit(item, each)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Decodes the record in `bytes` without its content, for members that are always short.
pub fn outline<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    let plain = bytes.strip_prefix(&[REFERRING]).unwrap_or(bytes);
    serde_json::from_slice(plain).map_err(damaged)
}

/// Decodes the record in `bytes` with its content.
pub fn decode<T: DeserializeOwned>(me: &AgentId, store: &dyn Snapshot, bytes: &[u8]) -> Result<T, Error> {
    let Some((&REFERRING, referring)) = bytes.split_first() else {
        return serde_json::from_slice(bytes).map_err(damaged);
    };
    let mut value: Value = serde_json::from_slice(referring).map_err(damaged)?;
    put_back(me, store, &mut value)?;
    serde_json::from_value(value).map_err(damaged)
}

fn damaged(error: serde_json::Error) -> Error {
    Error::Refused(format!("a record can't be read: {error}"))
}

fn put_back(me: &AgentId, store: &dyn Snapshot, value: &mut Value) -> Result<(), Error> {
    match value {
        Value::Object(members) => match mark(members) {
            Some(ContentMark::Content(digest)) => {
                let key = keys::content(me, &digest);
                let record = store
                    .latest(&key)?
                    .ok_or_else(|| Error::Refused(format!("the content {key} is missing")))?;
                *value = Value::String(String::from_utf8_lossy(&record.value).into_owned());
                Ok(())
            }
            Some(ContentMark::Chunk(key)) => {
                *value = match store.latest(&key)? {
                    Some(record) if keys::is_checkpoint(&key) => decode::<Value>(me, store, &record.value)?
                        .get_mut(DATA)
                        .map_or(Value::Null, Value::take),
                    None if keys::is_checkpoint(&key) => Value::Null,
                    Some(record) => decode::<ArtifactChunk>(me, store, &record.value)
                        .and_then(|chunk| serde_json::to_value(chunk.artifact).map_err(damaged))?,
                    // The task has been deleted.
                    None => json!({ "artifactId": "deleted", "parts": [] }),
                };
                Ok(())
            }
            Some(ContentMark::Literally(literal)) => {
                *value = literal;
                let members = value.as_object_mut().into_iter().flat_map(Map::values_mut);
                members.into_iter().try_for_each(|member| put_back(me, store, member))
            }
            None => members.values_mut().try_for_each(|member| put_back(me, store, member)),
        },
        Value::Array(items) => items.iter_mut().try_for_each(|item| put_back(me, store, item)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

enum ContentMark {
    Content(Digest),
    Chunk(Key),
    Literally(Value),
}

fn mark(members: &mut Map<String, Value>) -> Option<ContentMark> {
    if members.len() != 1 {
        return None;
    }
    let marked = members.get_mut(MARK)?;
    if let Some(text) = marked.as_str() {
        return Digest::parse(text).ok().map(ContentMark::Content);
    }
    if let Some(key) = marked.get(CHUNK).and_then(Value::as_str) {
        return Some(ContentMark::Chunk(Key::stored(key)));
    }
    marked.get_mut("literally").map(|literal| ContentMark::Literally(literal.take()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            "[a-z]{0,8}".prop_map(Value::from),
            (0u8..3).prop_map(|n| Value::from(format!("{n}").repeat(20_000)))
        ]
    }

    fn anything() -> impl Strategy<Value = Value> {
        text().prop_recursive(4, 16, 3, |inner| {
            let name = prop_oneof![Just("$content".to_owned()), Just("literally".to_owned()), "[a-c]"];
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::btree_map(name, inner, 0..3)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_record_round_trips(value in anything()) {
            let mut store = store_types::MemoryState::default();
            let me = AgentId::parse("a").unwrap();
            let mut writes = Vec::new();
            let record = json!({ "record": value });
            let bytes = encode(&me, &record, &mut writes, &mut BTreeSet::new()).unwrap();
            if bytes.len() > 64 * 1024 {
                prop_assert!(false, "nothing was taken out of {} bytes", bytes.len());
            }
            let mut referred = BTreeSet::new();
            refers_to(&bytes, &mut |digest| {
                referred.insert(keys::content(&me, &digest));
            });
            let written: BTreeSet<_> = writes.iter().map(|write| write.key().clone()).collect();
            prop_assert_eq!(referred, written);
            let batch = store_types::Batch { writes, expectations: Vec::new() };
            store.commit(batch).unwrap();
            let back: Value = decode(&me, &store, &bytes).unwrap();
            prop_assert_eq!(back, record);
        }
    }
}
