//! Pushes what happens to tasks to the webhooks their clients named (A2A §4.3): every event at least once, in order, each
//! webhook at its own pace. A webhook reads the task's journal like any watcher, from its cursor on, so
//! nothing waits for it and a restart goes on where it stopped.

mod delivery;
pub mod inbox;
mod sealed;

use engine::records::{TaskRow, keys};
pub use sealed::Seal;

use super::outbound_client::OutboundClient;
use crate::{
    artifacts::ShownFiles,
    journal::for_each_record,
    tasks::{
        self, TaskEvent,
        follower::{TaskEventCursor, TaskFollower},
    },
};
use actix::{
    Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, ResponseFuture, SpawnHandle, WrapFuture,
};
use delivery::{DeliveryOutcome, PLAIN_JSON, WebhookDelivery};
use protocol::{
    a2a::{
        event::StreamResponse,
        limits::MAX_WEBHOOK_MISSED,
        push::{NOTIFICATION_TOKEN, PushConfig},
        v03::{self, V03Form},
    },
    envelope::Envelope,
    ids::{Address, AgentId, MessageId, TaskId},
    message::{Payload, TaskResponse},
    principal::Principal,
    problem::{Problem, Reason},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{cell::Cell, collections::HashMap, rc::Rc};
use store::{Batch, Error, Key, Lane, SharedStore, Write};

/// A webhook as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// What its client asked for; task and id are set.
    pub config: PushConfig,
    pub task: TaskId,
    pub owner: Principal,
    /// The last event that it was sent.
    #[serde(alias = "told")]
    pub cursor: TaskEventCursor,
    /// Events in a row that it could not be sent.
    #[serde(default)]
    pub missed: usize,
    /// Whether nothing more is pushed: the task has ended, or the webhook was given up.
    #[serde(default)]
    pub is_over: bool,
    /// Set for a `replyTo`: only the response of the task is delivered, as an envelope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ResponseAddress>,
    /// Whether it was set over A2A 0.3, whose webhooks are sent the task.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_v03: bool,
}

/// Whom the response of a task answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResponseAddress {
    /// The name that the sender of the request used.
    pub to: AgentId,
    pub request: MessageId,
}

impl Webhook {
    fn key(&self, me: &AgentId) -> Key {
        keys::webhook(me, &self.task, &self.owner, self.config.id.as_deref().unwrap_or_default())
    }
}

/// The webhooks of a task, in the order of their ids.
pub fn of_task(
    store: &SharedStore,
    me: &AgentId,
    seal: &Seal,
    task: &TaskId,
    owner: &Principal,
) -> Result<Vec<Webhook>, Error> {
    let mut found = Vec::new();
    for_each_record(store.as_ref(), &keys::webhooks(me, task, owner), |record| {
        found.extend(opened(seal, me, &record.value));
        Ok(())
    })?;
    found.sort_by(|a, b| a.config.id.cmp(&b.config.id));
    Ok(found)
}

/// A row's webhook; one that does not open is as good as none, and somebody should know.
fn opened(seal: &Seal, me: &AgentId, row: &[u8]) -> Option<Webhook> {
    seal.open(row).map_err(|why| tracing::warn!(agent = %me, why, "a webhook can't be read")).ok()
}

/// Pushes for one agent.
pub struct Pusher {
    me: AgentId,
    store: SharedStore,
    files: ShownFiles,
    outside: OutboundClient,
    callbacks: OutboundClient,
    seal: Seal,
    running: HashMap<Key, Underway>,
}

/// A webhook that is being sent events, or waits for the next.
struct Underway {
    run: SpawnHandle,
    task: TaskId,
    owner: Principal,
    is_telling: Rc<Cell<bool>>,
}

impl Pusher {
    /// One that has not started. `callbacks` calls the `replyTo` of the local user.
    pub fn new(
        files: ShownFiles,
        (outside, callbacks): (OutboundClient, OutboundClient),
        seal: Seal,
    ) -> Self {
        let (me, store) = (files.agent.clone(), files.store.clone());
        Self { me, store, files, outside, callbacks, seal, running: HashMap::new() }
    }

    fn client_for(&self, webhook: &Webhook) -> &OutboundClient {
        let is_callback = webhook.response.is_some() && webhook.owner == Principal::local_user();
        if is_callback { &self.callbacks } else { &self.outside }
    }

    fn run(&mut self, webhook: Webhook, ctx: &mut Context<Self>) {
        if webhook.is_over {
            return;
        }
        let key = webhook.key(&self.me);
        let is_telling = Rc::new(Cell::new(false));
        let (task, owner) = (webhook.task.clone(), webhook.owner.clone());
        let pushing = Pushing {
            is_telling: is_telling.clone(),
            me: self.me.clone(),
            store: self.store.clone(),
            files: self.files.clone(),
            outside: self.client_for(&webhook).clone(),
            seal: self.seal.clone(),
            webhook,
            key: key.clone(),
        };
        let (me, ended) = (self.me.clone(), key.clone());
        let run = async move {
            if let Err(error) = pushing.run().await {
                tracing::warn!(agent = %me, %error, "a webhook waits for the next start");
            }
        };
        let run = ctx.spawn(run.into_actor(self).map(move |(), this, _| drop(this.running.remove(&ended))));
        if let Some(old) = self.running.insert(key, Underway { run, task, owner, is_telling }) {
            ctx.cancel_future(old.run);
        }
    }
}

