//! Signals in the store: keys, validation, the batch of a publication, and the encoding for readers. Pure.

use crate::{
    OWNER,
    access::BOARD,
    claims::{StoredClaim, find_claim},
};
use bytes::Bytes;
use protocol::{
    ids::{AgentId, Digest, MessageId, TaskId},
    principal::{MeshService, Principal},
    problem::{Problem, Reason},
    signal::{
        BOARD_ID_PREFIX, Cursor, PUBLISHER, SIGNAL_TYPES, Selector, Signal, SignalRecord, SignalType,
        described_task,
    },
    task::OpenTaskKey,
    time::WallTime,
    trace::TRACEPARENT,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use store::{Batch, Expectation, Filter, Key, Record, Revision, Snapshot, Write};

const LOG: &str = "signal";
const DEDUP: &str = "seen";
const OFFERS: &str = "offer";

/// The row by which a repeated publication of a signal is recognised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DedupRow {
    pub digest: Digest,
    pub at: WallTime,
}

/// The batch that publishes a signal.
#[derive(Debug, Clone)]
pub struct SignalWrite {
    /// All writes; the signal's record is the last.
    pub batch: Batch,
    /// The key of the dedup row.
    pub dedup_key: Key,
    /// The key of the signal's log.
    pub log_key: Key,
    /// The digest of the signal.
    pub digest: Digest,
}

/// The key of the log of `kind`.
pub fn log_key(kind: &SignalType) -> Key {
    let tokens: Vec<&str> = [OWNER, LOG].into_iter().chain(kind.as_str().split('.')).collect();
    Key::new(&tokens)
}

/// All signals.
pub fn all_signals() -> Filter {
    Filter::Below(Key::new(&[OWNER, LOG]))
}

/// All dedup rows, oldest first.
pub(crate) fn all_dedup_rows() -> Filter {
    Filter::Below(Key::new(&[OWNER, DEDUP]))
}

/// The last offers of open tasks, oldest first.
pub(crate) fn all_offers() -> Filter {
    Filter::Below(Key::new(&[OWNER, OFFERS]))
}

/// The key of the last offer of `task`.
pub(crate) fn offer_key(task: &OpenTaskKey) -> Key {
    Key::new(&[OWNER, OFFERS, &task.publisher.to_string(), task.task_id.as_str()])
}

/// The digest of what a signal offers, without its trace.
pub(crate) fn offer_digest(offer: &Signal) -> Digest {
    let Signal { subject, capability, refs, .. } = offer;
    let refs: BTreeMap<_, _> = refs.iter().filter(|(name, _)| *name != TRACEPARENT).collect();
    Digest::of(json!([subject, capability, refs]).to_string().as_bytes())
}

/// The narrowest store filter that admits every signal of `selector`.
pub fn store_filter(selector: &Selector) -> Filter {
    let [pattern] = selector.types.as_slice() else { return all_signals() };
    let (prefix, is_exact) = match pattern.strip_suffix('*') {
        Some(prefix) => (prefix.trim_end_matches('.'), false),
        None => (pattern.as_str(), true),
    };
    let tokens: Vec<&str> =
        [OWNER, LOG].into_iter().chain(prefix.split('.').filter(|t| !t.is_empty())).collect();
    let key = Key::new(&tokens);
    if is_exact { Filter::Exactly(key) } else { Filter::Below(key) }
}

