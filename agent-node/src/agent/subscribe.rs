//! An agent reacts to what it subscribes to on the board (DESIGN §5): each signal opens a conversation, in the commit
//! that moves the agent's cursor past it, so that each is reacted to once, whatever crashes.
//!
//! Signals come one at a time: while the agent can take nothing new (or no more work, when work is offered), it reads
//! nothing new, and what it has not read waits on the board. The first start begins at the board's head.

use super::{
    AgentActor,
    admit::Ack,
    open::{Came, internal},
    open_claim::publisher,
    reply::{Durable, now, promise},
};
use crate::{
    conversation::{
        Conversation, Queued,
        opening::Noticed as Began,
        record::{Reacted, keys},
        spill,
    },
    outbox::pause,
};
use actix::{Addr, AsyncContext, Context, Handler, Message};
use blackboard::{
    client::Blackboard,
    store::{Batch, Lane, Revision, Shared, Write},
};
use futures_util::StreamExt;
use protocol::{
    coordination::{
        AnyPattern, What,
        broadcast::on_behalf_of,
        reaction::{self, Reaction},
    },
    ids::{AgentId, ConversationId, MessageId},
    principal::Principal,
    problem::{Problem, Reason},
    signal::{Posted, Selector, Signal, SignalType},
    trace::{TRACEPARENT, TraceContext, trace_begun_by_signal},
};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// How long a signal waits that the agent can't take yet.
const FULL: Duration = Duration::from_millis(100);

/// A signal the agent subscribes to.
#[derive(Debug, Message)]
#[rtype(result = "Result<Ack, Problem>")]
pub(super) struct Noticed(Posted);

impl Handler<Noticed> for AgentActor {
    type Result = Durable;

    fn handle(&mut self, Noticed(posted): Noticed, ctx: &mut Context<Self>) -> Durable {
        match self.react(posted, ctx) {
            Ok(durable) => durable,
            Err(problem) => now(Err(problem)),
        }
    }
}

impl AgentActor {
    pub(super) fn follow_the_board(&self, ctx: &mut Context<Self>) {
        if self.parts.subscribe.is_empty() {
            return;
        }
        let follower = Follower {
            agent: ctx.address(),
            me: self.me.clone(),
            board: self.parts.ways.board.clone(),
            store: self.parts.store.clone(),
            selector: Selector { types: self.parts.subscribe.clone(), ..Selector::default() },
            cursor: self.followed.clone(),
        };
        actix::spawn(follower.run());
    }

    /// Opens the conversation that `posted` calls for, if any; the answer comes when it is durable.
    fn react(&mut self, posted: Posted, ctx: &mut Context<Self>) -> Result<Durable, Problem> {
        let message_id = MessageId::parse(&format!("signal-{}", posted.revision))
            .map_err(|bad| Problem::new(Reason::Internal, bad.to_string()))?;
        let ack = Ack { message_id, task_id: None, conversation_id: None, duplicate: false, ended: None };
        if !self.concerns(&posted.signal) {
            return Ok(now(Ok(ack)));
        }
        if self.parts.pulse.is_draining() {
            return Err(Problem::new(Reason::Draining, format!("{} is leaving", self.me)));
        }
        let is_offer = posted.signal.kind == SignalType::task_available();
        let is_full = self.conversations.len() >= self.parts.limits.max_open_conversations
            || is_offer && self.has_no_place();
        if is_full {
            return Err(Problem::new(Reason::Overloaded, format!("{} has enough to do", self.me)));
        }
        let revision = posted.revision;
        let came = Came {
            trace: posted.signal.refs.get(TRACEPARENT).and_then(|text| TraceContext::parse(text.as_str()?)),
            begins: Some(trace_begun_by_signal(&posted.signal.from, &posted.signal.id)),
            signal: Some(Began { id: posted.signal.id.clone(), from: publisher(&posted.signal) }),
            task: posted.signal.task_id.clone(),
            capability: posted.signal.capability.clone(),
            ..Came::default()
        };
        let pattern = match is_offer {
            true => self.try_to_get(&posted.signal)?,
            false => {
                let reaction = Reaction::new(self.me.clone(), posted, self.parts.patience);
                Some(AnyPattern::Reaction(Box::new(reaction)))
            }
        };
        let Some(pattern) = pattern else { return Ok(now(Ok(ack))) };
        self.counts.reactions += 1;
        self.begin_at(revision, pattern, came, ack, ctx)
    }

    /// Whether a signal is somebody else's (a broadcast that this agent only passed on is), within what this agent can do, and not the end of an endless chain.
    fn concerns(&self, signal: &Signal) -> bool {
        let is_relayed = on_behalf_of(signal).is_some_and(|by| by.agent() != Some(&self.me));
        let is_own = signal.from == self.me && !is_relayed;
        let asks = signal.kind == SignalType::task_available() || signal.kind == SignalType::help_needed();
        let can = |capability| self.parts.card.support(capability) > 0.0;
        let is_within = !asks || signal.capability.as_ref().is_none_or(can);
        let max_hops = u64::try_from(self.parts.limits.max_hops).unwrap_or(u64::MAX);
        let is_endless = reaction::hops(signal) >= max_hops;
        if is_endless {
            tracing::warn!(agent = %self.me, signal = %signal.id, "not reacted to: it follows from {max_hops} reactions");
        }
        !is_own && is_within && !is_endless
    }

