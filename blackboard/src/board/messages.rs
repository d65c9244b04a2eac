//! What the actor is asked, and how it answers.

use super::*;
use crate::claim_writes;
use claiming::Taken;
use publishing::Waiting;
use signals::Writing;
use std::time::Instant;
use tokio::sync::oneshot;

/// Put a signal on the board.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Publish {
    pub by: Principal,
    pub signal: Signal,
    /// Told where it stands once it is durable.
    pub done: oneshot::Sender<Result<Revision, Problem>>,
}

/// Change a claim.
#[derive(Message)]
#[rtype(result = "Result<Claim, Problem>")]
pub(super) struct ChangeClaim {
    pub by: Principal,
    pub task: TaskId,
    pub change: Change,
}

/// How.
pub(super) enum Change {
    Take { holder: AgentId, lease: Duration },
    Renew { epoch: Revision },
    End { epoch: Revision, standing: Standing },
}

/// How does the claim stand?
#[derive(Message)]
#[rtype(result = "Result<Claim, Problem>")]
pub(super) struct Look(pub TaskId);

/// What are you doing?
#[derive(Message)]
#[rtype(result = "Result<Snapshot, Problem>")]
pub(super) struct Show;

impl Handler<Publish> for BlackboardActor {
    type Result = ();

    fn handle(&mut self, Publish { by, signal, done }: Publish, ctx: &mut Self::Context) {
        match self.check(&by, &signal) {
            Ok(writing) => {
                let lane = match by {
                    Principal::Agent(_) => store::Lane::Progress,
                    Principal::User(_) => store::Lane::Admission,
                };
                if self.waiting.is_empty() {
                    // Once all that has arrived is looked at.
                    ctx.spawn(fut::ready(()).into_actor(self).map(|(), actor, ctx| actor.write(ctx)));
                }
                self.waiting.push(Waiting { lane, writing, done });
            }
            Err(problem) => {
                self.counts.refused += 1;
                drop(done.send(Err(problem)));
            }
        }
    }
}

impl BlackboardActor {
    fn check(&mut self, by: &Principal, signal: &Signal) -> Result<Writing, Problem> {
        let is_registered = |id: &AgentId| attendance::is_registered(self.store.as_ref(), id);
        access::may_publish(by, signal, is_registered)?;
        let mut writing = signals::writing(by, signal, self.clock.wall(), self.config.max_signal_bytes)?;
        // The signal's own record stays last.
        let change = attendance::change(self.store.as_ref(), signal)?;
        writing.batch.writes.splice(0..0, change);
        self.admit()?;
        Ok(writing)
    }

    /// Commits the signals that wait, in their order, as many at once as may share a commit.
    fn write(&mut self, ctx: &mut Context<Self>) {
        for group in publishing::groups(std::mem::take(&mut self.waiting)) {
            let publishing = publishing::publish_all(self.store.clone(), group);
            ctx.spawn(publishing.into_actor(self).map(|outcomes, actor, _| {
                for (done, outcome) in outcomes {
                    actor.in_flight -= 1;
                    match &outcome {
                        Ok(published) if published.is_repeat => actor.counts.repeated += 1,
                        Ok(_) => actor.counts.published += 1,
                        Err(_) => actor.counts.refused += 1,
                    }
                    drop(done.send(outcome.map(|published| published.revision)));
                }
            }));
        }
    }
}

impl Handler<ChangeClaim> for BlackboardActor {
    type Result = ResponseActFuture<Self, Result<Claim, Problem>>;

    fn handle(&mut self, asked: ChangeClaim, _: &mut Self::Context) -> Self::Result {
        let ChangeClaim { by, task, change } = asked;
        match change {
            Change::Take { holder, lease } => self.take(by, task, holder, lease),
            Change::Renew { epoch } => Box::pin(fut::ready(self.renew(&by, &task, epoch))),
            Change::End { epoch, standing } => self.end(by, task, epoch, standing),
        }
    }
}

impl Handler<Look> for BlackboardActor {
    type Result = Result<Claim, Problem>;

    fn handle(&mut self, Look(task): Look, _: &mut Self::Context) -> Self::Result {
        match claim_writes::stands(self.store.as_ref(), &task)? {
            Some(stands) => Ok(stands.claim(&task, self.lease(&task), self.clock.node())),
            None => Err(Problem::new(Reason::ClaimNotFound, format!("nobody has claimed {task}"))),
        }
    }
}

impl Handler<Show> for BlackboardActor {
    type Result = Result<Snapshot, Problem>;

    fn handle(&mut self, _: Show, _: &mut Self::Context) -> Self::Result {
        Ok(Snapshot {
            head: self.store.head(),
            generation: self.store.generation(),
            subscribers: self.feed.subscribers(),
            recent_bytes: self.feed.recent_bytes(),
            held_claims: self.leases.len(),
            restarts: 0,
            in_flight: self.in_flight,
            counts: self.counts,
            limits: (*self.config).clone(),
        })
    }
}