/// Checks that every type of `selector` is a signal type or a prefix that ends in `.*`, and that it names at most 64.
pub fn check_selector(selector: &Selector) -> Result<(), Problem> {
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

/// The digest by which a repeat of `signal` is recognised: of what its publisher says in it.
fn repeat_digest(signal: &Signal) -> Result<Digest, Problem> {
    Ok(Digest::of(&json(&Signal { by: None, root: None, root_proof: None, ..signal.clone() })?))
}

/// Validates `signal` and builds the batch that publishes it once, as a signal of `by`. An offer names its publisher, too. Another offer
/// of the same publisher under the same task id is refused.
pub fn prepare_write(
    store: &(impl Snapshot + ?Sized),
    by: &Principal,
    signal: &Signal,
    now: WallTime,
    max_bytes: usize,
) -> Result<SignalWrite, Problem> {
    if let Err(bad) = MessageId::parse(&signal.id) {
        return Err(Problem::new(Reason::InvalidField, format!("id: {bad}")).with("field", "id"));
    }
    check_offer(signal)?;
    let proof = signal.root_proof;
    let mut signal = Signal { by: None, root_proof: None, ..signal.clone() };
    let bytes = json(&signal)?.len();
    if bytes > max_bytes {
        let message = format!("the signal has {bytes} bytes of JSON, the limit is {max_bytes}");
        return Err(Problem::new(Reason::PayloadTooLarge, message).with("limit", max_bytes));
    }
    (signal.by, signal.root_proof) = (Some(by.clone()), proof);
    let offered = signal.task_id.clone().filter(|_| signal.kind == SignalType::task_available());
    if offered.is_some() {
        signal.refs.insert(PUBLISHER.to_owned(), json!(by));
    }
    let text = Bytes::from(json(&signal)?);
    let (mut writes, mut expectations) = (Vec::with_capacity(3), Vec::with_capacity(2));
    if let Some(task_id) = offered {
        let task = OpenTaskKey { publisher: by.clone(), task_id };
        let record = store.latest(&offer_key(&task))?;
        let claim = find_claim(store, &task)?;
        check_same_offer(by, &signal, record.as_ref(), claim.as_ref())?;
        if claim.is_none_or(|claim| claim.row.offer.is_none()) {
            expectations.push(match record {
                Some(record) => Expectation::At(record.key, record.revision),
                None => Expectation::Absent(offer_key(&task)),
            });
            writes.push(Write::Put(offer_key(&task), text.clone()));
        }
    }
    let digest = repeat_digest(&signal)?;
    let dedup_key = Key::new(&[OWNER, DEDUP, &by.to_string(), signal.from.as_str(), &signal.id]);
    let log_key = log_key(&signal.kind);
    expectations.push(Expectation::Absent(dedup_key.clone()));
    writes.push(Write::Put(dedup_key.clone(), Bytes::from(json(&DedupRow { digest, at: now })?)));
    writes.push(Write::Append(log_key.clone(), text));
    Ok(SignalWrite { batch: Batch { writes, expectations }, dedup_key, log_key, digest })
}

/// Refuses an offer that nobody can do: one without a task id, or that does not say what is to be done.
fn check_offer(signal: &Signal) -> Result<(), Problem> {
    if signal.kind != SignalType::task_available() {
        return Ok(());
    }
    let (field, why) = if signal.task_id.is_none() {
        ("taskId", "an offer (task.available) names its task by an id of its publisher's")
    } else if described_task(&signal.refs, signal.subject.as_deref()).is_none() {
        ("refs.description", "an offer (task.available) says what is to be done, here or in `subject`")
    } else {
        return Ok(());
    };
    Err(Problem::new(Reason::InvalidField, format!("{field}: {why}")).with("field", field))
}

/// Refuses an offer that differs from the stored one, or from the one that was done.
fn check_same_offer(
    by: &Principal,
    offer: &Signal,
    stored: Option<&Record>,
    claim: Option<&StoredClaim>,
) -> Result<(), Problem> {
    let stored = stored.and_then(|record| serde_json::from_slice::<Signal>(&record.value).ok());
    let known = stored.as_ref().map(offer_digest).or_else(|| claim?.row.offer);
    if known.is_none_or(|known| known == offer_digest(offer)) {
        return Ok(());
    }
    let task = offer.task_id.as_ref().map(TaskId::as_str).unwrap_or_default();
    let message = format!("taskId: {by} has offered another task as {task}; give this one an id of its own");
    Err(Problem::new(Reason::TaskIdReused, message).with("field", "taskId"))
}

/// The first revision of the signal with the dedup row `dedup_key`; `None` without such a row. Refused if the row has
/// another digest. Row and signal are one commit; the signal follows the row directly.
pub fn first_revision(
    store: &(impl Snapshot + ?Sized),
    dedup_key: &Key,
    log_key: Key,
    digest: Digest,
) -> Result<Option<Revision>, Problem> {
    let Some(row) = store.latest(dedup_key)? else { return Ok(None) };
    let stored: DedupRow = serde_json::from_slice(&row.value).map_err(|error| {
        Problem::new(Reason::Internal, format!("{dedup_key} holds no repeat row: {error}"))
    })?;
    let after = store.read(&Filter::Exactly(log_key), row.revision, 1)?;
    let is_it = |record: &&Record| {
        parse_record(record).and_then(|posted| repeat_digest(&posted.signal).ok()) == Some(stored.digest)
    };
    let next = after.first().filter(is_it);
    let revision = next.map_or(row.revision + 1, |record| record.revision);
    if stored.digest != digest {
        let message = "a signal with this id and other content is on the board";
        return Err(Problem::new(Reason::MessageIdReused, message)
            .with("field", "id")
            .with("revision", revision));
    }
    Ok(Some(revision))
}

/// The board's own signal about a claim on `task`, sent as `from` or as the board. It names the publisher of the task.
/// Subject and capability are those of the task's last offer.
pub(crate) fn claim_signal(
    kind: SignalType,
    task: &OpenTaskKey,
    from: Option<&AgentId>,
    offer: Option<&Signal>,
    basis: u64,
    mut refs: Map<String, Value>,
    now: WallTime,
) -> Signal {
    let OpenTaskKey { publisher, task_id } = task;
    let root = offer.and_then(Signal::acts_for).unwrap_or_else(|| publisher.clone());
    let root_proof = offer.and_then(Signal::task_root).and_then(|root| root.proof);
    refs.insert(PUBLISHER.to_owned(), json!(publisher));
    let board = || AgentId::parse(BOARD).unwrap_or_else(|_| unreachable!("the board's name is an id"));
    Signal {
        id: format!("{BOARD_ID_PREFIX}{kind}:{publisher}:{task_id}:{basis}"),
        kind,
        from: from.cloned().unwrap_or_else(board),
        by: Some(Principal::Service(MeshService::Board)),
        root: Some(root),
        root_proof,
        subject: offer.and_then(|offer| offer.subject.clone()),
        task_id: Some(task_id.clone()),
        capability: offer.and_then(|offer| offer.capability.clone()),
        refs,
        to: offer.map(|offer| offer.to.clone()).unwrap_or_default(),
        at: now,
    }
}

/// The writes of one of the board's own signals: its dedup row and its record.
pub(crate) fn board_signal_writes(signal: &Signal) -> Result<[Write; 2], Problem> {
    let text = Bytes::from(json(signal)?);
    let row = DedupRow { digest: repeat_digest(signal)?, at: signal.at };
    let key = Key::new(&[OWNER, DEDUP, BOARD, &signal.id]);
    Ok([Write::Put(key, Bytes::from(json(&row)?)), Write::Append(log_key(&signal.kind), text)])
}

/// The signal in a record; `None` if it holds none.
pub fn parse_record(record: &Record) -> Option<SignalRecord> {
    let signal = serde_json::from_slice(&record.value).ok()?;
    Some(SignalRecord { revision: record.revision, signal })
}

/// The signal as one server-sent event, whose id is its cursor. The stored JSON has no line breaks.
pub(crate) fn frame(record: &Record, generation: &str) -> Bytes {
    let revision = record.revision.to_string();
    let id = Cursor { generation: Some(generation.to_owned()), revision: record.revision }.to_string();
    let members = record.value.strip_prefix(b"{").unwrap_or_default();
    let parts: [&[u8]; 6] =
        [b"id: ", id.as_bytes(), b"\ndata: {\"revision\":", revision.as_bytes(), b",", members];
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