    fn begin_at(
        &mut self,
        revision: Revision,
        pattern: AnyPattern,
        came: Came,
        mut ack: Ack,
        ctx: &mut Context<Self>,
    ) -> Result<Durable, Problem> {
        let id = ConversationId::parse(&uuid::Uuid::now_v7().to_string())
            .map_err(|bad| Problem::new(Reason::Internal, bad.to_string()))?;
        ack.conversation_id = Some(id.clone());
        let (waiter, durable) = promise();
        let opening = self.opening(&id, &pattern, None, came);
        let reacted = opening.signal.as_ref().map(|signal| {
            let (from, conversation_id, at) = (signal.from.clone(), id.clone(), self.parts.clock.wall());
            Reacted { from, conversation_id, at }.sealed(&self.me, &opening)
        });
        let receipt = reacted.transpose().map_err(internal)?;
        let mut conversation = Conversation::open(id.clone(), pattern, None, Some(opening));
        conversation.queue.push_back(Queued {
            cursor: Some(revision),
            receipt,
            waiters: vec![(waiter, ack)],
            ..Queued::from_inside(What::Started, None)
        });
        self.conversations.insert(id.clone(), Box::new(conversation));
        self.advance(&id, false, ctx);
        Ok(durable)
    }
}

/// Reads the board for one agent, for as long as the agent lives.
struct Follower {
    agent: Addr<AgentActor>,
    me: AgentId,
    board: Blackboard,
    store: Shared,
    selector: Selector,
    cursor: Followed,
}

/// How far the board has been followed; `None` before its place there is known.
#[derive(Debug, Clone, Default)]
pub(super) struct Followed(Arc<Mutex<Option<Revision>>>);

impl Followed {
    pub(super) fn get(&self) -> Option<Revision> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, revision: Revision) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(revision);
    }
}

/// The agent is gone, and nobody is there to read for.
struct Gone;

impl Follower {
    async fn run(self) {
        let mut attempt = 0;
        loop {
            let problem = match self.follow(&mut attempt).await {
                Ok(Gone) => return,
                Err(problem) => problem,
            };
            match attempt {
                // Where the board is, only the registry knows; that it is away is said for all.
                0 if problem.reason != Reason::RegistryUnavailable => {
                    tracing::warn!(agent = %self.me, %problem, "the board can't be followed");
                }
                _ => tracing::debug!(agent = %self.me, %problem, attempt, "the board can't be followed yet"),
            }
            if problem.reason == Reason::Trimmed {
                let floor = problem.metadata.iter().find(|(key, _)| *key == "floor");
                if let Some(floor) = floor.and_then(|(_, floor)| floor.parse().ok()) {
                    self.cursor.set(floor);
                }
            }
            tokio::time::sleep(pause(attempt)).await;
            attempt += 1;
        }
    }

    /// Hands signals over, from the cursor on.
    async fn follow(&self, attempt: &mut u32) -> Result<Gone, Problem> {
        let by = Principal::Agent(self.me.clone());
        let cursor = match self.cursor.get() {
            Some(cursor) => cursor,
            None => self.begin(&by).await?,
        };
        self.cursor.set(cursor);
        let mut signals = self.board.subscribe(&by, self.selector.clone(), Some(cursor)).await?;
        while let Some(next) = signals.next().await {
            let posted = next?;
            *attempt = 0;
            let revision = posted.revision;
            if let Err(gone) = self.hand_over(posted).await {
                return Ok(gone);
            }
            self.cursor.set(revision);
        }
        Err(Problem::new(Reason::BlackboardUnavailable, "the stream ended"))
    }

    /// Where the agent was when it stopped; at its first start, where the board is.
    async fn begin(&self, by: &Principal) -> Result<Revision, Problem> {
        let key = keys::cursor(&self.me);
        if let Some(record) = self.store.latest(&key)? {
            return Ok(spill::decode(&self.me, self.store.as_ref(), &record.value)?);
        }
        let head = self.board.read(by, &self.selector, None, 0).await?.next;
        let mut writes = Vec::new();
        let bytes = spill::encode(&self.me, &head, &mut writes, &mut Default::default())?;
        writes.push(Write::Put(key, bytes));
        self.store.commit(Lane::Admission, Batch { writes, expectations: Vec::new() }).await?;
        Ok(head)
    }

    /// Waits until the agent has taken the signal, durably.
    async fn hand_over(&self, posted: Posted) -> Result<(), Gone> {
        loop {
            match self.agent.send(Noticed(posted.clone())).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(problem)) if problem.reason == Reason::Internal => {
                    tracing::error!(agent = %self.me, signal = %posted.signal.id, %problem, "a signal is passed over");
                    return Ok(());
                }
                Ok(Err(problem)) => {
                    tracing::debug!(agent = %self.me, signal = %posted.signal.id, %problem, "a signal waits");
                    tokio::time::sleep(FULL).await;
                }
                Err(_) => return Err(Gone),
            }
        }
    }
}
