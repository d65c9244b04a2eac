//! The order in which an agent's tasks are listed, kept from list to list: what has changed since is read, and of that only
//! what the order needs. A page then costs its own rows, however many tasks there are.

use crate::{
    agent::every_after,
    conversation::{record::keys, spill},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use blackboard::store::{Error, Key, Revision, Store};
use protocol::{
    a2a::json::Invalid,
    ids::{AgentId, ConversationId, TaskId},
    principal::Principal,
    task::{TaskState, may_see},
    time::WallTime,
};
use serde::Deserialize;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

/// The most tasks that are remembered from list to list.
const MOST: usize = 100_000;

/// A place in a list: where a task stands in the order by the time of its status.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cursor(i64, String);

impl Cursor {
    /// The token of the page after it.
    pub(super) fn token(&self) -> String {
        URL_SAFE_NO_PAD.encode(format!("{}|{}", self.0, self.1))
    }

    /// The place that a token names.
    pub(super) fn parse(token: &str) -> Result<Self, Invalid> {
        let read = || {
            let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
            let (at, name) = text.split_once('|')?;
            Some(Self(at.parse().ok()?, name.to_owned()))
        };
        read().ok_or_else(|| Invalid::new("pageToken", "is none that a page of this list ended with"))
    }
}

/// What the order, and who may see it, need of a row.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outline {
    spec: Spec,
    conversation: ConversationId,
    owner: Principal,
    #[serde(default)]
    participants: Vec<Principal>,
    status: Standing,
    changed_at: WallTime,
    #[serde(default)]
    is_message: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    task_id: TaskId,
    root: Principal,
    #[serde(default)]
    contact: Option<Contact>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Contact {
    #[serde(default)]
    context_id: Option<String>,
    #[serde(default)]
    tenant: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Standing {
    state: TaskState,
}

impl Outline {
    fn cursor(&self) -> Cursor {
        Cursor(self.changed_at.0, format!("{}@{}", self.spec.task_id, self.owner))
    }

    /// Whether `principal` may see it.
    pub(super) fn is_visible_to(&self, principal: &Principal) -> bool {
        may_see(principal, &self.owner, &self.spec.root, &self.participants)
    }

    /// The tenant it is kept for.
    pub(super) fn tenant(&self) -> Option<&str> {
        self.spec.contact.as_ref()?.tenant.as_deref()
    }

    /// The context it belongs to.
    pub(super) fn context_id(&self) -> &str {
        let named = self.spec.contact.as_ref().and_then(|contact| contact.context_id.as_deref());
        named.unwrap_or(self.conversation.as_str())
    }

    /// Where it stands.
    pub(super) fn state(&self) -> TaskState {
        self.status.state
    }

    /// Since when.
    pub(super) fn changed_at(&self) -> WallTime {
        self.changed_at
    }
}

/// The order of one agent's tasks. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Listed(Arc<Mutex<Order>>);

#[derive(Debug, Default)]
struct Order {
    after: Revision,
    forgotten: u64,
    places: HashMap<Key, Cursor>,
    rows: BTreeMap<Reverse<Cursor>, (Key, Outline)>,
}

/// What a list comes to.
pub(super) struct Page {
    /// Places and rows, the newest first; one more than asked for if there is another page.
    pub(super) rows: Vec<(Cursor, Key)>,
    /// How many there are in all.
    pub(super) total: usize,
}

impl Listed {
    /// The first `size` rows behind `before` that are wanted, and one more. `forgotten` counts how often rows were deleted,
    /// which the store does not tell. Blocks.
    pub(super) fn page(
        &self,
        store: &dyn Store,
        me: &AgentId,
        forgotten: u64,
        before: Option<&Cursor>,
        size: usize,
        is_wanted: impl Fn(&Outline) -> bool,
    ) -> Result<Page, Error> {
        let mut order = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if order.forgotten != forgotten {
            *order = Order { forgotten, ..Order::default() };
        }
        order.catch_up(store, me)?;
        let mut page = Page { rows: Vec::new(), total: 0 };
        for (Reverse(at), (key, outline)) in &order.rows {
            if !is_wanted(outline) {
                continue;
            }
            page.total += 1;
            if page.rows.len() <= size && before.is_none_or(|before| at < before) {
                page.rows.push((at.clone(), key.clone()));
            }
        }
        if order.rows.len() > MOST {
            *order = Order { forgotten, ..Order::default() };
        }
        Ok(page)
    }
}

impl Order {
    fn catch_up(&mut self, store: &dyn Store, me: &AgentId) -> Result<(), Error> {
        let after = self.after;
        every_after(store, &keys::all(me, "task"), after, |record| {
            let outline: Outline = spill::outline(&record.value)?;
            if let Some(old) = self.places.remove(&record.key) {
                self.rows.remove(&Reverse(old));
            }
            if !outline.is_message {
                self.places.insert(record.key.clone(), outline.cursor());
                self.rows.insert(Reverse(outline.cursor()), (record.key, outline));
            }
            self.after = record.revision;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blackboard::store::{Batch, Lane, Shared, Write, memory};
    use serde_json::json;

    fn me() -> AgentId {
        AgentId::parse("a-01").unwrap()
    }

    fn key(task: &str) -> Key {
        keys::task(&me(), &TaskId::parse(task).unwrap(), &Principal::local_user())
    }

    fn row(task: &str, at: &str, state: &str) -> Write {
        let row = json!({
            "spec": { "taskId": task, "root": "user:local", "description": { "$content": "elsewhere" } },
            "conversation": "c", "owner": "user:local", "status": { "state": state, "message": "x" },
            "changedAt": at, "createdAt": at, "asked": "0",
        });
        Write::Put(key(task), row.to_string().into_bytes().into())
    }

    async fn commit(store: &Shared, write: Write) {
        store.commit(Lane::Progress, Batch { writes: vec![write], expectations: Vec::new() }).await.unwrap();
    }

    fn names(page: &Page) -> Vec<Key> {
        page.rows.iter().map(|(_, key)| key.clone()).collect()
    }

    #[tokio::test]
    async fn what_changes_moves_and_what_is_forgotten_goes() {
        let (store, listed) = (memory::new(), Listed::default());
        for (task, at) in [
            ("t-1", "2026-01-01T00:00:01Z"),
            ("t-2", "2026-01-01T00:00:02Z"),
            ("t-3", "2026-01-01T00:00:03Z"),
        ] {
            commit(&store, row(task, at, "TASK_STATE_WORKING")).await;
        }
        let page = |forgotten, before: Option<&Cursor>| {
            listed.page(store.as_ref(), &me(), forgotten, before, 1, |_| true).unwrap()
        };
        let first = page(0, None);
        assert_eq!((names(&first), first.total), (vec![key("t-3"), key("t-2")], 3));
        assert_eq!(names(&page(0, Some(&first.rows[0].0))), [key("t-2"), key("t-1")]);

        commit(&store, row("t-1", "2026-01-01T00:00:04Z", "TASK_STATE_COMPLETED")).await;
        let moved = page(0, None);
        assert_eq!((names(&moved), moved.total), (vec![key("t-1"), key("t-3")], 3), "seen once, where it is");
        let done = |outline: &Outline| outline.state() == TaskState::Completed;
        let done = listed.page(store.as_ref(), &me(), 0, None, 9, done).unwrap();
        assert_eq!((names(&done), done.total), (vec![key("t-1")], 1));

        commit(&store, Write::Delete(key("t-3"))).await;
        let left = page(1, None);
        assert_eq!((names(&left), left.total), (vec![key("t-1"), key("t-2")], 2));
    }
}
