//! Earlier tasks of the A2A context of a request.

use crate::{
    IncomingMessage,
    agent::Agent,
    content,
    context::Context,
    records::{TaskRow, lists::TaskFilter},
};
use protocol::{
    patterns::session::{is_shown_to, shows_confidential_to},
    task::{MAX_PAST_BYTES, PastTask, Task},
};
use store_types::{Error, ListedKey};

/// The most earlier tasks that a task is told of.
const MAX_TASKS: usize = 16;

/// The most characters of a description or message of an earlier task.
const MAX_CHARS: usize = 2_000;

impl Agent {
    /// The newest tasks of the context that an A2A client names, the oldest first, at most [`MAX_PAST_BYTES`].
    pub(super) fn past_tasks(
        &self,
        message: &IncomingMessage,
        cx: &Context<'_>,
    ) -> Result<Vec<PastTask>, Error> {
        let Some(contact) = message.contact.as_ref().filter(|contact| contact.context_id.is_some()) else {
            return Ok(Vec::new());
        };
        let filter = TaskFilter {
            context: contact.context_id.clone(),
            hides_confidential: !shows_confidential_to(&message.by, message.proof),
            ..TaskFilter::default()
        };
        let query = filter.of_tenant(&self.me, &message.by, contact.tenant.as_deref());
        let (mut past, mut bytes) = (Vec::new(), 0);
        for ListedKey { key, .. } in cx.store.list(&query, MAX_TASKS)? {
            let Some(record) = cx.store.latest(&key)? else { continue };
            let row: TaskRow = content::decode(&self.me, cx.store, &record.value)?;
            let is_same_context = Some(row.task.context_id()) == contact.context_id.as_deref();
            let is_shown = is_shown_to(&row.task, &message.by, message.proof);
            if !is_same_context || row.task.owner != message.by || !is_shown {
                continue;
            }
            let one = past_task(&row.task);
            bytes += serde_json::to_vec(&one).map_or(0, |json| json.len());
            if bytes > MAX_PAST_BYTES {
                break;
            }
            past.push(one);
        }
        past.reverse();
        Ok(past)
    }
}

fn past_task(task: &Task) -> PastTask {
    let clipped = |text: &str| text.chars().take(MAX_CHARS).collect();
    PastTask {
        task_id: task.spec.task_id.clone(),
        description: clipped(&task.spec.description),
        state: task.status.state,
        message: task.status.message.as_deref().map(clipped),
    }
}
