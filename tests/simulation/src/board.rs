//! The simulated board: the board's pure rules over a store in memory, and the leases of claims.

use crate::random::Hash;
use blackboard::{
    access,
    board::BoardConfig,
    claim_writes::{self, EndDecision},
    claims::{self, ClaimState, Lease, StoredClaim},
    signals,
};
use engine::ClaimRequest;
use patterns::EventKind;
use protocol::{
    ids::{AgentId, EffectId},
    principal::Principal,
    problem::{Problem, Reason},
    signal::{BoardPosition, Selector, Signal, SignalRecord},
    task::OpenTaskKey,
    time::{NodeTime, WallTime},
};
use std::{collections::BTreeMap, time::Duration};
use store_types::{Batch, Error, MemoryState, Revision, Snapshot};

/// The board.
#[derive(Debug)]
pub(crate) struct SimulatedBoard {
    store: MemoryState,
    /// The generation of the store, counted.
    generation: u32,
    leases: BTreeMap<OpenTaskKey, Lease>,
    config: BoardConfig,
    /// The newest (step, index) of each conversation's signals on the board.
    newest_effects: BTreeMap<String, (u64, u32)>,
    pub hash: Hash,
    /// Signals that arrived out of order.
    pub violations: Vec<String>,
}

impl SimulatedBoard {
    pub(crate) fn new() -> Self {
        Self {
            store: MemoryState::default(),
            generation: 0,
            leases: BTreeMap::new(),
            config: BoardConfig::default(),
            newest_effects: BTreeMap::new(),
            hash: Hash::default(),
            violations: Vec::new(),
        }
    }

    /// Restarts from the store; every held claim gets a full lease.
    pub(crate) fn restart(&mut self, now: NodeTime) {
        self.leases.clear();
        for (task, stands) in self.held() {
            let until = now + stands.remaining(None, now) + self.config.grace();
            self.leases.insert(task, Lease { epoch: stands.revision, until });
        }
    }

    /// Starts with an empty store, as after the loss of a volume.
    pub(crate) fn lose_signals(&mut self) {
        let (hash, violations) = (self.hash, std::mem::take(&mut self.violations));
        *self = Self { generation: self.generation + 1, hash, violations, ..Self::new() };
    }

    /// What the board says to a reader with a cursor.
    pub(crate) fn position(&self) -> BoardPosition {
        BoardPosition { generation: format!("g{}", self.generation), floor: 0, head: self.head() }
    }

    /// The claims that are held.
    pub(crate) fn held(&self) -> Vec<(OpenTaskKey, StoredClaim)> {
        let all = self.store.page(&claim_writes::all_claims(), 0, usize::MAX);
        let held = all.iter().filter_map(|record| {
            let task = claims::claimed_task(record)?;
            let stands = StoredClaim::of(record).filter(|stands| stands.row.state == ClaimState::Held)?;
            Some((task, stands))
        });
        held.collect()
    }

    fn commit(&mut self, batch: Batch) -> Result<Vec<Revision>, Error> {
        let written = self.store.commit(batch)?;
        for record in written.iter().filter_map(|(_, record)| record.as_ref()) {
            self.hash.add(&record.revision.to_le_bytes());
            self.hash.add(record.key.as_str().as_bytes());
            self.hash.add(&record.value);
        }
        Ok(written.into_iter().map(|(revision, _)| revision).collect())
    }

