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
    handoff::Handover,
    ids::{AgentId, ConversationId, TaskId},
    limits::Limits,
    principal::Principal,
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;
use store_types::{Batch, Error, Filter, Revision, Snapshot, Write};

/// The most turns that are read at once.
const PAGE: usize = 1_024;

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
    /// The A2A context; absent for a seat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    of: Option<A2aContextId>,
}

/// An A2A context as its user knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct A2aContextId {
    /// The id that its client has named, or was given.
    pub context_id: String,
    /// The tenant to which it belongs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// An A2A context of a user: what its agent goes on from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextView {
    #[serde(flatten)]
    pub of: A2aContextId,
    /// When its last turn ended.
    pub used_at: WallTime,
    /// With whom it goes on, if it was handed over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handover: Option<Box<Handover>>,
    /// A line about each turn that the next one is not given whole.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// The turns that the next one is given whole, the oldest first; absent in a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<Vec<PastTurn>>,
}

/// Until when the content of an ended task is kept because a context goes on from it; `None` if none does.
pub(crate) fn kept_until(
    store: &dyn Snapshot,
    me: &AgentId,
    row: &TaskRow,
    limits: &Limits,
) -> Result<Option<WallTime>, Error> {
    let Some(name) = context::name(&row.task.spec, &row.task.owner) else { return Ok(None) };
    if store.latest(&keys::context_turn(me, &name, &row.task.conversation))?.is_none()
        || is_lone(store, me, &name, row)?
    {
        return Ok(None);
    }
    let used = store.latest(&keys::context(me, &name))?;
    let used = used.map(|record| content::decode::<ContextRow>(me, store, &record.value)).transpose()?;
    Ok(used.map(|row| row.used.plus(Duration::from_millis(limits.keep_contexts_ms))))
}

/// Whether a task is the only one of a context that its client has not named: nobody has gone on from it.
fn is_lone(store: &dyn Snapshot, me: &AgentId, name: &str, row: &TaskRow) -> Result<bool, Error> {
    let contact = row.task.spec.contact.as_ref();
    let is_named = contact.is_none_or(|contact| contact.message.context_id.is_some());
    Ok(!is_named && store.keys(&Filter::Below(keys::context_turns(me, name)), 0, 2)?.len() < 2)
}

/// The deletions of the context of a task whose content is deleted, if nobody has gone on from it.
pub(crate) fn deletions_with(store: &dyn Snapshot, me: &AgentId, row: &TaskRow) -> Result<Vec<Write>, Error> {
    let Some(name) = context::name(&row.task.spec, &row.task.owner) else { return Ok(Vec::new()) };
    if !is_lone(store, me, &name, row)? {
        return Ok(Vec::new());
    }
    let turn = keys::context_turn(me, &name, &row.task.conversation);
    let names = [keys::context(me, &name), keys::handover(me, &name)];
    Ok(std::iter::once(turn).chain(names).map(Write::Delete).collect())
}

/// The record of with whom a context goes on; without `handover` it is deleted.
pub(crate) fn hand_over(me: &AgentId, name: &str, handover: Option<&Handover>) -> Result<Write, Error> {
    let key = keys::handover(me, name);
    let Some(handover) = handover else { return Ok(Write::Delete(key)) };
    let record = serde_json::to_vec(handover)
        .map_err(|error| Error::Refused(format!("a handover can't be written: {error}")))?;
    Ok(Write::Put(key, record.into()))
}

/// With whom a context goes on, if it was handed over.
pub(crate) fn handover(
    store: &dyn Snapshot,
    me: &AgentId,
    name: &str,
) -> Result<Option<Box<Handover>>, Error> {
    let record = store.latest(&keys::handover(me, name))?;
    record.map(|record| content::decode(me, store, &record.value)).transpose()
}

