//! Steps of several conversations in one commit: because they belong together, or because it is cheaper.

use super::AgentActor;
use crate::conversation::Decided;
use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use blackboard::store::{Batch, Error, Lane, Revision, Write};
use protocol::ids::ConversationId;
use std::{ops::Range, time::Instant};

/// One conversation's part of a commit.
struct Part {
    id: ConversationId,
    decided: Box<Decided>,
    journal_bytes: usize,
    /// Its writes among all.
    writes: Range<usize>,
}

impl AgentActor {
    /// Decides the next step of each and commits them as one: all are durable, or none is.
    pub(super) fn advance_together(&mut self, ids: &[ConversationId], ctx: &mut Context<Self>) {
        let mut whole = Batch::default();
        let parts = self.gather(ids, false, &mut whole, ctx);
        self.commit_together(parts, whole, ctx, |this, part, outcome, ctx| {
            this.settled(&part.id, *part.decided, part.journal_bytes, outcome, ctx);
        });
    }

    /// Records what has waited for a step to share. What can't be recorded together is recorded one by one.
    pub(super) fn flush(&mut self, ids: &[ConversationId], ctx: &mut Context<Self>) {
        if let [id] = ids {
            return self.advance(id, true, ctx);
        }
        let mut whole = Batch::default();
        let parts = self.gather(ids, true, &mut whole, ctx);
        self.commit_together(parts, whole, ctx, |this, part, outcome, ctx| match outcome {
            Err(error) if !matches!(error, Error::Unknown(_) | Error::Closed(_)) => {
                tracing::debug!(agent = %this.me, conversation = %part.id, %error, "recorded by itself");
                this.write(&part.id, part.decided, ctx);
            }
            outcome => this.settled(&part.id, *part.decided, part.journal_bytes, outcome, ctx),
        });
    }

    fn gather(
        &mut self,
        ids: &[ConversationId],
        force: bool,
        whole: &mut Batch,
        ctx: &mut Context<Self>,
    ) -> Vec<Part> {
        let mut parts = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(decided) = self.decide(id, force, ctx) else { continue };
            let Batch { writes, expectations } = &decided.batch;
            let journal_bytes = writes.last().map_or(0, Write::size);
            let from = whole.writes.len();
            whole.writes.extend(writes.iter().cloned());
            whole.expectations.extend(expectations.iter().cloned());
            parts.push(Part { id: id.clone(), decided, journal_bytes, writes: from..whole.writes.len() });
        }
        parts
    }

    fn commit_together(
        &mut self,
        parts: Vec<Part>,
        whole: Batch,
        ctx: &mut Context<Self>,
        settle: impl Fn(&mut Self, Part, Result<Vec<Revision>, Error>, &mut Context<Self>) + 'static,
    ) {
        if parts.is_empty() {
            return;
        }
        let commit = self.parts.store.commit(Lane::Progress, whole);
        let begun = Instant::now();
        let settled = commit.into_actor(self).map(move |outcome, this, ctx| {
            this.parts.telemetry.meters().commit.took(begun.elapsed());
            for part in parts {
                let its_own = |all: Vec<Revision>| all.get(part.writes.clone()).unwrap_or_default().to_vec();
                let outcome = outcome.clone().map(its_own);
                settle(this, part, outcome, ctx);
            }
        });
        ctx.spawn(settled);
    }
}