impl Actor for Pusher {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let mut open = Vec::new();
        let read = for_each_record(self.store.as_ref(), &keys::all(&self.me, "webhook"), |record| {
            open.extend(opened(&self.seal, &self.me, &record.value));
            Ok(())
        });
        if let Err(error) = read {
            tracing::error!(agent = %self.me, %error, "the webhooks can't be read");
        }
        open.into_iter().for_each(|webhook| self.run(webhook, ctx));
    }
}

/// Adds a webhook, or replaces the one of the same id. Resolves once it is durable.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), Problem>")]
pub struct Put(pub Webhook);

/// Asks whether every webhook has been sent all events so far.
#[derive(Debug, Message)]
#[rtype(result = "bool")]
pub struct HasTold;

impl Handler<HasTold> for Pusher {
    type Result = bool;

    fn handle(&mut self, _: HasTold, _: &mut Self::Context) -> bool {
        self.running.values().all(|underway| {
            let row = tasks::row(self.store.as_ref(), &self.me, &underway.task, &underway.owner);
            // Of a task that is over there is an end to tell, even if its follower has not seen it yet.
            let is_over = row.is_ok_and(|row| row.is_some_and(|row| row.ended_at.is_some()));
            !is_over && !underway.is_telling.get()
        })
    }
}

/// Removes a webhook: nothing is pushed to it any more.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), Problem>")]
pub struct Remove {
    pub task: TaskId,
    pub owner: Principal,
    pub id: String,
}

type Durable = ResponseFuture<Result<(), Problem>>;

impl Pusher {
    fn commit(&self, write: Write) -> Durable {
        let commit =
            self.store.commit(Lane::Progress, Batch { writes: vec![write], expectations: Vec::new() });
        Box::pin(async move { commit.await.map(|_| ()).map_err(Problem::from) })
    }
}

impl Handler<Put> for Pusher {
    type Result = Durable;

    fn handle(&mut self, Put(webhook): Put, ctx: &mut Self::Context) -> Durable {
        let bytes = match self.seal.close(&webhook) {
            Ok(bytes) => bytes,
            Err(why) => {
                let problem = Problem::new(Reason::Internal, why);
                return Box::pin(std::future::ready(Err(problem)));
            }
        };
        let put = self.commit(Write::Put(webhook.key(&self.me), bytes.into()));
        let me = ctx.address();
        Box::pin(async move {
            put.await?;
            me.send(Run(webhook)).await.map_err(|error| Problem::new(Reason::Overloaded, error.to_string()))
        })
    }
}

#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Run(Webhook);

impl Handler<Run> for Pusher {
    type Result = ();

    fn handle(&mut self, Run(webhook): Run, ctx: &mut Self::Context) {
        self.run(webhook, ctx);
    }
}

impl Handler<Remove> for Pusher {
    type Result = Durable;

    fn handle(&mut self, remove: Remove, ctx: &mut Self::Context) -> Durable {
        let key = keys::webhook(&self.me, &remove.task, &remove.owner, &remove.id);
        if let Some(running) = self.running.remove(&key) {
            ctx.cancel_future(running.run);
        }
        self.commit(Write::Delete(key))
    }
}

struct Pushing {
    me: AgentId,
    files: ShownFiles,
    store: SharedStore,
    outside: OutboundClient,
    seal: Seal,
    webhook: Webhook,
    key: Key,
    is_telling: Rc<Cell<bool>>,
}

impl Pushing {
    async fn run(mut self) -> Result<(), Error> {
        let found = tasks::row(self.store.as_ref(), &self.me, &self.webhook.task, &self.webhook.owner)?;
        let Some(row) = found else { return Ok(()) };
        let mut follow = self.follow(row)?;
        while !self.webhook.is_over {
            self.is_telling.set(false);
            let events = follow.next().await?;
            self.is_telling.set(true);
            self.webhook.is_over = events.is_empty();
            for seen in events {
                // After too many that were missed, the end alone is told.
                if seen.is_last || self.webhook.missed < MAX_WEBHOOK_MISSED {
                    self.tell(&seen).await?;
                }
                self.webhook.cursor = seen.id;
                self.webhook.is_over = seen.is_last || self.webhook.is_over;
                self.note().await?;
                if self.webhook.is_over {
                    break;
                }
            }
        }
        Ok(())
    }

    fn follow(&self, row: TaskRow) -> Result<TaskFollower, Error> {
        let again = |after| TaskFollower::after(self.store.clone(), self.me.clone(), row.clone(), after);
        match again(self.webhook.cursor) {
            // The last event that it was sent is not kept any more.
            Err(Error::Trimmed { floor }) => again((floor + 1, usize::MAX)),
            follow => follow,
        }
    }

