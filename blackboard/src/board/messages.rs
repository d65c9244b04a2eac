//! The actor's messages and their handlers.

use super::*;
use crate::claim_writes;
use publish::PendingSignals;
use signals::SignalWrite;
use std::time::Instant;
use tokio::sync::oneshot;

/// The most claims that an agent's `maxParallel` allows it. The agent says itself how many that is.
const MAX_OWN_CLAIMS: usize = 256;

/// Publishes signals in order, up to the first that is refused.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct PublishSignals {
    pub by: Principal,
    pub signals: Vec<Signal>,
    /// Gets the outcomes once they are durable.
    pub done: oneshot::Sender<Vec<Result<Revision, Problem>>>,
}

/// Changes a claim.
#[derive(Message)]
#[rtype(result = "Result<ClaimView, Problem>")]
pub(super) struct ChangeClaim {
    pub by: Principal,
    pub task: OpenTaskKey,
    pub change: ClaimChange,
}

/// A change of a claim.
pub(super) enum ClaimChange {
    Take { holder: AgentId, lease: Duration },
    Renew { epoch: Revision },
    End { epoch: Revision, state: ClaimState },
}

/// Asks for a claim.
#[derive(Message)]
#[rtype(result = "Result<ClaimView, Problem>")]
pub(super) struct GetClaim(pub Principal, pub OpenTaskKey);

/// Asks for the board's state.
#[derive(Message)]
#[rtype(result = "Result<BoardSnapshot, Problem>")]
pub(super) struct GetBoardSnapshot;

impl Handler<PublishSignals> for BlackboardActor {
    type Result = ();

    fn handle(&mut self, PublishSignals { by, signals, done }: PublishSignals, ctx: &mut Self::Context) {
        let (mut writes, mut refusal) = (Vec::with_capacity(signals.len()), None);
        for signal in signals {
            match self.check(&by, &signal) {
                Ok(write) => writes.push(write),
                Err(problem) => {
                    self.counts.refused += 1;
                    refusal = Some(problem);
                    break;
                }
            }
        }
        if writes.is_empty() {
            drop(done.send(refusal.map(Err).into_iter().collect()));
            return;
        }
        let lane = if by.is_of_mesh() { store::Lane::Progress } else { store::Lane::Admission };
        if self.pending.is_empty() {
            // Runs after the handlers of all messages that have arrived.
            ctx.spawn(fut::ready(()).into_actor(self).map(|(), actor, ctx| actor.commit_pending(ctx)));
        }
        self.pending.push(PendingSignals { lane, writes, refusal, done });
    }
}

impl BlackboardActor {
    fn check(&mut self, by: &Principal, signal: &Signal) -> Result<SignalWrite, Problem> {
        let is_agents_name = |label: &AgentId| registered_agents::is_agents_name(self.store.as_ref(), label);
        access::may_publish(by, signal, is_agents_name)?;
        let (store, now) = (self.store.as_ref(), self.clock.wall());
        let mut write = signals::prepare_write(store, by, signal, now, self.config.max_signal_bytes)?;
        // The signal's own record stays last.
        let changes = registered_agents::membership_writes(self.store.as_ref(), signal)?;
        write.batch.writes.splice(0..0, changes);
        self.admit()?;
        Ok(write)
    }

    /// Commits the pending signals in order, in groups that may share a commit.
    fn commit_pending(&mut self, ctx: &mut Context<Self>) {
        for group in publish::group_for_commit(std::mem::take(&mut self.pending)) {
            let commit = publish::publish_group(self.store.clone(), group);
            ctx.spawn(commit.into_actor(self).map(|(signals, requests), actor, _| {
                actor.in_flight -= signals;
                for (done, outcomes) in requests {
                    for outcome in &outcomes {
                        match outcome {
                            Ok(published) if published.is_repeat => actor.counts.repeated += 1,
                            Ok(_) => actor.counts.published += 1,
                            Err(_) => actor.counts.refused += 1,
                        }
                    }
                    let revision = |outcome: Result<publish::PublishOutcome, _>| {
                        outcome.map(|published| published.revision)
                    };
                    drop(done.send(outcomes.into_iter().map(revision).collect()));
                }
            }));
        }
    }
}

impl Handler<ChangeClaim> for BlackboardActor {
    type Result = ResponseActFuture<Self, Result<ClaimView, Problem>>;

