//! How signals stand in the log: their keys, what is checked, and what a reader gets. Pure.

use crate::{
    access::BOARD,
    store::{Batch, Expectation, Filter, Key, Record, Revision, Snapshot, Write},
};
use bytes::Bytes;
use protocol::{
    ids::{AgentId, Digest, MessageId, TaskId},
    principal::Principal,
    problem::{Problem, Reason},
    signal::{BOARD_ID_PREFIX, SIGNAL_TYPES, Selector, Signal, SignalRecord, SignalType},
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The owner of the board's keys.
pub const OWNER: &str = "board";
const LOG: &str = "signal";
const SEEN: &str = "seen";
const OFFERS: &str = "offer";

/// What is remembered of a published signal, so that a repeat is recognised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub digest: Digest,
    pub at: WallTime,
}

/// A signal as it will be written.
#[derive(Debug, Clone)]
pub struct Writing {
    /// All that is written; the signal itself comes last.
    pub batch: Batch,
    /// Where a repeat is recognised.
    pub seen: Key,
    /// The log that the signal goes to.
    pub log: Key,
    /// The digest of the signal.
    pub digest: Digest,
}

/// The log of all signals of `kind`.
pub fn log_key(kind: &SignalType) -> Key {
    let tokens: Vec<&str> = [OWNER, LOG].into_iter().chain(kind.as_str().split('.')).collect();
    Key::new(&tokens)
}

/// All signals.
pub fn everything() -> Filter {
    Filter::Below(Key::new(&[OWNER, LOG]))
}

/// The rows by which repeats are recognised, oldest first.
pub(crate) fn all_seen() -> Filter {
    Filter::Below(Key::new(&[OWNER, SEEN]))
}

/// The last offers of open tasks, oldest first.
pub(crate) fn all_offers() -> Filter {
    Filter::Below(Key::new(&[OWNER, OFFERS]))
}

/// Where the last `task.available` of a task is kept.
pub(crate) fn offer_key(task: &TaskId) -> Key {
    Key::new(&[OWNER, OFFERS, task.as_str()])
}

/// The narrowest filter of the store that lets everything through which `selector` wants.
pub fn filter(selector: &Selector) -> Filter {
    let [one] = selector.types.as_slice() else { return everything() };
    let (prefix, is_exact) = match one.strip_suffix('*') {
        Some(prefix) => (prefix.trim_end_matches('.'), false),
        None => (one.as_str(), true),
    };
    let tokens: Vec<&str> =
        [OWNER, LOG].into_iter().chain(prefix.split('.').filter(|t| !t.is_empty())).collect();
    let key = Key::new(&tokens);
    if is_exact { Filter::Exactly(key) } else { Filter::Below(key) }
}

/// Whether every type of `selector` can be one: a signal type, or one whose last token is `*`.
pub fn check(selector: &Selector) -> Result<(), Problem> {
    let is_token = |t: &str| {
        !t.is_empty()
            && t.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
    };
    let fits = |pattern: &String| match pattern.strip_suffix(".*") {
        Some(prefix) => pattern.len() <= 64 && prefix.split('.').all(is_token),
        None => pattern == "*" || SignalType::parse(pattern).is_ok(),
    };
    if selector.types.len() > 64 || selector.capabilities.len() > 64 {
        let message = "a subscription names at most 64 types and 64 capabilities";
        return Err(Problem::new(Reason::InvalidField, message).with("limit", 64));
    }
    match selector.types.iter().find(|pattern| !fits(pattern)) {
        None => Ok(()),
        Some(bad) => {
            let bad: String = bad.chars().take(80).collect();
            let message = format!(
                "type: {bad:?} is no signal type; use one of {}, one of your own (acme.build.started), or a prefix such as task.*",
                SIGNAL_TYPES.join(", ")
            );
            Err(Problem::new(Reason::InvalidField, message).with("field", "type"))
        }
    }
}

