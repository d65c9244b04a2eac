//! The lists that an agent's records stand in: by age, for retention; per principal, for lists of tasks; by request, to count how
//! often an agent asks for the same.

use crate::records::TaskRow;
use patterns::session::is_confidential;
use protocol::{
    ids::{AgentId, Digest},
    principal::Principal,
    task::TaskState,
    time::WallTime,
};
use store_types::{Key, ListEntry, ListOrder, ListQuery};

/// All states of a task. A task's part of its lists is the place of its state here, and the bits below: stores have these
/// numbers.
const STATES: [TaskState; 8] = [
    TaskState::Submitted,
    TaskState::Working,
    TaskState::InputRequired,
    TaskState::AuthRequired,
    TaskState::Completed,
    TaskState::Failed,
    TaskState::Canceled,
    TaskState::Rejected,
];
/// The bit of tasks of a tenant.
const TENANT: u8 = 8;
/// The bit of tasks that were answered with a message.
const MESSAGE: u8 = 16;
/// The bit of sessions and their turns.
const CONFIDENTIAL: u8 = 32;

/// The records of a topic by age. Of tasks, it has those that have ended.
pub fn by_age(me: &AgentId, topic: &str) -> Key {
    Key::new(&[me.as_str(), topic, "by-age"])
}

/// The entry of the record at `key` in the list of its topic by age.
pub fn aged(key: &Key, at: WallTime) -> ListEntry {
    ListEntry { list: Key::stored(format!("{}.by-age", key.topic())), part: 0, at: at.0, group: 0 }
}

/// The tasks that a principal may see: all, or those of a tenant.
fn tasks_of(me: &AgentId, principal: &Principal, tenant: Option<&str>) -> Key {
    let principal = principal.to_string();
    Key::new(&[me.as_str(), "task", "of"].into_iter().chain([&*principal]).chain(tenant).collect::<Vec<_>>())
}

/// The tasks of equal requests; `equals` is the digest that they have in common.
pub(crate) fn of_equal_requests(me: &AgentId, equals: &Digest) -> Key {
    Key::new(&[me.as_str(), "task", "equal", &equals.to_string()])
}

fn context(id: &str) -> u64 {
    Digest::of(id.as_bytes()).prefix()
}

/// The entries of a task's row at `key`.
pub fn of_task(me: &AgentId, key: &Key, row: &TaskRow) -> Vec<ListEntry> {
    let task = &row.task;
    let state = STATES.iter().zip(0..).find(|(state, _)| **state == task.status.state);
    let mut part = state.map_or(0, |(_, place)| place);
    part |= if task.tenant().is_some() { TENANT } else { 0 };
    part |= if task.is_message { MESSAGE } else { 0 };
    part |= if is_confidential(task) { CONFIDENTIAL } else { 0 };
    let (at, group) = (task.changed_at.0, context(task.context_id()));
    let mut entries = Vec::with_capacity(4);
    let principals = [&task.owner, &task.spec.root].into_iter().chain(&task.participants);
    for list in principals.flat_map(|principal| {
        let of_tenant = task.tenant().map(|tenant| tasks_of(me, principal, Some(tenant)));
        [tasks_of(me, principal, None)].into_iter().chain(of_tenant)
    }) {
        if entries.iter().all(|entry: &ListEntry| entry.list != list) {
            entries.push(ListEntry { list, part, at, group });
        }
    }
    if let Some(equals) = &row.equals {
        let list = of_equal_requests(me, equals);
        entries.push(ListEntry { list, part: 0, at: task.created_at.0, group: 0 });
    }
    if row.ended_at.is_some() {
        entries.push(aged(key, task.changed_at));
    }
    entries
}

/// The A2A contexts of a user, the one that was used last first.
pub(crate) fn contexts_of(me: &AgentId, user: &Principal) -> ListQuery {
    let list = Key::new(&[me.as_str(), "context", "of", &user.to_string()]);
    ListQuery { order: ListOrder::NewestFirst, ..ListQuery::oldest(list) }
}

/// The entry of a context that a user has used last at `at`.
pub(crate) fn context_of(me: &AgentId, user: &Principal, at: WallTime) -> ListEntry {
    ListEntry { list: contexts_of(me, user).list, part: 0, at: at.0, group: 0 }
}

/// Selects tasks, the latest status first.
#[derive(Debug, Clone, Default)]
pub struct TaskFilter {
    /// Only tasks in this state.
    pub state: Option<TaskState>,
    /// Only tasks of this context.
    pub context: Option<String>,
    /// Only tasks whose status changed then or later.
    pub changed_since: Option<WallTime>,
    /// Leaves sessions and their turns out, which are not shown to a person without a proof.
    pub hides_confidential: bool,
}

impl TaskFilter {
    fn query(&self, list: Key, bits: &[u8]) -> ListQuery {
        let states = STATES.iter().zip(0_u8..);
        let states = states.filter(|(state, _)| self.state.is_none_or(|wanted| wanted == **state));
        let hidden: &[u8] = if self.hides_confidential { &[0] } else { &[0, CONFIDENTIAL] };
        let bits: Vec<u8> =
            bits.iter().flat_map(|bits| hidden.iter().map(move |hidden| bits | hidden)).collect();
        let parts = states.flat_map(|(_, place)| bits.iter().map(move |bits| place | bits)).collect();
        ListQuery {
            parts,
            group: self.context.as_deref().map(context),
            from: self.changed_since.map(|since| since.0),
            order: ListOrder::NewestFirst,
            ..ListQuery::oldest(list)
        }
    }

    /// All tasks that `principal` may see, those that were answered with a message included.
    pub fn of_principal(&self, me: &AgentId, principal: &Principal) -> ListQuery {
        self.query(tasks_of(me, principal, None), &[0, TENANT, MESSAGE, TENANT | MESSAGE])
    }

    /// The tasks of `tenant`, or without a tenant, that `principal` may see.
    pub fn of_tenant(&self, me: &AgentId, principal: &Principal, tenant: Option<&str>) -> ListQuery {
        let bits = if tenant.is_some() { TENANT } else { 0 };
        self.query(tasks_of(me, principal, tenant), &[bits])
    }
}