    /// Records its cursor; a webhook that was removed meanwhile stays removed.
    async fn note(&self) -> Result<(), Error> {
        let Some(kept) = self.store.latest(&self.key)? else { return Ok(()) };
        let bytes = self.seal.close(&self.webhook);
        let bytes = bytes.map_err(|why| Error::Refused(format!("a webhook can't be written: {why}")))?;
        let batch = Batch {
            writes: vec![Write::Put(self.key.clone(), bytes.into())],
            expectations: vec![store::Expectation::At(self.key.clone(), kept.revision)],
        };
        match self.store.commit(Lane::Progress, batch).await {
            // Somebody has just replaced or removed it, and its follower is another by now.
            Ok(_) | Err(Error::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The media type and the body of the call for an event, if there is one.
    fn body(&self, seen: &TaskEvent) -> Result<Option<(&'static str, String)>, Error> {
        match &self.webhook.response {
            None if self.webhook.is_v03 => Ok(self.task_of_v03(seen)?.map(|body| (PLAIN_JSON, body))),
            None => {
                let mut event = seen.data.clone();
                self.files.link_event(&mut event);
                Ok(Some(("application/a2a+json", event.to_json())))
            }
            Some(_) if !seen.is_last => Ok(None),
            Some(response) => Ok(self.response(response)?.map(|body| (PLAIN_JSON, body))),
        }
    }

    /// The task as it is, which 0.3 tells after an event. There is none after an answer without a task.
    fn task_of_v03(&self, seen: &TaskEvent) -> Result<Option<String>, Error> {
        if matches!(seen.data, StreamResponse::Message(_)) {
            return Ok(None);
        }
        let Webhook { task, owner, .. } = &self.webhook;
        let Some(row) = tasks::find(self.store.as_ref(), &self.me, task, owner)? else { return Ok(None) };
        let mut task = row.task.to_a2a();
        self.files.link_task(&mut task);
        Ok(Some(v03::task_to_v03(json!(task), V03Form::Schema).to_string()))
    }

    /// The `task-response` of the ended task, unsigned.
    fn response(&self, ResponseAddress { to, request }: &ResponseAddress) -> Result<Option<String>, Error> {
        let Webhook { task, owner, .. } = &self.webhook;
        let Some(mut row) = tasks::find(self.store.as_ref(), &self.me, task, owner)? else { return Ok(None) };
        self.files.link(row.task.artifacts.iter_mut().flat_map(|artifact| &mut artifact.parts));
        let response = TaskResponse {
            task_id: task.clone(),
            seq: 1,
            state: row.task.status.state,
            epoch: None,
            doer: row.task.doer,
            artifacts: row.task.artifacts,
            chunks: None,
            message: row.task.status.message,
            lasting: false,
            usage: row.task.usage,
            seat: None,
            handed_on: None,
            extra: Default::default(),
        };
        let refused =
            |why: &dyn std::fmt::Display| Error::Refused(format!("a response can't be written: {why}"));
        let message_id = MessageId::parse(&format!("response:{}", row.task.conversation));
        let envelope = Envelope {
            message_id: message_id.map_err(|error| refused(&error))?,
            from_agent_id: self.me.clone(),
            to_agent_id: Address::Agent(to.clone()),
            payload: Payload::TaskResponse(response),
            timestamp: Some(row.task.changed_at),
            conversation_id: Some(row.task.conversation),
            thread_id: None,
            space_id: None,
            in_reply_to: Some(request.clone()),
            reply_conversation_id: None,
            reply_to: None,
            expires_at: None,
            path: Vec::new(),
            extra: Default::default(),
        };
        serde_json::to_string(&envelope).map(Some).map_err(|error| refused(&error))
    }

    async fn tell(&mut self, seen: &TaskEvent) -> Result<(), Error> {
        let Some((media_type, body)) = self.body(seen)? else { return Ok(()) };
        let config = &self.webhook.config;
        let mut secret_headers = Vec::new();
        if let Some(authentication) = &config.authentication {
            let credentials = authentication.credentials.as_deref().unwrap_or_default();
            let value = format!("{} {credentials}", authentication.scheme).trim().to_owned();
            secret_headers.push(("authorization", value));
        }
        secret_headers.extend(config.token.clone().map(|token| (NOTIFICATION_TOKEN, token)));
        let delivery = WebhookDelivery {
            url: &config.url,
            event: &format!("{}:{}:{}", self.webhook.task, seen.id.0, seen.id.1),
            secret_headers,
            media_type,
            body,
            outlasts_refusals: seen.is_last,
        };
        // Neither the URL nor a credential is logged: both may be secret.
        let id = config.id.as_deref().unwrap_or_default();
        let warn = |attempt: usize, why: &str| tracing::warn!(agent = %self.me, task = %self.webhook.task, webhook = id, attempt, why, "an event could not be sent to a webhook");
        match delivery.send(&self.outside, warn).await {
            DeliveryOutcome::Told => self.webhook.missed = 0,
            DeliveryOutcome::Missed => self.webhook.missed += 1,
            DeliveryOutcome::Gone => self.webhook.is_over = true,
        }
        Ok(())
    }
}