/// Gives the A2A context of a user back to this agent; `None` if it was not handed over.
pub fn taking_back(
    store: &dyn Snapshot,
    me: &AgentId,
    user: &Principal,
    of: &A2aContextId,
) -> Result<Option<Batch>, Error> {
    let name = context::name_of((user, user), of.tenant.as_deref(), &of.context_id);
    let is_handed = handover(store, me, &name)?.is_some();
    let delete = || Batch { writes: vec![Write::Delete(keys::handover(me, &name))], ..Batch::default() };
    Ok(is_handed.then(delete))
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
    let contact =
        row.task.spec.contact.as_ref().filter(|_| !seat::is_seat_input(row.task.spec.input.as_ref()));
    let of = contact.and_then(|contact| {
        Some(A2aContextId { context_id: contact.context_id.clone()?, tenant: contact.tenant.clone() })
    });
    let mine = of.as_ref().map(|_| lists::context_of(me, &row.task.owner, at));
    let lists = [aged].into_iter().chain(mine).collect();
    let row = ContextRow { used: at, head: entry.head.clone(), of };
    writes.push(Write::PutListed(key, serde_json::to_vec(&row).map_err(refused)?.into(), lists));
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
    let handover = handover(store, me, name)?;
    let Some(record) = store.latest(&keys::context(me, name))? else {
        return Ok(ContextStart::default().handed_over(handover));
    };
    let ContextRow { head, .. } = content::decode(me, store, &record.value)?;
    let page = store.read(&Filter::Below(keys::context_turns(me, name)), head.after, PAGE)?;
    let ended = page.into_iter().filter_map(|record| {
        let id = ConversationId::parse(record.key.tokens().get(3)?).ok()?;
        let turn: ContextTurn = serde_json::from_slice(&record.value).ok()?;
        Some((record.revision, id, turn.turn))
    });
    let start = ContextStart::new(head, ended.collect(), seat::compaction(input).or(compaction), input);
    Ok(start.handed_over(handover))
}

/// The A2A contexts of a user, the one that was used last first, at most `limit`: each with its last use, and without its turns.
pub fn list(
    store: &dyn Snapshot,
    me: &AgentId,
    user: &Principal,
    limit: usize,
) -> Result<Vec<ContextView>, Error> {
    let mut views = Vec::new();
    for listed in store.list(&lists::contexts_of(me, user), limit)? {
        let Some(record) = store.latest(&listed.key)? else { continue };
        let row: ContextRow = content::decode(me, store, &record.value)?;
        let name = listed.key.tokens().get(2).cloned().unwrap_or_default();
        let handover = handover(store, me, &name)?;
        let view = |of| ContextView { of, used_at: row.used, handover, summary: String::new(), turns: None };
        views.extend(row.of.map(view));
    }
    Ok(views)
}

/// The A2A context of a user with its turns; `None` if there is none.
pub fn find(
    store: &dyn Snapshot,
    me: &AgentId,
    user: &Principal,
    of: A2aContextId,
) -> Result<Option<ContextView>, Error> {
    let name = context::name_of((user, user), of.tenant.as_deref(), &of.context_id);
    let Some(record) = store.latest(&keys::context(me, &name))? else { return Ok(None) };
    let row: ContextRow = content::decode(me, store, &record.value)?;
    let start = start(me, store, &name, Compaction::default(), None)?;
    let TurnContext { summary, turns, .. } = turns_of(me, store, &name, &start)?;
    let handover = start.handover;
    Ok(Some(ContextView { of, used_at: row.used, handover, summary, turns: Some(turns) }))
}

/// Deletes the A2A context of a user, a page of its turns at a time: to be called until it returns `None`. The records of its tasks stay.
pub fn deletion(
    store: &dyn Snapshot,
    me: &AgentId,
    user: &Principal,
    of: &A2aContextId,
) -> Result<Option<Batch>, Error> {
    let name = context::name_of((user, user), of.tenant.as_deref(), &of.context_id);
    let mut writes: Vec<_> = store.keys(&Filter::Below(keys::context_turns(me, &name)), 0, PAGE)?;
    let (row, handover) = (keys::context(me, &name), keys::handover(me, &name));
    if writes.is_empty() && store.latest(&row)?.is_none() && store.latest(&handover)?.is_none() {
        return Ok(None);
    }
    let is_whole = writes.len() < PAGE;
    let mut batch = Batch::default();
    batch.writes.extend(writes.drain(..).map(|(_, key)| Write::Delete(key)));
    batch.writes.extend(is_whole.then_some([row, handover]).into_iter().flatten().map(Write::Delete));
    Ok(Some(batch))
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
    prompt.context = Some(Box::new(turns_of(me, store, name, start)?));
    Ok(prompt)
}

fn turns_of(
    me: &AgentId,
    store: &dyn Snapshot,
    name: &str,
    start: &ContextStart,
) -> Result<TurnContext, Error> {
    let mut context =
        TurnContext { summary: start.summary.clone(), before: start.before().to_owned(), turns: Vec::new() };
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
    Ok(context)
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
        asked: turn.place.is_empty().then(|| spec.description.clone()),
        place: turn.place,
        summary: turn.summary,
        by: turn.by,
    })
}
