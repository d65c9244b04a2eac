//! The turns of contexts that have ended, in the store: who has done what, and where its content is.

use crate::{
    chunks::{self, ChunkLog},
    content,
    records::{TaskRow, keys, lists},
};
use patterns::{
    context::{self, ContextEntry, ContextHead, ContextStart, EndedTurn},
    session::{names, seat},
    turn::{PastTurn, Prompt, TurnContext},
};
use protocol::{
    compaction::Compaction,
    ids::{AgentId, ConversationId, TaskId},
    limits::Limits,
    principal::Principal,
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;
use store_types::{Error, Filter, Revision, Snapshot, Write};

/// The most turns that are read at once.
const PAGE: usize = 256;

/// A turn of a context that has ended, and its task.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContextTurn {
    task: TaskId,
    owner: Principal,
    #[serde(flatten)]
    turn: EndedTurn,
}

/// What is kept of a context beside its turns.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContextRow {
    /// When it was last used.
    used: WallTime,
    #[serde(flatten)]
    head: ContextHead,
}

/// Until when the content of an ended task is kept because a context goes on from it; `None` if none does.
pub(crate) fn kept_until(
    store: &dyn Snapshot,
    me: &AgentId,
    row: &TaskRow,
    limits: &Limits,
) -> Result<Option<WallTime>, Error> {
    let Some(name) = context::name(&row.task.spec, &row.task.owner) else { return Ok(None) };
    if store.latest(&keys::context_turn(me, &name, &row.task.conversation))?.is_none() {
        return Ok(None);
    }
    let used = store.latest(&keys::context(me, &name))?;
    let used = used.map(|record| content::decode::<ContextRow>(me, store, &record.value)).transpose()?;
    Ok(used.map(|row| row.used.plus(Duration::from_millis(limits.keep_contexts_ms))))
}

/// Records that a task of a context has ended.
pub(crate) fn record(
    me: &AgentId,
    entry: &ContextEntry,
    (id, row): (&ConversationId, &TaskRow),
    at: WallTime,
    writes: &mut Vec<Write>,
) -> Result<(), Error> {
    let refused = |error: serde_json::Error| Error::Refused(format!("a context can't be written: {error}"));
    let (task, owner) = (row.task.spec.task_id.clone(), row.task.owner.clone());
    let turn = ContextTurn { task, owner, turn: entry.turn.clone() };
    let turn = serde_json::to_vec(&turn).map_err(refused)?;
    writes.push(Write::Put(keys::context_turn(me, &entry.name, id), turn.into()));
    let key = keys::context(me, &entry.name);
    let aged = lists::aged(&key, at);
    let row = ContextRow { used: at, head: entry.head.clone() };
    writes.push(Write::PutListed(key, serde_json::to_vec(&row).map_err(refused)?.into(), vec![aged]));
    Ok(())
}

/// From where a task with this input goes on in the context `name`.
pub(crate) fn start(
    me: &AgentId,
    store: &dyn Snapshot,
    name: &str,
    compaction: Compaction,
    input: Option<&Value>,
) -> Result<ContextStart, Error> {
    let Some(record) = store.latest(&keys::context(me, name))? else { return Ok(ContextStart::default()) };
    let ContextRow { head, .. } = content::decode(me, store, &record.value)?;
    let page = store.read(&Filter::Below(keys::context_turns(me, name)), head.after, PAGE)?;
    let ended = page.into_iter().filter_map(|record| {
        let id = ConversationId::parse(record.key.tokens().get(3)?).ok()?;
        let turn: ContextTurn = serde_json::from_slice(&record.value).ok()?;
        Some((record.revision, id, turn.turn))
    });
    Ok(ContextStart::new(head, ended.collect(), seat::compaction(input).or(compaction), input))
}

/// Adds the earlier turns of its context to a prompt, if it belongs to one. A turn whose content has been deleted is a line of the
/// summary.
pub(crate) fn complete(
    me: &AgentId,
    store: &dyn Snapshot,
    context: Option<(&String, &ContextStart)>,
    mut prompt: Prompt,
) -> Result<Prompt, Error> {
    let Some((name, start)) = context else { return Ok(prompt) };
    let mut context = TurnContext { summary: start.summary.clone(), turns: Vec::new() };
    for id in &start.turns {
        let Some(record) = store.latest(&keys::context_turn(me, name, id))? else { continue };
        let ContextTurn { task, owner, turn } = content::decode(me, store, &record.value)?;
        let row = match store.latest(&keys::task(me, &task, &owner))? {
            Some(row) => Some(content::decode::<TaskRow>(me, store, &row.value)?),
            None => None,
        };
        match row.filter(|row| row.task.conversation == *id) {
            Some(row) => context.turns.push(past_turn(me, store, turn, &row)?),
            None => context.summary.push_str(&turn.line()),
        }
    }
    prompt.context = Some(Box::new(context));
    Ok(prompt)
}

fn past_turn(me: &AgentId, store: &dyn Snapshot, turn: EndedTurn, row: &TaskRow) -> Result<PastTurn, Error> {
    let spec = &row.task.spec;
    let message = row.task.status.message.clone();
    Ok(PastTurn {
        task_id: spec.task_id.clone(),
        new: seat::new_artifacts(spec).cloned().collect(),
        checkpoints: ChunkLog::of_task(me, row).checkpoints(store, turn.checkpoints)?,
        produced: chunks::artifacts_of(store, me, row, Revision::MAX)?,
        message: message.filter(|said| said != names::PASSES),
        place: turn.place,
    })
}