    pub(crate) fn publish(
        &mut self,
        by: &Principal,
        signal: &Signal,
        wall: WallTime,
    ) -> Result<Revision, Problem> {
        access::may_publish(by, signal, |_| true)?;
        let writing = signals::prepare_write(&self.store, by, signal, wall, self.config.max_signal_bytes)?;
        match self.commit(writing.batch) {
            Ok(revisions) => {
                self.check_order(signal);
                revisions.last().copied().ok_or_else(|| Problem::new(Reason::Internal, "nothing was written"))
            }
            Err(Error::Conflict { .. }) => {
                let first = signals::first_revision(
                    &self.store,
                    &writing.dedup_key,
                    writing.log_key,
                    writing.digest,
                )?;
                first.ok_or_else(|| Problem::new(Reason::Overloaded, "the board forgot this signal just now"))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Signals of one conversation arrive in the order of its steps.
    fn check_order(&mut self, signal: &Signal) {
        let Some(id) = EffectId::parse(&signal.id) else { return };
        let key = (id.step, id.index);
        let newest = self.newest_effects.entry(format!("{}/{}", id.agent, id.conversation)).or_default();
        if key <= *newest {
            self.violations.push(format!(
                "signals out of order: {} of {} in conversation {} is on the board after {newest:?}",
                signal.id, id.agent, id.conversation
            ));
        }
        *newest = (*newest).max(key);
    }

    /// Handles a claim request. Returns the event for the agent.
    pub(crate) fn claim(
        &mut self,
        me: &AgentId,
        task: &OpenTaskKey,
        request: ClaimRequest,
        now: (NodeTime, WallTime),
    ) -> Result<EventKind, Problem> {
        let by = Principal::Agent(me.clone());
        match request {
            ClaimRequest::Take { lease } => match self.take(&by, task, me, lease, now) {
                Ok(claim) => Ok(EventKind::Claimed { holder: me.clone(), epoch: claim }),
                Err(problem) if problem.reason == Reason::AlreadyClaimed => {
                    let stands = claims::find_claim(&self.store, task)?;
                    let own = stands
                        .as_ref()
                        .filter(|stands| stands.row.state == ClaimState::Held && stands.row.by == by);
                    Ok(match own {
                        Some(own) => EventKind::Claimed { holder: me.clone(), epoch: own.epoch() },
                        None => EventKind::ClaimLost { holder: stands.map(|stands| stands.row.holder) },
                    })
                }
                Err(problem) => Err(problem),
            },
            ClaimRequest::Renew(epoch) => {
                let stands = claims::find_claim(&self.store, task)?;
                let lease = claims::renew(stands.as_ref(), &by, epoch)?;
                self.leases.insert(task.clone(), Lease { epoch, until: now.0 + lease + self.config.grace() });
                Ok(EventKind::Claimed { holder: me.clone(), epoch })
            }
            ClaimRequest::Release(epoch) => self.end(&by, task, epoch, ClaimState::Released, now.1),
            ClaimRequest::Close { epoch, is_done } => {
                let standing = if is_done { ClaimState::Completed } else { ClaimState::Failed };
                self.end(&by, task, epoch, standing, now.1)
            }
            ClaimRequest::Confirm { doer, epoch } => {
                let claim = claims::find_claim(&self.store, task)?;
                let is_confirmed = claim.is_some_and(|claim| {
                    let has_ended = matches!(claim.row.state, ClaimState::Completed | ClaimState::Failed);
                    has_ended && claim.row.by == Principal::Agent(doer.clone()) && claim.epoch() == epoch
                });
                Ok(match is_confirmed {
                    true => EventKind::ClaimEnded { epoch },
                    false => EventKind::ClaimExpired { epoch },
                })
            }
        }
    }

    fn take(
        &mut self,
        by: &Principal,
        task: &OpenTaskKey,
        holder: &AgentId,
        wanted: Duration,
        now: (NodeTime, WallTime),
    ) -> Result<Revision, Problem> {
        let lease = self.leases.get(task).copied();
        let decided = claim_writes::decide_take(&self.store, by, task, holder, wanted, lease, now)?;
        let revisions = self.commit(decided.batch(task)?)?;
        let epoch = revisions.first().copied().unwrap_or_default();
        let until = now.0 + wanted + self.config.grace();
        self.leases.insert(task.clone(), Lease { epoch, until });
        Ok(epoch)
    }

    fn end(
        &mut self,
        by: &Principal,
        task: &OpenTaskKey,
        epoch: Revision,
        standing: ClaimState,
        wall: WallTime,
    ) -> Result<EventKind, Problem> {
        if let EndDecision::Write(decided) =
            claim_writes::decide_end(&self.store, by, task, epoch, standing, wall)?
        {
            self.commit(decided.batch(task)?)?;
        }
        if self.leases.get(task).is_some_and(|lease| lease.epoch == epoch) {
            self.leases.remove(task);
        }
        Ok(EventKind::ClaimEnded { epoch })
    }

    /// Ends the claims whose lease has expired.
    pub(crate) fn expire(&mut self, now: NodeTime, wall: WallTime) {
        let due: Vec<_> = self.leases.iter().filter(|(_, lease)| lease.until <= now).collect();
        let due: Vec<_> = due.into_iter().map(|(task, lease)| (task.clone(), *lease)).collect();
        for (task, lease) in due {
            if let Ok(Some(decided)) = claim_writes::decide_expire(&self.store, &task, lease, now, wall)
                && let Ok(batch) = decided.batch(&task)
            {
                let written = self.commit(batch);
                debug_assert!(written.is_ok(), "the board is the only writer");
            }
            self.leases.remove(&task);
        }
    }

    /// The claim on a task, if there was one.
    pub(crate) fn find_claim(&self, task: &OpenTaskKey) -> Option<StoredClaim> {
        claims::find_claim(&self.store, task).ok().flatten()
    }

    /// Whether the signal with this id is on the board.
    pub(crate) fn has(&self, id: &str) -> bool {
        let all = self.store.page(&signals::all_signals(), 0, usize::MAX);
        all.iter().filter_map(signals::parse_record).any(|record| record.signal.id == id)
    }

    /// The next signal after `cursor` that `selector` admits.
    pub(crate) fn next(&self, selector: &Selector, mut cursor: Revision) -> Option<SignalRecord> {
        loop {
            let page = self.store.page(&signals::all_signals(), cursor, 64);
            let last = page.last()?.revision;
            let is_admitted = |record: &SignalRecord| selector.admits(&record.signal);
            if let Some(next) = page.iter().filter_map(signals::parse_record).find(is_admitted) {
                return Some(next);
            }
            cursor = last;
        }
    }

    pub(crate) fn head(&self) -> Revision {
        self.store.head()
    }

    /// Every signal, oldest first.
    pub(crate) fn all(&self) -> Vec<SignalRecord> {
        self.store
            .page(&signals::all_signals(), 0, usize::MAX)
            .iter()
            .filter_map(signals::parse_record)
            .collect()
    }
}