impl BlackboardActor {
    fn take(
        &mut self,
        by: Principal,
        task: TaskId,
        holder: AgentId,
        lease: Duration,
    ) -> ResponseActFuture<Self, Result<Claim, Problem>> {
        let (min, max) = (self.config.min_lease_ms, self.config.max_lease_ms);
        let in_range = lease >= Duration::from_millis(min) && lease <= Duration::from_millis(max);
        let is_registered = |id: &AgentId| attendance::is_registered(self.store.as_ref(), id);
        let ready = access::may_hold(&by, &holder, is_registered)
            .and_then(|()| match in_range {
                true => Ok(()),
                false => Err(Problem::new(
                    Reason::InvalidField,
                    format!("leaseMs: must be between {min} and {max}, got {}", lease.as_millis()),
                )
                .with("field", "leaseMs")),
            })
            .and_then(|()| self.admit());
        if let Err(problem) = ready {
            return Box::pin(fut::ready(Err(problem)));
        }
        let now = (self.clock.node(), self.clock.wall());
        let taking =
            claiming::take(self.store.clone(), by, task.clone(), holder, lease, self.lease(&task), now);
        Box::pin(taking.into_actor(self).map(move |outcome, actor, _| {
            actor.in_flight -= 1;
            let Taken { stands } = outcome.inspect_err(|problem| {
                actor.count_refusal(problem);
                actor.adopt(&task);
            })?;
            actor.counts.claimed += 1;
            let now = actor.clock.node();
            let granted = Lease { epoch: stands.revision, until: now + lease + actor.config.grace() };
            if actor.lease(&task).is_none_or(|known| known.epoch < granted.epoch) {
                actor.leases.insert(task.clone(), Holding { lease: granted, is_ending: false });
            }
            Ok(stands.claim(&task, Some(granted), now))
        }))
    }

    fn renew(&mut self, by: &Principal, task: &TaskId, epoch: Revision) -> Result<Claim, Problem> {
        let stands = claim_writes::stands(self.store.as_ref(), task)?;
        let ending = self.leases.get(task).is_some_and(|h| h.is_ending && h.lease.epoch == epoch);
        let renewed = claims::renew(stands.as_ref(), by, epoch).and_then(|lease| match &stands {
            Some(stands) if !ending => Ok((stands, lease)),
            Some(stands) => Err(claims::fenced(stands, epoch)),
            None => Err(Problem::new(Reason::ClaimNotFound, format!("nobody has claimed {task}"))),
        });
        let (stands, lease) = renewed.inspect_err(|problem| self.count_refusal(problem))?;
        let now = self.clock.node();
        let lease = Lease { epoch, until: now + lease + self.config.grace() };
        self.leases.insert(task.clone(), Holding { lease, is_ending: false });
        Ok(stands.claim(task, Some(lease), now))
    }

    fn end(
        &mut self,
        by: Principal,
        task: TaskId,
        epoch: Revision,
        standing: Standing,
    ) -> ResponseActFuture<Self, Result<Claim, Problem>> {
        if let Err(problem) = self.admit() {
            return Box::pin(fut::ready(Err(problem)));
        }
        let ending = claiming::end(self.store.clone(), by, task.clone(), epoch, standing, self.clock.wall());
        Box::pin(ending.into_actor(self).map(move |outcome, actor, _| {
            actor.in_flight -= 1;
            let stands = outcome.inspect_err(|problem| actor.count_refusal(problem))?;
            actor.forget(&task, epoch);
            Ok(stands.claim(&task, None, actor.clock.node()))
        }))
    }

    /// Starts the lease of a claim whose write was answered as unknown, so that it runs out all the same.
    fn adopt(&mut self, task: &TaskId) {
        let Ok(Some(stands)) = claim_writes::stands(self.store.as_ref(), task) else { return };
        let is_known = self.lease(task).is_some_and(|lease| lease.epoch >= stands.revision);
        if stands.row.state == Standing::Held && !is_known {
            let now = self.clock.node();
            let until = now + stands.remaining(None, now) + self.config.grace();
            let lease = Lease { epoch: stands.revision, until };
            self.leases.insert(task.clone(), Holding { lease, is_ending: false });
        }
    }

    fn forget(&mut self, task: &TaskId, epoch: Revision) {
        if self.lease(task).is_some_and(|lease| lease.epoch == epoch) {
            self.leases.remove(task);
        }
    }

    /// Frees the claims whose lease has run out, a few at a time.
    pub(super) fn expire(&mut self, ctx: &mut Context<Self>) {
        const AT_ONCE: usize = 64;
        let (now, wall) = (self.clock.node(), self.clock.wall());
        let due = self.leases.iter_mut().filter(|(_, h)| !h.is_ending && h.lease.until <= now);
        let due: Vec<(TaskId, Lease)> = due
            .take(AT_ONCE)
            .map(|(task, holding)| {
                holding.is_ending = true;
                (task.clone(), holding.lease)
            })
            .collect();
        for (task, lease) in due {
            let freeing = claiming::expire(self.store.clone(), task.clone(), lease, now, wall);
            ctx.spawn(freeing.into_actor(self).map(move |outcome, actor, _| match outcome {
                Ok(was_freed) => {
                    if let Some(times) = actor.unfreed.worked() {
                        tracing::warn!(times, "claims that ran out are freed again");
                    }
                    actor.counts.expired += u64::from(was_freed);
                    actor.forget(&task, lease.epoch);
                }
                Err(problem) => {
                    if let Some(times) = actor.unfreed.failed(Instant::now()) {
                        tracing::warn!(%task, %problem, times, "a claim that ran out could not be freed");
                    }
                    if let Some(holding) = actor.leases.get_mut(&task) {
                        holding.is_ending = false;
                    }
                }
            }));
        }
    }
}
