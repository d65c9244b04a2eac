use super::*;
use proptest::prelude::*;

/// One attempt. With `behind` above 0 it is computed from a record that is that many writes old, as in a race.
#[derive(Debug, Clone)]
enum Attempt {
    Claim { who: usize, behind: usize },
    Renew { who: usize, behind: usize },
    End { who: usize, behind: usize, completes: bool },
    Expire { behind: usize },
    Pass { ms: u64 },
    Restart,
}

fn attempts() -> impl Strategy<Value = Vec<Attempt>> {
    let (who, behind) = (0usize..4, 0usize..3);
    let attempt = prop_oneof![
        4 => (who.clone(), behind.clone()).prop_map(|(who, behind)| Attempt::Claim { who, behind }),
        2 => (who.clone(), behind.clone()).prop_map(|(who, behind)| Attempt::Renew { who, behind }),
        2 => (who, behind.clone(), proptest::bool::weighted(0.1))
            .prop_map(|(who, behind, completes)| Attempt::End { who, behind, completes }),
        2 => behind.prop_map(|behind| Attempt::Expire { behind }),
        3 => (0u64..150).prop_map(|ms| Attempt::Pass { ms }),
        1 => Just(Attempt::Restart),
    ];
    proptest::collection::vec(attempt, 1..80)
}

/// A claim, its history, and the epoch that each agent believes to hold.
#[derive(Default)]
struct World {
    now: NodeTime,
    head: Revision,
    history: Vec<StoredClaim>,
    lease: Option<Lease>,
    believed: [Option<Revision>; 4],
}

const LEASE: Duration = Duration::from_millis(100);

impl World {
    fn record_behind(&self, behind: usize) -> Option<&StoredClaim> {
        self.history.len().checked_sub(1 + behind).map(|at| &self.history[at])
    }

    /// The store's compare-and-swap.
    fn swap(&mut self, swap: ClaimSwap) -> Option<Revision> {
        let claim = self.history.last().map_or(0, |claim| claim.revision);
        (claim == swap.expected).then(|| {
            self.head += 2;
            self.history.push(StoredClaim { revision: self.head, row: swap.row });
            self.head
        })
    }

    fn step(&mut self, one: Attempt) -> Result<(), TestCaseError> {
        let who = |who: usize| AgentId::parse(&format!("b-{who}")).unwrap();
        let by = |at: usize| Principal::Agent(who(at));
        let before = self.history.last().cloned();
        match one {
            Attempt::Pass { ms } => self.now = self.now + Duration::from_millis(ms),
            Attempt::Restart => {
                let held = before.filter(|claim| claim.row.state == ClaimState::Held);
                self.lease = held.map(|s| Lease { epoch: s.revision, until: self.now + LEASE });
            }
            Attempt::Claim { who: at, behind } => {
                let seen = self.record_behind(behind);
                let clocks = (self.now, WallTime(0));
                if let Ok(swap) = claim(seen, self.lease, &by(at), &who(at), LEASE, clocks)
                    && let Some(epoch) = self.swap(swap)
                {
                    if let Some(before) = before {
                        prop_assert!(epoch > before.epoch(), "an epoch did not grow");
                        let is_over = matches!(before.row.state, ClaimState::Completed | ClaimState::Failed);
                        prop_assert!(!is_over, "work that is over was taken again");
                        let ran = before.row.state == ClaimState::Held;
                        let is_due = self.lease.is_some_and(|lease| lease.until <= self.now);
                        prop_assert!(!ran || is_due, "taken while a lease was running");
                    }
                    self.lease = Some(Lease { epoch, until: self.now + LEASE });
                    self.believed[at] = Some(epoch);
                }
            }
            Attempt::Renew { who: at, behind } => {
                let Some(epoch) = self.believed[at] else { return Ok(()) };
                if renew(self.record_behind(behind), &by(at), epoch).is_ok() && behind == 0 {
                    let before = before.unwrap();
                    prop_assert_eq!((before.revision, before.row.state), (epoch, ClaimState::Held));
                    prop_assert_eq!(before.row.holder, who(at));
                    self.lease = Some(Lease { epoch, until: self.now + LEASE });
                }
            }
            Attempt::End { who: at, behind, completes } => {
                let Some(epoch) = self.believed[at] else { return Ok(()) };
                let state = match (completes, at % 2) {
                    (true, 0) => ClaimState::Completed,
                    (true, _) => ClaimState::Failed,
                    (false, _) => ClaimState::Released,
                };
                if let Ok(Some(swap)) = end(self.record_behind(behind), &by(at), epoch, state, WallTime(0))
                    && self.swap(swap).is_some()
                {
                    let before = before.unwrap();
                    prop_assert_eq!((before.revision, before.row.state), (epoch, ClaimState::Held));
                    prop_assert_eq!(before.row.holder, who(at), "a fenced write won");
                }
            }
            Attempt::Expire { behind } => {
                let (Some(seen), Some(lease)) = (self.record_behind(behind), self.lease) else {
                    return Ok(());
                };
                if let Some(swap) = expire(seen, lease, self.now, WallTime(0))
                    && self.swap(swap).is_some()
                {
                    prop_assert!(lease.until <= self.now && before.unwrap().revision == lease.epoch);
                }
            }
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn at_most_one_holds_epochs_grow_and_fenced_writes_never_win(attempts in attempts()) {
        let mut world = World::default();
        for one in attempts {
            world.step(one)?;
        }
        let mut epochs: Vec<_> = world.history.iter().filter(|s| s.row.state == ClaimState::Held).map(StoredClaim::epoch).collect();
        let won = epochs.len();
        epochs.dedup();
        prop_assert_eq!(epochs.len(), won);
        prop_assert!(epochs.is_sorted());
        let ended = world.history.iter().filter(|s| s.row.state != ClaimState::Held);
        for claim in ended {
            prop_assert!(epochs.contains(&claim.epoch()) && claim.epoch() < claim.revision);
        }
    }
}

#[test]
fn another_principal_with_the_right_epoch_is_refused() {
    let holder = AgentId::parse("b-1").unwrap();
    let by = Principal::Agent(holder.clone());
    let swap = claim(None, None, &by, &holder, LEASE, (NodeTime(0), WallTime(0))).unwrap();
    let stored = StoredClaim { revision: 7, row: swap.row };
    assert_eq!(renew(Some(&stored), &Principal::local_user(), 7).unwrap_err().reason, Reason::Forbidden);
    assert_eq!(renew(Some(&stored), &by, 6).unwrap_err().reason, Reason::Fenced);
    assert_eq!(renew(None, &by, 6).unwrap_err().reason, Reason::ClaimNotFound);
    let ended = end(Some(&stored), &by, 7, ClaimState::Completed, WallTime(0)).unwrap().unwrap();
    let stored = StoredClaim { revision: 9, row: ended.row };
    assert_eq!(end(Some(&stored), &by, 7, ClaimState::Completed, WallTime(0)), Ok(None));
    assert_eq!(
        end(Some(&stored), &by, 7, ClaimState::Released, WallTime(0)).unwrap_err().reason,
        Reason::Fenced
    );
    let late = claim(Some(&stored), None, &by, &holder, LEASE, (NodeTime(0), WallTime(0)));
    assert_eq!(late.unwrap_err().reason, Reason::AlreadyClaimed);
}