    fn handle(&mut self, message: ChangeClaim, _: &mut Self::Context) -> Self::Result {
        let ChangeClaim { by, task, change } = message;
        if !matches!(change, ClaimChange::Take { .. })
            && let Err(problem) = self.check_participant(&by, &task)
        {
            return Box::pin(fut::ready(Err(problem)));
        }
        match change {
            ClaimChange::Take { holder, lease } => self.take(by, task, holder, lease),
            ClaimChange::Renew { epoch } => Box::pin(fut::ready(self.renew(&by, &task, epoch))),
            ClaimChange::End { epoch, state } => self.end(by, task, epoch, state),
        }
    }
}

impl Handler<GetClaim> for BlackboardActor {
    type Result = Result<ClaimView, Problem>;

    fn handle(&mut self, GetClaim(by, task): GetClaim, _: &mut Self::Context) -> Self::Result {
        self.check_participant(&by, &task)?;
        match claims::find_claim(self.store.as_ref(), &task)? {
            Some(claim) => Ok(claim.claim(&task, self.lease(&task), self.clock.node())),
            None => Err(claims::not_claimed(&task)),
        }
    }
}

impl Handler<GetBoardSnapshot> for BlackboardActor {
    type Result = Result<BoardSnapshot, Problem>;

    fn handle(&mut self, _: GetBoardSnapshot, _: &mut Self::Context) -> Self::Result {
        Ok(BoardSnapshot {
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
    /// Refuses whoever may not see the claim on `task`, as if there were none.
    fn check_participant(&self, by: &Principal, task: &OpenTaskKey) -> Result<(), Problem> {
        let offer = claim_writes::find_offer(self.store.as_ref(), task)?;
        let claim = claims::find_claim(self.store.as_ref(), task)?;
        match access::may_see_claim(by, task, offer.as_ref(), claim.as_ref().map(|claim| &claim.row)) {
            true => Ok(()),
            false => Err(claims::not_claimed(task)),
        }
    }

    /// Refuses one more claim of `by` at its limit: `maxClaimsPerPrincipal`, or as many as the agent does tasks at once.
    fn check_claim_limit(&self, by: &Principal, task: &OpenTaskKey) -> Result<(), Problem> {
        let now = self.clock.node();
        if self.leases.get(task).is_some_and(|held| held.lease.until > now) {
            // It is refused as claimed already.
            return Ok(());
        }
        let own = by.agent().map_or(0, |id| registered_agents::max_parallel(self.store.as_ref(), id));
        let limit = self.config.max_claims_per_principal.max(own.min(MAX_OWN_CLAIMS));
        let held = self.leases.iter().filter(|(held, lease)| lease.by == *by && *held != task).count();
        let requested = self.claiming.get(by).copied().unwrap_or_default();
        if held + requested < limit {
            return Ok(());
        }
        let message = format!(
            "{by} holds {held} claims, the limit is {limit}: complete or release one first (maxClaimsPerPrincipal, or the \
             agent's maxParallel if that is more, up to {MAX_OWN_CLAIMS})"
        );
        Err(Problem::new(Reason::RateLimited, message).with("limit", limit))
    }

    fn take(
        &mut self,
        by: Principal,
        task: OpenTaskKey,
        holder: AgentId,
        lease: Duration,
    ) -> ResponseActFuture<Self, Result<ClaimView, Problem>> {
        let (min, max) = (self.config.min_lease_ms, self.config.max_lease_ms);
        let in_range = lease >= Duration::from_millis(min) && lease <= Duration::from_millis(max);
        let is_agents_name = |label: &AgentId| registered_agents::is_agents_name(self.store.as_ref(), label);
        let ready = access::may_hold(&by, &holder, is_agents_name)
            .and_then(|()| match in_range {
                true => Ok(()),
                false => Err(Problem::new(
                    Reason::InvalidField,
                    format!("leaseMs: must be between {min} and {max}, got {}", lease.as_millis()),
                )
                .with("field", "leaseMs")),
            })
            .and_then(|()| self.check_claim_limit(&by, &task))
            .and_then(|()| self.admit());
        if let Err(problem) = ready {
            return Box::pin(fut::ready(Err(problem)));
        }
        *self.claiming.entry(by.clone()).or_default() += 1;
        let now = (self.clock.node(), self.clock.wall());
        // The former holder can't renew while its claim is being given to another.
        let former = self.leases.get_mut(&task).filter(|held| !held.is_ending && held.lease.until <= now.0);
        let ends_former = former.map(|held| held.is_ending = true).is_some();
        let commit = claim_commits::take(
            self.store.clone(),
            by.clone(),
            task.clone(),
            holder,
            lease,
            self.lease(&task),
            now,
        );
        Box::pin(commit.into_actor(self).map(move |outcome, actor, _| {
            actor.in_flight -= 1;
            if let Some(requested) = actor.claiming.get_mut(&by) {
                *requested -= 1;
            }
            actor.claiming.retain(|_, requested| *requested > 0);
            let claim = outcome.inspect_err(|problem| {
                actor.count_refusal(problem);
                if let Some(held) = actor.leases.get_mut(&task).filter(|_| ends_former) {
                    held.is_ending = false;
                }
                actor.track_lease(&task);
            })?;
            actor.counts.claimed += 1;
            let now = actor.clock.node();
            let granted = Lease { epoch: claim.revision, until: now + lease + actor.config.grace() };
            if actor.lease(&task).is_none_or(|known| known.epoch < granted.epoch) {
                actor.leases.insert(task.clone(), ActiveLease { by, lease: granted, is_ending: false });
            }
            Ok(claim.claim(&task, Some(granted), now))
        }))
    }

    fn renew(&mut self, by: &Principal, task: &OpenTaskKey, epoch: Revision) -> Result<ClaimView, Problem> {
        let claim = claims::find_claim(self.store.as_ref(), task)?;
        let is_ending = self.leases.get(task).is_some_and(|h| h.is_ending && h.lease.epoch == epoch);
        let renewed = claims::renew(claim.as_ref(), by, epoch).and_then(|lease| match &claim {
            Some(claim) if !is_ending => Ok((claim, lease)),
            Some(claim) => Err(claims::fenced(claim, epoch)),
            None => Err(claims::not_claimed(task)),
        });
        let (claim, lease) = renewed.inspect_err(|problem| self.count_refusal(problem))?;
        let now = self.clock.node();
        let lease = Lease { epoch, until: now + lease + self.config.grace() };
        self.leases.insert(task.clone(), ActiveLease { by: by.clone(), lease, is_ending: false });
        Ok(claim.claim(task, Some(lease), now))
    }

    fn end(
        &mut self,
        by: Principal,
        task: OpenTaskKey,
        epoch: Revision,
        state: ClaimState,
    ) -> ResponseActFuture<Self, Result<ClaimView, Problem>> {
        if let Err(problem) = self.admit() {
            return Box::pin(fut::ready(Err(problem)));
        }
        let commit =
            claim_commits::end(self.store.clone(), by, task.clone(), epoch, state, self.clock.wall());
        Box::pin(commit.into_actor(self).map(move |outcome, actor, _| {
            actor.in_flight -= 1;
            let claim = outcome.inspect_err(|problem| actor.count_refusal(problem))?;
            actor.drop_lease(&task, epoch);
            Ok(claim.claim(&task, None, actor.clock.node()))
        }))
    }

    /// Starts the lease of a held claim that has none: the outcome of its write was unknown, and it must still expire.
    fn track_lease(&mut self, task: &OpenTaskKey) {
        let Ok(Some(claim)) = claims::find_claim(self.store.as_ref(), task) else { return };
        let is_known = self.lease(task).is_some_and(|lease| lease.epoch >= claim.revision);
        if claim.row.state == ClaimState::Held && !is_known {
            let now = self.clock.node();
            let until = now + claim.remaining(None, now) + self.config.grace();
            let lease = Lease { epoch: claim.revision, until };
            self.leases.insert(task.clone(), ActiveLease { by: claim.row.by, lease, is_ending: false });
        }
    }

    fn drop_lease(&mut self, task: &OpenTaskKey, epoch: Revision) {
        if self.lease(task).is_some_and(|lease| lease.epoch == epoch) {
            self.leases.remove(task);
        }
    }

    /// Frees claims whose lease has run out, at most 64 per call.
    pub(super) fn expire(&mut self, ctx: &mut Context<Self>) {
        const MAX_PER_SWEEP: usize = 64;
        let (now, wall) = (self.clock.node(), self.clock.wall());
        let due = self.leases.iter_mut().filter(|(_, h)| !h.is_ending && h.lease.until <= now);
        let due: Vec<(OpenTaskKey, Lease)> = due
            .take(MAX_PER_SWEEP)
            .map(|(task, holding)| {
                holding.is_ending = true;
                (task.clone(), holding.lease)
            })
            .collect();
        for (task, lease) in due {
            let commit = claim_commits::expire(self.store.clone(), task.clone(), lease, now, wall);
            ctx.spawn(commit.into_actor(self).map(move |outcome, actor, _| match outcome {
                Ok(was_freed) => {
                    if let Some(times) = actor.expiry_failures.worked() {
                        tracing::warn!(times, "claims that ran out are freed again");
                    }
                    actor.counts.expired += u64::from(was_freed);
                    actor.drop_lease(&task, lease.epoch);
                }
                Err(problem) => {
                    if let Some(times) = actor.expiry_failures.failed(Instant::now()) {
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