/// The commit that puts `signal` on the board, once. The signal's own record comes last.
pub fn writing(by: &Principal, signal: &Signal, now: WallTime, max_bytes: usize) -> Result<Writing, Problem> {
    if let Err(bad) = MessageId::parse(&signal.id) {
        return Err(Problem::new(Reason::InvalidField, format!("id: {bad}")).with("field", "id"));
    }
    let text = Bytes::from(json(signal)?);
    if text.len() > max_bytes {
        let message = format!("the signal has {} bytes of JSON, the limit is {max_bytes}", text.len());
        return Err(Problem::new(Reason::PayloadTooLarge, message).with("limit", max_bytes));
    }
    let digest = Digest::of(&text);
    let seen = Key::new(&[OWNER, SEEN, &by.to_string(), signal.from.as_str(), &signal.id]);
    let log = log_key(&signal.kind);
    let mut writes = Vec::with_capacity(3);
    if let (true, Some(task)) = (signal.kind == SignalType::task_available(), &signal.task_id) {
        writes.push(Write::Put(offer_key(task), text.clone()));
    }
    writes.push(Write::Put(seen.clone(), Bytes::from(json(&Seen { digest, at: now })?)));
    writes.push(Write::Append(log.clone(), text));
    let batch = Batch { writes, expectations: vec![Expectation::Absent(seen.clone())] };
    Ok(Writing { batch, seen, log, digest })
}

/// Where the signal of this digest that `seen` remembers was written first; `None` if it is not remembered. The two are one
/// commit, the signal comes right after.
pub fn first(
    store: &(impl Snapshot + ?Sized),
    seen: &Key,
    log: Key,
    digest: Digest,
) -> Result<Option<Revision>, Problem> {
    let Some(row) = store.latest(seen)? else { return Ok(None) };
    let known: Seen = serde_json::from_slice(&row.value)
        .map_err(|error| Problem::new(Reason::Internal, format!("{seen} holds no repeat row: {error}")))?;
    let after = store.read(&Filter::Exactly(log), row.revision, 1)?;
    let next = after.first().filter(|record| Digest::of(&record.value) == known.digest);
    let revision = next.map_or(row.revision + 1, |record| record.revision);
    if known.digest != digest {
        let message = "a signal with this id and other content is on the board";
        return Err(Problem::new(Reason::MessageIdReused, message)
            .with("field", "id")
            .with("revision", revision));
    }
    Ok(Some(revision))
}

/// What the board itself tells of a claim: `kind` about `task`, in the name of `from` (the board, if nobody is named).
/// The capability is that of the task's last offer.
pub(crate) fn of_claim(
    kind: SignalType,
    task: &TaskId,
    from: Option<&AgentId>,
    offer: Option<&Signal>,
    basis: u64,
    refs: Map<String, Value>,
    now: WallTime,
) -> Signal {
    let board = || AgentId::parse(BOARD).unwrap_or_else(|_| unreachable!("the board's name is an id"));
    Signal {
        id: format!("{BOARD_ID_PREFIX}{kind}:{task}:{basis}"),
        kind,
        from: from.cloned().unwrap_or_else(board),
        subject: offer.and_then(|offer| offer.subject.clone()),
        task_id: Some(task.clone()),
        capability: offer.and_then(|offer| offer.capability.clone()),
        refs,
        at: now,
    }
}

/// The writes that put a signal of the board's own into the log, and remember when.
pub(crate) fn own(signal: &Signal) -> Result<[Write; 2], Problem> {
    let text = Bytes::from(json(signal)?);
    let seen = Seen { digest: Digest::of(&text), at: signal.at };
    let key = Key::new(&[OWNER, SEEN, BOARD, &signal.id]);
    Ok([Write::Put(key, Bytes::from(json(&seen)?)), Write::Append(log_key(&signal.kind), text)])
}

/// The signal that a record holds; `None` if it holds none.
pub fn posted(record: &Record) -> Option<SignalRecord> {
    let signal = serde_json::from_slice(&record.value).ok()?;
    Some(SignalRecord { revision: record.revision, signal })
}

/// The signal as one server-sent event. JSON text has no line breaks of its own.
pub(crate) fn frame(record: &Record) -> Bytes {
    let revision = record.revision.to_string();
    let members = record.value.strip_prefix(b"{").unwrap_or_default();
    let parts: [&[u8]; 6] =
        [b"id: ", revision.as_bytes(), b"\ndata: {\"revision\":", revision.as_bytes(), b",", members];
    let mut frame = Vec::with_capacity(parts.iter().map(|part| part.len()).sum::<usize>() + 2);
    for part in parts {
        frame.extend_from_slice(part);
    }
    frame.extend_from_slice(b"\n\n");
    Bytes::from(frame)
}

pub(crate) fn json(value: &impl Serialize) -> Result<Vec<u8>, Problem> {
    serde_json::to_vec(value).map_err(|error| Problem::new(Reason::Internal, error.to_string()))
}

#[cfg(test)]
pub(crate) mod tests;
