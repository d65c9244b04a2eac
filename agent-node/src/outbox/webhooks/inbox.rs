//! Tells the webhook of the configuration which questions and approvals open and close for users, so that a chat or a pager can pass
//! them on. Each at least once while the process lives; those that are open when it starts are told again. An agent's are told in
//! order, and each waits for the one before.

use super::delivery::{DeliveryOutcome, PLAIN_JSON, WebhookDelivery};
use crate::{
    answer_command::answer_command,
    journal::for_each_record,
    outbox::{a2a::credentials::SecretString, outbound_client::OutboundClient},
    telemetry::capture::Capture,
};
use console::location::ConsoleLocation;
use engine::{
    content,
    records::{TaskRow, keys},
};
use protocol::{ids::AgentId, principal::Principal, question::Question, time::WallTime};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};
use store::{Error, Key, Record, SharedStore};

/// The pause after the store could not be read.
const PAUSE: Duration = Duration::from_secs(5);
/// The most characters of a description.
const MAX_DESCRIPTION: usize = 2_000;

/// The webhook of the configuration. Cheap to clone.
#[derive(Clone)]
pub struct InboxWebhook {
    url: SecretString,
    client: OutboundClient,
    capture: Capture,
}

impl InboxWebhook {
    /// The webhook at `url`, which `client` calls. Its bodies are masked by `capture`.
    pub fn new(url: SecretString, client: OutboundClient, capture: Capture) -> Self {
        Self { url, client, capture }
    }

    /// Follows the questions of the agent `me` until the process ends. `base` is the address of its console.
    pub fn follow(&self, me: AgentId, store: SharedStore, base: &str) {
        let base = base.trim_end_matches('/').to_owned();
        let mut follower = QuestionFollower {
            webhook: self.clone(),
            me,
            store,
            base,
            open: BTreeMap::new(),
            is_gone: false,
        };
        actix::spawn(async move {
            while !follower.is_gone {
                if let Err(error) = follower.run().await {
                    tracing::warn!(agent = %follower.me, %error, "the questions for the webhook of the inbox can't be read; it is tried again");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        });
    }
}

/// Follows the questions of one agent.
struct QuestionFollower {
    webhook: InboxWebhook,
    me: AgentId,
    store: SharedStore,
    base: String,
    /// What was told of the questions that are open, by their task and id.
    open: BTreeMap<(Key, String), Value>,
    /// Whether the receiver says that it will never take a call again.
    is_gone: bool,
}

impl QuestionFollower {
    /// Tells what has changed since it ran last, then what changes.
    async fn run(&mut self) -> Result<(), Error> {
        let tasks = keys::all(&self.me, "task");
        let mut watch = self.store.watch(tasks.clone(), self.store.head())?;
        let (me, store) = (self.me.clone(), self.store.clone());
        let known: Vec<_> = self.open.keys().map(|(task, _)| task.clone()).collect();
        let waiting = actix_web::web::block(move || {
            let mut waiting = Vec::new();
            for_each_record(store.as_ref(), &tasks, |record| {
                let row: TaskRow = content::decode(&me, store.as_ref(), &record.value)?;
                if !questions(&row).is_empty() || known.contains(&record.key) {
                    waiting.push((record.key, row));
                }
                Ok(())
            })?;
            Ok::<_, Error>(waiting)
        });
        let waiting = waiting.await.map_err(|error| Error::Refused(error.to_string()))??;
        for (key, row) in waiting {
            self.compare(&key, &row).await;
        }
        while !self.is_gone {
            for Record { key, value, .. } in watch.next().await? {
                let row = content::decode(&self.me, self.store.as_ref(), &value)?;
                self.compare(&key, &row).await;
            }
        }
        Ok(())
    }

    /// Tells how the questions of a task differ from those that were told.
    async fn compare(&mut self, key: &Key, row: &TaskRow) {
        let asked = questions(row);
        let is_open = |id: &str| asked.iter().any(|question| question.id == id);
        let of_task = self.open.keys().filter(|(task, id)| task == key && !is_open(id));
        for closed in of_task.cloned().collect::<Vec<_>>() {
            if let Some(body) = self.open.remove(&closed) {
                self.tell("question.closed", &closed.1, body, row.task.changed_at).await;
            }
        }
        for question in asked {
            let id = (key.clone(), question.id.clone());
            if !self.open.contains_key(&id) {
                let body = self.body(row, question, asked.len() == 1);
                self.tell("question.opened", &question.id, body.clone(), row.task.changed_at).await;
                self.open.insert(id, body);
            }
        }
    }

    /// What both calls about a question say.
    fn body(&self, row: &TaskRow, question: &Question, is_only: bool) -> Value {
        let spec = &row.task.spec;
        let task = spec.task_id.as_str();
        let description: String = spec.description.chars().take(MAX_DESCRIPTION).collect();
        let link = ConsoleLocation::task(self.me.as_str(), task).href();
        json!({
            "id": question.id,
            "agentId": self.me,
            "taskId": task,
            "requester": row.task.owner,
            "description": self.webhook.capture.label(&description),
            "question": self.webhook.capture.masked(&json!(question)),
            "answerWith": answer_command(task, question, is_only, &format!(" --at {}", self.base)),
            "console": format!("{}/{link}", self.base),
        })
    }

    async fn tell(&mut self, kind: &str, id: &str, mut body: Value, at: WallTime) {
        if self.is_gone {
            return;
        }
        body["type"] = kind.into();
        body["at"] = json!(at);
        let delivery = WebhookDelivery {
            url: self.webhook.url.expose(),
            event: &format!("{id}:{kind}"),
            secret_headers: Vec::new(),
            media_type: PLAIN_JSON,
            body: body.to_string(),
            outlasts_refusals: false,
        };
        let warn = |attempt: usize, why: &str| tracing::warn!(agent = %self.me, question = id, attempt, why, "a question could not be sent to the webhook of the inbox");
        if delivery.send(&self.webhook.client, warn).await == DeliveryOutcome::Gone {
            tracing::warn!(agent = %self.me, "the webhook of the inbox is gone (410): it is called again after a restart");
            self.is_gone = true;
        }
    }
}

/// The open questions of the task, if a user has requested it. Those of its parts are its own, too.
fn questions(row: &TaskRow) -> &[Question] {
    match row.task.owner {
        Principal::User(_) if row.ended_at.is_none() => &row.task.status.questions,
        _ => &[],
    }
}
