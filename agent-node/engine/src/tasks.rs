//! Looks up a task by its id. Several owners may each have a task with the same id.

use crate::{
    content,
    records::{TaskRow, keys},
};
use protocol::{
    ids::{AgentId, TaskId},
    principal::Principal,
};
use store_types::{Error, Filter, Key, Snapshot};

/// The most tasks of one id that a lookup reads.
const MAX_SAME_ID: usize = 64;

/// The task with this id that `by` owns, or else the most recently changed one that `by` may see.
pub fn find(
    store: &dyn Snapshot,
    me: &AgentId,
    task: &TaskId,
    by: &Principal,
) -> Result<Option<TaskRow>, Error> {
    if let Some(record) = store.latest(&keys::task(me, task, by))? {
        return content::decode(me, store, &record.value).map(Some);
    }
    for record in store.read(&same_id(me, task), 0, MAX_SAME_ID)?.into_iter().rev() {
        let row: TaskRow = content::decode(me, store, &record.value)?;
        if row.task.is_visible_to(by) {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

/// The owners of the tasks with this id, at most [`MAX_SAME_ID`].
pub(crate) fn owners(store: &dyn Snapshot, me: &AgentId, task: &TaskId) -> Result<Vec<Principal>, Error> {
    let keys = store.keys(&same_id(me, task), 0, MAX_SAME_ID)?;
    Ok(keys.into_iter().filter_map(|(_, key)| Principal::try_from(key.tokens().pop()?).ok()).collect())
}

fn same_id(me: &AgentId, task: &TaskId) -> Filter {
    Filter::One(Key::new(&[me.as_str(), "task", task.as_str()]))
}
